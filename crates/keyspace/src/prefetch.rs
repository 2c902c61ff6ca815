//! Bringing what a lookup will read into the cache, ahead of it.
//!
//! A lookup in a large store waits for memory two or three times, each time for an address that the one before it brought.
//! Whoever has several commands at hand can take these steps for all of them in turn, so that the waits overlap.

use crate::key::{DbIndex, Key};
use crate::shard::Shard;

/// A step of a lookup; each needs what the one before it has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookahead {
    /// The bucket's tags.
    Bucket,
    /// The record.
    Record,
    /// What lies outside of the record: a long key, the bytes of a string, the head of a collection.
    Heap,
    /// What a collection reads first.
    Content,
}

impl Shard {
    /// Asks for what the lookup of `key` reads next. Changes nothing and counts as no access.
    #[inline]
    pub fn prefetch(&self, db: DbIndex, key: Key<'_>, step: Lookahead) {
        let Some(table) = self.table(db) else { return };
        match step {
            Lookahead::Bucket => table.prefetch_bucket(&key),
            Lookahead::Record => table.prefetch_record(&key),
            Lookahead::Heap => table.prefetch_heap(&key),
            Lookahead::Content => table.prefetch_content(&key),
        }
    }
}

/// Asks for all cache lines of a value.
#[inline]
pub fn prefetch_lines<T>(value: *const T) {
    for offset in (0..size_of::<T>()).step_by(64) {
        line(value.cast::<u8>().wrapping_add(offset));
    }
}

/// Asks for the cache line of an address, which need not be valid.
#[inline]
pub(crate) fn line<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86_64, and a prefetch has no effect but on caches, whatever the address.
        unsafe { _mm_prefetch(at.cast(), _MM_HINT_T0) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
