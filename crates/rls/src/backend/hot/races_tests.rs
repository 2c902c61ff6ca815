//! What strategies admit when requests overlap one another, or the end of a window.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tollgate_limiter::{Act, Cost, Quota};
use tollgate_policy::{HotKey, LimitCheck};

use super::tests::{
    EPOCH, LIMIT, MILLI, NOW, SECOND, Service, Store, WINDOW, advance, ask, check, services,
};
use crate::backend::Decide as _;

const BEHIND: HotKey = HotKey::WriteBehind {
    interval: 50 * MILLI,
};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// How many of `count` requests pass, one after another.
async fn passing(service: &Service, check: &LimitCheck<'_>, count: u64) -> u64 {
    let mut passed = 0;
    for _ in 0..count {
        passed += u64::from(ask(service, check).await.allowed);
    }
    passed
}

fn one() -> (Rc<Store>, Service) {
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let service = services(&store, 1).remove(0);
    (store, service)
}

#[tokio::test]
async fn a_copy_counts_what_others_have_asked_for_meanwhile() {
    let (store, service) = one();
    let mine = check(WINDOW, BEHIND, 1);
    let checks = [mine];
    let mut asking: Vec<_> = (0..50)
        .map(|_| Box::pin(ask(&service, &checks[0])))
        .collect();
    store.slow.set(true);
    for question in &mut asking {
        assert!(poll(question.as_mut()).is_pending());
    }
    store.slow.set(false);
    let mut admitted = 0;
    // The first has its answer, and the others of this service decide on the copy.
    let first = asking.remove(0).await;
    admitted += u64::from(first.allowed);
    admitted += passing(&service, &mine, 2 * LIMIT).await;
    for question in asking {
        admitted += u64::from(question.await.allowed);
    }
    admitted += passing(&service, &mine, 2 * LIMIT).await;
    assert!(admitted <= LIMIT, "{admitted}");
    for _ in 0..20 {
        advance(20 * MILLI);
        service.write(false).await;
        admitted += passing(&service, &mine, 2 * LIMIT).await;
    }
    assert_eq!(admitted, LIMIT);
}

#[tokio::test]
async fn an_old_answer_does_not_hide_a_sum_that_was_written_since() {
    let (store, service) = one();
    let mine = check(WINDOW, BEHIND, 1);
    let held = LimitCheck {
        act: Act::Hold {
            id: b"a",
            ttl: SECOND,
        },
        ..mine
    };
    assert!(ask(&service, &mine).await.allowed);
    let mut admitted = 1 + passing(&service, &mine, 50).await;
    // A reservation is asked for and answered by the store; its answer is on its way while the sum is written and units come back.
    store.late.set(true);
    let mut asking = pin!(ask(&service, &held));
    assert!(poll(asking.as_mut()).is_pending());
    store.late.set(false);
    advance(60 * MILLI);
    service.write(false).await;
    let back = LimitCheck {
        cost: Cost(1),
        ..mine
    };
    service.refund(&back).await.expect("given back");
    admitted -= 1;
    admitted += u64::from(asking.await.allowed);
    admitted += passing(&service, &mine, 2 * LIMIT).await;
    assert!(admitted <= LIMIT, "{admitted}");
}

#[tokio::test]
async fn a_copy_counts_reservations_on_their_way() {
    let (store, service) = one();
    let mine = check(WINDOW, BEHIND, 1);
    let held = LimitCheck {
        cost: Cost(40),
        act: Act::Hold {
            id: b"a",
            ttl: 10 * SECOND,
        },
        ..mine
    };
    let mut admitted = passing(&service, &mine, 10).await;
    store.slow.set(true);
    let mut asking = pin!(ask(&service, &held));
    assert!(poll(asking.as_mut()).is_pending());
    store.slow.set(false);
    admitted += passing(&service, &mine, 2 * LIMIT).await;
    admitted += if asking.await.allowed { 40 } else { 0 };
    admitted += passing(&service, &mine, 2 * LIMIT).await;
    assert!(admitted <= LIMIT, "{admitted}");
}

/// What the next window admits after a request that passed here, was written, and is denied by another limit: in the next
/// window, or before.
async fn admitted_after_a_denial(hot_key: HotKey, in_the_next_window: bool) -> u64 {
    let (store, service) = one();
    let mine = check(WINDOW, hot_key, 10);
    let closed = LimitCheck {
        key: b"closed",
        quota: Quota::new(0, SECOND),
        hot_key: HotKey::Exact,
        ..mine
    };
    let one = LimitCheck {
        cost: Cost(1),
        ..mine
    };
    assert!(ask(&service, &one).await.allowed);
    store.slow.set(true);
    let both = [mine, closed];
    let mut asking = pin!(decide_all(&service, &both));
    assert!(poll(asking.as_mut()).is_pending());
    store.slow.set(false);
    // What passed in the window is written in it.
    advance(60 * MILLI);
    service.write(true).await;
    if !in_the_next_window {
        assert!(!asking.as_mut().await);
    }
    advance(SECOND);
    let mut admitted = passing(&service, &one, LIMIT / 2).await;
    if in_the_next_window {
        assert!(!asking.await);
    }
    for _ in 0..10 {
        admitted += passing(&service, &one, 2 * LIMIT).await;
        advance(20 * MILLI);
        service.write(false).await;
    }
    admitted
}

async fn decide_all(service: &Service, checks: &[LimitCheck<'_>]) -> bool {
    let made = service.decide(checks).await.expect("decided");
    made.iter().all(|decision| decision.allowed)
}

#[tokio::test]
async fn what_a_window_took_does_not_come_back_to_the_next() {
    let local = HotKey::Local {
        share_ppm: 1_000_000,
        services: 1,
    };
    for (hot_key, over) in [
        (local, 0),
        (BEHIND, 0),
        (HotKey::Probabilistic { one_in: 5 }, 4),
        (HotKey::Batch { size: 5 }, 0),
        (HotKey::Shards { shards: 2 }, 0),
    ] {
        for next in [true, false] {
            let admitted = admitted_after_a_denial(hot_key, next).await;
            assert!(admitted <= LIMIT + over, "{hot_key:?} {next}: {admitted}");
        }
    }
}

#[tokio::test]
async fn what_was_paid_for_in_a_window_is_not_spent_in_the_next() {
    const ONE_IN: u64 = 50;
    let hot_key = HotKey::Probabilistic {
        one_in: ONE_IN as u32,
    };
    for late in [0, 400 * MILLI] {
        let (store, service) = one();
        let mine = check(WINDOW, hot_key, 1);
        // Until a question is asked that pays for all, at the end of the window.
        advance(900 * MILLI);
        store.late.set(true);
        let mut passed = 0;
        let mut asking = loop {
            let mut asking = Box::pin(ask(&service, &mine));
            match poll(asking.as_mut()) {
                Poll::Ready(_) => passed += 1,
                Poll::Pending => break asking,
            }
        };
        assert!(passed < ONE_IN);
        store.late.set(false);
        advance(200 * MILLI + late);
        assert!(asking.as_mut().await.allowed);
        drop(asking);
        let mut admitted = 0;
        // All of the limit, the paid ones of the window before, and those that nobody pays for.
        for _ in 0..6 {
            admitted += passing(&service, &mine, LIMIT).await;
        }
        assert!(admitted < LIMIT + ONE_IN, "{late}: {admitted}");
    }
}
