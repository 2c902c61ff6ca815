//! The time of day where this machine stands.

/// A moment as people write it, in the machine's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// With the century.
    pub year: i32,
    /// From 1.
    pub month: u8,
    /// Of the month, from 1.
    pub day: u8,
    /// From 0 to 23.
    pub hour: u8,
    /// From 0 to 59.
    pub minute: u8,
    /// From 0 to 60.
    pub second: u8,
}

impl LocalTime {
    /// Of a moment in seconds since the Unix epoch.
    pub fn at(unix_secs: i64) -> LocalTime {
        // SAFETY: an all-zero tm is a valid value, both pointers are valid for the call, and localtime_r, unlike localtime,
        // keeps nothing behind.
        let tm = unsafe {
            let mut tm: libc::tm = std::mem::zeroed();
            libc::localtime_r(&unix_secs, &mut tm);
            tm
        };
        let small = |value: i32| u8::try_from(value).unwrap_or(0);
        LocalTime {
            year: tm.tm_year.saturating_add(1_900),
            month: small(tm.tm_mon) + 1,
            day: small(tm.tm_mday),
            hour: small(tm.tm_hour),
            minute: small(tm.tm_min),
            second: small(tm.tm_sec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_within_a_day_of_what_it_is_in_greenwich() {
        // 15 June 2026, 12:00:00 UTC: whatever the zone, the month and the year are the same.
        let time = LocalTime::at(1_781_524_800);
        assert_eq!((time.year, time.month), (2026, 6));
        assert!((14..=16).contains(&time.day));
        assert!(time.minute < 60 && time.second == 0);
    }
}
