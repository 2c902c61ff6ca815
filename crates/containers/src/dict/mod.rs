//! The index of a large set or hash: entries in one dense sequence, and a table from their hashes to their positions.
//!
//! Redis walks the buckets of its table to scan, and samples them to pick at random: its cursors count in reversed
//! binary, and a random pick is uniform only in the mean. With the entries in a sequence without gaps a random
//! pick is a random position, a whole read runs through memory in order, and scan order does not depend on the
//! secret of the hash.
//!
//! A scan goes from the last position down to 0, and its cursor is the position it has reached. Additions are appended
//! at the end; a removal moves the last entry down into the gap. So an entry that is still below the cursor never gets
//! above it: whatever is present throughout a scan is returned, however the table grows or shrinks meanwhile.
//! Of one scan it is known how far down it has come ([`Mark`]). What is removed below that leaves its gap there first, so
//! that the last entry comes to lie among those that were returned: a scan that is alone returns nothing twice.
//!
//! No step is long: entries lie in segments that never move, and from [`STEPWISE`] entries on the table of positions is
//! replaced by the next one a few positions at a time, from the end down, for the same reason as the scan.

mod dense;
mod mark;

use std::hash::Hasher as _;
use std::ops::Range;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use hashbrown::HashTable;

pub(crate) use dense::Dense;
use mark::Mark;

/// Up to so many entries the table of positions is rebuilt at once.
const STEPWISE: usize = 4096;

/// Positions moved to the next table by each insertion and removal. The next table has room for twice the entries, so
/// one would do.
const STEPS: usize = 4;

/// The number of no position.
const NOWHERE: u32 = u32::MAX;

/// Slots of a table that is never made smaller.
const MIN_SLOTS: usize = 64;

/// What a [`Dict`] holds.
pub(crate) trait Keyed {
    /// What it is found by.
    fn key(&self) -> &[u8];
    /// Bytes it holds on the heap.
    fn heap_bytes(&self) -> usize;
}

/// Entries by key and by position.
#[derive(Clone, Debug)]
pub(crate) struct Dict<E> {
    entries: Dense<E>,
    /// Positions of all entries but those that are still in `older`.
    table: HashTable<u32>,
    /// The table before, while its positions are moved: only entries below `unmoved` are in it.
    older: HashTable<u32>,
    unmoved: usize,
    /// How far the latest scan has come.
    mark: Mark,
    /// What the entries hold on the heap.
    payload: usize,
    start: u64,
    shared: SharedSeed,
}

impl<E: Keyed> Dict<E> {
    /// An empty dictionary with room for `capacity` entries. `seed` is the secret of its hashes.
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        Self {
            entries: Dense::with_capacity(capacity),
            table: HashTable::with_capacity(capacity),
            older: HashTable::new(),
            unmoved: 0,
            mark: Mark::default(),
            payload: 0,
            start: seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15,
            shared: SharedSeed::from_u64(seed),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes held on the heap.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.payload
            + self.entries.heap_bytes()
            + self.table.allocation_size()
            + self.older.allocation_size()
    }

