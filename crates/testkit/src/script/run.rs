//! Runs a script and compares.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tollgate_wire::resp::{FrameSkipper, Protocol, split_line, write_command};

use super::parse::Expected;
use super::pattern;
use super::render::render;
use super::{Action, Executor, Received, Script, Section, Step};
use crate::PATIENCE;

/// Failures of one script after which the rest of it is not run.
const MAX_FAILURES: usize = 25;

/// How long a connection must be silent before a recording takes a raw step's replies as complete.
const SILENCE: Duration = Duration::from_millis(100);

/// How often `@blocked` asks.
const POLL: Duration = Duration::from_millis(2);

/// Longest text that `${x*COUNT}` may make, bytes.
const MAX_REPEATED: usize = 64 * 1024 * 1024;

/// What a run found.
#[derive(Debug, Default)]
pub struct Report {
    /// Steps that were compared.
    pub commands: usize,
    /// What did not match.
    pub failures: Vec<Failure>,
    /// Sections left out on this peer, with the reason.
    pub skipped: Vec<(String, String)>,
}

/// A step whose outcome is not the expected one.
#[derive(Debug)]
pub struct Failure {
    /// The script.
    pub path: PathBuf,
    /// The step's line.
    pub line: usize,
    /// The section's title.
    pub section: String,
    /// The step as written.
    pub step: String,
    /// Expected lines.
    pub expected: Vec<String>,
    /// Lines that came, or what went wrong.
    pub got: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: {}", self.path.display(), self.line, self.section)?;
        writeln!(f, "  {}", self.step)?;
        for line in &self.expected {
            writeln!(f, "  expected  {line}")?;
        }
        for line in &self.got {
            writeln!(f, "  got       {line}")?;
        }
        Ok(())
    }
}

/// Runs every section of `script` that is meant for the executor's peer.
pub fn run(script: &Script, executor: &mut dyn Executor) -> Report {
    let mut report = Report::default();
    for section in &script.sections {
        if let Some(reason) = section.left_out_on(executor.peer()) {
            report.skipped.push((section.title.clone(), reason));
            continue;
        }
        let mut failed = |step: Option<&Step>, expected: Vec<String>, got: Vec<String>| {
            report.failures.push(Failure {
                path: script.path.clone(),
                line: step.map_or(section.line, |step| step.line),
                section: section.title.clone(),
                step: step.map_or_else(
                    || "setting up the section".to_owned(),
                    |step| step.action.to_string(),
                ),
                expected,
                got,
            });
        };
        let mut session = match Session::start(section, executor) {
            Ok(session) => session,
            Err(error) => {
                failed(None, Vec::new(), vec![error.to_string()]);
                continue;
            }
        };
        for step in &section.steps {
            report.commands += 1;
            match session.step(step, Mode::Compare) {
                Ok(outcome) if fits(step, &outcome) => {}
                Ok(outcome) => failed(
                    Some(step),
                    step.expected.iter().map(ToString::to_string).collect(),
                    outcome.lines,
                ),
                Err(error) => {
                    failed(
                        Some(step),
                        step.expected.iter().map(ToString::to_string).collect(),
                        vec![error.to_string()],
                    );
                    break;
                }
            }
        }
        session.end();
        if report.failures.len() >= MAX_FAILURES {
            break;
        }
    }
    report
}

/// What a step gave.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Rendered lines of its replies.
    pub(super) lines: Vec<String>,
    /// The connection was closed (looked at by recordings of raw steps).
    pub(super) closed: bool,
}

/// Whether the outcome is what the step expects.
pub(super) fn fits(step: &Step, outcome: &Outcome) -> bool {
    let mut lines = outcome.lines.iter().map(|line| line.trim_start());
    for expected in &step.expected {
        let fits = match expected {
            Expected::Rest => return true,
            Expected::Nothing => outcome.lines.is_empty(),
            Expected::Exact(text) => lines.next() == Some(text.trim_start()),
            Expected::Pattern(text) => lines
                .next()
                .is_some_and(|line| pattern::matches(text.trim_start(), line)),
        };
        if !fits {
            return false;
        }
    }
    // A command whose reply was never written down is not a passing test.
    let checked =
        !step.expected.is_empty() || !matches!(step.action, Action::Command(_) | Action::Read);
    checked && lines.next().is_none()
}

/// Whether expected lines are known or are being found out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Compare,
    Record,
}

/// One connection of a section.
struct Conn {
    id: usize,
    unread: Vec<u8>,
    /// Queued commands not yet sent, and how many.
    queued: Vec<u8>,
    queued_count: usize,
}

/// A section being run.
pub(super) struct Session<'a> {
    executor: &'a mut dyn Executor,
    protocol: Protocol,
    conns: BTreeMap<String, Conn>,
    current: String,
    variables: BTreeMap<String, Vec<u8>>,
    /// The last reply, for `@let`.
    last: Vec<u8>,
}

