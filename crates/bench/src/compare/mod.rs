//! `tollgate bench compare A B`: the instrument for budgets of the form "so many times less CPU than B".
//!
//! Absolute figures on a shared machine drift by tens of percent within minutes, so both servers run at the same time
//! and get the same closed-loop load in short slices, A B B A, and only ratios of neighbouring slices count. The
//! loads themselves are interleaved too: every load is spread over the whole run.

mod beside;
mod memory;
mod overload;
mod services;
mod slices;

use std::time::Instant;

use crate::cli::CompareArgs;
use crate::load::plain::PLAIN;
use crate::os::interrupt;
use crate::record::{
    CompareRecord, CompareRow, Event, Operation, Ratios, SCHEMA_VERSION, Severity,
};
use crate::run::console::Console;
use crate::run::machine;
use crate::target::further;
use crate::target::program::Program;
use crate::target::url::{Protocol, TargetUrl};
use crate::target::{Further, Store, peer};

use slices::Bench;

/// Names of the loads that are chosen by default, in the order of the table.
const LOADS: [&str; 7] = [
    "limiter", "script", "get", "set", "incr", "latency", "memory",
];
/// The load that is measured beside a script, and only where it is asked for.
const BESIDE: &str = "beside";
/// Limit of the decisions: all are allowed, the dearer answer, and the record stays the same size.
pub(crate) const LIMIT: u64 = 50_000_000;
/// Window of the decisions in seconds.
pub(crate) const WINDOW_S: u64 = 3_600;

/// Both servers.
pub(crate) struct Pair {
    pub(crate) a: Store,
    pub(crate) b: Store,
}

/// Runs the comparison.
pub fn run(args: &CompareArgs, console: &mut Console) -> Result<CompareRecord, String> {
    check_server_args(args)?;
    match (peer::is_service(&args.a), peer::is_service(&args.b)) {
        (true, true) => return services::run(args, console),
        (false, false) => {}
        _ => {
            return Err(format!(
                "{} and {}: a service is compared with a service, a store with a store",
                args.a, args.b
            ));
        }
    }
    let loads = chosen(args)?;
    let pins = crate::cli::cores(args.pin)?;
    let mut manifest = machine::manifest(args.seed, pins.generator, pins.target);
    let start = Instant::now();
    let mut pair = open_both(args, pins.target)?;
    let mut record = CompareRecord {
        schema_version: SCHEMA_VERSION,
        a: pair.a.record.clone(),
        b: pair.b.record.clone(),
        complete: true,
        ..CompareRecord::default()
    };
    note_withheld(&mut record, console);
    warn_of_unknown_processes(&pair, &mut record, console);
    let busy = machine::busy_processors();
    if let Some(text) = busy.and_then(|(busy, count)| machine::beside_others(busy, count)) {
        warn(&mut record, text, console);
    }
    let mut bench = Bench::new(args, pins.generator, &loads, &pair)?;
    let ended = bench.run(&mut pair, console);
    let (mut rows, mut broken) = (bench.into_rows(), ended.err());
    if broken.is_none() && loads.contains(&BESIDE) && !interrupt::asked() {
        let (row, ended) = beside::measure(args, pins, &pair, console);
        rows.push(row);
        broken = ended.err();
    }
    record.rows = rows.into_iter().map(close_row).collect();
    let mut reason = broken.map(|why| obituary(&mut pair, &why));
    if reason.is_none() && loads.contains(&"memory") && !interrupt::asked() {
        match memory::measure(args, pins, &mut pair, console) {
            Ok(rows) => record.memory = rows,
            Err(why) => reason = Some(obituary(&mut pair, &format!("memory: {why}"))),
        }
    }
    if interrupt::asked() {
        reason = reason.or_else(|| Some("interrupted".into()));
    }
    leave(args, &loads, &pair, &mut record, console);
    if let Some(why) = reason {
        keep_as_partial(&mut record, why, console);
    }
    for row in &record.rows {
        record.validity.absorb(&row.title, &row.validity);
    }
    manifest.duration_s = start.elapsed().as_secs_f64();
    record.manifest = manifest;
    Ok(record)
}

/// What A and B are given besides what every server is given.
fn further_of(args: &CompareArgs) -> [Further; 2] {
    [("a", &args.a), ("b", &args.b)]
        .map(|(side, name)| further::of(&args.server_args, &[side, name]))
}

/// Refuses words for servers that are not started here.
fn check_server_args(args: &CompareArgs) -> Result<(), String> {
    let sides = [("a", &args.a), ("b", &args.b)].into_iter();
    let started: Vec<&str> = sides
        .filter(|(_, name)| !name.contains("://"))
        .flat_map(|(side, name)| [side, name.as_str()])
        .collect();
    further::check(&args.server_args, &started)
}

/// Says in the record which settings of the environment do not reach the servers started here.
fn note_withheld(record: &mut CompareRecord, console: &mut Console) {
    if !(record.a.started_by_bench || record.b.started_by_bench) {
        return;
    }
    if let Some(text) = further::withheld() {
        console.note(&format!("note: {text}"));
        record.events.push(Event {
            text,
            ..Event::default()
        });
    }
}

/// Both servers, under names that differ.
fn open_both(args: &CompareArgs, core: Option<usize>) -> Result<Pair, String> {
    let [of_a, of_b] = further_of(args);
    let mut pair = Pair {
        a: open(&args.a, args, core, &of_a)?,
        b: open(&args.b, args, core, &of_b)?,
    };
    if pair.a.record.name == pair.b.record.name {
        pair.a.record.name.push_str(" (A)");
        pair.b.record.name.push_str(" (B)");
    }
    Ok(pair)
}

