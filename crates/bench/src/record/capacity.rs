//! What a capacity search found: an interval per goal, the trials behind it, zones, and what happens past the knee.
//!
//! Terms are those of MLRsearch (RFC 9971). A goal that was not met by any load has no lower bound, one that no
//! load exceeded has no upper bound; neither is replaced by a guess.

use serde::{Deserialize, Serialize};

use super::{Estimate, Grade, Measure, Profile, Validity};

/// Result of a capacity search on one cell, or what a plain ladder says about the same questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityRecord {
    /// Where the figures come from.
    pub source: CapacitySource,
    /// One per goal, in the order in which they were asked. The first one decides the zones.
    pub goals: Vec<GoalResult>,
    /// Every trial in the order in which it ran; empty where a ladder was the source.
    pub trials: Vec<Trial>,
    /// True if a load passed above one that failed.
    pub non_monotone: bool,
    /// The loads that failed below one that passed, in rising order.
    pub inverted_rps: Vec<f64>,
    /// How the search ended.
    pub ended: SearchEnd,
    /// How the search ended in a sentence.
    pub ended_because: String,
    /// Sustained, safe and red load; `None` if no load met the first goal.
    pub zones: Option<Zones>,
    /// Goodput past the knee; `None` if nothing past it was measured.
    pub retention: Option<Retention>,
    /// Ladder upwards against ladder downwards; `None` if only one was run.
    pub hysteresis: Option<Hysteresis>,
    /// After which trials the system was not well at once, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<HealthWait>,
    /// Why no load counts as held whatever was measured: the limiter admitted too much. Zones are missing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl CapacityRecord {
    /// Takes the zones away because of `why`, if there is a reason.
    pub(crate) fn refuse(&mut self, why: Option<String>) {
        if why.is_some() {
            self.zones = None;
            self.refused = why;
        }
    }

    /// Validity of the counted trials at the bounds of the first goal; with no bound at all, of all trials. Several trials
    /// decide about a load, and several starts about their median: one that was spoiled among them spoils nothing, half of
    /// them do. Above a load that was held, spoiled trials leave the result indicative at worst.
    #[must_use]
    pub fn deciding(&self) -> Validity {
        let Some(result) = self.goals.first() else {
            return self.at_bounds(None, [None, None]);
        };
        if result.starts.is_empty() {
            return self.at_bounds(None, [result.lower_rps, result.upper_rps]);
        }
        let of_start = |found: &StartInterval| {
            let bounds = [found.lower_rps, found.upper_rps];
            (found.start, self.at_bounds(Some(found.start), bounds))
        };
        let all: Vec<(u32, Validity)> = result.starts.iter().map(of_start).collect();
        let grade = Grade::of_several(all.iter().map(|(_, found)| found.grade));
        let mut validity = Validity::default();
        for (start, found) in all {
            if grade != Grade::Valid && found.grade != Grade::Valid {
                let reasons = found.reasons.join(", and ");
                validity.lower(grade, format!("start {start}: {reasons}"));
            }
        }
        validity
    }

    /// Whether the search came to a planned end. A spent budget is one: the interval is wider than asked, which the search says itself.
    #[must_use]
    pub(crate) fn came_to_an_end(&self) -> bool {
        matches!(self.ended, SearchEnd::Done | SearchEnd::BudgetSpent)
    }

    /// Grade of what one start found; `None` as its number if there was only one.
    #[must_use]
    pub(crate) fn grade_of(&self, start: Option<u32>, bounds: [Option<f64>; 2]) -> Grade {
        if self.refused.is_some() {
            return Grade::Invalid;
        }
        self.at_bounds(start, bounds).grade
    }

    /// Whether the counted trials of a start at `upper_rps` show that it is too much: spoiled ones say as much of the
    /// generator or the machine.
    #[must_use]
    pub(crate) fn is_bound(&self, start: Option<u32>, upper_rps: f64) -> bool {
        let own = self.trials.iter().filter(|trial| trial.start == start);
        let at = own.filter(|trial| trial.counted && trial.load_rps == upper_rps);
        Grade::of_several(at.map(|trial| trial.validity.grade)) != Grade::Invalid
    }

    /// The upper bound of the first goal, if it is shown to be one; of several starts, if more than half of them show
    /// theirs.
    #[must_use]
    pub(crate) fn shown_upper_rps(&self) -> Option<f64> {
        let result = self.goals.first()?;
        let upper_rps = result.upper_rps?;
        let shown = match &result.starts[..] {
            [] => self.is_bound(None, upper_rps),
            starts => {
                let shown = |found: &&StartInterval| {
                    found
                        .upper_rps
                        .is_none_or(|upper| self.is_bound(Some(found.start), upper))
                };
                2 * starts.iter().filter(shown).count() > starts.len()
            }
        };
        shown.then_some(upper_rps)
    }

    /// Validity of the counted trials of a start at `bounds`.
    fn at_bounds(&self, start: Option<u32>, bounds: [Option<f64>; 2]) -> Validity {
        let own = || self.trials.iter().filter(|trial| trial.start == start);
        let [lower, upper] = bounds;
        let mut loads: Vec<f64> = match bounds {
            [None, None] => own().map(|trial| trial.load_rps).collect(),
            _ => lower.into_iter().chain(upper).collect(),
        };
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let mut validity = Validity::default();
        for load in loads {
            let at = |trial: &&Trial| trial.counted && trial.load_rps == load;
            let trials: Vec<&Trial> = own().filter(at).collect();
            let grade = Grade::of_several(trials.iter().map(|trial| trial.validity.grade));
            let spoiled = |trial: &&&Trial| trial.validity.grade != Grade::Valid;
            let count = trials.iter().filter(spoiled).count();
            // One of the gravest stands for all: each says much the same, and the trials are in the record.
            let told = trials
                .iter()
                .filter(spoiled)
                .max_by_key(|trial| trial.validity.grade);
            let Some(told) = told.filter(|_| grade != Grade::Valid) else {
                continue;
            };
            let mut why = told.validity.reasons.join(", and ");
            if let all @ 2.. = trials.len() {
                why = format!("{why} ({count} of {all} trials)");
            }
            if lower.is_some() && lower != upper && Some(load) == upper {
                validity.leave_open(load, &why);
            } else {
                validity.lower(grade, format!("at {load:.0}/s {why}"));
            }
        }
        validity
    }
}

