//! What ladders show, on ladders made up here.

use super::*;
use crate::record::capacity::{CapacityRecord, GoalResult, StartInterval, Trial};
use crate::record::{Failures, Operation, Scenario};
use crate::search::ladder;

/// A ladder of (load, failed percent).
fn cell(target: &str, rows: &[(f64, u64)]) -> Cell {
    let step = |(target_rps, failed): &(f64, u64)| Step {
        target_rps: *target_rps,
        planned: 100,
        goodput_rps: target_rps * (100 - failed) as f64 / 100.0,
        failures: Failures {
            timeout: *failed,
            ..Failures::default()
        },
        ..Step::default()
    };
    Cell {
        target: target.into(),
        scenario: Scenario {
            name: "s".into(),
            title: "S".into(),
            ..Scenario::default()
        },
        operation: Operation {
            title: "op".into(),
            algorithm: "fixed-window".into(),
            ..Operation::default()
        },
        steps: rows.iter().map(step).collect(),
        ..Cell::default()
    }
}

fn run(cells: Vec<Cell>) -> RunRecord {
    let mut record = RunRecord {
        cells,
        ..RunRecord::default()
    };
    record.settle();
    record
}

#[test]
fn a_ladder_with_a_hole_sustains_only_what_lies_below_it() {
    // The shape of the study's single-key ladder: fails at 15k, holds again at 17.5k.
    let record = run(vec![cell(
        "redis",
        &[(10.0, 0), (12.5, 0), (15.0, 3), (17.5, 0), (30.0, 90)],
    )]);
    let found = CellFindings::of(&record.cells[0]);
    assert_eq!(
        (found.sustained_rps, found.not_held_rps),
        (Some(12.5), Some(15.0))
    );
    assert_eq!(found.anomalies_rps, [15.0]);
    assert_eq!(found.breaking_rps, Some(15.0));
    assert_eq!(found.peak_goodput_rps, Some(17.5));
    assert_eq!(found.safe_rps, Some(10.0));
    assert!((found.cliff_margin.unwrap() - 1.4).abs() < 1e-9);
    let (over, kept) = found.retention.unwrap();
    assert!((over - 2.4).abs() < 1e-9 && (kept - 3.0 / 17.5).abs() < 1e-9);
}

/// What the verdict says of `record` in `lang`.
fn said(record: &RunRecord, lang: Lang) -> String {
    super::super::verdict::run(record, lang).join(" ")
}

#[test]
fn rows_that_held_above_a_lowest_one_that_did_not_are_spoken_of() {
    let hole = || cell("hole", &[(10.0, 60), (20.0, 0), (40.0, 0), (80.0, 60)]);
    let alone = run(vec![hole()]);
    let found = CellFindings::of(&alone.cells[0]);
    assert_eq!(
        (found.sustained_rps, found.held_alone_rps),
        (None, Some(40.0))
    );
    let what = "hole with op did not hold 10/s, the lowest valid row of its ladder, though single rows above it \
                held up to 40/s (not monotone)";
    let english = said(&alone, Lang::En);
    assert!(
        english.contains("no cell held its load from the bottom of the ladder on")
            && english.contains(what),
        "{english}"
    );
    let vietnamese = said(&alone, Lang::Vi);
    assert!(
        vietnamese.contains("không đơn điệu") && vietnamese.contains("40/s"),
        "{vietnamese}"
    );
    // Beside one that held something.
    let beside = said(
        &run(vec![cell("a", &[(10.0, 0), (20.0, 60)]), hole()]),
        Lang::En,
    );
    assert!(
        beside.contains(what) && !beside.contains("held no row"),
        "{beside}"
    );
    // One without such rows held none.
    let none = run(vec![cell("none", &[(10.0, 60), (20.0, 60)])]);
    assert_eq!(CellFindings::of(&none.cells[0]).held_alone_rps, None);
    assert!(said(&none, Lang::En).contains("not even 10/s"));
}

