//! Goodput past saturation: what is answered in time when more is asked than can be answered.

use serde::{Deserialize, Serialize};

/// One shape of load on both servers, at shares of what each of them can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverloadRow {
    /// How the row is called in tables, e.g. `overload, 50 connections x 40 streams`.
    pub title: String,
    /// Connections to each server.
    pub connections: u32,
    /// Requests that one connection may have unanswered.
    pub pipeline_depth: u32,
    /// An answer later than this after the request was due is not good.
    pub deadline_ms: f64,
    /// Length of one step.
    pub step_ms: u64,
    /// The first server.
    pub a: OverloadSide,
    /// The second server.
    pub b: OverloadSide,
    /// Least goodput over its peak that the design asks for of A, if it does.
    pub budget_a: Option<f64>,
}

/// One server past its saturation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverloadSide {
    /// Most answers in time per second in an open loop of the same shape.
    pub capacity_rps: f64,
    /// The steps, by rising load.
    pub steps: Vec<OverloadStep>,
}

/// One offered load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverloadStep {
    /// Offered load over the capacity.
    pub load: f64,
    /// Requests that came due per second.
    pub offered_rps: f64,
    /// Good answers within the deadline per second.
    pub goodput_rps: f64,
    /// 99th percentile from the time at which a request was due, of the decisions and of the requests without an answer in
    /// time, which count with what a late answer took, else with how long one was waited for; `None` without any.
    pub latency_p99_ms: Option<f64>,
    /// The same of the decisions alone, late ones included, which the budget is about; `None` without any, and in records of
    /// before the other figure counted more than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_p99_ms: Option<f64>,
    /// Requests that the server refused with an error, within the deadline.
    pub refused: u64,
    /// Requests answered after the deadline, or not at all.
    pub late: u64,
    /// Requests never sent: all connections were full until the deadline had passed.
    pub unsent: u64,
    /// 99th percentile of the time by which the generator itself was late with a request; `None` where it was not kept.
    #[serde(default)]
    pub generator_lag_p99_ms: Option<f64>,
}

/// The share of the deadline by which a generator may be late before the step says more about it than about the server.
const LAG_DIVISOR: f64 = 4.0;

impl OverloadSide {
    /// Highest goodput of any step up to the capacity; `None` if nothing was answered in time there.
    #[must_use]
    pub(crate) fn peak_rps(&self) -> Option<f64> {
        let below = self.steps.iter().filter(|step| step.load <= 1.0);
        let peak = below.map(|step| step.goodput_rps).reduce(f64::max)?;
        (peak > 0.0).then_some(peak)
    }

    /// Goodput at `load` over the peak.
    #[must_use]
    pub(crate) fn over_peak(&self, load: f64) -> Option<f64> {
        Some(self.at(load)?.goodput_rps / self.peak_rps()?)
    }

    /// The step at `load`.
    #[must_use]
    pub(crate) fn at(&self, load: f64) -> Option<&OverloadStep> {
        self.steps.iter().find(|step| step.load == load)
    }
}

impl OverloadStep {
    /// 99th percentile of the decisions.
    #[must_use]
    pub(crate) fn p99_of_decisions_ms(&self) -> Option<f64> {
        self.decided_p99_ms.or(self.latency_p99_ms)
    }

    /// Whether the generator could not keep up, so that it measured itself.
    #[must_use]
    pub(crate) fn is_late(&self, deadline_ms: f64) -> bool {
        let most = deadline_ms / LAG_DIVISOR;
        self.generator_lag_p99_ms.is_some_and(|lag| lag > most)
    }
}

impl OverloadRow {
    /// Whether the generator could not keep up with `step`.
    #[must_use]
    pub(crate) fn is_invalid(&self, step: &OverloadStep) -> bool {
        step.is_late(self.deadline_ms)
    }

    /// Whether A kept its goodput at every load past the capacity, with the 99th percentile of its decisions within the deadline; `None`
    /// without a budget, without such a step, or
    /// where the generator could not keep up.
    #[must_use]
    pub(crate) fn is_met(&self) -> Option<bool> {
        let budget = self.budget_a?;
        let mut past = self
            .a
            .steps
            .iter()
            .filter(|step| step.load > 1.0)
            .peekable();
        past.peek()?;
        if self.a.steps.iter().any(|step| self.is_invalid(step)) {
            return None;
        }
        Some(past.all(|step| {
            let kept = self
                .a
                .over_peak(step.load)
                .is_some_and(|kept| kept >= budget);
            kept && step
                .p99_of_decisions_ms()
                .is_some_and(|p99| p99 <= self.deadline_ms)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(goodput: [f64; 3], p99_ms: f64) -> OverloadSide {
        let steps = [0.7, 1.0, 2.0].into_iter().zip(goodput);
        let step = |(load, goodput_rps)| OverloadStep {
            load,
            goodput_rps,
            latency_p99_ms: Some(p99_ms),
            ..OverloadStep::default()
        };
        OverloadSide {
            capacity_rps: 100.0,
            steps: steps.map(step).collect(),
        }
    }

    #[test]
    fn the_budget_wants_goodput_and_latency() {
        let row = |a: OverloadSide| OverloadRow {
            a,
            deadline_ms: 20.0,
            budget_a: Some(0.95),
            ..OverloadRow::default()
        };
        assert_eq!(row(side([70.0, 100.0, 96.0], 15.0)).is_met(), Some(true));
        assert_eq!(row(side([70.0, 100.0, 90.0], 15.0)).is_met(), Some(false));
        assert_eq!(row(side([70.0, 100.0, 99.0], 25.0)).is_met(), Some(false));
        assert_eq!(row(side([0.0, 0.0, 0.0], 15.0)).is_met(), Some(false));
        assert_eq!(row(OverloadSide::default()).is_met(), None);
        let mut late = row(side([70.0, 100.0, 96.0], 15.0));
        late.a.steps[2].generator_lag_p99_ms = Some(5.1);
        assert_eq!(late.is_met(), None);
        late.a.steps[2].generator_lag_p99_ms = Some(4.9);
        assert_eq!(late.is_met(), Some(true));
        let without = OverloadRow {
            budget_a: None,
            ..row(side([70.0, 100.0, 96.0], 15.0))
        };
        assert_eq!(without.is_met(), None);
    }

    #[test]
    fn a_peak_of_nothing_is_no_peak() {
        assert_eq!(side([0.0, 0.0, 5.0], 1.0).peak_rps(), None);
        assert_eq!(side([80.0, 60.0, 90.0], 1.0).peak_rps(), Some(80.0));
        assert_eq!(side([80.0, 60.0, 40.0], 1.0).over_peak(2.0), Some(0.5));
        assert_eq!(side([80.0, 60.0, 40.0], 1.0).over_peak(3.0), None);
    }
}
