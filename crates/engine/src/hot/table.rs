//! What one thread knows of the keys it asks for most.

use std::sync::Arc;

use tollgate_limiter::{AlgorithmKind, Cost, Decision, Quota, Timestamp};

use super::lease::{Denial, Lease};
use super::slot::HotSlot;
use crate::Check;

/// Longest key that can be hot, bytes.
pub(super) const KEY_MAX: usize = 64;
/// Bytes of the first and the last word of a key.
const ENDS: usize = 16;
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
    /// The first and the last eight bytes: of keys up to [`ENDS`] bytes they are all.
    ends: (u64, u64),
    place: usize,
    algorithm: AlgorithmKind,
    quota: Quota,
    pub(super) lease: Lease,
    pub(super) denial: Denial,
    pub(super) slot: Option<Arc<HotSlot>>,
    /// Asked for often enough.
    pub(super) is_hot: bool,
    /// Units of the last lease.
    pub(super) last_lease: u64,
    /// Decisions that went the way of the lock.
    asked: u64,
    /// What this thread has allowed alone.
    allowed: u64,
    /// What this thread has denied alone.
    denied: u64,
    /// Of the last two, what is counted for RL.TOP.
    told: (u64, u64),
    /// `seen()` at `since`.
    seen_since: u64,
    since: Timestamp,
    /// `seen()` when [`Table::take_idle`] last looked.
    seen_by_idle: u64,
    /// `seen()` when another key last wanted the place, and how many did since it was right.
    seen_by_rival: u64,
    rivals: u32,
    bytes: [u8; KEY_MAX],
}

impl Entry {
    fn empty() -> Entry {
        Entry {
            len: usize::MAX,
            ends: (0, 0),
            place: 0,
            algorithm: AlgorithmKind::FixedWindow,
            quota: Quota::new(0, 1),
            lease: Lease::NONE,
            denial: Denial::NONE,
            slot: None,
            is_hot: false,
            last_lease: 0,
            asked: 0,
            allowed: 0,
            denied: 0,
            told: (0, 0),
            seen_since: 0,
            since: Timestamp::from_nanos(0),
            seen_by_idle: 0,
            seen_by_rival: 0,
            rivals: RIVALS_MAX,
            bytes: [0; KEY_MAX],
        }
    }

