//! Searches on simulated servers, and the figures that the studies' ladders must give.

mod lasting_stall;
mod low_probe;
mod past_knee;
mod recovery;
mod seeds;

use proptest::prelude::*;

use super::classify::{Bound, Sample, Target};
use super::{Attempt, Next, Search, SearchPlan};
use crate::load::rng::Rng;
use crate::record::{Measure, Profile, SearchGoal};

fn goal() -> SearchGoal {
    SearchGoal {
        exceed_ratio: 0.5,
        final_trial_s: 1.0,
        duration_sum_s: 3.0,
        width: 0.05,
        ..SearchGoal::named("slo", &Profile::bench()).unwrap()
    }
}

fn plan(first_rps: f64, max_rps: f64) -> SearchPlan {
    SearchPlan {
        goals: vec![goal()],
        first_rps,
        min_rps: 100.0,
        max_rps,
        rough_trial_s: 0.5,
        trials_max: 100,
        budget_s: 1_000.0,
    }
}

fn good(load: f64) -> Measure {
    Measure {
        target_rps: load,
        goodput_rps: load,
        fail_percent: 0.0,
        mean_ms: Some(1.0),
        p95_ms: Some(2.0),
        p99_ms: Some(5.0),
    }
}

fn bad(load: f64) -> Measure {
    Measure {
        goodput_rps: load * 0.8,
        fail_percent: 20.0,
        p99_ms: Some(900.0),
        ..good(load)
    }
}

/// Nothing answered.
fn dead(load: f64) -> Measure {
    Measure {
        target_rps: load,
        goodput_rps: 0.0,
        fail_percent: 100.0,
        mean_ms: None,
        p95_ms: None,
        p99_ms: None,
    }
}

/// Runs a search against `server`; returns it with how it ended and all loads tried.
fn run(plan: SearchPlan, mut server: impl FnMut(f64) -> Measure) -> (Search, Next, Vec<f64>) {
    run_beside(plan, |load| (server(load), true))
}

/// The same on a machine that spoils trials: with every measure, whether it may be believed.
fn run_beside(
    plan: SearchPlan,
    mut server: impl FnMut(f64) -> (Measure, bool),
) -> (Search, Next, Vec<f64>) {
    let most = plan.trials_max;
    let mut search = Search::new(plan);
    let mut tried = Vec::new();
    loop {
        match search.next_trial() {
            Next::Trial(trial) => {
                assert!(tried.len() < most, "no more trials than allowed: {tried:?}");
                tried.push(trial.load_rps);
                let (measure, believable) = server(trial.load_rps);
                search.record(&Attempt {
                    load_rps: trial.load_rps,
                    duration_s: trial.duration_s,
                    measure,
                    believable,
                });
            }
            end => return (search, end, tried),
        }
    }
}

fn knee_at(knee: f64) -> impl FnMut(f64) -> Measure {
    move |load| if load <= knee { good(load) } else { bad(load) }
}

#[test]
fn a_plain_knee_is_enclosed_from_every_start() {
    for first in [100.0, 3_000.0, 9_900.0, 10_100.0, 40_000.0, 200_000.0] {
        let (search, end, tried) = run(plan(first, 200_000.0), knee_at(10_000.0));
        assert_eq!(end, Next::Done, "{tried:?}");
        let result = &search.results()[0];
        let (lower, upper) = (result.lower_rps.unwrap(), result.upper_rps.unwrap());
        assert!(lower <= 10_000.0 && upper > 10_000.0, "[{lower}, {upper}]");
        assert!((upper - lower) / upper <= 0.05 && result.converged);
        assert_eq!(result.conditional_throughput_rps, Some(lower));
        assert!(search.inverted(&[]).is_empty());
        assert!(tried.len() < 45, "{} trials from {first}", tried.len());
    }
}

#[test]
fn noise_near_the_knee_does_not_mislead_it_far() {
    let mut misled = 0;
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        // One trial in ten goes wrong below the knee, one in ten succeeds above it.
        let server = |load: f64| {
            let luck = rng.unit() < 0.1;
            if (load <= 10_000.0) != luck {
                good(load)
            } else {
                bad(load)
            }
        };
        let (search, end, tried) = run(plan(5_000.0, 100_000.0), server);
        assert_eq!(end, Next::Done, "seed {seed}: {tried:?}");
        let lower = search.results()[0].lower_rps.unwrap();
        misled += usize::from(!(8_000.0..=10_600.0).contains(&lower));
    }
    assert!(misled <= 10, "{misled} of 100");
}

