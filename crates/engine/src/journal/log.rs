//! The append-only file as a reader of the journal: what is to be written, how far it has been, and who waits for that.
//!
//! The server takes the bytes ([`Engine::take_records`]) and writes them. Positions count the bytes appended since the start of
//! the server, through all files. While a new base is written there are two feeds: the one of the file in force, and the
//! one that will follow the new base; see [`super::base`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tollgate_keyspace::DbIndex;
use tollgate_net::clock::Clock;

use super::unit::{self, Audience, Unit};
use crate::waiter::put_once;
use crate::{Engine, Undecided, Wake};

/// Bytes that may wait to be written: above, whoever changes data waits. A unit that is appended may exceed it once.
const BUFFER_MAX: u64 = 64 << 20;

/// Capacity of a buffer that stays when it has been written.
const KEPT: usize = 1 << 20;

/// What one file is to have, and is still in memory.
#[derive(Debug, Default)]
struct Feed {
    /// The database that its readers have selected.
    db: Option<DbIndex>,
    bytes: Vec<u8>,
}

/// The feeds; in the state of the journal.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    /// Of the file in force; absent before there is a base.
    main: Option<Feed>,
    /// Of the file behind the base that is being written.
    next: Option<Feed>,
    /// Unix seconds of the last annotation; `None`: there are none.
    stamped_secs: Option<i64>,
    /// The writer waits for something to write.
    sleeps: bool,
    /// The writer is to look around though there may be nothing to write.
    poked: bool,
}

/// What is to be written.
#[derive(Debug, Default)]
pub struct LogBytes {
    /// To the file in force.
    pub main: Vec<u8>,
    /// To the file behind the base that is being written.
    pub next: Vec<u8>,
    /// Where the journal is when all of it has been written.
    pub position: u64,
}

/// What INFO tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogFacts {
    /// Bytes appended.
    pub appended: u64,
    /// Bytes of them that the system has.
    pub written: u64,
    /// Bytes of them that are on the disk, as far as that is known.
    pub synced: u64,
}

/// What is known of the append-only file without a lock.
#[derive(Default)]
pub(crate) struct Log {
    appended: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    /// There is a file in force.
    kept: AtomicBool,
    /// It cannot be written, and why.
    failed: AtomicBool,
    reason: Mutex<String>,
    ready: Condvar,
    /// Threads of the service in this process whose decisions wait for room.
    wakes: Mutex<Vec<Arc<Wake>>>,
}

impl Log {
    /// Appends what the unit has for the files.
    pub(super) fn take(&self, feeds: &mut Feeds, unit: &Unit, together: bool) {
        let Feeds {
            main,
            next,
            stamped_secs,
            ..
        } = feeds;
        let stamp = stamped_secs.as_mut().and_then(|last| {
            let now = Clock::now() / 1_000_000_000;
            (now > *last).then(|| {
                *last = now;
                format!("#TS:{now}\r\n")
            })
        });
        let add = |feed: &mut Feed| {
            let before = feed.bytes.len();
            feed.bytes
                .extend_from_slice(stamp.as_deref().unwrap_or_default().as_bytes());
            let stamped = feed.bytes.len();
            unit.write(Audience::LOG, &mut feed.db, together, &mut feed.bytes);
            if feed.bytes.len() == stamped {
                // A time alone is of no use.
                feed.bytes.truncate(before);
            }
            (feed.bytes.len() - before) as u64
        };
        let main = main.as_mut().map(add);
        let next = next.as_mut().map_or(0, add);
        self.appended
            .fetch_add(main.unwrap_or(next), Ordering::Release);
        if main.unwrap_or(0) + next > 0 {
            self.wake(feeds);
        }
    }

    /// Tells the threads whose decisions wait to try again.
    fn wake_waiting(&self) {
        let wakes = std::mem::take(&mut *self.wakes.lock());
        for wake in wakes {
            wake();
        }
    }

    fn wake(&self, feeds: &mut Feeds) {
        if std::mem::take(&mut feeds.sleeps) {
            self.ready.notify_one();
        }
    }

    /// Bytes appended.
    pub(super) fn position(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// Whether all up to `position` is on the disk; `None`: there is no file.
    pub(super) fn has_synced(&self, position: u64) -> Option<bool> {
        let kept = self.kept.load(Ordering::Acquire);
        kept.then(|| self.synced.load(Ordering::Acquire) >= position)
    }

    /// Whether the file cannot be written.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Bytes that wait to be written.
    fn waiting(&self) -> u64 {
        let written = self.written.load(Ordering::Acquire);
        self.appended
            .load(Ordering::Acquire)
            .saturating_sub(written)
    }

    /// Whether more waits to be written than may.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.waiting() > BUFFER_MAX
    }
}

impl Engine {
    /// Begins to record for a file that holds all data. No command runs at that time.
    pub fn open_log(&self) {
        self.journal.lock().log.main = Some(Feed::default());
        self.journal.log.kept.store(true, Ordering::Release);
        self.listen_for_log(true);
    }

    /// Ends recording for the file in force; what of it is still to be written is lost.
    pub fn close_log(&self) {
        let mut state = self.journal.lock();
        state.log.main = None;
        let unused = state.log.next.is_none();
        let log = &self.journal.log;
        log.kept.store(false, Ordering::Release);
        let all = log.appended.load(Ordering::Acquire);
        log.written.store(all, Ordering::Release);
        log.synced.store(all, Ordering::Release);
        drop(state);
        log.wake_waiting();
        if unused {
            self.listen_for_log(false);
        }
    }

