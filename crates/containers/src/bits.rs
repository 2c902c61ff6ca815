//! Strings as arrays of bits, and integers of any width within them. Bit 0 is the highest bit of the first byte.

/// The bit at position `bit`; bits behind the end are clear.
#[inline]
pub fn get(bytes: &[u8], bit: usize) -> bool {
    bytes
        .get(bit / 8)
        .is_some_and(|byte| byte >> (7 - bit % 8) & 1 == 1)
}

/// Sets or clears the bit at position `bit`, which must lie within `bytes`.
#[inline]
pub fn put(bytes: &mut [u8], bit: usize, on: bool) {
    let mask = 0x80 >> (bit % 8);
    let byte = &mut bytes[bit / 8];
    *byte = *byte & !mask | if on { mask } else { 0 };
}

/// The byte at `at`, its bits outside of the range `from..=to` cleared.
#[inline]
fn masked(byte: u8, at: usize, from: usize, to: usize) -> u8 {
    let mut mask = 0xff;
    if at == from / 8 {
        mask &= 0xff >> (from % 8);
    }
    if at == to / 8 {
        mask &= 0xff << (7 - to % 8);
    }
    byte & mask
}

/// Number of set bits from bit `from` to bit `to`, both included and within `bytes`.
pub fn count(bytes: &[u8], from: usize, to: usize) -> u64 {
    let (first, last) = (from / 8, to / 8);
    let ends = [first, last];
    let ends = &ends[..if first == last { 1 } else { 2 }];
    let ends: u32 = ends
        .iter()
        .map(|&at| masked(bytes[at], at, from, to).count_ones())
        .sum();
    let inner = bytes.get(first + 1..last).unwrap_or_default();
    let (words, rest) = inner.as_chunks::<8>();
    let words: u64 = words
        .iter()
        .map(|word| u64::from(u64::from_ne_bytes(*word).count_ones()))
        .sum();
    let rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
    u64::from(ends) + words + u64::from(rest)
}

/// Position of the first bit that is `wanted`, from bit `from` to bit `to`, both included and within `bytes`.
pub fn find(bytes: &[u8], wanted: bool, from: usize, to: usize) -> Option<usize> {
    let (first, last) = (from / 8, to / 8);
    let skipped: u8 = if wanted { 0 } else { 0xff };
    let hit = |at: usize| {
        let found = masked(bytes[at] ^ skipped, at, from, to);
        (found != 0).then(|| at * 8 + found.leading_zeros() as usize)
    };
    hit(first).or_else(|| {
        let inner = bytes.get(first + 1..last)?;
        let ahead = position_other_than(inner, skipped).unwrap_or(inner.len());
        hit(first + 1 + ahead)
    })
}

/// Position of the first byte that is not `byte`.
fn position_other_than(bytes: &[u8], byte: u8) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<16>();
    let same = words.iter().take_while(|word| **word == [byte; 16]).count() * 16;
    let ahead = bytes[same..].iter().position(|&other| other != byte)?;
    Some(same + ahead)
}

/// How BITOP joins its sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Bits that all have.
    And,
    /// Bits that any has.
    Or,
    /// Bits that an odd number of them has.
    Xor,
    /// Bits that the only source has not.
    Not,
    /// Bits that the first source has and no other.
    Diff,
    /// Bits that any source but the first has, and the first has not.
    Diff1,
    /// Bits that the first source has, and any other.
    AndOr,
    /// Bits that exactly one source has.
    One,
}

/// Joins the sources bit by bit; shorter ones are filled up with clear bits. The result is as long as the longest.
pub fn combine(operation: Operation, sources: &[&[u8]]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = vec![0; len];
    let Some((first, others)) = sources.split_first() else {
        return result;
    };
    match operation {
        Operation::Diff | Operation::Diff1 | Operation::AndOr => {
            compare_with_first(operation, first, others, &mut result);
            return result;
        }
        Operation::One => {
            keep_single(sources, &mut result);
            return result;
        }
        Operation::And | Operation::Or | Operation::Xor | Operation::Not => {}
    }
    result[..first.len()].copy_from_slice(first);
    if operation == Operation::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    for other in others {
        let (head, tail) = result.split_at_mut(other.len());
        let pairs = head.iter_mut().zip(*other);
        match operation {
            Operation::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                tail.fill(0);
            }
            Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Operation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            _ => {}
        }
    }
    result
}

