//! A shard and, beside it under the same lock, who waits for its keys and who watches them.

use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_commands::{LockedShards, ShardSet};
use tollgate_keyspace::{DbIndex, Seed, Shard};

use crate::hot::HotSlot;
use crate::waiter::Waiter;

/// Most waiters that a new one may be put before.
const OVERTAKEN_MAX: usize = 64;

/// A key with its database in front: the name under which a side knows it.
pub(crate) type Name = SmallVec<[u8; 40]>;

/// The name of `key` in `db`.
pub(crate) fn name(db: DbIndex, key: &[u8]) -> Name {
    let mut name = Name::with_capacity(1 + key.len());
    name.push(db.get() as u8);
    name.extend_from_slice(key);
    name
}

/// The database and the key of a name.
pub(crate) fn parts(name: &[u8]) -> (DbIndex, &[u8]) {
    let (db, key) = name.split_first().expect("a name begins with its database");
    (DbIndex::new(usize::from(*db)).unwrap_or_default(), key)
}

/// A key that somebody watches.
#[derive(Debug, Default)]
struct Watched {
    /// Grows with every change of the key.
    version: u64,
    /// Connections that watch it.
    watchers: usize,
    /// What threads share that decide on it without its lock.
    hot: Option<Arc<HotSlot>>,
}

impl Watched {
    fn is_idle(&self) -> bool {
        self.watchers == 0 && self.hot.is_none()
    }
}

/// What connections want to hear of the keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct Side {
    watched: HashMap<Box<[u8]>, Watched>,
    waiting: HashMap<Box<[u8]>, VecDeque<Arc<Waiter>>>,
}

/// A shard and its side. What every command reads comes first: [`Cell::HOT`] bytes.
#[repr(C)]
pub(crate) struct Cell {
    /// Present while somebody watches or waits.
    side: Option<Box<Side>>,
    shard: Shard,
    /// Bytes counted for the shard, while memory is limited.
    counted: usize,
}

impl Deref for Cell {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for Cell {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Cell {
    /// Bytes from the front that every command reads.
    pub(crate) const HOT: usize = std::mem::offset_of!(Cell, shard) + Shard::HOT;

    pub(crate) fn new(shard: Shard) -> Cell {
        Cell {
            shard,
            side: None,
            counted: 0,
        }
    }

    /// Whether somebody watches or waits for a key of this shard.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        self.side.is_some()
    }

    /// Counts the bytes of the shard again; returns the difference.
    pub(crate) fn recount(&mut self) -> i64 {
        let bytes = self.shard.memory();
        let before = std::mem::replace(&mut self.counted, bytes);
        bytes as i64 - before as i64
    }

    fn side(&mut self) -> &mut Side {
        if self.side.is_none() {
            self.shard.track_expired(true);
        }
        self.side.get_or_insert_default()
    }

    /// Gives the memory back when nobody listens any more. `all_heard`: expired keys are wanted all the same.
    fn tidy(&mut self, all_heard: bool) {
        let idle = |side: &Side| side.watched.is_empty() && side.waiting.is_empty();
        if self.side.as_deref().is_some_and(idle) {
            self.side = None;
            self.shard.track_expired(all_heard);
        }
    }

    /// One more connection watches the key; returns the key's version.
    pub(crate) fn watch(&mut self, name: &[u8]) -> u64 {
        let watched = self.side().watched.entry(name.into()).or_default();
        watched.watchers += 1;
        watched.version
    }

    /// One connection less watches the key.
    pub(crate) fn unwatch(&mut self, name: &[u8], all_heard: bool) {
        if let Some(side) = &mut self.side
            && let Some(watched) = side.watched.get_mut(name)
        {
            watched.watchers -= 1;
            if watched.is_idle() {
                side.watched.remove(name);
                self.tidy(all_heard);
            }
        }
    }

    /// What threads share of a hot key. `claim` makes room for one more.
    pub(crate) fn heat(
        &mut self,
        name: &[u8],
        claim: impl FnOnce() -> bool,
    ) -> Option<Arc<HotSlot>> {
        if let Some(hot) = self.hot(name) {
            return Some(Arc::clone(hot));
        }
        if !claim() {
            return None;
        }
        let hot = Arc::new(HotSlot::new());
        self.side().watched.entry(name.into()).or_default().hot = Some(Arc::clone(&hot));
        Some(hot)
    }

    /// What threads share of a key, if it is hot.
    pub(crate) fn hot(&self, name: &[u8]) -> Option<&Arc<HotSlot>> {
        self.side.as_ref()?.watched.get(name)?.hot.as_ref()
    }

    /// Units of a limiter that threads hold in advance.
    pub(crate) fn leased(&self, db: DbIndex, key: &[u8]) -> u64 {
        if self.side.is_none() {
            return 0;
        }
        self.hot(&name(db, key)).map_or(0, |hot| hot.granted())
    }

