//! Fresh starts: the same run several times with new processes, put together into one record. Pure functions of the
//! starts' records.
//!
//! A process that was started once keeps what chance gave it (memory layout, hash seeds, which core first ran it) for
//! its whole life. Only new starts average over that.

use hdrhistogram::Histogram;

use super::{capacity, fill, mitigations, recovery};
use crate::load::tally::latency_histogram;
use crate::record::{
    Cell, CellStatistics, Failures, Gauge, Grade, Measure, Metric, ProcessUse, Profile,
    RateStatistics, RunRecord, SplitLatency, StartSample, Starts, Step, TargetRecord, Validity,
    status,
};
use crate::search::ladder;
use crate::statistics::{estimate, median};

/// Starts that a run may have.
pub(crate) const STARTS_MAX: u32 = 100;
/// Remarks kept of all starts of a row together.
const NOTES_MAX: usize = 16;

/// One start's record, and when it began.
#[derive(Clone, Debug)]
pub struct Start {
    /// Seconds from the first start to this one.
    pub offset_s: f64,
    /// What it measured.
    pub record: RunRecord,
}

/// Order in which start `number` (from 0) loads `targets` of them: A B, B A, A B …; more than two are rotated too, so
/// that each comes first, last and between.
#[must_use]
pub(crate) fn order(number: u32, targets: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..targets).collect();
    if targets > 2 {
        order.rotate_left((number / 2) as usize % targets);
    }
    if number % 2 == 1 {
        order.reverse();
    }
    order
}

/// All starts as one record; the first one's circumstances stand for all. `None` without starts.
#[must_use]
pub fn merge(starts: &[Start], planned: u32) -> Option<RunRecord> {
    let first = &starts.first()?.record;
    let mut record = first.clone();
    let last = starts.last().unwrap_or(&starts[0]);
    record.manifest.duration_s = last.offset_s + last.record.manifest.duration_s;
    let done = starts.iter().filter(|start| start.record.complete).count();
    record.cells = furthest(starts);
    record.targets = all_targets(starts);
    let targets = record.targets.clone();
    let names = |by_bench: bool| {
        let of = targets.iter();
        of.filter(|target| target.started_by_bench == by_bench)
            .map(|target| target.name.clone())
            .collect()
    };
    record.starts = Some(Starts {
        planned,
        done: u32::try_from(done).unwrap_or(u32::MAX),
        order: starts
            .iter()
            .map(|start| {
                start
                    .record
                    .targets
                    .iter()
                    .map(|t| t.name.clone())
                    .collect()
            })
            .collect(),
        fresh: names(true),
        kept: names(false),
    });
    record.events = starts.iter().flat_map(events).collect();
    record.gauges = starts.iter().flat_map(gauges).collect();
    for start in &starts[1..] {
        for skipped in &start.record.skipped {
            if !record.skipped.contains(skipped) {
                record.skipped.push(skipped.clone());
            }
        }
    }
    for cell in &mut record.cells {
        merge_cell(cell, starts, &first.profile, first.manifest.seed);
        let target = targets.iter().find(|one| one.name == cell.target);
        let threads = target.and_then(|target| target.threads);
        cell.recovery = recovery::merged(starts, cell, first.manifest.seed);
        cell.capacity =
            capacity::merged(starts, cell, &first.profile, threads, first.manifest.seed);
    }
    record.mitigations = mitigations::merged(starts, first.manifest.seed);
    let broken = starts
        .iter()
        .enumerate()
        .find_map(|(at, start)| Some((at + 1, start.record.partial_reason.clone()?)));
    record.partial_reason = match broken {
        Some((number, why)) => Some(format!("start {number} of {planned}: {why}")),
        None if starts.len() < planned as usize => Some(format!(
            "{} of {planned} starts were measured",
            starts.len()
        )),
        None => None,
    };
    record.complete = record.partial_reason.is_none();
    record.settle();
    ladder::of_record(&mut record, false);
    Some(record)
}

/// Every cell that any of `starts` has, in the order in which they first appear, as it is in the start that has most rows of
/// it.
pub(super) fn furthest(starts: &[Start]) -> Vec<Cell> {
    let mut found: Vec<&Cell> = Vec::new();
    for cell in starts.iter().flat_map(|start| &start.record.cells) {
        match found.iter_mut().find(|known| same(known, cell)) {
            Some(known) if known.steps.len() < cell.steps.len() => *known = cell,
            Some(_) => {}
            None => found.push(cell),
        }
    }
    found.into_iter().cloned().collect()
}

/// Every target that any of `starts` has, as it was first.
fn all_targets(starts: &[Start]) -> Vec<TargetRecord> {
    let mut found: Vec<TargetRecord> = Vec::new();
    for target in starts.iter().flat_map(|start| &start.record.targets) {
        if !found.iter().any(|known| known.name == target.name) {
            found.push(target.clone());
        }
    }
    found
}

