//! A cell second by second: rates, P99, requests in flight, processors, what waited, and the generator's own lag.

use crate::record::attribution::Pressure;
use crate::record::{Cell, Second, Step};

use super::super::format::{count, latency, or_dash, percent, rate, short, significant};
use super::super::lang::{Lang, Text, page as t};
use super::super::words;
use super::legend::line_entry;
use super::plot::Plot;
use super::scale::{Scale, latency_tick, rate_tick};
use super::{Chart, finite_max};

/// Most points of a series that are drawn with a mark and its text; the line goes through all of them.
const MARKS_MAX: usize = 45;
/// Steps up to which every one is named in the drawing.
pub(super) const NAMED_STEPS_MAX: usize = 9;
/// Buckets of a step from which on its course is drawn: the last one holds only the drain.
const COURSE_MIN: usize = 3;
/// Most processes of a drawing: so many colours and shapes can be told apart.
const PROCESSES_MAX: usize = 5;

/// A bucket of a cell's steps, laid one after the other.
pub(super) struct At<'a> {
    /// Start and end on the common axis, seconds.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) step: &'a Step,
    pub(super) second: &'a Second,
}

/// A line of a drawing, in parts: it ends with its step, as what lies between two steps was not measured.
struct Line {
    style: usize,
    shape: usize,
    name: String,
    parts: Vec<Vec<Point>>,
}

struct Point {
    x: f64,
    y: f64,
    tip: String,
}

/// What a drawing over time shows: the texts of the y axis, of a value on it, and of the whole.
struct Drawing<'a> {
    y: Scale,
    y_title: Text,
    y_text: fn(f64) -> String,
    title: Text,
    lines: &'a [Line],
}

