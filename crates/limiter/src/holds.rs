//! Reservations: units are taken in advance, then the actual cost is committed or all is given back.
//!
//! A reservation is admitted and recorded in one step. One that nobody ends gives its units back when its time is up. Ending
//! it again is harmless: what was committed is remembered until that time.
//!
//! Only units that count still come back: of a window that has passed, or of a bucket that has earned them again, there are
//! none, and giving them back once more would admit them twice.

use std::collections::{BTreeMap, BTreeSet};

use crate::algorithms::{AlgorithmKind, KindMismatch, Record};
use crate::types::{Cost, Decision, Nanos, Quota, Timestamp};

/// Most reservations of one key, ended ones that are still remembered included.
pub(crate) const HOLDS_MAX: usize = 100_000;

/// One reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Units taken in advance.
    pub amount: u64,
    /// Until when it can be ended, and is remembered.
    pub expires_at: Timestamp,
    /// The actual cost, once it is known; 0 after it was cancelled.
    pub ended: Option<u64>,
    /// Until when its units count, if nobody gives them back: the end of their window, or when they are earned again.
    pub counts_until: Timestamp,
}

/// A limiter's state and the reservations on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds {
    /// The algorithm that the reservations were taken from.
    pub kind: AlgorithmKind,
    /// Its quota at the latest reservation, by which units are given back.
    pub quota: Quota,
    /// Its state.
    pub base: Option<Record>,
    holds: BTreeMap<Box<[u8]>, Hold>,
    /// The same reservations in the order in which their time is up.
    by_time: BTreeSet<(Timestamp, Box<[u8]>)>,
    id_bytes: usize,
}

/// How a reservation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The cost that counts.
    pub actual: u64,
    /// Units given back.
    pub released: u64,
    /// It had ended before, with this result.
    pub before: bool,
}

impl Holds {
    /// No reservations on a limiter.
    pub fn new(kind: AlgorithmKind, quota: Quota, base: Option<Record>) -> Holds {
        Holds {
            kind,
            quota,
            base,
            holds: BTreeMap::new(),
            by_time: BTreeSet::new(),
            id_bytes: 0,
        }
    }

    /// Reservations read from elsewhere.
    pub(crate) fn from_holds(
        kind: AlgorithmKind,
        quota: Quota,
        base: Option<Record>,
        holds: impl IntoIterator<Item = (Box<[u8]>, Hold)>,
    ) -> Holds {
        let mut all = Holds::new(kind, quota, base);
        let unique: BTreeMap<_, _> = holds.into_iter().collect();
        for (id, hold) in unique {
            all.insert(&id, hold);
        }
        all
    }

