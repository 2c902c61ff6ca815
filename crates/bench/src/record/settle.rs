//! What follows from the measured steps: levels, labels and the grade of the whole run.

use super::capacity::CapacitySource;
use super::recovery::RecoveryVariant;
use super::{Cell, Drift, Grade, RunRecord, STARTS_FOR_A_CLAIM, Step, Validity, status};

impl RunRecord {
    /// Computes levels and labels of every row and the grade of the run. Idempotent.
    pub fn settle(&mut self) {
        for cell in &mut self.cells {
            let statistics = cell.statistics.as_ref();
            let starts = statistics.map_or(&[][..], |found| &found.rates);
            status::classify(&self.profile, &mut cell.steps, starts);
            let found = cell.capacity.as_ref().and_then(searched_limit);
            status::limit_to_held(&self.profile, &mut cell.steps, found);
            let target = self
                .targets
                .iter()
                .find(|target| target.name == cell.target);
            if target.is_some_and(|target| target.threads == Some(1)) {
                attribute_to_one_thread(&mut cell.steps);
            }
        }
        self.judge();
    }

    /// Computes the grade of the run, by what its cells hold.
    pub(crate) fn judge(&mut self) {
        self.validity = of_cells(&self.cells);
        let measured = self.cells.iter().any(Cell::is_measured);
        if self.tests_of_study().is_some() {
            self.validity.lower(Grade::Indicative, TESTS_RAN_ONCE);
        } else if !measured {
            self.validity.lower(Grade::Invalid, NOTHING);
        }
        if let Some(doubt) = Drift::of(&self.gauges).and_then(|drift| drift.doubt()) {
            self.validity.lower(Grade::Indicative, doubt);
        }
        let starts = self.starts.as_ref().map_or(1, |starts| starts.done);
        if measured && starts < STARTS_FOR_A_CLAIM {
            self.validity.lower(
                Grade::Indicative,
                format!(
                    "n={starts}: a claim needs {STARTS_FOR_A_CLAIM} fresh starts of every target (--starts)"
                ),
            );
        }
    }
}

/// The load that a search found held, if it found one above that is too much.
fn searched_limit(found: &super::CapacityRecord) -> Option<f64> {
    let goal = found.goals.first();
    let goal = goal.filter(|_| found.source == CapacitySource::Search)?;
    goal.lower_rps.filter(|_| goal.upper_rps.is_some())
}

/// What is said of the tests of a study, which take no fresh starts.
const TESTS_RAN_ONCE: &str =
    "each test ran once, in a closed loop: differences between systems are indications";

/// What is said of a run without a figure.
const NOTHING: &str = "nothing was measured";

impl Cell {
    /// Whether a search with repeated trials looked for its capacity.
    #[must_use]
    pub(crate) fn is_searched(&self) -> bool {
        let found = self.capacity.as_ref();
        found.is_some_and(|found| found.source == CapacitySource::Search)
    }

    /// Whether anything was found out about it.
    #[must_use]
    pub(crate) fn is_measured(&self) -> bool {
        let tried = |found: &super::CapacityRecord| !found.trials.is_empty();
        let ran = |found: &super::RecoveryRecord| !found.variants.is_empty();
        !self.steps.is_empty()
            || self.capacity.as_ref().is_some_and(tried)
            || self.recovery.as_ref().is_some_and(ran)
    }

    /// Starts that measured it.
    #[must_use]
    pub(crate) fn starts(&self) -> u32 {
        let statistics = self.statistics.as_ref();
        statistics.map_or(1, |found| found.starts)
    }

    /// The rows in order of rising load.
    pub(crate) fn by_load(&self) -> Vec<&Step> {
        let mut steps: Vec<&Step> = self.steps.iter().collect();
        steps.sort_by(|a, b| a.target_rps.total_cmp(&b.target_rps));
        steps
    }

