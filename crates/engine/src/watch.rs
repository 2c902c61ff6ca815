//! WATCH: a transaction runs only if the keys that its client watches have not changed.
//!
//! Each watched key has a version beside its shard, which grows with every change of that key; a connection remembers
//! the versions it has seen. A key that had expired is removed by WATCH itself, so that its removal later is no change.

use std::collections::HashMap;

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

/// The keys that a connection watches, by name.
#[derive(Debug, Default)]
pub(crate) struct Watches(HashMap<Box<[u8]>, Seen>);

impl Session {
    /// Bytes that the keys which the connection watches cost, about.
    #[inline]
    pub fn watched_bytes(&self) -> usize {
        self.watches.0.len() * WATCHED_BYTES
    }
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The shards of the watched keys.
    pub(crate) fn shards(&self) -> impl Iterator<Item = usize> {
        self.0.values().map(|seen| seen.shard)
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
            if session.watches.0.contains_key(&name[..]) {
                continue;
            }
            if session.watches.0.len() >= WATCHED_MAX {
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
            session
                .watches
                .0
                .insert(name[..].into(), Seen { shard, version });
        }
        Ok(Some(Reply::Ok))
    }

    /// UNWATCH; the caller holds no shard.
    pub(crate) fn unwatch(&self, session: &mut Session) {
        for (name, seen) in std::mem::take(&mut session.watches.0) {
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
        for (name, seen) in std::mem::take(&mut session.watches.0) {
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

    /// Tells of keys of one held cell that have just expired.
    fn announce_in(&self, held: &mut LockSet<'_>, shard: usize) {
        let mut ready = std::mem::take(held.ready());
        self.announce_expired(shard, held.cell(shard), &mut ready);
        *held.ready() = ready;
    }

    /// The shards of the watched keys, added to `wanted`.
    pub(crate) fn add_watched(session: &Session, wanted: &mut SmallVec<[usize; 16]>) {
        wanted.extend(session.watches.shards());
    }
}
