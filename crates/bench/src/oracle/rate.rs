//! Token bucket, leaky bucket and GCRA: a burst, and a rate at which it comes back.
//!
//! In any stretch of time a right limiter admits at most the burst and what the stretch earns. It denies only when the
//! burst is used up; how much of it can be used up at a denial follows from the admissions before, each as late as
//! its answer allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::spans::{CLOCK_DRIFT, History, Span, Wrong, at_most, sorted};
use super::tree::MaxTree;

/// Rounding of sums of tokens.
const TOKEN_DUST: f64 = 1e-6;
/// Rounding of sums of nanoseconds.
const NANO_DUST: f64 = 2.0;

/// A bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    /// Units that pass at one instant.
    pub(super) burst: u64,
    /// Units that come back in `period_ns`.
    pub(super) limit: u64,
    /// Time in which `limit` units come back.
    pub(super) period_ns: i64,
}

impl Bucket {
    fn per_ns(&self) -> f64 {
        self.limit as f64 / self.period_ns.max(1) as f64
    }

    /// Most admissions in a stretch of `length_ns`.
    #[must_use]
    pub(super) fn most(&self, length_ns: i64) -> f64 {
        self.burst as f64 + self.per_ns() * (1.0 + CLOCK_DRIFT) * length_ns.max(0) as f64
    }
}

/// What is wrong with `history`.
#[must_use]
pub(super) fn judge(history: &History, bucket: &Bucket) -> Wrong {
    if bucket.limit == 0 || bucket.burst == 0 {
        return Wrong {
            over: history.admitted.len() as u64,
            under: 0,
            ..Wrong::default()
        };
    }
    Wrong {
        over: surplus(&history.admitted, bucket),
        under: missing(history, bucket),
        ..Wrong::default()
    }
}

/// Admissions that must go until no stretch holds more than it may.
fn surplus(admitted: &[Span], bucket: &Bucket) -> u64 {
    let begins = sorted(admitted.iter().copied(), |span| span.from);
    let Some(&origin) = begins.first() else {
        return 0;
    };
    let per_ns = bucket.per_ns() * (1.0 + CLOCK_DRIFT);
    let earned_by = |at: i64| per_ns * (at - origin) as f64;
    // For every begin of a stretch: what it holds so far, and what was earned before it.
    let row: Vec<f64> = begins.iter().map(|at| earned_by(*at)).collect();
    let mut stretches = MaxTree::new(&row);
    let mut by_end = admitted.to_vec();
    by_end.sort_unstable_by_key(|span| span.to);
    let mut surplus = 0;
    for span in by_end {
        let within = at_most(&begins, span.from);
        stretches.add_to_first(within, 1.0);
        let allowed = bucket.burst as f64 + earned_by(span.to) + TOKEN_DUST;
        if stretches.largest(0, within) > allowed {
            stretches.add_to_first(within, -1.0);
            surplus += 1;
        }
    }
    surplus
}

/// Denials that were made with a token left. One that should have passed counts as passed for those after it.
fn missing(history: &History, bucket: &Bucket) -> u64 {
    // GCRA rounds the time that a unit is worth up to whole nanoseconds, which delays what passes.
    let unit = (bucket.period_ns as u64).div_ceil(bucket.limit) as f64;
    let allowed = (bucket.burst - 1) as f64 * unit - NANO_DUST;
    let begins = sorted(history.charged(), |span| span.from);
    let mut ends: BinaryHeap<Reverse<i64>> =
        history.charged().map(|span| Reverse(span.to)).collect();
    let (mut passed, mut missing, mut owed, mut now) = (0, 0, 0.0_f64, i64::MIN);
    let drain = |owed: f64, from: i64, to: i64| {
        (owed - to.saturating_sub(from) as f64 * (1.0 - CLOCK_DRIFT)).max(0.0)
    };
    for denial in history.judged_denials() {
        while let Some(Reverse(end)) = ends.peek().copied().filter(|end| end.0 < denial.from) {
            ends.pop();
            owed = drain(owed, now, end) + unit;
            now = end;
            passed += 1;
        }
        owed = drain(owed, now, denial.from);
        now = denial.from;
        // All that may have come first, at the last moment.
        let overlapping = at_most(&begins, denial.to) + missing as usize - passed;
        if owed + overlapping as f64 * unit <= allowed {
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
    const BUCKET: Bucket = Bucket {
        burst: 10,
        limit: 10,
        period_ns: SECOND,
    };

    fn instants(times: impl IntoIterator<Item = i64>) -> Vec<Span> {
        let span = |at| Span { from: at, to: at };
        times.into_iter().map(span).collect()
    }

    #[test]
    fn a_burst_and_what_comes_back_is_allowed() {
        let mut times = vec![0; 10];
        times.extend((1..50).map(|n| n * SECOND / 10));
        assert_eq!(surplus(&instants(times.clone()), &BUCKET), 0);
        times.push(2 * SECOND + 1);
        assert_eq!(surplus(&instants(times), &BUCKET), 1);
    }

    #[test]
    fn a_denial_needs_an_empty_bucket() {
        let history = |admitted: i64| History {
            admitted: instants(vec![0; admitted as usize]),
            denied: instants([1, 2, 3])
                .into_iter()
                .map(|span| (span, None))
                .collect(),
            unknown: Vec::new(),
            complete_until: i64::MAX,
        };
        assert_eq!(missing(&history(10), &BUCKET), 0);
        assert_eq!(missing(&history(9), &BUCKET), 1);
        assert_eq!(missing(&history(5), &BUCKET), 3);
        // What got no answer may have been charged.
        let mut lost = history(5);
        lost.unknown = vec![
            Span {
                from: 0,
                to: i64::MAX
            };
            5
        ];
        assert_eq!(missing(&lost, &BUCKET), 0);
    }
}
