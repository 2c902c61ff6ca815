//! Leases of several threads on one limit, in virtual time, held to the brute-force models.

use std::sync::Arc;

use proptest::prelude::*;
use tollgate_limiter::calendar::{Calendar, CalendarUnit, Zone};
use tollgate_limiter::fixed_window::Anchor;
use tollgate_limiter::oracle::{Oracle, RateOracle, WindowOracle};
use tollgate_limiter::{AlgorithmKind, Cost, Decision, Quota, Record, Timestamp};

use super::lease::{Denial, Lease, Wear};
use super::slot::HotSlot;
use super::table::{KEY_MAX, Table};
use crate::Check;

/// A limit, its state and the threads that lease from it.
struct Bed {
    kind: AlgorithmKind,
    quota: Quota,
    record: Option<Record>,
    slot: HotSlot,
    threads: Vec<(Lease, Denial, u64)>,
}

impl Bed {
    fn new(kind: AlgorithmKind, quota: Quota, threads: usize) -> Bed {
        Bed {
            kind,
            quota,
            record: None,
            slot: HotSlot::new(),
            threads: vec![(Lease::NONE, Denial::NONE, 0); threads],
        }
    }

    fn take(&mut self, cost: u64, now: Timestamp) -> Decision {
        let record = self.record.filter(|r| r.expires_at_ms > now.millis());
        let decided = self.kind.decide(record, &self.quota, Cost(cost), now);
        let (decision, next) = decided.expect("one algorithm");
        self.record = next.or(record);
        decision
    }

    fn give_back(&mut self, thread: usize, now: Timestamp) {
        let mut lease = std::mem::replace(&mut self.threads[thread].0, Lease::NONE);
        if lease.epoch != self.slot.lease_epoch() {
            return;
        }
        let back = lease.left(now);
        if let Some(record) = self.record.filter(|_| back > 0) {
            let next = self.kind.refund(record, &self.quota, back, now);
            self.record = next.expect("one algorithm").or(self.record);
        }
        self.slot.settle(lease.given, back);
    }

    fn decide(&mut self, thread: usize, cost: u64, now: Timestamp) -> Decision {
        let (lease, denial, _) = &mut self.threads[thread];
        if lease.epoch == self.slot.lease_epoch()
            && let Some(decision) = lease.spend(cost, now)
        {
            return decision;
        }
        if let Some(decision) = denial.answer(self.slot.denial_epoch(), cost, now) {
            return decision;
        }
        self.give_back(thread, now);
        let decision = self.take(cost, now);
        if !decision.allowed {
            self.threads[thread].1 = Denial::new(self.slot.denial_epoch(), cost, now, decision);
            return decision;
        }
        let units = Lease::size(decision.remaining, self.threads[thread].2);
        if units > 0 {
            let said = self.take(units, now);
            assert!(said.allowed, "a share of what remains can be taken");
            let wear = Wear::of(self.kind, &self.quota).expect("it can be leased");
            self.slot.grant(units);
            let lease = Lease::new(self.slot.lease_epoch(), units, now, wear, said);
            self.threads[thread].0 = lease;
            self.threads[thread].2 = units;
        }
        decision
    }

    fn reset(&mut self) {
        self.record = None;
        self.slot.revoke();
    }
}

fn oracle(kind: AlgorithmKind) -> Box<dyn Oracle> {
    match kind {
        AlgorithmKind::FixedWindow => Box::new(WindowOracle::new(Anchor::FirstHit)),
        AlgorithmKind::FixedWindowEpoch => Box::new(WindowOracle::new(Anchor::Epoch)),
        AlgorithmKind::Gcra => Box::new(RateOracle::rounded()),
        _ => Box::new(RateOracle::exact()),
    }
}

const KINDS: [AlgorithmKind; 5] = [
    AlgorithmKind::FixedWindow,
    AlgorithmKind::FixedWindowEpoch,
    AlgorithmKind::Gcra,
    AlgorithmKind::TokenBucket,
    AlgorithmKind::LeakyBucket,
];

proptest! {
    /// Everything admitted, by whichever thread, could have been admitted by the limit alone.
    #[test]
    fn leases_never_admit_more(
        kind in prop::sample::select(&KINDS[..]),
        limit in 1u64..60_000,
        burst in 1u64..60_000,
        period_ms in 1u64..3_000,
        threads in 1usize..5,
        steps in prop::collection::vec((0usize..5, 1u64..2_000, 0u64..4, 0u8..40), 1..600),
    ) {
        let quota = Quota::new(limit, period_ms * 1_000_000).with_burst(burst);
        let mut bed = Bed::new(kind, quota, threads);
        let mut model = oracle(kind);
        let mut now = Timestamp::from_millis(1_700_000_000_000);
        for (thread, cost, gap, what) in steps {
            let thread = thread % threads;
            // Mostly close together, sometimes far apart.
            now = now.plus(match gap { 0 => 0, 1 => 1_037, 2 => 911_003, _ => period_ms * 170_001 });
            match what {
                0 => bed.give_back(thread, now),
                1 => { bed.reset(); model = oracle(kind); }
                _ => {
                    let decision = bed.decide(thread, cost, now);
                    if decision.allowed {
                        let allowed = model.decide(&quota, Cost(cost), now).allowed;
                        prop_assert!(allowed, "{kind:?} admitted {cost} too many");
                    }
                }
            }
        }
    }
}