fn events(start: &Start) -> impl Iterator<Item = crate::record::Event> {
    start
        .record
        .events
        .iter()
        .map(|event| crate::record::Event {
            offset_s: start.offset_s + event.offset_s,
            ..event.clone()
        })
}

fn gauges(start: &Start) -> impl Iterator<Item = Gauge> {
    start.record.gauges.iter().map(|gauge| Gauge {
        offset_s: start.offset_s + gauge.offset_s,
        ..*gauge
    })
}

/// Whether two cells are the same in different starts.
pub(super) fn same(a: &Cell, b: &Cell) -> bool {
    a.target == b.target && a.scenario == b.scenario && a.operation.name == b.operation.name
}

fn merge_cell(cell: &mut Cell, starts: &[Start], profile: &Profile, seed: u64) {
    // By place and not by rate alone: a ladder that goes up and down has every rate twice.
    let measured = of_cell(starts, cell);
    let longest = measured.iter().map(|(_, _, cell)| cell.steps.len()).max();
    let mut steps = Vec::new();
    let mut rates = Vec::new();
    for at in 0..longest.unwrap_or(0) {
        let rungs: Vec<Rung<'_>> = measured
            .iter()
            .filter_map(|(start, offset_s, cell)| {
                let step = cell.steps.get(at)?;
                Some(Rung {
                    start: *start,
                    offset_s: *offset_s,
                    step,
                })
            })
            .collect();
        let Some(rate) = rungs.first().map(|rung| rung.step.target_rps) else {
            continue;
        };
        let alike: Vec<Rung<'_>> = rungs
            .into_iter()
            .filter(|r| r.step.target_rps == rate)
            .collect();
        let mut statistics = rate_statistics(&alike, profile, seed);
        steps.extend(merge_steps(&alike, &statistics));
        // The row keeps the histograms; twice would be half of the record.
        statistics.response.leave_out_histograms();
        statistics.service.leave_out_histograms();
        rates.push(statistics);
    }
    let complete = measured.iter().all(|(_, _, cell)| cell.complete);
    if let Some((_, _, first)) = measured.first() {
        cell.notes.clone_from(&first.notes);
    }
    for (number, _, other) in measured.iter().skip(1) {
        for note in &other.notes {
            if !cell.notes.contains(note) && cell.notes.len() < NOTES_MAX {
                cell.notes.push(format!("start {number}: {note}"));
            }
        }
    }
    cell.complete = complete && measured.len() == starts.len();
    cell.accuracy = fill::whole_cell(&steps);
    cell.statistics = Some(CellStatistics {
        starts: u32::try_from(measured.len()).unwrap_or(u32::MAX),
        rates,
    });
    cell.steps = steps;
}

/// `cell` in every start that has it, with the number (from 1) and the time of the start.
pub(super) fn of_cell<'a>(starts: &'a [Start], cell: &Cell) -> Vec<(u32, f64, &'a Cell)> {
    let found = |(number, start): (u32, &'a Start)| {
        let cells = &mut start.record.cells.iter();
        Some((
            number,
            start.offset_s,
            cells.find(|other| same(cell, other))?,
        ))
    };
    (1..).zip(starts).filter_map(found).collect()
}

/// A row in one start.
struct Rung<'a> {
    start: u32,
    offset_s: f64,
    step: &'a Step,
}

/// What a start showed at one offered load.
#[must_use]
pub(crate) fn sample(start: u32, offset_s: f64, step: &Step, profile: &Profile) -> StartSample {
    let all = step.response.all.as_ref();
    StartSample {
        start,
        offset_s: offset_s + step.offset_s,
        goodput_rps: step.goodput_rps,
        fail_percent: step.fail_percent(),
        p50_us: all.map(|all| all.p50_us),
        p99_us: all.map(|all| all.p99_us),
        p99_9_us: all.map(|all| all.p99_9_us),
        server_cpu_us_per_op: step.server.and_then(|used| used.cpu_us_per_op),
        grade: step.validity.grade,
        level: Some(status::level(profile, &Measure::of(step)).level),
    }
}