/// What the first source has beside all others together. `result` is clear.
fn compare_with_first(operation: Operation, first: &[u8], others: &[&[u8]], result: &mut [u8]) {
    for other in others {
        let pairs = result.iter_mut().zip(*other);
        pairs.for_each(|(byte, other)| *byte |= other);
    }
    let (head, tail) = result.split_at_mut(first.len());
    let pairs = head.iter_mut().zip(first);
    match operation {
        Operation::Diff => pairs.for_each(|(byte, first)| *byte = first & !*byte),
        Operation::AndOr => pairs.for_each(|(byte, first)| *byte &= first),
        _ => pairs.for_each(|(byte, first)| *byte &= !first),
    }
    if operation != Operation::Diff1 {
        tail.fill(0);
    }
}

/// The bits that exactly one source has. `result` is clear.
fn keep_single(sources: &[&[u8]], result: &mut [u8]) {
    let mut several = vec![0; result.len()];
    for source in sources {
        for ((byte, several), other) in result.iter_mut().zip(&mut several).zip(*source) {
            *several |= *byte & other;
            *byte |= other;
        }
    }
    let pairs = result.iter_mut().zip(several);
    pairs.for_each(|(byte, several)| *byte &= !several);
}

/// What to do with a number that does not fit its field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// Keep the lowest bits.
    Wrap,
    /// Keep the nearest number that fits.
    Saturate,
    /// Change nothing.
    Fail,
}

/// The type of an integer in a string of bits: `i1` to `i64`, `u1` to `u63`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldType {
    signed: bool,
    bits: u32,
}

impl FieldType {
    /// Reads `i5`, `u63`.
    pub fn parse(text: &[u8]) -> Option<FieldType> {
        let (kind, digits) = text.split_first()?;
        let (signed, most) = match kind {
            b'i' => (true, 64),
            b'u' => (false, 63),
            _ => return None,
        };
        let bits = crate::number::parse_i64(digits)?;
        (1..=most).contains(&bits).then_some(FieldType {
            signed,
            bits: bits as u32,
        })
    }

    /// Width in bits.
    pub fn bits(self) -> usize {
        self.bits as usize
    }

    /// The smallest and the largest number of this type.
    fn range(self) -> (i128, i128) {
        if self.signed {
            let half = 1i128 << (self.bits - 1);
            (-half, half - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        }
    }

    /// The number at bit `offset`; bits behind the end are clear.
    pub fn read(self, bytes: &[u8], offset: usize) -> i64 {
        let mut window = [0; 16];
        let start = (offset / 8).min(bytes.len());
        let held = bytes[start..].len().min(WINDOW);
        window[..held].copy_from_slice(&bytes[start..start + held]);
        // The field begins at the top of the word, so that shifting back down keeps or spreads its highest bit.
        let word = u128::from_be_bytes(window) << (offset % 8);
        if self.signed {
            (word.cast_signed() >> (128 - self.bits)) as i64
        } else {
            (word >> (128 - self.bits)) as i64
        }
    }

    /// Writes the lowest bits of `value` at bit `offset`. The field must lie within `bytes`.
    pub fn write(self, bytes: &mut [u8], offset: usize, value: i64) {
        let start = offset / 8;
        let window = &mut bytes[start..];
        let held = window.len().min(WINDOW);
        let window = &mut window[..held];
        let mut word = [0; 16];
        word[..held].copy_from_slice(window);
        let shift = 128 - self.bits - (offset % 8) as u32;
        let mask = (u128::MAX >> (128 - self.bits)) << shift;
        let field = (value as u128) << shift & mask;
        let word = u128::from_be_bytes(word) & !mask | field;
        window.copy_from_slice(&word.to_be_bytes()[..held]);
    }

    /// `value` plus `increment` as a number of this type; `None` when it does not fit and `overflow` forbids it.
    pub fn add(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.fit(i128::from(value) + i128::from(increment), overflow)
    }

    /// `value` as a number of this type; `None` when it does not fit and `overflow` forbids it.
    ///
    /// For an unsigned field a negative value counts as its two's complement, which is above every bound.
    pub fn accept(self, value: i64, overflow: Overflow) -> Option<i64> {
        let exact = if self.signed {
            i128::from(value)
        } else {
            i128::from(value.cast_unsigned())
        };
        self.fit(exact, overflow)
    }

    fn fit(self, exact: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = self.range();
        if (least..=most).contains(&exact) {
            return Some(exact as i64);
        }
        match overflow {
            Overflow::Wrap => {
                let low = exact << (128 - self.bits);
                let wrapped = if self.signed {
                    low >> (128 - self.bits)
                } else {
                    (low.cast_unsigned() >> (128 - self.bits)).cast_signed()
                };
                Some(wrapped as i64)
            }
            Overflow::Saturate => Some(exact.clamp(least, most) as i64),
            Overflow::Fail => None,
        }
    }
}

/// Bytes that a field of 64 bits may touch.
const WINDOW: usize = 9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model(bytes: &[u8]) -> Vec<bool> {
        (0..bytes.len() * 8).map(|bit| get(bytes, bit)).collect()
    }

