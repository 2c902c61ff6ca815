//! What the measured rows support, and nothing more: the highest load held, where it broke, and which
//! of two cells held more. Everything here is computed from the rows.

use crate::record::capacity::{CapacityRecord, CapacitySource, GoalResult};
use crate::record::{
    Accuracy, Cell, Grade, Level, RunRecord, STARTS_FOR_A_CLAIM, Step, TargetKind, TargetRecord,
};
use crate::search::ladder::Reading;
use crate::statistics::{mann_whitney, median, ratio, ratio_interval};

use super::format::{capitalized, or_dash, rate};
use super::lang::{Lang, page};

mod alike;

pub(crate) use alike::why;

/// Two loads count as the same if they differ by no more than this share.
const SAME_LOAD: f64 = 0.05;
/// Share of the load that must be answered well for cost and latency to be compared there.
const ANSWERED: f64 = 0.9;
/// A safe load leaves this share of the sustained load unused.
const SAFE_OF_SUSTAINED: f64 = 0.85;
/// Server CPU (of the busiest thread) that a safe load stays under, percent of a core.
const SAFE_CPU_PERCENT: f64 = 70.0;
/// Largest p of a difference that is said.
const P_MAX: f64 = 0.05;
/// Seed of the resamples behind an interval: the same page from the same record.
const INTERVAL_SEED: u64 = 42;
/// Least difference worth a sentence: 5 %.
const WORTH_MENTIONING: f64 = 1.05;

/// What one ladder shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CellFindings {
    /// Highest load such that it and every lower one was held.
    pub(crate) sustained_rps: Option<f64>,
    /// Lowest load that was validly not held; `None` if the valid rows ended while everything held.
    pub(crate) not_held_rps: Option<f64>,
    /// The load that each of several starts found held by a search of its own; empty where one of them found none.
    pub(crate) each_start_rps: Vec<f64>,
    /// Starts of whose searches the held load is the median; 0 where it is that of one search or of a ladder.
    pub(crate) median_of: usize,
    /// Highest load above `not_held_rps` that single trials of a search held: so far the limit may lie higher.
    pub(crate) held_above_rps: Option<f64>,
    /// Highest load that a valid row of a ladder held though the lowest valid row did not, so that none is sustained.
    pub(crate) held_alone_rps: Option<f64>,
    /// Lowest load that was not held in a row that is invalid, and so proves nothing.
    pub(crate) doubtful_rps: Option<f64>,
    /// Most good answers per second in any row.
    pub(crate) peak_goodput_rps: Option<f64>,
    /// Lowest load at which a metric was not Good any more.
    pub(crate) first_warning_rps: Option<f64>,
    /// Lowest load that failed or collapsed.
    pub(crate) breaking_rps: Option<f64>,
    /// Loads that were not held although a higher one was.
    pub(crate) anomalies_rps: Vec<f64>,
    /// Load that keeps a margin to `sustained_rps` and to a busy core.
    pub(crate) safe_rps: Option<f64>,
    /// Highest load over the sustained one, and the goodput there as a share of the peak.
    pub(crate) retention: Option<(f64, f64)>,
    /// How far above the sustained load less than half was answered well: 0.25 is 25 %.
    pub(crate) cliff_margin: Option<f64>,
    /// Whether it admitted more than its limit allows somewhere: then its speed does not count.
    pub(crate) over_admits: bool,
}

impl CellFindings {
    /// Least and most that a start found held; `None` unless each of several found something.
    pub(crate) fn held_between(&self) -> Option<(f64, f64)> {
        let loads = || self.each_start_rps.iter().copied();
        let (low, high) = (
            loads().min_by(f64::total_cmp)?,
            loads().max_by(f64::total_cmp)?,
        );
        (self.median_of > 1).then_some((low, high))
    }

    /// The load held, of several starts with what they held.
    pub(crate) fn held_text(&self, lang: Lang) -> String {
        let held = or_dash(self.sustained_rps, rate);
        match self.held_between() {
            Some((low, high)) => page::HELD_BETWEEN.with(
                lang,
                &[("load", &held), ("low", &rate(low)), ("high", &rate(high))],
            ),
            None => held,
        }
    }

    /// The least load that nothing speaks for; `None` if nothing bounds it.
    fn highest_possible_rps(&self) -> Option<f64> {
        let above = self.held_above_rps.unwrap_or(0.0);
        self.not_held_rps.map(|not_held| not_held.max(above))
    }

