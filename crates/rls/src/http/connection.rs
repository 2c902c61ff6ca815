//! One connection: requests in, answers out, in order.
//!
//! What came is read into a buffer of the thread; a connection owns bytes only while a request is incomplete or an answer
//! is unsent. All requests that came together are answered by one write.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tollgate_wire::http1::{CONTINUE, Event, Malformed, Reader};

use super::reply::Reply;
use super::{Ask, Looked, MAX_BODY, Port, answer, look, refusal};
use crate::service::Service;
use crate::traces::Parent;

/// Longest wait for a request's head, from the end of the one before.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for a request's body.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time in which a peer takes what is sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a peer may go on sending after it was told that nobody listens; it would miss the answer otherwise.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// Most bytes read at once.
const READ_SIZE: usize = 64 << 10;
/// Unsent answers above which they are sent before the next request is looked at, in bytes.
pub(super) const MAX_UNSENT: usize = 64 << 10;
/// Memory of a buffer that an idle connection keeps, in bytes.
const KEPT: usize = 1 << 10;

/// What the HTTP connections of one thread share.
pub(crate) struct Shared {
    pub(super) service: Rc<Service>,
    scratch: RefCell<Box<[u8]>>,
    date: RefCell<Date>,
}

impl Shared {
    pub(crate) fn new(service: Rc<Service>) -> Rc<Self> {
        Rc::new(Self {
            service,
            scratch: RefCell::new(vec![0; READ_SIZE].into_boxed_slice()),
            date: RefCell::new(Date::default()),
        })
    }
}

/// The date as HTTP writes it; written once a second.
#[derive(Default)]
pub(crate) struct Date {
    secs: u64,
    text: String,
}

impl Date {
    pub(super) fn now(&mut self) -> &[u8] {
        let now = SystemTime::now();
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let secs = since.unwrap_or_default().as_secs();
        if self.text.is_empty() || self.secs != secs {
            self.secs = secs;
            self.text = httpdate::fmt_http_date(now);
        }
        self.text.as_bytes()
    }
}

/// Serves one connection to its end; when `stop` turns true it ends with the request under way.
pub(crate) async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    shared: Rc<Shared>,
    port: Port,
    mut stop: watch::Receiver<bool>,
) {
    let stop_seen = stop.clone();
    let stopped = pin!(async move { stop.wait_for(|stop| *stop).await.is_ok() });
    let timer = pin!(tokio::time::sleep(HEAD_TIMEOUT));
    let connection = Connection {
        io,
        shared,
        port,
        reader: Reader::new(MAX_BODY),
        ask: None,
        parent: None,
        input: Vec::new(),
        output: Vec::new(),
        answered: 0,
    };
    let waits = Waits {
        stop: stop_seen,
        stopped,
        stops: false,
        timer,
        due: Instant::now(),
        for_what: None,
        armed: None,
    };
    connection.run(waits).await;
}

/// What ends the wait for a request besides the request.
struct Waits<'a, S> {
    /// Tells without a lock whether `stopped` may have ended.
    stop: watch::Receiver<bool>,
    stopped: Pin<&'a mut S>,
    stops: bool,
    /// Set anew only when it ends before what is due.
    timer: Pin<&'a mut Sleep>,
    due: Instant,
    /// Of how many requests before, and whether a body is waited for.
    for_what: Option<(u64, bool)>,
    /// Whom the stop and the timer wake, since both were found pending.
    armed: Option<Waker>,
}

/// Why no more bytes are waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The peer sends no more, or is gone.
    Gone,
    Late,
    /// The service stops, and no request is under way.
    Stopped,
}

