//! One in so many requests asks, and weighs as many times as much.
//!
//! Which one is drawn, but the account is kept: the units that passed without being paid for never exceed `one_in - 1`
//! for a key, and neither do those that were paid for and have not passed (times the weight of a request). Batches are the
//! same without a draw: the first request pays for all, so that nothing passes unpaid.

use tollgate_limiter::{Act, Cost, Decision, Timestamp};
use tollgate_policy::{HotKey, LimitCheck};

use super::layer::{Answer, Here, Layer, between, is_over};
use super::span;
use super::stats::Stats;
use super::table::{Passing, Table};
use crate::backend::draws::Draws;

/// What a service has paid for a key and not used.
pub(super) struct Account {
    /// Units paid for and not used; below 0: used and not paid for.
    credit: i64,
    /// How far the credit may fall until the next question.
    debt_allowed: i64,
    /// The answer to the latest question, and when that was asked.
    told: Option<(Decision, Timestamp)>,
    asking: bool,
    used_at: Timestamp,
    /// How long units count at most.
    span: u64,
}

impl Account {
    /// What was paid for in another window does not count in this one.
    fn forget_paid(&mut self, now: Timestamp) {
        if self.told.is_some_and(|(told, at)| is_over(&told, at, now)) {
            self.credit = self.credit.min(0);
        }
    }
}

impl Passing for Account {
    fn is_over(&self, now: Timestamp) -> bool {
        between(self.used_at, now) > self.span
    }
}

/// Asks for one in so many.
pub(super) struct Sampled<'a> {
    pub(super) accounts: &'a Table<Account>,
    pub(super) draws: &'a Draws,
    pub(super) stats: &'a Stats,
}

/// How many requests one stands for.
fn one_in(check: &LimitCheck<'_>) -> u64 {
    match check.hot_key {
        HotKey::Probabilistic { one_in } => u64::from(one_in),
        HotKey::Batch { size } => u64::from(size),
        _ => 1,
    }
}

/// Whether a check has one of the two strategies.
fn is_mine(check: &LimitCheck<'_>) -> bool {
    matches!(
        check.hot_key,
        HotKey::Probabilistic { .. } | HotKey::Batch { .. }
    )
}

/// What a request weighs that pays for all, if that could ever pass.
fn weight(check: &LimitCheck<'_>) -> Option<u64> {
    let weight = check.cost.0.checked_mul(one_in(check))?;
    (weight <= check.capacity()).then_some(weight)
}

/// Units as credit is counted.
fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

impl Sampled<'_> {
    /// How far the credit may fall before somebody asks again.
    fn draw(&self, check: &LimitCheck<'_>) -> i64 {
        match check.hot_key {
            HotKey::Batch { .. } => 0,
            _ => signed(self.draws.below(one_in(check))),
        }
    }

    /// Takes back what a request took that was not asked for, as far as the account may hold it; tells whether it did.
    fn refund(&self, check: &LimitCheck<'_>) -> bool {
        if !is_mine(check) {
            return false;
        }
        let most = signed(check.cost.0.saturating_mul(one_in(check) - 1));
        let back = self.accounts.with(check.key, |account| {
            let credit = account.credit.saturating_add(signed(check.cost.0));
            let fits = credit <= most;
            if fits {
                account.credit = credit;
            }
            fits
        });
        back.unwrap_or(false)
    }
}

impl Layer for Sampled<'_> {
    fn concerns(&self, check: &LimitCheck<'_>) -> bool {
        is_mine(check) && check.act == Act::Take && check.cost.0 > 0
    }

    fn here<'c>(&self, check: &LimitCheck<'c>, now: Timestamp) -> Here<'c> {
        let Some(weight) = weight(check) else {
            return Here::Ask(*check);
        };
        let new = || Account {
            credit: 0,
            debt_allowed: self.draw(check),
            told: None,
            asking: false,
            used_at: now,
            span: span(check.method, &check.quota).saturating_mul(2),
        };
        let cost = signed(check.cost.0);
        let made = self.accounts.with_new(check.key, now, new, |account| {
            account.used_at = now;
            let told = account.told;
            account.forget_paid(now);
            if account.credit - cost >= -account.debt_allowed {
                account.credit -= cost;
                self.stats.saved(check.hot_key);
                return Here::Pass(Decision {
                    allowed: true,
                    limit: check.capacity(),
                    remaining: told.map_or(check.capacity(), |(told, _)| told.remaining),
                    retry_after: Some(0),
                    reset_after: told.map_or(0, |(told, at)| {
                        told.reset_after.saturating_sub(between(at, now))
                    }),
                });
            }
            // One question pays for all; whoever comes meanwhile pays for itself.
            let pays_for_all = !std::mem::replace(&mut account.asking, true);
            Here::Ask(LimitCheck {
                cost: Cost(if pays_for_all { weight } else { check.cost.0 }),
                ..*check
            })
        });
        // Without room for an account each pays for itself.
        made.unwrap_or(Here::Ask(*check))
    }

    fn undo(&self, check: &LimitCheck<'_>, counts: bool, _: Timestamp) {
        let cost = signed(check.cost.0);
        self.accounts.with(check.key, |account| {
            let most = match counts {
                true => i64::MAX,
                // Debts are let off; what was paid for is over.
                false => account.credit.max(0),
            };
            account.credit = account.credit.saturating_add(cost).min(most);
        });
    }

    fn give_back(&self, check: &LimitCheck<'_>, _: Timestamp) -> u64 {
        match self.refund(check) {
            true => check.cost.0,
            false => 0,
        }
    }

    fn learn(&self, check: &LimitCheck<'_>, answer: &Answer<'_, '_>, now: Timestamp) -> Decision {
        let decision = answer.decision;
        let paid = answer.asked.cost.0;
        self.accounts.with(check.key, |account| {
            account.forget_paid(now);
            if account.told.is_none_or(|(_, at)| at <= answer.asked_at) {
                account.told = Some((decision, answer.asked_at));
            }
            if paid > check.cost.0 {
                account.asking = false;
                if answer.taken && !is_over(&decision, answer.asked_at, now) {
                    account.credit = account.credit.saturating_add(signed(paid - check.cost.0));
                    account.debt_allowed = self.draw(check);
                }
            }
            if !decision.allowed {
                account.debt_allowed = 0;
            }
        });
        decision
    }

    fn failed(&self, check: &LimitCheck<'_>, asked: &LimitCheck<'_>) {
        if asked.cost > check.cost {
            self.accounts.with(check.key, |account| {
                account.asking = false;
                account.debt_allowed = 0;
            });
        }
    }
}
