//! Counters that cost a store or two per command.
//!
//! Each thread adds to a lane of its own with plain loads and stores; reading sums the lanes. Threads beyond the
//! number of lanes share the last one, which is added to atomically.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tollgate_commands::{Row, memcached, rows};

/// Threads with a lane of their own.
const LANES: usize = 64;

/// One in so many calls of the short commands is timed, and counts for all of them: reading the clock twice costs
/// as much as half the command. A power of two.
const TIMED_EVERY: u64 = 64;

/// Slots of the index from row to counter: a power of two, several times the number of rows.
const ROW_SLOTS: usize = 4096;

/// What one command has cost.
#[derive(Debug, Clone, Copy)]
pub struct CommandStats {
    /// Its row.
    pub row: &'static Row,
    /// Times it ran, failures included.
    pub calls: u64,
    /// Time spent in it, microseconds; estimated from every 64th call for commands that touch few keys.
    pub usec: u64,
    /// Calls that the gate refused.
    pub rejected: u64,
    /// Calls that ran and answered an error.
    pub failed: u64,
    /// Timed calls by their time: up to 1,024 ns, then up to twice as long each.
    pub times: [u64; TIMES],
}

/// Counters of the engine.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Commands run, those of scripts included.
    pub commands: u64,
    /// Error replies.
    pub errors: u64,
    /// Changes made to the data.
    pub changes: u64,
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Entries removed because their time had come.
    pub expired: u64,
    /// Fields of hashes removed because they expired.
    pub expired_fields: u64,
    /// Commands that were called, by name.
    pub by_command: Vec<CommandStats>,
}

#[derive(Clone, Copy)]
enum Field {
    Calls,
    /// Time of the calls that stand for themselves alone.
    Nanos,
    /// Time of those that stand for others too.
    SampledNanos,
    /// How many they were.
    Samples,
    Rejected,
    Failed,
}

/// Number of [`Field`]s.
const HEAD: usize = 6;

/// Classes of times.
pub const TIMES: usize = 32;

/// Counters of a row: those of [`Field`], then its times.
const FIELDS: usize = HEAD + TIMES;

struct Lane {
    /// [`FIELDS`] counters per row.
    rows: Box<[AtomicU64]>,
    changes: AtomicU64,
}

pub(crate) struct Counters {
    lanes: Box<[LazyLock<Lane>]>,
}

/// The number of a row, by address.
struct RowIndex {
    slots: Box<[Option<(&'static Row, u16)>; ROW_SLOTS]>,
    rows: Vec<&'static Row>,
}

static ROWS: LazyLock<RowIndex> = LazyLock::new(|| {
    let mut index = RowIndex {
        slots: Box::new([None; ROW_SLOTS]),
        rows: Vec::new(),
    };
    for row in rows() {
        for row in std::iter::once(row).chain(row.subs) {
            let number =
                u16::try_from(index.rows.len()).expect("the table has fewer than 65,536 rows");
            index.insert(row, number);
            index.rows.push(row);
        }
    }
    // What Memcached's clients ask counts as the command under whose row it runs.
    for variant in memcached::variants() {
        let number = index.number(variant.base) as u16;
        index.insert(&variant.row, number);
    }
    assert!(
        index.rows.len() * 4 <= ROW_SLOTS,
        "the row index is at most a quarter full"
    );
    index
});

impl RowIndex {
    #[inline]
    fn slot(row: &'static Row) -> usize {
        let address = std::ptr::from_ref(row) as usize as u64;
        (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize
    }

    fn insert(&mut self, row: &'static Row, number: u16) {
        let mut at = RowIndex::slot(row);
        while self.slots[at].is_some() {
            at = (at + 1) % ROW_SLOTS;
        }
        self.slots[at] = Some((row, number));
    }

    #[inline]
    fn number(&self, row: &'static Row) -> usize {
        let mut at = RowIndex::slot(row);
        loop {
            match self.slots[at] {
                Some((found, number)) if std::ptr::eq(found, row) => return usize::from(number),
                Some(_) => at = (at + 1) % ROW_SLOTS,
                None => unreachable!("every row is in the index"),
            }
        }
    }
}

const _: () = assert!(ROW_SLOTS == 1 << (64 - 52));

static NEXT_LANE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The lane of this thread.
#[inline]
fn lane_number() -> usize {
    let lane = LANE.get();
    if lane != usize::MAX {
        return lane;
    }
    let lane = NEXT_LANE.fetch_add(1, Ordering::Relaxed).min(LANES - 1);
    LANE.set(lane);
    lane
}

impl Lane {
    fn new() -> Lane {
        let counters = ROWS.rows.len() * FIELDS;
        Lane {
            rows: (0..counters).map(|_| AtomicU64::new(0)).collect(),
            changes: AtomicU64::new(0),
        }
    }
}

/// Adds, modulo 2^64, to a counter that only this thread writes, unless it is in the shared lane.
#[inline]
fn add(counter: &AtomicU64, amount: u64, shared: bool) -> u64 {
    if shared {
        return counter.fetch_add(amount, Ordering::Relaxed);
    }
    let old = counter.load(Ordering::Relaxed);
    counter.store(old.wrapping_add(amount), Ordering::Relaxed);
    old
}

/// The counters of one command on this thread.
#[derive(Clone, Copy)]
pub(crate) struct RowCounters<'a> {
    fields: &'a [AtomicU64],
    shared: bool,
}

impl RowCounters<'_> {
    /// Counts one call; true when it is one of those to be timed.
    #[inline]
    pub(crate) fn called(&self) -> bool {
        add(&self.fields[Field::Calls as usize], 1, self.shared).is_multiple_of(TIMED_EVERY)
    }

    /// Takes back the count of a call that was put off.
    #[cold]
    pub(crate) fn put_off(&self) {
        add(&self.fields[Field::Calls as usize], u64::MAX, self.shared);
    }

    /// Adds the time of a call that stands for those that are not timed.
    pub(crate) fn took_sampled(&self, nanos: u64) {
        let add = |field: Field, amount| add(&self.fields[field as usize], amount, self.shared);
        add(Field::SampledNanos, nanos);
        add(Field::Samples, 1);
        self.classify(nanos);
    }

    /// Adds the time of one call.
    pub(crate) fn took(&self, nanos: u64) {
        add(&self.fields[Field::Nanos as usize], nanos, self.shared);
        self.classify(nanos);
    }

    /// Adds the time of a call of a command of which all are timed, or else some are `sampled`.
    pub(crate) fn took_one_of(&self, all: bool, sampled: bool, nanos: u64) {
        match (all, sampled) {
            (true, _) => self.took(nanos),
            (false, true) => self.took_sampled(nanos),
            (false, false) => {}
        }
    }

    fn classify(&self, nanos: u64) {
        let class = (u64::BITS - (nanos.saturating_sub(1) >> 10).leading_zeros()) as usize;
        add(&self.fields[HEAD + class.min(TIMES - 1)], 1, self.shared);
    }

    #[cold]
    pub(crate) fn rejected(&self) {
        add(&self.fields[Field::Rejected as usize], 1, self.shared);
    }

    #[cold]
    pub(crate) fn failed(&self) {
        add(&self.fields[Field::Failed as usize], 1, self.shared);
    }
}

/// Every row, those of sub-commands included, by [`number_of`].
pub(crate) fn all_rows() -> &'static [&'static Row] {
    &ROWS.rows
}