impl<'a> Session<'a> {
    /// Empties the keyspace and opens the first connection.
    pub(super) fn start(section: &Section, executor: &'a mut dyn Executor) -> io::Result<Self> {
        let mut session = Session {
            executor,
            protocol: section.protocol,
            conns: BTreeMap::new(),
            current: String::new(),
            variables: BTreeMap::new(),
            last: Vec::new(),
        };
        session.switch("setup")?;
        for command in ["FLUSHALL", "SCRIPT FLUSH"] {
            session.send(&encode(command.as_bytes())?)?;
            let reply = session.frame()?;
            if reply != b"+OK\r\n" {
                return Err(io::Error::other(format!(
                    "{command} answers {}",
                    reply.escape_ascii()
                )));
            }
        }
        session.wait_until_alone()?;
        session.close("setup");
        session.switch("main")?;
        Ok(session)
    }

    /// A server closes connections a moment after its client does, and what they listened to is theirs until then.
    fn wait_until_alone(&mut self) -> io::Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            self.send(&encode(b"CLIENT LIST")?)?;
            let reply = self.frame()?;
            if reply.windows(3).filter(|part| part == b"id=").count() <= 1 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::Error::other(
            "the connections of an earlier section stay",
        ))
    }

    /// Closes its connections.
    pub(super) fn end(mut self) {
        let names: Vec<String> = self.conns.keys().cloned().collect();
        names.iter().for_each(|name| self.close(name));
    }

    fn close(&mut self, name: &str) {
        if let Some(conn) = self.conns.remove(name) {
            self.executor.close(conn.id);
        }
    }

    fn switch(&mut self, name: &str) -> io::Result<()> {
        self.current = name.to_owned();
        if self.conns.contains_key(name) {
            return Ok(());
        }
        let id = self.executor.connect()?;
        self.conns.insert(
            name.to_owned(),
            Conn {
                id,
                unread: Vec::new(),
                queued: Vec::new(),
                queued_count: 0,
            },
        );
        if self.protocol == Protocol::Resp3 {
            self.send(&encode(b"HELLO 3")?)?;
            self.frame()?;
        }
        Ok(())
    }

    fn conn(&mut self) -> &mut Conn {
        self.conns
            .get_mut(&self.current)
            .expect("the current connection was opened by `switch`")
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let id = self.conn().id;
        self.executor.send(id, bytes)
    }

    /// Carries out one step.
    pub(super) fn step(&mut self, step: &Step, mode: Mode) -> io::Result<Outcome> {
        let silent = step.expected == [Expected::Nothing];
        match &step.action {
            Action::Command(command) => {
                let command = encode(&self.expand(command)?)?;
                let conn = self.conn();
                let mut bytes = std::mem::take(&mut conn.queued);
                let replies = std::mem::take(&mut conn.queued_count) + 1;
                bytes.extend_from_slice(&command);
                self.send(&bytes)?;
                self.read(if silent { 0 } else { replies }, step.sorted)
            }
            Action::Queue(command) => {
                let command = encode(&self.expand(command)?)?;
                let conn = self.conn();
                conn.queued.extend_from_slice(&command);
                conn.queued_count += 1;
                Ok(Outcome::default())
            }
            Action::Raw(text) => {
                let bytes = words(&self.expand(text)?)?.concat();
                self.send(&bytes)?;
                match mode {
                    Mode::Compare => {
                        self.read_lines(if silent { 0 } else { step.expected.len() }, step.sorted)
                    }
                    Mode::Record => self.read_until_silent(step.sorted),
                }
            }
            Action::Read => self.read(1, step.sorted),
            Action::Conn(name) => self.switch(name).map(|()| Outcome::default()),
            Action::Closed => self.expect_closed(),
            Action::Advance(time) => {
                self.executor.advance(*time);
                Ok(Outcome::default())
            }
            Action::Blocked(clients) => self.until_blocked(*clients).map(|()| Outcome::default()),
            Action::Let(name) => {
                let value = scalar(&self.last)
                    .ok_or_else(|| io::Error::other("the last reply is not a scalar"))?;
                self.variables.insert(name.clone(), value);
                Ok(Outcome::default())
            }
        }
    }

    /// Asks on a connection of its own until so many clients wait: a command that has been sent need not have arrived.
    fn until_blocked(&mut self, clients: usize) -> io::Result<()> {
        let before = std::mem::replace(&mut self.current, "setup".to_owned());
        let wanted = format!("\r\nblocked_clients:{clients}\r\n");
        let give_up = Instant::now() + PATIENCE;
        self.switch("setup")?;
        loop {
            self.send(&encode(b"INFO clients")?)?;
            let info = self.frame()?;
            if info
                .windows(wanted.len())
                .any(|part| part == wanted.as_bytes())
            {
                break;
            }
            if Instant::now() > give_up {
                return Err(io::Error::other(format!("not {clients} clients wait")));
            }
            std::thread::sleep(POLL);
        }
        self.close("setup");
        self.current = before;
        Ok(())
    }

    fn read(&mut self, replies: usize, sorted: bool) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        for _ in 0..replies {
            let frame = self.frame()?;
            outcome
                .lines
                .extend(render(&frame, sorted).map_err(io::Error::other)?);
            self.last = frame;
        }
        Ok(outcome)
    }

    /// Reads replies until they fill `lines` lines.
    fn read_lines(&mut self, lines: usize, sorted: bool) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        while outcome.lines.len() < lines {
            outcome.lines.extend(self.read(1, sorted)?.lines);
        }
        Ok(outcome)
    }

    fn read_until_silent(&mut self, sorted: bool) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        loop {
            let id = self.conn().id;
            match self.executor.receive(id, SILENCE)? {
                Received::Bytes(bytes) => self.conn().unread.extend_from_slice(&bytes),
                Received::Quiet => break,
                Received::Closed => {
                    outcome.closed = true;
                    break;
                }
            }
        }
        let unread = std::mem::take(&mut self.conn().unread);
        outcome.lines = render(&unread, sorted).map_err(io::Error::other)?;
        Ok(outcome)
    }

    /// Reads the bytes of one reply.
    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut skipper = FrameSkipper::default();
        loop {
            let conn = self.conn();
            if let Some(len) = skipper.advance(&conn.unread).map_err(io::Error::other)? {
                return Ok(conn.unread.drain(..len).collect());
            }
            let id = conn.id;
            match self.executor.receive(id, PATIENCE)? {
                Received::Bytes(bytes) => self.conn().unread.extend_from_slice(&bytes),
                Received::Quiet => return Err(io::Error::other("no reply came")),
                Received::Closed => return Err(io::Error::other("the connection was closed")),
            }
        }
    }

    fn expect_closed(&mut self) -> io::Result<Outcome> {
        let conn = self.conn();
        let (id, unread) = (conn.id, conn.unread.len());
        if unread > 0 {
            return Err(io::Error::other(format!(
                "{unread} further bytes came before the end"
            )));
        }
        match self.executor.receive(id, PATIENCE)? {
            Received::Closed => {
                let name = self.current.clone();
                self.close(&name);
                // Whoever goes on without `@conn` uses a fresh connection.
                self.switch(&name)?;
                Ok(Outcome::default())
            }
            Received::Quiet => Err(io::Error::other("the connection stays open")),
            Received::Bytes(bytes) => Err(io::Error::other(format!(
                "instead of the end came {}",
                bytes.escape_ascii()
            ))),
        }
    }

    /// Replaces `${name}` by what `@let` kept, and `${text*COUNT}` by COUNT copies of a text.
    fn expand(&self, command: &str) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut rest = command;
        while let Some((before, tail)) = rest.split_once("${") {
            let (inner, behind) = tail
                .split_once('}')
                .ok_or_else(|| io::Error::other("${ without }"))?;
            out.extend_from_slice(before.as_bytes());
            match inner
                .split_once('*')
                .and_then(|(text, count)| Some((text, count.parse::<usize>().ok()?)))
            {
                Some((text, count)) if text.len().saturating_mul(count) <= MAX_REPEATED => {
                    out.extend_from_slice(text.repeat(count).as_bytes())
                }
                Some(_) => return Err(io::Error::other(format!("${{{inner}}} is too long"))),
                None => out.extend_from_slice(
                    self.variables
                        .get(inner)
                        .ok_or_else(|| io::Error::other(format!("nothing was kept as {inner}")))?,
                ),
            }
            rest = behind;
        }
        out.extend_from_slice(rest.as_bytes());
        Ok(out)
    }
}

