//! `bench compare DIR DIR`: row by row, ratio, interval, test, effect and verdict.

use super::equality::of_rows;
use super::read::StoredRun;
use super::rows::{Place, Row, pooled, targets};
use crate::record::{
    Arm, ClaimFloor, ComparisonRecord, ComparisonRow, Difference, Metric, RankTest, SCHEMA_VERSION,
    STARTS_FOR_A_CLAIM, Verdict,
};
use crate::statistics::{Size, estimate, mann_whitney, ratio, ratio_interval, size_of};

/// Largest p of a claim.
const P_MAX: f64 = 0.05;
/// Margin of equivalence, percent: an interval within it says "same".
const SAME_PERCENT: f64 = 3.0;
/// Time between two runs beyond which the machine may have changed: they no longer count as one experiment.
const APART_S_MAX: i64 = 3_600;

/// What is compared with what.
#[derive(Clone, Copy, Debug)]
pub struct Arms<'a> {
    /// Runs of A, sorted by time.
    pub a: &'a [StoredRun],
    /// Runs of B.
    pub b: &'a [StoredRun],
    /// Target of A; `None` where the runs leave no choice.
    pub target_a: Option<&'a str>,
    /// Target of B.
    pub target_b: Option<&'a str>,
    /// Whether the time between the runs is a difference. Not where the passing of time is the question.
    pub same_time: bool,
}

/// Compares two arms. The result names every difference of circumstances; the caller decides whether to refuse.
///
/// # Errors
/// If a target is not there, the choice of targets is open, or no row is in both arms.
pub fn compare(
    arms: &Arms<'_>,
    metrics: &[Metric],
    floor: &ClaimFloor,
) -> Result<ComparisonRecord, String> {
    let (only_a, only_b) = choose(arms)?;
    let (rows_a, rows_b) = (
        pooled(arms.a, only_a.as_deref()),
        pooled(arms.b, only_b.as_deref()),
    );
    let across = only_a != only_b;
    let mut pairs = Vec::new();
    let mut missing = Vec::new();
    let mut own_ways = 0;
    for a in &rows_a {
        match rows_b.iter().find(|b| matches(a, b, across)) {
            Some(b) => pairs.push((a, b)),
            None if searched(a, &rows_a, false) && searched(a, &rows_b, across) => own_ways += 1,
            None => missing.push(title(a)),
        }
    }
    if pairs.is_empty() {
        return Err(format!(
            "no row is in both arms: the same scenario, operation and offered load must be measured in each (give --ladder \
             to measure at chosen rates). A has {}; B has {}",
            some(&rows_a),
            some(&rows_b)
        ));
    }
    let mut record = ComparisonRecord {
        schema_version: SCHEMA_VERSION,
        a: arm(arms.a, only_a.as_deref(), "A"),
        b: arm(arms.b, only_b.as_deref(), "B"),
        unequal: unequal(arms, &pairs),
        floor: floor.clone(),
        ..ComparisonRecord::default()
    };
    if record.a.label == record.b.label {
        record.a.label.push_str(" (A)");
        record.b.label.push_str(" (B)");
    }
    record.notes = notes(&pairs, &missing);
    if own_ways > 0 {
        record.notes.push(format!(
            "{own_ways} loads of searches left out: where a search goes follows from what it finds, and what both held is compared"
        ));
    }
    record.notes.extend(gone(&pairs, metrics));
    for (a, b) in pairs {
        let rows = metrics
            .iter()
            .filter_map(|metric| row(a, b, *metric, floor));
        record.rows.extend(rows);
    }
    record.notes.extend(open(&record.rows));
    let tested = record
        .rows
        .iter()
        .filter(|row| row.verdict != Verdict::TooFew)
        .count();
    if tested > 1 {
        record.notes.push(format!(
            "{tested} rows were tested at 5 % each: of rows without any difference, one in twenty may look different by chance"
        ));
    }
    Ok(record)
}

