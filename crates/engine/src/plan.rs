//! Looking ahead: what can be done for the commands of a pipeline before the first one runs.
//!
//! In a store larger than the caches most of a command's time is waiting for memory. The commands of a pipeline wait
//! together if each step of their lookups is taken for all of them before the next step. In a small store that would be
//! work for nothing: a tenth of the time of a GET (measured).

use smallvec::SmallVec;
use tollgate_commands::{Group, Row, Run};
use tollgate_keyspace::{Ahead, DbIndex, Key, look_ahead};

use std::sync::atomic::Ordering;

use crate::Engine;
use crate::call::Call;
use crate::cell::Cell;
use crate::lock::Guard;
use crate::shards::LockSet;

/// Bytes of data from which looking ahead pays: about what the cache of one core holds.
const DEEP: usize = 1 << 20;

/// Lookups made ahead together, and so locks held for it: as many as a core waits for at once.
pub(crate) const AHEAD: usize = 16;
const _: () = assert!(
    AHEAD < u8::MAX as usize,
    "positions fit a byte, and one is free for none"
);

/// A command as far as it is known without running it.
pub struct Plan<'a> {
    /// Its row; none when there is no such command.
    pub(crate) row: Option<&'static Row>,
    /// The key, of a command that has exactly one and has it as word 1.
    pub(crate) key: Option<Key<'a>>,
}

impl Plan<'_> {
    /// Whether the command does nothing but with the data of keys.
    #[inline]
    pub fn is_about_keys(&self) -> bool {
        self.row.is_some_and(|row| matches!(row.run, Run::Keys(_)))
    }

    /// The command's row, if there is such a command.
    pub fn row(&self) -> Option<&'static Row> {
        self.row
    }
}

