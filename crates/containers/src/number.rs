//! Numbers and their decimal text.

mod big;
mod extended;
mod literal;

pub use extended::Extended;
use literal::{F64, Literal, Magnitude};

/// Longest text of an `i64`: 19 digits and a sign.
pub const I64_TEXT_LEN: usize = 20;

/// Parses a decimal integer as strictly as Redis' `string2ll`: no spaces, no `+`, no leading zeros, no `-0`, in range.
///
/// So a text parses exactly if [`write_i64`] gives the same text back.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude = 0_u64;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        // 19 digits are below 10^19, which fits.
        magnitude = magnitude * 10 + u64::from(value);
    }
    if negative {
        (magnitude <= i64::MIN.unsigned_abs()).then(|| (magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// The digits of 0 to 99, two each.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut i = 0;
    while i < 100 {
        pairs[2 * i] = b'0' + (i / 10) as u8;
        pairs[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    pairs
};

/// Writes `value` in decimal into `buf`; the returned slice is the text.
#[inline]
pub fn write_i64(buf: &mut [u8; I64_TEXT_LEN], value: i64) -> &[u8] {
    let mut at = write_digits(buf, value.unsigned_abs());
    if value < 0 {
        at -= 1;
        buf[at] = b'-';
    }
    &buf[at..]
}

/// As [`write_i64`] without a sign: up to 20 digits.
#[inline]
pub(crate) fn write_u64(buf: &mut [u8; I64_TEXT_LEN], value: u64) -> &[u8] {
    let at = write_digits(buf, value);
    &buf[at..]
}

/// Writes digits to the end of `buf`; where they begin.
#[inline]
fn write_digits(buf: &mut [u8; I64_TEXT_LEN], value: u64) -> usize {
    let mut rest = value;
    let mut at = I64_TEXT_LEN;
    while rest >= 10 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        at -= 2;
        buf[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    // A pair is only taken from a rest of two digits or more, so there is no leading zero.
    if rest > 0 || at == I64_TEXT_LEN {
        at -= 1;
        buf[at] = b'0' + rest as u8;
    }
    at
}

/// Parses a double as Redis' `getDoubleFromObject` does: all that `strtod` reads, hexadecimal and infinities by name
/// included, but no leading space, no NaN, nothing that overflows and nothing but zero that rounds to zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    /// Whole numbers up to this one are doubles.
    const EXACT: i64 = 1 << f64::MANTISSA_DIGITS;
    // Nearly all scores are whole numbers.
    if let Some(int) = parse_i64(text)
        && (-EXACT..=EXACT).contains(&int)
    {
        return Some(int as f64);
    }
    let literal = Literal::read(text)?;
    let number = literal_f64(&literal)?;
    let overflowed = number.is_infinite() && !matches!(literal.magnitude, Magnitude::Infinite);
    let vanished = number == 0.0 && literal.has_nonzero_digit();
    (!overflowed && !vanished).then_some(number)
}

/// Parses a double as C's `strtod` reads a whole string: as [`parse_f64`], but spaces may stand before the number, the text
/// ends at a NUL, nothing at all is 0, and what is too large or too small becomes infinite or zero. No NaN.
pub fn parse_c_double(text: &[u8]) -> Option<f64> {
    match c_literal(text)? {
        Some(literal) => literal_f64(&literal),
        None => Some(0.0),
    }
}

/// As [`parse_c_double`], for what looks at `errno` too: nothing that overflows, and nothing that is too small for all its
/// bits to be kept.
pub fn parse_c_double_in_range(text: &[u8]) -> Option<f64> {
    let Some(literal) = c_literal(text)? else {
        return Some(0.0);
    };
    let number = literal_f64(&literal)?;
    let loses_bits = || match literal.magnitude {
        Magnitude::Infinite => false,
        Magnitude::Hex(bits, exponent) => {
            bits != 0 && exponent.saturating_add(bits.trailing_zeros() as i32) < F64.min_exponent
        }
        // No decimal text of any usual length is exactly such a number.
        Magnitude::Decimal => literal.has_nonzero_digit(),
    };
    let overflowed = number.is_infinite() && !matches!(literal.magnitude, Magnitude::Infinite);
    let vanishes = number.abs() < f64::MIN_POSITIVE && loses_bits();
    (!overflowed && !vanishes).then_some(number)
}

/// What `strtod` reads as a whole string; `Some(None)` when that is empty.
fn c_literal(text: &[u8]) -> Option<Option<Literal<'_>>> {
    let end = text
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(text.len());
    let text = &text[..end];
    if text.is_empty() {
        return Some(None);
    }
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\x0b';
    let start = text.iter().position(|byte| !is_space(byte))?;
    Literal::read(&text[start..]).map(Some)
}

/// The double nearest to a literal.
fn literal_f64(literal: &Literal<'_>) -> Option<f64> {
    let magnitude = match literal.magnitude {
        Magnitude::Infinite => f64::INFINITY,
        Magnitude::Hex(bits, exponent) => {
            match F64.round(bits, exponent) {
                None => f64::INFINITY,
                Some((0, _)) => 0.0,
                // Exact: the format has rounded the mantissa to what a double holds at this exponent.
                Some((mantissa, exponent)) => scale(mantissa as f64, exponent),
            }
        }
        // The digits are plain ASCII of a form that Rust reads too, correctly rounded as in the C library.
        Magnitude::Decimal => std::str::from_utf8(literal.unsigned).ok()?.parse().ok()?,
    };
    Some(if literal.negative {
        -magnitude
    } else {
        magnitude
    })
}

/// `value * 2^exponent` where the result is exact.
fn scale(value: f64, exponent: i32) -> f64 {
    // In two steps, since 2^exponent alone may be below the smallest double.
    let half = exponent / 2;
    value * 2_f64.powi(half) * 2_f64.powi(exponent - half)
}

#[cfg(test)]
mod tests;
