//! Calendar windows: days, weeks, months, quarters and years of a time zone, as bills and contracts count them.
//!
//! A window begins at local midnight of its first day and ends where the next one begins, so a month has 28 to 31
//! days, and a day in which clocks change has 23 or 25 hours. Where a clock change leaves out midnight, the
//! window begins at the first moment of the day that exists; where it comes twice, at the earlier one. The state is
//! that of a fixed window. Source: the IANA time zone database.

use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};
use chrono_tz::Tz;

use crate::types::Timestamp;

/// Length of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday (ISO 8601).
    Week,
    /// From the first of a month to the first of the next one.
    Month,
    /// From the first of January, April, July or October on.
    Quarter,
    /// From the first of January on.
    Year,
}

/// Units with their names.
pub(crate) const CALENDAR_UNITS: &[(CalendarUnit, &str)] = &[
    (CalendarUnit::Day, "day"),
    (CalendarUnit::Week, "week"),
    (CalendarUnit::Month, "month"),
    (CalendarUnit::Quarter, "quarter"),
    (CalendarUnit::Year, "year"),
];

impl CalendarUnit {
    /// The unit of that name, in any case.
    pub fn by_name(name: &[u8]) -> Option<CalendarUnit> {
        CALENDAR_UNITS
            .iter()
            .find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name))
            .map(|(unit, _)| *unit)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        CALENDAR_UNITS[self as usize].1
    }
}

/// A time zone of the IANA database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zone(Tz);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Zone = Zone(Tz::UTC);

    /// The zone of that name, as `Europe/Berlin`; names are case-sensitive, as in the database.
    pub fn by_name(name: &[u8]) -> Option<Zone> {
        let name = std::str::from_utf8(name).ok()?;
        Tz::from_str(name).ok().map(Zone)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

/// A kind of calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    /// Its length.
    pub unit: CalendarUnit,
    /// Whose midnight counts.
    pub zone: Zone,
}

impl Calendar {
    /// The first millisecond of the window that holds `now`, and the first one after it; Unix milliseconds. `None` for
    /// times that no calendar reaches.
    pub fn window(self, now: Timestamp) -> Option<(i64, i64)> {
        let local = DateTime::from_timestamp_millis(now.millis())?
            .with_timezone(&self.zone.0)
            .date_naive();
        let (mut first, mut next) = self.unit.days(local)?;
        let mut end = self.midnight(next)?;
        if end <= now.millis() {
            // Clocks went back over midnight: the next window has begun, though its day is yet to come again.
            (first, next) = self.unit.days(next)?;
            end = self.midnight(next)?;
        }
        Some((self.midnight(first)?, end))
    }

    /// The first moment of a local day, Unix milliseconds.
    fn midnight(self, day: NaiveDate) -> Option<i64> {
        let mut local = NaiveDateTime::new(day, NaiveTime::MIN);
        // Clock changes leave out at most a day (Samoa, 2011), and fall on whole minutes in the present.
        for _ in 0..=MINUTES_MAX {
            if let Some(moment) = self.zone.0.from_local_datetime(&local).earliest() {
                return Some(moment.timestamp_millis());
            }
            local = local.checked_add_signed(chrono::TimeDelta::minutes(1))?;
        }
        None
    }
}

/// Minutes after a midnight that a clock change has left out, in which the day begins.
const MINUTES_MAX: u32 = 2 * 24 * 60;