    /// Takes out what threads share of a key, so that a change does not end their leases.
    pub(crate) fn take_hot(&mut self, name: &[u8]) -> Option<Arc<HotSlot>> {
        self.side.as_mut()?.watched.get_mut(name)?.hot.take()
    }

    /// Puts back what [`Cell::take_hot`] gave.
    pub(crate) fn put_hot(&mut self, name: &[u8], hot: Arc<HotSlot>) {
        self.side().watched.entry(name.into()).or_default().hot = Some(hot);
    }

    /// Forgets that a key is hot, if no thread holds anything of it; true when it did.
    pub(crate) fn cool(&mut self, name: &[u8], all_heard: bool) -> bool {
        let Some(side) = &mut self.side else {
            return false;
        };
        let Some(watched) = side.watched.get_mut(name) else {
            return false;
        };
        // Threads come to hold it only while the shard is locked.
        if watched
            .hot
            .as_ref()
            .is_none_or(|hot| Arc::strong_count(hot) > 1)
        {
            return false;
        }
        watched.hot = None;
        if watched.is_idle() {
            side.watched.remove(name);
        }
        self.tidy(all_heard);
        true
    }

    /// The version of a watched key.
    pub(crate) fn version_of(&self, name: &[u8]) -> Option<u64> {
        Some(self.side.as_ref()?.watched.get(name)?.version)
    }

    /// The key has changed: its watchers fail. True when somebody waits for it.
    pub(crate) fn changed(&mut self, name: &[u8]) -> bool {
        let Some(side) = &mut self.side else {
            return false;
        };
        if let Some(watched) = side.watched.get_mut(name) {
            watched.version += 1;
            if let Some(hot) = &watched.hot {
                hot.revoke();
            }
        }
        side.waiting.contains_key(name)
    }

    /// Whether somebody waits for the key.
    pub(crate) fn is_awaited(&self, name: &[u8]) -> bool {
        self.side
            .as_ref()
            .is_some_and(|side| side.waiting.contains_key(name))
    }

    /// The watched keys that exist, and by `waited` every key that somebody waits for.
    pub(crate) fn survey(&self, seed: &Seed, now_ms: i64) -> Vec<Box<[u8]>> {
        let Some(side) = &self.side else {
            return Vec::new();
        };
        let exists = |name: &&[u8]| {
            let (db, key) = parts(name);
            self.shard.look(db, seed.key(key), now_ms).is_some()
        };
        side.watched
            .keys()
            .map(|name| &**name)
            .filter(exists)
            .map(Into::into)
            .collect()
    }

    /// Names that somebody watches.
    pub(crate) fn watched(&self) -> Vec<Box<[u8]>> {
        match &self.side {
            Some(side) => side.watched.keys().cloned().collect(),
            None => Vec::new(),
        }
    }

    /// Names that somebody waits for.
    pub(crate) fn awaited(&self) -> Vec<Box<[u8]>> {
        match &self.side {
            Some(side) => side.waiting.keys().cloned().collect(),
            None => Vec::new(),
        }
    }

    /// Lets a waiter wait for the key, behind the others except those who only seem to have come earlier.
    pub(crate) fn park(&mut self, name: &[u8], waiter: &Arc<Waiter>) {
        let queue = self.side().waiting.entry(name.into()).or_default();
        let overtaken = queue
            .iter()
            .rev()
            .take(OVERTAKEN_MAX)
            .take_while(|other| waiter.goes_before(other))
            .count();
        queue.insert(queue.len() - overtaken, Arc::clone(waiter));
    }

    /// The waiter at that place of the key's queue.
    pub(crate) fn waiter(&self, name: &[u8], place: usize) -> Option<Arc<Waiter>> {
        self.side.as_ref()?.waiting.get(name)?.get(place).cloned()
    }

    /// How many wait for the key.
    pub(crate) fn waiters(&self, name: &[u8]) -> usize {
        self.side
            .as_ref()
            .and_then(|side| side.waiting.get(name))
            .map_or(0, VecDeque::len)
    }

