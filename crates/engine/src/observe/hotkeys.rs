//! HOTKEYS: the keys on which most time is spent, and those of which most bytes are read and written.
//!
//! While a session is on, commands of connections are timed and their bytes added up for their keys, each of which has an
//! equal share; scripts count as a whole, for the keys that they declare. What is held is bounded: keys are spread over
//! some stripes by their hashes, and each stripe has so many counters ([`HeavyHitters`]). While no session is on, commands
//! are asked nothing that they are not asked anyway.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use tollgate_keyspace::{Key, SLOTS, slot_of};
use tollgate_limiter::Timestamp;
use tollgate_limiter::top::HeavyHitters;

/// Stripes, so that threads seldom wait for each other.
const STRIPES: usize = 16;
/// Counters of one metric in a stripe: as many keys as may be asked for, should all be of one stripe.
const COUNTERS: usize = MOST;
/// Keys that may be asked for.
const MOST: usize = 64;
/// Bytes of a key that are kept, and shown.
const SHOWN_MAX: usize = 4_096;

/// What a session is to track.
#[derive(Debug, Clone)]
pub struct HotKeyOptions {
    /// Time, as if all of it were spent by processors.
    pub cpu: bool,
    /// Bytes of requests and replies.
    pub net: bool,
    /// Keys shown for each metric.
    pub count: usize,
    /// Milliseconds after which the session ends by itself.
    pub duration_ms: Option<i64>,
    /// Of the keys of commands, one in so many is tracked.
    pub sample: u32,
    /// The slots to be tracked, in order; all without.
    pub slots: Option<Vec<u16>>,
}

/// Nanoseconds and bytes of commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Nanoseconds.
    pub nanos: u64,
    /// Bytes.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Total {
    nanos: AtomicU64,
    bytes: AtomicU64,
}

impl Total {
    fn add(&self, spent: Spent) {
        self.nanos.fetch_add(spent.nanos, Ordering::Relaxed);
        self.bytes.fetch_add(spent.bytes, Ordering::Relaxed);
    }

