//! The table of algorithms: one row each, and the state they share with the store.

mod stored;

use crate::calendar::{Calendar, CalendarUnit, Zone};
use crate::fixed_window::{self, Anchor};
use crate::types::{Cost, Decision, Nanos, PeriodMs, Quota, Timestamp};
use crate::{gcra, lua, oracle, sliding_window, token_bucket};

use stored::{
    banned, decide_gcra, decide_leaky, decide_sliding, decide_tokens, decide_window, refund_time,
    sliding_record, sliding_state,
};
pub(crate) use stored::{gcra_record, leaky_record, span_until, token_record};

/// State of one limiter key as the store holds it: at most 16 bytes beside the entry's expiry and what names the algorithm.
/// (A sliding window's period lies where the name leaves room.)
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
    /// Two windows; the later one ends one period before the entry's expiry.
    SlidingWindow {
        /// Units taken in the window before.
        previous: u64,
        /// Units taken in the latest window.
        current: u64,
        /// The period they were taken by.
        period: PeriodMs,
    },
    /// When the bucket is full again, exactly.
    TokenBucket {
        /// Whole nanoseconds.
        full_at: Timestamp,
        /// The rest, in nanoseconds divided by the limit.
        part: u64,
    },
    /// When the bucket is empty.
    LeakyBucket {
        /// When its last unit leaves.
        empty_at: Timestamp,
    },
    /// Nothing passes until the entry's expiry, whatever the algorithm.
    Banned,
}

// No state takes more than the two words and the one with the name.
const _: () = assert!(size_of::<LimiterState>() == 24);

impl LimiterState {
    /// Name of the state's form, as `OBJECT ENCODING` reports it.
    pub const fn encoding(&self) -> &'static str {
        match self {
            Self::FixedWindow { .. } => "fixed-window",
            Self::Gcra { .. } => "gcra",
            Self::SlidingWindow { .. } => "sliding-window",
            Self::TokenBucket { .. } => "token-bucket",
            Self::LeakyBucket { .. } => "leaky-bucket",
            Self::Banned => "banned",
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

/// Names an algorithm whose state is small enough to be handed around by value.
// With a tag of its own two kinds compare in a few instructions, which counts on hot keys; folded into the zone's
// number it took twice as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AlgorithmKind {
    /// Windows that begin with their first request.
    FixedWindow,
    /// Windows aligned to the Unix epoch.
    FixedWindowEpoch,
    /// Token bucket kept as one time.
    Gcra,
    /// Two aligned windows, the earlier one weighted.
    SlidingWindow,
    /// Token bucket in exact arithmetic.
    TokenBucket,
    /// A queue that drains evenly.
    LeakyBucket,
    /// Windows of the calendar.
    Calendar(Calendar),
}

/// A decision, and the record to store; `None` leaves things as they are.
pub type Decided = (Decision, Option<Record>);

impl AlgorithmKind {
    /// The algorithm's row.
    pub fn row(self) -> &'static Algorithm {
        &ALGORITHMS[match self {
            Self::FixedWindow => 0,
            Self::FixedWindowEpoch => 1,
            Self::Gcra => 2,
            Self::SlidingWindow => 3,
            Self::TokenBucket => 4,
            Self::LeakyBucket => 5,
            Self::Calendar(_) => 6,
        }]
    }

    /// Whether it earns units all the time, up to a burst; all others count what windows hold.
    pub const fn is_bucket(self) -> bool {
        matches!(self, Self::Gcra | Self::TokenBucket | Self::LeakyBucket)
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
    ) -> Result<Decided, KindMismatch> {
        let record = match record {
            Some(Record {
                state: LimiterState::Banned,
                expires_at_ms,
            }) => {
                if now.millis() < expires_at_ms {
                    return Ok((banned(quota, expires_at_ms, now), None));
                }
                // A ban that has ended counts as no state.
                None
            }
            record => record,
        };
        match self {
            Self::FixedWindow => decide_window(record, quota, Anchor::FirstHit, cost, now),
            Self::FixedWindowEpoch => decide_window(record, quota, Anchor::Epoch, cost, now),
            Self::Calendar(calendar) => {
                decide_window(record, quota, Anchor::Calendar(calendar), cost, now)
            }
            Self::Gcra => decide_gcra(record, quota, cost, now),
            Self::SlidingWindow => decide_sliding(record, quota, cost, now),
            Self::TokenBucket => decide_tokens(record, quota, cost, now),
            Self::LeakyBucket => decide_leaky(record, quota, cost, now),
        }
    }

