//! Token bucket: `burst` tokens at most, `limit` tokens earned evenly in each `period`.
//!
//! The state is the time at which the bucket is full again, kept as whole nanoseconds and a fraction with the limit as
//! its denominator. So a token is worth exactly `period / limit`, where [`gcra`](crate::gcra) rounds that up to
//! whole nanoseconds: a bucket of 3 tokens a second gives 3, not 2.999999997.

use crate::gcra::MAX_TOLERANCE;
use crate::types::{Cost, Decision, Nanos, Quota, Timestamp};

/// When the bucket is full again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Whole nanoseconds, rounded towards the past.
    pub full_at: Timestamp,
    /// What is missing to the exact time, in nanoseconds divided by the limit.
    pub part: u64,
}

impl State {
    /// The first whole nanosecond at which the bucket is full.
    pub(crate) fn full_at_ceil(self) -> Timestamp {
        self.full_at.plus(u64::from(self.part > 0))
    }
}

/// Decides one request. The second value is the state to store; `None` leaves things as they are.
pub fn decide(
    state: Option<State>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> (Decision, Option<State>) {
    let bucket = Bucket::new(quota);
    let owed = state.map_or(0, |state| bucket.owed(state, now));
    if cost.0 > bucket.burst {
        return (bucket.decision(false, owed, None), None);
    }
    let wanted = owed.saturating_add(u128::from(cost.0) * bucket.period);
    if wanted > bucket.capacity {
        let wait = to_nanos((wanted - bucket.capacity).div_ceil(bucket.limit));
        return (bucket.decision(false, owed, Some(wait)), None);
    }
    let Some(state) = bucket.state(wanted, now) else {
        // A time past the end of the clock cannot be stored, and what cannot be stored must not pass.
        return (bucket.decision(false, owed, None), None);
    };
    let decision = bucket.decision(true, wanted, Some(0));
    (decision, (cost.0 > 0).then_some(state))
}

/// Gives tokens back; `None` when the bucket is full already.
pub fn refund(state: State, quota: &Quota, units: u64, now: Timestamp) -> Option<State> {
    refund_within(state, quota, units, Nanos::MAX, now)
}

/// The same, but no more than is earned in `span`.
pub(crate) fn refund_within(
    state: State,
    quota: &Quota,
    units: u64,
    span: Nanos,
    now: Timestamp,
) -> Option<State> {
    let bucket = Bucket::new(quota);
    let owed = bucket.owed(state, now);
    let most = u128::from(span) * bucket.limit;
    let back = u128::from(units).saturating_mul(bucket.period).min(most);
    if owed == 0 || back == 0 {
        return None;
    }
    bucket.state(owed.saturating_sub(back), now)
}

/// How long it takes until `units` are earned.
pub(crate) fn earned_in(quota: &Quota, units: u64) -> Nanos {
    let bucket = Bucket::new(quota);
    to_nanos((u128::from(units) * bucket.period).div_ceil(bucket.limit))
}

/// A bucket in which at least `units` are missing, as far as whole nanoseconds tell.
pub(crate) fn owing(state: Option<State>, quota: &Quota, units: u64, now: Timestamp) -> State {
    let bucket = Bucket::new(quota);
    let earned = to_nanos(u128::from(units) * bucket.period / bucket.limit);
    let full_at = now.plus(earned);
    match state {
        Some(state) if state.full_at >= full_at => state,
        _ => State { full_at, part: 0 },
    }
}

/// A quota made ready for decisions. Amounts of tokens are kept in token-periods: one token is `period`, one
/// nanosecond earns `limit`.
struct Bucket {
    limit: u128,
    period: u128,
    burst: u64,
    capacity: u128,
}

impl Bucket {
    fn new(quota: &Quota) -> Bucket {
        // A token that takes no time, or less than a nanosecond, would be no limit: the unit of time is one.
        let limit = quota.limit.max(1);
        let period = u128::from(quota.period.max(1));
        let longest = u128::from(MAX_TOLERANCE) * u128::from(limit) / period;
        let burst = match quota.limit {
            0 => 0,
            _ => quota.burst.min(u64::try_from(longest).unwrap_or(u64::MAX)),
        };
        Bucket {
            limit: u128::from(limit),
            period,
            burst,
            capacity: u128::from(burst) * period,
        }
    }

    /// What is missing to a full bucket, in token-periods.
    fn owed(&self, state: State, now: Timestamp) -> u128 {
        // A part that is too large comes from another limit: it counts as a whole nanosecond.
        let part = u128::from(state.part).min(self.limit);
        if state.full_at < now {
            return 0;
        }
        let ahead = state.full_at.nanos().abs_diff(now.nanos());
        u128::from(ahead) * self.limit + part
    }

    /// The state in which so much is missing; `None` past the end of the clock.
    fn state(&self, owed: u128, now: Timestamp) -> Option<State> {
        let ahead = u64::try_from(owed / self.limit).ok()?;
        let full_at = now.nanos().checked_add_unsigned(ahead)?;
        Some(State {
            full_at: Timestamp::from_nanos(full_at),
            part: (owed % self.limit) as u64,
        })
    }

    fn decision(&self, allowed: bool, owed: u128, retry_after: Option<Nanos>) -> Decision {
        Decision {
            allowed,
            limit: self.burst,
            remaining: to_nanos(self.capacity.saturating_sub(owed) / self.period),
            retry_after,
            reset_after: to_nanos(owed.div_ceil(self.limit)),
        }
    }
}

fn to_nanos(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn thirds_of_a_second_add_up_to_a_second() {
        let quota = Quota::new(3, SECOND).with_burst(1);
        let start = Timestamp::from_secs(7);
        let (_, mut state) = decide(None, &quota, Cost(1), start);
        for _ in 0..3_000 {
            let now = state.expect("taken").full_at_ceil();
            let (decision, next) = decide(state, &quota, Cost(1), now);
            assert!(decision.allowed);
            state = next.or(state);
        }
        // Taking each token at the first nanosecond after it is there loses less than one nanosecond a token.
        let full = state.expect("taken").full_at.nanos() - start.nanos();
        assert!(
            (1_000_333_333_333..1_000_333_337_000).contains(&full),
            "{full}"
        );
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let quota = Quota::new(3, SECOND).with_burst(5);
        let now = Timestamp::from_secs(100);
        let (all, state) = decide(None, &quota, Cost(5), now);
        assert_eq!(
            (all.allowed, all.remaining, all.reset_after),
            (true, 0, 1_666_666_667)
        );
        let (denied, _) = decide(state, &quota, Cost(3), now);
        assert_eq!((denied.allowed, denied.retry_after), (false, Some(SECOND)));
        let (passes, _) = decide(state, &quota, Cost(3), now.plus(SECOND));
        assert!(passes.allowed);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_no_more() {
        let quota = Quota::new(3, SECOND);
        let now = Timestamp::from_secs(100);
        let (_, state) = decide(None, &quota, Cost(3), now);
        let back = refund(state.expect("taken"), &quota, 2, now);
        assert_eq!(decide(back, &quota, Cost(0), now).0.remaining, 2);
        let full = refund(state.expect("taken"), &quota, u64::MAX, now);
        assert_eq!(decide(full, &quota, Cost(0), now).0.remaining, 3);
        assert_eq!(
            refund(full.expect("refunded"), &quota, 1, now.plus(1)),
            None
        );
    }
}
