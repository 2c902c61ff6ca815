//! A client beside a long script: GETs that come at a rate of their own while a script of about a second holds another key.
//!
//! An open loop, timed from when each GET was due: clients that wait for a store that stands still would send less just
//! then, and a percentile of what they sent would hide the stand-still.

use std::time::{Duration, Instant};

use super::slices::close;
use super::{Pair, operation};
use crate::cli::{CompareArgs, Pins};
use crate::load::keys::Spreading;
use crate::load::live::Live;
use crate::load::open::{self, Outcome, Own, Plan};
use crate::load::open_loop::{BACKLOG_LIMIT, Bounds};
use crate::load::schedule::Arrivals;
use crate::load::workload::{Ask, Workload};
use crate::os::clock::SECOND;
use crate::os::{interrupt, proc};
use crate::record::{CompareRow, SlicePair, SliceSample};
use crate::run::console::Console;
use crate::run::thread::generate;
use crate::target::Store;
use crate::target::client::Client;

/// Requests per second: what a store serves with a few percent of a core.
const RATE: f64 = 2_000.0;
const CONNECTIONS: u32 = 10;
/// Requests that a connection may have unanswered: with all of them a store that stands still for a second holds back
/// every request of it, and the generator none.
const DEPTH: u32 = 256;
/// Length of the load, and of the script when nothing else runs.
const LENGTH: Duration = Duration::from_secs(1);
/// An answer later than this is none.
const DEADLINE_NS: u64 = 8 * SECOND;
/// Most pairs: a pair takes two seconds and more.
const PAIRS_MAX: u32 = 5;
/// Adds as often as it is told to, and writes the sum to its key.
const SCRIPT: &str = "local x = 0 for i = 1, tonumber(ARGV[1]) do x = (x + i) % 1000003 end \
                      redis.call('SET', KEYS[1], x) return x";
/// The key of the script, which no GET asks for.
const KEY: &[u8] = b"cmp:script";
/// Additions by which a server's pace is found.
const TRIAL_ADDITIONS: u64 = 2_000_000;

/// A server with the connection on which the script is sent.
struct Side<'a> {
    store: &'a Store,
    scripts: Client,
    /// How often the script adds in [`LENGTH`].
    additions: String,
}

