//! Study 004: its three redis-benchmark command lines, by our closed loop and by the real redis-benchmark.
//!
//! Both generators are child processes with the same options and the same CSV, so that one reader serves both and neither
//! is measured with the bench's own work in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::beside::{self, ratio};
use super::{Study, seeds};
use crate::load::address::{Address, Endpoint};
use crate::record::attribution::Role;
use crate::record::paper::{PaperFigures, PaperRow, PaperTable};
use crate::run::attribution::{Look, Watched};
use crate::run::console::Console;
use crate::target::Store;
use crate::target::program::{self, Program};

/// The study's command lines, without address and form of output.
const LINES: [(&str, &[&str]); 3] = [
    ("test 1", &["-t", "ping,set,get", "-n", "10000"]),
    (
        "test 2",
        &[
            "-t",
            "set,get,incr,lpush,lpop,sadd,hset,spop,zadd,zpopmin,lrange,mset",
            "-n",
            "50000",
            "-c",
            "50",
            "-d",
            "100",
        ],
    ),
    (
        "test 3",
        &[
            "-n",
            "100000",
            "-c",
            "50",
            "-t",
            "set,get,incr,lpush,lpop,sadd,hset",
        ],
    ),
];
/// Longest run of one command line before it is ended.
const LINE_MAX: Duration = Duration::from_secs(900);
/// Time between two looks at a running generator.
const LOOK: Duration = Duration::from_millis(50);
/// Largest output read: thousands of times what a command line prints.
const OUTPUT_MAX: u64 = 4 * 1024 * 1024;

/// One of the two generators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Driver {
    /// Name in tables.
    title: &'static str,
    exe: PathBuf,
    /// Words before the options.
    words: &'static [&'static str],
}

/// The generators that are there: ours, and redis-benchmark where it is installed.
#[must_use]
pub(crate) fn drivers() -> Vec<Driver> {
    let ours = Program::Tollgate.locate().map(|exe| Driver {
        title: "our generator",
        exe,
        words: &["bench", "redis", "--pin", "none"],
    });
    let theirs = program::on_path("redis-benchmark").map(|exe| Driver {
        title: "redis-benchmark",
        exe,
        words: &[],
    });
    ours.into_iter().chain(theirs).collect()
}

/// Runs every command line with every generator on every store, and returns the tables with what went wrong. `requests`
/// replaces the study's number of requests.
pub(crate) fn run(
    stores: &[Store],
    drivers: &[Driver],
    requests: Option<u64>,
    console: &mut Console,
    stop: &AtomicBool,
) -> (Vec<PaperTable>, Vec<String>) {
    let (mut tables, mut wrong) = (Vec::new(), Vec::new());
    for (id, line) in LINES {
        for driver in drivers {
            for store in stores {
                if stop.load(Ordering::Relaxed) {
                    wrong.push("interrupted".into());
                    return (tables, wrong);
                }
                let title = format!("{} · {}", store.record.name, driver.title);
                console.phase(format!("{id} · {title}"));
                let words = arguments(line, requests);
                match measure(driver, &words, store, stop) {
                    Ok((rows, limit)) => {
                        tables.push(table(id, line, &title, &rows, requests, limit))
                    }
                    Err(why) => {
                        console.note(&format!("error: {id} · {title}: {why}"));
                        wrong.push(format!("{id} · {title}: {why}"));
                    }
                }
            }
        }
    }
    (tables, wrong)
}

/// The line's options, with another number of requests if one is given.
fn arguments(line: &[&str], requests: Option<u64>) -> Vec<String> {
    let mut words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
    if let Some(requests) = requests
        && let Some(at) = words.iter().position(|word| word == "-n")
        && let Some(number) = words.get_mut(at + 1)
    {
        *number = requests.to_string();
    }
    words
}

/// One row of the CSV.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    title: String,
    rps: f64,
    mean_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
}

fn measure(
    driver: &Driver,
    words: &[String],
    store: &Store,
    stop: &AtomicBool,
) -> Result<(Vec<Row>, Option<String>), String> {
    let output = tempfile(driver)?;
    let child = start(driver, words, &store.endpoint, output.path())?;
    let mut roots = vec![Watched {
        role: Role::Generator,
        name: driver.title.into(),
        pid: child.0.id(),
    }];
    roots.extend(store.pid.map(|pid| Watched {
        role: Role::Store,
        name: store.record.name.clone(),
        pid,
    }));
    let look = Look::start(&roots, LINE_MAX);
    let ended = wait(child, stop);
    let limit = look.end().map(|found| found.sentence);
    ended.map_err(|why| match output.complaint() {
        Some(said) => format!("{why}; it said: {said}"),
        None => why,
    })?;
    let rows = csv(&output.text()?)?;
    Ok((rows, limit))
}

