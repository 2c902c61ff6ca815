//! The searches of several fresh starts as one. Each start searched by itself; what counts is the median of what they
//! found.

use super::points;
use crate::record::capacity::{
    CapacityRecord, CapacitySource, GoalResult, HealthWait, LoadPoint, SearchEnd, StartInterval,
    Trial,
};
use crate::record::recovery::RecoveryRecord;
use crate::record::{Cell, Profile};
use crate::run::starts::{Start, of_cell};
use crate::search::ladder::cpu_points;
use crate::search::zones::CpuPoint;
use crate::search::{hysteresis, retention, zones};
use crate::statistics::{estimate, median};

/// The search of a start, with its number.
type Numbered<'a> = (u32, &'a CapacityRecord);

/// The searches of `cell` in all `starts`, whose rows are put together already; `None` if none was searched.
pub(in crate::run) fn merged(
    starts: &[Start],
    cell: &Cell,
    profile: &Profile,
    threads: Option<u32>,
    seed: u64,
) -> Option<CapacityRecord> {
    let (mut trials, mut waits) = (Vec::new(), Vec::new());
    let mut all: Vec<Numbered<'_>> = Vec::new();
    for (start, offset_s, cell) in of_cell(starts, cell) {
        let found = cell.capacity.as_ref();
        let Some(found) = found.filter(|found| found.source == CapacitySource::Search) else {
            continue;
        };
        all.push((start, found));
        waits.extend(found.waits.iter().map(|wait| HealthWait {
            start: Some(start),
            offset_s: offset_s + wait.offset_s,
            ..*wait
        }));
        trials.extend(found.trials.iter().map(|trial| Trial {
            start: Some(start),
            offset_s: offset_s + trial.offset_s,
            ..trial.clone()
        }));
    }
    let (_, first) = all.first()?;
    let (ended, ended_because) = ending(&all);
    let mut inverted: Vec<f64> = all
        .iter()
        .flat_map(|(_, f)| f.inverted_rps.clone())
        .collect();
    inverted.sort_by(f64::total_cmp);
    inverted.dedup();
    let goals = (0..first.goals.len()).map(|at| goal(&all, at, seed));
    let mut record = CapacityRecord {
        source: CapacitySource::Search,
        goals: goals.collect(),
        non_monotone: !inverted.is_empty(),
        inverted_rps: inverted,
        ended,
        ended_because,
        hysteresis: up_and_down(&all),
        trials,
        waits,
        ..CapacityRecord::default()
    };
    let rows = cell.by_load();
    put_zones(&mut record, cell, &cpu_points(&rows, threads));
    record.refuse(all.iter().find_map(|(start, found)| {
        let why = found.refused.as_ref()?;
        Some(format!("start {start}: {why}"))
    }));
    // The rows of a recovery run do not go past the knee on purpose.
    if cell.recovery.is_none() {
        let held = record.goals.first().and_then(|goal| goal.lower_rps);
        record.retention = retention::of_steps(profile, &rows, held);
    }
    Some(record)
}

/// Puts the zones of all starts into `record`, with what the recovery of `cell` found about healing, if there was one.
fn put_zones(record: &mut CapacityRecord, cell: &Cell, used: &[CpuPoint]) {
    let recovery = cell.recovery.as_ref();
    match recovery.and_then(RecoveryRecord::bounding) {
        Some((healing, verdict)) => zones::put_with_healing(record, healing, verdict, used),
        None => zones::put(record, None, used),
    }
}

