//! What searches held, compared although they ended at different rates.

use tollgate_bench::load::rng::Rng;
use tollgate_bench::record::capacity::{
    CapacityRecord, GoalResult, SearchEnd, StartInterval, Trial,
};
use tollgate_bench::record::{GateOutcome, Grade, Metric, Profile, RunRecord, SearchGoal, Verdict};
use tollgate_bench::stored::{Refused, StoredRun, compare, default_floor, noise, trends};

use super::gate::judged_by;
use super::printed::{Folder, text};
use super::{PLAIN, arms, run_of, stored};

/// Width of the searches' intervals.
const WIDTH: f64 = 0.02;

/// A run of five starts that each searched by itself: around `capacity_rps`, as far apart as starts are, and each with
/// rows at rates of its own search.
fn searched(capacity_rps: f64, seed: u64) -> RunRecord {
    let mut record = run_of(&[("tollgate", PLAIN)], 5);
    let mut rng = Rng::new(seed);
    let held: Vec<f64> = (0..5)
        .map(|_| (capacity_rps * (1.0 + 0.03 * (rng.unit() - 0.5))).round())
        .collect();
    let trials = (1..).zip(&held).map(|(start, held)| Trial {
        start: Some(start),
        load_rps: *held,
        counted: true,
        kept: vec![true],
        ..Trial::default()
    });
    let starts = (1..).zip(&held).map(|(start, held)| StartInterval {
        start,
        lower_rps: Some(*held),
        upper_rps: Some(held / (1.0 - WIDTH)),
        ..StartInterval::default()
    });
    let goal = GoalResult {
        goal: SearchGoal {
            width: WIDTH,
            final_trial_s: 1.0,
            duration_sum_s: 3.0,
            ..SearchGoal::named("slo", &Profile::store()).unwrap()
        },
        lower_rps: Some(held[0]),
        starts: starts.collect(),
        ..GoalResult::default()
    };
    let cell = &mut record.cells[0];
    for (at, rate) in cell
        .statistics
        .as_mut()
        .unwrap()
        .rates
        .iter_mut()
        .enumerate()
    {
        rate.target_rps = held[0] * (1 + at) as f64;
        cell.steps[at].target_rps = rate.target_rps;
    }
    cell.capacity = Some(CapacityRecord {
        goals: vec![goal],
        trials: trials.collect(),
        ..CapacityRecord::default()
    });
    record
}

fn capacity(record: &mut RunRecord) -> &mut CapacityRecord {
    record.cells[0].capacity.as_mut().unwrap()
}

fn judged(baseline: &RunRecord, run: &RunRecord) -> (GateOutcome, Vec<String>) {
    let (baseline, run) = (stored(baseline.clone()), stored(run.clone()));
    judged_by(&Metric::ALL, &baseline, &run).unwrap()
}

#[test]
fn a_planted_loss_of_capacity_is_found_and_an_equal_one_is_not() {
    let base = searched(50_000.0, 1);
    let (outcome, reasons) = judged(&base, &searched(45_000.0, 2));
    assert_eq!(outcome, GateOutcome::Failed, "{reasons:?}");
    assert!(
        reasons[0].contains("under the goal slo: worse: the load held of B is 0."),
        "{reasons:?}"
    );
    for seed in 2..6 {
        let (outcome, reasons) = judged(&base, &searched(50_000.0, seed));
        assert_eq!(outcome, GateOutcome::Passed, "{seed}: {reasons:?}");
    }
    let (outcome, _) = judged(&base, &searched(60_000.0, 2));
    assert_eq!(outcome, GateOutcome::Passed, "more is no regression");
}

