//! Sliding log: no stretch of one window's length holds more than the limit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::spans::{History, Span, Wrong, at_most, sorted, stretched};
use super::tree::MaxTree;

/// What is wrong with `history`.
#[must_use]
pub(super) fn judge(history: &History, window_ns: i64, limit: u64) -> Wrong {
    Wrong {
        over: sweep(&history.admitted, stretched(window_ns).0, Some(limit)).1,
        under: missing(history, stretched(window_ns).1, limit),
        ..Wrong::default()
    }
}

/// Most admissions that certainly lie in one stretch of `window_ns`.
#[must_use]
pub(super) fn fullest(admitted: &[Span], window_ns: i64) -> u64 {
    sweep(admitted, window_ns, None).0
}

/// The fullest stretch, and how many had to be left out so that none exceeds `limit`.
fn sweep(admitted: &[Span], window_ns: i64, limit: Option<u64>) -> (u64, u64) {
    let begins = sorted(admitted.iter().copied(), |span| span.from);
    let mut held = MaxTree::new(&vec![0.0; begins.len()]);
    let mut by_end = admitted.to_vec();
    by_end.sort_unstable_by_key(|span| span.to);
    let (mut fullest, mut surplus) = (0, 0);
    for span in by_end {
        // Stretches that hold the whole span begin after `first` and at its earliest time at the latest.
        let (first, end) = (
            at_most(&begins, span.to.saturating_sub(window_ns)),
            at_most(&begins, span.from),
        );
        held.add_to_first(end, 1.0);
        let most = held.largest(first, end);
        if limit.is_some_and(|limit| most > limit as f64) {
            held.add_to_first(end, -1.0);
            surplus += 1;
        } else if most > 0.0 {
            fullest = fullest.max(most as u64);
        }
    }
    (fullest, surplus)
}

/// Denials with room left in the window before them. One that should have passed counts as passed for those after it.
fn missing(history: &History, window_ns: i64, limit: u64) -> u64 {
    let begins = sorted(history.charged(), |span| span.from);
    let mut ends: BinaryHeap<Reverse<i64>> =
        history.charged().map(|span| Reverse(span.to)).collect();
    let (mut gone, mut missing) = (0, 0);
    for denial in history.judged_denials() {
        let out = denial.from.saturating_sub(window_ns);
        while ends.peek().is_some_and(|Reverse(end)| *end <= out) {
            ends.pop();
            gone += 1;
        }
        let counted = at_most(&begins, denial.to) + missing as usize - gone;
        if (counted as u64) < limit {
            missing += 1;
            ends.push(Reverse(denial.to));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn instants(times: &[i64]) -> Vec<Span> {
        let span = |at: &i64| Span { from: *at, to: *at };
        times.iter().map(span).collect()
    }

    #[test]
    fn the_edge_burst_of_a_fixed_window_is_seen() {
        let edge = [
            SECOND - 3,
            SECOND - 2,
            SECOND - 1,
            SECOND + 1,
            SECOND + 2,
            SECOND + 3,
        ];
        assert_eq!(fullest(&instants(&edge), SECOND), 6);
        assert_eq!(sweep(&instants(&edge), SECOND, Some(3)), (3, 3));
        // Two that are a window apart do not meet.
        assert_eq!(fullest(&instants(&[0, SECOND]), SECOND), 1);
        // What may lie outside is not held against anybody.
        let wide = [Span {
            from: 0,
            to: 2 * SECOND,
        }; 5];
        assert_eq!(fullest(&wide, SECOND), 0);
        assert_eq!(fullest(&[], SECOND), 0);
    }
}
