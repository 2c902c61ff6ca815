//! WATCH: a transaction runs only if the keys that its client watches have not changed.
//!
//! Each watched key has a version beside its shard, which grows with every change of that key; a connection remembers
//! the versions it has seen. A key that had expired is removed by WATCH itself, so that its removal later is no change.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate_commands::{CmdError, Reply, keys_of};
use tollgate_limiter::Timestamp;

use crate::call::Call;
use crate::cell::{Cells, name, parts};
use crate::shards::LockSet;
use crate::{Engine, Session};

/// Keys that one connection may watch.
const WATCHED_MAX: usize = 100_000;

/// A watched key as a connection remembers it.
#[derive(Debug)]
struct Seen {
    shard: usize,
    version: u64,
}

/// Bytes that a watched key costs beside its name: its entry here, and the one beside its shard.
const WATCHED_BYTES: usize = 96;

/// The keys that a connection watches, by name, which others may ask for. Nobody waits for a shard while looking at them.
#[derive(Debug, Default, Clone)]
pub struct Watches(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    /// How many there are.
    count: AtomicUsize,
    keys: Mutex<HashMap<Box<[u8]>, Seen>>,
}

impl Session {
    /// Bytes that the keys which the connection watches cost, about.
    #[inline]
    pub fn watched_bytes(&self) -> usize {
        self.watches.count() * WATCHED_BYTES
    }

    /// The keys that the connection watches, now and later.
    pub fn watches(&self) -> Watches {
        self.watches.clone()
    }
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    #[inline]
    fn count(&self) -> usize {
        self.0.count.load(Ordering::Relaxed)
    }

    fn contains(&self, name: &[u8]) -> bool {
        self.0.keys.lock().contains_key(name)
    }

    fn insert(&self, name: &[u8], seen: Seen) {
        let mut keys = self.0.keys.lock();
        keys.insert(name.into(), seen);
        self.0.count.store(keys.len(), Ordering::Relaxed);
    }

    fn take(&self) -> HashMap<Box<[u8]>, Seen> {
        let mut keys = self.0.keys.lock();
        self.0.count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *keys)
    }
}

impl Engine {
    /// WATCH; `None`: it was put off, and goes on with the keys that are not watched yet.
    pub(crate) fn watch(
        &self,
        session: &mut Session,
        call: &Call<'_>,
    ) -> Result<Option<Reply>, CmdError> {
        for at in keys_of(call.row, call.args)? {
            let bytes = call.args[at as usize];
            let name = name(session.db, bytes);
            if session.watches.contains(&name) {
                continue;
            }
            if session.watches.count() >= WATCHED_MAX {
                return Err(CmdError::TooManyWatched);
            }
            let key = self.seed.key(bytes);
            let shard = key.shard(self.shards.count());
            let Some(mut held) = self.lock_set_of(session, &[shard]) else {
                return Ok(None);
            };
            let cell = held.cell(shard);
            let version = cell.watch(&name);
            // Removes the key if its time is over; for this connection that is no change.
            cell.peek(session.db, key, call.now.millis());
            self.announce_in(&mut held, shard);
            let version = held.cell(shard).version_of(&name).unwrap_or(version);
            self.settle(&mut held, call.now);
            let seen = Seen { shard, version };
            session.watches.insert(&name, seen);
        }
        Ok(Some(Reply::Ok))
    }

    /// UNWATCH; the caller holds no shard.
    pub(crate) fn unwatch(&self, session: &mut Session) {
        for (name, seen) in session.watches.take() {
            self.end_watch(seen.shard, name);
        }
    }

    /// Whether no watched key has changed, and forgets them all. Their shards are held.
    pub(crate) fn conclude_watches(
        &self,
        session: &mut Session,
        held: &mut LockSet<'_>,
        now: Timestamp,
    ) -> bool {
        let heard = self.listeners.hear_expired();
        let mut unchanged = true;
        for (name, seen) in session.watches.take() {
            let (db, bytes) = parts(&name);
            let cell = held.cell(seen.shard);
            // A key that has expired meanwhile has changed.
            cell.peek(db, self.seed.key(bytes), now.millis());
            self.announce_in(held, seen.shard);
            let cell = held.cell(seen.shard);
            unchanged &= cell.version_of(&name) == Some(seen.version);
            cell.unwatch(&name, heard);
        }
        unchanged
    }

    /// Whether one of these keys has changed since it is watched, as far as that can be seen without waiting for a long
    /// command. The caller holds no shard.
    pub fn has_changed(&self, watches: &Watches) -> bool {
        let watched = watches.0.keys.lock();
        let seen: Vec<_> = watched
            .iter()
            .map(|(name, seen)| (name.clone(), seen.shard, seen.version))
            .collect();
        drop(watched);
        seen.iter().any(|(name, shard, version)| {
            let cell = self.shards.lock_unless_kept(*shard);
            cell.is_some_and(|cell| cell.version_of(name).is_some_and(|now| now != *version))
        })
    }

    /// Tells of keys of one held cell that have just expired.
    fn announce_in(&self, held: &mut LockSet<'_>, shard: usize) {
        let mut ready = std::mem::take(held.ready());
        self.announce_expired(shard, held.cell(shard), &mut ready);
        *held.ready() = ready;
    }

    /// The shards of the watched keys, added to `wanted`.
    pub(crate) fn add_watched(session: &Session, wanted: &mut SmallVec<[usize; 16]>) {
        wanted.extend(
            session
                .watches
                .0
                .keys
                .lock()
                .values()
                .map(|seen| seen.shard),
        );
    }
}
