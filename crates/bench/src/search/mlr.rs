//! The search itself: which load to try next, given all trials so far.

use std::collections::BTreeMap;

use super::classify::{Bound, Sample, Target};
use crate::record::capacity::GoalResult;
use crate::record::{Measure, SearchGoal};

/// Width of the first, rough phase in widths of the goal.
const ROUGH_WIDTHS: f64 = 4.0;
/// Largest factor between two loads while no bound is known on one side.
const STEP_MAX: f64 = 2.0;
/// Trials of one load that may be repeated because the machine spoiled them.
const SPOILED_PER_LOAD: usize = 2;
/// And of one search.
const SPOILED_PER_SEARCH: usize = 8;
/// Shares of the lower bound that are looked at in the end, whether one of them fails.
/// A stretch of failing loads at least this wide is found.
const CHECKS: [f64; 5] = [0.9, 0.8, 0.7, 0.6, 0.5];
/// A single trial that passes this far above the upper bound makes the search doubt that failures rise with load.
const PAST_UPPER: f64 = 1.1;
/// Multiples of the upper bound of which the first untried one is looked at in the end: a stall that outlasted the trials
/// at a load would bound the search for good otherwise.
const LOOKS: [f64; 3] = [1.25, 1.35, 1.5];

/// What to search for and within which bounds.
#[derive(Clone, Debug)]
pub struct SearchPlan {
    /// Goals; at least one. All use the same trials.
    pub goals: Vec<SearchGoal>,
    /// Load of the first trial.
    pub first_rps: f64,
    /// Smallest load that is tried.
    pub min_rps: f64,
    /// Largest.
    pub max_rps: f64,
    /// Length of the first, rough trials.
    pub rough_trial_s: f64,
    /// Most trials.
    pub trials_max: usize,
    /// Most seconds of load.
    pub budget_s: f64,
}

/// A trial that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialRequest {
    /// Offered load.
    pub load_rps: f64,
    /// Length.
    pub duration_s: f64,
    /// `range`, `narrow`, `confirm`, `above` or `check`.
    pub purpose: &'static str,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Run a trial and tell [`Search::record`].
    Trial(TrialRequest),
    /// Every goal has its interval, or has none within the bounds.
    Done,
    /// Trials or time ran out, with what ran out.
    BudgetSpent(String),
}

/// What a trial brought.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Offered load; the one that was asked for.
    pub load_rps: f64,
    /// Length.
    pub duration_s: f64,
    /// What came of it.
    pub measure: Measure,
    /// False if the machine, not the target, may have caused it.
    pub believable: bool,
}

/// A search in progress. [`Search::next_trial`] is a function of the recorded trials alone.
#[derive(Clone, Debug)]
pub struct Search {
    plan: SearchPlan,
    loads: BTreeMap<u64, Vec<Sample>>,
    spoiled: BTreeMap<u64, usize>,
    checked: Vec<u64>,
    looked_at: Option<u64>,
    trials: usize,
    spent_s: f64,
}

impl Search {
    /// A search without trials. Bounds that make no sense are mended: at least 1 request per second, and the first
    /// load between them.
    #[must_use]
    pub fn new(mut plan: SearchPlan) -> Search {
        let sane = |value: f64, other: f64| if value.is_finite() { value } else { other };
        plan.min_rps = sane(plan.min_rps, 1.0).max(1.0).round();
        plan.max_rps = sane(plan.max_rps, plan.min_rps).max(plan.min_rps).round();
        plan.first_rps = sane(plan.first_rps, plan.min_rps).clamp(plan.min_rps, plan.max_rps);
        Search {
            plan,
            loads: BTreeMap::new(),
            spoiled: BTreeMap::new(),
            checked: Vec::new(),
            looked_at: None,
            trials: 0,
            spent_s: 0.0,
        }
    }

    /// What was asked for, with mended bounds.
    #[must_use]
    pub(crate) fn plan(&self) -> &SearchPlan {
        &self.plan
    }

