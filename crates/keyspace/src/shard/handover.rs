//! Walks that see a shard as it was when they began, while commands change it.
//!
//! The walk passes entries to its heir as it gets to them. Whatever is about to change or remove an entry that the walk
//! has not got to hands it to the heir first, as it is; entries that are new are of no interest. All changes of entries
//! pass through the methods of [`Shard`] that find them to be changed, which ask whether there is a walk; so no command
//! has to know of it, and without a walk it costs one branch. A database that is emptied is set aside as a whole.
//!
//! A large value is not passed on while the shard is held: it is lent, and read later ([`Loan`]). That holds for what the walk
//! comes to, and for what is about to change before. Should an entry whose value is lent change, it gets a copy of the value
//! first; should it go or be replaced, the value is kept as it is. Who can wait until the loan has ended asks first
//! ([`Shard::lend`]).

use super::{Shard, select};
use crate::entry::EntryRef;
use crate::key::{DbIndex, Key};
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

    /// Bytes of an entry from which it is passed to [`Heir::borrow`] instead, where its value can be lent.
    fn borrows_from(&self) -> usize {
        usize::MAX
    }

    /// Takes an entry whose value is lent until [`Shard::end_loan`]; a walk that has come to it pauses.
    fn borrow(&mut self, _loan: Loan) {}

    /// So many bytes are kept for a loan which the entry does not have any more.
    fn keeps(&mut self, _bytes: usize) {}
}

/// An entry of a walk whose value is read without holding the shard.
#[derive(Debug)]
pub struct Loan {
    /// Its database when the walk began.
    pub db: DbIndex,
    /// Its key.
    pub key: Box<[u8]>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<i64>,
    /// Bytes of the entry.
    pub bytes: usize,
    value: ValueRef<'static>,
    /// Where the value is, by which the shard knows the loan; nothing is read there by it.
    address: usize,
}

impl Loan {
    /// `entry` can be lent, and its value is at `address`.
    fn of(db: DbIndex, entry: EntryRef<'_>, address: usize) -> Loan {
        Loan {
            db,
            key: entry.key().into(),
            expires_at_ms: entry.expires_at_ms(),
            bytes: entry.memory(),
            address,
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
    /// Where the value is; nothing is read there by it.
    address: usize,
    /// Bytes of the entry.
    bytes: usize,
    /// The value, if the entry has another one now, or is gone.
    original: Option<Value>,
}

/// A walk that goes on.
pub(super) struct Walk {
    heir: Box<dyn Heir>,
    /// Tables of databases that were emptied meanwhile, which have records to pass on or may have values that are lent.
    set_aside: Vec<Table>,
    lent: Vec<Lent>,
}

/// What becomes of the value of an entry that is about to change or go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It is changed in place, or used.
    Changes,
    /// It is replaced, or freed.
    Goes,
}

/// What a walk leaves behind; to be dropped when the shard is not held any more.
#[derive(Default)]
pub struct Leftover {
    /// For the heir to finish what it has.
    _heir: Option<Box<dyn Heir>>,
    _tables: Vec<Table>,
    _lent: Vec<Lent>,
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
                lent: Vec::new(),
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

    /// Ends a loan; the value that is to be dropped, when the shard is not held any more, if the entry has another one now
    /// or is gone.
    pub fn end_loan(&mut self, loan: &Loan) -> Option<Value> {
        let lent = &mut self.walk.as_mut()?.lent;
        let at = lent.iter().position(|lent| lent.address == loan.address)?;
        lent.swap_remove(at).original
    }

    /// Whether there are loans that have not ended. The walk must not be ended before, unless it is given up.
    pub fn has_loans(&self) -> bool {
        self.walk.as_ref().is_some_and(|walk| !walk.lent.is_empty())
    }

    /// Whether the value of a key is lent, and so would have to be copied before it is changed. One that is large and that
    /// the walk has not got to is lent from now on.
    #[cold]
    pub fn lend(&mut self, db: DbIndex, key: Key<'_>, now_ms: i64) -> bool {
        let timeless = self.timeless;
        let (Some(walk), Some(table)) = (
            &mut self.walk,
            select(&mut self.first, &mut self.others, db),
        ) else {
            return false;
        };
        let Some(found) = table.find(&key) else {
            return false;
        };
        let expiry = EntryRef::new(found.slot, table).expires_at_ms();
        if expiry.is_some_and(|at| now_ms > at) && !timeless {
            return false;
        }
        walk.lend(table, found) || walk.lent_of(table, found).is_some()
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
            _lent: walk.lent,
        }
    }

