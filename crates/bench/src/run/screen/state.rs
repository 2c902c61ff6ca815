//! What the screen shows, as the console handed it over. Every list has a bound; the files of a run have all of it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::load::live::Glance;
use crate::record::{Cell, Second, Step};
use crate::report::lang::recorded::live;
use crate::report::{TextCell, TextStyle, ladder_cells};

/// Seconds of load that the charts reach back.
const MOMENTS_MAX: usize = 600;
/// Lines of measured rows that can be scrolled back to.
const LINES_MAX: usize = 5_000;
/// Remarks kept; a screen shows the last few.
const REMARKS_MAX: usize = 50;

/// One second of load in the charts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    /// Right answers in time, per second.
    pub(super) goodput: f64,
    /// Response times in milliseconds; `None` if nothing was answered or waited for.
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

/// One line of what was measured.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// What the rows below are of.
    Heading(String),
    /// A row of a ladder.
    Row(Vec<TextCell>),
}

/// What the screen shows.
#[derive(Debug)]
pub(in crate::run) struct State {
    pub(super) style: TextStyle,
    /// What is measured now.
    pub(super) phase: String,
    pub(super) elapsed: Duration,
    /// How long the load is; zero while there is none.
    pub(super) length: Duration,
    pub(super) glance: Glance,
    /// The last second of the load.
    pub(super) last: Option<Second>,
    pub(super) moments: VecDeque<Moment>,
    pub(super) lines: VecDeque<Line>,
    /// Lines hidden below the last one shown: 0 follows the newest.
    pub(super) hidden: usize,
    pub(super) remarks: VecDeque<String>,
    pub(super) is_stopping: bool,
}

impl State {
    pub(super) fn new(style: TextStyle) -> State {
        State {
            style,
            phase: String::new(),
            elapsed: Duration::ZERO,
            length: Duration::ZERO,
            glance: Glance::default(),
            last: None,
            moments: VecDeque::new(),
            lines: VecDeque::new(),
            hidden: 0,
            remarks: VecDeque::new(),
            is_stopping: false,
        }
    }

    /// Names what is measured from now on.
    pub(in crate::run) fn phase(&mut self, text: &str) {
        self.phase = text.to_owned();
        (self.elapsed, self.length) = (Duration::ZERO, Duration::ZERO);
    }

    /// Takes over a second of load that has passed.
    pub(in crate::run) fn pass(&mut self, second: &Second) {
        let ms = |us: Option<f64>| us.map(|us| us / 1e3);
        // The last second of a load is told a second time, when its drain is over.
        if self
            .last
            .as_ref()
            .is_some_and(|last| last.at_s == second.at_s)
        {
            self.moments.pop_back();
        }
        keep(
            &mut self.moments,
            MOMENTS_MAX,
            Moment {
                goodput: second.good as f64 / second.length_s.max(1e-3),
                p50_ms: ms(second.p50_us),
                p99_ms: ms(second.p99_us),
            },
        );
        self.last = Some(second.clone());
    }

    /// From now on seconds are of another load.
    pub(in crate::run) fn begin_load(&mut self) {
        self.last = None;
    }

    /// Takes over how far the load is.
    pub(in crate::run) fn tick(&mut self, glance: Glance, elapsed: Duration, length: Duration) {
        (self.glance, self.elapsed, self.length) = (glance, elapsed, length);
    }

    /// Takes over a row that was measured.
    pub(in crate::run) fn row(&mut self, cell: &Cell, step: &Step) {
        let heading = format!(
            "{} · {} · {}",
            cell.scenario.title, cell.target, cell.operation.title
        );
        let heading = live(&heading, self.style.lang).into_owned();
        let headings = self.lines.iter().rev().find_map(|line| match line {
            Line::Heading(text) => Some(text),
            Line::Row(_) => None,
        });
        if headings != Some(&heading) {
            self.add(Line::Heading(heading));
        }
        let style = TextStyle {
            color: false,
            ..self.style
        };
        self.add(Line::Row(ladder_cells(style, step)));
    }

    fn add(&mut self, line: Line) {
        keep(&mut self.lines, LINES_MAX, line);
        // Who has scrolled back keeps looking at the same lines.
        if self.hidden > 0 {
            self.hidden += 1;
        }
    }

    /// Takes over a remark, which may have several lines.
    pub(in crate::run) fn remark(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.is_empty()) {
            keep(&mut self.remarks, REMARKS_MAX, line.to_owned());
        }
    }

    pub(super) fn scroll_back(&mut self, lines: usize) {
        self.hidden = self.hidden.saturating_add(lines).min(self.lines.len());
    }

    pub(super) fn scroll_on(&mut self, lines: usize) {
        self.hidden = self.hidden.saturating_sub(lines);
    }
}

/// Adds to a list that keeps the newest `most`.
fn keep<T>(list: &mut VecDeque<T>, most: usize, one: T) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_s: f64, good: u64) -> Second {
        Second {
            at_s,
            length_s: 1.0,
            good,
            p99_us: Some(2_000.0),
            ..Second::default()
        }
    }

    #[test]
    fn the_last_second_of_a_load_counts_once_and_the_first_of_the_next_by_itself() {
        let mut state = State::new(TextStyle::default());
        state.pass(&second(0.0, 10));
        state.pass(&second(1.0, 20));
        state.pass(&second(1.0, 25));
        state.begin_load();
        state.pass(&second(1.0, 7));
        let goodput: Vec<f64> = state.moments.iter().map(|moment| moment.goodput).collect();
        assert_eq!(goodput, [10.0, 25.0, 7.0]);
        assert_eq!(state.moments[0].p99_ms, Some(2.0));
    }

    #[test]
    fn nothing_grows_without_a_bound() {
        let mut state = State::new(TextStyle::default());
        for at in 0..2 * MOMENTS_MAX {
            state.pass(&second(at as f64, 1));
            state.remark("one\n\ntwo");
        }
        for at in 0..2 * LINES_MAX {
            state.add(Line::Heading(at.to_string()));
        }
        assert_eq!(state.moments.len(), MOMENTS_MAX);
        assert_eq!(state.remarks.len(), REMARKS_MAX);
        assert_eq!(state.lines.len(), LINES_MAX);
    }

    #[test]
    fn who_scrolls_back_stays_where_he_looks() {
        let mut state = State::new(TextStyle::default());
        for _ in 0..5 {
            state.add(Line::Heading(String::new()));
        }
        state.scroll_back(2);
        state.add(Line::Heading(String::new()));
        assert_eq!(state.hidden, 3);
        state.scroll_back(usize::MAX);
        assert_eq!(state.hidden, 6);
        state.scroll_on(usize::MAX);
        state.add(Line::Heading(String::new()));
        assert_eq!(state.hidden, 0, "the newest is followed again");
    }
}
