//! What happens past the limit: failed share, the way up against the way down, recovery.

use crate::record::Second;
use crate::record::capacity::{Hysteresis, LoadPoint};

use super::super::findings::ScenarioFindings;
use super::super::format::{percent, rate};
use super::super::lang::{Lang, page as t};
use super::by_load::tip;
use super::legend::line_entry;
use super::over_time::marked_every;
use super::plot::Plot;
use super::scale::{Scale, latency_tick, rate_tick};
use super::{Chart, cell_name, ends, finite_max};

/// Failed share of all cells of a scenario against the offered load; `None` if nothing failed.
pub(in crate::report) fn failures(scenario: &ScenarioFindings<'_>, lang: Lang) -> Option<Chart> {
    let steps = super::all_steps(scenario);
    if steps.iter().all(|step| step.failures.total() == 0) {
        return None;
    }
    let loads: Vec<f64> = steps.iter().map(|step| step.target_rps).collect();
    let (low, high) = ends(&loads);
    let mut plot = Plot::new(Scale::around((low, high)), Scale::linear(100.0));
    plot.axes(
        [t::X_LOAD.of(lang), t::Y_FAILED.of(lang)],
        None,
        rate_tick,
        rate_tick,
    );
    let mut legend = Vec::new();
    for (at, ranked) in scenario.ranked.iter().enumerate() {
        let class = format!("s{}", at % 8);
        let steps = ranked.cell.by_load();
        let points: Vec<(f64, f64)> = steps
            .iter()
            .map(|step| (step.target_rps, step.fail_percent()))
            .collect();
        plot.line(&class, &points);
        for (step, (x, y)) in steps.iter().zip(points) {
            plot.mark(&class, at, x, y, &tip(step, lang));
        }
        legend.push(line_entry(&class, Some(at), &cell_name(ranked.cell)));
    }
    Some(Chart {
        svg: plot.finish(&format!(
            "{}: {}",
            t::C_FAILURES.of(lang),
            scenario.title(lang)
        )),
        legend,
    })
}

/// Goodput on the way up and on the way down.
pub(in crate::report) fn hysteresis(found: &Hysteresis, title: &str, lang: Lang) -> Chart {
    let points = || found.up.iter().chain(&found.down);
    let loads: Vec<f64> = points().map(|point| point.target_rps).collect();
    let (low, high) = ends(&loads);
    let top = points()
        .map(|point| point.goodput_rps)
        .fold(high, finite_max);
    let mut plot = Plot::new(Scale::around((low, high)), Scale::linear(top));
    plot.axes(
        [t::X_LOAD.of(lang), t::Y_GOOD.of(lang)],
        None,
        rate_tick,
        rate_tick,
    );
    plot.line("ideal", &[(low, low), (high, high)]);
    let mut legend = Vec::new();
    for (at, (way, name)) in [(&found.up, t::L_UP), (&found.down, t::L_DOWN)]
        .into_iter()
        .enumerate()
    {
        let class = format!("s{at}");
        let line: Vec<(f64, f64)> = way.iter().map(|p| (p.target_rps, p.goodput_rps)).collect();
        plot.line(&class, &line);
        for point in way {
            plot.mark(
                &class,
                at,
                point.target_rps,
                point.goodput_rps,
                &describe(point, name.of(lang)),
            );
        }
        legend.push(line_entry(&class, Some(at), name.of(lang)));
    }
    legend.push(line_entry("ideal", None, t::L_IDEAL.of(lang)));
    Chart {
        svg: plot.finish(&format!("{}: {title}", t::C_HYSTERESIS.of(lang))),
        legend,
    }
}

fn describe(point: &LoadPoint, way: &str) -> String {
    let kept = percent(point.goodput_rps / point.target_rps * 100.0);
    format!(
        "{way}: {}/s → {}/s ({kept} %)",
        rate(point.target_rps),
        rate(point.goodput_rps)
    )
}

/// A line over time: style, shape, name, points.
type Series<'a> = (&'a str, usize, &'a str, Vec<(f64, f64)>);

/// Room above the lines, for the names of the phases.
const ROOM: f64 = 1.12;
/// The same on a log scale.
const LOG_ROOM: f64 = 2.5;

/// Goodput and P99 second by second over the phases of a recovery run. `marks` are starts of phases with their names.
pub(in crate::report) fn recovery(
    buckets: &[Second],
    marks: &[(f64, String)],
    title: &str,
    lang: Lang,
) -> [Option<Chart>; 2] {
    let end = buckets
        .iter()
        .map(|second| second.at_s + second.length_s)
        .fold(0.0, finite_max);
    let draw = |y: Scale, y_title: &str, text: fn(f64) -> String, series: &[Series<'_>]| {
        let mut plot = Plot::new(Scale::between(0.0, end), y);
        plot.axes([t::X_PHASE_TIME.of(lang), y_title], None, rate_tick, text);
        for (at, name) in marks {
            plot.divide(*at, name);
        }
        let mut legend = Vec::new();
        for (class, shape, name, points) in series {
            plot.line(class, points);
            for (x, y) in points.iter().step_by(marked_every(points.len())) {
                plot.dot(
                    class,
                    *shape,
                    *x,
                    *y,
                    &format!("{name} {} @ {} s", text(*y), rate(*x)),
                );
            }
            legend.push(line_entry(class, Some(*shape), name));
        }
        Chart {
            svg: plot.finish(&format!("{title}: {y_title}")),
            legend,
        }
    };
    if end <= 0.0 {
        return [None, None];
    }
    let rates = |pick: fn(&Second) -> u64| -> Vec<(f64, f64)> {
        let timed = buckets.iter().filter(|second| second.length_s > 0.0);
        timed
            .map(|second| (second.at_s, pick(second) as f64 / second.length_s))
            .collect()
    };
    let series = [
        ("s7", 4, t::L_SENT.of(lang), rates(|second| second.sent)),
        ("s0", 0, t::L_GOOD.of(lang), rates(|second| second.good)),
        ("s6", 2, t::L_FAILED.of(lang), rates(|second| second.failed)),
    ];
    let top = series
        .iter()
        .flat_map(|(.., points)| points.iter().map(|(_, y)| *y))
        .fold(1.0, finite_max);
    let first = draw(
        Scale::linear(top * ROOM),
        t::Y_RPS.of(lang),
        rate_tick,
        &series,
    );
    let p99: Vec<(f64, f64)> = buckets
        .iter()
        .filter_map(|second| Some((second.at_s, second.p99_us?)))
        .collect();
    let second = (!p99.is_empty()).then(|| {
        let most = p99.iter().map(|(_, us)| *us).fold(0.0, finite_max);
        let y = Scale::log(p99.iter().map(|(_, us)| *us).chain([most * LOG_ROOM]));
        draw(y, t::Y_P99.of(lang), latency_tick, &[("s0", 0, "P99", p99)])
    });
    [Some(first), second]
}
