//! Sliding log: every interval of one period holds at most `limit` units, exactly.
//!
//! The log keeps each admitted request that is younger than the period. It is bounded: above [`ENTRIES_MAX`] the two
//! oldest requests become one at the time of the younger, which can only delay what passes, never admit more.
//!
//! A clock that steps back is held at the time of the newest request.

use std::collections::VecDeque;

use crate::types::{Cost, Decision, Nanos, Quota, Timestamp};

/// Most requests kept.
pub const ENTRIES_MAX: usize = 1_000;

/// An admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// When it was admitted.
    pub at: Timestamp,
    /// What it took.
    pub cost: u64,
}

/// The admitted requests of one key, in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingLog {
    hits: VecDeque<Hit>,
    /// Sum of all costs.
    total: u64,
}

impl SlidingLog {
    /// A log of these hits; sorted, merged where they exceed the bound.
    pub(crate) fn from_hits(hits: impl IntoIterator<Item = Hit>) -> SlidingLog {
        let mut hits: Vec<Hit> = hits.into_iter().filter(|hit| hit.cost > 0).collect();
        hits.sort_by_key(|hit| hit.at);
        let mut log = SlidingLog::default();
        for hit in hits {
            log.push(hit);
        }
        log
    }

    /// The admitted requests, oldest first.
    pub fn hits(&self) -> impl ExactSizeIterator<Item = Hit> + '_ {
        self.hits.iter().copied()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.hits.capacity() * size_of::<Hit>()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.hits.is_empty()
    }

    /// When nothing of the log counts any more.
    pub fn expires_at(&self, quota: &Quota) -> Option<Timestamp> {
        self.hits.back().map(|hit| hit.at.plus(period(quota)))
    }

    /// Decides one request, and remembers it if it is admitted and not only a look.
    pub fn decide(&mut self, quota: &Quota, cost: Cost, peek: bool, now: Timestamp) -> Decision {
        let now_here = self.hits.back().map_or(now, |newest| now.max(newest.at));
        let live = self.live_from(quota, now_here);
        let expired: u64 = self.hits.range(..live).map(|hit| hit.cost).sum();
        let used = self.total - expired;
        let left = quota.limit.saturating_sub(used);
        let allowed = used <= quota.limit && cost.0 <= left;
        if !allowed {
            let possible = cost.0 <= quota.limit;
            return Decision {
                allowed,
                limit: quota.limit,
                remaining: left,
                retry_after: possible
                    .then(|| self.passes_at(live, quota, used, cost.0))
                    .map(|at| span(now, at)),
                reset_after: self.reset_after(live, quota, now),
            };
        }
        let taken = if peek { 0 } else { cost.0 };
        if taken > 0 {
            self.forget(live, expired);
            self.push(Hit {
                at: now_here,
                cost: taken,
            });
        }
        let reset_after = match (taken, cost.0) {
            (0, 0) => self.reset_after(live, quota, now),
            // A look tells what taking would leave.
            _ => span(now, now_here.plus(period(quota))),
        };
        Decision {
            allowed,
            limit: quota.limit,
            remaining: left - cost.0,
            retry_after: Some(0),
            reset_after,
        }
    }

    /// Gives back up to `units`, those taken last first. Returns how many.
    pub fn refund(&mut self, units: u64) -> u64 {
        let mut left = units;
        while let Some(newest) = self.hits.back_mut().filter(|_| left > 0) {
            let back = newest.cost.min(left);
            newest.cost -= back;
            left -= back;
            self.total -= back;
            if newest.cost == 0 {
                self.hits.pop_back();
            }
        }
        units - left
    }

    /// The first hit that still counts.
    fn live_from(&self, quota: &Quota, now: Timestamp) -> usize {
        let period = period(quota);
        self.hits.partition_point(|hit| hit.at.plus(period) <= now)
    }

    /// When so much has expired that the cost fits.
    fn passes_at(&self, live: usize, quota: &Quota, used: u64, cost: u64) -> Timestamp {
        let mut surplus = used.saturating_add(cost).saturating_sub(quota.limit);
        for hit in self.hits.range(live..) {
            surplus = surplus.saturating_sub(hit.cost);
            if surplus == 0 {
                return hit.at.plus(period(quota));
            }
        }
        // Only sums that have left the range of numbers come here: all of the log must have expired.
        self.hits
            .back()
            .map_or(Timestamp::default(), |hit| hit.at.plus(period(quota)))
    }

    fn reset_after(&self, live: usize, quota: &Quota, now: Timestamp) -> Nanos {
        match self.hits.back() {
            Some(newest) if live < self.hits.len() => span(now, newest.at.plus(period(quota))),
            _ => 0,
        }
    }

    fn forget(&mut self, live: usize, expired: u64) {
        self.hits.drain(..live);
        self.total -= expired;
    }

    fn push(&mut self, hit: Hit) {
        // The sum stays below the limit, except where a log is read from elsewhere.
        self.total = self.total.saturating_add(hit.cost);
        if let Some(newest) = self.hits.back_mut().filter(|newest| newest.at == hit.at) {
            newest.cost = newest.cost.saturating_add(hit.cost);
            return;
        }
        if self.hits.len() >= ENTRIES_MAX
            && let Some(oldest) = self.hits.pop_front()
            && let Some(next) = self.hits.front_mut()
        {
            next.cost = next.cost.saturating_add(oldest.cost);
        }
        self.hits.push_back(hit);
    }
}

