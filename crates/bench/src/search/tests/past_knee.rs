//! Retention, zones and hysteresis, on the studies' tables and on plain numbers.

use super::super::retention::{knee, knee_from, retention};
use super::super::zones::{CpuPoint, Grounds, cpu_70, zones};
use super::super::{hysteresis, ladder};
use super::seeds;
use crate::record::capacity::{GoalResult, LoadPoint, Retention, RetentionClass, ZoneBound};
use crate::record::recovery::{Healing, RecoveryRecord, RecoveryVariant, RecoveryVerdict};
use crate::record::{Cell, Grade, Measure, ProcessUse, Profile, RunRecord, Step};

fn of(rows: &[Measure]) -> Retention {
    let profile = Profile::bench();
    let knee = knee(&profile, rows).unwrap();
    retention(&profile, rows, knee).unwrap()
}

fn near(value: f64, printed: f64) -> bool {
    (value - printed).abs() <= 0.005 + 1e-9
}

#[test]
fn redis_with_a_hot_key_collapses() {
    let found = of(&seeds::measures(seeds::REDIS_HOT));
    assert_eq!(found.knee_rps, 17_500.0);
    assert!(near(found.points[0].factor, 1.14) && near(found.points[0].retention, 0.29));
    assert_eq!(found.class, Some(RetentionClass::Collapse));
    assert!(near(found.cliff_margin.unwrap(), 0.14));
    // Latency warned 40 % of load before the knee, although the study says that nothing warned.
    assert_eq!(found.warning_rps, Some(12_500.0));
    assert!(near(found.early_warning.unwrap(), 0.40));
}

#[test]
fn redis_with_even_keys_collapses_later() {
    let found = of(&seeds::measures(seeds::REDIS_UNIFORM));
    assert_eq!(found.knee_rps, 20_000.0);
    assert!(near(found.points[0].factor, 1.125) && near(found.points[0].retention, 0.83));
    assert!(near(found.points[1].factor, 1.25) && near(found.points[1].retention, 0.23));
    assert!(near(found.at_1_25.unwrap(), 0.23) && near(found.cliff_margin.unwrap(), 0.25));
    assert_eq!(found.class, Some(RetentionClass::Collapse));
}

#[test]
fn dragonfly_with_a_hot_key_fails_gracefully() {
    let found = of(&seeds::measures(seeds::DRAGONFLY_HOT));
    assert_eq!(found.knee_rps, 22_500.0);
    let printed = [(1.11, 1.08), (1.22, 1.12), (1.33, 0.52)];
    for (point, (factor, kept)) in found.points.iter().zip(printed) {
        assert!(
            near(point.factor, factor) && near(point.retention, kept),
            "{point:?}"
        );
    }
    assert_eq!(found.class, Some(RetentionClass::Graceful));
    assert!(near(found.cliff_margin.unwrap(), 0.33));
}

fn rows(points: &[(f64, f64)]) -> Vec<Measure> {
    let each = |(target_rps, goodput_rps): &(f64, f64)| Measure {
        target_rps: *target_rps,
        goodput_rps: *goodput_rps,
        fail_percent: 100.0 * (1.0 - goodput_rps / target_rps),
        ..Measure::default()
    };
    points.iter().map(each).collect()
}

#[test]
fn classes_have_their_bounds() {
    let class = |at_1_25: f64| of(&rows(&[(100.0, 100.0), (125.0, at_1_25)])).class;
    assert_eq!(class(100.0), Some(RetentionClass::Graceful));
    assert_eq!(class(90.0), Some(RetentionClass::Graceful));
    assert_eq!(class(89.0), Some(RetentionClass::Degrading));
    assert_eq!(class(50.0), Some(RetentionClass::Degrading));
    assert_eq!(class(49.0), Some(RetentionClass::Collapse));
}

