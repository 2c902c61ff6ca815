//! Remembered denials in virtual time: what is decided stays the same, the store is asked less, and bytes are bounded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Act, AlgorithmKind, Cost, Decision, Method};
use tollgate_policy::{HotKey, LimitCheck, Role};

use super::tests::{BUCKET, Dice, EPOCH, LIMIT, MILLI, NOW, SECOND, Store, WINDOW, advance, now};
use super::{LocalCache, Told};
use crate::backend::{BackendError, Decide, Decisions};
use crate::config::EnvoyCounters;

const PLENTY: usize = 1 << 20;

fn check(method: Method, cost: u64) -> LimitCheck<'static> {
    super::tests::check(method, HotKey::Exact, cost)
}

/// Decides by a backend behind the cache; which descriptors were answered from it.
async fn ask<B: Decide>(
    cache: &LocalCache,
    backend: &B,
    checks: &[LimitCheck<'_>],
) -> (Decisions, Vec<usize>) {
    let told = Told::default();
    let decided = cache.before(backend, &told).decide(checks).await;
    (decided.expect("decided"), told.into_inner().to_vec())
}

/// With a cache and without one the same requests pass, and the store is asked less.
#[tokio::test]
async fn nothing_is_decided_otherwise_and_the_store_is_asked_less() {
    const REQUESTS: u64 = 4_000;
    let methods = [
        WINDOW,
        BUCKET,
        Method::Small(AlgorithmKind::FixedWindow),
        Method::Small(AlgorithmKind::Gcra),
        Method::Small(AlgorithmKind::SlidingWindow),
        Method::Small(AlgorithmKind::LeakyBucket),
        Method::Log,
    ];
    for (seed, method) in methods.into_iter().enumerate() {
        NOW.set(EPOCH);
        let (plain, behind) = (Rc::new(Store::default()), Rc::new(Store::default()));
        let cache = LocalCache::new(PLENTY, None, now);
        let mut dice = Dice(seed as u64);
        for _ in 0..REQUESTS {
            advance(dice.below(2 * MILLI) + 1);
            let asked = check(method, dice.below(3) + 1);
            let want = plain.decide(&[asked]).await.expect("decided")[0];
            let (got, told) = ask(&cache, &behind, &[asked]).await;
            assert_eq!(got[0].allowed, want.allowed, "{method:?}");
            assert!(told.is_empty() || !got[0].allowed);
            if method == WINDOW {
                // The store rounds up to a millisecond, each time anew.
                let waits = [want, got[0]].map(|made| made.retry_after.expect("a wait"));
                assert!(waits[0].abs_diff(waits[1]) < MILLI, "{waits:?}");
            }
        }
        assert_eq!(plain.asked.get(), REQUESTS);
        assert!(behind.asked.get() < REQUESTS / 2, "{method:?}");
    }
}

/// By our own counters a denial that is known denies the request: the others are looked at.
#[tokio::test]
async fn a_known_denial_takes_nothing_from_the_others() {
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let cache = LocalCache::new(PLENTY, None, now);
    let full = check(WINDOW, LIMIT);
    let other = LimitCheck {
        key: b"other",
        descriptor: 1,
        ..check(WINDOW, 10)
    };
    assert!(ask(&cache, &store, &[full]).await.0[0].allowed);
    assert!(!ask(&cache, &store, &[full]).await.0[0].allowed);
    for _ in 0..3 {
        let (decisions, told) = ask(&cache, &store, &[full, other]).await;
        assert!(!decisions[0].allowed && decisions[1].allowed);
        assert_eq!(told, [0]);
    }
    let (decisions, _) = ask(&cache, &store, &[other]).await;
    assert_eq!(decisions[0].remaining, LIMIT - 10);
    // Less than what was denied may pass, and what comes back does.
    let asked = store.asked.get();
    ask(&cache, &store, &[check(WINDOW, 1)]).await;
    assert_eq!(store.asked.get(), asked + 1);
    let told = Told::default();
    let back = cache.before(&store, &told).refund(&full).await;
    assert_eq!(back.expect("decided").remaining, LIMIT);
    assert!(ask(&cache, &store, &[full]).await.0[0].allowed);
}

/// What is not decided by a count of time is asked each time: places in use, reservations, other strategies.
#[tokio::test]
async fn what_comes_back_at_any_time_is_not_remembered() {
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let cache = LocalCache::new(PLENTY, None, now);
    let hold = Act::Hold {
        id: b"x",
        ttl: SECOND,
    };
    let full = check(WINDOW, LIMIT);
    ask(&cache, &store, &[full]).await;
    for asked in [
        LimitCheck { act: hold, ..full },
        LimitCheck {
            hot_key: HotKey::DenialCache,
            ..full
        },
    ] {
        for _ in 0..3 {
            let before = store.asked.get();
            let (decisions, told) = ask(&cache, &store, &[asked]).await;
            assert!(!decisions[0].allowed && told.is_empty());
            assert_eq!(store.asked.get(), before + 1);
        }
    }
}

#[tokio::test]
async fn bytes_are_bounded_and_the_newest_are_kept() {
    const BYTES: usize = 512 << 10;
    NOW.set(EPOCH);
    let store = Rc::new(Store::default());
    let cache = LocalCache::new(BYTES, None, now);
    let gauge = |name: &str| {
        let gauges = cache.gauges();
        let found = gauges.iter().find(|(known, _)| *known == name);
        found.expect("it is told").1
    };
    let never = |key: &[u8]| {
        let key = key.to_vec();
        async {
            let key = key;
            let full = LimitCheck {
                key: &key,
                ..check(WINDOW, LIMIT)
            };
            ask(&cache, &store, &[full]).await;
            ask(&cache, &store, &[full]).await.1
        }
    };
    for number in 0..20_000_u32 {
        never(&number.to_le_bytes()).await;
    }
    let most = (BYTES / size_of::<super::Denial>()) as u64;
    let entries = gauge("entryCount");
    assert!(entries > 0 && entries < most, "{entries} of {most}");
    assert!(gauge("evacuateCount") + entries == 20_000);
    // The newest is known, the oldest is not.
    assert_eq!(never(&19_999_u32.to_le_bytes()).await, [0]);
    assert_eq!(gauge("lookupCount"), gauge("hitCount") + gauge("missCount"));
    // Keys that are longer than all the room are not remembered.
    let long = vec![b'x'; BYTES];
    for _ in 0..2 {
        assert!(never(&long).await.is_empty());
    }
    // Nothing holds beyond its window.
    advance(SECOND);
    assert!(never(&19_999_u32.to_le_bytes()).await.is_empty());
    assert_eq!(gauge("expiredCount"), 1);
}

/// Counters as a fleet of envoyproxy/ratelimit has them: each grows, whatever becomes of the request.
#[derive(Default)]
struct Fleet {
    counts: RefCell<HashMap<Vec<u8>, u64>>,
    asked: RefCell<Vec<(Vec<u8>, u64)>>,
}

impl Decide for &Fleet {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        let mut counts = self.counts.borrow_mut();
        let decided = checks.iter().map(|check| {
            let asked = (check.key.to_vec(), check.cost.0);
            self.asked.borrow_mut().push(asked);
            let count = counts.entry(check.key.to_vec()).or_default();
            match (check.act, check.role) {
                (Act::Peek, _) => {}
                (_, Role::Refund) => *count = count.saturating_sub(check.cost.0),
                _ => *count += check.cost.0,
            }
            let to_end = SECOND * 10 - now().nanos() as u64 / SECOND % 10 * SECOND;
            Decision {
                allowed: *count <= LIMIT || check.role == Role::Refund,
                limit: LIMIT,
                remaining: LIMIT.saturating_sub(*count),
                retry_after: Some(to_end),
                reset_after: to_end,
            }
        });
        Ok(decided.collect())
    }

    async fn refund(&self, _: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        Ok(Decision::DENIED)
    }

    async fn end(
        &self,
        _: &LimitCheck<'_>,
        _: &[u8],
        _: u64,
    ) -> Result<Option<Ended>, BackendError> {
        Ok(None)
    }

    async fn release(&self, _: &LimitCheck<'_>, _: &[u8]) -> Result<u64, BackendError> {
        Ok(0)
    }

    fn counts_each(&self) -> bool {
        true
    }
}