    /// Takes over what a trial brought. False if it does not count, because the machine spoiled it and it may be
    /// repeated.
    pub fn record(&mut self, attempt: &Attempt) -> bool {
        self.trials += 1;
        self.spent_s += attempt.duration_s;
        let load = attempt.load_rps.round() as u64;
        if !attempt.believable {
            let all: usize = self.spoiled.values().sum();
            let here = self.spoiled.entry(load).or_default();
            if *here < SPOILED_PER_LOAD && all < SPOILED_PER_SEARCH {
                *here += 1;
                return false;
            }
        }
        self.loads.entry(load).or_default().push(Sample {
            duration_s: attempt.duration_s,
            measure: attempt.measure,
            believable: attempt.believable,
        });
        true
    }

    /// What to do next.
    pub fn next_trial(&mut self) -> Next {
        let Some(trial) = self.wanted() else {
            return Next::Done;
        };
        let left_s = self.plan.budget_s - self.spent_s;
        if self.trials >= self.plan.trials_max {
            return Next::BudgetSpent(format!("{} trials were run", self.trials));
        }
        if trial.duration_s > left_s {
            return Next::BudgetSpent(format!("{:.0} s of trials were run", self.spent_s));
        }
        let load = trial.load_rps as u64;
        if trial.purpose == "check" && !self.checked.contains(&load) {
            self.checked.push(load);
        }
        if trial.purpose == "above" {
            self.looked_at = Some(load);
        }
        Next::Trial(trial)
    }

    fn wanted(&self) -> Option<TrialRequest> {
        for goal in &self.plan.goals {
            let last = Target::last(goal);
            let rough = Target {
                trial_s: self.plan.rough_trial_s.min(last.trial_s),
                sum_s: self.plan.rough_trial_s.min(last.trial_s),
                width: (goal.width * ROUGH_WIDTHS).min(0.5),
                goal,
            };
            // Once full-length trials run, the rough phase has done its work for this goal.
            let begun =
                self.loads.values().flatten().any(|sample| {
                    sample.duration_s >= last.trial_s && last.trial_s > rough.trial_s
                });
            if !begun && let Some(load) = self.candidate(&rough, None) {
                return Some(request(load, rough.trial_s, "range"));
            }
            let hints = self.bounds(&rough);
            if let Some(load) = self.candidate(&last, Some(hints)) {
                let purpose = match self.loads.get(&load) {
                    Some(_) => "confirm",
                    None => "narrow",
                };
                return Some(request(load, last.trial_s, purpose));
            }
        }
        self.look_above().or_else(|| self.check())
    }

    /// The next load for `target`; `None` if its interval is found, or cannot be.
    fn candidate(
        &self,
        target: &Target<'_>,
        hints: Option<(Option<u64>, Option<u64>)>,
    ) -> Option<u64> {
        let (lower, upper) = self.bounds(target);
        let (floor, ceiling) = (self.plan.min_rps as u64, self.plan.max_rps as u64);
        let inside = |load: u64| lower.is_none_or(|l| load > l) && upper.is_none_or(|u| load < u);
        let open = |load: u64| inside(load) && self.bound(target, load) == Bound::Undecided;
        // A load that was begun is decided first; below the lower bound only one that may break the goal matters.
        let begun = self.loads.iter().find(|(load, samples)| {
            let mut long = samples.iter().filter(|sample| target.is_long(sample));
            let breaks = |sample: &Sample| target.goal.broken_by(&sample.measure).is_some();
            let matters = match inside(**load) {
                true => long.next().is_some(),
                false => upper.is_none_or(|upper| **load < upper) && long.any(breaks),
            };
            matters && self.bound(target, **load) == Bound::Undecided
        });
        if let Some((load, _)) = begun {
            return Some(*load);
        }
        let (low_hint, high_hint) = hints.unwrap_or_default();
        if let Some(load) = low_hint.or(high_hint).filter(|load| open(*load)) {
            return Some(load);
        }
        if let Some(load) = high_hint.filter(|load| open(*load)) {
            return Some(load);
        }
        match (lower, upper) {
            (Some(lower), Some(upper)) => {
                let wide = (upper - lower) as f64 > target.width * upper as f64;
                let middle = rounded((lower as f64 * upper as f64).sqrt());
                (wide && middle > lower && middle < upper).then_some(middle)
            }
            (Some(lower), None) if lower >= ceiling => None,
            (Some(lower), None) => {
                let next = rounded(lower as f64 * self.step(target, Bound::Lower));
                Some(next.max(lower + 1).min(ceiling))
            }
            (None, Some(upper)) if upper <= floor => None,
            (None, Some(upper)) => {
                let next = rounded(upper as f64 / self.step(target, Bound::Upper));
                Some(next.min(upper - 1).max(floor))
            }
            (None, None) => Some(rounded(self.plan.first_rps).clamp(floor, ceiling)),
        }
    }

