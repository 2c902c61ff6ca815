//! Bencher Metric Format: figures by name for `bencher run --adapter json`, which keeps them over time.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::{Cell, Estimate, Grade, RunRecord, Step};

/// A figure, with the ends of its interval where there is one.
#[derive(Serialize)]
pub(crate) struct Figure {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// Figures by the name of their measure, by the name of their row.
pub(crate) type Figures = BTreeMap<String, BTreeMap<&'static str, Figure>>;

/// Nanoseconds in a microsecond: Bencher's own measure of latency is in nanoseconds.
const NS_PER_US: f64 = 1e3;

/// Every row and every load that a search found. What the validity rules rejected is left out: a figure has no mark there.
pub(crate) fn figures(record: &RunRecord) -> Figures {
    let mut all = Figures::new();
    for cell in &record.cells {
        let name = format!(
            "{} / {} / {}",
            cell.target, cell.operation.title, cell.scenario.title
        );
        let believed = |step: &&Step| step.validity.grade != Grade::Invalid;
        for step in cell.steps.iter().filter(believed) {
            let row = of_step(cell, step);
            if !row.is_empty() {
                all.insert(format!("{name} at {:.0}/s", step.target_rps), row);
            }
        }
        let held = cell.capacity.iter().filter(|found| found.refused.is_none());
        for goal in held.flat_map(|found| &found.goals) {
            if let Some(value) = goal.lower_rps {
                let over = goal.over_starts.as_ref();
                let held = figure(value, over, 1.0);
                let row = BTreeMap::from([("held", held)]);
                all.insert(format!("{name} under the goal {}", goal.goal.name), row);
            }
        }
    }
    all
}

fn of_step(cell: &Cell, step: &Step) -> BTreeMap<&'static str, Figure> {
    let found = cell.statistics.as_ref();
    let rates =
        found.and_then(|found| found.rates.iter().find(|r| r.target_rps == step.target_rps));
    let all = step.response.all.as_ref();
    let cpu = step.server.and_then(|server| server.cpu_us_per_op);
    let of = |value: Option<f64>, over: Option<&Estimate>, unit| Some(figure(value?, over, unit));
    let measures = [
        (
            "throughput",
            of(
                Some(step.goodput_rps),
                rates.and_then(|r| r.goodput_rps.as_ref()),
                1.0,
            ),
        ),
        (
            "latency",
            of(
                all.map(|all| all.p50_us),
                rates.and_then(|r| r.p50_us.as_ref()),
                NS_PER_US,
            ),
        ),
        (
            "latency-p99",
            of(
                all.map(|all| all.p99_us),
                rates.and_then(|r| r.p99_us.as_ref()),
                NS_PER_US,
            ),
        ),
        (
            "server-cpu",
            of(
                cpu,
                rates.and_then(|r| r.server_cpu_us_per_op.as_ref()),
                NS_PER_US,
            ),
        ),
    ];
    let there = measures.into_iter();
    there
        .filter_map(|(name, found)| Some((name, found?)))
        .collect()
}

fn figure(value: f64, over: Option<&Estimate>, unit: f64) -> Figure {
    Figure {
        value: value * unit,
        lower_value: over.and_then(|over| Some(over.low? * unit)),
        upper_value: over.and_then(|over| Some(over.high? * unit)),
    }
}