    /// Length of each row in one start, in the order of the rows: a row of several starts is as long as all of them
    /// together.
    pub(crate) fn lengths_s(&self) -> impl Iterator<Item = f64> + '_ {
        let starts = |at: usize| {
            let rate = self.statistics.as_ref()?.rates.get(at)?;
            Some(rate.starts.len().max(1))
        };
        let rows = self.steps.iter().enumerate();
        rows.map(move |(at, step)| step.duration_s / starts(at).unwrap_or(1) as f64)
    }

    /// `target · operation · scenario`, as reports name the cell.
    pub(crate) fn title(&self) -> String {
        format!(
            "{} · {} · {}",
            self.target, self.operation.title, self.scenario.title
        )
    }
}

/// The whole process is its busiest thread where it has only one that works.
fn attribute_to_one_thread(steps: &mut [Step]) {
    for server in steps.iter_mut().filter_map(|step| step.server.as_mut()) {
        server
            .busiest_thread_percent
            .get_or_insert(server.cpu_percent.min(100.0));
    }
}

/// Grade of a run: the worst of its cells.
fn of_cells(cells: &[Cell]) -> Validity {
    let mut validity = Validity::default();
    for cell in cells {
        validity.absorb(&cell.title(), &cell.validity());
    }
    validity
}

/// Clients of a recovery run, as reasons name them.
fn clients(variant: &RecoveryVariant) -> String {
    let retries = variant.retries;
    match variant.deadline_ms {
        Some(deadline) => format!("{retries} retries and a deadline of {deadline} ms"),
        None => format!("{retries} retries and no deadline"),
    }
}

/// Whether a row of `steps` with more load than `lowest` held.
fn held_above(steps: &[&Step], lowest: &Step) -> bool {
    let mut above = steps
        .iter()
        .filter(|step| step.target_rps > lowest.target_rps);
    above.any(|step| step.holds() && step.tells())
}

impl Cell {
    /// How far what was found of it may be believed: the worst of what that rests on, which are the deciding trials of a
    /// search, recoveries, and the rows up to the first that did not hold. If that row is spoiled, the limit may lie higher
    /// than the findings say, but what was held was held. Rows further past the limit may exceed the generator without harm.
    #[must_use]
    pub(crate) fn validity(&self) -> Validity {
        let mut validity = Validity::default();
        if let Some(capacity) = &self.capacity {
            let found = capacity.deciding();
            for reason in found.reasons {
                validity.lower(found.grade, reason);
            }
        }
        for variant in self.recovery.iter().flat_map(|found| &found.variants) {
            if variant.validity.grade != Grade::Valid {
                let why = variant.validity.reasons.join(", and ");
                let reason = format!("recovery with {}: {why}", clients(variant));
                validity.lower(variant.validity.grade, reason);
            }
        }
        let steps = self.by_load();
        // A row below what was found was passed over when that was: it was spoiled, or only one of several trials.
        let goal = self.capacity.as_ref().and_then(|found| found.goals.first());
        let found = goal.and_then(|goal| goal.lower_rps);
        let bounds = |step: &Step| !step.holds() && found.is_none_or(|rps| step.target_rps > rps);
        let held = steps.iter().position(|step| bounds(step));
        let held = held.unwrap_or(steps.len());
        // What a search tells as too much is what bounds it: its trials say above whether it does, and no row says it again.
        let told = self.is_searched() && goal.is_some_and(|goal| goal.upper_rps.is_some());
        if let Some(broken) = steps.get(held).filter(|_| held > 0 && !told)
            && broken.validity.grade != Grade::Valid
        {
            validity.leave_open(broken.target_rps, &broken.validity.reasons.join(", and "));
        }
        // Where nothing was held, that is the finding.
        let end = if held == 0 { 1.min(steps.len()) } else { held };
        let doubtful: Vec<&&Step> = steps[..end]
            .iter()
            .filter(|step| step.validity.grade != Grade::Valid)
            .collect();
        // What a search found rests on its trials; its rows only show the surroundings. Nor does what was held rest on a row
        // below it that was passed over.
        let grade_of = |step: &Step| match self.is_searched() || (held > 0 && !step.tells()) {
            true => step.validity.grade.min(Grade::Indicative),
            false => step.validity.grade,
        };
        let Some(worst) = doubtful.iter().max_by_key(|step| grade_of(step)) else {
            return validity;
        };
        // The row at the limit is the trial that decided, and is told above.
        let searched = self.capacity.as_ref().and_then(searched_limit);
        if searched == Some(worst.target_rps) && !validity.reasons.is_empty() {
            return validity;
        }
        let grade = worst.validity.grade.word();
        let all_held = steps[..end].iter().all(|step| step.holds());
        let of = match doubtful.len() {
            _ if held == 0 && held_above(&steps, worst) => {
                format!("the lowest row was not held, though higher ones were, and is {grade}")
            }
            _ if held == 0 => format!("no load was held, and the lowest row is {grade}"),
            1 if all_held => format!("1 of {end} rows that were held is {grade}"),
            more if all_held => {
                format!("{more} of {end} rows that were held are not fully valid")
            }
            1 => format!("1 of {end} rows that count is {grade}"),
            more => format!("{more} of {end} rows that count are not fully valid"),
        };
        let why = worst.validity.reasons.join(", and ");
        let reason = format!("{of}; at {:.0}/s {why}", worst.target_rps);
        validity.lower(grade_of(worst), reason);
        validity
    }
}

