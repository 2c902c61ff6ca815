//! Walks that see a shard as it was when they began, while commands change it.
//!
//! The walk passes entries to its heir as it gets to them. Whatever is about to change or remove an entry that the walk
//! has not got to hands it to the heir first, as it is; entries that are new are of no interest. All changes of entries
//! pass through the methods of [`Shard`] that find them to be changed, which ask whether there is a walk; so no command
//! has to know of it, and without a walk it costs one branch. A database that is emptied is set aside as a whole.
//!
//! A large value is not copied while the shard is held: the walk borrows it and reads it later ([`Loan`]). Should the entry
//! change or go meanwhile, it gets a copy of the value first, and the walk keeps what it reads.

use super::{Shard, select};
use crate::entry::EntryRef;
use crate::key::DbIndex;
use crate::table::{Found, Table};
use crate::value::{Value, ValueRef};

/// Takes over the entries of a walk.
pub trait Heir: Send {
    /// Takes over an entry, which may change right afterwards. `db`: its database when the walk began.
    fn take(&mut self, db: DbIndex, entry: EntryRef<'_>);

    /// Whether the walk is to pause, so that the shard is not held for too long.
    fn has_enough(&self) -> bool {
        false
    }

    /// Bytes of a value from which it is passed to [`Heir::borrow`] instead, where it can be lent.
    fn borrows_from(&self) -> usize {
        usize::MAX
    }

    /// Takes an entry whose value is lent. The walk pauses, and does not go on until [`Shard::end_loan`].
    fn borrow(&mut self, _loan: Loan) {}
}

/// An entry that a walk has come to and whose value it reads without holding the shard.
#[derive(Debug)]
pub struct Loan {
    /// Its database when the walk began.
    pub db: DbIndex,
    /// Its key.
    pub key: Box<[u8]>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<i64>,
    value: ValueRef<'static>,
}

// SAFETY: what the reference points to is only read until the loan ends, by this one and by whoever holds the shard.
unsafe impl Send for Loan {}

impl Loan {
    /// `entry` can be lent.
    fn of(db: DbIndex, entry: EntryRef<'_>) -> Loan {
        Loan {
            db,
            key: entry.key().into(),
            expires_at_ms: entry.expires_at_ms(),
            // SAFETY: the value lies outside of its record, where it stays, unchanged, until the loan ends: see `value`.
            value: unsafe { std::mem::transmute::<ValueRef<'_>, ValueRef<'static>>(entry.value()) },
        }
    }

    /// The value.
    ///
    /// # Safety
    /// The shard that has lent it exists, and neither [`Shard::end_loan`] nor [`Shard::end_walk`] was called since, nor will
    /// be while the value is used.
    pub unsafe fn value(&self) -> ValueRef<'_> {
        self.value
    }
}

/// What a shard knows of a loan.
struct Lent {
    /// Where the value is.
    address: *const u8,
    /// The value, if the entry has a copy of it now.
    original: Option<Value>,
}

// SAFETY: the address is compared and not read.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

/// A walk that goes on.
pub(super) struct Walk {
    heir: Box<dyn Heir>,
    /// Tables of databases that were emptied meanwhile.
    set_aside: Vec<Table>,
    lent: Option<Lent>,
}

/// What a walk leaves behind; to be dropped when the shard is not held any more.
#[derive(Default)]
pub struct Leftover {
    /// For the heir to finish what it has.
    _heir: Option<Box<dyn Heir>>,
    _tables: Vec<Table>,
    _lent: Option<Value>,
}

/// Buckets without anything to take over that are passed in one step.
const EMPTY_MAX: usize = 64;

impl Shard {
    /// Begins a walk over the entries of today, and ends the one before. Entries that are changed before the walk gets to
    /// them are passed to `heir`. Costs no more for a large shard than for a small one. False, and no walk, when there
    /// are no entries.
    pub fn begin_walk(&mut self, heir: Box<dyn Heir>) -> bool {
        drop(self.end_walk());
        let mut any = false;
        for db in DbIndex::all() {
            any |= self.table_mut(db).is_some_and(|table| table.begin_walk(db));
        }
        if any {
            self.walk = Some(Box::new(Walk {
                heir,
                set_aside: Vec::new(),
                lent: None,
            }));
            self.counters.walked = true;
        }
        any
    }

