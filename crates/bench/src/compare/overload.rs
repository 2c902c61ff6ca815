//! Goodput past saturation: each service at shares of its own capacity, in turns.
//!
//! Over gRPC callers do as Envoy's rate limit filter: they say in `grpc-timeout` how long they wait, and reset a call that has
//! no answer by then. Calls that nobody waits for any more would otherwise stay with the service for as long as it takes to
//! answer them, and the places that they take at the generator would keep new calls from being sent until they are nearly too
//! old themselves: no service could do well under a load that no client makes. Good is an answer within the deadline from
//! the time at which the call was due. HTTP/1.1 has no words for giving up.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::LIMIT;
use super::services::{Setting, Side};
use crate::load::open::Outcome;
use crate::load::open_loop::{BACKLOG_LIMIT, Bounds};
use crate::load::schedule::Arrivals;
use crate::os::clock::SECOND;
use crate::os::interrupt;
use crate::record::{OverloadRow, OverloadSide, OverloadStep};
use crate::run::console::Console;
use crate::target::peer::Asking;

/// Connections of the shapes.
const CONNECTIONS: [u32; 2] = [50, 800];
/// Offered loads, as shares of the capacity.
const LOADS: [f64; 6] = [0.7, 0.8, 0.9, 1.0, 1.5, 2.0];
/// Slices that a step is as long as: queues need time to stand.
const SLICES_PER_STEP: u64 = 8;
/// Goodput over its peak that the design asks for.
const BUDGET: f64 = 0.95;
/// Most requests that one connection may have unanswered. A service that allows fewer streams refuses the others; with fewer
/// here, calls to a fast service would wait at the generator and be sent when they are nearly too old.
const DEPTH_MAX: u32 = 250;
/// Requests per connection of the closed loop by which the rates are chosen at which the capacity is looked for.
const PROBE_DEPTH: u32 = 16;
/// Those rates, as shares of what the closed loop reached. The capacity is the most that is answered in time at any of them:
/// in an open loop more requests come together than in a closed one, which makes each cheaper.
const PROBES: [f64; 7] = [0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4];
/// Share of a rate below which the service does not keep up with it. Behind two such rates higher ones are not tried.
const KEPT_UP: f64 = 0.9;
const NOT_KEPT_UP_MAX: u32 = 2;
/// Times that each load is offered; of those with which the generator kept up, the one with the median goodput counts, as a
/// machine may be busy for a moment. A machine with other work must leave both processors to generator and service for all of
/// a step: the kernel stops a real-time process that never sleeps for up to 50 ms a second as soon as anything else is to run
/// there (its fair server), so the highest niceness (`nice -n -20`) measures more truly than `chrt -f`.
const REPEATS: u32 = 3;
/// Descriptors of a request. The generator has one core as the service has, and has to send twice what that can answer: so a
/// decision must cost several times what a request costs. A throttlecrab takes only one.
const DESCRIPTORS: u32 = 32;
/// Over HTTP a request that is late keeps its place until it is answered, so there are more of them.
const KEPT_PLACES: f64 = 4.0;
/// Most keys: rendered requests of several descriptors are long.
const KEYS_MAX: u32 = 10_000;

/// Measures both services in all shapes. On an error the rows so far stay.
pub(super) fn measure(
    setting: &Setting<'_>,
    sides: &[Side; 2],
    rows: &mut Vec<OverloadRow>,
    console: &mut Console,
) -> Result<(), String> {
    for connections in CONNECTIONS {
        let row = shape(setting, sides, connections, console)?;
        if interrupt::asked() {
            return Ok(());
        }
        rows.push(row);
    }
    Ok(())
}

