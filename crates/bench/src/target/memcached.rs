//! A memcached server under test: started or found, asked in its text protocol.

use std::io::{BufRead, BufReader, Write};

use super::child::ServerProcess;
use super::client::{ANSWER_TIMEOUT, unanswered};
use super::further::Further;
use super::program::Program;
use super::url::TargetUrl;
use super::{Way, started};
use crate::load::address::Endpoint;
use crate::load::memcache::MemcacheAsk;
use crate::load::operation::Op;
use crate::load::workload::{Rule, VALUE_LENGTH};
use crate::os::proc;
use crate::record::{Setting, TargetKind, TargetRecord};

/// Most lines of `stats` that are read.
const STATS_LINES_MAX: usize = 1_000;
/// Longest line of an answer.
const LINE_MAX: u64 = 2_048;
/// Figures of `stats settings` that are recorded because they decide whether a comparison is fair.
const SETTINGS: [&str; 4] = ["maxbytes", "maxconns", "num_threads", "evictions"];

/// A memcached server ready to be measured.
#[derive(Debug)]
pub struct Memcached {
    /// How it appears in the report.
    pub record: TargetRecord,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its process, when it runs on this machine.
    pub pid: Option<u32>,
    process: Option<ServerProcess>,
    ops: Vec<Op>,
}

/// What is asked for `op`; `None` where memcached has nothing like it.
#[must_use]
pub(crate) fn ask(op: Op, rule: Rule) -> Option<MemcacheAsk> {
    match op.name() {
        "counter" => Some(MemcacheAsk::Counter(rule)),
        "get" => Some(MemcacheAsk::Get),
        "set" => Some(MemcacheAsk::Set(VALUE_LENGTH)),
        "incr" => Some(MemcacheAsk::Incr),
        "touch" => Some(MemcacheAsk::Touch),
        _ => None,
    }
}

impl Memcached {
    /// Starts `memcached` with `threads` threads and what it is given `further`, on processor `core` if one is given.
    pub(crate) fn start(
        threads: u32,
        core: Option<usize>,
        further: &Further,
    ) -> Result<Memcached, String> {
        let started = started::start(Program::Memcached, threads, core, further, answers)?;
        let pid = started.process.pid();
        Memcached::ask_around(
            started.record,
            started.endpoint,
            Some(pid),
            Some(started.process),
        )
    }

    /// Takes a server that is running already.
    pub(crate) fn attach(url: &TargetUrl) -> Result<Memcached, String> {
        let local = url.endpoint.address.is_local();
        let stats = stats(&url.endpoint, "stats")?;
        let pid = stats
            .iter()
            .find(|(name, _)| name == "pid" && local)
            .and_then(|(_, pid)| pid.parse().ok())
            // A process id from inside a container names some other process here, or none.
            .filter(|pid| proc::cpu_ns(*pid).is_some());
        let record = TargetRecord {
            name: url.name.clone(),
            url: url.shown.clone(),
            co_located: local,
            idle_rss_bytes: pid.and_then(proc::rss_bytes),
            ..TargetRecord::default()
        };
        Memcached::ask_around(record, url.endpoint.clone(), pid, None)
    }

    fn ask_around(
        mut record: TargetRecord,
        endpoint: Endpoint,
        pid: Option<u32>,
        process: Option<ServerProcess>,
    ) -> Result<Memcached, String> {
        record.kind = TargetKind::Store;
        record.server_name = "memcached".into();
        record.server_version = version(&endpoint)?;
        // A proxy in front of memcached may not know its settings; nothing else depends on them.
        let settings = stats(&endpoint, "stats settings").unwrap_or_default();
        for (name, value) in settings {
            if SETTINGS.contains(&name.as_str()) {
                record.settings.push(Setting { name, value });
            }
        }
        Ok(Memcached {
            record,
            endpoint,
            pid,
            process,
            ops: vec![Op::Command("counter")],
        })
    }

    /// Asks for `ops` from now on; returns those that memcached does not have.
    pub(crate) fn choose(&mut self, ops: &[Op]) -> Vec<(Op, String)> {
        let rule = Rule {
            limit: 1,
            window_s: 1,
        };
        let mut missing = Vec::new();
        self.ops.clear();
        for &op in ops {
            // The counter is the nearest thing to a decision that memcached has.
            let op = match op {
                Op::Native => Op::Command("counter"),
                other => other,
            };
            match op {
                op if self.ops.contains(&op) => {}
                op if ask(op, rule).is_some() => self.ops.push(op),
                op => missing.push((op, "memcached has no such operation".into())),
            }
        }
        missing
    }

    /// The ways in which it is asked.
    #[must_use]
    pub(crate) fn ways(&self) -> Vec<Way> {
        self.ops.iter().map(|op| Way::Op(*op)).collect()
    }

    /// Starts it anew in place of the process that was started here. `None` if it was not.
    pub(crate) fn restart(&mut self) -> Option<Result<(), String>> {
        let process = self.process.as_mut()?;
        let endpoint = &self.endpoint;
        let done = process.restart(|| answers(endpoint));
        self.pid = Some(process.pid());
        Some(done)
    }

    /// How the process ended, if it was started here and has ended.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        self.process.as_mut().and_then(ServerProcess::obituary)
    }
}

/// Whether memcached answers there.
fn answers(endpoint: &Endpoint) -> bool {
    version(endpoint).is_ok()
}

fn version(endpoint: &Endpoint) -> Result<String, String> {
    let mut version = String::new();
    question(endpoint, "version", |line| {
        version = line.strip_prefix("VERSION ").unwrap_or_default().to_owned();
        false
    })?;
    if version.is_empty() {
        return Err("it does not answer version as memcached does".into());
    }
    Ok(version)
}

fn stats(endpoint: &Endpoint, what: &str) -> Result<Vec<(String, String)>, String> {
    let (mut found, mut lines) = (Vec::new(), 0);
    question(endpoint, what, |line| {
        lines += 1;
        if let Some((name, value)) = line
            .strip_prefix("STAT ")
            .and_then(|rest| rest.split_once(' '))
        {
            found.push((name.to_owned(), value.to_owned()));
        }
        line.starts_with("STAT ") && lines < STATS_LINES_MAX
    })?;
    Ok(found)
}

/// Asks `what` and hands over the lines of the answer as long as `more` wants them.
fn question(
    endpoint: &Endpoint,
    what: &str,
    mut more: impl FnMut(&str) -> bool,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{what}: {}", unanswered(&error));
    let mut socket = endpoint.reach()?;
    socket.set_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
    socket
        .write_all(format!("{what}\r\n").as_bytes())
        .map_err(failed)?;
    let mut input = BufReader::new(socket);
    loop {
        let mut line = Vec::new();
        let read = std::io::Read::take(&mut input, LINE_MAX)
            .read_until(b'\n', &mut line)
            .map_err(failed)?;
        if read == 0 || line.last() != Some(&b'\n') {
            return Err(format!("{what}: the answer broke off"));
        }
        if !more(String::from_utf8_lossy(&line).trim_end()) {
            return Ok(());
        }
    }
}