    fn of(probe: Probe, check: &Check<'_>, now: Timestamp) -> Entry {
        let mut entry = Entry {
            len: check.key.len(),
            ends: probe.ends,
            place: probe.place,
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

    #[inline(always)]
    fn is_for(&self, probe: Probe, check: &Check<'_>) -> bool {
        self.ends == probe.ends
            && self.len == check.key.len()
            && self.quota == check.quota
            && self.algorithm == check.algorithm
            && (check.key.len() <= ENDS || self.has_middle_of(check.key))
    }

    /// Compares what the ends leave out. The lengths are equal, and more than [`ENDS`].
    #[inline(always)]
    fn has_middle_of(&self, key: &[u8]) -> bool {
        let mut differ = 0;
        each_of_middle(self.key(), key, |mine, other| differ |= mine ^ other);
        differ == 0
    }

    /// Decisions so far.
    fn seen(&self) -> u64 {
        self.asked + self.allowed + self.denied
    }

    /// Counts a decision that went the way of the lock, and judges whether the key is hot.
    fn note(&mut self, now: Timestamp) {
        self.asked += 1;
        let seen = self.seen() - self.seen_since;
        let passed = now.nanos().saturating_sub(self.since.nanos());
        let passed = u64::try_from(passed).unwrap_or(u64::MAX).max(SPAN_NANOS);
        self.is_hot =
            seen.saturating_mul(SPAN_NANOS) >= u64::from(HOT_AFTER).saturating_mul(passed);
        if passed > SPAN_NANOS {
            (self.since, self.seen_since) = (now, self.seen());
        }
    }

    /// Decisions that this thread has made alone since it was last asked: allowed, denied.
    pub(super) fn take_alone(&mut self) -> (u64, u64) {
        let alone = (self.allowed, self.denied);
        let told = std::mem::replace(&mut self.told, alone);
        (alone.0 - told.0, alone.1 - told.1)
    }

    /// Another key wants the place; whether it gets it.
    fn gives_way(&mut self) -> bool {
        let seen = self.seen();
        if seen != self.seen_by_rival {
            (self.seen_by_rival, self.rivals) = (seen, 0);
        }
        self.rivals = self.rivals.saturating_add(1);
        self.rivals > RIVALS_MAX
    }
}

/// What finds a key: no two keys of one length up to [`ENDS`] bytes have the same ends.
#[derive(Clone, Copy)]
struct Probe {
    ends: (u64, u64),
    place: usize,
}

impl Probe {
    fn of(key: &[u8]) -> Probe {
        match (key.first_chunk(), key.last_chunk()) {
            (Some(first), Some(last)) => Probe::of_ends(*first, *last, middle(key)),
            _ => Probe::of_ends(short(key).to_le_bytes(), [0; 8], 0),
        }
    }

    #[inline(always)]
    fn of_ends(first: [u8; 8], last: [u8; 8], middle: u64) -> Probe {
        let ends = (u64::from_le_bytes(first), u64::from_le_bytes(last));
        let mixed = (ends.0 ^ middle ^ ends.1.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Probe {
            ends,
            place: (mixed >> 58) as usize,
        }
    }
}

/// A key of less than eight bytes as one word.
fn short(key: &[u8]) -> u64 {
    let word = |word, byte: &u8| word << 8 | u64::from(*byte);
    key.iter().rev().fold(0, word)
}

/// Mixes what lies between the ends. Many keys differ there alone: those of one limit in one window begin with its name
/// and end with the time.
#[inline(always)]
fn middle(key: &[u8]) -> u64 {
    let mut sum = 0u64;
    if key.len() > ENDS {
        each_of_middle(key, key, |word, _| sum = sum.rotate_left(11) ^ word);
    }
    sum
}

/// Gives `f` what lies between the ends of two keys of one length above [`ENDS`], a word of each at a time; the last ones
/// overlap.
#[inline(always)]
fn each_of_middle(one: &[u8], other: &[u8], mut f: impl FnMut(u64, u64)) {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let (one, other) = (&one[..one.len() - 8], &other[..other.len() - 8]);
    let words = one[8..].as_chunks().0.iter().zip(other[8..].as_chunks().0);
    words.for_each(|(one, other)| f(word(one), word(other)));
    if let (Some(one), Some(other)) = (one.last_chunk(), other.last_chunk()) {
        f(word(one), word(other));
    }
}

/// The keys of one thread.
pub(super) struct Table(Box<[Entry; PLACES]>);

impl Table {
    pub(super) fn new() -> Table {
        let entries: Vec<Entry> = std::iter::repeat_with(Entry::empty).take(PLACES).collect();
        let entries = entries.into_boxed_slice().try_into();
        Table(entries.unwrap_or_else(|_| unreachable!("as many as there are places")))
    }

    /// The answer on a key of two words, if this thread can give it without asking.
    #[inline(always)]
    pub(super) fn fast(&mut self, check: &Check<'_>, now: Timestamp) -> Option<Decision> {
        if check.key.len() > ENDS {
            return None;
        }
        let (first, last) = (check.key.first_chunk()?, check.key.last_chunk()?);
        self.answer(Probe::of_ends(*first, *last, 0), check, now)
    }

    /// The same for keys of other lengths.
    #[inline]
    pub(super) fn fast_other(&mut self, check: &Check<'_>, now: Timestamp) -> Option<Decision> {
        if (8..=ENDS).contains(&check.key.len()) {
            return None;
        }
        self.answer(Probe::of(check.key), check, now)
    }

    #[inline(always)]
    fn answer(&mut self, probe: Probe, check: &Check<'_>, now: Timestamp) -> Option<Decision> {
        let entry = &mut self.0[probe.place];
        if !entry.is_for(probe, check) {
            return None;
        }
        let slot = entry.slot.as_ref()?;
        let cost = check.cost.0;
        if entry.lease.epoch == slot.lease_epoch()
            && let Some(decision) = entry.lease.spend(cost, now)
        {
            entry.allowed += 1;
            return Some(decision);
        }
        let decision = entry.denial.answer(slot.denial_epoch(), cost, now)?;
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
        let probe = Probe::of(check.key);
        let resident = &mut self.0[probe.place];
        let mine = resident.is_for(probe, check);
        if !mine && !resident.gives_way() {
            return None;
        }
        let resident = std::mem::replace(resident, Entry::empty());
        let (mut entry, evicted) = if mine {
            (resident, None)
        } else {
            let evicted = Some(resident).filter(|entry| entry.slot.is_some());
            (Entry::of(probe, check, now), evicted)
        };
        entry.note(now);
        Some((entry, evicted))
    }

    /// Puts an entry in its place.
    pub(super) fn put(&mut self, entry: Entry) {
        let place = entry.place;
        self.0[place] = entry;
    }

    /// Takes out an entry that was not asked for since the last look, at least for a while.
    pub(super) fn take_idle(&mut self, now: Timestamp) -> Option<Entry> {
        self.take(|entry| {
            if entry.slot.is_none() {
                return false;
            }
            let seen = entry.seen();
            let before = std::mem::replace(&mut entry.seen_by_idle, seen);
            let fresh = now >= entry.since && now < entry.since.plus(SPAN_NANOS);
            seen == before && !fresh
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

    /// Gives `f` the keys on which this thread has decided alone since the last call, and how often: allowed, denied. What
    /// it does not take (false) it is given again.
    pub(super) fn take_alone(&mut self, mut f: impl FnMut(&[u8], (u64, u64)) -> bool) {
        for entry in self.0.iter_mut().filter(|entry| entry.slot.is_some()) {
            let told = entry.told;
            let alone = entry.take_alone();
            if alone != (0, 0) && !f(entry.key(), alone) {
                entry.told = told;
            }
        }
    }

    /// Whether there is anything that may become idle.
    pub(super) fn holds_any(&self) -> bool {
        self.0.iter().any(|entry| entry.slot.is_some())
    }
}