    /// Reads a ladder (see [`Reading`]).
    pub(crate) fn of(cell: &Cell) -> Self {
        let measured: Vec<&Step> = cell
            .by_load()
            .into_iter()
            .filter(|step| step.target_rps > 0.0)
            .collect();
        let Reading {
            telling: steps,
            held,
            not_held,
        } = Reading::of(&measured, Step::holds);
        let not_held = not_held.map(|step| step.target_rps);
        let sustained = held.last().map(|step| step.target_rps);
        let highest_held = steps
            .iter()
            .rev()
            .find(|step| step.holds())
            .map(|s| s.target_rps);
        let anomalies = steps
            .iter()
            .filter(|step| !step.holds())
            .map(|step| step.target_rps);
        let peak = measured
            .iter()
            .map(|step| step.goodput_rps)
            .max_by(f64::total_cmp);
        let doubtful = measured
            .iter()
            .find(|step| !step.holds() && step.validity.grade == Grade::Invalid);
        let ladder = Self {
            over_admits: judgements(cell).any(|accuracy| !accuracy.never_over()),
            sustained_rps: sustained,
            not_held_rps: not_held,
            each_start_rps: Vec::new(),
            median_of: 0,
            held_above_rps: None,
            held_alone_rps: highest_held
                .filter(|held| sustained.is_none() && Some(*held) > not_held),
            doubtful_rps: doubtful.map(|step| step.target_rps),
            peak_goodput_rps: peak.filter(|peak| *peak > 0.0),
            first_warning_rps: first_at(&steps, Level::NearLimit),
            breaking_rps: first_at(&steps, Level::Failed),
            anomalies_rps: anomalies
                .filter(|rps| highest_held.is_some_and(|h| *rps < h))
                .collect(),
            safe_rps: sustained.map(|sustained| safe(&held, sustained)),
            retention: retention(&steps, sustained),
            cliff_margin: sustained
                .zip(first_at(&steps, Level::Collapsed))
                .map(|(sustained, cliff)| cliff / sustained - 1.0),
        };
        ladder.with_search(cell, &steps)
    }

    /// A search with repeated trials knows more than single rungs: its interval and its zones stand instead.
    fn with_search(mut self, cell: &Cell, steps: &[&Step]) -> Self {
        let Some(capacity) = &cell.capacity else {
            return self;
        };
        if capacity.source == CapacitySource::Search
            && let Some(goal) = capacity.goals.first()
        {
            self.sustained_rps = goal.lower_rps;
            self.held_alone_rps = None;
            self.not_held_rps = capacity.shown_upper_rps();
            let doubtful = goal.upper_rps.or(self.doubtful_rps);
            let beyond = doubtful.filter(|rps| goal.lower_rps.is_none_or(|lower| *rps > lower));
            self.doubtful_rps = beyond.filter(|_| self.not_held_rps.is_none());
            let each: Option<Vec<f64>> = goal.starts.iter().map(|one| one.lower_rps).collect();
            self.each_start_rps = each.unwrap_or_default();
            self.median_of = goal.starts.len();
            self.peak_goodput_rps = peak_of_trials(capacity, goal).or(self.peak_goodput_rps);
            // The starts differ, which their interval says; that is no contradiction within a search.
            let alone = self.not_held_rps.filter(|_| goal.starts.is_empty());
            self.held_above_rps = alone.and_then(|upper| {
                let held = capacity.trials.iter().filter(|trial| {
                    trial.held() && trial.validity.grade != Grade::Invalid && trial.load_rps > upper
                });
                held.map(|trial| trial.load_rps).max_by(f64::total_cmp)
            });
            self.safe_rps = None;
            // What is left past a load is told of the load that is named.
            self.retention = retention(steps, self.sustained_rps);
            self.cliff_margin = self
                .sustained_rps
                .zip(first_at(steps, Level::Collapsed))
                .map(|(sustained, cliff)| cliff / sustained - 1.0);
        }
        if capacity.refused.is_some() {
            self.safe_rps = None;
        }
        // Records of several starts once kept the zones of the first one alone.
        let zones = capacity
            .zones
            .as_ref()
            .filter(|zones| Some(zones.sustained_rps) == self.sustained_rps);
        if let Some(zones) = zones {
            self.safe_rps = Some(zones.safe_rps);
        }
        self
    }
}

/// Most good answers per second in any trial, of several starts the median of that. Rows alone, whose loads suit the first
/// start, may show less than what was held.
fn peak_of_trials(capacity: &CapacityRecord, goal: &GoalResult) -> Option<f64> {
    let peak = |start: Option<u32>| {
        let own = capacity.trials.iter().filter(|trial| trial.start == start);
        own.map(|trial| trial.goodput_rps).max_by(f64::total_cmp)
    };
    if goal.starts.is_empty() {
        return peak(None);
    }
    let starts = goal.starts.iter();
    let peaks: Option<Vec<f64>> = starts.map(|found| peak(Some(found.start))).collect();
    median(&peaks?)
}

