//! Numbers as text: integers in both directions, doubles as C prints them.

/// Longest text of an `i64`: a sign and 19 digits.
const MAX_INT_LEN: usize = 20;

const PAIRS: [u8; 200] = pairs();

const fn pairs() -> [u8; 200] {
    let mut table = [0; 200];
    let mut n = 0;
    while n < 100 {
        table[2 * n] = b'0' + (n / 10) as u8;
        table[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    table
}

/// Appends the decimal text of `value`.
#[inline]
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(IntText::new(value).as_bytes());
}

/// Decimal text of an integer, on the stack.
pub(crate) struct IntText {
    text: [u8; MAX_INT_LEN],
    start: usize,
}

impl IntText {
    #[inline]
    pub(crate) fn new(value: i64) -> Self {
        let mut text = [0; MAX_INT_LEN];
        let start = write_backwards(&mut text, MAX_INT_LEN, value);
        IntText { text, start }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// Appends `kind`, the decimal text of `value`, CR LF: an integer reply or a length header.
#[inline]
pub(crate) fn push_header(out: &mut Vec<u8>, kind: u8, value: i64) {
    if (0..10).contains(&value) {
        out.extend_from_slice(&[kind, b'0' + value as u8, b'\r', b'\n']);
        return;
    }
    // Digits are written where they stay: bytes that are read in larger pieces than they were written make the processor
    // wait. Room of a fixed size takes no call; what is too much of it is taken back.
    const LINE: usize = MAX_INT_LEN + 3;
    let at = out.len();
    out.extend_from_slice(&[0; LINE]);
    let line = &mut out[at..at + LINE];
    line[0] = kind;
    let end = 1 + usize::from(value < 0) + digits(value.unsigned_abs());
    write_backwards(line, end, value);
    line[end..end + 2].copy_from_slice(b"\r\n");
    out.truncate(at + end + 2);
}

/// Decimal digits of a number.
#[inline]
fn digits(value: u64) -> usize {
    const POWERS: [u64; 20] = {
        let mut powers = [1; 20];
        let mut exponent = 1;
        while exponent < 20 {
            powers[exponent] = powers[exponent - 1] * 10;
            exponent += 1;
        }
        powers
    };
    // As many digits, and zero has one too.
    let value = value | 1;
    // 1233 / 4096 is a little more than the logarithm of 2, so this is the number of digits or one less.
    let bits = u64::BITS - value.leading_zeros();
    let fewer = ((bits * 1233) >> 12) as usize;
    fewer + usize::from(value >= POWERS[fewer])
}

/// Writes `value` so that its text ends before `end`; returns where it starts.
#[inline]
fn write_backwards(text: &mut [u8], end: usize, value: i64) -> usize {
    let mut rest = value.unsigned_abs();
    let mut at = end;
    while rest >= 100 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if rest >= 10 {
        let pair = rest as usize * 2;
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        text[at] = b'0' + rest as u8;
    }
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    at
}

/// Reads a decimal integer as strictly as Redis' `string2ll`: no sign but a minus, no leading zero, no space, no overflow.
#[inline]
#[must_use]
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [] => None,
        [b'0'] => (!negative).then_some(0),
        [b'0', ..] => None,
        _ if digits.len() > 19 => None,
        _ => {
            // 19 digits stay below 10^19, which fits u64.
            let mut magnitude = 0u64;
            for &byte in digits {
                let digit = byte.wrapping_sub(b'0');
                if digit > 9 {
                    return None;
                }
                magnitude = magnitude * 10 + u64::from(digit);
            }
            if negative {
                0i64.checked_sub_unsigned(magnitude)
            } else {
                i64::try_from(magnitude).ok()
            }
        }
    }
}

/// Appends `value` as C's `%.17g` prints it, which is what Redis 7.0 sends for a double in both protocols.
#[allow(
    clippy::missing_panics_doc,
    reason = "the e format always has a decimal exponent"
)]
pub fn push_double(out: &mut Vec<u8>, value: f64) {
    const PRECISION: i32 = 17;
    if value.is_nan() {
        out.extend_from_slice(b"nan");
        return;
    }
    if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
        return;
    }
    if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() {
            b"-0"
        } else {
            b"0"
        });
        return;
    }
    // Sixteen digits after the point, correctly rounded: "-d.dddddddddddddddde-324" is 24 bytes at most.
    let text = format!("{:.16e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').expect("the e format has an exponent");
    let exponent: i32 = exponent
        .parse()
        .expect("the e format has a decimal exponent");
    let mut digits = [b'0'; PRECISION as usize];
    for (slot, digit) in digits
        .iter_mut()
        .zip(mantissa.bytes().filter(u8::is_ascii_digit))
    {
        *slot = digit;
    }
    let used = digits
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(1, |last| last + 1);
    let digits = &digits[..used];
    if value < 0.0 {
        out.push(b'-');
    }
    if (-4..PRECISION).contains(&exponent) {
        push_positional(out, digits, exponent);
    } else {
        push_scientific(out, digits, exponent);
    }
}

/// `digits` are the significant ones without trailing zeros; the first has the weight 10^`exponent`.
fn push_positional(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.resize(out.len() + whole - digits.len(), b'0');
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

fn push_scientific(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    let magnitude = exponent.unsigned_abs();
    if magnitude < 10 {
        out.push(b'0');
    }
    push_int(out, i64::from(magnitude));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i64) -> String {
        let mut out = Vec::new();
        push_int(&mut out, value);
        String::from_utf8(out).expect("digits are ASCII")
    }

    fn double(value: f64) -> String {
        let mut out = Vec::new();
        push_double(&mut out, value);
        String::from_utf8(out).expect("digits are ASCII")
    }

    #[test]
    fn integers_print_at_every_length() {
        let mut value = 1i64;
        for _ in 0..19 {
            for near in [value - 1, value, value + 1, -value, 1 - value] {
                assert_eq!(int(near), near.to_string());
                let mut header = Vec::new();
                push_header(&mut header, b':', near);
                assert_eq!(header, format!(":{near}\r\n").into_bytes());
                assert_eq!(
                    digits(near.unsigned_abs()),
                    near.to_string().trim_start_matches('-').len()
                );
            }
            value = value.saturating_mul(10);
        }
        assert_eq!(int(i64::MAX), i64::MAX.to_string());
        assert_eq!(int(i64::MIN), i64::MIN.to_string());
    }

    #[test]
    fn integers_are_read_strictly() {
        for bad in [
            "",
            "-",
            "+1",
            "01",
            "-01",
            "-0",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(parse_int(bad.as_bytes()), None, "{bad:?}");
        }
        for good in [0, 1, -1, 10, i64::MAX, i64::MIN, i64::MAX - 1] {
            assert_eq!(parse_int(good.to_string().as_bytes()), Some(good));
        }
    }

    /// Expected texts were read from ZSCORE of redis-server 7.0.15, in RESP2 and RESP3 alike.
    #[test]
    fn doubles_print_as_redis_7_prints_them() {
        for (value, text) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (1e21, "1e+21"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (1e17, "1e+17"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (-2.71, "-2.71"),
            (1e16, "10000000000000000"),
            (99_999_999_999_999_990.0, "99999999999999984"),
            (1e300, "1.0000000000000001e+300"),
            (5e-324, "4.9406564584124654e-324"),
            (0.3, "0.29999999999999999"),
            (1.5e-10, "1.5e-10"),
            (100.0, "100"),
            (0.0, "0"),
        ] {
            assert_eq!(double(value), text);
        }
    }
}
