//! `bench trends DIR…`: how figures moved over stored runs.

use super::equality::differences;
use super::read::StoredRun;
use super::rows::{Key, Row, of_run};
use crate::record::{
    Metric, Noise, PointBasis, SCHEMA_VERSION, TrendChange, TrendColour, TrendRow, TrendsRecord,
    Verdict,
};
use crate::statistics::{changes, cv_percent, estimate, kendall_p, median, theil_sen};

/// Change beyond which a trend is coloured, percent.
const COLOUR_PERCENT: f64 = 5.0;
/// Coefficient of variation below which a figure is stable, percent.
const STABLE_PERCENT: f64 = 10.0;
/// Coefficient of variation below which it is variable, percent.
const VARIABLE_PERCENT: f64 = 25.0;
/// Largest p of a claim.
const P_MAX: f64 = 0.05;
/// Fewest runs that a claim may rest on: with four, no order of the values is rarer than one in twelve.
pub(crate) const RUNS_FOR_A_CLAIM: usize = 5;
/// Seed of the random orders that a change of level is compared with.
const CHANGES_SEED: u64 = 0x6368_616e_6765;
/// Seed of the bootstrap of each run's starts.
const STARTS_SEED: u64 = 0x7374_6172_7473;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Trends of all rows that at least two of the runs have. `runs` are sorted by time.
///
/// # Errors
/// If there are fewer than two runs, or none shares a row with another.
pub fn trends(runs: &[StoredRun], metrics: &[Metric]) -> Result<TrendsRecord, String> {
    let Some(first) = runs.first().filter(|_| runs.len() > 1) else {
        return Err(format!(
            "a trend needs at least two runs; there is {}",
            runs.len()
        ));
    };
    let begun = first.record.manifest.started_unix_s;
    let days: Vec<f64> = runs
        .iter()
        .map(|run| (run.record.manifest.started_unix_s - begun) as f64 / DAY_S)
        .collect();
    let measured: Vec<Vec<Row<'_>>> = runs.iter().map(|run| of_run(&run.record)).collect();
    let mut keys: Vec<Key<'_>> = Vec::new();
    for row in measured.iter().flatten() {
        if !keys.contains(&row.key()) {
            keys.push(row.key());
        }
    }
    let mut record = TrendsRecord {
        schema_version: SCHEMA_VERSION,
        started_at: runs
            .iter()
            .map(|run| run.record.manifest.started_at.clone())
            .collect(),
        ..TrendsRecord::default()
    };
    let mut shared = false;
    for key in keys {
        let found: Vec<Found<'_>> = days
            .iter()
            .zip(&record.started_at)
            .zip(&measured)
            .filter_map(|((day, started_at), rows)| {
                let row = rows.iter().find(|row| row.key() == key)?;
                Some((*day, started_at.clone(), row))
            })
            .collect();
        if found.len() > 1 {
            shared = true;
            record
                .rows
                .extend(metrics.iter().filter_map(|metric| row(&found, *metric)));
        }
    }
    if record.rows.is_empty() {
        if shared {
            return Err("the validity rules rejected the rows that the runs share, so there is nothing to follow: measure on a \
                        quieter machine, or with longer steps"
                .into());
        }
        return Err("no row is in two of the runs: a trend needs the same target, scenario, operation and offered load \
                    (give --ladder to measure at chosen rates)"
            .into());
    }
    for run in &runs[1..] {
        for found in differences(&first.record, &run.record) {
            let note = format!(
                "the run of {} differs from the first in {}: {} instead of {}",
                run.record.manifest.started_at, found.what, found.b, found.a
            );
            record.notes.push(note);
        }
    }
    Ok(record)
}

/// A row of one run, with the day and the start of the run.
type Found<'a> = (f64, String, &'a Row<'a>);

