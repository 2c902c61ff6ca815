//! Failed requests by kind and target, over all rows of a run.

use crate::record::{Failures, RunRecord};

use super::format::{count, percent};
use super::lang::{Lang, decision as t, page};

/// Headings of [`rows`]; the first column holds words.
pub(super) fn heads(lang: Lang) -> Vec<String> {
    [
        page::H_TARGET,
        t::D_REQUESTS,
        t::D_FAILED_ALL,
        page::H_FAIL,
        t::D_TIMEOUTS,
        t::D_CONNECTION,
        t::D_PROTOCOL,
        t::D_STORE_ERRORS,
        t::D_LIMITER_ERRORS,
        t::D_UNSENT,
    ]
    .map(|head| head.of(lang).to_owned())
    .to_vec()
}

/// A row for each target, in the order of their cells. A denied decision is an answer and none of these.
pub(super) fn rows(record: &RunRecord) -> Vec<Vec<String>> {
    let mut targets: Vec<(&str, u64, Failures)> = Vec::new();
    for cell in &record.cells {
        for step in &cell.steps {
            match targets.iter_mut().find(|(name, ..)| *name == cell.target) {
                Some((_, planned, failures)) => {
                    *planned += step.planned;
                    failures.add(&step.failures);
                }
                None => targets.push((&cell.target, step.planned, step.failures)),
            }
        }
    }
    let row = |(name, planned, failures): (&str, u64, Failures)| {
        let failed = failures.total();
        let share = 100.0 * failed as f64 / planned.max(1) as f64;
        let mut fields = vec![
            name.to_owned(),
            count(planned),
            count(failed),
            percent(share),
        ];
        fields.extend(failures.by_kind().iter().map(|(_, number)| count(*number)));
        fields
    };
    targets.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cell, Step};

    #[test]
    fn failures_of_all_rows_are_added_by_kind() {
        let step = |timeout: u64, limiter_error: u64| Step {
            planned: 1_000,
            failures: Failures {
                timeout,
                limiter_error,
                ..Failures::default()
            },
            ..Step::default()
        };
        let cell = |target: &str, steps: Vec<Step>| Cell {
            target: target.into(),
            steps,
            ..Cell::default()
        };
        let record = RunRecord {
            cells: vec![
                cell("a", vec![step(5, 0), step(10, 5)]),
                cell("b", vec![step(0, 0)]),
                cell("a", vec![step(0, 0)]),
            ],
            ..RunRecord::default()
        };
        let found = rows(&record);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0],
            ["a", "3,000", "20", "0.67", "15", "0", "0", "0", "5", "0"]
        );
        assert_eq!(found[0].len(), heads(Lang::En).len());
    }
}