    proptest! {
        #[test]
        fn count_and_find_agree_with_a_walk(
            mut bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(255u8), any::<u8>()], 1..60),
            run in 0usize..60,
            fill in prop_oneof![Just(0u8), Just(255u8)],
            a in any::<prop::sample::Index>(),
            b in any::<prop::sample::Index>(),
        ) {
            let run = run.min(bytes.len());
            bytes[..run].fill(fill);
            let bits = model(&bytes);
            let (a, b) = (a.index(bits.len()), b.index(bits.len()));
            let (from, to) = (a.min(b), a.max(b));
            let part = &bits[from..=to];
            prop_assert_eq!(count(&bytes, from, to), part.iter().filter(|bit| **bit).count() as u64);
            for wanted in [false, true] {
                let expected = part.iter().position(|bit| *bit == wanted).map(|at| at + from);
                prop_assert_eq!(find(&bytes, wanted, from, to), expected);
            }
        }

        #[test]
        fn a_field_reads_back_what_was_written(
            mut bytes in prop::collection::vec(any::<u8>(), 9..20),
            offset in 0usize..8,
            signed in any::<bool>(),
            bits in 1u32..64,
            value in any::<i64>(),
        ) {
            let field = FieldType { signed, bits };
            let before = model(&bytes);
            field.write(&mut bytes, offset, value);
            let after = model(&bytes);
            let wrapped = field.accept(value, Overflow::Wrap).expect("wrapping always fits");
            prop_assert_eq!(field.read(&bytes, offset), wrapped);
            let end = offset + field.bits();
            prop_assert_eq!(&before[..offset], &after[..offset]);
            prop_assert_eq!(&before[end..], &after[end..]);
        }

        #[test]
        fn combine_joins_bit_by_bit(
            sources in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5),
        ) {
            let sources: Vec<&[u8]> = sources.iter().map(|source| &source[..]).collect();
            let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
            for operation in [
                Operation::And,
                Operation::Or,
                Operation::Xor,
                Operation::Diff,
                Operation::Diff1,
                Operation::AndOr,
                Operation::One,
            ] {
                let result = combine(operation, &sources);
                prop_assert_eq!(result.len(), len);
                for bit in 0..len * 8 {
                    let mut set = sources.iter().map(|source| get(source, bit));
                    let mut others = set.clone().skip(1);
                    let expected = match operation {
                        Operation::And => set.all(|on| on),
                        Operation::Or => set.any(|on| on),
                        Operation::Diff => get(sources[0], bit) && !others.any(|on| on),
                        Operation::Diff1 => !get(sources[0], bit) && others.any(|on| on),
                        Operation::AndOr => get(sources[0], bit) && others.any(|on| on),
                        Operation::One => set.filter(|on| *on).count() == 1,
                        _ => set.filter(|on| *on).count() % 2 == 1,
                    };
                    prop_assert_eq!(get(&result, bit), expected);
                }
            }
        }
    }

    #[test]
    fn types_are_bounded() {
        for (text, valid) in [
            ("u8", true),
            ("u63", true),
            ("i64", true),
            ("u64", false),
            ("i65", false),
            ("i0", false),
            ("u01", false),
            ("x8", false),
            ("", false),
        ] {
            assert_eq!(FieldType::parse(text.as_bytes()).is_some(), valid, "{text}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit() {
        let field = |text: &str| FieldType::parse(text.as_bytes()).expect("a type");
        assert_eq!(field("u8").add(250, 10, Overflow::Wrap), Some(4));
        assert_eq!(field("u8").add(250, 10, Overflow::Saturate), Some(255));
        assert_eq!(field("u8").add(250, 10, Overflow::Fail), None);
        assert_eq!(field("u8").add(5, -10, Overflow::Saturate), Some(0));
        assert_eq!(field("u8").accept(-1, Overflow::Saturate), Some(255));
        assert_eq!(field("i8").accept(200, Overflow::Wrap), Some(-56));
        assert_eq!(field("i8").accept(-200, Overflow::Saturate), Some(-128));
        assert_eq!(
            field("i64").add(i64::MAX, 1, Overflow::Wrap),
            Some(i64::MIN)
        );
        assert_eq!(
            field("i64").add(i64::MIN, -1, Overflow::Saturate),
            Some(i64::MIN)
        );
        assert_eq!(field("u63").add(i64::MAX, 1, Overflow::Wrap), Some(0));
    }
}
