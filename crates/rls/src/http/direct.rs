//! Decisions over HTTP on the event loops that the store has: on the store in this process, and without TLS.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use http::StatusCode;
use tollgate_net::{ConnRef, Flow, Mailboxes};
use tollgate_wire::http1::{CONTINUE, Event, Reader};

use super::connection::{BODY_TIMEOUT, HEAD_TIMEOUT, LINGER, MAX_UNSENT, refuse_malformed};
use super::reply::Reply;
use super::{Ask, Looked, MAX_BODY, Port, answer, look, refusal};
use crate::loops::{Means, Served, Signal, Wakes, after};
use crate::service::Service;
use crate::traces::Parent;

/// One connection.
pub(crate) struct Talk {
    reader: Reader,
    /// What the request is for whose body is on its way.
    ask: Option<Ask>,
    /// What that request is part of.
    parent: Option<Parent>,
    /// The body was on its way when the connection was served last.
    is_within: bool,
    /// Nobody listens any more.
    lingers: bool,
    /// A request whose answer has to be waited for.
    pending: Option<Pending>,
    wakes: Arc<Wakes>,
}

/// The answer that is waited for.
struct Pending {
    answer: Pin<Box<dyn Future<Output = Reply>>>,
    /// More came behind the request.
    has_more: bool,
}

/// What stops the answering of requests.
enum Stop {
    Flow(Flow),
    /// An answer is waited for.
    Waits,
}

impl Talk {
    pub(crate) fn new(mailboxes: &Arc<Mailboxes<Signal>>, at: ConnRef) -> Talk {
        Talk {
            pending: None,
            wakes: Wakes::new(mailboxes, at),
            reader: Reader::new(MAX_BODY),
            ask: None,
            parent: None,
            is_within: false,
            lingers: false,
        }
    }

    /// Until when the first request has to come.
    pub(crate) fn first_due(&self, now: i64) -> i64 {
        after(now, HEAD_TIMEOUT)
    }

    /// Whether nothing that comes is looked at any more.
    pub(crate) fn lingers(&self) -> bool {
        self.lingers
    }