fn shape(
    setting: &Setting<'_>,
    sides: &[Side; 2],
    connections: u32,
    console: &mut Console,
) -> Result<OverloadRow, String> {
    let deadline_ms = setting.args.deadline_ms;
    let shape = Shape {
        setting,
        connections,
        deadline_ms,
        step_ms: setting.args.slice_ms * SLICES_PER_STEP,
    };
    let keys = setting.args.keys.min(KEYS_MAX);
    let askings = [&sides[0], &sides[1]].map(|side| {
        match side.peer.asking_several(LIMIT, "cmp:", keys, DESCRIPTORS) {
            Asking::Grpc(calls) => Asking::Grpc(calls.waiting(Duration::from_millis(deadline_ms))),
            http @ Asking::Http(_) => http,
        }
    });
    let mut measured = [OverloadSide::default(), OverloadSide::default()];
    for ((side, asking), measured) in sides.iter().zip(&askings).zip(&mut measured) {
        measured.capacity_rps = shape.capacity(side, asking, console)?;
    }
    let capacity = measured[0].capacity_rps.max(measured[1].capacity_rps);
    let kept_places = if sides[0].peer.is_http {
        KEPT_PLACES
    } else {
        1.0
    };
    let depth = depth(kept_places * capacity, connections, deadline_ms);
    for (round, load) in LOADS.into_iter().enumerate() {
        for ((side, asking), measured) in sides.iter().zip(&askings).zip(&mut measured) {
            if !interrupt::asked() {
                let rate = load * measured.capacity_rps;
                let load = (round as u32, load, rate);
                let step = shape.load(side, asking, load, depth, console)?;
                measured.steps.push(step);
            }
        }
    }
    let [a, b] = measured;
    let ours = sides[0].peer.record.server_name == "tollgate";
    Ok(OverloadRow {
        title: format!("overload, {connections} connections x {depth}, {DESCRIPTORS} descriptors"),
        connections,
        pipeline_depth: depth,
        deadline_ms: deadline_ms as f64,
        step_ms: shape.step_ms,
        a,
        b,
        budget_a: ours.then_some(BUDGET),
    })
}

/// What all steps with one number of connections have in common.
struct Shape<'s> {
    setting: &'s Setting<'s>,
    connections: u32,
    deadline_ms: u64,
    step_ms: u64,
}

impl Shape<'_> {
    fn length(&self) -> Duration {
        Duration::from_millis(self.step_ms)
    }

    fn bounds(&self, depth: u32, deadline_ns: u64) -> Bounds {
        Bounds {
            connections: self.connections as usize,
            depth: depth as usize,
            deadline_ns,
            backlog_limit: BACKLOG_LIMIT,
        }
    }

    /// The highest goodput per second of an open loop that climbs past what a closed one reaches.
    fn capacity(&self, side: &Side, asking: &Asking, console: &mut Console) -> Result<f64, String> {
        let (connections, name) = (self.connections, &side.peer.record.name);
        console.phase(format!(
            "overload · {connections} connections · capacity of {name}"
        ));
        let (setting, length) = (self.setting, self.length());
        let closed = self.bounds(PROBE_DEPTH, 5 * SECOND);
        let plan = setting.plan(Arrivals::Closed, 0.0, length, closed, 0);
        let closed_rps = goodput(&setting.ask_as(side, asking, &plan, length, console)?);
        if closed_rps < 1.0 && !interrupt::asked() {
            return Err(format!("{name}: no answers"));
        }
        let depth = depth(2.0 * closed_rps, connections, self.deadline_ms);
        let (mut capacity_rps, mut not_kept_up) = (0.0f64, 0);
        for share in PROBES {
            if interrupt::asked() {
                break;
            }
            let rate = share * closed_rps;
            let bounds = self.bounds(depth, self.deadline_ms * 1_000_000);
            let plan = setting.plan(Arrivals::Poisson, rate, length, bounds, 0);
            let outcome = setting.ask_as(side, asking, &plan, length, console)?;
            let good_rps = step(share, length, &outcome).goodput_rps;
            capacity_rps = capacity_rps.max(good_rps);
            not_kept_up += u32::from(good_rps < KEPT_UP * rate);
            if not_kept_up == NOT_KEPT_UP_MAX {
                break;
            }
        }
        Ok(capacity_rps)
    }

    /// The median of several steps at one load: its place in the order of loads, its share of the capacity, and requests
    /// per second.
    fn load(
        &self,
        side: &Side,
        asking: &Asking,
        (round, load, rate): (u32, f64, f64),
        depth: u32,
        console: &mut Console,
    ) -> Result<OverloadStep, String> {
        let (connections, name) = (self.connections, &side.peer.record.name);
        console.phase(format!(
            "overload · {connections} connections · {load} of the capacity of {name}"
        ));
        let (setting, length) = (self.setting, self.length());
        let bounds = self.bounds(depth, self.deadline_ms * 1_000_000);
        let mut steps = Vec::new();
        for repeat in 0..REPEATS {
            let round = round * REPEATS + repeat + 1;
            let plan = setting.plan(Arrivals::Poisson, rate, length, bounds, round);
            let outcome = setting.ask_as(side, asking, &plan, length, console)?;
            steps.push(step(load, length, &outcome));
        }
        let kept_up = |step: &OverloadStep| !step.is_late(self.deadline_ms as f64);
        if steps.iter().any(kept_up) {
            steps.retain(kept_up);
        }
        steps.sort_by(|a, b| a.goodput_rps.total_cmp(&b.goodput_rps));
        Ok(steps.swap_remove(steps.len() / 2))
    }
}

