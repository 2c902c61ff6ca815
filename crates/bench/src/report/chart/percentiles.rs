//! Percentile curves: latency over log 1/(1-p).

use crate::record::{LatencySummary, SplitLatency, Step};

use super::super::format::rate;
use super::super::lang::{Lang, page as t};
use super::legend::line_entry;
use super::plot::Plot;
use super::scale::{Scale, latency_tick};
use super::{Chart, finite_max};

/// Points of a percentile curve.
const CURVE_POINTS: u32 = 96;

/// Percentile curve of one row: response against service time, over log 1/(1-p).
pub(in crate::report) fn percentiles(step: &Step, lang: Lang) -> Chart {
    let series = [
        (t::L_RESPONSE_TIME.of(lang), curve(&step.response)),
        (t::L_SERVICE_TIME.of(lang), curve(&step.service)),
    ];
    percentile_chart(step, &series, lang)
}

/// Percentile curves of the allowed and of the denied answers of one row.
pub(in crate::report) fn verdicts(step: &Step, lang: Lang) -> Chart {
    let only = |part: &Option<LatencySummary>| {
        curve(&SplitLatency {
            all: part.clone(),
            ..SplitLatency::default()
        })
    };
    let series = [
        (t::L_ALLOWED.of(lang), only(&step.response.allow)),
        (t::L_DENIED.of(lang), only(&step.response.deny)),
    ];
    percentile_chart(step, &series, lang)
}

fn percentile_chart(step: &Step, series: &[(&str, Vec<(f64, f64)>); 2], lang: Lang) -> Chart {
    let points = || series.iter().flat_map(|(_, points)| points.iter());
    let far = points().map(|(x, _)| *x).fold(10.0, finite_max);
    let nines = far.log10().ceil().clamp(1.0, 7.0);
    let mut plot = Plot::new(
        Scale::between(0.0, nines),
        Scale::log(points().map(|(_, y)| *y)),
    );
    // Labels grow with the nines; every second one leaves them room.
    let every = if nines > 4.0 { 2 } else { 1 };
    let ticks = (0..=nines as i32).step_by(every).map(f64::from).collect();
    plot.axes(
        [t::X_PERCENTILE.of(lang), t::Y_LATENCY.of(lang)],
        Some(ticks),
        nines_tick,
        latency_tick,
    );
    let mut legend = Vec::new();
    for (at, (name, points)) in series.iter().enumerate() {
        let class = format!("s{at}");
        let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.log10(), *y)).collect();
        plot.line(&class, &points);
        legend.push(line_entry(&class, None, name));
    }
    if points().next().is_none() {
        plot.notice(t::NO_ANSWERS.of(lang));
    }
    Chart {
        svg: plot.finish(&t::C_PERCENTILES_AT.with(lang, &[("load", &rate(step.target_rps))])),
        legend,
    }
}

/// (1/(1-p), microseconds) along a distribution; from the histogram, else from the printed percentiles.
fn curve(split: &SplitLatency) -> Vec<(f64, f64)> {
    let Some(all) = &split.all else {
        return Vec::new();
    };
    let last = (all.count.max(2) as f64).min(1e7);
    if let Some(histogram) = split.merged() {
        return (0..=CURVE_POINTS)
            .map(|at| {
                let x = last.powf(f64::from(at) / f64::from(CURVE_POINTS));
                (x, histogram.value_at_quantile(1.0 - 1.0 / x) as f64 / 1e3)
            })
            .filter(|(_, us)| *us > 0.0)
            .collect();
    }
    let known = [
        (0.5, all.p50_us),
        (0.75, all.p75_us),
        (0.9, all.p90_us),
        (0.95, all.p95_us),
        (0.975, all.p97_5_us),
        (0.99, all.p99_us),
        (0.999, all.p99_9_us),
        (0.9999, all.p99_99_us),
    ];
    let within = |(quantile, us): (f64, f64)| (1.0 / (1.0 - quantile), us);
    known
        .into_iter()
        .map(within)
        .filter(|(x, us)| *x <= last * 1.01 && *us > 0.0 && us.is_finite())
        .collect()
}

/// `0%`, `90%`, `99.9%` at 0, 1 and 3 nines.
fn nines_tick(nines: f64) -> String {
    match nines.round() as usize {
        0 => "0%".into(),
        1 => "90%".into(),
        2 => "99%".into(),
        more => format!("99.{}%", "9".repeat(more - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_ticks_count_nines() {
        let texts: Vec<String> = [0.0, 1.0, 2.0, 3.0, 4.0].map(nines_tick).into();
        assert_eq!(texts, ["0%", "90%", "99%", "99.9%", "99.99%"]);
    }

    #[test]
    fn a_curve_without_a_histogram_uses_the_printed_percentiles() {
        let all = LatencySummary {
            count: 1_000,
            p50_us: 100.0,
            p99_us: 900.0,
            p99_9_us: 1_500.0,
            p99_99_us: 2_000.0,
            ..LatencySummary::default()
        };
        let split = SplitLatency {
            all: Some(all),
            ..SplitLatency::default()
        };
        let points = curve(&split);
        assert_eq!(
            points.len(),
            3,
            "zeros and percentiles beyond the count are left out"
        );
        assert!((points[2].0 - 1_000.0).abs() < 1.0);
    }
}
