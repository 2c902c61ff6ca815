//! The same arithmetic as Lua scripts, for remote stores without native commands.
//!
//! Lua's numbers are doubles, exact to 2^53. Hence the scripts' units: fixed windows count milliseconds,
//! as the native function does; buckets count microseconds, so they equal [`Gcra::with_resolution`] with a
//! resolution of 1,000 ns on times of whole microseconds, the exact token bucket too. Limits and costs above [`MAX_UNITS`] are cut to it.
//!
//! The time is the store's own (`TIME`), so that all instances of a service agree on it; a test may give
//! one. A script replies five integers for each check: allowed (0 or 1), limit, remaining, retry after and
//! reset after in microseconds, with -1 for a request that can never pass. [`decision`] reads them.

use crate::algorithms::{AlgorithmKind, DEBT_MAX};
use crate::fixed_window::period_ms;
use crate::gcra::Gcra;
use crate::slot::{Act, Method};
use crate::types::{Cost, Decision, Nanos, Quota, Timestamp};

/// Fixed window on one key. `KEYS[1]`; `ARGV`: time, then [`Arguments`] without the tag.
pub const FIXED_WINDOW: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/fixed_window.lua"),
    include_str!("lua/single.lua"),
    "return run(fixed_window)\n"
);

/// Sliding window counter on one key. `KEYS[1]`; `ARGV`: time, then [`Arguments`] without the tag.
pub const SLIDING_WINDOW: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/sliding_window.lua"),
    include_str!("lua/single.lua"),
    "return run(sliding_window)\n"
);

/// GCRA on one key. `KEYS[1]`; `ARGV`: time, then [`Arguments`] without the tag.
pub const GCRA: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/gcra.lua"),
    include_str!("lua/single.lua"),
    "return run(gcra)\n"
);

/// Any number of checks, all or nothing. One key for each check; `ARGV`: time, then [`Arguments`] with the
/// tag for each check. Replies five integers for each check in one flat list.
pub const BATCH: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/fixed_window.lua"),
    include_str!("lua/gcra.lua"),
    include_str!("lua/sliding_window.lua"),
    include_str!("lua/batch.lua"),
);

/// Every act on every algorithm: reservations, leases, the log, refunds, alone or together with the small ones. One key
/// for each check. `ARGV`: time, then what [`check_words`] and its neighbours say.
pub const GENERAL: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/fixed_window.lua"),
    include_str!("lua/gcra.lua"),
    include_str!("lua/sliding_window.lua"),
    include_str!("lua/ledgers.lua"),
    include_str!("lua/checks.lua"),
    include_str!("lua/inherit.lua"),
    include_str!("lua/general.lua"),
);

/// Lets one counter go on from another where the store has limiters of its own. `KEYS`: the new counter, the one before;
/// `ARGV`: how, the number of words of the new limit, those words of `RL.TAKE`, and those of the limit before.
pub const INHERIT_NATIVE: &str = include_str!("lua/inherit_native.lua");

/// The largest limit, burst or cost of the scripts: sums of two stay exact in a double.
pub const MAX_UNITS: u64 = 1 << 52;

/// Resolution of GCRA, token and leaky buckets in the scripts, in nanoseconds.
pub const GCRA_RESOLUTION: u64 = 1_000;

/// Integers in the reply for one check.
pub const REPLY_LEN: usize = 5;

/// The numbers a script wants for one check, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// `w`, `g` or `s`: the algorithm, for [`BATCH`] and [`GENERAL`] only.
    pub tag: &'static str,
    /// Limit, or burst.
    pub a: u64,
    /// Period in ms, or increment in us, or the end of the calendar's window in Unix ms.
    pub b: u64,
    /// 1 for windows from the epoch, or tolerance in us, or the end of the calendar's next window in Unix ms.
    pub c: u64,
    /// Cost.
    pub cost: u64,
    /// 1 to take nothing.
    pub peek: u64,
}

impl Arguments {
    /// Prepares one check. `now` chooses the calendar's windows; the next one goes along, for a store whose clock is ahead.
    pub fn new(kind: AlgorithmKind, quota: &Quota, cost: Cost, peek: bool, now: Timestamp) -> Self {
        let cost = cost.0.min(MAX_UNITS);
        let peek = u64::from(peek);
        match kind {
            AlgorithmKind::FixedWindow | AlgorithmKind::FixedWindowEpoch => Self {
                tag: "w",
                a: quota.limit.min(MAX_UNITS - 1),
                b: period_ms(quota).unsigned_abs(),
                c: u64::from(kind == AlgorithmKind::FixedWindowEpoch),
                cost,
                peek,
            },
            AlgorithmKind::Calendar(calendar) => {
                let end = |at| calendar.window(at).map_or(i64::MAX, |(_, end)| end);
                let this = end(now);
                let next = end(Timestamp::from_millis(this));
                Self {
                    tag: "w",
                    a: quota.limit.min(MAX_UNITS - 1),
                    b: this.max(2).unsigned_abs(),
                    c: next.max(2).unsigned_abs(),
                    cost,
                    peek,
                }
            }
            AlgorithmKind::SlidingWindow => Self {
                tag: "s",
                a: quota.limit.min(MAX_UNITS - 1),
                b: period_ms(quota).unsigned_abs(),
                c: 0,
                cost,
                peek,
            },
            AlgorithmKind::Gcra | AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
                let gcra = Gcra::with_resolution(quota, GCRA_RESOLUTION);
                Self {
                    tag: "g",
                    a: gcra.burst.min(MAX_UNITS - 1),
                    b: gcra.increment / GCRA_RESOLUTION,
                    c: gcra.tolerance / GCRA_RESOLUTION,
                    cost,
                    peek,
                }
            }
        }
    }
}

