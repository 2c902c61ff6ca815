//! Memory of a limiter record: growth of a server over a million of them.

use std::time::Duration;

use super::{LIMIT, Pair, WINDOW_S, further_of};
use crate::cli::{CompareArgs, Pins};
use crate::load::closed::{Feed, Pool};
use crate::load::connection::Connection;
use crate::load::live::Live;
use crate::load::tally::Verdict;
use crate::load::workload::{Ask, Rule, Workload};
use crate::os::{interrupt, proc};
use crate::record::MemoryRow;
use crate::run::console::Console;
use crate::run::thread::generate;
use crate::target::client::Client;
use crate::target::program::Program;
use crate::target::{Further, Store};

/// Connections used for filling.
const CONNECTIONS: usize = 8;
/// Requests written at once.
const DEPTH: usize = 32;
/// How much less than redis the design asks for.
const BUDGET: f64 = 3.5;

/// Fills both servers and reports bytes per record, resident and as the servers count themselves. Servers known by name are started
/// afresh for it, so that no earlier load has left free memory behind.
pub(super) fn measure(
    args: &CompareArgs,
    pins: Pins,
    pair: &mut Pair,
    console: &mut Console,
) -> Result<Vec<MemoryRow>, String> {
    let [of_a, of_b] = further_of(args);
    let a = side((&args.a, &pair.a), &of_a, args, pins, console)?;
    let b = side((&args.b, &pair.b), &of_b, args, pins, console)?;
    let against_redis =
        pair.a.record.server_name == "tollgate" && pair.b.record.server_name == "redis";
    let row = |title: &str, a: Option<f64>, b: Option<f64>| {
        Some(MemoryRow {
            title: title.into(),
            records: u64::from(args.records),
            a_bytes_per_record: a?,
            b_bytes_per_record: b?,
            budget_b_over_a: against_redis.then_some(BUDGET),
        })
    };
    let rows = [
        row(
            "limiter records, 16-byte keys, resident memory",
            a.resident,
            b.resident,
        ),
        row("limiter records, 16-byte keys, used_memory", a.used, b.used),
    ];
    Ok(rows.into_iter().flatten().collect())
}

/// Growth per record, where it could be measured.
struct Growth {
    resident: Option<f64>,
    used: Option<f64>,
}

fn side(
    (name, running): (&str, &Store),
    further: &Further,
    args: &CompareArgs,
    pins: Pins,
    console: &mut Console,
) -> Result<Growth, String> {
    console.phase(format!(
        "memory of {} records in {}",
        args.records, running.record.name
    ));
    let fresh;
    let store = match Program::from_name(name) {
        Some(program) => {
            fresh =
                Store::start_with(program, program.threads(args.threads), pins.target, further)?;
            &fresh
        }
        None => running,
    };
    let ask = store
        .native(Rule {
            limit: LIMIT,
            window_s: WINDOW_S,
        })
        .ok_or("no limiter operation")?;
    let mut pool = Pool::open(&store.endpoint, CONNECTIONS)
        .map_err(|error| format!("cannot connect: {error}"))?;
    let before = (store.pid.and_then(proc::rss_bytes), used_memory(store));
    let mut feed = Records {
        judge: Workload::render(&ask, "", 1),
        ask,
        run: std::process::id() ^ (crate::run::machine::unix_seconds() as u32).rotate_left(12),
        next: 0,
        count: args.records,
        scratch: Vec::new(),
    };
    let slice = generate(
        pins.generator,
        &Live::default(),
        Duration::from_secs(5),
        console,
        || pool.run(&mut feed, DEPTH, u64::MAX / 2, interrupt::flag()),
    )?;
    if let Some(text) = slice.first_error {
        return Err(format!("the server answered: {text}"));
    }
    // Stopped on the way, the growth belongs to fewer records than were planned.
    if slice.answers < u64::from(args.records) {
        return Err(format!(
            "{} of {} records were written",
            slice.answers, args.records
        ));
    }
    let after = (store.pid.and_then(proc::rss_bytes), used_memory(store));
    let per_record = |before: Option<u64>, after: Option<u64>| {
        Some(after?.saturating_sub(before?) as f64 / f64::from(args.records))
    };
    Ok(Growth {
        resident: per_record(before.0, after.0),
        used: per_record(before.1, after.1),
    })
}

fn used_memory(store: &Store) -> Option<u64> {
    let facts = Client::connect(&store.endpoint).ok()?.info("memory").ok()?;
    facts
        .iter()
        .find(|(name, _)| name == "used_memory")?
        .1
        .parse()
        .ok()
}

/// One decision for each of `count` new keys of 16 bytes.
struct Records {
    ask: Ask,
    judge: Workload,
    run: u32,
    next: u32,
    count: u32,
    scratch: Vec<u8>,
}

impl Feed for Records {
    fn push(&mut self, connection: &mut Connection) -> bool {
        if self.next == self.count {
            return false;
        }
        self.scratch.clear();
        self.ask.write(
            &mut self.scratch,
            format!("{:08x}{:08x}", self.run, self.next).as_bytes(),
        );
        connection.push(&self.scratch);
        self.next += 1;
        true
    }

    fn verdict(&self, frame: &[u8]) -> Verdict {
        self.judge.verdict(frame)
    }
}
