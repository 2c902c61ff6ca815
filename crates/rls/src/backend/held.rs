//! Requests that wait while a replica takes its master's place: what the old master counts from then on is lost.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long they wait at most. A replica is mostly promoted within a millisecond of the Sentinel's word; while one takes its time, the old
/// master goes on counting for requests that could not wait.
const HELD_FOR: Duration = Duration::from_millis(50);

/// Whether they wait.
#[derive(Default)]
pub(super) struct Held {
    until: Cell<Option<Instant>>,
    over: Notify,
}

impl Held {
    /// From now on requests wait.
    pub(super) fn begin(&self) {
        self.until.set(Some(Instant::now() + HELD_FOR));
    }

    /// They go on.
    pub(super) fn end(&self) {
        if self.until.take().is_some() {
            self.over.notify_waiters();
        }
    }

    /// Returns when a request may go on; nearly always at once.
    pub(super) async fn wait(&self) {
        while let Some(until) = self.until.get() {
            let over = self.over.notified();
            if timeout_at(until, over).await.is_err() && self.until.get() == Some(until) {
                self.end();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn requests_wait_until_the_end_but_not_for_ever() {
        let held = Held::default();
        assert!(
            held.wait().now_or_never().is_some(),
            "nothing is waited for"
        );
        held.begin();
        let mut waits = pin!(held.wait());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        held.end();
        assert!(waits.as_mut().poll(&mut cx).is_ready());
        held.begin();
        // Two at once, of which each may end it.
        tokio::join!(held.wait(), held.wait());
        assert!(held.wait().now_or_never().is_some(), "it is over for all");
    }
}