    /// All reservations, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Hold)> {
        self.holds.iter().map(|(id, hold)| (&**id, *hold))
    }

    /// Number of reservations that are remembered.
    pub fn len(&self) -> usize {
        self.holds.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Bytes on the heap, about.
    pub fn heap_bytes(&self) -> usize {
        // Name and time stand in both trees, whose nodes are about two thirds full.
        const ENTRY: usize =
            (2 * size_of::<Box<[u8]>>() + size_of::<Hold>() + size_of::<Timestamp>()) * 3 / 2;
        self.len() * ENTRY + 2 * self.id_bytes
    }

    /// When neither the state nor a reservation counts any more, Unix milliseconds.
    pub fn expires_at_ms(&self) -> i64 {
        let last = self.by_time.last().map(|(at, _)| at.millis_ceil());
        let base = self.base.map(|record| record.expires_at_ms);
        last.max(base).unwrap_or_default()
    }

    /// Takes `amount` in advance for `ttl`. A name that is reserved already is answered as it was admitted, and takes
    /// nothing more.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn reserve(
        &mut self,
        id: &[u8],
        kind: AlgorithmKind,
        quota: &Quota,
        amount: Cost,
        ttl: Nanos,
        now: Timestamp,
    ) -> Result<Decision, KindMismatch> {
        self.expire(now)?;
        if self.holds.contains_key(id) {
            let (decision, _) = kind.decide(self.base, quota, Cost(0), now)?;
            return Ok(Decision {
                allowed: true,
                retry_after: Some(0),
                ..decision
            });
        }
        let (decision, next) = kind.decide(self.base, quota, amount, now)?;
        if !decision.allowed {
            return Ok(decision);
        }
        if self.holds.len() >= HOLDS_MAX {
            let wait = self.soonest(now);
            return Ok(Decision {
                allowed: false,
                retry_after: Some(wait),
                ..kind.decide(self.base, quota, Cost(0), now)?.0
            });
        }
        self.base = next.or(self.base);
        (self.kind, self.quota) = (kind, *quota);
        let hold = Hold {
            amount: amount.0,
            expires_at: now.plus(ttl.max(1)),
            ended: None,
            counts_until: self.base.map_or(now, |base| kind.counts_until(base, quota)),
        };
        self.insert(id, hold);
        Ok(decision)
    }

    /// Ends a reservation with its actual cost (0 cancels it): what was too much is given back, what was too little is
    /// charged, even above the limit. `None` when there is no such reservation, or its time is up.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn end(
        &mut self,
        id: &[u8],
        actual: u64,
        now: Timestamp,
    ) -> Result<Option<Ended>, KindMismatch> {
        self.expire(now)?;
        let Some(hold) = self.holds.get_mut(id) else {
            return Ok(None);
        };
        if let Some(actual) = hold.ended {
            return Ok(Some(Ended {
                actual,
                released: hold.amount.saturating_sub(actual),
                before: true,
            }));
        }
        hold.ended = Some(actual);
        let (amount, until) = (hold.amount, hold.counts_until);
        if actual < amount {
            self.give_back(&mut [(until, amount - actual)], now)?;
        } else if actual > amount {
            self.base = self
                .kind
                .charge(self.base, &self.quota, actual - amount, now)?
                .or(self.base);
        }
        Ok(Some(Ended {
            actual,
            released: amount.saturating_sub(actual),
            before: false,
        }))
    }

    /// Gives back what nobody has ended in time, and forgets what has ended.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn expire(&mut self, now: Timestamp) -> Result<(), KindMismatch> {
        let mut over = Vec::new();
        while let Some((at, _)) = self.by_time.first()
            && *at <= now
            && let Some((_, id)) = self.by_time.pop_first()
        {
            self.id_bytes -= id.len();
            if let Some(Hold {
                amount,
                ended: None,
                counts_until,
                ..
            }) = self.holds.remove(&id)
            {
                over.push((counts_until, amount));
            }
        }
        self.give_back(&mut over, now)
    }

    /// Gives back up to `units` that were taken without a name; true when something was.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn refund(
        &mut self,
        kind: AlgorithmKind,
        quota: &Quota,
        units: u64,
        now: Timestamp,
    ) -> Result<bool, KindMismatch> {
        let Some(record) = self.base else {
            return Ok(false);
        };
        let next = kind.refund(record, quota, units, now)?;
        Ok(self.refunded(record, next))
    }

    /// The same of units that were taken at a time, as far as those count still.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub(crate) fn refund_taken(
        &mut self,
        kind: AlgorithmKind,
        quota: &Quota,
        units: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> Result<bool, KindMismatch> {
        let Some(record) = self.base else {
            return Ok(false);
        };
        let until = kind.until_of(record, quota, units, taken);
        let next = kind.refund_held(record, quota, units, until, now)?;
        Ok(self.refunded(record, next))
    }

    /// Takes up what a refund leaves of the record, if it changes it; whether it does.
    fn refunded(&mut self, record: Record, next: Option<Record>) -> bool {
        if let Some(next) = next {
            // Nobody knows which of the units they were: perhaps some that were taken before all reservations.
            let sooner = self.sooner(record, next);
            self.base = Some(next);
            self.bring_forward(&[(Timestamp::from_nanos(i64::MIN), sooner)]);
        }
        next.is_some()
    }

    /// Time until the next reservation's time is up; 0 also when there is none.
    fn soonest(&self, now: Timestamp) -> Nanos {
        match self.by_time.first() {
            Some((at, _)) if *at > now => at.nanos().abs_diff(now.nanos()),
            _ => 0,
        }
    }

    fn insert(&mut self, id: &[u8], hold: Hold) {
        self.id_bytes += id.len();
        self.by_time.insert((hold.expires_at, id.into()));
        self.holds.insert(id.into(), hold);
    }

    /// Gives units back as far as they count still: until when they do, and how many.
    fn give_back(
        &mut self,
        over: &mut [(Timestamp, u64)],
        now: Timestamp,
    ) -> Result<(), KindMismatch> {
        over.sort_unstable();
        let (mut steps, mut sum) = (Vec::new(), 0_i64);
        for &mut (until, units) in over {
            let Some(record) = self.base else {
                break;
            };
            let next =
                self.kind
                    .refund_held(record, &self.quota, units, earlier(until, sum), now)?;
            if let Some(next) = next {
                sum = sum.saturating_add(self.sooner(record, next));
                self.base = Some(next);
                steps.push((until, sum));
            }
        }
        self.bring_forward(&steps);
        Ok(())
    }

    /// By how much sooner a bucket has earned all again, in nanoseconds; a window ends when it ends.
    fn sooner(&self, before: Record, next: Record) -> i64 {
        if !self.kind.is_bucket() {
            return 0;
        }
        let end = |record| self.kind.counts_until(record, &self.quota).nanos();
        end(before).saturating_sub(end(next))
    }

    /// What a bucket has to earn after units that came back, it earns so much sooner: the sum of all that counted up to a time,
    /// in the order of those times.
    fn bring_forward(&mut self, steps: &[(Timestamp, i64)]) {
        if steps.last().is_none_or(|(_, sum)| *sum == 0) {
            return;
        }
        for hold in self.holds.values_mut() {
            let before = steps.partition_point(|(until, _)| *until < hold.counts_until);
            if let Some((_, sum)) = before.checked_sub(1).and_then(|at| steps.get(at)) {
                hold.counts_until = earlier(hold.counts_until, *sum);
            }
        }
    }
}

