//! Denials of every limit remembered within bytes, as envoyproxy/ratelimit does with `LOCAL_CACHE_SIZE_IN_BYTES`.
//!
//! A limit that is over is answered here until it can pass again: until its window ends, or for the wait that the store told.
//! So nothing passes that the store would refuse. What comes back meanwhile by way of another service or of the store's own
//! commands is found when the remembered denial is over.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tollgate_limiter::{Act, Cost, Decision, Method, Timestamp};
use tollgate_policy::{HotKey, LimitCheck, Role};

use super::denials::Denial;
use super::layer::{Answer, Here, Layer, Layered};
use super::stats::add;
use super::table::Passing as _;
use crate::backend::Decide;
use crate::config::EnvoyCounters;

/// Parts with a lock each.
const PARTS: usize = 64;
/// What less is taken for, as by envoyproxy/ratelimit: 512 KiB.
const MIN_BYTES: usize = 512 << 10;
/// What a remembered denial weighs besides its key: a hash table has up to 16 places for 7 that are filled, and the key is an
/// allocation of its own.
const ENTRY_BYTES: usize = 16 * SLOT_BYTES / 7 + 16;
const SLOT_BYTES: usize = size_of::<(Box<[u8]>, Denial)>() + 1;

/// How the limits of one request count, which says what becomes of the others when one is known to be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    /// All or none: the others are looked at.
    Together,
    /// Each for itself: the others count.
    Each,
    /// Each for itself, until one is over that is enforced: then the others stay as they are.
    EachUntilOver,
}

/// Denials that a service remembers; its threads share them.
#[derive(Clone)]
pub(crate) struct LocalCache(Arc<Shared>);

struct Shared {
    clock: fn() -> Timestamp,
    counting: Counting,
    /// Keys come from requests: the seed is the system's.
    seed: RandomState,
    parts: Box<[Mutex<Part>]>,
    /// Most bytes of a generation of a part; each part has two.
    generation_bytes: usize,
    counts: Counts,
}

/// When the young are as many as there is room for, they become the old, and the old are forgotten.
#[derive(Default)]
struct Part {
    young: HashMap<Box<[u8]>, Denial>,
    old: HashMap<Box<[u8]>, Denial>,
    young_bytes: usize,
}

impl Part {
    fn remove(&mut self, key: &[u8]) {
        if self.young.remove(key).is_some() {
            self.young_bytes -= weight(key);
        }
        self.old.remove(key);
    }
}

fn weight(key: &[u8]) -> usize {
    key.len() + ENTRY_BYTES
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    expired: AtomicU64,
    evacuated: AtomicU64,
    overwritten: AtomicU64,
}

/// The descriptors of a request that were answered from here.
pub(crate) type Told = RefCell<SmallVec<[usize; 4]>>;

impl LocalCache {
    /// `bytes`, or [`MIN_BYTES`], bound keys and what is remembered of them. `envoy` says how limits count, where not by our own counters.
    pub(crate) fn new(
        bytes: usize,
        envoy: Option<&EnvoyCounters>,
        clock: fn() -> Timestamp,
    ) -> Self {
        let counting = match envoy {
            None => Counting::Together,
            Some(envoy) if envoy.stop_when_over => Counting::EachUntilOver,
            Some(_) => Counting::Each,
        };
        Self(Arc::new(Shared {
            clock,
            counting,
            seed: RandomState::new(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            generation_bytes: bytes.max(MIN_BYTES) / PARTS / 2,
            counts: Counts::default(),
        }))
    }

    /// A backend with this cache before it; what was answered from here is noted.
    pub(crate) fn before<'a, B: Decide + 'a>(
        &'a self,
        backend: B,
        told: &'a Told,
    ) -> impl Decide + 'a {
        let layer = Remembered { cache: self, told };
        Layered::new(layer, backend, self.0.clock)
    }

    /// Units of the key have come back.
    pub(crate) fn forget(&self, key: &[u8]) {
        self.part(key).remove(key);
    }

