//! One figure over stored runs, in its own unit: its levels, where they changed, and its trend where one is shown.

use crate::record::{Metric, PointBasis, TrendRow, Verdict};
use crate::statistics::median;
use crate::stored::trend_verdict;

use super::super::format::or_dash;
use super::super::lang::{Lang, stored as t};
use super::super::words;
use super::legend::{LegendEntry, line_entry, mark_entry, whisker_entry};
use super::plot::Plot;
use super::scale::{Scale, latency_tick, rate_tick};
use super::{Chart, ends};

/// Share of the middle value that the axis shows at least to both sides: noise of a few percent shall look like it.
const REACH: f64 = 0.1;

/// The figure of `row` in every run that has it; `None` below two.
pub(in crate::report) fn level(row: &TrendRow, lang: Lang) -> Option<Chart> {
    let values: Vec<f64> = row.points.iter().map(|(_, value)| *value).collect();
    let count = values.len();
    if count < 2 {
        return None;
    }
    let end = count as f64 + 0.4;
    let mut plot = Plot::new(Scale::between(0.6, end), height(row, &values)?);
    let ticks = (1..=count).step_by(count.div_ceil(10));
    plot.axes(
        [t::S_RUN.of(lang), &words::with_unit(row.metric)],
        Some(ticks.map(|run| run as f64).collect()),
        |run| format!("{run:.0}"),
        |value| tick(row.metric, value),
    );
    let mut legend = levels(&mut plot, row, &values, lang);
    legend.extend(slope(&mut plot, row, &values, lang));
    let intervals = row.rests_on.iter().zip(1_u32..).filter_map(|(on, run)| {
        let (low, high) = on.interval?;
        Some((f64::from(run), low, high))
    });
    let intervals: Vec<(f64, f64, f64)> = intervals.collect();
    plot.whiskers("s0", intervals.iter().copied());
    for (at, value) in values.iter().enumerate() {
        let tip = told(row, at, lang);
        plot.mark("s0", 0, at as f64 + 1.0, *value, &tip);
    }
    legend.insert(0, mark_entry("s0", 0, t::S_OF_RUN.of(lang)));
    if !intervals.is_empty() {
        legend.insert(1, whisker_entry(t::S_INTERVAL.of(lang)));
    }
    Some(Chart {
        svg: plot.finish(&words::trend_title(row, lang)),
        legend,
    })
}

fn height(row: &TrendRow, values: &[f64]) -> Option<Scale> {
    let middle = median(values)?;
    let intervals = row.rests_on.iter().filter_map(|on| on.interval);
    let reach = [middle * (1.0 - REACH), middle * (1.0 + REACH)];
    let shown: Vec<f64> = intervals
        .flat_map(|(low, high)| [low, high])
        .chain(reach)
        .chain(values.iter().copied())
        .collect();
    let (low, high) = ends(&shown);
    let room = (high - low) * 0.06;
    Some(Scale::between((low - room).max(0.0), high + room))
}

fn tick(metric: Metric, value: f64) -> String {
    match metric {
        Metric::P50Us | Metric::P99Us => latency_tick(value),
        _ => rate_tick(value),
    }
}

/// A stretch for each level, and a divider between two.
fn levels(plot: &mut Plot, row: &TrendRow, values: &[f64], lang: Lang) -> Vec<LegendEntry> {
    let bounds = row.changes.iter().map(|change| change.at);
    let bounds: Vec<usize> = std::iter::once(0)
        .chain(bounds)
        .chain([values.len()])
        .collect();
    for stretch in bounds.windows(2) {
        let Some(middle) = values.get(stretch[0]..stretch[1]).and_then(median) else {
            continue;
        };
        let (from, to) = (stretch[0] as f64 + 0.6, stretch[1] as f64 + 0.4);
        plot.line("s7", &[(from, middle), (to, middle)]);
    }
    for change in &row.changes {
        let text = or_dash(change.percent(), |percent| format!("{percent:+.1} %"));
        plot.divide(change.at as f64 + 0.5, &text);
    }
    let name = match row.changes.is_empty() {
        true => t::S_MIDDLE,
        false => t::S_LEVELS,
    };
    vec![line_entry("s7", None, name.of(lang))]
}

