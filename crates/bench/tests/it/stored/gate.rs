//! What a gate lets pass, refuses and does not judge.

use tollgate_bench::record::{Accuracy, GateOutcome, Grade, Metric, RunRecord, StartSample};
use tollgate_bench::stored::{Gate, Refused, StoredRun, gate};

use super::{PLAIN, System, run, stored};

fn judged(baseline: &RunRecord, run: &RunRecord) -> Result<(GateOutcome, Vec<String>), Refused> {
    let by = &[Metric::GoodputRps];
    judged_by(by, &stored(baseline.clone()), &stored(run.clone()))
}

pub(super) fn judged_by(
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
fn a_loss_is_a_share_of_what_was_there() {
    let outcome = |metric, other| {
        let record = gate(&Gate {
            runs: &stored(run(other)),
            baseline: &stored(run(PLAIN)),
            metrics: &[metric],
            max_regression_percent: 20.0,
            noise: None,
            allow_unequal: false,
        });
        record.unwrap().outcome
    };
    let (seed, passed, failed) = (3, GateOutcome::Passed, GateOutcome::Failed);
    for (goodput, expected) in [(0.83, passed), (0.76, failed)] {
        let other = System {
            goodput,
            seed,
            ..PLAIN
        };
        assert_eq!(outcome(Metric::GoodputRps, other), expected, "{goodput}");
    }
    for (latency, expected) in [(1.15, passed), (1.25, failed)] {
        let other = System {
            latency,
            seed,
            ..PLAIN
        };
        assert_eq!(outcome(Metric::P99Us, other), expected, "{latency}");
    }
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
fn nothing_passes_beside_a_baseline_that_answered_nothing() {
    let good = run(PLAIN);
    let dead = |starts: usize| {
        let mut record = run(System { seed: 3, ..PLAIN });
        let statistics = record.cells[0].statistics.as_mut().unwrap();
        let rate = &mut statistics.rates[1];
        rate.starts
            .iter_mut()
            .take(starts)
            .for_each(|start| start.goodput_rps = 0.0);
        record
    };
    // Whether all starts of the baseline answered nothing or one did, there is no ratio to fall behind.
    for baseline in [dead(5), dead(1)] {
        for candidate in [&dead(5), &good] {
            let (outcome, reasons) = judged(&baseline, candidate).unwrap();
            assert_eq!(outcome, GateOutcome::Invalid, "{reasons:?}");
            assert!(reasons[0].contains("baseline is 0"), "{reasons:?}");
        }
    }
    assert_eq!(judged(&good, &dead(5)).unwrap().0, GateOutcome::Failed);
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
