//! A record with data for every card.

use crate::record::attribution::{
    Attribution, Bottleneck, Limit, MachineAttribution, ProcessAttribution, Role, ThreadUse,
};
use crate::record::capacity::{
    CapacityRecord, CapacitySource, GoalResult, Hysteresis, LoadPoint, Retention, RetentionPoint,
    SearchEnd, SearchGoal, StartInterval, Trial, ZoneBound, Zones,
};
use crate::record::paper::{Judgement, PaperFigures, PaperRecord, PaperRow, PaperTable};
use crate::record::recovery::{Healing, Phase, RecoveryRecord, RecoveryVariant, RecoveryVerdict};
use crate::record::{
    Accuracy, Cell, CellStatistics, ComparisonRecord, ComparisonRow, ErrorVerdict, Estimate,
    ExactPart, Metric, MitigationRow, MitigationsRecord, RankTest, RateStatistics, RetryAfter,
    RunRecord, Second, Starts, TargetRecord, TrendRow, TrendsRecord, Verdict,
};

use super::super::Beside;
use super::fixture;

/// A run that has everything a report can show.
pub(super) fn run() -> RunRecord {
    let mut record = fixture::run();
    record.starts = Some(Starts {
        planned: 5,
        done: 5,
        ..Starts::default()
    });
    // One scenario is enough, and keeps the tests quick.
    record.cells.truncate(3);
    for cell in &mut record.cells {
        fill(cell);
    }
    record.cells.push(closed_loop());
    record.paper = Some(paper());
    record.mitigations = Some(mitigations());
    record.settle();
    record
}

fn fill(cell: &mut Cell) {
    for step in &mut cell.steps {
        step.seconds = seconds(step.target_rps, step.goodput_rps, 3);
        step.attribution = Some(attribution());
    }
    let held = cell.steps[5].target_rps;
    cell.capacity = Some(capacity(held));
    cell.recovery = Some(recovery(held));
    cell.statistics = Some(statistics(cell));
    if let Some(accuracy) = &mut cell.accuracy {
        *accuracy = Accuracy {
            fairness_min_of_mean: Some(0.97),
            fairness_max_of_mean: Some(1.02),
            exact: Some(ExactPart {
                keys: 8,
                decisions: 90_000,
                ..ExactPart::default()
            }),
            retry_after: Some(RetryAfter {
                resolution_ms: 1_000.0,
                checked: 400,
                kept: 398,
                too_short: 2,
                worst_too_short_ms: 1_200.0,
                mean_error_ms: 3.0,
                ..RetryAfter::default()
            }),
            ..accuracy.clone()
        };
    }
}

pub(super) fn seconds(target_rps: f64, goodput_rps: f64, count: u32) -> Vec<Second> {
    (0..count)
        .map(|at| {
            let mut histogram =
                hdrhistogram::Histogram::<u64>::new_with_bounds(1_000, 60_000_000_000, 2).unwrap();
            for part in 1..=200_u64 {
                let spread = part * part * (u64::from(at) + 1) * 40 + 30_000;
                histogram.record(spread).unwrap();
            }
            let mut second = Second {
                at_s: f64::from(at),
                length_s: 1.0,
                planned: target_rps as u64,
                sent: target_rps as u64,
                good: goodput_rps as u64,
                failed: (target_rps - goodput_rps).max(0.0) as u64,
                in_flight: 40 + u64::from(at) * 17,
                ..Second::default()
            };
            second.set_latencies(&histogram).unwrap();
            second
        })
        .collect()
}

