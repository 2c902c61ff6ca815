//! `long double` in software.
//!
//! Redis keeps the sum of `INCRBYFLOAT` in a C `long double`, on x86-64 the 80-bit x87 format, and prints it with
//! `%.17Lf`. Rust has no such type, and doubles give other digits (0.1 + 0.2 is 0.3 in Redis), so the format is here:
//! correctly rounded from text, added, and printed exactly.

use std::cmp::Ordering;

use super::big::Big;
use super::literal::{Decimal, Literal, Magnitude, X87};

/// Digits behind the decimal point that are printed.
const FRACTION_DIGITS: usize = 17;
const FRACTION_SCALE: u128 = 10_u128.pow(FRACTION_DIGITS as u32);

/// Beyond this decimal exponent of the leading digit every number overflows, below its negative every one vanishes.
const MAX_DECIMAL_EXPONENT: i64 = 5000;

/// An 80-bit x87 `long double`: the arithmetic of `INCRBYFLOAT`.
#[derive(Clone, Copy, Debug)]
pub struct Extended {
    negative: bool,
    magnitude: Class,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    /// `mantissa * 2^exponent`; zero has mantissa and exponent 0.
    Finite {
        mantissa: u64,
        exponent: i32,
    },
    Infinite,
    NotANumber,
}

impl Extended {
    /// Longest text in bytes that is read as a number (Redis' `MAX_LONG_DOUBLE_CHARS` less the end mark).
    pub const MAX_TEXT_LEN: usize = 5 * 1024 - 1;

    /// Parses as Redis' `string2ld` does: all that `strtold` reads, hexadecimal and infinities by name included, but no
    /// leading space, no NaN, nothing that overflows and nothing but zero that rounds to zero. `None` is the error
    /// "value is not a valid float".
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > Self::MAX_TEXT_LEN {
            return None;
        }
        let literal = Literal::read(text)?;
        let (mantissa, exponent) = match literal.magnitude {
            Magnitude::Infinite => {
                return Some(Self {
                    negative: literal.negative,
                    magnitude: Class::Infinite,
                });
            }
            Magnitude::Hex(bits, exponent) => X87.round(bits, exponent)?,
            Magnitude::Decimal => round_decimal(&Decimal::read(literal.unsigned)?)?,
        };
        if mantissa == 0 && literal.has_nonzero_digit() {
            return None;
        }
        Some(Self {
            negative: literal.negative,
            magnitude: Class::Finite { mantissa, exponent },
        })
    }

    /// Zero.
    pub const ZERO: Self = Self {
        negative: false,
        magnitude: Class::Finite {
            mantissa: 0,
            exponent: 0,
        },
    };

    /// The least finite value, C's `-LDBL_MAX`.
    pub const LEAST: Self = Self {
        negative: true,
        ..Self::MAX
    };

    /// The largest finite value, C's `LDBL_MAX`.
    pub const MAX: Self = Self {
        negative: false,
        magnitude: Class::Finite {
            mantissa: u64::MAX,
            exponent: 16_383 - 63,
        },
    };

    /// Neither NaN nor an infinity.
    pub fn is_finite(self) -> bool {
        matches!(self.magnitude, Class::Finite { .. })
    }

    /// The number of thousandths, rounded up, as C's `(long long) ceill(x * 1000)` has it; `None` where that is beyond the
    /// integers.
    pub fn ceil_thousandths(self) -> Option<i64> {
        let Class::Finite { mantissa, exponent } = self.magnitude else {
            return None;
        };
        let (mantissa, exponent) = X87.round(u128::from(mantissa) * 1000, exponent)?;
        let mantissa = i128::from(mantissa);
        let magnitude = match exponent {
            64.. => return None,
            0.. => mantissa << exponent,
            _ => {
                let shift = exponent.unsigned_abs().min(64);
                let whole = mantissa >> shift;
                let is_part_left = mantissa != whole << shift;
                whole + i128::from(is_part_left && !self.negative)
            }
        };
        i64::try_from(if self.negative { -magnitude } else { magnitude }).ok()
    }

    /// The text of Redis' `ld2string` in human mode: `%.17Lf` without the trailing zeros, and never `-0`.
    pub fn to_text(self) -> Vec<u8> {
        let sign: &[u8] = if self.negative { b"-" } else { b"" };
        let (mantissa, exponent) = match self.magnitude {
            Class::Finite { mantissa, exponent } => (mantissa, exponent),
            Class::Infinite => return [sign, b"inf"].concat(),
            Class::NotANumber => return b"nan".to_vec(),
        };
        let mut text = sign.to_vec();
        if exponent > 0 {
            let mut whole = Big::from_u64(mantissa);
            whole.shl(exponent as usize);
            whole.write_digits(&mut text);
            return text;
        }
        let scaled = shift_right_even(
            u128::from(mantissa) * FRACTION_SCALE,
            exponent.unsigned_abs(),
        );
        if scaled == 0 {
            return b"0".to_vec();
        }
        text.extend_from_slice((scaled / FRACTION_SCALE).to_string().as_bytes());
        let fraction = format!(".{:0FRACTION_DIGITS$}", scaled % FRACTION_SCALE);
        text.extend_from_slice(
            fraction
                .trim_end_matches('0')
                .trim_end_matches('.')
                .as_bytes(),
        );
        text
    }
}