struct Connection<IO> {
    io: IO,
    shared: Rc<Shared>,
    port: Port,
    reader: Reader,
    /// What the request is for whose body is on its way.
    ask: Option<Ask>,
    /// What that request is part of.
    parent: Option<Parent>,
    /// What came and is not done with.
    input: Vec<u8>,
    /// Answers that are not sent yet.
    output: Vec<u8>,
    /// Requests answered.
    answered: u64,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Connection<IO> {
    async fn run<S: Future<Output = bool>>(mut self, mut waits: Waits<'_, S>) {
        loop {
            if self.answer_all(waits.stops).await.is_err() {
                return;
            }
            if self.flush().await.is_err() {
                return;
            }
            if !self.reader.keeps_alive() && !self.reader.is_within_request() {
                return self.close().await;
            }
            if let Err(end) = self.read(&mut waits).await {
                return self.leave(end).await;
            }
        }
    }

    /// Answers what came whole; after the first answer no other is given if this is to be the `last`.
    async fn answer_all(&mut self, last: bool) -> io::Result<()> {
        let mut done = 0;
        loop {
            let (used, event) = self.reader.next(&self.input[done..]);
            let reply = match event {
                Event::More => {
                    done += used;
                    break;
                }
                Event::Head(head) => match look(&self.shared.service, &self.port, &head, |caller| {
                    self.shared.service.refuse(caller)
                }) {
                    Looked::Asks(ask, parent) => {
                        done += used;
                        (self.ask, self.parent) = (Some(ask), parent);
                        continue;
                    }
                    Looked::Reply(reply) => {
                        done += used;
                        done += self.reader.skip_body(&self.input[done..]);
                        reply
                    }
                },
                Event::Body(body) => {
                    if !self.output.is_empty() && self.shared.service.waits_for_backend() {
                        // A store elsewhere keeps what it keeps.
                        flush(&mut self.io, &mut self.output).await?;
                    }
                    let reply = answer(
                        &self.shared.service,
                        self.ask.take(),
                        self.parent.take(),
                        body,
                    )
                    .await;
                    done += used;
                    reply
                }
                Event::Malformed(malformed) => refuse_malformed(self.ask.take(), malformed),
            };
            self.reply(&reply, last);
            if !self.reader.keeps_alive() {
                break;
            }
            if self.output.len() > MAX_UNSENT {
                self.flush().await?;
            }
        }
        discard(&mut self.input, done);
        if self.reader.takes_up_expectation() {
            self.output.extend_from_slice(CONTINUE);
        }
        Ok(())
    }

    /// Sends what is there, as soon as it may be told.
    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty()
            && matches!(self.port, Port::Service)
            && let Some(kept) = self.shared.service.wait_until_kept()
        {
            kept.await;
        }
        flush(&mut self.io, &mut self.output).await
    }

    /// Appends an answer to what is sent.
    fn reply(&mut self, reply: &Reply, last: bool) {
        if last {
            self.reader.end();
        }
        let mut date = self.shared.date.borrow_mut();
        reply.write(&mut self.reader, date.now(), &mut self.output);
        self.answered += 1;
    }

    /// Waits for more bytes.
    async fn read<S: Future<Output = bool>>(
        &mut self,
        waits: &mut Waits<'_, S>,
    ) -> Result<(), End> {
        let within = self.reader.is_within_request() || self.reader.is_skipping();
        waits.begin((self.answered, within));
        let shared = self.shared.clone();
        poll_fn(|cx| {
            let mut scratch = shared.scratch.borrow_mut();
            let mut came = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.io).poll_read(cx, &mut came) {
                Poll::Ready(Ok(())) if !came.filled().is_empty() => {
                    self.input.extend_from_slice(came.filled());
                    Poll::Ready(Ok(()))
                }
                Poll::Ready(_) => Poll::Ready(Err(End::Gone)),
                Poll::Pending => waits.poll(cx, !within && self.input.is_empty()).map(Err),
            }
        })
        .await
    }

    /// Tells the peer why its request is not answered, if it sent any.
    async fn leave(mut self, end: End) {
        if self.reader.is_within_request() {
            let (status, reason) = match end {
                End::Late => (StatusCode::REQUEST_TIMEOUT, "the body did not come whole"),
                End::Gone | End::Stopped => (StatusCode::BAD_REQUEST, "the body ends early"),
            };
            let reply = refusal(self.ask, status, reason);
            self.reply(&reply, true);
            if self.flush().await.is_err() {
                return;
            }
        }
        self.close().await;
    }

    /// Ends the connection. What the peer still sends is read for a while: closing on it would take the answer from it.
    async fn close(mut self) {
        let unread = self.reader.is_cut_off() || !self.input.is_empty();
        let farewell = async {
            if self.io.shutdown().await.is_err() || !unread {
                return;
            }
            let mut scratch = [0; 4096];
            while self.io.read(&mut scratch).await.is_ok_and(|came| came > 0) {}
        };
        // Whoever has not gone by then is left.
        drop(tokio::time::timeout(LINGER, farewell).await);
    }
}

