//! Recovery, judged from seconds made up here.

use super::super::recovery::{Aftermath, generator_percent, judge, waited_in_clients};
use crate::record::attribution::{ProcessAttribution, ThreadUse};
use crate::record::recovery::{Phase, RecoveryVerdict};
use crate::record::{Profile, Second};

fn phases() -> [Phase; 3] {
    let phase = |name: &str, rate_rps: f64, start_s: f64, length_s: f64| Phase {
        name: name.into(),
        of_knee: rate_rps / 1_000.0,
        rate_rps,
        start_s,
        length_s,
    };
    [
        phase("before", 700.0, 0.0, 5.0),
        phase("overload", 1_500.0, 5.0, 5.0),
        phase("after", 700.0, 10.0, 20.0),
    ]
}

/// A bucket: failures, P99 in milliseconds, open requests.
fn second(at: usize, (failed, p99_ms, in_flight): (u64, f64, u64)) -> Second {
    let planned = if (5..10).contains(&at) { 1_500 } else { 700 };
    Second {
        at_s: at as f64,
        length_s: 1.0,
        planned,
        sent: planned,
        good: planned - failed,
        failed,
        in_flight,
        p50_us: Some(p99_ms * 500.0),
        p99_us: Some(p99_ms * 1e3),
        ..Second::default()
    }
}

fn run(of: impl Fn(usize) -> (u64, f64, u64)) -> Vec<Second> {
    (0..30).map(|at| second(at, of(at))).collect()
}

const FINE: (u64, f64, u64) = (0, 20.0, 3);
const BROKEN: (u64, f64, u64) = (300, 900.0, 500);

fn verdict(seconds: &[Second], whole: bool) -> (RecoveryVerdict, Option<f64>, Option<f64>) {
    let found = judge(&Profile::bench(), &phases(), seconds, whole);
    assert!(!found.sentence.is_empty());
    (
        found.verdict,
        found.time_to_recover_s,
        found.backlog_drain_s,
    )
}

#[test]
fn ten_good_seconds_in_a_row_are_a_recovery() {
    let healing = |at: usize| match at {
        0..5 => FINE,
        5..13 => BROKEN,
        // One good second does not count, because the next one is not.
        13 => FINE,
        14 => (5, 20.0, 3),
        _ => FINE,
    };
    let found = verdict(&run(healing), true);
    assert_eq!(found, (RecoveryVerdict::Recovered, Some(5.0), Some(4.0)));
}

#[test]
fn what_stays_broken_at_a_load_it_held_is_metastable() {
    let stuck = run(|at| if at < 5 { FINE } else { BROKEN });
    assert_eq!(
        verdict(&stuck, true),
        (RecoveryVerdict::Metastable, None, None)
    );
    assert_eq!(verdict(&stuck[..14], false).0, RecoveryVerdict::Unfinished);
    let flickers = run(|at| if at < 5 || at % 5 == 0 { FINE } else { BROKEN });
    assert_eq!(verdict(&flickers, true).0, RecoveryVerdict::Metastable);
    // Nine good seconds at the end are not enough for either.
    let late = run(|at| if !(5..21).contains(&at) { FINE } else { BROKEN });
    assert_eq!(verdict(&late, true).0, RecoveryVerdict::Unfinished);
}

#[test]
fn a_bad_second_now_and_then_is_no_metastable_state() {
    // It came back, but never for ten seconds in a row, and the last second is bad.
    let noisy = run(|at| match at {
        5..12 => BROKEN,
        16 | 23 | 29 => (0, 300.0, 3),
        _ => FINE,
    });
    assert_eq!(verdict(&noisy, true).0, RecoveryVerdict::Unfinished);
}

#[test]
fn a_p99_beside_an_unchanged_median_is_no_metastable_state() {
    // Every request is answered, the median is as before, and the P99 of most seconds is past its bound.
    let mut seconds = run(|at| match at {
        5..11 => BROKEN,
        at if at > 10 && at % 3 > 0 => (0, 300.0, 3),
        _ => FINE,
    });
    assert_eq!(verdict(&seconds, true).0, RecoveryVerdict::Metastable);
    for second in &mut seconds[11..] {
        second.p50_us = Some(10_000.0);
    }
    assert_eq!(verdict(&seconds, true).0, RecoveryVerdict::Unfinished);
}

