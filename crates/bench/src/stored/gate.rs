//! `bench gate DIR --baseline DIR`: may this run pass?

use super::compare::{Arms, compare};
use super::read::StoredRun;
use crate::record::{
    ClaimFloor, ComparisonRow, Difference, GateOutcome, GateRecord, Grade, Metric,
    STARTS_FOR_A_CLAIM, Verdict,
};

/// What the gate asks.
#[derive(Clone, Debug)]
pub struct Gate<'a> {
    /// The runs to judge.
    pub runs: &'a [StoredRun],
    /// What they must not fall behind.
    pub baseline: &'a [StoredRun],
    /// Figures that are judged.
    pub metrics: &'a [Metric],
    /// Largest regression that passes, percent.
    pub max_regression_percent: f64,
    /// Noise of this machine; a regression within it is none.
    pub noise: Option<ClaimFloor>,
    /// Whether unequal circumstances are tolerated, and marked.
    pub allow_unequal: bool,
}

/// Why the gate could not be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// There is nothing to compare.
    Nothing(String),
    /// The arms are not alike.
    Unequal(Vec<Difference>),
}

/// Judges. A regression must be shown by a test, be larger than allowed, and be larger than the machine's noise. What
/// cannot carry a judgement (too few starts, incomplete or invalid runs, rows that are gone) is invalid.
///
/// # Errors
/// If there is nothing to compare or the arms are unequal.
pub fn gate(gate: &Gate<'_>) -> Result<GateRecord, Refused> {
    let limit = gate.max_regression_percent;
    let noise = gate.noise.as_ref();
    let allowed = format!("the allowed regression of {limit} %");
    let floor = ClaimFloor {
        percent: limit,
        by_metric: Metric::ALL
            .map(|metric| (metric, floor_of(metric, limit, noise)))
            .into(),
        source: match noise {
            Some(noise) => format!("{allowed}, or {}", noise.source),
            None => allowed,
        },
    };
    let arms = Arms {
        a: gate.baseline,
        b: gate.runs,
        target_a: None,
        target_b: None,
        // A baseline is older by nature.
        same_time: false,
    };
    let comparison = compare(&arms, gate.metrics, &floor).map_err(Refused::Nothing)?;
    if !comparison.unequal.is_empty() && !gate.allow_unequal {
        return Err(Refused::Unequal(comparison.unequal));
    }
    let mut record = GateRecord {
        comparison,
        max_regression_percent: limit,
        ..GateRecord::default()
    };
    let invalid = why_invalid(gate, &record);
    let mut failed: Vec<String> = over_admission(gate.runs);
    let worse = record
        .comparison
        .rows
        .iter()
        .filter(|row| row.verdict == Verdict::Worse);
    failed.extend(
        worse.map(|row| format!("{} · {}: {}", row.target_b, row.operation_b, row.sentence)),
    );
    // A wrong or slower answer that was shown stays shown, whatever else could not be judged.
    (record.outcome, record.reasons) = match (failed.is_empty(), invalid.is_empty()) {
        (false, _) => (GateOutcome::Failed, failed),
        (true, false) => (GateOutcome::Invalid, invalid),
        (true, true) => {
            let rows = record.comparison.rows.len();
            let text = format!("none of {rows} rows shows a regression of more than {limit} %");
            (GateOutcome::Passed, vec![text])
        }
    };
    Ok(record)
}

/// Most that can be lost of what is better the more there is, percent: of all of it there is no ratio.
const LOSS_MAX: f64 = 99.99;

/// The smallest change of a figure that is a regression of more than `limit` percent, as ratios are counted: who has lost a fifth
/// had a quarter more. Below the noise of this machine nothing is one.
fn floor_of(metric: Metric, limit: f64, noise: Option<&ClaimFloor>) -> f64 {
    let change = match metric.more_is_better() {
        true => {
            let loss = limit.min(LOSS_MAX);
            loss / (100.0 - loss) * 100.0
        }
        false => limit,
    };
    let by_metric = noise.map_or(&[][..], |noise| &noise.by_metric);
    let own = by_metric.iter().find(|(of, _)| *of == metric);
    own.map_or(change, |(_, percent)| percent.max(change))
}

fn why_invalid(gate: &Gate<'_>, record: &GateRecord) -> Vec<String> {
    let mut why = Vec::new();
    for (what, runs) in [("the run", gate.runs), ("the baseline", gate.baseline)] {
        for run in runs {
            if !run.record.complete {
                let reason = run
                    .record
                    .partial_reason
                    .as_deref()
                    .unwrap_or("it did not end");
                why.push(format!("{what} {} is incomplete: {reason}", run.source));
            }
            if run.record.validity.grade == Grade::Invalid {
                why.push(format!("{what} {} is invalid by its own rules", run.source));
            }
        }
    }
    let few = record
        .comparison
        .rows
        .iter()
        .filter(|row| row.verdict == Verdict::TooFew);
    if let count @ 1.. = few.count() {
        why.push(format!(
            "{count} of {} rows have fewer than {STARTS_FOR_A_CLAIM} starts on a side: measure both with --starts {STARTS_FOR_A_CLAIM}",
            record.comparison.rows.len()
        ));
    }
    // Of a baseline that answered or held nothing, in one start or in all, everything would pass.
    let baseless =
        |row: &&ComparisonRow| row.verdict == Verdict::Unclear && row.ratio_b_over_a.is_none();
    if let count @ 1.. = record.comparison.rows.iter().filter(baseless).count() {
        why.push(format!(
            "in {count} of {} rows a figure of the baseline is 0 in a start, so that nothing can fall behind it: measure the baseline again",
            record.comparison.rows.len()
        ));
    }
    // Held as far as was tried and no further: whether it fell behind cannot be told.
    let doubtful = |row: &&ComparisonRow| row.open_b > 0 && row.verdict == Verdict::Unclear;
    if let count @ 1.. = record.comparison.rows.iter().filter(doubtful).count() {
        why.push(format!(
            "in {count} of {} rows no load was too high for the run: give its search a higher range (--ladder)",
            record.comparison.rows.len()
        ));
    }
    for (side, who) in [("A", "the run"), ("B", "the baseline")] {
        let left_out = format!("only in {side} and left out: ");
        let notes = record.comparison.notes.iter();
        let gone = notes.filter_map(|note| note.strip_prefix(&left_out));
        why.extend(gone.map(|what| format!("{who} has no row for: {what}")));
    }
    if record.comparison.rows.is_empty() {
        why.push("no figure that was asked for was measured on both sides".into());
    }
    why
}

/// Cells of the run that admitted more than their limit allows: fast because wrong.
fn over_admission(runs: &[StoredRun]) -> Vec<String> {
    let cells = runs.iter().flat_map(|run| &run.record.cells);
    cells
        .filter(|cell| {
            cell.accuracy
                .as_ref()
                .is_some_and(|found| !found.never_over())
        })
        .map(|cell| format!("{} admitted more than its limit allows", cell.title()))
        .collect()
}
