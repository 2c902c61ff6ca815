//! Byte strings behind one word.
//!
//! A store holds millions of strings, most of them short, and a table slot has room for one word. `Vec<u8>` takes
//! three words and an allocation for a single byte, so the word here is one of two things:
//!
//! ```text
//! inline   byte 0 = length * 2 + 1, bytes 1..8 = up to 7 bytes of text
//! heap     address (even) of   length: u32 | capacity: u32 | bytes...
//! ```
//!
//! The type has alignment 1, so that it can lie in packed records.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr;

const _: () = assert!(
    size_of::<usize>() == 8 && cfg!(target_endian = "little"),
    "the inline form needs 8-byte words, low byte first"
);

/// Length and capacity before the bytes of a heap string.
const HEADER: usize = 8;
/// Alignment of a heap string; keeps the lowest bit of its address free for the inline mark.
const ALIGN: usize = 8;
/// Up to this length an append doubles the string, beyond it adds as much (Redis' `SDS_MAX_PREALLOC`).
const MAX_PREALLOC: usize = 1024 * 1024;

/// A growable byte string in 8 bytes: up to 7 bytes inline, else a thin pointer to length, capacity and bytes.
#[repr(C, packed)]
pub struct Str {
    word: *mut u8,
}

// SAFETY: a Str owns its allocation alone and has no interior mutability.
unsafe impl Send for Str {}
// SAFETY: as above; a shared Str is only read.
unsafe impl Sync for Str {}

impl Str {
    /// Longest string in bytes; growing past it is a caller's error and panics.
    pub const MAX_LEN: usize = u32::MAX as usize;
    /// Longest string that needs no allocation.
    pub(crate) const INLINE_LEN: usize = 7;

    /// The empty string; allocates nothing.
    #[inline]
    pub const fn new() -> Self {
        Self {
            word: ptr::without_provenance_mut(1),
        }
    }

