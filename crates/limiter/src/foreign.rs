//! GCRA as other servers' commands have it: their arguments, units, rounding and replies.

use crate::gcra::{Gcra, MAX_TOLERANCE, State};
use crate::types::{Cost, Decision, Nanos, Timestamp};

const NANOS_PER_SEC: u64 = 1_000_000_000;
const NANOS_PER_MICRO: u64 = 1_000;

/// The largest period of `GCRA`, in seconds.
const PERIOD_MAX: f64 = 1e12;
/// The longest time that it knows, in microseconds.
const MICROS_MAX: u64 = i64::MAX as u64;

/// `THROTTLE` of throttlecrab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crab {
    /// Units that pass at one instant.
    pub max_burst: i64,
    /// Units earned per period.
    pub count: i64,
    /// Length of the period in seconds.
    pub period_secs: i64,
    /// What the request weighs; 0 only looks.
    pub quantity: i64,
}

/// Its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrabReply {
    /// Whether the request may pass.
    pub allowed: bool,
    /// `max_burst`.
    pub limit: i64,
    /// Units that could still pass now.
    pub remaining: i64,
    /// Seconds until all units are there again.
    pub reset_after: i64,
    /// Seconds to wait; 0 when the request passed. Rounded up, where throttlecrab truncates: a client that waits as told is
    /// then let through, and never told to wait 0 s after a denial.
    pub retry_after: i64,
}

impl Crab {
    /// Decides one request on the stored theoretical arrival time; the second value is the one to store. `None` when one of
    /// the three parameters is not positive.
    pub fn decide(
        &self,
        tat: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<(CrabReply, Option<Timestamp>)> {
        let positive = |n: i64| u64::try_from(n).ok().filter(|&n| n > 0);
        let burst = positive(self.max_burst)?;
        let count = positive(self.count)?;
        let period = positive(self.period_secs)?.saturating_mul(NANOS_PER_SEC);
        let gcra = prepared(period.div_ceil(count).max(1), burst);
        let cost = Cost(u64::try_from(self.quantity).ok()?);
        let (decision, next) = gcra.decide(tat.map(|tat| State { tat }), cost, now);
        let reply = CrabReply {
            allowed: decision.allowed,
            limit: self.max_burst,
            remaining: units(decision.remaining),
            reset_after: ceil_secs(decision.reset_after),
            retry_after: decision.retry_after.map_or(-1, ceil_secs),
        };
        Some((reply, next.map(|next| next.tat)))
    }
}

/// `GCRA` of Redis (pull requests 14826 and 14950).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedisGcra {
    /// Units that may pass at one instant beyond the first.
    pub max_burst: u64,
    /// Units earned per period, at least 1.
    pub tokens: u64,
    /// Length of the period in seconds.
    pub period_secs: f64,
    /// What the request weighs, at least 1.
    pub cost: u64,
}

/// Why there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisGcraError {
    /// The period is not within its range.
    Period,
    /// The cost would take longer to earn than the clock lasts.
    CostOverflow,
    /// The burst would take longer to earn than the clock lasts.
    BurstOverflow,
}

/// Its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisGcraReply {
    /// Whether the request is refused.
    pub limited: bool,
    /// `max_burst + 1`.
    pub limit: i64,
    /// Units that could still pass now.
    pub remaining: i64,
    /// Seconds to wait, rounded up; -1 when the request passed or can never pass.
    pub retry_after: i64,
    /// Seconds until all units are there again, rounded up.
    pub full_after: i64,
}

