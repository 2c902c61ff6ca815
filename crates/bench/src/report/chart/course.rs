//! How the figures of a cell moved over stored runs.

use crate::record::TrendRow;

use super::super::format::{ratio, significant};
use super::super::lang::{Lang, stored as t};
use super::Chart;
use super::legend::line_entry;
use super::plot::Plot;
use super::scale::Scale;

/// Every figure of a cell's highest load over the runs, and what its searches held, as a ratio to the first run; `None` if no figure has two runs.
pub(in crate::report) fn course(rows: &[&TrendRow], cell: &str, lang: Lang) -> Option<Chart> {
    let longest = rows.iter().map(|row| row.points.len()).max()?;
    let full = || rows.iter().filter(move |row| row.points.len() == longest);
    let highest = full()
        .filter_map(|row| row.target_rps)
        .max_by(f64::total_cmp);
    let name = |row: &TrendRow| match &row.goal {
        Some(goal) => format!("{} ({goal})", row.metric.name()),
        None => row.metric.name().to_owned(),
    };
    let lines: Vec<(String, Vec<(f64, f64)>)> = full()
        .filter(|row| row.target_rps.is_none() || row.target_rps == highest)
        .filter_map(|row| Some((name(row), against_first(row)?)))
        .collect();
    if lines.is_empty() {
        return None;
    }
    let values = lines.iter().flat_map(|(_, points)| points);
    let mut plot = Plot::new(
        Scale::between(0.8, longest as f64 + 0.2),
        Scale::log(values.map(|(_, value)| *value).chain([1.0])),
    );
    let every = longest.div_ceil(10);
    let ticks = (1..=longest).step_by(every).map(|run| run as f64).collect();
    plot.axes(
        [t::S_RUN.of(lang), t::S_OF_FIRST.of(lang)],
        Some(ticks),
        |run| format!("{run:.0}"),
        |value| format!("{}\u{d7}", significant(value)),
    );
    plot.line("ideal", &[(0.8, 1.0), (longest as f64 + 0.2, 1.0)]);
    let mut legend = Vec::new();
    for (at, (name, points)) in lines.iter().enumerate() {
        let class = format!("s{at}");
        plot.line(&class, points);
        for (run, value) in points {
            let tip = format!("{} {run:.0}: {} {}", t::S_RUN.of(lang), name, ratio(*value));
            plot.mark(&class, at, *run, *value, &tip);
        }
        legend.push(line_entry(&class, Some(at), name));
    }
    Some(Chart {
        svg: plot.finish(&format!("{}: {cell}", t::S_OF_FIRST.of(lang))),
        legend,
    })
}

/// `(number of the run, value over that of the first)`; `None` where a value is not above 0.
fn against_first(row: &TrendRow) -> Option<Vec<(f64, f64)>> {
    let (_, first) = *row.points.first().filter(|_| row.points.len() > 1)?;
    let positive = row
        .points
        .iter()
        .all(|(_, value)| value.is_finite() && *value > 0.0);
    positive.then(|| {
        (1..)
            .map(f64::from)
            .zip(row.points.iter().map(|(_, value)| value / first))
            .collect()
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::Metric;
    use crate::record::{Noise, TrendColour};

    fn row(metric: Metric, target_rps: f64, values: &[f64]) -> TrendRow {
        TrendRow {
            target_rps: Some(target_rps),
            metric,
            points: values.iter().map(|value| (0.0, *value)).collect(),
            ..empty()
        }
    }

    /// A row that no run has.
    pub(in crate::report::chart) fn empty() -> TrendRow {
        TrendRow {
            target: "redis".into(),
            scenario: "single key".into(),
            operation: "GET".into(),
            target_rps: Some(100.0),
            goal: None,
            metric: Metric::GoodputRps,
            points: Vec::new(),
            rests_on: Vec::new(),
            change_percent: None,
            slope_percent_per_run: None,
            slope_ci: None,
            p: None,
            cv_percent: None,
            noise: Noise::Unknown,
            colour: TrendColour::Neutral,
            sentence: String::new(),
            changes: Vec::new(),
        }
    }

    #[test]
    fn the_highest_load_of_all_runs_is_drawn() {
        let rows = [
            row(Metric::GoodputRps, 100.0, &[100.0, 100.0, 100.0]),
            row(Metric::P99Us, 200.0, &[10.0, 20.0, 40.0]),
            row(Metric::P99Us, 900.0, &[10.0, 20.0]),
        ];
        let rows: Vec<&TrendRow> = rows.iter().collect();
        let chart = course(&rows, "redis", Lang::En).unwrap();
        assert_eq!(chart.legend.len(), 1);
        assert!(chart.svg.contains("run 3: p99 4.00"), "{}", chart.svg);
    }

    #[test]
    fn one_run_has_no_course() {
        let alone = row(Metric::P99Us, 200.0, &[10.0]);
        assert!(course(&[&alone], "redis", Lang::En).is_none());
        let zero = row(Metric::P99Us, 200.0, &[0.0, 1.0]);
        assert!(course(&[&zero], "redis", Lang::En).is_none());
        assert!(course(&[], "redis", Lang::En).is_none());
    }
}
