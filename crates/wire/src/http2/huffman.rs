//! The Huffman code of header texts (RFC 7541, appendix B). It is canonical: shorter codes come first, and those of one
//! length in the order of their bytes, so the lengths say all.

/// Length of each byte's code in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];
/// Shortest and longest code of a byte.
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// The codes of one length are consecutive numbers.
#[derive(Clone, Copy)]
struct Length {
    /// The first of them.
    code: u32,
    /// How many there are.
    count: u32,
    /// Where their bytes begin in [`Codes::bytes`].
    at: u32,
}

struct Codes {
    lengths: [Length; LONGEST + 1],
    /// All bytes, by their codes.
    bytes: [u8; 256],
}

const CODES: Codes = codes();

const fn codes() -> Codes {
    let empty = Length {
        code: 0,
        count: 0,
        at: 0,
    };
    let mut codes = Codes {
        lengths: [empty; LONGEST + 1],
        bytes: [0; 256],
    };
    let (mut length, mut code, mut at) = (1, 0, 0);
    while length <= LONGEST {
        code <<= 1;
        codes.lengths[length].code = code;
        codes.lengths[length].at = at;
        let mut byte = 0;
        while byte < LENGTHS.len() {
            if LENGTHS[byte] as usize == length {
                codes.bytes[at as usize] = byte as u8;
                (code, at) = (code + 1, at + 1);
            }
            byte += 1;
        }
        codes.lengths[length].count = at - codes.lengths[length].at;
        length += 1;
    }
    codes
}

/// Appends the text that `coded` stands for; at most eight bytes for each five. False if it is no such text.
#[must_use]
pub(super) fn decode(coded: &[u8], text: &mut Vec<u8>) -> bool {
    let (mut code, mut length) = (0_u32, 0_usize);
    for &byte in coded {
        for bit in (0..8).rev() {
            code = code << 1 | u32::from(byte >> bit & 1);
            length += 1;
            if length < SHORTEST {
                continue;
            }
            if length > LONGEST {
                return false;
            }
            let of = CODES.lengths[length];
            let rank = code.wrapping_sub(of.code);
            if rank < of.count {
                text.push(CODES.bytes[(of.at + rank) as usize]);
                (code, length) = (0, 0);
            }
        }
    }
    // What is left is the beginning of the end mark, which is all ones, and less than a byte.
    length < 8 && code == (1 << length) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Option<String> {
        let mut text = Vec::new();
        decode(coded, &mut text).then(|| String::from_utf8(text).expect("ASCII"))
    }

    /// The examples of RFC 7541, C.4 and C.6.
    #[test]
    fn the_rfcs_examples() {
        for (coded, text) in [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (
                &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f],
                "custom-key",
            ),
            (
                &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf],
                "custom-value",
            ),
            (&[0x64, 0x02], "302"),
            (&[], ""),
        ] {
            assert_eq!(decoded(coded).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        // The end mark itself, padding of a whole byte, padding with a zero.
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf, 0xff]), None);
        assert_eq!(decoded(&[0x18]), None);
    }

    #[test]
    fn every_byte_has_its_code() {
        let count: u32 = CODES.lengths.iter().map(|length| length.count).sum();
        assert_eq!(count, 256);
        let mut bytes = CODES.bytes;
        bytes.sort_unstable();
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, &byte)| at == usize::from(byte))
        );
    }
}
