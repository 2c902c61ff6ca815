//! A cell second by second: rates, P99, requests in flight, and the heat map of response times.

use crate::record::{Cell, Second, Step};

use super::super::format::{count, latency, or_dash, percent, rate, short};
use super::super::lang::{Lang, Text, page as t};
use super::plot::{Plot, Scale, latency_tick, rate_tick};
use super::{Chart, box_entry, finite_max, line_entry};

/// Rows of tiles per decade of latency.
const ROWS_PER_DECADE: f64 = 6.0;
/// Most columns of a heat map, apart from one per step; more seconds than this are put together.
const COLUMNS_MAX: usize = 60;
/// Most points of a series that are drawn with a mark and its text; the line goes through all of them.
const MARKS_MAX: usize = 45;
/// Steps up to which every one is named in the drawing.
const NAMED_STEPS_MAX: usize = 9;
/// Buckets of a step from which on its course is drawn: the last one holds only the drain.
const COURSE_MIN: usize = 3;
/// Most processes of a drawing: so many colours and shapes can be told apart.
const PROCESSES_MAX: usize = 5;
/// Smallest share of the answers that gets a tile.
const TILE_SHARE_MIN: f64 = 0.001;

/// A figure of a bucket that is always there: style, shape, how it is read, and its name.
type Counted = (&'static str, usize, fn(&Second) -> u64, Text);
/// A figure that a bucket may lack: style, shape, name, and how it is read.
type Timed = (
    &'static str,
    usize,
    &'static str,
    fn(&Second) -> Option<f64>,
);

/// A bucket of a cell's steps, laid one after the other.
struct At<'a> {
    /// Start and end on the common axis, seconds.
    from_s: f64,
    to_s: f64,
    step: &'a Step,
    second: &'a Second,
}

/// The buckets of all steps in the order they ran, and where each step begins.
fn lay_out(cell: &Cell) -> (Vec<At<'_>>, Vec<(f64, f64)>) {
    let mut steps: Vec<&Step> = cell
        .steps
        .iter()
        .filter(|step| !step.seconds.is_empty())
        .collect();
    steps.sort_by(|a, b| a.offset_s.total_cmp(&b.offset_s));
    let (mut out, mut starts, mut now) = (Vec::new(), Vec::new(), 0.0);
    for step in steps {
        starts.push((now, step.target_rps));
        for second in &step.seconds {
            // A bucket without length (a drain that took no time) has no place on the axis.
            if second.length_s.is_finite() && second.length_s > 0.0 {
                out.push(At {
                    from_s: now,
                    to_s: now + second.length_s,
                    step,
                    second,
                });
                now += second.length_s;
            }
        }
    }
    (out, starts)
}

fn frame(
    y: Scale,
    cell: &Cell,
    y_title: &str,
    y_text: fn(f64) -> String,
    lang: Lang,
) -> Option<Plot> {
    let (buckets, starts) = lay_out(cell);
    let end = buckets.last()?.to_s;
    let mut plot = Plot::new(Scale::between(0.0, end), y);
    plot.axes([t::X_TIME.of(lang), y_title], None, short, y_text);
    let named = starts.len() <= NAMED_STEPS_MAX;
    for (at, load) in &starts {
        plot.divide(*at, &if named { short(*load) } else { String::new() });
    }
    Some(plot)
}

fn tip(at: &At<'_>, lang: Lang) -> String {
    t::SECOND_TIP.with(
        lang,
        &[
            ("at", &rate(at.second.at_s)),
            ("load", &rate(at.step.target_rps)),
            ("good", &count(at.second.good)),
            ("failed", &count(at.second.failed)),
            ("p99", &or_dash(at.second.p99_us, latency)),
            ("in_flight", &count(at.second.in_flight)),
        ],
    )
}

