//! Slots: what a cluster of servers is divided by.

use crate::key::hash_tag;

/// Slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// CRC-16/XMODEM of each byte: polynomial 0x1021, no reflection, starting at 0.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                (crc << 1) ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The slot of a key, or of a shard channel: below [`SLOTS`], from the checksum of its tag if it has one.
///
/// Source: <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
pub fn slot_of(key: &[u8]) -> u16 {
    let crc = hash_tag(key).iter().fold(0u16, |crc, &byte| {
        (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fact 110: the checksum of the specification's example, and the tag that counts alone.
    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot_of(b""), 0);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), 8_363);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
    }
}