    /// A copy of `bytes`, allocated without slack.
    #[inline]
    pub fn from_slice(bytes: &[u8]) -> Self {
        if bytes.len() <= Self::INLINE_LEN {
            return Self::inline(bytes);
        }
        let string = Self::with_heap(bytes.len());
        // SAFETY: the new allocation has room for bytes.len() bytes and cannot overlap `bytes`.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), string.word.add(HEADER), bytes.len());
            string.set_heap_len(bytes.len());
        }
        string
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        let (start, len) = match self.inline_len() {
            Some(len) => (ptr::from_ref(self).cast::<u8>().wrapping_add(1), len),
            None => (self.word.wrapping_add(HEADER).cast_const(), self.heap_len()),
        };
        // SAFETY: both forms hold `len` initialised bytes at `start`, borrowed with self.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// The bytes, writable in place.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let (start, len) = match self.inline_len() {
            Some(len) => (ptr::from_mut(self).cast::<u8>().wrapping_add(1), len),
            None => (self.word.wrapping_add(HEADER), self.heap_len()),
        };
        // SAFETY: both forms hold `len` initialised bytes at `start`, borrowed exclusively with self.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.inline_len().unwrap_or_else(|| self.heap_len())
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length up to which the string can grow without another allocation.
    #[inline]
    pub fn capacity(&self) -> usize {
        if self.is_inline() {
            Self::INLINE_LEN
        } else {
            self.heap_capacity()
        }
    }

    /// Bytes allocated on the heap.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        if self.is_inline() {
            0
        } else {
            HEADER + self.heap_capacity()
        }
    }

    /// Replaces the bytes where they lie; false, and no change, unless the string is on the heap and `bytes` fill its
    /// allocation exactly.
    #[inline]
    pub fn overwrite(&mut self, bytes: &[u8]) -> bool {
        if self.is_inline() || self.heap_capacity() != bytes.len() {
            return false;
        }
        // SAFETY: the allocation has room for its capacity behind the header; `bytes` cannot be borrowed from a string
        // that is borrowed exclusively.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.word.add(HEADER), bytes.len());
            self.set_heap_len(bytes.len());
        }
        true
    }

    /// Adds `bytes` at the end. Growth reserves as much again up to 1 MiB, then 1 MiB.
    pub fn append(&mut self, bytes: &[u8]) {
        let old = self.len();
        self.grow_to(old + bytes.len());
        self.as_mut_slice()[old..].copy_from_slice(bytes);
    }

    /// Overwrites from `offset` on; a gap behind the old end is filled with zeros. No bytes change nothing.
    pub fn set_range(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        self.grow_to(end);
        self.as_mut_slice()[offset..end].copy_from_slice(bytes);
    }

    /// Makes the string at least `len` bytes long, filling with zeros.
    ///
    /// # Panics
    /// When `len` is above [`Str::MAX_LEN`].
    pub fn grow_to(&mut self, len: usize) {
        let old = self.len();
        if len <= old {
            return;
        }
        assert!(
            len <= Self::MAX_LEN,
            "a string of {len} bytes is longer than Str::MAX_LEN"
        );
        if len <= Self::INLINE_LEN && self.is_inline() {
            let mut bytes = [0; Self::INLINE_LEN];
            bytes[..old].copy_from_slice(self.as_slice());
            *self = Self::inline(&bytes[..len]);
            return;
        }
        self.reserve_heap(len);
        // SAFETY: the string is on the heap and has a capacity of at least `len` now.
        unsafe {
            ptr::write_bytes(self.word.add(HEADER + old), 0, len - old);
            self.set_heap_len(len);
        }
    }

    /// Drops the bytes from `len` on; the capacity stays.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        if self.is_inline() {
            *self = Self::inline(&self.as_slice()[..len]);
        } else {
            // SAFETY: the string is on the heap, and shorter than its initialised bytes.
            unsafe { self.set_heap_len(len) };
        }
    }

    /// `bytes` must fit inline.
    #[inline]
    fn inline(bytes: &[u8]) -> Self {
        debug_assert!(bytes.len() <= Self::INLINE_LEN);
        let mut word = [0; 8];
        word[0] = (bytes.len() as u8) << 1 | 1;
        word[1..=bytes.len()].copy_from_slice(bytes);
        Self {
            word: ptr::without_provenance_mut(usize::from_le_bytes(word)),
        }
    }

    /// An empty string on the heap.
    fn with_heap(capacity: usize) -> Self {
        assert!(
            capacity <= Self::MAX_LEN,
            "a string of {capacity} bytes is longer than Str::MAX_LEN"
        );
        let layout = Self::layout(capacity);
        // SAFETY: the layout has a size of at least HEADER.
        let word = unsafe { alloc(layout) };
        if word.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the allocation begins with the two u32 of the header, aligned to 8.
        unsafe {
            word.cast::<u32>().write(0);
            word.cast::<u32>().add(1).write(capacity as u32);
        }
        Self { word }
    }

    /// Moves to, or grows, a heap allocation that holds at least `len` bytes.
    fn reserve_heap(&mut self, len: usize) {
        let wanted = if self.is_empty() {
            // What is made in one go may stay as it is, as in Redis.
            len
        } else if len < MAX_PREALLOC {
            len * 2
        } else {
            len.saturating_add(MAX_PREALLOC).min(Self::MAX_LEN)
        };
        if self.is_inline() {
            let grown = Self::with_heap(wanted);
            let bytes = self.as_slice();
            // SAFETY: `wanted` exceeds the inline length, so the new allocation has room.
            unsafe {
                ptr::copy_nonoverlapping(bytes.as_ptr(), grown.word.add(HEADER), bytes.len());
                grown.set_heap_len(bytes.len());
            }
            *self = grown;
        } else if len > self.heap_capacity() {
            let old = Self::layout(self.heap_capacity());
            let new = Self::layout(wanted);
            // SAFETY: `word` was allocated with `old`, and the new size does not overflow isize.
            let word = unsafe { realloc(self.word, old, new.size()) };
            if word.is_null() {
                handle_alloc_error(new);
            }
            self.word = word;
            // SAFETY: the header moved along; its second half is the capacity.
            unsafe { word.cast::<u32>().add(1).write(wanted as u32) };
        }
    }

    #[inline]
    fn layout(capacity: usize) -> Layout {
        // SAFETY: ALIGN is a power of two and HEADER + u32::MAX fits an isize.
        unsafe { Layout::from_size_align_unchecked(HEADER + capacity, ALIGN) }
    }

    #[inline]
    fn is_inline(&self) -> bool {
        self.word.addr() & 1 == 1
    }

    #[inline]
    fn inline_len(&self) -> Option<usize> {
        self.is_inline().then_some((self.word.addr() & 0xff) >> 1)
    }

    #[inline]
    fn heap_len(&self) -> usize {
        debug_assert!(!self.is_inline());
        // SAFETY: only called for heap strings, whose allocation begins with the length.
        unsafe { self.word.cast::<u32>().read() as usize }
    }

    #[inline]
    fn heap_capacity(&self) -> usize {
        debug_assert!(!self.is_inline());
        // SAFETY: only called for heap strings, whose second u32 is the capacity.
        unsafe { self.word.cast::<u32>().add(1).read() as usize }
    }

    /// # Safety
    /// The string is on the heap, and its first `len` bytes are initialised and within its capacity.
    #[inline]
    unsafe fn set_heap_len(&self, len: usize) {
        // SAFETY: by contract there is a header.
        unsafe { self.word.cast::<u32>().write(len as u32) };
    }
}