    /// Has times written between the commands, or not.
    pub fn stamp_log(&self, on: bool) {
        let mut state = self.journal.lock();
        state.log.stamped_secs = on.then(|| state.log.stamped_secs.unwrap_or(0));
    }

    /// Begins to record for the file behind a new base, whose moment this is: all shards are held.
    pub(super) fn open_next_log(&self) {
        self.listen_for_log(true);
        self.journal.lock().log.next = Some(Feed::default());
    }

    /// The file behind a new base is not wanted any more.
    pub fn abandon_next_log(&self) {
        let mut state = self.journal.lock();
        state.log.next = None;
        let unused = state.log.main.is_none();
        drop(state);
        if unused {
            self.listen_for_log(false);
        }
    }

    /// The new base and the file behind it are in force. What was to be written to the file before goes with it.
    pub fn promote_next_log(&self) {
        let mut state = self.journal.lock();
        let Some(next) = state.log.next.take() else {
            return;
        };
        // What waits for the old file waits for the new one too, or has been written to it.
        state.log.main = Some(next);
        self.journal.log.kept.store(true, Ordering::Release);
    }

    /// Waits up to `wait` for something to write. One thread alone may.
    pub fn wait_for_records(&self, wait: Duration) {
        let mut state = self.journal.lock();
        let is_empty = |feed: &Feed| feed.bytes.is_empty();
        let feeds = &mut state.log;
        if !feeds.poked
            && feeds.main.as_ref().is_none_or(is_empty)
            && feeds.next.as_ref().is_none_or(is_empty)
        {
            feeds.sleeps = true;
            self.journal.log.ready.wait_for(&mut state, wait);
            state.log.sleeps = false;
        }
        state.log.poked = false;
    }

    /// Takes what is to be written. The bytes of `into` are given up for it.
    pub fn take_records(&self, into: &mut LogBytes) {
        let mut state = self.journal.lock();
        let swap = |feed: Option<&mut Feed>, into: &mut Vec<u8>| {
            into.clear();
            into.shrink_to(KEPT);
            if let Some(feed) = feed {
                std::mem::swap(&mut feed.bytes, into);
            }
        };
        swap(state.log.main.as_mut(), &mut into.main);
        swap(state.log.next.as_mut(), &mut into.next);
        into.position = self.journal.log.appended.load(Ordering::Acquire);
    }

    /// Runs `f`, of which nothing is recorded: what it does has been recorded before.
    pub fn unrecorded<R>(&self, f: impl FnOnce() -> R) -> R {
        unit::for_audience(Audience::NONE, f)
    }

    /// Has the writer look around.
    pub fn poke_log(&self) {
        let mut state = self.journal.lock();
        state.log.poked = true;
        self.journal.log.wake(&mut state.log);
    }

    /// The system has all up to `position`.
    pub fn log_written(&self, position: u64) {
        let log = &self.journal.log;
        log.written.fetch_max(position, Ordering::AcqRel);
        if !log.is_full() {
            log.wake_waiting();
        }
    }

    /// All up to `position` is on the disk; clients that wait for that are answered.
    pub fn log_synced(&self, position: u64) {
        self.journal
            .log
            .synced
            .fetch_max(position, Ordering::AcqRel);
        self.answer_local_waits();
    }

    /// Why the file cannot be written: commands that write are refused then. `None`: it can.
    pub fn log_fails(&self, reason: Option<&str>) {
        let log = &self.journal.log;
        reason
            .unwrap_or_default()
            .clone_into(&mut log.reason.lock());
        log.failed.store(reason.is_some(), Ordering::Release);
        if reason.is_some() {
            log.wake_waiting();
        }
    }

    /// How far the file is.
    #[inline]
    pub fn log_facts(&self) -> LogFacts {
        let log = &self.journal.log;
        // In this order, so that no part is more than the whole.
        let synced = log.synced.load(Ordering::Acquire);
        let written = log.written.load(Ordering::Acquire);
        LogFacts {
            appended: log.appended.load(Ordering::Acquire),
            written: written.max(synced),
            synced,
        }
    }

    /// Whether there is a file that holds all data.
    pub fn keeps_log(&self) -> bool {
        self.journal.log.kept.load(Ordering::Acquire)
    }

    /// Whether so much waits to be written that whoever changes data has to wait.
    #[inline]
    pub fn log_is_full(&self) -> bool {
        self.journal.log.is_full()
    }

    /// Why the file cannot be written, as far as is known.
    #[inline]
    pub(crate) fn log_error(&self) -> Option<String> {
        if !self.listeners.logs() {
            return None;
        }
        let log = &self.journal.log;
        log.has_failed().then(|| log.reason.lock().clone())
    }

    /// There is room for what a caller in this process is about to change.
    ///
    /// # Errors
    ///
    /// There is none yet; or there will be none, because the file cannot be written.
    #[inline]
    pub(crate) fn has_room_in_log(&self) -> Result<(), Undecided> {
        let log = &self.journal.log;
        match self.listeners.logs() && log.is_full() {
            false => Ok(()),
            true if log.has_failed() => Err(Undecided::Unwritable),
            true => Err(Undecided::Kept),
        }
    }

    /// Whether there is no room yet, and may be some.
    pub(crate) fn waits_for_log(&self) -> bool {
        self.has_room_in_log() == Err(Undecided::Kept)
    }

    /// Has `wake` called when there is room again, or there will be none; false when that is so already, and nothing is called.
    pub(crate) fn when_log_has_room(&self, wake: &Arc<Wake>) -> bool {
        let mut wakes = self.journal.log.wakes.lock();
        // Under the lock, so that whoever makes room finds the entry.
        let waits = self.waits_for_log();
        if waits {
            put_once(&mut wakes, wake);
        }
        waits
    }
}
