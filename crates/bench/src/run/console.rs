//! What the user sees while a run goes on: one progress line on a terminal, plain lines elsewhere, and the log.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::exporter::Exporter;
use super::fill;
use super::screen::Screen;
use crate::load::live::Glance;
use crate::load::seconds::Bucket;
use crate::os::terminal;
use crate::record::{Cell, RunRecord, Second, Step};
use crate::report::lang::recorded::live;
use crate::report::lang::terminal as t;
use crate::report::{Lang, TextStyle};

/// Output of a run. Rows and results go to standard output, progress and complaints to standard error.
pub struct Console {
    bar: Option<ProgressBar>,
    /// In place of the bar, where that is asked for.
    screen: Option<Screen>,
    /// What is printed when the screen is gone.
    held: Vec<Held>,
    log: Option<File>,
    log_error: Option<String>,
    style: TextStyle,
    /// What is measured now, as the log and JSON have it.
    head: String,
    /// The same in the reader's language.
    shown: String,
    quiet: bool,
    mute: bool,
    /// One JSON object a line on standard output, and nothing else there.
    json: bool,
    /// Seconds of the load up to which all was told in JSON.
    told_s: u64,
    /// The last second of the load that has passed.
    last: Option<Second>,
    /// Whether it was not yet told in JSON.
    fresh: bool,
    /// Which of how many starts this is, where there are several.
    start: Option<(u32, u32)>,
    /// Tells Prometheus, where that is asked for.
    exporter: Option<Exporter>,
}

/// A text for after the screen.
enum Held {
    Line(String),
    Note(String),
}

