//! Large values that a snapshot has to read before they change.
//!
//! Whoever is about to change or remove one lends it to the walk ([`tollgate_keyspace::Heir`]), which reads it next, with no
//! shard held. What removes or replaces it goes on at once: the value is the walk's then. What changes it in place would
//! have to copy it first, so a command of a connection waits for the end of the loan instead, and all others go on. It waits
//! for the reading and for what the walk is writing at that moment; if that stands still, it copies the value after all.
//! Scripts are run elsewhere and copy it there. What cannot wait copies: commands of a master, fields that expire, and those
//! who waited for what another command brings.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_commands::Row;
use tollgate_keyspace::{DbIndex, Key, Loan};
use tollgate_limiter::Timestamp;

use crate::cell::{Cell, Cells};
use crate::waiter::{Mail, put_behind};
use crate::{Engine, Session};

/// Commands that only replace or remove what their keys hold: what is lent stays as it is.
const REPLACE: &[&str] = &[
    "DEL", "GETDEL", "GETSET", "MSET", "PSETEX", "RESTORE", "SET", "SETEX", "UNLINK",
];

/// What is lent and not read yet, each with its shard.
pub(super) type Loans = Mutex<VecDeque<(usize, Loan)>>;

/// Commands that wait for a loan to end.
#[derive(Default)]
pub(super) struct Lending {
    waiting: Mutex<Vec<Arc<dyn Mail>>>,
    /// A value is being read.
    reads: AtomicBool,
    /// The output stands still: nobody waits.
    stalls: AtomicBool,
    /// What was written at the last look.
    seen: AtomicU64,
}

impl Lending {
    /// A snapshot begins, or a loan ends, for which `reads` is set before.
    pub(super) fn goes_on(&self, reads: bool) {
        self.reads.store(reads, Ordering::Relaxed);
        self.stalls.store(false, Ordering::Relaxed);
    }

    /// To be called after a loan has ended, no shard held.
    pub(super) fn call_back(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for mail in waiting {
            mail.try_again();
        }
    }

    /// To be called about once a second: whoever waits while nothing is read or written waits no longer.
    pub(super) fn tend(&self, written: u64) {
        let stands_still = self.seen.swap(written, Ordering::Relaxed) == written;
        if stands_still && !self.reads.load(Ordering::Relaxed) && !self.waiting.lock().is_empty() {
            self.stalls.store(true, Ordering::Relaxed);
            self.call_back();
        }
    }
}

impl Engine {
    /// Whether a command that writes is put off, since it would have to copy the large value of its key, which is locked, for
    /// a snapshot; its connection is told when to try again.
    #[cold]
    pub(crate) fn waits_for_loan(
        &self,
        row: &Row,
        session: &Session,
        key: &Key<'_>,
        now: Timestamp,
        cell: &mut Cell,
    ) -> bool {
        let Some(mail) = self.may_wait_for_loan(row, session) else {
            return false;
        };
        let waits = cell.lend(session.db, *key, now.millis());
        if waits {
            // The shard is locked, so that whoever ends the loan finds the entry.
            put_behind(&mut self.snapshots.lending.waiting.lock(), mail);
        }
        waits
    }

    /// As [`Engine::waits_for_loan`], for a command on several keys.
    pub(crate) fn waits_for_loans<H: Cells + ?Sized>(
        &self,
        row: &Row,
        session: &Session,
        args: &[&[u8]],
        now: Timestamp,
        held: &mut H,
    ) -> bool {
        if !is_walked(held) {
            return false;
        }
        let (Some(mail), Ok(keys)) = (
            self.may_wait_for_loan(row, session),
            self.keys_in(row, args),
        ) else {
            return false;
        };
        let waits = self.lends(&keys, session.db, now, held);
        if waits {
            put_behind(&mut self.snapshots.lending.waiting.lock(), mail);
        }
        waits
    }

    /// Lends what of these keys a snapshot has yet to read; whether anything is lent. Their shards are held.
    pub(crate) fn lends<H: Cells + ?Sized>(
        &self,
        keys: &[Key<'_>],
        db: DbIndex,
        now: Timestamp,
        held: &mut H,
    ) -> bool {
        let mut any = false;
        for key in keys {
            let cell = held.cell(key.shard(self.shards.count()));
            any |= cell.is_walked() && cell.lend(db, *key, now.millis());
        }
        any
    }

    fn may_wait_for_loan<'s>(&self, row: &Row, session: &'s Session) -> Option<&'s Arc<dyn Mail>> {
        let waits = row.writes()
            && !REPLACE.contains(&row.name)
            && !self.snapshots.lending.stalls.load(Ordering::Relaxed);
        session.mail.as_ref().filter(|_| waits)
    }
}

/// Whether a snapshot has something left to do with one of the cells.
pub(crate) fn is_walked<H: Cells + ?Sized>(held: &mut H) -> bool {
    let mut any = false;
    held.each(&mut |_, cell| any |= cell.is_walked());
    any
}