/// The first end that was not planned; without one, that of the first start.
fn ending(all: &[Numbered<'_>]) -> (SearchEnd, String) {
    let broken = all.iter().find(|(_, found)| !found.came_to_an_end());
    let spent = || all.iter().find(|(_, f)| f.ended == SearchEnd::BudgetSpent);
    match broken.or_else(spent) {
        Some((start, found)) => (
            found.ended,
            format!("start {start}: {}", found.ended_because),
        ),
        None => (
            SearchEnd::Done,
            all.first()
                .map_or_else(String::new, |(_, found)| found.ended_because.clone()),
        ),
    }
}

/// Goal number `at` over the starts. A search that was broken off has tried too little to count.
fn goal(all: &[Numbered<'_>], at: usize, seed: u64) -> GoalResult {
    let ended = all.iter().any(|(_, found)| found.came_to_an_end());
    let counted = all
        .iter()
        .filter(|(_, found)| found.came_to_an_end() || !ended);
    let results: Vec<(u32, &GoalResult)> = counted
        .filter_map(|(start, found)| Some((*start, found.goals.get(at)?)))
        .collect();
    let of = |pick: fn(&GoalResult) -> Option<f64>| -> Vec<Option<f64>> {
        results.iter().map(|(_, result)| pick(result)).collect()
    };
    let (lower, upper) = (of(|r| r.lower_rps), of(|r| r.upper_rps));
    let lowest: Option<Vec<f64>> = lower.iter().copied().collect();
    let throughput: Vec<f64> = of(|r| r.conditional_throughput_rps)
        .into_iter()
        .flatten()
        .collect();
    let wide = results.iter().filter(|(_, r)| !r.converged).count();
    let n = results.len();
    let zones_of = |start: u32| {
        let (_, found) = all.iter().find(|(number, _)| *number == start)?;
        found.zones.as_ref().filter(|_| at == 0)
    };
    GoalResult {
        goal: results
            .first()
            .map(|(_, r)| r.goal.clone())
            .unwrap_or_default(),
        // Where nothing was held, the load held is lower than any; where nothing was too much, that is higher.
        lower_rps: middle(&lower, f64::NEG_INFINITY),
        upper_rps: middle(&upper, f64::INFINITY),
        converged: n > 0 && wide == 0,
        conditional_throughput_rps: median(&throughput),
        remark: match wide {
            0 => format!("the median of {n} starts"),
            wide => format!(
                "the median of {n} starts, in {wide} of which the interval is not as narrow as asked"
            ),
        },
        starts: results
            .iter()
            .map(|(start, result)| {
                let zones = zones_of(*start);
                StartInterval {
                    start: *start,
                    lower_rps: result.lower_rps,
                    upper_rps: result.upper_rps,
                    safe_rps: zones.map(|zones| zones.safe_rps),
                    decided_by: zones.map(|zones| zones.decided_by),
                    hidden_rps: zones.and_then(|zones| zones.hidden_rps),
                    cpu_70_rps: zones.and_then(|zones| zones.cpu_70_rps),
                    confidence: zones.map(|zones| zones.confidence),
                }
            })
            .collect(),
        over_starts: lowest
            .filter(|_| n > 1)
            .and_then(|lowest| estimate(&lowest, seed)),
    }
}

/// The median of values of which some are beyond what was tried, which are as `beyond`; `None` if it is one of these.
fn middle(values: &[Option<f64>], beyond: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.iter().map(|value| value.unwrap_or(beyond)).collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0).filter(|middle| middle.is_finite())
}

/// The ways up and down, with the median of the starts at each load.
fn up_and_down(all: &[Numbered<'_>]) -> Option<crate::record::capacity::Hysteresis> {
    let way = |purpose: &str| -> Vec<LoadPoint> {
        let mut points: Vec<LoadPoint> = all
            .iter()
            .flat_map(|(_, found)| points(&found.trials, purpose))
            .collect();
        points.sort_by(|a, b| a.target_rps.total_cmp(&b.target_rps));
        points
            .chunk_by(|a, b| a.target_rps == b.target_rps)
            .map(|at_load| {
                let goodput: Vec<f64> = at_load.iter().map(|point| point.goodput_rps).collect();
                let p99: Vec<f64> = at_load.iter().filter_map(|point| point.p99_ms).collect();
                LoadPoint {
                    target_rps: at_load[0].target_rps,
                    goodput_rps: median(&goodput).unwrap_or(0.0),
                    p99_ms: median(&p99),
                }
            })
            .collect()
    };
    let (up, mut down) = (way("up"), way("down"));
    // Both ways share the turning point.
    down.extend(up.last().copied());
    hysteresis::between(&up, &down)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Grade, RunRecord, SearchGoal};

    const TRIAL_S: f64 = 1.0;

    /// A start whose search found `lower` and 1.05 times that as too much, and whose trials at both were of this grade.
    fn start(lower: Option<f64>, grade: Grade) -> Start {
        let upper = lower.map_or(100.0, |lower| 1.05 * lower);
        let trial = |load_rps: f64, purpose: &str, goodput_rps: f64| {
            let mut trial = Trial {
                load_rps,
                goodput_rps,
                duration_s: TRIAL_S,
                purpose: purpose.into(),
                kept: vec![Some(load_rps) == lower],
                counted: purpose == "narrow",
                ..Trial::default()
            };
            if grade != Grade::Valid {
                trial.validity.lower(grade, "the generator was late");
            }
            trial
        };
        let held = lower.unwrap_or(0.0);
        let searched = lower.map(|lower| trial(lower, "narrow", lower));
        let ways = [
            trial(1_000.0, "up", 1_000.0),
            trial(2_000.0, "up", held),
            trial(1_000.0, "down", 500.0),
        ];
        let rest = [trial(upper, "narrow", held)].into_iter().chain(ways);
        let capacity = CapacityRecord {
            goals: vec![GoalResult {
                goal: SearchGoal {
                    name: "slo".into(),
                    ..SearchGoal::default()
                },
                lower_rps: lower,
                upper_rps: Some(upper),
                converged: true,
                conditional_throughput_rps: lower,
                ..GoalResult::default()
            }],
            trials: searched.into_iter().chain(rest).collect(),
            ended_because: "every goal has its answer".into(),
            ..CapacityRecord::default()
        };
        let cell = Cell {
            capacity: Some(capacity),
            ..Cell::default()
        };
        Start {
            offset_s: 0.0,
            record: RunRecord {
                cells: vec![cell],
                ..RunRecord::default()
            },
        }
    }

    fn merge(starts: &[Start]) -> CapacityRecord {
        merged(starts, &Cell::default(), &Profile::store(), None, 42).unwrap()
    }

    #[test]
    fn what_holds_is_the_median_of_the_starts_with_an_interval() {
        let held = [1_000.0, 1_040.0, 980.0, 1_010.0, 400.0];
        let starts = held.map(|rps| start(Some(rps), Grade::Valid));
        let found = merge(&starts);
        let goal = &found.goals[0];
        assert_eq!(
            (goal.lower_rps, goal.upper_rps),
            (Some(1_000.0), Some(1_050.0))
        );
        assert!(goal.converged && goal.remark == "the median of 5 starts");
        let over = goal.over_starts.unwrap();
        assert_eq!((over.n, over.median, over.min), (5, 1_000.0, 400.0));
        assert!(over.low.unwrap() >= 400.0 && over.high.unwrap() <= 1_040.0);
        assert_eq!(
            goal.starts.iter().map(|s| s.start).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5]
        );
        assert_eq!(found.zones.unwrap().safe_rps, 850.0);
        assert_eq!(found.trials.len(), 25);
        assert!(found.trials[24].start == Some(5));
        let ways = found.hysteresis.unwrap();
        assert_eq!(ways.up[1].goodput_rps, 1_000.0);
    }

    #[test]
    fn a_start_that_held_nothing_counts_as_less_than_all() {
        let of = |held: [Option<f64>; 3]| merge(&held.map(|rps| start(rps, Grade::Valid)));
        let most = of([Some(900.0), None, Some(1_000.0)]);
        assert_eq!(most.goals[0].lower_rps, Some(900.0));
        assert_eq!(
            most.goals[0].over_starts, None,
            "no interval without a value of each"
        );
        let few = of([Some(900.0), None, None]);
        assert_eq!((few.goals[0].lower_rps, few.zones), (None, None));
    }

    #[test]
    fn one_spoiled_start_does_not_spoil_the_median_but_half_do() {
        let grade = |grades: [Grade; 4]| {
            merge(&grades.map(|grade| start(Some(1e3), grade)))
                .deciding()
                .grade
        };
        use Grade::{Invalid, Valid};
        assert_eq!(grade([Valid, Invalid, Valid, Valid]), Valid);
        assert_eq!(grade([Valid, Invalid, Invalid, Valid]), Invalid);
    }

    #[test]
    fn a_search_that_was_broken_off_does_not_count_and_is_told() {
        let mut broken = start(Some(10.0), Grade::Valid);
        let cut = broken.record.cells[0].capacity.as_mut().unwrap();
        cut.ended = SearchEnd::TargetLost;
        cut.ended_because = "the server closed the connection".into();
        let found = merge(&[
            start(Some(900.0), Grade::Valid),
            broken,
            start(Some(1e3), Grade::Valid),
        ]);
        assert_eq!(found.goals[0].lower_rps, Some(950.0));
        assert_eq!(found.ended, SearchEnd::TargetLost);
        assert_eq!(
            found.ended_because,
            "start 2: the server closed the connection"
        );
    }

    #[test]
    fn over_admission_in_one_start_refuses_all() {
        let mut wrong = start(Some(5_000.0), Grade::Valid);
        let found = wrong.record.cells[0].capacity.as_mut().unwrap();
        found.refuse(Some("it admitted too much".into()));
        let found = merge(&[start(Some(900.0), Grade::Valid), wrong]);
        assert_eq!(found.refused.unwrap(), "start 2: it admitted too much");
        assert_eq!(found.zones, None);
    }
}
