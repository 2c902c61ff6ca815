//! Status levels and labels of ladder rows, as pure functions. Thresholds and words are those of a published
//! study, here "the study": PhongHV, Redis against Dragonfly for rate limiting, 2026.

use serde::{Deserialize, Serialize};

use super::{RateStatistics, Step};

/// Below this share of the offered load a row has collapsed.
const COLLAPSED_BELOW_PERCENT: f64 = 50.0;
/// Below this share of the offered load a row is dead.
const DEAD_BELOW_PERCENT: f64 = 15.0;
/// An excellent row keeps its P99 under this share of the Good bound.
const EXCELLENT_OF_GOOD: f64 = 0.6;

/// How a ladder row went.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Every metric is Good.
    #[default]
    Ok,
    /// The worst metric is at Warning.
    NearLimit,
    /// Latency or throughput is Critical, at most 1 % failed.
    Degraded,
    /// More requests failed than the Critical bound allows.
    Failed,
    /// Less than half of the offered load was answered well.
    Collapsed,
}

impl Level {
    /// The word printed in tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NearLimit => "near-limit",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::Collapsed => "collapsed",
        }
    }

    /// The sign of the study.
    pub(crate) fn icon(self) -> &'static str {
        match self {
            Self::Ok => "✓",
            Self::NearLimit => "⚡",
            Self::Degraded => "⚠",
            Self::Failed => "✗",
            Self::Collapsed => "💀",
        }
    }

    /// The sign where only ASCII can be shown.
    pub(crate) fn ascii_icon(self) -> &'static str {
        match self {
            Self::Ok => "+",
            Self::NearLimit => "~",
            Self::Degraded => "!",
            Self::Failed => "x",
            Self::Collapsed => "X",
        }
    }
}

/// The study's word for a ladder row, with words for the two cases that it did not meet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// Level ok and P99 under 60 % of the Good bound.
    Excellent,
    /// No failures to speak of and P99 Good.
    #[default]
    Good,
    /// The last row without failures before the first that failed.
    StableLimit,
    /// Level near-limit with a P99 above Good.
    NearLimit,
    /// Level degraded.
    Degraded,
    /// Level failed.
    Failed,
    /// Level collapsed.
    Collapsed,
    /// Less than 15 % of the offered load was answered well.
    Dead,
}

impl Label {
    /// The words printed in tables.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Excellent => "Excellent",
            Self::Good => "Good",
            Self::StableLimit => "Stable Limit",
            Self::NearLimit => "Near Limit",
            Self::Degraded => "Degraded",
            Self::Failed => "Failed",
            Self::Collapsed => "Collapsed",
            Self::Dead => "Dead",
        }
    }
}

/// A level and the rule that decided it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The level.
    pub level: Level,
    /// e.g. `P99 160 ms is above 100 ms`; empty for ok.
    pub rule: String,
}

/// Two bounds of a metric: up to `good` it is Good, up to `critical` Warning, above it Critical.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// End of Good.
    pub good: f64,
    /// End of Warning.
    pub critical: f64,
}

/// Thresholds that a row is judged with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `bench` or `store`.
    pub name: String,
    /// Goodput in percent of the offered load; Good is at or above the first.
    pub goodput_percent: Bounds,
    /// Failed requests in percent.
    pub fail_percent: Bounds,
    /// Mean response time.
    pub mean_ms: Bounds,
    /// 95th percentile of the response time.
    pub p95_ms: Bounds,
    /// 99th percentile of the response time.
    pub p99_ms: Bounds,
}

impl Profile {
    /// Thresholds of the study, made for a service behind a proxy.
    pub fn bench() -> Self {
        Self {
            name: "bench".into(),
            goodput_percent: Bounds {
                good: 98.0,
                critical: 95.0,
            },
            fail_percent: Bounds {
                good: 0.1,
                critical: 1.0,
            },
            mean_ms: Bounds {
                good: 10.0,
                critical: 50.0,
            },
            p95_ms: Bounds {
                good: 50.0,
                critical: 100.0,
            },
            p99_ms: Bounds {
                good: 100.0,
                critical: 200.0,
            },
        }
    }