#[test]
fn a_ladder_that_ends_near_the_knee_has_no_class() {
    let found = of(&rows(&[(100.0, 100.0), (110.0, 100.0)]));
    assert_eq!(
        (found.class, found.at_1_25, found.cliff_margin),
        (None, None, None)
    );
    let profile = Profile::bench();
    let all = rows(&[(100.0, 100.0)]);
    assert!(retention(&profile, &all, &all[0]).is_none());
    assert!(knee(&profile, &rows(&[(100.0, 40.0)])).is_none());
}

#[test]
fn the_area_between_equal_ladders_is_nothing() {
    let point = |target_rps: f64, goodput_rps: f64| LoadPoint {
        target_rps,
        goodput_rps,
        p99_ms: None,
    };
    let up = [
        point(100.0, 100.0),
        point(200.0, 200.0),
        point(300.0, 200.0),
    ];
    let same = hysteresis::between(&up, &up).unwrap();
    assert_eq!(same.area_percent, 0.0);
    // Half of the goodput on the whole way down.
    let down: Vec<LoadPoint> = up
        .iter()
        .rev()
        .map(|p| point(p.target_rps, p.goodput_rps / 2.0))
        .collect();
    let half = hysteresis::between(&up, &down).unwrap();
    assert!((half.area_percent - 50.0).abs() < 1e-9);
    assert_eq!(half.down[0].target_rps, 100.0);
    // Only what both cover counts: 100 to 200 has area 15,000 upwards and 7,500 downwards.
    let part = hysteresis::between(&up, &down[1..]).unwrap();
    assert!((part.area_percent - 50.0).abs() < 1e-9);
    assert!(hysteresis::between(&up, &down[..1]).is_none());
    assert!(hysteresis::between(&[], &down).is_none());
}

fn found(lower: f64, upper: f64) -> GoalResult {
    GoalResult {
        lower_rps: Some(lower),
        upper_rps: Some(upper),
        converged: true,
        ..GoalResult::default()
    }
}

#[test]
fn the_smallest_ground_decides_the_safe_load() {
    let result = found(10_003.0, 10_500.0);
    let base = Grounds {
        result: Some(&result),
        ..Grounds::default()
    };
    let plain = zones(&base).unwrap();
    assert_eq!(
        (plain.safe_rps, plain.decided_by),
        (8_502.0, ZoneBound::Margin)
    );
    assert_eq!(plain.confidence, Grade::Valid);
    assert!(
        plain.sentence.ends_with("no load was shown to be too much"),
        "{}",
        plain.sentence
    );
    let bounded = zones(&Grounds {
        too_much_rps: Some(10_500.0),
        ..base.clone()
    })
    .unwrap();
    assert!(
        bounded.sentence.ends_with("10500/s is too much"),
        "{}",
        bounded.sentence
    );
    let cpu = zones(&Grounds {
        cpu_70_rps: Some(7_000.9),
        ..base.clone()
    })
    .unwrap();
    assert_eq!((cpu.safe_rps, cpu.decided_by), (7_000.0, ZoneBound::Cpu));
    let heals = zones(&Grounds {
        hidden_rps: Some(6_000.0),
        cpu_70_rps: Some(7_000.9),
        ..base.clone()
    })
    .unwrap();
    assert_eq!(
        (heals.safe_rps, heals.decided_by),
        (6_000.0, ZoneBound::Healing)
    );
    let doubted = zones(&Grounds {
        non_monotone: true,
        ..base
    })
    .unwrap();
    assert_eq!(doubted.confidence, Grade::Indicative);
    assert!(
        doubted
            .sentence
            .contains("indicative: a higher load passed"),
        "{}",
        doubted.sentence
    );
    assert!(zones(&Grounds::default()).is_none());
}

#[test]
fn the_load_at_70_percent_lies_between_its_neighbours() {
    let point = |target_rps: f64, percent: f64| CpuPoint {
        target_rps,
        percent,
    };
    assert_eq!(
        cpu_70(&[point(100.0, 60.0), point(200.0, 80.0)]),
        Some(150.0)
    );
    assert_eq!(cpu_70(&[point(200.0, 140.0)]), Some(100.0));
    assert_eq!(cpu_70(&[point(200.0, 69.0)]), None);
    assert_eq!(cpu_70(&[]), None);
}

