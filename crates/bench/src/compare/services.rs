//! Rate limit services side by side: the same closed-loop load over gRPC or HTTP in interleaved slices.

use std::time::{Duration, Instant};

use super::slices::close;
use super::{LIMIT, close_row, further_of, keep_as_partial, note_withheld, overload, warn};
use crate::cli::{CompareArgs, Pins};
use crate::load::keys::Spreading;
use crate::load::live::Live;
use crate::load::open::{self, Outcome, Own, Plan};
use crate::load::open_loop::{BACKLOG_LIMIT, Bounds};
use crate::load::schedule::Arrivals;
use crate::os::clock::SECOND;
use crate::os::{interrupt, proc};
use crate::record::{CompareRecord, CompareRow, Operation, SCHEMA_VERSION, SlicePair, SliceSample};
use crate::run::console::Console;
use crate::run::machine;
use crate::run::thread::generate;
use crate::target::Further;
use crate::target::peer::{Asking, Peer};
use crate::target::service::WINDOW_S;
use crate::target::url::TargetUrl;

/// Names of the loads of services.
const LOADS: [&str; 2] = ["decide", "overload"];
/// Connections, and streams of each, of the loads over gRPC.
const GRPC_SHAPES: [(u32, u32); 2] = [(50, 1), (16, 16)];
/// Those over HTTP, which has no streams.
const HTTP_SHAPES: [(u32, u32); 1] = [(50, 1)];
/// In a closed loop nobody waits for long; this is for a server that has stopped answering.
const CLOSED_DEADLINE_NS: u64 = 5 * SECOND;

/// One of the two services with what it is asked.
pub(super) struct Side {
    pub(super) peer: Peer,
    pub(super) asking: Asking,
}

/// How both are asked, whatever the load.
pub(super) struct Setting<'a> {
    pub(super) args: &'a CompareArgs,
    pub(super) pins: Pins,
}

/// Runs the comparison of two services.
pub(super) fn run(args: &CompareArgs, console: &mut Console) -> Result<CompareRecord, String> {
    let loads = chosen(&args.loads)?;
    let setting = Setting {
        args,
        pins: crate::cli::cores(args.pin)?,
    };
    let mut manifest = machine::manifest(args.seed, setting.pins.generator, setting.pins.target);
    let start = Instant::now();
    let [of_a, of_b] = further_of(args);
    let mut sides = [setting.open(&args.a, &of_a)?, setting.open(&args.b, &of_b)?];
    if sides[0].peer.is_http != sides[1].peer.is_http {
        return Err("one side speaks gRPC and the other HTTP: compare like with like".into());
    }
    if sides[0].peer.record.name == sides[1].peer.record.name {
        sides[0].peer.record.name.push_str(" (A)");
        sides[1].peer.record.name.push_str(" (B)");
    }
    let mut record = CompareRecord {
        schema_version: SCHEMA_VERSION,
        a: sides[0].peer.record.clone(),
        b: sides[1].peer.record.clone(),
        complete: true,
        ..CompareRecord::default()
    };
    note_withheld(&mut record, console);
    for (name, side) in ["A", "B"].into_iter().zip(&sides) {
        if side.peer.pids.is_empty() {
            let text = format!("the process of {name} is not known: its CPU is not measured");
            warn(&mut record, text, console);
        }
    }
    let mut reason = None;
    if loads.contains(&"decide") {
        let (rows, ended) = setting.decide(&sides, console);
        record.rows = rows.into_iter().map(close_row).collect();
        reason = ended.err();
    }
    if reason.is_none() && loads.contains(&"overload") && !interrupt::asked() {
        reason = overload::measure(&setting, &sides, &mut record.overload, console).err();
    }
    if interrupt::asked() {
        reason = reason.or_else(|| Some("interrupted".into()));
    }
    if let Some(why) = reason {
        let ended = sides.iter_mut().find_map(|side| side.peer.obituary());
        let why = ended.map_or(why.clone(), |ended| format!("{why}; {ended}"));
        keep_as_partial(&mut record, why, console);
    }
    for row in &record.rows {
        record.validity.absorb(&row.title, &row.validity);
    }
    manifest.duration_s = start.elapsed().as_secs_f64();
    record.manifest = manifest;
    Ok(record)
}

