//! What one thread knows of the keys it asks for most.

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
/// Decisions on other keys of its place, and none on its own between them, that put a key out.
const RIVALS_MAX: u32 = 16;

/// One key with one limit, as this thread meets it.
pub(super) struct Entry {
    /// Length of the key; more than [`KEY_MAX`]: nothing is here.
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
    /// Decisions so far.
    seen: u64,
    /// Of them, those that are counted for RL.TOP.
    told: u64,
    /// Denials of this thread alone that are not.
    denied: u64,
    /// `seen` at `since`.
    seen_since: u64,
    since: Timestamp,
    /// `seen` when [`Table::take_idle`] last looked.
    seen_by_idle: u64,
    /// `seen` when another key last wanted the place, and how many did since it was right.
    seen_by_rival: u64,
    rivals: u32,
    bytes: [u8; KEY_MAX],
}

impl Entry {
    fn empty() -> Entry {
        Entry {
            len: usize::MAX,
            ends: (0, 0),
            algorithm: AlgorithmKind::FixedWindow,
            quota: Quota::new(0, 1),
            lease: Lease::NONE,
            denial: Denial::NONE,
            slot: None,
            is_hot: false,
            last_lease: 0,
            seen: 0,
            told: 0,
            denied: 0,
            seen_since: 0,
            since: Timestamp::from_nanos(0),
            seen_by_idle: 0,
            seen_by_rival: 0,
            rivals: RIVALS_MAX,
            bytes: [0; KEY_MAX],
        }
    }

    fn of(check: &Check<'_>, now: Timestamp) -> Entry {
        let mut entry = Entry {
            len: check.key.len(),
            ends: ends(check.key),
            algorithm: check.algorithm,
            quota: check.quota,
            since: now,
            rivals: 0,
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
    fn is_for(&self, ends: (u64, u64), check: &Check<'_>) -> bool {
        self.len == check.key.len()
            && self.ends == ends
            && self.quota == check.quota
            && self.algorithm == check.algorithm
            && (check.key.len() <= 16 || self.key() == check.key)
    }

    /// Counts a decision that went the way of the lock, and judges whether the key is hot.
    fn note(&mut self, now: Timestamp) {
        self.seen += 1;
        self.told += 1;
        let seen = self.seen - self.seen_since;
        let passed = now.nanos().saturating_sub(self.since.nanos());
        let passed = u64::try_from(passed).unwrap_or(u64::MAX).max(SPAN_NANOS);
        self.is_hot =
            seen.saturating_mul(SPAN_NANOS) >= u64::from(HOT_AFTER).saturating_mul(passed);
        if passed > SPAN_NANOS {
            (self.since, self.seen_since) = (now, self.seen);
        }
    }

    /// Decisions that this thread has made alone since it was last asked: allowed, denied.
    pub(super) fn take_alone(&mut self) -> (u64, u64) {
        let alone = self.seen - std::mem::replace(&mut self.told, self.seen);
        let denied = std::mem::take(&mut self.denied);
        (alone - denied, denied)
    }

    /// Another key wants the place; whether it gets it.
    fn gives_way(&mut self) -> bool {
        if self.seen != self.seen_by_rival {
            (self.seen_by_rival, self.rivals) = (self.seen, 0);
        }
        self.rivals = self.rivals.saturating_add(1);
        self.rivals > RIVALS_MAX
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

/// Six well mixed bits.
#[inline]
fn place(ends: (u64, u64), len: usize) -> usize {
    let mixed = (ends.0 ^ ends.1.rotate_left(32) ^ len as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 58) as usize
}

/// The keys of one thread.
pub(super) struct Table(Box<[Entry; PLACES]>);

impl Table {
    pub(super) fn new() -> Table {
        let entries: Vec<Entry> = std::iter::repeat_with(Entry::empty).take(PLACES).collect();
        let entries = entries.into_boxed_slice().try_into();
        Table(entries.unwrap_or_else(|_| unreachable!("as many as there are places")))
    }

    /// The answer, if this thread can give it without asking.
    #[inline(always)]
    pub(super) fn fast(&mut self, check: &Check<'_>, now: Timestamp) -> Option<Decision> {
        let ends = ends(check.key);
        let entry = &mut self.0[place(ends, check.key.len())];
        if !entry.is_for(ends, check) {
            return None;
        }
        let slot = entry.slot.as_ref()?;
        let cost = check.cost.0;
        if entry.lease.epoch == slot.lease_epoch()
            && let Some(decision) = entry.lease.spend(cost, now)
        {
            entry.seen += 1;
            return Some(decision);
        }
        let decision = entry.denial.answer(slot.denial_epoch(), cost, now)?;
        entry.seen += 1;
        entry.denied += 1;
        Some(decision)
    }

    /// Takes the entry of a check out of the table, and with it that of another key whose place it gets. `None`: the
    /// place belongs to a key that is asked for more often.
    pub(super) fn claim(
        &mut self,
        check: &Check<'_>,
        now: Timestamp,
    ) -> Option<(Entry, Option<Entry>)> {
        let ends = ends(check.key);
        let resident = &mut self.0[place(ends, check.key.len())];
        let mine = resident.is_for(ends, check);
        if !mine && !resident.gives_way() {
            return None;
        }
        let resident = std::mem::replace(resident, Entry::empty());
        let (mut entry, evicted) = if mine {
            (resident, None)
        } else {
            let evicted = Some(resident).filter(|entry| entry.slot.is_some());
            (Entry::of(check, now), evicted)
        };
        entry.note(now);
        Some((entry, evicted))
    }

    /// Puts an entry in its place.
    pub(super) fn put(&mut self, entry: Entry) {
        let place = place(entry.ends, entry.len);
        self.0[place] = entry;
    }

    /// Takes out an entry that was not asked for since the last look, at least for a while.
    pub(super) fn take_idle(&mut self, now: Timestamp) -> Option<Entry> {
        self.take(|entry| {
            if entry.slot.is_none() {
                return false;
            }
            let seen = std::mem::replace(&mut entry.seen_by_idle, entry.seen);
            let fresh = now >= entry.since && now < entry.since.plus(SPAN_NANOS);
            seen == entry.seen && !fresh
        })
    }

    /// Takes out any entry that holds something.
    pub(super) fn take_any(&mut self) -> Option<Entry> {
        self.take(|entry| entry.slot.is_some())
    }

    fn take(&mut self, wanted: impl Fn(&mut Entry) -> bool) -> Option<Entry> {
        let mut entries = self.0.iter_mut();
        let entry = entries.find_map(|entry| wanted(entry).then_some(entry))?;
        Some(std::mem::replace(entry, Entry::empty()))
    }

    /// Gives `f` the keys on which this thread has decided alone since the last call, and how often: allowed, denied.
    pub(super) fn take_alone(&mut self, mut f: impl FnMut(&[u8], (u64, u64))) {
        for entry in self.0.iter_mut().filter(|entry| entry.slot.is_some()) {
            let alone = entry.take_alone();
            if alone != (0, 0) {
                f(entry.key(), alone);
            }
        }
    }

    /// Whether there is anything that may become idle.
    pub(super) fn holds_any(&self) -> bool {
        self.0.iter().any(|entry| entry.slot.is_some())
    }
}