    /// Takes a waiter out of the key's queue.
    pub(crate) fn unpark(&mut self, name: &[u8], waiter: &Arc<Waiter>, all_heard: bool) {
        if let Some(side) = &mut self.side
            && let Some(queue) = side.waiting.get_mut(name)
        {
            queue.retain(|other| !Arc::ptr_eq(other, waiter));
            if queue.is_empty() {
                side.waiting.remove(name);
                self.tidy(all_heard);
            }
        }
    }
}

/// Cells held by whoever runs a command, and the keys that became ready meanwhile.
pub(crate) trait Cells {
    /// The cell `index`, which is held.
    fn cell(&mut self, index: usize) -> &mut Cell;
    /// Adds a cell if the lock rule allows.
    fn acquire(&mut self, index: usize) -> bool;
    /// As [`Cells::acquire`], without waiting for a long command.
    fn acquire_unless_kept(&mut self, index: usize) -> bool {
        self.acquire(index)
    }
    /// Every held cell that the command at hand may have used.
    fn each(&mut self, f: &mut dyn FnMut(usize, &mut Cell));
    /// Whether somebody watches or waits for a key of them.
    fn is_heard(&self) -> bool;
    /// The shards as handlers find them.
    fn shard_set(&mut self, count: usize) -> ShardSet<'_>;
    /// Keys that somebody waits for and that have changed, in the order of their changes.
    fn ready(&mut self) -> &mut Vec<ReadyKey>;
}

/// A key that somebody waits for and that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadyKey {
    pub(crate) name: Box<[u8]>,
    pub(crate) shard: usize,
}

/// Notes a key as ready, once.
pub(crate) fn note_ready(ready: &mut Vec<ReadyKey>, name: &[u8], shard: usize) {
    if !ready.iter().any(|key| *key.name == *name) {
        ready.push(ReadyKey {
            name: name.into(),
            shard,
        });
    }
}

/// The one cell of a command whose keys all live in it. Serving a waiter may need others, which are only tried.
pub(crate) struct One<'c, 'e> {
    index: usize,
    cell: &'c mut Cell,
    shards: &'e crate::shards::Shards,
    more: Option<Box<crate::shards::LockSet<'e>>>,
    ready: Vec<ReadyKey>,
}

impl<'c, 'e> One<'c, 'e> {
    #[inline]
    pub(crate) fn new(
        index: usize,
        cell: &'c mut Cell,
        shards: &'e crate::shards::Shards,
    ) -> One<'c, 'e> {
        One {
            index,
            cell,
            shards,
            more: None,
            ready: Vec::new(),
        }
    }
}

impl LockedShards for One<'_, '_> {
    fn shard(&mut self, index: usize) -> &mut Shard {
        self.cell(index)
    }

    fn look(&self, index: usize) -> &Shard {
        if index == self.index {
            return self.cell;
        }
        let more = self.more.as_ref().expect("the shard is held");
        more.look(index)
    }

    fn leased(&self, index: usize, db: DbIndex, key: &[u8]) -> u64 {
        if index == self.index {
            return self.cell.leased(db, key);
        }
        let more = self.more.as_ref().expect("the shard is held");
        more.leased(index, db, key)
    }
}

impl Cells for One<'_, '_> {
    #[inline]
    fn cell(&mut self, index: usize) -> &mut Cell {
        if index == self.index {
            return self.cell;
        }
        self.more.as_mut().expect("the shard is held").cell(index)
    }

    fn acquire(&mut self, index: usize) -> bool {
        let shards = self.shards;
        index == self.index
            || self
                .more
                .get_or_insert_with(|| Box::new(shards.lock_none()))
                .acquire(index)
    }

    fn each(&mut self, f: &mut dyn FnMut(usize, &mut Cell)) {
        f(self.index, self.cell);
        if let Some(more) = &mut self.more {
            more.each(f);
        }
    }

    #[inline]
    fn is_heard(&self) -> bool {
        self.cell.is_heard() || self.more.as_ref().is_some_and(|more| more.is_heard())
    }

    #[inline]
    fn shard_set(&mut self, count: usize) -> ShardSet<'_> {
        if self.more.is_some() || self.cell.is_heard() {
            return ShardSet::many(self, count);
        }
        ShardSet::one(self.index, self.cell, count)
    }

    #[inline]
    fn ready(&mut self) -> &mut Vec<ReadyKey> {
        &mut self.ready
    }
}

/// One cell of a set that holds several, for a command whose keys all live in it.
pub(crate) struct OneOf<'s, 'e> {
    pub(crate) index: usize,
    pub(crate) set: &'s mut crate::shards::LockSet<'e>,
}

impl Cells for OneOf<'_, '_> {
    fn cell(&mut self, index: usize) -> &mut Cell {
        self.set.cell(index)
    }

    fn acquire(&mut self, index: usize) -> bool {
        self.set.acquire(index)
    }

    fn acquire_unless_kept(&mut self, index: usize) -> bool {
        self.set.acquire_unless_kept(index)
    }

    fn each(&mut self, f: &mut dyn FnMut(usize, &mut Cell)) {
        f(self.index, self.set.cell(self.index));
    }

    #[inline]
    fn is_heard(&self) -> bool {
        self.set.held_cell(self.index).is_heard()
    }

    #[inline]
    fn shard_set(&mut self, count: usize) -> ShardSet<'_> {
        ShardSet::one(self.index, self.set.cell(self.index), count)
    }

    fn ready(&mut self) -> &mut Vec<ReadyKey> {
        self.set.ready()
    }
}
