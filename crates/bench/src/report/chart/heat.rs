//! The heat map: time against response time, as dark as the share of the answers.

use crate::record::{Cell, Step};

use super::super::format::{count, latency, or_dash, rate, short, significant};
use super::super::lang::{Lang, page as t};
use super::Chart;
use super::legend::shade_entry;
use super::over_time::{At, NAMED_STEPS_MAX, lay_out};
use super::plot::Plot;
use super::scale::{Scale, latency_tick};

/// Rows of tiles per decade of latency.
const ROWS_PER_DECADE: f64 = 6.0;
/// Most columns of a heat map, apart from one per step; more seconds than this are put together.
const COLUMNS_MAX: usize = 60;
/// Smallest share of the answers that gets a tile.
const TILE_SHARE_MIN: f64 = 0.001;

/// A column of the heat map: its place, and (latency in µs, answers) pairs.
struct Column {
    from: f64,
    to: f64,
    load_rps: f64,
    values: Vec<(f64, u64)>,
}

/// Time against response time; `None` without histograms. Columns are seconds where they were kept, else steps.
pub(in crate::report) fn heat_map(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (seconds, starts) = lay_out(cell);
    let group = seconds.len().div_ceil(COLUMNS_MAX).max(1);
    let fine: Vec<Column> = seconds
        .chunk_by(|a, b| std::ptr::eq(a.step, b.step))
        .flat_map(|step| step.chunks(group))
        .filter_map(column)
        .collect();
    let (columns, marks) = if fine.is_empty() {
        by_step(cell)
    } else {
        (fine, starts)
    };
    let end = columns.last()?.to;
    let all = || {
        columns
            .iter()
            .flat_map(|column| column.values.iter().map(|(us, _)| *us))
    };
    let (low, high) = all().fold((f64::MAX, 0.0_f64), |(low, high), us| {
        (low.min(us), high.max(us))
    });
    if high <= 0.0 {
        return None;
    }
    // Every tile has its whole height in the frame.
    let ends = [tile(low).0, tile(high).1];
    let mut plot = Plot::new(Scale::between(0.0, end), Scale::log(ends.into_iter()));
    for column in &columns {
        tiles(&mut plot, column, lang);
    }
    plot.lay_tiles(tile(low));
    plot.axes(
        [t::X_TIME.of(lang), t::Y_RESPONSE.of(lang)],
        None,
        short,
        latency_tick,
    );
    let named = marks.len() <= NAMED_STEPS_MAX;
    for (at, load) in marks {
        plot.divide(at, &if named { short(load) } else { String::new() });
    }
    let share = t::L_SHARE.with(lang, &[("low", "0"), ("high", "100 %")]);
    Some(Chart {
        svg: plot.finish(&format!("{}: {}", t::C_HEAT.of(lang), cell.title())),
        legend: vec![shade_entry(&share)],
    })
}

/// Neighbouring seconds of a step as one column; `None` if none of them kept its histogram.
fn column(seconds: &[At<'_>]) -> Option<Column> {
    let mut together: Option<hdrhistogram::Histogram<u64>> = None;
    for histogram in seconds.iter().filter_map(|at| at.second.histogram()) {
        match &mut together {
            // All have the same layout, so that adding cannot fail.
            Some(sum) => drop(sum.add(&histogram)),
            None => together = Some(histogram),
        }
    }
    Some(Column {
        from: seconds.first()?.from_s,
        to: seconds.last()?.to_s,
        load_rps: seconds.first()?.step.target_rps,
        values: recorded(&together?),
    })
}

/// One column per step, as wide as the step is long.
fn by_step(cell: &Cell) -> (Vec<Column>, Vec<(f64, f64)>) {
    let mut steps: Vec<&Step> = cell.steps.iter().collect();
    steps.sort_by(|a, b| a.offset_s.total_cmp(&b.offset_s));
    let (mut columns, mut marks, mut now) = (Vec::new(), Vec::new(), 0.0);
    for step in steps {
        let length = step.duration_s;
        let Some(histogram) = step.response.merged() else {
            continue;
        };
        if !(length.is_finite() && length > 0.0) {
            continue;
        }
        marks.push((now, step.target_rps));
        columns.push(Column {
            from: now,
            to: now + length,
            load_rps: step.target_rps,
            values: recorded(&histogram),
        });
        now += length;
    }
    (columns, marks)
}

fn recorded(histogram: &hdrhistogram::Histogram<u64>) -> Vec<(f64, u64)> {
    histogram
        .iter_recorded()
        .map(|value| {
            (
                value.value_iterated_to() as f64 / 1e3,
                value.count_at_value(),
            )
        })
        .filter(|(us, _)| *us > 0.0)
        .collect()
}

/// Number of the row of tiles that a latency lies in.
fn tile_row(us: f64) -> f64 {
    (us.log10() * ROWS_PER_DECADE).floor()
}

/// The latencies in µs between which its tile stands.
fn tile(us: f64) -> (f64, f64) {
    let end = |row: f64| 10_f64.powf(row / ROWS_PER_DECADE);
    (end(tile_row(us)), end(tile_row(us) + 1.0))
}

fn tiles(plot: &mut Plot, column: &Column, lang: Lang) {
    let total: u64 = column.values.iter().map(|(_, count)| count).sum();
    let tiles = column
        .values
        .chunk_by(|a, b| tile_row(a.0) == tile_row(b.0))
        .filter_map(|part| {
            let answers: u64 = part.iter().map(|(_, count)| count).sum();
            let share = answers as f64 / total.max(1) as f64;
            // The root lets small shares be seen beside large ones.
            let shade = 0.06 + 0.94 * share.sqrt();
            (share >= TILE_SHARE_MIN).then_some((tile(part[0].0), shade))
        });
    let at = |quantile| or_dash(quantile_of(&column.values, quantile), latency);
    let tip = t::COLUMN_TIP.with(
        lang,
        &[
            ("load", &rate(column.load_rps)),
            ("from", &significant(column.from)),
            ("to", &significant(column.to)),
            ("answers", &count(total)),
            ("p50", &at(0.5)),
            ("p99", &at(0.99)),
            ("max", &at(1.0)),
        ],
    );
    plot.tiles((column.from, column.to), tiles, &tip);
}

/// The value at or below which a share of the answers lies; `values` rise.
fn quantile_of(values: &[(f64, u64)], quantile: f64) -> Option<f64> {
    let total: u64 = values.iter().map(|(_, count)| count).sum();
    let wanted = (quantile * total as f64).ceil() as u64;
    let mut below = 0;
    values
        .iter()
        .find(|(_, count)| {
            below += count;
            below >= wanted
        })
        .map(|(us, _)| *us)
}