/// Where a [`CapacityRecord`] comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacitySource {
    /// A search with repeated trials.
    #[default]
    Search,
    /// The rungs of a ladder, each measured once: an interval as wide as the distance of the rungs.
    Ladder,
}

/// What a load must keep to count as held, and how sure the answer must be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchGoal {
    /// `slo`, `good`, `pdr` or `ndr`.
    pub name: String,
    /// Most failed requests, percent of the planned ones.
    pub fail_percent_max: f64,
    /// Least goodput, percent of the offered load.
    pub goodput_percent_min: f64,
    /// Largest mean response time; `None` if the goal does not ask for it.
    pub mean_ms_max: Option<f64>,
    /// Largest 95th percentile.
    pub p95_ms_max: Option<f64>,
    /// Largest 99th percentile.
    pub p99_ms_max: Option<f64>,
    /// Share of the trial time at one load that may break the goal while the load still counts as held.
    pub exceed_ratio: f64,
    /// Trials shorter than this only give hints.
    pub final_trial_s: f64,
    /// Trial time at one load that decides about it.
    pub duration_sum_s: f64,
    /// Width at which the interval is narrow enough, as a share of its upper bound.
    pub width: f64,
}

impl SearchGoal {
    /// Names of the goals that [`SearchGoal::named`] knows.
    pub(crate) const NAMES: [&'static str; 4] = ["slo", "good", "pdr", "ndr"];

    /// A goal by its name: `slo` keeps every metric of `profile` out of Critical, `good` keeps all of them Good,
    /// `pdr` allows 0.1 % and `ndr` no failed request whatever the latency. Exceed ratio, durations and width are
    /// for the caller to set.
    #[must_use]
    pub fn named(name: &str, profile: &Profile) -> Option<SearchGoal> {
        let by_level = |pick: fn(&super::Bounds) -> f64| SearchGoal {
            name: name.into(),
            fail_percent_max: pick(&profile.fail_percent),
            goodput_percent_min: pick(&profile.goodput_percent),
            mean_ms_max: Some(pick(&profile.mean_ms)),
            p95_ms_max: Some(pick(&profile.p95_ms)),
            p99_ms_max: Some(pick(&profile.p99_ms)),
            ..SearchGoal::default()
        };
        let by_failures = |fail_percent_max: f64| SearchGoal {
            name: name.into(),
            fail_percent_max,
            goodput_percent_min: 0.0,
            ..SearchGoal::default()
        };
        match name {
            "slo" => Some(by_level(|bounds| bounds.critical)),
            "good" => Some(by_level(|bounds| bounds.good)),
            "pdr" => Some(by_failures(0.1)),
            "ndr" => Some(by_failures(0.0)),
            _ => None,
        }
    }

    /// Why `measure` breaks the goal; `None` if it keeps it. A load without any good answer has no latency and
    /// breaks every goal by its failures.
    #[must_use]
    pub(crate) fn broken_by(&self, measure: &Measure) -> Option<String> {
        let fail = measure.fail_percent;
        if fail > self.fail_percent_max || fail.is_nan() {
            return Some(format!(
                "{fail:.2} % failed, allowed are {} %",
                self.fail_percent_max
            ));
        }
        let goodput = measure.goodput_percent();
        if goodput < self.goodput_percent_min || goodput.is_nan() {
            return Some(format!(
                "goodput is {goodput:.1} % of the offered load, needed are {} %",
                self.goodput_percent_min
            ));
        }
        let latencies = [
            ("P99", measure.p99_ms, self.p99_ms_max),
            ("P95", measure.p95_ms, self.p95_ms_max),
            ("mean", measure.mean_ms, self.mean_ms_max),
        ];
        latencies.iter().find_map(|(name, value, bound)| {
            let (value, bound) = ((*value)?, (*bound)?);
            (value > bound).then(|| format!("{name} {value:.3} ms is above {bound} ms"))
        })
    }
}

/// What the search found for one goal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal.
    pub goal: SearchGoal,
    /// Highest load that keeps the goal below all that break it.
    pub lower_rps: Option<f64>,
    /// Lowest load that breaks it.
    pub upper_rps: Option<f64>,
    /// True if the interval is as narrow as the goal wants.
    pub converged: bool,
    /// Goodput to expect at `lower_rps`, from the worst trial that the exceed ratio counts (RFC 9971: conditional
    /// throughput).
    pub conditional_throughput_rps: Option<f64>,
    /// Why the interval is as it is, in a sentence.
    pub remark: String,
    /// What each start found, where there were several; the bounds above are then the medians of theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartInterval>,
    /// The lower bound over the starts that found one; `None` with one start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_starts: Option<Estimate>,
}