/// Output files of a generator, removed at the end.
struct Output {
    folder: crate::target::child::Folder,
}

fn tempfile(driver: &Driver) -> Result<Output, String> {
    let name = driver.title.replace(' ', "-");
    crate::target::child::Folder::new(&name)
        .map(|folder| Output { folder })
        .map_err(|error| format!("cannot create a temporary folder: {error}"))
}

impl Output {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn text(&self) -> Result<String, String> {
        let path = self.path().join("out.csv");
        let long = std::fs::metadata(&path).is_ok_and(|facts| facts.len() > OUTPUT_MAX);
        if long {
            return Err("it printed more than any of its tests does".into());
        }
        std::fs::read_to_string(&path).map_err(|error| format!("its output: {error}"))
    }

    fn complaint(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.path().join("err.txt")).ok()?;
        let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(last.chars().take(200).collect())
    }
}

/// A running generator; ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(
    driver: &Driver,
    words: &[String],
    endpoint: &Endpoint,
    folder: &Path,
) -> Result<Running, String> {
    let address = match &endpoint.address {
        Address::Tcp(address) => vec![
            "-h".to_owned(),
            address.ip().to_string(),
            "-p".to_owned(),
            address.port().to_string(),
        ],
        Address::Unix(path) => vec!["-s".to_owned(), path.display().to_string()],
    };
    let file = |name: &str| {
        std::fs::File::create(folder.join(name))
            .map_err(|error| format!("cannot write in {}: {error}", folder.display()))
    };
    Command::new(&driver.exe)
        .args(driver.words)
        .args(address)
        .args(words)
        .arg("--csv")
        .stdin(Stdio::null())
        .stdout(file("out.csv")?)
        .stderr(file("err.txt")?)
        .spawn()
        .map(Running)
        .map_err(|error| format!("cannot start {}: {error}", driver.exe.display()))
}