/// Table P1 with each load answered as the published step at or below it.
fn replay_p1(load: f64) -> Measure {
    let rows = seeds::measures(seeds::REDIS_SINGLE_KEY);
    let below = rows.iter().rev().find(|row| row.target_rps <= load);
    let published = *below.unwrap_or(&rows[0]);
    Measure {
        target_rps: load,
        goodput_rps: published.goodput_rps / published.target_rps * load,
        ..published
    }
}

#[test]
fn the_ladder_that_fails_and_passes_again_is_seen_as_such() {
    let by_failures = SearchGoal {
        exceed_ratio: 0.5,
        final_trial_s: 1.0,
        duration_sum_s: 3.0,
        width: 0.05,
        ..SearchGoal::named("pdr", &Profile::bench()).unwrap()
    };
    for first in [5_000.0, 14_000.0, 16_000.0, 21_000.0, 26_000.0, 40_000.0] {
        let plan = SearchPlan {
            goals: vec![by_failures.clone()],
            ..plan(first, 60_000.0)
        };
        let (search, end, tried) = run(plan, replay_p1);
        assert_eq!(end, Next::Done, "{tried:?}");
        let result = &search.results()[0];
        let (lower, upper) = (result.lower_rps.unwrap(), result.upper_rps.unwrap());
        assert!(
            lower < 15_000.0 && upper >= 15_000.0,
            "{first}: [{lower}, {upper}] {tried:?}"
        );
        // A single pass far above shows it as well, as the loads past the knee do.
        let above = [(26_000.0, replay_p1(26_000.0))];
        assert!(!search.inverted(&above).is_empty());
    }
}

#[test]
fn a_server_that_never_fails_is_said_to_be_held_to_the_end() {
    let (search, end, _) = run(plan(1_000.0, 50_000.0), good);
    assert_eq!(end, Next::Done);
    let result = &search.results()[0];
    assert_eq!((result.lower_rps, result.upper_rps), (Some(50_000.0), None));
    assert!(!result.converged && result.remark.contains("highest load tried"));
}

#[test]
fn servers_that_always_fail_have_no_lower_bound() {
    for server in [bad, dead] {
        let (search, end, tried) = run(plan(50_000.0, 100_000.0), server);
        assert_eq!(end, Next::Done);
        let result = &search.results()[0];
        assert_eq!((result.lower_rps, result.upper_rps), (None, Some(100.0)));
        assert_eq!(result.conditional_throughput_rps, None);
        assert!(tried.len() < 30, "{tried:?}");
    }
}

#[test]
fn a_spent_budget_keeps_what_is_known() {
    let short = SearchPlan {
        trials_max: 9,
        ..plan(2_000.0, 100_000.0)
    };
    let (search, end, _) = run(short, knee_at(10_000.0));
    assert!(matches!(end, Next::BudgetSpent(_)));
    let result = &search.results()[0];
    assert!(!result.converged && !result.remark.is_empty());
}

#[test]
fn spoiled_trials_are_repeated_and_not_for_ever() {
    let mut search = Search::new(plan(1_000.0, 2_000.0));
    let mut counted = 0;
    for _ in 0..100 {
        let Next::Trial(trial) = search.next_trial() else {
            break;
        };
        counted += usize::from(search.record(&Attempt {
            load_rps: trial.load_rps,
            duration_s: trial.duration_s,
            measure: good(trial.load_rps),
            believable: false,
        }));
    }
    assert!(counted > 0 && matches!(search.next_trial(), Next::Done));
}

#[test]
fn several_goals_share_their_trials() {
    let strict = SearchGoal {
        p99_ms_max: Some(2.0),
        name: "strict".into(),
        ..goal()
    };
    let plan = SearchPlan {
        goals: vec![goal(), strict],
        ..plan(5_000.0, 100_000.0)
    };
    let server = |load: f64| match load {
        load if load > 20_000.0 => bad(load),
        load => Measure {
            p99_ms: Some(1.0 + load / 10_000.0),
            ..good(load)
        },
    };
    let (search, end, tried) = run(plan, server);
    assert_eq!(end, Next::Done);
    let [wide, strict] = &search.results()[..] else {
        panic!("two goals")
    };
    assert!(
        (19_000.0..=20_000.0).contains(&wide.lower_rps.unwrap()),
        "{wide:?}"
    );
    assert!(
        (9_500.0..=10_000.0).contains(&strict.lower_rps.unwrap()),
        "{strict:?}"
    );
    assert!(tried.len() < 60, "{}", tried.len());
}

