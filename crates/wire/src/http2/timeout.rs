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
