//! What the user sees while a run goes on: one progress line on a terminal, plain lines elsewhere, and the log.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::load::live::Glance;
use crate::report::TextStyle;

/// Output of a run. Rows and results go to standard output, progress and complaints to standard error.
pub struct Console {
    bar: Option<ProgressBar>,
    log: Option<File>,
    log_error: Option<String>,
    style: TextStyle,
    head: String,
    quiet: bool,
    mute: bool,
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
        let style = TextStyle::detect(io::stdout().is_terminal(), env);
        Console {
            bar,
            log: None,
            log_error: None,
            style,
            head: String::new(),
            quiet,
            mute: false,
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
        }
    }

    /// How text on standard output may look.
    #[must_use]
    pub fn style(&self) -> TextStyle {
        self.style
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
        if self.quiet {
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
    fn the_log_has_no_colours() {
        assert_eq!(plain("a \u{1b}[32mgreen\u{1b}[0m b"), "a green b");
        assert_eq!(plain("cut \u{1b}["), "cut ");
    }
}