fn samples(spec: &[(f64, bool)]) -> Vec<Sample> {
    let each = |(duration_s, pass): &(f64, bool)| Sample {
        duration_s: *duration_s,
        measure: if *pass { good(100.0) } else { bad(100.0) },
        believable: true,
    };
    spec.iter().map(each).collect()
}

#[test]
fn loads_are_classified_as_the_standard_says() {
    let goal = goal();
    let classify = |spec: &[(f64, bool)]| Target::last(&goal).classify(&samples(spec));
    assert_eq!(classify(&[]), Bound::Undecided);
    assert_eq!(classify(&[(1.0, true)]), Bound::Undecided);
    assert_eq!(classify(&[(1.0, true), (1.0, true)]), Bound::Lower);
    assert_eq!(classify(&[(1.0, true), (1.0, false)]), Bound::Undecided);
    assert_eq!(
        classify(&[(1.0, true), (1.0, false), (1.0, true)]),
        Bound::Lower
    );
    assert_eq!(classify(&[(1.0, false), (1.0, false)]), Bound::Upper);
    // Short good trials do not make a bound; short bad ones count unless good ones outweigh them.
    assert_eq!(classify(&[(0.5, true); 20]), Bound::Undecided);
    assert_eq!(classify(&[(0.5, false); 4]), Bound::Upper);
    let mixed = [(0.5, false), (0.5, true), (0.5, false), (0.5, true)];
    assert_eq!(classify(&mixed), Bound::Undecided);
}

#[test]
fn conditional_throughput_is_that_of_the_worst_trial_that_counts() {
    let goal = goal();
    let with = |fail: f64| Sample {
        duration_s: 1.0,
        measure: Measure {
            fail_percent: fail,
            ..good(1_000.0)
        },
        believable: true,
    };
    let of = |fails: &[f64]| {
        let samples: Vec<Sample> = fails.iter().map(|fail| with(*fail)).collect();
        Target::last(&goal).conditional_throughput(1_000.0, &samples)
    };
    assert_eq!(of(&[0.5, 40.0, 0.0]), Some(995.0));
    assert_eq!(of(&[0.0]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the server does, the search ends within its bounds and never reports an empty interval.
    #[test]
    fn every_search_ends(
        seed in any::<u64>(),
        chance in 0.0..=1.0_f64,
        first in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -10.0..1e7_f64],
        max in prop_oneof![Just(0.0), 1.0..1e7_f64],
        width in 0.001..0.9_f64,
        trials_max in 0..200_usize,
        budget_s in 0.0..200.0_f64,
        spoiled in 0.0..=1.0_f64,
    ) {
        let mut rng = Rng::new(seed);
        let plan = SearchPlan {
            goals: vec![SearchGoal { width, ..goal() }],
            first_rps: first,
            min_rps: 1.0,
            max_rps: max,
            rough_trial_s: 0.5,
            trials_max,
            budget_s,
        };
        let mut search = Search::new(plan);
        let (mut trials, mut spent) = (0, 0.0);
        while let Next::Trial(trial) = search.next_trial() {
            trials += 1;
            spent += trial.duration_s;
            prop_assert!(trials <= trials_max && spent <= budget_s + 1e-6);
            prop_assert!(trial.load_rps >= 1.0 && trial.load_rps <= max.max(1.0).round());
            let measure = if rng.unit() < chance { good(trial.load_rps) } else { bad(trial.load_rps) };
            search.record(&Attempt {
                load_rps: trial.load_rps,
                duration_s: trial.duration_s,
                measure,
                believable: rng.unit() >= spoiled,
            });
        }
        for result in search.results() {
            if let (Some(lower), Some(upper)) = (result.lower_rps, result.upper_rps) {
                prop_assert!(lower < upper);
            }
        }
    }
}