/// A period of 0 would make every hit expire at once.
fn period(quota: &Quota) -> Nanos {
    quota.period.max(1)
}

fn span(from: Timestamp, to: Timestamp) -> Nanos {
    if to > from {
        to.nanos().abs_diff(from.nanos())
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Quota = Quota::new(3, 1_000_000_000);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn any_interval_holds_at_most_the_limit() {
        let mut log = SlidingLog::default();
        for ms in [0, 400, 900] {
            assert!(log.decide(&SECOND, Cost(1), false, at(ms)).allowed);
        }
        let denied = log.decide(&SECOND, Cost(1), false, at(999));
        assert_eq!(
            (denied.allowed, denied.retry_after, denied.reset_after),
            (false, Some(1_000_000), 901_000_000)
        );
        assert!(log.decide(&SECOND, Cost(1), false, at(1_000)).allowed);
        let two = log.decide(&SECOND, Cost(2), false, at(1_000));
        assert_eq!((two.allowed, two.retry_after), (false, Some(900_000_000)));
    }

    #[test]
    fn above_its_bound_the_log_waits_longer_and_admits_no_more() {
        let quota = Quota::new(10 * ENTRIES_MAX as u64, 1_000_000_000);
        let mut log = SlidingLog::default();
        for i in 0..10 * ENTRIES_MAX as i64 {
            let now = Timestamp::from_nanos(i * 1_000);
            assert!(log.decide(&quota, Cost(1), false, now).allowed);
        }
        assert_eq!(log.hits().len(), ENTRIES_MAX);
        let denied = log.decide(&quota, Cost(1), false, Timestamp::from_nanos(999_999_999));
        assert!(!denied.allowed);
        assert!(denied.retry_after > Some(1_000));
    }

    #[test]
    fn looking_changes_nothing_and_refunds_take_the_latest() {
        let mut log = SlidingLog::default();
        log.decide(&SECOND, Cost(2), false, at(0));
        let before = log.clone();
        assert_eq!(log.decide(&SECOND, Cost(1), true, at(1)).remaining, 0);
        assert_eq!(log, before);
        log.decide(&SECOND, Cost(1), false, at(500));
        assert_eq!(log.refund(2), 2);
        assert_eq!(log.hits().collect::<Vec<_>>(), [Hit { at: at(0), cost: 1 }]);
        assert_eq!(log.refund(9), 1);
        assert!(log.is_empty());
    }

    #[test]
    fn a_step_back_forgets_nothing() {
        let mut log = SlidingLog::default();
        log.decide(&SECOND, Cost(3), false, at(5_000));
        let denied = log.decide(&SECOND, Cost(1), false, at(1_000));
        assert_eq!(
            (denied.allowed, denied.retry_after),
            (false, Some(5_000_000_000))
        );
    }
}
