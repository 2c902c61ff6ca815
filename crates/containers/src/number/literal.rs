//! The text of floating-point numbers as the C library's `strtod` and `strtold` read it, and rounding to their formats.

/// Number text in its parts.
pub(super) struct Literal<'a> {
    pub(super) negative: bool,
    /// The text without its sign.
    pub(super) unsigned: &'a [u8],
    pub(super) magnitude: Magnitude,
}

/// What follows the sign.
pub(super) enum Magnitude {
    Infinite,
    /// The number is mantissa times two to the exponent; the mantissa's lowest bit also stands for bits cut off.
    Hex(u128, i32),
    /// Digits with an optional point and an optional exponent.
    Decimal,
}

/// A decimal number: an integer times ten to the exponent.
pub(super) struct Decimal<'a> {
    pub(super) whole: &'a [u8],
    pub(super) fraction: &'a [u8],
    /// Of the number as written; saturated far outside all formats.
    pub(super) exponent: i64,
}

/// Bound of exponents as written, far outside all formats even with a text's worth of digits beside it.
const EXPONENT_BOUND: i64 = 1 << 40;

impl<'a> Literal<'a> {
    /// Splits a text; `None` if `strtod` would not read all of it, or reads a NaN.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let magnitude = if unsigned.eq_ignore_ascii_case(b"inf")
            || unsigned.eq_ignore_ascii_case(b"infinity")
        {
            Magnitude::Infinite
        } else if let [b'0', b'x' | b'X', rest @ ..] = unsigned {
            read_hex(rest)?
        } else {
            Decimal::read(unsigned)?;
            Magnitude::Decimal
        };
        Some(Self {
            negative,
            unsigned,
            magnitude,
        })
    }

    /// Whether the number as written is not zero.
    pub(super) fn has_nonzero_digit(&self) -> bool {
        match self.magnitude {
            Magnitude::Infinite => true,
            Magnitude::Hex(mantissa, _) => mantissa != 0,
            Magnitude::Decimal => {
                let digits = self
                    .unsigned
                    .iter()
                    .take_while(|b| !matches!(b, b'e' | b'E'));
                digits.into_iter().any(|b| (b'1'..=b'9').contains(b))
            }
        }
    }
}

impl<'a> Decimal<'a> {
    /// Reads `digits[.digits][e[+-]digits]` with at least one digit before the exponent.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let (whole, rest) = split_digits(text, |b| b.is_ascii_digit());
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => split_digits(rest, |b| b.is_ascii_digit()),
            _ => (&rest[..0], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        Some(Self {
            whole,
            fraction,
            exponent: read_exponent(rest, b'e')?,
        })
    }
}

fn split_digits(text: &[u8], is_digit: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|&b| !is_digit(b))
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Reads what remains behind the digits: nothing, or the letter, an optional sign and digits.
fn read_exponent(text: &[u8], letter: u8) -> Option<i64> {
    let rest = match text {
        [] => return Some(0),
        [first, rest @ ..] if first.eq_ignore_ascii_case(&letter) => rest,
        _ => return None,
    };
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0_i64, |sum, b| {
        (sum * 10 + i64::from(b - b'0')).min(EXPONENT_BOUND)
    });
    Some(if negative { -size } else { size })
}

/// Reads what follows `0x`: `digits[.digits][p[+-]digits]`.
fn read_hex(text: &[u8]) -> Option<Magnitude> {
    let (whole, rest) = split_digits(text, |b| b.is_ascii_hexdigit());
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_digits(rest, |b| b.is_ascii_hexdigit()),
        _ => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut exponent = read_exponent(rest, b'p')?;
    exponent -= 4 * fraction.len() as i64;
    let mut mantissa = 0_u128;
    for &digit in whole.iter().chain(fraction) {
        let value = (digit as char).to_digit(16)?;
        if mantissa >> 120 == 0 {
            mantissa = mantissa << 4 | u128::from(value);
        } else {
            mantissa |= u128::from(value != 0);
            exponent += 4;
        }
    }
    Some(Magnitude::Hex(
        mantissa,
        exponent
            .clamp(-EXPONENT_BOUND, EXPONENT_BOUND)
            .clamp(-1 << 30, 1 << 30) as i32,
    ))
}

/// A binary floating-point format: finite numbers are a mantissa below `2^bits` times a power of two.
pub(super) struct Format {
    pub(super) bits: u32,
    pub(super) min_exponent: i32,
    pub(super) max_exponent: i32,
}

/// `double`.
pub(super) const F64: Format = Format {
    bits: 53,
    min_exponent: -1074,
    max_exponent: 971,
};
/// x87 `long double`.
pub(super) const X87: Format = Format {
    bits: 64,
    min_exponent: -16445,
    max_exponent: 16320,
};

impl Format {
    /// Rounds `magnitude * 2^exponent` to the nearest number of the format, ties to even; `None` on overflow.
    ///
    /// The lowest bit of a magnitude of more than `bits + 2` bits may stand for any bits below it.
    pub(super) fn round(&self, magnitude: u128, exponent: i32) -> Option<(u64, i32)> {
        if magnitude == 0 {
            return Some((0, 0));
        }
        let length = 128 - magnitude.leading_zeros();
        let normal = exponent.saturating_add(length as i32 - self.bits as i32);
        let target = normal.max(self.min_exponent);
        let shift = i64::from(target) - i64::from(exponent);
        let mut mantissa = match shift {
            ..=0 => magnitude << -shift,
            1..=127 => {
                let kept = magnitude >> shift;
                let cut = magnitude & ((1 << shift) - 1);
                let half = 1 << (shift - 1);
                kept + u128::from(cut > half || (cut == half && kept & 1 == 1))
            }
            128 => u128::from(magnitude > 1 << 127),
            _ => 0,
        };
        let mut exponent = target;
        if mantissa >> self.bits != 0 {
            // Rounded up to the next power of two.
            mantissa >>= 1;
            exponent += 1;
        }
        if mantissa == 0 {
            return Some((0, 0));
        }
        (exponent <= self.max_exponent).then_some((mantissa as u64, exponent))
    }
}
