//! What a handler may see and change.
#![allow(
    clippy::needless_borrows_for_generic_args,
    reason = "a key by value is a copy of it in memory"
)]

use tollgate_keyspace::{DbIndex, Encoding, EntryMut, EntryRef, Key, Seed, Value, ValueRef};
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::ReplyBuf;

use crate::{Effects, Event, Reply, ShardSet, StoreLimits, Walk};

/// Who asks: it decides which checks of the gate apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// A client's connection.
    #[default]
    Client,
    /// A script's `redis.call`.
    Script,
    /// The journal, at start.
    Replay,
    /// The primary this node follows.
    Replica,
    /// This program itself.
    Internal,
}

impl Origin {
    /// Whether the command has been run before, by another server or by this one, so that nothing is to be decided again:
    /// no check refuses it, and nothing expires by the clock of this server while it runs.
    #[inline]
    pub const fn is_applied(self) -> bool {
        matches!(self, Origin::Replay | Origin::Replica)
    }
}

/// A small seeded generator (SplitMix64): enough to pick a random key, not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (at least 1).
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

/// The world of one command.
pub struct Cx<'a> {
    /// The locked shards of its keys.
    pub shards: ShardSet<'a>,
    /// The whole keyspace, for [`crate::Run::Keyspace`].
    pub walk: &'a mut dyn Walk,
    /// Hashes keys.
    pub seed: &'a Seed,
    /// The selected database.
    pub db: DbIndex,
    /// The one time of this command.
    pub now: Timestamp,
    /// Where replies go.
    pub out: &'a mut ReplyBuf,
    /// What has changed.
    pub effects: &'a mut Effects,
    /// Randomness.
    pub rng: &'a mut Rng,
    /// Limits to keep.
    pub limits: &'a StoreLimits,
    /// Who asks.
    pub origin: Origin,
    /// The command may wait for data: false in transactions and scripts, and when its time is up.
    pub may_block: bool,
    /// Replicas that have got as far as the data were when WAIT began; 0 for other commands.
    pub replicas: usize,
    /// Whether the append-only file is on the disk as far as the data were when WAITAOF began; `None`: there is none, or
    /// the command is another.
    pub synced: Option<bool>,
    /// How a waiting command is run again, when not by its own words whenever a key of its has changed.
    pub retry_as: Option<Again>,
}

/// How a waiting command is run again.
#[derive(Debug)]
pub struct Again {
    /// The words.
    pub words: Vec<Box<[u8]>>,
    /// When it is to be run again although nothing has changed, in Unix milliseconds.
    pub look_at_ms: Option<i64>,
}

/// An entry to look at, and the reply buffer to copy from it without a detour.
pub struct Entry<'c> {
    /// The entry.
    pub entry: EntryRef<'c>,
    /// Where replies go.
    pub out: &'c mut ReplyBuf,
}

/// An entry that may be changed. Looking is free; [`WriteEntry::change`] logs first.
pub struct WriteEntry<'c> {
    entry: EntryMut<'c>,
    key: &'c [u8],
    db: DbIndex,
    effects: &'c mut Effects,
    /// Where replies go.
    pub out: &'c mut ReplyBuf,
}

/// An entry on its way to another key or database.
pub struct Moved {
    /// Its value.
    pub value: Value,
    /// When it expires, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// How it was kept.
    pub encoding: Encoding,
}

impl Moved {
    /// A copy of an entry.
    pub fn copy(entry: EntryRef<'_>) -> Moved {
        Moved {
            value: entry.value().to_value(),
            expires_at_ms: entry.expires_at_ms(),
            encoding: entry.encoding(),
        }
    }
}

impl<'c> WriteEntry<'c> {
    /// Its value.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        self.entry.value()
    }

    /// When it expires, in Unix milliseconds.
    #[inline]
    pub fn expires_at_ms(&self) -> Option<i64> {
        self.entry.expires_at_ms()
    }

    /// The entry to change, after logging the change.
    #[inline]
    pub fn change(&mut self, event: Event) -> &mut EntryMut<'c> {
        self.effects.touch(self.db, self.key, event);
        &mut self.entry
    }

    /// The entry to go on changing within a change that is logged already.
    pub(crate) fn unlogged(&mut self) -> &mut EntryMut<'c> {
        &mut self.entry
    }
}