#[test]
fn a_queue_in_the_clients_is_told_from_one_in_the_target() {
    let stuck = run(|at| if at < 5 { FINE } else { BROKEN });
    let after = &phases()[2];
    let share =
        |seconds: &[Second], on_wire| waited_in_clients(&Profile::bench(), after, seconds, on_wire);
    // 500 are open in each bad second.
    assert_eq!(share(&stuck, 100), Some(0.8));
    assert_eq!(share(&stuck, 1_000), Some(0.0));
    assert_eq!(share(&run(|_| FINE), 100), None);
}

#[test]
fn a_target_is_not_blamed_for_a_generator_at_its_limit() {
    let stuck = run(|at| if at < 5 { FINE } else { BROKEN });
    let explained = |seconds: &[Second], found: &Aftermath| {
        judge(&Profile::bench(), &phases(), seconds, true).explained(&phases(), found)
    };
    let aftermath = Aftermath {
        knee_rps: 1_000.0,
        wanted_rps: 1_400.0,
        on_wire: 100,
        waited_in_clients: Some(0.8),
        generator_percent: Some(70.0),
    };
    let found = explained(&stuck, &aftermath);
    assert_eq!(found.verdict, RecoveryVerdict::Metastable);
    assert!(
        found.sentence.ends_with(
            "; repetitions included, clients asked 1400/s of it, more than its knee of 1000/s; at most 100 requests were with \
             the target at a time, 80 % of the open ones waited in the clients"
        ),
        "{}",
        found.sentence
    );
    let late = Aftermath {
        generator_percent: Some(92.4),
        ..aftermath
    };
    let found = explained(&stuck, &late);
    assert_eq!(found.verdict, RecoveryVerdict::GeneratorLimited);
    assert_eq!(
        found.sentence,
        "not good again within 20 s at 700/s, but the generator used 92 % of its core meanwhile: what the target would have \
         done is not known"
    );
    // What recovered did so in spite of a slow generator.
    let healed = explained(
        &run(|at| if (5..12).contains(&at) { BROKEN } else { FINE }),
        &late,
    );
    assert_eq!(healed.verdict, RecoveryVerdict::Recovered);
}

#[test]
fn the_generator_is_judged_by_its_thread_in_the_seconds_after_the_overload() {
    let [_, _, after] = phases();
    let mut generator = ProcessAttribution {
        // Its other threads take a tenth of what it takes.
        cpu_percent: Some(80.0),
        busiest_thread: Some(ThreadUse {
            cpu_percent: 72.0,
            ..ThreadUse::default()
        }),
        cpu_percent_by_second: (0..30)
            .map(|at| if at < 10 { 40.0 } else { 100.0 })
            .collect(),
        ..ProcessAttribution::default()
    };
    assert_eq!(generator_percent(&generator, &after), Some(90.0));
    generator.busiest_thread = None;
    assert_eq!(generator_percent(&generator, &after), Some(100.0));
    generator.cpu_percent_by_second.truncate(10);
    assert_eq!(generator_percent(&generator, &after), None);
}

#[test]
fn an_overload_that_does_not_hurt_needs_no_recovery() {
    let found = verdict(&run(|_| FINE), true);
    assert_eq!(found, (RecoveryVerdict::Unharmed, Some(0.0), Some(1.0)));
}

#[test]
fn what_was_broken_before_tells_nothing() {
    assert_eq!(
        verdict(&run(|_| BROKEN), true).0,
        RecoveryVerdict::NotHealthyBefore
    );
    assert_eq!(verdict(&[], true).0, RecoveryVerdict::NotHealthyBefore);
}

#[test]
fn a_slow_machine_is_compared_with_itself() {
    // P99 of 120 ms is past Good, but held before as well.
    let slow = run(|at| match at {
        5..12 => BROKEN,
        _ => (0, 120.0, 3),
    });
    assert_eq!(verdict(&slow, true).0, RecoveryVerdict::Recovered);
}