    /// What it does, by the names of envoyproxy/ratelimit.
    pub(crate) fn gauges(&self) -> [(&'static str, u64); 7] {
        let counts = &self.0.counts;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (hits, misses) = (get(&counts.hits), get(&counts.misses));
        let entries = self.0.parts.iter().map(|part| {
            let part = lock(part);
            (part.young.len() + part.old.len()) as u64
        });
        [
            ("evacuateCount", get(&counts.evacuated)),
            ("expiredCount", get(&counts.expired)),
            ("entryCount", entries.sum()),
            ("hitCount", hits),
            ("missCount", misses),
            ("lookupCount", hits.saturating_add(misses)),
            ("overwriteCount", get(&counts.overwritten)),
        ]
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, Part> {
        let index = self.0.seed.hash_one(key) as usize % PARTS;
        lock(&self.0.parts[index])
    }

    /// A denial that holds for the check now.
    fn find(&self, check: &LimitCheck<'_>, now: Timestamp) -> Option<Decision> {
        let counts = &self.0.counts;
        let mut part = self.part(check.key);
        let known = part
            .young
            .get(check.key)
            .or_else(|| part.old.get(check.key));
        let is_over = known.is_some_and(|denial| denial.is_over(now));
        let found = known.and_then(|denial| denial.told(check, now));
        if is_over {
            part.remove(check.key);
            add(&counts.expired, 1);
        }
        drop(part);
        let counter = if found.is_some() {
            &counts.hits
        } else {
            &counts.misses
        };
        add(counter, 1);
        found
    }

    fn remember(&self, key: &[u8], denial: Denial) {
        let bytes = weight(key);
        let (room, counts) = (self.0.generation_bytes, &self.0.counts);
        if bytes > room {
            return;
        }
        let mut part = self.part(key);
        if let Some(known) = part.young.get_mut(key) {
            *known = denial;
            add(&counts.overwritten, 1);
            return;
        }
        if part.old.remove(key).is_some() {
            add(&counts.overwritten, 1);
        }
        if part.young_bytes + bytes > room {
            let old = std::mem::take(&mut part.young);
            let forgotten = std::mem::replace(&mut part.old, old);
            part.young_bytes = 0;
            add(&counts.evacuated, forgotten.len() as u64);
        }
        part.young_bytes += bytes;
        part.young.insert(key.into(), denial);
    }
}

/// A thread that panicked left whole values behind.
fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the checks of one request.
struct Remembered<'a> {
    cache: &'a LocalCache,
    told: &'a Told,
}

impl Remembered<'_> {
    fn counting(&self) -> Counting {
        self.cache.0.counting
    }
}

impl Layer for Remembered<'_> {
    /// Limits with a strategy have a memory of their own. Places in use come back at any time.
    fn concerns(&self, check: &LimitCheck<'_>) -> bool {
        check.hot_key == HotKey::Exact
            && check.method != Method::Concurrency
            && !matches!(check.act, Act::Hold { .. })
            && (check.cost.0 > 0 || self.counting() != Counting::Together)
    }

    fn here<'c>(&self, check: &LimitCheck<'c>, now: Timestamp) -> Here<'c> {
        if check.role == Role::Refund {
            self.cache.forget(check.key);
            return Here::Ask(*check);
        }
        match self.cache.find(check, now) {
            None => Here::Ask(*check),
            Some(decision) => {
                self.told.borrow_mut().push(check.descriptor);
                Here::Deny(decision)
            }
        }
    }

    fn undo(&self, _: &LimitCheck<'_>, _: bool, _: Timestamp) {}

    fn give_back(&self, check: &LimitCheck<'_>, _: Timestamp) -> u64 {
        self.cache.forget(check.key);
        0
    }

    fn learn(&self, check: &LimitCheck<'_>, answer: &Answer<'_, '_>, _: Timestamp) -> Decision {
        let denial = match self.counting() {
            Counting::Together => Denial::of(check, answer),
            Counting::Each | Counting::EachUntilOver => Denial::of_window(check, answer),
        };
        if let Some(denial) = denial {
            self.cache.remember(check.key, denial);
        }
        answer.decision
    }

    fn denies(&self, check: &LimitCheck<'_>) -> bool {
        match self.counting() {
            Counting::Together => true,
            Counting::Each => false,
            Counting::EachUntilOver => check.role != Role::Shadow,
        }
    }

    fn beside<'c>(&self, check: &LimitCheck<'c>) -> LimitCheck<'c> {
        match self.counting() {
            Counting::EachUntilOver if check.role != Role::Refund => LimitCheck {
                cost: Cost(0),
                ..*check
            },
            Counting::EachUntilOver => *check,
            Counting::Together | Counting::Each => LimitCheck {
                act: Act::Peek,
                ..*check
            },
        }
    }
}
