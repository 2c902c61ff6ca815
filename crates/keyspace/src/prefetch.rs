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
pub struct Ahead<'s, 'k> {
    table: &'s Table,
    key: Key<'k>,
    bucket: u32,
    /// Records of the bucket that may be the key's, one bit each.
    likely: u64,
    slot: Option<Slot>,
}

impl<'k> Ahead<'_, 'k> {
    /// The key that was looked for, told where it was found, so that the next lookup begins there.
    #[inline]
    pub fn key(&self) -> Key<'k> {
        self.key
    }
}

impl Shard {
    /// Begins to look ahead for `key`; `None` when its database is empty.
    #[inline]
    pub fn ahead<'k>(&self, db: DbIndex, key: Key<'k>) -> Option<Ahead<'_, 'k>> {
        Some(Ahead {
            table: self.table(db)?,
            key,
            bucket: NONE,
            likely: 0,
            slot: None,
        })
    }
}

/// Brings what the lookups will read into the cache; with `collections` also what commands on collections read first.
#[inline]
pub fn look_ahead(lookups: &mut [Ahead<'_, '_>], collections: bool) {
    // The directory, and where heads and blocks are.
    for ahead in &*lookups {
        ahead.table.prefetch_index(ahead.key.hash as u32);
    }
    // The bucket's tags and block numbers.
    for ahead in &mut *lookups {
        ahead.bucket = ahead.table.prefetch_bucket(ahead.key.hash as u32);
    }
    // The records whose tag fits: nearly always one.
    for ahead in &mut *lookups {
        ahead.likely = ahead.table.prefetch_likely(ahead.bucket, ahead.key.tag());
    }
    // What lies outside of the key's record: a long key, the bytes of a string, the head of a collection.
    for ahead in &mut *lookups {
        if let Some((hint, slot)) = ahead.table.confirm(&ahead.key, ahead.bucket, ahead.likely) {
            ahead.key.hint = hint;
            ahead.slot = Some(slot);
            // SAFETY: the record is the key's, and the borrow of the table keeps it.
            unsafe { slot.prefetch_heap() };
        }
    }
    if collections {
        for slot in lookups.iter().filter_map(|ahead| ahead.slot) {
            // SAFETY: as above.
            unsafe { slot.prefetch_content() };
        }
    }
}

/// Asks for the cache lines of so many bytes.
#[inline]
pub fn prefetch_lines(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        line(start.wrapping_add(offset));
    }
    // They need not begin where a line does.
    line(start.wrapping_add(bytes.saturating_sub(1)));
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