/// Sent, good and failed per second; `None` without buckets.
pub(in crate::report) fn rates_by_second(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    if !has_course(&buckets) {
        return None;
    }
    let per_second = |number: u64, at: &At<'_>| number as f64 / (at.to_s - at.from_s);
    let picks: [Counted; 3] = [
        ("s7", 4, |second| second.sent, t::L_SENT),
        ("s0", 0, |second| second.good, t::L_GOOD),
        ("s6", 2, |second| second.failed, t::L_FAILED),
    ];
    let top = buckets
        .iter()
        .flat_map(|at| {
            picks
                .iter()
                .map(move |(_, _, pick, _)| per_second(pick(at.second), at))
        })
        .fold(1.0, finite_max);
    let mut plot = frame(Scale::linear(top), cell, t::Y_RPS.of(lang), rate_tick, lang)?;
    let every = marked_every(buckets.len());
    let mut legend = Vec::new();
    for (class, shape, pick, name) in picks {
        // Lines end with their step: what lies between two steps was not measured.
        for part in buckets.chunk_by(|a, b| std::ptr::eq(a.step, b.step)) {
            let points: Vec<(f64, f64)> = part
                .iter()
                .map(|at| (middle(at), per_second(pick(at.second), at)))
                .collect();
            plot.line(class, &points);
            for (at, (x, y)) in part.iter().zip(&points).step_by(every) {
                plot.dot(class, shape, *x, *y, &tip(at, lang));
            }
        }
        legend.push(line_entry(class, Some(shape), name.of(lang)));
    }
    Some(Chart {
        svg: plot.finish(&format!("{}: {}", t::C_TIME.of(lang), cell.title())),
        legend,
    })
}

/// Which points of `count` get a mark, so that long runs stay small and readable.
pub(super) fn marked_every(count: usize) -> usize {
    count.div_ceil(MARKS_MAX).max(1)
}

fn middle(at: &At<'_>) -> f64 {
    f64::midpoint(at.from_s, at.to_s)
}

