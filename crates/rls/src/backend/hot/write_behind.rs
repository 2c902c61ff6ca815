//! Decides on a local copy of what the store last said, and writes the sum now and then.
//!
//! A copy is a number: what the store had left, less what passed here since. It never grows by itself, so a service alone
//! never admits too much; what comes back at the store is seen with the next answer.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use tollgate_limiter::{Act, Cost, Decision, Method, Nanos, Quota, Timestamp};
use tollgate_policy::{HotKey, LimitCheck, OnError, Role};

use super::layer::{Answer, Here, Layer, ROUNDING, between, told_later};
use super::span;
use super::stats::{Stats, add};
use super::table::{Passing, Table};
use crate::backend::{BackendError, Decide};

/// Sums that are written at the same time.
const MAX_WRITING: usize = 64;
/// Longest pause before a sum is tried again: 1 s.
const RETRY_MAX: Nanos = 1_000_000_000;
/// Shortest wait that a denial tells: 1 ms.
const WAIT_MIN: Nanos = 1_000_000;

/// What a service knows of one counter.
pub(super) struct Counter {
    method: Method,
    quota: Quota,
    interval: Nanos,
    /// Units that passed here and are not written; below 0: written and given back, see [`Counter::forget_given_back`].
    pending: i64,
    /// When those given back come to nothing: they were written in a window that ends then.
    given_back_until: Timestamp,
    /// Units on their way to the store.
    writing: i64,
    /// Units of requests that have been asked for at the store and have no answer yet: it may have counted them.
    asking: u64,
    /// Those of the pending ones that the store had no room for.
    over: i64,
    /// What may still pass here; `None`: the store must be asked.
    budget: Option<u64>,
    told: Decision,
    asked_at: Timestamp,
    /// When the store was heard last.
    heard_at: Timestamp,
    /// Somebody was denied since the latest answer.
    wanted: bool,
    write_at: Timestamp,
    /// Failures since the latest answer.
    failures: u32,
    passed_at: Timestamp,
}

impl Passing for Counter {
    fn is_over(&self, now: Timestamp) -> bool {
        let is_idle = self.pending <= 0 && self.writing == 0 && self.asking == 0;
        is_idle && between(self.asked_at, now) >= self.interval
    }
}

impl Counter {
    /// What is known before the store has been asked.
    fn new(check: &LimitCheck<'_>, interval: Nanos, now: Timestamp) -> Self {
        Self {
            method: check.method,
            quota: check.quota,
            interval,
            pending: 0,
            given_back_until: now,
            writing: 0,
            asking: 0,
            over: 0,
            budget: None,
            told: Decision::DENIED,
            asked_at: now,
            heard_at: Timestamp::from_nanos(i64::MIN),
            wanted: false,
            write_at: now.plus(interval),
            failures: 0,
            passed_at: now,
        }
    }

    /// The store is asked for a request: its units may be taken there from now on.
    fn ask(&mut self, units: u64) {
        self.asking = self.asking.saturating_add(units);
        self.budget = self.budget.map(|left| left.saturating_sub(units));
    }

    fn fits(&self, check: &LimitCheck<'_>) -> bool {
        self.method == check.method && self.quota == check.quota
    }

    /// What was written for nothing in a window that has ended is not owed to the next.
    fn forget_given_back(&mut self, now: Timestamp) {
        if now >= self.given_back_until {
            self.pending = self.pending.max(0);
        }
    }

    /// What the latest answer says now.
    fn told_now(&self, now: Timestamp) -> Decision {
        told_later(self.told, between(self.asked_at, now))
    }

    /// The store has spoken: it had so much left. If it was heard since it was asked, this may be the older word of the two,
    /// which leaves out what was counted in between.
    fn hear(&mut self, told: Decision, left: u64, asked_at: Timestamp, now: Timestamp) {
        self.wanted = false;
        self.failures = 0;
        if asked_at <= self.heard_at {
            return;
        }
        let unwritten = u64::try_from(self.pending.saturating_add(self.writing)).unwrap_or(0);
        let spoken_for = unwritten.saturating_add(self.asking);
        self.budget = Some(left.saturating_sub(spoken_for));
        self.told = told;
        self.asked_at = asked_at;
        self.heard_at = now;
    }
}