pub(super) fn attribution() -> Attribution {
    let process = |role: Role, name: &str, cpu: f64| ProcessAttribution {
        role,
        name: name.into(),
        pid: 4_711,
        cpu_percent: Some(cpu),
        busiest_thread: Some(ThreadUse {
            name: format!("{name}-1"),
            tid: 4_712,
            cpu_percent: cpu,
            run_queue_wait_percent: Some(0.4),
        }),
        rss_bytes: Some(9 << 20),
        voluntary_switches_per_s: Some(1_200.0),
        involuntary_switches_per_s: Some(4.0),
        run_queue_wait_percent: Some(0.4),
        cpu_us_per_decision: Some(8.3),
        ..ProcessAttribution::default()
    };
    Attribution {
        processes: vec![
            process(Role::Generator, "bench", 52.0),
            process(Role::Store, "redis", 99.0),
        ],
        machine: MachineAttribution {
            cores: 2,
            ..MachineAttribution::default()
        },
        bottleneck: Bottleneck {
            limit: Limit::Store,
            sentence: "limited by the store (redis): its thread redis-1 used 99 % of a core".into(),
        },
        price_per_hour: Some(0.1),
        cost_per_million: Some(0.0007),
        ..Attribution::default()
    }
}

pub(super) fn capacity(held: f64) -> CapacityRecord {
    let trial = |at: u32, of_held: f64, kept: bool| Trial {
        offset_s: f64::from(at) * 5.0,
        load_rps: held * of_held,
        duration_s: 5.0,
        purpose: "narrow".into(),
        goodput_rps: held * of_held * if kept { 1.0 } else { 0.6 },
        fail_percent: if kept { 0.0 } else { 40.0 },
        p99_ms: Some(if kept { 1.2 } else { 90.0 }),
        kept: vec![kept],
        rule: if kept {
            String::new()
        } else {
            "40.00 % failed, allowed are 1 %".into()
        },
        counted: true,
        ..Trial::default()
    };
    let of_start = |start: u32| {
        let all = [(0.5, true), (1.5, false), (1.0, true), (1.04, false)];
        (1..).zip(all).map(move |(at, (of_held, kept))| Trial {
            start: Some(start),
            ..trial(10 * start + at, of_held, kept)
        })
    };
    let point = |of_held: f64, goodput: f64| LoadPoint {
        target_rps: held * of_held,
        goodput_rps: held * goodput,
        p99_ms: Some(2.0),
    };
    CapacityRecord {
        source: CapacitySource::Search,
        goals: vec![GoalResult {
            goal: SearchGoal {
                name: "slo".into(),
                ..SearchGoal::default()
            },
            lower_rps: Some(held),
            upper_rps: Some(held * 1.04),
            converged: true,
            conditional_throughput_rps: Some(held * 0.99),
            remark: "the median of 5 starts".into(),
            starts: (1..=5)
                .map(|start| StartInterval {
                    start,
                    lower_rps: Some(held * (0.97 + f64::from(start) / 100.0)),
                    upper_rps: Some(held * 1.08),
                    safe_rps: Some((held * 0.85).floor()),
                    ..StartInterval::default()
                })
                .collect(),
            over_starts: estimate(held),
        }],
        trials: (1..=5).flat_map(of_start).collect(),
        ended: SearchEnd::Done,
        ended_because: "the interval is 4 % wide".into(),
        zones: Some(Zones {
            safe_rps: (held * 0.85).floor(),
            sustained_rps: held,
            decided_by: ZoneBound::Margin,
            sentence: "Green up to 85 % of what is sustained.".into(),
            ..Zones::default()
        }),
        retention: Some(Retention {
            knee_rps: held,
            knee_goodput_rps: held,
            points: vec![RetentionPoint {
                factor: 1.25,
                target_rps: held * 1.25,
                goodput_rps: held * 0.4,
                retention: 0.4,
            }],
            at_1_25: Some(0.4),
            cliff_margin: Some(0.25),
            early_warning: Some(0.2),
            ..Retention::default()
        }),
        hysteresis: Some(Hysteresis {
            up: vec![point(0.8, 0.8), point(1.0, 1.0), point(1.2, 0.9)],
            down: vec![point(0.8, 0.7), point(1.0, 0.8), point(1.2, 0.9)],
            area_percent: 11.0,
        }),
        ..CapacityRecord::default()
    }
}

