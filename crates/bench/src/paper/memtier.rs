//! Study 003: the store part of Dragonfly's README, whose rows were made with memtier_benchmark, in our closed loop.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_wire::resp;

use super::beside::{self, ratio};
use super::{Study, populate, seeds};
use crate::load::closed::{Feed, Pool, Slice};
use crate::load::connection::Connection;
use crate::load::live::Live;
use crate::load::rng::Rng;
use crate::load::tally::Verdict;
use crate::record::Machine;
use crate::record::attribution::Role;
use crate::record::paper::{PaperFigures, PaperRow, PaperTable};
use crate::report::format::count;
use crate::run::attribution::{Look, Watched};
use crate::run::console::Console;
use crate::run::thread::generate;
use crate::target::Store;

/// Length of a test in the study (`--test-time 100`).
pub(crate) const TEST_TIME: Duration = Duration::from_secs(100);
/// Size of the values (`-d 256`).
const VALUE_BYTES: usize = 256;
/// Keys drawn from; memtier_benchmark's own default is ten million, which need not fit here.
const KEYS: u32 = 1_000_000;
/// Expiry of SETEX: the study set it to 500 s so that no key ends within the test.
const EXPIRY_S: &[u8] = b"500";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// `--ratio 1:0`.
    Set,
    /// `--ratio 0:1`.
    Get,
    /// `--ratio 1:0 --expiry-range=500-500`.
    SetEx,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Set => "set",
            Operation::Get => "get",
            Operation::SetEx => "setex",
        }
    }
}

/// One run of memtier_benchmark.
struct Test {
    operation: Operation,
    connections: usize,
    depth: usize,
    /// Tables of the study that it stands beside.
    tables: &'static [&'static str],
}

const fn test(
    operation: Operation,
    connections: usize,
    depth: usize,
    tables: &'static [&'static str],
) -> Test {
    Test {
        operation,
        connections,
        depth,
        tables,
    }
}

/// `-t 4 -c 20`; `-t 6 -c 20`, which are the connections of `-t 4 -c 30` too; and `--pipeline=30`. SET comes before GET, which
/// finds what it left.
const TESTS: [Test; 7] = [
    test(Operation::Set, 80, 1, &["m5.large"]),
    test(Operation::Get, 80, 1, &["m5.large"]),
    test(
        Operation::Set,
        120,
        1,
        &[
            "m5.xlarge",
            "c6gn.16xlarge",
            "peak r6g",
            "peak c6gn",
            "peak c7g",
        ],
    ),
    test(
        Operation::Get,
        120,
        1,
        &[
            "m5.xlarge",
            "c6gn.16xlarge",
            "peak r6g",
            "peak c6gn",
            "peak c7g",
        ],
    ),
    test(
        Operation::SetEx,
        120,
        1,
        &["peak r6g", "peak c6gn", "peak c7g"],
    ),
    test(Operation::Set, 120, 30, &["pipeline 30"]),
    test(Operation::Get, 120, 30, &["pipeline 30"]),
];

/// Requests for keys drawn at random, written as they are sent.
struct Random {
    operation: Operation,
    rng: Rng,
    value: Vec<u8>,
    key: String,
    request: Vec<u8>,
    answers: Cell<u64>,
    misses: Cell<u64>,
}

impl Random {
    fn new(operation: Operation, seed: u64) -> Random {
        Random {
            operation,
            rng: Rng::new(seed),
            value: vec![b'x'; VALUE_BYTES],
            key: String::new(),
            request: Vec::new(),
            answers: Cell::new(0),
            misses: Cell::new(0),
        }
    }

    fn hit_percent(&self) -> Option<f64> {
        let (answers, misses) = (self.answers.get(), self.misses.get());
        (self.operation == Operation::Get && answers > 0)
            .then(|| 100.0 * (answers - misses) as f64 / answers as f64)
    }
}

impl Feed for Random {
    fn push(&mut self, connection: &mut Connection) -> bool {
        use std::fmt::Write as _;
        self.key.clear();
        // Writing to a string cannot fail.
        let _infallible = write!(self.key, "memtier-{}", self.rng.below(KEYS));
        self.request.clear();
        let key = self.key.as_bytes();
        match self.operation {
            Operation::Set => resp::write_command(&mut self.request, &[b"SET", key, &self.value]),
            Operation::Get => resp::write_command(&mut self.request, &[b"GET", key]),
            Operation::SetEx => {
                resp::write_command(&mut self.request, &[b"SETEX", key, EXPIRY_S, &self.value])
            }
        }
        connection.push(&self.request);
        true
    }