    /// Whether a walk goes on.
    pub fn is_walked(&self) -> bool {
        self.counters.walked
    }

    /// Bytes of emptied databases that are kept for the walk.
    pub fn set_aside_bytes(&self) -> usize {
        (self.walk.as_ref()).map_or(0, |walk| walk.set_aside.iter().map(Table::memory).sum())
    }

    /// A record is about to change or go: it is handed over, unless that was done. A value that goes may be replaced by
    /// another one here.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(&mut self, db: DbIndex, found: Found, then: Then) {
        let Some(walk) = &mut self.walk else {
            return;
        };
        let Some(table) = select(&mut self.first, &mut self.others, db) else {
            return;
        };
        if !walk.lend(table, found)
            && let Some(was) = table.claim(found)
        {
            walk.heir.take(was, EntryRef::new(found.slot, table));
            return;
        }
        if let Some(at) = walk.lent_of(table, found) {
            let lent = &mut walk.lent[at];
            lent.original = Some(match then {
                Then::Changes => table.copy_value(found.slot),
                Then::Goes => table.take_value(found.slot),
            });
            walk.heir.keeps(lent.bytes);
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
            self.hand_over(db, found, Then::Goes);
        }
    }

    /// The hash that has waited longest for its fields to go is about to lose some.
    #[cold]
    pub(super) fn hand_over_due(&mut self, db: DbIndex, now_ms: i64) {
        let due = (self.table(db)).and_then(|table| table.due(&self.seed, now_ms));
        if let Some(found) = due {
            self.hand_over(db, found, Then::Changes);
        }
    }

    /// A database was emptied: what it had is kept while a walk needs it. Values of a table that the walk is through with
    /// may still be lent.
    pub(super) fn set_aside(&mut self, table: Table) {
        if let Some(walk) = &mut self.walk
            && (table.is_walked() || !walk.lent.is_empty())
        {
            walk.set_aside.push(table);
        }
    }
}

impl Walk {
    /// Lends the value of a record that is large and has not been taken over; false, and no change, for others.
    fn lend(&mut self, table: &mut Table, found: Found) -> bool {
        let entry = EntryRef::new(found.slot, table);
        if entry.memory() < self.heir.borrows_from() {
            return false;
        }
        let Some(address) = table.outside(found.slot) else {
            return false;
        };
        let Some(db) = table.claim(found) else {
            return false;
        };
        let entry = EntryRef::new(found.slot, table);
        lend(&mut self.lent, &mut *self.heir, db, entry, address);
        true
    }

    /// The place of the loan of a record's value.
    fn lent_of(&self, table: &Table, found: Found) -> Option<usize> {
        if self.lent.is_empty() {
            return None;
        }
        let address = table.outside(found.slot)?;
        let is_of = |lent: &Lent| lent.original.is_none() && lent.address == address;
        self.lent.iter().position(is_of)
    }
}

/// Lends the value of an entry, which is at `address`.
fn lend(
    lent: &mut Vec<Lent>,
    heir: &mut dyn Heir,
    db: DbIndex,
    entry: EntryRef<'_>,
    address: usize,
) {
    lent.push(Lent {
        address,
        bytes: entry.memory(),
        original: None,
    });
    heir.borrow(Loan::of(db, entry, address));
}

/// Passes on what is left of about one bucket; false at the end of the table.
fn pass_on(table: &mut Table, heir: &mut dyn Heir, lent: &mut Vec<Lent>) -> bool {
    let (mut any, mut empty) = (false, 0);
    loop {
        match table.claim_next() {
            Ok(Some((db, found))) => {
                let entry = EntryRef::new(found.slot, table);
                if entry.memory() >= heir.borrows_from()
                    && let Some(address) = table.outside(found.slot)
                {
                    lend(lent, heir, db, entry, address);
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
