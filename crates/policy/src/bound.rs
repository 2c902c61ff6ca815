//! One limit as it is counted, and what happens when it cannot be.

use tollgate_limiter::calendar::{Calendar, CalendarUnit, Zone};
use tollgate_limiter::{AlgorithmKind, Method, Nanos, Quota};

use crate::inherit::Inherit;
use crate::unit::Unit;

/// How many limits one rule may have.
pub const MAX_LIMITS: usize = 16;

/// One limit of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) method: Method,
    pub(crate) quota: Quota,
    /// How long a lease of [`Method::Concurrency`] lasts.
    pub(crate) lease: Nanos,
    /// The unit that responses name; periods of other lengths have none.
    pub(crate) unit: Option<Unit>,
    /// Whether the key is that of envoyproxy/ratelimit's only algorithm, which is told by the unit alone.
    pub(crate) plain: bool,
    /// How a counter goes on when the limit changes; the key then names the quota.
    pub(crate) inherit: Option<Inherit>,
    /// Every answer comes from the counter itself.
    pub(crate) exact: bool,
}

impl Bound {
    /// As envoyproxy/ratelimit counts.
    pub(crate) fn per_unit(requests: u32, unit: Unit) -> Self {
        Self {
            method: Method::Small(AlgorithmKind::FixedWindowEpoch),
            quota: Quota::new(u64::from(requests), unit.nanos()),
            lease: 0,
            unit: Some(unit),
            plain: true,
            inherit: None,
            exact: false,
        }
    }

    /// By any algorithm but the calendar.
    pub(crate) fn per_period(method: Method, quota: Quota) -> Self {
        let unit = Unit::of_length(quota.period);
        let plain = method == Method::Small(AlgorithmKind::FixedWindowEpoch) && unit.is_some();
        Self {
            method,
            quota,
            lease: 0,
            unit,
            plain,
            inherit: None,
            exact: false,
        }
    }

    /// By the calendar.
    pub(crate) fn per_calendar(calendar: Calendar, limit: u64) -> Self {
        Self {
            method: Method::Small(AlgorithmKind::Calendar(calendar)),
            quota: Quota::new(limit, 1),
            lease: 0,
            unit: match calendar.unit {
                CalendarUnit::Day => Some(Unit::Day),
                CalendarUnit::Week => Some(Unit::Week),
                CalendarUnit::Month => Some(Unit::Month),
                CalendarUnit::Year => Some(Unit::Year),
                CalendarUnit::Quarter => None,
            },
            plain: false,
            inherit: None,
            exact: false,
        }
    }

    /// The same, whose month is one of the calendar if envoyproxy/ratelimit counts it by blocks of 30 days.
    pub(crate) fn by_calendar_month(self) -> Self {
        if !self.plain || self.unit != Some(Unit::Month) {
            return self;
        }
        let month = Calendar {
            unit: CalendarUnit::Month,
            zone: Zone::UTC,
        };
        Self {
            inherit: self.inherit,
            exact: self.exact,
            ..Self::per_calendar(month, self.quota.limit)
        }
    }

    /// So many at the same time.
    pub(crate) fn at_once(limit: u64, lease: Nanos) -> Self {
        Self {
            method: Method::Concurrency,
            quota: Quota::new(limit, lease),
            lease,
            unit: None,
            plain: false,
            inherit: None,
            exact: false,
        }
    }

    /// Length of the window; of a calendar's about, of places in use how long a lease lasts.
    pub(crate) fn window(&self) -> Nanos {
        match (self.method, self.unit) {
            (Method::Small(AlgorithmKind::Calendar(_)), Some(unit)) => unit.nanos(),
            // Of the calendar's units only the quarter is none of the others.
            (Method::Small(AlgorithmKind::Calendar(_)), None) => 3 * Unit::Month.nanos(),
            _ => self.quota.period,
        }
    }

    /// What tells the counters of one descriptor apart: states of different algorithms and windows of different lengths do
    /// not compare, so a limit that changes either starts a new counter. One that says how it inherits starts a new one with
    /// each number too.
    pub(crate) fn push_tag(&self, key: &mut Vec<u8>) {
        self.push_kind(key);
        if self.inherit.is_none() || self.method == Method::Concurrency {
            return;
        }
        let Quota { limit, burst, .. } = self.quota;
        let quota = match burst == limit {
            true => format!("@{limit}"),
            false => format!("@{limit}-{burst}"),
        };
        key.extend_from_slice(quota.as_bytes());
    }

    fn push_kind(&self, key: &mut Vec<u8>) {
        if let Some(unit) = self.unit.filter(|_| self.plain) {
            key.push(letter(unit));
            return;
        }
        key.extend_from_slice(self.method.name().as_bytes());
        let rest = match self.method {
            Method::Small(AlgorithmKind::Calendar(calendar)) => {
                format!("-{}-{}", calendar.unit.name(), calendar.zone.name())
            }
            Method::Concurrency => String::new(),
            _ => format!("-{}", self.quota.period / 1_000_000),
        };
        key.extend_from_slice(rest.as_bytes());
    }

    /// The same as text.
    pub(crate) fn tag(&self) -> String {
        let mut tag = Vec::new();
        self.push_tag(&mut tag);
        String::from_utf8_lossy(&tag).into_owned()
    }
}

const fn letter(unit: Unit) -> u8 {
    match unit {
        Unit::Second => b's',
        Unit::Minute => b'm',
        Unit::Hour => b'h',
        Unit::Day => b'd',
        Unit::Week => b'w',
        Unit::Month => b'M',
        Unit::Year => b'y',
    }
}

/// What becomes of requests that the backend cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnError {
    /// What is done.
    pub fallback: Fallback,
    /// [`Fallback::Local`]: the part of the limit that one service may admit, in millionths.
    pub share_ppm: u32,
    /// How long after the backend failed; afterwards requests are denied. `None`: as long as it takes.
    pub budget: Option<Nanos>,
}

/// What is done with a request that the backend cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// It is an error, and who asked must choose, as with envoyproxy/ratelimit.
    Error,
    /// It is denied.
    Closed,
    /// It passes.
    Open,
    /// This service decides by itself, on a share of the limit.
    Local,
}

impl Fallback {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Error, Self::Closed, Self::Open, Self::Local];

    /// Its name in rules, headers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Local => "local",
        }
    }
}

impl OnError {
    /// As envoyproxy/ratelimit.
    pub const DEFAULT: Self = Self {
        fallback: Fallback::Error,
        share_ppm: WHOLE_PPM,
        budget: None,
    };

    /// The quota that one service may admit by itself: at least 1 of a limit that admits anything.
    pub fn share_of(&self, quota: &Quota) -> Quota {
        let part = |units: u64| {
            let part = u128::from(units) * u128::from(self.share_ppm) / u128::from(WHOLE_PPM);
            u64::try_from(part).unwrap_or(u64::MAX).max(units.min(1))
        };
        Quota {
            limit: part(quota.limit),
            burst: part(quota.burst),
            ..*quota
        }
    }
}

/// All of a limit, in millionths.
pub(crate) const WHOLE_PPM: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_admits_something_where_the_limit_does() {
        let tenth = OnError {
            share_ppm: 100_000,
            ..OnError::DEFAULT
        };
        let share = |limit| tenth.share_of(&Quota::new(limit, 1)).limit;
        assert_eq!([share(0), share(5), share(100)], [0, 1, 10]);
        assert_eq!(OnError::DEFAULT.share_of(&Quota::new(7, 1)).limit, 7);
    }
}
