//! The directory of a table: which bucket covers which part of the hash space.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

/// Entry of a part of the hash space that has no bucket.
pub(crate) const NONE: u32 = u32::MAX;

/// The directory grows no larger; hashes have 32 bits.
const MAX_ENTRIES: usize = 1 << 30;

/// A power of two entries; the entry of a hash is picked by its highest bits. A bucket owns a run of entries whose length is a
/// power of two and whose start is a multiple of it, that is, an interval of the hash space.
pub(crate) struct Directory {
    entries: SmallVec<[u32; INLINE_ENTRIES]>,
}

/// Entries kept in the directory itself: so many as a table of 100 records has.
const INLINE_ENTRIES: usize = 8;

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            entries: SmallVec::new(),
        }
    }

    /// One entry without a bucket, if there are none yet.
    pub(crate) fn open(&mut self) {
        if self.entries.is_empty() {
            self.entries = smallvec![NONE];
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        if self.entries.spilled() {
            self.entries.capacity() * size_of::<u32>()
        } else {
            0
        }
    }

    /// The entry of a hash, which exists only after [`Directory::open`].
    #[inline]
    pub(crate) fn index(&self, hash: u32) -> usize {
        // The highest bits, as many as the length has.
        ((u64::from(hash) * self.entries.len() as u64) >> 32) as usize
    }

    /// The lowest hash of an entry; `2^32` for the one behind the last.
    pub(crate) fn hash_at(&self, index: usize) -> u64 {
        ((index as u64) << 32) / self.entries.len() as u64
    }

    /// Address of the entry of a hash, to be prefetched.
    #[inline]
    pub(crate) fn entry(&self, hash: u32) -> *const u32 {
        self.entries.as_ptr().wrapping_add(self.index(hash))
    }

    /// The bucket of a hash, or [`NONE`].
    #[inline]
    pub(crate) fn bucket(&self, hash: u32) -> u32 {
        self.entries.get(self.index(hash)).copied().unwrap_or(NONE)
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> u32 {
        self.entries[index]
    }

    /// The entries of the bucket that entry `index` belongs to. Where there is no bucket: the largest interval around
    /// the entry that has none.
    pub(crate) fn run(&self, index: usize) -> Range<usize> {
        let bucket = self.entries[index];
        let (mut start, mut size) = (index, 1);
        while size < self.entries.len() {
            let other = start ^ size;
            let same = if bucket == NONE {
                self.entries[other..other + size]
                    .iter()
                    .all(|&entry| entry == NONE)
            } else {
                // A run that reaches the other half covers it.
                self.entries[other] == bucket
            };
            if !same {
                break;
            }
            start = start.min(other);
            size *= 2;
        }
        start..start + size
    }

    /// The interval that a run could be joined with, if the run is not everything.
    pub(crate) fn sibling(&self, run: &Range<usize>) -> Option<Range<usize>> {
        if run.len() == self.entries.len() {
            return None;
        }
        let start = run.start ^ run.len();
        Some(start..start + run.len())
    }

    pub(crate) fn fill(&mut self, run: Range<usize>, bucket: u32) {
        self.entries[run].fill(bucket);
    }

    /// Gives every entry two, unless that would be out of proportion to the number of buckets.
    pub(crate) fn double(&mut self, buckets: u32) -> bool {
        // With random hashes there are about three entries for each bucket.
        const MAX_ENTRIES_PER_BUCKET: usize = 64;
        if self.entries.len() == MAX_ENTRIES
            || self.entries.len() * 2 > MAX_ENTRIES_PER_BUCKET * buckets as usize
        {
            return false;
        }
        let mut doubled = SmallVec::with_capacity(2 * self.entries.len());
        for &entry in &self.entries {
            doubled.push(entry);
            doubled.push(entry);
        }
        self.entries = doubled;
        true
    }

    /// Joins every two entries if all pairs are equal.
    pub(crate) fn halve(&mut self) -> bool {
        if self.entries.len() <= 1 || self.entries.chunks_exact(2).any(|pair| pair[0] != pair[1]) {
            return false;
        }
        self.entries = self.entries.chunks_exact(2).map(|pair| pair[0]).collect();
        true
    }
}
