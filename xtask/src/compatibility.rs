//! `compatibility`: runs every command script on redis-server and on Tollgate, and writes what came of it, command by
//! command, to `docs/compatibility.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;

use tollgate_testkit::script::{self, Action, Peer, Script, TcpExecutor};
use tollgate_testkit::{Client, Server, repo_root};
use tollgate_wire::resp::Value;

use crate::Failure;

/// What the scripts show of one command.
#[derive(Default)]
struct Shown {
    /// Steps that both servers answered with the expected bytes.
    equal: usize,
    /// Steps that only Tollgate runs, answered as expected.
    alone: usize,
    /// Steps that a server answered otherwise.
    failed: usize,
}

/// What a server says of its commands: name (sub-commands as `CLIENT|KILL`) to group and version.
type Commands = BTreeMap<String, (String, String)>;

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err("usage: cargo xtask compatibility".into());
    }
    let redis = Server::redis(&[])?
        .ok_or("redis-server is neither on PATH nor in .peers: cargo xtask peers")?;
    let tollgate = Server::tollgate(&[])?;
    let theirs = commands(&redis)?;
    let ours = commands(&tollgate)?;
    let failed = [
        failures(&mut TcpExecutor::new(Peer::Redis, redis.addr()))?,
        failures(&mut TcpExecutor::new(Peer::Tollgate, tollgate.addr()))?,
    ];
    let shown = count(&ours, &failed)?;
    let path = repo_root().join("docs/compatibility.md");
    fs::write(&path, render(&version(&redis)?, &theirs, &ours, &shown)?)?;
    let steps: usize = failed.iter().map(BTreeSet::len).sum();
    println!("{}: {steps} steps failed", path.display());
    Ok(())
}

fn version(server: &Server) -> io::Result<String> {
    let info = text(&server.connect()?.call(&["INFO", "server"])?);
    let version = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"));
    Ok(version.unwrap_or_default().trim().to_owned())
}

fn commands(server: &Server) -> io::Result<Commands> {
    let mut client = server.connect()?;
    let mut found = Commands::new();
    let Value::Array(names) = client.call(&["COMMAND", "LIST"])? else {
        return Err(io::Error::other("COMMAND LIST gives no list"));
    };
    for name in names {
        let name = text(&name);
        let (group, since) = documented(&mut client, &name)?;
        found.insert(name.to_ascii_uppercase(), (group, since));
    }
    Ok(found)
}

/// Group and version of a command.
fn documented(client: &mut Client, name: &str) -> io::Result<(String, String)> {
    let Value::Array(docs) = client.call(&["COMMAND", "DOCS", name])? else {
        return Err(io::Error::other("COMMAND DOCS gives no list"));
    };
    let fields = match docs.get(1) {
        Some(Value::Array(fields)) => fields.as_slice(),
        _ => &[],
    };
    let field = |wanted: &str| {
        fields
            .chunks(2)
            .find(|pair| text(&pair[0]) == wanted)
            .and_then(|pair| pair.get(1))
            .map(text)
            .unwrap_or_default()
    };
    Ok((field("group"), field("since")))
}

fn text(value: &Value) -> String {
    let bytes = match value {
        Value::Simple(bytes) | Value::Error(bytes) | Value::Bulk(bytes) => bytes.as_slice(),
        _ => &[],
    };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where steps did not give what is expected: file and line.
fn failures(executor: &mut TcpExecutor) -> Result<BTreeSet<(PathBuf, usize)>, Failure> {
    let mut failed = BTreeSet::new();
    for path in script::list()? {
        let report = script::run(&Script::read(&path)?, executor);
        for failure in &report.failures {
            println!("{failure}");
            failed.insert((failure.path.clone(), failure.line));
        }
    }
    Ok(failed)
}

/// Counts the steps of each command.
fn count(
    ours: &Commands,
    failed: &[BTreeSet<(PathBuf, usize)>; 2],
) -> Result<BTreeMap<String, Shown>, Failure> {
    let mut shown: BTreeMap<String, Shown> = BTreeMap::new();
    for path in script::list()? {
        for section in Script::read(&path)?.sections {
            for step in &section.steps {
                let (Action::Command(line) | Action::Queue(line)) = &step.action else {
                    continue;
                };
                let Some(name) = name_of(line, ours) else {
                    continue;
                };
                let command = shown.entry(name).or_default();
                let place = (path.clone(), step.line);
                match &section.only {
                    _ if failed.iter().any(|failed| failed.contains(&place)) => command.failed += 1,
                    None if section.since.is_empty() => command.equal += 1,
                    None | Some((Peer::Tollgate, _)) => command.alone += 1,
                    Some(_) => {}
                }
            }
        }
    }
    Ok(shown)
}

/// The command that a line of a script calls, with its sub-command if it has one.
fn name_of(line: &str, ours: &Commands) -> Option<String> {
    let mut words = line.split_ascii_whitespace().map(str::to_ascii_uppercase);
    let name = words.next()?;
    let sub = words.next().map(|word| format!("{name}|{word}"));
    sub.filter(|sub| ours.contains_key(sub))
        .or_else(|| ours.contains_key(&name).then_some(name))
}

fn render(
    version: &str,
    theirs: &Commands,
    ours: &Commands,
    shown: &BTreeMap<String, Shown>,
) -> Result<String, std::fmt::Error> {
    let both = theirs
        .keys()
        .filter(|name| ours.contains_key(*name))
        .count();
    let steps: usize = shown.values().map(|command| command.equal).sum();
    let mut page = String::from("# Compatibility with Redis\n\n");
    writeln!(
        page,
        "Written by `cargo xtask compatibility`, which runs the command scripts of `tests/scripts/` on redis-server {version} and on Tollgate.\n\n\
         * {both} of the {} commands and sub-commands of redis-server {version} are here; {} more are newer than it or Tollgate's own.\n\
         * {steps} steps of the scripts have the same bytes as reply on both servers.\n\
         * Deliberate differences are in [differences.md](differences.md), what each command takes in [commands.md](commands.md).\n\n\
         *equal* counts the steps in which both servers gave the same bytes, *alone* those that only Tollgate can run: newer commands and options, \
         deliberate differences. *failed* would be a step whose reply is not the expected one.",
        theirs.len(),
        ours.len() - both,
    )?;
    let groups: BTreeSet<&str> = ours.values().map(|(group, _)| group.as_str()).collect();
    for group in groups {
        write!(
            page,
            "\n## {group}\n\n| command | since | equal | alone | failed |\n|---|---|---|---|---|\n"
        )?;
        for (name, (_, since)) in ours.iter().filter(|(_, (of, _))| of == group) {
            let none = Shown::default();
            let command = shown.get(name).unwrap_or(&none);
            let name = name.replace('|', " ");
            writeln!(
                page,
                "| {name} | {since} | {} | {} | {} |",
                command.equal, command.alone, command.failed
            )?;
        }
    }
    let absent: Vec<&String> = theirs
        .keys()
        .filter(|name| !ours.contains_key(*name))
        .collect();
    if !absent.is_empty() {
        page.push_str(
            "\n## Commands of the reference that are not here\n\nThey answer `unknown command`.\n\n",
        );
        for name in absent {
            writeln!(page, "* {}", name.replace('|', " "))?;
        }
    }
    Ok(page)
}
