//! A stall that outlasts the trials at one load is looked past once.

use super::{SearchPlan, bad, good, knee_at, plan, replay_p1, run, run_beside};
use crate::search::{Next, Search};

const KNEE: f64 = 100_000.0;

/// A search of a server that holds up to [`KNEE`], except in `long` trials after the first `from` ones.
fn stalled(exceed_ratio: f64, from: usize, long: usize) -> (Search, Next, Vec<f64>) {
    let mut search = SearchPlan {
        trials_max: 60,
        ..plan(500.0, f64::MAX)
    };
    search.goals[0].exceed_ratio = exceed_ratio;
    let mut at = 0;
    run(search, move |load| {
        at += 1;
        match (from + 1..=from + long).contains(&at) || load > KNEE {
            true => bad(load),
            false => good(load),
        }
    })
}

#[test]
fn a_search_looks_past_a_stall_that_outlasted_its_trials() {
    for long in 1..=4 {
        for from in 0..30 {
            let (search, end, tried) = stalled(0.5, from, long);
            let story = format!("{long} after {from}: {tried:?}");
            assert_eq!(end, Next::Done, "{story}");
            let result = &search.results()[0];
            let (lower, upper) = (result.lower_rps.unwrap(), result.upper_rps.unwrap());
            assert!(lower <= KNEE, "[{lower}, {upper}] {story}");
            assert!(lower >= 0.8 * KNEE, "[{lower}, {upper}] {story}");
            assert!(result.converged, "{story}");
        }
    }
}

#[test]
fn where_one_bad_trial_decides_the_look_tells_that_higher_loads_hold() {
    for from in 0..12 {
        let (search, _, tried) = stalled(0.0, from, 1);
        let lower = search.results()[0].lower_rps.unwrap_or(0.0);
        let told = !search.inverted(&[]).is_empty();
        assert!(lower >= 0.5 * KNEE || told, "{from}: {lower} {tried:?}");
    }
}

#[test]
fn a_plain_knee_costs_one_look_above_it() {
    let (search, end, tried) = run(plan(500.0, f64::MAX), knee_at(10_000.0));
    assert_eq!(end, Next::Done);
    let upper = search.results()[0].upper_rps.unwrap();
    let looks = tried
        .iter()
        .filter(|load| (1.2..1.6).contains(&(**load / upper)));
    assert_eq!(looks.count(), 1, "{upper}: {tried:?}");
}

#[test]
fn a_look_stays_within_the_bounds() {
    for most in [10_100.0, 11_000.0, 15_000.0] {
        let (_, end, tried) = run(plan(500.0, most), knee_at(10_000.0));
        assert_eq!(end, Next::Done);
        assert!(tried.iter().all(|load| *load <= most), "{tried:?}");
    }
}

#[test]
fn what_fails_again_and_again_below_a_held_load_stays_the_bound() {
    let mut search = plan(5_000.0, 60_000.0);
    search.goals[0].fail_percent_max = 1.0;
    let (search, end, tried) = run(search, replay_p1);
    assert_eq!(end, Next::Done, "{tried:?}");
    let upper = search.results()[0].upper_rps.unwrap();
    assert!(upper <= 16_000.0, "{upper}: {tried:?}");
}

#[test]
fn what_the_machine_spoiled_is_no_failure_below_a_held_load() {
    for believable in [true, false] {
        let server = |load: f64| match (9_000.0..20_000.0).contains(&load) {
            true => (bad(load), believable),
            false => (good(load), true),
        };
        let (search, _, tried) = run_beside(plan(8_000.0, 50_000.0), server);
        let upper = search.results()[0].upper_rps.unwrap();
        assert!((9_000.0..20_000.0).contains(&upper), "{upper} {tried:?}");
        let told = search.inverted(&[(26_000.0, good(26_000.0))]);
        assert_eq!(!told.is_empty(), believable, "{told:?} {tried:?}");
    }
}
