//! One table: extendible hashing over buckets of up to 64 records.
//!
//! ```text
//! directory        one entry for each interval of the hash space       4 bytes, about 3 for each bucket
//!   head           64 tags and the numbers of up to 16 blocks          96 bytes for each bucket
//!     block        4 records                                           128 bytes
//! ```
//!
//! A full bucket is divided in two by the next bit of its records' hashes; two neighbours that became small are joined.
//! Only one bucket's records move at a time, so no command pays for more than that, and memory never holds an old and
//! a new table at once. The directory is copied when it doubles: 4 bytes for every 15 records.
//!
//! Heads and blocks are cells of slabs without gaps: when one is freed the last one takes its place. Its owner is found
//! by the hash of a record in it, so no links back are stored. A record costs 32 bytes and a share of its head, of the
//! 1.5 places that are free on average in the last block, and of the directory: 36 bytes together. A table of more than
//! 65,536 blocks, 200,000 records, notes their numbers in 32 bits and no more in 16; all its heads, a thirtieth of its
//! memory, are rewritten once for that.
//!
//! A scan cursor is a point of the hash space. Each step visits the bucket whose interval holds the point and goes on at
//! the interval's end. Dividing and joining only cuts and joins intervals, so a record that stays is in the interval
//! around the cursor at some step of every full scan.
//!
//! Should a bucket that is full of equal hashes be impossible to divide, further records go to spilled buckets that all
//! searches look at last. With seeded hashes that does not happen by chance; it keeps the worst case correct.

use std::collections::BTreeMap;

use crate::bucket::{BLOCK, CAPACITY, Form, Head, HeadMut};
use crate::directory::{Directory, NONE};
use crate::due::Due;
use crate::key::{Hint, Key, Seed};
use crate::prefetch;
use crate::record::{Expiry, RECORD, Slot, Tail};
use crate::slab::{Fixed, Slab};
use crate::value::Value;

mod pending;
mod reshape;
#[cfg(test)]
mod tests;
mod victim;
mod walk;

pub use victim::{Order, Victim};
use walk::Sweep;

/// Bytes of a far map entry beside its key: pointer, length, time, its share of the tree's nodes.
const FAR_ENTRY: usize = 40;

/// Expiries that do not fit a record, by key.
pub(crate) type FarMap = BTreeMap<Box<[u8]>, i64>;

/// Where a record is. Valid until the table changes.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) bucket: u32,
    pub(crate) index: usize,
    pub(crate) slot: Slot,
}

/// The records of one database in one shard. What a lookup reads comes first: [`Table::HOT`] bytes.
#[repr(C)]
pub(crate) struct Table {
    directory: Directory,
    heads: Slab<Form>,
    blocks: Slab<Fixed<{ BLOCK * RECORD }>>,
    /// Buckets for records whose own bucket is full and cannot be divided.
    spilled: Vec<u32>,
    len: usize,
    expiring: usize,
    /// Bytes of long keys, strings and the far map.
    heap: usize,
    far: Option<Box<FarMap>>,
    /// Hashes with fields that expire; none while there is no such hash.
    due: Option<Box<Due>>,
    sweep: Sweep,
    /// Removals to wait for before trying again to halve the directory.
    halving_pause: usize,
    /// What a walk is still to take over; none without one.
    pending: Option<Box<pending::Pending>>,
}

// SAFETY: a table owns all its cells, keys and strings alone and has no interior mutability.
unsafe impl Send for Table {}
// SAFETY: as above; a shared table is only read.
unsafe impl Sync for Table {}

impl Table {
    /// Bytes from the front that lookups read.
    pub(crate) const HOT: usize = std::mem::offset_of!(Table, spilled);

    pub(crate) fn new() -> Self {
        Self {
            directory: Directory::new(),
            heads: Slab::new(Form::Narrow),
            blocks: Slab::new(Fixed),
            spilled: Vec::new(),
            len: 0,
            expiring: 0,
            heap: 0,
            far: None,
            due: None,
            sweep: Sweep {
                next: 0,
                soonest: i64::MAX,
                met: i64::MAX,
            },
            halving_pause: 0,
            pending: None,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn expiring(&self) -> usize {
        self.expiring
    }

    /// Bytes on the heap.
    pub(crate) fn memory(&self) -> usize {
        self.heap
            + self.directory.bytes()
            + self.heads.bytes()
            + self.blocks.bytes()
            + self.spilled.capacity() * size_of::<u32>()
    }

    #[inline]
    fn head(&self, bucket: u32) -> Head<'_> {
        // SAFETY: cells of `heads` are initialised when they are made, and borrowed with self.
        unsafe { Head::new(self.heads.cell(bucket), self.heads.size()) }
    }

    #[inline]
    fn head_mut(&mut self, bucket: u32) -> HeadMut<'_> {
        // SAFETY: as above, exclusively.
        unsafe { HeadMut::new(self.heads.cell(bucket), self.heads.size()) }
    }