/// A sum on its way to the store. What becomes of it is settled however the writing ends.
struct Sum<'a> {
    counters: &'a Table<Counter>,
    stats: &'a Stats,
    key: Box<[u8]>,
    method: Method,
    quota: Quota,
    units: i64,
    asked_at: Timestamp,
    clock: fn() -> Timestamp,
    /// Units written, and the store's word; `None` while it has not spoken.
    told: Option<(i64, Decision)>,
}

impl Drop for Sum<'_> {
    fn drop(&mut self) {
        let now = (self.clock)();
        self.counters.with(&self.key, |counter| {
            counter.writing -= self.units;
            let Some((written, told)) = self.told else {
                counter.pending += self.units;
                counter.budget = None;
                counter.failures = counter.failures.saturating_add(1);
                let pause = counter.interval << counter.failures.min(10);
                counter.write_at = now.plus(pause.min(RETRY_MAX.max(counter.interval)));
                return;
            };
            let over = self.units - written;
            counter.pending += over;
            let news = over - counter.over;
            counter.over = over;
            add(&self.stats.over_units, u64::try_from(news).unwrap_or(0));
            counter.hear(told, told.remaining, self.asked_at, now);
            counter.write_at = now.plus(counter.interval);
        });
    }
}

impl Sum<'_> {
    fn check(&self, units: i64) -> LimitCheck<'_> {
        let cost = u64::try_from(units).unwrap_or(0);
        LimitCheck {
            key: &self.key,
            method: self.method,
            quota: self.quota,
            cost: Cost(cost),
            role: Role::Enforced,
            act: if cost == 0 { Act::Peek } else { Act::Take },
            descriptor: 0,
            on_error: OnError::DEFAULT,
            hot_key: HotKey::Exact,
            exact: false,
            predecessor: None,
        }
    }
}

/// Decides on copies.
pub(super) struct WriteBehind<'a> {
    pub(super) counters: &'a Table<Counter>,
    pub(super) stats: &'a Stats,
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

impl Layer for WriteBehind<'_> {
    fn concerns(&self, check: &LimitCheck<'_>) -> bool {
        matches!(check.hot_key, HotKey::WriteBehind { .. }) && check.cost.0 > 0
    }

    fn here<'c>(&self, check: &LimitCheck<'c>, now: Timestamp) -> Here<'c> {
        let HotKey::WriteBehind { interval } = check.hot_key else {
            return Here::Ask(*check);
        };
        let new = || Counter::new(check, interval, now);
        // Without room for a copy the store decides each time.
        let known = self.counters.with_new(check.key, now, new, |counter| {
            let here = self.on_copy(counter, check, now);
            if here.is_none() {
                counter.ask(check.cost.0);
            }
            here
        });
        known.flatten().unwrap_or(Here::Ask(*check))
    }

    fn undo(&self, check: &LimitCheck<'_>, counts: bool, _: Timestamp) {
        if counts {
            self.untake(check, check.cost.0);
        }
    }

    fn give_back(&self, check: &LimitCheck<'_>, _: Timestamp) -> u64 {
        let unwritten = self.counters.with(check.key, |counter| {
            u64::try_from(counter.pending).unwrap_or(0)
        });
        let back = unwritten.unwrap_or(0).min(check.cost.0);
        self.untake(check, back);
        if back < check.cost.0 || check.cost.0 == 0 {
            // The store has more from now on: the copy is old.
            self.counters
                .with(check.key, |counter| counter.budget = None);
        }
        back
    }

    fn learn(&self, check: &LimitCheck<'_>, answer: &Answer<'_, '_>, now: Timestamp) -> Decision {
        self.stats.asked(check.hot_key);
        let HotKey::WriteBehind { interval } = check.hot_key else {
            return answer.decision;
        };
        let decision = answer.decision;
        // What a look leaves is what would be left.
        let looked = answer.asked.act == Act::Peek && decision.allowed;
        let more = if looked { check.cost.0 } else { 0 };
        let left = decision.remaining.saturating_add(more);
        self.counters.with(check.key, |counter| {
            counter.asking = counter.asking.saturating_sub(check.cost.0);
            (counter.method, counter.quota, counter.interval) =
                (check.method, check.quota, interval);
            counter.hear(decision, left, answer.asked_at, now);
        });
        decision
    }

    fn failed(&self, check: &LimitCheck<'_>, _: &LimitCheck<'_>) {
        self.counters.with(check.key, |counter| {
            counter.asking = counter.asking.saturating_sub(check.cost.0);
        });
    }
}