fn chosen(given: &[String]) -> Result<Vec<&'static str>, String> {
    if given.is_empty() {
        return Ok(LOADS.to_vec());
    }
    let pick = |name: &String| {
        let found = LOADS.into_iter().find(|load| load == name);
        found.ok_or_else(|| {
            format!(
                "'{name}' is not a load of services: give {}",
                LOADS.join(", ")
            )
        })
    };
    given.iter().map(pick).collect()
}

impl Setting<'_> {
    fn open(&self, name: &str, further: &Further) -> Result<Side, String> {
        if name.contains("://") {
            crate::cli::own(&TargetUrl::parse(name)?, self.args.i_own_this_target)?;
        }
        let peer = Peer::open(name, self.args.threads, self.pins.target, further)?;
        let asking = peer.asking(LIMIT, "cmp:", self.args.keys);
        Ok(Side { peer, asking })
    }

    /// The slices of all shapes. On an error the pairs so far stay.
    fn decide(
        &self,
        sides: &[Side; 2],
        console: &mut Console,
    ) -> (Vec<CompareRow>, Result<(), String>) {
        let shapes: &[(u32, u32)] = match sides[0].peer.is_http {
            true => &HTTP_SHAPES,
            false => &GRPC_SHAPES,
        };
        let mut rows: Vec<(CompareRow, f64, f64)> = shapes
            .iter()
            .map(|&shape| (self.row(sides, shape), 0.0, 0.0))
            .collect();
        let ended = self.all_slices(sides, &mut rows, console);
        let rows = rows
            .into_iter()
            .map(|(row, steal, waited)| close(row, false, steal, waited));
        (rows.collect(), ended)
    }

    fn all_slices(
        &self,
        sides: &[Side; 2],
        rows: &mut [(CompareRow, f64, f64)],
        console: &mut Console,
    ) -> Result<(), String> {
        for (row, _, _) in rows.iter() {
            for side in sides {
                self.slice(side, row, 0, console)?;
            }
        }
        for round in 0..self.args.slices {
            for (row, steal, waited) in rows.iter_mut() {
                if interrupt::asked() {
                    return Ok(());
                }
                console.phase(format!(
                    "round {}/{} · {}",
                    round + 1,
                    self.args.slices,
                    row.title
                ));
                let a_first = round.is_multiple_of(2);
                let ticks = proc::machine_ticks();
                let mut samples = [SliceSample::default(), SliceSample::default()];
                for at in [usize::from(!a_first), usize::from(a_first)] {
                    let (sample, waits) = self.slice(&sides[at], row, round + 1, console)?;
                    samples[at] = sample;
                    // Two slices make a pair.
                    *waited += waits / 2.0;
                }
                if interrupt::asked() {
                    return Ok(());
                }
                if let Some((before, after)) = ticks.zip(proc::machine_ticks()) {
                    *steal += proc::steal_percent(before, after);
                }
                let [a, b] = samples;
                row.pairs.push(SlicePair { a_first, a, b });
            }
        }
        Ok(())
    }

    /// One slice, and the share of it that the generator waited for a processor, in percent.
    fn slice(
        &self,
        side: &Side,
        row: &CompareRow,
        round: u32,
        console: &mut Console,
    ) -> Result<(SliceSample, f64), String> {
        let bounds = Bounds {
            connections: row.connections as usize,
            depth: row.pipeline_depth as usize,
            deadline_ns: CLOSED_DEADLINE_NS,
            backlog_limit: BACKLOG_LIMIT,
        };
        let length = Duration::from_millis(self.args.slice_ms);
        let plan = self.plan(Arrivals::Closed, 0.0, length, bounds, round);
        let outcome = self.ask(side, &plan, length, console)?;
        let server_ns = outcome.cpu_ns_of(&side.peer.pids);
        let tally = &outcome.tally;
        let good = tally.allowed + tally.denied;
        if good == 0 {
            let said = tally.first_error.as_deref().unwrap_or("no answers");
            return Err(format!("{}: {said}", side.peer.record.name));
        }
        let elapsed = outcome.elapsed_ns.max(1) as f64;
        let percent = |ns: u64| 100.0 * ns as f64 / elapsed;
        let service = tally.service();
        let sample = SliceSample {
            throughput_rps: good as f64 * 1e9 / outcome.answered_ns.max(1) as f64,
            latency_p50_us: Some(service.value_at_quantile(0.5) as f64 / 1e3),
            latency_p99_us: Some(service.value_at_quantile(0.99) as f64 / 1e3),
            server_cpu_us_per_op: server_ns.map(|ns| ns as f64 / 1e3 / good as f64),
            server_cpu_percent: server_ns.map(percent),
            generator_cpu_percent: outcome.generator_cpu_ns.map(percent),
            failures: tally.totals().failed,
        };
        Ok((sample, outcome.run_queue_wait_ns.map_or(0.0, percent)))
    }

    /// A load of `rate` requests per second, or a closed loop.
    pub(super) fn plan(
        &self,
        arrivals: Arrivals,
        rate: f64,
        length: Duration,
        bounds: Bounds,
        round: u32,
    ) -> Plan {
        Plan {
            arrivals,
            rate,
            length_ns: length.as_nanos() as u64,
            spreading: Spreading::Uniform,
            // Both services of a pair are asked for the same keys in the same order.
            seed: self.args.seed.wrapping_add(u64::from(round)),
            bounds,
            later: Vec::new(),
            clients: None,
            own: Own::default(),
        }
    }

    /// Puts a load on one service.
    pub(super) fn ask(
        &self,
        side: &Side,
        plan: &Plan,
        length: Duration,
        console: &mut Console,
    ) -> Result<Outcome, String> {
        self.ask_as(side, &side.asking, plan, length, console)
    }

    /// The same in other words than those of the side.
    pub(super) fn ask_as(
        &self,
        side: &Side,
        asking: &Asking,
        plan: &Plan,
        length: Duration,
        console: &mut Console,
    ) -> Result<Outcome, String> {
        let live = Live::watching(side.peer.pids.clone());
        let endpoint = &side.peer.endpoint;
        let stop = interrupt::flag();
        let asked = generate(
            self.pins.generator,
            &live,
            length,
            console,
            || match asking {
                Asking::Grpc(calls) => open::run_grpc(plan, calls, endpoint, stop, &live),
                Asking::Http(workload) => open::run(plan, workload, endpoint, stop, &live),
            },
        );
        let named = |why: String| format!("{}: {why}", side.peer.record.name);
        let outcome = asked.map_err(named)?;
        match &outcome.cut_short {
            Some(why) if !interrupt::asked() => Err(named(why.clone())),
            _ => Ok(outcome),
        }
    }

    fn row(&self, sides: &[Side; 2], (connections, depth): (u32, u32)) -> CompareRow {
        let titles = [sides[0].peer.title(), sides[1].peer.title()];
        let same = titles[0] == titles[1];
        let what = match same {
            true => titles[0].clone(),
            false => format!("{} | {}", titles[0], titles[1]),
        };
        let shape = match sides[0].peer.is_http {
            true => format!("{connections} connections"),
            false => format!("{connections} x {depth}"),
        };
        let operation = |title: &String| Operation {
            name: if sides[0].peer.is_http {
                "http"
            } else {
                "grpc"
            }
            .into(),
            title: title.clone(),
            like_for_like: same,
            limit: Some(LIMIT),
            window_ms: Some(WINDOW_S * 1_000),
            ..Operation::default()
        };
        CompareRow {
            title: format!("{what}, {shape}"),
            operation_a: operation(&titles[0]),
            operation_b: operation(&titles[1]),
            connections,
            pipeline_depth: depth,
            slice_ms: self.args.slice_ms,
            budget_server_cpu_b_over_a: budget(&sides[0].peer, &sides[1].peer),
            ..CompareRow::default()
        }
    }
}

/// What the design asks for, where A is Tollgate and B one of the peers that it names.
fn budget(a: &Peer, b: &Peer) -> Option<f64> {
    if a.record.server_name != "tollgate" {
        return None;
    }
    match (b.is_http, b.record.server_name.as_str()) {
        (true, _) if b.is_throttlecrab() => Some(1.5),
        (false, _) if b.is_throttlecrab() => Some(1.4),
        (false, name) if name.starts_with("limitador") => Some(2.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_of_services_are_their_own() {
        assert_eq!(chosen(&[]).unwrap(), LOADS);
        assert_eq!(chosen(&["overload".into()]).unwrap(), ["overload"]);
        assert!(chosen(&["get".into()]).unwrap_err().contains("decide"));
    }
}
