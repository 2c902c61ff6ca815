//! Dots with confidence intervals: ratios of two arms, one row each.

use crate::record::ComparisonRow;

use super::super::format::{rate, ratio, significant};
use super::super::lang::{Lang, page as t};
use super::super::words;
use super::Chart;
use super::plot::Plot;
use super::scale::Scale;

/// Rows that one drawing holds.
const ROWS_MAX: usize = 14;

/// Ratios B over A of up to [`ROWS_MAX`] rows of `cell` with their intervals; `None` if no row has a ratio. On a log scale,
/// so that half and double lie equally far from alike.
pub(in crate::report) fn ratios(rows: &[&ComparisonRow], cell: &str, lang: Lang) -> Option<Chart> {
    let known: Vec<(&ComparisonRow, f64)> = rows
        .iter()
        .filter_map(|row| {
            Some((
                *row,
                row.ratio_b_over_a.filter(|r| r.is_finite() && *r > 0.0)?,
            ))
        })
        .take(ROWS_MAX)
        .collect();
    if known.is_empty() {
        return None;
    }
    let values = known.iter().flat_map(|(row, ratio)| {
        let (low, high) = row.ratio_ci.unwrap_or((*ratio, *ratio));
        [low, *ratio, high, 1.0]
    });
    let positive = values.filter(|value| *value > 0.0);
    let count = known.len() as f64;
    let mut plot = Plot::new(Scale::log(positive), Scale::between(0.0, count));
    plot.axes_of_x(t::X_RATIO.of(lang), significant);
    plot.divide(1.0, "");
    for (at, (row, value)) in known.iter().enumerate() {
        let y = count - 0.7 - at as f64;
        let better = (*value > 1.0) == row.metric.more_is_better();
        let (class, shape) = if better { ("s2", 0) } else { ("s6", 1) };
        if let Some((low, high)) = row.ratio_ci {
            plot.interval(class, y, low, high);
        }
        plot.mark(class, shape, *value, y, &words::difference(row, lang));
        let place = match row.target_rps {
            Some(rps) => format!("{}/s", rate(rps)),
            None => words::load(None, row.goal.as_deref()),
        };
        let name = format!("{} @ {place}: {}", row.metric.name(), ratio(*value));
        // Beyond its interval, which would run through it.
        plot.name(row.ratio_ci.map_or(*value, |(_, high)| high), y, &name);
    }
    Some(Chart {
        svg: plot.finish(&format!("{}: {cell}", t::CARD_COMPARE.of(lang))),
        legend: Vec::new(),
    })
}