    /// Gives back up to `units` that were taken; `None` when there is nothing to give back.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn refund(
        self,
        record: Record,
        quota: &Quota,
        units: u64,
        now: Timestamp,
    ) -> Result<Option<Record>, KindMismatch> {
        let next = match (self, record.state) {
            (
                Self::FixedWindow | Self::FixedWindowEpoch | Self::Calendar(_),
                LimiterState::FixedWindow { count },
            ) => {
                let open = now.millis() < record.expires_at_ms && count > 0 && units > 0;
                open.then(|| Record {
                    state: LimiterState::FixedWindow {
                        count: count.saturating_sub(units),
                    },
                    ..record
                })
            }
            (Self::Gcra, LimiterState::Gcra { tat }) => {
                refund_time(tat, quota, units, Nanos::MAX, now).map(gcra_record)
            }
            (Self::LeakyBucket, LimiterState::LeakyBucket { empty_at }) => {
                refund_time(empty_at, quota, units, Nanos::MAX, now).map(leaky_record)
            }
            (Self::SlidingWindow, state @ LimiterState::SlidingWindow { .. }) => {
                let state = sliding_state(state, record.expires_at_ms, quota);
                state
                    .and_then(|state| sliding_window::refund(state, quota, units, now))
                    .map(|next| sliding_record(next, quota))
            }
            (Self::TokenBucket, LimiterState::TokenBucket { full_at, part }) => {
                token_bucket::refund(token_bucket::State { full_at, part }, quota, units, now)
                    .map(token_record)
            }
            (_, LimiterState::Banned) => None,
            _ => return Err(KindMismatch),
        };
        Ok(next)
    }

    /// When the units that were taken last count no more: the end of their window, or the time by which they are earned again.
    pub(crate) fn counts_until(self, record: Record, quota: &Quota) -> Timestamp {
        match record.state {
            LimiterState::FixedWindow { .. } | LimiterState::Banned => {
                Timestamp::from_millis(record.expires_at_ms)
            }
            LimiterState::SlidingWindow { period, .. } => {
                let period = period.get().unwrap_or(fixed_window::period_ms(quota));
                Timestamp::from_millis(record.expires_at_ms.saturating_sub(period))
            }
            LimiterState::Gcra { tat: at } | LimiterState::LeakyBucket { empty_at: at } => at,
            LimiterState::TokenBucket { full_at, part } => {
                token_bucket::State { full_at, part }.full_at_ceil()
            }
        }
    }

    /// Until when `units` [count](Self::counts_until) that were taken at a time; of a bucket at the earliest, as if it had been
    /// full then.
    pub(crate) fn until_of(
        self,
        record: Record,
        quota: &Quota,
        units: u64,
        taken: Timestamp,
    ) -> Timestamp {
        let end = |anchor| fixed_window::window_end(quota, anchor, taken.millis());
        let ends_at_ms = match self {
            Self::Gcra | Self::LeakyBucket => {
                return taken.plus(gcra::Gcra::new(quota).increment.saturating_mul(units));
            }
            Self::TokenBucket => return taken.plus(token_bucket::earned_in(quota, units)),
            Self::Calendar(calendar) => end(Anchor::Calendar(calendar)),
            Self::FixedWindowEpoch | Self::SlidingWindow => end(Anchor::Epoch),
            // Its windows begin anywhere: in the one that is known, or before it.
            Self::FixedWindow => {
                let ends = record.expires_at_ms;
                let begins = ends.saturating_sub(fixed_window::period_ms(quota));
                if taken.millis() >= begins {
                    ends
                } else {
                    begins
                }
            }
        };
        Timestamp::from_millis(ends_at_ms)
    }

    /// Gives back up to `units` that [count until](Self::counts_until) a time, as far as they count still; `None` when none
    /// does.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub(crate) fn refund_held(
        self,
        record: Record,
        quota: &Quota,
        units: u64,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Record>, KindMismatch> {
        let span = span_until(now, until);
        let next = match (self, record.state) {
            (Self::Gcra, LimiterState::Gcra { tat }) => {
                refund_time(tat, quota, units, span, now).map(gcra_record)
            }
            (Self::LeakyBucket, LimiterState::LeakyBucket { empty_at }) => {
                refund_time(empty_at, quota, units, span, now).map(leaky_record)
            }
            (Self::TokenBucket, LimiterState::TokenBucket { full_at, part }) => {
                let state = token_bucket::State { full_at, part };
                token_bucket::refund_within(state, quota, units, span, now).map(token_record)
            }
            (Self::SlidingWindow, state @ LimiterState::SlidingWindow { .. }) => {
                let state = sliding_state(state, record.expires_at_ms, quota);
                let refund =
                    |state| sliding_window::refund_of(state, quota, units, until.millis(), now);
                state
                    .and_then(refund)
                    .map(|next| sliding_record(next, quota))
            }
            (_, LimiterState::FixedWindow { .. })
                if Timestamp::from_millis(record.expires_at_ms) != until =>
            {
                None
            }
            _ => return self.refund(record, quota, units, now),
        };
        Ok(next)
    }

    /// Takes `units` whether or not they fit: the state may then be above its limit, and denies until it is below
    /// again. Never takes more than a hundred times the limit, so that a slip does not deny for ever.
    ///
    /// # Errors
    /// The key holds the state of another algorithm.
    pub fn charge(
        self,
        record: Option<Record>,
        quota: &Quota,
        units: u64,
        now: Timestamp,
    ) -> Result<Option<Record>, KindMismatch> {
        let most = quota.limit.max(quota.burst).saturating_mul(DEBT_MAX);
        let wide = Quota {
            // Windows compare with the limit, buckets with the burst, which is a multiple of the same rate.
            limit: match self.is_bucket() {
                true => quota.limit,
                false => u64::MAX,
            },
            period: quota.period,
            burst: most,
        };
        let (decision, _) = self.decide(record, &wide, Cost(0), now)?;
        let units = units.min(most).min(decision.remaining);
        Ok(self.decide(record, &wide, Cost(units), now)?.1)
    }
}

