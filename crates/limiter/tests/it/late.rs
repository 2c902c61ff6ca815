//! What comes late: refunds of units that count no more, and keys whose limit has another period now.

use tollgate_limiter::{ALGORITHMS, AlgorithmKind, Cost, Ledger, Method, Quota, Slot, Timestamp};

const SECOND: u64 = 1_000_000_000;
const TEN: Quota = Quota::new(10, 10 * SECOND);
/// A moment at which windows of ten seconds begin, and days too.
const START_MS: i64 = 1_767_225_600_000;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(START_MS + ms)
}

fn methods() -> impl Iterator<Item = Method> {
    let small = ALGORITHMS.iter().map(|row| Method::Small(row.kind));
    small.chain([Method::Log])
}

fn take(slot: &mut Slot, method: Method, quota: &Quota, cost: u64, now: Timestamp) -> bool {
    let decided = slot.decide(method, quota, Cost(cost), false, now);
    decided.expect("one algorithm").0.allowed
}

fn left(slot: &mut Slot, method: Method, quota: &Quota, now: Timestamp) -> u64 {
    let decided = slot.decide(method, quota, Cost(0), true, now);
    decided.expect("one algorithm").0.remaining
}

/// The month of the calendar's row is longer than what this looks at.
fn has_ended(method: Method) -> bool {
    !matches!(method, Method::Small(AlgorithmKind::Calendar(_)))
}

#[test]
fn units_whose_time_is_over_are_not_given_back() {
    for method in methods().filter(|method| has_ended(*method)) {
        let mut slot = Slot::Small(None);
        assert!(take(&mut slot, method, &TEN, 5, at(1_000)));
        // What was taken first counts no more, and the limit is used up by others.
        assert!(take(&mut slot, method, &TEN, 10, at(25_000)), "{method:?}");
        let changed = slot.refund_taken(method, &TEN, 5, at(1_000), at(26_000));
        assert_eq!(changed, Ok(false), "{method:?}");
        let earned = if matches!(method, Method::Small(kind) if kind.is_bucket()) {
            1
        } else {
            0
        };
        assert_eq!(
            left(&mut slot, method, &TEN, at(26_000)),
            earned,
            "{method:?}"
        );
    }
}

#[test]
fn units_that_count_still_are_given_back() {
    for method in methods() {
        let mut slot = Slot::Small(None);
        assert!(take(&mut slot, method, &TEN, 6, at(1_000)));
        let changed = slot.refund_taken(method, &TEN, 4, at(1_000), at(1_000));
        assert_eq!(changed, Ok(true), "{method:?}");
        assert_eq!(left(&mut slot, method, &TEN, at(1_000)), 8, "{method:?}");
        // A clock that is ahead of ours says nothing else.
        let changed = slot.refund_taken(method, &TEN, 9, at(9_000), at(1_000));
        assert_eq!(changed, Ok(true), "{method:?}");
        assert_eq!(left(&mut slot, method, &TEN, at(1_000)), 10, "{method:?}");
    }
}

/// What a bucket has earned back meanwhile is not given back once more.
#[test]
fn of_a_bucket_comes_back_what_is_not_earned_yet() {
    for kind in [
        AlgorithmKind::Gcra,
        AlgorithmKind::TokenBucket,
        AlgorithmKind::LeakyBucket,
    ] {
        let method = Method::Small(kind);
        let mut slot = Slot::Small(None);
        assert!(take(&mut slot, method, &TEN, 10, at(0)));
        assert!(take(&mut slot, method, &TEN, 3, at(3_000)));
        assert_eq!(left(&mut slot, method, &TEN, at(3_000)), 0);
        // Of five taken at first, three were earned by now.
        let changed = slot.refund_taken(method, &TEN, 5, at(0), at(3_000));
        assert_eq!(changed, Ok(true), "{kind:?}");
        assert_eq!(left(&mut slot, method, &TEN, at(3_000)), 2, "{kind:?}");
    }
}

/// A sliding window weighs what its earlier window took, and gives it back there.
#[test]
fn a_sliding_window_gives_back_where_it_was_taken() {
    let method = Method::Small(AlgorithmKind::SlidingWindow);
    let mut slot = Slot::Small(None);
    assert!(take(&mut slot, method, &TEN, 10, at(9_000)));
    assert!(take(&mut slot, method, &TEN, 5, at(15_000)));
    assert_eq!(left(&mut slot, method, &TEN, at(15_000)), 0);
    let changed = slot.refund_taken(method, &TEN, 4, at(9_000), at(15_000));
    assert_eq!(changed, Ok(true));
    // Half of the four counted.
    assert_eq!(left(&mut slot, method, &TEN, at(15_000)), 2);
}

#[test]
fn reservations_beside_it_change_nothing() {
    let kind = AlgorithmKind::FixedWindowEpoch;
    let method = Method::Small(kind);
    let mut slot = Slot::Small(None);
    assert!(take(&mut slot, method, &TEN, 5, at(1_000)));
    slot.holds(kind, &TEN).expect("one algorithm");
    assert!(matches!(slot, Slot::Ledger(Ledger::Holds(_), _)));
    assert!(take(&mut slot, method, &TEN, 10, at(11_000)));
    assert_eq!(
        slot.refund_taken(method, &TEN, 5, at(1_000), at(12_000)),
        Ok(false)
    );
    assert_eq!(
        slot.refund_taken(method, &TEN, 5, at(11_000), at(12_000)),
        Ok(true)
    );
    assert_eq!(left(&mut slot, method, &TEN, at(12_000)), 5);
}

/// A limit whose period has grown must not forget what was taken a moment ago.
#[test]
fn a_longer_period_forgets_nothing() {
    let method = Method::Small(AlgorithmKind::SlidingWindow);
    let hour = Quota::new(10, 3_600 * SECOND);
    let minute = Quota::new(10, 60 * SECOND);
    // Of the last one the record ends with an hour.
    for taken_at in [30_000, 90_000, 1_830_000, 58 * 60_000 + 1_000] {
        let mut slot = Slot::Small(None);
        assert!(take(&mut slot, method, &minute, 10, at(taken_at)));
        for later in [1_000, 20_000, 40_000] {
            let now = at(taken_at + later);
            assert!(
                !take(&mut slot, method, &hour, 1, now),
                "{taken_at} {later}"
            );
        }
    }
}

/// Nor what the window before it took, which counted in part only.
#[test]
fn a_longer_period_counts_the_window_before_in_full() {
    let method = Method::Small(AlgorithmKind::SlidingWindow);
    let minute = Quota::new(10, 60 * SECOND);
    for minutes in [2, 7, 60] {
        let longer = Quota::new(10, minutes * 60 * SECOND);
        for end in 1..=60 {
            let mut slot = Slot::Small(None);
            let begin = end * 60_000;
            assert!(take(&mut slot, method, &minute, 6, at(begin - 1)));
            assert!(take(&mut slot, method, &minute, 4, at(begin + 30_000)));
            for now in [30_000, 40_000, 59_999, 60_000].map(|later| at(begin + later)) {
                assert!(!take(&mut slot, method, &longer, 1, now), "{minutes} {end}");
            }
        }
    }
}