#[cfg(test)]
mod tests {
    use super::super::capacity::{GoalResult, Trial};
    use super::super::{Failures, Label, ProcessUse, Starts, TargetRecord};
    use super::*;

    fn step(target_rps: f64, failed: u64, grade: Grade) -> Step {
        let mut step = Step {
            target_rps,
            planned: 1_000,
            goodput_rps: target_rps * (1_000 - failed) as f64 / 1_000.0,
            failures: Failures {
                timeout: failed,
                ..Failures::default()
            },
            ..Step::default()
        };
        if grade != Grade::Valid {
            step.validity.lower(grade, "the generator was late");
        }
        step
    }

    fn settled(steps: Vec<Step>) -> RunRecord {
        let cell = Cell {
            target: "redis".into(),
            steps,
            ..Cell::default()
        };
        let mut record = RunRecord {
            cells: vec![cell],
            starts: Some(Starts {
                planned: 5,
                done: 5,
                ..Starts::default()
            }),
            ..RunRecord::default()
        };
        record.settle();
        record
    }

    #[test]
    fn a_doubtful_row_below_the_limit_lowers_the_run() {
        let record = settled(vec![
            step(100.0, 0, Grade::Indicative),
            step(200.0, 500, Grade::Valid),
        ]);
        assert_eq!(record.validity.grade, Grade::Indicative);
        assert!(record.validity.reasons[0].contains("at 100/s the generator was late"));
    }

    #[test]
    fn a_doubtful_row_past_the_limit_does_not() {
        let record = settled(vec![
            step(100.0, 0, Grade::Valid),
            step(200.0, 500, Grade::Valid),
            step(400.0, 900, Grade::Invalid),
        ]);
        assert_eq!(record.validity, Validity::default());
    }

    #[test]
    fn a_spoiled_first_row_past_the_limit_leaves_what_was_held() {
        let record = settled(vec![
            step(100.0, 0, Grade::Valid),
            step(200.0, 500, Grade::Invalid),
        ]);
        assert_eq!(record.validity.grade, Grade::Indicative);
        let reason = &record.validity.reasons[0];
        assert!(
            reason.contains("the limit may lie higher, because at 200/s"),
            "{reason}"
        );
        let nothing_held = settled(vec![step(100.0, 500, Grade::Invalid)]);
        assert_eq!(nothing_held.validity.grade, Grade::Invalid);
        let reason = &nothing_held.validity.reasons[0];
        assert!(
            reason.contains("no load was held, and the lowest row is invalid"),
            "{reason}"
        );
    }

    #[test]
    fn a_spoiled_row_below_what_was_found_neither_denies_nor_bounds_it() {
        let mut record = settled(vec![
            step(100.0, 500, Grade::Invalid),
            step(400.0, 0, Grade::Valid),
            step(800.0, 500, Grade::Valid),
        ]);
        let said = |record: &RunRecord| record.validity.reasons.join("; ");
        assert!(
            said(&record)
                .contains("the lowest row was not held, though higher ones were, and is invalid"),
            "{}",
            said(&record)
        );
        let goal = GoalResult {
            lower_rps: Some(400.0),
            ..GoalResult::default()
        };
        record.cells[0].capacity = Some(super::super::CapacityRecord {
            goals: vec![goal],
            ..super::super::CapacityRecord::default()
        });
        record.settle();
        assert!(
            said(&record)
                .ends_with("1 of 2 rows that count is invalid; at 100/s the generator was late"),
            "{}",
            said(&record)
        );
    }

