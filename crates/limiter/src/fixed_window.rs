//! Fixed window: at most `limit` units between a window's start and its end.
//!
//! Windows are kept on a clock of whole milliseconds, because the end of the window is the expiry of the
//! store's entry; a period is rounded up to whole milliseconds. Up to twice the limit can pass within one
//! period around the boundary of two windows: that is the definition of the algorithm, and the price of its
//! simplicity.
//!
//! A window once opened keeps its end, whatever the clock does: after a step back requests still count
//! against it, so no token appears twice.

use crate::calendar::Calendar;
use crate::types::{Cost, Decision, NANOS_PER_MILLI, Quota, Timestamp};

/// An open window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Units taken in this window.
    pub count: u64,
    /// First millisecond after the window, since the Unix epoch.
    pub ends_at_ms: i64,
}

/// Where windows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// With the first request that is admitted.
    FirstHit,
    /// At whole multiples of the period since the Unix epoch, as envoyproxy/ratelimit has it (so weeks
    /// begin on Thursdays).
    Epoch,
    /// Where days, weeks, months, quarters or years of a time zone begin; the quota's period is not looked at.
    Calendar(Calendar),
}

/// Decides one request. The second value is the state to store; `None` leaves things as they are.
#[inline]
pub fn decide(
    state: Option<State>,
    quota: &Quota,
    anchor: Anchor,
    cost: Cost,
    now: Timestamp,
) -> (Decision, Option<State>) {
    let now_ms = now.millis();
    let open = state.filter(|state| now_ms < state.ends_at_ms);
    let count = open.map_or(0, |state| state.count);
    let ends_at_ms = match open {
        Some(state) => state.ends_at_ms,
        None => window_end(quota, anchor, now_ms),
    };
    let left = quota.limit.saturating_sub(count);
    let allowed = count <= quota.limit && cost.0 <= left;
    let taken = if allowed { cost.0 } else { 0 };
    let to_end = span_ms(now_ms, ends_at_ms);
    let running = open.is_some() || taken > 0 || anchor != Anchor::FirstHit;
    let decision = Decision {
        allowed,
        limit: quota.limit,
        remaining: left - taken,
        retry_after: match allowed {
            true => Some(0),
            false if cost.0 <= quota.limit => Some(to_end),
            false => None,
        },
        reset_after: if running { to_end } else { 0 },
    };
    let store = (taken > 0).then_some(State {
        count: count + taken,
        ends_at_ms,
    });
    (decision, store)
}

/// The window's length in whole milliseconds, at least one.
pub(crate) fn period_ms(quota: &Quota) -> i64 {
    quota.period.div_ceil(NANOS_PER_MILLI).max(1) as i64
}

pub(crate) fn window_end(quota: &Quota, anchor: Anchor, now_ms: i64) -> i64 {
    let period = period_ms(quota);
    let start = match anchor {
        Anchor::FirstHit => now_ms,
        Anchor::Epoch => now_ms - now_ms.rem_euclid(period),
        Anchor::Calendar(calendar) => {
            // Every time that a Timestamp can hold lies within the calendar; else the window would never end.
            let window = calendar.window(Timestamp::from_millis(now_ms));
            return window.map_or(i64::MAX, |(_, end)| end);
        }
    };
    start.saturating_add(period)
}

/// From a millisecond to a later one, in nanoseconds; saturates.
pub(crate) fn span_ms(from: i64, to: i64) -> u64 {
    to.abs_diff(from).saturating_mul(NANOS_PER_MILLI)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Quota = Quota::new(3, 1_000_000_000);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn a_window_lasts_exactly_one_period_from_its_first_hit() {
        let (first, state) = decide(None, &SECOND, Anchor::FirstHit, Cost(2), at(5_300));
        assert!(first.allowed);
        assert_eq!((first.remaining, first.reset_after), (1, 1_000_000_000));
        let (denied, kept) = decide(state, &SECOND, Anchor::FirstHit, Cost(2), at(6_299));
        assert!(!denied.allowed);
        assert_eq!(
            (denied.remaining, denied.retry_after, kept),
            (1, Some(1_000_000), None)
        );
        let (next, _) = decide(state, &SECOND, Anchor::FirstHit, Cost(3), at(6_300));
        assert!(next.allowed);
    }

    #[test]
    fn epoch_windows_are_aligned_and_weeks_begin_on_thursday() {
        let week = Quota::new(1, 7 * 86_400 * 1_000_000_000);
        // 2026-01-01 was a Thursday.
        let thursday = Timestamp::from_secs(1_767_225_600);
        let (decision, state) = decide(None, &week, Anchor::Epoch, Cost(1), thursday);
        assert_eq!(decision.reset_after, week.period);
        assert_eq!(
            state.expect("admitted").ends_at_ms,
            (1_767_225_600 + 7 * 86_400) * 1_000
        );
        let (before, _) = decide(
            None,
            &week,
            Anchor::Epoch,
            Cost(1),
            Timestamp::from_secs(1_767_225_599),
        );
        assert_eq!(before.reset_after, 1_000_000_000);
    }

    #[test]
    fn a_step_back_keeps_the_window() {
        for anchor in [Anchor::FirstHit, Anchor::Epoch] {
            let (_, state) = decide(None, &SECOND, anchor, Cost(3), at(9_000));
            let (denied, _) = decide(state, &SECOND, anchor, Cost(1), at(2_000));
            assert!(!denied.allowed);
            assert_eq!(denied.retry_after, Some(8_000_000_000));
        }
    }

    #[test]
    fn a_lowered_limit_denies_even_a_cost_of_zero() {
        let state = Some(State {
            count: 5,
            ends_at_ms: 2_000,
        });
        let (decision, _) = decide(state, &SECOND, Anchor::FirstHit, Cost(0), at(1_000));
        assert!(!decision.allowed);
        assert_eq!(
            (decision.remaining, decision.retry_after),
            (0, Some(1_000_000_000))
        );
    }

    #[test]
    fn nothing_wraps_at_the_ends_of_the_ranges() {
        let huge = Quota::new(u64::MAX, u64::MAX);
        let (decision, state) = decide(
            None,
            &huge,
            Anchor::FirstHit,
            Cost(u64::MAX),
            Timestamp::from_nanos(i64::MAX),
        );
        assert!(decision.allowed);
        let (denied, _) = decide(
            state,
            &huge,
            Anchor::FirstHit,
            Cost(1),
            Timestamp::from_nanos(i64::MIN),
        );
        assert!(!denied.allowed);
        assert_eq!(denied.retry_after, Some(u64::MAX));
        let (never, _) = decide(None, &SECOND, Anchor::Epoch, Cost(4), at(0));
        assert_eq!((never.allowed, never.retry_after), (false, None));
    }
}
