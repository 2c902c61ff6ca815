//! Charts of a record as SVG. Every series differs by colour, dash and mark, so that none rests on colour
//! alone; every mark carries its numbers as a tooltip.

mod dots;
mod heat;
mod over_time;
mod overload;
mod plot;
mod scale;
mod search;
mod shape;

use crate::record::{
    Bounds, Cell, Estimate, Failures, Grade, LatencySummary, Profile, SplitLatency, Step,
};

use self::plot::Plot;
use self::scale::{Scale, latency_tick, rate_tick};
use self::shape::{escape, mark};
use super::findings::{CellFindings, ScenarioFindings};
use super::format::{count, latency, percent, rate};
use super::lang::{Lang, page as t};
use super::rows::failure_kinds;
use super::words;

pub(super) use dots::{ROWS_MAX as RATIOS_MAX, ratios};
pub(super) use heat::heat_map;
pub(super) use over_time::{
    cpu_by_second, generator_lag, in_flight, p99_by_second, pressure_by_second, rates_by_second,
};
pub(super) use overload::{failures, hysteresis, recovery};
pub(super) use search::{concurrency, trials};

/// Points of a percentile curve.
const CURVE_POINTS: u32 = 96;
/// Failed share above which a row's latencies describe only those that were answered.
const HOLLOW_ABOVE_PERCENT: f64 = 1.0;

/// A drawing and the legend that goes below it.
pub(super) struct Chart {
    pub(super) svg: String,
    pub(super) legend: Vec<LegendEntry>,
}

/// One line of a legend: a small drawing and its name.
pub(super) struct LegendEntry {
    pub(super) svg: String,
    pub(super) name: String,
}

/// Goodput with the failed share stacked on top, against the offered load, and the ideal.
pub(super) fn throughput(cell: &Cell, lang: Lang) -> Chart {
    let steps = cell.by_load();
    let loads: Vec<f64> = steps.iter().map(|step| step.target_rps).collect();
    let gap = loads
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .filter(|gap| *gap > 0.0)
        .fold(f64::MAX, f64::min);
    let (low, high) = ends(&loads);
    let gap = if gap == f64::MAX {
        (high * 0.4).max(1.0)
    } else {
        gap
    };
    let top = steps
        .iter()
        .map(|s| s.goodput_rps + failed_rps(s))
        .fold(high, finite_max);
    let mut plot = Plot::new(
        Scale::between((low - gap * 0.6).max(0.0), high + gap * 0.6),
        Scale::linear(top),
    );
    let mut legend = zones(&mut plot, &CellFindings::of(cell), lang);
    plot.axes(
        [t::X_LOAD.of(lang), t::Y_RPS.of(lang)],
        None,
        rate_tick,
        rate_tick,
    );
    let width = (plot.width_of(gap) * 0.62).clamp(3.0, 46.0);
    for step in &steps {
        let (good, failed) = (step.goodput_rps, failed_rps(step));
        plot.bar("good", step.target_rps, width, 0.0, good, &tip(step, lang));
        plot.bar(
            "fail",
            step.target_rps,
            width,
            good,
            good + failed,
            &tip(step, lang),
        );
    }
    plot.line("ideal", &[(low, low), (high, high)]);
    if steps.is_empty() {
        plot.notice(t::NO_ROWS.of(lang));
    }
    legend.splice(
        0..0,
        [
            box_entry("good", t::L_GOOD.of(lang)),
            box_entry("fail", t::L_FAILED.of(lang)),
            line_entry("ideal", None, t::L_IDEAL.of(lang)),
        ],
    );
    Chart {
        svg: plot.finish(&format!("{}: {}", t::C_THROUGHPUT.of(lang), cell.title())),
        legend,
    }
}

/// Shades the loads that are safe, held without a margin, and not held; nothing where no load was held.
fn zones(plot: &mut Plot, found: &CellFindings, lang: Lang) -> Vec<LegendEntry> {
    let (Some(safe), Some(sustained)) = (found.safe_rps, found.sustained_rps) else {
        return Vec::new();
    };
    let parts = [
        ("zone-safe", 0.0, safe, t::ZONE_SAFE),
        ("zone-amber", safe, sustained, t::ZONE_AMBER),
        ("zone-red", sustained, f64::MAX, t::ZONE_RED),
    ];
    parts
        .into_iter()
        .map(|(class, from, to, name)| {
            plot.zone(class, from, to, name.of(lang));
            box_entry(class, name.of(lang))
        })
        .collect()
}

