//! `benchmarks`: redis-benchmark on redis-server and on Tollgate in turn, written to `docs/benchmarks.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use tollgate_testkit::{Server, peers, repo_root};

use crate::{Failure, agreement, runs, services};

/// The command lines, without host, port and output format.
const LINES: &[&str] = &[
    "-t ping,set,get -n 10000",
    "-t set,get,incr,lpush,lpop,sadd,hset,spop,zadd,zpopmin,lrange,mset -n 50000 -c 50 -d 100",
    "-n 100000 -c 50 -t set,get,incr,lpush,lpop,sadd,hset",
];

/// Rounds: in each both servers are measured, in turn the one or the other first.
pub(crate) const ROUNDS: usize = 3;

/// Kernel clock ticks per second, in which `/proc` counts CPU time; 100 on every Linux that this runs on.
pub(crate) const TICKS: f64 = 100.0;

/// Requests of a quick run, by those of the page: enough to see that everything works, and its figures say nothing.
const QUICK_PART: u64 = 100;
/// Fewest requests of a quick run.
const QUICK_MIN: u64 = 200;
/// Where the page goes, and where that of a quick run does, which is no part of the repository.
const PAGE: &str = "docs/benchmarks.md";
const PAGE_QUICK: &str = "target/benchmark-runs/benchmarks.md";

/// How many requests are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// As many as the page is made with.
    Full,
    /// Few.
    Quick,
}

impl Size {
    /// A number of requests.
    pub(crate) fn of(self, requests: u64) -> u64 {
        match self {
            Size::Full => requests,
            Size::Quick => (requests / QUICK_PART).max(QUICK_MIN),
        }
    }

    /// A command line with its `-n` in this size.
    pub(crate) fn line(self, line: &str) -> String {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let number = words.iter().position(|word| word == "-n").map(|at| at + 1);
        if let Some(word) = number.and_then(|at| words.get_mut(at))
            && let Ok(requests) = word.parse()
        {
            *word = self.of(requests).to_string();
        }
        words.join(" ")
    }
}

/// The figures of one server on one command line.
#[derive(Default)]
struct Figures {
    /// Requests per second of each test, a value a round, in the order in which redis-benchmark prints the tests.
    rates: Vec<(String, Vec<f64>)>,
    /// CPU seconds of the server, a value a round.
    cpu: Vec<f64>,
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let redis = || -> Result<Server, Failure> {
        let found = Server::redis(&[])?;
        Ok(found.ok_or("redis-server is neither on PATH nor in .peers: cargo xtask peers")?)
    };
    let size = match args {
        [] => Size::Full,
        [only] if only == "--quick" => Size::Quick,
        // A look at the generator, which changes no page.
        [only] if only == "generator" => {
            let mut section = String::new();
            agreement::section(&mut section, &agreement::redis()?, Size::Full)?;
            println!("{section}");
            return Ok(());
        }
        [first] if first == "services" => return services::run(false),
        [first, quick] if first == "services" && quick == "--quick" => return services::run(true),
        [first, rest @ ..] if first == "runs" => return runs::run(rest),
        _ => {
            return Err(
                "usage: cargo run --release -p xtask -- benchmarks [--quick | generator | services [--quick] | runs ...]".into(),
            );
        }
    };
    if cfg!(debug_assertions) && size == Size::Full {
        return Err(
            "an unoptimised server says nothing: cargo run --release -p xtask -- benchmarks".into(),
        );
    }
    let redis = redis()?;
    let tollgate = Server::tollgate(&["--threads", "1"])?;
    let mut page = head(&redis)?;
    for line in LINES.iter().map(|line| size.line(line)) {
        let (mut theirs, mut ours) = (Figures::default(), Figures::default());
        for round in 0..ROUNDS {
            let mut turns = [(&redis, &mut theirs), (&tollgate, &mut ours)];
            if round % 2 == 1 {
                turns.reverse();
            }
            for (server, figures) in turns {
                measure(server, &line, figures)?;
                println!(
                    "{line}: round {} of {ROUNDS} on {}",
                    round + 1,
                    server.addr()
                );
            }
        }
        table(&mut page, &line, &theirs, &ours)?;
    }
    drop(tollgate);
    drop(redis);
    agreement::section(&mut page, &agreement::redis()?, size)?;
    let path = repo_root().join(match size {
        Size::Full => PAGE,
        Size::Quick => PAGE_QUICK,
    });
    fs::create_dir_all(path.parent().ok_or("the page has no folder")?)?;
    fs::write(&path, page)?;
    println!("{}", path.display());
    Ok(())
}

