//! The denial cache: a denial is remembered until it can be over.

use tollgate_limiter::{Decision, Method, Quota, Timestamp};
use tollgate_policy::{HotKey, LimitCheck};

use super::layer::{Answer, Here, Layer, between, told_later};
use super::stats::Stats;
use super::table::{Passing, Table};

/// Stores tell waits in whole milliseconds, rounded up, so the last one is not counted on.
const ROUNDING: u64 = 1_000_000;

/// A denial, as it was told.
pub(super) struct Denial {
    method: Method,
    quota: Quota,
    cost: u64,
    decision: Decision,
    asked_at: Timestamp,
    /// How long it lasts at least.
    lasts: u64,
}

impl Passing for Denial {
    fn is_over(&self, now: Timestamp) -> bool {
        now < self.asked_at || between(self.asked_at, now) >= self.lasts
    }
}

/// Answers from remembered denials.
pub(super) struct Denials<'a> {
    pub(super) known: &'a Table<Denial>,
    pub(super) stats: &'a Stats,
}

impl Layer for Denials<'_> {
    fn concerns(&self, check: &LimitCheck<'_>) -> bool {
        check.cost.0 > 0 && !matches!(check.hot_key, HotKey::Exact | HotKey::WriteBehind { .. })
    }

    fn here<'c>(&self, check: &LimitCheck<'c>, now: Timestamp) -> Here<'c> {
        let known = self.known.with(check.key, |denial| {
            let same = denial.method == check.method
                && denial.quota == check.quota
                && denial.cost <= check.cost.0;
            (same && !denial.is_over(now))
                .then(|| told_later(denial.decision, between(denial.asked_at, now)))
        });
        match known.flatten() {
            Some(decision) => {
                self.stats.saved(check.hot_key);
                Here::Deny(decision)
            }
            None => Here::Ask(*check),
        }
    }

    fn undo(&self, _: &LimitCheck<'_>, _: Timestamp) {}

    fn give_back(&self, check: &LimitCheck<'_>, _: Timestamp) -> u64 {
        self.known.remove(check.key);
        0
    }

    fn learn(&self, check: &LimitCheck<'_>, answer: &Answer<'_, '_>, now: Timestamp) -> Decision {
        self.stats.asked(check.hot_key);
        let decision = answer.decision;
        // What can never pass is told by no time.
        let wait = decision.retry_after.filter(|_| !decision.allowed);
        let lasts = wait.map_or(0, |wait| wait.saturating_sub(ROUNDING));
        if lasts == 0 || !answer.alone {
            return decision;
        }
        let denial = || Denial {
            method: check.method,
            quota: check.quota,
            cost: check.cost.0,
            decision,
            asked_at: answer.asked_at,
            lasts,
        };
        // A full table remembers nothing new, and the store is asked again.
        self.known
            .with_new(check.key, now, denial, |known| *known = denial());
        decision
    }
}
