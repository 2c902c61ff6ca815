//! Starts put together.

use super::*;

fn step(target_rps: f64, goodput_rps: f64, latency_ns: u64, grade: Grade) -> Step {
    let (mut allow, deny) = (latency_histogram(), latency_histogram());
    for n in 0..100 {
        allow.record(latency_ns + n * 10).unwrap();
    }
    let latency = SplitLatency::from_histograms(&allow, &deny, &latency_histogram()).unwrap();
    let mut step = Step {
        target_rps,
        goodput_rps,
        duration_s: 2.0,
        planned: 100,
        allowed: 100,
        response: latency.clone(),
        service: latency,
        server: Some(ProcessUse {
            cpu_us_per_op: Some(goodput_rps / 100.0),
            ..ProcessUse::default()
        }),
        ..Step::default()
    };
    if grade != Grade::Valid {
        step.validity.lower(grade, "the generator was late");
    }
    step
}

fn start(offset_s: f64, steps: Vec<Step>) -> Start {
    let cell = Cell {
        target: "redis".into(),
        steps,
        complete: true,
        ..Cell::default()
    };
    let target = TargetRecord {
        name: "redis".into(),
        started_by_bench: true,
        ..TargetRecord::default()
    };
    let record = RunRecord {
        cells: vec![cell],
        targets: vec![target],
        complete: true,
        ..RunRecord::default()
    };
    Start { offset_s, record }
}

#[test]
fn orders_are_a_b_b_a_and_rotate_beyond_two() {
    let two: Vec<Vec<usize>> = (0..4).map(|n| order(n, 2)).collect();
    assert_eq!(two, [[0, 1], [1, 0], [0, 1], [1, 0]]);
    let three: Vec<Vec<usize>> = (0..6).map(|n| order(n, 3)).collect();
    assert_eq!(three[..4], [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]]);
    let firsts: Vec<usize> = three.iter().map(|order| order[0]).collect();
    assert!((0..3).all(|target| firsts.contains(&target)), "{firsts:?}");
    assert!(order(3, 0).is_empty());
}

#[test]
fn counts_add_rates_are_medians_and_histograms_merge() {
    let goodputs = [90.0, 100.0, 95.0, 98.0, 40.0];
    let starts: Vec<Start> = goodputs
        .iter()
        .enumerate()
        .map(|(at, goodput)| {
            let latency = 1_000_000 * (at as u64 + 1);
            start(
                10.0 * at as f64,
                vec![step(100.0, *goodput, latency, Grade::Valid)],
            )
        })
        .collect();
    let record = merge(&starts, 5).unwrap();
    assert!(record.complete);
    let found = record.starts.as_ref().unwrap();
    assert_eq!((found.planned, found.done, found.fresh.len()), (5, 5, 1));
    let cell = &record.cells[0];
    let (row, statistics) = (&cell.steps[0], cell.statistics.as_ref().unwrap());
    assert_eq!((row.planned, row.allowed, row.duration_s), (500, 500, 10.0));
    assert_eq!(cell.lengths_s().collect::<Vec<_>>(), [2.0]);
    let capacity = cell.capacity.as_ref().unwrap();
    let remark = "each load was tried once in each of 5 starts, and the highest rung still held";
    assert_eq!(capacity.goals[0].remark, remark);
    assert_eq!(row.goodput_rps, 95.0);
    assert_eq!(row.server.unwrap().cpu_us_per_op, Some(0.95));
    let all = row.response.all.as_ref().unwrap();
    assert_eq!(all.count, 500, "the union of all starts");
    assert!((all.p50_us - 3_000.0).abs() < 10.0, "{}", all.p50_us);
    let rate = &statistics.rates[0];
    assert_eq!(rate.starts.len(), 5);
    assert_eq!(rate.starts[4].offset_s, 40.0);
    let goodput = rate.goodput_rps.unwrap();
    assert_eq!((goodput.n, goodput.median, goodput.mad), (5, 95.0, 5.0));
    assert!(goodput.low.unwrap() >= 40.0 && goodput.high.unwrap() <= 100.0);
}

