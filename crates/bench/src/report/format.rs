//! Numbers as people read them. Whatever comes in, what goes out is finite: a number that is not
//! shows as a dash.

use super::lang::{Lang, page};

/// Shown where nothing was measured.
pub(crate) const DASH: &str = "–";

/// From here on a number is written with an exponent instead of a screenful of digits.
const EXPONENT_FROM: f64 = 1e15;

/// `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A rate or another large number: no decimals from 100 on, thousands separated.
pub(crate) fn rate(value: f64) -> String {
    match value {
        v if !v.is_finite() => DASH.into(),
        v if v.abs() >= EXPONENT_FROM => format!("{v:.2e}"),
        v if v.abs() >= 99.95 || v == v.trunc() => group(&format!("{v:.0}")),
        v => format!("{v:.1}"),
    }
}

/// Three significant digits without an exponent: `0.213`, `4.13`, `42.1`, `1,380`.
pub(crate) fn significant(value: f64) -> String {
    let size = value.abs();
    match value {
        v if !v.is_finite() => DASH.into(),
        v if size >= EXPONENT_FROM => format!("{v:.2e}"),
        0.0 => "0".into(),
        v if size < 0.0005 => format!("{v:.1e}"),
        v if size < 0.9995 => format!("{v:.3}"),
        v if size < 9.995 => format!("{v:.2}"),
        v if size < 99.95 => format!("{v:.1}"),
        v => group(&format!("{v:.0}")),
    }
}

/// Microseconds as a number of milliseconds, for columns headed "ms".
pub(crate) fn ms(us: f64) -> String {
    significant(us / 1e3)
}

/// Microseconds with the unit that suits: `213 µs`, `4.13 ms`, `1.38 s`.
pub(crate) fn latency(us: f64) -> String {
    match us {
        v if !v.is_finite() => DASH.into(),
        v if v < 999.5 => format!("{} µs", significant(v)),
        v if v < 999_500.0 => format!("{} ms", significant(v / 1e3)),
        v => format!("{} s", significant(v / 1e6)),
    }
}

/// A percentage without its sign: `0`, `<0.01`, `2.65`, `89.9`.
pub(crate) fn percent(value: f64) -> String {
    match value {
        v if !v.is_finite() => DASH.into(),
        0.0 => "0".into(),
        v if v > 0.0 && v < 0.005 => "<0.01".into(),
        v if v.abs() < 9.995 => format!("{v:.2}"),
        v if v.abs() < 99.95 => format!("{v:.1}"),
        v => group(&format!("{v:.0}")),
    }
}

/// `1.31×`.
pub(crate) fn ratio(value: f64) -> String {
    if value.is_finite() {
        format!("{}×", significant(value))
    } else {
        DASH.into()
    }
}

/// `11.2 MiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    let mut amount = value as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1023.5 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(amount), UNITS[unit])
}

/// Seconds: `12.5 s`, `2 min 31 s`.
pub(crate) fn seconds(value: f64, lang: Lang) -> String {
    match value {
        v if !v.is_finite() => DASH.into(),
        v if !(60.0..EXPONENT_FROM).contains(&v) => format!("{} s", significant(v)),
        v => {
            let whole = v.round() as u64;
            let minutes = page::MINUTES.of(lang);
            format!("{} {minutes} {:02} s", count(whole / 60), whole % 60)
        }
    }
}

/// Short form for an axis: `0`, `750`, `12.5k`, `1.2M`.
pub(crate) fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if !v.is_finite() => return DASH.into(),
        v if v >= EXPONENT_FROM => return format!("{value:.0e}"),
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{suffix}")
}

/// The text of a value, or the dash.
pub(crate) fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| DASH.into(), text)
}

/// The text with its first letter as a capital.
pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// Control characters become spaces: a name from outside must not steer a terminal or break a table row.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn group(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    out.push_str(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_the_studies_print_them() {
        assert_eq!(count(1_199_995), "1,199,995");
        assert_eq!(count(7), "7");
        assert_eq!(rate(9_999.6), "10,000");
        assert_eq!(rate(12.25), "12.2");
        assert_eq!(ms(29_800.0), "29.8");
        assert_eq!(latency(6_260.0), "6.26 ms");
        assert_eq!(latency(999.9), "1.00 ms");
        assert_eq!(latency(340_000_000.0), "340 s");
        assert_eq!(percent(26.6), "26.6");
        assert_eq!(percent(0.0001), "<0.01");
        assert_eq!(percent(100.0), "100");
        assert_eq!(ratio(1.375), "1.38×");
        assert_eq!(bytes(11 << 20), "11.0 MiB");
        assert_eq!(seconds(151.2, Lang::En), "2 min 31 s");
        assert_eq!(seconds(151.2, Lang::Vi), "2 phút 31 s");
        assert_eq!(short(12_500.0), "12.5k");
        assert_eq!(short(120.0), "120");
        assert_eq!(rate(-1234.0), "-1,234");
    }

    #[test]
    fn nothing_that_is_not_a_number_gets_through() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for text in [
                rate(bad),
                significant(bad),
                latency(bad),
                percent(bad),
                ratio(bad),
                short(bad),
                seconds(bad, Lang::En),
            ] {
                assert_eq!(text, DASH);
            }
        }
        for huge in [f64::MAX, 1e300] {
            for text in [
                rate(huge),
                significant(huge),
                latency(huge),
                short(huge),
                seconds(huge, Lang::En),
            ] {
                assert!(text.len() < 20, "{text}");
            }
        }
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(printable("a\u{1b}[2J\n"), "a [2J ");
    }
}