/// P50 and P99 of every second; `None` without buckets that have answers.
pub(in crate::report) fn p99_by_second(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    let picks: [Timed; 2] = [
        ("s1", 1, "P50", |second| second.p50_us),
        ("s0", 0, "P99", |second| second.p99_us),
    ];
    let values = || {
        buckets
            .iter()
            .flat_map(|at| picks.iter().filter_map(move |(.., pick)| pick(at.second)))
    };
    values().next().filter(|_| has_course(&buckets))?;
    let y = Scale::log(values());
    let mut plot = frame(y, cell, t::Y_RESPONSE.of(lang), latency_tick, lang)?;
    let every = marked_every(buckets.len());
    let mut legend = Vec::new();
    for (class, shape, name, pick) in picks {
        for part in buckets.chunk_by(|a, b| std::ptr::eq(a.step, b.step)) {
            let points: Vec<(f64, f64, &At<'_>)> = part
                .iter()
                .filter_map(|at| Some((middle(at), pick(at.second)?, at)))
                .collect();
            let line: Vec<(f64, f64)> = points.iter().map(|(x, y, _)| (*x, *y)).collect();
            plot.line(class, &line);
            for (x, y, at) in points.into_iter().step_by(every) {
                plot.dot(class, shape, x, y, &tip(at, lang));
            }
        }
        legend.push(line_entry(class, Some(shape), name));
    }
    Some(Chart {
        svg: plot.finish(&format!("{}: {}", t::Y_P99.of(lang), cell.title())),
        legend,
    })
}

/// Whether some step has buckets enough to show a course, and not only its own total.
fn has_course(buckets: &[At<'_>]) -> bool {
    buckets
        .chunk_by(|a, b| std::ptr::eq(a.step, b.step))
        .any(|step| step.len() >= COURSE_MIN)
}

/// Requests in flight at the end of every second; `None` without buckets.
pub(in crate::report) fn in_flight(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    if !has_course(&buckets) {
        return None;
    }
    let top = buckets
        .iter()
        .map(|at| at.second.in_flight as f64)
        .fold(1.0, finite_max);
    let mut plot = frame(
        Scale::linear(top),
        cell,
        t::Y_IN_FLIGHT.of(lang),
        rate_tick,
        lang,
    )?;
    let every = marked_every(buckets.len());
    for part in buckets.chunk_by(|a, b| std::ptr::eq(a.step, b.step)) {
        let points: Vec<(f64, f64)> = part
            .iter()
            .map(|at| (middle(at), at.second.in_flight as f64))
            .collect();
        plot.line("s2", &points);
        for (at, (x, y)) in part.iter().zip(&points).step_by(every) {
            plot.dot("s2", 2, *x, *y, &tip(at, lang));
        }
    }
    Some(Chart {
        svg: plot.finish(&format!("{}: {}", t::Y_IN_FLIGHT.of(lang), cell.title())),
        legend: vec![line_entry("s2", Some(2), t::Y_IN_FLIGHT.of(lang))],
    })
}

/// A process's name and a line of (seconds, percent) points for each step.
type Usage = (String, Vec<Vec<(f64, f64)>>);

/// CPU of every watched process second by second, in percent of one core; `None` where it was not recorded.
pub(in crate::report) fn cpu_by_second(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    if !has_course(&buckets) {
        return None;
    }
    let mut used: Vec<Usage> = Vec::new();
    for part in buckets.chunk_by(|a, b| std::ptr::eq(a.step, b.step)) {
        let processes = part[0].step.attribution.iter().flat_map(|a| &a.processes);
        for process in processes {
            let points: Vec<(f64, f64)> = part
                .iter()
                .zip(&process.cpu_percent_by_second)
                .map(|(at, percent)| (middle(at), *percent))
                .filter(|(_, percent)| percent.is_finite())
                .collect();
            let name = format!("{} ({})", process.name, process.role.word());
            match used.iter_mut().find(|(known, _)| *known == name) {
                Some((_, lines)) => lines.push(points),
                None => used.push((name, vec![points])),
            }
        }
    }
    used.retain(|(_, lines)| lines.iter().any(|line| !line.is_empty()));
    let points = used.iter().flat_map(|(_, lines)| lines.iter().flatten());
    let top = points.map(|(_, percent)| *percent).fold(1.0, finite_max);
    if used.is_empty() {
        return None;
    }
    let mut plot = frame(Scale::linear(top), cell, t::Y_CPU.of(lang), short, lang)?;
    let every = marked_every(buckets.len());
    let mut legend = Vec::new();
    for (at, (name, lines)) in used.iter().take(PROCESSES_MAX).enumerate() {
        let class = format!("s{at}");
        for line in lines {
            plot.line(&class, line);
            for (x, y) in line.iter().step_by(every) {
                plot.dot(&class, at, *x, *y, &format!("{name}: {} %", percent(*y)));
            }
        }
        legend.push(line_entry(&class, Some(at), name));
    }
    Some(Chart {
        svg: plot.finish(&format!("{}: {}", t::Y_CPU.of(lang), cell.title())),
        legend,
    })
}

/// A column of the heat map: its place, and (latency in µs, answers) pairs.
struct Column {
    from: f64,
    to: f64,
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
    let mut plot = Plot::new(
        Scale::between(0.0, end),
        Scale::log([low, high].into_iter()),
    );
    for column in &columns {
        tiles(&mut plot, column, lang);
    }
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
        legend: vec![box_entry("tile", &share)],
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

fn tiles(plot: &mut Plot, column: &Column, lang: Lang) {
    let total: u64 = column.values.iter().map(|(_, count)| count).sum();
    let row = |us: f64| (us.log10() * ROWS_PER_DECADE).floor();
    for part in column.values.chunk_by(|a, b| row(a.0) == row(b.0)) {
        let answers: u64 = part.iter().map(|(_, count)| count).sum();
        let share = answers as f64 / total.max(1) as f64;
        if share < TILE_SHARE_MIN {
            continue;
        }
        let low = 10_f64.powf(row(part[0].0) / ROWS_PER_DECADE);
        let high = 10_f64.powf((row(part[0].0) + 1.0) / ROWS_PER_DECADE);
        let tip = t::TILE_TIP.with(
            lang,
            &[
                ("share", &percent(share * 100.0)),
                ("low", &latency(low)),
                ("high", &latency(high)),
            ],
        );
        // The root lets small shares be seen beside large ones.
        let shade = 0.06 + 0.94 * share.sqrt();
        plot.tile((column.from, column.to), (low, high), shade, &tip);
    }
}
