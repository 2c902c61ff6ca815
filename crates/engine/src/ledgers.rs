//! Limiters whose state grows, for [`Handle`]: logs, leases, reservations, and any of them together.

use smallvec::{SmallVec, smallvec};
use tollgate_commands::Effects;
use tollgate_keyspace::{DbIndex, Key, Object, Value, ValueRef, firsts};
use tollgate_limiter::{
    Act, AlgorithmKind, Cost, Decision, KindMismatch, Ledger, Method, Quota, Record, Slot,
    SlotRequest, Timestamp, decide_slots, holds,
};

use crate::cell::{Cells, One};
use crate::handle::{Check, Decisions, Handle, Undecided, WrongState, write};
use crate::keys::ShardList;
use crate::shards::LockSet;
use crate::{Engine, handle};

/// One limit of any algorithm that applies to a request.
#[derive(Debug, Clone, Copy)]
pub struct AnyCheck<'a> {
    /// The counter's key in database 0.
    pub key: &'a [u8],
    /// How the limit is counted.
    pub method: Method,
    /// The limit.
    pub quota: Quota,
    /// What the request weighs.
    pub cost: Cost,
    /// What it does with the units. What takes from [`Method::Concurrency`] has a name.
    pub act: Act<'a>,
    /// No units are taken in advance, also when the key is hot; see [`Check::exact`].
    pub exact: bool,
}

impl<'a> AnyCheck<'a> {
    /// As one that the shorter ways know: a take from or look at a small state.
    #[inline]
    pub(crate) fn small(&self) -> Option<Check<'a>> {
        let (algorithm, peek): (AlgorithmKind, bool) = match (self.method, self.act) {
            (Method::Small(kind), Act::Take) => (kind, false),
            (Method::Small(kind), Act::Peek) => (kind, true),
            _ => return None,
        };
        Some(Check {
            key: self.key,
            algorithm,
            quota: self.quota,
            cost: self.cost,
            peek,
            exact: self.exact,
        })
    }

    fn request(&self, slot: usize) -> SlotRequest<'_> {
        SlotRequest {
            method: self.method,
            quota: self.quota,
            cost: self.cost,
            act: self.act,
            slot,
        }
    }
}

