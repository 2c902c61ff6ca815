//! Which records of a table are still to be taken over by a walk that shows the table as it was when the walk began.
//!
//! One bit for each place of each bucket, kept beside the table while a walk goes on, and moved as records move. So a
//! record that changes is handed over by itself, once, and new ones never are, however buckets are divided and joined.

use super::{Found, Table};
use crate::bucket::CAPACITY;
use crate::key::DbIndex;
use crate::record::Slot;
use crate::value::Value;

/// What a walk has left to do in one table.
pub(crate) struct Pending {
    /// The database that the table was when the walk began.
    pub(crate) db: DbIndex,
    /// By bucket: the places whose records are not to be taken over any more. Made up to the number of buckets when it is
    /// first looked at, so a walk begins without touching the table.
    taken: Vec<u64>,
    /// No bucket before this one has a record to take over.
    next: u32,
}

impl Pending {
    /// All that `taken` tells of a bucket, in a table of `buckets`.
    fn of(&mut self, bucket: u32, buckets: u32) -> &mut u64 {
        if self.taken.len() < buckets as usize {
            self.taken.resize(buckets as usize, 0);
        }
        &mut self.taken[bucket as usize]
    }
}

/// The bits of `mask` at the places of `selected`, moved together to the front.
fn gathered(mask: u64, selected: u64) -> u64 {
    let (mut left, mut result, mut at) = (selected, 0, 0);
    while left != 0 {
        result |= (mask >> left.trailing_zeros() & 1) << at;
        left &= left - 1;
        at += 1;
    }
    result
}

