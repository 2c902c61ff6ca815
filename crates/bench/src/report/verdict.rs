//! The verdict in sentences. A sentence appears only if the rows support it; what they do not
//! support is said to be open.

use crate::record::{
    Cell, CompareRecord, CompareRow, Grade, RunRecord, STARTS_FOR_A_CLAIM, Spread,
};

use super::findings::{
    Advantage, Ranked, ScenarioFindings, advantage, never_over_admitted, scenarios,
};
use super::format::{or_dash, rate, ratio, significant};

/// The verdict of a run: one sentence per scenario, then accuracy, then what limits belief in it.
pub(crate) fn run(record: &RunRecord) -> Vec<String> {
    let mut out = Vec::new();
    if record.cells.iter().all(|cell| cell.steps.is_empty()) {
        out.push("Nothing was measured, so nothing can be said.".to_owned());
        out.extend(partial(record.complete, record.partial_reason.as_deref()));
        return out;
    }
    if record.validity.grade == Grade::Invalid {
        let text =
            "The run is invalid by its own rules: read the rows as orientation, not as results.";
        out.push(text.to_owned());
    }
    out.extend(
        scenarios(record)
            .iter()
            .map(|scenario| sentence(scenario, &record.profile.name)),
    );
    out.extend(few_starts(record));
    out.extend(match never_over_admitted(record) {
        Some(true) => Some("No cell admitted more than its limit allows.".to_owned()),
        Some(false) => Some(over_admitting(record)),
        None => None,
    });
    out.extend(partial(record.complete, record.partial_reason.as_deref()));
    out
}

/// What rows of few starts cannot carry.
fn few_starts(record: &RunRecord) -> Option<String> {
    let starts = record.starts.as_ref().map_or(1, |starts| starts.done);
    (starts < STARTS_FOR_A_CLAIM).then(|| {
        format!(
            "Every row is from {starts} start{} (n={starts}), so differences between systems are indications and not \
             claims: --starts {STARTS_FOR_A_CLAIM} measures what can be claimed.",
            if starts == 1 { "" } else { "s" }
        )
    })
}

/// `target with operation`.
fn name(cell: &Cell) -> String {
    format!("{} with {}", cell.target, cell.operation.title)
}

fn sentence(scenario: &ScenarioFindings<'_>, profile: &str) -> String {
    let right = || scenario.ranked.iter().filter(|r| !r.findings.over_admits);
    let Some(best) = right().next() else {
        return none_kept_its_limit(scenario);
    };
    let Some(sustained) = best.findings.sustained_rps else {
        return nothing_held(scenario, profile);
    };
    let (not, end) = match (best.findings.not_held_rps, best.findings.doubtful_rps) {
        (Some(above), _) => (format!(" (and not {}/s)", rate(above)), ""),
        (None, Some(_)) => (String::new(), ", with no valid row above to bound it"),
        (None, None) => (String::new(), ", the top of its ladder"),
    };
    let mut out = format!(
        "{}: {} held {}/s{not} within the {profile} thresholds{end}",
        scenario.title,
        name(best.cell),
        rate(sustained)
    );
    let others = || right().skip(1);
    if let Some(other) = others()
        .find(|other| other.cell.target != best.cell.target)
        .or_else(|| others().next())
    {
        out.push_str(&against(best, other));
    }
    out.push_str(&like_for_like(scenario).unwrap_or_default());
    out.push('.');
    out
}

fn none_kept_its_limit(scenario: &ScenarioFindings<'_>) -> String {
    if scenario.ranked.is_empty() {
        return String::new();
    }
    format!(
        "{}: every cell admitted more than its limit allows, so none is ranked.",
        scenario.title
    )
}

fn nothing_held(scenario: &ScenarioFindings<'_>, profile: &str) -> String {
    let findings = || scenario.ranked.iter().map(|ranked| &ranked.findings);
    if findings().all(|found| found.not_held_rps.is_none()) {
        return format!(
            "{}: no valid row shows what any cell holds.",
            scenario.title
        );
    }
    let lowest = findings()
        .filter_map(|found| found.not_held_rps)
        .min_by(f64::total_cmp);
    let lowest = or_dash(lowest, rate);
    format!(
        "{}: no cell held its load, not even {lowest}/s, within the {profile} thresholds.",
        scenario.title
    )
}