/// How many times its limit a limiter can be charged.
pub(crate) const DEBT_MAX: u64 = 100;

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
    /// Which one; of a family, an example.
    pub kind: AlgorithmKind,
    /// Its name in rules, reports and documentation.
    pub name: &'static str,
    /// Its word in the store's commands.
    pub word: &'static str,
    /// What it promises, in one sentence.
    pub docs: &'static str,
    /// A fresh model that keeps every admitted hit and decides from that list.
    pub oracle: fn() -> Box<dyn oracle::Oracle>,
    /// The script with the same arithmetic for stores without native commands; see [`lua`].
    pub lua: &'static str,
}

/// Every algorithm whose state is small, in the order of [`AlgorithmKind`].
pub static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        kind: AlgorithmKind::FixedWindow,
        name: "fixed-window",
        word: "FIXED",
        docs: "At most `limit` units from a window's first hit until `period` later.",
        oracle: || Box::new(oracle::WindowOracle::new(Anchor::FirstHit)),
        lua: lua::FIXED_WINDOW,
    },
    Algorithm {
        kind: AlgorithmKind::FixedWindowEpoch,
        name: "fixed-window-epoch",
        word: "ALIGNED",
        docs: "At most `limit` units in each window aligned to whole multiples of `period` since the Unix epoch.",
        oracle: || Box::new(oracle::WindowOracle::new(Anchor::Epoch)),
        lua: lua::FIXED_WINDOW,
    },
    Algorithm {
        kind: AlgorithmKind::Gcra,
        name: "gcra",
        word: "GCRA",
        docs: "At most `burst + t * limit / period` units in any interval of length t.",
        oracle: || Box::new(oracle::RateOracle::rounded()),
        lua: lua::GCRA,
    },
    Algorithm {
        kind: AlgorithmKind::SlidingWindow,
        name: "sliding-window",
        word: "SLIDING",
        docs: "At most `limit` units in the present window and the part of the one before that lies within `period`, taken as evenly spread.",
        oracle: || Box::new(oracle::SlidingOracle::default()),
        lua: lua::SLIDING_WINDOW,
    },
    Algorithm {
        kind: AlgorithmKind::TokenBucket,
        name: "token-bucket",
        word: "TOKENS",
        docs: "A bucket of `burst` tokens that earns exactly `limit` tokens in each `period`.",
        oracle: || Box::new(oracle::RateOracle::exact()),
        lua: lua::GCRA,
    },
    Algorithm {
        kind: AlgorithmKind::LeakyBucket,
        name: "leaky-bucket",
        word: "LEAKY",
        docs: "A queue of at most `burst` units that leave evenly, `limit` in each `period`.",
        oracle: || Box::new(oracle::RateOracle::rounded()),
        lua: lua::GCRA,
    },
    Algorithm {
        kind: AlgorithmKind::Calendar(Calendar {
            unit: CalendarUnit::Month,
            zone: Zone::UTC,
        }),
        name: "calendar",
        word: "CALENDAR",
        docs: "At most `limit` units in each day, week, month, quarter or year of a time zone.",
        oracle: || {
            Box::new(oracle::WindowOracle::new(Anchor::Calendar(Calendar {
                unit: CalendarUnit::Month,
                zone: Zone::UTC,
            })))
        },
        lua: lua::FIXED_WINDOW,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_kind_and_have_unique_names() {
        for (index, row) in ALGORITHMS.iter().enumerate() {
            assert!(std::ptr::eq(row.kind.row(), &ALGORITHMS[index]));
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

    const TEN: Quota = Quota::new(10, 1_000_000_000);

    #[test]
    fn every_algorithm_gives_back_what_it_took_and_no_more() {
        let now = Timestamp::from_millis(1_767_225_600_250);
        for row in ALGORITHMS {
            let left = |record| {
                let decided = row.kind.decide(record, &TEN, Cost(0), now);
                decided.expect("one algorithm").0.remaining
            };
            let (_, record) = row.kind.decide(None, &TEN, Cost(6), now).expect("fresh");
            let record = record.expect("taken");
            let back = row.kind.refund(record, &TEN, 4, now).expect("own state");
            assert_eq!(left(back), 8, "{}", row.name);
            let all = row
                .kind
                .refund(record, &TEN, u64::MAX, now)
                .expect("own state");
            assert_eq!(left(all), 10, "{}", row.name);
            assert_eq!(row.kind.refund(record, &TEN, 0, now), Ok(None));
        }
    }

    #[test]
    fn a_charge_may_go_above_the_limit_and_then_nothing_passes() {
        let now = Timestamp::from_millis(1_767_225_600_250);
        for row in ALGORITHMS {
            let charged = row.kind.charge(None, &TEN, 25, now).expect("fresh");
            let (denied, _) = row
                .kind
                .decide(charged, &TEN, Cost(1), now)
                .expect("own state");
            assert_eq!(
                (denied.allowed, denied.remaining),
                (false, 0),
                "{}",
                row.name
            );
            let wait = denied.retry_after.expect("passes one day");
            let (passes, _) = row
                .kind
                .decide(charged, &TEN, Cost(1), now.plus(wait))
                .expect("own state");
            assert!(passes.allowed, "{}", row.name);
            let most = row
                .kind
                .charge(charged, &TEN, u64::MAX, now)
                .expect("own state");
            assert!(
                row.kind
                    .decide(most, &TEN, Cost(1), now)
                    .expect("own state")
                    .0
                    .retry_after
                    .is_some()
            );
        }
    }

    #[test]
    fn a_ban_denies_whatever_the_algorithm_until_it_ends() {
        let ban = Some(Record {
            state: LimiterState::Banned,
            expires_at_ms: 5_000,
        });
        for row in ALGORITHMS {
            let ask = |ms| {
                row.kind
                    .decide(ban, &TEN, Cost(1), Timestamp::from_millis(ms))
                    .expect("a ban fits all")
            };
            let (denied, next) = ask(4_999);
            assert_eq!(
                (denied.allowed, denied.retry_after, next),
                (false, Some(1_000_000), None)
            );
            assert!(ask(5_000).0.allowed && ask(5_000).1.is_some());
        }
    }
}
