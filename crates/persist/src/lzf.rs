//! LZF, with which redis-server compresses longer strings in a file.

/// Most bytes that one byte of input can stand for: a run of 264 bytes takes three.
const EXPANSION_MAX: usize = 264;

/// The `len` bytes that `input` stands for; `None` when it does not stand for exactly so many. Allocates no more than
/// the input can give.
pub(crate) fn decompress(input: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > input.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let mut output = Vec::with_capacity(len);
    let mut input = input.iter().copied();
    while let Some(control) = input.next() {
        let control = usize::from(control);
        if control < 32 {
            for _ in 0..=control {
                output.push(input.next()?);
            }
        } else {
            let mut count = control >> 5;
            if count == 7 {
                count += usize::from(input.next()?);
            }
            let distance = ((control & 31) << 8 | usize::from(input.next()?)) + 1;
            let start = output.len().checked_sub(distance)?;
            for at in start..start + count + 2 {
                output.push(output[at]);
            }
        }
        if output.len() > len {
            return None;
        }
    }
    (output.len() == len).then_some(output)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn literals_and_references() {
        assert_eq!(decompress(&[2, b'a', b'b', b'c'], 3), Some(b"abc".to_vec()));
        // One literal, then eight bytes from one back.
        assert_eq!(
            decompress(&[0, b'a', 0xC0, 0], 9),
            Some(b"aaaaaaaaa".to_vec())
        );
        // A long run: seven, and three more, and two.
        assert_eq!(decompress(&[0, b'a', 0xE0, 3, 0], 13), Some(vec![b'a'; 13]));
    }

    #[test]
    fn nothing_wrong_is_accepted() {
        assert_eq!(decompress(&[2, b'a'], 3), None, "literals missing");
        assert_eq!(decompress(&[0, b'a', 0xC0], 9), None, "distance missing");
        assert_eq!(
            decompress(&[0, b'a', 0xC0, 1], 9),
            None,
            "reference before the start"
        );
        assert_eq!(decompress(&[0, b'a'], 2), None, "too short");
        assert_eq!(decompress(&[1, b'a', b'b'], 1), None, "too long");
        assert_eq!(
            decompress(&[0, b'a'], usize::MAX),
            None,
            "a length no input of this size can give"
        );
    }
}
