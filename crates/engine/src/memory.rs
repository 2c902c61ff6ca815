//! The memory limit: what the data take, and which entries go when they take too much.
//!
//! While there is a limit, each cell remembers the bytes that are counted for it, and whoever changes it adds the
//! difference to one sum under the cell's lock. Before a command runs, entries go until the sum fits, a bounded number
//! for each command. Nobody holds a shard meanwhile, so inside a transaction or script nothing goes. Nothing goes either
//! while clients are paused: the data are to stand still for who hands them over.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_commands::gate::Restrictions;
use tollgate_commands::{Effects, Flags, Group, Policy, Row, Run, keys_of};
use tollgate_keyspace::{Access, DbIndex, EntryRef, Order, TypeName, Victim};
use tollgate_limiter::Timestamp;
use tollgate_net::clock::Clock;

use crate::Engine;
use crate::cell::{Cell, Cells, One};

/// Entries that go before one command, if as many must, whatever time that takes. More go as `maxmemory-eviction-tenacity` has
/// it: large values may come faster than so many small ones go. What is left to do is done before the next ones.
const EVICTIONS_MIN: usize = 64;

/// For how long more go, in nanoseconds, as Redis reads the setting; `None`: until memory fits.
fn eviction_nanos(tenacity: i64) -> Option<i64> {
    const STEP: i64 = 50_000;
    match tenacity {
        ..=10 => Some(tenacity.max(0) * STEP),
        11..100 => Some((10.0 * STEP as f64 * 1.15f64.powi(tenacity as i32 - 10)) as i64),
        _ => None,
    }
}

/// When nothing may go, how long limiters are refused before it is looked for again, unless another command writes. A
/// flood of keys must not cost a walk over all shards for each of them.
const PAUSE_MS: i64 = 10;
/// Buckets searched for what has expired when nothing else may go.
const EXPIRY_BUDGET: usize = 1_024;

/// The sum and the counters.
#[derive(Default)]
pub(crate) struct Memory {
    /// Bytes of all cells as they are counted.
    used: AtomicI64,
    /// Bytes of the process that count beside the data and what clients hold.
    overhead: AtomicI64,
    /// Bytes held for clients, counted by whoever has them.
    clients: Arc<AtomicI64>,
    evicted: AtomicU64,
    /// Requests of limiters for which there was no memory.
    refused_limiters: AtomicU64,
    exceeded: Exceeded,
    /// When nothing was found that may go, in Unix milliseconds.
    fruitless: Moment,
    /// When what has expired was last searched for.
    swept: Moment,
    /// What the shards record of uses.
    pub(crate) access: Mutex<Access>,
}

/// For how long data have taken more than they may though others went, in monotone nanoseconds.
#[derive(Default)]
struct Exceeded {
    /// Since when; 0: they do not.
    since: AtomicI64,
    /// Before that.
    before: AtomicI64,
}

impl Exceeded {
    fn note(&self, exceeds: bool, now: i64) {
        if exceeds {
            // It may have begun already.
            self.since
                .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
                .ok();
            return;
        }
        let since = self.since.swap(0, Ordering::Relaxed);
        if since != 0 {
            self.before.fetch_add(now - since, Ordering::Relaxed);
        }
    }
}

/// A time that may be unknown, in Unix milliseconds.
struct Moment(AtomicI64);

impl Default for Moment {
    fn default() -> Moment {
        Moment(AtomicI64::new(i64::MIN))
    }
}

impl Moment {
    /// Less than [`PAUSE_MS`] ago.
    fn is_recent(&self, now: Timestamp) -> bool {
        let passed = now.millis().checked_sub(self.0.load(Ordering::Relaxed));
        passed.is_some_and(|passed| (0..PAUSE_MS).contains(&passed))
    }

    fn set(&self, now: Timestamp) {
        self.0.store(now.millis(), Ordering::Relaxed);
    }

