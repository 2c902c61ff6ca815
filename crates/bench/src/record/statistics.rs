//! What repeated starts allow to say: spread of every figure, and comparisons with their uncertainty.
//!
//! The unit of replication is the *start*: a fresh process under the same load. Requests within a start are
//! not independent, so a thousand of them prove less than five starts.

use serde::{Deserialize, Serialize};

use super::{Grade, Level, Machine, SplitLatency};

/// Fewest starts per side from which a difference may be claimed. With three against three the smallest
/// two-sided p of a Mann-Whitney test is 0.10.
pub(crate) const STARTS_FOR_A_CLAIM: u32 = 5;

/// How often and in which order the targets were started anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Starts {
    /// Starts that were asked for.
    pub planned: u32,
    /// Starts that were measured to their end.
    pub done: u32,
    /// Order of the targets within each start. Orders alternate (A B, B A) so that drift cancels; more than
    /// two targets are rotated as well.
    pub order: Vec<Vec<String>>,
    /// Targets that the bench started anew for each start.
    pub fresh: Vec<String>,
    /// Targets that ran before the bench and therefore kept their process.
    pub kept: Vec<String>,
}

/// Centre and spread of a figure over starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Starts that measured it.
    pub n: u32,
    /// Median.
    pub median: f64,
    /// Median absolute deviation from the median, in the same unit and not scaled.
    pub mad: f64,
    /// Standard deviation over mean, percent; `None` with one value or a mean of 0.
    pub cv_percent: Option<f64>,
    /// Lower end of the 95 % bootstrap interval (BCa) of the median; `None` with fewer than three values.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// What the starts of a cell showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellStatistics {
    /// Starts that measured the cell.
    pub starts: u32,
    /// One entry per offered load, in the order of the ladder.
    pub rates: Vec<RateStatistics>,
}

/// What the starts showed at one offered load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateStatistics {
    /// Offered load.
    pub target_rps: f64,
    /// Every start, in order of time.
    pub starts: Vec<StartSample>,
    /// Right answers in time per second.
    pub goodput_rps: Option<Estimate>,
    /// Median response time.
    pub p50_us: Option<Estimate>,
    /// 99th percentile of the response time: the spread of the starts' own percentiles. The merged
    /// distribution is in `response`.
    pub p99_us: Option<Estimate>,
    /// Server CPU per completed request.
    pub server_cpu_us_per_op: Option<Estimate>,
    /// Response times of all starts together, merged from their histograms.
    pub response: SplitLatency,
    /// Service times of all starts together.
    pub service: SplitLatency,
}

/// One start at one offered load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartSample {
    /// Number of the start, from 1.
    pub start: u32,
    /// Seconds from the start of the run to the measurement.
    pub offset_s: f64,
    /// Right answers in time per second.
    pub goodput_rps: f64,
    /// Failed share of the planned requests.
    pub fail_percent: f64,
    /// Response time: median.
    pub p50_us: Option<f64>,
    /// Response time: 99th percentile.
    pub p99_us: Option<f64>,
    /// Response time: 99.9th percentile.
    pub p99_9_us: Option<f64>,
    /// Server CPU per completed request.
    pub server_cpu_us_per_op: Option<f64>,
    /// Grade of the row in this start.
    pub grade: Grade,
    /// Level of the row in this start; `None` in records of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
}

/// A figure that rows are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Right answers in time per second; more is better.
    GoodputRps,
    /// Median response time; less is better.
    P50Us,
    /// 99th percentile of the response time; less is better.
    P99Us,
    /// Server CPU per request; less is better.
    ServerCpuUsPerOp,
    /// The load that a search found held; more is better. Of a search as a whole and not of one of its loads.
    HeldRps,
}

impl Metric {
    /// All, in the order of tables.
    pub const ALL: [Metric; 5] = [
        Metric::GoodputRps,
        Metric::P50Us,
        Metric::P99Us,
        Metric::ServerCpuUsPerOp,
        Metric::HeldRps,
    ];

    /// Short name for tables and the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GoodputRps => "goodput",
            Self::P50Us => "p50",
            Self::P99Us => "p99",
            Self::ServerCpuUsPerOp => "cpu",
            Self::HeldRps => "held",
        }
    }

    /// Unit of its values.
    #[must_use]
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::GoodputRps | Self::HeldRps => "/s",
            Self::P50Us | Self::P99Us => "µs",
            Self::ServerCpuUsPerOp => "µs/op",
        }
    }

    /// Whether a larger value is the better one.
    #[must_use]
    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Self::GoodputRps | Self::HeldRps)
    }

    /// The metric of that short name.
    #[must_use]
    pub(crate) fn from_name(name: &str) -> Option<Metric> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Its value in one start at one load; `None` for what only a search has.
    #[must_use]
    pub(crate) fn of(self, sample: &StartSample) -> Option<f64> {
        match self {
            Self::GoodputRps => Some(sample.goodput_rps),
            Self::P50Us => sample.p50_us,
            Self::P99Us => sample.p99_us,
            Self::ServerCpuUsPerOp => sample.server_cpu_us_per_op,
            Self::HeldRps => None,
        }
    }
}

