//! Goodput and latency against the offered load.

use crate::record::{Bounds, Cell, Estimate, Failures, Grade, LatencySummary, Profile, Step};
use crate::statistics::knee;

use super::super::findings::{CellFindings, ScenarioFindings};
use super::super::format::{count, latency, percent, rate, short};
use super::super::lang::{Lang, Text, decision as d, page as t};
use super::super::rows::failure_kinds;
use super::super::words;
use super::legend::{LegendEntry, box_entry, line_entry, mark_entry, whisker_entry};
use super::plot::Plot;
use super::scale::{Scale, latency_tick, rate_tick};
use super::{Chart, all_steps, cell_name, ends, finite_max};

/// Failed share above which a row's latencies describe only those that were answered.
const HOLLOW_ABOVE_PERCENT: f64 = 1.0;

/// Goodput with the failed share stacked on top, against the offered load, and the ideal.
pub(in crate::report) fn throughput(cell: &Cell, lang: Lang) -> Chart {
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
pub(in crate::report) fn latency_of(cell: &Cell, profile: &Profile, lang: Lang) -> Chart {
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
        draw_latency(&mut plot, &class, at, &steps, (name, pick), Some(lang));
        legend.push(line_entry(&class, Some(at), name));
    }
    for step in steps.iter().filter(|step| step.response.all.is_none()) {
        plot.missing("s0", step.target_rps, &tip(step, lang));
    }
    if let Some(at) = bend(&steps) {
        plot.divide(at, &rate(at));
        legend.push(line_entry("divide", None, t::L_KNEEDLE.of(lang)));
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

/// Load at which the curve of P99 begins to rise steeply, over the rows that may be believed.
fn bend(steps: &[&Step]) -> Option<f64> {
    let believed = steps
        .iter()
        .filter(|step| step.validity.grade != Grade::Invalid);
    let mut points: Vec<(f64, f64)> = believed
        .filter_map(|step| Some((step.target_rps, step.response.all.as_ref()?.p99_us)))
        .collect();
    // Of a ladder that goes up and down, the way up.
    points.dedup_by(|a, b| a.0 <= b.0);
    knee(&points).map(|at| points[at].0)
}

/// Goodput of all cells of a scenario against the offered load.
pub(in crate::report) fn throughput_of_all(scenario: &ScenarioFindings<'_>, lang: Lang) -> Chart {
    let steps = all_steps(scenario);
    let loads: Vec<f64> = steps.iter().map(|step| step.target_rps).collect();
    let (low, high) = ends(&loads);
    let top = steps
        .iter()
        .map(|step| step.goodput_rps)
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
    for (at, ranked) in scenario.ranked.iter().enumerate() {
        let class = format!("s{}", at % 8);
        let steps = ranked.cell.by_load();
        let points: Vec<(f64, f64)> = steps
            .iter()
            .map(|s| (s.target_rps, s.goodput_rps))
            .collect();
        plot.line(&class, &points);
        // The texts of the marks are in the figure of the cell alone.
        for step in steps {
            let at_load = (step.target_rps, step.goodput_rps);
            plot.mark(&filled(&class, step), at, at_load.0, at_load.1, "");
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

/// A figure of a row that all cells of a scenario are drawn by.
#[derive(Clone, Copy)]
pub(in crate::report) struct Compared {
    /// Title of the drawing.
    pub(in crate::report) title: Text,
    y_title: Text,
    y_text: fn(f64) -> String,
    pick: fn(&Step) -> Option<f64>,
}

/// Denied answers per second: what the limits held back.
pub(in crate::report) const DENIED: Compared = Compared {
    title: d::D_C_LIMITED,
    y_title: d::D_Y_DENIED,
    y_text: rate_tick,
    pick: |step| {
        let denied = step.denied as f64 / step.duration_s;
        (step.denied > 0 && denied.is_finite()).then_some(denied)
    },
};

/// Mean response time.
pub(in crate::report) const MEAN: Compared = Compared {
    title: d::D_C_MEAN,
    y_title: t::Y_RESPONSE,
    y_text: latency_tick,
    pick: |step| Some(step.response.all.as_ref()?.mean_us),
};

/// Processor use of the target.
pub(in crate::report) const CPU: Compared = Compared {
    title: d::D_C_CPU,
    y_title: t::Y_CPU,
    y_text: short,
    pick: |step| Some(step.server?.cpu_percent),
};

/// Resident memory of the target.
pub(in crate::report) const MEMORY: Compared = Compared {
    title: d::D_C_RSS,
    y_title: d::D_Y_RSS,
    y_text: short,
    pick: |step| Some(step.server?.rss_bytes? as f64 / 1_048_576.0),
};

/// Values that differ more than this are drawn on a log scale, so that the small ones can be told apart.
const LOG_FROM: f64 = 20.0;

/// A figure of all cells of a scenario against the offered load; `None` where no row has it.
pub(in crate::report) fn figure_of_all(
    scenario: &ScenarioFindings<'_>,
    what: Compared,
    lang: Lang,
) -> Option<Chart> {
    let value = |step: &Step| (what.pick)(step).filter(|value| value.is_finite() && *value > 0.0);
    let steps = all_steps(scenario);
    let values: Vec<f64> = steps.iter().filter_map(|step| value(step)).collect();
    let (least, most) = ends(&values);
    if values.is_empty() {
        return None;
    }
    let loads: Vec<f64> = steps.iter().map(|step| step.target_rps).collect();
    let (low, high) = ends(&loads);
    let y = match most > LOG_FROM * least {
        true => Scale::log(values.iter().copied()),
        false => Scale::linear(most),
    };
    let mut plot = Plot::new(Scale::around((low, high)), y);
    plot.axes(
        [t::X_LOAD.of(lang), what.y_title.of(lang)],
        None,
        rate_tick,
        what.y_text,
    );
    let mut legend = Vec::new();
    for (at, ranked) in scenario.ranked.iter().enumerate() {
        let class = format!("s{}", at % 8);
        let rows = ranked.cell.by_load();
        let points: Vec<(f64, f64, &Step)> = rows
            .into_iter()
            .filter_map(|step| Some((step.target_rps, value(step)?, step)))
            .collect();
        if points.is_empty() {
            continue;
        }
        let line: Vec<(f64, f64)> = points.iter().map(|(x, y, _)| (*x, *y)).collect();
        plot.line(&class, &line);
        for (x, y, step) in points {
            plot.mark(&filled(&class, step), at, x, y, "");
        }
        legend.push(line_entry(&class, Some(at), &cell_name(ranked.cell)));
    }
    notes(&mut plot, &mut legend, &steps, lang);
    Some(Chart {
        svg: plot.finish(&format!(
            "{}: {}",
            what.title.of(lang),
            scenario.title(lang)
        )),
        legend,
    })
}

/// P99 of all cells of a scenario against the offered load, over the bands of the thresholds.
pub(in crate::report) fn p99_of_all(
    scenario: &ScenarioFindings<'_>,
    profile: &Profile,
    lang: Lang,
) -> Chart {
    let steps = all_steps(scenario);
    let pick: Pick = |latency| latency.p99_us;
    let mut plot = latency_plot(&steps, &[pick], profile.p99_ms, lang);
    let mut legend = Vec::new();
    for (at, ranked) in scenario.ranked.iter().enumerate() {
        let class = format!("s{}", at % 8);
        let steps = ranked.cell.by_load();
        draw_latency(&mut plot, &class, at, &steps, ("P99", pick), None);
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

type Pick = fn(&LatencySummary) -> f64;

fn latency_plot(steps: &[&Step], picks: &[Pick], bounds: Bounds, lang: Lang) -> Plot {
    let loads: Vec<f64> = steps.iter().map(|step| step.target_rps).collect();
    let (low, high) = ends(&loads);
    let (good, critical) = (bounds.good * 1e3, bounds.critical * 1e3);
    let values = steps
        .iter()
        .filter_map(|step| step.response.all.as_ref())
        .flat_map(|latency| picks.iter().map(move |pick| pick(latency)));
    let y = Scale::log(values.chain([good, critical * 1.5]));
    let mut plot = Plot::with_bands(Scale::around((low, high)), y);
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

/// Marks carry texts in `lang`; none in a figure of many cells, each of which has one of its own.
fn draw_latency(
    plot: &mut Plot,
    class: &str,
    shape: usize,
    steps: &[&Step],
    (name, pick): (&str, Pick),
    lang: Option<Lang>,
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
        let answers = count(step.response.all.as_ref().map_or(0, |all| all.count));
        let failed = percent(step.fail_percent());
        let (value, load) = (latency(y), rate(x));
        let said = [
            ("name", name),
            ("value", &value),
            ("load", &load),
            ("answers", &answers),
            ("failed", &failed),
        ];
        let tip = lang.map_or_else(String::new, |lang| t::LATENCY_TIP.with(lang, &said));
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
    let intervals = rates.filter_map(|rate| {
        let Estimate { low, high, .. } = pick(rate)?;
        Some((rate.target_rps, low?, high?))
    });
    plot.whiskers(class, intervals);
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

fn failed_rps(step: &Step) -> f64 {
    let failed = step.failures.total() as f64;
    if step.duration_s > 0.0 {
        failed / step.duration_s
    } else {
        0.0
    }
}

/// The numbers of a row in one line.
pub(super) fn tip(step: &Step, lang: Lang) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_drawings() {
        let cell = Cell {
            target: "<script>".into(),
            ..Cell::default()
        };
        assert!(!throughput(&cell, Lang::En).svg.contains("<script>"));
    }
}