/// The buckets of all steps in the order they ran, and where each step begins.
pub(super) fn lay_out(cell: &Cell) -> (Vec<At<'_>>, Vec<(f64, f64)>) {
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

/// The drawing; `None` where no step has buckets enough to show a course, or no line has a point.
fn draw(cell: &Cell, drawing: &Drawing<'_>, lang: Lang) -> Option<Chart> {
    let (buckets, starts) = lay_out(cell);
    let drawn = |line: &Line| line.parts.iter().any(|part| !part.is_empty());
    if !has_course(&buckets) || !drawing.lines.iter().any(drawn) {
        return None;
    }
    let end = buckets.last()?.to_s;
    let mut plot = Plot::new(Scale::between(0.0, end), drawing.y);
    plot.axes(
        [t::X_TIME.of(lang), drawing.y_title.of(lang)],
        None,
        short,
        drawing.y_text,
    );
    let named = starts.len() <= NAMED_STEPS_MAX;
    for (at, load) in &starts {
        plot.divide(*at, &if named { short(*load) } else { String::new() });
    }
    let every = marked_every(buckets.len());
    let mut legend = Vec::new();
    for line in drawing.lines.iter().filter(|line| drawn(line)) {
        let class = format!("s{}", line.style);
        for part in &line.parts {
            let places: Vec<(f64, f64)> = part.iter().map(|point| (point.x, point.y)).collect();
            plot.line(&class, &places);
            for point in part.iter().step_by(every) {
                plot.dot(&class, line.shape, point.x, point.y, &point.tip);
            }
        }
        legend.push(line_entry(&class, Some(line.shape), &line.name));
    }
    Some(Chart {
        svg: plot.finish(&format!("{}: {}", drawing.title.of(lang), cell.title())),
        legend,
    })
}

/// A line through a figure of every bucket that has it; `text` is what a mark says.
fn line(
    buckets: &[At<'_>],
    (style, shape): (usize, usize),
    name: &str,
    pick: impl Fn(&At<'_>) -> Option<f64>,
    text: impl Fn(&At<'_>, f64) -> String,
) -> Line {
    let point = |at: &At<'_>| {
        let y = pick(at).filter(|y| y.is_finite())?;
        Some(Point {
            x: middle(at),
            y,
            tip: text(at, y),
        })
    };
    Line {
        style,
        shape,
        name: name.to_owned(),
        parts: buckets
            .chunk_by(|a, b| std::ptr::eq(a.step, b.step))
            .map(|part| part.iter().filter_map(point).collect())
            .collect(),
    }
}

/// The largest value of all lines, at least `least`.
fn top(lines: &[Line], least: f64) -> f64 {
    let points = lines.iter().flat_map(|line| line.parts.iter().flatten());
    points.map(|point| point.y).fold(least, finite_max)
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    let points = lines.iter().flat_map(|line| line.parts.iter().flatten());
    points.map(|point| point.y)
}

/// Which points of `count` get a mark, so that long runs stay small and readable.
pub(super) fn marked_every(count: usize) -> usize {
    count.div_ceil(MARKS_MAX).max(1)
}

fn middle(at: &At<'_>) -> f64 {
    f64::midpoint(at.from_s, at.to_s)
}

/// Whether some step has buckets enough to show a course, and not only its own total.
fn has_course(buckets: &[At<'_>]) -> bool {
    buckets
        .chunk_by(|a, b| std::ptr::eq(a.step, b.step))
        .any(|step| step.len() >= COURSE_MIN)
}

/// All figures of a bucket in one line.
fn everything(at: &At<'_>, lang: Lang) -> String {
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

/// `P50 1.25 ms @ 12.5 s`: a figure and its place on the axis.
fn figure(name: &str, value: &str, at: &At<'_>) -> String {
    format!("{name} {value} @ {} s", significant(middle(at)))
}

/// Sent, good and failed per second; `None` without buckets.
pub(in crate::report) fn rates_by_second(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    let per_second = |number: u64, at: &At<'_>| Some(number as f64 / (at.to_s - at.from_s));
    let counted = |style, name: Text, pick: fn(&Second) -> u64| {
        let name = name.of(lang);
        let text = |at: &At<'_>, y: f64| figure(name, &format!("{}/s", rate(y)), at);
        line(
            &buckets,
            style,
            name,
            |at| per_second(pick(at.second), at),
            text,
        )
    };
    let good = t::L_GOOD.of(lang);
    let lines = [
        counted((7, 4), t::L_SENT, |second| second.sent),
        line(
            &buckets,
            (0, 0),
            good,
            |at| per_second(at.second.good, at),
            |at, _| everything(at, lang),
        ),
        counted((6, 2), t::L_FAILED, |second| second.failed),
    ];
    let drawing = Drawing {
        y: Scale::linear(top(&lines, 1.0)),
        y_title: t::Y_RPS,
        y_text: rate_tick,
        title: t::C_TIME,
        lines: &lines,
    };
    draw(cell, &drawing, lang)
}

/// P50 and P99 of every second; `None` without buckets that have answers.
pub(in crate::report) fn p99_by_second(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    let timed = |style, name: &str, pick: fn(&Second) -> Option<f64>| {
        let text = |at: &At<'_>, us: f64| figure(name, &latency(us), at);
        line(&buckets, style, name, |at| pick(at.second), text)
    };
    let lines = [
        timed((1, 1), "P50", |second| second.p50_us),
        timed((0, 0), "P99", |second| second.p99_us),
    ];
    let drawing = Drawing {
        y: Scale::log(values(&lines)),
        y_title: t::Y_RESPONSE,
        y_text: latency_tick,
        title: t::Y_P99,
        lines: &lines,
    };
    draw(cell, &drawing, lang)
}

/// Requests in flight at the end of every second; `None` without buckets.
pub(in crate::report) fn in_flight(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    let name = t::Y_IN_FLIGHT.of(lang);
    let lines = [line(
        &buckets,
        (2, 2),
        name,
        |at| Some(at.second.in_flight as f64),
        |at, y| figure(name, &rate(y), at),
    )];
    let drawing = Drawing {
        y: Scale::linear(top(&lines, 1.0)),
        y_title: t::Y_IN_FLIGHT,
        y_text: rate_tick,
        title: t::Y_IN_FLIGHT,
        lines: &lines,
    };
    draw(cell, &drawing, lang)
}

/// CPU of every watched process second by second, in percent of one core; `None` where it was not recorded.
pub(in crate::report) fn cpu_by_second(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    let mut lines: Vec<Line> = Vec::new();
    for part in buckets.chunk_by(|a, b| std::ptr::eq(a.step, b.step)) {
        let processes = part[0].step.attribution.iter().flat_map(|a| &a.processes);
        for process in processes {
            let name = format!("{} ({})", process.name, words::role(process.role, lang));
            let points: Vec<Point> = part
                .iter()
                .zip(&process.cpu_percent_by_second)
                .filter(|(_, used)| used.is_finite())
                .map(|(at, used)| Point {
                    x: middle(at),
                    y: *used,
                    tip: figure(&name, &format!("{} %", percent(*used)), at),
                })
                .collect();
            match lines.iter_mut().find(|known| known.name == name) {
                Some(known) => known.parts.push(points),
                None => lines.push(Line {
                    style: lines.len(),
                    shape: lines.len(),
                    name,
                    parts: vec![points],
                }),
            }
        }
    }
    lines.retain(|line| line.parts.iter().any(|part| !part.is_empty()));
    lines.truncate(PROCESSES_MAX);
    let drawing = Drawing {
        y: Scale::linear(top(&lines, 1.0)),
        y_title: t::Y_CPU,
        y_text: short,
        title: t::Y_CPU,
        lines: &lines,
    };
    draw(cell, &drawing, lang)
}

/// What the machine's tasks waited for, second by second (pressure stall information); `None` where the system does not
/// tell.
pub(in crate::report) fn pressure_by_second(cell: &Cell, lang: Lang) -> Option<Chart> {
    type Kind = (usize, Text, fn(&Pressure) -> Option<f64>);
    let kinds: [Kind; 3] = [
        (0, t::L_PRESSURE_CPU, |p| p.cpu_percent),
        (1, t::L_PRESSURE_IO, |p| p.io_percent),
        (2, t::L_PRESSURE_MEMORY, |p| p.memory_percent),
    ];
    let (buckets, _) = lay_out(cell);
    let lines = kinds.map(|(style, name, pick)| {
        let name = name.of(lang);
        let parts = buckets.chunk_by(|a, b| std::ptr::eq(a.step, b.step));
        let part = |part: &[At<'_>]| {
            let (from_s, to_s) = (part[0].from_s, part[part.len() - 1].to_s);
            let found = part[0].step.attribution.iter();
            found
                .flat_map(|found| &found.pressure_by_second)
                .filter_map(|pressure| {
                    let (x, y) = (from_s + pressure.at_s, pick(pressure)?);
                    (x <= to_s && y.is_finite()).then(|| Point {
                        x,
                        y,
                        tip: format!("{name} {} % @ {} s", percent(y), significant(x)),
                    })
                })
                .collect()
        };
        Line {
            style,
            shape: style,
            name: name.to_owned(),
            parts: parts.map(part).collect(),
        }
    });
    let drawing = Drawing {
        y: Scale::linear(top(&lines, 1.0)),
        y_title: t::Y_PRESSURE,
        y_text: short,
        title: t::C_PRESSURE,
        lines: &lines,
    };
    draw(cell, &drawing, lang)
}

/// How late the generator itself was, second by second; `None` where it was not recorded.
pub(in crate::report) fn generator_lag(cell: &Cell, lang: Lang) -> Option<Chart> {
    let (buckets, _) = lay_out(cell);
    let timed = |style, name: Text, pick: fn(&Second) -> Option<f64>| {
        let name = name.of(lang);
        let text = |at: &At<'_>, us: f64| figure(name, &latency(us), at);
        line(
            &buckets,
            style,
            name,
            |at| pick(at.second).filter(|us| *us > 0.0),
            text,
        )
    };
    let lines = [
        timed((1, 1), t::L_LAG_MEAN, |second| second.generator_lag_mean_us),
        timed((0, 0), t::L_LAG_MAX, |second| second.generator_lag_max_us),
    ];
    let drawing = Drawing {
        y: Scale::log(values(&lines)),
        y_title: t::Y_LAG,
        y_text: latency_tick,
        title: t::C_LAG,
        lines: &lines,
    };
    draw(cell, &drawing, lang)
}
