//! Stored runs against each other: what is claimed, what is not, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tollgate_bench::load::rng::Rng;
use tollgate_bench::load::tally::latency_histogram;
use tollgate_bench::record::{
    Accuracy, Cell, ClaimFloor, GateOutcome, Grade, Load, Manifest, Metric, Noise, Operation,
    ProcessUse, RunRecord, SCHEMA_VERSION, Scenario, Setting, SplitLatency, StartSample, Step,
    TargetRecord, TrendColour, Verdict,
};
use tollgate_bench::run::starts::{Start, merge};
use tollgate_bench::stored::{
    Arms, Gate, Refused, StoredRun, compare, default_floor, gate, noise, noise_path, read_noise,
    read_runs, trends, write_noise,
};
use tollgate_testkit::process::{temp_dir, tollgate_binary};

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
    let latency = SplitLatency::from_histograms(&allow, &deny).unwrap();
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
            Metric::ServerCpuUsPerOp => continue,
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

#[test]
fn a_trend_is_found_and_chance_is_not_one() {
    let runs = |slope: f64| -> Vec<StoredRun> {
        (0..8_u32)
            .map(|number| {
                let goodput = 1.0 + slope * f64::from(number);
                let mut record = run_of(
                    &[(
                        "redis-server",
                        System {
                            goodput,
                            seed: u64::from(number) + 50,
                            ..PLAIN
                        },
                    )],
                    3,
                );
                record.manifest.started_unix_s += 86_400 * i64::from(number);
                StoredRun {
                    source: number.to_string(),
                    record,
                }
            })
            .collect()
    };
    let falling = trends(&runs(-0.03), &[Metric::GoodputRps]).unwrap();
    let row = &falling.rows[0];
    assert_eq!((row.points.len(), row.points[7].0), (8, 7.0));
    assert_eq!((row.colour, row.noise), (TrendColour::Worse, Noise::Stable));
    assert!(
        row.p.unwrap() < 0.01 && row.sentence.contains("worse by"),
        "{}",
        row.sentence
    );
    let (low, high) = row.slope_ci.unwrap();
    assert!(low < -2.0 && high < 0.0, "{low} {high}");
    let flat = trends(&runs(0.0), &[Metric::GoodputRps]).unwrap();
    assert!(
        flat.rows
            .iter()
            .all(|row| row.sentence.contains("no trend shown"))
    );
    let error = trends(&runs(0.0)[..1], &Metric::ALL).unwrap_err();
    assert!(error.contains("at least two runs"), "{error}");
}

#[test]
fn noise_is_what_the_starts_of_one_program_differ_by() {
    let measured = |amount: f64| {
        let twin = |seed| System {
            noise: amount,
            seed,
            ..PLAIN
        };
        let record = run_of(&[("tollgate (A)", twin(1)), ("tollgate (B)", twin(2))], 8);
        noise(&stored(record)).unwrap()
    };
    let (quiet, loud) = (measured(0.01), measured(0.1));
    assert_eq!(
        (quiet.target.as_str(), quiet.starts_per_side),
        ("tollgate", 8)
    );
    assert_eq!(quiet.metrics.len(), 4);
    for (quiet, loud) in quiet.metrics.iter().zip(&loud.metrics) {
        assert_eq!(quiet.rows, 2);
        assert!(quiet.smallest_claimable_percent > 0.0);
        assert!(quiet.smallest_claimable_percent < 3.0, "{quiet:?}");
        assert!(loud.smallest_claimable_percent > 3.0 * quiet.smallest_claimable_percent);
    }
    let folder = temp_dir().unwrap();
    let path = noise_path(&quiet.machine, |_| Some(folder.display().to_string())).unwrap();
    write_noise(&path, &quiet).unwrap();
    let read = read_noise(&path).unwrap();
    assert_eq!(
        (read.target, read.machine),
        (quiet.target, quiet.machine.clone())
    );
    for (read, wrote) in read.metrics.iter().zip(&quiet.metrics) {
        assert_eq!((read.metric, read.rows), (wrote.metric, wrote.rows));
        // JSON keeps all but the last digit.
        let off = read.smallest_claimable_percent - wrote.smallest_claimable_percent;
        assert!(off.abs() < 1e-9, "{off}");
    }
    fs::remove_dir_all(folder).unwrap();
    assert!(noise_path(&quiet.machine, |_| None).is_none());
    let few = noise(&stored(run_of(&[("tollgate", PLAIN)], 3))).unwrap_err();
    assert!(few.contains("needs 6 starts"), "{few}");
}