/// Stored runs against stored runs: `tollgate bench compare DIR DIR`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRecord {
    /// [`super::SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// The first arm, against which ratios are taken.
    pub a: Arm,
    /// The second arm.
    pub b: Arm,
    /// Circumstances in which the arms differ. Not empty only if the comparison was allowed all the same.
    pub unequal: Vec<Difference>,
    /// Smallest difference that may be claimed, and where it comes from.
    pub floor: ClaimFloor,
    /// One row per cell, offered load and metric that both arms have.
    pub rows: Vec<ComparisonRow>,
    /// What was left out or should be known.
    pub notes: Vec<String>,
}

/// One side of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// How sentences name it.
    pub label: String,
    /// Folders or files of its runs, as given.
    pub sources: Vec<String>,
    /// Starts of its runs in UTC, RFC 3339, in order of time.
    pub started_at: Vec<String>,
}

/// A circumstance in which two arms are not alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What differs, e.g. `step length`.
    pub what: String,
    /// Value of A.
    pub a: String,
    /// Value of B.
    pub b: String,
}

/// Smallest differences that may be claimed here, percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimFloor {
    /// For every metric without a value of its own.
    pub percent: f64,
    /// By metric, from a calibration of this machine's noise.
    pub by_metric: Vec<(Metric, f64)>,
    /// Where they come from, in words.
    pub source: String,
}

impl ClaimFloor {
    /// Smallest claimable difference of `metric`, percent.
    #[must_use]
    pub(crate) fn of(&self, metric: Metric) -> f64 {
        let own = self.by_metric.iter().find(|(of, _)| *of == metric);
        own.map_or(self.percent, |(_, percent)| percent.max(self.percent))
    }
}

/// One figure of both arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// Name of A's target.
    pub target_a: String,
    /// Name of B's target.
    pub target_b: String,
    /// Title of the scenario.
    pub scenario: String,
    /// Title of A's operation.
    pub operation_a: String,
    /// Title of B's operation.
    pub operation_b: String,
    /// Offered load of both; `None` for what a search found.
    pub target_rps: Option<f64>,
    /// Name of the goal of both searches; `None` at one load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Starts of A whose search found no load too high: what they held is at least the value.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_a: u32,
    /// The same of B.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_b: u32,
    /// What is compared.
    pub metric: Metric,
    /// A over its starts.
    pub a: Estimate,
    /// B over its starts.
    pub b: Estimate,
    /// B over A: the median of the ratios of every start of B to every start of A (Hodges-Lehmann).
    pub ratio_b_over_a: Option<f64>,
    /// 95 % bootstrap interval of that ratio.
    pub ratio_ci: Option<(f64, f64)>,
    /// The test behind the verdict; `None` without values on both sides.
    pub test: Option<RankTest>,
    /// What may be said.
    pub verdict: Verdict,
    /// The same in a sentence.
    pub sentence: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Mann-Whitney test of two samples, with effect sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankTest {
    /// U of B: pairs in which B's value is the larger, ties counted half.
    pub u: f64,
    /// Two-sided p.
    pub p: f64,
    /// True if `p` comes from the exact distribution, false for the normal approximation.
    pub exact: bool,
    /// Probability that a value of B is larger than one of A (Vargha and Delaney's A12).
    pub a12: f64,
    /// Cliff's delta: `2 A12 - 1`.
    pub cliffs_delta: f64,
}

/// What a row of a comparison allows to say about B against A.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better, by more than chance and noise explain.
    Better,
    /// B is worse, by more than chance and noise explain.
    Worse,
    /// The interval lies within the margin of equivalence.
    Same,
    /// Neither a difference nor equivalence is shown.
    #[default]
    Unclear,
    /// Fewer starts than any claim needs.
    TooFew,
}

impl Verdict {
    /// The word printed in tables.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Unclear => "unclear",
            Self::TooFew => "too few starts",
        }
    }
}

/// How a figure moved over stored runs: `tollgate bench trends`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrendsRecord {
    /// [`super::SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// Starts of the runs in UTC, RFC 3339, in order of time.
    pub started_at: Vec<String>,
    /// One row per cell, offered load and metric.
    pub rows: Vec<TrendRow>,
    /// What was left out or should be known.
    pub notes: Vec<String>,
}

