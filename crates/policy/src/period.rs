//! Spans of time as rules write them: `500ms`, `10s`, `5m`, `1h30m`, `7d`; and the calendar's, `1mo`, `1q`, `1y`.

use tollgate_limiter::Nanos;
use tollgate_limiter::calendar::CalendarUnit;

/// Longest span: a hundred years.
const MAX_MS: u64 = 36_525 * 86_400_000;
const NANOS_PER_MS: u64 = 1_000_000;

/// How a period or time may be written.
pub(crate) const FORMS: &str =
    "a span of at least 1ms and at most a hundred years, as 500ms, 10s, 5m, 1h30m, 7d or 2w";

/// Units of a fixed length, in milliseconds.
const SPANS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 7 * 86_400_000),
];

/// One unit of the calendar.
const CALENDAR: &[(&str, CalendarUnit)] = &[
    ("1d", CalendarUnit::Day),
    ("1w", CalendarUnit::Week),
    ("1mo", CalendarUnit::Month),
    ("1q", CalendarUnit::Quarter),
    ("1y", CalendarUnit::Year),
];

/// Reads a span of a fixed length, in nanoseconds.
pub(crate) fn span(text: &str) -> Option<Nanos> {
    let mut rest = text;
    let mut sum_ms = 0u64;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, after) = rest.split_at(digits);
        let letters = after.len()
            - after
                .trim_start_matches(|c: char| c.is_ascii_lowercase())
                .len();
        let (unit, next) = after.split_at(letters);
        let (_, length) = SPANS.iter().find(|(name, _)| *name == unit)?;
        sum_ms = sum_ms.checked_add(count.parse::<u64>().ok()?.checked_mul(*length)?)?;
        rest = next;
    }
    (1..=MAX_MS)
        .contains(&sum_ms)
        .then(|| sum_ms * NANOS_PER_MS)
}

/// Reads one unit of the calendar. `1d` and `1w` are spans as well.
pub(crate) fn calendar(text: &str) -> Option<CalendarUnit> {
    CALENDAR
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, unit)| *unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_or_refused() {
        for (text, ms) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("36525d", MAX_MS),
        ] {
            assert_eq!(span(text), Some(ms * NANOS_PER_MS), "{text}");
        }
        for bad in [
            "",
            "s",
            "10",
            "0s",
            "1.5s",
            "-1s",
            "1mo",
            "36526d",
            "1 s",
            "99999999999999999999s",
            "18446744073709551615w",
            "1S",
            "1s\u{e9}",
        ] {
            assert_eq!(span(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_calendar_has_one_of_each() {
        assert_eq!(calendar("1mo"), Some(CalendarUnit::Month));
        assert_eq!(calendar("1q"), Some(CalendarUnit::Quarter));
        for bad in ["2mo", "mo", "1s", "1mo1d", ""] {
            assert_eq!(calendar(bad), None);
        }
    }
}