    fn verdict(&self, frame: &[u8]) -> Verdict {
        self.answers.set(self.answers.get() + 1);
        match frame.first() {
            Some(b'-' | b'!') => Verdict::Error,
            _ if frame.starts_with(b"$-1") || frame.starts_with(b"_") => {
                self.misses.set(self.misses.get() + 1);
                Verdict::Allowed
            }
            _ => Verdict::Allowed,
        }
    }
}

/// What a run of the study needs.
pub(crate) struct Setting<'a> {
    /// Stores that are up.
    pub stores: &'a [Store],
    /// Processor of the generator.
    pub core: Option<usize>,
    /// Length of a test.
    pub length: Duration,
    /// Seed of the keys.
    pub seed: u64,
    /// Ends the run.
    pub stop: &'a AtomicBool,
}

struct Measured {
    figures: PaperFigures,
    remark: String,
}

/// Runs every test on every store, and returns the tables with what went wrong.
pub(crate) fn run(setting: &Setting<'_>, console: &mut Console) -> (Vec<PaperTable>, Vec<String>) {
    let (mut tables, mut wrong) = (Vec::new(), Vec::new());
    for store in setting.stores {
        let mut done: Vec<(&Test, Measured)> = Vec::new();
        for test in &TESTS {
            if setting.stop.load(Ordering::Relaxed) {
                wrong.push("interrupted".to_owned());
                break;
            }
            let title = format!(
                "{} · {} · {} connections x {}",
                store.record.name,
                test.operation.name(),
                test.connections,
                test.depth
            );
            console.phase(title.clone());
            match measure(setting, store, test, console) {
                Ok(measured) => done.push((test, measured)),
                Err(why) => {
                    console.note(&format!("error: {title}: {why}"));
                    wrong.push(format!("{title}: {why}"));
                }
            }
        }
        tables.extend(beside_study(store, &done));
    }
    let (memory, failed) = populate::run(setting, console);
    tables.extend(memory);
    wrong.extend(failed);
    (tables, wrong)
}

fn measure(
    setting: &Setting<'_>,
    store: &Store,
    test: &Test,
    console: &mut Console,
) -> Result<Measured, String> {
    let mut roots = vec![Watched {
        role: Role::Generator,
        name: "bench".into(),
        pid: std::process::id(),
    }];
    roots.extend(store.pid.map(|pid| Watched {
        role: Role::Store,
        name: store.record.name.clone(),
        pid,
    }));
    let mut feed = Random::new(test.operation, setting.seed);
    let mut pool = Pool::open(&store.endpoint, test.connections)
        .map_err(|error| format!("cannot connect: {error}"))?;
    let look = Look::start(&roots, setting.length);
    let length_ns = setting.length.as_nanos() as u64;
    let (slice, hits) = generate(
        setting.core,
        &Live::default(),
        setting.length,
        console,
        || {
            let slice = pool.run(&mut feed, test.depth, length_ns, setting.stop);
            (slice, feed.hit_percent())
        },
    );
    let limit = look.end();
    let slice = slice?;
    if let Some(text) = &slice.first_error {
        return Err(format!("the server answered: {text}"));
    }
    let mut remark = format!(
        "{}, {} connections x {}",
        test.operation.name(),
        test.connections,
        test.depth
    );
    if let Some(hits) = hits {
        remark.push_str(&format!(", {hits:.0} % hits"));
    }
    if let Some(limit) = limit {
        remark.push_str(&format!(": {}", limit.sentence));
    }
    Ok(Measured {
        figures: figures(&slice),
        remark: format!("{remark}."),
    })
}