fn rate_statistics(rungs: &[Rung<'_>], profile: &Profile, seed: u64) -> RateStatistics {
    let samples: Vec<StartSample> = rungs
        .iter()
        .map(|rung| sample(rung.start, rung.offset_s, rung.step, profile))
        .collect();
    let of = |metric: Metric| {
        let values: Vec<f64> = samples
            .iter()
            .filter_map(|sample| metric.of(sample))
            .collect();
        estimate(&values, seed)
    };
    RateStatistics {
        target_rps: rungs.first().map_or(0.0, |rung| rung.step.target_rps),
        goodput_rps: of(Metric::GoodputRps),
        p50_us: of(Metric::P50Us),
        p99_us: of(Metric::P99Us),
        server_cpu_us_per_op: of(Metric::ServerCpuUsPerOp),
        response: merge_latencies(rungs.iter().map(|rung| &rung.step.response)),
        service: merge_latencies(rungs.iter().map(|rung| &rung.step.service)),
        starts: samples,
    }
}

/// Distributions put together from their histograms; percentiles are never averaged. Empty if one that was measured
/// has no histogram, because the rest would pass for the whole.
fn merge_latencies<'a>(parts: impl Iterator<Item = &'a SplitLatency>) -> SplitLatency {
    let [mut allow, mut deny, mut overdue] = [(); 3].map(|()| latency_histogram());
    for part in parts {
        for (sum, summary) in [
            (&mut allow, &part.allow),
            (&mut deny, &part.deny),
            (&mut overdue, &part.overdue),
        ] {
            let Some(summary) = summary else { continue };
            match summary.histogram() {
                Some(Ok(histogram)) if add(sum, &histogram) => {}
                _ => return SplitLatency::default(),
            }
        }
    }
    SplitLatency::from_histograms(&allow, &deny, &overdue).unwrap_or_default()
}

fn add(sum: &mut Histogram<u64>, part: &Histogram<u64>) -> bool {
    sum.add(part).is_ok()
}

/// The row of all starts: counts added, rates and CPU as medians, distributions merged. What cannot be put together
/// (send lag, buckets of time, remarks on the process) is that of the start whose goodput is the median.
fn merge_steps(rungs: &[Rung<'_>], statistics: &RateStatistics) -> Option<Step> {
    let middle = middle(rungs)?;
    let sum = |field: fn(&Step) -> u64| rungs.iter().map(|rung| field(rung.step)).sum::<u64>();
    let mid = |field: &dyn Fn(&Step) -> Option<f64>| {
        let values: Vec<f64> = rungs.iter().filter_map(|rung| field(rung.step)).collect();
        median(&values)
    };
    let rate = |field: fn(&Step) -> f64| mid(&|step| Some(field(step))).unwrap_or(0.0);
    let owned: Vec<Step> = rungs.iter().map(|rung| rung.step.clone()).collect();
    let mut step = Step {
        duration_s: owned.iter().map(|step| step.duration_s).sum(),
        planned: sum(|s| s.planned),
        sent: sum(|s| s.sent),
        completed: sum(|s| s.completed),
        allowed: sum(|s| s.allowed),
        denied: sum(|s| s.denied),
        failures: Failures {
            timeout: sum(|s| s.failures.timeout),
            refused: sum(|s| s.failures.refused),
            protocol: sum(|s| s.failures.protocol),
            store_error: sum(|s| s.failures.store_error),
            limiter_error: sum(|s| s.failures.limiter_error),
            unsent: sum(|s| s.failures.unsent),
        },
        sent_rps: rate(|s| s.sent_rps),
        completed_rps: rate(|s| s.completed_rps),
        goodput_rps: rate(|s| s.goodput_rps),
        response: statistics.response.clone(),
        service: statistics.service.clone(),
        accuracy: fill::whole_cell(&owned),
        validity: validity(rungs),
        ..middle.clone()
    };
    step.server = middle.server.map(|used| ProcessUse {
        cpu_percent: mid(&|s| Some(s.server?.cpu_percent)).unwrap_or(used.cpu_percent),
        cpu_us_per_op: mid(&|s| s.server?.cpu_us_per_op),
        busiest_thread_percent: mid(&|s| s.server?.busiest_thread_percent),
        run_queue_wait_percent: mid(&|s| s.server?.run_queue_wait_percent),
        ..used
    });
    step.notes = rungs
        .iter()
        .flat_map(|rung| rung.step.notes.iter().map(move |note| (rung.start, note)))
        .take(NOTES_MAX)
        .map(|(start, note)| format!("start {start}: {note}"))
        .collect();
    Some(step)
}

/// The start whose goodput is the median, the lower one of two.
fn middle<'a>(rungs: &[Rung<'a>]) -> Option<&'a Step> {
    let mut steps: Vec<&Step> = rungs.iter().map(|rung| rung.step).collect();
    steps.sort_by(|a, b| a.goodput_rps.total_cmp(&b.goodput_rps));
    steps.get(steps.len().checked_sub(1)? / 2).copied()
}

/// One spoiled start out of five does not spoil the medians; half of them do.
fn validity(rungs: &[Rung<'_>]) -> Validity {
    let mut validity = Validity::default();
    let grade = Grade::of_several(rungs.iter().map(|rung| rung.step.validity.grade));
    if grade == Grade::Valid {
        return validity;
    }
    for rung in rungs {
        let found = &rung.step.validity;
        if found.grade != Grade::Valid {
            validity.lower(
                grade,
                format!("start {}: {}", rung.start, found.reasons.join(", and ")),
            );
        }
    }
    validity
}

#[cfg(test)]
mod tests;