/// A word of a command.
pub type Word = Box<[u8]>;

/// What follows the time in [`GENERAL`] for a decision, before the words of its checks.
pub const DECIDE: &str = "decide";
/// What follows the time in [`GENERAL`] before the words of a check whose cost is given back.
pub const REFUND: &str = "refund";

/// What follows the time in [`GENERAL`] before the words of a new limit, those of the one before, and how the counter of the
/// second key goes on under the first.
pub const INHERIT: &str = "inherit";

/// The nine words of one check in [`GENERAL`].
pub fn check_words(
    method: Method,
    quota: &Quota,
    cost: Cost,
    act: Act<'_>,
    now: Timestamp,
) -> [Word; 9] {
    let plain = |tag, a, b, c| (tag, a, b, c, 0);
    let (tag, a, b, c, most) = match method {
        Method::Small(kind) => {
            let Arguments { tag, a, b, c, .. } = Arguments::new(kind, quota, cost, false, now);
            let most = quota.limit.max(quota.burst).saturating_mul(DEBT_MAX);
            (tag, a, b, c, most.min(MAX_UNITS - 1))
        }
        Method::Log => plain("l", quota.limit.min(MAX_UNITS - 1), micros(quota.period), 0),
        Method::Concurrency => plain("c", quota.limit.min(MAX_UNITS - 1), 0, 0),
    };
    let (act, id, ttl) = match act {
        Act::Take => ("0", &b""[..], 0),
        Act::Peek => ("1", &b""[..], 0),
        Act::Hold { id, ttl } => ("2", id, micros(ttl)),
    };
    let number = |number: u64| number.to_string().into_bytes().into_boxed_slice();
    let cost = number(cost.0.min(MAX_UNITS));
    [
        tag.as_bytes().into(),
        number(a),
        number(b),
        number(c),
        number(most),
        cost,
        act.as_bytes().into(),
        id.into(),
        number(ttl),
    ]
}

/// What follows the time in [`GENERAL`] to end a reservation. It replies the actual cost, the units given back, and 1 if
/// it had ended before; or nothing when there is none of that name.
pub fn end_words(id: &[u8], actual: u64) -> [Word; 3] {
    let actual = actual.min(MAX_UNITS).to_string();
    [
        b"end".as_slice().into(),
        id.into(),
        actual.into_bytes().into(),
    ]
}

/// What follows the time in [`GENERAL`] to give a lease back. It replies its units.
pub fn release_words(id: &[u8]) -> [Word; 2] {
    [b"release".as_slice().into(), id.into()]
}

/// Whole microseconds, rounded up, of which a double holds every one.
fn micros(span: Nanos) -> u64 {
    span.div_ceil(1_000).clamp(1, MAX_UNITS)
}

/// Reads the five integers of one check; `None` when they are not what a script replies.
pub fn decision(reply: &[i64]) -> Option<Decision> {
    let &[allowed, limit, remaining, retry_us, reset_us] = reply else {
        return None;
    };
    let span = |us: i64| u64::try_from(us).ok()?.checked_mul(1_000);
    Some(Decision {
        allowed: match allowed {
            0 => false,
            1 => true,
            _ => return None,
        },
        limit: u64::try_from(limit).ok()?,
        remaining: u64::try_from(remaining).ok()?,
        retry_after: if retry_us == -1 {
            None
        } else {
            Some(span(retry_us)?)
        },
        reset_after: span(reset_us)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_or_refused() {
        assert_eq!(
            decision(&[0, 5, 0, 1_500, 2_000]),
            Some(Decision {
                allowed: false,
                limit: 5,
                remaining: 0,
                retry_after: Some(1_500_000),
                reset_after: 2_000_000
            })
        );
        assert_eq!(
            decision(&[0, 5, 0, -1, 0]).expect("valid").retry_after,
            None
        );
        for bad in [
            &[1, 1, 1, 1][..],
            &[2, 1, 1, 1, 1],
            &[1, 1, 1, -2, 1],
            &[1, 1, 1, 1, i64::MAX],
        ] {
            assert_eq!(decision(bad), None);
        }
    }
}
