//! One shard of the keyspace: the tables of all databases for its part of the keys.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_limiter::top::Hitter;

use crate::access::{Access, used_at};
use crate::cas::CasNumbers;
use crate::directory::NONE;
use crate::entry::{EntryMut, EntryRef};
use crate::key::{DATABASES, DbIndex, Key, Seed};
use crate::table::{Found, Order, Table, Victim};
use crate::tally::Tally;
use crate::value::{Graves, Value};

mod expiry;
mod handover;

use expiry::ExpiredLog;
pub use expiry::{ExpireProgress, Expired, ExpiredFields};
pub use handover::{Heir, Leftover, Loan};
use handover::{Then, Walk};

/// Counters of one shard since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Entries removed because their time had come.
    pub expired: u64,
    /// Fields of hashes removed because their time had come.
    pub expired_fields: u64,
    /// Changes, removals by expiry included.
    pub dirty: u64,
}

/// Picks of a random key before it is given up, where entries that have expired are kept.
const TRIES_MAX: usize = 100;

/// The counters that commands change, apart from the tables so that both can be borrowed at once.
#[derive(Default)]
pub(crate) struct Counters {
    hits: u64,
    /// Changes, removals by expiry included; never set back.
    changes: u64,
    /// How uses are recorded.
    access: Access,
    /// Accesses do not count as uses.
    quiet: bool,
    /// A walk is to be told of entries before they change.
    walked: bool,
    /// State of the generator by which counts of uses rise.
    random: u64,
}

impl Counters {
    #[inline]
    pub(crate) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Records a use of an entry that was just found.
    #[inline]
    fn touch(&mut self, found: Found, now_ms: i64) {
        if self.quiet {
            return;
        }
        // SAFETY: the caller just found the record and nothing changed since.
        unsafe {
            let tail = found.slot.tail();
            let bits = match self.access {
                Access::Time => used_at(now_ms),
                Access::ChangeTime => return,
                frequency => frequency.used(tail.clock(), now_ms, self.next_random()),
            };
            found.slot.touch(tail, bits);
        }
    }

    /// The same, of an entry that is about to change.
    #[inline]
    fn touch_to_change(&mut self, found: Found, now_ms: i64) {
        if self.access != Access::ChangeTime {
            return self.touch(found, now_ms);
        }
        // SAFETY: as in `touch`. Who is not to count as a user changes the entry all the same.
        unsafe { found.slot.touch(found.slot.tail(), used_at(now_ms)) };
    }

