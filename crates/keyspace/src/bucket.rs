//! The head of a bucket: a tag for each record, and where the records are.
//!
//! Two cache lines stand for up to 64 records. A lookup compares all tags at once and then touches the one record whose
//! tag fits; heads are a twelfth of the memory, so they tend to be in the cache when records are not.

use crate::prefetch;

/// Records of a bucket.
pub(crate) const CAPACITY: usize = 64;
/// Records of a block, the unit in which a bucket grows.
pub(crate) const BLOCK: usize = 4;
/// Tags compared at once.
const GROUP: usize = 32;

/// The tags and blocks of a bucket. Records fill it from the front without gaps; tag 0 is a free place.
#[repr(C)]
pub(crate) struct Head {
    tags: [u8; CAPACITY],
    blocks: [u32; CAPACITY / BLOCK],
}

impl Head {
    pub(crate) const EMPTY: Self = Self {
        tags: [0; CAPACITY],
        blocks: [0; CAPACITY / BLOCK],
    };

    /// Bit i is set if the record i has this tag.
    #[inline]
    pub(crate) fn matches(&self, tag: u8) -> u64 {
        let (low, high) = self.tags.split_at(GROUP);
        u64::from(equal_mask(low, tag)) | u64::from(equal_mask(high, tag)) << GROUP
    }

    /// Asks for the line of block numbers while the tags are still on their way; both are needed for a hit.
    #[inline]
    pub(crate) fn prefetch_blocks(&self) {
        prefetch::line(self.blocks.as_ptr());
    }

    /// Number of records.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.matches(0).trailing_zeros() as usize
    }

    /// The block and the place in it of record `index`.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> (u32, usize) {
        (self.blocks[index / BLOCK], index % BLOCK)
    }

    #[inline]
    pub(crate) fn tag(&self, index: usize) -> u8 {
        self.tags[index]
    }

    pub(crate) fn set_tag(&mut self, index: usize, tag: u8) {
        self.tags[index] = tag;
    }

    /// The blocks in use.
    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks[..self.count().div_ceil(BLOCK)]
    }

    /// Sets the block of record `index` and its neighbours.
    pub(crate) fn set_block(&mut self, index: usize, block: u32) {
        self.blocks[index / BLOCK] = block;
    }
}

/// Bit i is set if byte i of the [`GROUP`] tags equals `tag`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn equal_mask(tags: &[u8], tag: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let tags: &[u8; GROUP] = tags.try_into().expect("half of the tags are a group");
    let start = tags.as_ptr();
    // SAFETY: SSE2 is part of x86_64; the loads are within the 32 bytes and need no alignment.
    unsafe {
        let wanted = _mm_set1_epi8(tag as i8);
        let low = _mm_cmpeq_epi8(_mm_loadu_si128(start.cast()), wanted);
        let high = _mm_cmpeq_epi8(_mm_loadu_si128(start.add(16).cast()), wanted);
        _mm_movemask_epi8(low) as u32 | (_mm_movemask_epi8(high) as u32) << 16
    }
}

/// As above, eight tags to a word.
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[inline]
fn equal_mask(tags: &[u8], tag: u8) -> u32 {
    tags.chunks_exact(8)
        .enumerate()
        .fold(0, |mask, (i, chunk)| {
            let word = u64::from_le_bytes(chunk.try_into().expect("chunks have eight bytes"));
            mask | equal_mask_word(word, tag) << (8 * i)
        })
}

/// Bit i is set if byte i of `word` (lowest first) equals `tag`.
#[cfg(any(not(target_arch = "x86_64"), miri, test))]
fn equal_mask_word(word: u64, tag: u8) -> u32 {
    const LOW: u64 = u64::MAX / 255;
    const LOW7: u64 = LOW * 0x7f;
    let diff = word ^ (LOW * u64::from(tag));
    // The high bit of each byte that is 0; exact, no carry crosses bytes.
    let zero = !(((diff & LOW7) + LOW7) | diff | LOW7);
    // Gathers the eight high bits into the top byte.
    ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_compare_equals_the_plain_one() {
        let mut state = 1_u64;
        for round in 0..if cfg!(miri) { 50 } else { 20_000_u32 } {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Few distinct bytes, so that equal and nearly equal ones are common.
            let word = state & 0x8181_0101_8181_ff01_u64.rotate_left(round % 64);
            for tag in [0, 1, 0x80, 0x81, 0xff, word as u8] {
                let plain =
                    (0..8).fold(0, |m, i| m | u32::from((word >> (8 * i)) as u8 == tag) << i);
                assert_eq!(equal_mask_word(word, tag), plain, "{word:016x} {tag:02x}");
            }
        }
    }

    #[test]
    fn matches_finds_every_place() {
        for place in 0..CAPACITY {
            let mut head = Head {
                tags: [7; CAPACITY],
                ..Head::EMPTY
            };
            assert_eq!((head.count(), head.matches(9)), (CAPACITY, 0));
            head.set_tag(place, 9);
            assert_eq!(head.matches(9), 1 << place);
            head.set_tag(place, 0);
            assert_eq!(head.count(), place);
        }
    }
}
