//! A share of each limit that this service decides by itself, before it asks for what no service has.

use std::sync::OnceLock;

use tollgate_engine::Handle;
use tollgate_limiter::{Act, Cost, Decision, Quota, Timestamp};
use tollgate_policy::{HotKey, LimitCheck};

use super::layer::{Answer, Here, Layer};
use super::stats::Stats;
use crate::backend::embedded::{check_of, local_store};

/// Decides on local shares.
pub(super) struct Local<'a> {
    /// Made when there is need.
    pub(super) store: &'a OnceLock<Handle>,
    pub(super) stats: &'a Stats,
}

/// What one service has of a limit, and what all of them share at the store.
pub(super) fn split(check: &LimitCheck<'_>) -> Option<(Quota, Quota)> {
    let HotKey::Local {
        share_ppm,
        services,
    } = check.hot_key
    else {
        return None;
    };
    // A part of a u64 fits one.
    let part = |units: u64| (u128::from(units) * u128::from(share_ppm) / 1_000_000) as u64;
    let rest = |units: u64| units.saturating_sub(part(units).saturating_mul(u64::from(services)));
    let of = |of: &dyn Fn(u64) -> u64| Quota {
        limit: of(check.quota.limit),
        burst: of(check.quota.burst),
        ..check.quota
    };
    Some((of(&part), of(&rest)))
}

/// Entries of local shares looked at for their expiry with each decision.
const EXPIRE_BUDGET: usize = 32;

impl Local<'_> {
    fn store(&self, now: Timestamp) -> &Handle {
        let store = self.store.get_or_init(local_store);
        store.engine().expire_step(now, EXPIRE_BUDGET);
        store
    }

    /// Decides on the local share; `None` when the local store has no room.
    fn decide(&self, check: &LimitCheck<'_>, share: Quota, now: Timestamp) -> Option<Decision> {
        let check = LimitCheck {
            quota: share,
            ..*check
        };
        let decided = self.store(now).decide_any(&[check_of(&check)], now);
        decided.ok().and_then(|made| made.first().copied())
    }

    /// Gives units back to the local share, and tells how many had been taken from it.
    fn refund(&self, check: &LimitCheck<'_>, now: Timestamp) -> u64 {
        let Some((share, _)) = split(check) else {
            return 0;
        };
        let look = LimitCheck {
            cost: Cost(0),
            act: Act::Peek,
            ..*check
        };
        let there = self.decide(&look, share, now);
        let used = there.map_or(0, |there| there.limit.saturating_sub(there.remaining));
        let back = LimitCheck {
            quota: share,
            cost: Cost(used.min(check.cost.0)),
            act: Act::Take,
            ..*check
        };
        match self.store(now).refund_any(&check_of(&back), now) {
            Ok(_) => back.cost.0,
            Err(_) => 0,
        }
    }
}

impl Layer for Local<'_> {
    fn concerns(&self, check: &LimitCheck<'_>) -> bool {
        matches!(check.hot_key, HotKey::Local { .. })
    }

    fn here<'c>(&self, check: &LimitCheck<'c>, now: Timestamp) -> Here<'c> {
        let Some((share, rest)) = split(check) else {
            return Here::Ask(*check);
        };
        let ask = LimitCheck {
            quota: rest,
            ..*check
        };
        // What has a name is ended where all services find it.
        if matches!(check.act, Act::Hold { .. }) || check.cost.0 == 0 {
            return Here::Ask(ask);
        }
        match self.decide(check, share, now) {
            Some(decision) if decision.allowed => {
                if check.act != Act::Peek {
                    self.stats.saved(check.hot_key);
                }
                let shared = rest.burst.min(rest.limit);
                Here::Pass(Decision {
                    limit: decision.limit.saturating_add(shared),
                    remaining: decision.remaining.saturating_add(shared),
                    ..decision
                })
            }
            Some(decision) if rest.limit == 0 || rest.burst == 0 => Here::Deny(decision),
            _ => Here::Ask(ask),
        }
    }

    fn undo(&self, check: &LimitCheck<'_>, counts: bool, now: Timestamp) {
        if counts {
            self.refund(check, now);
        }
    }

    fn give_back(&self, check: &LimitCheck<'_>, now: Timestamp) -> u64 {
        self.refund(check, now)
    }

    fn below<'c>(&self, check: &LimitCheck<'c>) -> LimitCheck<'c> {
        match split(check) {
            Some((_, rest)) => LimitCheck {
                quota: rest,
                ..*check
            },
            None => *check,
        }
    }

    fn learn(&self, check: &LimitCheck<'_>, answer: &Answer<'_, '_>, now: Timestamp) -> Decision {
        let decision = answer.decision;
        let Some((share, _)) = split(check) else {
            return decision;
        };
        let look = LimitCheck {
            act: Act::Peek,
            ..*check
        };
        let Some(here) = self.decide(&look, share, now) else {
            return decision;
        };
        // Whichever part has room first.
        let waits = [decision.retry_after, here.retry_after];
        Decision {
            limit: decision.limit.saturating_add(here.limit),
            retry_after: waits.into_iter().flatten().min(),
            reset_after: decision.reset_after.max(here.reset_after),
            ..decision
        }
    }
}