impl From<i64> for Extended {
    /// Exact: the mantissa has 64 bits.
    fn from(value: i64) -> Self {
        // The format normalises; an integer of 64 bits neither rounds nor overflows.
        let (mantissa, exponent) = X87
            .round(u128::from(value.unsigned_abs()), 0)
            .unwrap_or((0, 0));
        Self {
            negative: value < 0,
            magnitude: Class::Finite { mantissa, exponent },
        }
    }
}

impl From<f64> for Extended {
    /// Exact: mantissa and exponent have more bits.
    fn from(value: f64) -> Self {
        let negative = value.is_sign_negative();
        if value.is_nan() {
            return Self::NAN;
        }
        if value.is_infinite() {
            return Self {
                negative,
                magnitude: Class::Infinite,
            };
        }
        let fraction = value.to_bits() & ((1 << 52) - 1);
        // Subnormals have the exponent of the smallest normal numbers, and no leading one.
        let (mantissa, exponent) = match (value.to_bits() >> 52) as i32 & 0x7ff {
            0 => (fraction, -1074),
            exponent => (fraction | 1 << 52, exponent - 1075),
        };
        let (mantissa, exponent) = X87.round(u128::from(mantissa), exponent).unwrap_or((0, 0));
        Self {
            negative,
            magnitude: Class::Finite { mantissa, exponent },
        }
    }
}

impl std::ops::Neg for Extended {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            negative: !self.negative,
            ..self
        }
    }
}

impl std::ops::Sub for Extended {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl PartialEq for Extended {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Extended {
    /// As C orders them: zeros are equal, NaN has no place.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.magnitude, other.magnitude) {
            (Class::NotANumber, _) | (_, Class::NotANumber) => return None,
            (Class::Infinite, Class::Infinite) if self.negative == other.negative => {
                return Some(Ordering::Equal);
            }
            _ => {}
        }
        // Small differences do not vanish in this format, so the sign of the difference decides.
        let difference = *self - *other;
        Some(match difference.magnitude {
            Class::Finite { mantissa: 0, .. } => Ordering::Equal,
            _ if difference.negative => Ordering::Less,
            _ => Ordering::Greater,
        })
    }
}

impl std::ops::Add for Extended {
    type Output = Self;

    /// Rounds to nearest, ties to even.
    fn add(self, other: Self) -> Self {
        let (a, b) = match (self.magnitude, other.magnitude) {
            (Class::NotANumber, _) | (_, Class::NotANumber) => return Self::NAN,
            (Class::Infinite, Class::Infinite) if self.negative != other.negative => {
                return Self::NAN;
            }
            (Class::Infinite, _) => return self,
            (_, Class::Infinite) => return other,
            (Class::Finite { mantissa: 0, .. }, Class::Finite { mantissa: 0, .. }) => {
                return Self {
                    negative: self.negative && other.negative,
                    ..self
                };
            }
            (Class::Finite { mantissa: 0, .. }, _) => return other,
            (_, Class::Finite { mantissa: 0, .. }) => return self,
            (
                Class::Finite {
                    mantissa: m,
                    exponent: e,
                },
                Class::Finite {
                    mantissa: n,
                    exponent: f,
                },
            ) => ((m, e, self.negative), (n, f, other.negative)),
        };
        let (high, low) = if a.1 >= b.1 { (a, b) } else { (b, a) };
        // 62 bits below the mantissa keep all that can decide the rounding; one above it takes the carry.
        const SPACE: u32 = 62;
        let wide = u128::from(high.0) << SPACE;
        let narrow = shift_right_sticky(u128::from(low.0) << SPACE, high.1.abs_diff(low.1));
        let exponent = high.1 - SPACE as i32;
        let (negative, sum) = if high.2 == low.2 {
            (high.2, wide + narrow)
        } else if wide >= narrow {
            (high.2, wide - narrow)
        } else {
            (low.2, narrow - wide)
        };
        match X87.round(sum, exponent) {
            // An exact zero is positive when rounding to nearest.
            Some((0, _)) => Self::ZERO,
            Some((mantissa, exponent)) => Self {
                negative,
                magnitude: Class::Finite { mantissa, exponent },
            },
            None => Self {
                negative,
                magnitude: Class::Infinite,
            },
        }
    }
}

