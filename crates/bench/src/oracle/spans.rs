//! When decisions can have been made: between send and answer, on a clock that need not be the generator's.

use crate::load::decisions::{Decision, NEVER, Said};

/// How much a limiter's reading of its clock may lie beside the moment of the decision: clocks of whole milliseconds, and
/// one reading for a batch of requests.
pub(super) const CLOCK_GRAIN_NS: i64 = 5_000_000;
/// Largest difference in speed between two clocks, as a share: the most by which Linux slews a clock.
pub(super) const CLOCK_DRIFT: f64 = 500e-6;

/// Earliest and latest time of one decision, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Earliest.
    pub(super) from: i64,
    /// Latest; `i64::MAX` where no answer told.
    pub(super) to: i64,
}

/// What happened to one key.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// Admissions.
    pub(super) admitted: Vec<Span>,
    /// Denials, with the wait each promised in milliseconds.
    pub(super) denied: Vec<(Span, Option<u64>)>,
    /// Requests that may have been charged at any time after their send, or not at all.
    pub(super) unknown: Vec<Span>,
    /// Nothing that was decided before this time is missing here.
    pub(super) complete_until: i64,
}

impl History {
    /// The history of `decisions`, each at most `grain_ns` before its send or after its answer.
    #[must_use]
    pub(super) fn new<'a>(
        decisions: impl Iterator<Item = &'a Decision>,
        complete_until_ns: u64,
        grain_ns: i64,
    ) -> History {
        let mut history = History {
            admitted: Vec::new(),
            denied: Vec::new(),
            unknown: Vec::new(),
            complete_until: time(complete_until_ns).saturating_sub(grain_ns),
        };
        for decision in decisions {
            let span = Span {
                from: time(decision.sent_ns).saturating_sub(grain_ns),
                to: time(decision.received_ns).saturating_add(grain_ns),
            };
            match decision.said {
                Said::Admitted => history.admitted.push(span),
                Said::Denied => history.denied.push((span, decision.promise_ms())),
                Said::Unknown => history.unknown.push(span),
            }
        }
        if complete_until_ns == NEVER {
            history.complete_until = i64::MAX;
        }
        history
    }

    /// Denials before which everything is known, in the order of their earliest times.
    #[must_use]
    pub(super) fn judged_denials(&self) -> Vec<Span> {
        let known = self.denied.iter().map(|(span, _)| *span);
        let mut denials: Vec<Span> = known.filter(|span| span.to < self.complete_until).collect();
        denials.sort_unstable_by_key(|span| span.from);
        denials
    }

    /// Everything that may have been charged.
    pub(super) fn charged(&self) -> impl Iterator<Item = Span> + '_ {
        self.admitted.iter().chain(&self.unknown).copied()
    }
}

/// What no right limiter could have done to one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Admissions too many.
    pub(super) over: u64,
    /// Admissions too few.
    pub(super) under: u64,
    /// Fewest admissions of a right limiter, where its algorithm tells more than the counts do.
    pub(super) fewest: Option<u64>,
    /// Most admissions of a right limiter, likewise.
    pub(super) most: Option<u64>,
}

/// The shortest and longest that a span of `length_ns` of the limiter's clock can take on ours.
#[must_use]
pub(super) fn stretched(length_ns: i64) -> (i64, i64) {
    let drift = (length_ns as f64 * CLOCK_DRIFT).ceil() as i64;
    (
        length_ns.saturating_sub(drift),
        length_ns.saturating_add(drift),
    )
}

fn time(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// How many of the ascending `times` are at most `at`.
#[must_use]
pub(super) fn at_most(times: &[i64], at: i64) -> usize {
    times.partition_point(|time| *time <= at)
}

/// The `pick`ed times of `spans`, ascending.
#[must_use]
pub(super) fn sorted(spans: impl Iterator<Item = Span>, pick: fn(Span) -> i64) -> Vec<i64> {
    let mut times: Vec<i64> = spans.map(pick).collect();
    times.sort_unstable();
    times
}
