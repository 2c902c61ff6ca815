//! Writes down what a peer answers.

use std::io;
use std::path::Path;

use super::run::{Mode, Session, fits};
use super::{Action, Executor, Script};

/// Text of the script with its expected lines taken from `executor`.
///
/// Expected lines that fit the replies stay as they are, so patterns survive; all others are replaced. Only redis-server says what
/// is right for everyone, and of what is newer than the reference a server that has it: from Tollgate only the sections that are
/// Tollgate's own are recorded.
pub fn record(path: &Path, text: &str, executor: &mut dyn Executor) -> io::Result<String> {
    let script = Script::parse(path, text).map_err(io::Error::other)?;
    let mut lines: Vec<Option<String>> = text.lines().map(|line| Some(line.to_owned())).collect();
    let mut added: Vec<Vec<String>> = vec![Vec::new(); lines.len()];
    for section in &script.sections {
        if !section.is_recorded_from(executor.peer()) {
            continue;
        }
        let at = |line: usize, error: io::Error| {
            io::Error::other(format!("{}:{line}: {error}", path.display()))
        };
        let mut session =
            Session::start(section, executor).map_err(|error| at(section.line, error))?;
        for (index, step) in section.steps.iter().enumerate() {
            let outcome = session
                .step(step, Mode::Record)
                .map_err(|error| at(step.line, error))?;
            let closing = section
                .steps
                .get(index + 1)
                .is_some_and(|next| next.action == Action::Closed);
            if outcome.closed && !closing {
                added[step.last_line - 1].push("@closed".to_owned());
            }
            let silent_raw = matches!(step.action, Action::Raw(_)) && outcome.lines.is_empty();
            let fitting = fits(step, &outcome)
                && !(silent_raw && step.expected.is_empty() && !outcome.closed);
            if fitting {
                continue;
            }
            for line in &mut lines[step.line..step.last_line] {
                if line.as_ref().is_some_and(|line| line.starts_with('<')) {
                    *line = None;
                }
            }
            let mut expected: Vec<String> = outcome
                .lines
                .iter()
                .map(|line| format!("< {line}"))
                .collect();
            if silent_raw && !outcome.closed {
                expected.push("<none".to_owned());
            }
            expected.append(&mut added[step.line - 1]);
            added[step.line - 1] = expected;
        }
        session.end();
    }
    let mut out = String::with_capacity(text.len());
    for (line, added) in lines.into_iter().zip(added) {
        for line in line.into_iter().chain(added) {
            out.push_str(&line);
            out.push('\n');
        }
    }
    Ok(out)
}