/// What a fleet is asked once one of two limits is known to be over.
async fn asked_beside(stop_when_over: bool, role: Role) -> Vec<(Vec<u8>, u64)> {
    NOW.set(EPOCH);
    let counters = EnvoyCounters {
        stop_when_over,
        ..EnvoyCounters::default()
    };
    let fleet = Fleet::default();
    let cache = LocalCache::new(PLENTY, Some(&counters), now);
    let over = LimitCheck {
        role,
        ..check(WINDOW, LIMIT + 1)
    };
    let other = LimitCheck {
        key: b"other",
        descriptor: 1,
        ..check(WINDOW, 3)
    };
    ask(&cache, &&fleet, &[over]).await;
    fleet.asked.borrow_mut().clear();
    // Whatever it weighs.
    let light = LimitCheck {
        cost: Cost(0),
        ..over
    };
    let (decisions, told) = ask(&cache, &&fleet, &[light, other]).await;
    assert!(!decisions[0].allowed && decisions[1].allowed);
    assert_eq!((told, decisions[0].remaining), (vec![0], 0));
    fleet.asked.take()
}

#[tokio::test]
async fn counters_of_a_fleet_count_each_for_itself() {
    let other = |hits| vec![(b"other".to_vec(), hits)];
    assert_eq!(asked_beside(false, Role::Enforced).await, other(3));
    assert_eq!(asked_beside(false, Role::Shadow).await, other(3));
    // Others stop counting once one is over that denies; a shadow denies nothing.
    assert_eq!(asked_beside(true, Role::Enforced).await, other(0));
    assert_eq!(asked_beside(true, Role::Shadow).await, other(3));
}

/// A window of a fleet ends on a second of the clock, whenever in a second it was found to be over.
#[tokio::test]
async fn a_window_of_a_fleet_is_over_when_the_clock_says_so() {
    let fleet = Fleet::default();
    let cache = LocalCache::new(PLENTY, Some(&EnvoyCounters::default()), now);
    let over = check(WINDOW, LIMIT + 1);
    // 7.6 seconds into a window of ten.
    NOW.set(EPOCH + 7_600 * MILLI as i64);
    ask(&cache, &&fleet, &[over]).await;
    assert_eq!(ask(&cache, &&fleet, &[over]).await.1, [0]);
    advance(2_390 * MILLI);
    assert_eq!(ask(&cache, &&fleet, &[over]).await.1, [0]);
    advance(10 * MILLI);
    assert!(ask(&cache, &&fleet, &[over]).await.1.is_empty());
    // A refund opens it before its end.
    assert_eq!(ask(&cache, &&fleet, &[over]).await.1, [0]);
    let back = LimitCheck {
        role: Role::Refund,
        ..over
    };
    ask(&cache, &&fleet, &[back]).await;
    assert!(ask(&cache, &&fleet, &[check(WINDOW, 0)]).await.1.is_empty());
}