/// The number of a row.
#[inline]
pub(crate) fn number_of(row: &'static Row) -> usize {
    ROWS.number(row)
}

/// What so many calls took if `samples` of them took `nanos`.
fn scaled(nanos: u64, samples: u64, calls: u64) -> u64 {
    let all = u128::from(nanos) * u128::from(calls) / u128::from(samples.max(1));
    u64::try_from(all).unwrap_or(u64::MAX)
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters {
            lanes: (0..LANES)
                .map(|_| LazyLock::new(Lane::new as fn() -> Lane))
                .collect(),
        }
    }

    /// This thread's counters of `row`.
    #[inline]
    pub(crate) fn row(&self, row: &'static Row) -> RowCounters<'_> {
        let lane = lane_number();
        let at = ROWS.number(row) * FIELDS;
        RowCounters {
            fields: &self.lanes[lane].rows[at..at + FIELDS],
            shared: lane == LANES - 1,
        }
    }

    /// Counts changes to the data.
    #[inline]
    pub(crate) fn changed(&self, changes: u64) {
        let lane = lane_number();
        add(&self.lanes[lane].changes, changes, lane == LANES - 1);
    }

    fn used_lanes(&self) -> &[LazyLock<Lane>] {
        &self.lanes[..NEXT_LANE.load(Ordering::Relaxed).min(LANES)]
    }

    pub(crate) fn collect(&self) -> Stats {
        let mut stats = Stats::default();
        for (number, row) in ROWS.rows.iter().enumerate() {
            let mut sums = [0u64; FIELDS];
            for lane in self.used_lanes() {
                for (sum, counter) in sums.iter_mut().zip(&lane.rows[number * FIELDS..]) {
                    *sum += counter.load(Ordering::Relaxed);
                }
            }
            let [calls, nanos, sampled, samples, rejected, failed, times @ ..] = sums;
            let timed: u64 = times.iter().sum();
            // Commands whose every call is timed are counted by their times.
            let calls = calls.max(timed);
            let for_themselves = timed.saturating_sub(samples);
            let nanos = nanos.saturating_add(scaled(sampled, samples, calls - for_themselves));
            stats.commands += calls;
            stats.errors += rejected + failed;
            if calls + rejected > 0 {
                stats.by_command.push(CommandStats {
                    row,
                    calls,
                    usec: nanos / 1_000,
                    rejected,
                    failed,
                    times,
                });
            }
        }
        stats.changes = self.changes();
        stats
    }

    pub(crate) fn changes(&self) -> u64 {
        let lanes = self.used_lanes().iter();
        lanes.map(|lane| lane.changes.load(Ordering::Relaxed)).sum()
    }

    /// Sets all counters but the number of changes to zero. Calls that are counted at the same moment may survive.
    pub(crate) fn reset(&self) {
        for lane in self.used_lanes() {
            lane.rows
                .iter()
                .for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the first call took is not what 64 calls take.
    #[test]
    fn sampled_calls_stand_for_those_that_there_were() {
        let counters = Counters::new();
        let row = ROWS.rows[0];
        let usec = || counters.collect().by_command[0].usec;
        assert!(counters.row(row).called(), "the first call is timed");
        counters.row(row).took_sampled(5_000_000);
        assert_eq!(usec(), 5_000);
        for _ in 1..TIMED_EVERY {
            assert!(!counters.row(row).called());
        }
        assert_eq!(usec(), 5_000 * TIMED_EVERY);
        assert!(counters.row(row).called(), "every 64th call is timed");
        counters.row(row).took_sampled(1_000_000);
        assert_eq!(usec(), 3_000 * (TIMED_EVERY + 1));
        counters.row(row).called();
        counters.row(row).took(7_000_000);
        assert_eq!(usec(), 3_000 * (TIMED_EVERY + 1) + 7_000);
    }
}
