//! Did the limiter admit what it promised? Speed without this answer is worth nothing.

use serde::{Deserialize, Serialize};

use super::percent;

/// Admissions against the bounds that the oracle of the algorithm allows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Algorithm of the oracle, e.g. `fixed-window`.
    pub algorithm: String,
    /// Limit per key and window.
    pub limit: u64,
    /// Length of the window.
    pub window_ms: u64,
    /// Keys judged.
    pub keys: u64,
    /// Requests offered to those keys.
    pub offered: u64,
    /// Requests admitted.
    pub admitted: u64,
    /// Requests whose verdict never arrived: they may have been charged.
    pub unknown: u64,
    /// Fewest admissions a right limiter could have made, summed over the keys.
    pub allowed_min: u64,
    /// Most admissions a right limiter could have made, summed over the keys.
    pub allowed_max: u64,
    /// Admissions above each key's maximum, summed, in percent of `allowed_max`.
    pub over_admission_percent: f64,
    /// Admissions missing to each key's minimum, summed, in percent of `allowed_min`.
    pub under_admission_percent: f64,
    /// Most admissions of one key in any stretch of one window's length.
    pub worst_window_admitted: Option<u64>,
    /// Key of that stretch.
    pub worst_window_key: Option<String>,
    /// Jain's index over the keys' admissions where their demand was equal; 1 is perfectly fair.
    pub fairness_jain: Option<f64>,
    /// Admissions of the key that got least, as a share of the mean over the keys, where their demand was equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness_min_of_mean: Option<f64>,
    /// Admissions of the key that got most, as a share of the mean over the keys, where their demand was equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness_max_of_mean: Option<f64>,
    /// Admissions above each key's maximum, summed.
    #[serde(default)]
    pub over_admitted: u64,
    /// Admissions missing to each key's minimum, summed.
    #[serde(default)]
    pub under_admitted: u64,
    /// What was judged decision by decision; `None` if only the counts of each key were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<ExactPart>,
    /// What denials promised about the next admission, against what came; `None` where the protocol carries no such
    /// promise or none could be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<RetryAfter>,
    /// Errors that the limiter itself states, as the most admitted too much and too little, summed over the keys; `None`
    /// where it states none and must be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stated: Option<(u64, u64)>,
}

/// The part of a step whose decisions were kept one by one, so that each is judged by where it must have happened
/// between its send and its answer, and steps longer than the window exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactPart {
    /// Keys of which every decision was kept until the memory for them was used up.
    pub keys: u64,
    /// Decisions of those keys that were judged.
    pub decisions: u64,
    /// Decisions of those keys that came after the memory was used up: only counted.
    pub left_out: u64,
    /// Admissions that no right limiter could have made.
    pub over_admitted: u64,
    /// Denials that no right limiter could have made, counted as the admissions that are missing.
    pub under_admitted: u64,
}

/// Promised waits of denials against the wait that was seen: a later admission bounds it from above, a later denial
/// without an admission in between from below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RetryAfter {
    /// Unit in which the protocol states the wait: an error below it is rounding.
    pub resolution_ms: f64,
    /// Promises that could be compared with a later decision.
    pub checked: u64,
    /// Promises kept within one unit.
    pub kept: u64,
    /// Promises that were too long: the key was admitted earlier.
    pub too_long: u64,
    /// Promises that were too short: the key was still denied after the wait, and nobody was admitted in between.
    pub too_short: u64,
    /// Largest excess of a promise over the wait seen.
    pub worst_too_long_ms: f64,
    /// Largest shortfall of a promise.
    pub worst_too_short_ms: f64,
    /// Mean of the absolute error over the promises checked; 0 for those that fit what was seen.
    pub mean_error_ms: f64,
}

impl ExactPart {
    /// The sum over two steps.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            keys: self.keys + other.keys,
            decisions: self.decisions + other.decisions,
            left_out: self.left_out + other.left_out,
            over_admitted: self.over_admitted + other.over_admitted,
            under_admitted: self.under_admitted + other.under_admitted,
        }
    }
}

impl RetryAfter {
    /// The two together.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        let checked = self.checked + other.checked;
        let errors =
            self.mean_error_ms * self.checked as f64 + other.mean_error_ms * other.checked as f64;
        Self {
            resolution_ms: self.resolution_ms.max(other.resolution_ms),
            checked,
            kept: self.kept + other.kept,
            too_long: self.too_long + other.too_long,
            too_short: self.too_short + other.too_short,
            worst_too_long_ms: self.worst_too_long_ms.max(other.worst_too_long_ms),
            worst_too_short_ms: self.worst_too_short_ms.max(other.worst_too_short_ms),
            mean_error_ms: errors / checked.max(1) as f64,
        }
    }
}