#[test]
fn what_threads_hold_back_is_bounded_and_comes_back() {
    let quota = Quota::new(10_000, 60_000_000_000);
    let mut bed = Bed::new(AlgorithmKind::FixedWindow, quota, 4);
    let now = Timestamp::from_secs(1_700_000_000);
    for thread in 0..4 {
        for _ in 0..64 {
            assert!(bed.decide(thread, 1, now).allowed);
        }
    }
    // One thread takes the rest.
    let mut admitted = 4 * 64;
    while bed.decide(0, 1, now).allowed {
        admitted += 1;
    }
    let held: u64 = (1..4).map(|thread| bed.threads[thread].0.left(now)).sum();
    assert_eq!(admitted + held, 10_000);
    assert!(held <= 3 * 10_000 / 8, "{held} held back");
    assert_eq!(bed.decide(0, 1, now).retry_after, Some(60_000_000_000));
    for thread in 1..4 {
        bed.give_back(thread, now);
    }
    while bed.decide(0, 1, now).allowed {
        admitted += 1;
    }
    assert_eq!(admitted, 10_000);
    assert_eq!(bed.slot.granted(), 0);
}

#[test]
fn a_denial_counts_down_and_ends() {
    let at = Timestamp::from_secs(10);
    let said = Decision {
        limit: 5,
        retry_after: Some(1_000),
        reset_after: 5_000,
        ..Decision::DENIED
    };
    let denial = Denial::new(3, 1, at, said);
    let answer = |epoch, cost, now| denial.answer(epoch, cost, now);
    let later = answer(3, 1, at.plus(400)).expect("still denied");
    assert_eq!((later.retry_after, later.reset_after), (Some(600), 4_600));
    assert_eq!(answer(3, 1, at.plus(1_000)), None);
    assert_eq!(answer(3, 2, at), None, "another cost is another question");
    assert_eq!(answer(4, 1, at), None, "the key has changed");
    assert_eq!(
        answer(3, 1, Timestamp::from_secs(9)),
        None,
        "the clock went back"
    );
}

const AT: Timestamp = Timestamp::from_secs(10);

fn check_of(key: &[u8]) -> Check<'_> {
    Check {
        key,
        algorithm: AlgorithmKind::FixedWindow,
        quota: Quota::new(5, 60_000_000_000),
        cost: Cost(1),
        peek: false,
        exact: false,
    }
}

/// Puts a denial of `check` into the table, unless its place is taken.
fn remember(table: &mut Table, check: &Check<'_>) {
    let Some((mut entry, _)) = table.claim(check, AT) else {
        return;
    };
    let said = Decision {
        retry_after: Some(1_000_000_000),
        ..Decision::DENIED
    };
    let slot = HotSlot::new();
    entry.denial = Denial::new(slot.denial_epoch(), 1, AT, said);
    entry.slot = Some(Arc::new(slot));
    table.put(entry);
}

fn knows(table: &mut Table, check: &Check<'_>) -> bool {
    let answer = table.fast(check, AT);
    answer.or_else(|| table.fast_other(check, AT)).is_some()
}

#[test]
fn a_key_is_found_by_all_its_bytes_and_its_limit() {
    for len in 0..=KEY_MAX {
        let key: Vec<u8> = (0..len).map(|at| at as u8 + 1).collect();
        let mut table = Table::new();
        let check = check_of(&key);
        assert!(!knows(&mut table, &check), "{len}");
        remember(&mut table, &check);
        assert!(knows(&mut table, &check), "{len}");
        for at in 0..len {
            let mut other = key.clone();
            other[at] ^= 0x80;
            assert!(!knows(&mut table, &check_of(&other)), "{len}, byte {at}");
        }
        let mut longer = key.clone();
        longer.push(0);
        assert!(!knows(&mut table, &check_of(&longer)), "{len}, longer");
        for other in [
            Check {
                algorithm: AlgorithmKind::Gcra,
                ..check
            },
            Check {
                quota: Quota::new(6, 60_000_000_000),
                ..check
            },
            Check {
                quota: Quota::new(5, 60_000_000_001),
                ..check
            },
            Check {
                quota: check.quota.with_burst(6),
                ..check
            },
            Check {
                cost: Cost(2),
                ..check
            },
        ] {
            assert!(!knows(&mut table, &other), "{len}, {other:?}");
        }
    }
}

#[test]
fn calendars_of_different_units_are_different_limits() {
    let mut table = Table::new();
    let of = |unit| Check {
        algorithm: AlgorithmKind::Calendar(Calendar {
            unit,
            zone: Zone::UTC,
        }),
        ..check_of(b"tenant:1")
    };
    remember(&mut table, &of(CalendarUnit::Day));
    assert!(knows(&mut table, &of(CalendarUnit::Day)));
    assert!(!knows(&mut table, &of(CalendarUnit::Month)));
}

#[test]
fn keys_that_begin_and_end_alike_have_places_of_their_own() {
    let keys: Vec<String> = (0..8)
        .map(|user| format!("shop_user_user-{user}_1767225600"))
        .collect();
    let mut table = Table::new();
    for key in &keys {
        remember(&mut table, &check_of(key.as_bytes()));
    }
    let known = keys
        .iter()
        .filter(|key| knows(&mut table, &check_of(key.as_bytes())));
    assert!(known.count() > 5);
}
