//! gRPC on HTTP/2: the rate limit service, the health check, and reflection.
//!
//! All calls of a connection live in one place ([`conversation`]). What has come is read first, in one buffer that the
//! connections of a thread share, and its calls are answered together, so that one write carries the answers. A call is
//! answered in place if nothing has to be waited for, and becomes a boxed future only otherwise.
//!
//! Connections without TLS to a service that has its own store are served on the event loops of the store ([`direct`]),
//! all others here, each in a task.
//!
//! Past saturation most of what is read is older than its caller waits: those calls are refused, and those that their caller
//! has given up are dropped, before their messages are looked at ([`crate::shed`]).

mod age;
mod call;
mod conversation;
mod descriptors;
mod direct;
mod exchange;
mod files;
mod health;
mod message;
mod outgoing;
mod reflection;
mod status;
mod stream;
mod waits;

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::service::Service;
pub use age::ConnectionAge;
use age::Life;
use conversation::{Conversation, Judge};
pub(crate) use direct::Talk;
use outgoing::{Closed, Outgoing};
use waits::Waits;

/// Longest wait for a new connection's first words.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call's message may take, no more than twice as long; and how long a frame or a block of header fields that has begun.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer without calls may take to agree that the connection ends.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a peer may take to read what it was sent before the end of its connection.
const LAST_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes read at once, after what was left of the read before.
const READ_SIZE: usize = 256 << 10;
/// Reads of one connection before others have their turn.
const READS_MAX: usize = 4;
/// Bytes of answers with which no more calls are taken until the peer has read some.
const UNWRITTEN_MAX: usize = 1 << 20;
/// Room for answers that a connection keeps while it has none to write.
const KEPT_ROOM: usize = 4 << 10;

thread_local! {
    /// What connections of this thread read into, one after another.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Serves one connection to its end. When `stop` turns true no new calls are taken and it ends with the
/// last of those under way.
pub(crate) async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    service: Rc<Service>,
    mut stop: watch::Receiver<bool>,
) {
    let life = service.connection_age().map(Life::new);
    let mut driver = Driver {
        io,
        conversation: Conversation::new(service),
        rest: Vec::new(),
        outgoing: Outgoing::default(),
        held: None,
        ends: false,
    };
    // A peer that speaks no HTTP/2, or nothing, has nobody to be told.
    if !driver.is_greeted().await {
        return;
    }
    let mut stopped = pin!(async move { stop.wait_for(|stop| *stop).await.is_ok() });
    let mut goodbye = pin!(None::<Sleep>);
    let timer = |wait: Option<Duration>| wait.map(tokio::time::sleep);
    let mut aged = pin!(timer(life.map(|life| life.leaves)));
    let mut over = pin!(timer(life.and_then(|life| life.ends)));
    let mut waits = Waits::default();
    poll_fn(|cx| {
        let mut has_come =
            |timer: Option<Pin<&mut Sleep>>| timer.is_some_and(|timer| timer.poll(cx).is_ready());
        if has_come(over.as_mut().as_pin_mut()) {
            return Poll::Ready(());
        }
        let leaves = has_come(aged.as_mut().as_pin_mut());
        if goodbye.is_none() && (leaves || stopped.as_mut().poll(cx).is_ready()) {
            driver.conversation.shared.session.borrow_mut().leave();
            goodbye.set(Some(tokio::time::sleep(GOODBYE_TIMEOUT)));
        }
        if waits.poll(&mut driver, cx).is_ready() {
            return Poll::Ready(());
        }
        let idle = driver.conversation.is_idle();
        match goodbye.as_mut().as_pin_mut() {
            Some(timer) if idle => timer.poll(cx),
            _ => Poll::Pending,
        }
    })
    .await;
}

/// The wait for the append-only file.
type Held = Pin<Box<dyn Future<Output = ()>>>;

struct Driver<IO> {
    io: IO,
    conversation: Conversation,
    /// The beginning of a frame that has not come whole.
    rest: Vec<u8>,
    outgoing: Outgoing,
    /// What those not written yet wait for, if they may not be told yet.
    held: Option<Held>,
    /// Nothing more is read: what is to be written is the last.
    ends: bool,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Driver<IO> {
    /// Goes on until the peer has begun to speak HTTP/2. False if it has not in time, or has gone.
    async fn is_greeted(&mut self) -> bool {
        let greeted = poll_fn(|cx| match self.poll(cx) {
            Poll::Pending if self.conversation.shared.session.borrow().is_greeted() => {
                Poll::Ready(true)
            }
            ended => ended.map(|()| false),
        });
        matches!(
            tokio::time::timeout(HANDSHAKE_TIMEOUT, greeted).await,
            Ok(true)
        )
    }

    /// Reads, answers and writes until nothing is left to be done at once; ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS_MAX {
            // Those who were waited for leave before more is decided.
            if let Some(held) = &mut self.held {
                std::task::ready!(held.as_mut().poll(cx));
                self.held = None;
                if let Poll::Ready(Err(Closed)) = self.poll_write(cx) {
                    return Poll::Ready(());
                }
            }
            let all = self.conversation.shared.session.borrow_mut().out().len();
            let is_full = all - self.outgoing.written > UNWRITTEN_MAX;
            let read = if self.ends || is_full {
                Poll::Pending
            } else {
                self.poll_read(cx)
            };
            if let Poll::Ready(Err(Closed)) = read {
                // Nobody is left to read the answers of calls still under way.
                return Poll::Ready(());
            }
            self.conversation.go_on(cx);
            if self.is_held(cx) {
                return Poll::Pending;
            }
            let written = self.poll_write(cx);
            if let Poll::Ready(Err(Closed)) = written {
                return Poll::Ready(());
            }
            if written.is_ready() && (self.ends || self.conversation.is_over()) {
                return Pin::new(&mut self.io).poll_shutdown(cx).map(drop);
            }
            // What was not asked for bytes because too much was unwritten wakes nobody when they come.
            let asks_now = is_full && written.is_ready();
            if read.is_pending() && !asks_now {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether what is to be written may not be told yet.
    fn is_held(&mut self, cx: &mut Context<'_>) -> bool {
        let all = self.conversation.shared.session.borrow_mut().out().len();
        if self.outgoing.written == all {
            return false;
        }
        let Some(held) = self.conversation.wait_until_kept() else {
            return false;
        };
        let mut held: Held = Box::pin(held);
        if held.as_mut().poll(cx).is_ready() {
            return false;
        }
        self.held = Some(held);
        true
    }

    /// Reads once and answers what came.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < READ_SIZE + self.rest.len() {
                buffer.resize(READ_SIZE + self.rest.len(), 0);
            }
            buffer[..self.rest.len()].copy_from_slice(&self.rest);
            let mut room = ReadBuf::new(&mut buffer[self.rest.len()..]);
            let read = std::task::ready!(Pin::new(&mut self.io).poll_read(cx, &mut room));
            let count = room.filled().len();
            if read.is_err() || count == 0 {
                return Poll::Ready(Err(Closed));
            }
            let bytes = &buffer[..self.rest.len() + count];
            let taken = self.conversation.receive(bytes, Judge::Runtime);
            match taken {
                Ok(taken) => {
                    self.rest.clear();
                    self.rest.extend_from_slice(&bytes[taken..]);
                }
                Err(_) => self.ends = true,
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Ready once all is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        let mut session = self.conversation.shared.session.borrow_mut();
        self.outgoing.poll(&mut self.io, session.out(), cx)
    }
}

#[cfg(test)]
mod tests;
