//! The statistics against published tables and against SciPy (`scipy_vectors.py` says how `scipy.json` was made).

use serde::Deserialize;

use super::bootstrap::{normal_cdf, normal_quantile};
use super::*;
use crate::load::rng::Rng;

#[derive(Deserialize)]
struct Vectors {
    exact: Vec<Ranks>,
    ties: Vec<Ranks>,
    normal: Vec<Ranks>,
    trends: Vec<Trend>,
    summaries: Vec<Summary>,
    intervals: Vec<Interval>,
    shifts: Vec<Shift>,
    normal_cdf: Vec<(f64, f64)>,
    normal_quantile: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct Ranks {
    a: Vec<f64>,
    b: Vec<f64>,
    u: f64,
    p: f64,
}

#[derive(Deserialize)]
struct Trend {
    points: Vec<(f64, f64)>,
    slope: f64,
    low: f64,
    high: f64,
    p: f64,
}

#[derive(Deserialize)]
struct Summary {
    values: Vec<f64>,
    median: f64,
    mad: f64,
    q25: f64,
    q75: f64,
    cv_percent: f64,
}

#[derive(Deserialize)]
struct Interval {
    values: Vec<f64>,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Shift {
    a: Vec<f64>,
    b: Vec<f64>,
    shift: f64,
    ratio: f64,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("scipy.json")).unwrap()
}

fn close(found: f64, wanted: f64, what: &str) {
    let scale = wanted.abs().max(1e-9);
    assert!(
        (found - wanted).abs() <= 1e-9 * scale + 1e-14,
        "{what}: {found} is not {wanted}"
    );
}

#[test]
fn ranks_agree_with_scipy() {
    let vectors = vectors();
    let cases = vectors
        .exact
        .iter()
        .chain(&vectors.ties)
        .map(|case| (case, true));
    for (case, exact) in cases.chain(vectors.normal.iter().map(|case| (case, false))) {
        let found = mann_whitney(&case.a, &case.b).unwrap();
        assert_eq!(found.exact, exact);
        close(found.u, case.u, "U");
        close(found.p, case.p, "p");
        close(
            found.a12,
            case.u / (case.a.len() * case.b.len()) as f64,
            "A12",
        );
    }
}

#[test]
fn swapping_the_sides_mirrors_the_test() {
    for case in vectors().ties {
        let (there, back) = (
            mann_whitney(&case.a, &case.b).unwrap(),
            mann_whitney(&case.b, &case.a).unwrap(),
        );
        close(there.p, back.p, "p");
        close(there.a12, 1.0 - back.a12, "A12");
        close(there.cliffs_delta, -back.cliffs_delta, "delta");
    }
}

/// Largest U that is significant two-sided at 5 %, from the table in Siegel, Nonparametric Statistics (1956), table K.
const CRITICAL_U: [(usize, usize, &[u32]); 7] = [
    // Size of one side, least size of the other, and the values from there on.
    (4, 4, &[0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11, 11, 12, 13]),
    (
        5,
        5,
        &[2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 17, 18, 19, 20],
    ),
    (
        6,
        6,
        &[5, 6, 8, 10, 11, 13, 14, 16, 17, 19, 21, 22, 24, 25, 27],
    ),
    (
        7,
        7,
        &[8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34],
    ),
    (8, 8, &[13, 15, 17, 19, 22, 24, 26, 29, 31, 34, 36, 38, 41]),
    (9, 9, &[17, 20, 23, 26, 28, 31, 34, 37, 39, 42, 45, 48]),
    (10, 10, &[23, 26, 29, 33, 36, 39, 42, 45, 48, 52, 55]),
];

/// Two samples of which the second has U = `u`.
fn with_u(n: usize, m: usize, u: u32) -> (Vec<f64>, Vec<f64>) {
    let a: Vec<f64> = (0..n).map(|v| v as f64).collect();
    let mut left = u as usize;
    let b = (0..m).map(|at| {
        let above = left.min(n);
        left -= above;
        // Above that many values of A, and different from the other values of B.
        above as f64 - 0.5 + at as f64 / 1_000.0
    });
    let b = b.collect();
    (a, b)
}

#[test]
fn the_published_critical_values_are_met() {
    for (n, first, values) in CRITICAL_U {
        for (m, critical) in (first..).zip(values) {
            let p = |u: u32| {
                let (a, b) = with_u(n, m, u);
                let found = mann_whitney(&a, &b).unwrap();
                assert_eq!(found.u, f64::from(u));
                found.p
            };
            assert!(p(*critical) <= 0.05, "{n} against {m}, U {critical}");
            assert!(p(critical + 1) > 0.05, "{n} against {m}, U {critical} + 1");
        }
    }
}

#[test]
fn three_starts_can_never_be_significant() {
    let found = mann_whitney(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]).unwrap();
    assert!((found.p - 0.1).abs() < 1e-12);
    let found = mann_whitney(&[1.0, 2.0, 3.0, 4.0], &[10.0, 20.0, 30.0, 40.0]).unwrap();
    assert!((found.p - 2.0 / 70.0).abs() < 1e-12);
}

#[test]
fn nothing_to_compare_is_none_and_equal_values_prove_nothing() {
    assert!(mann_whitney(&[], &[1.0]).is_none());
    assert!(mann_whitney(&[f64::NAN], &[1.0]).is_none());
    for size in [5, 40] {
        let found = mann_whitney(&vec![7.0; size], &vec![7.0; size]).unwrap();
        assert_eq!((found.p, found.a12), (1.0, 0.5));
    }
    assert!(median(&[]).is_none() && mad(&[]).is_none() && quartiles(&[]).is_none());
    assert!(cv_percent(&[3.0]).is_none() && cv_percent(&[-1.0, 1.0]).is_none());
    assert!(estimate(&[f64::INFINITY], 1).is_none());
    assert!(ratio(&[0.0], &[1.0]).is_none() && ratio(&[], &[]).is_none());
    assert!(kendall_p(&[(0.0, 1.0), (1.0, 2.0)]).is_none());
    assert!(theil_sen(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]).is_none());
    assert_eq!(kendall_p(&[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), Some(1.0));
}

