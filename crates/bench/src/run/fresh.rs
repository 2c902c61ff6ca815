//! Runs a session several times, each with targets that were started for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::console::Console;
use super::plan::RunPlan;
use super::session::{Job, Session};
use super::starts::{Start, merge};
use crate::record::RunRecord;

/// What one start is given, and what becomes of its record.
pub(crate) trait Steward {
    /// Starts or attaches the targets of `session`; calibrates the generator if this is the `first` start.
    fn gather(&mut self, session: &mut Session<'_>, first: bool);

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
        steward.gather(&mut session, starts.is_empty());
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
