//! What one thread knows of the keys it asks for most.

use std::cell::RefCell;
use std::sync::Arc;

use tollgate_limiter::{AlgorithmKind, Cost, Decision, Quota, Timestamp};

use super::lease::{Denial, Lease};
use super::slot::HotSlot;
use crate::Check;

/// Longest key that can be hot, bytes.
pub(super) const KEY_MAX: usize = 64;
/// Places of the table; two keys of one place take turns.
const PLACES: usize = 64;
/// Decisions that make a key hot, within [`SPAN_NANOS`].
const HOT_AFTER: u32 = 64;
const SPAN_NANOS: u64 = 10_000_000;
/// Most votes of a key for its place: so many decisions on others put it out when it is not asked for any more.
const VOTES_MAX: u32 = 1_024;

thread_local! {
    static TABLE: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

/// One key with one limit, as this thread meets it.
pub(super) struct Entry {
    /// The engine; 0: nothing is here.
    engine: u64,
    len: usize,
    /// The first and the last eight bytes: of keys up to 16 bytes they are all.
    ends: (u64, u64),
    algorithm: AlgorithmKind,
    quota: Quota,
    pub(super) lease: Lease,
    pub(super) denial: Denial,
    pub(super) slot: Option<Arc<HotSlot>>,
    /// Asked for often enough.
    pub(super) is_hot: bool,
    /// Units of the last lease.
    pub(super) last_lease: u64,
    /// Decisions since `since`.
    seen: u32,
    /// `seen` when [`take_idle`] last looked.
    seen_before: u32,
    /// Decisions on it less those on others of its place.
    votes: u32,
    since: Timestamp,
    bytes: [u8; KEY_MAX],
}

impl Entry {
    fn empty() -> Entry {
        Entry {
            engine: 0,
            len: 0,
            ends: (0, 0),
            algorithm: AlgorithmKind::FixedWindow,
            quota: Quota::new(0, 1),
            lease: Lease::NONE,
            denial: Denial::NONE,
            slot: None,
            is_hot: false,
            last_lease: 0,
            seen: 0,
            seen_before: 0,
            votes: 0,
            since: Timestamp::from_nanos(0),
            bytes: [0; KEY_MAX],
        }
    }

    fn of(engine: u64, check: &Check<'_>, now: Timestamp) -> Entry {
        let mut entry = Entry {
            engine,
            len: check.key.len(),
            ends: ends(check.key),
            algorithm: check.algorithm,
            quota: check.quota,
            since: now,
            ..Entry::empty()
        };
        entry.bytes[..check.key.len()].copy_from_slice(check.key);
        entry
    }

    /// Its key.
    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The check it answers, of no cost.
    pub(super) fn check<'k>(&self, key: &'k [u8]) -> Check<'k> {
        Check {
            key,
            algorithm: self.algorithm,
            quota: self.quota,
            cost: Cost(0),
            peek: false,
            exact: true,
        }
    }

    #[inline]
    fn is_for(&self, engine: u64, ends: (u64, u64), check: &Check<'_>) -> bool {
        self.engine == engine
            && self.len == check.key.len()
            && self.ends == ends
            && self.quota == check.quota
            && self.algorithm == check.algorithm
            && (check.key.len() <= 16 || self.key() == check.key)
    }

    /// Counts a decision.
    #[inline]
    fn count(&mut self) {
        self.seen = self.seen.saturating_add(1);
        self.votes = (self.votes + 1).min(VOTES_MAX);
    }

    /// Counts a decision that went the way of the lock, and judges whether the key is hot.
    fn note(&mut self, now: Timestamp) {
        self.count();
        let passed = now.nanos().saturating_sub(self.since.nanos());
        let passed = u64::try_from(passed).unwrap_or(u64::MAX).max(SPAN_NANOS);
        let often = u64::from(HOT_AFTER).saturating_mul(passed);
        self.is_hot = u64::from(self.seen) * SPAN_NANOS >= often;
        if passed > SPAN_NANOS {
            (self.since, self.seen, self.seen_before) = (now, 0, 0);
        }
    }
}