/// What the search of one start found for a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartInterval {
    /// Number of the start, from 1.
    pub start: u32,
    /// Highest load that keeps the goal below all that break it.
    pub lower_rps: Option<f64>,
    /// Lowest load that breaks it.
    pub upper_rps: Option<f64>,
    /// What is safe by this start alone; of the first goal, which decides the zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe_rps: Option<f64>,
    /// What this start's safe load follows from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<ZoneBound>,
    /// Highest load from which this start was seen to heal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_rps: Option<f64>,
    /// Load at which this start used 70 % of the processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_70_rps: Option<f64>,
    /// How far this start's zones may be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Grade>,
}

/// One trial of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of the start of the target that it belongs to, from 1; `None` with one start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// Start, seconds after the start of the run.
    pub offset_s: f64,
    /// Offered load.
    pub load_rps: f64,
    /// Length of the load.
    pub duration_s: f64,
    /// What the trial was for: `range`, `narrow`, `confirm`, `above`, `check`, `up` or `down`.
    pub purpose: String,
    /// Good answers per second.
    pub goodput_rps: f64,
    /// Failed requests, percent of the planned.
    pub fail_percent: f64,
    /// 99th percentile of the response time; `None` without good answers.
    pub p99_ms: Option<f64>,
    /// Per goal whether the trial kept it, in the order of [`CapacityRecord::goals`].
    pub kept: Vec<bool>,
    /// Why the first goal was not kept; empty if it was.
    pub rule: String,
    /// Whether the trial counted for its load; one that the machine spoiled does not, as long as it can be repeated.
    pub counted: bool,
    /// Whether the trial may be believed.
    pub validity: Validity,
}

/// Lengths of trials are the same within this, in seconds.
const SAME_LENGTH_S: f64 = 1e-9;

impl Trial {
    /// Whether it belongs to the search and speaks for or against its load at full weight.
    #[must_use]
    pub(crate) fn decides(&self, goal: &SearchGoal) -> bool {
        let alone = matches!(self.purpose.as_str(), "up" | "down");
        self.counted && !alone && self.duration_s >= goal.final_trial_s - SAME_LENGTH_S
    }