    /// The entry at a position below the length.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&E> {
        self.entries.get(at)
    }

    /// Entries in the order of their positions.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &E> + Clone {
        self.entries.iter()
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        hash(self.start, &self.shared, key)
    }

    /// The position of `key`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let hash = self.hash(key);
        let is_it = |at: &u32| self.entries[*at as usize].key() == key;
        let found = self.table.find(hash, is_it);
        let found = match found {
            None if self.unmoved > 0 => self.older.find(hash, is_it),
            found => found,
        };
        found.map(|at| *at as usize)
    }

    /// Changes the entry at a position; its key must stay the same.
    pub(crate) fn update<R>(&mut self, at: usize, f: impl FnOnce(&mut E) -> R) -> R {
        let entry = &mut self.entries[at];
        let before = entry.heap_bytes();
        let result = f(entry);
        self.payload = self.payload - before + entry.heap_bytes();
        result
    }

    /// Adds an entry whose key is absent, at the end.
    pub(crate) fn push(&mut self, entry: E) {
        let at = u32::try_from(self.entries.len()).expect("4 billion entries exceed any memory");
        let hash = self.hash(entry.key());
        self.make_room();
        self.payload += entry.heap_bytes();
        self.entries.push(entry);
        self.number(hash, at);
        self.move_some();
    }

    /// Puts the number of a position into the table.
    fn number(&mut self, hash: u64, at: u32) {
        let Self {
            entries,
            table,
            start,
            shared,
            ..
        } = self;
        table.insert_unique(hash, at, |at| {
            hash_at(entries, *start, shared, *at as usize)
        });
    }

    /// Removes the entry at a position below the length.
    pub(crate) fn remove(&mut self, at: usize) -> E {
        let gap = self.gap(at);
        self.swap_remove(gap)
    }

    /// Exchanges the entry at a position below the length with the one at the returned position, from which
    /// [`swap_remove`](Self::swap_remove) moves no entry that a scan has returned to where it is still to come.
    pub(crate) fn gap(&mut self, at: usize) -> usize {
        let gap = self.mark.gap(at);
        if gap != at {
            self.exchange(at, gap);
        }
        gap
    }

    /// Removes the entry at a position below the length; the last one takes its place.
    pub(crate) fn swap_remove(&mut self, at: usize) -> E {
        let last = self.entries.len() - 1;
        self.forget(at);
        if at != last {
            *self.number_of(last) = at as u32;
        }
        let removed = self.entries.swap_remove(at);
        self.payload -= removed.heap_bytes();
        self.unmoved = self.unmoved.min(last);
        self.mark.removed(at, last);
        self.move_some();
        let slots = self.table.num_buckets();
        if slots > MIN_SLOTS && self.len() * 8 < slots && self.unmoved == 0 {
            self.replace_table();
        }
        removed
    }

    /// The number of a position, in the table that has it.
    fn number_of(&mut self, at: usize) -> &mut u32 {
        let hash = self.hash_at(at);
        let is_it = |other: &u32| *other as usize == at;
        match self.table.find_mut(hash, is_it) {
            Some(number) => number,
            None => self
                .older
                .find_mut(hash, is_it)
                .expect("every position is in a table"),
        }
    }

    /// Exchanges the entries at two positions, the lower one first.
    fn exchange(&mut self, low: usize, high: usize) {
        let hash = self.hash_at(low);
        let is_it = |other: &u32| *other == NOWHERE;
        *self.number_of(low) = NOWHERE;
        *self.number_of(high) = low as u32;
        self.entries.swap(low, high);
        if let Some(number) = self.table.find_mut(hash, is_it) {
            *number = high as u32;
        } else if let Ok(entry) = self.older.find_entry(hash, is_it) {
            // The higher position may be one of those that are all in the new table.
            entry.remove();
            self.number(hash, high as u32);
        }
    }

    /// The positions of one scan step, to be read from the last to the first. Its start is the next cursor, 0 at the
    /// end. A cursor that no scan returned is as good as any.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> Range<usize> {
        let end = match self.mark.reached(cursor) {
            Some(end) => end.min(self.len()),
            None => self.len(),
        };
        let start = end.saturating_sub(count);
        self.mark.tell(start);
        start..end
    }

    fn hash_at(&self, at: usize) -> u64 {
        hash_at(&self.entries, self.start, &self.shared, at)
    }

    /// Takes a position out of the table that has it.
    fn forget(&mut self, at: usize) {
        let hash = self.hash_at(at);
        let is_it = |other: &u32| *other as usize == at;
        match self.table.find_entry(hash, is_it) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => {
                if let Ok(entry) = self.older.find_entry(hash, is_it) {
                    entry.remove();
                }
            }
        }
    }

    /// Makes sure that the table takes one more position without a rebuild of its own.
    fn make_room(&mut self) {
        if self.table.len() == self.table.capacity() {
            // What is still to be moved goes first; by the ratio of sizes there is next to nothing.
            self.move_positions(usize::MAX);
            self.replace_table();
        }
    }

    /// Begins with a table that fits the entries, half empty.
    fn replace_table(&mut self) {
        let next = HashTable::with_capacity((self.len() * 2).max(4));
        self.older = std::mem::replace(&mut self.table, next);
        self.unmoved = self.len();
        if self.unmoved <= STEPWISE {
            self.move_positions(usize::MAX);
        }
    }

    #[inline]
    fn move_some(&mut self) {
        if self.unmoved > 0 {
            self.move_positions(STEPS);
        }
    }

    /// Moves up to `count` positions from the older table, the highest first.
    fn move_positions(&mut self, count: usize) {
        let end = self.unmoved.saturating_sub(count);
        let Self {
            entries,
            table,
            older,
            start,
            shared,
            ..
        } = self;
        for at in (end..self.unmoved).rev() {
            let hash = hash_at(entries, *start, shared, at);
            // A position may have been taken over by an entry that was moved before.
            if let Ok(entry) = older.find_entry(hash, |other| *other as usize == at) {
                entry.remove();
                table.insert_unique(hash, at as u32, |at| {
                    hash_at(entries, *start, shared, *at as usize)
                });
            }
        }
        self.unmoved = end;
        if end == 0 && older.allocation_size() > 0 {
            self.older = HashTable::new();
        }
    }
}

#[inline]
fn hash(start: u64, shared: &SharedSeed, key: &[u8]) -> u64 {
    let mut hasher = FoldHasher::with_seed(start, shared);
    hasher.write(key);
    hasher.finish()
}

fn hash_at<E: Keyed>(entries: &Dense<E>, start: u64, shared: &SharedSeed, at: usize) -> u64 {
    hash(start, shared, entries[at].key())
}

#[cfg(test)]
mod tests;