impl Engine {
    /// Looks up a command and hashes its key. The words that are given here must be given to
    /// [`Engine::execute_planned`].
    #[inline]
    pub fn plan<'a>(&self, args: &[&'a [u8]]) -> Plan<'a> {
        let row = self.find(args);
        let key = match (row, args) {
            (Some(row), [_, word, ..]) if row.has_one_first_key() => Some(self.seed.key(word)),
            _ => None,
        };
        Plan { row, key }
    }

    /// As [`Engine::plan`], for a request of a Memcached client about one key.
    #[inline]
    pub fn plan_item<'a>(&self, row: &'static Row, key: &'a [u8]) -> Plan<'a> {
        Plan {
            row: Some(row),
            key: Some(self.seed.key(key)),
        }
    }

    /// Decides by the size of the data whether [`Engine::look_ahead`] does anything; to be called about once a second.
    /// Gives that size in bytes, unless a command holds some of the data for long.
    pub fn judge_size(&self) -> Option<usize> {
        let mut bytes = 0;
        let left = self.for_each_free_cell(&mut |cell| bytes += cell.memory());
        let whole = left.len() == 0;
        if whole || bytes > DEEP {
            self.deep.store(bytes > DEEP, Ordering::Relaxed);
        }
        whole.then_some(bytes)
    }

    /// Brings what the commands will look at into the cache, as far as nobody else has it locked, and tells their keys where
    /// they were found. Changes nothing in the store.
    pub fn look_ahead(&self, db: DbIndex, plans: &mut [Plan<'_>]) {
        if self.is_deep() {
            self.prefetch(db, plans);
        }
    }

    /// Whether [`Engine::look_ahead`] and its like do anything.
    #[inline]
    pub(crate) fn is_deep(&self) -> bool {
        self.deep.load(Ordering::Relaxed)
    }

    fn prefetch(&self, db: DbIndex, plans: &mut [Plan<'_>]) {
        let collections = plans
            .iter()
            .any(|plan| plan.row.is_some_and(is_about_collections));
        for plans in plans.chunks_mut(AHEAD) {
            self.prefetch_some(db, plans, collections);
        }
    }

    /// Does so for up to [`AHEAD`] of them. The shards are only tried, and held together for as long as that takes: a lock
    /// for each step would keep the steps from overlapping.
    fn prefetch_some(&self, db: DbIndex, plans: &mut [Plan<'_>], collections: bool) {
        let count = self.shards.count();
        for key in plans.iter().filter_map(|plan| plan.key) {
            self.shards.prefetch(key.shard(count));
        }
        let mut held = SmallVec::<[(usize, Guard<'_, Cell>); AHEAD]>::new();
        // For each plan, the position of its shard among those held; one that is not if there is none.
        let mut positions = SmallVec::<[u8; AHEAD]>::new();
        for plan in &*plans {
            let mut position = usize::MAX;
            if let Some(key) = plan.key {
                let index = key.shard(count);
                if let Some(cell) = self.shards.try_lock_once(index) {
                    position = held.len();
                    held.push((index, cell));
                } else if let Some(other) = held.iter().position(|(other, _)| *other == index) {
                    position = other;
                }
            }
            positions.push(position as u8);
        }
        let mut lookups = SmallVec::<[Ahead<'_, '_>; AHEAD]>::new();
        let mut owners = SmallVec::<[u8; AHEAD]>::new();
        for (number, (plan, position)) in plans.iter().zip(positions).enumerate() {
            if let Some(key) = plan.key
                && let Some((_, cell)) = held.get(usize::from(position))
                && let Some(ahead) = cell.ahead(db, key)
            {
                lookups.push(ahead);
                owners.push(number as u8);
            }
        }
        look_ahead(&mut lookups, collections);
        for (ahead, number) in lookups.iter().zip(owners) {
            plans[usize::from(number)].key = Some(ahead.key());
        }
    }

    /// Does so for a command on several keys, whose shards are held.
    pub(crate) fn look_ahead_of(&self, call: &Call<'_>, keys: &mut [Key<'_>], held: &LockSet<'_>) {
        let count = self.shards.count();
        for keys in keys.chunks_mut(AHEAD) {
            let mut lookups = SmallVec::<[Ahead<'_, '_>; AHEAD]>::new();
            let mut owners = SmallVec::<[usize; AHEAD]>::new();
            for (number, key) in keys.iter().enumerate() {
                if let Some(ahead) = held.held_cell(key.shard(count)).ahead(call.db, *key) {
                    lookups.push(ahead);
                    owners.push(number);
                }
            }
            look_ahead(&mut lookups, is_about_collections(call.row));
            for (ahead, number) in lookups.iter().zip(owners) {
                keys[number] = ahead.key();
            }
        }
    }
}

/// Whether the command reads collections.
pub(crate) fn is_about_collections(row: &Row) -> bool {
    matches!(
        row.group,
        Group::List | Group::Set | Group::Hash | Group::SortedSet | Group::Stream
    )
}

#[cfg(test)]
mod tests {
    use tollgate_limiter::Timestamp;
    use tollgate_wire::resp::{Protocol, ReplyBuf};

    use super::*;
    use crate::session::tests::NoNode;
    use crate::{EngineConfig, Session};

    #[test]
    fn planned_commands_answer_as_others_do() {
        let commands: &[&[&[u8]]] = &[
            &[b"SET", b"key", b"a value of some length"],
            &[b"GET", b"key"],
            &[b"GET", b"none"],
            &[b"INCR", b"key"],
            &[b"RPUSH", b"list", b"a", b"b"],
            &[b"HSET", b"hash", b"field", b"value"],
            &[b"SADD", b"ints", b"1", b"2"],
            &[b"SADD", b"set", b"member"],
            &[b"ZADD", b"zset", b"1", b"member"],
            &[b"LPOP", b"list"],
            &[b"HGET", b"hash", b"field"],
            &[b"SISMEMBER", b"ints", b"2"],
            &[b"SMEMBERS", b"set"],
            &[b"ZSCORE", b"zset", b"member"],
            &[b"MSET", b"a", b"1", b"b", b"2", b"c", b"3"],
            &[b"MGET", b"a", b"b", b"list", b"c", b"none"],
            &[b"SUNION", b"ints", b"set", b"none"],
            &[b"MGET", b"key", b"none"],
            &[b"nosuch", b"key"],
            &[b"GET"],
            &[b"PING"],
            &[b"CLIENT", b"nosuch"],
            &[b"DEL", b"key", b"none"],
            &[b"GET", b"key"],
        ];
        let run = |ahead: bool| {
            let engine = Engine::new(EngineConfig {
                shards: 4,
                ..EngineConfig::default()
            });
            let (mut session, mut out) = (Session::new(1, true), ReplyBuf::new(Protocol::Resp2));
            engine.deep.store(ahead, Ordering::Relaxed);
            let now = Timestamp::from_millis(1);
            let mut plans: Vec<_> = commands.iter().map(|words| engine.plan(words)).collect();
            if ahead {
                for db in DbIndex::all() {
                    engine.prefetch(db, &mut plans);
                }
            }
            for (number, words) in commands.iter().enumerate() {
                if ahead {
                    let plan = &plans[number];
                    engine.execute_planned(plan, &mut session, words, now, &mut out, &mut NoNode);
                    engine.prefetch(DbIndex::ZERO, &mut plans);
                } else {
                    engine.execute(&mut session, words, now, &mut out, &mut NoNode);
                }
            }
            (
                out.bytes().to_vec(),
                engine.stats().hits,
                engine.stats().misses,
            )
        };
        assert_eq!(run(true), run(false));
    }

    #[test]
    fn only_a_large_store_is_worth_it() {
        let engine = Engine::new(EngineConfig {
            shards: 4,
            ..EngineConfig::default()
        });
        engine.judge_size();
        assert!(!engine.deep.load(Ordering::Relaxed));
        let (mut session, mut out) = (Session::new(1, true), ReplyBuf::new(Protocol::Resp2));
        let value = vec![b'x'; 2 * DEEP];
        let now = Timestamp::from_millis(1);
        engine.execute(
            &mut session,
            &[b"SET", b"key", &value],
            now,
            &mut out,
            &mut NoNode,
        );
        engine.judge_size();
        assert!(engine.deep.load(Ordering::Relaxed));
    }

    #[test]
    fn looking_ahead_leaves_locked_shards_alone() {
        let engine = Engine::new(EngineConfig {
            shards: 1,
            ..EngineConfig::default()
        });
        let mut plans = [engine.plan(&[b"GET", b"key"])];
        engine.for_each_shard(|_| engine.prefetch(DbIndex::ZERO, &mut plans));
    }
}
