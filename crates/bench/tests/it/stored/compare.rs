//! Verdicts of comparisons, and what makes two arms unequal.

use tollgate_bench::record::{ClaimFloor, Grade, Metric, Verdict};
use tollgate_bench::stored::{Arms, StoredRun, compare, default_floor};

use super::{PLAIN, System, arms, run, run_of, stored};

#[test]
fn against_itself_nothing_is_claimed() {
    let mut claims = 0;
    let seeds = 25;
    for seed in 0..seeds {
        // As noisy as a bad shared machine.
        let noisy = |seed| {
            stored(run(System {
                noise: 0.1,
                seed,
                ..PLAIN
            }))
        };
        let (a, b) = (noisy(2 * seed + 100), noisy(2 * seed + 101));
        let record = compare(&arms(&a, &b), &[Metric::GoodputRps], &default_floor()).unwrap();
        assert_eq!(record.rows.len(), 2);
        assert!(record.unequal.is_empty());
        let claimed = |verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
        claims += record
            .rows
            .iter()
            .filter(|row| claimed(row.verdict))
            .count();
    }
    assert!(claims <= 4, "{claims} of {} rows", 2 * seeds);
}

#[test]
fn quiet_systems_that_are_alike_are_the_same() {
    let quiet = |seed| {
        stored(run(System {
            noise: 0.004,
            seed,
            ..PLAIN
        }))
    };
    let record = compare(&arms(&quiet(1), &quiet(2)), &Metric::ALL, &default_floor()).unwrap();
    for row in &record.rows {
        assert_eq!(row.verdict, Verdict::Same, "{}", row.sentence);
    }
}

#[test]
fn a_planted_difference_is_found_and_its_direction_is_right() {
    let slower = System {
        goodput: 0.9,
        latency: 1.25,
        seed: 2,
        ..PLAIN
    };
    let (a, b) = (stored(run(PLAIN)), stored(run(slower)));
    let record = compare(&arms(&a, &b), &Metric::ALL, &default_floor()).unwrap();
    for row in &record.rows {
        let expected = match row.metric {
            Metric::GoodputRps | Metric::P50Us | Metric::P99Us => Verdict::Worse,
            Metric::ServerCpuUsPerOp | Metric::HeldRps => continue,
        };
        assert_eq!(row.verdict, expected, "{}", row.sentence);
        let (low, high) = row.ratio_ci.unwrap();
        let planted = if row.metric == Metric::GoodputRps {
            0.9
        } else {
            1.25
        };
        assert!(
            low <= planted * 1.03 && high >= planted * 0.97,
            "{low} {high}"
        );
        assert!(row.test.unwrap().exact);
    }
    let back = compare(&arms(&b, &a), &[Metric::GoodputRps], &default_floor()).unwrap();
    assert!(back.rows.iter().all(|row| row.verdict == Verdict::Better));
}

#[test]
fn noise_of_the_machine_withholds_a_claim() {
    let (a, b) = (
        stored(run(PLAIN)),
        stored(run(System {
            goodput: 0.9,
            seed: 2,
            ..PLAIN
        })),
    );
    let floor = ClaimFloor {
        percent: 5.0,
        by_metric: vec![(Metric::GoodputRps, 20.0)],
        source: "a test".into(),
    };
    let record = compare(&arms(&a, &b), &[Metric::GoodputRps], &floor).unwrap();
    assert!(
        record
            .rows
            .iter()
            .all(|row| row.verdict == Verdict::Unclear)
    );
    assert!(
        record.rows[0].sentence.contains("less than the 20.0 %"),
        "{}",
        record.rows[0].sentence
    );
}

