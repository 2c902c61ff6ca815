//! Records to render: the shapes of real ladders, and the cases that break careless code.

use hdrhistogram::Histogram;

use crate::record::{
    Accuracy, AccuracyInput, Calibration, Cell, CompareRecord, CompareRow, Event, Failures, Grade,
    Load, Machine, Manifest, MemoryRow, Operation, Pinning, ProcessUse, Profile, Ratios, RunRecord,
    Scenario, Severity, Skipped, SlicePair, SliceSample, SplitLatency, Step, TargetRecord, Tool,
};

/// How a synthetic server answers: capacity in requests a second, and time per request at no load.
#[derive(Clone, Copy)]
pub(super) struct Model {
    pub(super) capacity_rps: f64,
    pub(super) service_us: f64,
    pub(super) cpu_us: f64,
}

/// A step of a server that queues as M/D/1 does below its capacity and times out above it.
pub(super) fn step(model: Model, target_rps: f64, offset_s: f64) -> Step {
    const SECONDS: f64 = 3.0;
    let load = target_rps / model.capacity_rps;
    let planned = (target_rps * SECONDS) as u64;
    let kept = if load <= 1.0 {
        1.0
    } else {
        (1.0 / load).powi(3)
    };
    let good = (planned as f64 * kept) as u64;
    let wait = model.service_us * load.min(0.995) / (2.0 * (1.0 - load.min(0.995)));
    let overload_us = if load > 1.0 {
        400_000.0 * (load - 1.0).min(1.0)
    } else {
        0.0
    };
    let (mut allow, mut deny, mut service) = (histogram(), histogram(), histogram());
    for at in 1..=2_000_u32 {
        let share = f64::from(at) / 2_001.0;
        let tail = -(1.0 - share).ln();
        let base = model.service_us * (0.8 + 0.15 * tail);
        let us = base + wait * tail + overload_us * (0.5 + share);
        let into = if at % 10 == 0 { &mut allow } else { &mut deny };
        into.record((us * 1e3) as u64).unwrap();
        service.record((base * 1e3) as u64 + 1).unwrap();
    }
    let failures = Failures {
        timeout: (planned - good) * 9 / 10,
        unsent: planned - good - (planned - good) * 9 / 10,
        ..Failures::default()
    };
    let busy = (target_rps * model.cpu_us / 1e4).min(100.0);
    Step {
        target_rps,
        offset_s,
        duration_s: SECONDS,
        planned,
        sent: planned - failures.unsent,
        completed: good,
        allowed: good / 10,
        denied: good - good / 10,
        failures,
        sent_rps: (planned - failures.unsent) as f64 / SECONDS,
        completed_rps: good as f64 / SECONDS,
        goodput_rps: good as f64 / SECONDS,
        response: SplitLatency::from_histograms(&allow, &deny, &histogram()).unwrap(),
        service: SplitLatency::from_histograms(&histogram(), &service, &histogram()).unwrap(),
        send_lag: crate::record::LatencySummary::without_histogram(&service),
        generator: Some(ProcessUse {
            cpu_percent: busy * 0.6,
            ..ProcessUse::default()
        }),
        server: Some(ProcessUse {
            cpu_percent: busy,
            busiest_thread_percent: Some(busy),
            cpu_us_per_op: Some(model.cpu_us),
            rss_bytes: Some(9_800_000),
            ..ProcessUse::default()
        }),
        ..Step::default()
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 60_000_000_000, 3).unwrap()
}

/// A cell of nine rungs around a capacity.
pub(super) fn cell(
    target: &str,
    scenario: (&str, &str),
    operation: (&str, &str),
    model: Model,
) -> Cell {
    let rungs = [0.2, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0, 1.15, 1.5];
    let steps = rungs.iter().enumerate().map(|(at, rung)| {
        step(
            model,
            (80_000.0 * rung / 100.0_f64).round() * 100.0,
            4.0 * at as f64,
        )
    });
    Cell {
        target: target.into(),
        scenario: Scenario {
            name: scenario.0.into(),
            title: scenario.1.into(),
            keys: 100,
            distribution: "uniform".into(),
        },
        operation: Operation {
            name: operation.0.into(),
            title: operation.1.into(),
            like_for_like: operation.0 == "evalsha",
            algorithm: "fixed-window".into(),
            limit: Some(1_000),
            window_ms: Some(1_000),
        },
        load: Load {
            arrivals: "poisson".into(),
            connections: 50,
            pipeline_depth: 16,
            deadline_ms: 1_000.0,
            backlog_limit: 65_536,
            warmup_s: 0.5,
            pause_s: 0.2,
            ..Load::default()
        },
        probed_capacity_rps: Some(model.capacity_rps),
        steps: steps.collect(),
        accuracy: Some(Accuracy::new(AccuracyInput {
            algorithm: "fixed-window".into(),
            limit: 1_000,
            window_ms: 1_000,
            keys: 100,
            offered: 216_000,
            admitted: 98_200,
            allowed_min: 97_000,
            allowed_max: 100_000,
            worst_window_admitted: Some(1_720),
            worst_window_key: Some("key:7".into()),
            fairness_jain: Some(0.999),
            ..AccuracyInput::default()
        })),
        notes: Vec::new(),
        complete: true,
        ..Cell::default()
    }
}