/// The first so many places of a bucket.
pub(super) fn places(count: usize) -> u64 {
    if count == CAPACITY {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}

impl Table {
    /// A walk begins: all records of today are to be taken over. False when there are none.
    pub(crate) fn begin_walk(&mut self, db: DbIndex) -> bool {
        self.pending = (self.len > 0).then(|| {
            Box::new(Pending {
                db,
                taken: Vec::new(),
                next: 0,
            })
        });
        self.pending.is_some()
    }

    /// The walk ends, whether or not all was taken over.
    pub(crate) fn end_walk(&mut self) {
        self.pending = None;
    }

    /// Whether there may be records to take over.
    pub(crate) fn is_walked(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether a record is to be taken over, which it is not any more from now on: as one of which database.
    pub(crate) fn claim(&mut self, found: Found) -> Option<DbIndex> {
        let buckets = self.heads.len();
        let pending = self.pending.as_deref_mut()?;
        let taken = pending.of(found.bucket, buckets);
        let bit = 1 << found.index;
        let is_new = *taken & bit == 0;
        *taken |= bit;
        is_new.then_some(pending.db)
    }

    /// Where the value of a record is, if it lies outside of it, stays there when the record moves, and is all that there is to
    /// it.
    pub(crate) fn outside(&self, slot: Slot) -> Option<usize> {
        // SAFETY: records of this table are initialised, and borrowed with it.
        unsafe { slot.outside() }.map(<*const u8>::addr)
    }

    /// Gives a record a copy of its value; returns the value that it had.
    pub(crate) fn copy_value(&mut self, slot: Slot) -> Value {
        // SAFETY: records of this table are initialised, and this one is borrowed exclusively.
        unsafe {
            let copy = slot.value().to_value();
            let before = slot.value_heap_bytes();
            let original = slot.take_value();
            let change = slot.set_value(copy);
            self.heap = self.heap.wrapping_add_signed(change) - before;
            original
        }
    }

    /// Takes the value of a record, which has another one then.
    pub(crate) fn take_value(&mut self, slot: Slot) -> Value {
        let registered = self.registered(slot);
        // SAFETY: as in `copy_value`.
        let original = unsafe {
            self.heap -= slot.value_heap_bytes();
            slot.take_value()
        };
        self.fields_expire(slot, registered, None);
        original
    }

    /// The next record to take over, marked as taken; `None` when there is no further one in the bucket at hand (`Ok`) or
    /// in the table (`Err`).
    pub(crate) fn claim_next(&mut self) -> Result<Option<(DbIndex, Found)>, ()> {
        let buckets = self.heads.len();
        let Some(bucket) = (self.pending.as_deref())
            .map(|pending| pending.next)
            .filter(|&bucket| bucket < buckets)
        else {
            self.pending = None;
            return Err(());
        };
        let all = places(self.count(bucket));
        let Some(pending) = self.pending.as_deref_mut() else {
            return Err(());
        };
        let taken = pending.of(bucket, buckets);
        let left = all & !*taken;
        if left == 0 {
            pending.next += 1;
            return Ok(None);
        }
        let index = left.trailing_zeros() as usize;
        *taken |= 1 << index;
        let db = pending.db;
        let slot = self.slot(bucket, index);
        Ok(Some((
            db,
            Found {
                bucket,
                index,
                slot,
            },
        )))
    }

    /// A new bucket was added behind the others.
    #[inline]
    pub(super) fn bucket_added(&mut self, bucket: u32) {
        if let Some(pending) = self.pending.as_deref_mut() {
            *pending.of(bucket, bucket + 1) = 0;
        }
    }

    /// The last bucket is about to take the number of `bucket`, which is freed.
    #[inline]
    pub(super) fn bucket_leaves(&mut self, bucket: u32) {
        let last = self.heads.len() - 1;
        if self.pending.is_none() {
            return;
        }
        let all = places(self.count(last));
        if let Some(pending) = self.pending.as_deref_mut() {
            let moved = *pending.of(last, last + 1);
            *pending.of(bucket, last + 1) = moved;
            pending.taken.truncate(last as usize);
            if all & !moved != 0 {
                pending.next = pending.next.min(bucket);
            }
        }
    }

    /// A new record was put at that place: no walk takes it over.
    #[inline]
    pub(super) fn record_added(&mut self, bucket: u32, index: usize) {
        let buckets = self.heads.len();
        if let Some(pending) = self.pending.as_deref_mut() {
            *pending.of(bucket, buckets) |= 1 << index;
        }
    }

    /// The record at `last` has moved to `index`, and nothing is at `last` any more.
    #[inline]
    pub(super) fn record_moved(&mut self, bucket: u32, index: usize, last: usize) {
        let buckets = self.heads.len();
        if let Some(pending) = self.pending.as_deref_mut() {
            let taken = pending.of(bucket, buckets);
            debug_assert!(
                *taken >> index & 1 == 1,
                "what goes was taken over before, or is not to be"
            );
            let moved = *taken >> last & 1;
            *taken = (*taken & !(1 << index | 1 << last)) | moved << index;
            if index == last {
                *taken &= !(1 << last);
            }
        }
    }

    /// What is known of one bucket, whose records are about to move.
    pub(super) fn taken_of(&mut self, bucket: u32) -> u64 {
        let buckets = self.heads.len();
        match self.pending.as_deref_mut() {
            Some(pending) => *pending.of(bucket, buckets),
            None => 0,
        }
    }

    /// The records of `selected`, of those of which `taken` is known, are in that bucket now.
    pub(super) fn records_gathered(&mut self, bucket: u32, taken: u64, selected: u64) {
        let buckets = self.heads.len();
        if let Some(pending) = self.pending.as_deref_mut() {
            *pending.of(bucket, buckets) = gathered(taken, selected);
            if selected & !taken != 0 {
                pending.next = pending.next.min(bucket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_moved_together() {
        assert_eq!(gathered(0b1010, 0b1110), 0b101);
        assert_eq!(gathered(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(gathered(1 << 63, 1 << 63 | 1), 0b10);
        assert_eq!(gathered(0, u64::MAX), 0);
        assert_eq!((places(0), places(3), places(64)), (0, 7, u64::MAX));
    }
}