fn judged(baseline: &RunRecord, run: &RunRecord) -> Result<(GateOutcome, Vec<String>), Refused> {
    let by = &[Metric::GoodputRps];
    judged_by(by, &stored(baseline.clone()), &stored(run.clone()))
}

fn judged_by(
    metrics: &[Metric],
    baseline: &[StoredRun],
    runs: &[StoredRun],
) -> Result<(GateOutcome, Vec<String>), Refused> {
    gate(&Gate {
        runs,
        baseline,
        metrics,
        max_regression_percent: 5.0,
        noise: None,
        allow_unequal: false,
    })
    .map(|record| (record.outcome, record.reasons))
}

#[test]
fn a_gate_fails_on_wrong_answers_and_judges_no_incomplete_run() {
    let good = run(PLAIN);
    let (outcome, _) = judged(&good, &run(System { seed: 3, ..PLAIN })).unwrap();
    assert_eq!(outcome, GateOutcome::Passed);
    let mut wrong = run(System { seed: 3, ..PLAIN });
    wrong.cells[0].accuracy = Some(Accuracy {
        over_admission_percent: 10.0,
        admitted: 110,
        allowed_max: 100,
        ..Accuracy::default()
    });
    let (outcome, reasons) = judged(&good, &wrong).unwrap();
    assert_eq!(outcome, GateOutcome::Failed);
    assert!(reasons[0].contains("admitted more"), "{reasons:?}");
    let mut partial = run(System { seed: 3, ..PLAIN });
    partial.complete = false;
    partial.partial_reason = Some("interrupted".into());
    let (outcome, reasons) = judged(&good, &partial).unwrap();
    assert_eq!(outcome, GateOutcome::Invalid);
    assert!(
        reasons[0].contains("incomplete: interrupted"),
        "{reasons:?}"
    );
    let mut gone = run(System { seed: 3, ..PLAIN });
    gone.cells[0].statistics.as_mut().unwrap().rates.pop();
    let (outcome, reasons) = judged(&good, &gone).unwrap();
    assert_eq!(outcome, GateOutcome::Invalid);
    assert!(reasons[0].contains("no row for"), "{reasons:?}");
    let mut unequal = run(PLAIN);
    unequal.cells[0].load.connections = 3;
    assert!(matches!(judged(&good, &unequal), Err(Refused::Unequal(found)) if found.len() == 1));
}

#[test]
fn a_gate_does_not_pass_on_figures_that_are_gone() {
    let good = run(PLAIN);
    let gone = |change: &dyn Fn(&mut StartSample)| {
        let mut record = run(System { seed: 3, ..PLAIN });
        let statistics = record.cells[0].statistics.as_mut().unwrap();
        statistics.rates[1].starts.iter_mut().for_each(change);
        record
    };
    // The machine spoiled every start of the higher load, which says nothing about it.
    let spoiled = gone(&|start| start.grade = Grade::Invalid);
    for (baseline, run, who) in [
        (&good, &spoiled, "the run"),
        (&spoiled, &good, "the baseline"),
    ] {
        let (outcome, reasons) = judged(baseline, run).unwrap();
        assert_eq!(outcome, GateOutcome::Invalid, "{who}");
        let wanted = format!("{who} has no row for: goodput of redis-server");
        assert!(reasons[0].contains(&wanted), "{reasons:?}");
    }
    // A figure that neither side has cannot have become worse, and alone lets nothing pass.
    let silent = gone(&|start| start.server_cpu_us_per_op = None);
    let mut mute = silent.clone();
    let rates = &mut mute.cells[0].statistics.as_mut().unwrap().rates;
    rates[0].starts = rates[1].starts.clone();
    let outcome = |metrics: &[Metric], baseline: &RunRecord, run: &RunRecord| {
        let (baseline, run) = (stored(baseline.clone()), stored(run.clone()));
        judged_by(metrics, &baseline, &run).unwrap().0
    };
    let cpu = Metric::ServerCpuUsPerOp;
    assert_eq!(outcome(&[cpu], &good, &silent), GateOutcome::Invalid);
    assert_eq!(outcome(&[cpu], &mute, &mute), GateOutcome::Invalid);
    let both = [Metric::P99Us, cpu];
    assert_eq!(outcome(&both, &silent, &silent), GateOutcome::Passed);
}