    #[test]
    fn the_load_that_a_search_found_too_much_alone_leaves_its_limit_open() {
        let mut record = settled(vec![
            step(100.0, 0, Grade::Valid),
            step(300.0, 500, Grade::Invalid),
        ]);
        let trial = |load_rps: f64, held: bool, grade: Grade| Trial {
            load_rps,
            counted: true,
            kept: vec![held],
            validity: step(load_rps, 0, grade).validity,
            ..Trial::default()
        };
        let mut said = |at_upper: Grade| {
            let goal = GoalResult {
                lower_rps: Some(200.0),
                upper_rps: Some(210.0),
                ..GoalResult::default()
            };
            record.cells[0].capacity = Some(super::super::CapacityRecord {
                goals: vec![goal],
                trials: vec![
                    trial(200.0, true, Grade::Valid),
                    trial(210.0, false, at_upper),
                ],
                ..super::super::CapacityRecord::default()
            });
            record.settle();
            record.validity.reasons.clone()
        };
        let open = said(Grade::Invalid);
        assert_eq!(open.len(), 1, "{open:?}");
        assert!(
            open[0].contains("the limit may lie higher, because at 210/s"),
            "{open:?}"
        );
        // What its trials bound validly, a spoiled row of a ladder further up does not open again.
        assert_eq!(said(Grade::Valid), [""; 0]);
    }

    #[test]
    fn fewer_than_five_starts_are_indicative() {
        let mut record = settled(vec![step(100.0, 0, Grade::Valid)]);
        record.starts = None;
        record.settle();
        assert_eq!(record.validity.grade, Grade::Indicative);
        assert!(record.validity.reasons[0].starts_with("n=1: "));
        record.cells.clear();
        record.settle();
        assert_eq!(record.validity.grade, Grade::Invalid);
        assert_eq!(record.validity.reasons, [NOTHING]);
    }

    #[test]
    fn no_row_is_a_stable_limit_that_did_not_hold() {
        let label = |record: &RunRecord, at: usize| record.cells[0].steps[at].label;
        let mut slow = step(200.0, 0, Grade::Valid);
        slow.goodput_rps = 180.0;
        let mut record = settled(vec![
            step(100.0, 0, Grade::Valid),
            slow,
            step(400.0, 500, Grade::Valid),
        ]);
        assert_eq!(label(&record, 0), Label::StableLimit);
        assert_eq!(label(&record, 1), Label::Degraded);
        // What a search found stands above single rows.
        record.cells[0].steps[1].goodput_rps = 200.0;
        let goal = GoalResult {
            lower_rps: Some(100.0),
            upper_rps: Some(150.0),
            ..GoalResult::default()
        };
        record.cells[0].capacity = Some(super::super::CapacityRecord {
            goals: vec![goal],
            ..super::super::CapacityRecord::default()
        });
        record.settle();
        assert_eq!(label(&record, 0), Label::StableLimit);
        assert_ne!(label(&record, 1), Label::StableLimit);
    }

    #[test]
    fn one_working_thread_is_the_busiest() {
        let mut record = settled(vec![step(100.0, 0, Grade::Valid)]);
        record.cells[0].steps[0].server = Some(ProcessUse {
            cpu_percent: 81.0,
            ..ProcessUse::default()
        });
        record.targets = vec![TargetRecord {
            name: "redis".into(),
            ..TargetRecord::default()
        }];
        let busiest = |record: &RunRecord| {
            record.cells[0].steps[0]
                .server
                .unwrap()
                .busiest_thread_percent
        };
        record.settle();
        assert_eq!(busiest(&record), None);
        record.targets[0].threads = Some(1);
        record.settle();
        assert_eq!(busiest(&record), Some(81.0));
    }

    #[test]
    fn settling_twice_changes_nothing() {
        let mut record = settled(vec![step(100.0, 3, Grade::Invalid)]);
        let once = record.clone();
        record.settle();
        assert_eq!(record, once);
    }
}