/// The lowest load with this level or a worse one.
fn first_at(steps: &[&Step], level: Level) -> Option<f64> {
    let worse = steps.iter().find(|step| step.status.level >= level);
    worse.map(|step| step.target_rps)
}

fn safe(held: &[&Step], sustained: f64) -> f64 {
    let busy = |step: &&&Step| {
        step.server
            .and_then(|server| server.busiest_thread_percent)
            .is_some_and(|busiest| busiest > SAFE_CPU_PERCENT)
    };
    let by_cpu = held.iter().find(busy).map(|step| step.target_rps);
    let bound = sustained * SAFE_OF_SUSTAINED;
    by_cpu.map_or(bound, |rps| bound.min(rps)).floor()
}

fn retention(steps: &[&Step], sustained: Option<f64>) -> Option<(f64, f64)> {
    let (sustained, last) = (sustained?, steps.last()?);
    let peak = steps
        .iter()
        .map(|step| step.goodput_rps)
        .max_by(f64::total_cmp)?;
    (last.target_rps > sustained && peak > 0.0)
        .then(|| (last.target_rps / sustained, last.goodput_rps / peak))
}

/// One cell among the others of its scenario.
#[derive(Clone, Debug)]
pub(crate) struct Ranked<'a> {
    /// The cell.
    pub(crate) cell: &'a Cell,
    /// What its ladder shows.
    pub(crate) findings: CellFindings,
    /// Its row at the scenario's common load, if it has one there.
    pub(crate) common: Option<&'a Step>,
}

/// The cells of one scenario and one kind of work, best first.
#[derive(Clone, Debug)]
pub(crate) struct ScenarioFindings<'a> {
    /// Title of the scenario.
    title: String,
    /// Kind of the targets.
    pub(crate) kind: TargetKind,
    /// The command asked, where it decides nothing.
    plain: Option<String>,
    /// Highest load that every cell ran and held, or at least answered.
    pub(crate) common_rps: Option<f64>,
    /// Cells by result: those that kept their limits first, then most sustained load, then peak goodput of those that held nothing, then
    /// least server CPU, then name.
    pub(crate) ranked: Vec<Ranked<'a>>,
    /// All targets of the run that are compared as systems.
    targets: &'a [TargetRecord],
    /// Whether targets that were not set up alike are ranked all the same.
    pub(crate) unequal_allowed: bool,
}

impl ScenarioFindings<'_> {
    /// Title of the scenario, with what is asked where it is no decision, and the kind of target where it is not a store.
    pub(crate) fn title(&self, lang: Lang) -> String {
        if let Some(command) = &self.plain {
            return format!("{} · {command}", self.title);
        }
        match self.kind {
            TargetKind::Service => format!("{} · {}", self.title, page::KIND_SERVICE.of(lang)),
            TargetKind::Store | TargetKind::Null => self.title.clone(),
        }
    }

    /// The common load in words: the rows near it may lie a little apart. `None` where there is none.
    pub(crate) fn common_text(&self) -> Option<String> {
        let loads = || {
            self.ranked
                .iter()
                .filter_map(|one| Some(one.common?.target_rps))
        };
        let (low, high) = (
            loads().min_by(f64::total_cmp),
            loads().max_by(f64::total_cmp),
        );
        let (low, high) = (rate(low?), rate(high?));
        Some(if low == high {
            low
        } else {
            format!("{low}–{high}")
        })
    }

    /// What stands over its table of cells.
    pub(crate) fn intro(&self, lang: Lang) -> String {
        let mut intro = match self.common_text() {
            Some(load) => page::SUMMARY_INTRO.with(lang, &[("load", &format!("{load}/s"))]),
            None => page::SUMMARY_ALONE.of(lang).to_owned(),
        };
        if self.ranked.iter().any(|one| one.findings.median_of > 1) {
            intro.push_str(page::SUMMARY_STARTS.of(lang));
        }
        let together = |target: &TargetRecord| {
            let ranked = self.ranked.iter().any(|one| one.cell.target == target.name);
            ranked && target.co_located
        };
        if self.targets.iter().any(together) {
            intro.push_str(&format!(" {}.", capitalized(page::CO_LOCATED.of(lang))));
        }
        if let Some(legend) = self.legend(lang) {
            intro.push(' ');
            intro.push_str(&legend);
        }
        intro
    }
}