/// The first and the last eight bytes of a key; shorter ones are filled with zeros.
#[inline]
fn ends(key: &[u8]) -> (u64, u64) {
    match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => {
            let mut word = [0; 8];
            word[..key.len()].copy_from_slice(key);
            (u64::from_le_bytes(word), 0)
        }
    }
}

#[inline]
fn place(ends: (u64, u64), len: usize) -> usize {
    let mixed = (ends.0 ^ ends.1.rotate_left(32) ^ len as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 58) as usize % PLACES
}

/// The answer, if this thread can give it without asking.
#[inline]
pub(super) fn fast(engine: u64, check: &Check<'_>, now: Timestamp) -> Option<Decision> {
    let ends = ends(check.key);
    TABLE.with(|table| {
        let mut table = table.try_borrow_mut().ok()?;
        let entry = table.get_mut(place(ends, check.key.len()))?;
        if !entry.is_for(engine, ends, check) {
            return None;
        }
        let slot = entry.slot.as_ref()?;
        let mut decision = None;
        if entry.lease.epoch == slot.lease_epoch() {
            decision = entry.lease.spend(check.cost.0, now);
        }
        if decision.is_none() {
            decision = entry.denial.answer(slot.denial_epoch(), check.cost.0, now);
        }
        if decision.is_some() {
            entry.count();
        }
        decision
    })
}

/// Takes the entry of a check out of the table, and with it that of another key whose place it gets. `None`: the place
/// belongs to a key that is asked for more often.
pub(super) fn claim(
    engine: u64,
    check: &Check<'_>,
    now: Timestamp,
) -> Option<(Entry, Option<Entry>)> {
    let ends = ends(check.key);
    TABLE.with(|table| {
        let mut table = table.borrow_mut();
        if table.is_empty() {
            table.resize_with(PLACES, Entry::empty);
        }
        let resident = &mut table[place(ends, check.key.len())];
        let mine = resident.is_for(engine, ends, check);
        // Entries of another engine's are ended by that one, or never: its threads are these.
        if !mine && resident.votes > 0 {
            resident.votes -= 1;
            return None;
        }
        let resident = std::mem::replace(resident, Entry::empty());
        let (mut entry, evicted) = if mine {
            (resident, None)
        } else {
            let evicted = Some(resident).filter(|entry| entry.engine == engine);
            (Entry::of(engine, check, now), evicted)
        };
        entry.note(now);
        Some((entry, evicted))
    })
}

/// Puts an entry in its place.
pub(super) fn put(entry: Entry) {
    let place = place(entry.ends, entry.len);
    TABLE.with(|table| {
        if let Some(resident) = table.borrow_mut().get_mut(place) {
            *resident = entry;
        }
    });
}

/// Takes out an entry that was not asked for since the last look, at least for a while.
pub(super) fn take_idle(engine: u64, now: Timestamp) -> Option<Entry> {
    TABLE.with(|table| {
        let mut table = table.borrow_mut();
        let idle = |entry: &mut Entry| {
            if entry.engine != engine || entry.slot.is_none() {
                return false;
            }
            let seen = std::mem::replace(&mut entry.seen_before, entry.seen);
            let fresh = now >= entry.since && now < entry.since.plus(SPAN_NANOS);
            seen == entry.seen && !fresh
        };
        let place = (0..table.len()).find(|place| idle(&mut table[*place]))?;
        Some(std::mem::replace(&mut table[place], Entry::empty()))
    })
}

/// Whether there is anything that may become idle.
pub(super) fn holds_any(engine: u64) -> bool {
    let held = |entry: &Entry| entry.engine == engine && entry.slot.is_some();
    TABLE.with(|table| table.borrow().iter().any(held))
}