#[test]
fn what_is_left_past_a_search_is_told_of_the_load_that_it_names() {
    // The row at the load that the search found held went worse by chance.
    let mut cells = vec![cell(
        "a",
        &[(50.0, 0), (100.0, 6), (200.0, 40), (400.0, 90)],
    )];
    cells[0].capacity = Some(CapacityRecord {
        source: CapacitySource::Search,
        goals: vec![GoalResult {
            lower_rps: Some(100.0),
            upper_rps: Some(104.0),
            ..GoalResult::default()
        }],
        ..CapacityRecord::default()
    });
    let found = CellFindings::of(&run(cells).cells[0]);
    assert_eq!(found.sustained_rps, Some(100.0));
    assert_eq!(found.retention.unwrap().0, 4.0);
    assert_eq!(found.cliff_margin, Some(3.0));
}

#[test]
fn a_search_that_ended_early_does_not_say_that_nothing_was_held() {
    // The row at 100/s held; the search used up its trials above.
    let mut cells = vec![
        cell("a", &[(100.0, 0), (200.0, 0)]),
        cell("b", &[(100.0, 0), (200.0, 60)]),
    ];
    cells[1].capacity = Some(CapacityRecord {
        source: CapacitySource::Search,
        goals: vec![GoalResult {
            upper_rps: Some(200.0),
            ..GoalResult::default()
        }],
        ..CapacityRecord::default()
    });
    let text = super::super::verdict::run(&run(cells), Lang::En).join(" ");
    assert!(
        text.contains("the search ended before it could show a load"),
        "{text}"
    );
    assert!(!text.contains("no row"), "{text}");
}

#[test]
fn a_search_that_the_generator_ended_bounds_nothing() {
    let searched = |name: &str, held: f64, spoiled: bool| {
        let mut cell = cell(name, &[(held, 0), (2.0 * held, 60)]);
        let trial = |load_rps: f64, held: bool| {
            let mut trial = Trial {
                load_rps,
                counted: true,
                kept: vec![held],
                ..Trial::default()
            };
            if spoiled && !held {
                let why = "the generator used 92.0 % of its core";
                trial.validity.lower(Grade::Invalid, why);
            }
            trial
        };
        cell.capacity = Some(CapacityRecord {
            source: CapacitySource::Search,
            goals: vec![GoalResult {
                lower_rps: Some(held),
                upper_rps: Some(1.1 * held),
                ..GoalResult::default()
            }],
            trials: vec![trial(held, true), trial(1.1 * held, false)],
            ..CapacityRecord::default()
        });
        cell
    };
    let record = run(vec![
        searched("fast", 200.0, false),
        searched("slow", 100.0, true),
    ]);
    let found = CellFindings::of(&record.cells[1]);
    assert_eq!(
        (found.sustained_rps, found.not_held_rps),
        (Some(100.0), None)
    );
    assert!((found.doubtful_rps.unwrap() - 110.0).abs() < 1e-9);
    // The faster of the two may not be: how much the other would have held was never seen.
    let ranked = &scenarios(&record)[0].ranked;
    assert_eq!(
        advantage(&ranked[0].findings, &ranked[1].findings),
        Advantage::Open
    );
    let validity = record.cells[1].validity();
    assert_eq!(validity.grade, Grade::Indicative, "{validity:?}");
    assert!(
        validity.reasons[0].starts_with("the limit may lie higher, because at 110/s"),
        "{validity:?}"
    );
}

#[test]
fn the_order_of_running_does_not_matter() {
    let up = run(vec![cell("a", &[(1.0, 0), (2.0, 0), (3.0, 60)])]);
    let shuffled = run(vec![cell("a", &[(3.0, 60), (1.0, 0), (2.0, 0)])]);
    assert_eq!(
        CellFindings::of(&up.cells[0]),
        CellFindings::of(&shuffled.cells[0])
    );
}

#[test]
fn a_ladder_without_an_end_claims_only_a_lower_bound() {
    let record = run(vec![
        cell("open", &[(100.0, 0), (200.0, 0)]),
        cell("closed", &[(50.0, 0), (100.0, 0), (120.0, 10)]),
    ]);
    let scenario = &scenarios(&record)[0];
    assert_eq!(scenario.ranked[0].cell.target, "open");
    let (best, other) = (&scenario.ranked[0].findings, &scenario.ranked[1].findings);
    assert_eq!(advantage(best, other), Advantage::AtLeast(200.0 / 120.0));
    assert_eq!(scenario.common_rps, Some(100.0));
}

