//! Mistakes that other rate limiters made, by the numbers of `docs/traps.md`.

use tollgate_limiter::cell::{Change, Throttle};
use tollgate_limiter::codec::{self, Stored};
use tollgate_limiter::foreign::{Crab, RedisGcra};
use tollgate_limiter::{
    ALGORITHMS, AlgorithmKind, Cost, Decision, Ledger, Method, Quota, Slot, Timestamp,
};

const SECOND: u64 = 1_000_000_000;

/// A whole number of days and seconds after the epoch, so that windows begin here.
const START: Timestamp = Timestamp::from_secs(20_000 * 86_400);

fn methods() -> impl Iterator<Item = Method> {
    let small = ALGORITHMS.iter().map(|row| Method::Small(row.kind));
    small.chain([Method::Log])
}

fn take(slot: &mut Slot, method: Method, quota: &Quota, cost: u64, now: Timestamp) -> Decision {
    let decided = slot.decide(method, quota, Cost(cost), false, now);
    decided.expect("one algorithm").0
}

/// How many pass at one instant.
fn burst(mut pass: impl FnMut() -> bool) -> usize {
    (0..1_000).take_while(|_| pass()).count()
}

#[test]
fn trap_01_a_returning_key_has_one_burst() {
    // One unit in each 100 ms, ten at once: one hit, then silence until just before the state expires, or for longer where something
    // has kept it.
    for (pause, left) in [(SECOND / 10 - 1, 9), (SECOND / 10, 10), (60 * SECOND, 10)] {
        let (quota, later) = (Quota::new(10, SECOND), START.plus(pause));
        for kind in [
            AlgorithmKind::Gcra,
            AlgorithmKind::TokenBucket,
            AlgorithmKind::LeakyBucket,
        ] {
            let mut slot = Slot::Small(None);
            let method = Method::Small(kind);
            assert!(take(&mut slot, method, &quota, 1, START).allowed);
            let passed = burst(|| take(&mut slot, method, &quota, 1, later).allowed);
            assert_eq!(passed, left, "{kind:?}");
        }
        let (crab, mut tat) = (
            Crab {
                max_burst: 10,
                count: 10,
                period_secs: 1,
                quantity: 1,
            },
            None,
        );
        let mut pass = |now| {
            let (reply, next) = crab.decide(tat, now).expect("a rate");
            tat = next.or(tat);
            reply.allowed
        };
        assert!(pass(START));
        assert_eq!(burst(|| pass(later)), left);
        let (cell, mut tat) = (
            Throttle {
                max_burst: 9,
                count: 10,
                period_secs: 1,
                quantity: 1,
            },
            None,
        );
        let mut pass = |now| {
            let (reply, change) = cell.decide(tat, now).expect("a rate");
            if let Change::Store(next) = change {
                tat = Some(next);
            }
            !reply.limited
        };
        assert!(pass(START));
        assert_eq!(burst(|| pass(later)), left);
    }
}

#[test]
fn trap_02_a_wait_is_never_zero_and_always_enough() {
    // Many a millisecond, so that waits are far below a second.
    let quota = Quota::new(7_000, SECOND);
    for method in methods() {
        let mut slot = Slot::Small(None);
        while take(&mut slot, method, &quota, 1, START).allowed {}
        let denied = take(&mut slot, method, &quota, 1, START);
        let wait = denied.retry_after_ms();
        assert!(wait >= 1, "{}", method.name());
        let later = START.plus(wait.unsigned_abs() * 1_000_000);
        let passed = take(&mut slot, method, &quota, 1, later).allowed;
        assert!(passed, "{}", method.name());
    }
    let crab = Crab {
        max_burst: 1,
        count: 7_000,
        period_secs: 1,
        quantity: 1,
    };
    let (_, tat) = crab.decide(None, START).expect("a rate");
    let (denied, _) = crab.decide(tat, START).expect("a rate");
    assert!(!denied.allowed && denied.retry_after == 1);
}

#[test]
fn trap_07_denials_do_not_count() {
    let quota = Quota::new(5, SECOND);
    for method in methods() {
        let mut slot = Slot::Small(None);
        while take(&mut slot, method, &quota, 1, START).allowed {}
        let (full, wait) = (
            slot.clone(),
            take(&mut slot, method, &quota, 1, START).retry_after,
        );
        for _ in 0..500 {
            assert!(!take(&mut slot, method, &quota, 1, START).allowed);
        }
        assert_eq!(slot, full, "{}", method.name());
        let later = START.plus(wait.expect("a cost of one fits"));
        let passed = take(&mut slot, method, &quota, 1, later).allowed;
        assert!(passed, "{}", method.name());
    }
}