    /// Goes on: passes entries that are as they were when the walk began to `heir`, those of about one bucket, or until it
    /// has enough. False when nothing is left; then the walk has to be ended.
    pub fn walk_on(&mut self, heir: &mut dyn Heir) -> bool {
        let Some(walk) = &mut self.walk else {
            return false;
        };
        debug_assert!(walk.lent.is_none(), "the loan before was not ended");
        let aside = walk.set_aside.iter_mut();
        let others = self.others.iter_mut().flat_map(|others| others.iter_mut());
        let tables = std::iter::once(&mut self.first).chain(others).chain(aside);
        for table in tables.filter(|table| table.is_walked()) {
            if pass_on(table, heir, &mut walk.lent) {
                return true;
            }
        }
        false
    }

    /// Ends the loan of the last step; the value that is to be dropped, when the shard is not held any more, if the entry has
    /// another one now.
    pub fn end_loan(&mut self) -> Option<Value> {
        self.walk.as_mut()?.lent.take()?.original
    }

    /// Ends the walk, whether or not it has got to the end.
    pub fn end_walk(&mut self) -> Leftover {
        self.counters.walked = false;
        let Some(walk) = self.walk.take() else {
            return Leftover::default();
        };
        for db in DbIndex::all() {
            if let Some(table) = self.table_mut(db) {
                table.end_walk();
            }
        }
        Leftover {
            _heir: Some(walk.heir),
            _tables: walk.set_aside,
            _lent: walk.lent.and_then(|lent| lent.original),
        }
    }

    /// Whether a walk goes on.
    pub fn is_walked(&self) -> bool {
        self.walk.is_some()
    }

    /// Bytes of emptied databases that are kept for the walk.
    pub fn set_aside_bytes(&self) -> usize {
        (self.walk.as_ref()).map_or(0, |walk| walk.set_aside.iter().map(Table::memory).sum())
    }

    /// A record is about to change or go: it is handed over, unless that was done.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(&mut self, db: DbIndex, found: Found) {
        let Some(walk) = &mut self.walk else {
            return;
        };
        let Some(table) = select(&mut self.first, &mut self.others, db) else {
            return;
        };
        if let Some(then) = table.claim(found) {
            walk.heir.take(then, EntryRef::new(found.slot, table));
        } else if let Some(lent) = &mut walk.lent
            && lent.original.is_none()
            && table.outside(found.slot) == Some(lent.address)
        {
            lent.original = Some(table.copy_value(found.slot));
        }
    }

    /// The expired records of a bucket are about to go.
    #[cold]
    pub(super) fn hand_over_expired(&mut self, db: DbIndex, bucket: u32, now_ms: i64) {
        let Some(table) = self.table(db) else {
            return;
        };
        let expired: smallvec::SmallVec<[Found; 8]> = (0..table.count(bucket))
            .map(|index| Found {
                bucket,
                index,
                slot: table.slot(bucket, index),
            })
            .filter(|found| {
                let expiry = EntryRef::new(found.slot, table).expires_at_ms();
                expiry.is_some_and(|at| now_ms > at)
            })
            .collect();
        for found in expired {
            self.hand_over(db, found);
        }
    }

    /// The hash that has waited longest for its fields to go is about to lose some.
    #[cold]
    pub(super) fn hand_over_due(&mut self, db: DbIndex, now_ms: i64) {
        let due = (self.table(db)).and_then(|table| table.due(&self.seed, now_ms));
        if let Some(found) = due {
            self.hand_over(db, found);
        }
    }

    /// A database was emptied: what it had is kept while a walk needs it.
    pub(super) fn set_aside(&mut self, table: Table) {
        if let Some(walk) = &mut self.walk
            && table.is_walked()
        {
            walk.set_aside.push(table);
        }
    }
}

/// Passes on what is left of about one bucket; false at the end of the table.
fn pass_on(table: &mut Table, heir: &mut dyn Heir, lent: &mut Option<Lent>) -> bool {
    let (mut any, mut empty) = (false, 0);
    loop {
        match table.claim_next() {
            Ok(Some((db, found))) => {
                let entry = EntryRef::new(found.slot, table);
                if entry.memory() >= heir.borrows_from()
                    && let Some(address) = table.outside(found.slot)
                {
                    *lent = Some(Lent {
                        address,
                        original: None,
                    });
                    heir.borrow(Loan::of(db, entry));
                    return true;
                }
                heir.take(db, entry);
                any = true;
                if heir.has_enough() {
                    return true;
                }
            }
            Ok(None) => {
                empty += 1;
                if any || empty == EMPTY_MAX {
                    return true;
                }
            }
            Err(()) => return any,
        }
    }
}
