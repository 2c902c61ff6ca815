//! The trials of a capacity search, and throughput over concurrency with its fit.

use crate::record::capacity::Trial;
use crate::record::{CapacityRecord, Grade};

use super::super::format::{capitalized, percent, rate, significant};
use super::super::lang::{Lang, page as t};
use super::super::usl::{Fit, Point};
use super::super::words;
use super::legend::{line_entry, mark_entry};
use super::plot::Plot;
use super::scale::{Scale, rate_tick};
use super::{Chart, ends, finite_max};

/// Points of a drawn curve.
const CURVE_POINTS: u32 = 60;

/// Load of every one of `shown` trials in order, with its outcome; `None` without trials.
pub(in crate::report) fn trials(
    found: &CapacityRecord,
    shown: &[&Trial],
    title: &str,
    lang: Lang,
) -> Option<Chart> {
    let top = shown
        .iter()
        .map(|trial| trial.load_rps)
        .fold(0.0, finite_max);
    if shown.is_empty() {
        return None;
    }
    let mut plot = Plot::new(
        Scale::between(0.0, shown.len() as f64 + 1.0),
        Scale::linear(top),
    );
    if let Some(goal) = found.goals.first() {
        plot.band("zone-safe", 0.0, goal.lower_rps.unwrap_or(0.0), "");
        if let Some(upper) = goal.upper_rps {
            plot.band("zone-red", upper, f64::MAX, "");
        }
    }
    plot.axes(
        [t::X_TRIAL.of(lang), t::Y_RPS.of(lang)],
        None,
        rate_tick,
        rate_tick,
    );
    let line: Vec<(f64, f64)> = shown
        .iter()
        .enumerate()
        .map(|(at, trial)| (at as f64 + 1.0, trial.load_rps))
        .collect();
    plot.line("thin", &line);
    for (at, trial) in shown.iter().enumerate() {
        let kept = trial.kept.first().copied().unwrap_or(false);
        let (class, shape) = match (trial.validity.grade, kept) {
            (Grade::Invalid, _) => ("s7 faint", 3),
            (_, true) => ("s2", 0),
            (_, false) => ("s6", 4),
        };
        let rule = if trial.rule.is_empty() {
            String::new()
        } else {
            format!(" · {}", capitalized(&trial.rule))
        };
        let tip = t::TRIAL_TIP.with(
            lang,
            &[
                ("n", &(at + 1).to_string()),
                ("load", &rate(trial.load_rps)),
                ("seconds", &significant(trial.duration_s)),
                ("purpose", words::purpose(&trial.purpose, lang)),
                ("goodput", &rate(trial.goodput_rps)),
                ("failed", &percent(trial.fail_percent)),
                ("rule", &rule),
            ],
        );
        plot.mark(class, shape, at as f64 + 1.0, trial.load_rps, &tip);
    }
    Some(Chart {
        svg: plot.finish(&format!("{}: {title}", t::C_TRIALS.of(lang))),
        legend: vec![
            mark_entry("s2", 0, t::L_PASS.of(lang)),
            mark_entry("s6", 4, t::L_FAIL.of(lang)),
            mark_entry("s7 faint", 3, t::L_DOUBT.of(lang)),
        ],
    })
}

/// Throughput against concurrency with the curve of the fit.
pub(in crate::report) fn concurrency(
    points: &[Point],
    fit: &Fit,
    title: &str,
    lang: Lang,
) -> Chart {
    let loads: Vec<f64> = points.iter().map(|point| point.concurrency).collect();
    let (low, high) = ends(&loads);
    let curve: Vec<(f64, f64)> = (0..=CURVE_POINTS)
        .map(|at| {
            let n = low + (high - low) * f64::from(at) / f64::from(CURVE_POINTS);
            (n, fit.throughput_rps(n))
        })
        .collect();
    let top = points
        .iter()
        .map(|point| point.throughput_rps)
        .chain(curve.iter().map(|(_, y)| *y))
        .fold(1.0, finite_max);
    let mut plot = Plot::new(Scale::around((low, high)), Scale::linear(top));
    plot.axes(
        [t::X_CONCURRENCY.of(lang), t::Y_RPS.of(lang)],
        None,
        rate_tick,
        rate_tick,
    );
    plot.line("s1", &curve);
    for point in points {
        let tip = format!(
            "{} → {}/s",
            rate(point.concurrency),
            rate(point.throughput_rps)
        );
        plot.mark("s0", 0, point.concurrency, point.throughput_rps, &tip);
    }
    Chart {
        svg: plot.finish(&format!("{}: {title}", t::C_USL.of(lang))),
        legend: vec![
            mark_entry("s0", 0, t::L_MEASURED.of(lang)),
            line_entry("s1", None, t::L_FIT.of(lang)),
        ],
    }
}