#[test]
fn trap_10_a_copied_state_decides_alike_whatever_the_reader_s_clock() {
    let quota = Quota::new(5, SECOND);
    for method in methods() {
        let mut slot = Slot::Small(None);
        for _ in 0..3 {
            assert!(take(&mut slot, method, &quota, 1, START).allowed);
        }
        let mut bytes = Vec::new();
        let mut copy = match &slot {
            Slot::Small(Some(record)) => {
                codec::write_state(record.state, &mut bytes);
                let Some(Stored::State(state)) = codec::read(&bytes) else {
                    panic!("{}", method.name());
                };
                Slot::Small(Some(tollgate_limiter::Record { state, ..*record }))
            }
            Slot::Ledger(ledger, expires) => {
                codec::write_ledger(ledger, &mut bytes);
                let Some(Stored::Ledger(ledger)) = codec::read(&bytes) else {
                    panic!("{}", method.name());
                };
                Slot::Ledger(ledger, *expires)
            }
            Slot::Small(None) => panic!("{}", method.name()),
        };
        // Written in absolute times: a reader that is ahead or behind asks the same state, not one that began with it.
        for millis in [0, 1, 250, 999] {
            let now = START.plus(millis * 1_000_000);
            let (here, there) = (
                take(&mut slot, method, &quota, 1, now),
                take(&mut copy, method, &quota, 1, now),
            );
            assert_eq!(here, there, "{} {millis}", method.name());
        }
    }
    let log = Ledger::Log(Default::default());
    let mut bytes = Vec::new();
    codec::write_ledger(&log, &mut bytes);
    assert_eq!(codec::read(&bytes), Some(Stored::Ledger(log)));
}

#[test]
fn trap_11_each_command_rounds_in_its_owner_s_way() {
    let cell = Throttle {
        max_burst: 0,
        count: 1,
        period_secs: 1,
        quantity: 1,
    };
    let crab = Crab {
        max_burst: 1,
        count: 1,
        period_secs: 1,
        quantity: 1,
    };
    let redis = RedisGcra {
        max_burst: 0,
        tokens: 1,
        period_secs: 1.0,
        cost: 1,
    };
    // Left to wait, and what each says: redis-cell adds a second for whole milliseconds left over only.
    for (left, by_cell) in [
        (SECOND, 1),
        (SECOND - 500_000, 1),
        (500_000, 0),
        (1_000_000, 1),
    ] {
        let (now, tat) = (START, Some(START.plus(left)));
        let (reply, _) = cell.decide(tat, now).expect("a rate");
        assert_eq!(
            (reply.limited, reply.retry_after),
            (true, by_cell),
            "{left}"
        );
        let (reply, _) = crab.decide(tat, now).expect("a rate");
        assert_eq!((reply.allowed, reply.retry_after), (false, 1), "{left}");
        let (reply, _) = redis.decide(tat, now).expect("a rate");
        assert_eq!((reply.limited, reply.retry_after), (true, 1), "{left}");
    }
}

#[test]
fn trap_14_a_clock_that_steps_back_mints_nothing() {
    let quota = Quota::new(5, SECOND);
    for method in methods() {
        let mut slot = Slot::Small(None);
        while take(&mut slot, method, &quota, 1, START).allowed {}
        let full = slot.clone();
        for back in [1, 999, 60_000, 86_400_000] {
            let now = Timestamp::from_millis(START.millis() - back);
            let denied = take(&mut slot, method, &quota, 1, now);
            assert!(!denied.allowed, "{} {back}", method.name());
            assert_eq!(slot, full, "{} {back}", method.name());
        }
    }
}

#[test]
fn trap_15_a_fixed_window_admits_twice_its_limit_around_a_boundary_and_a_sliding_one_does_not() {
    let quota = Quota::new(10, SECOND);
    let (before, after) = (START.plus(SECOND - 1_000_000), START.plus(SECOND));
    let around = |method| {
        let mut slot = Slot::Small(None);
        let late = burst(|| take(&mut slot, method, &quota, 1, before).allowed);
        assert_eq!(late, 10, "{}", method.name());
        burst(|| take(&mut slot, method, &quota, 1, after).allowed)
    };
    assert_eq!(around(Method::Small(AlgorithmKind::FixedWindowEpoch)), 10);
    assert_eq!(around(Method::Small(AlgorithmKind::SlidingWindow)), 0);
    assert_eq!(around(Method::Log), 0);
}

#[test]
fn trap_18_what_can_never_pass_is_told_from_what_must_wait() {
    let quota = Quota::new(5, SECOND);
    for method in methods() {
        let mut slot = Slot::Small(None);
        let never = take(&mut slot, method, &quota, 6, START);
        assert_eq!(
            (never.allowed, never.retry_after_ms()),
            (false, -1),
            "{}",
            method.name()
        );
        assert!(take(&mut slot, method, &quota, 5, START).allowed);
        let full = take(&mut slot, method, &quota, 1, START);
        assert!(
            !full.allowed && full.retry_after_ms() > 0,
            "{}",
            method.name()
        );
        let never = take(&mut slot, method, &quota, 6, START);
        assert_eq!(never.retry_after_ms(), -1, "{}", method.name());
    }
}