    /// Whether it kept the first goal.
    #[must_use]
    pub fn held(&self) -> bool {
        self.kept.first().copied().unwrap_or(false)
    }
}

/// A wait until the system was well again after a trial that was too much for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HealthWait {
    /// Number of the start of the target that it belongs to, from 1; `None` with one start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// Begin, seconds after the start of the run.
    pub offset_s: f64,
    /// Load of the trial.
    pub after_rps: f64,
    /// Length.
    pub waited_s: f64,
    /// Whether it was well in the end.
    pub well: bool,
    /// Whether it was started anew because it was not.
    pub restarted: bool,
    /// P99 at a fifth of the capacity before the first trial; `None` where it had no answer.
    pub before_p99_ms: Option<f64>,
    /// The same at the end of the wait.
    pub p99_ms: Option<f64>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEnd {
    /// Every goal has its interval, or is known to have none within the bounds.
    #[default]
    Done,
    /// The time or the number of trials ran out.
    BudgetSpent,
    /// The target died or answered nothing any more.
    TargetLost,
    /// The user stopped it.
    Interrupted,
}

/// Loads that are safe, that hold, and that do not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Zones {
    /// Green up to here: the smallest of 0.85 x sustained, hidden capacity and the load at 70 % CPU, rounded down.
    pub safe_rps: f64,
    /// Amber up to here, red above: the lower bound of the first goal.
    pub sustained_rps: f64,
    /// Highest load from which the system was seen to heal after overload; `None` if that was not tried.
    pub hidden_rps: Option<f64>,
    /// Load at which the target uses 70 % of the processor time it may use; `None` if not reached or not known.
    pub cpu_70_rps: Option<f64>,
    /// What `safe_rps` follows from.
    pub decided_by: ZoneBound,
    /// Zones and reasons in one sentence.
    pub sentence: String,
    /// How far the zones may be trusted.
    pub confidence: Grade,
    /// Why they are not trusted more; empty if they are.
    pub doubts: Vec<String>,
    /// From which load it heals after an overload, in a sentence that names its source where that is another run; `None` if
    /// that was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healing: Option<String>,
}

/// What bounds the safe load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneBound {
    /// 85 % of the sustained load.
    #[default]
    Margin,
    /// The load from which the system still heals by itself.
    Healing,
    /// The load at 70 % CPU.
    Cpu,
}

/// Goodput past the knee: the highest load below the first one whose failures or goodput are Critical.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Retention {
    /// The knee.
    pub knee_rps: f64,
    /// Goodput at the knee.
    pub knee_goodput_rps: f64,
    /// Loads past the knee in rising order.
    pub points: Vec<RetentionPoint>,
    /// Retention at 1.25 x the knee, between neighbouring loads by a straight line; `None` if not reached.
    pub at_1_25: Option<f64>,
    /// The class; `None` if the loads do not reach far enough past the knee to tell.
    pub class: Option<RetentionClass>,
    /// First load with a goodput under half of it, divided by the knee, minus 1; `None` if there was none.
    pub cliff_margin: Option<f64>,
    /// Knee divided by the first load whose latency left Good, minus 1; `None` if the latency never warned at or
    /// before the knee.
    pub early_warning: Option<f64>,
    /// That first load.
    pub warning_rps: Option<f64>,
}

/// One load past the knee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RetentionPoint {
    /// Load divided by the knee.
    pub factor: f64,
    /// Offered load.
    pub target_rps: f64,
    /// Good answers per second.
    pub goodput_rps: f64,
    /// Goodput divided by the goodput at the knee.
    pub retention: f64,
}

/// How a system fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetentionClass {
    /// Keeps at least 0.9 of the goodput at 1.25 x the knee.
    #[default]
    Graceful,
    /// Keeps 0.5 to 0.9.
    Degrading,
    /// Keeps less than half.
    Collapse,
}

/// The same loads upwards and downwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hysteresis {
    /// Goodput on the way up, in rising order of load.
    pub up: Vec<LoadPoint>,
    /// Goodput on the way down, in rising order of load.
    pub down: Vec<LoadPoint>,
    /// Area between the two curves over the loads that both have, percent of the area under the way up. Positive
    /// where the way down is worse.
    pub area_percent: f64,
}

/// One load and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Offered load.
    pub target_rps: f64,
    /// Good answers per second.
    pub goodput_rps: f64,
    /// 99th percentile of the response time; `None` without good answers.
    pub p99_ms: Option<f64>,
}
