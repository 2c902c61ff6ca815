//! Decisions over HTTP on the event loops that the store has: where none has to be waited for, and without TLS.

use std::pin::pin;

use futures_util::FutureExt;
use http::StatusCode;
use tollgate_net::Flow;
use tollgate_wire::http1::{CONTINUE, Event, Reader};
use tollgate_wire::trace::TraceParent;

use super::connection::{BODY_TIMEOUT, HEAD_TIMEOUT, LINGER, MAX_UNSENT, refuse_malformed};
use super::{Ask, Looked, MAX_BODY, Port, answer, look, refusal};
use crate::loops::{Means, Served, after};

/// One connection.
pub(crate) struct Talk {
    reader: Reader,
    /// What the request is for whose body is on its way.
    ask: Option<Ask>,
    /// What that request is part of.
    parent: Option<TraceParent>,
    /// The body was on its way when the connection was served last.
    is_within: bool,
    /// Nobody listens any more.
    lingers: bool,
}

impl Talk {
    pub(crate) fn new() -> Talk {
        Talk {
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
        self.reader.is_within_request()
    }

    /// Answers what came.
    pub(crate) fn receive(&mut self, means: &mut Means<'_>, input: &[u8]) -> Served {
        let (done, answered, flow) = self.answer_all(means, input);
        if self.reader.takes_up_expectation() {
            means.output.extend_from_slice(CONTINUE);
        }
        if flow == Flow::Close {
            return self.end(input, done, means.now);
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
    fn answer_all(&mut self, means: &mut Means<'_>, input: &[u8]) -> (usize, u64, Flow) {
        let service = means.service;
        let (mut done, mut answered) = (0, 0);
        loop {
            let at = done;
            let (used, event) = self.reader.next(&input[done..]);
            done += used;
            let reply = match event {
                Event::More => return (done, answered, Flow::Continue),
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
                    // Kept where it is made: some of what it may wait for is large.
                    let ask = self.ask.take();
                    let answering = pin!(answer(service, ask, self.parent, body));
                    answering.now_or_never().unwrap_or_else(|| {
                        let status = StatusCode::INTERNAL_SERVER_ERROR;
                        refusal(ask, status, "the decision has to be waited for")
                    })
                }
                Event::Malformed(malformed) => refuse_malformed(self.ask.take(), malformed),
            };
            if means.stops {
                self.reader.end();
            }
            reply.write(&mut self.reader, means.date.now(), means.output);
            answered += 1;
            if !self.reader.keeps_alive() {
                return (done, answered, Flow::Close);
            }
            if means.output.len() > MAX_UNSENT {
                return (done, answered, Flow::Yield);
            }
        }
    }

    /// The last answer is on its way. A peer that may still be sending is read from for a while: closing on it would take
    /// the answer from it.
    fn end(&mut self, input: &[u8], done: usize, now: i64) -> Served {
        self.lingers = done < input.len() || self.reader.is_cut_off();
        Served {
            consumed: input.len(),
            flow: match self.lingers {
                true => Flow::Continue,
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
