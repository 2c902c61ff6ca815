//! Hot keys: a thread that decides often on one key takes units of it in advance and spends them without a lock, and
//! remembers a denial until it can be over.
//!
//! It never admits more than the limit: units are taken from the key's state before they are spent, they wear as the
//! limit earns new ones ([`lease::Wear`]), and any other change of the key (a reset, a ban, DEL, a script) ends them at
//! once. It may admit fewer: units that a thread holds are not there for the others. A lease is at most an eighth of what
//! remained when it was taken, so `n` threads hold back at most `n` eighths of that, until the window ends or
//! [`LocalHandle::give_back`] returns them.
//!
//! A key is hot for a thread that has asked for it 64 times within 10 ms. Decisions on several keys at once take the way
//! of the locks.

mod lease;
mod slot;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tollgate_keyspace::{DbIndex, Key};
use tollgate_limiter::{Cost, Decision, Timestamp};

pub(crate) use slot::HotSlot;

use crate::cell::{Cell, Cells, One, name};
use crate::lock::Guard;
use crate::{AnyCheck, Check, Decisions, Engine, Handle, Undecided};
use lease::{Denial, Lease, Wear};
use table::{Entry, KEY_MAX, Table};

mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

/// Keys that may be hot at a time.
const HOT_KEYS_MAX: usize = 1_024;

/// What an engine knows of hot keys.
pub(crate) struct HotKeys {
    on: AtomicBool,
    slots: AtomicUsize,
}

impl HotKeys {
    pub(crate) fn new() -> HotKeys {
        HotKeys {
            on: AtomicBool::new(true),
            slots: AtomicUsize::new(0),
        }
    }

    /// Makes room for one more hot key.
    fn claim(&self) -> bool {
        let more = |slots| (slots < HOT_KEYS_MAX).then_some(slots + 1);
        self.slots
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn release(&self) {
        self.slots.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Whether threads may take units of hot keys in advance. What they hold already they may still spend.
    pub fn set_leases(&self, on: bool) {
        self.hot.on.store(on, Ordering::Relaxed);
    }
}

impl Check<'_> {
    /// Whether units taken in advance may answer it.
    #[inline(always)]
    fn may_lease(&self) -> bool {
        // All read at once: one jump instead of three.
        !(self.peek | self.exact | (self.cost.0 == 0))
    }
}

/// A handle of one thread, which decides on its hot keys without a lock.
pub struct LocalHandle {
    handle: Handle,
    table: Table,
    /// What is to be ended when the long commands have ended that hold its keys. It came from the table, and what is asked for
    /// meanwhile of those keys holds nothing.
    left: Vec<Entry>,
    /// The table may hold units or denials.
    holds: bool,
}

impl LocalHandle {
    /// One more way to the engine of `handle`.
    pub fn new(handle: Handle) -> LocalHandle {
        LocalHandle {
            handle,
            table: Table::new(),
            left: Vec::new(),
            holds: false,
        }
    }

    /// The handle that all threads may share.
    pub fn shared(&self) -> &Handle {
        &self.handle
    }

    /// Decides one check. On a hot key most decisions need no lock; see [`Engine::set_leases`] and [`Check::exact`].
    ///
    /// Of an answer from a lease, `remaining` is what there was when the lease was taken, less what this thread has spent
    /// since.
    ///
    /// # Errors
    ///
    /// As [`Handle::decide`].
    #[inline(always)]
    pub fn decide(&mut self, check: &Check<'_>, now: Timestamp) -> Result<Decision, Undecided> {
        if check.may_lease()
            && let Some(decision) = self.table.fast(check, now)
        {
            return Ok(decision);
        }
        // Taken apart: what is passed on whole would go through memory above too.
        match self.decide_other(check, now) {
            Ok(decision) => Ok(decision),
            Err(undecided) => Err(undecided),
        }
    }

    #[inline(never)]
    fn decide_other(&mut self, check: &Check<'_>, now: Timestamp) -> Result<Decision, Undecided> {
        if check.may_lease()
            && let Some(decision) = self.table.fast_other(check, now)
        {
            return Ok(decision);
        }
        self.ask(check, now)
    }