    fn get(&self) -> Spent {
        Spent {
            nanos: self.nanos.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// What a session has found.
#[derive(Debug, Clone)]
pub struct HotKeyReport<F> {
    /// It goes on.
    pub active: bool,
    /// What it was to track.
    pub options: HotKeyOptions,
    /// Unix milliseconds.
    pub started_ms: i64,
    /// Milliseconds so far.
    pub duration_ms: i64,
    /// What the caller has given when it was started.
    pub from: F,
    /// All commands with keys.
    pub all: Spent,
    /// Those on the selected slots.
    pub selected: Spent,
    /// Those of them that were in the sample.
    pub sampled: Spent,
    /// Keys and microseconds, the most first.
    pub by_micros: Vec<(Vec<u8>, u64)>,
    /// Keys and bytes, the most first.
    pub by_bytes: Vec<(Vec<u8>, u64)>,
}

/// Counters of some of the keys.
#[derive(Debug)]
struct Stripe {
    nanos: HeavyHitters,
    bytes: HeavyHitters,
    /// State of the generator that draws the sample.
    random: u64,
}

impl Stripe {
    fn new() -> Stripe {
        let counters = || HeavyHitters::showing(COUNTERS, SHOWN_MAX);
        Stripe {
            nanos: counters(),
            bytes: counters(),
            random: 0,
        }
    }

    /// Whether the next key is in a sample of one in so many.
    fn draws(&mut self, key: &Key<'_>, one_in: u32) -> bool {
        if one_in == 1 {
            return true;
        }
        // Drawn by the hash of the key too, which nobody outside knows.
        self.random = (self.random ^ key.hash())
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(31)
            .wrapping_add(0x2545_F491_4F6C_DD1D);
        (self.random >> 32).is_multiple_of(u64::from(one_in))
    }
}

#[derive(Debug)]
struct Tracking<F> {
    options: HotKeyOptions,
    /// One bit for each slot; none when all are tracked.
    slots: Option<Box<[u64]>>,
    started_ms: i64,
    ended_ms: Option<i64>,
    from: F,
    stripes: [Mutex<Stripe>; STRIPES],
    all: Total,
    selected: Total,
    sampled: Total,
}

impl<F> Tracking<F> {
    fn new(options: HotKeyOptions, from: F, now_ms: i64) -> Tracking<F> {
        let slots = options.slots.as_ref().map(|slots| {
            let mut bits = vec![0; usize::from(SLOTS).div_ceil(64)];
            for &slot in slots {
                bits[usize::from(slot / 64)] |= 1 << (slot % 64);
            }
            bits.into_boxed_slice()
        });
        Tracking {
            options,
            slots,
            started_ms: now_ms,
            ended_ms: None,
            from,
            stripes: std::array::from_fn(|_| Mutex::new(Stripe::new())),
            all: Total::default(),
            selected: Total::default(),
            sampled: Total::default(),
        }
    }

    /// When it ends by itself, Unix milliseconds.
    fn ends_ms(&self) -> i64 {
        let duration = self.options.duration_ms.unwrap_or(i64::MAX);
        self.started_ms.saturating_add(duration)
    }

    fn selects(&self, key: &Key<'_>) -> bool {
        self.slots.as_ref().is_none_or(|slots| {
            let slot = slot_of(key.bytes());
            slots[usize::from(slot / 64)] & 1 << (slot % 64) != 0
        })
    }

    /// Adds what a command has spent on its keys, at least one.
    fn add(&self, keys: &[Key<'_>], spent: Spent) {
        self.all.add(spent);
        // The keys of a command are of one slot wherever slots mean something.
        if !self.selects(&keys[0]) {
            return;
        }
        self.selected.add(spent);
        let share = Spent {
            nanos: spent.nanos / keys.len() as u64,
            bytes: spent.bytes / keys.len() as u64,
        };
        for key in keys {
            let stripe = &self.stripes[(key.hash() >> 48) as usize % STRIPES];
            let mut stripe = lock(stripe);
            if !stripe.draws(key, self.options.sample) {
                continue;
            }
            self.sampled.add(share);
            if self.options.cpu {
                let nanos = share.nanos;
                stripe.nanos.count(0, key.bytes(), key.hash(), nanos, 0);
            }
            if self.options.net {
                let bytes = share.bytes;
                stripe.bytes.count(0, key.bytes(), key.hash(), bytes, 0);
            }
        }
    }

    /// The keys with the most, most first; equal ones by name.
    fn top(&self, of: impl Fn(&Stripe) -> &HeavyHitters) -> Vec<(Vec<u8>, u64)> {
        let mut top = Vec::new();
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            let hitters = of(&stripe).hitters().iter();
            top.extend(hitters.map(|of| (of.shown().to_vec(), of.counted())));
        }
        top.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        top.truncate(self.options.count);
        top
    }
}

impl<F: Clone> Tracking<F> {
    fn report(&self, now_ms: i64) -> HotKeyReport<F> {
        let until = self.ended_ms.unwrap_or(now_ms);
        let mut by_micros = self.top(|stripe| &stripe.nanos);
        // Rounded up: no key that was used has taken no time at all.
        by_micros
            .iter_mut()
            .for_each(|(_, spent)| *spent = spent.div_ceil(1_000));
        HotKeyReport {
            active: self.ended_ms.is_none(),
            options: self.options.clone(),
            started_ms: self.started_ms,
            duration_ms: until.saturating_sub(self.started_ms).max(0),
            from: self.from.clone(),
            all: self.all.get(),
            selected: self.selected.get(),
            sampled: self.sampled.get(),
            by_micros,
            by_bytes: self.top(|stripe| &stripe.bytes),
        }
    }
}

/// The session, if there is one. `F` is what the caller wants to know again of its beginning.
#[derive(Debug)]
pub(super) struct HotKeySession<F> {
    is_active: AtomicBool,
    tracking: RwLock<Option<Tracking<F>>>,
}

impl<F> Default for HotKeySession<F> {
    fn default() -> HotKeySession<F> {
        HotKeySession {
            is_active: AtomicBool::new(false),
            tracking: RwLock::new(None),
        }
    }
}

impl<F> HotKeySession<F> {
    /// Whether commands are tracked, or were until the session's time was over.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Begins a session, in place of one that has ended. False when there is one that has not.
    pub(super) fn start(&self, options: HotKeyOptions, from: F, now: Timestamp) -> bool {
        let mut tracking = self.write(now);
        if tracking.as_ref().is_some_and(|old| old.ended_ms.is_none()) {
            return false;
        }
        *tracking = Some(Tracking::new(options, from, now.millis()));
        self.is_active.store(true, Ordering::Relaxed);
        true
    }

    /// Ends the session; what it has found stays. False when there is none that goes on.
    pub(super) fn stop(&self, now: Timestamp) -> bool {
        let mut tracking = self.write(now);
        let ended = match &mut *tracking {
            Some(tracking) if tracking.ended_ms.is_none() => {
                tracking.ended_ms = Some(now.millis());
                true
            }
            _ => false,
        };
        self.is_active.store(false, Ordering::Relaxed);
        ended
    }

    /// Forgets what a session has found. False when it goes on.
    pub(super) fn reset(&self, now: Timestamp) -> bool {
        let mut tracking = self.write(now);
        let idle = tracking.as_ref().is_none_or(|of| of.ended_ms.is_some());
        if idle {
            *tracking = None;
        }
        idle
    }

    /// Adds what a command has spent on its keys. False when the session's time is over.
    pub(super) fn add(&self, keys: &[Key<'_>], spent: Spent, now: Timestamp) -> bool {
        let tracking = self.tracking.read().unwrap_or_else(PoisonError::into_inner);
        let Some(tracking) = &*tracking else {
            return true;
        };
        if tracking.ended_ms.is_some() {
            return true;
        }
        let in_time = now.millis() < tracking.ends_ms();
        if in_time && !keys.is_empty() {
            tracking.add(keys, spent);
        }
        in_time
    }

    /// Ends the session if its time is over.
    pub(super) fn end_in_time(&self, now: Timestamp) {
        drop(self.write(now));
    }

    /// The session for whoever changes it. One whose time is over has ended.
    fn write(&self, now: Timestamp) -> std::sync::RwLockWriteGuard<'_, Option<Tracking<F>>> {
        // Every field is written whole.
        let mut tracking = self
            .tracking
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(over) = &mut *tracking
            && over.ended_ms.is_none()
            && now.millis() >= over.ends_ms()
        {
            over.ended_ms = Some(over.ends_ms());
            self.is_active.store(false, Ordering::Relaxed);
        }
        tracking
    }
}

impl<F: Clone> HotKeySession<F> {
    /// What the session has found so far, if there is one.
    pub(super) fn report(&self, now: Timestamp) -> Option<HotKeyReport<F>> {
        let tracking = self.write(now);
        tracking.as_ref().map(|of| of.report(now.millis()))
    }
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    // Counters stay counters, whatever a thread left undone.
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tollgate_keyspace::Seed;

    use super::*;

    fn options() -> HotKeyOptions {
        HotKeyOptions {
            cpu: true,
            net: true,
            count: 2,
            duration_ms: None,
            sample: 1,
            slots: None,
        }
    }

    const AT: Timestamp = Timestamp::from_millis(1_000);
    const SPENT: Spent = Spent {
        nanos: 2_500,
        bytes: 33,
    };

    #[test]
    fn keys_have_equal_shares_and_the_most_come_first() {
        let (hot, seed) = (HotKeySession::default(), Seed::new(1));
        assert!(hot.start(options(), 7u8, AT));
        assert!(!hot.start(options(), 8, AT));
        assert!(hot.add(&[seed.key(b"a"), seed.key(b"b")], SPENT, AT));
        assert!(hot.add(&[seed.key(b"b")], SPENT, AT));
        assert!(hot.add(&[seed.key(b"c")], SPENT, AT));
        assert!(hot.add(&[], SPENT, AT));
        let report = hot.report(Timestamp::from_millis(1_250)).expect("one");
        assert_eq!((report.from, report.duration_ms), (7, 250));
        let (nanos, bytes) = (7_500, 99);
        assert_eq!(report.all, Spent { nanos, bytes });
        assert_eq!(report.sampled.bytes, 98);
        let named = |key: &[u8], value| (key.to_vec(), value);
        assert_eq!(report.by_bytes, [named(b"b", 49), named(b"c", 33)]);
        assert_eq!(report.by_micros, [named(b"b", 4), named(b"c", 3)]);
    }

    #[test]
    fn a_session_ends_when_its_time_is_over() {
        let (hot, seed) = (HotKeySession::default(), Seed::new(1));
        let options = HotKeyOptions {
            duration_ms: Some(500),
            ..options()
        };
        assert!(hot.start(options.clone(), (), AT));
        let key = [seed.key(b"k")];
        assert!(hot.add(&key, SPENT, Timestamp::from_millis(1_499)));
        assert!(!hot.add(&key, SPENT, Timestamp::from_millis(1_500)));
        let late = Timestamp::from_millis(9_000);
        let report = hot.report(late).expect("one");
        assert!(!report.active && !hot.is_active());
        assert_eq!((report.duration_ms, report.all), (500, SPENT));
        assert!(!hot.stop(late));
        assert!(hot.start(options, (), late));
        assert!(!hot.reset(late));
        assert!(hot.stop(late) && hot.reset(late));
        assert!(hot.report(late).is_none());
    }

    #[test]
    fn other_slots_and_keys_outside_of_the_sample_are_counted_and_not_shown() {
        let (hot, seed) = (HotKeySession::default(), Seed::new(1));
        let options = HotKeyOptions {
            slots: Some(vec![slot_of(b"in")]),
            sample: 4,
            ..options()
        };
        assert!(hot.start(options, (), AT));
        for _ in 0..4_000 {
            assert!(hot.add(&[seed.key(b"in")], SPENT, AT));
            assert!(hot.add(&[seed.key(b"out")], SPENT, AT));
        }
        let report = hot.report(AT).expect("one");
        assert_eq!(report.all.bytes, 8_000 * 33);
        assert_eq!(report.selected.bytes, 4_000 * 33);
        let sampled = report.sampled.bytes / 33;
        assert!((800..1_200).contains(&sampled), "{sampled} of 4000");
        assert_eq!(report.by_bytes, [(b"in".to_vec(), sampled * 33)]);
    }

    #[test]
    fn a_flood_of_long_keys_takes_no_more_memory_and_hides_nothing() {
        let (hot, seed) = (HotKeySession::default(), Seed::new(1));
        assert!(hot.start(options(), (), AT));
        let mut long = vec![b'x'; 2 * SHOWN_MAX];
        for number in 0..4_000u32 {
            long[..4].copy_from_slice(&number.to_le_bytes());
            assert!(hot.add(&[seed.key(&long)], SPENT, AT));
            if number % 20 == 0 {
                assert!(hot.add(&[seed.key(b"hot")], SPENT, AT));
            }
        }
        let tracking = hot.tracking.read().expect("nobody has panicked");
        let tracking = tracking.as_ref().expect("one");
        let held: usize = tracking
            .stripes
            .iter()
            .map(lock)
            .map(|stripe| stripe.bytes.memory() + stripe.nanos.memory())
            .sum();
        assert!(held < 2 * STRIPES * COUNTERS * (SHOWN_MAX + 256), "{held}");
        assert_eq!(tracking.report(AT.millis()).by_bytes[0].0, b"hot");
    }
}
