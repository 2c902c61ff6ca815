//! What was found out about capacity, for the terminal.

use super::TextStyle;
use super::format::{count, or_dash, rate};
use super::table::plain;
use crate::record::Cell;
use crate::record::capacity::{CapacityRecord, CapacitySource, GoalResult, Retention, SearchEnd};
use crate::record::recovery::RecoveryVariant;

/// Intervals, zones, retention and hysteresis of a cell in a few lines; empty if nothing is known.
#[must_use]
pub fn capacity_lines(style: TextStyle, cell: &Cell) -> String {
    let Some(found) = &cell.capacity else {
        return String::new();
    };
    let mut lines = Vec::new();
    if found.source == CapacitySource::Search {
        lines.extend(found.goals.iter().map(goal_line));
        lines.push(search_line(found));
    }
    match &found.zones {
        Some(zones) => lines.push(zones.sentence.clone()),
        None => lines.push("no safe load: no load kept the goal".into()),
    }
    if found.non_monotone {
        let loads: Vec<String> = found.inverted_rps.iter().map(|load| rate(*load)).collect();
        lines.push(format!(
            "not monotone: {}/s failed although a higher load passed",
            loads.join("/s, ")
        ));
    }
    lines.extend(found.retention.as_ref().and_then(retention_line));
    if let Some(loop_) = &found.hysteresis {
        lines.push(format!(
            "way down against way up: {:.1} % of the goodput {}",
            loop_.area_percent.abs(),
            if loop_.area_percent >= 0.0 {
                "lost"
            } else {
                "gained"
            }
        ));
    }
    let text: Vec<String> = lines
        .iter()
        .map(|line| format!("  {}", plain(style, line)))
        .collect();
    text.join("\n")
}

/// Verdicts of a recovery run in a few lines; empty if there was none.
#[must_use]
pub fn recovery_lines(style: TextStyle, cell: &Cell) -> String {
    let Some(found) = &cell.recovery else {
        return String::new();
    };
    let line = |variant: &RecoveryVariant| {
        let deadline = match variant.deadline_ms {
            Some(ms) => format!("{ms:.0} ms deadline"),
            None => "no deadline".into(),
        };
        let drain = match variant.backlog_drain_s {
            Some(seconds) => format!("backlog gone after {seconds:.0} s"),
            None => "backlog not gone".into(),
        };
        format!(
            "retries {}, {deadline}: {}: {}; {drain}; {:.2} times the load; {}",
            variant.retries,
            variant.verdict.words(),
            variant.sentence,
            variant.amplification,
            variant.validity.grade.word()
        )
    };
    let knee = format!("knee {}/s ({})", rate(found.knee_rps), found.knee_source);
    let lines = std::iter::once(knee).chain(found.variants.iter().map(line));
    let text: Vec<String> = lines
        .map(|line| format!("  {}", plain(style, &line)))
        .collect();
    text.join("\n")
}

fn goal_line(result: &GoalResult) -> String {
    format!(
        "{}: sustains [{}, {}]/s, expected goodput {}/s: {}",
        result.goal.name,
        or_dash(result.lower_rps, rate),
        or_dash(result.upper_rps, rate),
        or_dash(result.conditional_throughput_rps, rate),
        result.remark
    )
}

fn search_line(found: &CapacityRecord) -> String {
    let spoiled = found
        .trials
        .iter()
        .filter(|trial| !trial.validity.reasons.is_empty())
        .count();
    let how = match found.ended {
        SearchEnd::Done => "ended",
        SearchEnd::BudgetSpent => "ran out of budget",
        SearchEnd::TargetLost => "lost its target",
        SearchEnd::Interrupted => "was interrupted",
    };
    format!(
        "{} trials, {} of them not fully valid; the search {how}: {}",
        count(found.trials.len() as u64),
        count(spoiled as u64),
        found.ended_because
    )
}

fn retention_line(found: &Retention) -> Option<String> {
    let class = found.class?;
    let at = found.at_1_25.map_or_else(String::new, |kept| {
        format!(
            ", {:.0} % of the goodput kept at 1.25 x the knee",
            kept * 100.0
        )
    });
    let cliff = match found.cliff_margin {
        Some(margin) => format!("cliff {:.0} % above the knee", margin * 100.0),
        None => "no cliff seen".into(),
    };
    let warning = match found.early_warning {
        Some(warning) => format!("latency warned {:.0} % before it", warning * 100.0),
        None => "latency did not warn before it".into(),
    };
    Some(format!(
        "past the knee at {}/s: {}{at}; {cliff}; {warning}",
        rate(found.knee_rps),
        class.word()
    ))
}