#[test]
fn a_comparison_of_searches_compares_what_they_held() {
    let (a, b) = (stored(searched(50_000.0, 1)), stored(searched(60_000.0, 2)));
    let record = compare(&arms(&a, &b), &Metric::ALL, &default_floor()).unwrap();
    let [row] = &record.rows[..] else {
        panic!("{:?}", record.rows)
    };
    assert_eq!(
        (row.metric, row.verdict),
        (Metric::HeldRps, Verdict::Better)
    );
    assert_eq!((row.target_rps, row.goal.as_deref()), (None, Some("slo")));
    assert_eq!((row.a.n, row.b.n, row.open_a, row.open_b), (5, 5, 0, 0));
    assert!(
        record.notes[0].starts_with("2 loads of searches left out"),
        "{:?}",
        record.notes
    );
    // Of three searches of one program, each start counts.
    let three: Vec<StoredRun> = [3, 4, 5]
        .map(|seed| stored(searched(50_000.0, seed)))
        .concat();
    let record = compare(&arms(&three, &b), &[Metric::HeldRps], &default_floor()).unwrap();
    assert_eq!(record.rows[0].a.n, 15);
}

#[test]
fn a_search_that_nothing_was_too_much_for_is_no_reason_to_fail_or_to_pass() {
    let base = searched(50_000.0, 1);
    let mut low = searched(45_000.0, 2);
    for start in &mut capacity(&mut low).goals[0].starts {
        start.upper_rps = None;
    }
    let (outcome, reasons) = judged(&base, &low);
    assert_eq!(outcome, GateOutcome::Invalid);
    assert!(
        reasons[0].contains("no load was too high for the run"),
        "{reasons:?}"
    );
    // What is at least so much more than the baseline is more.
    let (outcome, _) = judged(&searched(40_000.0, 3), &low);
    assert_eq!(outcome, GateOutcome::Passed);
}

#[test]
fn a_start_that_held_nothing_counts_and_a_spoiled_one_does_not() {
    let base = searched(50_000.0, 1);
    let mut none = searched(50_000.0, 2);
    for start in &mut capacity(&mut none).goals[0].starts {
        start.lower_rps = None;
    }
    assert_eq!(judged(&base, &none).0, GateOutcome::Failed);
    let mut spoiled = searched(30_000.0, 2);
    for trial in &mut capacity(&mut spoiled).trials {
        trial
            .validity
            .lower(Grade::Invalid, "the generator was late");
    }
    let (outcome, reasons) = judged(&base, &spoiled);
    assert_eq!(outcome, GateOutcome::Invalid);
    assert!(
        reasons[0].contains("no row for: held of tollgate"),
        "{reasons:?}"
    );
    let mut refused = searched(50_000.0, 2);
    capacity(&mut refused).refused = Some("it admitted too much".into());
    assert_eq!(judged(&base, &refused).0, GateOutcome::Invalid);
}

#[test]
fn a_search_that_the_generator_ended_is_one_that_nothing_was_too_much_for() {
    let base = searched(50_000.0, 1);
    let mut clipped = searched(45_000.0, 2);
    let found = capacity(&mut clipped);
    let above: Vec<Trial> = found.goals[0]
        .starts
        .iter()
        .map(|start| {
            let mut trial = Trial {
                start: Some(start.start),
                load_rps: start.upper_rps.unwrap(),
                counted: true,
                kept: vec![false],
                ..Trial::default()
            };
            let late = "the generator used 92.0 % of its core";
            trial.validity.lower(Grade::Invalid, late);
            trial
        })
        .collect();
    found.trials.extend(above);
    let deciding = found.deciding();
    assert_eq!(deciding.grade, Grade::Indicative);
    assert!(
        deciding.reasons[0].contains("the limit may lie higher, because at "),
        "{:?}",
        deciding.reasons
    );
    let (outcome, reasons) = judged(&base, &clipped);
    assert_eq!(outcome, GateOutcome::Invalid);
    assert!(
        reasons[0].contains("no load was too high for the run"),
        "{reasons:?}"
    );
}