#[test]
fn ladders_that_touch_show_no_difference() {
    let record = run(vec![
        cell("a", &[(100.0, 0), (120.0, 10)]),
        cell("b", &[(90.0, 0), (110.0, 10)]),
    ]);
    let ranked = &scenarios(&record)[0].ranked;
    assert_eq!(ranked[0].cell.target, "a");
    assert_eq!(
        advantage(&ranked[0].findings, &ranked[1].findings),
        Advantage::NotShown
    );
}

#[test]
fn an_invalid_row_proves_nothing_against_a_target() {
    let mut record = run(vec![cell("a", &[(1.0, 0), (2.0, 80), (3.0, 0), (4.0, 70)])]);
    for step in [1, 3] {
        record.cells[0].steps[step]
            .validity
            .lower(Grade::Invalid, "the generator was late");
    }
    let found = CellFindings::of(&record.cells[0]);
    assert_eq!((found.sustained_rps, found.not_held_rps), (Some(3.0), None));
    assert_eq!(found.doubtful_rps, Some(2.0));
    assert_eq!(found.breaking_rps, None);
}

#[test]
fn the_zones_of_a_ladder_and_its_findings_read_spoiled_rows_alike() {
    let rows = [(1.0, 0), (2.0, 80), (3.0, 0), (4.0, 70), (5.0, 90)];
    for spoiled in [vec![1, 3], vec![1], vec![3], vec![0, 1], vec![1, 3, 4]] {
        let mut record = run(vec![cell("a", &rows)]);
        for at in &spoiled {
            let step = &mut record.cells[0].steps[*at];
            step.validity
                .lower(Grade::Invalid, "the generator was late");
        }
        ladder::of_record(&mut record, false);
        record.settle();
        let found = CellFindings::of(&record.cells[0]);
        let capacity = record.cells[0].capacity.as_ref().unwrap();
        let goal = &capacity.goals[0];
        assert_eq!(
            (found.sustained_rps, found.not_held_rps),
            (goal.lower_rps, goal.upper_rps),
            "{spoiled:?}"
        );
        let zones = capacity.zones.as_ref().unwrap();
        assert_eq!(
            Some(zones.sustained_rps),
            found.sustained_rps,
            "{spoiled:?}"
        );
        // A held row that is invalid is no ground; one that was passed over says nothing.
        let worst = if spoiled.contains(&0) {
            Grade::Invalid
        } else {
            Grade::Indicative
        };
        assert!(record.cells[0].validity().grade <= worst, "{spoiled:?}");
    }
}

#[test]
fn cost_is_compared_where_all_answered_if_not_all_held() {
    let mut record = run(vec![
        cell("a", &[(1.0, 0), (2.0, 0)]),
        cell("b", &[(1.0, 0), (2.0, 0)]),
    ]);
    record.cells[1].steps[1].status.level = Level::Degraded;
    assert_eq!(scenarios(&record)[0].common_rps, Some(1.0));
    record.cells[1].steps[0].status.level = Level::Degraded;
    assert_eq!(scenarios(&record)[0].common_rps, Some(2.0));
}

#[test]
fn stores_and_services_are_not_ranked_against_each_other() {
    let mut record = run(vec![
        cell("redis", &[(100.0, 0), (200.0, 0)]),
        cell("tollgate-grpc", &[(20.0, 0), (30.0, 50)]),
    ]);
    record.targets = ["redis", "tollgate-grpc"]
        .map(|name| crate::record::TargetRecord {
            name: name.into(),
            ..Default::default()
        })
        .to_vec();
    record.targets[1].kind = TargetKind::Service;
    let found = scenarios(&record);
    let titles: Vec<String> = found
        .iter()
        .map(|scenario| scenario.title(Lang::En))
        .collect();
    assert_eq!(titles, ["S", "S · service"]);
    assert_eq!(found[0].common_rps, Some(200.0));
    assert_eq!(found[1].common_rps, Some(20.0));
}

#[test]
fn the_worst_judgement_of_a_cell_may_stand_in_a_row() {
    let mut record = run(vec![cell("a", &[(1.0, 0), (2.0, 0)])]);
    let cell = &mut record.cells[0];
    for (step, (limit, worst)) in cell.steps.iter_mut().zip([(10, 10), (20, 30)]) {
        step.accuracy = Some(Accuracy {
            limit,
            worst_window_admitted: Some(worst),
            ..Accuracy::default()
        });
        step.allowed = 1;
    }
    cell.accuracy = Some(Accuracy::default());
    assert_eq!(worst_stretch(cell), Some(1.5));
    assert_eq!(limits(cell), Some((10, 20)));
    assert_eq!(never_over_admitted(&record), Some(true));
}

