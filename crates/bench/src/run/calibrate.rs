//! What the generator can do on this machine when the target costs nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::console::Console;
use super::thread::generate;
use crate::load::address::{Address, Endpoint};
use crate::load::closed::{Drawn, Pool};
use crate::load::keys::{KeySampler, Spreading};
use crate::load::live::Live;
use crate::load::open::{self, Own, Plan};
use crate::load::open_loop::{BACKLOG_LIMIT, Bounds};
use crate::load::schedule::Arrivals;
use crate::load::workload::{Ask, Rule, Workload};
use crate::null_server::NullServer;
use crate::os::{clock, proc};
use crate::record::{Calibration, Gauge};

/// Length of each part.
const PART: Duration = Duration::from_millis(700);
/// Length of each part of a gauge.
const GAUGE_PART: Duration = Duration::from_millis(300);
/// Load at which the floor of the latency is measured.
const FLOOR_RATE: f64 = 5_000.0;
/// Clock readings timed.
const CLOCK_READINGS: u32 = 1_000_000;
/// Cost of a clock reading above which time stamps disturb the measurement.
const CLOCK_COST_MAX_NS: f64 = 100.0;

/// Measures ceiling and floor with the null responder on `target_core`.
pub(crate) fn calibrate(
    connections: u32,
    depth: u32,
    cores: (Option<usize>, Option<usize>),
    console: &mut Console,
    stop: &AtomicBool,
) -> Result<Calibration, String> {
    console.phase("calibrating the generator".into());
    let (found, clock_read_ns) = against_null(PART, (connections, depth), cores, console, stop)?;
    if clock_read_ns > CLOCK_COST_MAX_NS {
        console.note(&format!(
            "warning: reading the clock takes {clock_read_ns:.0} ns (clock source {}): latencies include that",
            clock::source().unwrap_or_else(|| "unknown".into())
        ));
    }
    Ok(Calibration {
        ceiling_rps: found.ceiling_rps,
        floor_p50_us: found.floor_p50_us,
        floor_p99_us: found.floor_p99_us,
        clock_read_ns,
        generator_cpu_us_per_op: found.cpu_us_per_op,
        connections,
        reused: None,
    })
}

/// The same in short, to tell whether the machine is what it was: `offset_s` is when, in seconds of the run.
pub(crate) fn gauge(
    shape: (u32, u32),
    cores: (Option<usize>, Option<usize>),
    offset_s: f64,
    console: &mut Console,
    stop: &AtomicBool,
) -> Result<Gauge, String> {
    console.phase("looking at the machine".into());
    let (found, _) = against_null(GAUGE_PART, shape, cores, console, stop)?;
    Ok(Gauge {
        offset_s,
        ceiling_rps: found.ceiling_rps,
        floor_p50_us: found.floor_p50_us,
        floor_p99_us: found.floor_p99_us,
    })
}

/// What was seen against the null server.
struct Seen {
    ceiling_rps: f64,
    cpu_us_per_op: Option<f64>,
    floor_p50_us: f64,
    floor_p99_us: f64,
}

/// Asks the null server for `part` as fast as it goes, and for `part` at a low rate. Second, what a look at the clock costs.
fn against_null(
    part: Duration,
    (connections, depth): (u32, u32),
    (generator_core, target_core): (Option<usize>, Option<usize>),
    console: &mut Console,
    stop: &AtomicBool,
) -> Result<(Seen, f64), String> {
    let server = NullServer::start(target_core)
        .map_err(|error| format!("cannot start the null server: {error}"))?;
    let endpoint = Endpoint::plain(Address::Tcp(server.address()));
    let live = Live::default();
    let workload = Workload::render(
        &Ask::RlTake(Rule {
            limit: 100,
            window_s: 60,
        }),
        "calibration:",
        100,
    );
    let bounds = Bounds {
        connections: connections as usize,
        depth: depth as usize,
        deadline_ns: clock::SECOND,
        backlog_limit: BACKLOG_LIMIT,
    };
    let (clock_read_ns, ceiling, floor) =
        generate(generator_core, &live, part * 2, console, || {
            let clock_read_ns = clock::reading_cost_ns(CLOCK_READINGS);
            let ceiling = ceiling(part, &endpoint, &workload, bounds, stop);
            let plan = Plan {
                arrivals: Arrivals::Poisson,
                rate: FLOOR_RATE,
                length_ns: part.as_nanos() as u64,
                spreading: Spreading::Uniform,
                seed: 1,
                bounds,
                later: Vec::new(),
                clients: None,
                own: Own::default(),
            };
            (
                clock_read_ns,
                ceiling,
                open::run(&plan, &workload, &endpoint, stop, &live),
            )
        });
    if stop.load(Ordering::Relaxed) {
        // What was cut short says nothing of what the generator can do.
        return Err("interrupted".into());
    }
    let (ceiling_rps, cpu_us_per_op) = ceiling?;
    let service = floor?.tally.service();
    let at = |quantile: f64| service.value_at_quantile(quantile) as f64 / 1e3;
    let seen = Seen {
        ceiling_rps,
        cpu_us_per_op,
        floor_p50_us: at(0.5),
        floor_p99_us: at(0.99),
    };
    Ok((seen, clock_read_ns))
}

fn ceiling(
    part: Duration,
    endpoint: &Endpoint,
    workload: &Workload,
    bounds: Bounds,
    stop: &AtomicBool,
) -> Result<(f64, Option<f64>), String> {
    let mut pool = Pool::open(endpoint, bounds.connections).map_err(|error| error.to_string())?;
    let mut feed = Drawn {
        workload,
        sampler: KeySampler::new(Spreading::Uniform, workload.keys(), 1),
    };
    let before = proc::thread_cpu_ns();
    let slice = pool.run(&mut feed, bounds.depth, part.as_nanos() as u64, stop)?;
    let cpu_ns = proc::thread_cpu_ns()
        .zip(before)
        .map(|(after, before)| after - before);
    Ok((
        slice.rate(),
        cpu_ns.map(|ns| ns as f64 / 1e3 / slice.answers.max(1) as f64),
    ))
}
