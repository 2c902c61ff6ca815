//! Memory of a limiter record: growth of a server over a million of them.

use std::time::Duration;

use tollgate_wire::resp;

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
/// Units by which counters get eight digits. Redis keeps one object of each number below 10,000 for all keys, so a counter that
/// has just begun takes 16 bytes less than one that is in use.
const MANY: u64 = 12_345_678;
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
    let row = |what: &str, a: Option<f64>, b: Option<f64>, budget: Option<f64>| {
        Some(MemoryRow {
            title: format!("limiter records, 16-byte keys, {what}"),
            records: u64::from(args.records),
            a_bytes_per_record: a?,
            b_bytes_per_record: b?,
            budget_b_over_a: budget.filter(|_| against_redis),
        })
    };
    let mut rows = Vec::new();
    for (counters, a, b, budget) in [
        ("counters of 8 digits", a.many, b.many, Some(BUDGET)),
        ("counters below 10,000", Some(a.one), Some(b.one), None),
    ] {
        let Some((a, b)) = a.zip(b) else { continue };
        let what = |memory: &str| format!("{counters}, {memory}");
        rows.push(row(
            &what("resident memory"),
            a.resident,
            b.resident,
            budget,
        ));
        rows.push(row(&what("used_memory"), a.used, b.used, budget));
    }
    Ok(rows.into_iter().flatten().collect())
}

/// Growth per record, where it could be measured.
#[derive(Clone, Copy)]
struct Growth {
    resident: Option<f64>,
    used: Option<f64>,
}

/// Growth with records of one unit each, and of [`MANY`] more; of operations that cannot take so many, the first alone.
struct Growths {
    one: Growth,
    many: Option<Growth>,
}

fn side(
    (name, running): (&str, &Store),
    further: &Further,
    args: &CompareArgs,
    pins: Pins,
    console: &mut Console,
) -> Result<Growths, String> {
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
    let rule = Rule {
        limit: LIMIT,
        window_s: WINDOW_S,
    };
    let ask = store.native(rule).ok_or("no limiter operation")?;
    let mut pool = Pool::open(&store.endpoint, CONNECTIONS)
        .map_err(|error| format!("cannot connect: {error}"))?;
    let run = std::process::id() ^ (crate::run::machine::unix_seconds() as u32).rotate_left(12);
    let weigh = || (store.pid.and_then(proc::rss_bytes), used_memory(store));
    let before = weigh();
    let mut growth = |request: Request| -> Result<Growth, String> {
        let mut feed = Records {
            judge: Workload::render(&ask, "", 1),
            request,
            run,
            next: 0,
            count: args.records,
            scratch: Vec::new(),
        };
        fill(&mut pool, &mut feed, pins, console)?;
        let after = weigh();
        let per_record = |before: Option<u64>, after: Option<u64>| {
            Some(after?.saturating_sub(before?) as f64 / f64::from(args.records))
        };
        Ok(Growth {
            resident: per_record(before.0, after.0),
            used: per_record(before.1, after.1),
        })
    };
    let one = growth(Request::One(ask.clone()))?;
    let many = match &ask {
        Ask::RlTake(_) => Some(growth(Request::Take(rule))?),
        Ask::Evalsha { .. } => Some(growth(Request::Add)?),
        _ => None,
    };
    Ok(Growths { one, many })
}

/// Sends one request for each record.
fn fill(
    pool: &mut Pool,
    feed: &mut Records,
    pins: Pins,
    console: &mut Console,
) -> Result<(), String> {
    let count = feed.count;
    let slice = generate(
        pins.generator,
        &Live::default(),
        Duration::from_secs(5),
        console,
        || pool.run(feed, DEPTH, u64::MAX / 2, interrupt::flag()),
    )?;
    if let Some(text) = slice.first_error {
        return Err(format!("the server answered: {text}"));
    }
    // Stopped on the way, the growth belongs to fewer records than were planned.
    if slice.answers < u64::from(count) {
        return Err(format!("{} of {count} records were written", slice.answers));
    }
    Ok(())
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

/// What a record is asked.
enum Request {
    /// A decision of one unit.
    One(Ask),
    /// The same by RL.TAKE, of [`MANY`].
    Take(Rule),
    /// What a script with costs does: adds [`MANY`] to the counter.
    Add,
}

impl Request {
    fn write(&self, out: &mut Vec<u8>, key: &[u8]) {
        let text = |number: u64| number.to_string().into_bytes();
        match self {
            Request::One(ask) => ask.write(out, key),
            Request::Take(rule) => {
                let window_ms = text(rule.window_s.saturating_mul(1000));
                let (limit, many) = (text(rule.limit), text(MANY));
                resp::write_command(
                    out,
                    &[
                        b"RL.TAKE", key, b"FIXED", &limit, &window_ms, b"COST", &many,
                    ],
                );
            }
            Request::Add => resp::write_command(out, &[b"INCRBY", key, &text(MANY)]),
        }
    }
}

/// One request for each of `count` keys of 16 bytes.
struct Records {
    request: Request,
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
        let key = format!("{:08x}{:08x}", self.run, self.next);
        self.request.write(&mut self.scratch, key.as_bytes());
        connection.push(&self.scratch);
        self.next += 1;
        true
    }

    fn verdict(&self, frame: &[u8]) -> Verdict {
        match self.request {
            Request::Add => match frame.first() {
                Some(b':') => Verdict::Allowed,
                _ => Verdict::Error,
            },
            Request::One(_) | Request::Take(_) => self.judge.verdict(frame),
        }
    }
}