fn earlier(time: Timestamp, span: i64) -> Timestamp {
    Timestamp::from_nanos(time.nanos().saturating_sub(span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LimiterState;

    const SECOND: Nanos = 1_000_000_000;
    const TEN: Quota = Quota::new(10, 60 * SECOND);
    const KIND: AlgorithmKind = AlgorithmKind::FixedWindow;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn remaining(holds: &Holds, now: Timestamp) -> u64 {
        KIND.decide(holds.base, &TEN, Cost(0), now)
            .expect("one algorithm")
            .0
            .remaining
    }

    fn reserve(holds: &mut Holds, id: &str, amount: u64, now: i64) -> Decision {
        holds
            .reserve(id.as_bytes(), KIND, &TEN, Cost(amount), SECOND, at(now))
            .expect("one algorithm")
    }

    fn end(holds: &mut Holds, id: &str, actual: u64, now: i64) -> Option<Ended> {
        holds
            .end(id.as_bytes(), actual, at(now))
            .expect("one algorithm")
    }

    #[test]
    fn what_was_too_much_is_given_back() {
        let mut holds = Holds::new(KIND, TEN, None);
        assert!(reserve(&mut holds, "a", 8, 0).allowed);
        assert!(!reserve(&mut holds, "b", 3, 1).allowed);
        let ended = end(&mut holds, "a", 2, 2).expect("reserved");
        assert_eq!((ended.actual, ended.released, ended.before), (2, 6, false));
        assert_eq!(remaining(&holds, at(2)), 8);
    }

    #[test]
    fn ending_twice_counts_once() {
        let mut holds = Holds::new(KIND, TEN, None);
        reserve(&mut holds, "a", 8, 0);
        assert_eq!(reserve(&mut holds, "a", 8, 1).remaining, 2);
        end(&mut holds, "a", 4, 2);
        let again = end(&mut holds, "a", 0, 3).expect("remembered");
        assert_eq!((again.actual, again.before), (4, true));
        assert_eq!(remaining(&holds, at(3)), 6);
    }

    #[test]
    fn more_than_reserved_is_charged() {
        let mut holds = Holds::new(KIND, TEN, None);
        reserve(&mut holds, "a", 8, 0);
        end(&mut holds, "a", 13, 1);
        assert_eq!(remaining(&holds, at(1)), 0);
        assert!(!reserve(&mut holds, "b", 0, 2).allowed);
    }

    #[test]
    fn a_reservation_that_nobody_ends_gives_itself_back() {
        let mut holds = Holds::new(KIND, TEN, None);
        reserve(&mut holds, "a", 10, 0);
        assert!(!reserve(&mut holds, "b", 1, 999).allowed);
        assert!(reserve(&mut holds, "b", 10, 1_000).allowed);
        assert_eq!(end(&mut holds, "a", 1, 1_001), None);
        assert_eq!(holds.len(), 1);
    }

    #[test]
    fn cancelling_gives_all_back() {
        let mut holds = Holds::new(KIND, TEN, None);
        reserve(&mut holds, "a", 10, 0);
        assert_eq!(end(&mut holds, "a", 0, 1).expect("reserved").released, 10);
        assert!(reserve(&mut holds, "b", 10, 1).allowed);
    }

    #[test]
    fn units_of_a_window_that_has_passed_do_not_come_back() {
        for (kind, end_it) in [
            (KIND, false),
            (KIND, true),
            (AlgorithmKind::SlidingWindow, true),
        ] {
            let second = Quota::new(10, SECOND);
            let mut holds = Holds::new(kind, second, None);
            let mut reserve = |id: &[u8], amount, ms| {
                let made = holds.reserve(id, kind, &second, Cost(amount), 5 * SECOND, at(ms));
                made.expect("one algorithm").allowed
            };
            assert!(reserve(b"a", 10, 0));
            // Its window is over, and the next one is used up.
            assert!(reserve(b"b", 10, 4_500));
            if end_it {
                holds.end(b"a", 0, at(4_600)).expect("one algorithm");
            } else {
                holds.expire(at(5_000)).expect("one algorithm");
            }
            let used = holds.base.map(|record| record.state);
            assert!(
                matches!(
                    used,
                    Some(LimiterState::FixedWindow { count: 10 })
                        | Some(LimiterState::SlidingWindow { current: 10, .. })
                ),
                "{used:?}"
            );
        }
    }

    #[test]
    fn units_that_a_bucket_has_earned_again_do_not_come_back() {
        for kind in [
            AlgorithmKind::Gcra,
            AlgorithmKind::TokenBucket,
            AlgorithmKind::LeakyBucket,
        ] {
            let second = Quota::new(10, SECOND);
            let mut holds = Holds::new(kind, second, None);
            let mut left = |ended: &[u8], id: &[u8], amount, ms| {
                if !ended.is_empty() {
                    holds.end(ended, 0, at(ms)).expect("one algorithm");
                }
                let made = holds.reserve(id, kind, &second, Cost(amount), 9 * SECOND, at(ms));
                made.expect("one algorithm").remaining
            };
            assert_eq!(left(b"", b"a", 4, 0), 6);
            assert_eq!(left(b"", b"b", 4, 0), 2);
            // Whichever is cancelled first, both come back.
            assert_eq!(left(b"b", b"look", 0, 0), 6);
            assert_eq!(left(b"a", b"look2", 0, 0), 10);
            assert_eq!(left(b"", b"c", 4, 0), 6);
            assert_eq!(left(b"", b"d", 6, 0), 0);
            // Those of the first are earned again, and taken by another.
            assert_eq!(left(b"", b"e", 4, 400), 0);
            assert_eq!(left(b"c", b"look3", 0, 400), 0);
            assert_eq!(left(b"d", b"look4", 0, 400), 6);
            assert_eq!(left(b"e", b"look5", 0, 400), 10);
        }
    }
}