    fn forget(&self) {
        self.0.store(i64::MIN, Ordering::Relaxed);
    }
}

impl Memory {
    /// A new limiter was refused.
    pub(crate) fn refuse_limiter(&self) {
        self.refused_limiters.fetch_add(1, Ordering::Relaxed);
    }
}

/// Milliseconds in which what is recorded of uses is looked at once, of all entries.
const AGING_MS: i64 = 7_200_000;
/// Parts of a shard that are looked at one after the other.
const PARTS: u32 = 1_024;

/// An entry that may go.
struct Candidate {
    shard: usize,
    db: DbIndex,
    victim: Victim,
    /// It may go only if it expires.
    volatile: bool,
}

impl Engine {
    /// Follows the limits `maxmemory`, `maxmemory-policy`, `lfu-log-factor` and `lfu-decay-time`, after one of them was
    /// set with [`Engine::set_limit`].
    pub fn follow_memory_limits(&self) {
        let access = self.limits.access();
        let before = std::mem::replace(&mut *self.memory.access.lock(), access);
        if access != before {
            let left = self.for_each_free_cell(&mut |cell| cell.set_access(access));
            left.for_each(|index| self.follow_access(index));
        }
        let limited = self.limits.maxmemory() > 0;
        let was_limited = self.listeners.limits_memory();
        self.listeners.limit_memory(limited);
        self.memory.fruitless.forget();
        if limited && !was_limited {
            // Those that a long command holds are counted by the next audit.
            drop(self.for_each_free_cell(&mut |cell| self.count_memory(cell)));
        }
    }

    /// Sets one of the limits by its name in the configuration; false when there is none of that name.
    pub fn set_limit(&self, name: &str, value: i64) -> bool {
        self.limits.set(name, value)
    }

    /// To be called now and then while memory is limited: corrects what changes that are not counted one by one have left,
    /// such as loading a snapshot. `overhead`: bytes of the process that count beside the data and what clients hold.
    pub fn audit_memory(&self, overhead: usize) {
        let overhead = i64::try_from(overhead).unwrap_or(i64::MAX);
        self.memory.overhead.store(overhead, Ordering::Relaxed);
        for index in 0..self.shards.count() {
            if let Some(mut cell) = self.shards.try_lock_once(index) {
                self.count_memory(&mut cell);
            }
        }
    }

    /// To be called about once a second: lets what is recorded of uses follow the time, some entries at a time. `since_ms`:
    /// when that was done last. All are looked at every `AGING_MS`. What a long command holds is left for the next time.
    pub fn age(&self, since_ms: i64, now: Timestamp) {
        let (count, now_ms) = (self.shards.count() as i64, now.millis());
        let steps = count * i64::from(PARTS);
        let step_at = |ms: i64| (i128::from(ms) * i128::from(steps) / i128::from(AGING_MS)) as i64;
        let to = step_at(now_ms);
        let mut from = step_at(since_ms).max(to - steps);
        while from < to {
            let part = (from % i64::from(PARTS)) as u32;
            let end = PARTS.min(part + (to - from).min(i64::from(PARTS)) as u32);
            let shard = (from / i64::from(PARTS) % count) as usize;
            if let Some(mut cell) = self.shards.lock_unless_kept(shard) {
                cell.age(part, end, PARTS, now_ms);
            }
            from += i64::from(end - part);
        }
    }

    /// Where bytes held for clients are counted, which the limit covers; 0 while nobody counts them.
    pub fn client_bytes(&self) -> &Arc<AtomicI64> {
        &self.memory.clients
    }

    /// Entries that went because memory was short.
    pub fn evicted(&self) -> u64 {
        self.memory.evicted.load(Ordering::Relaxed)
    }

    /// Requests that were denied since memory was short and the limiter was not there yet.
    pub fn refused_limiters(&self) -> u64 {
        self.memory.refused_limiters.load(Ordering::Relaxed)
    }

