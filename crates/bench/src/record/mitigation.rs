//! Strategies for hot keys side by side: what each saves, and how far its admissions are from the limit.

use serde::{Deserialize, Serialize};

use super::{Grade, RankTest, TargetRecord, Validity};

/// Strategies on the same services and store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MitigationsRecord {
    /// The store that the services share.
    pub store: TargetRecord,
    /// Services that share it.
    pub services: u32,
    /// One row for each strategy and scenario, in the order in which they were given.
    pub rows: Vec<MitigationRow>,
}

/// Whether admissions stayed within what the strategy states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorVerdict {
    /// In every step.
    Within,
    /// It admitted more than that in a step.
    OverBeyond,
    /// It admitted less than that in a step, and never more.
    UnderBeyond,
    /// No oracle could judge it.
    #[default]
    NotJudged,
}

impl ErrorVerdict {
    /// The word in CSV and JSON.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::OverBeyond => "over-beyond",
            Self::UnderBeyond => "under-beyond",
            Self::NotJudged => "not-judged",
        }
    }
}

/// What a strategy showed in one fresh start of all processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MitigationStart {
    /// Number of the start, from 1.
    pub start: u32,
    /// Highest goodput of its steps.
    pub peak_goodput_rps: Option<f64>,
    /// CPU time of services and store per answer at the common load.
    pub cpu_us_per_decision: Option<f64>,
    /// Grade of the strategy in this start.
    pub grade: Grade,
}

/// A figure of a strategy over that of `exact`, from their starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgainstExact {
    /// The median of the ratios of every start to every start of `exact` (Hodges-Lehmann).
    pub ratio: f64,
    /// 95 % bootstrap interval of it; `None` with fewer than three starts on a side.
    pub ci: Option<(f64, f64)>,
    /// Mann and Whitney's test of the two.
    pub test: Option<RankTest>,
}

/// One strategy. Sums are over all its steps; figures at the common load are medians over its rounds, and over its starts
/// where there are several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MitigationRow {
    /// Name of its target, as on the command line: `local:25`.
    pub target: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Value of `hot_key` in its rules; empty where there is none.
    pub hot_key: String,
    /// Services that it ran on.
    pub services: u32,
    /// The load that all strategies were offered.
    pub common_rps: f64,
    /// Steps at that load.
    pub rounds: u32,
    /// P50 from the intended time.
    pub common_p50_us: Option<f64>,
    /// P99 from the intended time.
    pub common_p99_us: Option<f64>,
    /// CPU time of all services per answer.
    pub service_cpu_us_per_decision: Option<f64>,
    /// CPU time of the store per answer.
    pub store_cpu_us_per_decision: Option<f64>,
    /// Least and most of the sum of both over the rounds.
    pub cpu_us_per_decision_spread: Option<(f64, f64)>,
    /// Calls that the store was sent for each answer; `None` where it does not count them.
    pub store_questions_per_decision: Option<f64>,
    /// Highest goodput of all steps.
    pub peak_goodput_rps: Option<f64>,
    /// That over the one of `exact`; `None` without it.
    pub goodput_of_exact: Option<f64>,
    /// CPU time per answer of services and store over that of `exact`; `None` without it.
    pub cpu_of_exact: Option<f64>,
    /// Requests admitted.
    pub admitted: u64,
    /// Most that the limits allow.
    pub allowed_max: u64,
    /// Fewest that they ask for.
    pub allowed_min: u64,
    /// Admitted beyond the limits.
    pub over_admitted: u64,
    /// The most of that which the strategy states.
    pub stated_over: u64,
    /// Denied within the limits.
    pub under_admitted: u64,
    /// The most of that which the strategy states.
    pub stated_under: u64,
    /// Step by step: the worst excess over what is stated, in percent of what the limits allow; 0 within it.
    pub worst_beyond_percent: f64,
    /// Whether every step stayed within it.
    pub verdict: ErrorVerdict,
    /// Whether the figures at the common load and the peak may be believed.
    pub validity: Validity,
    /// What study 000 says of its kind, unmeasured: accuracy and gain.
    pub seed: Option<(String, String)>,
    /// Every fresh start; empty if there was only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<MitigationStart>,
    /// Highest goodput against that of `exact`; `None` with one start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_against_exact: Option<AgainstExact>,
    /// CPU time per answer against that of `exact`; `None` with one start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_against_exact: Option<AgainstExact>,
}

impl MitigationRow {
    /// Admitted beyond the limits, percent of what they allow.
    #[must_use]
    pub(crate) fn over_percent(&self) -> f64 {
        super::percent(self.over_admitted, self.allowed_max)
    }

    /// The most of that which is stated.
    #[must_use]
    pub(crate) fn stated_over_percent(&self) -> f64 {
        super::percent(self.stated_over, self.allowed_max)
    }

    /// Denied within the limits, percent of what they ask for.
    #[must_use]
    pub(crate) fn under_percent(&self) -> f64 {
        super::percent(self.under_admitted, self.allowed_min)
    }

    /// The most of that which is stated.
    #[must_use]
    pub(crate) fn stated_under_percent(&self) -> f64 {
        super::percent(self.stated_under, self.allowed_min)
    }

    /// CPU time of services and store per answer; `None` if one of them is not known where both are used.
    #[must_use]
    pub(crate) fn cpu_us_per_decision(&self) -> Option<f64> {
        Some(self.service_cpu_us_per_decision? + self.store_cpu_us_per_decision?)
    }

    /// False if it admitted more than it states.
    #[must_use]
    pub fn may_win(&self) -> bool {
        matches!(
            self.verdict,
            ErrorVerdict::Within | ErrorVerdict::UnderBeyond
        )
    }
}
