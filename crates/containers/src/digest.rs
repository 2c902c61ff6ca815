//! The digest of a string by which clients compare it without sending it.

use xxhash_rust::xxh3::xxh3_64;

/// Hexadecimal digits of a digest.
pub const DIGITS: usize = 16;

/// XXH3 (64 bits, no seed) in lower-case hexadecimal digits, leading zeros included.
pub fn digest(bytes: &[u8]) -> [u8; DIGITS] {
    let hash = xxh3_64(bytes);
    std::array::from_fn(|at| {
        let digit = (hash >> (4 * (DIGITS - 1 - at))) & 15;
        b"0123456789abcdef"[digit as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_reference() {
        // An example of the documentation of XXH3, and one whose digest begins with zeros.
        assert_eq!(&digest(b""), b"2d06800538d394c2");
        let text = b"v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd";
        assert_eq!(&digest(text), b"00006c38adf31777");
    }
}