#[test]
fn a_cell_that_admits_too_much_cannot_win() {
    let mut record = run(vec![
        cell("fast", &[(1_000.0, 0)]),
        cell("right", &[(10.0, 0)]),
    ]);
    let first = |record: &RunRecord| scenarios(record)[0].ranked[0].cell.target.clone();
    assert_eq!(first(&record), "fast");
    record.cells[0].steps[0].accuracy = Some(Accuracy {
        over_admission_percent: 0.01,
        ..Accuracy::default()
    });
    assert_eq!(first(&record), "right");
    let verdict = |record: &RunRecord| super::super::verdict::run(record, Lang::En).join(" ");
    assert!(verdict(&record).starts_with("S: right with op held 10/s"));
    record.cells[1].steps[0].accuracy = record.cells[0].steps[0].accuracy.clone();
    assert!(verdict(&record).contains("so none is ranked"));
}

#[test]
fn nothing_measured_gives_nothing_found() {
    let record = run(vec![cell("dead", &[(100.0, 100)]), cell("empty", &[])]);
    for cell in &record.cells {
        let found = CellFindings::of(cell);
        assert_eq!(found.sustained_rps, None);
        assert_eq!(found.peak_goodput_rps, None);
        assert_eq!(found.safe_rps, None);
    }
    assert_eq!(never_over_admitted(&record), None);
    assert_eq!(scenarios(&record)[0].common_rps, None);
}

/// A search that found [10, 11], with a trial at `load` that held.
fn searched(target: &str, load: f64, grade: Grade) -> Cell {
    let trial = crate::record::capacity::Trial {
        load_rps: load,
        kept: vec![true],
        validity: crate::record::Validity {
            grade,
            ..crate::record::Validity::default()
        },
        ..crate::record::capacity::Trial::default()
    };
    let mut cell = cell(target, &[(10.0, 0), (11.0, 9)]);
    cell.capacity = Some(CapacityRecord {
        goals: vec![GoalResult {
            lower_rps: Some(10.0),
            upper_rps: Some(11.0),
            ..GoalResult::default()
        }],
        trials: vec![trial],
        ..CapacityRecord::default()
    });
    cell
}

#[test]
fn trials_that_contradict_a_search_widen_what_it_claims() {
    let contested = CellFindings::of(&searched("a", 20.0, Grade::Indicative));
    assert_eq!(contested.held_above_rps, Some(20.0));
    let spoiled = CellFindings::of(&searched("a", 20.0, Grade::Invalid));
    assert_eq!(spoiled.held_above_rps, None);
    let mut better = CellFindings::of(&searched("b", 10.0, Grade::Valid));
    (better.sustained_rps, better.not_held_rps) = (Some(44.0), Some(50.0));
    assert_eq!(advantage(&better, &spoiled), Advantage::Between(4.0, 5.0));
    assert_eq!(advantage(&better, &contested), Advantage::Between(2.2, 5.0));
    let run = run(vec![searched("a", 20.0, Grade::Valid)]);
    let said = crate::report::verdict::run(&run, Lang::En).join(" ");
    assert!(said.contains("single trials held up to 20/s"), "{said}");
}

#[test]
fn a_command_that_decides_nothing_is_ranked_among_its_like_only() {
    let of = |target: &str, title: &str, algorithm: &str| {
        let mut cell = cell(target, &[(10.0, 0)]);
        cell.operation.title = title.into();
        cell.operation.algorithm = algorithm.into();
        cell
    };
    let run = run(vec![
        of("a", "GET", ""),
        of("a", "RL.TAKE", "fixed-window"),
        of("b", "GET", ""),
        of("b", "EVALSHA", "gcra"),
        of("b", "SET", ""),
    ]);
    let groups = scenarios(&run);
    let titles: Vec<String> = groups.iter().map(|group| group.title(Lang::En)).collect();
    assert_eq!(titles, ["S · GET", "S", "S · SET"]);
    let sizes: Vec<usize> = groups.iter().map(|group| group.ranked.len()).collect();
    assert_eq!(sizes, [2, 2, 1]);
}