/// Warns of servers whose CPU cannot be measured, on the console and in the record.
fn warn_of_unknown_processes(pair: &Pair, record: &mut CompareRecord, console: &mut Console) {
    for (side, store) in [("A", &pair.a), ("B", &pair.b)] {
        if store.pid.is_none() {
            let text = format!("the process of {side} is not known: its CPU is not measured");
            warn(record, text, console);
        }
    }
}

/// Says a warning, on the console and in the record.
fn warn(record: &mut CompareRecord, text: String, console: &mut Console) {
    console.note(&format!("warning: {text}"));
    record.events.push(Event {
        severity: Severity::Warning,
        text,
        ..Event::default()
    });
}

/// Deletes what the loads wrote to servers that were running before. Keys of limits go by themselves.
fn leave(
    args: &CompareArgs,
    loads: &[&str],
    pair: &Pair,
    record: &mut CompareRecord,
    console: &mut Console,
) {
    let keys = slices::lasting_keys(loads, args.keys);
    for (side, store) in [("A", &pair.a), ("B", &pair.b)] {
        let Some(why) = (!store.record.started_by_bench)
            .then(|| store.delete(&keys).err())
            .flatten()
        else {
            continue;
        };
        let text = format!("keys that begin with cmp: may still be in {side}: {why}");
        warn(record, text, console);
    }
}

/// Marks the record as one that ended early because of `why`.
fn keep_as_partial(record: &mut CompareRecord, why: String, console: &mut Console) {
    console.note(&format!("error: {why}; what was measured is kept"));
    record.complete = false;
    record.events.push(Event {
        severity: Severity::Error,
        text: why.clone(),
        ..Event::default()
    });
    record.partial_reason = Some(why);
}

fn chosen(args: &CompareArgs) -> Result<Vec<&'static str>, String> {
    if args.loads.is_empty() {
        // A million records are left behind in a server that was running before: only when asked for.
        let ours = [&args.a, &args.b]
            .iter()
            .all(|name| Program::from_name(name).is_some());
        return Ok(LOADS
            .into_iter()
            .filter(|load| ours || *load != "memory")
            .collect());
    }
    let pick = |name: &String| {
        let all = || {
            LOADS
                .into_iter()
                .chain(
                    PLAIN
                        .iter()
                        .filter(|plain| !plain.of_cluster)
                        .map(|plain| plain.name),
                )
                .chain([BESIDE])
        };
        all().find(|load| load == name).ok_or_else(|| {
            let names: Vec<&str> = all().collect();
            format!("'{name}' is not a load: give {}", names.join(", "))
        })
    };
    args.loads.iter().map(pick).collect()
}

/// A server by name, started here, or by URL.
fn open(
    name: &str,
    args: &CompareArgs,
    core: Option<usize>,
    further: &Further,
) -> Result<Store, String> {
    if let Some(program) = Program::from_name(name).filter(|program| program.speaks_resp()) {
        return Store::start_with(program, program.threads(args.threads), core, further);
    }
    if !name.contains("://") {
        return Err(format!(
            "'{name}' is neither a URL nor one of {}{}",
            Program::stores(),
            if std::path::Path::new(name).exists() {
                ": a folder of runs can only be compared with another one"
            } else {
                ""
            }
        ));
    }
    let url = TargetUrl::parse(name)?;
    crate::cli::own(&url, args.i_own_this_target)?;
    match url.protocol {
        Protocol::Resp => Store::attach(&url).map_err(|why| format!("{}: {why}", url.shown)),
        _ => Err("compare asks RESP stores: give redis:// URLs".into()),
    }
}

fn obituary(pair: &mut Pair, why: &str) -> String {
    // A process that was killed shows it a moment after its sockets close.
    let asked = Instant::now();
    while asked.elapsed() < std::time::Duration::from_millis(300) {
        if let Some(text) = pair.a.obituary().or_else(|| pair.b.obituary()) {
            return format!("{why}; {text}");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    why.to_owned()
}

fn close_row(mut row: CompareRow) -> CompareRow {
    row.ratios = Ratios::of(&row.pairs);
    row
}

/// What the design asks for, where A is Tollgate and B is redis.
fn budget(load: &str, depth: u32, pair: &Pair) -> Option<f64> {
    if pair.a.record.server_name != "tollgate" || pair.b.record.server_name != "redis" {
        return None;
    }
    match (load, depth) {
        ("limiter", 1) => Some(1.6),
        ("limiter", 16) => Some(6.0),
        ("script", 1) => Some(1.0),
        ("script", 16) => Some(1.5),
        ("get" | "set" | "incr", 1) => Some(1.2),
        ("get" | "set" | "incr", 16) => Some(2.5),
        ("get" | "set" | "incr", 30) => Some(3.5),
        ("lrange" | "hgetall", _) => Some(1.0),
        ("lpush" | "lpop" | "sadd" | "hset" | "zadd" | "mset", 1) => Some(1.2),
        ("lpush" | "lpop" | "sadd" | "hset" | "zadd" | "mset", 16) => Some(2.5),
        _ => None,
    }
}

/// How an operation appears in the record.
fn operation(ask: &crate::load::workload::Ask, like_for_like: bool) -> Operation {
    Operation {
        name: ask.name().into(),
        title: ask.title().into(),
        like_for_like,
        algorithm: ask.algorithm().into(),
        limit: ask.rule().map(|rule| rule.limit),
        window_ms: ask.rule().map(|rule| rule.window_s * 1000),
    }
}