/// One figure over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrendRow {
    /// Name of the target.
    pub target: String,
    /// Title of the scenario.
    pub scenario: String,
    /// Title of the operation.
    pub operation: String,
    /// Offered load; `None` for what searches found.
    pub target_rps: Option<f64>,
    /// Name of the goal of the searches; `None` at one load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Which figure.
    pub metric: Metric,
    /// `(days since the first run, median of the run's starts)` in order of time.
    pub points: Vec<(f64, f64)>,
    /// What each of `points` rests on, in the same order; none in records of older programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests_on: Vec<PointBasis>,
    /// Change from the first to the last point, percent; `None` if the first is 0.
    pub change_percent: Option<f64>,
    /// Slope per run, percent of the median (Theil and Sen); `None` with fewer than three runs.
    pub slope_percent_per_run: Option<f64>,
    /// 95 % interval of the slope; `None` where the runs are too few for one.
    pub slope_ci: Option<(f64, f64)>,
    /// Two-sided p of "no trend" (Kendall's tau); `None` with fewer than three runs.
    pub p: Option<f64>,
    /// Standard deviation over mean, percent.
    pub cv_percent: Option<f64>,
    /// Word for the noise: `stable` below 10 % CV, `variable` below 25 %, else `unstable`.
    pub noise: Noise,
    /// Direction, coloured where the change exceeds ±5 %.
    pub colour: TrendColour,
    /// What may be said.
    pub sentence: String,
    /// Where its level changed; nothing is looked for in fewer than 20 runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<TrendChange>,
}

/// What a point of a trend rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointBasis {
    /// Start of the run in UTC, RFC 3339.
    pub started_at: String,
    /// Starts of the run that may be believed.
    pub starts: u32,
    /// 95 % bootstrap interval (BCa) of their median; `None` with fewer than three.
    pub interval: Option<(f64, f64)>,
}

/// A change of level between two stored runs (e-divisive).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrendChange {
    /// Number of the first run after it among [`TrendRow::points`], from 0.
    pub at: usize,
    /// Start of that run in UTC, RFC 3339.
    pub started_at: String,
    /// Median from the change before to this one.
    pub before: f64,
    /// Median from this one to the next.
    pub after: f64,
    /// Share of random orders of the runs in which some place divides them as clearly.
    pub p: f64,
}

impl TrendChange {
    /// The level after it in percent of that before, less 100; `None` if that was 0.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.before != 0.0).then(|| (self.after / self.before - 1.0) * 100.0)
    }
}

/// Word for the spread of a figure over runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Noise {
    /// Too few values.
    #[default]
    Unknown,
    /// CV below 10 %.
    Stable,
    /// CV below 25 %.
    Variable,
    /// CV of 25 % and more.
    Unstable,
}

impl Noise {
    /// The word printed in tables.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Stable => "stable",
            Self::Variable => "variable",
            Self::Unstable => "unstable",
        }
    }
}

/// Colour of a change: only beyond ±5 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrendColour {
    /// Within ±5 %, or not known.
    #[default]
    Neutral,
    /// Better by more than 5 %.
    Better,
    /// Worse by more than 5 %.
    Worse,
}

/// Whether a run may pass: `tollgate bench gate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateRecord {
    /// The comparison of the baseline (A) with the run (B).
    pub comparison: ComparisonRecord,
    /// Largest regression that passes, percent.
    pub max_regression_percent: f64,
    /// The outcome.
    pub outcome: GateOutcome,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
}

/// Outcome of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// No regression was shown.
    #[default]
    Passed,
    /// A regression was shown.
    Failed,
    /// The run or its baseline cannot carry a judgement.
    Invalid,
}

/// How large a difference chance alone makes here: `tollgate bench noise`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseRecord {
    /// [`super::SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// The machine it holds for.
    pub machine: Machine,
    /// When it was measured, RFC 3339.
    pub measured_at: String,
    /// What was measured against itself.
    pub target: String,
    /// Starts on each side.
    pub starts_per_side: u32,
    /// Length of a step.
    pub step_s: f64,
    /// One entry per metric.
    pub metrics: Vec<MetricNoise>,
}

/// Noise of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricNoise {
    /// Which.
    pub metric: Metric,
    /// Cells and loads that it was measured at.
    pub rows: u32,
    /// Largest coefficient of variation over these, percent.
    pub cv_percent: Option<f64>,
    /// Largest difference between the two halves as they ran, percent.
    pub observed_percent: f64,
    /// Difference that only one in twenty divisions of the same starts into two halves exceeds, percent: the
    /// smallest that may be claimed.
    pub smallest_claimable_percent: f64,
}
