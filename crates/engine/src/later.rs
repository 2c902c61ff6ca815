//! What is left to do with shards that a long command holds: nobody need wait for it, and no event loop may.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_limiter::Timestamp;

use crate::cell::Cell;
use crate::shards::Visit;
use crate::waiter::Waiter;
use crate::{Engine, Session};

/// Something that makes no difference to anybody, however late it is done.
enum Chore {
    /// One connection less watches the key of this name.
    Unwatch(Box<[u8]>),
    /// A waiter whose wait is over leaves the queue of the key of this name.
    Unpark(Box<[u8]>, Arc<Waiter>),
    /// What is recorded of uses has changed.
    Access,
    /// What was counted is forgotten.
    Stats,
}

impl Chore {
    /// What need be done once for a shard, however often it was wanted.
    fn once(&self) -> Option<Once> {
        match self {
            Chore::Unwatch(_) | Chore::Unpark(..) => None,
            Chore::Access => Some(Once::Access),
            Chore::Stats => Some(Once::Stats),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Once {
    Access,
    Stats,
}

/// Chores, each with the shard it is about. There are no more of one connection than it has watches and waits, and no more
/// of the others than shards.
#[derive(Default)]
struct Chores {
    all: Vec<(usize, Chore)>,
    once: HashSet<(usize, Once)>,
}

impl Chores {
    fn add(&mut self, shard: usize, chore: Chore) {
        let is_new = chore
            .once()
            .is_none_or(|once| self.once.insert((shard, once)));
        if is_new {
            self.all.push((shard, chore));
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Later {
    chores: Mutex<Chores>,
    are_there: AtomicBool,
}

impl Engine {
    /// A connection does not watch a key any more.
    pub(crate) fn end_watch(&self, shard: usize, name: Box<[u8]>) {
        self.do_or_leave(shard, Chore::Unwatch(name));
    }

    /// A waiter whose wait is over leaves the queue of a key.
    pub(crate) fn end_park(&self, shard: usize, name: &[u8], waiter: &Arc<Waiter>) {
        self.do_or_leave(shard, Chore::Unpark(name.into(), Arc::clone(waiter)));
    }

    /// A shard records of uses what is wanted now.
    pub(crate) fn follow_access(&self, shard: usize) {
        self.do_or_leave(shard, Chore::Access);
    }

    /// A shard forgets what it has counted.
    pub(crate) fn reset_stats_of(&self, shard: usize) {
        self.do_or_leave(shard, Chore::Stats);
    }

    fn do_or_leave(&self, shard: usize, chore: Chore) {
        match self.shards.lock_unless_kept(shard) {
            Some(mut cell) => self.carry_out(&mut cell, &chore),
            None => {
                self.later.chores.lock().add(shard, chore);
                self.later.are_there.store(true, Ordering::Release);
            }
        }
    }

    fn carry_out(&self, cell: &mut Cell, chore: &Chore) {
        // Read under the lock: who begins to listen tells the shards one by one, and is not to be undone.
        let heard = self.listeners.hear_expired();
        match chore {
            Chore::Unwatch(name) => cell.unwatch(name, heard),
            Chore::Unpark(name, waiter) => cell.unpark(name, waiter, heard),
            Chore::Access => cell.set_access(*self.memory.access.lock()),
            Chore::Stats => cell.reset_stats(),
        }
    }

    /// To be called now and then: does what had to be left since a long command held the shards for it.
    pub fn do_what_was_left(&self, now: Timestamp) {
        if self.later.are_there.swap(false, Ordering::Acquire) {
            let chores = std::mem::take(&mut *self.later.chores.lock());
            for (shard, chore) in chores.all {
                self.do_or_leave(shard, chore);
            }
        }
        if self.listeners.has_put_off() {
            self.serve_later(now);
        }
    }

    /// Lets a connection look at all shards without waiting for a long command: none begins until what is returned is
    /// dropped. `None`: one runs, and the connection is told when to try again.
    pub fn look(&self, session: &Session) -> Option<Option<Visit<'_>>> {
        let visit = || self.shards.visit().map(Some);
        self.lock_or_put_off(session.mail.as_ref(), || None, visit)
    }

    /// Whether a long command holds shards, so that who looks at all of them would have to wait for it.
    pub fn is_kept(&self) -> bool {
        self.shards.are_kept()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;

    #[test]
    fn what_is_wanted_again_and_again_is_left_once() {
        let engine = Engine::new(EngineConfig {
            shards: 16,
            ..EngineConfig::default()
        });
        let long = engine.shards.keep_set(&[3, 7]);
        for _ in 0..1_000 {
            engine.reset_stats();
            engine.follow_access(3);
        }
        assert_eq!(engine.later.chores.lock().all.len(), 3);
        drop(long);
        engine.do_what_was_left(Timestamp::from_nanos(0));
        assert!(engine.later.chores.lock().all.is_empty());
        let long = engine.shards.keep_set(&[3]);
        engine.reset_stats();
        assert_eq!(engine.later.chores.lock().all.len(), 1, "it is left again");
        drop(long);
    }
}