    /// Whether a request is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.reader.is_within_request() || self.waits()
    }

    /// Whether an answer is waited for, before which nothing else that comes is looked at.
    pub(crate) fn waits(&self) -> bool {
        self.pending.is_some()
    }

    /// Answers what came.
    pub(crate) fn receive(&mut self, means: &mut Means<'_>, input: &[u8]) -> Served {
        let (done, answered, stop) = self.answer_all(means, input);
        let Stop::Flow(flow) = stop else {
            return Served {
                consumed: done,
                flow: Flow::Hold,
                // It is not the peer that is waited for.
                due: Some(i64::MAX),
            };
        };
        if self.reader.takes_up_expectation() {
            means.output.extend_from_slice(CONTINUE);
        }
        if flow == Flow::Close {
            let ended = self.end(done < input.len(), means.now);
            return Served {
                consumed: input.len(),
                ..ended
            };
        }
        let within = self.reader.is_within_request() || self.reader.is_skipping();
        let begins = answered > 0 || within != self.is_within;
        self.is_within = within;
        let wait = if within { BODY_TIMEOUT } else { HEAD_TIMEOUT };
        Served {
            consumed: done,
            flow,
            due: begins.then(|| after(means.now, wait)),
        }
    }

    /// Answers what came whole; how many bytes are done with, how many requests were answered, and what is next.
    fn answer_all(&mut self, means: &mut Means<'_>, input: &[u8]) -> (usize, u64, Stop) {
        let service = means.service;
        let (mut done, mut answered) = (0, 0);
        loop {
            let at = done;
            let (used, event) = self.reader.next(&input[done..]);
            done += used;
            let reply = match event {
                Event::More => return (done, answered, Stop::Flow(Flow::Continue)),
                Event::Head(head) => {
                    let judge = |caller| {
                        let refused = means.brought?.refuse(caller, at)?;
                        service.count_refused(refused);
                        Some(refused)
                    };
                    match look(service, &Port::Service, &head, judge) {
                        Looked::Asks(ask, parent) => {
                            (self.ask, self.parent) = (Some(ask), parent);
                            continue;
                        }
                        Looked::Reply(reply) => {
                            done += self.reader.skip_body(&input[done..]);
                            reply
                        }
                    }
                }
                Event::Body(body) => {
                    let (mut ask, mut parent) = (self.ask.take(), self.parent.take());
                    let now = || {
                        // Kept where it is made: some of what it may wait for is large.
                        let answering = pin!(answer(service, ask.take(), parent.take(), body));
                        let answered = answering.now_or_never();
                        answered.expect("who asks at once is not kept waiting")
                    };
                    let answered_now = match service.may_wait() {
                        true => None,
                        false => service.at_once(now),
                    };
                    if let Some(reply) = answered_now {
                        reply
                    } else {
                        let body = body.to_vec();
                        match self.begin(service, ask, parent, body) {
                            Poll::Ready(reply) => reply,
                            Poll::Pending => {
                                if let Some(pending) = &mut self.pending {
                                    pending.has_more = done < input.len();
                                }
                                return (done, answered, Stop::Waits);
                            }
                        }
                    }
                }
                Event::Malformed(malformed) => refuse_malformed(self.ask.take(), malformed),
            };
            self.write(means, &reply);
            answered += 1;
            if !self.reader.keeps_alive() {
                return (done, answered, Stop::Flow(Flow::Close));
            }
            if means.output.len() > MAX_UNSENT {
                return (done, answered, Stop::Flow(Flow::Yield));
            }
        }
    }

    fn write(&mut self, means: &mut Means<'_>, reply: &Reply) {
        if means.stops {
            self.reader.end();
        }
        reply.write(&mut self.reader, means.date.now(), means.output);
    }

    /// Begins to answer a request where that may have to be waited for.
    fn begin(
        &mut self,
        service: &Rc<Service>,
        ask: Option<Ask>,
        parent: Option<Parent>,
        body: Vec<u8>,
    ) -> Poll<Reply> {
        let service = service.clone();
        let answer = Box::pin(async move { answer(&service, ask, parent, &body).await });
        self.pending = Some(Pending {
            answer,
            has_more: false,
        });
        self.poll()
    }

    /// Looks for the answer that is waited for.
    fn poll(&mut self) -> Poll<Reply> {
        let Some(pending) = &mut self.pending else {
            return Poll::Pending;
        };
        let waker = self.wakes.listen();
        let polled = pending.answer.as_mut();
        let polled = polled.poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            self.pending = None;
        }
        polled
    }

    /// Goes on with the request whose answer was waited for, if it has come.
    pub(crate) fn go_on(&mut self, means: &mut Means<'_>) -> Served {
        let served = |flow, due| Served {
            consumed: 0,
            flow,
            due,
        };
        let Some(has_more) = self.pending.as_ref().map(|pending| pending.has_more) else {
            return served(Flow::Continue, None);
        };
        let Poll::Ready(reply) = self.poll() else {
            return served(Flow::Hold, None);
        };
        self.write(means, &reply);
        if !self.reader.keeps_alive() {
            let ended = self.end(has_more, means.now);
            return served(ended.flow, ended.due);
        }
        served(Flow::Continue, Some(after(means.now, HEAD_TIMEOUT)))
    }

    /// The last answer is on its way. A peer that may still be sending is read from for a while: closing on it would take
    /// the answer from it.
    fn end(&mut self, has_more: bool, now: i64) -> Served {
        self.lingers = has_more || self.reader.is_cut_off();
        Served {
            consumed: 0,
            flow: match self.lingers {
                true => Flow::Farewell,
                false => Flow::Close,
            },
            due: self.lingers.then(|| after(now, LINGER)),
        }
    }

    /// The peer has been waited for for long enough.
    pub(crate) fn give_up(&mut self, means: &mut Means<'_>) -> Flow {
        if self.lingers || !self.reader.is_within_request() {
            return Flow::Drop;
        }
        let status = StatusCode::REQUEST_TIMEOUT;
        self.refuse_last(means, status, "the body did not come whole")
    }

    /// The peer sends no more.
    pub(crate) fn end_of_input(&mut self, means: &mut Means<'_>) -> Flow {
        if self.waits() {
            return Flow::Hold;
        }
        if self.lingers || !self.reader.is_within_request() {
            return Flow::Continue;
        }
        self.refuse_last(means, StatusCode::BAD_REQUEST, "the body ends early")
    }

    fn refuse_last(&mut self, means: &mut Means<'_>, status: StatusCode, reason: &str) -> Flow {
        let reply = refusal(self.ask, status, reason);
        self.reader.end();
        reply.write(&mut self.reader, means.date.now(), means.output);
        Flow::Close
    }
}

/// Counts the requests up to `most`, by what every first line ends with; in doubt there are more.
pub(crate) fn requests_in(input: &[u8], most: usize) -> usize {
    const END: &[u8] = b" HTTP/1.";
    let ends = input.windows(END.len()).filter(|bytes| *bytes == END);
    ends.take(most).count()
}
