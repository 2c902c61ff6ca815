//! Rows of runs that can be compared: one cell at one offered load, with every start that measured it.

use super::read::StoredRun;
use crate::record::{Cell, Grade, Metric, RunRecord, StartSample};
use crate::run::starts::sample;

/// One cell at one offered load.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) run: &'a RunRecord,
    pub(super) cell: &'a Cell,
    pub(super) target_rps: f64,
    /// How often the same rate came before in the ladder: one that goes up and down has each twice.
    pub(super) occurrence: usize,
    pub(super) samples: Vec<StartSample>,
    /// Further runs whose samples are among these, each with its cell.
    pub(super) others: Vec<(&'a RunRecord, &'a Cell)>,
}

/// What makes two rows the same measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key<'a> {
    pub(super) target: &'a str,
    pub(super) scenario: &'a str,
    pub(super) operation: &'a str,
    pub(super) target_rps: f64,
    pub(super) occurrence: usize,
}

impl<'a> Row<'a> {
    pub(super) fn key(&self) -> Key<'a> {
        Key {
            target: &self.cell.target,
            scenario: &self.cell.scenario.name,
            operation: &self.cell.operation.name,
            target_rps: self.target_rps,
            occurrence: self.occurrence,
        }
    }

    /// Values of `metric` in the starts that may be believed.
    pub(super) fn values(&self, metric: Metric) -> Vec<f64> {
        self.samples
            .iter()
            .filter(|sample| sample.grade != Grade::Invalid)
            .filter_map(|sample| metric.of(sample))
            .filter(|value| value.is_finite())
            .collect()
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
        let invalid = |sample: &&StartSample| sample.grade == Grade::Invalid;
        self.samples.iter().filter(invalid).count()
    }
}

/// Rows of one run, in the order of its cells and ladders.
pub(super) fn of_run(run: &RunRecord) -> Vec<Row<'_>> {
    run.cells
        .iter()
        .flat_map(|cell| of_cell(run, cell))
        .collect()
}

fn of_cell<'a>(run: &'a RunRecord, cell: &'a Cell) -> Vec<Row<'a>> {
    let single = || {
        let steps = cell.steps.iter();
        steps
            .map(|step| (step.target_rps, vec![sample(1, 0.0, step)]))
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
        let occurrence = rows
            .iter()
            .filter(|row| row.target_rps == target_rps)
            .count();
        rows.push(Row {
            run,
            cell,
            target_rps,
            occurrence,
            samples,
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
