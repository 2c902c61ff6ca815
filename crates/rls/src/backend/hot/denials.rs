//! The denial cache: a denial is remembered until it can be over.

use tollgate_limiter::{Act, Decision, Method, Nanos, Quota, Timestamp};
use tollgate_policy::{HotKey, LimitCheck, Role};

use super::layer::{Answer, Here, Layer, ROUNDING, between, told_later};
use super::stats::Stats;
use super::table::{Passing, Table};

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// A denial, as it was told.
#[derive(Clone, Copy)]
pub(super) struct Denial {
    method: Method,
    quota: Quota,
    /// The least that is denied.
    cost: u64,
    decision: Decision,
    asked_at: Timestamp,
    /// How long it lasts at least.
    lasts: Nanos,
}

impl Denial {
    /// What can be remembered of an answer, if it denies and nothing else was asked on its key.
    pub(super) fn of(check: &LimitCheck<'_>, answer: &Answer<'_, '_>) -> Option<Self> {
        let decision = answer.decision;
        // What can never pass is told by no time.
        let wait = decision.retry_after.filter(|_| !decision.allowed)?;
        let lasts = wait.saturating_sub(ROUNDING);
        (lasts > 0 && answer.alone).then_some(Self {
            method: check.method,
            quota: check.quota,
            cost: check.cost.0,
            decision,
            asked_at: answer.asked_at,
            lasts,
        })
    }

    /// The same of a counter of envoyproxy/ratelimit, which has grown beyond its limit and stays there until its window ends:
    /// nothing passes until then, whatever it weighs. Its ends are told in seconds of the clock.
    pub(super) fn of_window(check: &LimitCheck<'_>, answer: &Answer<'_, '_>) -> Option<Self> {
        let decision = answer.decision;
        if decision.allowed || check.role == Role::Refund || answer.asked.act != Act::Take {
            return None;
        }
        let nanos = answer.asked_at.nanos();
        let asked_at = Timestamp::from_nanos(nanos - nanos.rem_euclid(NANOS_PER_SEC));
        let lasts = decision.reset_after.saturating_sub(ROUNDING);
        (lasts > 0).then_some(Self {
            method: check.method,
            quota: check.quota,
            cost: 0,
            // Nothing was left before.
            decision: Decision {
                remaining: 0,
                ..decision
            },
            asked_at,
            lasts,
        })
    }

    /// The decision on a check that this denial denies.
    pub(super) fn told(&self, check: &LimitCheck<'_>, now: Timestamp) -> Option<Decision> {
        let same =
            self.method == check.method && self.quota == check.quota && self.cost <= check.cost.0;
        (same && !self.is_over(now)).then(|| told_later(self.decision, between(self.asked_at, now)))
    }
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
        let known = self.known.with(check.key, |denial| denial.told(check, now));
        match known.flatten() {
            Some(decision) => {
                self.stats.saved(check.hot_key);
                Here::Deny(decision)
            }
            None => Here::Ask(*check),
        }
    }

    fn undo(&self, _: &LimitCheck<'_>, _: bool, _: Timestamp) {}

    fn give_back(&self, check: &LimitCheck<'_>, _: Timestamp) -> u64 {
        self.known.remove(check.key);
        0
    }

    fn learn(&self, check: &LimitCheck<'_>, answer: &Answer<'_, '_>, now: Timestamp) -> Decision {
        self.stats.asked(check.hot_key);
        if let Some(denial) = Denial::of(check, answer) {
            // A full table remembers nothing new, and the store is asked again.
            self.known
                .with_new(check.key, now, || denial, |known| *known = denial);
        }
        answer.decision
    }
}
