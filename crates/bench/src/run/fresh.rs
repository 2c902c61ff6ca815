//! Runs a session several times, each with targets that were started for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::console::Console;
use super::machine;
use super::plan::RunPlan;
use super::session::{Job, Session};
use super::starts::{Start, merge};
use crate::record::{RunRecord, Severity};

/// What one start is given, and what becomes of its record.
pub(crate) trait Steward {
    /// Starts or attaches the targets of `session`.
    fn gather(&mut self, session: &mut Session<'_>);

    /// Processors that are busy while the run does nothing yet, and how many there are; `None` where that is not known.
    fn busy(&self) -> Option<(f64, usize)> {
        machine::busy_processors()
    }

    /// Called once the targets are up, before anything is measured. In the `first` start the machine was looked at before,
    /// and the generator may be calibrated.
    fn begin(&mut self, _session: &mut Session<'_>, _first: bool) {}

    /// Called after every scenario with the record of this start and with that of all starts so far.
    fn keep(&mut self, now: &RunRecord, whole: &RunRecord, console: &mut Console);
}

/// Does `job` by `plan` in `count` fresh starts. Starts repeat the rates and step length of those before them; the order of
/// the targets alternates. One start gives the session's own record, without statistics.
pub(crate) fn run(
    (plan, job): (&RunPlan, &Job),
    count: u32,
    console: &mut Console,
    stop: &AtomicBool,
    steward: &mut dyn Steward,
) -> RunRecord {
    let begun = Instant::now();
    let mut starts: Vec<Start> = Vec::new();
    let mut plan = plan.clone();
    loop {
        if count > 1 {
            console.begin_start(starts.len() as u32 + 1, count);
        }
        let offset_s = begun.elapsed().as_secs_f64();
        let mut session = Session::new(&plan, console, stop);
        let first = starts.is_empty();
        steward.gather(&mut session);
        if first && session.has_targets() && !stop.load(Ordering::Relaxed) {
            let busy = steward.busy();
            if let Some(warning) =
                busy.and_then(|(busy, count)| machine::beside_others(busy, count))
            {
                session.event(Severity::Warning, None, warning);
            }
        }
        steward.begin(&mut session, first);
        if count > 1 {
            session.begin_start(&starts);
        }
        let record = session.run_job(job, &mut |now, console| {
            if count == 1 {
                steward.keep(now, now, console);
                return;
            }
            let mut so_far = starts.clone();
            so_far.push(Start {
                offset_s,
                record: now.clone(),
            });
            if let Some(whole) = merge(&so_far, count) {
                steward.keep(now, &whole, console);
            }
        });
        if count == 1 {
            return record;
        }
        if let Some(step) = record.cells.iter().flat_map(|cell| &cell.steps).next() {
            plan.step
                .get_or_insert(Duration::from_secs_f64(step.duration_s));
        }
        starts.push(Start { offset_s, record });
        let first = &starts[0].record.cells;
        let hopeless = first.iter().all(|cell| !cell.is_measured());
        if starts.len() as u32 == count || stop.load(Ordering::Relaxed) || hopeless {
            return merge(&starts, count).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::load::address::{Address, Endpoint};
    use crate::load::schedule::Arrivals;
    use crate::record::{Event, Profile, TargetRecord};
    use crate::run::attribution::Watching;
    use crate::run::plan::Ladder;
    use crate::target::strategy::Strategy;
    use crate::target::{Arm, Service, Target};

    /// A run of a target that nothing is asked of, on a machine on which all is in use.
    struct Busy;

    impl Steward for Busy {
        fn gather(&mut self, session: &mut Session<'_>) {
            let record = TargetRecord {
                name: "idle".into(),
                ..TargetRecord::default()
            };
            let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
            let endpoint = Endpoint::plain(Address::Tcp(nowhere));
            let arm = Arm {
                strategy: Strategy::Exact,
                services: 1,
                threads: 1,
                fleet: None,
            };
            let service = Service::of_fleet(record, endpoint, Vec::new(), arm);
            session.add(Target::Service(Box::new(service)));
        }

        fn busy(&self) -> Option<(f64, usize)> {
            Some((2.0, 2))
        }

        fn keep(&mut self, _now: &RunRecord, _whole: &RunRecord, _console: &mut Console) {}
    }

    #[test]
    fn a_run_without_calibration_looks_at_the_machine() {
        let plan = RunPlan {
            scenarios: Vec::new(),
            ladder: Ladder::Fixed(vec![1_000.0]),
            step: None,
            warmup: Duration::ZERO,
            steady: None,
            order: None,
            pause: Duration::ZERO,
            arrivals: Arrivals::Poisson,
            connections: 1,
            depth: 1,
            grpc_connections: 1,
            grpc_streams: 1,
            http_pipeline: 1,
            deadline: Duration::from_secs(1),
            window_s: 60,
            seed: 42,
            profile: Profile::store(),
            generator_core: None,
            target_core: None,
            calibrate: false,
            key_prefix: String::new(),
            watching: Watching::default(),
            spin: None,
            sampling: None,
        };
        let mut console = Console::silent();
        let stop = AtomicBool::new(false);
        let record = run((&plan, &Job::Ladder), 1, &mut console, &stop, &mut Busy);
        let said = |event: &&Event| {
            event
                .text
                .starts_with("CPU use of other processes: 2.0 of 2")
        };
        assert_eq!(
            record.events.iter().filter(said).count(),
            1,
            "{:?}",
            record.events
        );
    }
}
