//! Rows of runs that can be compared: one cell at one offered load, or what a search of it found, with every start that
//! measured it.

use super::read::StoredRun;
use crate::record::capacity::{CapacitySource, GoalResult};
use crate::record::{Cell, Grade, Metric, RunRecord, SearchGoal, StartSample};
use crate::run::starts::sample;

/// One cell at one offered load, or what a search of it found.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) run: &'a RunRecord,
    pub(super) cell: &'a Cell,
    pub(super) place: Place<'a>,
    pub(super) samples: Vec<Sample>,
    /// Further runs whose samples are among these, each with its cell.
    pub(super) others: Vec<(&'a RunRecord, &'a Cell)>,
}

/// Where in a cell a row stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place<'a> {
    /// A rung of its ladder.
    Rung {
        target_rps: f64,
        /// How often the same rate came before in the ladder: one that goes up and down has each twice.
        occurrence: usize,
    },
    /// The goal of its search, by name. Two searches end at different rates, so what they have in common is the question.
    Goal(&'a str),
}

impl Place<'_> {
    pub(super) fn target_rps(self) -> Option<f64> {
        match self {
            Place::Rung { target_rps, .. } => Some(target_rps),
            Place::Goal(_) => None,
        }
    }

    pub(super) fn goal(self) -> Option<String> {
        match self {
            Place::Rung { .. } => None,
            Place::Goal(name) => Some(name.to_owned()),
        }
    }

    /// `at 5000/s` or `under the goal slo`.
    pub(super) fn text(self) -> String {
        match self {
            Place::Rung { target_rps, .. } => format!("at {target_rps:.0}/s"),
            Place::Goal(name) => format!("under the goal {name}"),
        }
    }
}

/// What one start showed.
#[derive(Clone, Debug)]
pub(super) enum Sample {
    /// At one load.
    Rung(StartSample),
    /// In its search.
    Search {
        /// Highest load that was held; 0 if none was.
        held_rps: f64,
        /// Whether no load was too high, so that more may be held.
        open: bool,
        grade: Grade,
    },
}

impl Sample {
    fn grade(&self) -> Grade {
        match self {
            Self::Rung(sample) => sample.grade,
            Self::Search { grade, .. } => *grade,
        }
    }

    fn of(&self, metric: Metric) -> Option<f64> {
        match self {
            Self::Rung(sample) => metric.of(sample),
            Self::Search { held_rps, .. } => (metric == Metric::HeldRps).then_some(*held_rps),
        }
    }
}

/// What makes two rows the same measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key<'a> {
    pub(super) target: &'a str,
    pub(super) scenario: &'a str,
    pub(super) operation: &'a str,
    pub(super) place: Place<'a>,
}

impl<'a> Row<'a> {
    pub(super) fn key(&self) -> Key<'a> {
        Key {
            target: &self.cell.target,
            scenario: &self.cell.scenario.name,
            operation: &self.cell.operation.name,
            place: self.place,
        }
    }

    /// The goal of a search as this run asked it.
    pub(super) fn goal(&self) -> Option<&'a SearchGoal> {
        let Place::Goal(name) = self.place else {
            return None;
        };
        let goals = self.cell.capacity.as_ref()?.goals.iter();
        goals
            .map(|found| &found.goal)
            .find(|goal| goal.name == name)
    }

    /// Values of `metric` in the starts that may be believed.
    pub(super) fn values(&self, metric: Metric) -> Vec<f64> {
        self.believed()
            .filter_map(|sample| sample.of(metric))
            .filter(|value| value.is_finite())
            .collect()
    }

    /// Believed starts whose search found no load too high.
    pub(super) fn open(&self) -> u32 {
        let open = |sample: &&Sample| matches!(sample, Sample::Search { open: true, .. });
        self.believed().filter(open).count() as u32
    }

    /// Starts that may be believed.
    pub(super) fn believed(&self) -> impl Iterator<Item = &Sample> {
        let invalid = |sample: &&Sample| sample.grade() != Grade::Invalid;
        self.samples.iter().filter(invalid)
    }

    /// The row as each of its runs has it, without samples.
    pub(super) fn parts(&self) -> impl Iterator<Item = Row<'a>> + '_ {
        let own = std::iter::once((self.run, self.cell));
        own.chain(self.others.iter().copied())
            .map(|(run, cell)| Row {
                run,
                cell,
                samples: Vec::new(),
                others: Vec::new(),
                ..*self
            })
    }

    /// Starts that the validity rules rejected.
    pub(super) fn rejected(&self) -> usize {
        self.samples.len() - self.believed().count()
    }
}

