//! The head of a bucket: a tag for each record, and where the records are.
//!
//! Two cache lines stand for up to 64 records. A lookup compares all tags at once and then touches the one record whose
//! tag fits; heads are a fifteenth of the memory, so they tend to be in the cache when records are not.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::prefetch;
use crate::slab::CellSize;

/// Records of a bucket.
pub(crate) const CAPACITY: usize = 64;
/// Records of a block, the unit in which a bucket grows.
pub(crate) const BLOCK: usize = 4;
/// Blocks of a full bucket.
const BLOCKS: usize = CAPACITY / BLOCK;
/// Tags compared at once.
const GROUP: usize = 32;

/// How a table's heads note the numbers of blocks, after the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Form {
    /// In 16 bits each.
    Narrow = (CAPACITY + BLOCKS * size_of::<u16>()) as u32,
    /// In 32 bits each.
    Wide = (CAPACITY + BLOCKS * size_of::<u32>()) as u32,
}

impl Form {
    /// Whether a head can note this block.
    pub(crate) fn holds(self, block: u32) -> bool {
        // In tests a few are many, so that they meet both forms.
        const NARROW: u32 = if cfg!(test) { 64 } else { 1 << u16::BITS };
        self == Form::Wide || block < NARROW
    }
}

impl CellSize for Form {
    #[inline]
    fn bytes(self) -> usize {
        self as usize
    }
}

/// The tags and blocks of a bucket. Records fill it from the front without gaps; tag 0 is a free place.
#[derive(Clone, Copy)]
pub(crate) struct Head<'t> {
    cell: NonNull<u8>,
    form: Form,
    table: PhantomData<&'t u8>,
}

impl<'t> Head<'t> {
    /// # Safety
    /// `cell` is a cell of that form, which was a head's before (see [`HeadMut::clear`]) and is not changed during `'t` but
    /// through this value's [`HeadMut`].
    #[inline]
    pub(crate) unsafe fn new(cell: *mut u8, form: Form) -> Self {
        debug_assert!(!cell.is_null());
        Self {
            // SAFETY: a pointer into an allocation is not null.
            cell: unsafe { NonNull::new_unchecked(cell) },
            form,
            table: PhantomData,
        }
    }

    #[inline]
    fn tags(self) -> &'t [u8; CAPACITY] {
        // SAFETY: a head begins with its tags, and is not changed during `'t`.
        unsafe { self.cell.cast().as_ref() }
    }

    /// Where the number of a block is.
    #[inline]
    fn number(self, at: usize) -> *mut u8 {
        assert!(at < BLOCKS, "a bucket has no block {at}");
        let size = match self.form {
            Form::Narrow => size_of::<u16>(),
            Form::Wide => size_of::<u32>(),
        };
        // SAFETY: `at` is below BLOCKS, so it lies within the cell.
        unsafe { self.cell.as_ptr().add(CAPACITY + at * size) }
    }

    /// Bit i is set if the record i has this tag.
    #[inline]
    pub(crate) fn matches(self, tag: u8) -> u64 {
        let (low, high) = self.tags().split_at(GROUP);
        u64::from(equal_mask(low, tag)) | u64::from(equal_mask(high, tag)) << GROUP
    }

    /// Asks for the line of block numbers while the tags are still on their way; both are needed for a hit.
    #[inline]
    pub(crate) fn prefetch_blocks(self) {
        prefetch::line(self.cell.as_ptr().wrapping_add(CAPACITY));
    }

    /// Number of records.
    #[inline]
    pub(crate) fn count(self) -> usize {
        self.matches(0).trailing_zeros() as usize
    }

    /// The block and the place in it of record `index`.
    #[inline]
    pub(crate) fn place(self, index: usize) -> (u32, usize) {
        (self.block(index / BLOCK), index % BLOCK)
    }

    #[inline]
    fn block(self, at: usize) -> u32 {
        let number = self.number(at);
        // SAFETY: the number lies within the cell, at a multiple of its size.
        unsafe {
            match self.form {
                Form::Narrow => number.cast::<u16>().read().into(),
                Form::Wide => number.cast::<u32>().read(),
            }
        }
    }

    #[inline]
    pub(crate) fn tag(self, index: usize) -> u8 {
        self.tags()[index]
    }

    /// The blocks in use.
    pub(crate) fn blocks(self) -> impl Iterator<Item = u32> {
        (0..self.count().div_ceil(BLOCK)).map(move |at| self.block(at))
    }
}

/// A head to change.
pub(crate) struct HeadMut<'t>(Head<'t>);

impl<'t> HeadMut<'t> {
    /// # Safety
    /// `cell` is a cell of that form, which nobody else uses during `'t`. A new one is to be cleared, or copied to, first.
    #[inline]
    pub(crate) unsafe fn new(cell: *mut u8, form: Form) -> Self {
        // SAFETY: by contract.
        Self(unsafe { Head::new(cell, form) })
    }

    /// Makes it the head of an empty bucket.
    pub(crate) fn clear(&mut self) {
        // SAFETY: the cell has so many bytes, and is borrowed exclusively.
        unsafe { self.0.cell.write_bytes(0, self.0.form.bytes()) };
    }

    /// Makes it equal to another, whose blocks its form can note.
    pub(crate) fn copy_from(&mut self, other: Head<'_>) {
        self.clear();
        for at in 0..BLOCKS {
            self.set_block(at * BLOCK, other.block(at));
        }
        for index in 0..CAPACITY {
            self.set_tag(index, other.tag(index));
        }
    }

    pub(crate) fn set_tag(&mut self, index: usize, tag: u8) {
        assert!(index < CAPACITY, "a bucket has no place {index}");
        // SAFETY: the tag lies within the cell, which is borrowed exclusively.
        unsafe { self.0.cell.add(index).write(tag) };
    }

    /// Sets the block of record `index` and its neighbours.
    pub(crate) fn set_block(&mut self, index: usize, block: u32) {
        debug_assert!(self.0.form.holds(block));
        let number = self.0.number(index / BLOCK);
        // SAFETY: the number lies within the cell, at a multiple of its size, and the cell is borrowed exclusively.
        unsafe {
            match self.0.form {
                Form::Narrow => number.cast::<u16>().write(block as u16),
                Form::Wide => number.cast::<u32>().write(block),
            }
        }
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
        for form in [Form::Narrow, Form::Wide] {
            let mut cell = [0_u32; Form::Wide as usize / 4];
            let cell = cell.as_mut_ptr().cast::<u8>();
            for place in 0..CAPACITY {
                // SAFETY: the cell has room for both forms, is initialised, and used by one of the two at a time.
                let (mut change, head) =
                    unsafe { (HeadMut::new(cell, form), || Head::new(cell, form)) };
                change.clear();
                (0..CAPACITY).for_each(|index| change.set_tag(index, 7));
                (0..BLOCKS).for_each(|at| change.set_block(at * BLOCK, at as u32 + 40));
                assert_eq!((head().count(), head().matches(9)), (CAPACITY, 0));
                change.set_tag(place, 9);
                assert_eq!(head().matches(9), 1 << place);
                assert_eq!(
                    head().place(place),
                    (place as u32 / BLOCK as u32 + 40, place % BLOCK)
                );
                change.set_tag(place, 0);
                assert_eq!(head().count(), place);
                let blocks: Vec<_> = head().blocks().collect();
                assert_eq!(blocks.len(), place.div_ceil(BLOCK));
                assert!((40..).zip(blocks).all(|(number, block)| number == block));
            }
        }
    }
}