    /// Factor to the next load outside the known ones: doubles its width with every load on the same side.
    fn step(&self, target: &Target<'_>, side: Bound) -> f64 {
        let known = self
            .loads
            .keys()
            .filter(|load| self.bound(target, **load) == side);
        let doublings = known.count().saturating_sub(1).min(16) as i32;
        (1.0 + target.width * 2_f64.powi(doublings)).min(STEP_MAX)
    }

    /// One load far above the upper bound of the first goal: a single trial, and if that holds as many as decide. If they
    /// hold too, the failures below have to stand more trials (see [`Search::bound`]), and the search goes on from there.
    fn look_above(&self) -> Option<TrialRequest> {
        let last = Target::last(self.plan.goals.first()?);
        let load = match self.looked_at {
            Some(load) => {
                let kept = |sample: &Sample| last.goal.broken_by(&sample.measure).is_none();
                let held_once = self.loads.get(&load)?.iter().any(kept);
                (held_once && self.bound(&last, load) == Bound::Undecided).then_some(load)
            }
            None => {
                let upper = self.bounds(&last).1? as f64;
                let ceiling = self.plan.max_rps as u64;
                let loads = LOOKS.map(|factor| rounded(upper * factor).min(ceiling));
                let far = |load: &u64| *load as f64 >= PAST_UPPER * upper;
                let untried = |load: &u64| !self.loads.contains_key(load);
                loads.into_iter().find(|load| far(load) && untried(load))
            }
        };
        load.map(|load| request(load, last.trial_s, "above"))
    }

    /// Loads below the result that were not tried yet, to find a failure below a pass.
    fn check(&self) -> Option<TrialRequest> {
        let last = Target::last(self.plan.goals.first()?);
        let (Some(lower), _) = self.bounds(&last) else {
            return None;
        };
        let room = CHECKS.len().checked_sub(self.checked.len())?;
        if room == 0 {
            return None;
        }
        let near = |load: u64| {
            self.loads.iter().any(|(known, samples)| {
                let distance = (*known as f64 - load as f64).abs();
                distance <= last.width / 2.0 * load as f64
                    && samples.iter().any(|s| last.is_long(s))
            })
        };
        CHECKS
            .iter()
            .map(|share| rounded(lower as f64 * share).max(self.plan.min_rps as u64))
            .find(|load| *load < lower && !near(*load))
            .map(|load| request(load, last.trial_s, "check"))
    }

    /// Relevant lower and upper bound: the lowest load that is not held, and the highest held one below it.
    fn bounds(&self, target: &Target<'_>) -> (Option<u64>, Option<u64>) {
        let of = |wanted: Bound| {
            let loads = self.loads.keys().copied();
            loads.filter(move |load| self.bound(target, *load) == wanted)
        };
        let upper = of(Bound::Upper).min();
        let lower = of(Bound::Lower)
            .filter(|load| upper.is_none_or(|upper| *load < upper))
            .max();
        (lower, upper)
    }