fn figures(slice: &Slice) -> PaperFigures {
    let at = |quantile: f64| {
        (!slice.latency.is_empty()).then(|| slice.latency.value_at_quantile(quantile) as f64 / 1e6)
    };
    PaperFigures {
        goodput_rps: Some(slice.rate()),
        mean_ms: (!slice.latency.is_empty()).then(|| slice.latency.mean() / 1e6),
        p95_ms: at(0.95),
        p99_ms: at(0.99),
        p99_9_ms: at(0.999),
        ..PaperFigures::default()
    }
}

/// The study's tables with this store's figures in every row of the same operation.
fn beside_study(store: &Store, done: &[(&Test, Measured)]) -> Vec<PaperTable> {
    let mut ids: Vec<&str> = Vec::new();
    for row in seeds::throughput() {
        if row.study == Study::Memtier.number() && !ids.contains(&row.table.as_str()) {
            ids.push(&row.table);
        }
    }
    ids.into_iter()
        .map(|id| {
            let here: Vec<&(&Test, Measured)> = done
                .iter()
                .filter(|(test, _)| test.tables.contains(&id))
                .collect();
            let rows = seeds::throughput()
                .iter()
                .filter(|row| row.study == Study::Memtier.number() && row.table == id)
                .map(|seed| {
                    let paper = PaperFigures {
                        goodput_rps: seed.rps,
                        p99_ms: seed.p99_ms,
                        p99_9_ms: seed.p99_9_ms,
                        ..PaperFigures::default()
                    };
                    let ours = here
                        .iter()
                        .find(|(test, _)| test.operation.name() == seed.test)
                        .map(|(_, measured)| measured.figures);
                    PaperRow {
                        title: format!("{} {}", seed.test, seed.backend),
                        rate_ratio: ours.and_then(|o| ratio(o.goodput_rps, paper.goodput_rps)),
                        p99_ratio: ours.and_then(|o| ratio(o.p99_ms, paper.p99_ms)),
                        paper,
                        ours,
                        ..PaperRow::default()
                    }
                })
                .collect();
            PaperTable {
                id: id.into(),
                paper: format!("memtier_benchmark, {id}"),
                ours: Some(store.record.name.clone()),
                rows,
                not_comparable: here.iter().map(|(_, m)| m.remark.clone()).collect(),
            }
        })
        .collect()
}

/// Why none of our rows is an equal of the study's.
#[must_use]
pub(crate) fn not_comparable(machine: &Machine, length: Duration) -> Vec<String> {
    let mut reasons = vec![
        beside::hardware(
            "between two AWS machines, with as many generator threads as gave the highest rate",
            machine,
        ),
        "Generator: memtier_benchmark on a machine of its own there; here one thread of ours beside the store, which bounds what \
         many cores could serve."
            .into(),
        format!(
            "Keys: {} here, drawn uniformly, to fit the memory; memtier_benchmark draws from ten million. GET asks for keys in the order in \
             which SET wrote them, so most are found.",
            count(u64::from(KEYS))
        ),
        "A closed loop: figures compare servers, they say nothing about latency under a given load.".into(),
        "Memory: the study fills five million keys by DEBUG POPULATE and prints no figures; here fewer keys are written by SET, the \
         same on every store. `tollgate bench compare --loads memory` measures limiter records."
            .into(),
    ];
    reasons.extend(beside::build());
    if length < TEST_TIME {
        reasons.push(format!(
            "Length: a test lasts {:.1} s here (shortened), {:.0} s in the study.",
            length.as_secs_f64(),
            TEST_TIME.as_secs_f64()
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_study_has_its_test() {
        for row in seeds::throughput().iter().filter(|row| row.study == "003") {
            let found = TESTS.iter().any(|test| {
                test.operation.name() == row.test && test.tables.contains(&row.table.as_str())
            });
            assert!(found, "{row:?}");
        }
    }

    #[test]
    fn misses_are_answers_and_are_counted() {
        let feed = Random::new(Operation::Get, 1);
        assert_eq!(feed.hit_percent(), None);
        assert_eq!(feed.verdict(b"$-1\r\n"), Verdict::Allowed);
        assert_eq!(feed.verdict(b"$1\r\nx\r\n"), Verdict::Allowed);
        assert_eq!(feed.verdict(b"-ERR no\r\n"), Verdict::Error);
        assert!(feed.hit_percent().unwrap() > 60.0);
        assert_eq!(Random::new(Operation::Set, 1).hit_percent(), None);
    }
}