impl<'a> Side<'a> {
    fn new(store: &'a Store) -> Result<Side<'a>, String> {
        let mut scripts = Client::connect(&store.endpoint)?;
        let start = Instant::now();
        script(&mut scripts, &TRIAL_ADDITIONS.to_string())?;
        let took = start.elapsed().max(Duration::from_millis(1));
        let additions = TRIAL_ADDITIONS as f64 * LENGTH.as_secs_f64() / took.as_secs_f64();
        Ok(Side {
            store,
            scripts,
            additions: format!("{additions:.0}"),
        })
    }
}

fn script(client: &mut Client, additions: &str) -> Result<(), String> {
    let words = [b"EVAL", SCRIPT.as_bytes(), b"1", KEY, additions.as_bytes()];
    client.ask(&words).map(drop)
}

/// Measures the pairs of the row. On an error those so far stay.
pub(super) fn measure(
    args: &CompareArgs,
    pins: Pins,
    pair: &Pair,
    console: &mut Console,
) -> (CompareRow, Result<(), String>) {
    let ask = operation(&Ask::Get, true);
    let mut row = CompareRow {
        title: "GET beside a script of 1 s".into(),
        operation_a: ask.clone(),
        operation_b: ask,
        connections: CONNECTIONS,
        pipeline_depth: DEPTH,
        target_rps: Some(RATE),
        slice_ms: LENGTH.as_millis() as u64,
        ..CompareRow::default()
    };
    let mut lost = Lost::default();
    let ended = pairs(args, pins, pair, &mut row, &mut lost, console);
    row.notes.extend(note(pair, &row));
    (close(row, true, lost.steal, lost.waited), ended)
}

/// Processor time that others had, in percent, summed over the pairs.
#[derive(Default)]
struct Lost {
    steal: f64,
    waited: f64,
}

fn pairs(
    args: &CompareArgs,
    pins: Pins,
    pair: &Pair,
    row: &mut CompareRow,
    lost: &mut Lost,
    console: &mut Console,
) -> Result<(), String> {
    let named = |store: &Store, why: String| format!("{}: {why}", store.record.name);
    let open = |store| Side::new(store).map_err(|why| named(store, why));
    let mut sides = [open(&pair.a)?, open(&pair.b)?];
    let gets = Workload::render(&Ask::Get, "cmp:s:", args.keys);
    let most = args.slices.min(PAIRS_MAX);
    for round in 0..most {
        let a_first = round.is_multiple_of(2);
        console.phase(format!("round {}/{most} · {}", round + 1, row.title));
        let ticks = proc::machine_ticks();
        let mut waited = 0.0;
        let mut samples = [SliceSample::default(), SliceSample::default()];
        for at in [usize::from(!a_first), usize::from(a_first)] {
            let side = &mut sides[at];
            let seed = args.seed.wrapping_add(u64::from(round));
            let measured = slice(side, &gets, seed, pins, console);
            let outcome = measured.map_err(|why| named(side.store, why))?;
            if interrupt::asked() {
                return Ok(());
            }
            let elapsed = outcome.elapsed_ns.max(1) as f64;
            waited += outcome.run_queue_wait_ns.unwrap_or(0) as f64 * 100.0 / elapsed / 2.0;
            samples[at] = sample(&outcome);
        }
        if let Some((before, after)) = ticks.zip(proc::machine_ticks()) {
            lost.steal += proc::steal_percent(before, after);
        }
        lost.waited += waited;
        let [a, b] = samples;
        row.pairs.push(SlicePair { a_first, a, b });
    }
    Ok(())
}

/// The load and the script, begun together.
fn slice(
    side: &mut Side<'_>,
    gets: &Workload,
    seed: u64,
    pins: Pins,
    console: &mut Console,
) -> Result<Outcome, String> {
    let plan = Plan {
        arrivals: Arrivals::Poisson,
        rate: RATE,
        length_ns: LENGTH.as_nanos() as u64,
        spreading: Spreading::Uniform,
        seed,
        bounds: Bounds {
            connections: CONNECTIONS as usize,
            depth: DEPTH as usize,
            deadline_ns: DEADLINE_NS,
            backlog_limit: BACKLOG_LIMIT,
        },
        later: Vec::new(),
        clients: None,
        own: Own::default(),
    };
    let live = Live::watching(side.store.pid.into_iter().collect());
    let endpoint = &side.store.endpoint;
    let (scripts, additions) = (&mut side.scripts, side.additions.as_str());
    let (asked, script) = std::thread::scope(|scope| {
        let script = scope.spawn(|| script(scripts, additions));
        let asked = generate(pins.generator, &live, LENGTH, console, || {
            open::run(&plan, gets, endpoint, interrupt::flag(), &live)
        });
        (asked, script.join())
    });
    script.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let outcome = asked?;
    let complaint = outcome.cut_short.clone();
    match complaint.or_else(|| outcome.tally.first_error.clone()) {
        Some(why) if !interrupt::asked() => Err(why),
        _ => Ok(outcome),
    }
}

/// What the clients saw. The server's processor time is the script's and says nothing of a GET.
fn sample(outcome: &Outcome) -> SliceSample {
    let tally = &outcome.tally;
    let mut response = tally.response();
    response
        .add(&tally.overdue)
        .expect("both histograms have the same bounds");
    let at = |quantile: f64| Some(response.value_at_quantile(quantile) as f64 / 1e3);
    SliceSample {
        throughput_rps: tally.allowed as f64 * 1e9 / outcome.answered_ns.max(1) as f64,
        latency_p50_us: at(0.5),
        latency_p99_us: at(0.99),
        failures: tally.totals().failed,
        ..SliceSample::default()
    }
}

/// What the ratios do not tell: how long it was.
fn note(pair: &Pair, row: &CompareRow) -> Option<String> {
    let median = |pick: fn(&SlicePair) -> &SliceSample| {
        let mut all: Vec<f64> = row
            .pairs
            .iter()
            .filter_map(|pair| pick(pair).latency_p99_us)
            .collect();
        all.sort_by(f64::total_cmp);
        Some(all.get(all.len() / 2)? / 1e3)
    };
    let (a, b) = (median(|pair| &pair.a)?, median(|pair| &pair.b)?);
    Some(format!(
        "P99 {a:.3} ms of {} and {b:.3} ms of {}, of {RATE:.0} requests a second",
        pair.a.record.name, pair.b.record.name
    ))
}