/// The target of each arm; `None` on both sides if all that have one name are compared.
fn choose(arms: &Arms<'_>) -> Result<(Option<String>, Option<String>), String> {
    let (names_a, names_b) = (targets(arms.a), targets(arms.b));
    for (side, wanted, names) in [
        ("A", arms.target_a, &names_a),
        ("B", arms.target_b, &names_b),
    ] {
        if let Some(wanted) = wanted.filter(|wanted| !names.contains(wanted)) {
            return Err(format!(
                "{side} has no target '{wanted}', only {}",
                names.join(", ")
            ));
        }
    }
    match (arms.target_a, arms.target_b) {
        (None, None) if names_a.iter().any(|name| names_b.contains(name)) => Ok((None, None)),
        (a, b) => {
            let single = |given: Option<&str>, names: &[&str]| match (given, names) {
                (Some(given), _) => Some(given.to_owned()),
                (None, [only]) => Some((*only).to_owned()),
                (None, _) => None,
            };
            match (single(a, &names_a), single(b, &names_b)) {
                (Some(a), Some(b)) => Ok((Some(a), Some(b))),
                _ => Err(format!(
                    "which targets? A has {}; B has {}: give --target-a and --target-b",
                    names_a.join(", "),
                    names_b.join(", ")
                )),
            }
        }
    }
}

fn matches(a: &Row<'_>, b: &Row<'_>, across: bool) -> bool {
    same_cell(a, b, across) && a.place == b.place
}

fn same_cell(a: &Row<'_>, b: &Row<'_>, across: bool) -> bool {
    let (a, b) = (a.key(), b.key());
    (across || a.target == b.target) && a.scenario == b.scenario && a.operation == b.operation
}

/// Whether `row` is a load of a cell that was searched in `rows`.
fn searched(row: &Row<'_>, rows: &[Row<'_>], across: bool) -> bool {
    let search =
        |found: &Row<'_>| matches!(found.place, Place::Goal(_)) && same_cell(row, found, across);
    matches!(row.place, Place::Rung { .. }) && rows.iter().any(search)
}

fn title(row: &Row<'_>) -> String {
    format!("{} {}", row.cell.title(), row.place.text())
}

fn some(rows: &[Row<'_>]) -> String {
    let named: Vec<String> = rows.iter().take(3).map(title).collect();
    match rows.len() {
        0 => "no rows".to_owned(),
        n if n > named.len() => format!("{} and {} more", named.join("; "), n - named.len()),
        _ => named.join("; "),
    }
}

fn arm(runs: &[StoredRun], target: Option<&str>, side: &str) -> Arm {
    Arm {
        label: target.unwrap_or(side).to_owned(),
        sources: runs.iter().map(|run| run.source.clone()).collect(),
        started_at: runs
            .iter()
            .map(|run| run.record.manifest.started_at.clone())
            .collect(),
    }
}

fn unequal(arms: &Arms<'_>, pairs: &[(&Row<'_>, &Row<'_>)]) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    for (a, b) in pairs {
        // Samples of all runs of an arm are thrown together, so each of them must be like the others.
        for other in a.parts().skip(1).chain(b.parts()) {
            for difference in of_rows(a, &other) {
                if !found.contains(&difference) {
                    found.push(difference);
                }
            }
        }
    }
    if let (Some(first), true) = (arms.a.first(), arms.same_time) {
        for other in arms.a.iter().skip(1).chain(arms.b) {
            for difference in super::differences(&first.record, &other.record) {
                if !found.contains(&difference) {
                    found.push(difference);
                }
            }
        }
        found.extend(date(arms));
        found.extend(order(arms));
    }
    found
}