    /// What `load` is; one that fails below a load that passes needs more trial time to count as failed.
    fn bound(&self, target: &Target<'_>, load: u64) -> Bound {
        let Some(samples) = self.loads.get(&load) else {
            return Bound::Undecided;
        };
        match target.classify(samples) {
            Bound::Upper if self.passes_above(target, load) => target.doubtful().classify(samples),
            other => other,
        }
    }

    fn passes_above(&self, target: &Target<'_>, load: u64) -> bool {
        self.loads
            .range(load + 1..)
            .any(|(_, samples)| target.classify(samples) == Bound::Lower)
    }

    /// Loads that fail the first goal below a load that passes it, in rising order; not empty means that failures do
    /// not rise with load. `above` are single trials past the search's interval. What the machine spoiled is no failure of
    /// the target: the other trials have to be enough.
    #[must_use]
    pub(crate) fn inverted(&self, above: &[(f64, Measure)]) -> Vec<f64> {
        let Some(goal) = self.plan.goals.first() else {
            return Vec::new();
        };
        let last = Target::last(goal);
        let passed_alone = |load: u64| {
            above.iter().any(|(rate, measure)| {
                *rate >= PAST_UPPER * load as f64 && goal.broken_by(measure).is_none()
            })
        };
        let failed = |load: &u64| {
            let own = self.loads.get(load).into_iter().flatten();
            let told: Vec<Sample> = own.filter(|sample| sample.believable).copied().collect();
            self.bound(&last, *load) == Bound::Upper && last.classify(&told) == Bound::Upper
        };
        self.loads
            .keys()
            .filter(|load| failed(load))
            .filter(|load| self.passes_above(&last, **load) || passed_alone(**load))
            .map(|load| *load as f64)
            .collect()
    }

    /// What is known about every goal.
    #[must_use]
    pub fn results(&self) -> Vec<GoalResult> {
        self.plan
            .goals
            .iter()
            .map(|goal| self.result(goal))
            .collect()
    }

    fn result(&self, goal: &SearchGoal) -> GoalResult {
        let last = Target::last(goal);
        let (lower, upper) = self.bounds(&last);
        let converged = match (lower, upper) {
            (Some(_), Some(_)) => self.candidate(&last, None).is_none(),
            _ => false,
        };
        let (floor, ceiling) = (self.plan.min_rps, self.plan.max_rps);
        let remark = match (lower, upper) {
            (Some(_), Some(_)) if converged => "the interval is as narrow as asked".into(),
            (Some(_), Some(_)) => "the search ended before the interval was narrow".into(),
            (Some(lower), None) if lower as f64 >= ceiling => {
                format!("held up to {ceiling:.0}/s, the highest load tried")
            }
            (Some(_), None) => {
                "a lower bound: the trials ended before a load was shown to be too much".into()
            }
            (None, Some(upper)) if upper as f64 <= floor => {
                format!("not held at {floor:.0}/s, the lowest load tried")
            }
            (None, Some(_)) => "no load was shown to be held".into(),
            (None, None) => "not one load was decided".into(),
        };
        let throughput = lower.and_then(|lower| {
            let samples = self.loads.get(&lower)?;
            last.conditional_throughput(lower as f64, samples)
        });
        GoalResult {
            goal: goal.clone(),
            lower_rps: lower.map(|load| load as f64),
            upper_rps: upper.map(|load| load as f64),
            converged,
            conditional_throughput_rps: throughput,
            remark,
            starts: Vec::new(),
            over_starts: None,
        }
    }
}

fn request(load: u64, duration_s: f64, purpose: &'static str) -> TrialRequest {
    TrialRequest {
        load_rps: load as f64,
        duration_s,
        purpose,
    }
}

/// Three significant digits, so that loads can be read aloud; at least 1.
fn rounded(load: f64) -> u64 {
    let unit = 10_f64.powf(load.max(1.0).log10().floor() - 2.0).max(1.0);
    ((load / unit).round() * unit).max(1.0) as u64
}