impl Cx<'_> {
    /// The answer of a command that has nothing to give: to wait until the deadline (Unix milliseconds, `None` = for
    /// ever) if it may, else `nothing`.
    pub(crate) fn wait_or(&self, deadline_ms: Option<i64>, nothing: Reply) -> Reply {
        if self.may_block {
            Reply::Block { deadline_ms }
        } else {
            nothing
        }
    }

    /// Whether something that ends at `deadline_ms` is over before it begins. What is applied ends when that is said.
    #[inline]
    pub(crate) fn has_passed(&self, deadline_ms: i64) -> bool {
        deadline_ms <= self.now.millis() && !self.origin.is_applied()
    }

    /// The time in Unix milliseconds.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.now.millis()
    }

    /// The entry of `key` in the selected database, if it exists and has not expired. Counts as
    /// an access.
    // Always inlined, as `Args::key` is: the key stays in registers.
    #[inline(always)]
    pub fn read<'c>(&'c mut self, key: Key<'c>) -> Option<Entry<'c>> {
        let now = self.now.millis();
        let Some(entry) = self.shards.of(key).get(self.db, &key, now) else {
            self.effects.missed(self.db, key.bytes());
            return None;
        };
        Some(Entry {
            entry,
            out: self.out,
        })
    }

    /// What `f` makes of the entry of `key`. Counts as a hit or miss, but not as a use of the value.
    #[inline]
    pub fn look<T>(&mut self, key: Key<'_>, f: impl FnOnce(EntryRef<'_>) -> T) -> Option<T> {
        let found = self.inspect(key, f);
        if found.is_none() {
            self.effects.missed(self.db, key.bytes());
        }
        found
    }

    /// As [`Cx::look`], for commands about the store itself: nobody is told of a miss.
    #[inline]
    pub fn inspect<T>(&mut self, key: Key<'_>, f: impl FnOnce(EntryRef<'_>) -> T) -> Option<T> {
        let now = self.now.millis();
        let shard = self.shards.of(key);
        let found = shard.peek(self.db, key, now).map(f);
        shard.count_access(found.is_some());
        found
    }

    /// As [`Cx::read`], but leaves no trace of an access.
    #[inline]
    pub fn peek<'c>(&'c mut self, key: Key<'c>) -> Option<EntryRef<'c>> {
        self.peek_in(self.db, key)
    }

    /// As [`Cx::peek`] in another database.
    pub(crate) fn peek_in<'c>(&'c mut self, db: DbIndex, key: Key<'c>) -> Option<EntryRef<'c>> {
        let now = self.now.millis();
        self.shards.of(key).peek(db, key, now)
    }

    /// The entry of `key`, on which depends what a write does: a use of it, also when nothing is written then.
    #[inline]
    pub fn find<'c>(&'c mut self, key: Key<'c>) -> Option<EntryRef<'c>> {
        self.find_in(self.db, key)
    }

    /// As [`Cx::find`] in another database.
    #[inline]
    pub fn find_in<'c>(&'c mut self, db: DbIndex, key: Key<'c>) -> Option<EntryRef<'c>> {
        let now = self.now.millis();
        self.shards.of(key).touch(db, key, now)
    }

    /// The entry of `key` in the selected database, to be changed.
    // Always inlined, as `Args::key` is: the key stays in registers.
    #[inline(always)]
    pub fn write<'c>(&'c mut self, key: Key<'c>) -> Option<WriteEntry<'c>> {
        let now = self.now.millis();
        let entry = self.shards.of(key).get_mut(self.db, &key, now)?;
        Some(WriteEntry {
            entry,
            key: key.bytes(),
            db: self.db,
            effects: self.effects,
            out: self.out,
        })
    }

    /// Puts a value at `key`, replacing what is there, its expiry included.
    // Always inlined, as `Args::key` is: the key stays in registers.
    #[inline(always)]
    pub fn set(&mut self, key: Key<'_>, value: Value, expires_at_ms: Option<i64>, event: Event) {
        self.will_set(key, event);
        let now = self.now.millis();
        self.shards
            .of(key)
            .set(self.db, &key, value, expires_at_ms, now);
    }

    /// Puts a string at `key`, replacing what is there, its expiry included.
    // Always inlined, as `Args::key` is: the key stays in registers.
    #[inline(always)]
    pub fn set_bytes(
        &mut self,
        key: Key<'_>,
        bytes: &[u8],
        expires_at_ms: Option<i64>,
        event: Event,
    ) {
        self.will_set(key, event);
        let now = self.now.millis();
        self.shards
            .of(key)
            .set_bytes(self.db, &key, bytes, expires_at_ms, now);
    }

    /// Logs that the value of `key` is about to be replaced.
    #[inline]
    fn will_set(&mut self, key: Key<'_>, event: Event) {
        let (db, now) = (self.db, self.now.millis());
        if self.effects.is_listening() && self.shards.of(key).peek(db, key, now).is_none() {
            self.effects.created(self.effects.mark(), db, key.bytes());
        }
        self.effects.touch(db, key.bytes(), event);
    }

    /// Puts an entry taken or copied from elsewhere at `key`, with its expiry and encoding.
    pub fn place(&mut self, db: DbIndex, key: Key<'_>, moved: Moved, event: Event) {
        let now = self.now.millis();
        // What is replaced is removed first, so the key is a new one in any case.
        self.discard(db, key, now);
        let mark = self.effects.mark_of_move();
        self.effects.created(mark, db, key.bytes());
        self.effects.touch(db, key.bytes(), event);
        self.shards
            .of(key)
            .set(db, key, moved.value, moved.expires_at_ms, now);
        if moved.encoding == Encoding::Raw {
            self.make_raw(db, key);
        }
    }

    /// Keeps the string at `key` as one that was computed, or changed in place.
    pub(crate) fn make_raw(&mut self, db: DbIndex, key: Key<'_>) {
        let now = self.now.millis();
        if let Some(mut entry) = self.shards.of(key).get_mut(db, key, now) {
            // Taking the string for change is what makes it raw.
            drop(entry.str_mut());
        }
    }

    /// Takes the entry of `key` out, to be placed elsewhere: that counts as the change.
    pub fn take(&mut self, key: Key<'_>, event: Event) -> Option<Moved> {
        let encoding = self.peek(key)?.encoding();
        let now = self.now.millis();
        let (value, expires_at_ms) = self.shards.of(key).remove(self.db, key, now)?;
        self.effects.note(self.db, key.bytes(), event);
        Some(Moved {
            value,
            expires_at_ms,
            encoding,
        })
    }

    /// Removes what stands where nothing is to be stored: also when its time is over, it is deleted by that.
    pub fn clear(&mut self, key: Key<'_>) {
        if self.discard(self.db, key, i64::MIN) {
            self.effects.touch(self.db, key.bytes(), Event::Del);
        }
    }

    /// Removes the entry of `key`, of which nobody is told; whether there was one.
    pub(crate) fn discard(&mut self, db: DbIndex, key: Key<'_>, now_ms: i64) -> bool {
        let shard = self.shards.of(key);
        let removed = shard.discard(db, key, now_ms);
        removed.map(|value| shard.free(value)).is_some()
    }

    /// Removes the entry of `key` and frees its value; whether there was one.
    pub fn delete(&mut self, key: Key<'_>) -> bool {
        let removed = self.remove(key, Event::Del);
        removed
            .map(|value| self.shards.of(key).free(value))
            .is_some()
    }

    /// Removes the entry of `key`; what is to be freed of its value.
    #[inline]
    pub fn remove(&mut self, key: Key<'_>, event: Event) -> Option<Value> {
        let now = self.now.millis();
        let removed = self.shards.of(key).discard(self.db, key, now)?;
        self.effects.touch(self.db, key.bytes(), event);
        Some(removed)
    }
}