impl Extended {
    const NAN: Self = Self {
        negative: false,
        magnitude: Class::NotANumber,
    };
}

/// Rounds decimal text to the format; `None` on overflow.
fn round_decimal(decimal: &Decimal<'_>) -> Option<(u64, i32)> {
    let leading = decimal.whole.iter().take_while(|&&b| b == b'0').count();
    let whole = &decimal.whole[leading..];
    let digits = whole.iter().chain(decimal.fraction);
    let zeros = digits.clone().take_while(|&&b| b == b'0').count();
    let count = whole.len() + decimal.fraction.len() - zeros;
    if count == 0 {
        return Some((0, 0));
    }
    let digits = digits.skip(zeros);
    let exponent = decimal.exponent - decimal.fraction.len() as i64;
    let leading_exponent = exponent + count as i64;
    if leading_exponent > MAX_DECIMAL_EXPONENT {
        return None;
    }
    if leading_exponent < -MAX_DECIMAL_EXPONENT {
        return Some((0, 0));
    }
    if count <= 19 && (-18..=0).contains(&exponent) {
        // A quotient of a 128-bit and a 60-bit number has the 66 bits that rounding needs.
        let mantissa = digits.fold(0_u64, |sum, b| sum * 10 + u64::from(b - b'0'));
        let shift = u128::from(mantissa).leading_zeros();
        let numerator = u128::from(mantissa) << shift;
        let divisor = 10_u128.pow(exponent.unsigned_abs() as u32);
        let sticky = u128::from(numerator % divisor != 0);
        return X87.round((numerator / divisor) | sticky, -(shift as i32));
    }
    let mut numerator = Big::from_digits(digits);
    let mut divisor = Big::from_u64(1);
    let scaled = if exponent >= 0 {
        &mut numerator
    } else {
        &mut divisor
    };
    scaled.mul_pow10(exponent.unsigned_abs() as usize);
    let (bits, exponent) = numerator.div_to_bits(divisor);
    X87.round(bits, exponent)
}

/// `value / 2^shift`; bits cut off leave a mark in the lowest bit.
fn shift_right_sticky(value: u128, shift: u32) -> u128 {
    if shift >= 128 {
        return u128::from(value != 0);
    }
    let kept = value >> shift;
    kept | u128::from(kept << shift != value)
}

/// `value / 2^shift`, rounded to nearest, ties to even.
fn shift_right_even(value: u128, shift: u32) -> u128 {
    match shift {
        0 => value,
        1..=127 => {
            let kept = value >> shift;
            let cut = value & ((1 << shift) - 1);
            let half = 1 << (shift - 1);
            kept + u128::from(cut > half || (cut == half && kept & 1 == 1))
        }
        // FRACTION_SCALE and the mantissa have 121 bits together: less than half.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Extended {
        Extended::parse(text.as_bytes()).expect("a number")
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let rising = [
            "-inf",
            "-1e4931",
            "-1",
            "-1e-4940",
            "0",
            "3.7e-4951",
            "0.1",
            "0.10000000000000000001",
            "1",
            "9223372036854775807",
            "1e4931",
            "inf",
        ];
        for (at, low) in rising.iter().enumerate() {
            for (other, high) in rising.iter().enumerate() {
                let order = number(low).partial_cmp(&number(high));
                assert_eq!(order, Some(at.cmp(&other)), "{low} {high}");
            }
        }
        assert_eq!(number("0"), number("-0"));
        assert_eq!(Extended::NAN.partial_cmp(&number("0")), None);
    }

    #[test]
    fn the_largest_value_is_the_last_before_infinity() {
        assert!(Extended::MAX.is_finite());
        assert!(Extended::MAX < number("inf") && number("1.18e4932") < Extended::MAX);
        assert!(!(Extended::MAX + Extended::MAX).is_finite());
        assert_eq!(Extended::MAX - Extended::MAX, number("0"));
        assert_eq!((Extended::MAX + number("1")), Extended::MAX);
    }
}
