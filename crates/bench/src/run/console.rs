//! What the user sees while a run goes on: one progress line on a terminal, plain lines elsewhere, and the log.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::load::live::Glance;
use crate::os::terminal;
use crate::record::{Cell, RunRecord, Step};
use crate::report::{Lang, TextStyle};

/// Output of a run. Rows and results go to standard output, progress and complaints to standard error.
pub struct Console {
    bar: Option<ProgressBar>,
    log: Option<File>,
    log_error: Option<String>,
    style: TextStyle,
    head: String,
    quiet: bool,
    mute: bool,
    /// One JSON object a line on standard output, and nothing else there.
    json: bool,
    /// The last whole second of the phase that was told in JSON.
    told_s: u64,
    /// Which of how many starts this is, where there are several.
    start: Option<(u32, u32)>,
}

impl Console {
    /// A console for this process: a live line only on a terminal, and not in CI.
    #[must_use]
    pub fn new(quiet: bool) -> Console {
        let env = |name: &str| std::env::var(name).ok();
        let in_ci =
            env("CI").is_some_and(|value| !value.is_empty() && value != "0" && value != "false");
        let live = io::stderr().is_terminal() && !in_ci && !quiet;
        let bar = live.then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(10));
            let template = if env("NO_COLOR").is_some_and(|value| !value.is_empty()) {
                "▕{bar:20}▏ {wide_msg}"
            } else {
                "▕{bar:20.cyan}▏ {wide_msg}"
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
            log: None,
            log_error: None,
            style,
            head: String::new(),
            quiet,
            mute: false,
            json: false,
            told_s: 0,
            start: None,
        }
    }

    /// A console that shows and keeps nothing, for tests.
    #[must_use]
    pub fn silent() -> Console {
        Console {
            bar: None,
            log: None,
            log_error: None,
            style: TextStyle::default(),
            head: String::new(),
            quiet: true,
            mute: true,
            json: false,
            told_s: 0,
            start: None,
        }
    }

    /// How text on standard output may look.
    #[must_use]
    pub fn style(&self) -> TextStyle {
        self.style
    }

    /// Language of results from now on.
    pub fn speak(&mut self, lang: Lang) {
        self.style.lang = lang;
    }

    /// From now on everything belongs to start `number` of `of`.
    pub fn begin_start(&mut self, number: u32, of: u32) {
        self.start = Some((number, of));
        let text = format!("start {number} of {of}");
        match self.quiet {
            // Only a complaint may be said then.
            true => self.write_log(&text),
            false => self.note(&text),
        }
    }

    /// From now on standard output carries NDJSON: one object per second of load, per row, and one at the end.
    pub fn stream_json(&mut self) {
        self.json = true;
        self.finish();
    }

    /// Tells of a row that was measured, in JSON where that is asked for. Histograms and seconds are left to the record.
    pub fn row(&mut self, cell: &Cell, step: &Step) {
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
    pub fn end(&mut self, record: &RunRecord, folder: &Path) {
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
    pub fn log_to(&mut self, file: File) {
        self.log = Some(file);
    }

    /// The first failure to write the log, once.
    pub fn take_log_error(&mut self) -> Option<String> {
        self.log_error.take()
    }

    /// Names what is measured now; shown in the progress line.
    pub fn phase(&mut self, text: String) {
        let text = match self.start {
            Some((number, of)) => format!("start {number}/{of} · {text}"),
            None => text,
        };
        self.write_log(&text);
        match &self.bar {
            Some(bar) => {
                bar.set_message(text.clone());
                bar.tick();
            }
            // Without a live line every phase is a line, so that a log of a CI job shows that the run goes on.
            None if !self.quiet => drop(writeln!(io::stderr().lock(), "{text}")),
            None => {}
        }
        self.head = text;
    }

    /// Shows how far the phase is.
    pub fn tick(&mut self, glance: Glance, elapsed: Duration, length: Duration) {
        let second = elapsed.as_secs();
        if self.json && second != self.told_s {
            self.told_s = second;
            if second > 0 {
                self.object(&json!({
                    "type": "second",
                    "phase": self.head,
                    "elapsed_s": elapsed.as_secs_f64(),
                    "planned": glance.planned,
                    "answered": glance.answered,
                    "failed": glance.failed,
                    "in_flight": glance.in_flight,
                }));
            }
        }
        let Some(bar) = &self.bar else { return };
        let total = length.as_millis().max(1) as u64;
        bar.set_length(total);
        bar.set_position((elapsed.as_millis() as u64).min(total));
        let rate = glance.answered as f64 / elapsed.as_secs_f64().max(1e-3);
        bar.set_message(format!(
            "{}  {:.1}/{:.1} s  {rate:.0} answers/s  in flight {}  failed {}",
            self.head,
            elapsed.as_secs_f64(),
            length.as_secs_f64(),
            glance.in_flight,
            glance.failed
        ));
    }

    /// A line of the result, on standard output.
    pub fn line(&mut self, text: &str) {
        self.write_log(text);
        if self.quiet || self.json {
            return;
        }
        self.aside(|| {
            let mut out = io::stdout().lock();
            // A closed pipe is no reason to lose the run; its files are still written.
            drop(writeln!(out, "{text}").and_then(|()| out.flush()));
        });
    }

    /// A complaint or a remark, on standard error.
    pub fn note(&mut self, text: &str) {
        self.write_log(text);
        if !self.mute {
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

    /// Takes the progress line away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
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
    fn the_log_has_no_colours() {
        assert_eq!(plain("a \u{1b}[32mgreen\u{1b}[0m b"), "a green b");
        assert_eq!(plain("cut \u{1b}["), "cut ");
    }
}