/// The words of a line, unquoted.
fn words(line: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    split_line(line, |word| words.push(word.to_vec()))
        .map_err(|_| io::Error::other("the quotes do not match"))?;
    Ok(words)
}

/// The command line as a multibulk request.
fn encode(command: &[u8]) -> io::Result<Vec<u8>> {
    let words = words(command)?;
    let mut bytes = Vec::new();
    write_command(
        &mut bytes,
        &words.iter().map(Vec::as_slice).collect::<Vec<_>>(),
    );
    Ok(bytes)
}

/// The text of a reply that is one value.
fn scalar(frame: &[u8]) -> Option<Vec<u8>> {
    let end = frame.windows(2).position(|pair| pair == b"\r\n")?;
    match frame.first()? {
        b'$' => Some(frame.get(end + 2..frame.len() - 2)?.to_vec()),
        b'*' => {
            // The first element: the cursor of a scan.
            scalar(&frame[end + 2..][..tollgate_wire::resp::frame_len(&frame[end + 2..]).ok()??])
        }
        b'+' | b':' | b',' => Some(frame[1..end].to_vec()),
        _ => None,
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Command(command) => write!(f, "> {command}"),
            Action::Queue(command) => write!(f, ">> {command}"),
            Action::Raw(text) => write!(f, "raw {text}"),
            Action::Read => f.write_str("@read"),
            Action::Conn(name) => write!(f, "@conn {name}"),
            Action::Closed => f.write_str("@closed"),
            Action::Advance(time) => write!(f, "@advance {}", time.as_millis()),
            Action::Blocked(clients) => write!(f, "@blocked {clients}"),
            Action::Let(name) => write!(f, "@let {name}"),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Exact(line) => f.write_str(line),
            Expected::Pattern(line) => write!(f, "~ {line}"),
            Expected::Rest => f.write_str("..."),
            Expected::Nothing => f.write_str("(no reply)"),
        }
    }
}
