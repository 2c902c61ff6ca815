//! Embedded access for a rate limit service in the same process.

//! Embedded access for a rate limit service in the same process.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_commands::LockedShards;
use tollgate_keyspace::{DbIndex, Key, Shard, Value, ValueRef};
use tollgate_limiter::{
    AlgorithmKind, Cost, Decision, Quota, Record, Request, Timestamp, decide_all,
};

use crate::Engine;
use crate::execute::ShardList;

/// Checks of one request that are handled without allocation.
const INLINE_CHECKS: usize = 4;

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

/// The engine as a decision service: [`Handle::decide`] is atomic over all its checks.
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

    /// Decides all checks at one moment, the shards of all keys locked. Units are taken only when every check allows
    /// (peeks included), so a denied request costs nothing anywhere; the checks that would have allowed then report
    /// what is there. Checks on the same key see what the earlier ones take. Decisions come in the order of the checks.
    ///
    /// # Errors
    ///
    /// A key holds a string, or the state of another algorithm.
    pub fn decide(&self, checks: &[Check<'_>], now: Timestamp) -> Result<Decisions, WrongState> {
        let engine = &*self.0;
        let count = engine.shards.count();
        if let [check] = checks {
            let key = engine.seed.key(check.key);
            return engine.decide_one(check, key, &mut engine.shards.lock(key.shard(count)), now);
        }
        let keys: SmallVec<[Key<'_>; INLINE_CHECKS]> = checks
            .iter()
            .map(|check| engine.seed.key(check.key))
            .collect();
        let mut wanted: ShardList = keys.iter().map(|key| key.shard(count)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        engine.decide_many(checks, &keys, &mut engine.shards.lock_set(&wanted), now)
    }
}

impl Engine {
    fn decide_one(
        &self,
        check: &Check<'_>,
        key: Key<'_>,
        shard: &mut Shard,
        now: Timestamp,
    ) -> Result<Decisions, WrongState> {
        let record = read(shard, key, now)?;
        let (decision, next) = check
            .algorithm
            .decide(record, &check.quota, check.cost, now)
            .map_err(|_| WrongState {
                key: key.bytes().into(),
            })?;
        if let Some(next) = next.filter(|_| !check.peek) {
            write(shard, key, next, now);
            self.counters.changed(1);
        }
        Ok(SmallVec::from_slice(&[decision]))
    }

    fn decide_many(
        &self,
        checks: &[Check<'_>],
        keys: &[Key<'_>],
        held: &mut dyn LockedShards,
        now: Timestamp,
    ) -> Result<Decisions, WrongState> {
        let count = self.shards.count();
        let mut records: SmallVec<[Option<Record>; INLINE_CHECKS]> = SmallVec::new();
        let mut requests: SmallVec<[Request; INLINE_CHECKS]> = SmallVec::new();
        for (at, (check, key)) in checks.iter().zip(keys).enumerate() {
            records.push(read(held.shard(key.shard(count)), *key, now)?);
            // Checks on one key share the record of the first of them.
            let record = keys[..at]
                .iter()
                .position(|other| other.bytes() == key.bytes())
                .unwrap_or(at);
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
                write(held.shard(key.shard(count)), *key, next, now);
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
        held: &mut dyn LockedShards,
        now: Timestamp,
    ) -> WrongState {
        let refused = checks.iter().zip(keys).find(|(check, key)| {
            let record = read(held.shard(key.shard(self.shards.count())), **key, now);
            !matches!(record, Ok(record) if check.algorithm.decide(record, &check.quota, check.cost, now).is_ok())
        });
        WrongState {
            key: refused.map_or(&b""[..], |(check, _)| check.key).into(),
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

fn write(shard: &mut Shard, key: Key<'_>, record: Record, now: Timestamp) {
    if let Some(mut entry) = shard.get_mut(DbIndex::ZERO, key, now.millis()) {
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