/// What an oracle counted, from which [`Accuracy::new`] derives the percentages.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccuracyInput {
    /// See [`Accuracy::algorithm`].
    pub algorithm: String,
    /// See [`Accuracy::limit`].
    pub limit: u64,
    /// See [`Accuracy::window_ms`].
    pub window_ms: u64,
    /// See [`Accuracy::keys`].
    pub keys: u64,
    /// See [`Accuracy::offered`].
    pub offered: u64,
    /// See [`Accuracy::admitted`].
    pub admitted: u64,
    /// See [`Accuracy::unknown`].
    pub unknown: u64,
    /// See [`Accuracy::allowed_min`].
    pub allowed_min: u64,
    /// See [`Accuracy::allowed_max`].
    pub allowed_max: u64,
    /// Sum over the keys of admissions above the key's maximum.
    pub over_admitted: u64,
    /// Sum over the keys of admissions missing to the key's minimum.
    pub under_admitted: u64,
    /// See [`Accuracy::worst_window_admitted`].
    pub worst_window_admitted: Option<u64>,
    /// See [`Accuracy::worst_window_key`].
    pub worst_window_key: Option<String>,
    /// See [`Accuracy::fairness_jain`].
    pub fairness_jain: Option<f64>,
    /// See [`Accuracy::fairness_min_of_mean`].
    pub fairness_min_of_mean: Option<f64>,
    /// See [`Accuracy::fairness_max_of_mean`].
    pub fairness_max_of_mean: Option<f64>,
    /// See [`Accuracy::exact`].
    pub exact: Option<ExactPart>,
    /// See [`Accuracy::retry_after`].
    pub retry_after: Option<RetryAfter>,
}

impl Accuracy {
    /// The result with its percentages.
    pub(crate) fn new(input: AccuracyInput) -> Self {
        Self {
            over_admission_percent: percent(input.over_admitted, input.allowed_max.max(1)),
            under_admission_percent: percent(input.under_admitted, input.allowed_min.max(1)),
            algorithm: input.algorithm,
            limit: input.limit,
            window_ms: input.window_ms,
            keys: input.keys,
            offered: input.offered,
            admitted: input.admitted,
            unknown: input.unknown,
            allowed_min: input.allowed_min,
            allowed_max: input.allowed_max,
            worst_window_admitted: input.worst_window_admitted,
            worst_window_key: input.worst_window_key,
            fairness_jain: input.fairness_jain.filter(|value| value.is_finite()),
            fairness_min_of_mean: input.fairness_min_of_mean.filter(|value| value.is_finite()),
            fairness_max_of_mean: input.fairness_max_of_mean.filter(|value| value.is_finite()),
            over_admitted: input.over_admitted,
            under_admitted: input.under_admitted,
            exact: input.exact,
            retry_after: input.retry_after,
            stated: None,
        }
    }

    /// Worst stretch as a multiple of the limit; `None` without one or with limit 0.
    pub fn worst_window_of_limit(&self) -> Option<f64> {
        let worst = self.worst_window_admitted?;
        (self.limit > 0).then(|| worst as f64 / self.limit as f64)
    }

    /// True if no key was admitted more than its limit allows, and the error that the limiter states.
    pub fn never_over(&self) -> bool {
        let stated = |(over, _): (u64, u64)| self.over_admitted <= over;
        self.over_admission_percent == 0.0 || self.stated.is_some_and(stated)
    }

    /// The same of what is missing.
    pub(crate) fn never_under(&self) -> bool {
        let stated = |(_, under): (u64, u64)| self.under_admitted <= under;
        self.under_admission_percent == 0.0 || self.stated.is_some_and(stated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_come_from_the_sums_over_keys() {
        let accuracy = Accuracy::new(AccuracyInput {
            limit: 100,
            allowed_max: 1_000,
            allowed_min: 800,
            admitted: 1_010,
            over_admitted: 10,
            under_admitted: 8,
            worst_window_admitted: Some(150),
            ..AccuracyInput::default()
        });
        assert_eq!(accuracy.over_admission_percent, 1.0);
        assert_eq!(accuracy.under_admission_percent, 1.0);
        assert_eq!(accuracy.worst_window_of_limit(), Some(1.5));
        assert!(!accuracy.never_over());
    }

    #[test]
    fn an_over_admission_where_nothing_is_allowed_is_still_seen() {
        let accuracy = Accuracy::new(AccuracyInput {
            over_admitted: 3,
            ..AccuracyInput::default()
        });
        assert!(!accuracy.never_over());
        assert!(accuracy.over_admission_percent.is_finite());
        assert_eq!(accuracy.worst_window_of_limit(), None);
    }
}