/// What the best two targets held when asked exactly the same; `None` if the sentence says that already.
fn like_for_like(scenario: &ScenarioFindings<'_>) -> Option<String> {
    let mut same = scenario
        .ranked
        .iter()
        .filter(|ranked| ranked.cell.operation.like_for_like && !ranked.findings.over_admits);
    let best = same.next()?;
    let other = same.find(|other| {
        other.cell.target != best.cell.target
            && other.cell.operation.name == best.cell.operation.name
    })?;
    if scenario.ranked.first()?.cell.operation.like_for_like {
        return None;
    }
    let held = |ranked: &Ranked<'_>| {
        let held = ranked
            .findings
            .sustained_rps
            .map_or("nothing".to_owned(), |rps| format!("{}/s", rate(rps)));
        format!("{} held {held}", ranked.cell.target)
    };
    Some(format!(
        "; asked the same ({}), {} and {}",
        best.cell.operation.title,
        held(best),
        held(other)
    ))
}

fn against(best: &Ranked<'_>, other: &Ranked<'_>) -> String {
    let Some(held) = other.findings.sustained_rps else {
        let none = if other.findings.doubtful_rps.is_none() {
            "no row"
        } else {
            "no valid row"
        };
        return format!("; {} held {none} of its ladder", name(other.cell));
    };
    let what = format!("{} held ({}/s)", name(other.cell), rate(held));
    let mut out = match advantage(&best.findings, &other.findings) {
        Advantage::Between(low, high) => {
            format!(
                "; that is {} to {} times what {what}",
                significant(low),
                significant(high)
            )
        }
        Advantage::AtLeast(low) => {
            format!("; that is at least {} times what {what}", significant(low))
        }
        Advantage::Open => {
            format!("; {what} and no valid row bounds it, so the ladders cannot rank the two")
        }
        Advantage::NotShown => {
            format!(
                "; against {} ({}/s) the ladders show no difference",
                name(other.cell),
                rate(held)
            )
        }
    };
    out.push_str(&cpu(best, other).unwrap_or_default());
    out
}

/// Server CPU of both at the common load, if both were measured there.
fn cpu(best: &Ranked<'_>, other: &Ranked<'_>) -> Option<String> {
    let at = |ranked: &Ranked<'_>| ranked.common?.server?.cpu_us_per_op;
    let (mine, theirs) = (at(best)?, at(other)?);
    let load = best.common?.target_rps;
    (mine > 0.0 && theirs > 0.0).then(|| {
        format!(
            "; at {}/s they cost {} against {} µs of server CPU per request",
            rate(load),
            significant(mine),
            significant(theirs)
        )
    })
}

fn over_admitting(record: &RunRecord) -> String {
    let over = |cell: &&Cell| {
        let steps = cell.steps.iter().filter_map(|step| step.accuracy.as_ref());
        cell.accuracy
            .iter()
            .chain(steps)
            .any(|accuracy| !accuracy.never_over())
    };
    let names: Vec<String> = record.cells.iter().filter(over).map(Cell::title).collect();
    format!(
        "Admitted more than the limit allows: {}. Their speed does not count.",
        names.join("; ")
    )
}

fn partial(complete: bool, reason: Option<&str>) -> Option<String> {
    (!complete).then(|| {
        format!(
            "The run is partial: {}. What was measured is kept.",
            reason.unwrap_or("it ended early")
        )
    })
}

/// The verdict of a paired comparison: one sentence per row.
pub(crate) fn compare(record: &CompareRecord) -> Vec<String> {
    let mut out: Vec<String> = record
        .rows
        .iter()
        .filter_map(|row| compared(record, row))
        .collect();
    if out.is_empty() {
        out.push("No pair of slices was measured, so nothing can be said.".to_owned());
    }
    out.extend(partial(record.complete, record.partial_reason.as_deref()));
    out
}

fn compared(record: &CompareRecord, row: &CompareRow) -> Option<String> {
    let (what, spread) = row
        .ratios
        .server_cpu_b_over_a
        .map(|spread| ("server CPU per request", spread))
        .or_else(|| Some(("median latency", row.ratios.latency_p50_b_over_a?)))?;
    let (a, b) = (&record.a.name, &record.b.name);
    let text = if !spread.excludes_one() {
        format!(
            "{}: the spread of {what} shows no difference between {a} and {b}",
            row.title
        )
    } else if spread.median >= 1.0 {
        format!(
            "{}: {b} takes {} the {what} of {a}",
            row.title,
            quartiles(spread)
        )
    } else {
        let turned = Spread {
            median: 1.0 / spread.median,
            q25: 1.0 / spread.q75,
            q75: 1.0 / spread.q25,
            ..spread
        };
        format!(
            "{}: {a} takes {} the {what} of {b}",
            row.title,
            quartiles(turned)
        )
    };
    Some(format!("{text} ({} pairs).", spread.n))
}

fn quartiles(spread: Spread) -> String {
    format!(
        "{} [{}–{}]",
        ratio(spread.median),
        significant(spread.q25),
        significant(spread.q75)
    )
}