impl<S: Future<Output = bool>> Waits<'_, S> {
    /// Begins the wait for a request's head or body; one that has begun goes on.
    fn begin(&mut self, for_what: (u64, bool)) {
        if self.for_what == Some(for_what) {
            return;
        }
        self.for_what = Some(for_what);
        let (_, within) = for_what;
        self.due = Instant::now() + if within { BODY_TIMEOUT } else { HEAD_TIMEOUT };
        if self.due < self.timer.deadline() {
            self.timer.as_mut().reset(self.due);
            self.armed = None;
        }
    }

    /// What ends the wait of a connection, which has no request under way if it is `idle`.
    fn poll(&mut self, cx: &mut Context<'_>, idle: bool) -> Poll<End> {
        if !self.stops && self.is_armed(cx.waker()) {
            return Poll::Pending;
        }
        self.armed = None;
        if !self.stops && self.stopped.as_mut().poll(cx).is_ready() {
            self.stops = true;
        }
        if self.stops && idle {
            return Poll::Ready(End::Stopped);
        }
        loop {
            if self.timer.as_mut().poll(cx).is_pending() {
                self.armed = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if Instant::now() >= self.due {
                return Poll::Ready(End::Late);
            }
            self.timer.as_mut().reset(self.due);
        }
    }

    /// Whether neither the stop nor the timer has ended since they were last polled, and both will wake this waker. To ask
    /// costs less than to poll them, and most waits end with a request.
    fn is_armed(&self, waker: &Waker) -> bool {
        let known = self.armed.as_ref();
        known.is_some_and(|armed| armed.will_wake(waker))
            && matches!(self.stop.has_changed(), Ok(false))
            && !self.timer.is_elapsed()
    }
}

/// Answers what is no request; `ask` is what its head asked for, if that came.
pub(super) fn refuse_malformed(ask: Option<Ask>, malformed: Malformed) -> Reply {
    let status = StatusCode::from_u16(malformed.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let too_long = format!("the body is longer than {MAX_BODY} bytes");
    let reason = match malformed {
        Malformed::BodyTooLong => &too_long,
        _ => malformed.reason(),
    };
    refusal(ask, status, reason)
}

/// Drops the first bytes of a buffer, and its memory when nothing is left of much.
fn discard(buffer: &mut Vec<u8>, count: usize) {
    if count < buffer.len() {
        buffer.drain(..count);
        return;
    }
    buffer.clear();
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

/// Sends what is there.
async fn flush<IO: AsyncWrite + Unpin>(io: &mut IO, output: &mut Vec<u8>) -> io::Result<()> {
    if output.is_empty() {
        return Ok(());
    }
    {
        let mut sending = pin!(async {
            io.write_all(output).await?;
            io.flush().await
        });
        // Mostly the socket takes everything at once, and there is nothing to wait for.
        match poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await {
            Poll::Ready(sent) => sent?,
            Poll::Pending => tokio::time::timeout(WRITE_TIMEOUT, sending).await??,
        }
    }
    let length = output.len();
    discard(output, length);
    Ok(())
}
