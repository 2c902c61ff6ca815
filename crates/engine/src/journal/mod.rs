//! The journal: what replicas are sent and the append-only file holds, in the order in which it took effect.
//!
//! While a replica follows, or may come back for what it has missed, or the file is kept ([`log`]), every command that
//! changes data appends what it did,
//! as commands that do the same anywhere and at any time ([`record`]). It does so while it holds the shards it has changed,
//! so the order of the journal is that of the changes. What one command, transaction or script has done is one unit
//! ([`mod@unit`]), appended whole. The newest bytes are kept, up to a bound, for replicas that come back.
//!
//! Locks are taken in this order: shards, then the journal, then the outboxes of connections.

mod base;
mod fields;
mod followers;
mod following;
mod history;
mod kept;
mod log;
mod record;
mod streams;
mod syncing;
mod unit;
mod wrap;

pub use followers::{FollowerFacts, Parting, Replica, SyncStart};
pub use following::{AdoptError, Following, Place, RoleError};
pub(crate) use following::{Role, RoleGuard};
pub(crate) use log::Log;
pub use log::{LogBytes, LogFacts};
pub(crate) use record::{dumped_parts, is_recorded_as_it_is, restoring};
pub use syncing::SyncRequest;
pub(crate) use unit::for_chosen;
pub use wrap::unwrap;
pub(crate) use wrap::wrapped_flags;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tollgate_keyspace::DbIndex;
use tollgate_wire::resp::write_command;

use followers::Follower;

/// What the journal is at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalFacts {
    /// Names the history of the data: an offset means something only together with it.
    pub id: String,
    /// Its name before, and the byte (counted from 1) from which that does not count; zeros and -1 without one.
    pub before: (String, i64),
    /// Bytes since the history began.
    pub offset: u64,
    /// Something is kept for replicas that come back.
    pub kept: bool,
    /// The number of the first byte that is kept, counted from 1; 0 = none.
    pub first: u64,
    /// Bytes that are kept.
    pub len: u64,
    /// What keeping them costs, in bytes of memory.
    pub memory_bytes: u64,
    /// The same, together with what waits for replicas that are still sent the data; both share what they have in common.
    pub buffers_bytes: u64,
    /// Replicas that were sent all data, those that were sent what they had missed, and those whose past was not known.
    pub syncs: (u64, u64, u64),
}

/// Bytes that are gathered before those who follow are sent them, though there may be more at once.
const BLOCK: usize = 16 * 1024;

/// What a block takes besides its bytes: the two counts of those who share it.
const BLOCK_OVERHEAD: usize = 2 * size_of::<usize>();

/// The newest bytes.
#[derive(Default)]
struct Backlog {
    blocks: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// Bytes to keep.
    most: usize,
}

impl Backlog {
    fn push(&mut self, block: &Arc<[u8]>) {
        self.blocks.push_back(Arc::clone(block));
        self.bytes += block.len();
        self.trim();
    }

    fn trim(&mut self) {
        while let Some(first) = self.blocks.front()
            && self.bytes - first.len() >= self.most
        {
            self.bytes -= first.len();
            self.blocks.pop_front();
        }
        // What one command has appended may be much more than is wanted; its end is enough.
        let surplus = self.bytes.saturating_sub(self.most);
        if let Some(first) = self.blocks.front_mut()
            && surplus > self.most + BLOCK
        {
            *first = first[surplus..].into();
            self.bytes -= surplus;
        }
    }

    /// Bytes of memory that it takes.
    fn memory(&self) -> usize {
        let blocks = self.blocks.len() * BLOCK_OVERHEAD;
        self.bytes + blocks + self.blocks.capacity() * size_of::<Arc<[u8]>>()
    }

    /// The last `len` bytes; `None` when fewer are kept.
    fn tail(&self, len: u64) -> Option<Arc<[u8]>> {
        let len = usize::try_from(len).ok().filter(|&len| len <= self.bytes)?;
        let mut bytes = Vec::with_capacity(len);
        let mut skip = self.bytes - len;
        for block in &self.blocks {
            let from = skip.min(block.len());
            skip -= from;
            bytes.extend_from_slice(&block[from..]);
        }
        Some(bytes.into())
    }
}

/// A client that waits until replicas, or the append-only file, have got as far as it has.
#[derive(Debug, Clone, Copy)]
struct Wait {
    client: u64,
    offset: u64,
    replicas: usize,
    /// Where the append-only file must be, if it is waited for.
    position: Option<u64>,
    /// Where it was when the wait began.
    began: u64,
}

#[derive(Default)]
struct State {
    id: String,
    offset: u64,
    /// The last bytes, which are neither in the backlog nor sent to anybody yet.
    gathered: Vec<u8>,
    /// The database that replicas have selected.
    db: Option<DbIndex>,
    /// Commands are recorded.
    open: bool,
    backlog: Backlog,
    followers: Vec<Follower>,
    syncs: syncing::Syncs,
    waits: Vec<Wait>,
    /// When the last replica left, in Unix milliseconds.
    alone_since_ms: Option<i64>,
    /// When replicas were last sent a sign of life.
    pinged_ms: i64,
    full_syncs: u64,
    partial_syncs: u64,
    refused_partial_syncs: u64,
    log: log::Feeds,
    lineage: following::Lineage,
}

impl State {
    /// Appends bytes and sends them to all who follow.
    fn append(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
        self.offset += bytes.len() as u64;
        self.send();
    }

    /// Sends what was gathered.
    fn send(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let block: Arc<[u8]> = (&*self.gathered).into();
        self.gathered.clear();
        self.gathered.shrink_to(BLOCK);
        self.backlog.push(&block);
        for follower in &mut self.followers {
            follower.take(&block);
        }
    }

