//! Stored runs against each other: what is claimed, what is not, and what is refused. The systems are synthetic.

mod compare;
mod gate;
mod printed;
mod searches;
mod trends;

use tollgate_bench::load::rng::Rng;
use tollgate_bench::load::tally::latency_histogram;
use tollgate_bench::record::{
    Cell, Load, Manifest, Operation, ProcessUse, RunRecord, SCHEMA_VERSION, Scenario, Setting,
    SplitLatency, Step, TargetRecord,
};
use tollgate_bench::run::starts::{Start, merge};
use tollgate_bench::stored::{Arms, StoredRun};

/// A synthetic system: its capacity relative to the others, and how much starts differ.
#[derive(Clone, Copy)]
struct System {
    goodput: f64,
    latency: f64,
    noise: f64,
    seed: u64,
}

const PLAIN: System = System {
    goodput: 1.0,
    latency: 1.0,
    noise: 0.02,
    seed: 1,
};

fn step(target_rps: f64, system: System, rng: &mut Rng) -> Step {
    let mut chance = || 1.0 + system.noise * (rng.unit() + rng.unit() + rng.unit() - 1.5) * 2.0;
    let goodput_rps = target_rps * system.goodput * chance();
    let latency_ns = 200_000.0 * system.latency * chance();
    let (mut allow, deny) = (latency_histogram(), latency_histogram());
    for n in 0..100 {
        allow
            .record((latency_ns * (1.0 + f64::from(n) / 100.0)) as u64)
            .unwrap();
    }
    let latency = SplitLatency::from_histograms(&allow, &deny, &latency_histogram()).unwrap();
    Step {
        target_rps,
        goodput_rps,
        duration_s: 2.0,
        planned: 2_000,
        allowed: 2_000,
        response: latency.clone(),
        service: latency,
        server: Some(ProcessUse {
            cpu_us_per_op: Some(10.0 * chance()),
            ..ProcessUse::default()
        }),
        ..Step::default()
    }
}

fn run_of(targets: &[(&str, System)], starts: u32) -> RunRecord {
    let mut rngs: Vec<Rng> = targets
        .iter()
        .map(|(_, system)| Rng::new(system.seed))
        .collect();
    let mut one = |offset_s: f64| {
        let cells = targets
            .iter()
            .zip(&mut rngs)
            .map(|((name, system), rng)| Cell {
                target: (*name).into(),
                scenario: Scenario {
                    name: "hundred-keys".into(),
                    title: "100 keys uniform".into(),
                    keys: 100,
                    distribution: "uniform".into(),
                },
                operation: Operation {
                    name: "evalsha".into(),
                    title: "EVALSHA".into(),
                    ..Operation::default()
                },
                load: Load {
                    arrivals: "poisson".into(),
                    connections: 50,
                    pipeline_depth: 16,
                    deadline_ms: 1_000.0,
                    ..Load::default()
                },
                steps: [1_000.0, 2_000.0]
                    .map(|rate| step(rate, *system, rng))
                    .into(),
                complete: true,
                ..Cell::default()
            });
        let target = |(name, _): &(&str, System)| TargetRecord {
            name: (*name).into(),
            threads: Some(1),
            started_by_bench: true,
            settings: vec![Setting {
                name: "appendonly".into(),
                value: "no".into(),
            }],
            ..TargetRecord::default()
        };
        let record = RunRecord {
            schema_version: SCHEMA_VERSION,
            manifest: Manifest {
                started_at: "2026-01-01T00:00:00Z".into(),
                started_unix_s: 1_767_225_600,
                seed: 42,
                ..Manifest::default()
            },
            targets: targets.iter().map(target).collect(),
            cells: cells.collect(),
            complete: true,
            ..RunRecord::default()
        };
        Start { offset_s, record }
    };
    let all: Vec<Start> = (0..starts).map(|n| one(10.0 * f64::from(n))).collect();
    if starts == 1 {
        let mut record = all[0].record.clone();
        record.settle();
        return record;
    }
    merge(&all, starts).unwrap()
}

fn stored(record: RunRecord) -> Vec<StoredRun> {
    vec![StoredRun {
        source: "memory".into(),
        record,
    }]
}

/// A run of one synthetic store, for tests of what is made of runs.
pub(crate) fn synthetic_run() -> RunRecord {
    run(PLAIN)
}

fn run(system: System) -> RunRecord {
    run_of(&[("redis-server", system)], 5)
}

fn arms<'a>(a: &'a [StoredRun], b: &'a [StoredRun]) -> Arms<'a> {
    Arms {
        a,
        b,
        target_a: None,
        target_b: None,
        same_time: true,
    }
}