    /// As [`Handle::decide_any`], on hot keys as [`LocalHandle::decide`].
    ///
    /// # Errors
    ///
    /// As [`Handle::decide_any`].
    pub fn decide_any(
        &mut self,
        checks: &[AnyCheck<'_>],
        now: Timestamp,
    ) -> Result<Decisions, Undecided> {
        if let [check] = checks
            && let Some(small) = check.small()
        {
            match self.decide(&small, now) {
                Ok(decision) => return Ok(Decisions::from_slice(&[decision])),
                Err(Undecided::WrongState(_)) => {}
                Err(undecided) => return Err(undecided),
            }
        }
        self.handle.decide_any(checks, now)
    }

    #[cold]
    #[inline(never)]
    fn ask(&mut self, check: &Check<'_>, now: Timestamp) -> Result<Decision, Undecided> {
        let engine = self.handle.engine();
        engine.may_count()?;
        let may_lease = check.may_lease()
            && check.key.len() <= KEY_MAX
            && engine.hot.on.load(Ordering::Relaxed);
        let claimed = match may_lease {
            true => self.table.claim(check, now),
            false => None,
        };
        let Some((entry, evicted)) = claimed else {
            return engine.decide_exact(check, now);
        };
        let (entry, decided) = engine.decide_hot(entry, check, now);
        self.holds |= entry.slot.is_some();
        self.table.put(entry);
        let left = evicted.and_then(|evicted| engine.end_entry(evicted, now));
        self.holds |= left.is_some();
        self.left.extend(left);
        decided
    }

    /// Gives back what this thread took of keys that it has not asked for since the last call. Threads that decide call it
    /// now and then, at least when they become idle: what they have decided alone is counted then. True while the thread still holds something.
    pub fn give_back(&mut self, now: Timestamp) -> bool {
        let engine = self.handle.engine();
        let mut ended = std::mem::take(&mut self.left);
        ended.extend(std::iter::from_fn(|| self.table.take_idle(now)));
        let left = ended.into_iter();
        self.left = left
            .filter_map(|entry| engine.end_entry(entry, now))
            .collect();
        self.table.take_alone(|bytes, alone| {
            let key = engine.seed.key(bytes);
            let index = key.shard(engine.shards.count());
            let Ok(mut cell) = engine.free_cell(index) else {
                return false;
            };
            engine.tally_alone(key, &mut One::new(index, &mut cell, &engine.shards), alone);
            true
        });
        self.holds = self.table.holds_any() || !self.left.is_empty();
        self.holds
    }

    /// Whether there is something for [`LocalHandle::give_back`] to look at.
    pub fn holds(&self) -> bool {
        self.holds
    }
}

impl Drop for LocalHandle {
    /// Units still held then stay counted as taken: at which time they would come back is not known here. Long commands are
    /// waited for.
    fn drop(&mut self) {
        let engine = self.handle.engine();
        let mut ended = std::mem::take(&mut self.left);
        ended.extend(std::iter::from_fn(|| self.table.take_any()));
        for entry in ended {
            let cell = engine.shards.lock(engine.shard_of(&entry));
            engine.end_entry_in(cell, entry, None);
        }
    }
}

impl Engine {
    fn decide_exact(&self, check: &Check<'_>, now: Timestamp) -> Result<Decision, Undecided> {
        let key = self.seed.key(check.key);
        let index = key.shard(self.shards.count());
        // Makes room with the locks of other shards, so before this one's.
        let full = self.is_out_of_memory(now);
        let mut cell = self.free_cell(index)?;
        let mut held = One::new(index, &mut cell, &self.shards);
        let decided = self.decide_single(check, key, &mut held, full, now);
        self.tally(check, key, &mut held, &decided);
        self.settle(&mut held, now);
        Ok(decided?)
    }

    /// Decides, and leaves in the entry what the thread needs to decide alone.
    fn decide_hot(
        &self,
        mut entry: Entry,
        check: &Check<'_>,
        now: Timestamp,
    ) -> (Entry, Result<Decision, Undecided>) {
        let key = self.seed.key(check.key);
        let index = key.shard(self.shards.count());
        let full = self.is_out_of_memory(now);
        let mut cell = match self.free_cell(index) {
            Ok(cell) => cell,
            Err(kept) => return (entry, Err(kept)),
        };
        let mut held = One::new(index, &mut cell, &self.shards);
        self.tally_alone(key, &mut held, entry.take_alone());
        self.end_lease(&mut entry, check, key, &mut held, now);
        let decided = self.decide_single(check, key, &mut held, full, now);
        self.tally(check, key, &mut held, &decided);
        if let Ok(decision) = decided
            && entry.is_hot
        {
            self.prepare(&mut entry, decision, check, key, &mut held, now);
        }
        self.settle(&mut held, now);
        (entry, decided.map_err(Undecided::from))
    }

