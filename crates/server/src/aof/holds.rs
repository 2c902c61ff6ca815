//! Replies that wait: for the disk (`appendfsync always`), or for room in memory when the disk is slow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_net::{ConnRef, Flow};

use super::{Aof, Policy};
use crate::client::Signal;
use crate::shared::Shared;

/// What a connection holds back.
#[derive(Debug)]
pub(crate) struct Held {
    /// Its replies.
    pub(crate) replies: Vec<u8>,
    /// Where the file must be before they leave.
    pub(crate) until: u64,
    /// What is to become of the connection then.
    pub(crate) flow: Flow,
}

/// Who waits for what.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// Up to here whatever was appended may be answered.
    released: AtomicU64,
    waiting: Mutex<Vec<(u64, ConnRef)>>,
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, ConnRef)>> {
        // A list of plain values.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was appended up to `position` may be answered.
    pub(super) fn release(&self, shared: &Shared, position: u64) {
        self.released.fetch_max(position, Ordering::AcqRel);
        let released = self.released.load(Ordering::Acquire);
        let mut waiting = self.lock();
        waiting.retain(|&(until, at)| {
            let waits = until > released;
            if !waits {
                shared.mailboxes.answer(at, Signal::Written);
            }
            waits
        });
        drop(waiting);
        // Those of the service in this process.
        shared.engine.release_log(released);
    }
}

impl Aof {
    /// Where the file must be before what a thread has just done may be answered, and before the client may go on; `None`:
    /// both may be at once. `answers`: there is something to send.
    pub(crate) fn holds_until(&self, shared: &Shared, answers: bool) -> Option<u64> {
        if !self.is_on() {
            return None;
        }
        let facts = shared.engine.log_facts();
        let is_durable = answers && self.policy() == Policy::Always && shared.engine.keeps_log();
        // A file that cannot be written takes no writes of clients; what else changes is bounded by the data.
        let lacks_room = shared.engine.log_is_full() && !self.facts().write_failed;
        let must = is_durable || lacks_room;
        let released = self.holds.released.load(Ordering::Acquire);
        (must && facts.appended > released).then_some(facts.appended)
    }

    /// Has a connection told ([`Signal::Written`]) when the file has got so far; false when it has already.
    pub(crate) fn hold(&self, until: u64, at: ConnRef) -> bool {
        let mut waiting = self.holds.lock();
        // Read under the lock, so that whoever releases afterwards finds the entry.
        if self.has_released(until) {
            return false;
        }
        waiting.push((until, at));
        true
    }

    /// Whether what was appended up to there may be answered.
    pub(crate) fn has_released(&self, until: u64) -> bool {
        self.holds.released.load(Ordering::Acquire) >= until
    }
}