/// Requests per connection such that the server, not the generator, holds what twice the capacity brings within a deadline.
/// With fewer the generator would keep them back, and no server could refuse them.
fn depth(capacity_rps: f64, connections: u32, deadline_ms: u64) -> u32 {
    let within = 2.0 * capacity_rps * deadline_ms as f64 / 1e3;
    (within / f64::from(connections))
        .ceil()
        .clamp(1.0, f64::from(DEPTH_MAX)) as u32
}

/// Good answers in time per second.
fn goodput(outcome: &Outcome) -> f64 {
    let good = outcome.tally.allowed + outcome.tally.denied;
    good as f64 * 1e9 / outcome.answered_ns.max(1) as f64
}

fn step(load: f64, length: Duration, outcome: &Outcome) -> OverloadStep {
    let tally = &outcome.tally;
    // All have the bounds of every latency histogram; without the late ones the percentile would be within the deadline
    // whatever the server does.
    let p99_ms = |further: &Histogram<u64>| {
        let mut all = tally.response();
        let whole = all.add(further).is_ok();
        (whole && !all.is_empty()).then(|| all.value_at_quantile(0.99) as f64 / 1e6)
    };
    let good = tally.allowed + tally.denied;
    // What was still answered in time after the end took time as well.
    let answered_s = length.as_secs_f64().max(outcome.answered_ns as f64 / 1e9);
    OverloadStep {
        load,
        offered_rps: tally.planned as f64 / length.as_secs_f64(),
        goodput_rps: good as f64 / answered_s,
        latency_p99_ms: p99_ms(&tally.overdue),
        decided_p99_ms: p99_ms(&tally.late_decided),
        refused: tally.store_error + tally.protocol,
        late: tally.timeout + tally.refused,
        unsent: tally.unsent,
        generator_lag_p99_ms: (!tally.own_lag.is_empty())
            .then(|| tally.own_lag.value_at_quantile(0.99) as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_hold_what_comes_within_a_deadline() {
        assert_eq!(depth(60_000.0, 50, 20), 48);
        assert_eq!(depth(60_000.0, 800, 20), 3);
        assert_eq!(depth(10.0, 800, 20), 1);
        assert_eq!(depth(1e9, 50, 1_000), DEPTH_MAX);
    }

    #[test]
    fn requests_without_an_answer_in_time_count_in_the_percentile() {
        let mut tally = crate::load::tally::Tally::new(1);
        (tally.planned, tally.allowed, tally.timeout, tally.unsent) = (1_000, 900, 60, 40);
        tally.response_allow.record_n(5_000_000, 900).unwrap();
        tally.overdue.record_n(21_000_000, 100).unwrap();
        tally.late_decided.record_n(30_000_000, 5).unwrap();
        let found = step(2.0, Duration::from_secs(1), &outcome(tally));
        let near = |value: Option<f64>, of: f64| (value.unwrap() - of).abs() < 0.1;
        assert!(near(found.latency_p99_ms, 21.0), "{found:?}");
        assert!(near(found.decided_p99_ms, 5.0), "{found:?}");
        assert_eq!(found.p99_of_decisions_ms(), found.decided_p99_ms);
    }

    fn outcome(tally: crate::load::tally::Tally) -> Outcome {
        Outcome {
            elapsed_ns: 4 * SECOND,
            answered_ns: 4 * SECOND,
            completed_ns: 4 * SECOND,
            generator_cpu_ns: None,
            run_queue_wait_ns: None,
            watched_cpu_ns: Vec::new(),
            tally,
            cut_short: None,
            schedule_counted: true,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_long_deadline_makes_no_service_faster_than_it_is() {
        // 1,000 answers a second, offered 2,000 for two seconds by callers who wait for as long as it takes.
        let mut tally = crate::load::tally::Tally::new(1);
        (tally.planned, tally.allowed) = (4_000, 4_000);
        let found = step(2.0, Duration::from_secs(2), &outcome(tally));
        assert_eq!((found.offered_rps, found.goodput_rps), (2_000.0, 1_000.0));
    }
}
