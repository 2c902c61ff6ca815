//! What each algorithm makes of the state in a record, and the record that it leaves.

use super::{Decided, KindMismatch, LimiterState, Record};
use crate::fixed_window::{self, Anchor};
use crate::types::{Cost, Decision, Nanos, PeriodMs, Quota, Timestamp};
use crate::{gcra, leaky_bucket, sliding_window, token_bucket};

/// The answer while a ban lasts.
#[cold]
pub(super) fn banned(quota: &Quota, expires_at_ms: i64, now: Timestamp) -> Decision {
    let wait = fixed_window::span_ms(now.millis(), expires_at_ms);
    Decision {
        allowed: false,
        limit: quota.limit,
        remaining: 0,
        retry_after: Some(wait),
        reset_after: wait,
    }
}

#[inline]
pub(super) fn decide_window(
    record: Option<Record>,
    quota: &Quota,
    anchor: Anchor,
    cost: Cost,
    now: Timestamp,
) -> Result<Decided, KindMismatch> {
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
pub(super) fn decide_gcra(
    record: Option<Record>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> Result<Decided, KindMismatch> {
    let state = match record {
        None => None,
        Some(Record {
            state: LimiterState::Gcra { tat },
            ..
        }) => Some(gcra::State { tat }),
        Some(_) => return Err(KindMismatch),
    };
    let (decision, next) = gcra::decide(state, quota, cost, now);
    Ok((decision, next.map(|next| gcra_record(next.tat))))
}

pub(crate) fn gcra_record(tat: Timestamp) -> Record {
    Record {
        state: LimiterState::Gcra { tat },
        expires_at_ms: tat.millis_ceil(),
    }
}

pub(super) fn decide_leaky(
    record: Option<Record>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> Result<Decided, KindMismatch> {
    let state = match record {
        None => None,
        Some(Record {
            state: LimiterState::LeakyBucket { empty_at },
            ..
        }) => Some(leaky_bucket::State { empty_at }),
        Some(_) => return Err(KindMismatch),
    };
    let (decision, next) = leaky_bucket::decide(state, quota, cost, now);
    Ok((decision, next.map(|next| leaky_record(next.empty_at))))
}

pub(crate) fn leaky_record(empty_at: Timestamp) -> Record {
    Record {
        state: LimiterState::LeakyBucket { empty_at },
        expires_at_ms: empty_at.millis_ceil(),
    }
}

/// The time until a moment; none when it has passed.
pub(crate) fn span_until(now: Timestamp, until: Timestamp) -> Nanos {
    match until > now {
        true => until.nanos().abs_diff(now.nanos()),
        false => 0,
    }
}

/// A time that units of cost have moved on, moved back, by `most` at most; `None` when nothing is owed.
pub(super) fn refund_time(
    at: Timestamp,
    quota: &Quota,
    units: u64,
    most: Nanos,
    now: Timestamp,
) -> Option<Timestamp> {
    if at <= now || units == 0 || most == 0 {
        return None;
    }
    let back = gcra::Gcra::new(quota).increment.saturating_mul(units);
    let back = back.min(most);
    let ahead = at.nanos().abs_diff(now.nanos());
    Some(now.plus(ahead.saturating_sub(back)))
}

pub(super) fn decide_tokens(
    record: Option<Record>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> Result<Decided, KindMismatch> {
    let state = match record {
        None => None,
        Some(Record {
            state: LimiterState::TokenBucket { full_at, part },
            ..
        }) => Some(token_bucket::State { full_at, part }),
        Some(_) => return Err(KindMismatch),
    };
    let (decision, next) = token_bucket::decide(state, quota, cost, now);
    Ok((decision, next.map(token_record)))
}

pub(crate) fn token_record(state: token_bucket::State) -> Record {
    Record {
        state: LimiterState::TokenBucket {
            full_at: state.full_at,
            part: state.part,
        },
        expires_at_ms: state.full_at_ceil().millis_ceil(),
    }
}

pub(super) fn decide_sliding(
    record: Option<Record>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> Result<Decided, KindMismatch> {
    let state = match record {
        None => None,
        Some(Record {
            state: state @ LimiterState::SlidingWindow { .. },
            expires_at_ms,
        }) => sliding_state(state, expires_at_ms, quota),
        Some(_) => return Err(KindMismatch),
    };
    let (decision, next) = sliding_window::decide(state, quota, cost, now);
    Ok((decision, next.map(|next| sliding_record(next, quota))))
}

pub(super) fn sliding_state(
    state: LimiterState,
    expires_at_ms: i64,
    quota: &Quota,
) -> Option<sliding_window::State> {
    let LimiterState::SlidingWindow {
        previous,
        current,
        period: taken_by,
    } = state
    else {
        return None;
    };
    let period = fixed_window::period_ms(quota);
    if let Some(taken_by) = taken_by.get() {
        // Of a longer period the window before is a part as well as the latest: both count in full until that ends.
        let (previous, current) = match period > taken_by {
            true => (0, current.saturating_add(previous)),
            false => (previous, current),
        };
        return Some(sliding_window::State {
            previous,
            current,
            ends_at_ms: expires_at_ms.saturating_sub(taken_by),
        });
    }
    // Windows end at multiples of their period. Of another period it is not known when the latest ended, but that it was before
    // the record expires: its units count in full until then, so that a longer period forgets none.
    let past = expires_at_ms.rem_euclid(period);
    let ends_at_ms = match past {
        _ if expires_at_ms == i64::MAX => expires_at_ms.saturating_sub(period),
        0 => expires_at_ms.saturating_sub(period),
        past => expires_at_ms.saturating_add(period - past),
    };
    Some(sliding_window::State {
        previous,
        current,
        ends_at_ms,
    })
}

pub(super) fn sliding_record(state: sliding_window::State, quota: &Quota) -> Record {
    Record {
        state: LimiterState::SlidingWindow {
            previous: state.previous,
            current: state.current,
            period: PeriodMs::new(fixed_window::period_ms(quota)),
        },
        expires_at_ms: state
            .ends_at_ms
            .saturating_add(fixed_window::period_ms(quota)),
    }
}