    fn next_random(&mut self) -> u64 {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Databases 1 to 15.
type Others = Box<[Table; DATABASES - 1]>;

/// Tables of all databases for one part of the keys.
///
/// Lookups take a key or a reference to one. What is larger than two words is handed over in memory, and bytes that are
/// read in larger pieces than they were written a moment ago make the processor wait; a reference spares the copy.
///
/// What every command reads comes first: [`Shard::HOT`] bytes.
#[repr(C)]
pub struct Shard {
    counters: Counters,
    /// Database 0, which nearly all clients use.
    first: Table,
    /// Databases 1 to 15, from the first use of one of them on.
    others: Option<Others>,
    seed: Seed,
    expired: ExpiredLog,
    /// The database where active expiry goes on.
    sweep_db: u8,
    /// Databases emptied or exchanged since [`Shard::take_replaced`], one bit each.
    replaced: u16,
    /// See [`Shard::keep_expired`].
    keeps_expired: bool,
    /// See [`Shard::rest_with`].
    rests: Option<Arc<AtomicBool>>,
    /// See [`Shard::bury_in`].
    graves: Option<Arc<dyn Graves>>,
    /// See [`Shard::set_timeless`].
    timeless: bool,
    /// Reads that did not find their key.
    misses: u64,
    tally: Tally,
    cas: CasNumbers,
    /// The walk, while one goes on.
    walk: Option<Box<Walk>>,
}

/// For what an entry is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

const _: () = assert!(
    size_of::<Shard>() < 1024,
    "an empty shard stays below 1 KiB"
);

impl Shard {
    /// Bytes from the front that every command reads.
    pub const HOT: usize = std::mem::offset_of!(Shard, first) + Table::HOT;

    /// An empty shard; `seed` must be the one that makes its keys.
    pub fn new(seed: &Seed) -> Self {
        Self {
            first: Table::new(),
            others: None,
            counters: Counters::default(),
            seed: seed.clone(),
            expired: ExpiredLog::default(),
            sweep_db: 0,
            replaced: 0,
            keeps_expired: false,
            rests: None,
            graves: None,
            timeless: false,
            misses: 0,
            cas: CasNumbers::default(),
            walk: None,
            tally: Tally::of_shards(1),
        }
    }

    /// The keyspace has so many shards: each counts as many fewer hitters, and all take their numbers from the same source.
    pub fn be_one_of(&mut self, shards: usize, cas: &CasNumbers) {
        self.tally = Tally::of_shards(shards);
        self.cas = cas.clone();
    }

    #[inline]
    pub(crate) fn table(&self, db: DbIndex) -> Option<&Table> {
        match db.get() {
            0 => Some(&self.first),
            n => self.others.as_ref().map(|others| &others[n - 1]),
        }
    }

    #[inline]
    fn table_mut(&mut self, db: DbIndex) -> Option<&mut Table> {
        select(&mut self.first, &mut self.others, db)
    }

    /// The live record of a key; an expired one is removed, or passed over.
    #[inline]
    fn find(&mut self, db: DbIndex, key: &Key<'_>, now_ms: i64, wanted: Use) -> Option<Found> {
        let table = self.table(db)?;
        let found = table.find(key)?;
        // SAFETY: `find` returns records of the table.
        let expiry = table.expiry(found.slot, unsafe { found.slot.tail() });
        if expiry.is_some_and(|at| now_ms > at) {
            return self.expire_found(db, found, key.bytes(), wanted);
        }
        Some(found)
    }

    #[cold]
    fn expire_found(
        &mut self,
        db: DbIndex,
        found: Found,
        key: &[u8],
        wanted: Use,
    ) -> Option<Found> {
        if self.timeless {
            return Some(found);
        }
        if wanted == Use::Read && self.keeps() {
            return None;
        }
        self.hand_over(db, found, Then::Goes);
        if let Some(table) = select(&mut self.first, &mut self.others, db) {
            let (gone, _) = table.remove(&self.seed, found);
            self.free(gone);
        }
        self.expired.note(&mut self.counters, db, key);
        None
    }

    /// Whether expired entries stay until they are removed by a command or replaced: those who read find nothing, but
    /// nothing goes by itself. So it is where another server decides when an entry goes.
    pub fn keep_expired(&mut self, keeps: bool) {
        self.keeps_expired = keeps;
    }

    /// While the flag is set expired entries stay, as [`Shard::keep_expired`] has it. It is shared, so that it can be set by
    /// those who hold some of the shards.
    pub fn rest_with(&mut self, flag: &Arc<AtomicBool>) {
        self.rests = Some(Arc::clone(flag));
    }

    /// Large values that are gone are given to `graves`: freeing them takes long, and the shard is locked.
    pub fn bury_in(&mut self, graves: Arc<dyn Graves>) {
        self.graves = Some(graves);
    }

    /// Frees a value that was removed, unless somebody else is to do that.
    pub fn free(&self, value: Value) {
        free(self.graves.as_deref(), value);
    }

    fn keeps(&self) -> bool {
        let rests = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        self.keeps_expired || self.rests.as_ref().is_some_and(rests)
    }

    /// Whether expired entries are found as if their time had not come: for commands that another server, or this one at
    /// an earlier time, has run before.
    pub fn set_timeless(&mut self, timeless: bool) {
        self.timeless = timeless;
    }

    /// Whether an entry with that expiry is there for those who read.
    #[inline]
    fn is_live(&self, expires_at_ms: Option<i64>, now_ms: i64) -> bool {
        expires_at_ms.is_none_or(|at| now_ms <= at) || self.timeless
    }

    /// Whether accesses leave the access clock as it is.
    pub fn set_quiet(&mut self, quiet: bool) {
        self.counters.quiet = quiet;
    }

    /// Finds an entry to read; counts a hit or a miss and touches the access clock.
    #[inline]
    pub fn get<'k>(
        &mut self,
        db: DbIndex,
        key: impl Borrow<Key<'k>>,
        now_ms: i64,
    ) -> Option<EntryRef<'_>> {
        let Some(found) = self.find(db, key.borrow(), now_ms, Use::Read) else {
            self.misses += 1;
            return None;
        };
        self.counters.hits += 1;
        self.counters.touch(found, now_ms);
        self.table(db).map(|table| EntryRef::new(found.slot, table))
    }

