//! Sliding window counter: two aligned windows, the earlier one weighted by how much of it still lies within
//! one period of now.
//!
//! What counts as used is `current + previous * (period - elapsed) / period`, rounded up, on a clock of whole
//! milliseconds. The weight assumes that the earlier window's hits were spread evenly: an interval of one period
//! across the boundary may hold more than the limit when they were not, by at most what the weight has let go (a
//! sliding log holds every interval to the limit). Source: the counter of Cloudflare's rate limiter and of
//! upstash/ratelimit.
//!
//! Where the period of a key changes, units taken by a shorter one count in full until their window ends, and fade over the
//! longer one from there. A record is kept for one period beyond its latest window, that by which it was taken last: what is
//! older is not there for a longer period to count.
//!
//! A clock that steps back is held at the start of the latest window, so no hit is forgotten.

use crate::fixed_window::{period_ms, span_ms};
use crate::types::{Cost, Decision, Quota, Timestamp};

/// The latest window with hits, and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Units taken in the window before.
    pub previous: u64,
    /// Units taken in the latest window.
    pub current: u64,
    /// First millisecond after the latest window, since the Unix epoch.
    pub ends_at_ms: i64,
}

/// The two windows as seen from now.
#[derive(Clone, Copy)]
struct View {
    previous: u64,
    current: u64,
    /// Milliseconds since the start of the present window.
    elapsed: i64,
    ends_at_ms: i64,
    period: i64,
}

impl View {
    fn new(state: Option<State>, period: i64, now_ms: i64) -> View {
        let start = now_ms - now_ms.rem_euclid(period);
        let fresh = View {
            previous: 0,
            current: 0,
            elapsed: now_ms - start,
            ends_at_ms: start.saturating_add(period),
            period,
        };
        let Some(state) = state else {
            return fresh;
        };
        let ends = state.ends_at_ms;
        if now_ms < ends {
            // Also a clock before the window's start, and a window of another length: held inside it.
            let elapsed = period.saturating_sub(ends.saturating_sub(now_ms)).max(0);
            return View {
                previous: state.previous,
                current: state.current,
                elapsed,
                ends_at_ms: ends,
                period,
            };
        }
        let since = now_ms.saturating_sub(ends);
        if since < period {
            return View {
                previous: state.current,
                current: 0,
                elapsed: since,
                ends_at_ms: ends.saturating_add(period),
                period,
            };
        }
        fresh
    }

    /// Units that count against the limit.
    fn used(&self) -> u64 {
        let left = (self.period - self.elapsed).max(0) as u128;
        let weighted = (u128::from(self.previous) * left).div_ceil(self.period as u128);
        self.current.saturating_add(weighted as u64)
    }

    /// The first moment, in milliseconds after this window's start, at which at most `room` units of the window
    /// before count; at most the period.
    fn fades_at(previous: u64, room: u64, period: i64) -> i64 {
        if previous <= room {
            return 0;
        }
        let kept = u128::from(room) * period as u128 / u128::from(previous);
        period - kept as i64
    }

    /// When a request of this cost, at most the limit, passes if nobody else takes; Unix milliseconds.
    fn passes_at(&self, limit: u64, cost: u64) -> i64 {
        let start = self.ends_at_ms.saturating_sub(self.period);
        if let Some(room) = limit
            .checked_sub(cost)
            .and_then(|free| free.checked_sub(self.current))
        {
            let at = View::fades_at(self.previous, room, self.period);
            if at < self.period {
                return start.saturating_add(at);
            }
        }
        let at = View::fades_at(self.current, limit - cost, self.period);
        self.ends_at_ms.saturating_add(at)
    }

    /// When nothing counts any more; Unix milliseconds.
    fn empty_at(&self, now_ms: i64) -> i64 {
        if self.current > 0 {
            self.ends_at_ms.saturating_add(self.period)
        } else if self.previous > 0 {
            self.ends_at_ms
        } else {
            now_ms
        }
    }
}

