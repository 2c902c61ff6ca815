//! The study's own ladders, and the bounds one by one.

use super::*;
use crate::record::{Failures, LatencySummary, SplitLatency};

/// Offered load, good answers, failures, mean, P95 and P99 in ms of one row, and what it must become.
type Row = (f64, u64, u64, f64, f64, f64, Level, Label);

/// Redis 7.x, 100 keys uniform, 60 s a step. Labels as the study prints them.
const REDIS_UNIFORM: &[Row] = &[
    (
        10_000.0,
        600_000,
        0,
        2.37,
        12.9,
        29.8,
        Level::Ok,
        Label::Excellent,
    ),
    (
        12_500.0,
        749_988,
        0,
        6.2,
        30.5,
        41.5,
        Level::Ok,
        Label::Excellent,
    ),
    (
        15_000.0,
        899_998,
        0,
        8.82,
        37.3,
        51.1,
        Level::Ok,
        Label::Excellent,
    ),
    (
        17_500.0,
        1_049_975,
        0,
        12.3,
        45.1,
        60.0,
        Level::NearLimit,
        Label::Good,
    ),
    (
        20_000.0,
        1_199_995,
        0,
        23.5,
        77.1,
        110.0,
        Level::NearLimit,
        Label::StableLimit,
    ),
    (
        22_500.0,
        990_129,
        359_867,
        418.0,
        1_380.0,
        1_620.0,
        Level::Failed,
        Label::Failed,
    ),
    (
        25_000.0,
        273_861,
        1_222_710,
        18_100.0,
        52_200.0,
        63_800.0,
        Level::Collapsed,
        Label::Collapsed,
    ),
    (
        27_500.0,
        240_142,
        1_409_832,
        45_100.0,
        119_000.0,
        134_000.0,
        Level::Collapsed,
        Label::Dead,
    ),
    (
        30_000.0,
        182_209,
        1_617_780,
        173_000.0,
        340_000.0,
        356_000.0,
        Level::Collapsed,
        Label::Dead,
    ),
];

/// Redis 7.x, hot key 90/10, 60 s a step.
const REDIS_HOT: &[Row] = &[
    (
        10_000.0,
        600_000,
        0,
        3.08,
        19.7,
        36.4,
        Level::Ok,
        Label::Excellent,
    ),
    (
        12_500.0,
        749_989,
        0,
        12.7,
        45.4,
        66.4,
        Level::NearLimit,
        Label::Good,
    ),
    (
        15_000.0,
        900_000,
        0,
        18.1,
        59.0,
        83.6,
        Level::NearLimit,
        Label::Good,
    ),
    (
        17_500.0,
        1_049_995,
        0,
        36.3,
        109.0,
        160.0,
        Level::Degraded,
        Label::StableLimit,
    ),
    (
        20_000.0,
        306_231,
        893_757,
        12_400.0,
        38_000.0,
        49_100.0,
        Level::Collapsed,
        Label::Collapsed,
    ),
];

/// Dragonfly, 100 keys uniform, 1 s a step.
const DRAGONFLY_UNIFORM: &[Row] = &[
    (
        22_500.0,
        22_493,
        0,
        2.65,
        7.62,
        22.4,
        Level::Ok,
        Label::Excellent,
    ),
    (
        25_000.0,
        24_994,
        0,
        82.8,
        146.0,
        154.0,
        Level::Degraded,
        Label::Degraded,
    ),
    (
        27_500.0,
        27_483,
        0,
        36.2,
        70.8,
        83.2,
        Level::NearLimit,
        Label::StableLimit,
    ),
    (
        30_000.0,
        26_889,
        3_100,
        164.0,
        283.0,
        304.0,
        Level::Failed,
        Label::Failed,
    ),
];

fn ladder(rows: &[Row], seconds: f64) -> Vec<Step> {
    let step = |row: &Row| {
        let latency = LatencySummary {
            count: row.1,
            mean_us: row.3 * 1e3,
            p95_us: row.4 * 1e3,
            p99_us: row.5 * 1e3,
            ..LatencySummary::default()
        };
        Step {
            target_rps: row.0,
            planned: row.1 + row.2,
            completed: row.1,
            allowed: row.1,
            goodput_rps: row.1 as f64 / seconds,
            failures: Failures {
                timeout: row.2,
                ..Failures::default()
            },
            response: SplitLatency {
                all: Some(latency),
                ..SplitLatency::default()
            },
            ..Step::default()
        }
    };
    rows.iter().map(step).collect()
}

