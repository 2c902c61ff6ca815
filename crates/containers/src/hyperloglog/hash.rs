//! From an element to a register and a rank.

use super::{INDEX_BITS, RANK_BITS, REGISTERS};

const SEED: u64 = 0xadc8_3b19;

/// The register of an element, and one more than the number of clear bits in front of the first set one in the rest of
/// its hash.
pub(super) fn index_and_rank(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, SEED);
    let index = hash as usize & (REGISTERS - 1);
    // A bit behind the last one bounds the count.
    let rest = hash >> INDEX_BITS | 1 << RANK_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// Austin Appleby's MurmurHash2, 64-bit version A.
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}
