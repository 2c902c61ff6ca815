//! How long the caller of a gRPC call waits.

use std::time::Duration;

/// Longest number of a timeout, in digits, by the protocol.
const DIGITS: usize = 8;

/// The value of `grpc-timeout`; `None` where it is not in the protocol's form (gRPC over HTTP2, "Timeout").
#[must_use]
pub fn grpc_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits
        .iter()
        .fold(0, |count: u64, digit| count * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(count * 3_600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_writes_them() {
        let read = |text: &str| grpc_timeout(text.as_bytes());
        for (text, nanos) in [
            ("20m", 20_000_000),
            ("250u", 250_000),
            ("99999999n", 99_999_999),
            ("1S", 1_000_000_000),
            ("2M", 120_000_000_000),
            ("1H", 3_600_000_000_000),
            ("0m", 0),
        ] {
            assert_eq!(read(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in [
            "",
            "m",
            "20",
            "20ms",
            "-1m",
            "999999999m",
            "2 m",
            "1.5S",
            "1h",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(
            read("99999999H").map(|wait| wait.as_secs()),
            Some(359_999_996_400)
        );
    }
}