/// Rows of one run, in the order of its cells: of each what its search found, then its ladder.
pub(super) fn of_run(run: &RunRecord) -> Vec<Row<'_>> {
    let rows = |cell| of_search(run, cell).into_iter().chain(of_ladder(run, cell));
    run.cells.iter().flat_map(rows).collect()
}

fn of_search<'a>(run: &'a RunRecord, cell: &'a Cell) -> Vec<Row<'a>> {
    let found = cell.capacity.as_ref();
    // The rungs of a ladder leave an interval as wide as their distance, which is no measurement of its own.
    let Some(found) = found.filter(|found| found.source == CapacitySource::Search) else {
        return Vec::new();
    };
    let sample = |start: Option<u32>, lower: Option<f64>, upper: Option<f64>| Sample::Search {
        held_rps: lower.unwrap_or(0.0),
        open: upper.is_none_or(|upper| !found.is_bound(start, upper)),
        grade: found.grade_of(start, [lower, upper]),
    };
    let row = |goal: &'a GoalResult| {
        let starts = goal.starts.iter();
        let mut samples: Vec<Sample> = starts
            .map(|one| sample(Some(one.start), one.lower_rps, one.upper_rps))
            .collect();
        if samples.is_empty() && found.came_to_an_end() {
            samples.push(sample(None, goal.lower_rps, goal.upper_rps));
        }
        Row {
            run,
            cell,
            place: Place::Goal(&goal.goal.name),
            samples,
            others: Vec::new(),
        }
    };
    found.goals.iter().map(row).collect()
}

fn of_ladder<'a>(run: &'a RunRecord, cell: &'a Cell) -> Vec<Row<'a>> {
    let single = || {
        let steps = cell.steps.iter();
        steps
            .map(|step| (step.target_rps, vec![sample(1, 0.0, step, &run.profile)]))
            .collect()
    };
    let measured: Vec<(f64, Vec<StartSample>)> = match &cell.statistics {
        Some(statistics) => statistics
            .rates
            .iter()
            .map(|rate| (rate.target_rps, rate.starts.clone()))
            .collect(),
        None => single(),
    };
    let mut rows: Vec<Row<'_>> = Vec::with_capacity(measured.len());
    for (target_rps, samples) in measured {
        let same = |row: &&Row<'_>| row.place.target_rps() == Some(target_rps);
        let occurrence = rows.iter().filter(same).count();
        rows.push(Row {
            run,
            cell,
            place: Place::Rung {
                target_rps,
                occurrence,
            },
            samples: samples.into_iter().map(Sample::Rung).collect(),
            others: Vec::new(),
        });
    }
    rows
}

/// Rows of all runs, those of the same measurement put together.
pub(super) fn pooled<'a>(runs: &'a [StoredRun], only: Option<&str>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for row in runs.iter().flat_map(|run| of_run(&run.record)) {
        if only.is_some_and(|target| target != row.cell.target) {
            continue;
        }
        match rows.iter_mut().find(|known| known.key() == row.key()) {
            Some(known) => {
                known.samples.extend(row.samples);
                known.others.push((row.run, row.cell));
            }
            None => rows.push(row),
        }
    }
    rows
}

/// Names of the targets in `runs`, in order, each once.
pub(super) fn targets(runs: &[StoredRun]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in runs.iter().flat_map(|run| &run.record.cells) {
        if !names.contains(&cell.target.as_str()) {
            names.push(&cell.target);
        }
    }
    names
}
