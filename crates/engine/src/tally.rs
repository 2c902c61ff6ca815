//! Counting the service's decisions for RL.TOP.

use tollgate_keyspace::{DbIndex, Key};
use tollgate_limiter::Decision;

use crate::cell::Cells;
use crate::{Check, Engine, WrongState};

impl Engine {
    /// Whether decisions are counted.
    #[inline]
    pub(crate) fn tallies(&self) -> bool {
        self.limits.limiter_top() != 0
    }

    /// Counts one decision. The key's shard is held.
    #[inline]
    pub(crate) fn tally<H: Cells>(
        &self,
        check: &Check<'_>,
        key: Key<'_>,
        held: &mut H,
        decided: &Result<Decision, WrongState>,
    ) {
        if let Ok(decision) = decided
            && !check.peek
            && check.cost.0 > 0
            && self.tallies()
        {
            let cell = held.cell(key.shard(self.shards.count()));
            cell.decided(DbIndex::ZERO, key, decision.allowed);
        }
    }

    /// Counts the decisions of one request, except those that were only looks (`asked` is false), or would have let pass
    /// what another one denied.
    pub(crate) fn tally_many<H: Cells>(
        &self,
        keys: &[Key<'_>],
        asked: impl Iterator<Item = bool>,
        decisions: &[Decision],
        held: &mut H,
    ) {
        if !self.tallies() {
            return;
        }
        let passed = decisions.iter().all(|decision| decision.allowed);
        for ((key, decision), asked) in keys.iter().zip(decisions).zip(asked) {
            if asked && (passed || !decision.allowed) {
                let cell = held.cell(key.shard(self.shards.count()));
                cell.decided(DbIndex::ZERO, *key, decision.allowed);
            }
        }
    }

    /// Counts decisions that a thread has made on a hot key without its lock, which is held now.
    pub(crate) fn tally_alone<H: Cells>(
        &self,
        key: Key<'_>,
        held: &mut H,
        (allowed, denied): (u64, u64),
    ) {
        if allowed + denied > 0 && self.tallies() {
            let cell = held.cell(key.shard(self.shards.count()));
            cell.decided_elsewhere(DbIndex::ZERO, key, allowed, denied);
        }
    }
}