impl RedisGcra {
    /// Decides one request on the stored theoretical arrival time; the second value is the one to store. Its clock has
    /// milliseconds, its arithmetic microseconds.
    ///
    /// # Errors
    /// See [`RedisGcraError`].
    pub fn decide(
        &self,
        tat: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(RedisGcraReply, Option<Timestamp>), RedisGcraError> {
        if !(self.period_secs > 0.0 && self.period_secs < PERIOD_MAX) {
            return Err(RedisGcraError::Period);
        }
        let micros = (self.period_secs * 1e6 / self.tokens.max(1) as f64).round();
        let micros = micros.max(1.0) as u64;
        let burst = self.max_burst.saturating_add(1);
        // What does not fit Redis' microseconds is told first, and in its order.
        let fits_micros = |units: u64| micros <= MICROS_MAX / units.max(1);
        if !fits_micros(self.cost) {
            return Err(RedisGcraError::CostOverflow);
        }
        if !fits_micros(burst) {
            return Err(RedisGcraError::BurstOverflow);
        }
        let increment = micros
            .checked_mul(NANOS_PER_MICRO)
            .ok_or(RedisGcraError::CostOverflow)?;
        let fits = |units: u64| {
            units
                .checked_mul(increment)
                .is_some_and(|span| span <= MAX_TOLERANCE)
        };
        if !fits(self.cost) {
            return Err(RedisGcraError::CostOverflow);
        }
        if !fits(burst) {
            return Err(RedisGcraError::BurstOverflow);
        }
        let gcra = prepared(increment, burst);
        let now = Timestamp::from_millis(now.millis());
        let (decision, next) = gcra.decide(tat.map(|tat| State { tat }), Cost(self.cost), now);
        Ok((self.reply(&decision), next.map(|next| next.tat)))
    }

    fn reply(&self, decision: &Decision) -> RedisGcraReply {
        let waits = !decision.allowed;
        RedisGcraReply {
            limited: waits,
            limit: units(self.max_burst.saturating_add(1)),
            remaining: units(decision.remaining),
            retry_after: match decision.retry_after {
                Some(wait) if waits => ceil_secs(wait),
                _ => -1,
            },
            full_after: ceil_secs(decision.reset_after),
        }
    }
}

fn prepared(increment: Nanos, burst: u64) -> Gcra {
    let burst = burst.min(MAX_TOLERANCE / increment);
    Gcra {
        increment,
        tolerance: burst * increment,
        burst,
    }
}

fn ceil_secs(span: Nanos) -> i64 {
    span.div_ceil(NANOS_PER_SEC) as i64
}

fn units(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returning_key_of_throttle_has_one_burst_and_not_two() {
        let crab = Crab {
            max_burst: 10,
            count: 10,
            period_secs: 10,
            quantity: 1,
        };
        let start = Timestamp::from_secs(100);
        let (_, mut tat) = crab.decide(None, start).expect("valid");
        let later = start.plus(999_999_999);
        let mut passed = 0;
        while let Some((reply, next)) = crab.decide(tat, later)
            && reply.allowed
        {
            passed += 1;
            tat = next.or(tat);
        }
        assert_eq!(passed, 9);
        let (denied, _) = crab.decide(tat, later).expect("valid");
        assert_eq!((denied.retry_after, denied.remaining), (1, 0));
    }

    #[test]
    fn throttle_looks_with_a_quantity_of_zero_and_refuses_nonsense() {
        let crab = Crab {
            max_burst: 5,
            count: 1,
            period_secs: 1,
            quantity: 0,
        };
        let now = Timestamp::from_secs(100);
        let (reply, next) = crab.decide(None, now).expect("valid");
        assert_eq!(
            (reply.allowed, reply.limit, reply.remaining, next),
            (true, 5, 5, None)
        );
        for bad in [
            Crab {
                max_burst: 0,
                ..crab
            },
            Crab { count: -1, ..crab },
            Crab {
                period_secs: 0,
                ..crab
            },
        ] {
            assert_eq!(bad.decide(None, now), None);
        }
    }

    #[test]
    fn gcra_answers_in_whole_seconds_rounded_up() {
        let gcra = RedisGcra {
            max_burst: 1,
            tokens: 2,
            period_secs: 3.0,
            cost: 1,
        };
        let now = Timestamp::from_nanos(5_000_999_999);
        let (first, tat) = gcra.decide(None, now).expect("valid");
        assert_eq!((first.limited, first.limit, first.remaining), (false, 2, 1));
        assert_eq!((first.retry_after, first.full_after), (-1, 2));
        let (_, tat) = gcra.decide(tat, now).expect("valid");
        let (denied, kept) = gcra.decide(tat, now).expect("valid");
        assert_eq!(
            (denied.limited, denied.remaining, denied.retry_after),
            (true, 0, 2)
        );
        assert_eq!((denied.full_after, kept), (3, None));
        let never = RedisGcra { cost: 3, ..gcra };
        assert_eq!(never.decide(tat, now).expect("valid").0.retry_after, -1);
    }

    #[test]
    fn gcra_refuses_what_its_clock_cannot_hold() {
        let gcra = RedisGcra {
            max_burst: 1,
            tokens: 1,
            period_secs: 1.0,
            cost: 1,
        };
        let now = Timestamp::from_secs(1);
        for (bad, error) in [
            (
                RedisGcra {
                    period_secs: 0.0,
                    ..gcra
                },
                RedisGcraError::Period,
            ),
            (
                RedisGcra {
                    period_secs: f64::NAN,
                    ..gcra
                },
                RedisGcraError::Period,
            ),
            (
                RedisGcra {
                    period_secs: 1e12,
                    ..gcra
                },
                RedisGcraError::Period,
            ),
            (
                RedisGcra {
                    cost: u64::MAX,
                    ..gcra
                },
                RedisGcraError::CostOverflow,
            ),
            (
                RedisGcra {
                    max_burst: u64::MAX,
                    ..gcra
                },
                RedisGcraError::BurstOverflow,
            ),
        ] {
            assert_eq!(bad.decide(None, now), Err(error));
        }
    }
}