#[test]
fn searches_that_asked_otherwise_are_unequal() {
    let (base, mut other) = (searched(50_000.0, 1), searched(50_000.0, 2));
    let goal = &mut capacity(&mut other).goals[0].goal;
    goal.p99_ms_max = Some(250.0);
    goal.width = 0.1;
    let refused = judged_by(&Metric::ALL, &stored(base), &stored(other));
    let Err(Refused::Unequal(found)) = refused else {
        panic!("{refused:?}")
    };
    let names: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(names, ["largest P99 in ms", "width of the search"]);
}

#[test]
fn one_search_counts_as_one_start_and_one_that_was_broken_off_as_none() {
    let alone = |held: f64, ended: SearchEnd| {
        let mut record = run_of(&[("tollgate", PLAIN)], 1);
        let mut found = capacity(&mut searched(held, 1)).clone();
        let goal = &mut found.goals[0];
        (goal.lower_rps, goal.upper_rps) = (Some(held), Some(held / (1.0 - WIDTH)));
        goal.starts.clear();
        found.trials.clear();
        found.ended = ended;
        record.cells[0].capacity = Some(found);
        record
    };
    let held = |ended| {
        let (a, b) = (alone(50_000.0, SearchEnd::Done), alone(40_000.0, ended));
        let (a, b) = (stored(a), stored(b));
        let found = compare(&arms(&a, &b), &[Metric::HeldRps], &default_floor()).unwrap();
        found.rows.first().map(|row| (row.b.n, row.verdict))
    };
    assert_eq!(held(SearchEnd::BudgetSpent), Some((1, Verdict::TooFew)));
    assert_eq!(held(SearchEnd::TargetLost), None);
}

#[test]
fn noise_and_trends_follow_what_is_held() {
    let found = noise(&[stored(searched(50_000.0, 1)), stored(searched(50_000.0, 2))].concat());
    let of_held = found.unwrap().metrics;
    let of_held = of_held.iter().find(|one| one.metric == Metric::HeldRps);
    assert!(of_held.unwrap().smallest_claimable_percent < 5.0);
    let runs: Vec<StoredRun> = (0..6_u32)
        .map(|number| {
            let mut record = searched(50_000.0 * 0.95_f64.powi(number as i32), number.into());
            record.manifest.started_unix_s += 86_400 * i64::from(number);
            stored(record).remove(0)
        })
        .collect();
    let found = trends(&runs, &Metric::ALL).unwrap();
    let [row] = &found.rows[..] else {
        panic!("{:?}", found.rows)
    };
    assert!(
        row.sentence.contains("under the goal slo: held: worse by") && row.points.len() == 6,
        "{}",
        row.sentence
    );
}

#[test]
fn the_gate_judges_searches_without_being_told_to() {
    let folder = Folder::new();
    let base = folder.write("base", &searched(50_000.0, 1));
    let less = folder.write("less", &searched(45_000.0, 2));
    let same = folder.write("same", &searched(50_000.0, 3));
    let baseline = base.display().to_string();
    let gate = |run, more: &[&str]| {
        let args = [&["gate", "--baseline", &baseline], more].concat();
        let output = folder.bench(&args, &[run]);
        (output.status.code(), text(&output))
    };
    let (code, out) = gate(&less, &[]);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("under the goal slo"), "{out}");
    let (code, out) = gate(&same, &[]);
    assert_eq!(code, Some(0), "{out}");
    let (_, out) = gate(&less, &["--lang", "vi"]);
    assert!(
        out.contains("theo mục tiêu slo: kém hơn: tải giữ được của B"),
        "{out}"
    );
    assert!(!out.contains(" the ") && !out.contains(" of "), "{out}");
    let (_, out) = gate(&less, &["--json"]);
    let record: serde_json::Value = serde_json::from_str(&out).unwrap();
    let row = &record["comparison"]["rows"][0];
    assert_eq!(
        (&row["metric"], &row["goal"]),
        (&"held_rps".into(), &"slo".into())
    );
    assert!(row["target_rps"].is_null());
}