#[test]
fn one_start_claims_nothing() {
    let single = |goodput| stored(run_of(&[("redis-server", System { goodput, ..PLAIN })], 1));
    let record = compare(
        &arms(&single(1.0), &single(0.5)),
        &Metric::ALL,
        &default_floor(),
    )
    .unwrap();
    assert!(record.rows.iter().all(|row| row.verdict == Verdict::TooFew));
    assert!(
        record.rows[0].sentence.contains("too few starts"),
        "{}",
        record.rows[0].sentence
    );
    assert_eq!(single(1.0)[0].record.validity.grade, Grade::Indicative);
}

#[test]
fn two_targets_of_one_run_are_compared_by_name() {
    let fast = System {
        goodput: 1.2,
        seed: 9,
        ..PLAIN
    };
    let both = stored(run_of(&[("redis-server", PLAIN), ("tollgate", fast)], 5));
    let named = Arms {
        target_a: Some("redis-server"),
        target_b: Some("tollgate"),
        ..arms(&both, &both)
    };
    let record = compare(&named, &[Metric::GoodputRps], &default_floor()).unwrap();
    assert_eq!(record.rows.len(), 2);
    assert!(record.rows.iter().all(|row| row.verdict == Verdict::Better));
    assert!(
        record.rows[0].sentence.contains("tollgate"),
        "{}",
        record.rows[0].sentence
    );
    let unknown = Arms {
        target_b: Some("dragonfly"),
        ..named
    };
    let error = compare(&unknown, &Metric::ALL, &default_floor()).unwrap_err();
    assert!(error.contains("no target 'dragonfly'"), "{error}");
}

#[test]
fn every_unequal_circumstance_is_named() {
    let a = stored(run(PLAIN));
    let mut other = run(PLAIN);
    other.manifest.machine.cpu_model = "another".into();
    other.manifest.started_unix_s += 7_200;
    other.targets[0].settings[0].value = "yes".into();
    other.targets[0].threads = Some(4);
    let cell = &mut other.cells[0];
    cell.load.arrivals = "constant".into();
    cell.load.connections = 10;
    cell.load.pipeline_depth = 1;
    cell.load.deadline_ms = 50.0;
    cell.scenario.distribution = "hot:0.9:1".into();
    for step in &mut cell.steps {
        step.duration_s = 300.0;
    }
    let b = stored(other);
    let record = compare(&arms(&a, &b), &[Metric::GoodputRps], &default_floor()).unwrap();
    let named: Vec<&str> = record
        .unequal
        .iter()
        .map(|found| found.what.as_str())
        .collect();
    for what in [
        "processor",
        "target's threads",
        "setting appendonly",
        "key distribution",
        "arrivals",
        "connections",
        "pipeline depth",
        "deadline in ms",
        "step length",
        "date (more than an hour apart)",
    ] {
        assert!(named.contains(&what), "{what} is not in {named:?}");
    }
    assert_eq!(named.len(), 10, "{named:?}");
}

#[test]
fn runs_that_did_not_take_turns_are_unequal() {
    let at = |offset: i64| {
        let mut record = run(PLAIN);
        record.manifest.started_unix_s += offset;
        StoredRun {
            source: offset.to_string(),
            record,
        }
    };
    let unequal = |a: &[i64], b: &[i64]| {
        let of = |times: &[i64]| -> Vec<StoredRun> { times.iter().map(|time| at(*time)).collect() };
        let (a, b) = (of(a), of(b));
        compare(&arms(&a, &b), &[Metric::GoodputRps], &default_floor())
            .unwrap()
            .unequal
            .len()
    };
    assert_eq!(unequal(&[0, 300], &[100, 200]), 0);
    assert_eq!(unequal(&[0, 100], &[200, 300]), 1);
}

#[test]
fn rows_that_no_arm_shares_are_an_error() {
    let mut other = run(PLAIN);
    for rate in &mut other.cells[0].statistics.as_mut().unwrap().rates {
        rate.target_rps += 1.0;
    }
    let (a, b) = (stored(run(PLAIN)), stored(other));
    let error = compare(&arms(&a, &b), &Metric::ALL, &default_floor()).unwrap_err();
    assert!(error.contains("no row is in both arms"), "{error}");
}