#[test]
fn the_busiest_thread_is_the_median_of_the_starts_as_the_process_is() {
    let used = [
        (90.0, 62.0),
        (92.0, 60.0),
        (95.0, 40.0),
        (98.0, 64.0),
        (99.0, 90.0),
    ];
    let starts: Vec<Start> = used
        .into_iter()
        .map(|(goodput, busiest)| {
            let mut step = step(100.0, goodput, 1_000, Grade::Valid);
            step.server = Some(ProcessUse {
                cpu_percent: busiest + 1.0,
                // The start with the median goodput has another one.
                busiest_thread_percent: Some(130.0 - busiest),
                run_queue_wait_percent: Some(goodput - busiest),
                ..ProcessUse::default()
            });
            start(0.0, vec![step])
        })
        .collect();
    let mut record = merge(&starts, 5).unwrap();
    let server = record.cells.remove(0).steps[0].server.unwrap();
    assert_eq!(server.cpu_percent, 63.0);
    assert_eq!(server.busiest_thread_percent, Some(68.0));
    assert_eq!(server.run_queue_wait_percent, Some(32.0));
}

#[test]
fn the_level_is_that_of_the_median_start_though_the_tail_is_that_of_the_worst() {
    let starts = |slow: usize| -> Vec<Start> {
        let of = |at: usize| match at < slow {
            true => 900_000_000,
            false => 100_000,
        };
        (0..5)
            .map(|at| start(0.0, vec![step(100.0, 100.0, of(at), Grade::Valid)]))
            .collect()
    };
    let row = |slow: usize| {
        let mut record = merge(&starts(slow), 5).unwrap();
        record.cells.remove(0).steps.remove(0)
    };
    let few = row(2);
    assert!(few.response.all.as_ref().unwrap().p99_us > 8e5);
    assert!(few.holds(), "{:?}", few.status);
    assert!(
        few.status
            .rule
            .starts_with("the median of 5 starts; over all of them P99 90"),
        "{:?}",
        few.status
    );
    assert!(!row(3).holds());
}

#[test]
fn a_start_that_ends_early_leaves_fewer_values_and_an_incomplete_record() {
    let whole = || {
        vec![
            step(100.0, 100.0, 1_000, Grade::Valid),
            step(200.0, 190.0, 1_000, Grade::Valid),
        ]
    };
    let mut short = start(10.0, vec![step(100.0, 99.0, 1_000, Grade::Valid)]);
    short.record.complete = false;
    short.record.partial_reason = Some("the server died".into());
    short.record.cells[0].complete = false;
    let record = merge(&[start(0.0, whole()), short, start(20.0, whole())], 3).unwrap();
    assert!(!record.complete && !record.cells[0].complete);
    assert_eq!(
        record.partial_reason.as_deref(),
        Some("start 2 of 3: the server died")
    );
    let counts: Vec<usize> = record.cells[0]
        .statistics
        .as_ref()
        .unwrap()
        .rates
        .iter()
        .map(|r| r.starts.len())
        .collect();
    assert_eq!(counts, [3, 2]);
    assert!(merge(&[], 3).is_none());
    let fewer = merge(&[start(0.0, whole())], 3).unwrap();
    assert_eq!(
        fewer.partial_reason.as_deref(),
        Some("1 of 3 starts were measured")
    );
}