    /// Appends a command that selects no database.
    fn append_command(&mut self, words: &[&[u8]]) {
        let mut bytes = Vec::new();
        write_command(&mut bytes, words);
        self.append(&bytes);
    }

    /// Bytes of memory that hold parts of the journal. What waits for a replica is its end, as the backlog is: the longest
    /// of them has all that the others have.
    fn buffers(&self) -> usize {
        let waiting = self.followers.iter().map(Follower::waiting);
        waiting.max().unwrap_or(0).max(self.backlog.memory())
    }

    /// Replicas that have acknowledged so many bytes.
    fn acknowledged(&self, offset: u64) -> usize {
        let caught_up = |follower: &&Follower| follower.is_online() && follower.acked >= offset;
        self.followers.iter().filter(caught_up).count()
    }
}

thread_local! {
    /// What this thread appends is sent later.
    static GATHERS: Cell<bool> = const { Cell::new(false) };
    /// It has appended something that was not sent.
    static OWES: Cell<bool> = const { Cell::new(false) };
}

/// See the module.
#[derive(Default)]
pub(crate) struct Journal {
    state: Mutex<State>,
    /// Held while it is opened or closed.
    opening: Mutex<()>,
    /// What is known of the append-only file without a lock.
    pub(crate) log: Log,
    /// Answers that wait for it.
    pub(crate) kept: kept::Kept,
    role: Role,
}

impl Journal {
    /// The state, of which all is sent: only who appends to it sees it otherwise.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.send();
        state
    }

    /// This thread gathers what it appends until [`Journal::deliver`].
    pub(crate) fn gather(&self) {
        GATHERS.set(true);
    }

    /// Sends what this thread has gathered, and ends gathering.
    pub(crate) fn deliver(&self) {
        GATHERS.set(false);
        if OWES.replace(false) {
            drop(self.lock());
        }
    }

    /// How many replicas have got as far as the data were when `client` began to wait, or are now.
    pub(crate) fn acknowledged_for(&self, client: u64) -> usize {
        let state = self.lock();
        let wait = state.waits.iter().find(|wait| wait.client == client);
        state.acknowledged(wait.map_or(state.offset, |wait| wait.offset))
    }

    /// Whether the append-only file has got as far; `None`: there is none.
    pub(crate) fn synced_for(&self, client: u64) -> Option<bool> {
        let state = self.lock();
        let wait = state.waits.iter().find(|wait| wait.client == client);
        self.log
            .has_synced(wait.map_or(self.log.position(), |wait| wait.began))
    }

    /// The client does not wait any more.
    pub(crate) fn end_wait(&self, client: u64) {
        self.lock().waits.retain(|wait| wait.client != client);
    }

    /// A client begins to wait for `replicas`, and for the append-only file if `local`, to get as far as the data are now;
    /// replicas are asked how far they are.
    pub(crate) fn begin_wait(&self, client: u64, replicas: usize, local: bool) {
        let mut state = self.lock();
        let offset = state.offset;
        let began = self.log.position();
        state.waits.retain(|wait| wait.client != client);
        state.waits.push(Wait {
            client,
            offset,
            replicas,
            position: local.then_some(began),
            began,
        });
        if state.is_followed() {
            state.append_command(&[b"REPLCONF", b"GETACK", b"*"]);
        }
    }

    /// Counts from zero again.
    pub(crate) fn reset_stats(&self) {
        let mut state = self.lock();
        state.full_syncs = 0;
        state.partial_syncs = 0;
        state.refused_partial_syncs = 0;
    }

    /// Facts for INFO and ROLE.
    pub(crate) fn facts(&self) -> JournalFacts {
        let state = self.lock();
        let len = state.backlog.bytes as u64;
        JournalFacts {
            id: state.id.clone(),
            before: state.lineage.before(),
            offset: state.offset,
            kept: state.open,
            first: if state.open {
                state.offset - len + 1
            } else {
                0
            },
            len,
            memory_bytes: state.backlog.memory() as u64,
            buffers_bytes: state.buffers() as u64,
            syncs: (
                state.full_syncs,
                state.partial_syncs,
                state.refused_partial_syncs,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backlog_keeps_what_is_asked_for() {
        let mut backlog = Backlog {
            most: 5,
            ..Backlog::default()
        };
        for block in ["abc", "de", "fgh"] {
            backlog.push(&block.as_bytes().into());
        }
        assert_eq!(backlog.bytes, 5);
        assert_eq!(backlog.tail(4).as_deref(), Some(&b"efgh"[..]));
        assert_eq!(backlog.tail(0).as_deref(), Some(&b""[..]));
        assert_eq!(backlog.tail(5).as_deref(), Some(&b"defgh"[..]));
        assert_eq!(backlog.tail(6), None);
    }

    #[test]
    fn the_backlog_keeps_the_end_of_a_block_that_is_much_larger() {
        let mut backlog = Backlog {
            most: 100,
            ..Backlog::default()
        };
        let block: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
        backlog.push(&b"before"[..].into());
        backlog.push(&block[..].into());
        assert!(backlog.memory() < 2 * BLOCK, "{}", backlog.memory());
        assert_eq!(backlog.tail(100).as_deref(), block.get(99_900..));
        backlog.push(&b"after"[..].into());
        let end = [&block[99_905..], b"after"].concat();
        assert_eq!(backlog.tail(100).as_deref(), Some(&end[..]));
    }

    #[test]
    fn offsets_count_every_byte() {
        let journal = Journal::default();
        journal.lock().append_command(&[b"PING"]);
        assert_eq!(journal.facts().offset, b"*1\r\n$4\r\nPING\r\n".len() as u64);
    }
}
