//! A probe that measured much too low costs trials and never the truth.

use super::{SearchPlan, knee_at, plan, run};
use crate::search::Next;
use crate::search::rungs::{ADDED_MAX, Rung, is_open, next};

/// Climbs from shares of `probe` with a server that holds up to `knee`; the rungs measured, how many were added.
fn climb(probe: f64, knee: f64, most_rps: f64) -> (Vec<Rung>, usize) {
    let measure = |rate_rps: f64| Rung {
        rate_rps,
        held: rate_rps <= knee,
    };
    let shares = [0.25, 0.5, 0.75, 0.9, 1.1];
    let mut rungs: Vec<Rung> = shares.map(|share| measure(share * probe)).into();
    let mut added = 0;
    while let Some(rate) = next(&rungs, added, most_rps) {
        rungs.push(measure(rate));
        added += 1;
    }
    (rungs, added)
}

fn bounds(rungs: &[Rung]) -> (f64, f64) {
    let of = |held: bool| rungs.iter().filter(move |rung| rung.held == held);
    let lower = of(true).map(|rung| rung.rate_rps).fold(0.0, f64::max);
    let upper = of(false).map(|rung| rung.rate_rps);
    (lower, upper.fold(f64::INFINITY, f64::min))
}

#[test]
fn a_ladder_goes_on_until_a_rung_is_too_much() {
    for factor in [1.3, 2.0, 3.0, 7.0, 50.0, 300.0] {
        let knee = 1_000.0 * factor;
        let (rungs, added) = climb(1_000.0, knee, f64::INFINITY);
        let (lower, upper) = bounds(&rungs);
        assert!(
            lower <= knee && knee < upper,
            "{factor}: [{lower}, {upper}]"
        );
        assert!(upper <= 1.3 * lower, "{factor}: [{lower}, {upper}]");
        assert!(added <= ADDED_MAX && !is_open(&rungs), "{added}");
    }
}

#[test]
fn a_ladder_that_ends_past_the_knee_gets_no_more_rungs() {
    for knee in [0.0, 300.0, 1_000.0] {
        assert_eq!(climb(1_000.0, knee, f64::INFINITY).1, 0, "{knee}");
    }
}

#[test]
fn a_ladder_that_never_ends_is_bounded_and_says_so() {
    let (rungs, added) = climb(1_000.0, f64::INFINITY, f64::INFINITY);
    assert_eq!(added, ADDED_MAX);
    assert!(is_open(&rungs));
    // The generator's own bound.
    let (rungs, _) = climb(1_000.0, f64::INFINITY, 5_000.0);
    assert_eq!(bounds(&rungs).0, 5_000.0);
    assert!(is_open(&rungs));
}

#[test]
fn a_search_finds_a_knee_at_fifty_times_the_probe() {
    for factor in [3.0, 50.0] {
        let probe = 1_000.0;
        let search = SearchPlan {
            min_rps: probe * 0.01,
            // As many as a recovery run has.
            trials_max: 32,
            ..plan(probe * 0.5, f64::MAX)
        };
        let (search, end, tried) = run(search, knee_at(probe * factor));
        let result = &search.results()[0];
        let lower = result.lower_rps.unwrap();
        assert!(
            (0.95 * probe * factor..=probe * factor).contains(&lower),
            "{factor}: {result:?} {tried:?}"
        );
        assert!(result.upper_rps.is_some_and(|upper| upper > probe * factor));
        assert!(matches!(end, Next::Done | Next::BudgetSpent(_)));
    }
}

#[test]
fn sixty_trials_narrow_the_interval_far_above_the_probe() {
    for (factor, width) in [(100.0, 0.05), (1_000.0, 0.05), (100.0, 0.01)] {
        let probe = 1_000.0;
        let mut search = SearchPlan {
            min_rps: probe * 0.01,
            trials_max: 60,
            budget_s: 60.0,
            ..plan(probe * 0.5, f64::MAX)
        };
        search.goals[0].width = width;
        let (search, end, tried) = run(search, knee_at(probe * factor));
        assert_eq!(end, Next::Done, "{factor} {width}: {tried:?}");
        let result = &search.results()[0];
        assert!(result.converged, "{result:?}");
        let (lower, upper) = (result.lower_rps.unwrap(), result.upper_rps.unwrap());
        let knee = probe * factor;
        assert!(lower <= knee && knee < upper, "[{lower}, {upper}]");
    }
}

#[test]
fn a_search_whose_trials_run_out_on_the_way_up_says_that_it_may_hold_more() {
    let search = SearchPlan {
        rough_trial_s: 1.0,
        trials_max: 12,
        ..plan(1_000.0, f64::MAX)
    };
    let (search, end, _) = run(search, knee_at(1e9));
    assert!(matches!(end, Next::BudgetSpent(_)));
    let result = &search.results()[0];
    assert_eq!(result.upper_rps, None);
    assert!(
        result.lower_rps.is_none() || result.remark.starts_with("a lower bound"),
        "{result:?}"
    );
}
