//! IDs of entries.

use crate::number;

/// Longest text that is read as an ID, in bytes (Redis' parsing buffer).
const TEXT_MAX: usize = 127;

/// Milliseconds and a sequence number: what orders the entries of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix milliseconds, unless the client chose otherwise.
    pub ms: u64,
    /// Order within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// `0-0`, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The last possible ID.
    pub const MAX: StreamId = StreamId {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// The ID of these numbers.
    #[inline]
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// Whether it is `0-0`.
    #[inline]
    pub fn is_zero(self) -> bool {
        self == StreamId::MIN
    }

    /// The next ID; `None` after the last.
    #[inline]
    pub fn next(self) -> Option<StreamId> {
        match (self.seq.checked_add(1), self.ms.checked_add(1)) {
            (Some(seq), _) => Some(StreamId { ms: self.ms, seq }),
            (None, Some(ms)) => Some(StreamId { ms, seq: 0 }),
            (None, None) => None,
        }
    }

    /// The ID before; `None` before `0-0`.
    #[inline]
    pub fn previous(self) -> Option<StreamId> {
        match (self.seq.checked_sub(1), self.ms.checked_sub(1)) {
            (Some(seq), _) => Some(StreamId { ms: self.ms, seq }),
            (None, Some(ms)) => Some(StreamId { ms, seq: u64::MAX }),
            (None, None) => None,
        }
    }

    /// Reads `ms` or `ms-seq`; a missing sequence is `missing_seq`.
    pub fn parse(text: &[u8], missing_seq: u64) -> Option<StreamId> {
        let (ms, seq) = halves(text)?;
        Some(StreamId {
            ms: unsigned(ms)?,
            seq: seq.map_or(Some(missing_seq), unsigned)?,
        })
    }

    /// Reads `ms-*`: the milliseconds.
    pub fn parse_open(text: &[u8]) -> Option<u64> {
        let (ms, seq) = halves(text)?;
        seq.filter(|&seq| seq == b"*")?;
        unsigned(ms)
    }

    /// `ms-seq`.
    pub fn write(self, buf: &mut [u8; StreamId::TEXT_LEN]) -> &[u8] {
        let mut len = 0;
        for (number, end) in [(self.ms, Some(b'-')), (self.seq, None)] {
            let mut digits = [0; number::I64_TEXT_LEN];
            let text = number::write_u64(&mut digits, number);
            buf[len..len + text.len()].copy_from_slice(text);
            len += text.len();
            if let Some(byte) = end {
                buf[len] = byte;
                len += 1;
            }
        }
        &buf[..len]
    }

    /// Longest text: twice 20 digits and the hyphen.
    pub const TEXT_LEN: usize = 41;

    /// Milliseconds, then sequence, both with the high byte first, as stored files have it.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    /// What [`StreamId::to_bytes`] gave.
    pub fn from_bytes(bytes: [u8; 16]) -> StreamId {
        let word = u128::from_be_bytes(bytes);
        StreamId {
            ms: (word >> 64) as u64,
            seq: word as u64,
        }
    }
}

impl std::fmt::Display for StreamId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Both sides of the first hyphen; text ends at its first NUL, as in C.
fn halves(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Some(match text.iter().position(|&byte| byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    })
}

/// Reads a number as C's `strtoull` does, except that a canonical negative one is refused: white space, a sign and zeros
/// may stand in front, and a minus counts down from 2^64.
fn unsigned(text: &[u8]) -> Option<u64> {
    // As `isspace` has it.
    let begin = text
        .iter()
        .position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
    let (negative, digits) = match &text[begin.unwrap_or(0)..] {
        text @ [b'-', b'1'..=b'9', ..] if number::parse_i64(text).is_some() => return None,
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(if negative {
        number.wrapping_neg()
    } else {
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<StreamId> {
        StreamId::parse(text.as_bytes(), 7)
    }

    #[test]
    fn text() {
        assert_eq!(parse("5"), Some(StreamId::new(5, 7)));
        assert_eq!(parse("5-3"), Some(StreamId::new(5, 3)));
        assert_eq!(parse("05-003"), Some(StreamId::new(5, 3)));
        assert_eq!(parse("+5-+3"), Some(StreamId::new(5, 3)));
        assert_eq!(parse(" \t\r5- +3"), Some(StreamId::new(5, 3)));
        assert_eq!(parse("1--01"), Some(StreamId::new(1, u64::MAX)));
        assert_eq!(
            parse("18446744073709551615-18446744073709551615"),
            Some(StreamId::MAX)
        );
        for wrong in [
            "",
            "-",
            "5-",
            "-5",
            "1--1",
            "a",
            "1-b",
            "1 ",
            "18446744073709551616",
            "5-*",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(StreamId::parse_open(b"5-*"), Some(5));
        assert_eq!(StreamId::parse_open(b"5-1"), None);
        let mut buf = [0; StreamId::TEXT_LEN];
        assert_eq!(
            StreamId::MAX.write(&mut buf),
            b"18446744073709551615-18446744073709551615"
        );
        assert_eq!(StreamId::new(0, 1).write(&mut buf), b"0-1");
    }

    #[test]
    fn neighbours() {
        let id = StreamId::new(4, u64::MAX);
        assert_eq!(id.next(), Some(StreamId::new(5, 0)));
        assert_eq!(id.next().and_then(StreamId::previous), Some(id));
        assert_eq!(
            (StreamId::MAX.next(), StreamId::MIN.previous()),
            (None, None)
        );
        assert_eq!(StreamId::from_bytes(id.to_bytes()), id);
    }
}