    /// For how many milliseconds data have taken more than they may though others went: in all, and this time. `now`: monotone
    /// nanoseconds.
    pub fn exceeded_ms(&self, now: i64) -> (i64, i64) {
        let exceeded = &self.memory.exceeded;
        if exceeded.since.load(Ordering::Relaxed) != 0 {
            exceeded.note(self.listeners.limits_memory() && self.exceeds(), now);
        }
        let since = exceeded.since.load(Ordering::Relaxed);
        let current = if since == 0 { 0 } else { (now - since).max(0) };
        let all = exceeded.before.load(Ordering::Relaxed) + current;
        (all / 1_000_000, current / 1_000_000)
    }

    pub(crate) fn reset_evicted(&self) {
        self.memory.exceeded.since.store(0, Ordering::Relaxed);
        self.memory.exceeded.before.store(0, Ordering::Relaxed);
        self.memory.evicted.store(0, Ordering::Relaxed);
        self.memory.refused_limiters.store(0, Ordering::Relaxed);
    }

    /// Counts what has changed in a cell.
    pub(crate) fn count_memory(&self, cell: &mut Cell) {
        let difference = cell.recount();
        if difference != 0 {
            self.memory.used.fetch_add(difference, Ordering::Relaxed);
        }
    }

    /// Counts what a command has changed in its cells.
    #[cold]
    pub(crate) fn count_held<H: Cells + ?Sized>(&self, held: &mut H) {
        held.each(&mut |_, cell| self.count_memory(cell));
    }

    /// Whether the data, and what counts beside them, take more than they may; only while memory is limited.
    #[inline]
    pub(crate) fn exceeds(&self) -> bool {
        if self.restrictions().contains(Restrictions::KEEPS_ALL) {
            return false;
        }
        self.excess() > 0
    }

    /// Bytes above the limit.
    fn excess(&self) -> i64 {
        let used = self.memory.used.load(Ordering::Relaxed);
        let overhead = self.memory.overhead.load(Ordering::Relaxed);
        let clients = self.memory.clients.load(Ordering::Relaxed);
        let all = used.saturating_add(overhead).saturating_add(clients);
        all.saturating_sub(self.limits.maxmemory())
    }

    /// Lets entries go until memory fits the limit. True when it does not, and nothing may go. The caller holds no shard.
    #[cold]
    pub(crate) fn relieve(&self, now: Timestamp) -> bool {
        if self.memory.fruitless.is_recent(now) {
            return true;
        }
        let started = Clock::monotone();
        let short = self.let_go(now, started);
        if short {
            self.memory.fruitless.set(now);
        }
        let ended = Clock::monotone();
        self.memory.exceeded.note(short || self.exceeds(), ended);
        let took = ended - started;
        self.observer.cycle_took("eviction-cycle", took, now);
        short
    }

    /// `started`: the monotone time at which it begins.
    fn let_go(&self, now: Timestamp, started: i64) -> bool {
        let policy = self.limits.policy();
        let most = eviction_nanos(self.limits.maxmemory_eviction_tenacity());
        let is_over = || most.is_some_and(|most| Clock::monotone() - started >= most);
        // What is told of those that go must not make more of them go.
        let goal = self.memory.used.load(Ordering::Relaxed) - self.excess();
        let mut done = 0;
        while self.memory.used.load(Ordering::Relaxed) > goal && self.exceeds() {
            if self.pause.is_active() || done >= EVICTIONS_MIN && is_over() {
                return false;
            }
            match self.candidate(policy, now) {
                Some(candidate) => self.evict(&candidate, now),
                None if self.sweep(now) => {}
                None => return true,
            }
            done += 1;
        }
        false
    }

    /// Removes what has expired and nobody met yet; true when there was something.
    fn sweep(&self, now: Timestamp) -> bool {
        if self.memory.swept.is_recent(now) {
            return false;
        }
        let removed = self.expire_step(now, EXPIRY_BUDGET).removed;
        if removed == 0 {
            self.memory.swept.set(now);
        }
        removed > 0
    }