impl Handle {
    /// As [`Handle::decide`], for checks of any algorithm and any act. Those that [`Handle::decide`] knows cost no more.
    ///
    /// # Errors
    ///
    /// As [`Handle::decide`]; or an algorithm knows no such act.
    pub fn decide_any(
        &self,
        checks: &[AnyCheck<'_>],
        now: Timestamp,
    ) -> Result<Decisions, Undecided> {
        let small: Option<SmallVec<[Check<'_>; handle::INLINE_CHECKS]>> =
            checks.iter().map(AnyCheck::small).collect();
        match small.map(|small| self.decide(&small, now)) {
            // A key with reservations on it is no mistake.
            None | Some(Err(Undecided::WrongState(_))) => self.engine().decide_slots(checks, now),
            Some(decided) => decided,
        }
    }

    /// As [`Handle::refund`], for any algorithm. Of leases those go that would expire first.
    ///
    /// # Errors
    ///
    /// As [`Handle::refund`].
    pub fn refund_any(&self, check: &AnyCheck<'_>, now: Timestamp) -> Result<Decision, Undecided> {
        let AnyCheck {
            method,
            quota,
            cost,
            ..
        } = check;
        self.engine().may_count()?;
        self.with_slot(check.key, now, |slot| {
            let changed = slot.refund(*method, quota, cost.0, now)?;
            let (there, _) = slot.decide(*method, quota, Cost(0), true, now)?;
            Ok((there, changed))
        })
    }

    /// Ends a reservation with its actual cost: what was too much comes back, what was too little is charged. Ending it
    /// again tells what counted. `None` when there is none of that name.
    ///
    /// # Errors
    ///
    /// The key holds something other than reservations; a long command holds its shard; or nothing can be counted here.
    pub fn end(
        &self,
        key: &[u8],
        id: &[u8],
        actual: u64,
        now: Timestamp,
    ) -> Result<Option<holds::Ended>, Undecided> {
        self.engine().may_count()?;
        self.with_slot(key, now, |slot| {
            let ended = slot.end(id, actual, now)?;
            Ok((ended, ended.is_some_and(|ended| !ended.before)))
        })
    }

    /// Gives a lease back; its units, 0 when it has expired or never was.
    ///
    /// # Errors
    ///
    /// The key holds something other than leases; a long command holds its shard; or nothing can be counted here.
    pub fn release(&self, key: &[u8], id: &[u8], now: Timestamp) -> Result<u64, Undecided> {
        self.engine().may_count()?;
        self.with_slot(key, now, |slot| {
            let units = slot.release(id, now)?;
            Ok((units, units > 0))
        })
    }

    /// Lets the counter of `heir` go on from that of `before`, if the one has no state and the other has: `used` makes of
    /// what is left of the old limit and of both capacities the units that count as taken of the new one. The old state
    /// goes. A ban moves along. True when something was carried over.
    ///
    /// # Errors
    ///
    /// A long command holds the shard of one of them, or nothing can be counted here.
    pub fn succeed(
        &self,
        heir: &AnyCheck<'_>,
        before: &AnyCheck<'_>,
        used: impl FnOnce(u64, u64, u64) -> u64,
        now: Timestamp,
    ) -> Result<bool, Undecided> {
        let engine = &**self.engine();
        engine.may_count()?;
        let count = engine.shards.count();
        let (new, old) = (engine.seed.key(heir.key), engine.seed.key(before.key));
        let mut wanted: ShardList = [new.shard(count), old.shard(count)].into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut held = engine.free_set(&wanted)?;
        let carried = engine.carry_over(&mut held, (heir, new), (before, old), used, now);
        engine.settle(&mut held, now);
        Ok(carried.is_some())
    }

    /// Works on what a key holds, with its shard held.
    fn with_slot<T>(
        &self,
        key: &[u8],
        now: Timestamp,
        work: impl FnOnce(&mut Slot) -> Worked<T>,
    ) -> Result<T, Undecided> {
        let engine = &**self.engine();
        let key = engine.seed.key(key);
        let index = key.shard(engine.shards.count());
        let mut cell = engine.free_cell(index)?;
        let mut held = One::new(index, &mut cell, &engine.shards);
        let result = engine.work(&mut held, key, now, work);
        engine.settle(&mut held, now);
        Ok(result?)
    }
}

fn wrong(key: Key<'_>) -> WrongState {
    WrongState {
        key: key.bytes().into(),
    }
}

/// What came of work on a slot: a result, and whether the slot has changed and must be stored.
type Worked<T> = Result<(T, bool), KindMismatch>;

impl Engine {
    /// Works on what a key holds, without a copy of what may be large.
    fn work<H: Cells, T>(
        &self,
        held: &mut H,
        key: Key<'_>,
        now: Timestamp,
        work: impl FnOnce(&mut Slot) -> Worked<T>,
    ) -> Result<T, WrongState> {
        let mut slot = self.take_slot(held, key, now)?;
        let taken = matches!(slot, Slot::Ledger(..));
        let worked = work(&mut slot);
        let changed = matches!(worked, Ok((_, true)));
        if taken || changed {
            self.put_slot(held, key, slot, changed, now);
        }
        worked.map(|(result, _)| result).map_err(|_| wrong(key))
    }

    /// `None` when there is nothing to carry over, or a key holds something else.
    fn carry_over(
        &self,
        held: &mut LockSet<'_>,
        (heir, new): (&AnyCheck<'_>, Key<'_>),
        (before, old): (&AnyCheck<'_>, Key<'_>),
        used: impl FnOnce(u64, u64, u64) -> u64,
        now: Timestamp,
    ) -> Option<()> {
        let fresh = self.copy_slot(held, new, now).ok()?;
        let mut slot = self.copy_slot(held, old, now).ok()?;
        if fresh != Slot::Small(None) || slot == Slot::Small(None) {
            return None;
        }
        let mut next = fresh;
        let banned_until = slot.banned_until(now);
        slot.unban(now).ok()?;
        if slot != Slot::Small(None) {
            let look = |slot: &mut Slot, check: &AnyCheck<'_>| {
                let looked = slot.decide(check.method, &check.quota, Cost(0), true, now);
                looked.ok().map(|(decision, _)| decision)
            };
            let there = look(&mut slot, before)?;
            let whole = look(&mut next, heir)?;
            let units = used(there.remaining, there.limit, whole.limit);
            next.decide(heir.method, &heir.quota, Cost(units), false, now)
                .ok()?;
        }
        if let Some(until_ms) = banned_until {
            next.ban(until_ms, now).ok()?;
        }
        self.put_slot(held, old, Slot::Small(None), true, now);
        if next != Slot::Small(None) {
            self.put_slot(held, new, next, true, now);
        }
        Some(())
    }

    #[cold]
    fn decide_slots(
        &self,
        checks: &[AnyCheck<'_>],
        now: Timestamp,
    ) -> Result<Decisions, Undecided> {
        self.may_count()?;
        let full = self.is_out_of_memory(now);
        let count = self.shards.count();
        let keys: SmallVec<[Key<'_>; 4]> = checks
            .iter()
            .map(|check| self.seed.key(check.key))
            .collect();
        let mut wanted: ShardList = keys.iter().map(|key| key.shard(count)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut held = self.free_set(&wanted)?;
        let decided = match (checks, &keys[..]) {
            _ if full && checks.iter().any(|check| check.act != Act::Peek) => {
                Ok(self.refuse_all(checks.iter().map(|check| &check.quota)))
            }
            ([check], [key]) => self
                .work(&mut held, *key, now, |slot| {
                    slot.act(&check.request(0), now)
                })
                .map(|decision| SmallVec::from_slice(&[decision])),
            _ => self.decide_together(checks, &keys, &mut held, now),
        };
        if let Ok(decisions) = &decided {
            let asked = checks
                .iter()
                .map(|check| check.act != Act::Peek && check.cost.0 > 0);
            self.tally_many(&keys, asked, decisions, &mut held);
        }
        self.settle(&mut held, now);
        Ok(decided?)
    }

    fn decide_together(
        &self,
        checks: &[AnyCheck<'_>],
        keys: &[Key<'_>],
        held: &mut LockSet<'_>,
        now: Timestamp,
    ) -> Result<Decisions, WrongState> {
        let firsts = firsts(keys);
        let mut slots: SmallVec<[Slot; 4]> = SmallVec::new();
        for (at, (key, &first)) in keys.iter().zip(&firsts).enumerate() {
            slots.push(match first == at {
                true => self.copy_slot(held, *key, now)?,
                // Checks on one key share the slot of the first of them.
                false => Slot::Small(None),
            });
        }
        let requests: SmallVec<[SlotRequest<'_>; 4]> = checks
            .iter()
            .zip(&firsts)
            .map(|(check, &first)| check.request(first))
            .collect();
        let (_, decided) =
            decide_slots(&requests, &mut slots, now).map_err(|(at, _)| wrong(keys[at]))?;
        let mut has_changed: SmallVec<[bool; 4]> = smallvec![false; slots.len()];
        for (request, (_, changed)) in requests.iter().zip(&decided) {
            has_changed[request.slot] |= changed;
        }
        for ((slot, key), changed) in slots.into_iter().zip(keys).zip(has_changed) {
            if changed {
                self.put_slot(held, *key, slot, true, now);
            }
        }
        Ok(decided.into_iter().map(|(decision, _)| decision).collect())
    }

    /// What a key holds. A state that grows is left empty in its place, and must be put back.
    fn take_slot<H: Cells>(
        &self,
        held: &mut H,
        key: Key<'_>,
        now: Timestamp,
    ) -> Result<Slot, WrongState> {
        let shard = held.cell(key.shard(self.shards.count()));
        let Some(mut entry) = shard.get_mut(DbIndex::ZERO, key, now.millis()) else {
            return Ok(Slot::Small(None));
        };
        let expires_at_ms = entry.expires_at_ms().unwrap_or(i64::MAX);
        if let ValueRef::Limiter(state) = entry.value() {
            return Ok(Slot::Small(Some(Record {
                state,
                expires_at_ms,
            })));
        }
        let Some(mut object) = entry.object_mut() else {
            return Err(wrong(key));
        };
        let Object::Ledger(ledger) = &mut *object else {
            return Err(wrong(key));
        };
        let taken = std::mem::replace(ledger, Ledger::Log(Default::default()));
        Ok(Slot::Ledger(taken, expires_at_ms))
    }

    fn copy_slot<H: Cells>(
        &self,
        held: &mut H,
        key: Key<'_>,
        now: Timestamp,
    ) -> Result<Slot, WrongState> {
        let shard = held.cell(key.shard(self.shards.count()));
        let Some(entry) = shard.peek(DbIndex::ZERO, key, now.millis()) else {
            return Ok(Slot::Small(None));
        };
        let expires_at_ms = entry.expires_at_ms().unwrap_or(i64::MAX);
        match entry.value() {
            ValueRef::Limiter(state) => Ok(Slot::Small(Some(Record {
                state,
                expires_at_ms,
            }))),
            ValueRef::Object(Object::Ledger(ledger)) => {
                Ok(Slot::Ledger(ledger.clone(), expires_at_ms))
            }
            _ => Err(wrong(key)),
        }
    }

    /// Stores a slot; one that says nothing removes the key. A state that has not changed keeps its entry's expiry.
    fn put_slot<H: Cells>(
        &self,
        held: &mut H,
        key: Key<'_>,
        slot: Slot,
        changed: bool,
        now: Timestamp,
    ) {
        let shard = held.cell(key.shard(self.shards.count()));
        match slot {
            Slot::Ledger(ledger, expires_at_ms) if !ledger.is_empty() => {
                if let Some(mut entry) = shard.get_mut(DbIndex::ZERO, key, now.millis())
                    && matches!(entry.value(), ValueRef::Object(Object::Ledger(_)))
                {
                    if let Some(mut object) = entry.object_mut() {
                        *object = Object::Ledger(ledger);
                    }
                    if changed {
                        entry.set_expiry(Some(expires_at_ms));
                    }
                } else {
                    let value = Value::Object(Box::new(Object::Ledger(ledger)));
                    shard.set(DbIndex::ZERO, key, value, Some(expires_at_ms), now.millis());
                }
            }
            Slot::Small(Some(record)) => write(shard, key, record, now),
            Slot::Small(None) | Slot::Ledger(..) => {
                shard.remove(DbIndex::ZERO, key, now.millis());
            }
        }
        if changed {
            self.tell_limited(held, key);
            self.counters.changed(1);
        }
    }

    /// Tells those who listen, of whom some may hold units of the key in advance: they have them no more.
    fn tell_limited<H: Cells>(&self, held: &mut H, key: Key<'_>) {
        if held.is_heard() || self.listeners.any() {
            let mut effects = Effects::new();
            effects.limited(DbIndex::ZERO, key.bytes());
            self.announce(&effects, held, 0);
            let cell = held.cell(key.shard(self.shards.count()));
            self.record_limiter(DbIndex::ZERO, key, cell);
        }
        if self.listeners.limits_memory() {
            self.count_held(held);
        }
    }
}
