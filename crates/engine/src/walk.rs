//! Access to the whole keyspace for commands that are not about a few keys.

use std::cell::Cell;
use std::sync::Arc;

use tollgate_commands::{ClusterNode, Origin, Rng, Walk};
use tollgate_keyspace::Shard;
use tollgate_limiter::Timestamp;

use crate::Engine;
use crate::call::{Call, Long};
use crate::cell::{Cells, One};
use crate::shards::{LockSet, Visit};
use crate::waiter::Mail;

/// Walks for a command of a client. One that changes data has all shards locked; for others they are locked one by one.
pub(crate) struct EngineWalk<'a> {
    engine: &'a Engine,
    call: &'a Call<'a>,
    all: Option<LockSet<'a>>,
    /// It has given up.
    refused: bool,
    /// On a thread that serves connections: what is locked is free soon.
    _visit: Option<Visit<'a>>,
}

impl<'a> EngineWalk<'a> {
    /// `None`: long commands run. The command is to run elsewhere, where it may wait for one shard after the other: while
    /// long commands overlap there is no moment at which all are free. Or it is put off, and the connection of `mail` is
    /// told when to try again. Or a script has made the server busy, and the command, which waits elsewhere, is to be refused.
    pub(crate) fn new(
        engine: &'a Engine,
        call: &'a Call<'a>,
        mail: Option<&'a Arc<dyn Mail>>,
    ) -> Option<EngineWalk<'a>> {
        let shards = &engine.shards;
        let writes = call.row.writes();
        let walk = |all, visit| EngineWalk {
            engine,
            call,
            all,
            refused: false,
            _visit: visit,
        };
        if matches!(call.long, Long::Worker) {
            return match writes {
                true => Some(walk(
                    Some(shards.keep_all_unless(|| gives_up(engine, call))?),
                    None,
                )),
                false => Some(walk(None, None)),
            };
        }
        let patient = || match writes {
            true => walk(Some(shards.lock_all()), None),
            false => walk(None, None),
        };
        let alone = || match writes {
            true => Some(walk(Some(shards.lock_all_unless_kept()?), None)),
            false => Some(walk(None, Some(shards.visit()?))),
        };
        if !matches!(call.long, Long::Elsewhere(_)) {
            return engine.lock_or_put_off(mail, patient, alone);
        }
        let walk = alone();
        if walk.is_none() {
            call.long.moves();
        }
        walk
    }
}

/// Whether a command that waits for a long one is to be refused instead: a script has made the server busy.
fn gives_up(engine: &Engine, call: &Call<'_>) -> bool {
    call.origin == Origin::Client && engine.busy().is_some()
}

impl EngineWalk<'_> {
    /// Whether it has given up: what the command has found is not all there is, and it has changed nothing.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }
}

impl Walk for EngineWalk<'_> {
    fn shard_count(&self) -> usize {
        self.engine.shards.count()
    }

    fn cluster(&self) -> Option<&dyn ClusterNode> {
        self.engine.as_node()
    }

    fn with_shard(&mut self, index: usize, f: &mut dyn FnMut(&mut Shard)) {
        let (engine, call) = (self.engine, self.call);
        if self.refused {
            return;
        }
        let waits = matches!(call.long, Long::Worker);
        let gives_up = || waits && gives_up(engine, call);
        let Some(mut cell) = engine.shards.lock_unless(index, gives_up) else {
            self.refused = true;
            return;
        };
        let mut held = One::new(index, &mut cell, &engine.shards);
        engine.visit(&mut held, index, call.row.writes(), call.now.millis(), f);
        engine.conclude_singly();
        engine.settle(&mut held, call.now);
    }

    fn with_all(&mut self, f: &mut dyn FnMut(usize, &mut Shard)) {
        let (engine, call) = (self.engine, self.call);
        let Some(mut held) = self.all.take() else {
            unreachable!("only commands that write want all shards, and each once");
        };
        for index in 0..engine.shards.count() {
            let mut f = |shard: &mut Shard| f(index, shard);
            let writes = call.row.writes();
            engine.visit(&mut held, index, writes, call.now.millis(), &mut f);
        }
        engine.conclude_singly();
        if call.row.writes() {
            engine.record_sweep(call.db, call.args);
        }
        engine.settle(&mut held, call.now);
    }
}

/// The whole keyspace for a script or a transaction: shards stay locked until it ends, so that it is atomic. The set
/// holds the gate.
pub(crate) struct LockedWalk<'a, 'e> {
    engine: &'a Engine,
    locks: &'a mut LockSet<'e>,
    call: &'a Call<'a>,
}

impl<'a, 'e> LockedWalk<'a, 'e> {
    pub(crate) fn new(
        engine: &'a Engine,
        locks: &'a mut LockSet<'e>,
        call: &'a Call<'a>,
    ) -> LockedWalk<'a, 'e> {
        LockedWalk {
            engine,
            locks,
            call,
        }
    }
}

impl Walk for LockedWalk<'_, '_> {
    fn shard_count(&self) -> usize {
        self.engine.shards.count()
    }

    fn cluster(&self) -> Option<&dyn ClusterNode> {
        self.engine.as_node()
    }

    fn with_shard(&mut self, index: usize, f: &mut dyn FnMut(&mut Shard)) {
        assert!(
            self.locks.acquire(index),
            "the holder of the gate gets every shard"
        );
        let (writes, now_ms) = (self.call.row.writes(), self.call.now.millis());
        self.engine.visit(self.locks, index, writes, now_ms, f);
    }

    fn with_all(&mut self, f: &mut dyn FnMut(usize, &mut Shard)) {
        for index in 0..self.shard_count() {
            self.with_shard(index, &mut |shard| f(index, shard));
        }
        if self.call.row.writes() {
            self.engine.record_sweep(self.call.db, self.call.args);
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
#[inline]
pub(crate) fn random(now: Timestamp) -> Rng {
    // Odd, and not the step by which a generator itself goes on: no two of them run into each other.
    const STEP: u64 = 0xD134_2543_DE82_EF95;
    let bits = RANDOM.get().wrapping_add(STEP);
    RANDOM.set(bits);
    Rng::new(bits ^ now.nanos() as u64)
}