fn head(redis: &Server) -> Result<String, Failure> {
    let info = redis.connect()?.call(&["INFO", "server"])?;
    let info = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let cpus = std::thread::available_parallelism()?;
    Ok(format!(
        "# redis-benchmark on Redis and on Tollgate\n\n\
         Written by `cargo run --release -p xtask -- benchmarks`: redis-server {} and Tollgate with one thread, on the same machine ({cpus} CPUs, {}), \
         persistence off. Each command line ran {ROUNDS} times on each server, in turn the one or the other first. *Rate* is the median of what redis-benchmark \
         reports, in requests per second; it is the generator's limit as much as the server's. *Ratio* is Tollgate by Redis within a round: median [least-most]. \
         The last line of each table compares the CPU time that the server spent on the whole command line: Redis by Tollgate, so above 1 Tollgate needs less.\n\n\
         {}\n",
        field("redis_version:"),
        field("os:").split('-').next().unwrap_or_default(),
        runs::pointer(),
    ))
}

/// One run of redis-benchmark.
fn measure(server: &Server, line: &str, figures: &mut Figures) -> Result<(), Failure> {
    let program =
        peers::find("redis-benchmark").ok_or("needs redis-benchmark: cargo xtask peers")?;
    server.connect()?.call(&["FLUSHALL"])?;
    let before = cpu_seconds(server)?;
    let output = Command::new(program)
        .args(["-h", "127.0.0.1", "-p", &server.addr().port().to_string()])
        .args(line.split(' '))
        .arg("--csv")
        .stdin(Stdio::null())
        .output()?;
    figures.cpu.push(cpu_seconds(server)? - before);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let text = String::from_utf8(output.stdout)?;
    for row in text.lines().skip(1) {
        let mut cells = row.split("\",\"").map(|cell| cell.trim_matches('"'));
        let (Some(test), Some(rate)) = (cells.next(), cells.next()) else {
            continue;
        };
        let rate: f64 = rate.parse()?;
        match figures.rates.iter_mut().find(|(name, _)| name == test) {
            Some((_, rates)) => rates.push(rate),
            None => figures.rates.push((test.to_owned(), vec![rate])),
        }
    }
    Ok(())
}

/// CPU time of the server so far, user and system.
pub(crate) fn cpu_seconds(server: &Server) -> Result<f64, Failure> {
    cpu_of(server.pid())
}

/// CPU time of a process so far, user and system.
pub(crate) fn cpu_of(pid: u32) -> Result<f64, Failure> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<f64>)
        .sum::<Result<f64, _>>()?;
    Ok(ticks / TICKS)
}

fn table(page: &mut String, line: &str, theirs: &Figures, ours: &Figures) -> Result<(), Failure> {
    write!(
        page,
        "\n## `redis-benchmark {line}`\n\n| test | Redis | Tollgate | ratio |\n|---|---|---|---|\n"
    )?;
    let ours_by_name: BTreeMap<&str, &Vec<f64>> = ours
        .rates
        .iter()
        .map(|(name, rates)| (name.as_str(), rates))
        .collect();
    for (name, rates) in &theirs.rates {
        let other = ours_by_name
            .get(name.as_str())
            .ok_or_else(|| format!("Tollgate did not finish {name}"))?;
        let ratios = ratios(other, rates);
        writeln!(
            page,
            "| {name} | {:.0} | {:.0} | {} |",
            median(rates),
            median(other),
            spread(&ratios)
        )?;
    }
    writeln!(
        page,
        "| *server CPU, Redis by Tollgate* | {:.2} s | {:.2} s | {} |",
        median(&theirs.cpu),
        median(&ours.cpu),
        spread(&ratios(&theirs.cpu, &ours.cpu))
    )?;
    Ok(())
}

/// `a` by `b`, round by round.
pub(crate) fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{:.2} [{least:.2}-{most:.2}]", median(values))
}
