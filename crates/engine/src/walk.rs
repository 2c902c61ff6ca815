//! Access to the whole keyspace for commands that are not about a few keys.

use std::cell::Cell;

use tollgate_commands::{Rng, Walk};
use tollgate_keyspace::Shard;
use tollgate_limiter::Timestamp;

use crate::shards::Shards;

/// Walks with no shard locked beforehand.
pub(crate) struct EngineWalk<'e> {
    shards: &'e Shards,
}

impl<'e> EngineWalk<'e> {
    pub(crate) fn new(shards: &'e Shards) -> EngineWalk<'e> {
        EngineWalk { shards }
    }
}

impl Walk for EngineWalk<'_> {
    fn shard_count(&self) -> usize {
        self.shards.count()
    }

    fn with_shard(&mut self, index: usize, f: &mut dyn FnMut(&mut Shard)) {
        f(&mut self.shards.lock(index));
    }

    fn with_all(&mut self, f: &mut dyn FnMut(usize, &mut Shard)) {
        for (index, shard) in self.shards.lock_all().iter_mut() {
            f(index, shard);
        }
    }
}

/// For commands that the table declares to keep away from the keyspace as a whole.
pub(crate) struct NoWalk;

impl Walk for NoWalk {
    fn shard_count(&self) -> usize {
        0
    }

    fn with_shard(&mut self, _index: usize, _f: &mut dyn FnMut(&mut Shard)) {
        unreachable!("only Run::Keyspace walks");
    }

    fn with_all(&mut self, _f: &mut dyn FnMut(usize, &mut Shard)) {
        unreachable!("only Run::Keyspace walks");
    }
}

thread_local! {
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// A generator that differs from call to call, also within one reading of the clock.
pub(crate) fn random(now: Timestamp) -> Rng {
    let mut seed = Rng::new(RANDOM.get() ^ now.nanos() as u64);
    let bits = seed.next_u64();
    RANDOM.set(bits);
    Rng::new(bits)
}