impl Console {
    /// A console for this process: a live line only on a terminal, and not in CI.
    #[must_use]
    pub(crate) fn new(quiet: bool) -> Console {
        let env = |name: &str| std::env::var(name).ok();
        let in_ci =
            env("CI").is_some_and(|value| !value.is_empty() && value != "0" && value != "false");
        let live = io::stderr().is_terminal() && !in_ci && !quiet;
        let bar = live.then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(10));
            let template = if env("NO_COLOR").is_some_and(|value| !value.is_empty()) {
                "▕{bar:12}▏ {wide_msg}"
            } else {
                "▕{bar:12.cyan}▏ {wide_msg}"
            };
            bar.set_style(
                ProgressStyle::with_template(template)
                    .unwrap_or_else(|_| ProgressStyle::default_bar())
                    .progress_chars("█▓░"),
            );
            bar
        });
        let style = TextStyle {
            columns: terminal::columns().unwrap_or(0),
            ..TextStyle::detect(io::stdout().is_terminal(), env)
        };
        Console {
            bar,
            screen: None,
            held: Vec::new(),
            log: None,
            log_error: None,
            style,
            head: String::new(),
            shown: String::new(),
            quiet,
            mute: false,
            json: false,
            told_s: 0,
            last: None,
            fresh: false,
            start: None,
            exporter: None,
        }
    }

    /// A console that shows and keeps nothing, for tests.
    #[must_use]
    pub fn silent() -> Console {
        Console {
            bar: None,
            screen: None,
            held: Vec::new(),
            log: None,
            log_error: None,
            style: TextStyle::default(),
            head: String::new(),
            shown: String::new(),
            quiet: true,
            mute: true,
            json: false,
            told_s: 0,
            last: None,
            fresh: false,
            start: None,
            exporter: None,
        }
    }

    /// How text on standard output may look.
    #[must_use]
    pub(crate) fn style(&self) -> TextStyle {
        self.style
    }

    /// Language of results from now on.
    pub(crate) fn speak(&mut self, lang: Lang) {
        self.style.lang = lang;
    }

    /// From now on everything belongs to start `number` of `of`.
    pub(crate) fn begin_start(&mut self, number: u32, of: u32) {
        self.start = Some((number, of));
        let text = format!("start {number} of {of}");
        match self.quiet {
            // Only a complaint may be said then.
            true => self.write_log(&text),
            false => self.note(&text),
        }
    }

    /// From now on standard output carries NDJSON: one object per second of load, per row, and one at the end.
    pub(crate) fn stream_json(&mut self) {
        self.json = true;
        self.finish();
    }

    /// Shows the run over the whole terminal until [`finish`](Self::finish). Results and remarks are printed after it.
    ///
    /// # Errors
    /// If standard input or standard error is no terminal, or it cannot show the screen.
    pub(crate) fn fill_terminal(&mut self) -> io::Result<()> {
        let screen = Screen::open(self.style)?;
        self.finish();
        self.screen = Some(screen);
        Ok(())
    }

    /// Tells Prometheus what the run does just now, at `address` until the console goes.
    ///
    /// # Errors
    /// If the port is taken or may not be used.
    pub(crate) fn export(&mut self, address: SocketAddr) -> io::Result<()> {
        let exporter = Exporter::start(address)?;
        self.note(&format!(
            "figures for Prometheus: http://{}/metrics",
            exporter.address()
        ));
        self.exporter = Some(exporter);
        Ok(())
    }

    /// Tells of a row that was measured, in JSON where that is asked for. Histograms and seconds are left to the record.
    pub(crate) fn row(&mut self, cell: &Cell, step: &Step) {
        if let Some(exporter) = &self.exporter {
            exporter.row();
        }
        if let Some(screen) = &self.screen {
            screen.state().row(cell, step);
        }
        if !self.json {
            return;
        }
        let Ok(mut row) = serde_json::to_value(step) else {
            return;
        };
        without_bulk(&mut row);
        let mut told = json!({
            "type": "row",
            "target": cell.target,
            "scenario": cell.scenario.name,
            "operation": cell.operation.name,
            "step": row,
        });
        if let Some((number, _)) = self.start {
            told["start"] = number.into();
        }
        self.object(&told);
    }

    /// Tells how the run ended and where its files are, in JSON where that is asked for.
    pub(crate) fn end(&mut self, record: &RunRecord, folder: &Path) {
        if self.json {
            self.object(&json!({
                "type": "end",
                "grade": record.validity.grade,
                "reasons": record.validity.reasons,
                "complete": record.complete,
                "folder": folder,
            }));
        }
    }

    fn object(&self, value: &Value) {
        let mut out = io::stdout().lock();
        // A closed pipe is no reason to lose the run; its files are still written.
        drop(writeln!(out, "{value}").and_then(|()| out.flush()));
    }

    /// Copies everything to `file` from now on.
    pub(crate) fn log_to(&mut self, file: File) {
        self.log = Some(file);
    }

    /// The first failure to write the log, once.
    pub(crate) fn take_log_error(&mut self) -> Option<String> {
        self.log_error.take()
    }

    /// Names what is measured now; shown in the progress line.
    pub(crate) fn phase(&mut self, text: String) {
        let text = match self.start {
            Some((number, of)) => format!("start {number}/{of} · {text}"),
            None => text,
        };
        self.write_log(&text);
        if let Some(exporter) = &self.exporter {
            exporter.phase(&text);
        }
        let shown = live(&text, self.style.lang).into_owned();
        match (&self.screen, &self.bar) {
            (Some(screen), _) => screen.state().phase(&shown),
            (None, Some(bar)) => {
                bar.set_message(shown.clone());
                bar.tick();
            }
            // Without a live line every phase is a line, so that a log of a CI job shows that the run goes on.
            (None, None) if !self.quiet => drop(writeln!(io::stderr().lock(), "{shown}")),
            (None, None) => {}
        }
        (self.head, self.shown) = (text, shown);
    }

    /// From now on ticks and seconds are of another load.
    pub(crate) fn begin_load(&mut self) {
        (self.told_s, self.last, self.fresh) = (0, None, false);
        if let Some(exporter) = &self.exporter {
            exporter.begin_load();
        }
        if let Some(screen) = &self.screen {
            screen.state().begin_load();
        }
    }

    /// Takes over a second of the load that has passed.
    pub(crate) fn pass(&mut self, second: &Bucket) {
        // Only a histogram beyond its own bounds could not be summed up; the step's row would tell.
        let Ok(second) = fill::second(second) else {
            return;
        };
        // The end of a load publishes its last second once more.
        self.fresh |= self
            .last
            .as_ref()
            .is_none_or(|last| last.at_s < second.at_s);
        if let Some(screen) = &self.screen {
            screen.state().pass(&second);
        }
        self.last = Some(second);
    }

    /// Shows how far the phase is.
    pub(crate) fn tick(&mut self, glance: Glance, elapsed: Duration, length: Duration) {
        self.tell_second(glance, elapsed);
        if let Some(exporter) = &self.exporter {
            exporter.tick(glance, self.last.as_ref());
        }
        if let Some(screen) = &self.screen {
            screen.state().tick(glance, elapsed, length);
        }
        let Some(bar) = &self.bar else { return };
        let total = length.as_millis().max(1) as u64;
        bar.set_length(total);
        bar.set_position((elapsed.as_millis() as u64).min(total));
        bar.set_message(progress(
            &self.shown,
            glance,
            self.last.as_ref(),
            (elapsed, length),
            (self.style.columns, self.style.lang),
        ));
    }

    /// Tells in JSON of every second of load: when it has passed, or where there is none to tell of, by the clock.
    fn tell_second(&mut self, glance: Glance, elapsed: Duration) {
        let second = elapsed.as_secs();
        let due = std::mem::take(&mut self.fresh) || second > self.told_s + 1;
        if !(self.json && due) {
            return;
        }
        let told = json!({
            "type": "second",
            "phase": self.head,
            "elapsed_s": elapsed.as_secs_f64(),
            "planned": glance.planned,
            "answered": glance.answered,
            "failed": glance.failed,
            "in_flight": glance.in_flight,
            "last": self.last.as_ref().map(|last| {
                let mut last = json!(last);
                without_bulk(&mut last);
                last
            }),
        });
        self.told_s = second;
        self.object(&told);
    }

    /// A line of the result, on standard output.
    pub(crate) fn line(&mut self, text: &str) {
        self.write_log(text);
        if self.quiet || self.json {
            return;
        }
        if self.screen.is_some() {
            self.held.push(Held::Line(text.to_owned()));
            return;
        }
        self.print(text);
    }

    fn print(&self, text: &str) {
        self.aside(|| {
            let mut out = io::stdout().lock();
            // A closed pipe is no reason to lose the run; its files are still written.
            let body = text.trim_start_matches('\n');
            let before = &text[..text.len() - body.len()];
            let body = live(body, self.style.lang);
            drop(writeln!(out, "{before}{body}").and_then(|()| out.flush()));
        });
    }

    /// A complaint or a remark, on standard error.
    pub(crate) fn note(&mut self, text: &str) {
        self.write_log(text);
        if let Some(screen) = &self.screen {
            screen.state().remark(&live(text, self.style.lang));
            self.held.push(Held::Note(text.to_owned()));
            return;
        }
        self.complain(text);
    }

    fn complain(&self, text: &str) {
        if !self.mute {
            let text = live(text, self.style.lang);
            self.aside(|| drop(writeln!(io::stderr().lock(), "{text}")));
        }
    }

    fn aside(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn write_log(&mut self, text: &str) {
        let Some(log) = &mut self.log else { return };
        if let Err(error) = writeln!(log, "{}", plain(text)) {
            self.log_error = Some(format!("the log cannot be written: {error}"));
            self.log = None;
        }
    }

    /// Takes the progress line or the screen away.
    pub(crate) fn finish(&mut self) {
        self.screen = None;
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::Line(text) => self.print(&text),
                Held::Note(text) => self.complain(&text),
            }
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Columns of the progress line beside its text.
const BAR_COLUMNS: usize = 16;
/// Fewest characters of what is measured that a narrow terminal shows.
const HEAD_MIN: usize = 16;

/// What the progress line says on a terminal of so many `columns` (0: any number): what is measured, the rate since the start
/// of the load, and the delays of its last second.
fn progress(
    head: &str,
    glance: Glance,
    last: Option<&Second>,
    (elapsed, length): (Duration, Duration),
    (columns, lang): (usize, Lang),
) -> String {
    let rate = glance.answered as f64 / elapsed.as_secs_f64().max(1e-3);
    let of = |name: &str, figure: Option<f64>| {
        figure.map_or_else(String::new, |us| format!("  {name} {:.2} ms", us / 1e3))
    };
    let figures = format!(
        "{:.1}/{:.1} s  {rate:.0}/s{}{}  {} {}  {} {}",
        elapsed.as_secs_f64(),
        length.as_secs_f64(),
        of("p99", last.and_then(|last| last.p99_us)),
        of(
            t::T_LIVE_LAG.of(lang),
            last.and_then(|last| last.generator_lag_mean_us)
        ),
        t::T_LIVE_OPEN.of(lang),
        glance.in_flight,
        t::T_LIVE_FAILED.of(lang),
        glance.failed
    );
    let room = columns.saturating_sub(BAR_COLUMNS + figures.chars().count() + 2);
    let (room, length) = (room.max(HEAD_MIN), head.chars().count());
    if columns == 0 || length <= room {
        return format!("{head}  {figures}");
    }
    // The end names the system, the operation and the load.
    let end: String = head.chars().skip(length + 1 - room).collect();
    format!("…{end}  {figures}")
}

/// Takes histograms and second-by-second figures out of a row.
fn without_bulk(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| name != "seconds" && !name.ends_with("_base64"));
            fields.values_mut().for_each(without_bulk);
        }
        Value::Array(items) => items.iter_mut().for_each(without_bulk),
        _ => {}
    }
}