    /// The place of record `index` of a bucket; it has a block.
    #[inline]
    fn place(&self, head: Head<'_>, index: usize) -> Slot {
        let (block, at) = head.place(index);
        // SAFETY: `at` is below BLOCK, so the record lies inside the cell.
        unsafe { Slot::new(self.blocks.cell(block).add(at * RECORD)) }
    }

    /// Records in a bucket.
    pub(crate) fn count(&self, bucket: u32) -> usize {
        self.head(bucket).count()
    }

    /// A record by its place, which must be below the bucket's count.
    pub(crate) fn slot(&self, bucket: u32, index: usize) -> Slot {
        let head = self.head(bucket);
        assert!(index < head.count(), "no record {index} in the bucket");
        self.place(head, index)
    }

    #[inline]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<Found> {
        if let Some(found) = self.find_hinted(key) {
            return Some(found);
        }
        let bucket = self.directory.bucket(key.hash as u32);
        if bucket != NONE
            && let Some(found) = self.find_in(bucket, key)
        {
            return Some(found);
        }
        if self.spilled.is_empty() {
            None
        } else {
            self.find_spilled(key)
        }
    }

    /// The key's record, if it is where its hint says. The hint may be of any age, or of another table.
    #[inline]
    fn find_hinted(&self, key: &Key<'_>) -> Option<Found> {
        let (bucket, index) = key.hint.place();
        if bucket >= self.heads.len() || index >= CAPACITY {
            return None;
        }
        let head = self.head(bucket);
        if head.tag(index) != key.tag() {
            return None;
        }
        let slot = self.place(head, index);
        // SAFETY: places with a tag hold initialised records.
        unsafe { slot.matches(key) }.then_some(Found {
            bucket,
            index,
            slot,
        })
    }

    #[inline]
    fn find_in(&self, bucket: u32, key: &Key<'_>) -> Option<Found> {
        let head = self.head(bucket);
        head.prefetch_blocks();
        let mut hits = head.matches(key.tag());
        while hits != 0 {
            let index = hits.trailing_zeros() as usize;
            let slot = self.place(head, index);
            // SAFETY: places with a tag hold initialised records.
            if unsafe { slot.matches(key) } {
                return Some(Found {
                    bucket,
                    index,
                    slot,
                });
            }
            hits &= hits - 1;
        }
        None
    }

    /// Asks for the directory's entry of a hash, and for the beginnings of the lists of pages; small tables have all three
    /// in themselves.
    #[inline]
    pub(crate) fn prefetch_index(&self, hash: u32) {
        prefetch::line(self.directory.entry(hash));
        self.heads.pages().into_iter().for_each(prefetch::line);
        self.blocks.pages().into_iter().for_each(prefetch::line);
    }

    /// Asks for the tags and block numbers of the bucket of a hash; returns its number, or [`NONE`].
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u32) -> u32 {
        let bucket = self.directory.bucket(hash);
        if bucket != NONE {
            let head = self.heads.cell(bucket);
            prefetch::line(head);
            prefetch::line(head.wrapping_add(CAPACITY));
        }
        bucket
    }

    /// The records of a bucket, or of [`NONE`], with this tag, one bit each; asks for them.
    #[inline]
    pub(crate) fn prefetch_likely(&self, bucket: u32, tag: u8) -> u64 {
        if bucket == NONE {
            return 0;
        }
        let head = self.head(bucket);
        let hits = head.matches(tag);
        let mut left = hits;
        while left != 0 {
            self.place(head, left.trailing_zeros() as usize).prefetch();
            left &= left - 1;
        }
        hits
    }

    /// The key's record among those that [`Table::prefetch_likely`] has told of, if it is there.
    #[inline]
    pub(crate) fn confirm(
        &self,
        key: &Key<'_>,
        bucket: u32,
        mut hits: u64,
    ) -> Option<(Hint, Slot)> {
        while hits != 0 {
            let index = hits.trailing_zeros() as usize;
            let slot = self.place(self.head(bucket), index);
            // SAFETY: places with a tag hold initialised records.
            if unsafe { slot.matches(key) } {
                return Some((Hint::at(bucket, index), slot));
            }
            hits &= hits - 1;
        }
        None
    }

    #[cold]
    fn find_spilled(&self, key: &Key<'_>) -> Option<Found> {
        self.spilled
            .iter()
            .find_map(|&bucket| self.find_in(bucket, key))
    }

    /// Inserts a key that is not there.
    pub(crate) fn insert(
        &mut self,
        seed: &Seed,
        key: &Key<'_>,
        value: Value,
        expiry: Option<i64>,
        clock: u16,
    ) {
        debug_assert!(self.find(key).is_none());
        let bucket = self.bucket_with_room(seed, key.hash as u32);
        let slot = self.push(bucket, key.tag());
        self.len += 1;
        // SAFETY: the place is fresh, and initialised from the first call on.
        unsafe {
            slot.init(key, clock);
            self.heap += slot.key_heap_bytes();
        }
        self.set_value(slot, value);
        if expiry.is_some() {
            self.set_expiry(slot, expiry);
        }
    }

    /// The bucket for a new record with this hash; it has a free place.
    fn bucket_with_room(&mut self, seed: &Seed, hash: u32) -> u32 {
        self.directory.open();
        loop {
            let bucket = self.directory.bucket(hash);
            if bucket == NONE {
                let new = self.new_bucket();
                let run = self.directory.run(self.directory.index(hash));
                self.directory.fill(run, new);
                return new;
            }
            if self.count(bucket) < CAPACITY {
                return bucket;
            }
            if !self.divide(seed, hash, bucket) {
                return self.spill();
            }
        }
    }

    fn new_bucket(&mut self) -> u32 {
        let bucket = self.heads.push();
        self.head_mut(bucket).clear();
        self.bucket_added(bucket);
        bucket
    }

    #[cold]
    fn spill(&mut self) -> u32 {
        let room = self
            .spilled
            .iter()
            .copied()
            .find(|&bucket| self.count(bucket) < CAPACITY);
        room.unwrap_or_else(|| {
            let bucket = self.new_bucket();
            self.spilled.push(bucket);
            bucket
        })
    }

    /// Takes the next place of a bucket that has one; the caller initialises the record at once.
    fn push(&mut self, bucket: u32, tag: u8) -> Slot {
        let index = self.count(bucket);
        if index.is_multiple_of(BLOCK) {
            let block = self.new_block();
            self.head_mut(bucket).set_block(index, block);
        }
        self.head_mut(bucket).set_tag(index, tag);
        self.record_added(bucket, index);
        self.place(self.head(bucket), index)
    }

    /// Replaces the value of a record of this table.
    #[inline]
    pub(crate) fn set_value(&mut self, slot: Slot, value: Value) {
        // SAFETY: records of this table are initialised.
        if unsafe { slot.replace_inline(&value) } {
            return;
        }
        self.set_large(slot, value);
    }

    /// As [`Table::set_value`], where the value before or the new one lies outside of the record. What that takes, and
    /// when fields of it expire, is counted in a part of the table that most lookups do not touch.
    fn set_large(&mut self, slot: Slot, value: Value) {
        let before = self.registered(slot);
        let after = match &value {
            Value::Object(object) => object.next_field_expiry(),
            _ => None,
        };
        // SAFETY: records of this table are initialised.
        let change = unsafe { slot.set_value(value) };
        self.heap = self.heap.wrapping_add_signed(change);
        self.fields_expire(slot, before, after);
    }

    /// The time under which the hash of a record stands in `due`.
    #[inline]
    fn registered(&self, slot: Slot) -> Option<i64> {
        self.due.as_ref()?;
        // SAFETY: records of this table are initialised, and their objects borrowed with it.
        unsafe { (*slot.object()?).next_field_expiry() }
    }

    /// Accounts for a change of the time at which the next field of a record's hash expires.
    #[inline]
    pub(crate) fn fields_expire(&mut self, slot: Slot, before: Option<i64>, after: Option<i64>) {
        if before != after {
            self.move_due(slot, before, after);
        }
    }

    #[cold]
    fn move_due(&mut self, slot: Slot, before: Option<i64>, after: Option<i64>) {
        let due = self.due.get_or_insert_default();
        // SAFETY: records of this table are initialised.
        let change = due.changed(unsafe { slot.key() }, before, after);
        self.heap = self.heap.wrapping_add_signed(change);
        if due.is_empty() {
            self.due = None;
        }
    }

    /// The record of a hash that has a field which expired before `now_ms`.
    pub(crate) fn due(&self, seed: &Seed, now_ms: i64) -> Option<Found> {
        let key = self.due.as_ref()?.first(now_ms)?;
        self.find(&seed.key(key))
    }

    /// Accounts for a value that was changed in place.
    #[inline]
    pub(crate) fn resized(&mut self, before: usize, after: usize) {
        if before != after {
            self.heap = self.heap + after - before;
        }
    }

    /// The heap use of a value has changed by so many bytes.
    pub(crate) fn marked(&mut self, change: isize) {
        self.heap = self.heap.wrapping_add_signed(change);
    }

    /// When a record of this table expires.
    #[inline]
    pub(crate) fn expiry(&self, slot: Slot, tail: Tail) -> Option<i64> {
        match tail.expiry() {
            Expiry::Never => None,
            Expiry::At(at) => Some(at),
            Expiry::Far => Some(self.far_expiry(slot)),
        }
    }

    #[cold]
    fn far_expiry(&self, slot: Slot) -> i64 {
        // SAFETY: records of this table are initialised.
        let key = unsafe { slot.key() };
        *self
            .far
            .as_ref()
            .and_then(|far| far.get(key))
            .expect("a record marked as far is in the far map")
    }

    /// Sets the expiry of a record of this table.
    #[inline]
    pub(crate) fn set_expiry(&mut self, slot: Slot, expiry: Option<i64>) {
        // SAFETY: records of this table are initialised.
        let (tail, fits) = unsafe { (slot.tail(), slot.set_expiry(expiry)) };
        self.expiring =
            self.expiring + usize::from(expiry.is_some()) - usize::from(tail.has_expiry());
        if tail.expiry() == Expiry::Far {
            self.forget_far(slot);
        }
        if let Some(at) = expiry {
            self.sweep.soonest = self.sweep.soonest.min(at);
            self.sweep.met = self.sweep.met.min(at);
            if !fits {
                self.keep_far(slot, at);
            }
        }
    }

    #[cold]
    fn keep_far(&mut self, slot: Slot, at: i64) {
        // SAFETY: records of this table are initialised.
        let key: Box<[u8]> = unsafe { slot.key() }.into();
        self.heap += FAR_ENTRY + key.len();
        self.far.get_or_insert_default().insert(key, at);
    }

    #[cold]
    fn forget_far(&mut self, slot: Slot) {
        if let Some(far) = &mut self.far {
            // SAFETY: records of this table are initialised.
            let key = unsafe { slot.key() };
            if far.remove(key).is_some() {
                self.heap -= FAR_ENTRY + key.len();
            }
            if far.is_empty() {
                self.far = None;
            }
        }
    }

    /// Removes a record; the table may shrink, which moves others.
    pub(crate) fn remove(&mut self, seed: &Seed, found: Found) -> (Value, Option<i64>) {
        // SAFETY: records of this table are initialised.
        let hash = unsafe { found.slot.bucket_hash(seed) };
        let removed = self.take(seed, found);
        self.settle(seed, found.bucket, hash);
        removed
    }

    /// Removes a record. The last one of its bucket takes its place, and blocks may move, but no bucket does.
    fn take(&mut self, seed: &Seed, found: Found) -> (Value, Option<i64>) {
        let Found {
            bucket,
            index,
            slot,
        } = found;
        // SAFETY: the caller found the record in this table and nothing changed since, so it is initialised, and it is
        // overwritten or forgotten at once after its key is freed.
        let (value, expiry, last) = unsafe {
            let expiry = self.expiry(slot, slot.tail());
            if expiry.is_some() {
                self.set_expiry(slot, None);
            }
            let registered = self.registered(slot);
            self.fields_expire(slot, registered, None);
            self.heap -= slot.key_heap_bytes() + slot.value_heap_bytes();
            let value = slot.take_value();
            slot.drop_key();
            let last = self.count(bucket) - 1;
            if index != last {
                slot.copy_from(self.slot(bucket, last));
            }
            (value, expiry, last)
        };
        let tag = self.head(bucket).tag(last);
        let mut head = self.head_mut(bucket);
        head.set_tag(index, tag);
        head.set_tag(last, 0);
        self.record_moved(bucket, index, last);
        self.len -= 1;
        if last.is_multiple_of(BLOCK) {
            let (block, _) = self.head(bucket).place(last);
            self.free_block(seed, block);
        }
        (value, expiry)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for bucket in 0..self.heads.len() {
            for index in 0..self.count(bucket) {
                let slot = self.slot(bucket, index);
                // SAFETY: records of this table are initialised; each is dropped once, then the cells are freed.
                unsafe {
                    drop(slot.take_value());
                    slot.drop_key();
                }
            }
        }
    }
}
