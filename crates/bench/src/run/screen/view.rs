//! From what is known to what is drawn: the load now, charts of its seconds, the rows measured so far, the last remarks.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::{self, Marker};
use ratatui::text::{Line as TextLine, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, LineGauge, Paragraph};

use super::state::{Line, Moment, State};
use crate::report::lang::terminal as t;
use crate::report::{TextStyle, Tint, ladder_head, ladder_line};

/// Rows of the charts with their frames, where the terminal has as many to spare.
const CHART_ROWS: u16 = 9;
/// Rows of a terminal that is too low for charts.
const LOW: u16 = 24;
/// Remarks shown.
const REMARKS_SHOWN: usize = 3;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let area = frame.area();
    let charts = if area.height < LOW { 0 } else { CHART_ROWS };
    let remarks = match state.remarks.len().min(REMARKS_SHOWN) {
        0 => 0,
        shown => shown as u16 + 2,
    };
    let [head, gauge, figures, charts, rows, remarks, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(charts),
        Constraint::Min(3),
        Constraint::Length(remarks),
        Constraint::Length(1),
    ])
    .areas(area);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let title = Paragraph::new(format!("tollgate bench · {}", state.phase)).style(bold);
    frame.render_widget(title, head);
    draw_gauge(frame, state, gauge);
    frame.render_widget(Paragraph::new(figures_of(state)), figures);
    if charts.height > 0 {
        draw_charts(frame, state, charts);
    }
    draw_rows(frame, state, rows);
    if remarks.height > 0 {
        draw_remarks(frame, state, remarks);
    }
    let text = match state.is_stopping {
        true => t::T_SCREEN_STOPPING,
        false => t::T_SCREEN_KEYS,
    };
    let faint = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Paragraph::new(text.of(state.style.lang)).style(faint), keys);
}

/// How far the load is.
fn draw_gauge(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let (elapsed, length) = (state.elapsed.as_secs_f64(), state.length.as_secs_f64());
    if length <= 0.0 {
        return;
    }
    let gauge = LineGauge::default()
        .ratio((elapsed / length).clamp(0.0, 1.0))
        .label(format!("{elapsed:.1}/{length:.1} s"))
        .filled_symbol(symbols::line::THICK_HORIZONTAL)
        .unfilled_symbol(symbols::line::HORIZONTAL)
        .filled_style(colored(state.style, Color::Cyan))
        .unfilled_style(Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(gauge, area);
}

/// The last second in figures, and the load in counts.
fn figures_of(state: &State) -> String {
    let lang = state.style.lang;
    let ms =
        |us: Option<f64>| us.map_or_else(|| "–".to_owned(), |us| format!("{:.2} ms", us / 1e3));
    let last = state.last.as_ref();
    let goodput = state.moments.back().filter(|_| last.is_some()).map_or_else(
        || "–".to_owned(),
        |moment| format!("{:.0}/s", moment.goodput),
    );
    format!(
        "{} {goodput}   p50 {}   p99 {}   {} {}   {} {}   {} {}",
        t::T_GOODPUT.of(lang),
        ms(last.and_then(|last| last.p50_us)),
        ms(last.and_then(|last| last.p99_us)),
        t::T_LIVE_LAG.of(lang),
        ms(last.and_then(|last| last.generator_lag_mean_us)),
        t::T_LIVE_OPEN.of(lang),
        state.glance.in_flight,
        t::T_LIVE_FAILED.of(lang),
        state.glance.failed,
    )
}

type Points = Vec<(f64, f64)>;

/// One value of the seconds, by their number.
fn points(moments: &VecDeque<Moment>, pick: impl Fn(&Moment) -> Option<f64>) -> Points {
    let numbered = moments.iter().enumerate();
    numbered
        .filter_map(|(at, moment)| Some((at as f64, pick(moment)?)))
        .collect()
}

fn draw_charts(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let (style, lang) = (state.style, state.style.lang);
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
    let goodput = points(&state.moments, |moment| Some(moment.goodput));
    let p50 = points(&state.moments, |moment| moment.p50_ms);
    let p99 = points(&state.moments, |moment| moment.p99_ms);
    let seconds = state.moments.len().to_string();
    let title = format!(
        " {}/s · {} ",
        t::T_GOODPUT.of(lang),
        t::T_SCREEN_SECONDS.with(lang, &[("n", &seconds)])
    );
    let top = largest(&goodput);
    let goodput = [(&goodput, colored(style, Color::Green))];
    draw_chart(
        frame,
        left,
        title,
        &goodput,
        ((0.0, top), |top| format!("{top:.0}")),
    );
    // Delays of an overload are a thousand times those before it: on a line of logarithms both are seen.
    let (low, high) = (smallest(&p50).min(smallest(&p99)), largest(&p99));
    let bounds = (low.log10(), high.max(2.0 * low).log10());
    let [p50, p99] = [p50, p99].map(|points| {
        let logs = points.into_iter().map(|(at, ms)| (at, ms.max(low).log10()));
        logs.collect::<Points>()
    });
    // Where there are no colours the lower line is the median, as it always is.
    let delays = [
        (&p99, colored(style, Color::Yellow)),
        (&p50, colored(style, Color::Cyan)),
    ];
    let title = format!(" p99 · p50 ms · {} ", t::T_SCREEN_LOGARITHMS.of(lang));
    draw_chart(
        frame,
        right,
        title,
        &delays,
        (bounds, |log: f64| format!("{:.2}", 10_f64.powf(log))),
    );
}

/// The largest value; 1 without any.
fn largest(points: &Points) -> f64 {
    let top = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if top > 0.0 { top } else { 1.0 }
}

/// The smallest value above 0; 1 without any.
fn smallest(points: &Points) -> f64 {
    let values = points.iter().map(|(_, value)| *value);
    let low = values.filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    if low < f64::MAX { low } else { 1.0 }
}

/// Lines over the seconds. `bounds` of the values are given with how they are written.
fn draw_chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: String,
    curves: &[(&Points, Style)],
    ((low, high), label): ((f64, f64), impl Fn(f64) -> String),
) {
    let all = curves.iter().flat_map(|(points, _)| points.iter());
    let last = all.map(|(at, _)| *at).fold(1.0, f64::max);
    let sets = curves.iter().map(|(points, style)| {
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(*style)
            .data(points)
    });
    let chart = Chart::new(sets.collect())
        .block(Block::bordered().title(title))
        .legend_position(None)
        .x_axis(Axis::default().bounds([0.0, last]))
        .y_axis(
            Axis::default()
                .bounds([low, high])
                .labels([label(low), label(high)]),
        );
    frame.render_widget(chart, area);
}

