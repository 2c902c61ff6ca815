//! For how long the peer of a runtime's connection is waited for, within what it has begun.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::{Driver, LAST_TIMEOUT, MESSAGE_TIMEOUT};

/// The waits of one connection.
#[derive(Default)]
pub(super) struct Waits {
    begun: Begun,
    /// For the messages of calls up to a stream.
    messages: Option<(Pin<Box<Sleep>>, u32)>,
    /// Until it has taken what it is told at the end.
    last: Option<Pin<Box<Sleep>>>,
}

impl Waits {
    /// Lets the connection go on, and ends what is waited for for too long; ready when the connection has ended.
    pub(super) fn poll<IO: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        driver: &mut Driver<IO>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            if driver.poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if driver.ends {
                let last = self
                    .last
                    .get_or_insert_with(|| Box::pin(sleep(LAST_TIMEOUT)));
                return last.as_mut().poll(cx);
            }
            let mut session = driver.conversation.shared.session.borrow_mut();
            let begun = session.begun(!driver.rest.is_empty());
            // While answers wait for the append-only file nothing is read.
            let begun = begun.filter(|_| driver.held.is_none());
            if self.begun.is_late(begun, cx) {
                session.end_late();
                driver.ends = true;
                continue;
            }
            if session.receiving() == 0 {
                self.messages = None;
                return Poll::Pending;
            }
            let newest = session.last_stream();
            drop(session);
            let messages = || (Box::pin(sleep(MESSAGE_TIMEOUT)), newest);
            let (timer, up_to) = self.messages.get_or_insert_with(messages);
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            driver.conversation.give_up(*up_to);
            self.messages = None;
        }
    }
}

/// The wait for a frame or a block of header fields that has begun.
#[derive(Default)]
struct Begun {
    /// When it ends, and for which part.
    due: Option<(Instant, u64)>,
    /// Never set to end after what is due: most parts come with the next read, and cost no timer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Begun {
    /// Whether the part that has begun, if one has, has been waited for for long enough; who asks is woken when that is so.
    fn is_late(&mut self, part: Option<u64>, cx: &mut Context<'_>) -> bool {
        let Some(part) = part else {
            self.due = None;
            return false;
        };
        let due = match self.due {
            Some((due, known)) if known == part => due,
            _ => Instant::now() + MESSAGE_TIMEOUT,
        };
        self.due = Some((due, part));
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return true;
            }
            timer.as_mut().reset(due);
        }
        false
    }
}