fn check(rows: &[Row], seconds: f64) {
    let mut steps = ladder(rows, seconds);
    classify(&Profile::bench(), &mut steps, &[]);
    for (step, row) in steps.iter().zip(rows) {
        assert_eq!(
            step.status.level, row.6,
            "level at {}: {}",
            row.0, step.status.rule
        );
        assert_eq!(step.label, row.7, "label at {}", row.0);
    }
}

#[test]
fn published_ladders_get_the_levels_of_their_own_rules() {
    check(REDIS_UNIFORM, 60.0);
    check(REDIS_HOT, 60.0);
    check(DRAGONFLY_UNIFORM, 1.0);
}

#[test]
fn the_deciding_rule_is_named() {
    let mut steps = ladder(REDIS_HOT, 60.0);
    classify(&Profile::bench(), &mut steps, &[]);
    assert_eq!(steps[0].status.rule, "");
    assert_eq!(steps[1].status.rule, "mean 12.700 ms is above 10 ms");
    assert_eq!(steps[3].status.rule, "P95 109.000 ms is above 100 ms");
    assert_eq!(
        steps[4].status.rule,
        "goodput is 25.5 % of the offered load, below 50 %"
    );
}

#[test]
fn the_store_profile_is_stricter_about_latency_only() {
    let measure = Measure {
        target_rps: 10_000.0,
        goodput_rps: 10_000.0,
        mean_ms: Some(0.2),
        p95_ms: Some(0.6),
        p99_ms: Some(2.0),
        ..Measure::default()
    };
    assert_eq!(level(&Profile::bench(), &measure).level, Level::Ok);
    assert_eq!(level(&Profile::store(), &measure).level, Level::NearLimit);
    let slow = Measure {
        p99_ms: Some(5.5),
        ..measure
    };
    assert_eq!(level(&Profile::store(), &slow).level, Level::Degraded);
}

#[test]
fn bounds_belong_to_the_side_the_study_gives_them() {
    let at = |goodput: f64, fail: f64| {
        let measure = Measure {
            target_rps: 100.0,
            goodput_rps: goodput,
            fail_percent: fail,
            ..Measure::default()
        };
        level(&Profile::bench(), &measure).level
    };
    assert_eq!(at(98.0, 0.0), Level::Ok);
    assert_eq!(at(97.9, 0.0), Level::NearLimit);
    assert_eq!(at(95.0, 0.0), Level::NearLimit);
    assert_eq!(at(94.9, 0.0), Level::Degraded);
    assert_eq!(at(100.0, 0.099), Level::Ok);
    assert_eq!(at(100.0, 0.1), Level::NearLimit);
    assert_eq!(at(100.0, 1.0), Level::NearLimit);
    assert_eq!(at(98.9, 1.1), Level::Failed);
    assert_eq!(at(49.9, 50.1), Level::Collapsed);
}

#[test]
fn a_row_without_answers_is_dead() {
    let mut steps = vec![Step {
        target_rps: 1_000.0,
        planned: 1_000,
        failures: Failures {
            refused: 1_000,
            ..Failures::default()
        },
        ..Step::default()
    }];
    classify(&Profile::bench(), &mut steps, &[]);
    assert_eq!(
        (steps[0].status.level, steps[0].label),
        (Level::Collapsed, Label::Dead)
    );
}

#[test]
fn a_ladder_that_never_fails_has_no_stable_limit() {
    let mut steps = ladder(&REDIS_UNIFORM[..5], 60.0);
    classify(&Profile::bench(), &mut steps, &[]);
    assert!(steps.iter().all(|step| step.label != Label::StableLimit));
    assert_eq!(steps[4].label, Label::NearLimit);
}

#[test]
fn profiles_are_found_by_name() {
    assert_eq!(Profile::named("bench"), Some(Profile::bench()));
    assert_eq!(Profile::named("store"), Some(Profile::store()));
    assert_eq!(Profile::named("prod"), None);
}
