//! Reads the text of a script.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_wire::resp::{Protocol, split_line};

use super::{Peer, Release};

/// Longest pause a script may ask for: on servers it is real time.
const MAX_ADVANCE: Duration = Duration::from_millis(1500);

/// A part of a script with a keyspace and connections of its own.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// Number of its `==` line, from 1.
    pub line: usize,
    /// Protocol that its connections start with.
    pub protocol: Protocol,
    /// The only peer it runs on, and why.
    pub only: Option<(Peer, String)>,
    /// What it is about is newer than the reference: the first servers that have it. Empty if the reference has it.
    pub since: Vec<Release>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One thing that happens, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Number of its line, from 1.
    pub line: usize,
    /// What happens.
    pub action: Action,
    /// Expected lines (the text behind `<`, or behind `<~` for a pattern), and the marker lines `<none` and `<...`.
    pub expected: Vec<Expected>,
    /// Number of the last line that belongs to the step.
    pub last_line: usize,
    /// Sort collections of scalars before comparing.
    pub sorted: bool,
}

/// One expected line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Exactly this rendered line.
    Exact(String),
    /// A rendered line with placeholders.
    Pattern(String),
    /// Any further lines of the reply.
    Rest,
    /// No reply at all.
    Nothing,
}

/// What a step does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Sends a command (with those queued before it) and reads one reply for each.
    Command(String),
    /// Queues a command, to be sent in one write with the next one.
    Queue(String),
    /// Sends the unquoted text as it is.
    Raw(String),
    /// Reads a reply without sending anything.
    Read,
    /// Goes on with this connection, opened when first named.
    Conn(String),
    /// Expects the server to have closed the connection.
    Closed,
    /// Lets time pass.
    Advance(Duration),
    /// Waits until so many clients wait in commands.
    Blocked(usize),
    /// Keeps the scalar of the last reply under a name, for `${name}`.
    Let(String),
}

/// A line that is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    path: PathBuf,
    line: usize,
    reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

pub(super) fn sections(path: &Path, text: &str) -> Result<Vec<Section>, ParseError> {
    let mut reader = Reader {
        sections: Vec::new(),
        sort_next: false,
    };
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line).map_err(|reason| ParseError {
            path: path.to_path_buf(),
            line: index + 1,
            reason,
        })?;
    }
    Ok(reader.sections)
}

struct Reader {
    sections: Vec<Section>,
    sort_next: bool,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(title) = line.strip_prefix("== ") {
            return self.section(number, title);
        }
        if let Some(rest) = line.strip_prefix('<') {
            return self.expected(number, rest);
        }
        if let Some(rest) = line.strip_prefix("@only ") {
            return self.only(rest);
        }
        if let Some(rest) = line.strip_prefix("@since ") {
            return self.since(rest);
        }
        if line == "@sort" {
            self.sort_next = true;
            return Ok(());
        }
        let action = action(line)?;
        let step = Step {
            line: number,
            action,
            expected: Vec::new(),
            last_line: number,
            sorted: std::mem::take(&mut self.sort_next),
        };
        self.current()?.steps.push(step);
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Section, String> {
        self.sections
            .last_mut()
            .ok_or_else(|| "a script starts with a section: == TITLE".to_owned())
    }

    fn section(&mut self, line: usize, title: &str) -> Result<(), String> {
        let (title, protocol) = match title.strip_suffix("(resp3)") {
            Some(title) => (title.trim_end(), Protocol::Resp3),
            None => (title, Protocol::Resp2),
        };
        if self
            .sections
            .iter()
            .any(|section| section.title == title && section.protocol == protocol)
        {
            return Err(format!("there is a section {title:?} already"));
        }
        self.sections.push(Section {
            title: title.to_owned(),
            line,
            protocol,
            only: None,
            since: Vec::new(),
            steps: Vec::new(),
        });
        Ok(())
    }

    fn only(&mut self, rest: &str) -> Result<(), String> {
        let (peer, reason) = rest
            .split_once(": ")
            .ok_or("write: @only redis: REASON, or @only tollgate: REASON")?;
        let peer = match peer {
            "redis" => Peer::Redis,
            "tollgate" => Peer::Tollgate,
            other => return Err(format!("unknown peer {other:?}: redis or tollgate")),
        };
        let section = self.current()?;
        if !section.steps.is_empty() {
            return Err("@only stands directly below its section's title".to_owned());
        }
        section.only = Some((peer, reason.to_owned()));
        Ok(())
    }

    fn since(&mut self, rest: &str) -> Result<(), String> {
        let since = rest.split(',').map(Release::parse).collect::<Option<_>>();
        let since = since.ok_or("write: @since redis 7.4, valkey 9.0, or one of them")?;
        let section = self.current()?;
        if !section.steps.is_empty() {
            return Err("@since stands directly below its section's title".to_owned());
        }
        section.since = since;
        Ok(())
    }

    fn expected(&mut self, number: usize, rest: &str) -> Result<(), String> {
        let expected = match rest {
            "none" => Expected::Nothing,
            "..." => Expected::Rest,
            _ => match rest.strip_prefix('~') {
                Some(pattern) => Expected::Pattern(indented(pattern)),
                None => Expected::Exact(indented(rest)),
            },
        };
        let step = self
            .current()?
            .steps
            .last_mut()
            .ok_or("a reply without a command")?;
        if !matches!(
            step.action,
            Action::Command(_) | Action::Raw(_) | Action::Read
        ) {
            return Err("this line has no reply".to_owned());
        }
        step.expected.push(expected);
        step.last_line = number;
        Ok(())
    }
}

/// The text behind `<` or `<~` without the one space that separates it. Further spaces only show the nesting.
fn indented(rest: &str) -> String {
    rest.strip_prefix(' ').unwrap_or(rest).to_owned()
}

fn action(line: &str) -> Result<Action, String> {
    if let Some(command) = line.strip_prefix("> ") {
        return Ok(Action::Command(command.to_owned()));
    }
    if let Some(command) = line.strip_prefix(">> ") {
        return Ok(Action::Queue(command.to_owned()));
    }
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "raw" => {
            split_line(rest.as_bytes(), |_| ()).map_err(|_| "the quotes do not match")?;
            Ok(Action::Raw(rest.to_owned()))
        }
        "@read" => Ok(Action::Read),
        "@conn" if !rest.is_empty() => Ok(Action::Conn(rest.to_owned())),
        "@closed" => Ok(Action::Closed),
        "@let" if !rest.is_empty() => Ok(Action::Let(rest.to_owned())),
        "@blocked" => {
            let clients = rest.parse().map_err(|_| "write: @blocked CLIENTS")?;
            Ok(Action::Blocked(clients))
        }
        "@advance" => {
            let millis: u64 = rest.parse().map_err(|_| "write: @advance MILLISECONDS")?;
            let time = Duration::from_millis(millis);
            if time > MAX_ADVANCE {
                return Err(format!(
                    "at most {} ms: servers really wait",
                    MAX_ADVANCE.as_millis()
                ));
            }
            Ok(Action::Advance(time))
        }
        _ => Err(format!("not understood: {line:?}")),
    }
}