fn recovery(knee_rps: f64) -> RecoveryRecord {
    let phase = |name: &str, of_knee: f64, start_s: f64, length_s: f64| Phase {
        name: name.into(),
        of_knee,
        rate_rps: knee_rps * of_knee,
        start_s,
        length_s,
    };
    RecoveryRecord {
        knee_rps,
        knee_source: "lower bound of the search".into(),
        phases: vec![
            phase("before", 0.7, 0.0, 6.0),
            phase("overload", 1.5, 6.0, 3.0),
            phase("after", 0.7, 9.0, 12.0),
        ],
        good_stretch_s: 10.0,
        variants: vec![RecoveryVariant {
            retries: 3,
            deadline_ms: Some(100.0),
            amplification: 1.8,
            seconds: seconds(knee_rps, knee_rps * 0.7, 21),
            time_to_recover_s: Some(4.0),
            verdict: RecoveryVerdict::Recovered,
            sentence: "good again 4 s after the overload".into(),
            ..RecoveryVariant::default()
        }],
        healing: Some(Healing {
            hidden_rps: Some(knee_rps * 0.7),
            sentence: "it heals by itself from 14000/s".into(),
            ..Healing::default()
        }),
    }
}

fn estimate(median: f64) -> Option<Estimate> {
    Some(Estimate {
        n: 5,
        median,
        mad: median * 0.01,
        cv_percent: Some(1.5),
        low: Some(median * 0.98),
        high: Some(median * 1.03),
        min: median * 0.97,
        max: median * 1.04,
    })
}

fn statistics(cell: &Cell) -> CellStatistics {
    let rates = cell.steps.iter().filter_map(|step| {
        let all = step.response.all.as_ref()?;
        Some(RateStatistics {
            target_rps: step.target_rps,
            goodput_rps: estimate(step.goodput_rps),
            p50_us: estimate(all.p50_us),
            p99_us: estimate(all.p99_us),
            server_cpu_us_per_op: estimate(8.0),
            ..RateStatistics::default()
        })
    });
    CellStatistics {
        starts: 5,
        rates: rates.collect(),
    }
}

/// A sweep over connections, which alone may be fitted.
fn closed_loop() -> Cell {
    let model = fixture::Model {
        capacity_rps: 60_000.0,
        service_us: 50.0,
        cpu_us: 8.0,
    };
    let mut cell = fixture::cell(
        "redis",
        ("closed", "Closed loop"),
        ("evalsha", "EVALSHA"),
        model,
    );
    cell.load.closed_loop = true;
    cell.load.pipeline_depth = 1;
    cell.probed_capacity_rps = None;
    for (step, connections) in cell
        .steps
        .iter_mut()
        .zip([1_u32, 2, 5, 10, 25, 50, 100, 200, 500])
    {
        let n = f64::from(connections);
        step.connections = Some(connections);
        step.completed_rps = 8_000.0 * n / (1.0 + 0.08 * (n - 1.0) + 0.0002 * n * (n - 1.0));
    }
    cell
}

/// Three strategies: one that asks each time, one with a stated error, one beyond it.
pub(super) fn mitigations() -> MitigationsRecord {
    let row = |name: &str, goodput: f64, over: u64, stated: u64, verdict| MitigationRow {
        target: name.into(),
        scenario: "single-key".into(),
        hot_key: name.into(),
        services: 2,
        common_rps: 5_000.0,
        rounds: 3,
        common_p50_us: Some(310.0),
        common_p99_us: Some(1_900.0),
        service_cpu_us_per_decision: Some(12.0),
        store_cpu_us_per_decision: Some(6.0),
        cpu_us_per_decision_spread: Some((17.0, 19.5)),
        store_questions_per_decision: Some(1.0),
        peak_goodput_rps: Some(goodput),
        goodput_of_exact: Some(goodput / 10_000.0),
        cpu_of_exact: Some(1.0),
        admitted: 40_000 + over,
        allowed_max: 40_000,
        allowed_min: 40_000,
        over_admitted: over,
        stated_over: stated,
        verdict,
        seed: Some(("90-95 %".into(), "200-500 %".into())),
        ..MitigationRow::default()
    };
    MitigationsRecord {
        store: TargetRecord {
            name: "redis-server".into(),
            server_version: "7.0.15".into(),
            ..TargetRecord::default()
        },
        services: 2,
        rows: vec![
            row("exact", 10_000.0, 0, 0, ErrorVerdict::Within),
            row(
                "write-behind:50",
                31_000.0,
                1_800,
                40_000,
                ErrorVerdict::Within,
            ),
            row("planted", 90_000.0, 9_000, 0, ErrorVerdict::OverBeyond),
        ],
    }
}

