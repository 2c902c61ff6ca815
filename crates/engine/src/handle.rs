//! Embedded access for a rate limit service in the same process.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_commands::{Effects, LockedShards};
use tollgate_keyspace::{DbIndex, Key, Shard, Value, ValueRef, firsts};
use tollgate_limiter::{
    AlgorithmKind, Cost, Decision, Quota, Record, Request, Timestamp, decide_all,
};

use crate::cell::{Cell, Cells, One, name};
use crate::keys::ShardList;
use crate::lock::Guard;
use crate::shards::{LockSet, Visit};
use crate::{Engine, Wake};

/// Checks of one request that are handled without allocation.
pub(crate) const INLINE_CHECKS: usize = 4;

/// One limit that applies to a request.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a> {
    /// The counter's key in database 0.
    pub key: &'a [u8],
    /// How the limit is counted.
    pub algorithm: AlgorithmKind,
    /// The limit.
    pub quota: Quota,
    /// What the request weighs.
    pub cost: Cost,
    /// Looks without consuming; its answer still counts for the others.
    pub peek: bool,
    /// No units are taken in advance, also when the key is hot: every answer comes from the counter itself.
    pub exact: bool,
}

/// Answers in the order of the checks.
pub type Decisions = SmallVec<[Decision; INLINE_CHECKS]>;

/// A key of a check holds something other than the state of the check's algorithm. Nothing was consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongState {
    /// The key.
    pub key: Box<[u8]>,
}

impl std::fmt::Display for WrongState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = String::from_utf8_lossy(&self.key);
        write!(
            f,
            "key '{key}' holds another kind of value than the rate limiter that uses it"
        )
    }
}

impl std::error::Error for WrongState {}

/// Why nothing was decided, and nothing consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undecided {
    /// A key holds something else.
    WrongState(WrongState),
    /// A long command (a script, FLUSHALL) holds a key's shard, writes are paused ([`crate::Pause`]), or what is to be written to
    /// the append-only file has reached its bound: to be asked again when that has ended, which [`Handle::when_freed`] tells.
    /// So no thread is held up by it.
    Kept,
    /// Fewer replicas follow than `min-replicas-to-write` asks for.
    TooFewReplicas,
    /// This server is a replica: what is counted is its master's.
    OnReplica,
    /// The append-only file cannot be written, and has no more room in memory.
    Unwritable,
}

impl From<WrongState> for Undecided {
    fn from(wrong: WrongState) -> Undecided {
        Undecided::WrongState(wrong)
    }
}

impl std::fmt::Display for Undecided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Undecided::WrongState(wrong) => wrong.fmt(f),
            Undecided::Kept => {
                f.write_str("a long command holds the key, writes are paused, or a disk is slow")
            }
            Undecided::TooFewReplicas => {
                f.write_str("fewer replicas follow than min-replicas-to-write asks for")
            }
            Undecided::OnReplica => {
                f.write_str("this server is a replica, and only its master counts")
            }
            Undecided::Unwritable => f.write_str("the append-only file cannot be written"),
        }
    }
}

impl std::error::Error for Undecided {}

/// The engine as a decision service: [`Handle::decide`] is atomic over all its checks. Nothing here waits for a long command.
#[derive(Clone)]
pub struct Handle(Arc<Engine>);

impl Handle {
    /// A handle to `engine`.
    pub fn new(engine: Arc<Engine>) -> Handle {
        Handle(engine)
    }

