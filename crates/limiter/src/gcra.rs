//! Generic cell rate algorithm: a token bucket whose whole state is one time.
//!
//! The state is the theoretical arrival time (TAT): when the bucket is full again. A unit of cost moves it on
//! by the increment; a request passes while the TAT stays within the tolerance ahead of now. So in any
//! interval of length `t` at most `burst + t * rate` units pass. It is the virtual scheduling algorithm of ITU-T I.371.
//!
//! The increment is `period / limit` rounded **up** to the resolution (1 ns here, 1 us in the scripts for
//! remote stores, whose numbers are doubles), so rounding never admits more than the quota says. Rates above
//! some ten million per second feel the whole nanosecond.

use crate::types::{Cost, Decision, Nanos, Quota, Timestamp};

/// The state of one limiter: the theoretical arrival time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// When the bucket is full again.
    pub tat: Timestamp,
}

/// A tolerance is at most this long (73 years), so that a TAT stays representable in both this code and
/// the microsecond doubles of the scripts. Bursts that would need more are cut to it.
pub const MAX_TOLERANCE: Nanos = 1 << 61;

/// A quota made ready for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    /// Time one unit of cost is worth, at least the resolution.
    pub increment: Nanos,
    /// How far the TAT may run ahead of now: `burst * increment`, at most [`MAX_TOLERANCE`].
    pub tolerance: Nanos,
    /// Units that pass at one instant.
    pub burst: u64,
}

impl Gcra {
    /// Prepares a quota with nanosecond increments.
    #[inline]
    pub fn new(quota: &Quota) -> Self {
        Self::with_resolution(quota, 1)
    }

    /// Prepares a quota whose increment is a whole multiple of `resolution` nanoseconds (not 0).
    pub fn with_resolution(quota: &Quota, resolution: Nanos) -> Self {
        if quota.limit == 0 {
            return Self {
                increment: resolution,
                tolerance: 0,
                burst: 0,
            };
        }
        let increment = quota
            .period
            .div_ceil(quota.limit)
            .div_ceil(resolution)
            .max(1)
            .saturating_mul(resolution);
        let burst = quota.burst.min(MAX_TOLERANCE / increment);
        Self {
            increment,
            tolerance: burst * increment,
            burst,
        }
    }

    /// Decides one request. The second value is the state to store; `None` leaves things as they are.
    #[inline]
    pub fn decide(
        &self,
        state: Option<State>,
        cost: Cost,
        now: Timestamp,
    ) -> (Decision, Option<State>) {
        let ahead = state.map_or(0, |state| ahead(state.tat, now));
        if cost.0 > self.burst {
            return (self.decision(false, ahead, None), None);
        }
        // The cost is at most the burst, so the product is at most the tolerance.
        let taken = cost.0 * self.increment;
        let wanted = ahead.saturating_add(taken);
        if wanted > self.tolerance {
            return (
                self.decision(false, ahead, Some(wanted - self.tolerance)),
                None,
            );
        }
        let Some(tat) = now.nanos().checked_add_unsigned(wanted) else {
            // A TAT past the end of time cannot be stored, and what cannot be stored must not pass.
            return (self.decision(false, ahead, None), None);
        };
        let store = (taken > 0).then_some(State {
            tat: Timestamp::from_nanos(tat),
        });
        (self.decision(true, wanted, Some(0)), store)
    }

    fn decision(&self, allowed: bool, ahead: Nanos, retry_after: Option<Nanos>) -> Decision {
        Decision {
            allowed,
            limit: self.burst,
            remaining: self.tolerance.saturating_sub(ahead) / self.increment,
            retry_after,
            reset_after: ahead,
        }
    }
}

/// Decides one request with nanosecond increments. The second value is the state to store.
#[inline]
pub fn decide(
    state: Option<State>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> (Decision, Option<State>) {
    Gcra::new(quota).decide(state, cost, now)
}

/// How far a TAT lies ahead of now; a TAT in the past counts as now.
fn ahead(tat: Timestamp, now: Timestamp) -> Nanos {
    if tat > now {
        tat.nanos().abs_diff(now.nanos())
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate() {
        let quota = Quota::new(3, SECOND).with_burst(5);
        let start = Timestamp::from_secs(1_000);
        let mut state = None;
        for left in (0..5).rev() {
            let (decision, next) = decide(state, &quota, Cost(1), start);
            assert!(decision.allowed);
            assert_eq!((decision.limit, decision.remaining), (5, left));
            state = next;
        }
        let (denied, kept) = decide(state, &quota, Cost(1), start);
        assert_eq!((denied.allowed, kept), (false, None));
        let wait = denied.retry_after.expect("a cost of one fits the burst");
        assert_eq!(wait, 333_333_334);
        assert!(
            !decide(state, &quota, Cost(1), start.plus(wait - 1))
                .0
                .allowed
        );
        assert!(decide(state, &quota, Cost(1), start.plus(wait)).0.allowed);
    }

    #[test]
    fn a_returning_key_has_one_burst_and_not_two() {
        let quota = Quota::new(10, SECOND);
        let start = Timestamp::from_secs(50);
        let (_, mut state) = decide(None, &quota, Cost(1), start);
        let later = start.plus(99_999_999);
        let mut passed = 0;
        while let (Decision { allowed: true, .. }, next) = decide(state, &quota, Cost(1), later) {
            (state, passed) = (next, passed + 1);
        }
        assert_eq!(passed, 9);
    }

    #[test]
    fn a_cost_above_the_burst_never_passes() {
        let (decision, store) = decide(None, &Quota::new(3, SECOND), Cost(4), Timestamp::default());
        assert_eq!(
            (
                decision.allowed,
                decision.retry_after,
                decision.remaining,
                store
            ),
            (false, None, 3, None)
        );
        let (zero, _) = decide(None, &Quota::new(0, SECOND), Cost(1), Timestamp::default());
        assert_eq!(
            (zero.allowed, zero.retry_after, zero.remaining),
            (false, None, 0)
        );
    }

    #[test]
    fn what_cannot_be_stored_does_not_pass() {
        let quota = Quota::new(1, 3_600 * SECOND).with_burst(u64::MAX);
        let (decision, store) = decide(None, &quota, Cost(1), Timestamp::from_nanos(i64::MAX));
        assert_eq!((decision.allowed, store), (false, None));
        let (past, _) = decide(
            Some(State {
                tat: Timestamp::from_nanos(i64::MAX),
            }),
            &quota,
            Cost(u64::MAX),
            Timestamp::from_nanos(i64::MIN),
        );
        assert_eq!(
            (past.allowed, past.retry_after, past.reset_after),
            (false, None, u64::MAX)
        );
    }

    #[test]
    fn a_step_back_mints_nothing() {
        let quota = Quota::new(2, SECOND);
        let (_, state) = decide(None, &quota, Cost(2), Timestamp::from_secs(100));
        let (denied, _) = decide(state, &quota, Cost(1), Timestamp::from_secs(10));
        assert_eq!(
            (denied.allowed, denied.retry_after),
            (false, Some(90 * SECOND + SECOND / 2))
        );
    }

    #[test]
    fn a_coarse_resolution_rounds_the_increment_up() {
        let gcra = Gcra::with_resolution(&Quota::new(3, SECOND), 1_000);
        assert_eq!(
            (gcra.increment, gcra.tolerance),
            (333_334_000, 1_000_002_000)
        );
    }
}