fn paper() -> PaperRecord {
    PaperRecord {
        study: "000".into(),
        title: "Redis against Dragonfly for rate limiting".into(),
        source: "PhongHV, 2026".into(),
        tables: vec![PaperTable {
            id: "P1".into(),
            paper: "Redis 7.x, one key, 30 s a step".into(),
            ours: Some("redis · EVALSHA INCR+EXPIRE".into()),
            rows: vec![PaperRow {
                title: "16,000/s".into(),
                paper: PaperFigures {
                    target_rps: Some(16_000.0),
                    goodput_rps: Some(16_000.0),
                    actual_rps: Some(15_990.0),
                    p99_ms: Some(60.0),
                    ..PaperFigures::default()
                },
                rate_ratio: Some(1.0),
                p99_ratio: Some(0.02),
                seed_status: Some("✓".into()),
                computed: Some(Judgement::default()),
                ..PaperRow::default()
            }],
            not_comparable: vec!["Our steps last 3.0 s, the study's 30 s (shortened).".into()],
        }],
        not_comparable: vec!["another machine".into()],
        ..PaperRecord::default()
    }
}

/// Another run and a series of runs to show beside it.
pub(super) fn beside() -> Beside {
    let row = |load: f64, metric: Metric, ratio: f64| ComparisonRow {
        target_a: "redis".into(),
        target_b: "tollgate".into(),
        scenario: "Single key".into(),
        operation_a: "EVALSHA".into(),
        operation_b: "RL.TAKE".into(),
        target_rps: (metric != Metric::HeldRps).then_some(load),
        goal: (metric == Metric::HeldRps).then(|| "slo".into()),
        open_a: 0,
        open_b: 0,
        metric,
        a: estimate(10_000.0).unwrap(),
        b: estimate(10_000.0 * ratio).unwrap(),
        ratio_b_over_a: Some(ratio),
        ratio_ci: Some((ratio * 0.95, ratio * 1.06)),
        test: Some(RankTest {
            u: 25.0,
            p: 0.008,
            exact: true,
            a12: 1.0,
            cliffs_delta: 1.0,
        }),
        verdict: Verdict::Better,
        sentence: "tollgate answers more".into(),
    };
    Beside {
        comparison: Some(ComparisonRecord {
            rows: vec![
                row(16_000.0, Metric::GoodputRps, 1.31),
                row(16_000.0, Metric::P99Us, 0.7),
                row(32_000.0, Metric::P99Us, 1.2),
                row(0.0, Metric::HeldRps, 1.25),
            ],
            ..ComparisonRecord::default()
        }),
        trends: Some(TrendsRecord {
            rows: vec![TrendRow {
                target: "redis".into(),
                scenario: "Single key".into(),
                operation: "EVALSHA".into(),
                target_rps: Some(16_000.0),
                goal: None,
                metric: Metric::P99Us,
                points: vec![(0.0, 900.0), (1.0, 950.0)],
                rests_on: Vec::new(),
                change_percent: Some(5.6),
                slope_percent_per_run: None,
                slope_ci: None,
                p: None,
                cv_percent: Some(3.0),
                noise: crate::record::Noise::Stable,
                colour: crate::record::TrendColour::Neutral,
                sentence: "too few runs for a trend".into(),
                changes: Vec::new(),
            }],
            ..TrendsRecord::default()
        }),
    }
}