/// A whole run: two stores, three scenarios, native and like-for-like operations.
pub(in crate::report) fn run() -> RunRecord {
    let scenarios = [
        ("single-key", "Single key"),
        ("hundred-keys", "100 keys, uniform"),
        ("hundred-keys-hot", "100 keys, hot 90/10"),
    ];
    let native = Model {
        capacity_rps: 95_000.0,
        service_us: 38.0,
        cpu_us: 6.1,
    };
    let script = Model {
        capacity_rps: 66_000.0,
        service_us: 52.0,
        cpu_us: 11.4,
    };
    let redis = Model {
        capacity_rps: 58_000.0,
        service_us: 55.0,
        cpu_us: 13.9,
    };
    let mut cells = Vec::new();
    for scenario in scenarios {
        cells.push(cell(
            "redis",
            scenario,
            ("evalsha", "EVALSHA INCR+EXPIRE"),
            redis,
        ));
        cells.push(cell("tollgate", scenario, ("rl.take", "RL.TAKE"), native));
        cells.push(cell(
            "tollgate",
            scenario,
            ("evalsha", "EVALSHA INCR+EXPIRE"),
            script,
        ));
    }
    let mut record = RunRecord {
        schema_version: crate::record::SCHEMA_VERSION,
        manifest: manifest(),
        calibration: Some(Calibration {
            ceiling_rps: 412_000.0,
            floor_p50_us: 21.4,
            floor_p99_us: 58.0,
            clock_read_ns: 24.0,
            generator_cpu_us_per_op: Some(2.2),
            connections: 50,
            reused: None,
        }),
        profile: Profile::store(),
        targets: vec![target("redis", "7.0.15"), target("tollgate", "0.1.0")],
        skipped: vec![Skipped {
            name: "valkey-server".into(),
            reason: "not on PATH".into(),
        }],
        cells,
        events: vec![Event {
            offset_s: 61.5,
            severity: Severity::Warning,
            target: Some("redis".into()),
            text: "the connection ramp took 1.2 s".into(),
        }],
        complete: true,
        ..RunRecord::default()
    };
    record.cells[1].steps[8]
        .validity
        .lower(Grade::Invalid, "the generator used 93.0 % of its core");
    record.settle();
    record
}

fn manifest() -> Manifest {
    Manifest {
        tool: Tool {
            version: "0.1.0".into(),
            commit: Some("f314100".into()),
            rustc: Some("rustc 1.95.0".into()),
            profile: "release".into(),
        },
        machine: Machine {
            os: "Debian GNU/Linux 12".into(),
            kernel: "6.18.44".into(),
            arch: "x86_64".into(),
            cpu_model: "Example CPU @ 3.00GHz".into(),
            cores: 2,
            memory_bytes: Some(8 << 30),
            clocksource: Some("tsc".into()),
            ..Machine::default()
        },
        pinning: Pinning {
            generator_cpus: vec![0],
            target_cpus: vec![1],
            co_located: true,
        },
        command_line: ["tollgate", "bench", "--keys", "it's one"]
            .map(str::to_owned)
            .to_vec(),
        seed: 42,
        started_at: "2026-11-21T03:15:00Z".into(),
        started_unix_s: 1_795_230_900,
        duration_s: 151.2,
    }
}

fn target(name: &str, version: &str) -> TargetRecord {
    TargetRecord {
        name: name.into(),
        url: "redis://127.0.0.1:40123".into(),
        server_name: name.into(),
        server_version: version.into(),
        command_line: vec![format!("{name}-server"), "--save".into(), String::new()],
        threads: Some(1),
        started_by_bench: true,
        co_located: true,
        start_to_first_reply_ms: Some(9.4),
        idle_rss_bytes: Some(7_200_000),
        ..TargetRecord::default()
    }
}

/// A paired comparison with a clear, an unclear and a missed row.
pub(super) fn comparison() -> CompareRecord {
    let sample = |rps: f64, p50: f64, cpu: f64| SliceSample {
        throughput_rps: rps,
        latency_p50_us: Some(p50),
        latency_p99_us: Some(p50 * 4.0),
        server_cpu_us_per_op: Some(cpu),
        ..SliceSample::default()
    };
    let row = |title: &str, factor: f64, budget: f64| {
        let pairs: Vec<SlicePair> = (0..8)
            .map(|at| {
                let noise = 1.0 + f64::from(at % 4) * 0.02;
                SlicePair {
                    a_first: at % 2 == 0,
                    a: sample(100_000.0 * factor, 400.0 / factor, 8.0 / factor * noise),
                    b: sample(100_000.0, 400.0, 8.0),
                }
            })
            .collect();
        CompareRow {
            title: title.into(),
            connections: 50,
            pipeline_depth: 16,
            slice_ms: 500,
            budget_server_cpu_b_over_a: Some(budget),
            ratios: Ratios::of(&pairs),
            pairs,
            ..CompareRow::default()
        }
    };
    CompareRecord {
        schema_version: crate::record::SCHEMA_VERSION,
        manifest: manifest(),
        a: target("tollgate", "0.1.0"),
        b: target("redis", "7.0.15"),
        rows: vec![
            row("decision, depth 16", 6.5, 6.0),
            row("GET", 1.03, 1.2),
            row("SET", 0.8, 1.2),
        ],
        memory: vec![MemoryRow {
            title: "limiter records".into(),
            records: 1_000_000,
            a_bytes_per_record: 36.1,
            b_bytes_per_record: 128.4,
            budget_b_over_a: Some(3.5),
        }],
        complete: true,
        ..CompareRecord::default()
    }
}
