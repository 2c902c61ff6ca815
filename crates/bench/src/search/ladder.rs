//! What a plain ladder says about capacity: the same questions, with one trial per load.

use super::retention;
use super::zones::{CpuPoint, Grounds, cpu_70, tell_healing, zones};
use crate::record::capacity::{CapacityRecord, CapacitySource, GoalResult, SearchEnd};
use crate::record::recovery::{Healing, RecoveryRecord, RecoveryVerdict};
use crate::record::{Grade, Measure, Profile, RunRecord, SearchGoal, Step, Validity};

/// Processor use of a target with `threads` worker threads at the loads of `steps`; empty where it is not known.
#[must_use]
pub(crate) fn cpu_points(steps: &[&Step], threads: Option<u32>) -> Vec<CpuPoint> {
    let share = |step: &Step| {
        let used = step.server?;
        used.busiest_thread_percent.or_else(|| {
            let threads = threads.filter(|count| *count > 0)?;
            Some(used.cpu_percent / f64::from(threads))
        })
    };
    steps
        .iter()
        .filter_map(|step| {
            Some(CpuPoint {
                target_rps: step.target_rps,
                percent: share(step)?,
            })
        })
        .collect()
}

/// What the rungs of a ladder say, one trial per load. A row that was not held and is invalid says nothing: the generator or
/// the machine may have been what failed.
pub(crate) struct Reading<'a> {
    /// Rows that say something about the target.
    pub telling: Vec<&'a Step>,
    /// Of these, the held ones below the first that was not. A load run twice with different outcomes does not count as held.
    pub held: Vec<&'a Step>,
    /// The first of the telling rows that was not held.
    pub not_held: Option<&'a Step>,
}

impl<'a> Reading<'a> {
    /// Reads `steps`, in rising order of load, of which `holds` tells the held ones.
    pub(crate) fn of(steps: &[&'a Step], holds: impl Fn(&Step) -> bool) -> Reading<'a> {
        let tells = |step: &Step| holds(step) || step.validity.grade != Grade::Invalid;
        let telling: Vec<&Step> = steps.iter().copied().filter(|step| tells(step)).collect();
        let end = telling.iter().position(|step| !holds(step));
        let not_held = end.map(|at| telling[at]);
        let below = telling[..end.unwrap_or(telling.len())].iter().copied();
        let held = below
            .filter(|step| not_held.is_none_or(|broken| step.target_rps != broken.target_rps))
            .collect();
        Reading {
            telling,
            held,
            not_held,
        }
    }
}

/// Capacity from the rungs of a ladder (in rising order) over so many `starts`, judged by `profile`'s thresholds and bounded by
/// what is known about healing. `None` without rungs.
#[must_use]
pub(crate) fn capacity(
    profile: &Profile,
    steps: &[&Step],
    threads: Option<u32>,
    starts: u32,
    healing: Option<(&Healing, RecoveryVerdict)>,
) -> Option<CapacityRecord> {
    let first = steps.first()?;
    let goal = SearchGoal {
        exceed_ratio: 0.0,
        final_trial_s: first.duration_s,
        duration_sum_s: first.duration_s,
        ..SearchGoal::named("slo", profile)?
    };
    let holds = |step: &Step| goal.broken_by(&Measure::of(step)).is_none();
    let read = Reading::of(steps, holds);
    let held = read.held.last().copied();
    let above = |step: &&&Step| held.is_none_or(|held| step.target_rps > held.target_rps);
    let failed = steps.iter().filter(above).find(|step| !holds(step));
    let inverted = inverted(&read.telling, holds);
    let mut validity = Validity::default();
    if let Some(held) = held {
        validity.absorb(&format!("{:.0}/s", held.target_rps), &held.validity);
    }
    if let Some(broken) = failed.filter(|step| step.validity.grade != Grade::Valid) {
        validity.leave_open(broken.target_rps, &broken.validity.reasons.join(", and "));
    }
    let shown = read.not_held.map(|step| step.target_rps);
    let result = GoalResult {
        lower_rps: held.map(|row| row.target_rps),
        upper_rps: shown,
        converged: false,
        conditional_throughput_rps: held.map(|row| row.goodput_rps),
        remark: remark(starts, held.is_some(), failed.map(|_| shown.is_some())),
        starts: Vec::new(),
        over_starts: None,
        goal,
    };
    let mut zones = zones(&Grounds {
        result: Some(&result),
        hidden_rps: healing.and_then(|(found, _)| found.hidden_rps),
        cpu_70_rps: cpu_70(&cpu_points(steps, threads)),
        non_monotone: !inverted.is_empty(),
        too_much_rps: shown,
        validity,
    });
    if let (Some(zones), Some((found, hardest))) = (&mut zones, healing) {
        tell_healing(zones, found, hardest);
    }
    Some(CapacityRecord {
        source: CapacitySource::Ladder,
        non_monotone: !inverted.is_empty(),
        inverted_rps: inverted,
        ended: SearchEnd::Done,
        ended_because: "the ladder ended".into(),
        zones,
        retention: retention::of_steps(profile, steps, None),
        goals: vec![result],
        ..CapacityRecord::default()
    })
}

/// Loads that were not held although a higher one was.
fn inverted(telling: &[&Step], holds: impl Fn(&Step) -> bool) -> Vec<f64> {
    let below_held = |at: &usize| telling[at + 1..].iter().any(|step| holds(step));
    (0..telling.len())
        .filter(|at| !holds(telling[*at]))
        .filter(below_held)
        .map(|at| telling[at].target_rps)
        .collect()
}

/// Why the interval of a ladder over so many starts is as it is. `failed` tells whether a rung that did not hold is shown not to.
fn remark(starts: u32, held: bool, failed: Option<bool>) -> String {
    let tried = match starts {
        0 | 1 => "each load was tried once".to_owned(),
        starts => format!("each load was tried once in each of {starts} starts"),
    };
    match (held, failed) {
        (true, Some(true)) => format!("{tried}, and the interval is the distance of two rungs"),
        (true, Some(false)) => format!("{tried}, and the lowest rung that did not hold is invalid"),
        (true, None) => format!("{tried}, and the highest rung still held"),
        (false, Some(true)) => "the lowest rung did not hold".to_owned(),
        (false, _) => "no rung held, and the lowest is invalid".to_owned(),
    }
}

/// What the ladders say about capacity, where no search looked for it. `interrupted` tells why a ladder may be cut short.
pub(crate) fn of_record(record: &mut RunRecord, interrupted: bool) {
    for cell in &mut record.cells {
        let target = record.targets.iter().find(|one| one.name == cell.target);
        let threads = target.and_then(|target| target.threads);
        // A closed loop offers what is answered: no load of it can be too much.
        if cell.capacity.is_some() || cell.load.closed_loop {
            continue;
        }
        let starts = cell.starts();
        // A recovery run whose knee was given looks for no capacity, and for healing all the same.
        let recovery = cell.recovery.as_ref();
        let healing = recovery.and_then(RecoveryRecord::bounding);
        let rows = cell.by_load();
        cell.capacity = capacity(&record.profile, &rows, threads, starts, healing);
        let Some(found) = &mut cell.capacity else {
            continue;
        };
        let over = cell.accuracy.as_ref().filter(|found| !found.never_over());
        found.refuse(over.map(|judged| {
            format!(
                "it admitted {:.2} % more than its limit allows, so no load of it counts as held",
                judged.over_admission_percent
            )
        }));
        if !cell.complete {
            found.ended = match interrupted {
                true => SearchEnd::Interrupted,
                false => SearchEnd::TargetLost,
            };
            found.ended_because = "the ladder ended early".into();
        }
    }
}
