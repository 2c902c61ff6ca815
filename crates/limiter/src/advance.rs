//! Units taken in advance, which a client spends later without asking.
//!
//! Whenever within their validity they are spent, what passes keeps to the algorithm's definition. Units of a window, also of a
//! sliding one, may be spent until it ends: when within a window one is spent makes no difference. Units of a bucket count as if
//! all were spent at the last moment, since a bucket that earned anew what nobody has spent yet would let both pass beside each
//! other: besides them the bucket lacks what it earns while they are valid. So a bucket gives at most half of its burst at once;
//! of a burst of one, a unit that must be spent at once.

use crate::algorithms::{
    AlgorithmKind, KindMismatch, LimiterState, Record, gcra_record, leaky_record, span_until,
    token_record,
};
use crate::gcra::Gcra;
use crate::token_bucket;
use crate::types::{Cost, Decision, Nanos, Quota, Timestamp};

/// What was taken in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Units, perhaps fewer than were wanted.
    pub granted: u64,
    /// For how long they may be spent, counted from when they were asked for.
    pub valid_for: Nanos,
    /// What there is after them; of no units, when one can be had.
    pub decision: Decision,
}

impl Advance {
    /// No units, and why.
    pub(crate) const fn none(decision: Decision) -> Advance {
        Advance {
            granted: 0,
            valid_for: 0,
            decision,
        }
    }
}

impl AlgorithmKind {
    /// Takes up to `wanted` units in advance; the second value is the record to store, `None` leaves things as they are.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn advance(
        self,
        record: Option<Record>,
        quota: &Quota,
        wanted: u64,
        now: Timestamp,
    ) -> Result<(Advance, Option<Record>), KindMismatch> {
        let (there, _) = self.decide(record, quota, Cost(0), now)?;
        let keeps_room = self.is_bucket() && there.limit > 1;
        let most = if keeps_room {
            there.limit / 2
        } else {
            u64::MAX
        };
        let granted = match there.allowed {
            true => wanted.min(there.remaining).min(most),
            false => 0,
        };
        let base = match keeps_room {
            true => Some(self.owing(record, quota, granted, now)),
            false => record,
        };
        let (decision, next) = self.decide(base, quota, Cost(granted.max(1)), now)?;
        let next = next.filter(|_| granted > 0);
        let valid_until = match next {
            Some(next) if !self.is_bucket() => self.counts_until(next, quota),
            Some(_) if keeps_room => base.map_or(now, |base| full_from(base, now)),
            _ => now,
        };
        let advance = Advance {
            granted: next.map_or(0, |_| granted),
            valid_for: span_until(now, valid_until),
            decision,
        };
        Ok((advance, next))
    }

    /// A bucket's record in which at least `units` are missing.
    fn owing(self, record: Option<Record>, quota: &Quota, units: u64, now: Timestamp) -> Record {
        if let Self::TokenBucket = self {
            let state = match record.map(|record| record.state) {
                Some(LimiterState::TokenBucket { full_at, part }) => Some((full_at, part)),
                _ => None,
            };
            let state = state.map(|(full_at, part)| token_bucket::State { full_at, part });
            return token_record(token_bucket::owing(state, quota, units, now));
        }
        let earned = Gcra::new(quota).increment.saturating_mul(units);
        let at = record.map_or(now, |record| full_from(record, now));
        let at = at.max(now.plus(earned));
        match self {
            Self::LeakyBucket => leaky_record(at),
            _ => gcra_record(at),
        }
    }
}

/// When a bucket has earned all again, rounded towards the past; `now` for what is none.
fn full_from(record: Record, now: Timestamp) -> Timestamp {
    match record.state {
        LimiterState::Gcra { tat: at }
        | LimiterState::LeakyBucket { empty_at: at }
        | LimiterState::TokenBucket { full_at: at, .. } => at,
        _ => now,
    }
}