#[test]
fn every_run_of_an_arm_must_have_been_measured_alike() {
    let of = |change: &dyn Fn(&mut RunRecord)| {
        let mut second = run(System { seed: 3, ..PLAIN });
        change(&mut second);
        [stored(run(PLAIN)), stored(second)].concat()
    };
    let named = |runs: &[StoredRun], baseline: &[StoredRun]| match judged_by(
        &[Metric::GoodputRps],
        baseline,
        runs,
    ) {
        Err(Refused::Unequal(found)) => found.into_iter().map(|one| one.what).collect(),
        _ => Vec::new(),
    };
    let alike = of(&|_| {});
    let mixed = of(&|record| record.cells[0].load.connections = 3);
    let moved = of(&|record| record.manifest.machine.cpu_model = "another".into());
    assert!(named(&alike, &alike).is_empty());
    assert_eq!(named(&mixed, &alike), ["connections"]);
    assert_eq!(named(&alike, &mixed), ["connections"]);
    assert_eq!(named(&alike, &moved), ["processor"]);
}

/// A folder of this test with runs in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        Folder(temp_dir().unwrap())
    }

    fn write(&self, name: &str, record: &RunRecord) -> PathBuf {
        self.text(name, &serde_json::to_string(record).unwrap())
    }

    fn text(&self, name: &str, text: &str) -> PathBuf {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("results.json"), text).unwrap();
        folder
    }

    /// Runs the program without this machine's own calibration.
    fn bench(&self, args: &[&str], folders: &[&Path]) -> Output {
        Command::new(tollgate_binary().unwrap())
            .arg("bench")
            .args(args)
            .args(folders)
            .env("XDG_CACHE_HOME", &self.0)
            .env("CI", "1")
            .output()
            .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(both).unwrap()
}

#[test]
fn the_gate_ends_with_the_promised_exit_codes() {
    let folder = Folder::new();
    let base = folder.write("base", &run(PLAIN));
    let same = folder.write("same", &run(System { seed: 3, ..PLAIN }));
    let slow = folder.write(
        "slow",
        &run(System {
            goodput: 0.8,
            seed: 3,
            ..PLAIN
        }),
    );
    let few = folder.write("few", &run_of(&[("redis-server", PLAIN)], 3));
    let mut other = run(PLAIN);
    other.cells[0].load.connections = 3;
    let other = folder.write("other", &other);
    let gate = |baseline: &Path, judged: &Path, more: &[&str]| {
        let baseline = baseline.display().to_string();
        let mut args = vec!["gate", "--baseline", &baseline, "--metric", "goodput"];
        args.extend(more);
        let output = folder.bench(&args, &[judged]);
        (output.status.code(), text(&output))
    };
    let expect = |found: (Option<i32>, String), code: i32, words: &str| {
        assert_eq!(found.0, Some(code), "{}", found.1);
        assert!(found.1.contains(words), "{words} is not in: {}", found.1);
    };
    expect(gate(&base, &same, &[]), 0, "Gate passed");
    expect(gate(&base, &slow, &[]), 2, "Gate FAILED");
    expect(
        gate(&base, &slow, &["--max-regression", "60%"]),
        0,
        "Gate passed",
    );
    expect(gate(&base, &few, &[]), 3, "fewer than 5 starts");
    expect(gate(&base, &other, &[]), 1, "connections: 50 against 3");
    expect(
        gate(&base, &other, &["--allow-unequal"]),
        0,
        "UNEQUAL: connections",
    );
    expect(
        gate(&base, &folder.0.join("none"), &[]),
        1,
        "none: No such file",
    );
    let (code, json) = gate(&base, &slow, &["--json"]);
    assert_eq!(code, Some(2));
    let record: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(record["outcome"], "failed");
}

