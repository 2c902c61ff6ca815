//! Housekeeping of loop 0: removing expired keys, sampling the rates, judging the size of the data.
//!
//! Rounds are short, so that no client waits for long, and follow each other quickly while many keys are expired: at
//! most a quarter of one core. Without keys that expire, and without clients that
//! could make some, the loop sleeps for a second at a time.

use crate::allocator::{self, Leavings};
use crate::aof;
use crate::eviction;
use crate::metrics::Traffic;
use crate::replication;
use crate::shared::Shared;
use crate::snapshot::save_when_due;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tollgate_limiter::Timestamp;
use tollgate_net::Clock;

/// Length of a round that finds little, in nanoseconds.
const SHORT_ROUND: i64 = 250_000;
/// Longest round.
const LONG_ROUND: i64 = 1_000_000;
/// Pause between rounds while many keys are expired: three times as long as a round.
const PAUSE: i64 = 3 * LONG_ROUND;
/// Time to the next look when nothing expires.
const IDLE: i64 = 1_000_000_000;
/// So long after the last command rounds follow each other as if keys expired.
const ACTIVE: i64 = 10 * IDLE;
/// Time between two looks whether much memory is free that the system does not have back.
const GIVE_BACK: i64 = 5 * IDLE;
/// Buckets looked at between two readings of the clock.
const BUCKETS: usize = 256;
/// A step finds many if it removes one entry for so many buckets.
const BUCKETS_PER_ENTRY: usize = 4;

/// When what is not done in every round is due.
#[derive(Debug, Default)]
pub(crate) struct House {
    size_at: i64,
    /// When what is recorded of uses was last looked at, in Unix milliseconds.
    aged_ms: Option<i64>,
    give_back_at: i64,
    leavings: Leavings,
    /// Commands of all threads when it was last looked.
    commands: u64,
    /// Until when clients count as active.
    active_until: i64,
}

impl House {
    /// Whether clients have sent anything for a while. What they will do next may expire soon.
    fn is_active(&mut self, commands: u64, now: i64) -> bool {
        if self.commands != commands {
            self.commands = commands;
            self.active_until = now + ACTIVE;
        }
        now < self.active_until
    }
}

/// What is due once a second, at the most.
fn each_second(house: &mut House, shared: &Arc<Shared>, now: i64) {
    let data = shared.engine.judge_size();
    if let Some(data) = data.filter(|_| now >= house.give_back_at) {
        house.give_back_at = now + GIVE_BACK;
        let (resident, data) = (shared.resident(), data as u64);
        allocator::give_back_when_much(resident, data, &shared.workers);
        let commands = shared.metrics.commands();
        if house.leavings.are_many(resident, data, commands) {
            shared.mailboxes.shrink_all().ok();
        }
    }
    let now_ms = Timestamp::from_nanos(now).millis();
    let since = house.aged_ms.replace(now_ms).unwrap_or(now_ms);
    shared.engine.age(since, Timestamp::from_nanos(now));
    replication::tend(shared, Timestamp::from_nanos(now));
    shared
        .engine
        .tend_snapshot(Clock::monotone() / 1_000_000_000);
    if !shared.engine.is_kept() {
        // Both lock all shards.
        save_when_due(shared, Timestamp::from_nanos(now));
        aof::tend(shared);
    }
    eviction::tend(shared);
    shared.clients.check_times();
    shared.engine.turn_away_waiters();
    shared.audit_memory();
}

/// Does what is due and tells when to come back, in clock nanoseconds.
pub(crate) fn keep_house(
    house: &mut House,
    shared: &Arc<Shared>,
    traffic: &mut Traffic,
    now: i64,
) -> i64 {
    if !shared.housekeeping.load(Ordering::Relaxed) {
        return now + IDLE;
    }
    shared.metrics.sample(now, shared.replication_bytes());
    if shared.loading.facts().is_some() {
        // What is read of the data is not whole: nothing of it may expire or be saved.
        return now + IDLE;
    }
    let active = house.is_active(shared.metrics.commands(), now);
    if now >= house.size_at {
        house.size_at = now + IDLE;
        each_second(house, shared, now);
    }
    shared.engine.do_what_was_left(Timestamp::from_nanos(now));
    shared.engine.tracking().trim();
    let paused = shared.engine.pause();
    paused.end_in_time(Timestamp::from_nanos(now));
    if let Some(until_ms) = paused.until_ms() {
        // Nothing expires meanwhile: what clients see stands still.
        return (now + IDLE).min(until_ms.saturating_mul(1_000_000));
    }
    eviction::evict(shared);
    let short = shared.engine.make_room(Timestamp::from_nanos(now));
    if shared.active_expire.load(Ordering::Relaxed) {
        shared.engine.expire_own(Timestamp::from_nanos(now));
    }
    let start = Clock::monotone();
    let (mut examined, mut removed, mut cut_short) = (0, 0, false);
    let pause = loop {
        if !shared.active_expire.load(Ordering::Relaxed) {
            break IDLE;
        }
        let step = shared
            .engine
            .expire_step(Timestamp::from_nanos(now), BUCKETS);
        examined += step.examined;
        removed += step.removed;
        let elapsed = Clock::monotone() - start;
        let many = step.removed * BUCKETS_PER_ENTRY >= step.examined;
        if step.examined < BUCKETS || (elapsed >= SHORT_ROUND && !many) {
            break IDLE / shared.settings.hz() as i64;
        }
        if elapsed >= LONG_ROUND {
            cut_short = true;
            break PAUSE;
        }
    };
    let took = Clock::monotone() - start;
    let at = Timestamp::from_nanos(now);
    shared
        .engine
        .observer()
        .cycle_took("expire-cycle", took, at);
    traffic.expiry_nanos += took as u64;
    shared.metrics.expiry.note(removed, examined, cut_short);
    match examined {
        _ if short => now + PAUSE,
        0 if active => now + IDLE / shared.settings.hz() as i64,
        0 => now + IDLE,
        _ => now + pause,
    }
}
