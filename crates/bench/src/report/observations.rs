//! Observations about one ladder, each from a rule over its rows.

use crate::record::{Cell, Step};

use super::findings::CellFindings;
use super::format::{capitalized, latency, or_dash, percent, rate, significant};
use super::rows::failure_kinds;

/// From this share of the peak goodput on, a target past its limit degrades gracefully.
const GRACEFUL: f64 = 0.9;
/// Below this share it collapses.
const COLLAPSE: f64 = 0.5;

/// The observations about a ladder, in the order of its story, then the remarks made during the run.
pub(crate) fn observations(cell: &Cell, found: &CellFindings) -> Vec<String> {
    let steps = cell.by_load();
    let mut out = Vec::new();
    out.extend(found.sustained_rps.map(|sustained| {
        let safe = or_dash(found.safe_rps, rate);
        format!("Stable limit: {}/s, safe up to {safe}/s.", rate(sustained))
    }));
    out.extend(early_warning(found));
    out.extend(
        found
            .peak_goodput_rps
            .map(|peak| format!("Peak performance: {} good answers per second.", rate(peak))),
    );
    out.extend(past_the_limit(&steps, found));
    out.extend(found.doubtful_rps.map(|rps| {
        format!(
            "The row at {}/s is invalid and was not held; it proves nothing against the target.",
            rate(rps)
        )
    }));
    if !found.anomalies_rps.is_empty() {
        let loads: Vec<String> = found
            .anomalies_rps
            .iter()
            .map(|rps| format!("{}/s", rate(*rps)))
            .collect();
        let loads = loads.join(", ");
        out.push(format!(
            "Anomaly: {loads} not held although a higher load was; unexplained."
        ));
    }
    out.extend(steps.first().and_then(|step| allow_against_deny(step)));
    out.extend(cell.notes.iter().map(|note| capitalized(note)));
    for step in steps {
        let at = rate(step.target_rps);
        out.extend(step.notes.iter().map(|note| format!("At {at}/s: {note}")));
    }
    out
}

/// How much load lies between the first row that is not ok and the limit.
fn early_warning(found: &CellFindings) -> Option<String> {
    let (sustained, warning) = (found.sustained_rps?, found.first_warning_rps?);
    (warning < sustained).then(|| {
        let margin = percent((sustained / warning - 1.0) * 100.0);
        format!(
            "Early warning: not ok from {}/s on, {margin} % of load before the limit.",
            rate(warning)
        )
    })
}

fn past_the_limit(steps: &[&Step], found: &CellFindings) -> Vec<String> {
    let mut out = Vec::new();
    let breaking = steps
        .iter()
        .find(|step| Some(step.target_rps) == found.breaking_rps);
    out.extend(breaking.map(|step| {
        let (at, failed) = (rate(step.target_rps), percent(step.fail_percent()));
        format!(
            "Breaking point: {at}/s with {failed} % failed ({}).",
            failure_kinds(step)
        )
    }));
    out.extend(
        found
            .cliff_margin
            .filter(|margin| *margin > 0.0)
            .map(|margin| {
                format!(
                    "Collapse: {} % above the stable limit.",
                    percent(margin * 100.0)
                )
            }),
    );
    out.extend(found.retention.map(|(over, kept)| {
        let word = match kept {
            kept if kept >= GRACEFUL => "graceful",
            kept if kept >= COLLAPSE => "degrading",
            _ => "collapse",
        };
        let (over, kept) = (significant(over), percent(kept * 100.0));
        format!("Past the limit: at {over} times the stable limit {kept} % of the peak goodput remain ({word}).")
    }));
    out
}

fn allow_against_deny(step: &Step) -> Option<String> {
    let allow = latency(step.response.allow.as_ref()?.p50_us);
    let deny = latency(step.response.deny.as_ref()?.p50_us);
    Some(format!(
        "At the lowest load the median of an allowed answer is {allow}, of a denied one {deny}."
    ))
}