/// Decides one request. The second value is the state to store; `None` leaves things as they are.
pub fn decide(
    state: Option<State>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> (Decision, Option<State>) {
    let now_ms = now.millis();
    let mut view = View::new(state, period_ms(quota), now_ms);
    let used = view.used();
    let left = quota.limit.saturating_sub(used);
    let allowed = used <= quota.limit && cost.0 <= left;
    if !allowed {
        let possible = cost.0 <= quota.limit;
        let decision = Decision {
            allowed,
            limit: quota.limit,
            remaining: left,
            retry_after: possible.then(|| span_ms(now_ms, view.passes_at(quota.limit, cost.0))),
            reset_after: span_ms(now_ms, view.empty_at(now_ms)),
        };
        return (decision, None);
    }
    view.current = view.current.saturating_add(cost.0);
    let decision = Decision {
        allowed,
        limit: quota.limit,
        remaining: left - cost.0,
        retry_after: Some(0),
        reset_after: span_ms(now_ms, view.empty_at(now_ms)),
    };
    let store = (cost.0 > 0).then_some(State {
        previous: view.previous,
        current: view.current,
        ends_at_ms: view.ends_at_ms,
    });
    (decision, store)
}

/// Gives back up to `units` that the window which ends at `ends_at_ms` has taken, as far as it counts still.
pub(crate) fn refund_of(
    state: State,
    quota: &Quota,
    units: u64,
    ends_at_ms: i64,
    now: Timestamp,
) -> Option<State> {
    if ends_at_ms == state.ends_at_ms {
        return refund(state, quota, units, now);
    }
    let before = ends_at_ms.saturating_add(period_ms(quota)) == state.ends_at_ms;
    let counts = before && now.millis() < state.ends_at_ms;
    (counts && state.previous > 0 && units > 0).then(|| State {
        previous: state.previous.saturating_sub(units),
        ..state
    })
}

/// Gives back up to `units` that the latest window has taken; `None` when there is nothing to give back.
pub fn refund(state: State, quota: &Quota, units: u64, now: Timestamp) -> Option<State> {
    let period = period_ms(quota);
    let open = now.millis() < state.ends_at_ms.saturating_add(period);
    (open && state.current > 0 && units > 0).then(|| State {
        current: state.current.saturating_sub(units),
        ..state
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Quota = Quota::new(10, 1_000_000_000);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn the_window_before_fades_evenly() {
        let (_, state) = decide(None, &SECOND, Cost(10), at(900));
        // At 1,500 half of the ten count.
        let (half, _) = decide(state, &SECOND, Cost(5), at(1_500));
        assert_eq!((half.allowed, half.remaining), (true, 0));
        let (over, _) = decide(state, &SECOND, Cost(6), at(1_500));
        assert_eq!(
            (over.allowed, over.remaining, over.retry_after),
            (false, 5, Some(100_000_000))
        );
        let (gone, _) = decide(state, &SECOND, Cost(10), at(2_000));
        assert_eq!((gone.allowed, gone.remaining), (true, 0));
    }

    #[test]
    fn a_full_window_lets_nothing_pass_right_after_its_end() {
        let (_, state) = decide(None, &SECOND, Cost(10), at(999));
        let (denied, _) = decide(state, &SECOND, Cost(1), at(1_000));
        assert_eq!(
            (denied.allowed, denied.retry_after, denied.reset_after),
            (false, Some(100_000_000), 1_000_000_000)
        );
    }

    #[test]
    fn a_step_back_forgets_nothing() {
        let (_, state) = decide(None, &SECOND, Cost(10), at(9_500));
        let (denied, _) = decide(state, &SECOND, Cost(1), at(2_000));
        assert!(!denied.allowed);
        assert_eq!(denied.retry_after, Some(8_100_000_000));
    }

    #[test]
    fn a_refund_gives_back_what_the_latest_window_took() {
        let (_, state) = decide(None, &SECOND, Cost(10), at(100));
        let back = refund(state.expect("taken"), &SECOND, 4, at(200));
        assert_eq!(decide(back, &SECOND, Cost(4), at(200)).0.remaining, 0);
        assert_eq!(refund(back.expect("refunded"), &SECOND, 4, at(9_000)), None);
    }
}