#[test]
fn summaries_agree_with_numpy() {
    for case in vectors().summaries {
        close(median(&case.values).unwrap(), case.median, "median");
        close(mad(&case.values).unwrap(), case.mad, "MAD");
        let (q25, q75) = quartiles(&case.values).unwrap();
        close(q25, case.q25, "lower quartile");
        close(q75, case.q75, "upper quartile");
        close(cv_percent(&case.values).unwrap(), case.cv_percent, "CV");
    }
}

#[test]
fn shifts_are_medians_over_all_pairs() {
    for case in vectors().shifts {
        close(
            hodges_lehmann_shift(&case.a, &case.b).unwrap(),
            case.shift,
            "shift",
        );
        close(ratio(&case.a, &case.b).unwrap(), case.ratio, "ratio");
    }
}

#[test]
fn trends_agree_with_scipy() {
    for case in vectors().trends {
        let found = theil_sen(&case.points).unwrap();
        close(found.slope, case.slope, "slope");
        if let Some((low, high)) = found.interval {
            close(low, case.low, "low end");
            close(high, case.high, "high end");
        } else {
            assert!(case.points.len() < 5, "SciPy clamps what is not there");
        }
        close(kendall_p(&case.points).unwrap(), case.p, "p");
    }
}

#[test]
fn the_normal_distribution_is_accurate() {
    let vectors = vectors();
    for (z, p) in vectors.normal_cdf {
        close(normal_cdf(z), p, "cdf");
    }
    for (p, z) in vectors.normal_quantile {
        assert!((normal_quantile(p) - z).abs() < 1e-8, "{p}: {z}");
    }
}

/// Two bootstraps with different random numbers end at the same value of the sample, or at its neighbour.
#[test]
fn intervals_agree_with_scipy_within_one_value() {
    for case in vectors().intervals {
        let sorted = {
            let mut values = case.values.clone();
            values.sort_by(f64::total_cmp);
            values
        };
        let place = |v: f64| sorted.partition_point(|s| *s < v) as i64;
        let (low, high) = median_interval(&case.values, 42).unwrap();
        let n = sorted.len();
        assert!(
            (place(low) - place(case.low)).abs() <= 1,
            "n {n}: {low} {}",
            case.low
        );
        assert!(
            (place(high) - place(case.high)).abs() <= 1,
            "n {n}: {high} {}",
            case.high
        );
        assert_eq!(
            median_interval(&case.values, 42),
            Some((low, high)),
            "the seed decides"
        );
    }
}

/// Of intervals over samples with a known median about 95 % must contain it.
#[test]
fn intervals_cover_the_true_median() {
    let mut rng = Rng::new(5);
    let runs = 120;
    let covered = (0..runs)
        .filter(|seed| {
            let sample: Vec<f64> = (0..15).map(|_| rng.exponential()).collect();
            let (low, high) = median_interval(&sample, *seed).unwrap();
            (low..=high).contains(&std::f64::consts::LN_2)
        })
        .count();
    let share = covered as f64 / runs as f64;
    assert!((0.90..=0.99).contains(&share), "{share}");
}

#[test]
fn intervals_of_equal_values_are_points() {
    assert_eq!(median_interval(&[4.0; 6], 1), Some((4.0, 4.0)));
    assert_eq!(ratio_interval(&[2.0; 5], &[3.0; 5], 1), Some((1.5, 1.5)));
    assert!(median_interval(&[1.0, 2.0], 1).is_none());
    assert!(ratio_interval(&[1.0, 0.0, 2.0], &[1.0; 3], 1).is_none());
}

#[test]
fn chance_makes_the_difference_that_the_values_have() {
    let spread = |percent: f64| -> Vec<f64> {
        let mut rng = Rng::new(9);
        (0..20)
            .map(|_| 100.0 * (1.0 + percent / 100.0 * (rng.unit() - 0.5)))
            .collect()
    };
    let (quiet, loud) = (
        chance_difference_percent(&spread(2.0), 1).unwrap(),
        chance_difference_percent(&spread(40.0), 1).unwrap(),
    );
    assert!(quiet > 0.05 && quiet < 1.5, "{quiet}");
    assert!(loud > 10.0 * quiet && loud < 40.0, "{loud}");
    assert!(chance_difference_percent(&[1.0, 2.0, 3.0], 1).is_none());
    assert_eq!(chance_difference_percent(&[3.0; 8], 1), Some(0.0));
}

#[test]
fn words_for_effects_follow_their_bounds() {
    assert_eq!(size_of(0.1), Size::Negligible);
    assert_eq!(size_of(-0.2), Size::Small);
    assert_eq!(size_of(0.4), Size::Medium);
    assert_eq!(size_of(-1.0).word(), "large");
}

/// Against itself, a sample must look different in one case of twenty and not more.
#[test]
fn the_rate_of_false_alarms_is_the_promised_one() {
    let mut rng = Rng::new(11);
    let trials = 2_000;
    let alarms = (0..trials)
        .filter(|_| {
            let mut sample = || -> Vec<f64> { (0..7).map(|_| rng.exponential()).collect() };
            let (a, b) = (sample(), sample());
            mann_whitney(&a, &b).unwrap().p < 0.05
        })
        .count();
    let share = f64::from(u32::try_from(alarms).unwrap()) / f64::from(trials);
    assert!((0.02..=0.06).contains(&share), "{share}");
}