/// P50, P99 and P99.9 of the response time against the offered load, over the bands of the P99 thresholds.
pub(super) fn latency_of(cell: &Cell, profile: &Profile, lang: Lang) -> Chart {
    let steps = cell.by_load();
    let picks: [(&str, Pick); 3] = [
        ("P50", |l| l.p50_us),
        ("P99", |l| l.p99_us),
        ("P99.9", |l| l.p99_9_us),
    ];
    let mut plot = latency_plot(&steps, &picks.map(|(_, pick)| pick), profile.p99_ms, lang);
    let mut legend = Vec::new();
    for (at, (name, pick)) in picks.into_iter().enumerate() {
        let class = format!("s{}", [1, 0, 2][at]);
        draw_latency(&mut plot, &class, at, &steps, (name, pick), lang);
        legend.push(line_entry(&class, Some(at), name));
    }
    for step in steps.iter().filter(|step| step.response.all.is_none()) {
        plot.missing("s0", step.target_rps, &tip(step, lang));
    }
    whiskers(&mut plot, cell, "s1", |rate| rate.p50_us);
    whiskers(&mut plot, cell, "s0", |rate| rate.p99_us);
    if cell.statistics.is_some() {
        legend.push(whisker_entry(t::L_WHISKER.of(lang)));
    }
    notes(&mut plot, &mut legend, &steps, lang);
    Chart {
        svg: plot.finish(&format!("{}: {}", t::C_LATENCY.of(lang), cell.title())),
        legend,
    }
}

/// Goodput of all cells of a scenario against the offered load.
pub(super) fn throughput_of_all(scenario: &ScenarioFindings<'_>, lang: Lang) -> Chart {
    let steps = all_steps(scenario);
    let loads: Vec<f64> = steps.iter().map(|step| step.target_rps).collect();
    let (low, high) = ends(&loads);
    let top = steps
        .iter()
        .map(|step| step.goodput_rps)
        .fold(high, finite_max);
    let margin = (high - low) * 0.03;
    let mut plot = Plot::new(
        Scale::between((low - margin).max(0.0), high + margin),
        Scale::linear(top),
    );
    plot.axes(
        [t::X_LOAD.of(lang), t::Y_GOOD.of(lang)],
        None,
        rate_tick,
        rate_tick,
    );
    plot.line("ideal", &[(low, low), (high, high)]);
    let mut legend = Vec::new();
    for (at, ranked) in scenario.ranked.iter().enumerate() {
        let class = format!("s{}", at % 8);
        let steps = ranked.cell.by_load();
        let points: Vec<(f64, f64)> = steps
            .iter()
            .map(|s| (s.target_rps, s.goodput_rps))
            .collect();
        plot.line(&class, &points);
        for step in steps {
            plot.mark(
                &filled(&class, step),
                at,
                step.target_rps,
                step.goodput_rps,
                &tip(step, lang),
            );
        }
        legend.push(line_entry(&class, Some(at), &cell_name(ranked.cell)));
    }
    legend.push(line_entry("ideal", None, t::L_IDEAL.of(lang)));
    notes(&mut plot, &mut legend, &steps, lang);
    Chart {
        svg: plot.finish(&format!(
            "{}: {}",
            t::C_GOODPUT_ALL.of(lang),
            scenario.title(lang)
        )),
        legend,
    }
}

/// P99 of all cells of a scenario against the offered load, over the bands of the thresholds.
pub(super) fn p99_of_all(scenario: &ScenarioFindings<'_>, profile: &Profile, lang: Lang) -> Chart {
    let steps = all_steps(scenario);
    let pick: Pick = |latency| latency.p99_us;
    let mut plot = latency_plot(&steps, &[pick], profile.p99_ms, lang);
    let mut legend = Vec::new();
    for (at, ranked) in scenario.ranked.iter().enumerate() {
        let class = format!("s{}", at % 8);
        let steps = ranked.cell.by_load();
        draw_latency(&mut plot, &class, at, &steps, ("P99", pick), lang);
        whiskers(&mut plot, ranked.cell, &class, |rate| rate.p99_us);
        for step in steps.iter().filter(|step| step.response.all.is_none()) {
            plot.missing(&class, step.target_rps, &tip(step, lang));
        }
        legend.push(line_entry(&class, Some(at), &cell_name(ranked.cell)));
    }
    notes(&mut plot, &mut legend, &steps, lang);
    Chart {
        svg: plot.finish(&format!(
            "{}: {}",
            t::C_P99_ALL.of(lang),
            scenario.title(lang)
        )),
        legend,
    }
}