#[test]
fn comparisons_and_trends_are_printed_and_refused() {
    let folder = Folder::new();
    let a = folder.write("runs/a", &run(PLAIN));
    let b = folder.write(
        "runs/b",
        &run(System {
            goodput: 0.8,
            seed: 3,
            ..PLAIN
        }),
    );
    let output = folder.bench(&["compare", "--metric", "goodput"], &[&a, &b]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("worse"), "{}", text(&output));
    let markdown =
        text(&folder.bench(&["compare", "--metric", "goodput", "--markdown"], &[&a, &b]));
    assert!(
        markdown.contains("| --: |") && markdown.contains("| worse |"),
        "{markdown}"
    );
    let mut later = run(PLAIN);
    later.manifest.started_unix_s += 86_400;
    let later = folder.write("later", &later);
    let refused = folder.bench(&["compare", "--metric", "goodput"], &[&a, &later]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused).contains("--allow-unequal"),
        "{}",
        text(&refused)
    );
    let marked = folder.bench(
        &["compare", "--metric", "goodput", "--allow-unequal"],
        &[&a, &later],
    );
    assert_eq!(marked.status.code(), Some(0));
    assert!(text(&marked).contains("UNEQUAL: date"), "{}", text(&marked));
    let trend = folder.bench(
        &["trends", "--metric", "goodput"],
        &[&folder.0.join("runs")],
    );
    assert_eq!(trend.status.code(), Some(0), "{}", text(&trend));
    assert!(
        text(&trend).contains("Trends over 2 runs"),
        "{}",
        text(&trend)
    );
    let server = folder.bench(&["compare"], &[&a, Path::new("redis-server")]);
    assert_eq!(server.status.code(), Some(1));
    assert!(
        text(&server).contains("is no stored run"),
        "{}",
        text(&server)
    );
}

#[test]
fn damaged_records_are_named_with_their_fault() {
    let folder = Folder::new();
    let whole = serde_json::to_string(&run(PLAIN)).unwrap();
    let error = |name: &str, text: &str| {
        let path = folder.text(name, text);
        read_runs(&[path]).unwrap_err()
    };
    let cut = error("cut", &whole[..whole.len() / 2]);
    assert!(
        cut.contains("cut/results.json: it ends in the middle"),
        "{cut}"
    );
    let garbage = error("garbage", "\u{0}\u{1} not JSON");
    assert!(garbage.contains("it is damaged"), "{garbage}");
    assert!(error("empty", "").contains("it ends in the middle"));
    let old = error(
        "old",
        &whole.replacen("\"schema_version\":1", "\"schema_version\":0", 1),
    );
    assert!(
        old.contains("layout version 0; this program reads version 1"),
        "{old}"
    );
    assert!(error("other", "{\"a\": 1}").contains("no schema_version"));
    let part = error("part", "{\"schema_version\": 1}");
    assert!(
        part.contains("not the record of a bench run: missing field"),
        "{part}"
    );
    fs::create_dir_all(folder.0.join("bare")).unwrap();
    let bare = read_runs(&[folder.0.join("bare")]).unwrap_err();
    assert!(bare.contains("there is no results.json"), "{bare}");
}

#[test]
fn a_run_that_is_found_twice_counts_once() {
    let folder = Folder::new();
    let a = folder.write("runs/a", &run(PLAIN));
    #[cfg(unix)]
    std::os::unix::fs::symlink("a", folder.0.join("runs/latest")).unwrap();
    let found = read_runs(&[folder.0.join("runs"), a.clone(), a.join("results.json")]).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].record.cells.len(), 1);
}
