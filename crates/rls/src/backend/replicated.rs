//! Waits until replicas have what a connection wrote, for many requests by one `WAIT`.
//!
//! A replica that a failover promotes then knows all that was answered. `WAIT` holds up everything behind it on its connection, so
//! one for each request would let a single request pass in the time of a way to the replicas and back.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use redis::{ErrorKind, RedisError};

/// The requests of one connection that wait.
#[derive(Default)]
pub(super) struct Replicated {
    /// Those for which no `WAIT` has been sent; who comes joins them.
    next: RefCell<Rc<Round>>,
    /// Held by the one that asks for all of its round. It is fair, so rounds take turns in their order.
    asks: tokio::sync::Mutex<()>,
}

/// How many replicas have what all requests of a round wrote, once that is known.
type Round = OnceCell<Result<u64, String>>;

impl Replicated {
    /// Returns once so many replicas have what the connection wrote before the call. `ask` sends `WAIT` on it.
    ///
    /// # Errors
    /// Fewer have it in the time that `ask` gives them, or it fails.
    pub(super) async fn wait(
        &self,
        replicas: u64,
        ask: impl AsyncFnOnce() -> Result<u64, RedisError>,
    ) -> Result<(), RedisError> {
        let round = self.next.borrow().clone();
        let _turn = self.asks.lock().await;
        let told = match round.get() {
            Some(told) => told.clone(),
            None => {
                // Whoever writes from now on is not covered.
                if Rc::ptr_eq(&round, &self.next.borrow()) {
                    self.next.take();
                }
                let told = ask().await.map_err(|error| error.to_string());
                round.get_or_init(|| told).clone()
            }
        };
        let reason = match told {
            Ok(have) if have >= replicas => return Ok(()),
            Ok(have) => format!("{have} of {replicas} replicas have it"),
            Err(error) => error,
        };
        let what = "a failover may lose what was counted";
        Err(RedisError::from((ErrorKind::Extension, what, reason)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A `WAIT` that is answered when it is let.
    async fn asked(
        count: &Cell<usize>,
        may: &tokio::sync::Notify,
        have: u64,
    ) -> Result<u64, RedisError> {
        count.set(count.get() + 1);
        may.notified().await;
        Ok(have)
    }

    #[test]
    fn those_who_come_while_one_is_asked_share_the_next() {
        let (replicated, count, may): (Replicated, Cell<usize>, _) = Default::default();
        let (count, may) = (&count, &may);
        let wait = |have| replicated.wait(2, async move || asked(count, may, have).await);
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = pin!(wait(2));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        let (mut second, mut third) = (pin!(wait(1)), pin!(wait(1)));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        assert_eq!(count.get(), 1, "what they wrote is not covered by it");
        may.notify_one();
        assert!(matches!(first.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        may.notify_one();
        for late in [&mut second, &mut third] {
            let Poll::Ready(Err(error)) = late.as_mut().poll(&mut cx) else {
                panic!("one is too few");
            };
            assert!(error.to_string().contains("1 of 2 replicas"), "{error}");
        }
        assert_eq!(count.get(), 2, "one for both");
    }

    #[test]
    fn a_round_goes_on_without_the_one_that_asked() {
        let (replicated, count, may): (Replicated, Cell<usize>, _) = Default::default();
        let wait = || replicated.wait(1, async || asked(&count, &may, 1).await);
        let mut cx = Context::from_waker(Waker::noop());
        let mut zeroth = pin!(wait());
        assert!(zeroth.as_mut().poll(&mut cx).is_pending());
        let mut leaves = Box::pin(wait());
        let mut stays = pin!(wait());
        assert!(leaves.as_mut().poll(&mut cx).is_pending());
        assert!(stays.as_mut().poll(&mut cx).is_pending());
        may.notify_one();
        assert!(zeroth.as_mut().poll(&mut cx).is_ready());
        assert!(leaves.as_mut().poll(&mut cx).is_pending());
        assert_eq!(count.get(), 2);
        drop(leaves);
        assert!(stays.as_mut().poll(&mut cx).is_pending());
        assert_eq!(count.get(), 3, "it asks itself");
        may.notify_one();
        assert!(matches!(stays.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
    }
}