impl CalendarUnit {
    /// The first day of the unit that holds `day`, and the first day after it.
    fn days(self, day: NaiveDate) -> Option<(NaiveDate, NaiveDate)> {
        let first_of = |month: u32| NaiveDate::from_ymd_opt(day.year(), month, 1);
        let months = |first: NaiveDate, count: u32| {
            Some((first, first.checked_add_months(Months::new(count))?))
        };
        match self {
            CalendarUnit::Day => Some((day, day.checked_add_days(Days::new(1))?)),
            CalendarUnit::Week => {
                let since = u64::from(day.weekday().num_days_from_monday());
                let monday = day.checked_sub_days(Days::new(since))?;
                Some((monday, monday.checked_add_days(Days::new(7))?))
            }
            CalendarUnit::Month => months(first_of(day.month())?, 1),
            CalendarUnit::Quarter => months(first_of((day.month() - 1) / 3 * 3 + 1)?, 3),
            CalendarUnit::Year => months(first_of(1)?, 12),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(unit: CalendarUnit, zone: &str) -> Calendar {
        let zone = Zone::by_name(zone.as_bytes()).expect("a zone");
        Calendar { unit, zone }
    }

    fn moment(text: &str) -> i64 {
        DateTime::parse_from_rfc3339(text)
            .expect("a time")
            .timestamp_millis()
    }

    fn check(unit: CalendarUnit, zone: &str, now: &str, start: &str, end: &str) {
        let window = calendar(unit, zone).window(Timestamp::from_millis(moment(now)));
        assert_eq!(window, Some((moment(start), moment(end))), "{zone} {now}");
    }

    #[test]
    fn months_have_their_real_length_in_their_zone() {
        check(
            CalendarUnit::Month,
            "Asia/Ho_Chi_Minh",
            "2024-02-29T16:59:59Z",
            "2024-02-01T00:00:00+07:00",
            "2024-03-01T00:00:00+07:00",
        );
        check(
            CalendarUnit::Month,
            "Asia/Ho_Chi_Minh",
            "2024-02-29T17:00:00Z",
            "2024-03-01T00:00:00+07:00",
            "2024-04-01T00:00:00+07:00",
        );
    }

    #[test]
    fn a_day_may_have_23_or_25_hours() {
        check(
            CalendarUnit::Day,
            "Europe/Berlin",
            "2026-03-29T12:00:00Z",
            "2026-03-29T00:00:00+01:00",
            "2026-03-30T00:00:00+02:00",
        );
        check(
            CalendarUnit::Day,
            "Europe/Berlin",
            "2026-10-25T12:00:00Z",
            "2026-10-25T00:00:00+02:00",
            "2026-10-26T00:00:00+01:00",
        );
    }

    #[test]
    fn a_midnight_that_is_left_out_begins_later() {
        // Clocks in Santiago go from 24:00 to 01:00.
        check(
            CalendarUnit::Day,
            "America/Santiago",
            "2026-09-06T12:00:00Z",
            "2026-09-06T01:00:00-03:00",
            "2026-09-07T00:00:00-03:00",
        );
    }

    #[test]
    fn a_midnight_that_comes_twice_begins_the_day_once() {
        // Clocks in St. John's went from 00:01 to 23:01 of the day before.
        for now in ["2010-11-07T02:30:30Z", "2010-11-07T03:00:00Z"] {
            check(
                CalendarUnit::Day,
                "America/St_Johns",
                now,
                "2010-11-07T00:00:00-02:30",
                "2010-11-08T00:00:00-03:30",
            );
        }
    }

    #[test]
    fn weeks_begin_on_monday_and_quarters_with_their_month() {
        check(
            CalendarUnit::Week,
            "UTC",
            "2026-01-01T00:00:00Z",
            "2025-12-29T00:00:00Z",
            "2026-01-05T00:00:00Z",
        );
        check(
            CalendarUnit::Quarter,
            "UTC",
            "2026-06-30T23:59:59Z",
            "2026-04-01T00:00:00Z",
            "2026-07-01T00:00:00Z",
        );
        check(
            CalendarUnit::Year,
            "Pacific/Apia",
            "2011-12-30T12:00:00Z",
            "2011-01-01T00:00:00-10:00",
            "2012-01-01T00:00:00+14:00",
        );
    }

    #[test]
    fn every_time_is_answered() {
        for unit in CALENDAR_UNITS {
            for nanos in [i64::MIN, -1, 0, i64::MAX] {
                let window = Calendar {
                    unit: unit.0,
                    zone: Zone::UTC,
                }
                .window(Timestamp::from_nanos(nanos));
                let (start, end) = window.expect("within the calendar");
                let now = Timestamp::from_nanos(nanos).millis();
                assert!(start <= now && now < end);
                assert_eq!(CalendarUnit::by_name(unit.1.as_bytes()), Some(unit.0));
            }
        }
    }
}