fn wait(mut child: Running, stop: &AtomicBool) -> Result<(), String> {
    let started = Instant::now();
    loop {
        match child.0.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it ended with {status}")),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        if stop.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        if started.elapsed() > LINE_MAX {
            return Err(format!("it did not end within {} s", LINE_MAX.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
}

/// Reads the CSV of redis-benchmark, with the heading of version 7 or without, as version 4 prints it.
fn csv(text: &str) -> Result<Vec<Row>, String> {
    let mut heads: Vec<String> = vec!["test".into(), "rps".into()];
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('"')) {
        let fields: Vec<&str> = line.trim().trim_matches('"').split("\",\"").collect();
        if fields.first() == Some(&"test") {
            heads = fields.iter().map(|head| (*head).to_owned()).collect();
            continue;
        }
        let field = |name: &str| {
            let at = heads.iter().position(|head| head == name)?;
            let value: f64 = fields.get(at)?.parse().ok()?;
            (value.is_finite() && value >= 0.0).then_some(value)
        };
        let rps =
            field("rps").ok_or_else(|| format!("'{line}' is not a row of redis-benchmark"))?;
        rows.push(Row {
            title: fields[0].to_owned(),
            rps,
            mean_ms: field("avg_latency_ms"),
            p95_ms: field("p95_latency_ms"),
            p99_ms: field("p99_latency_ms"),
        });
    }
    if rows.is_empty() {
        return Err("it printed no rows".into());
    }
    Ok(rows)
}

/// Whether `title` is the test that the study calls `name`: later versions say more in brackets.
fn same_test(title: &str, name: &str) -> bool {
    title
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

fn table(
    id: &str,
    line: &[&str],
    title: &str,
    rows: &[Row],
    requests: Option<u64>,
    limit: Option<String>,
) -> PaperTable {
    let printed: Vec<_> = seeds::throughput()
        .iter()
        .filter(|row| row.study == Study::RedisBenchmark.number() && row.table == id)
        .collect();
    let mut out: Vec<PaperRow> = printed
        .iter()
        .map(|seed| {
            let paper = PaperFigures {
                goodput_rps: seed.rps,
                ..PaperFigures::default()
            };
            let ours = rows
                .iter()
                .find(|row| same_test(&row.title, &seed.test))
                .map(figures);
            PaperRow {
                title: seed.test.clone(),
                rate_ratio: ours.and_then(|ours| ratio(ours.goodput_rps, paper.goodput_rps)),
                paper,
                ours,
                ..PaperRow::default()
            }
        })
        .collect();
    let extra = rows
        .iter()
        .filter(|row| !printed.iter().any(|seed| same_test(&row.title, &seed.test)));
    out.extend(extra.map(|row| PaperRow {
        title: row.title.clone(),
        ours: Some(figures(row)),
        ..PaperRow::default()
    }));
    let mut reasons: Vec<String> = limit
        .map(|limit| format!("Here: {limit}."))
        .into_iter()
        .collect();
    if let Some(requests) = requests {
        reasons.push(format!(
            "Shortened to {requests} requests a test; the study sent {}.",
            line.iter()
                .position(|word| *word == "-n")
                .and_then(|at| line.get(at + 1))
                .unwrap_or(&"more")
        ));
    }
    PaperTable {
        id: id.into(),
        paper: format!("redis-rust 0.1.0, redis-benchmark {}", line.join(" ")),
        ours: Some(title.into()),
        rows: out,
        not_comparable: reasons,
    }
}

fn figures(row: &Row) -> PaperFigures {
    PaperFigures {
        goodput_rps: Some(row.rps),
        mean_ms: row.mean_ms,
        p95_ms: row.p95_ms,
        p99_ms: row.p99_ms,
        ..PaperFigures::default()
    }
}

/// Why none of our rows is an equal of the study's.
#[must_use]
pub(crate) fn not_comparable(machine: &crate::record::Machine) -> Vec<String> {
    let mut reasons = vec![
        beside::hardware("under macOS on a machine that it does not name", machine),
        "Stack: the study's server ran in cluster mode with AOF and RDB on; here persistence is off and there is no cluster.".into(),
        "Generator: the study used redis-benchmark 4.0.11; here its present version, and ours, which sends exactly the number of requests asked for."
            .into(),
        "The study's rows all lie between 66,000 and 69,000/s whatever a command costs (LRANGE_600 above LRANGE_100): the sign of a \
         run that its client bounds."
            .into(),
        "The study's figures for Redis itself are its estimates and are left out; here Redis is measured where it is installed.".into(),
        "A closed loop: figures compare servers, they say nothing about latency under a given load.".into(),
    ];
    reasons.extend(beside::build());
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
        \"SET\",\"66666.66\",\"0.41\",\"0.1\",\"0.4\",\"0.5\",\"0.6\",\"1.2\"\n\
        \"LRANGE_100 (first 100 elements)\",\"50000.00\",\"0.41\",\"0.1\",\"0.4\",\"0.5\",\"0.6\",\"1.2\"\n\
        \"ZADD\",\"1.00\",\"0.41\",\"0.1\",\"0.4\",\"0.5\",\"0.6\",\"1.2\"\n";

    #[test]
    fn both_forms_of_the_csv_are_read() {
        let rows = csv(NEW).unwrap();
        assert_eq!(
            (rows.len(), rows[0].rps, rows[0].p99_ms),
            (3, 66_666.66, Some(0.6))
        );
        let old = csv("\"SET\",\"66401.06\"\n").unwrap();
        assert_eq!((old[0].rps, old[0].p99_ms), (66_401.06, None));
        for bad in [
            "",
            "ERROR",
            "\"SET\"\n",
            "\"SET\",\"many\"\n",
            "\"SET\",\"NaN\"\n",
        ] {
            assert!(csv(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rows_meet_by_the_tests_name() {
        assert!(same_test("LRANGE_100 (first 100 elements)", "LRANGE_100"));
        assert!(same_test("MSET (10 keys)", "MSET (10 keys)"));
        assert!(!same_test("SETEX", "SET"));
        let table = table("test 2", LINES[1].1, "x", &csv(NEW).unwrap(), Some(5), None);
        assert_eq!(
            table.rows.len(),
            14,
            "13 printed, and ZADD that the study left out"
        );
        assert_eq!(table.rows[13].title, "ZADD");
        let set = &table.rows[0];
        assert!((set.rate_ratio.unwrap() - 66_666.66 / 66_401.06).abs() < 1e-9);
        assert!(table.not_comparable[0].contains("sent 50000"));
    }

    #[test]
    fn the_number_of_requests_can_be_shortened() {
        let words = arguments(LINES[0].1, Some(7));
        assert_eq!(words, ["-t", "ping,set,get", "-n", "7"]);
        assert_eq!(arguments(LINES[2].1, None)[1], "100000");
    }
}