/// The rows measured so far, the newest at the bottom.
fn draw_rows(frame: &mut Frame<'_>, state: &mut State, area: Rect) {
    let block = Block::bordered().title(format!(" {} ", t::T_SCREEN_ROWS.of(state.style.lang)));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let style = TextStyle {
        color: false,
        columns: usize::from(inner.width),
        ..state.style
    };
    let head = ladder_head(style);
    let mut shown: Vec<TextLine<'_>> = head.lines().map(TextLine::raw).collect();
    let room = usize::from(inner.height).saturating_sub(shown.len());
    // Never further than to the first page.
    state.hidden = state.hidden.min(state.lines.len().saturating_sub(room));
    let end = state.lines.len() - state.hidden;
    let lines = state.lines.range(end.saturating_sub(room)..end);
    shown.extend(lines.map(|line| match line {
        Line::Heading(text) => {
            TextLine::styled(text.clone(), Style::new().add_modifier(Modifier::BOLD))
        }
        Line::Row(cells) => {
            let text = ladder_line(style, cells);
            let Some(status) = cells.last() else {
                return TextLine::raw(text);
            };
            // Statuses are the last column, which every terminal has.
            let at = text.len() - text.len().min(status.text.len());
            match text.is_char_boundary(at) {
                true => TextLine::from(vec![
                    Span::raw(text[..at].to_owned()),
                    Span::styled(text[at..].to_owned(), tinted(state.style, status.tint)),
                ]),
                false => TextLine::raw(text),
            }
        }
    }));
    frame.render_widget(Paragraph::new(shown), inner);
}

fn draw_remarks(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let title = format!(" {} ", t::T_SCREEN_REMARKS.of(state.style.lang));
    let first = state.remarks.len().saturating_sub(REMARKS_SHOWN);
    let lines: Vec<TextLine<'_>> = state
        .remarks
        .range(first..)
        .map(|text| TextLine::raw(text.as_str()))
        .collect();
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(title)),
        area,
    );
}

