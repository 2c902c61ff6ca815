//! What the trials at one load say about it.

use crate::record::{Measure, SearchGoal};

/// Sums of durations are compared with this tolerance, in seconds.
const EPSILON_S: f64 = 1e-9;
/// Factor on the trial time of a load that fails below one that passes: from three trials to nine, of which a stall that lasts
/// through four decides nothing.
const INVERTED_FACTOR: f64 = 3.0;

/// What a load is to a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Held.
    Lower,
    /// Not held.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// A trial as the classification sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Length of the load.
    pub duration_s: f64,
    /// What came of it.
    pub measure: Measure,
    /// False if the machine, not the target, may have caused it.
    pub believable: bool,
}

/// How a load is judged: by a goal's own durations, or by shorter ones while the search is still far away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The goal.
    pub goal: &'a SearchGoal,
    /// Trials from this length on count fully.
    pub trial_s: f64,
    /// Trial time that decides.
    pub sum_s: f64,
    /// Width at which to stop.
    pub width: f64,
}

impl<'a> Target<'a> {
    /// The goal as it was asked.
    #[must_use]
    pub(crate) fn last(goal: &'a SearchGoal) -> Target<'a> {
        Target {
            goal,
            trial_s: goal.final_trial_s,
            sum_s: goal.duration_sum_s,
            width: goal.width,
        }
    }

    /// The same with more trial time, for a load that fails below one that passes.
    #[must_use]
    pub(crate) fn doubtful(self) -> Target<'a> {
        Target {
            sum_s: self.sum_s * INVERTED_FACTOR,
            ..self
        }
    }

    /// Whether a trial counts fully.
    #[must_use]
    pub(crate) fn is_long(&self, sample: &Sample) -> bool {
        sample.duration_s >= self.trial_s - EPSILON_S
    }

    /// Classifies a load from its trials (RFC 9971, load classification): decided once the missing trial time could
    /// not change the result any more, whatever it brought. Short trials count against a load only as far as short
    /// good ones do not outweigh them.
    #[must_use]
    pub(crate) fn classify(&self, samples: &[Sample]) -> Bound {
        let (mut good_long, mut bad_long, mut good_short, mut bad_short) = (0.0, 0.0, 0.0, 0.0);
        for sample in samples {
            let good = self.goal.broken_by(&sample.measure).is_none();
            let sum = match (self.is_long(sample), good) {
                (true, true) => &mut good_long,
                (true, false) => &mut bad_long,
                (false, true) => &mut good_short,
                (false, false) => &mut bad_short,
            };
            *sum += sample.duration_s;
        }
        let exceed = self.goal.exceed_ratio;
        let outweighed = good_short * exceed / (1.0 - exceed);
        let bad: f64 = bad_long + f64::max(0.0, bad_short - outweighed);
        let whole = f64::max(good_long + bad, self.sum_s);
        let tolerated = whole * exceed + EPSILON_S;
        if bad > tolerated {
            Bound::Upper
        } else if whole - good_long <= tolerated {
            Bound::Lower
        } else {
            Bound::Undecided
        }
    }

    /// Goodput to expect at a load that counts as held (RFC 9971, conditional throughput): of the full-length trials
    /// in order of their failures, the worst that the exceed ratio does not excuse. `None` without enough of them.
    #[must_use]
    pub(crate) fn conditional_throughput(&self, load_rps: f64, samples: &[Sample]) -> Option<f64> {
        let mut long: Vec<&Sample> = samples.iter().filter(|s| self.is_long(s)).collect();
        long.sort_by(|a, b| a.measure.fail_percent.total_cmp(&b.measure.fail_percent));
        let measured: f64 = long.iter().map(|sample| sample.duration_s).sum();
        let mut needed = measured.max(self.sum_s) * (1.0 - self.goal.exceed_ratio) - EPSILON_S;
        for sample in long {
            needed -= sample.duration_s;
            if needed <= 0.0 {
                return Some(load_rps * (1.0 - sample.measure.fail_percent / 100.0));
            }
        }
        None
    }
}
