//! Values as Go's libraries read them, which is how envoyproxy/ratelimit reads its variables.

use std::time::Duration;

/// An integer: `10`, `-1`, `1_000`, and by their prefixes `0x1F`, `0b101`, `0o17` and `017`, the last two of base 8.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        // A mark goes between digits, or behind a prefix.
        [b'_', ..] => return None,
        _ => (10, digits),
    };
    let is_parted = |part: &str| !part.is_empty() || digits.starts_with('_');
    if !digits.split('_').skip(1).all(|part| !part.is_empty())
        || !digits.split('_').next().is_some_and(is_parted)
    {
        return None;
    }
    let mut number: i64 = 0;
    for digit in digits.chars().filter(|letter| *letter != '_') {
        let digit = i64::from(digit.to_digit(base)?);
        let signed = if is_negative { -digit } else { digit };
        number = number.checked_mul(i64::from(base))?.checked_add(signed)?;
    }
    Some(number)
}

/// A number with a fraction: `0.8`, `1e-3`, `1_000.5`; those of base 16 are not read.
pub(crate) fn float(text: &str) -> Option<f64> {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let mut marks = text.match_indices('_').map(|(at, _)| at);
    if !marks.all(|at| at > 0 && is_digit(at - 1) && is_digit(at + 1)) {
        return None;
    }
    let number: f64 = text.replace('_', "").parse().ok()?;
    if number.is_nan() && text.starts_with(['+', '-']) {
        return None;
    }
    // What is said to be finite has to be.
    let is_named = text.ends_with(|letter: char| letter.is_ascii_alphabetic());
    (number.is_finite() || is_named).then_some(number)
}

/// A span of time: `1h30m`, `10s`, `20ms`, `0`. None is negative.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let mut rest = text;
    let mut seconds = 0.0;
    if text == "0" {
        return Some(Duration::ZERO);
    }
    while !rest.is_empty() {
        let unit_at = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..unit_at].parse().ok()?;
        rest = &rest[unit_at..];
        let end = rest
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1e-9,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        seconds += number * unit;
        rest = &rest[end..];
    }
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_go() {
        for (text, number) in [
            ("0", 0),
            ("-0", 0),
            ("10", 10),
            ("+7", 7),
            ("-1", -1),
            ("1_000", 1_000),
            ("0x1F", 31),
            ("0X1f90", 8_080),
            ("0x_1f", 31),
            ("0b101", 5),
            ("0o17", 15),
            ("017", 15),
            ("0_17", 15),
            ("00", 0),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(text), Some(number), "{text}");
        }
        for text in [
            "",
            "-",
            "+",
            "_1",
            "1_",
            "1__0",
            "0x",
            "0x_",
            "0b2",
            "08",
            "0o",
            "1e3",
            "1.0",
            " 1",
            "1 ",
            "0_",
            "--1",
            "+-1",
            "\u{661}",
            "9223372036854775808",
        ] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_with_a_fraction_are_those_of_go() {
        for (text, number) in [
            ("0.8", 0.8),
            (".5", 0.5),
            ("1.", 1.0),
            ("+1e-3", 0.001),
            ("0.7_5", 0.75),
        ] {
            assert_eq!(float(text), Some(number), "{text}");
        }
        assert!(float("NaN").is_some_and(f64::is_nan) && float("-Inf") == Some(-f64::INFINITY));
        for text in [
            "", ".", "e", "1_", "_1", "1__0", "1_.5", "1e", "1e400", " 1", "0,8",
        ] {
            assert_eq!(float(text), None, "{text}");
        }
    }
}