/// Cells of a run grouped by scenario and kind of work, in the order they first appear. Stores and services are not
/// ranked against each other, nor a command that decides nothing against decisions or another command.
pub(crate) fn scenarios(record: &RunRecord) -> Vec<ScenarioFindings<'_>> {
    let mut groups: Vec<(Work<'_>, Vec<&Cell>)> = Vec::new();
    for cell in &record.cells {
        let work = Work::of(record, cell);
        match groups.iter_mut().find(|group| group.0 == work) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((work, vec![cell])),
        }
    }
    groups
        .into_iter()
        .map(|(work, cells)| scenario(record, &work, &cells))
        .collect()
}

/// What cells have in common that may be ranked against each other.
#[derive(PartialEq, Eq)]
struct Work<'a> {
    scenario: &'a str,
    kind: TargetKind,
    /// Title of a command that decides nothing.
    plain: Option<&'a str>,
}

impl<'a> Work<'a> {
    fn of(record: &RunRecord, cell: &'a Cell) -> Work<'a> {
        let kind = kind_of(record, cell);
        let decides = !cell.operation.algorithm.is_empty() || kind != TargetKind::Store;
        Work {
            scenario: &cell.scenario.name,
            kind,
            plain: (!decides).then_some(cell.operation.title.as_str()),
        }
    }
}

fn kind_of(record: &RunRecord, cell: &Cell) -> TargetKind {
    let target = record
        .targets
        .iter()
        .find(|target| target.name == cell.target);
    target.map_or(TargetKind::Store, |target| target.kind)
}

fn scenario<'a>(
    record: &'a RunRecord,
    work: &Work<'_>,
    cells: &[&'a Cell],
) -> ScenarioFindings<'a> {
    let common_rps = common_load(cells);
    let mut ranked: Vec<Ranked<'a>> = cells
        .iter()
        .map(|cell| Ranked {
            cell,
            findings: CellFindings::of(cell),
            common: common_rps.and_then(|rps| near(cell, rps)),
        })
        .collect();
    let cpu = |ranked: &Ranked<'_>| {
        ranked
            .common
            .and_then(|s| s.server)
            .and_then(|s| s.cpu_us_per_op)
            .unwrap_or(f64::MAX)
    };
    let held = |ranked: &Ranked<'_>| ranked.findings.sustained_rps.unwrap_or(0.0);
    // Among those that held nothing, the peak decides.
    let peak = |ranked: &Ranked<'_>| match ranked.findings.sustained_rps {
        Some(_) => 0.0,
        None => ranked.findings.peak_goodput_rps.unwrap_or(0.0),
    };
    ranked.sort_by(|a, b| {
        let over = |ranked: &Ranked<'_>| ranked.findings.over_admits;
        over(a)
            .cmp(&over(b))
            .then(held(b).total_cmp(&held(a)))
            .then(peak(b).total_cmp(&peak(a)))
            .then(cpu(a).total_cmp(&cpu(b)))
            .then_with(|| a.cell.title().cmp(&b.cell.title()))
    });
    let title = capitalized(
        cells
            .first()
            .map_or("", |cell| cell.scenario.title.as_str()),
    );
    ScenarioFindings {
        title,
        kind: work.kind,
        plain: work.plain.map(Into::into),
        common_rps,
        ranked,
        // Strategies are set up unlike each other on purpose, and have a comparison of their own.
        targets: match record.mitigations {
            Some(_) => &[],
            None => &record.targets,
        },
        unequal_allowed: record.unequal_allowed,
    }
}

/// The highest load that all cells ran (within [`SAME_LOAD`]) and held; if there is none, the highest
/// that all answered.
fn common_load(cells: &[&Cell]) -> Option<f64> {
    highest_common(cells, Step::holds).or_else(|| highest_common(cells, answered))
}

fn highest_common(cells: &[&Cell], good: fn(&Step) -> bool) -> Option<f64> {
    let (first, rest) = cells.split_first()?;
    let mut loads: Vec<f64> = first
        .steps
        .iter()
        .filter(|step| good(step))
        .map(|step| step.target_rps)
        .collect();
    loads.sort_by(f64::total_cmp);
    loads
        .into_iter()
        .rev()
        .find(|load| rest.iter().all(|cell| near(cell, *load).is_some_and(good)))
}

/// Whether nearly all of the load was answered well, however late within the deadline.
fn answered(step: &Step) -> bool {
    step.goodput_rps >= step.target_rps * ANSWERED
}

/// The row of a cell nearest to a load, if it is the same load for practical purposes.
pub(crate) fn near(cell: &Cell, rps: f64) -> Option<&Step> {
    let distance = |step: &&Step| (step.target_rps - rps).abs();
    let step = cell
        .steps
        .iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(&step) <= rps.abs() * SAME_LOAD).then_some(step)
}

