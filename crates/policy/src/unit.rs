//! Units of time of a limit.

use tollgate_limiter::Nanos;
use tollgate_wire::rls::rate_limit_response::rate_limit;

/// The time a limit's requests are counted in. Months are 30 days and years 365 days long, as in
/// envoyproxy/ratelimit; all windows begin at whole multiples since the Unix epoch, so weeks begin on Thursdays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 3,600 seconds.
    Hour,
    /// 86,400 seconds.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// Every unit, from short to long.
    pub const ALL: [Self; 7] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Year,
    ];

    /// Its name in rule files, which may be given in any case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Several of it, as names of headers end.
    pub(crate) const fn plural(self) -> &'static str {
        match self {
            Self::Second => "Seconds",
            Self::Minute => "Minutes",
            Self::Hour => "Hours",
            Self::Day => "Days",
            Self::Week => "Weeks",
            Self::Month => "Months",
            Self::Year => "Years",
        }
    }

    /// Reads a name in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// The unit of this length, if there is one.
    pub(crate) fn of_length(length: Nanos) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.nanos() == length)
    }

    /// Length in seconds.
    pub const fn secs(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 30 * 86_400,
            Self::Year => 365 * 86_400,
        }
    }

    /// Length in nanoseconds.
    pub const fn nanos(self) -> Nanos {
        self.secs() * 1_000_000_000
    }

    /// The unit as responses give it.
    pub const fn wire(self) -> rate_limit::Unit {
        match self {
            Self::Second => rate_limit::Unit::Second,
            Self::Minute => rate_limit::Unit::Minute,
            Self::Hour => rate_limit::Unit::Hour,
            Self::Day => rate_limit::Unit::Day,
            Self::Week => rate_limit::Unit::Week,
            Self::Month => rate_limit::Unit::Month,
            Self::Year => rate_limit::Unit::Year,
        }
    }

    /// Reads the number of an override or of a management server's rules. `envoy.type.v3.RateLimitUnit` gives its units the
    /// numbers of the response's enumeration and leaves out the week, `ratelimit.config.ratelimit.v3.RateLimitUnit` has that too,
    /// so the number is read as one of the response's.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|unit| unit.wire() as i32 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::rls::RateLimitUnit;

    #[test]
    fn overrides_use_the_numbers_of_their_own_enumeration() {
        for (number, unit) in [
            (RateLimitUnit::Second, Unit::Second),
            (RateLimitUnit::Minute, Unit::Minute),
            (RateLimitUnit::Hour, Unit::Hour),
            (RateLimitUnit::Day, Unit::Day),
            (RateLimitUnit::Month, Unit::Month),
            (RateLimitUnit::Year, Unit::Year),
        ] {
            assert_eq!(Unit::from_number(number as i32), Some(unit));
        }
        assert_eq!(Unit::from_number(7), Some(Unit::Week));
        for bad in [0, -1, 8, i32::MAX] {
            assert_eq!(Unit::from_number(bad), None);
        }
    }

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!(Unit::parse("MiNuTe"), Some(Unit::Minute));
        assert_eq!(Unit::parse("minutes"), None);
        assert_eq!(Unit::parse(""), None);
    }
}