#[test]
fn a_system_that_the_first_start_lacks_is_not_lost() {
    let both = |offset_s: f64, name: &str| {
        let mut start = start(offset_s, vec![step(100.0, 100.0, 1_000, Grade::Valid)]);
        let mut other = start.record.cells[0].clone();
        other.target = name.into();
        start.record.cells.push(other);
        start.record.targets.push(TargetRecord {
            name: name.into(),
            ..TargetRecord::default()
        });
        start
    };
    let first = start(0.0, vec![step(100.0, 90.0, 1_000, Grade::Valid)]);
    let starts = [first, both(10.0, "late"), both(20.0, "late")];
    let record = merge(&starts, 3).unwrap();
    let names: Vec<&str> = record
        .cells
        .iter()
        .map(|cell| cell.target.as_str())
        .collect();
    assert_eq!(names, ["redis", "late"]);
    assert_eq!(record.targets.len(), 2);
    let late = &record.cells[1];
    let measured: Vec<u32> = late.statistics.as_ref().unwrap().rates[0]
        .starts
        .iter()
        .map(|start| start.start)
        .collect();
    assert_eq!(measured, [2, 3]);
    assert!(record.cells[0].complete && !late.complete);
}

#[test]
fn capacity_is_that_of_all_starts_and_not_of_the_first() {
    let of = |highest: f64| {
        let mut start = start(
            0.0,
            vec![
                step(100.0, 100.0, 1_000, Grade::Valid),
                step(200.0, highest, 1_000, Grade::Valid),
            ],
        );
        ladder::of_record(&mut start.record, false);
        start
    };
    let held = |record: &RunRecord| {
        let found = record.cells[0].capacity.as_ref().unwrap();
        found.goals[0].lower_rps
    };
    let starts = [of(200.0), of(100.0), of(100.0)];
    assert_eq!(held(&starts[0].record), Some(200.0));
    assert_eq!(held(&merge(&starts, 3).unwrap()), Some(100.0));
}

#[test]
fn one_spoiled_start_does_not_spoil_the_row_but_half_do() {
    let grade = |grades: [Grade; 4]| {
        let starts: Vec<Start> = grades
            .into_iter()
            .map(|grade| start(0.0, vec![step(100.0, 100.0, 1_000, grade)]))
            .collect();
        merge(&starts, 4).unwrap().cells[0].steps[0].validity.grade
    };
    use Grade::{Indicative, Invalid, Valid};
    assert_eq!(grade([Valid, Invalid, Valid, Valid]), Valid);
    assert_eq!(grade([Valid, Invalid, Indicative, Valid]), Indicative);
    assert_eq!(grade([Invalid, Invalid, Valid, Valid]), Invalid);
}

#[test]
fn merged_histograms_are_the_histogram_of_the_union() {
    let mut rng = crate::load::rng::Rng::new(3);
    let (mut allow, mut deny) = (latency_histogram(), latency_histogram());
    let mut parts = Vec::new();
    // Starts of different lengths and speeds, one without denials.
    for start in 1..=5_u64 {
        let (mut allowed, mut denied) = (latency_histogram(), latency_histogram());
        for _ in 0..start * 2_000 {
            // From a tenth of a microsecond to minutes, as far as the histograms go.
            let value = (rng.next_u64() >> (24 + rng.next_u64() % 30)) / start;
            let (part, whole) = match rng.next_u64() % 4 {
                0 if start != 2 => (&mut denied, &mut deny),
                _ => (&mut allowed, &mut allow),
            };
            part.saturating_record(value);
            whole.saturating_record(value);
        }
        parts.push(SplitLatency::from_histograms(&allowed, &denied, &latency_histogram()).unwrap());
    }
    assert!(parts[1].deny.is_none());
    let read = |summary: &Option<crate::record::LatencySummary>| {
        summary.as_ref().unwrap().histogram().unwrap().unwrap()
    };
    let union = SplitLatency::from_histograms(&allow, &deny, &latency_histogram()).unwrap();
    for order in [false, true] {
        let merged = merge_latencies(parts.iter());
        assert_eq!(read(&merged.allow), allow, "turned around: {order}");
        assert_eq!(read(&merged.deny), deny);
        assert_eq!(merged, union);
        parts.reverse();
    }
}
