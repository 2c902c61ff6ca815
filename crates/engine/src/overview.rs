//! What all shards together hold, for those who want to know it while others use them.
//!
//! A long command may hold a shard for seconds. Whoever counts does not wait for it: the shard is told of as it was when
//! it was last looked at.

use std::time::Duration;

use parking_lot::Mutex;
use tollgate_keyspace::{DATABASES, DbIndex, Shard, ShardStats};
use tollgate_limiter::Timestamp;
use tollgate_net::threads;

use crate::Engine;
use crate::cell::{Cell, Cells};
use crate::engine::DatabaseSize;
use crate::held::with_held;
use crate::lock::Guard;

/// Pauses between looks at shards that others use, for one round over all shards: a few commands' time.
const PATIENCE: u32 = 64;
const PAUSE: Duration = Duration::from_micros(50);

/// Times to live that were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TtlSample {
    /// How many.
    pub count: u64,
    /// Their sum in milliseconds; what exceeds the range is the largest number.
    pub sum_ms: i64,
}

impl TtlSample {
    /// Their average in milliseconds; 0 without any.
    pub fn average_ms(self) -> i64 {
        match i64::try_from(self.count) {
            Ok(count @ 1..) => self.sum_ms / count,
            _ => 0,
        }
    }

    fn add(&mut self, other: TtlSample) {
        self.count += other.count;
        self.sum_ms = self.sum_ms.saturating_add(other.sum_ms);
    }
}

/// What the shards hold and have counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// Bytes held by tables, keys and values.
    pub bytes: usize,
    /// Keys of each database.
    pub databases: [DatabaseSize; DATABASES],
    /// Some of the times to live in each database.
    pub ttls: [TtlSample; DATABASES],
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Entries removed because their time had come.
    pub expired: u64,
    /// Fields of hashes removed because they expired.
    pub expired_fields: u64,
}

/// What one shard told when it was last looked at.
#[derive(Debug, Clone, Default)]
struct Seen {
    bytes: usize,
    stats: ShardStats,
    /// Of the databases that have keys.
    databases: Vec<(DbIndex, DatabaseSize, TtlSample)>,
}

impl Seen {
    /// `sample`: the time, and random bits, when times to live are wanted.
    fn look(&mut self, shard: &Shard, sample: Option<(Timestamp, u64)>) {
        self.bytes = shard.memory();
        self.stats = shard.stats();
        self.databases.clear();
        for db in DbIndex::all() {
            let size = DatabaseSize {
                keys: shard.len(db),
                expiring: shard.expiring(db),
            };
            if size.keys == 0 {
                continue;
            }
            let ttls = sample.filter(|_| size.expiring > 0).map(|(now, bits)| {
                let (count, sum_ms) = shard.sample_ttls(db, now.millis(), bits);
                TtlSample { count, sum_ms }
            });
            self.databases.push((db, size, ttls.unwrap_or_default()));
        }
    }

    fn add_to(&self, all: &mut Overview) {
        all.bytes += self.bytes;
        all.hits += self.stats.hits;
        all.misses += self.stats.misses;
        all.expired += self.stats.expired;
        all.expired_fields += self.stats.expired_fields;
        for (db, size, ttls) in &self.databases {
            let sum = &mut all.databases[db.get()];
            sum.keys += size.keys;
            sum.expiring += size.expiring;
            all.ttls[db.get()].add(*ttls);
        }
    }
}

/// What each shard told last; empty before anybody asked.
#[derive(Debug, Default)]
pub(crate) struct LastSeen(Mutex<Vec<Seen>>);

impl Engine {
    /// What all shards hold, one counted after the other. `ttls_at`: looks at some times to live too, at that time. Inside
    /// a transaction of this thread the shards are as it sees them.
    pub fn overview(&self, ttls_at: Option<Timestamp>) -> Overview {
        let mut random = crate::walk::random(ttls_at.unwrap_or_default());
        let mut all = Overview::default();
        let mut seen = self.last_seen.0.lock();
        seen.resize_with(self.shards.count(), Seen::default);
        let mut pauses = 0;
        with_held(|mut held| {
            for (index, seen) in seen.iter_mut().enumerate() {
                let sample = ttls_at.map(|now| (now, random.next_u64()));
                if let Some(held) = &mut held {
                    if held.acquire_unless_kept(index) {
                        seen.look(held.cell(index), sample);
                    }
                } else if let Some(cell) = self.lock_in_time(index, &mut pauses) {
                    seen.look(&cell, sample);
                }
                seen.add_to(&mut all);
            }
        });
        all
    }

    /// A shard, unless others use it for longer than is waited for; `pauses`: how often it was, for all shards together.
    fn lock_in_time(&self, index: usize, pauses: &mut u32) -> Option<Guard<'_, Cell>> {
        loop {
            let guard = self.shards.try_lock(index);
            if guard.is_some() || self.shards.is_kept(index) || *pauses == PATIENCE {
                return guard;
            }
            *pauses += 1;
            threads::stand_still(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;

    #[test]
    fn what_is_held_is_told_as_it_was() {
        let engine = Engine::new(EngineConfig {
            shards: 2,
            ..EngineConfig::default()
        });
        let now = Timestamp::from_nanos(1_000_000_000);
        let db = DbIndex::default();
        for number in 0..100 {
            engine.add_missing(1, (db, format!("k{number}").as_bytes()), b"v", now);
        }
        let before = engine.overview(None);
        assert_eq!(before.databases[0].keys, 100);
        let mut cell = engine.shards.lock(1);
        cell.clear(db);
        assert_eq!(engine.overview(None), before);
        drop(cell);
        assert!(engine.overview(None).databases[0].keys < 100);
    }
}