/// Percentile curve of one row: response against service time, over log 1/(1-p).
pub(super) fn percentiles(step: &Step, lang: Lang) -> Chart {
    let series = [
        (t::L_RESPONSE_TIME.of(lang), curve(&step.response)),
        (t::L_SERVICE_TIME.of(lang), curve(&step.service)),
    ];
    percentile_chart(step, &series, lang)
}

/// Percentile curves of the allowed and of the denied answers of one row.
pub(super) fn verdicts(step: &Step, lang: Lang) -> Chart {
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

type Pick = fn(&LatencySummary) -> f64;

fn latency_plot(steps: &[&Step], picks: &[Pick], bounds: Bounds, lang: Lang) -> Plot {
    let loads: Vec<f64> = steps.iter().map(|step| step.target_rps).collect();
    let (low, high) = ends(&loads);
    let margin = (high - low) * 0.03;
    let (good, critical) = (bounds.good * 1e3, bounds.critical * 1e3);
    let values = steps
        .iter()
        .filter_map(|step| step.response.all.as_ref())
        .flat_map(|latency| picks.iter().map(move |pick| pick(latency)));
    let y = Scale::log(values.chain([good, critical * 1.5]));
    let mut plot = Plot::with_bands(Scale::between((low - margin).max(0.0), high + margin), y);
    plot.band("band-warn", good, critical, t::BAND_WARNING.of(lang));
    plot.band(
        "band-critical",
        critical,
        f64::MAX,
        t::BAND_CRITICAL.of(lang),
    );
    plot.band("band-good", 0.0, good, t::BAND_GOOD.of(lang));
    plot.axes(
        [t::X_LOAD.of(lang), t::Y_RESPONSE.of(lang)],
        None,
        rate_tick,
        latency_tick,
    );
    plot
}

fn draw_latency(
    plot: &mut Plot,
    class: &str,
    shape: usize,
    steps: &[&Step],
    (name, pick): (&str, Pick),
    lang: Lang,
) {
    let points: Vec<(f64, f64, &Step)> = steps
        .iter()
        .filter_map(|step| Some((step.target_rps, pick(step.response.all.as_ref()?), *step)))
        .filter(|(_, us, _)| us.is_finite() && *us > 0.0)
        .collect();
    plot.line(
        class,
        &points.iter().map(|(x, y, _)| (*x, *y)).collect::<Vec<_>>(),
    );
    for (x, y, step) in points {
        let tip = t::LATENCY_TIP.with(
            lang,
            &[
                ("name", name),
                ("value", &latency(y)),
                ("load", &rate(x)),
                (
                    "answers",
                    &count(step.response.all.as_ref().map_or(0, |all| all.count)),
                ),
                ("failed", &percent(step.fail_percent())),
            ],
        );
        plot.mark(&filled(class, step), shape, x, y, &tip);
    }
}

/// Hollow marks where the latencies leave out many failed requests, faint ones where the row is invalid.
fn filled(class: &str, step: &Step) -> String {
    let hollow = if step.fail_percent() > HOLLOW_ABOVE_PERCENT {
        " hollow"
    } else {
        ""
    };
    let faint = if step.validity.grade == Grade::Invalid {
        " faint"
    } else {
        ""
    };
    format!("{class}{hollow}{faint}")
}

/// Confidence intervals over fresh starts, where there are any.
fn whiskers(
    plot: &mut Plot,
    cell: &Cell,
    class: &str,
    pick: fn(&crate::record::RateStatistics) -> Option<Estimate>,
) {
    let rates = cell.statistics.iter().flat_map(|found| &found.rates);
    for rate in rates {
        if let Some(Estimate {
            low: Some(low),
            high: Some(high),
            ..
        }) = pick(rate)
        {
            plot.whisker(class, rate.target_rps, low, high);
        }
    }
}

fn notes(plot: &mut Plot, legend: &mut Vec<LegendEntry>, steps: &[&Step], lang: Lang) {
    if steps.is_empty() {
        plot.notice(t::NO_ROWS.of(lang));
    }
    if steps
        .iter()
        .any(|step| step.fail_percent() > HOLLOW_ABOVE_PERCENT)
    {
        legend.push(mark_entry("plain hollow", 0, t::L_HOLLOW.of(lang)));
    }
    if steps
        .iter()
        .any(|step| step.validity.grade == Grade::Invalid)
    {
        legend.push(mark_entry("plain faint", 0, t::L_FAINT.of(lang)));
    }
    if steps.iter().any(|step| step.response.all.is_none()) {
        legend.push(mark_entry("plain", 4, t::L_CROSS.of(lang)));
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

fn all_steps<'a>(scenario: &ScenarioFindings<'a>) -> Vec<&'a Step> {
    scenario
        .ranked
        .iter()
        .flat_map(|ranked| ranked.cell.by_load())
        .collect()
}

fn failed_rps(step: &Step) -> f64 {
    let failed = step.failures.total() as f64;
    if step.duration_s > 0.0 {
        failed / step.duration_s
    } else {
        0.0
    }
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

/// The numbers of a row in one line.
fn tip(step: &Step, lang: Lang) -> String {
    let (load, goodput) = (rate(step.target_rps), rate(step.goodput_rps));
    let answers = count(step.allowed.saturating_add(step.denied));
    let (seconds, failed) = (rate(step.duration_s), percent(step.fail_percent()));
    let mut out = t::STEP_TIP.with(
        lang,
        &[
            ("load", &load),
            ("goodput", &goodput),
            ("answers", &answers),
            ("seconds", &seconds),
            ("failed", &failed),
        ],
    );
    if step.failures != Failures::default() {
        out.push_str(&format!(" ({})", failure_kinds(step)));
    }
    if let Some(all) = &step.response.all {
        out.push_str(&format!(
            ", P50 {}, P99 {}",
            latency(all.p50_us),
            latency(all.p99_us)
        ));
    }
    format!("{out}, {}", words::level(step.status.level, lang))
}

fn line_entry(class: &str, shape: Option<usize>, name: &str) -> LegendEntry {
    let mark = shape.map_or(String::new(), |shape| {
        mark(class, shape, (17.0, 7.0), 4.0, "")
    });
    let svg = format!("<path class=\"line {class}\" d=\"M1 7H33\"/>{mark}");
    entry(&svg, name)
}

fn mark_entry(class: &str, shape: usize, name: &str) -> LegendEntry {
    entry(&mark(class, shape, (17.0, 7.0), 4.0, ""), name)
}

fn box_entry(class: &str, name: &str) -> LegendEntry {
    entry(
        &format!("<rect class=\"{class}\" x=\"8\" y=\"1\" width=\"18\" height=\"12\"/>"),
        name,
    )
}

/// Darker for more.
fn shade_entry(name: &str) -> LegendEntry {
    let steps: String = (1..=5)
        .map(|at| {
            format!(
                "<path d=\"M{} 1h6v12h-6z\" opacity=\".{}\"/>",
                at * 6 - 4,
                at * 2 - 1
            )
        })
        .collect();
    entry(&format!("<g class=\"tile\">{steps}</g>"), name)
}

fn whisker_entry(name: &str) -> LegendEntry {
    entry(
        "<path class=\"whisker\" d=\"M17 1V13M13 1H21M13 13H21\"/>",
        name,
    )
}

fn entry(body: &str, name: &str) -> LegendEntry {
    let svg =
        format!("<svg class=\"swatch\" viewBox=\"0 0 34 14\" aria-hidden=\"true\">{body}</svg>");
    LegendEntry {
        svg,
        name: escape(name),
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

    #[test]
    fn names_are_escaped_in_drawings() {
        let cell = Cell {
            target: "<script>".into(),
            ..Cell::default()
        };
        assert!(!throughput(&cell, Lang::En).svg.contains("<script>"));
    }
}
