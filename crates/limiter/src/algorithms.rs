//! The table of algorithms: one row each, and the state they share with the store.

use crate::fixed_window::{self, Anchor};
use crate::types::{Cost, Decision, Quota, Timestamp};
use crate::{gcra, lua, oracle};

/// State of one limiter key as the store holds it: 8 bytes beside the entry's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimiterState {
    /// Units taken in the open window; the window's end is the entry's expiry.
    FixedWindow {
        /// Units taken.
        count: u64,
    },
    /// When the bucket is full again.
    Gcra {
        /// The theoretical arrival time.
        tat: Timestamp,
    },
}

impl LimiterState {
    /// Name of the state's form, as `OBJECT ENCODING` reports it.
    pub const fn encoding(&self) -> &'static str {
        match self {
            Self::FixedWindow { .. } => "fixed-window",
            Self::Gcra { .. } => "gcra",
        }
    }
}

/// A limiter key's state with its entry's expiry. From the expiry on the key counts as never used, so losing
/// an expired record changes no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The state.
    pub state: LimiterState,
    /// When the store may drop the entry, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

/// Names an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlgorithmKind {
    /// Windows that begin with their first request.
    FixedWindow,
    /// Windows aligned to the Unix epoch.
    FixedWindowEpoch,
    /// Token bucket kept as one time.
    Gcra,
}

impl AlgorithmKind {
    /// The algorithm's row.
    pub fn row(self) -> &'static Algorithm {
        &ALGORITHMS[self as usize]
    }

    /// Decides one request; the second value is the record to store, `None` leaves things as they are.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    #[inline]
    pub fn decide(
        self,
        record: Option<Record>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<(Decision, Option<Record>), KindMismatch> {
        match self {
            Self::FixedWindow => decide_window(record, quota, Anchor::FirstHit, cost, now),
            Self::FixedWindowEpoch => decide_window(record, quota, Anchor::Epoch, cost, now),
            Self::Gcra => decide_gcra(record, quota, cost, now),
        }
    }
}

/// The key holds the state of another algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindMismatch;

impl std::fmt::Display for KindMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the key holds the state of another rate limit algorithm")
    }
}

impl std::error::Error for KindMismatch {}

/// One row of the table.
#[derive(Debug)]
pub struct Algorithm {
    /// Which one.
    pub kind: AlgorithmKind,
    /// Its name in rules, reports and documentation.
    pub name: &'static str,
    /// What it promises, in one sentence.
    pub docs: &'static str,
    /// A fresh model that keeps every admitted hit and decides from that list.
    pub oracle: fn() -> Box<dyn oracle::Oracle>,
    /// The script with the same arithmetic for stores without native commands; see [`lua`].
    pub lua: &'static str,
}

/// Every algorithm, in the order of [`AlgorithmKind`].
pub static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        kind: AlgorithmKind::FixedWindow,
        name: "fixed-window",
        docs: "At most `limit` units from a window's first hit until `period` later.",
        oracle: || Box::new(oracle::WindowOracle::new(Anchor::FirstHit)),
        lua: lua::FIXED_WINDOW,
    },
    Algorithm {
        kind: AlgorithmKind::FixedWindowEpoch,
        name: "fixed-window-epoch",
        docs: "At most `limit` units in each window aligned to whole multiples of `period` since the Unix epoch.",
        oracle: || Box::new(oracle::WindowOracle::new(Anchor::Epoch)),
        lua: lua::FIXED_WINDOW,
    },
    Algorithm {
        kind: AlgorithmKind::Gcra,
        name: "gcra",
        docs: "At most `burst + t * limit / period` units in any interval of length t.",
        oracle: || Box::new(oracle::GcraOracle::default()),
        lua: lua::GCRA,
    },
];

#[inline]
fn decide_window(
    record: Option<Record>,
    quota: &Quota,
    anchor: Anchor,
    cost: Cost,
    now: Timestamp,
) -> Result<(Decision, Option<Record>), KindMismatch> {
    let state = match record {
        None => None,
        Some(Record {
            state: LimiterState::FixedWindow { count },
            expires_at_ms,
        }) => Some(fixed_window::State {
            count,
            ends_at_ms: expires_at_ms,
        }),
        Some(_) => return Err(KindMismatch),
    };
    let (decision, next) = fixed_window::decide(state, quota, anchor, cost, now);
    let next = next.map(|next| Record {
        state: LimiterState::FixedWindow { count: next.count },
        expires_at_ms: next.ends_at_ms,
    });
    Ok((decision, next))
}

#[inline]
fn decide_gcra(
    record: Option<Record>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> Result<(Decision, Option<Record>), KindMismatch> {
    let state = match record {
        None => None,
        Some(Record {
            state: LimiterState::Gcra { tat },
            ..
        }) => Some(gcra::State { tat }),
        Some(_) => return Err(KindMismatch),
    };
    let (decision, next) = gcra::decide(state, quota, cost, now);
    let next = next.map(|next| Record {
        state: LimiterState::Gcra { tat: next.tat },
        expires_at_ms: next.tat.millis_ceil(),
    });
    Ok((decision, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_kind_and_have_unique_names() {
        for (index, row) in ALGORITHMS.iter().enumerate() {
            assert_eq!(row.kind as usize, index);
            assert_eq!(row.kind.row().name, row.name);
            assert!(row.docs.ends_with('.'));
            assert!(
                ALGORITHMS
                    .iter()
                    .filter(|other| other.name == row.name)
                    .count()
                    == 1
            );
        }
    }

    #[test]
    fn the_state_of_another_algorithm_is_refused() {
        let quota = Quota::new(1, 1_000_000_000);
        let now = Timestamp::from_secs(1);
        let (_, window) = AlgorithmKind::FixedWindow
            .decide(None, &quota, Cost(1), now)
            .expect("fresh key");
        assert_eq!(
            AlgorithmKind::Gcra.decide(window, &quota, Cost(1), now),
            Err(KindMismatch)
        );
        let (_, bucket) = AlgorithmKind::Gcra
            .decide(None, &quota, Cost(1), now)
            .expect("fresh key");
        assert_eq!(
            AlgorithmKind::FixedWindowEpoch.decide(bucket, &quota, Cost(1), now),
            Err(KindMismatch)
        );
    }
}