    /// Finds an entry on which a write depends, to read it: touches the access clock, counts no hit or miss.
    #[inline]
    pub fn touch(&mut self, db: DbIndex, key: Key<'_>, now_ms: i64) -> Option<EntryRef<'_>> {
        let found = self.find(db, &key, now_ms, Use::Read)?;
        self.counters.touch(found, now_ms);
        self.table(db).map(|table| EntryRef::new(found.slot, table))
    }

    /// Finds an entry without counting or touching; still removes it if it is expired.
    #[inline]
    pub fn peek(&mut self, db: DbIndex, key: Key<'_>, now_ms: i64) -> Option<EntryRef<'_>> {
        let found = self.find(db, &key, now_ms, Use::Read)?;
        self.table(db).map(|table| EntryRef::new(found.slot, table))
    }

    /// Finds a live entry without a change of any kind; an expired one is passed over and stays.
    #[inline]
    pub fn look(&self, db: DbIndex, key: Key<'_>, now_ms: i64) -> Option<EntryRef<'_>> {
        let table = self.table(db)?;
        let entry = EntryRef::new(table.find(&key)?.slot, table);
        self.is_live(entry.expires_at_ms(), now_ms).then_some(entry)
    }

    /// Finds an entry to change in place; touches the access clock, counts no hit or miss.
    #[inline]
    pub fn get_mut<'k>(
        &mut self,
        db: DbIndex,
        key: impl Borrow<Key<'k>>,
        now_ms: i64,
    ) -> Option<EntryMut<'_>> {
        self.entry_mut(db, key.borrow(), now_ms, Then::Changes)
    }

    /// The entry to change, whose value may be another one already if it goes.
    #[inline]
    fn entry_mut(
        &mut self,
        db: DbIndex,
        key: &Key<'_>,
        now_ms: i64,
        then: Then,
    ) -> Option<EntryMut<'_>> {
        let found = self.find(db, key, now_ms, Use::Write)?;
        self.counters.touch_to_change(found, now_ms);
        if self.counters.walked {
            self.hand_over(db, found, then);
        }
        let table = select(&mut self.first, &mut self.others, db)?;
        Some(EntryMut::new(found.slot, table, &mut self.counters))
    }