    /// A command that may change what may go is about to run.
    #[inline]
    pub(crate) fn look_again(&self, row: &Row) {
        let unchanged = row.group == Group::RateLimit || row.flags.contains(Flags::READONLY);
        if !unchanged && self.listeners.limits_memory() {
            self.memory.fruitless.forget();
        }
    }

    /// Lets entries go as far as memory is short, a bounded number. True when there is more to do. While data are being read
    /// nothing goes, which would be recorded behind them.
    pub fn make_room(&self, now: Timestamp) -> bool {
        !self.is_loading()
            && !self.pause.is_active()
            && self.listeners.limits_memory()
            && self.exceeds()
            && !self.relieve(now)
            && self.exceeds()
    }

    /// The first to go of several entries in several shards.
    fn candidate(&self, policy: Policy, now: Timestamp) -> Option<Candidate> {
        let order = match policy {
            Policy::NoEviction => return None,
            Policy::AllKeysLru
            | Policy::VolatileLru
            | Policy::AllKeysLfu
            | Policy::VolatileLfu
            | Policy::AllKeysLrm
            | Policy::VolatileLrm => Order::Stalest,
            Policy::AllKeysRandom | Policy::VolatileRandom => Order::Random,
            Policy::VolatileTtl => Order::Soonest,
        };
        let samples = usize::try_from(self.limits.maxmemory_samples()).unwrap_or(1);
        let mut random = crate::walk::random(now);
        let start = random.below(self.shards.count());
        // Shards that others use are passed over, unless there is no other; long commands are not waited for.
        for waits in [false, true] {
            let mut best: Option<Candidate> = None;
            let mut found = 0;
            for step in 0..self.shards.count() {
                let shard = (start + step) % self.shards.count();
                let cell = match waits {
                    false => self.shards.try_lock_once(shard),
                    true => self.shards.lock_unless_kept(shard),
                };
                let Some(cell) = cell else { continue };
                let mut any = false;
                for db in DbIndex::all() {
                    let bits = random.next_u64();
                    let (volatile, now_ms) = (policy.is_volatile(), now.millis());
                    let victim = cell.victim(db, order, volatile, samples, bits, now_ms);
                    let Some(victim) = victim else { continue };
                    any = true;
                    if best
                        .as_ref()
                        .is_none_or(|best| victim.score > best.victim.score)
                    {
                        best = Some(Candidate {
                            shard,
                            db,
                            victim,
                            volatile,
                        });
                    }
                }
                found += usize::from(any);
                if found >= samples {
                    break;
                }
            }
            if best.is_some() {
                return best;
            }
        }
        None
    }