impl Drop for Str {
    #[inline]
    fn drop(&mut self) {
        if !self.is_inline() {
            let layout = Self::layout(self.heap_capacity());
            // SAFETY: heap strings are allocated with exactly this layout and owned by self alone.
            unsafe { dealloc(self.word, layout) };
        }
    }
}

impl Clone for Str {
    fn clone(&self) -> Self {
        Self::from_slice(self.as_slice())
    }
}

impl Default for Str {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Self {
        Self::from_slice(bytes)
    }
}

impl AsRef<[u8]> for Str {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Str {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Str {}

impl std::fmt::Debug for Str {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_fill_the_allocation_are_overwritten() {
        let mut short = Str::from_slice(b"short");
        assert!(!short.overwrite(b"other") && short.as_slice() == b"short");
        let mut long = Str::from_slice(b"sixteen bytes xx");
        assert!(!long.overwrite(b"sixteen bytes") && !long.overwrite(b"seventeen bytes x"));
        assert_eq!(long.as_slice(), b"sixteen bytes xx");
        assert!(long.overwrite(b"sixteen other xx"));
        assert_eq!(long.as_slice(), b"sixteen other xx");
        long.truncate(9);
        assert!(!long.overwrite(b"nine more") && long.overwrite(b"as long as befor"));
        assert_eq!(long.as_slice(), b"as long as befor");
    }

    #[test]
    fn inline_and_heap_hold_the_same_bytes() {
        for len in 0..40 {
            let bytes: Vec<u8> = (0..len as u8).collect();
            let string = Str::from_slice(&bytes);
            assert_eq!(string.as_slice(), bytes);
            assert_eq!(string.len(), len);
            assert_eq!(string.heap_bytes() == 0, len <= Str::INLINE_LEN);
            assert_eq!(string.clone(), string);
        }
    }

    #[test]
    fn appends_reserve_as_much_again() {
        let mut string = Str::from_slice(b"0123456789");
        assert_eq!(string.capacity(), 10);
        string.append(b"a");
        assert_eq!(string.capacity(), 22);
        string.append(b"0123456789a");
        assert_eq!(string.capacity(), 22);
        assert_eq!(string.as_slice(), b"0123456789a0123456789a");
    }

    #[test]
    fn growth_crosses_from_inline_to_heap() {
        let mut string = Str::new();
        let mut model = Vec::new();
        for i in 0..3000_u32 {
            string.append(&i.to_le_bytes()[..(i % 5) as usize % 4]);
            model.extend_from_slice(&i.to_le_bytes()[..(i % 5) as usize % 4]);
            assert_eq!(string.as_slice(), model);
        }
    }

    #[test]
    fn ranges_fill_gaps_with_zeros() {
        let mut string = Str::from_slice(b"ab");
        string.set_range(4, b"c");
        assert_eq!(string.as_slice(), b"ab\0\0c");
        string.set_range(20, b"");
        assert_eq!(string.len(), 5);
        string.set_range(1, b"XYZ....WW");
        assert_eq!(string.as_slice(), b"aXYZ....WW");
        string.set_range(0, b"_");
        string.set_range(12, b"!");
        assert_eq!(string.as_slice(), b"_XYZ....WW\0\0!");
    }

    #[test]
    fn truncation_keeps_the_front() {
        for text in [&b"inline"[..], b"longer than inline"] {
            let mut string = Str::from_slice(text);
            string.truncate(100);
            assert_eq!(string.as_slice(), text);
            string.truncate(3);
            assert_eq!(string.as_slice(), &text[..3]);
            string.append(b"!");
            assert_eq!(string.as_slice(), &[&text[..3], b"!"].concat()[..]);
        }
    }

    #[test]
    fn lies_in_packed_records() {
        #[repr(C, packed)]
        struct Record {
            _pad: u8,
            string: Str,
        }
        let record = Record {
            _pad: 0,
            string: Str::from_slice(b"short"),
        };
        assert_eq!(record.string.as_slice(), b"short");
        assert_eq!((align_of::<Str>(), size_of::<Str>()), (1, 8));
    }
}