/// The arms' dates, if they lie too far apart for one experiment.
fn date(arms: &Arms<'_>) -> Option<Difference> {
    let times = |runs: &[StoredRun]| -> Option<(i64, i64)> {
        let started = |run: &StoredRun| run.record.manifest.started_unix_s;
        Some((started(runs.first()?), started(runs.last()?)))
    };
    let ((first_a, last_a), (first_b, last_b)) = (times(arms.a)?, times(arms.b)?);
    let apart = last_a.max(last_b) - first_a.min(first_b);
    let text = |runs: &[StoredRun]| {
        let at = runs
            .first()
            .map(|run| run.record.manifest.started_at.clone());
        at.unwrap_or_default()
    };
    (apart > APART_S_MAX).then(|| Difference {
        what: "date (more than an hour apart)".into(),
        a: text(arms.a),
        b: text(arms.b),
    })
}

/// The order of the runs, if there are several on each side and they did not take turns.
fn order(arms: &Arms<'_>) -> Option<Difference> {
    let time = |run: &StoredRun| run.record.manifest.started_unix_s;
    if arms.a.len() < 2 || arms.b.len() < 2 {
        return None;
    }
    let (last_a, first_b) = (time(arms.a.last()?), time(arms.b.first()?));
    let (last_b, first_a) = (time(arms.b.last()?), time(arms.a.first()?));
    (last_a < first_b || last_b < first_a).then(|| Difference {
        what: "order (all runs of one arm before all of the other)".into(),
        a: arms.a[0].record.manifest.started_at.clone(),
        b: arms.b[0].record.manifest.started_at.clone(),
    })
}

fn notes(pairs: &[(&Row<'_>, &Row<'_>)], missing: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    let rejected: usize = pairs.iter().map(|(a, b)| a.rejected() + b.rejected()).sum();
    if rejected > 0 {
        notes.push(format!(
            "measurements that the validity rules rejected, and that were left out: {rejected}"
        ));
    }
    match missing {
        [] => {}
        [one] => notes.push(format!("only in A and left out: {one}")),
        [one, rest @ ..] => notes.push(format!(
            "only in A and left out: {one} and {} more",
            rest.len()
        )),
    }
    notes
}

/// Figures of rows in both arms that only one of them has a believable value of.
fn gone(pairs: &[(&Row<'_>, &Row<'_>)], metrics: &[Metric]) -> Vec<String> {
    let mut found = Vec::new();
    for (a, b) in pairs {
        for metric in metrics {
            let has = |row: &Row<'_>| !row.values(*metric).is_empty();
            let side = match (has(a), has(b)) {
                (true, false) => "A",
                // A row that was measured and has no such figure, as of a system that answered nothing, is surpassed.
                (false, true) if a.rejected() > 0 => "B",
                _ => continue,
            };
            found.push(format!(
                "only in {side} and left out: {} of {}",
                metric.name(),
                title(a)
            ));
        }
    }
    found
}

fn row(a: &Row<'_>, b: &Row<'_>, metric: Metric, floor: &ClaimFloor) -> Option<ComparisonRow> {
    let (values_a, values_b) = (a.values(metric), b.values(metric));
    let seed = a.run.manifest.seed;
    let mut row = ComparisonRow {
        target_a: a.cell.target.clone(),
        target_b: b.cell.target.clone(),
        scenario: a.cell.scenario.title.clone(),
        operation_a: a.cell.operation.title.clone(),
        operation_b: b.cell.operation.title.clone(),
        target_rps: a.place.target_rps(),
        goal: a.place.goal(),
        open_a: a.open(),
        open_b: b.open(),
        metric,
        a: estimate(&values_a, seed)?,
        b: estimate(&values_b, seed)?,
        ratio_b_over_a: ratio(&values_a, &values_b),
        ratio_ci: ratio_interval(&values_a, &values_b, seed),
        test: mann_whitney(&values_a, &values_b),
        verdict: Verdict::Unclear,
        sentence: String::new(),
    };
    row.verdict = verdict(&row, floor.of(metric));
    row.sentence = sentence(&row, &a.place.text(), floor.of(metric));
    Some(row)
}

