//! Bringing what a lookup will read into the cache, ahead of it.
//!
//! A lookup in a large store waits for memory two or three times, each time for an address that the one before it brought.
//! Whoever has several commands at hand can take these steps for all of them in turn, so that the waits overlap.

use crate::directory::NONE;
use crate::key::{DbIndex, Key};
use crate::record::Slot;
use crate::shard::Shard;
use crate::table::Table;

/// A lookup that is made ahead, step by step. Each step needs what the one before it has asked for, so whoever has
/// several lookups takes a step for all of them before the next one: [`look_ahead`].
///
/// Changes nothing and counts as no access. The shard stays borrowed, so what a step has found is there at the next one.
#[derive(Clone, Copy)]
pub struct Ahead<'s> {
    table: &'s Table,
    /// The low bits of the key's hash, which choose its bucket.
    hash: u32,
    tag: u8,
    bucket: u32,
    slot: Option<Slot>,
}

impl Shard {
    /// Begins to look ahead for `key`; `None` when its database is empty.
    #[inline]
    pub fn ahead(&self, db: DbIndex, key: Key<'_>) -> Option<Ahead<'_>> {
        Some(Ahead {
            table: self.table(db)?,
            hash: key.hash as u32,
            tag: key.tag(),
            bucket: NONE,
            slot: None,
        })
    }
}

/// Brings what the lookups will read into the cache; with `collections` also what commands on collections read first.
#[inline]
pub fn look_ahead(lookups: &mut [Ahead<'_>], collections: bool) {
    // The directory, and where heads and blocks are.
    for ahead in &*lookups {
        ahead.table.prefetch_index(ahead.hash);
    }
    // The bucket's tags and block numbers.
    for ahead in &mut *lookups {
        ahead.bucket = ahead.table.prefetch_bucket(ahead.hash);
    }
    // The first record whose tag fits: nearly always the one meant.
    for ahead in &mut *lookups {
        ahead.slot = ahead.table.likely(ahead.bucket, ahead.tag);
        if let Some(slot) = ahead.slot {
            slot.prefetch();
        }
    }
    // What lies outside of the record: a long key, the bytes of a string, the head of a collection.
    for slot in lookups.iter().filter_map(|ahead| ahead.slot) {
        // SAFETY: places with a tag hold initialised records, and the borrow of the table keeps them.
        unsafe { slot.prefetch_heap() };
    }
    if collections {
        for slot in lookups.iter().filter_map(|ahead| ahead.slot) {
            // SAFETY: as above.
            unsafe { slot.prefetch_content() };
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