impl WriteBehind<'_> {
    /// Decides on the copy; `None` if the store has to be asked.
    fn on_copy<'c>(
        &self,
        counter: &mut Counter,
        check: &LimitCheck<'c>,
        now: Timestamp,
    ) -> Option<Here<'c>> {
        // What has a name is taken at the store itself.
        if matches!(check.act, Act::Hold { .. }) {
            return None;
        }
        counter.forget_given_back(now);
        let budget = counter.budget.filter(|_| counter.fits(check))?;
        let since = between(counter.asked_at, now);
        let unwritten = counter.pending > 0 || counter.writing > 0;
        // The writing of a sum brings a new answer; where there is none the answer must be new itself.
        let is_new = now >= counter.asked_at && (unwritten || since < counter.interval);
        if !is_new || since >= counter.told.reset_after {
            return None;
        }
        let told = counter.told_now(now);
        if check.cost.0 <= budget {
            let left = budget - check.cost.0;
            if check.act == Act::Take {
                counter.budget = Some(left);
                counter.pending += signed(check.cost.0);
                counter.passed_at = now;
                self.stats.saved(check.hot_key);
            }
            return Some(Here::Pass(Decision {
                allowed: true,
                remaining: left,
                retry_after: Some(0),
                ..told
            }));
        }
        let never = check.cost.0 > counter.told.limit;
        let until_written = counter.interval.saturating_sub(since).max(WAIT_MIN);
        let wait = match counter.told.allowed {
            true => Some(until_written),
            false => told.retry_after.map(|wait| wait.max(until_written)),
        };
        counter.wanted = true;
        self.stats.saved(check.hot_key);
        Some(Here::Deny(Decision {
            allowed: false,
            remaining: budget,
            retry_after: wait.filter(|_| !never),
            ..told
        }))
    }

    fn untake(&self, check: &LimitCheck<'_>, units: u64) {
        self.counters.with(check.key, |counter| {
            counter.pending = counter.pending.saturating_sub(signed(units));
            let counts_for = counter.told.reset_after.saturating_sub(ROUNDING);
            counter.given_back_until = counter.asked_at.plus(counts_for);
            counter.budget = counter.budget.map(|left| left.saturating_add(units));
        });
    }

    /// Writes the sums that are due, or all; tells the shortest interval while there is something to look after.
    pub(super) async fn write<B: Decide>(
        &self,
        inner: &B,
        clock: fn() -> Timestamp,
        all: bool,
    ) -> Option<Nanos> {
        let mut due = self.take_due(clock, all);
        while !due.is_empty() {
            let rest = due.split_off(due.len().min(MAX_WRITING));
            join_all(due.into_iter().map(|sum| write_one(inner, sum))).await;
            due = rest;
        }
        let (mut shortest, mut pending) = (None::<Nanos>, 0_u64);
        self.counters.retain(|_, counter| {
            pending = pending.saturating_add(u64::try_from(counter.pending).unwrap_or(0));
            shortest = Some(shortest.map_or(counter.interval, |least| least.min(counter.interval)));
            true
        });
        self.stats.pending_units.store(pending, Ordering::Relaxed);
        shortest
    }

    fn take_due(&self, clock: fn() -> Timestamp, all: bool) -> Vec<Sum<'_>> {
        let now = clock();
        let mut due = Vec::new();
        self.counters.retain(|key, counter| {
            if counter.writing != 0 {
                return true;
            }
            let counted_for = span_of(counter).saturating_mul(2);
            if counter.pending > 0 && between(counter.passed_at, now) > counted_for {
                // They count for nothing any more, wherever they had been written.
                add(&self.stats.lost_units, counter.pending.unsigned_abs());
                counter.pending = 0;
                counter.over = 0;
            }
            let is_due = all || now >= counter.write_at || now < counter.asked_at;
            let has_words = counter.pending > 0 || (counter.wanted && !all);
            if !is_due || !has_words {
                return !counter.is_over(now);
            }
            due.push(self.sum_of(key, counter, clock, now));
            true
        });
        due
    }

    /// What passed on a counter and is not written, on its way from now on.
    fn sum_of(
        &self,
        key: &[u8],
        counter: &mut Counter,
        clock: fn() -> Timestamp,
        now: Timestamp,
    ) -> Sum<'_> {
        counter.writing = counter.pending.max(0);
        counter.pending -= counter.writing;
        Sum {
            counters: self.counters,
            stats: self.stats,
            key: key.into(),
            method: counter.method,
            quota: counter.quota,
            units: counter.writing,
            asked_at: now,
            clock,
            told: None,
        }
    }

    /// Writes what passed on the counters that those of some checks go on from, which would not be carried over otherwise. What
    /// is on its way already is not waited for.
    pub(super) async fn write_predecessors<B: Decide>(
        &self,
        inner: &B,
        checks: &[LimitCheck<'_>],
        clock: fn() -> Timestamp,
    ) {
        let heirs = checks.iter().filter(|check| self.concerns(check));
        for from in heirs.filter_map(|check| check.predecessor) {
            let sum = self.counters.with(from.key, |counter| {
                let is_owed = counter.pending > 0 && counter.writing == 0;
                is_owed.then(|| self.sum_of(from.key, counter, clock, clock()))
            });
            if let Some(sum) = sum.flatten() {
                write_one(inner, sum).await;
            }
        }
    }

    /// Counts what will not be written any more as lost; how many units those are.
    pub(super) fn give_up(&self) -> u64 {
        let mut lost = 0_u64;
        self.counters.retain(|_, counter| {
            lost = lost.saturating_add(u64::try_from(counter.pending).unwrap_or(0));
            false
        });
        add(&self.stats.lost_units, lost);
        lost
    }

    /// Units that are not written yet.
    pub(super) fn unwritten(&self) -> u64 {
        let mut units = 0_u64;
        self.counters.retain(|_, counter| {
            let of = counter.pending.max(0) + counter.writing;
            units = units.saturating_add(of.unsigned_abs());
            true
        });
        units
    }
}