    /// Inserts or replaces.
    #[inline]
    pub fn set<'k>(
        &mut self,
        db: DbIndex,
        key: impl Borrow<Key<'k>>,
        value: Value,
        expires_at_ms: Option<i64>,
        now_ms: i64,
    ) {
        let key = key.borrow();
        match self.entry_mut(db, key, now_ms, Then::Goes) {
            Some(mut entry) => {
                let expires = expires_at_ms.is_some() || entry.has_expiry();
                let large = entry.take_large();
                entry.set_value(value);
                if expires {
                    entry.set_expiry(expires_at_ms);
                }
                if let Some(large) = large {
                    self.free(large);
                }
            }
            None => self.insert(db, key, value, expires_at_ms, now_ms),
        }
    }

    /// Inserts a string or replaces what is there by it. A string of the same length is overwritten where it lies.
    #[inline]
    pub fn set_bytes<'k>(
        &mut self,
        db: DbIndex,
        key: impl Borrow<Key<'k>>,
        bytes: &[u8],
        expires_at_ms: Option<i64>,
        now_ms: i64,
    ) {
        let key = key.borrow();
        match self.entry_mut(db, key, now_ms, Then::Goes) {
            Some(mut entry) => {
                let expires = expires_at_ms.is_some() || entry.has_expiry();
                let large = entry.take_large();
                entry.set_bytes(bytes);
                if expires {
                    entry.set_expiry(expires_at_ms);
                }
                if let Some(large) = large {
                    self.free(large);
                }
            }
            None => self.insert(db, key, Value::from_bytes(bytes), expires_at_ms, now_ms),
        }
    }

    fn insert(
        &mut self,
        db: DbIndex,
        key: &Key<'_>,
        value: Value,
        expires_at_ms: Option<i64>,
        now_ms: i64,
    ) {
        self.counters.changed();
        let table = insertable(&mut self.first, &mut self.others, db);
        let bits = self.counters.access.fresh(now_ms);
        table.insert(&self.seed, key, value, expires_at_ms, bits);
    }

    /// Removes an entry and returns its value and expiry.
    pub fn remove(
        &mut self,
        db: DbIndex,
        key: Key<'_>,
        now_ms: i64,
    ) -> Option<(Value, Option<i64>)> {
        self.take_out(db, &key, now_ms, Then::Changes)
    }

    /// Removes an entry and returns what is to be freed of its value: nothing to speak of, if a walk has taken it over as it
    /// was.
    pub fn discard(&mut self, db: DbIndex, key: Key<'_>, now_ms: i64) -> Option<Value> {
        let (left, _) = self.take_out(db, &key, now_ms, Then::Goes)?;
        Some(left)
    }

    #[inline]
    fn take_out(
        &mut self,
        db: DbIndex,
        key: &Key<'_>,
        now_ms: i64,
        then: Then,
    ) -> Option<(Value, Option<i64>)> {
        let found = self.find(db, key, now_ms, Use::Write)?;
        self.counters.changed();
        if self.counters.walked {
            self.hand_over(db, found, then);
        }
        let table = select(&mut self.first, &mut self.others, db)?;
        Some(table.remove(&self.seed, found))
    }

    /// Entries of a database, expired ones that nobody met yet included.
    pub fn len(&self, db: DbIndex) -> usize {
        self.table(db).map_or(0, Table::len)
    }

    /// Whether a database has no entries.
    pub fn is_empty(&self, db: DbIndex) -> bool {
        self.len(db) == 0
    }

    /// Entries of a database that have an expiry.
    pub fn expiring(&self, db: DbIndex) -> usize {
        self.table(db).map_or(0, Table::expiring)
    }

    /// Removes all entries of a database and returns their number.
    pub fn clear(&mut self, db: DbIndex) -> usize {
        let removed = self.len(db);
        if removed > 0 {
            if let Some(table) = self.table_mut(db) {
                let emptied = std::mem::replace(table, Table::new());
                self.set_aside(emptied);
            }
            self.replaced |= 1 << db.get();
            self.counters.changed();
        }
        removed
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, a: DbIndex, b: DbIndex) {
        if a == b {
            return;
        }
        let Self { first, others, .. } = self;
        let taken = std::mem::replace(insertable(first, others, a), Table::new());
        let other = std::mem::replace(insertable(first, others, b), taken);
        *insertable(first, others, a) = other;
        self.replaced |= 1 << a.get() | 1 << b.get();
        self.counters.changed();
    }

    /// Databases that were emptied or exchanged since the last call, one bit each.
    pub fn take_replaced(&mut self) -> u16 {
        std::mem::take(&mut self.replaced)
    }

    /// One scan step: calls `f` for the live entries of the bucket at `cursor` and returns the next cursor, 0 at
    /// the end. Every entry present throughout a scan is visited at least once, across growth and shrinking.
    /// Cursors are below 2^32; one that no scan returned is as good as any.
    pub fn scan(
        &mut self,
        db: DbIndex,
        cursor: u64,
        now_ms: i64,
        f: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> u64 {
        let Some((bucket, _)) = self.table(db).and_then(|table| table.scan_step(cursor)) else {
            return 0;
        };
        if bucket != NONE {
            self.expire_bucket(db, bucket, now_ms);
        }
        // Removals may have joined the bucket with another, so the one around the cursor is looked up again.
        let Some(table) = self.table(db) else {
            return 0;
        };
        let Some((bucket, next)) = table.scan_step(cursor) else {
            return 0;
        };
        let spilled = if cursor == 0 { table.spilled() } else { &[] };
        for &bucket in spilled
            .iter()
            .chain(std::iter::once(&bucket).filter(|&&bucket| bucket != NONE))
        {
            for index in 0..table.count(bucket) {
                let entry = EntryRef::new(table.slot(bucket, index), table);
                if self.is_live(entry.expires_at_ms(), now_ms) {
                    f(entry.key(), entry);
                }
            }
        }
        next
    }

    /// A live key picked by the random bits `r`, each with the same probability. Where expired entries are kept, none may be
    /// found among many of them.
    pub fn random(&mut self, db: DbIndex, r: u64, now_ms: i64) -> Option<&[u8]> {
        let mut bits = r;
        let mut tries = 0;
        loop {
            let table = self.table(db).filter(|table| table.len() > 0)?;
            let (bucket, index) = table.random_place(&mut bits);
            let entry = EntryRef::new(table.slot(bucket, index), table);
            if self.is_live(entry.expires_at_ms(), now_ms) {
                let table = self.table(db)?;
                return Some(EntryRef::new(table.slot(bucket, index), table).key());
            }
            tries += 1;
            if tries >= TRIES_MAX && self.keeps() {
                return None;
            }
            // At least this entry goes, unless it is kept, so the loop ends.
            self.expire_bucket(db, bucket, now_ms);
        }
    }

    /// Bytes held by the shard, its tables, keys and values. Empty tables beyond the first are not counted: they stay when
    /// all that made them is gone, so a limit could not be met by removing it.
    pub fn memory(&self) -> usize {
        let others = self.others.iter().flat_map(|others| others.iter());
        let others = others.filter(|table| table.len() > 0);
        let others = others.map(|table| size_of::<Table>() + table.memory());
        let others: usize = others.sum();
        size_of::<Self>() + self.first.memory() + others + self.tally.memory()
    }

    /// Counts a limiter's decision on a key for [`Shard::hitters`]. Of many, only a part is counted, and weighs more.
    #[inline]
    pub fn decided(&mut self, db: DbIndex, key: Key<'_>, allowed: bool) {
        self.tally.decided(db, key, allowed);
    }

    /// Counts decisions on a key that were made elsewhere.
    pub fn decided_elsewhere(&mut self, db: DbIndex, key: Key<'_>, allowed: u64, denied: u64) {
        self.tally.count(db, key, allowed, denied);
    }

    /// The keys of a database on which limiters decide most, in no order.
    pub fn hitters(&self, db: DbIndex) -> impl Iterator<Item = &Hitter> {
        self.tally.hitters(db)
    }

    /// Forgets them, of all databases.
    pub fn forget_hitters(&mut self) {
        self.tally.forget();
    }

    /// What is recorded of uses from now on. Old records are not converted, as in Redis.
    pub fn set_access(&mut self, access: Access) {
        self.counters.access = access;
    }

    /// Looks at the entries in the part `from..to` of `all` of each table: what is recorded of their uses stays right only if
    /// all are looked at every two hours or so.
    pub fn age(&mut self, from: u32, to: u32, all: u32, now_ms: i64) {
        let access = self.counters.access;
        let others = self.others.iter_mut().flat_map(|others| others.iter_mut());
        for table in std::iter::once(&mut self.first).chain(others) {
            table.age(from, to, all, access, now_ms);
        }
    }

    /// The entry of a database that goes first, of up to `samples` around a place picked by `bits`. With `volatile` only
    /// entries that expire may go. State of rate limiters that is still valid never does.
    pub fn victim(
        &self,
        db: DbIndex,
        order: Order,
        volatile: bool,
        samples: usize,
        bits: u64,
        now_ms: i64,
    ) -> Option<Victim> {
        let access = self.counters.access;
        self.table(db)?
            .victim(order, volatile, access, samples, bits, now_ms)
    }

    /// Counters.
    pub fn stats(&self) -> ShardStats {
        ShardStats {
            hits: self.counters.hits,
            misses: self.misses,
            expired: self.expired.expired,
            expired_fields: self.expired.expired_fields,
            dirty: self.counters.changes,
        }
    }

    /// Counts an access that was made by [`Shard::peek`].
    #[inline]
    pub fn count_access(&mut self, found: bool) {
        if found {
            self.counters.hits += 1;
        } else {
            self.misses += 1;
        }
    }

    /// Sets all counters but the number of changes to zero.
    pub fn reset_stats(&mut self) {
        self.counters.hits = 0;
        self.misses = 0;
        self.expired.expired = 0;
        self.expired.expired_fields = 0;
    }

    /// A number to name the state of a value by; see [`CasNumbers::next`].
    pub fn next_cas(&self, now_ms: i64) -> u64 {
        self.cas.next(now_ms)
    }

    /// Grows with every change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.counters.changes
    }
}

/// See [`Shard::free`].
#[inline]
fn free(graves: Option<&dyn Graves>, value: Value) {
    match graves {
        Some(graves) if value.takes_long_to_free() => graves.bury(value),
        _ => drop(value),
    }
}

/// The table of a database if there is one.
#[inline]
fn select<'a>(
    first: &'a mut Table,
    others: &'a mut Option<Others>,
    db: DbIndex,
) -> Option<&'a mut Table> {
    match db.get() {
        0 => Some(first),
        n => others.as_mut().map(|others| &mut others[n - 1]),
    }
}

/// The table of a database, made if need be.
fn insertable<'a>(
    first: &'a mut Table,
    others: &'a mut Option<Others>,
    db: DbIndex,
) -> &'a mut Table {
    match db.get() {
        0 => first,
        n => &mut others.get_or_insert_with(|| Box::new(std::array::from_fn(|_| Table::new())))
            [n - 1],
    }
}