    /// Makes the next decisions on a hot key cheap. Its shard is held.
    fn prepare(
        &self,
        entry: &mut Entry,
        decision: Decision,
        check: &Check<'_>,
        key: Key<'_>,
        held: &mut One<'_, '_>,
        now: Timestamp,
    ) {
        let slot = match &entry.slot {
            Some(slot) => Arc::clone(slot),
            None => {
                let cell = held.cell(key.shard(self.shards.count()));
                let name = name(DbIndex::ZERO, key.bytes());
                let claim = || self.hot.claim();
                let Some(slot) = cell.heat(&name, claim) else {
                    return;
                };
                entry.slot = Some(Arc::clone(&slot));
                slot
            }
        };
        if !decision.allowed {
            entry.denial = Denial::new(slot.denial_epoch(), check.cost.0, now, decision);
            return;
        }
        let units = Lease::size(decision.remaining, entry.last_lease);
        let Some(wear) = Wear::of(check.algorithm, &check.quota).filter(|_| units > 0) else {
            return;
        };
        let taken = Check {
            cost: Cost(units),
            ..*check
        };
        match self.decide_single(&taken, key, held, false, now) {
            Ok(said) if said.allowed => {
                slot.grant(units);
                entry.last_lease = units;
                entry.lease = Lease::new(slot.lease_epoch(), units, now, wear, said);
            }
            _ => {}
        }
    }

    /// Gives back what is left of an entry's lease. The key's shard is held.
    fn end_lease(
        &self,
        entry: &mut Entry,
        check: &Check<'_>,
        key: Key<'_>,
        held: &mut One<'_, '_>,
        now: Timestamp,
    ) {
        let mut lease = std::mem::replace(&mut entry.lease, Lease::NONE);
        let Some(slot) = &entry.slot else { return };
        if lease.epoch != slot.lease_epoch() {
            return;
        }
        let mut back = match self.is_own_to_change() {
            true => lease.left(now),
            // They stay counted as taken: the master knows of nothing else.
            false => 0,
        };
        if back > 0 {
            let refund = Check {
                cost: Cost(back),
                ..*check
            };
            // The key then holds something else, which would have ended the lease.
            if self.refund_one(&refund, key, held, now).is_err() {
                back = 0;
            }
        }
        slot.settle(lease.given, back);
    }

    /// Ends what a thread held of a key that it has no use for any more, and gives it back. What a long command holds is
    /// returned as it is.
    fn end_entry(&self, entry: Entry, now: Timestamp) -> Option<Entry> {
        match self.free_cell(self.shard_of(&entry)) {
            Ok(cell) => self.end_entry_in(cell, entry, Some(now)),
            Err(_) => return Some(entry),
        }
        None
    }

    fn shard_of(&self, entry: &Entry) -> usize {
        self.seed.key(entry.key()).shard(self.shards.count())
    }

    /// The same in the shard of its key. It is given back if the time is known.
    fn end_entry_in(&self, mut cell: Guard<'_, Cell>, mut entry: Entry, now: Option<Timestamp>) {
        let bytes = entry.key().to_vec();
        let key = self.seed.key(&bytes);
        let index = key.shard(self.shards.count());
        let mut held = One::new(index, &mut cell, &self.shards);
        self.tally_alone(key, &mut held, entry.take_alone());
        if let Some(now) = now {
            let check = entry.check(&bytes);
            self.end_lease(&mut entry, &check, key, &mut held, now);
            self.settle(&mut held, now);
        }
        if entry.slot.take().is_none() {
            return;
        }
        let name = name(DbIndex::ZERO, key.bytes());
        let all_heard = self.listeners.hear_expired();
        if held.cell(index).cool(&name, all_heard) {
            self.hot.release();
        }
    }
}