/// The line of Theil and Sen, where the runs show a trend.
fn slope(plot: &mut Plot, row: &TrendRow, values: &[f64], lang: Lang) -> Option<LegendEntry> {
    let shown = matches!(trend_verdict(row), Verdict::Better | Verdict::Worse);
    let percent = row.slope_percent_per_run.filter(|_| shown)?;
    let per_run = percent / 100.0 * median(values)?;
    let left: Vec<f64> = (0_u32..)
        .zip(values)
        .map(|(run, value)| value - per_run * f64::from(run))
        .collect();
    let begin = median(&left)?;
    let last = values.len() as f64;
    let end = begin + per_run * (last - 1.0);
    plot.line("s1", &[(1.0, begin), (last, end)]);
    let interval = or_dash(row.slope_ci, |(low, high)| {
        format!("[{low:+.2}, {high:+.2}]")
    });
    let parts = [("slope", format!("{percent:+.2}")), ("interval", interval)];
    let parts = parts.each_ref().map(|(name, text)| (*name, text.as_str()));
    Some(line_entry("s1", None, &t::S_SLOPE.with(lang, &parts)))
}

/// `run 3 (2026-01-05T10:00:00Z): 1.20 ms [1.10, 1.30], n = 5`.
fn told(row: &TrendRow, at: usize, lang: Lang) -> String {
    let run = format!("{} {}", t::S_RUN.of(lang), at + 1);
    let value = words::figure(row.metric, row.points[at].1);
    let Some(PointBasis {
        started_at,
        starts,
        interval,
    }) = row.rests_on.get(at)
    else {
        return format!("{run}: {value}");
    };
    let interval = interval.map_or_else(String::new, |(low, high)| {
        format!(
            " [{}, {}]",
            words::figure(row.metric, low),
            words::figure(row.metric, high)
        )
    });
    format!("{run} ({started_at}): {value}{interval}, n = {starts}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::TrendChange;

    fn row(values: &[f64]) -> TrendRow {
        TrendRow {
            metric: Metric::P99Us,
            points: values.iter().map(|value| (0.0, *value)).collect(),
            ..super::super::course::tests::empty()
        }
    }

    #[test]
    fn levels_changes_and_intervals_are_drawn() {
        let mut moved = row(&[100.0, 110.0, 105.0, 300.0, 310.0]);
        moved.changes = vec![TrendChange {
            at: 3,
            started_at: "2026-01-04".into(),
            before: 105.0,
            after: 305.0,
            p: 0.01,
        }];
        moved.rests_on = vec![
            PointBasis {
                started_at: "2026-01-01".into(),
                starts: 5,
                interval: Some((90.0, 120.0)),
            };
            5
        ];
        let drawn = level(&moved, Lang::En).unwrap();
        assert_eq!(drawn.svg.matches("class=\"line s7\"").count(), 2);
        assert!(drawn.svg.contains("+190.5 %"), "{}", drawn.svg);
        assert!(drawn.svg.contains("class=\"whisker s0\""));
        let tip = "run 4 (2026-01-01): 300 µs [90.0 µs, 120 µs], n = 5";
        assert!(drawn.svg.contains(tip), "{}", drawn.svg);
        assert_eq!(drawn.legend.len(), 3);
    }

    #[test]
    fn a_trend_is_drawn_where_it_is_shown_only() {
        let mut falling = row(&[100.0, 99.0, 98.0, 97.0, 96.0]);
        falling.slope_percent_per_run = Some(-1.0);
        falling.p = Some(0.5);
        let drawn = level(&falling, Lang::Vi).unwrap();
        assert!(!drawn.svg.contains("line s1"), "{}", drawn.svg);
        falling.p = Some(0.01);
        let drawn = level(&falling, Lang::Vi).unwrap();
        assert!(drawn.svg.contains("line s1"), "{}", drawn.svg);
        assert!(level(&row(&[1.0]), Lang::En).is_none());
        assert!(level(&row(&[0.0, 0.0]), Lang::En).is_some());
    }
}
