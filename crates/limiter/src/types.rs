//! What all algorithms share: time, quota, cost, decision.

/// A span of time in nanoseconds.
pub type Nanos = u64;

/// Nanoseconds in a millisecond.
pub(crate) const NANOS_PER_MILLI: u64 = 1_000_000;

/// Nanoseconds since the Unix epoch (i64: until the year 2262).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From nanoseconds since the Unix epoch.
    #[inline]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// From microseconds since the Unix epoch; saturates at the ends of the range.
    #[inline]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// From milliseconds since the Unix epoch; saturates at the ends of the range.
    #[inline]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// From seconds since the Unix epoch; saturates at the ends of the range.
    #[inline]
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the Unix epoch.
    #[inline]
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whole microseconds since the Unix epoch, rounded towards the past.
    #[inline]
    pub const fn micros(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Whole milliseconds since the Unix epoch, rounded towards the past.
    #[inline]
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Whole seconds since the Unix epoch, rounded towards the past.
    #[inline]
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// The first whole millisecond that is not before this time: when an entry may be dropped.
    #[inline]
    pub const fn millis_ceil(self) -> i64 {
        let floor = self.0.div_euclid(1_000_000);
        if self.0.rem_euclid(1_000_000) == 0 {
            floor
        } else {
            floor + 1
        }
    }

    /// This time and a span later; saturates.
    #[inline]
    pub const fn plus(self, span: Nanos) -> Self {
        Self(self.0.saturating_add_unsigned(span))
    }
}

/// How much may pass in which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// Units of cost that may pass per period. 0 admits nothing.
    pub limit: u64,
    /// Length of the window, or the time in which `limit` units are earned.
    pub period: Nanos,
    /// Of buckets (GCRA, token, leaky): units that may pass at one instant. Windows ignore it.
    pub burst: u64,
}

impl Quota {
    /// `limit` units per `period`, and as many at one instant.
    pub const fn new(limit: u64, period: Nanos) -> Self {
        Self {
            limit,
            period,
            burst: limit,
        }
    }

    /// The same rate with another burst size.
    pub const fn with_burst(self, burst: u64) -> Self {
        Self { burst, ..self }
    }
}

/// What one request weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub u64);

/// The answer to one request on one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Whether the request may pass.
    pub allowed: bool,
    /// The capacity: a fixed window's limit, GCRA's burst size.
    pub limit: u64,
    /// Units that could still pass at this instant, after this request.
    pub remaining: u64,
    /// How long to wait until the same request passes if nobody else takes: `Some(0)` when allowed,
    /// `None` when it can never pass because it costs more than the capacity.
    pub retry_after: Option<Nanos>,
    /// Time until the limiter is back in its initial state.
    pub reset_after: Nanos,
}

impl Decision {
    /// A denial that never passes: what a buffer of decisions holds before they are made.
    pub const DENIED: Self = Self {
        allowed: false,
        limit: 0,
        remaining: 0,
        retry_after: None,
        reset_after: 0,
    };

    /// Milliseconds to wait, rounded up; -1 when waiting never helps.
    pub fn retry_after_ms(&self) -> i64 {
        self.retry_after.map_or(-1, ceil_ms)
    }

    /// Milliseconds until the limiter is back in its initial state, rounded up.
    pub fn reset_after_ms(&self) -> i64 {
        ceil_ms(self.reset_after)
    }
}

/// At most 2^64 / 10^6, so it fits an i64.
fn ceil_ms(span: Nanos) -> i64 {
    span.div_ceil(NANOS_PER_MILLI) as i64
}

/// A period in whole milliseconds, up to nearly nine thousand years; 0 is one that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodMs([u8; 6]);

impl PeriodMs {
    /// One that is not known: records of earlier versions do not say.
    pub const UNKNOWN: PeriodMs = PeriodMs([0; 6]);

    /// A period; unknown if it is none.
    pub const fn new(ms: i64) -> PeriodMs {
        match ms.to_le_bytes() {
            [a, b, c, d, e, f, 0, 0] => PeriodMs([a, b, c, d, e, f]),
            _ => PeriodMs::UNKNOWN,
        }
    }

    /// Milliseconds; `None` if it is not known.
    pub const fn get(self) -> Option<i64> {
        let [a, b, c, d, e, f] = self.0;
        match i64::from_le_bytes([a, b, c, d, e, f, 0, 0]) {
            0 => None,
            ms => Some(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_round_towards_the_past() {
        let t = Timestamp::from_nanos(-1);
        assert_eq!(
            (t.micros(), t.millis(), t.secs(), t.millis_ceil()),
            (-1, -1, -1, 0)
        );
        assert_eq!(Timestamp::from_millis(i64::MAX).nanos(), i64::MAX);
        assert_eq!(
            Timestamp::from_nanos(i64::MAX).plus(u64::MAX).nanos(),
            i64::MAX
        );
        assert_eq!(
            Timestamp::from_nanos(i64::MIN).millis_ceil(),
            i64::MIN / 1_000_000
        );
    }

    #[test]
    fn waits_round_up_to_the_coarser_unit() {
        let decision = Decision {
            allowed: false,
            limit: 1,
            remaining: 0,
            retry_after: Some(1),
            reset_after: u64::MAX,
        };
        assert_eq!(decision.retry_after_ms(), 1);
        assert_eq!(decision.reset_after_ms(), 18_446_744_073_710);
        assert_eq!(
            Decision {
                retry_after: None,
                ..decision
            }
            .retry_after_ms(),
            -1
        );
    }
}