/// `text` without ANSI colours.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        rest = &rest[at + 2..];
        let end = rest
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(rest.len(), |end| end + 1);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_json_carry_figures_and_no_histograms() {
        let mut row = json!({"goodput_rps": 1.0, "seconds": [1], "response": {"all": {"p99_us": 2.0, "histogram_ns_base64": "x"}}});
        without_bulk(&mut row);
        assert_eq!(
            row,
            json!({"goodput_rps": 1.0, "response": {"all": {"p99_us": 2.0}}})
        );
    }

    #[test]
    fn a_narrow_terminal_shows_the_figures_and_the_end_of_what_is_measured() {
        let glance = Glance {
            planned: 500,
            answered: 450,
            failed: 2,
            in_flight: 48,
        };
        let last = Second {
            p99_us: Some(6_200.0),
            generator_lag_mean_us: Some(70.0),
            ..Second::default()
        };
        let head = "step 5/9 · 100 keys uniform · tollgate RL.TAKE (native) · 22500/s";
        let times = (Duration::from_millis(1_500), Duration::from_secs(2));
        let figures = "1.5/2.0 s  300/s  p99 6.20 ms  lag 0.07 ms  in flight 48  failed 2";
        let line = |columns| progress(head, glance, Some(&last), times, (columns, Lang::En));
        assert_eq!(line(0), format!("{head}  {figures}"));
        assert_eq!(line(300), line(0));
        let narrow = line(120);
        assert_eq!(narrow.chars().count() + BAR_COLUMNS, 120, "{narrow}");
        assert!(narrow.starts_with('…') && narrow.ends_with(&format!("· 22500/s  {figures}")));
        assert_eq!(line(80), format!("…tive) · 22500/s  {figures}"));
        let first = progress(head, glance, None, times, (0, Lang::En));
        assert!(!first.contains("p99") && !first.contains("lag"), "{first}");
    }

    #[test]
    fn the_log_has_no_colours() {
        assert_eq!(plain("a \u{1b}[32mgreen\u{1b}[0m b"), "a green b");
        assert_eq!(plain("cut \u{1b}["), "cut ");
    }
}