    /// Thresholds for a store asked directly: P99 within 1 ms is Good, above 5 ms Critical. Mean
    /// and P95 stand in about the proportion to P99 that the `bench` profile has.
    pub fn store() -> Self {
        Self {
            name: "store".into(),
            mean_ms: Bounds {
                good: 0.5,
                critical: 2.5,
            },
            p95_ms: Bounds {
                good: 0.75,
                critical: 3.5,
            },
            p99_ms: Bounds {
                good: 1.0,
                critical: 5.0,
            },
            ..Self::bench()
        }
    }

    /// The profile of a name; `None` if there is none.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "bench" => Some(Self::bench()),
            "store" => Some(Self::store()),
            _ => None,
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::bench()
    }
}

/// What a row's level depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measure {
    /// Offered load.
    pub target_rps: f64,
    /// Good answers per second.
    pub goodput_rps: f64,
    /// Failed requests in percent of the planned.
    pub fail_percent: f64,
    /// Mean response time; `None` without answers.
    pub mean_ms: Option<f64>,
    /// 95th percentile.
    pub p95_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
}

impl Measure {
    /// The measure of a step, with latencies from the intended time.
    pub(crate) fn of(step: &Step) -> Self {
        let all = step.response.all.as_ref();
        Self {
            target_rps: step.target_rps,
            goodput_rps: step.goodput_rps,
            fail_percent: step.fail_percent(),
            mean_ms: all.map(|latency| latency.mean_us / 1e3),
            p95_ms: all.map(|latency| latency.p95_us / 1e3),
            p99_ms: all.map(|latency| latency.p99_us / 1e3),
        }
    }

    /// Goodput in percent of the offered load; 100 if nothing was offered.
    pub(crate) fn goodput_percent(&self) -> f64 {
        if self.target_rps > 0.0 {
            self.goodput_rps / self.target_rps * 100.0
        } else {
            100.0
        }
    }
}

/// The level of a row. Rules, first match wins: collapsed, failed, then the worst single metric.
pub(crate) fn level(profile: &Profile, measure: &Measure) -> Status {
    let goodput = measure.goodput_percent();
    let at = |level, rule: String| Status { level, rule };
    if goodput < COLLAPSED_BELOW_PERCENT {
        let rule = format!("goodput is {goodput:.1} % of the offered load, below 50 %");
        return at(Level::Collapsed, rule);
    }
    let fail = measure.fail_percent;
    if fail > profile.fail_percent.critical {
        let bound = profile.fail_percent.critical;
        return at(
            Level::Failed,
            format!("{fail:.2} % failed, more than {bound} %"),
        );
    }
    let latencies = [
        ("P99", measure.p99_ms, profile.p99_ms),
        ("P95", measure.p95_ms, profile.p95_ms),
        ("mean", measure.mean_ms, profile.mean_ms),
    ];
    if goodput < profile.goodput_percent.critical {
        let bound = profile.goodput_percent.critical;
        let rule = format!("goodput is {goodput:.1} % of the offered load, below {bound} %");
        return at(Level::Degraded, rule);
    }
    let over = |pick: fn(&Bounds) -> f64| {
        latencies.iter().find_map(|(name, value, bounds)| {
            let value = (*value)?;
            let bound = pick(bounds);
            (value > bound).then(|| format!("{name} {value:.3} ms is above {bound} ms"))
        })
    };
    if let Some(rule) = over(|bounds| bounds.critical) {
        return at(Level::Degraded, rule);
    }
    if goodput < profile.goodput_percent.good {
        let bound = profile.goodput_percent.good;
        let rule = format!("goodput is {goodput:.1} % of the offered load, below {bound} %");
        return at(Level::NearLimit, rule);
    }
    if fail >= profile.fail_percent.good {
        let bound = profile.fail_percent.good;
        return at(
            Level::NearLimit,
            format!("{fail:.2} % failed, not below {bound} %"),
        );
    }
    match over(|bounds| bounds.good) {
        Some(rule) => at(Level::NearLimit, rule),
        None => Status::default(),
    }
}

