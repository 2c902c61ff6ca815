//! Looking ahead: what can be done for the commands of a pipeline before the first one runs.
//!
//! In a store larger than the caches most of a command's time is waiting for memory. The commands of a pipeline wait
//! together if each step of their lookups is taken for all of them before the next step. In a small store that would be
//! work for nothing: a tenth of the time of a GET (measured).

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use tollgate_commands::{CmdError, Group, Row, resolve};
use tollgate_keyspace::{Ahead, DbIndex, Key, look_ahead};

use std::sync::atomic::Ordering;

use crate::Engine;
use crate::cell::Cell;
use crate::keys::has_one_first_key;

/// Bytes of data from which looking ahead pays: about what the cache of one core holds.
const DEEP: usize = 1 << 20;

/// Lookups made ahead together, and so locks held for it: as many as a core waits for at once.
pub(crate) const AHEAD: usize = 16;

/// A command as far as it is known without running it.
pub struct Plan<'a> {
    pub(crate) row: Result<&'static Row, CmdError>,
    /// The key, of a command that has exactly one and has it as word 1.
    pub(crate) key: Option<Key<'a>>,
}

impl Plan<'_> {
    /// The command's row, if there is such a command.
    pub fn row(&self) -> Option<&'static Row> {
        self.row.as_ref().ok().copied()
    }
}

impl Engine {
    /// Looks up a command and hashes its key. The words that are given here must be given to
    /// [`Engine::execute_planned`].
    #[inline]
    pub fn plan<'a>(&self, args: &[&'a [u8]]) -> Plan<'a> {
        let row = resolve(args);
        let key = match (&row, args) {
            (Ok(row), [_, word, ..]) if has_one_first_key(row) => Some(self.seed.key(word)),
            _ => None,
        };
        Plan { row, key }
    }

    /// Decides by the size of the data whether [`Engine::look_ahead`] does anything; to be called about once a second.
    pub fn judge_size(&self) {
        // Counting waits for every shard.
        if !self.shards.are_kept() {
            self.deep.store(self.memory() > DEEP, Ordering::Relaxed);
        }
    }

    /// Brings what the commands will look at into the cache, as far as nobody else has it locked. Changes nothing.
    pub fn look_ahead(&self, db: DbIndex, plans: &[Plan<'_>]) {
        if self.is_deep() {
            self.prefetch(db, plans);
        }
    }

    /// Whether [`Engine::look_ahead`] and its like do anything.
    #[inline]
    pub(crate) fn is_deep(&self) -> bool {
        self.deep.load(Ordering::Relaxed)
    }

    fn prefetch(&self, db: DbIndex, plans: &[Plan<'_>]) {
        let collections = plans
            .iter()
            .any(|plan| matches!(plan.row, Ok(row) if is_about_collections(row)));
        for plans in plans.chunks(AHEAD) {
            let keys: SmallVec<[Key<'_>; AHEAD]> =
                plans.iter().filter_map(|plan| plan.key).collect();
            self.prefetch_keys(db, &keys, collections);
        }
    }

    /// Brings what lookups of the keys will read into the cache. The shards are only tried, and held together for as long
    /// as that takes: a lock for each step would keep the steps from overlapping.
    fn prefetch_keys(&self, db: DbIndex, keys: &[Key<'_>], collections: bool) {
        let count = self.shards.count();
        for key in keys {
            self.shards.prefetch(key.shard(count));
        }
        let mut held = SmallVec::<[(usize, MutexGuard<'_, Cell>); AHEAD]>::new();
        let mut at = SmallVec::<[(usize, Key<'_>); AHEAD]>::new();
        for key in keys {
            let index = key.shard(count);
            if let Some(cell) = self.shards.try_lock_once(index) {
                at.push((held.len(), *key));
                held.push((index, cell));
            } else if let Some(position) = held.iter().position(|(other, _)| *other == index) {
                at.push((position, *key));
            }
        }
        let mut lookups: SmallVec<[Ahead<'_>; AHEAD]> = at
            .iter()
            .filter_map(|(position, key)| held[*position].1.ahead(db, *key))
            .collect();
        look_ahead(&mut lookups, collections);
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
    use tollgate_commands::{NodeCommand, Reply};
    use tollgate_limiter::Timestamp;
    use tollgate_wire::resp::{Protocol, ReplyBuf};

    use super::*;
    use crate::{EngineConfig, Node, NodeCx, Session};

    struct NoNode;

    impl Node for NoNode {
        fn run(&mut self, _: NodeCommand, _: NodeCx<'_>) -> Result<Reply, CmdError> {
            Ok(Reply::Ok)
        }
    }

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
            let plans: Vec<_> = commands.iter().map(|words| engine.plan(words)).collect();
            if ahead {
                for db in DbIndex::all() {
                    engine.prefetch(db, &plans);
                }
            }
            for (plan, words) in plans.iter().zip(commands) {
                if ahead {
                    engine.execute_planned(plan, &mut session, words, now, &mut out, &mut NoNode);
                    engine.prefetch(DbIndex::ZERO, &plans);
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
        let plans = [engine.plan(&[b"GET", b"key"])];
        engine.for_each_shard(|_| engine.prefetch(DbIndex::ZERO, &plans));
    }
}
