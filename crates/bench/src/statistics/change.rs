//! Where a series changes its level: e-divisive (Matteson and James 2014).

use super::summary::{quantile, sorted};
use crate::load::rng::Rng;

/// Fewest values that are looked at.
pub(crate) const VALUES_MIN: usize = 20;
/// Fewest values between two changes.
const SIDE_MIN: usize = 5;
/// Fewest values of a part that is looked at by itself.
const LOOKED_AT_MIN: usize = 16;
/// Values looked at; of more, the last ones.
const VALUES_MAX: usize = 400;
/// Orders of the values that a division is compared with.
const ORDERS: u32 = 999;
/// Share of them that may divide as well for a change to be claimed. Smaller than one in twenty because several stretches are
/// looked at.
const P_MAX: f64 = 0.005;

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// Number of the first value after it.
    pub at: usize,
    /// Median from the change before to this one.
    pub before: f64,
    /// Median from this one to the next.
    pub after: f64,
    /// Share of random orders in which some division of the stretch is as clear.
    pub p: f64,
}

/// The changes of level in `values`, which come in order of time; none below [`VALUES_MIN`] finite values. A stretch is divided
/// where both sides differ most in energy distance, if hardly any random order of its values has such a place; then its parts
/// in turn. Where the whole has no such place, its first and last two thirds are looked at. Because the place was sought, the two sides are not simply tested against each other.
#[must_use]
pub(crate) fn changes(values: &[f64], seed: u64) -> Vec<Change> {
    if values.len() < VALUES_MIN || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let skipped = values.len().saturating_sub(VALUES_MAX);
    let values = &values[skipped..];
    let mut rng = Rng::new(seed);
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut stretches = vec![(0, values.len())];
    while let Some((from, to)) = stretches.pop() {
        let part = 2 * (to - from) / 3;
        // A dip and its end outweigh each other over the whole; a part of it has one of them alone.
        let parts = [(from, to), (from, from + part), (to - part, to)];
        let looked = parts.into_iter().filter(|(a, b)| b - a >= LOOKED_AT_MIN);
        let mut divisions = looked.filter_map(|(a, b)| {
            let (place, p) = divided(&values[a..b], &mut rng)?;
            Some((a - from + place, p))
        });
        let Some((place, p)) = divisions.next() else {
            continue;
        };
        found.push((from + place, p));
        stretches.extend([(from, from + place), (from + place, to)]);
    }
    found.sort_by_key(|(at, _)| *at);
    let level = |from: usize, to: usize| quantile(&sorted(&values[from..to]), 0.5);
    let mut told = Vec::with_capacity(found.len());
    for (number, (at, p)) in found.iter().enumerate() {
        let from = number.checked_sub(1).map_or(0, |before| found[before].0);
        let to = found.get(number + 1).map_or(values.len(), |next| next.0);
        if let (Some(before), Some(after)) = (level(from, *at), level(*at, to)) {
            told.push(Change {
                at: skipped + at,
                before,
                after,
                p: *p,
            });
        }
    }
    told
}

/// The place that divides `values` best, if chance hardly ever does as well.
fn divided(values: &[f64], rng: &mut Rng) -> Option<(usize, f64)> {
    let (place, clearest) = best_division(values)?;
    let mut order = values.to_vec();
    let mut as_clear = 1_u32;
    let most = (P_MAX * f64::from(ORDERS + 1)).floor() as u32;
    for _ in 0..ORDERS {
        // Fisher-Yates.
        for end in (1..order.len()).rev() {
            order.swap(end, rng.below(end as u32 + 1) as usize);
        }
        as_clear += u32::from(best_division(&order).is_some_and(|(_, other)| other >= clearest));
        if as_clear > most {
            return None;
        }
    }
    Some((place, f64::from(as_clear) / f64::from(ORDERS + 1)))
}

/// The place with the largest energy statistic, and the statistic; `None` where no place leaves enough on both sides, or all
/// values are alike.
fn best_division(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    let distance_to =
        |value: f64, part: &[f64]| -> f64 { part.iter().map(|other| (value - other).abs()).sum() };
    let (mut between, mut left) = (0.0, 0.0);
    let mut right: f64 = (0..n)
        .map(|at| distance_to(values[at], &values[at + 1..]))
        .sum();
    let mut best: Option<(usize, f64)> = None;
    for at in 0..n {
        // The value at `at` goes over to the left side.
        let (to_left, to_right) = (
            distance_to(values[at], &values[..at]),
            distance_to(values[at], &values[at + 1..]),
        );
        between += to_right - to_left;
        left += to_left;
        right -= to_right;
        let place = at + 1;
        if place < SIDE_MIN || n - place < SIDE_MIN {
            continue;
        }
        let (a, b) = (place as f64, (n - place) as f64);
        let pairs = |count: f64| count * (count - 1.0) / 2.0;
        let energy = 2.0 * between / (a * b) - left / pairs(a) - right / pairs(b);
        let statistic = a * b / (a + b) * energy;
        if best.is_none_or(|(_, most)| statistic > most) {
            best = Some((place, statistic));
        }
    }
    best.filter(|(_, statistic)| *statistic > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around the levels, each for so many runs.
    fn series(levels: &[(f64, usize)], spread: f64, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        let mut noise = || (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        let mut values = Vec::new();
        for (level, count) in levels {
            values.extend((0..*count).map(|_| level * (1.0 + spread * noise())));
        }
        values
    }

    #[test]
    fn a_step_is_found_where_it_is_with_both_levels() {
        let found = changes(&series(&[(100.0, 14), (90.0, 11)], 0.01, 1), 42);
        assert_eq!(found.len(), 1, "{found:?}");
        let step = found[0];
        assert_eq!(step.at, 14);
        assert!((step.before - 100.0).abs() < 1.5 && (step.after - 90.0).abs() < 1.5);
        assert!(step.p <= P_MAX);
    }

    #[test]
    fn a_dip_is_two_changes() {
        let dip = series(&[(100.0, 12), (80.0, 8), (100.0, 12)], 0.01, 3);
        let places: Vec<usize> = changes(&dip, 42).iter().map(|change| change.at).collect();
        assert_eq!(places, [12, 20]);
    }

    #[test]
    fn chance_is_hardly_ever_a_change() {
        let claimed = (0..100)
            .filter(|seed| !changes(&series(&[(100.0, 30)], 0.05, 1_000 + seed), 42).is_empty())
            .count();
        assert!(claimed <= 4, "{claimed} of 100 flat series");
    }

    #[test]
    fn one_outlier_is_no_change() {
        let mut values = series(&[(100.0, 24)], 0.01, 5);
        values[12] = 300.0;
        assert_eq!(changes(&values, 42), []);
    }

    #[test]
    fn little_and_broken_series_have_none() {
        assert_eq!(changes(&series(&[(100.0, 10), (50.0, 9)], 0.01, 1), 42), []);
        assert_eq!(changes(&[7.0; 40], 42), []);
        let mut broken = series(&[(100.0, 14), (50.0, 11)], 0.01, 1);
        broken[3] = f64::NAN;
        assert_eq!(changes(&broken, 42), []);
    }
}