#[test]
fn searches_of_enough_starts_are_compared_by_a_test() {
    let searched = |name: &str, each: &[f64]| {
        let mut cell = cell(name, &[(100.0, 0), (200.0, 60)]);
        let starts = (1..).zip(each).map(|(start, held)| StartInterval {
            start,
            lower_rps: Some(*held),
            upper_rps: Some(1.05 * held),
            ..StartInterval::default()
        });
        cell.capacity = Some(CapacityRecord {
            source: CapacitySource::Search,
            goals: vec![GoalResult {
                lower_rps: Some(each[each.len() / 2]),
                upper_rps: Some(1.05 * each[each.len() / 2]),
                starts: starts.collect(),
                ..GoalResult::default()
            }],
            ..CapacityRecord::default()
        });
        cell
    };
    let slow = searched("slow", &[96.0, 98.0, 100.0, 102.0, 104.0]);
    let said = |fast: &[f64]| {
        let record = run(vec![slow.clone(), searched("fast", fast)]);
        let text = super::super::verdict::run(&record, Lang::En).join(" ");
        let ranked = &scenarios(&record)[0].ranked;
        (advantage(&ranked[0].findings, &ranked[1].findings), text)
    };
    let (shown, text) = said(&[190.0, 195.0, 200.0, 205.0, 210.0]);
    let Advantage::Shown {
        ratio,
        within,
        n,
        p,
    } = shown
    else {
        panic!("{shown:?}")
    };
    assert!((ratio - 2.0).abs() < 0.02 && n == 5, "{ratio}");
    assert!(within.0 > 1.8 && within.1 < 2.2, "{within:?}");
    assert!((p - 2.0 / 252.0).abs() < 1e-9, "{p}");
    assert!(text.contains("(5 starts each, p = 0.008)"), "{text}");
    // The intervals of the medians do not touch; the starts overlap.
    let (not, text) = said(&[70.0, 80.0, 110.0, 140.0, 150.0]);
    assert_eq!(not, Advantage::NotShown);
    assert!(text.contains("no difference"), "{text}");
    // Too few starts for a test: the intervals speak.
    let (few, _) = said(&[190.0, 200.0, 210.0]);
    assert!(matches!(few, Advantage::Between(..)), "{few:?}");
}

/// Rows have the loads of the first start; what the others held lies far above or below.
#[test]
fn the_peak_of_several_starts_is_not_below_what_they_held() {
    let mut cell = cell("redis", &[(10.0, 0), (20.0, 50)]);
    let held = [12.0, 40.0, 50.0];
    let starts = (1..).zip(held).map(|(start, held)| StartInterval {
        start,
        lower_rps: Some(held),
        upper_rps: Some(held + 2.0),
        ..StartInterval::default()
    });
    let trials = (1..).zip(held).map(|(start, held)| Trial {
        start: Some(start),
        load_rps: held,
        goodput_rps: held,
        ..Trial::default()
    });
    cell.capacity = Some(CapacityRecord {
        goals: vec![GoalResult {
            lower_rps: Some(40.0),
            upper_rps: Some(42.0),
            starts: starts.collect(),
            ..GoalResult::default()
        }],
        trials: trials.collect(),
        ..CapacityRecord::default()
    });
    let found = CellFindings::of(&cell);
    assert_eq!(found.peak_goodput_rps, Some(40.0));
    assert_eq!(found.held_text(Lang::En), "40 (12–50)");
}

/// A search that was stopped by rows which prove nothing has no upper end, and is not at the top of its ladder either.
#[test]
fn a_search_without_an_upper_end_knows_of_the_invalid_row_above() {
    let mut record = run(vec![cell("redis", &[(10.0, 0), (20.0, 90)])]);
    let cell = &mut record.cells[0];
    cell.capacity = Some(CapacityRecord {
        source: CapacitySource::Search,
        goals: vec![GoalResult {
            lower_rps: Some(10.0),
            ..GoalResult::default()
        }],
        ..CapacityRecord::default()
    });
    assert_eq!(CellFindings::of(cell).doubtful_rps, None);
    cell.steps[1].validity.grade = Grade::Invalid;
    let found = CellFindings::of(cell);
    assert_eq!(
        (found.sustained_rps, found.not_held_rps, found.doubtful_rps),
        (Some(10.0), None, Some(20.0))
    );
    cell.steps[1].target_rps = 5.0;
    assert_eq!(CellFindings::of(cell).doubtful_rps, None, "it lies below");
}