/// Sets level and label of every row of a ladder. Of rows that several starts measured, `starts` has what each of them
/// showed, in the order of the rows.
pub(crate) fn classify(profile: &Profile, steps: &mut [Step], starts: &[RateStatistics]) {
    for (at, step) in steps.iter_mut().enumerate() {
        let measure = Measure::of(step);
        let whole = level(profile, &measure);
        step.status = match starts.get(at) {
            Some(found) => of_starts(found, whole),
            None => whole,
        };
        step.label = label(profile, &measure, step.status.level);
    }
    if let Some(at) = stable_limit(steps) {
        steps[at].label = Label::StableLimit;
    }
}

/// The level of the median start, the worse one of two: the answers of all starts together have the tail of the worst one.
fn of_starts(found: &RateStatistics, whole: Status) -> Status {
    let levels: Option<Vec<Level>> = found.starts.iter().map(|start| start.level).collect();
    let mut levels = levels.unwrap_or_default();
    levels.sort_unstable();
    match levels.get(levels.len() / 2) {
        Some(median) if *median != whole.level => {
            let mut rule = format!("the median of {} starts", levels.len());
            if !whole.rule.is_empty() {
                rule.push_str(&format!("; over all of them {}", whole.rule));
            }
            Status {
                level: *median,
                rule,
            }
        }
        _ => whole,
    }
}

/// Makes no row a stable limit that did not hold, as [`classify`] does with the rows of the study, which looks at failures
/// alone. `found_rps` is what a search with repeated trials found held, and too much above it: single rows do not
/// contradict it, so the limit is the last row up to it that held without failures.
pub(crate) fn limit_to_held(profile: &Profile, steps: &mut [Step], found_rps: Option<f64>) {
    let mut named = None;
    for step in steps
        .iter_mut()
        .filter(|step| step.label == Label::StableLimit)
    {
        named = Some(step.target_rps);
        step.label = label(profile, &Measure::of(step), step.status.level);
    }
    let Some(most) = found_rps.or(named) else {
        return;
    };
    let below =
        |step: &&mut Step| step.target_rps <= most && step.holds() && step.failures.total() == 0;
    let rows = steps.iter_mut().filter(below);
    if let Some(row) = rows.max_by(|a, b| a.target_rps.total_cmp(&b.target_rps)) {
        row.label = Label::StableLimit;
    }
}

/// The last row without any failure before the first row that failed or collapsed; `None` if no row
/// failed, because then the ladder did not reach the limit.
fn stable_limit(steps: &[Step]) -> Option<usize> {
    // Rungs may have run in any order.
    let mut by_load: Vec<usize> = (0..steps.len()).collect();
    by_load.sort_by(|a, b| steps[*a].target_rps.total_cmp(&steps[*b].target_rps));
    let first_failed = by_load
        .iter()
        .position(|at| steps[*at].status.level >= Level::Failed)?;
    by_load[..first_failed]
        .iter()
        .rev()
        .copied()
        .find(|at| steps[*at].failures.total() == 0)
}

fn label(profile: &Profile, measure: &Measure, level: Level) -> Label {
    let good = profile.p99_ms.good;
    let p99_within = |bound: f64| measure.p99_ms.is_some_and(|p99| p99 < bound);
    match level {
        Level::Ok if p99_within(good * EXCELLENT_OF_GOOD) => Label::Excellent,
        Level::Ok => Label::Good,
        Level::NearLimit if p99_within(good) => Label::Good,
        Level::NearLimit => Label::NearLimit,
        Level::Degraded => Label::Degraded,
        Level::Failed => Label::Failed,
        Level::Collapsed if measure.goodput_percent() < DEAD_BELOW_PERCENT => Label::Dead,
        Level::Collapsed => Label::Collapsed,
    }
}

#[cfg(test)]
mod tests;
