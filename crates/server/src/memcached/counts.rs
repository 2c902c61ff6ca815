//! What Memcached's clients have asked and been answered, as `stats` tells it.

use super::crawler::Crawler;
use super::detail::Prefixes;
use super::stats::OTHERS;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tollgate_wire::memcached::{Mode, Operation, Style, Target};

/// Declares [`Count`]: variant and name in `stats`, in the order in which they are told.
macro_rules! counts {
    ($($variant:ident = $name:literal,)*) => {
        /// What is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Count {
            $($variant,)*
        }

        /// The names of all counts, in their order.
        pub(super) const NAMES: &[&str] = &[$($name,)*];
    };
}

counts! {
    CmdGet = "cmd_get",
    CmdSet = "cmd_set",
    CmdFlush = "cmd_flush",
    CmdTouch = "cmd_touch",
    CmdMeta = "cmd_meta",
    GetHits = "get_hits",
    GetMisses = "get_misses",
    DeleteMisses = "delete_misses",
    DeleteHits = "delete_hits",
    IncrMisses = "incr_misses",
    IncrHits = "incr_hits",
    DecrMisses = "decr_misses",
    DecrHits = "decr_hits",
    CasMisses = "cas_misses",
    CasHits = "cas_hits",
    CasBadval = "cas_badval",
    TouchHits = "touch_hits",
    TouchMisses = "touch_misses",
    StoreTooLarge = "store_too_large",
    StoreNoMemory = "store_no_memory",
    AuthCmds = "auth_cmds",
    AuthErrors = "auth_errors",
    ConnYields = "conn_yields",
    TotalItems = "total_items",
}

/// The counts of one thread, which alone adds to them; on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts([AtomicU64; NAMES.len()]);

impl Counts {
    /// Counts one.
    pub(crate) fn add(&self, what: Count) {
        let count = &self.0[what as usize];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// What all threads share of this protocol.
#[derive(Debug)]
pub(crate) struct Memcached {
    /// Largest item, in bytes as memcached counts them.
    pub(crate) item_max: usize,
    /// When all items go, in clock nanoseconds; [`i64::MAX`] = nobody has asked for it.
    pub(super) flush_at: AtomicI64,
    pub(super) prefixes: Prefixes,
    pub(super) crawler: Crawler,
    lanes: Box<[Counts]>,
    /// What `stats reset` has taken off.
    baseline: Mutex<[u64; NAMES.len()]>,
    /// The same of what others count, see [`super::stats`].
    pub(super) others: Mutex<[u64; OTHERS]>,
}

impl Memcached {
    pub(crate) fn new(item_max: usize, threads: usize) -> Memcached {
        Memcached {
            item_max,
            flush_at: AtomicI64::new(i64::MAX),
            prefixes: Prefixes::default(),
            crawler: Crawler::default(),
            lanes: (0..threads).map(|_| Counts::default()).collect(),
            baseline: Mutex::new([0; NAMES.len()]),
            others: Mutex::default(),
        }
    }

    pub(super) fn counts(&self, thread: usize) -> &Counts {
        &self.lanes[thread]
    }

    fn sums(&self) -> [u64; NAMES.len()] {
        std::array::from_fn(|at| {
            let of = |lane: &Counts| lane.0[at].load(Ordering::Relaxed);
            self.lanes.iter().map(of).sum()
        })
    }

    /// All counts since the start or the last reset, in the order of [`NAMES`].
    pub(super) fn totals(&self) -> [u64; NAMES.len()] {
        let before = *self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = self.sums();
        std::array::from_fn(|at| sums[at].saturating_sub(before[at]))
    }

    /// `stats reset`.
    pub(super) fn reset(&self) {
        self.prefixes.clear();
        let sums = self.sums();
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = sums;
    }
}

/// Counts a request by what it was answered; whether it was one that reads and found its item.
pub(super) fn note(counts: &Counts, target: &Target<'_>, answer: &[u8]) -> bool {
    let options = &target.options;
    let is = |words: &[&[u8]]| words.iter().any(|word| answer.starts_with(word));
    match target.operation {
        Operation::Get => {
            // A miss that is not told is an answer of nothing.
            let hit = !answer.is_empty() && !is(&[b"EN"]);
            if options.exptime.is_some() {
                counts.add(Count::CmdTouch);
                // The requests of the binary protocol that touch are answered as `gats` is.
                if options.style == Style::TextCas {
                    counts.add(match hit {
                        true => Count::TouchHits,
                        false => Count::TouchMisses,
                    });
                }
            }
            counts.add(Count::CmdGet);
            counts.add(if hit {
                Count::GetHits
            } else {
                Count::GetMisses
            });
            return hit;
        }
        Operation::Store => {
            counts.add(Count::CmdSet);
            let stored = answer.is_empty() || is(&[b"STORED", b"HD"]);
            if stored {
                counts.add(Count::TotalItems);
            }
            let compares = options.compare.is_some() && options.mode == Mode::Set;
            match () {
                () if !compares => {}
                () if stored => counts.add(Count::CasHits),
                () if is(&[b"EX"]) => counts.add(Count::CasBadval),
                () => counts.add(Count::CasMisses),
            }
        }
        Operation::Arithmetic => {
            let (hits, misses) = match options.decrement {
                true => (Count::DecrHits, Count::DecrMisses),
                false => (Count::IncrHits, Count::IncrMisses),
            };
            if is(&[b"NOT_FOUND", b"NF"]) {
                counts.add(misses);
            } else if !is(&[b"CLIENT_ERROR", b"SERVER_ERROR", b"EX"]) {
                counts.add(hits);
            }
        }
        Operation::Delete if is(&[b"DELETED", b"HD"]) => counts.add(Count::DeleteHits),
        Operation::Delete => counts.add(Count::DeleteMisses),
        Operation::Touch => {
            counts.add(Count::CmdTouch);
            counts.add(match is(&[b"TOUCHED"]) {
                true => Count::TouchHits,
                false => Count::TouchMisses,
            });
        }
        Operation::Describe => {}
    }
    false
}
