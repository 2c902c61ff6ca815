//! Base64 (RFC 4648, section 4) with padding, for keys that are no text.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What `text` encodes; `None` when it is empty or malformed.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&b| b == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for (number, group) in text.chunks_exact(4).enumerate() {
        let is_last = (number + 1) * 4 == text.len();
        let missing = if is_last { padding } else { 0 };
        let mut word = 0u32;
        for (at, &byte) in group.iter().enumerate() {
            let bits = match at >= 4 - missing {
                true => 0,
                false => value(byte)?,
            };
            word = word << 6 | bits;
        }
        out.extend_from_slice(&word.to_be_bytes()[1..4 - missing]);
    }
    Some(out)
}

fn value(letter: u8) -> Option<u32> {
    Some(u32::from(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// Appends the encoding of `bytes`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            out.push(match place <= group.len() {
                true => LETTERS[(word >> (18 - 6 * place)) as usize & 63],
                false => b'=',
            });
        }
    }
}