/// A colour, unless the user wants none.
fn colored(style: TextStyle, color: Color) -> Style {
    match style.color {
        true => Style::new().fg(color),
        false => Style::new(),
    }
}

fn tinted(style: TextStyle, tint: Tint) -> Style {
    match tint {
        Tint::Plain => Style::new(),
        Tint::Good => colored(style, Color::Green),
        Tint::Warn => colored(style, Color::Yellow),
        Tint::Bad => colored(style, Color::Red),
        Tint::Faint => Style::new().add_modifier(Modifier::DIM),
        Tint::Strong => Style::new().add_modifier(Modifier::BOLD),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::load::live::Glance;
    use crate::record::{Cell, Second, Step};
    use crate::report::Lang;

    fn shown(state: &mut State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| {
            (0..width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..height).map(row).collect()
    }

    fn state(lang: Lang) -> State {
        let style = TextStyle {
            unicode: true,
            lang,
            ..TextStyle::default()
        };
        let mut state = State::new(style);
        state.phase("single key · tollgate · 5000/s");
        for at in 0..30 {
            state.pass(&Second {
                at_s: f64::from(at),
                length_s: 1.0,
                good: 4_000 + 10 * at as u64,
                p50_us: Some(300.0),
                p99_us: Some(2_000.0),
                generator_lag_mean_us: Some(70.0),
                ..Second::default()
            });
        }
        let glance = Glance {
            in_flight: 48,
            failed: 2,
            ..Glance::default()
        };
        state.tick(glance, Duration::from_secs(30), Duration::from_secs(60));
        state
    }

    #[test]
    fn the_load_its_charts_and_its_rows_are_on_one_screen() {
        let mut state = state(Lang::En);
        let mut cell = Cell::default();
        cell.scenario.title = "Single key".into();
        cell.target = "tollgate".into();
        cell.operation.title = "RL.TAKE".into();
        let step = Step {
            target_rps: 5_000.0,
            goodput_rps: 4_990.0,
            ..Step::default()
        };
        state.row(&cell, &step);
        state.row(&cell, &step);
        state.remark("warning: the machine is busy");
        let lines = shown(&mut state, 120, 40);
        let whole = lines.join("\n");
        assert!(lines[0].starts_with("tollgate bench · single key · tollgate · 5000/s"));
        assert!(lines[1].starts_with("30.0/60.0 s"), "{whole}");
        assert!(
            lines[2].starts_with(
                "goodput 4290/s   p50 0.30 ms   p99 2.00 ms   lag 0.07 ms   in flight 48   failed 2"
            ),
            "{whole}"
        );
        assert!(lines[3].contains("goodput/s · 30 s of load"), "{whole}");
        assert!(whole.contains("4290") && whole.contains("0.30│"), "{whole}");
        assert_eq!(whole.matches("Single key · tollgate · RL.TAKE").count(), 1);
        assert_eq!(whole.matches("4,990").count(), 2, "{whole}");
        assert!(whole.contains("warning: the machine is busy"));
        assert!(lines[39].contains("q stop"), "{whole}");
    }

    #[test]
    fn any_size_of_terminal_is_drawn() {
        let mut state = state(Lang::Vi);
        for (width, height) in [(1, 1), (10, 3), (40, 12), (80, 24), (300, 100)] {
            shown(&mut state, width, height);
        }
        let low = shown(&mut state, 80, 20).join("\n");
        assert!(!low.contains("giây tải") && low.contains("đã đo"), "{low}");
        let high = shown(&mut state, 80, 24).join("\n");
        assert!(high.contains("giây tải"), "{high}");
    }

    #[test]
    fn what_is_scrolled_back_to_is_shown() {
        let mut state = state(Lang::En);
        for number in 0..100 {
            let mut cell = Cell::default();
            cell.scenario.title = format!("scenario {number}");
            state.row(&cell, &Step::default());
        }
        let newest = shown(&mut state, 100, 40).join("\n");
        assert!(newest.contains("scenario 99") && !newest.contains("scenario 1 "));
        state.scroll_back(usize::MAX);
        let oldest = shown(&mut state, 100, 40).join("\n");
        assert!(oldest.contains("scenario 0 ") && !oldest.contains("scenario 99"));
    }
}
