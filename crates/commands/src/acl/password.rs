//! Passwords, kept as the hexadecimal SHA-256 of their bytes.

use sha2::{Digest, Sha256};

/// Letters of a hash.
pub const HASH_LEN: usize = 64;

/// The hexadecimal SHA-256 of a password, in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PasswordHash([u8; HASH_LEN]);

impl PasswordHash {
    /// The hash of a password in clear.
    pub fn of(password: &[u8]) -> PasswordHash {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; HASH_LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(Sha256::digest(password)) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        PasswordHash(text)
    }

    /// A hash that somebody else has computed; `None` unless it is 64 hexadecimal digits in lower case.
    pub fn parse(text: &[u8]) -> Option<PasswordHash> {
        let digits = <[u8; HASH_LEN]>::try_from(text).ok()?;
        digits
            .iter()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
            .then_some(PasswordHash(digits))
    }

    /// Its letters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Whether both are the same, in a time that does not tell how much of them is.
    pub fn matches(&self, other: &PasswordHash) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(PasswordHash::of(b"").as_str(), empty);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(PasswordHash::of(b"abc").as_str(), abc);
        assert_eq!(
            PasswordHash::parse(abc.as_bytes()),
            Some(PasswordHash::of(b"abc"))
        );
        assert!(PasswordHash::of(b"abc").matches(&PasswordHash::of(b"abc")));
        assert!(!PasswordHash::of(b"abc").matches(&PasswordHash::of(b"abd")));
    }

    #[test]
    fn only_lower_case_digits_are_a_hash() {
        assert_eq!(PasswordHash::parse(b"abc"), None);
        assert_eq!(PasswordHash::parse(&[b'A'; HASH_LEN]), None);
        assert_eq!(PasswordHash::parse(&[b'g'; HASH_LEN]), None);
        assert!(PasswordHash::parse(&[b'0'; HASH_LEN]).is_some());
    }
}