fn span_of(counter: &Counter) -> Nanos {
    span(counter.method, &counter.quota)
}

async fn write_one<B: Decide>(inner: &B, mut sum: Sum<'_>) {
    match write_sum(inner, &sum).await {
        Ok(told) => {
            add(&sum.stats.flushes, 1);
            sum.told = Some(told);
        }
        Err(_) => add(&sum.stats.flush_errors, 1),
    }
}

/// Charges a sum, or as much of it as the store has room for; tells that, and what the store says.
async fn write_sum<B: Decide>(inner: &B, sum: &Sum<'_>) -> Result<(i64, Decision), BackendError> {
    let told = ask(inner, sum, sum.units).await?;
    if told.allowed {
        return Ok((sum.units, told));
    }
    let room = signed(told.remaining).min(sum.units);
    if room == 0 {
        return Ok((0, told));
    }
    let part = ask(inner, sum, room).await?;
    match part.allowed {
        true => Ok((room, part)),
        // Others were faster; the next time will tell.
        false => Ok((
            0,
            Decision {
                remaining: 0,
                ..part
            },
        )),
    }
}

async fn ask<B: Decide>(inner: &B, sum: &Sum<'_>, units: i64) -> Result<Decision, BackendError> {
    sum.stats.asked(HotKey::WriteBehind { interval: 0 });
    let made = inner.decide(&[sum.check(units)]).await?;
    made.first().copied().ok_or_else(BackendError::bad_reply)
}