#[test]
fn a_ladder_has_zones_too() {
    let profile = Profile::store();
    let step = |target_rps: f64, share: f64| Step {
        target_rps,
        goodput_rps: target_rps * share,
        planned: 1_000,
        duration_s: 1.0,
        failures: crate::record::Failures {
            timeout: (1_000.0 * (1.0 - share)) as u64,
            ..Default::default()
        },
        server: Some(ProcessUse {
            cpu_percent: target_rps / 100.0,
            ..ProcessUse::default()
        }),
        ..Step::default()
    };
    let steps = [
        step(5_000.0, 1.0),
        step(9_000.0, 1.0),
        step(11_000.0, 0.6),
        step(20_000.0, 0.2),
    ];
    let refs: Vec<&Step> = steps.iter().collect();
    let record = ladder::capacity(&profile, &refs, Some(1), 1, None).unwrap();
    let zones = record.zones.unwrap();
    assert_eq!(
        (zones.sustained_rps, record.goals[0].upper_rps),
        (9_000.0, Some(11_000.0))
    );
    assert_eq!(
        (zones.safe_rps, zones.decided_by),
        (7_000.0, ZoneBound::Cpu)
    );
    assert_eq!(zones.confidence, Grade::Indicative);
    assert_eq!(
        record.retention.unwrap().class,
        Some(RetentionClass::Degrading)
    );
    assert!(ladder::capacity(&profile, &[], None, 1, None).is_none());
    let lost = ladder::capacity(&profile, &refs[3..], None, 1, None).unwrap();
    assert!(lost.zones.is_none() && lost.goals[0].lower_rps.is_none());
}

#[test]
fn a_ladder_beside_a_recovery_run_is_safe_no_further_than_it_heals() {
    let step = |target_rps: f64| Step {
        target_rps,
        goodput_rps: target_rps,
        planned: 1_000,
        duration_s: 1.0,
        ..Step::default()
    };
    let recovery = |hidden_rps, verdict| RecoveryRecord {
        variants: vec![RecoveryVariant {
            verdict,
            ..RecoveryVariant::default()
        }],
        healing: Some(Healing {
            hidden_rps,
            sentence: "healed so far".into(),
            ..Healing::default()
        }),
        ..RecoveryRecord::default()
    };
    let zones = |recovery| {
        let mut record = RunRecord {
            profile: Profile::store(),
            cells: vec![Cell {
                steps: vec![step(7_000.0), step(10_000.0)],
                recovery,
                ..Cell::default()
            }],
            ..RunRecord::default()
        };
        ladder::of_record(&mut record, false);
        let capacity = record.cells.remove(0).capacity.unwrap();
        capacity.zones.unwrap()
    };
    assert_eq!(zones(None).safe_rps, 8_500.0);
    let bounded = zones(Some(recovery(Some(3_500.0), RecoveryVerdict::Metastable)));
    assert_eq!(
        (bounded.safe_rps, bounded.decided_by),
        (3_500.0, ZoneBound::Healing)
    );
    assert_eq!(bounded.healing.as_deref(), Some("healed so far"));
    let never = zones(Some(recovery(None, RecoveryVerdict::Metastable)));
    assert_eq!(never.confidence, Grade::Invalid);
}

#[test]
fn a_load_that_repeated_trials_held_is_not_past_the_knee() {
    let profile = Profile::bench();
    // One row at the held load went worse by chance; the load above it is past the knee without doubt.
    let rows = rows(&[(750.0, 750.0), (1_000.0, 940.0), (1_250.0, 1_100.0)]);
    assert_eq!(knee(&profile, &rows).unwrap().target_rps, 750.0);
    let at = |held| knee_from(&profile, &rows, held).unwrap().target_rps;
    assert_eq!((at(None), at(Some(1_000.0))), (750.0, 1_000.0));
    // A goal of latency may be lost long before goodput is.
    assert_eq!(at(Some(500.0)), 750.0);
}