fn row(found: &[Found<'_>], metric: Metric) -> Option<TrendRow> {
    let (points, rests_on): (Vec<(f64, f64)>, Vec<PointBasis>) = found
        .iter()
        .filter_map(|(day, started_at, row)| {
            let of_run = estimate(&row.values(metric), STARTS_SEED)?;
            let basis = PointBasis {
                started_at: started_at.clone(),
                starts: of_run.n,
                interval: of_run.low.zip(of_run.high),
            };
            Some(((*day, of_run.median), basis))
        })
        .unzip();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    let (first, last) = (*values.first()?, *values.last()?);
    let (cell, place) = (found.first()?.2.cell, found.first()?.2.place);
    let changed = changes(&values, CHANGES_SEED).into_iter();
    // By run and not by day: two runs of one hour and one a month later would leave one slope.
    let by_run: Vec<(f64, f64)> = (0..).map(f64::from).zip(values.iter().copied()).collect();
    let centre = median(&values)?;
    let percent = |slope: f64| slope / centre * 100.0;
    let slope = theil_sen(&by_run).filter(|_| centre > 0.0);
    let change_percent = (first > 0.0).then(|| (last / first - 1.0) * 100.0);
    let cv = cv_percent(&values);
    let mut row = TrendRow {
        target: cell.target.clone(),
        scenario: cell.scenario.title.clone(),
        operation: cell.operation.title.clone(),
        target_rps: place.target_rps(),
        goal: place.goal(),
        metric,
        change_percent,
        slope_percent_per_run: slope.map(|found| percent(found.slope)),
        slope_ci: slope
            .and_then(|found| found.interval)
            .map(|(low, high)| (percent(low), percent(high))),
        p: kendall_p(&by_run),
        cv_percent: cv,
        noise: noise(cv),
        colour: colour(change_percent, metric),
        changes: changed
            .map(|change| TrendChange {
                at: change.at,
                started_at: rests_on[change.at].started_at.clone(),
                before: change.before,
                after: change.after,
                p: change.p,
            })
            .collect(),
        points,
        rests_on,
        sentence: String::new(),
    };
    row.sentence = sentence(&row, &place.text());
    Some(row)
}

fn noise(cv_percent: Option<f64>) -> Noise {
    match cv_percent {
        None => Noise::Unknown,
        Some(cv) if cv < STABLE_PERCENT => Noise::Stable,
        Some(cv) if cv < VARIABLE_PERCENT => Noise::Variable,
        Some(_) => Noise::Unstable,
    }
}

fn colour(change_percent: Option<f64>, metric: Metric) -> TrendColour {
    match change_percent {
        Some(change) if change.abs() > COLOUR_PERCENT => {
            if (change > 0.0) == metric.more_is_better() {
                TrendColour::Better
            } else {
                TrendColour::Worse
            }
        }
        _ => TrendColour::Neutral,
    }
}

/// What a row allows to say: with few runs nothing, whatever its slope.
#[must_use]
pub(crate) fn trend_verdict(row: &TrendRow) -> Verdict {
    match (row.slope_percent_per_run, row.p) {
        (Some(_), Some(_)) if row.points.len() < RUNS_FOR_A_CLAIM => Verdict::TooFew,
        (Some(slope), Some(p)) if p < P_MAX => match (slope > 0.0) == row.metric.more_is_better() {
            true => Verdict::Better,
            false => Verdict::Worse,
        },
        (Some(_), Some(_)) => Verdict::Unclear,
        _ => Verdict::TooFew,
    }
}

/// `p = 0.012`, or `p < 0.001`: no p is 0.
#[must_use]
pub(crate) fn told_p(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".to_owned()
    } else {
        format!("p = {p:.3}")
    }
}

fn sentence(row: &TrendRow, place: &str) -> String {
    let runs = row.points.len();
    let of = format!(
        "{} · {} · {} {place}: {}",
        row.target,
        row.operation,
        row.scenario,
        row.metric.name()
    );
    let noise = row.noise.word();
    let (Some(slope), Some(p)) = (row.slope_percent_per_run, row.p) else {
        return format!("{of}: {runs} runs are too few for a trend.");
    };
    if runs < RUNS_FOR_A_CLAIM {
        return format!(
            "{of}: {slope:+.1} % per run over {runs} runs, {noise}; a claim needs {RUNS_FOR_A_CLAIM} runs."
        );
    }
    if p >= P_MAX {
        return format!(
            "{of}: no trend shown over {runs} runs ({}), {noise}.",
            told_p(p)
        );
    }
    let better = (slope > 0.0) == row.metric.more_is_better();
    let word = if better { "better" } else { "worse" };
    format!(
        "{of}: {word} by {:.1} % per run over {runs} runs ({}), {noise}.",
        slope.abs(),
        told_p(p)
    )
}