    fn evict(&self, candidate: &Candidate, now: Timestamp) {
        let Candidate {
            shard,
            db,
            victim,
            volatile,
        } = candidate;
        let key = self.seed.key(&victim.key);
        let Ok(mut cell) = self.free_cell(*shard) else {
            return;
        };
        let mut effects = Effects::new();
        // It may have become one that stays since it was chosen.
        let stays = |entry: EntryRef<'_>| {
            entry.type_name() == TypeName::RateLimit || *volatile && entry.expires_at_ms().is_none()
        };
        if cell.look(*db, key, now.millis()).is_some_and(stays) {
            return;
        }
        // Removes an expired one, which is no eviction.
        if let Some(value) = cell.discard(*db, key, now.millis()) {
            cell.free(value);
            self.memory.evicted.fetch_add(1, Ordering::Relaxed);
            effects.evicted(*db, &victim.key);
            self.record_gone(*db, &victim.key);
        }
        let mut held = One::new(*shard, &mut cell, &self.shards);
        self.announce(&effects, &mut held, 0);
        self.settle(&mut held, now);
        self.count_held(&mut held);
    }

    /// Whether a command may run although memory is short: it goes on with rate limiters that are there. Only new ones
    /// are refused, since a limit that is forgotten would be admitted once more.
    pub(crate) fn keeps_limiter(
        &self,
        row: &Row,
        args: &[&[u8]],
        db: DbIndex,
        now: Timestamp,
    ) -> bool {
        let (Group::RateLimit, Run::Keys(_)) = (row.group, row.run) else {
            return false;
        };
        let Ok(positions) = keys_of(row, args) else {
            return false;
        };
        positions.iter().all(|&at| {
            let key = self.seed.key(args[at as usize]);
            let cell = self.shards.lock_unless_kept(key.shard(self.shards.count()));
            // What a long command holds is asked for again when it has ended.
            cell.is_none_or(|cell| cell.look(db, key, now.millis()).is_some())
        })
    }

    /// As [`Engine::relieve`] when there is a limit.
    #[inline]
    pub(crate) fn is_out_of_memory(&self, now: Timestamp) -> bool {
        self.listeners.limits_memory()
            && self.exceeds()
            && !self.pause.is_active()
            && self.relieve(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;
    use tollgate_keyspace::ValueRef;

    #[test]
    fn entries_that_nobody_uses_for_days_are_known_and_go_first() {
        let start = Timestamp::from_millis(1_800_000_000_000);
        let later = |secs: i64| Timestamp::from_millis(start.millis() + secs * 1_000);
        let engine = Engine::new(EngineConfig {
            shards: 16,
            ..EngineConfig::default()
        });
        let keys: Vec<String> = (0..1_000).map(|number| format!("key:{number}")).collect();
        let set = |name: &str, secs: i64| {
            let key = engine.seed.key(name.as_bytes());
            let mut cell = engine.shards.lock(key.shard(16));
            let value = ValueRef::Bytes(b"v").to_value();
            cell.set(DbIndex::ZERO, key, value, None, later(secs).millis());
        };
        keys.iter().for_each(|key| set(key, 0));
        let idle = |name: &str, secs: i64| {
            let key = engine.seed.key(name.as_bytes());
            let cell = engine.shards.lock(key.shard(16));
            let entry = cell.look(DbIndex::ZERO, key, later(secs).millis());
            entry.expect("it is there").idle_secs(later(secs).millis())
        };
        let mut secs = 0;
        // Now and then it is late.
        for step in [1, 1, 3, 60, 900].into_iter().cycle() {
            engine.age(later(secs).millis(), later(secs + step));
            secs += step;
            if secs % 7 == 0 {
                for key in &keys {
                    let told = idle(key, secs);
                    assert!(told.abs_diff(secs as u64) <= 256, "{told} for {secs}");
                }
            }
            if secs > 3 * 86_400 {
                break;
            }
        }
        keys[..500].iter().for_each(|key| set(key, secs));
        let old = engine.candidate(Policy::AllKeysLru, later(secs));
        let old = String::from_utf8(old.expect("one may go").victim.key.into());
        assert!(keys[500..].contains(&old.expect("a text")));
    }

    #[test]
    fn what_was_chosen_stays_if_it_does_not_expire_any_more() {
        let now = Timestamp::from_millis(1_000);
        for (volatile, left) in [(Policy::VolatileLru, 1), (Policy::AllKeysLru, 0)] {
            let engine = Engine::new(EngineConfig {
                shards: 1,
                ..EngineConfig::default()
            });
            let set = |expires_at_ms| {
                let value = ValueRef::Bytes(b"v").to_value();
                let key = engine.seed.key(b"k");
                let mut cell = engine.shards.lock(0);
                cell.set(DbIndex::ZERO, key, value, expires_at_ms, now.millis());
            };
            set(Some(9_000));
            let chosen = engine.candidate(volatile, now).expect("it may go");
            set(None);
            engine.evict(&chosen, now);
            assert_eq!(engine.shards.lock(0).len(DbIndex::ZERO), left);
        }
    }
}
