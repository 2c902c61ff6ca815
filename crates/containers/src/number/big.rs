//! Just enough arithmetic on large natural numbers for exact decimal conversion.

use std::cmp::Ordering;

/// Largest power of ten in a limb, and its number of zeros.
const LIMB_TEN: u64 = 10_000_000_000_000_000_000;
const LIMB_DIGITS: usize = 19;

/// A natural number, least significant limb first, without leading zero limbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Big(Vec<u64>);

impl Big {
    pub(super) fn from_u64(value: u64) -> Self {
        Self(if value == 0 { Vec::new() } else { vec![value] })
    }

    /// The number that decimal digits stand for.
    pub(super) fn from_digits<'a>(digits: impl Iterator<Item = &'a u8>) -> Self {
        let mut big = Self(Vec::new());
        let (mut chunk, mut size) = (0, 1);
        for digit in digits {
            chunk = chunk * 10 + u64::from(digit - b'0');
            size *= 10;
            if size == LIMB_TEN {
                big.mul_add(size, chunk);
                (chunk, size) = (0, 1);
            }
        }
        big.mul_add(size, chunk);
        big
    }

    /// `self * factor + add`.
    fn mul_add(&mut self, factor: u64, add: u64) {
        let mut carry = add;
        for limb in &mut self.0 {
            let wide = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = wide as u64;
            carry = (wide >> 64) as u64;
        }
        if carry != 0 {
            self.0.push(carry);
        }
    }

    /// Multiplies by `10^power`.
    pub(super) fn mul_pow10(&mut self, power: usize) {
        for _ in 0..power / LIMB_DIGITS {
            self.mul_add(LIMB_TEN, 0);
        }
        self.mul_add(10_u64.pow((power % LIMB_DIGITS) as u32), 0);
    }

    /// Number of bits up to the highest one.
    pub(super) fn bits(&self) -> i64 {
        self.0.last().map_or(0, |top| {
            self.0.len() as i64 * 64 - i64::from(top.leading_zeros())
        })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Multiplies by `2^shift`.
    pub(super) fn shl(&mut self, shift: usize) {
        if self.is_zero() {
            return;
        }
        if !shift.is_multiple_of(64) {
            self.mul_add(1 << (shift % 64), 0);
        }
        self.0.splice(0..0, std::iter::repeat_n(0, shift / 64));
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.0
            .len()
            .cmp(&other.0.len())
            .then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Subtracts a number that is not larger.
    fn sub(&mut self, other: &Self) {
        let mut borrow = false;
        for (i, limb) in self.0.iter_mut().enumerate() {
            let (once, first) = limb.overflowing_sub(other.0.get(i).copied().unwrap_or(0));
            let (twice, second) = once.overflowing_sub(u64::from(borrow));
            *limb = twice;
            borrow = first || second;
        }
        debug_assert!(!borrow);
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// The first bits of `self / divisor` as `q * 2^e` with 68 or 69 bits of q; the lowest bit of q also stands for a
    /// remainder. Neither number may be zero.
    pub(super) fn div_to_bits(mut self, mut divisor: Self) -> (u128, i32) {
        // Scale until 1/2 < self / divisor < 2, then take a bit of the quotient per step.
        const STEPS: i32 = 69;
        let scale = self.bits() - divisor.bits();
        if scale > 0 {
            divisor.shl(scale as usize);
        } else {
            self.shl(-scale as usize);
        }
        let mut quotient = 0_u128;
        for _ in 0..STEPS {
            quotient <<= 1;
            if self.cmp(&divisor) != Ordering::Less {
                self.sub(&divisor);
                quotient |= 1;
            }
            self.mul_add(2, 0);
        }
        (
            quotient | u128::from(!self.is_zero()),
            scale as i32 - (STEPS - 1),
        )
    }

    /// Appends the decimal digits; nothing for zero.
    pub(super) fn write_digits(mut self, out: &mut Vec<u8>) {
        let mut chunks = Vec::new();
        while !self.is_zero() {
            let mut rest = 0_u64;
            for limb in self.0.iter_mut().rev() {
                let wide = u128::from(rest) << 64 | u128::from(*limb);
                *limb = (wide / u128::from(LIMB_TEN)) as u64;
                rest = (wide % u128::from(LIMB_TEN)) as u64;
            }
            while self.0.last() == Some(&0) {
                self.0.pop();
            }
            chunks.push(rest);
        }
        for (i, chunk) in chunks.iter().rev().enumerate() {
            let text = if i == 0 {
                chunk.to_string()
            } else {
                format!("{chunk:019}")
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
}