    /// The engine behind the handle.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0
    }

    /// Whether something may be [kept](Undecided::Kept) now.
    #[inline]
    pub fn may_be_kept(&self) -> bool {
        self.0.is_kept() || self.0.pause().is_active() || self.0.waits_for_log()
    }

    /// Whether decisions can be counted here. What soon passes by itself (a long command, a pause, a slow disk) does not stand against it.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn can_count(&self) -> Result<(), Undecided> {
        match self.0.may_count() {
            Err(Undecided::Kept) => Ok(()),
            other => other,
        }
    }

    /// Keeps long commands from beginning until it is dropped, which must be soon; `None`: one runs.
    pub fn visit(&self) -> Option<Visit<'_>> {
        self.0.shards.visit()
    }

    /// Has `wake` called when a long command or a pause has ended, or the append-only file has room again, for each once; false
    /// when there is nothing of that any more, and nothing is called.
    pub fn when_freed(&self, wake: &Arc<Wake>) -> bool {
        let kept = self.0.shards.when_freed(wake);
        let paused = self.0.pause().when_over(wake);
        self.0.when_log_has_room(wake) || paused || kept
    }

    /// Decides all checks at one moment, the shards of all keys locked. Units are taken only when every check allows
    /// (peeks included), so a denied request costs nothing anywhere; the checks that would have allowed then report
    /// what is there. Checks on the same key see what the earlier ones take. Decisions come in the order of the checks.
    ///
    /// # Errors
    ///
    /// A key holds a string, or the state of another algorithm; a long command holds its shard; or nothing can be counted here.
    pub fn decide(&self, checks: &[Check<'_>], now: Timestamp) -> Result<Decisions, Undecided> {
        let engine = &*self.0;
        let count = engine.shards.count();
        engine.may_count()?;
        let full = engine.is_out_of_memory(now);
        if let [check] = checks {
            let key = engine.seed.key(check.key);
            let index = key.shard(count);
            let mut cell = engine.free_cell(index)?;
            let mut held = One::new(index, &mut cell, &engine.shards);
            let decided = engine.decide_single(check, key, &mut held, full, now);
            engine.tally(check, key, &mut held, &decided);
            engine.settle(&mut held, now);
            return Ok(SmallVec::from_slice(&[decided?]));
        }
        let keys: SmallVec<[Key<'_>; INLINE_CHECKS]> = checks
            .iter()
            .map(|check| engine.seed.key(check.key))
            .collect();
        let mut wanted: ShardList = keys.iter().map(|key| key.shard(count)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut held = engine.free_set(&wanted)?;
        let decided = engine.decide_many(checks, &keys, &mut held, full, now);
        if let Ok(decisions) = &decided {
            let asked = checks.iter().map(|check| !check.peek && check.cost.0 > 0);
            engine.tally_many(&keys, asked, decisions, &mut held);
        }
        engine.settle(&mut held, now);
        Ok(decided?)
    }

    /// Gives back up to the check's cost of what was taken, and tells what is there then.
    ///
    /// # Errors
    ///
    /// The key holds a string, or the state of another algorithm; a long command holds its shard; or nothing can be counted here.
    pub fn refund(&self, check: &Check<'_>, now: Timestamp) -> Result<Decision, Undecided> {
        let engine = &*self.0;
        engine.may_count()?;
        let key = engine.seed.key(check.key);
        let index = key.shard(engine.shards.count());
        let mut cell = engine.free_cell(index)?;
        let mut held = One::new(index, &mut cell, &engine.shards);
        let refunded = engine.refund_one(check, key, &mut held, now);
        if let Some(hot) = held.cell(index).hot(&name(DbIndex::ZERO, check.key)) {
            hot.settle(0, 1);
        }
        engine.settle(&mut held, now);
        Ok(refunded?)
    }
}

impl Engine {
    /// Locks a shard to change it, if no long command holds it and writes are not paused. That is asked under the lock: whoever
    /// has paused them, and then had the lock, knows that nobody is about to write.
    #[inline]
    pub(crate) fn free_cell(&self, index: usize) -> Result<Guard<'_, Cell>, Undecided> {
        let cell = self.shards.lock_unless_kept(index);
        cell.filter(|_| !self.pause.is_active())
            .ok_or(Undecided::Kept)
    }

    /// The same for several.
    pub(crate) fn free_set(&self, wanted: &[usize]) -> Result<LockSet<'_>, Undecided> {
        let held = self.shards.lock_set_unless_kept(wanted);
        held.filter(|_| !self.pause.is_active())
            .ok_or(Undecided::Kept)
    }

    pub(crate) fn decide_single(
        &self,
        check: &Check<'_>,
        key: Key<'_>,
        held: &mut One<'_, '_>,
        full: bool,
        now: Timestamp,
    ) -> Result<Decision, WrongState> {
        let record = read(held.cell(key.shard(self.shards.count())), key, now)?;
        if full && record.is_none() && !check.peek {
            return Ok(self.refuse(&check.quota));
        }
        let (decision, next) = check
            .algorithm
            .decide(record, &check.quota, check.cost, now)
            .map_err(|_| WrongState {
                key: key.bytes().into(),
            })?;
        if let Some(next) = next.filter(|_| !check.peek) {
            self.record(held, key, next, now);
            self.counters.changed(1);
        }
        Ok(decision)
    }

    pub(crate) fn refund_one(
        &self,
        check: &Check<'_>,
        key: Key<'_>,
        held: &mut One<'_, '_>,
        now: Timestamp,
    ) -> Result<Decision, WrongState> {
        let wrong = |_| WrongState {
            key: key.bytes().into(),
        };
        let record = read(held.cell(key.shard(self.shards.count())), key, now)?;
        let next = match record.filter(|_| self.is_own_to_change()) {
            Some(record) => check
                .algorithm
                .refund(record, &check.quota, check.cost.0, now)
                .map_err(wrong)?,
            None => None,
        };
        if let Some(next) = next {
            self.record(held, key, next, now);
            self.counters.changed(1);
        }
        let there = check
            .algorithm
            .decide(next.or(record), &check.quota, Cost(0), now);
        there.map(|(decision, _)| decision).map_err(wrong)
    }

    fn decide_many(
        &self,
        checks: &[Check<'_>],
        keys: &[Key<'_>],
        held: &mut LockSet<'_>,
        full: bool,
        now: Timestamp,
    ) -> Result<Decisions, WrongState> {
        let count = self.shards.count();
        let mut records: SmallVec<[Option<Record>; INLINE_CHECKS]> = SmallVec::new();
        let mut requests: SmallVec<[Request; INLINE_CHECKS]> = SmallVec::new();
        // Checks on one key share the record of the first of them.
        let firsts = firsts(keys);
        for ((check, key), record) in checks.iter().zip(keys).zip(firsts) {
            records.push(read(held.shard(key.shard(count)), *key, now)?);
            let Check {
                algorithm: kind,
                quota,
                cost,
                peek,
                ..
            } = *check;
            requests.push(Request {
                kind,
                quota,
                cost,
                peek,
                record,
            });
        }
        if full && records.iter().any(Option::is_none) {
            return Ok(self.refuse_all(checks.iter().map(|check| &check.quota)));
        }
        let mut before = records.clone();
        let none = Decision {
            allowed: false,
            limit: 0,
            remaining: 0,
            retry_after: None,
            reset_after: 0,
        };
        let mut decisions: Decisions = SmallVec::from_elem(none, checks.len());
        if decide_all(&requests, &mut records, &mut before, &mut decisions, now).is_err() {
            return Err(self.find_wrong(checks, keys, held, now));
        }
        let mut changes = 0;
        for (key, (record, before)) in keys.iter().zip(records.iter().zip(&before)) {
            if let Some(next) = record.filter(|_| record != before) {
                self.record(held, *key, next, now);
                changes += 1;
            }
        }
        if changes > 0 {
            self.counters.changed(changes);
        }
        Ok(decisions)
    }

    /// The first key whose state its check's algorithm refuses.
    #[cold]
    fn find_wrong(
        &self,
        checks: &[Check<'_>],
        keys: &[Key<'_>],
        held: &mut LockSet<'_>,
        now: Timestamp,
    ) -> WrongState {
        let wrong = checks.iter().zip(keys).find(|(check, key)| {
            let record = read(held.shard(key.shard(self.shards.count())), **key, now);
            !matches!(record, Ok(record) if check.algorithm.decide(record, &check.quota, check.cost, now).is_ok())
        });
        WrongState {
            key: wrong.map_or(&b""[..], |(check, _)| check.key).into(),
        }
    }
}

/// How long a limiter for which there is no memory is asked to wait: one second.
const RETRY_NANOS: u64 = 1_000_000_000;

/// The decision of a new limiter when memory is short and nothing may go, and of any when there is no room for what it would
/// leave in the append-only file: what cannot be counted is not admitted.
fn refused(quota: &Quota) -> Decision {
    Decision {
        limit: quota.limit,
        retry_after: Some(RETRY_NANOS),
        ..Decision::DENIED
    }
}

impl Engine {
    /// Denies the request of a new limiter for which there is no memory.
    #[cold]
    pub(crate) fn refuse(&self, quota: &Quota) -> Decision {
        self.memory.refuse_limiter();
        refused(quota)
    }

    /// Denies a request with limiters for which there is no memory.
    #[cold]
    pub(crate) fn refuse_all<'q>(&self, quotas: impl Iterator<Item = &'q Quota>) -> Decisions {
        self.memory.refuse_limiter();
        quotas.map(refused).collect()
    }

    /// Units taken or given back by the way of the state itself leave the leases on the key what they are.
    #[cold]
    fn announce_limited<H: Cells>(&self, held: &mut H, key: Key<'_>) {
        let index = key.shard(self.shards.count());
        let name = name(DbIndex::ZERO, key.bytes());
        let hot = held.cell(index).take_hot(&name);
        let mut effects = Effects::new();
        effects.limited(DbIndex::ZERO, key.bytes());
        self.announce(&effects, held, 0);
        if let Some(hot) = hot {
            held.cell(index).put_hot(&name, hot);
        }
    }

    /// Writes the state of a limiter whose shard is held, and tells those who listen.
    fn record<H: Cells>(&self, held: &mut H, key: Key<'_>, record: Record, now: Timestamp) {
        let cell = held.cell(key.shard(self.shards.count()));
        write(cell, key, record, now);
        if held.is_heard() || self.listeners.any() {
            self.announce_limited(held, key);
            let cell = held.cell(key.shard(self.shards.count()));
            self.record_limiter(DbIndex::ZERO, key, cell);
        }
        if self.listeners.limits_memory() {
            self.count_held(held);
        }
    }
}

/// The limiter state at `key`; an error when it holds a string.
fn read(shard: &mut Shard, key: Key<'_>, now: Timestamp) -> Result<Option<Record>, WrongState> {
    let Some(entry) = shard.peek(DbIndex::ZERO, key, now.millis()) else {
        return Ok(None);
    };
    match entry.value() {
        ValueRef::Limiter(state) => Ok(Some(Record {
            state,
            expires_at_ms: entry.expires_at_ms().unwrap_or(i64::MAX),
        })),
        _ => Err(WrongState {
            key: key.bytes().into(),
        }),
    }
}

pub(crate) fn write(shard: &mut Shard, key: Key<'_>, record: Record, now: Timestamp) {
    if let Some(mut entry) = shard.get_mut(DbIndex::ZERO, key, now.millis())
        && matches!(entry.value(), ValueRef::Limiter(_))
    {
        entry.set_limiter(record.state);
        entry.set_expiry(Some(record.expires_at_ms));
    } else {
        shard.set(
            DbIndex::ZERO,
            key,
            Value::Limiter(record.state),
            Some(record.expires_at_ms),
            now.millis(),
        );
    }
}
