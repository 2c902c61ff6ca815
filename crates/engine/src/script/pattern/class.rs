//! Sets of bytes in Lua's patterns: classes such as `%a`, and `[...]`.

use super::matcher::ESCAPE;

const ALPHA: u16 = 1;
const CONTROL: u16 = 1 << 1;
const DIGIT: u16 = 1 << 2;
const LOWER: u16 = 1 << 3;
const PUNCTUATION: u16 = 1 << 4;
const SPACE: u16 = 1 << 5;
const UPPER: u16 = 1 << 6;
const HEX: u16 = 1 << 7;
const ZERO: u16 = 1 << 8;

/// What each byte is, as the C library says where no language is set.
static KINDS: [u16; 256] = kinds();

const fn kinds() -> [u16; 256] {
    let mut kinds = [0; 256];
    let mut at = 0;
    while at < 128 {
        let byte = at as u8;
        let is = [
            (byte.is_ascii_alphabetic(), ALPHA),
            (byte.is_ascii_control(), CONTROL),
            (byte.is_ascii_digit(), DIGIT),
            (byte.is_ascii_lowercase(), LOWER),
            (byte.is_ascii_punctuation(), PUNCTUATION),
            (matches!(byte, b' ' | 9..=13), SPACE),
            (byte.is_ascii_uppercase(), UPPER),
            (byte.is_ascii_hexdigit(), HEX),
            (byte == 0, ZERO),
        ];
        let mut kind = 0;
        while kind < is.len() {
            if is[kind].0 {
                kinds[at] |= is[kind].1;
            }
            kind += 1;
        }
        at += 1;
    }
    kinds
}

/// What stands behind a `%`.
#[derive(Clone, Copy)]
pub(super) enum Class {
    /// Bytes that are one of these, or none of them.
    Kinds {
        any_of: u16,
        inverted: bool,
    },
    Byte(u8),
}

impl Class {
    #[inline]
    pub(super) fn of(letter: u8) -> Class {
        let any_of = match letter.to_ascii_lowercase() {
            b'a' => ALPHA,
            b'c' => CONTROL,
            b'd' => DIGIT,
            b'l' => LOWER,
            b'p' => PUNCTUATION,
            b's' => SPACE,
            b'u' => UPPER,
            b'w' => ALPHA | DIGIT,
            b'x' => HEX,
            b'z' => ZERO,
            _ => return Class::Byte(letter),
        };
        let inverted = letter.is_ascii_uppercase();
        Class::Kinds { any_of, inverted }
    }

    #[inline]
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Class::Kinds { any_of, inverted } => {
                (KINDS[usize::from(byte)] & any_of != 0) != inverted
            }
            Class::Byte(own) => own == byte,
        }
    }
}

/// Whether the byte is in the set whose text between the brackets is `set`.
#[inline]
pub(super) fn in_set(byte: u8, set: &[u8]) -> bool {
    let (inverted, set) = match set.split_first() {
        Some((b'^', rest)) => (true, rest),
        _ => (false, set),
    };
    let mut at = 0;
    while at < set.len() {
        let (has, len) = match set[at..] {
            [ESCAPE, letter, ..] => (Class::of(letter).has(byte), 2),
            [low, b'-', high, ..] => (low <= byte && byte <= high, 3),
            [own, ..] => (own == byte, 1),
            [] => break,
        };
        if has {
            return !inverted;
        }
        at += len;
    }
    inverted
}