/// How the load held by one cell compares with another's, as far as two ladders can tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Advantage {
    /// More by a factor between the two bounds.
    Between(f64, f64),
    /// More by at least this factor; the better ladder ended while it still held.
    AtLeast(f64),
    /// More by this factor, shown by a test over enough starts of both, with the ends of its 95 % interval.
    Shown {
        /// Median of the ratios of every start of the one to every start of the other.
        ratio: f64,
        /// Ends of the interval.
        within: (f64, f64),
        /// Starts of the side that has fewer.
        n: usize,
        /// Two-sided p.
        p: f64,
    },
    /// The intervals touch: no difference shown.
    NotShown,
    /// The other ladder has no valid row that was not held: nothing bounds it from above.
    Open,
}

/// Compares the intervals of two ladders. `better` must be the one that held more. Where trials of a search contradict each
/// other, the interval reaches as far as they do. Where enough starts searched on both sides, these are compared instead.
pub(crate) fn advantage(better: &CellFindings, other: &CellFindings) -> Advantage {
    let (Some(low), Some(other_low)) = (better.sustained_rps, other.sustained_rps) else {
        return Advantage::NotShown;
    };
    // Its starts held what was tried: how much more they would have is not known.
    let Some(other_high) = other.highest_possible_rps() else {
        return Advantage::Open;
    };
    if let Some(found) = over_starts(&other.each_start_rps, &better.each_start_rps) {
        return found;
    }
    let least = low / other_high;
    if least < WORTH_MENTIONING {
        return Advantage::NotShown;
    }
    match better.highest_possible_rps() {
        Some(high) => Advantage::Between(least, high / other_low),
        None => Advantage::AtLeast(least),
    }
}

/// What the loads that the starts of two systems held say about `b` against `a`; `None` with too few starts for a claim.
pub(crate) fn over_starts(a: &[f64], b: &[f64]) -> Option<Advantage> {
    let n = a.len().min(b.len());
    if n < STARTS_FOR_A_CLAIM as usize {
        return None;
    }
    let (ratio, within) = (ratio(a, b)?, ratio_interval(a, b, INTERVAL_SEED)?);
    let p = mann_whitney(a, b)?.p;
    let shown = p < P_MAX && within.0 > 1.0 && ratio >= WORTH_MENTIONING;
    Some(match shown {
        true => Advantage::Shown {
            ratio,
            within,
            n,
            p,
        },
        false => Advantage::NotShown,
    })
}

/// Everything an oracle said about a cell: over all, and row by row.
pub(crate) fn judgements(cell: &Cell) -> impl Iterator<Item = &Accuracy> {
    cell.accuracy
        .iter()
        .chain(cell.steps.iter().filter_map(|step| step.accuracy.as_ref()))
}

/// Whether the target decided anything: one that answers nobody keeps every limit.
fn decided(cell: &Cell) -> bool {
    cell.steps
        .iter()
        .any(|step| step.allowed > 0 || step.denied > 0)
}

/// Worst over-admission of a cell in percent; `None` if no oracle ran, or there was nothing to judge.
pub(crate) fn over_admission(cell: &Cell) -> Option<f64> {
    judgements(cell)
        .map(|accuracy| accuracy.over_admission_percent)
        .max_by(f64::total_cmp)
        .filter(|worst| *worst > 0.0 || decided(cell))
}

/// The most that one key was admitted within one window's length, in multiples of the limit.
pub(crate) fn worst_stretch(cell: &Cell) -> Option<f64> {
    judgements(cell)
        .filter_map(Accuracy::worst_window_of_limit)
        .max_by(f64::total_cmp)
}

/// Smallest and largest limit of a cell's rows; limits may follow the load. `None` without a limit.
pub(crate) fn limits(cell: &Cell) -> Option<(u64, u64)> {
    let known = || {
        judgements(cell)
            .map(|accuracy| accuracy.limit)
            .filter(|limit| *limit > 0)
    };
    known().min().zip(known().max())
}

/// Whether no cell admitted more than its limit; `None` if no oracle ran, or there was nothing to judge.
pub(crate) fn never_over_admitted(record: &RunRecord) -> Option<bool> {
    let all = || record.cells.iter();
    if !all().flat_map(judgements).all(Accuracy::never_over) {
        return Some(false);
    }
    let judged = |cell: &Cell| decided(cell) && judgements(cell).next().is_some();
    all().any(judged).then_some(true)
}

#[cfg(test)]
mod tests;