/// A claim needs starts, a test, an interval, an effect that shows in single values, and a size above the noise.
fn verdict(row: &ComparisonRow, floor_percent: f64) -> Verdict {
    if row.a.n.min(row.b.n) < STARTS_FOR_A_CLAIM {
        return Verdict::TooFew;
    }
    let (Some(ratio), Some((low, high)), Some(test)) = (row.ratio_b_over_a, row.ratio_ci, row.test)
    else {
        return Verdict::Unclear;
    };
    let margin = SAME_PERCENT / 100.0;
    let found = if differs(&test, (low, high)) && change_percent(ratio) >= floor_percent {
        if (ratio > 1.0) == row.metric.more_is_better() {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    } else if low >= 1.0 - margin && high <= 1.0 + margin {
        Verdict::Same
    } else {
        Verdict::Unclear
    };
    // What is at least so much may be more: that leaves a claim only where more would not change it.
    let in_doubt = match found {
        Verdict::Better => row.open_a > 0,
        Verdict::Worse => row.open_b > 0,
        _ => row.open_a + row.open_b > 0,
    };
    if in_doubt { Verdict::Unclear } else { found }
}

/// What rows cannot tell because a search ended below the limit that it looked for.
fn open(rows: &[ComparisonRow]) -> Vec<String> {
    let told = |row: &&ComparisonRow| row.open_a + row.open_b > 0;
    rows.iter()
        .filter(told)
        .map(|row| {
            format!(
                "{}: no load was too high in {} of {} starts of A and {} of {} of B, which may hold more",
                row.scenario, row.open_a, row.a.n, row.open_b, row.b.n
            )
        })
        .collect()
}

fn differs(test: &RankTest, (low, high): (f64, f64)) -> bool {
    test.p < P_MAX && size_of(test.cliffs_delta) >= Size::Medium && (low > 1.0 || high < 1.0)
}

/// Size of a ratio as a change, the same for a ratio and its inverse: 0.5 and 2 are both 100 %.
fn change_percent(ratio: f64) -> f64 {
    (ratio.max(1.0 / ratio) - 1.0) * 100.0
}

fn words(metric: Metric) -> &'static str {
    match metric {
        Metric::GoodputRps => "goodput",
        Metric::P50Us => "median response time",
        Metric::P99Us => "P99 response time",
        Metric::ServerCpuUsPerOp => "CPU per request",
        Metric::HeldRps => "load held",
    }
}

fn sentence(row: &ComparisonRow, place: &str, floor_percent: f64) -> String {
    let names = if row.target_a == row.target_b {
        ("B".to_owned(), "A".to_owned())
    } else {
        (row.target_b.clone(), row.target_a.clone())
    };
    let (b, a) = names;
    let at = format!("{} {place}", row.scenario);
    let of = words(row.metric);
    let (Some(ratio), Some(test)) = (row.ratio_b_over_a, row.test) else {
        return format!("{at}: the {of} of {a} is 0, so there is no ratio.");
    };
    let times = format!("the {of} of {b} is {ratio:.3} times that of {a}");
    let Some((low, high)) = row.ratio_ci.filter(|_| row.verdict != Verdict::TooFew) else {
        return format!(
            "{at}: {times}, from n={} against n={}: too few starts for a claim, which needs {STARTS_FOR_A_CLAIM} on each side.",
            row.b.n, row.a.n
        );
    };
    let evidence = format!(
        "[{low:.3}, {high:.3}], p = {:.3}, A12 = {:.2} ({})",
        test.p,
        test.a12,
        size_of(test.cliffs_delta).word()
    );
    match row.verdict {
        Verdict::Better => format!("{at}: better: {times} {evidence}."),
        Verdict::Worse => format!("{at}: worse: {times} {evidence}."),
        Verdict::Same => format!("{at}: the same within {SAME_PERCENT} %: {times} {evidence}."),
        _ if differs(&test, (low, high)) => format!(
            "{at}: {times} {evidence}: more than chance, and less than the {floor_percent:.1} % that may be claimed here."
        ),
        _ => format!("{at}: no difference shown, and no equivalence either: {times} {evidence}."),
    }
}
