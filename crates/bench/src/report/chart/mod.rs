//! Charts of a record as SVG. Every series differs by colour, dash and mark, so that none rests on colour
//! alone; every mark of a system's own figure carries its numbers as a tooltip.

mod by_load;
mod course;
mod dots;
mod heat;
mod legend;
mod level;
mod mitigations;
mod over_time;
mod overload;
mod percentiles;
mod plot;
mod scale;
mod search;
mod shape;

use crate::record::{Cell, Step};

pub(super) use self::legend::LegendEntry;
use super::findings::ScenarioFindings;

pub(super) use by_load::{
    CPU, Compared, DENIED, MEAN, MEMORY, figure_of_all, latency_of, p99_of_all, throughput,
    throughput_of_all,
};
pub(super) use course::course;
pub(super) use dots::ratios;
pub(super) use heat::heat_map;
pub(super) use level::level;
pub(super) use mitigations::{cpu as mitigation_cpu, goodput as mitigation_goodput};
pub(super) use over_time::{
    cpu_by_second, generator_lag, in_flight, p99_by_second, pressure_by_second, rates_by_second,
};
pub(super) use overload::{failures, hysteresis, recovery};
pub(super) use percentiles::{percentiles, verdicts};
pub(super) use search::{concurrency, trials};
pub(super) use shape::escape;

/// A drawing and the legend that goes below it.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) svg: String,
    pub(super) legend: Vec<LegendEntry>,
}

fn all_steps<'a>(scenario: &ScenarioFindings<'a>) -> Vec<&'a Step> {
    scenario
        .ranked
        .iter()
        .flat_map(|ranked| ranked.cell.by_load())
        .collect()
}

fn ends(values: &[f64]) -> (f64, f64) {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite
        .fold(None, |ends: Option<(f64, f64)>, v| {
            Some(ends.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
        })
        .unwrap_or((0.0, 1.0))
}

fn finite_max(a: f64, b: f64) -> f64 {
    if b.is_finite() { a.max(b) } else { a }
}

fn cell_name(cell: &Cell) -> String {
    format!("{} · {}", cell.target, cell.operation.title)
}
