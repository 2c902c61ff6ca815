//! Command scripts: what a client sends, and the exact bytes it gets back, as text.
//!
//! A script is a file `tests/scripts/<family>/<name>.resp`. `tests/scripts/README.md` describes the format for authors; in short:
//!
//! ```text
//! == expiry is kept by INCR                a section: empty keyspace, new connections
//! > SET k 1 EX 100                         a command, quoted as for redis-cli
//! < +OK                                    its reply
//! > TTL k
//! <~ :{98..100}                            a reply with a volatile part
//! > MGET k none
//! < *2
//! <   $"1"
//! <   $-1
//! ```
//!
//! Each script runs in process, on a one-shard and a many-shard server and on a real redis-server. The expected lines are not
//! written by hand: `cargo xtask scripts --record FILE` takes them from redis-server.

mod parse;
mod pattern;
mod peer;
mod record;
mod render;
mod run;
mod tcp;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use parse::{Action, ParseError, Section, Step};
pub use peer::{Peer, Product, Release};
pub use record::record;
pub use render::render;
pub use run::{Failure, Report, run};
pub use tcp::TcpExecutor;

pub use crate::client::Received;
use std::time::Duration;

/// Something that takes the bytes of connections and gives back theirs: a store in process, or a server.
pub trait Executor {
    /// What it is.
    fn peer(&self) -> Peer;

    /// Opens a connection; returns its number.
    fn connect(&mut self) -> io::Result<usize>;

    /// Closes a connection.
    fn close(&mut self, conn: usize);

    /// Sends bytes; they may hold several commands, or part of one.
    fn send(&mut self, conn: usize, bytes: &[u8]) -> io::Result<()>;

    /// What the connection gives next, within `patience`. In process nothing ever comes later, so the answer is immediate.
    fn receive(&mut self, conn: usize, patience: Duration) -> io::Result<Received>;

    /// Lets time pass: in process by moving the clock, on a server by waiting.
    fn advance(&mut self, time: Duration);
}

/// A parsed script.
#[derive(Clone, Debug)]
pub struct Script {
    /// Where it was read.
    pub path: PathBuf,
    /// Its sections, in order.
    pub sections: Vec<Section>,
}

impl Script {
    /// Parses the text of a script.
    pub fn parse(path: &Path, text: &str) -> Result<Script, ParseError> {
        Ok(Script {
            path: path.to_path_buf(),
            sections: parse::sections(path, text)?,
        })
    }

    /// Reads a script file.
    pub fn read(path: &Path) -> io::Result<Script> {
        Script::parse(path, &fs::read_to_string(path)?).map_err(io::Error::other)
    }
}

/// Folder of the scripts.
#[must_use]
pub fn folder() -> PathBuf {
    crate::repo_root().join("tests/scripts")
}

/// Paths of all scripts, sorted.
pub fn list() -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder()];
    while let Some(dir) = folders.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "resp")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Commands that the scripts send, as the command table writes names: `GET`, and for any command with a second word also
/// `CLIENT|ID`. Upper case.
pub fn commands_used() -> io::Result<BTreeSet<String>> {
    let mut used = BTreeSet::new();
    for path in list()? {
        for section in Script::read(&path)?.sections {
            for step in section.steps {
                let (Action::Command(line) | Action::Queue(line)) = step.action else {
                    continue;
                };
                let mut words = line.split_ascii_whitespace().map(str::to_ascii_uppercase);
                let Some(name) = words.next() else { continue };
                if let Some(second) = words.next() {
                    used.insert(format!("{name}|{second}"));
                }
                used.insert(name);
            }
        }
    }
    Ok(used)
}

/// Runs every script on `executor`.
///
/// # Panics
/// With every failure listed, if any script fails, cannot be read, or if there are no scripts.
pub fn run_all(executor: &mut dyn Executor) {
    let paths = list().expect("the script folder can be read");
    assert!(!paths.is_empty(), "no scripts in {}", folder().display());
    let mut commands = 0;
    let mut problems = Vec::new();
    for path in &paths {
        match Script::read(path) {
            Ok(script) => {
                let report = run(&script, executor);
                commands += report.commands;
                problems.extend(report.failures.iter().map(ToString::to_string));
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    assert!(
        commands > 0,
        "every section is skipped on {}",
        executor.peer()
    );
    assert!(
        problems.is_empty(),
        "{} of {commands} steps failed on {}:\n\n{}",
        problems.len(),
        executor.peer(),
        problems.join("\n")
    );
}
