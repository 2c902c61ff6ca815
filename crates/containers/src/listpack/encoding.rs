//! How one element of a listpack is written.

use super::Element;

/// Most bytes of an integer's encoding.
pub(super) const INT_LEN_MAX: usize = 9;

const INT13: u8 = 0xC0;
const INT16: u8 = 0xF1;
const INT24: u8 = 0xF2;
const INT32: u8 = 0xF3;
const INT64: u8 = 0xF4;
const BYTES6: u8 = 0x80;
const BYTES12: u8 = 0xE0;
const BYTES32: u8 = 0xF0;

/// What the first bytes of an element say about it.
#[derive(Clone, Copy)]
pub(super) enum Head {
    /// So many bytes hold an integer.
    Int(usize),
    /// A string: bytes before it, and of it.
    Bytes(usize, usize),
}

impl Head {
    /// Reads the head of the element that `bytes` begin with; `None` when there is none that is known and whole.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Head> {
        let first = *bytes.first()?;
        let byte = |at: usize| bytes.get(at).map(|&byte| usize::from(byte));
        Some(match first {
            0..BYTES6 => Head::Int(1),
            BYTES6..INT13 => Head::Bytes(1, usize::from(first & 0x3F)),
            INT13..BYTES12 => Head::Int(2),
            BYTES12..BYTES32 => Head::Bytes(2, usize::from(first & 0x0F) << 8 | byte(1)?),
            BYTES32 => {
                let len = byte(1)? | byte(2)? << 8 | byte(3)? << 16 | byte(4)? << 24;
                Head::Bytes(5, len)
            }
            INT16 => Head::Int(3),
            INT24 => Head::Int(4),
            INT32 => Head::Int(5),
            INT64 => Head::Int(9),
            _ => return None,
        })
    }

    /// Bytes of head and data.
    #[inline]
    pub(super) fn len(self) -> usize {
        match self {
            Head::Int(len) => len,
            Head::Bytes(head, len) => head + len,
        }
    }
}

/// The element that `bytes` begin with, and the length of its encoding; `None` when it is not whole.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> Option<(Element<'_>, usize)> {
    let head = Head::read(bytes)?;
    let len = head.len();
    let data = bytes.get(..len)?;
    let element = match head {
        Head::Bytes(head, _) => Element::Bytes(&data[head..]),
        Head::Int(1) => Element::Int(i64::from(data[0])),
        Head::Int(2) => {
            let word = u16::from(data[0] & 0x1F) << 8 | u16::from(data[1]);
            // Thirteen bits with their sign, moved to the top and back.
            Element::Int(i64::from((word << 3) as i16 >> 3))
        }
        Head::Int(_) => {
            let bytes = &data[1..];
            let mut word = [0; 8];
            word[8 - bytes.len()..].copy_from_slice(bytes);
            Element::Int(i64::from_le_bytes(word) >> (64 - 8 * bytes.len()))
        }
    };
    Some((element, len))
}

/// The encoding of an integer, in the fewest bytes.
#[inline]
pub(super) fn write_int(buf: &mut [u8; INT_LEN_MAX], int: i64) -> &[u8] {
    let bytes = int.to_le_bytes();
    let len = match int {
        0..=127 => {
            buf[0] = bytes[0];
            return &buf[..1];
        }
        -4096..=4095 => {
            buf[0] = INT13 | (bytes[1] & 0x1F);
            buf[1] = bytes[0];
            return &buf[..2];
        }
        -0x8000..=0x7FFF => {
            buf[0] = INT16;
            2
        }
        -0x80_0000..=0x7F_FFFF => {
            buf[0] = INT24;
            3
        }
        -0x8000_0000..=0x7FFF_FFFF => {
            buf[0] = INT32;
            4
        }
        _ => {
            buf[0] = INT64;
            8
        }
    };
    buf[1..=len].copy_from_slice(&bytes[..len]);
    &buf[..=len]
}

/// Adds the encoding of a string.
pub(super) fn push_bytes(out: &mut Vec<u8>, text: &[u8]) {
    let len = text.len();
    match len {
        0..64 => out.push(BYTES6 | len as u8),
        64..4096 => out.extend_from_slice(&[BYTES12 | (len >> 8) as u8, len as u8]),
        _ => {
            out.push(BYTES32);
            out.extend_from_slice(&(len as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// How many bytes the length of an encoding takes behind it. The bounds are one below what would fit, as in Redis.
#[inline]
pub(super) fn back_len(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Adds the length of an encoding so that it can be read from behind: seven bits a byte, the lowest last.
#[inline]
pub(super) fn push_back_len(out: &mut Vec<u8>, len: usize) {
    let count = back_len(len);
    for place in (0..count).rev() {
        let more = if place + 1 == count { 0 } else { 128 };
        out.push((len >> (7 * place)) as u8 & 127 | more);
    }
}
