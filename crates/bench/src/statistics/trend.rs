//! A trend over few points, without the assumption that they scatter normally.

use super::bootstrap::{normal_quantile, upper_tail};
use super::summary::{quantile, sorted};

/// Points up to which Kendall's p is exact where no values are equal.
const EXACT_UP_TO: usize = 40;
/// Points that are looked at; beyond, the last ones.
const POINTS_MAX: usize = 1_000;

/// A slope and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slope {
    /// Median of the slopes between all pairs of points.
    pub slope: f64,
    /// Its interval; `None` where the points are too few for one.
    pub interval: Option<(f64, f64)>,
}

/// Slope of `(x, y)` points: the median of the slopes between all pairs (Theil 1950, Sen 1968), with Sen's interval.
/// `None` below three points, or if all have one x.
#[must_use]
pub(crate) fn theil_sen(points: &[(f64, f64)]) -> Option<Slope> {
    let points = usable(points);
    let mut slopes = Vec::new();
    for (at, a) in points.iter().enumerate() {
        slopes.extend(
            points[at + 1..]
                .iter()
                .filter(|b| b.0 != a.0)
                .map(|b| (b.1 - a.1) / (b.0 - a.0)),
        );
    }
    if points.len() < 3 || slopes.is_empty() {
        return None;
    }
    let slopes = sorted(&slopes);
    // The number of rising less falling pairs that chance stays within, 95 times in 100.
    let reach = normal_quantile(0.975) * score_variance(&points).sqrt();
    let count = slopes.len() as f64;
    let (low, high) = ((count - reach) / 2.0, (count + reach) / 2.0);
    // Sen's ranks: the slopes number low and high + 1, counted from 1.
    let at = |rank: f64| {
        let rank = rank.round();
        (rank >= 1.0 && rank <= count).then(|| slopes[rank as usize - 1])
    };
    let interval = at(low).zip(at(high + 1.0));
    Some(Slope {
        slope: quantile(&slopes, 0.5)?,
        interval,
    })
}

/// Two-sided p of "y neither rises nor falls with x" (Kendall 1938): exact for up to 40 points without equal values,
/// else the normal approximation with correction for ties. `None` below three points.
#[must_use]
pub(crate) fn kendall_p(points: &[(f64, f64)]) -> Option<f64> {
    let points = usable(points);
    let n = points.len();
    if n < 3 {
        return None;
    }
    let mut score = 0_i64;
    let mut tied = false;
    for (at, a) in points.iter().enumerate() {
        for b in &points[at + 1..] {
            let sign = (b.0 - a.0) * (b.1 - a.1);
            tied |= sign == 0.0;
            score += i64::from(sign > 0.0) - i64::from(sign < 0.0);
        }
    }
    if !tied && n <= EXACT_UP_TO {
        return Some(exact_p(n, score));
    }
    let variance = score_variance(&points);
    if variance <= 0.0 {
        return Some(1.0);
    }
    let distance = (score.unsigned_abs() as f64 - 1.0).max(0.0);
    Some((2.0 * upper_tail(distance / variance.sqrt())).min(1.0))
}

/// Finite points, the last ones if there are very many.
fn usable(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let finite: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    finite[finite.len().saturating_sub(POINTS_MAX)..].to_vec()
}

/// Variance of the number of rising less falling pairs, with ties in x and y.
fn score_variance(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let groups = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let values = sorted(&points.iter().map(pick).collect::<Vec<f64>>());
        values
            .chunk_by(|a, b| a == b)
            .map(|group| group.len() as f64)
            .collect()
    };
    let (x, y) = (groups(|point| point.0), groups(|point| point.1));
    let sum = |groups: &[f64], of: fn(f64) -> f64| groups.iter().map(|t| of(*t)).sum::<f64>();
    let full = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let (pairs, triples) = (|t: f64| t * (t - 1.0), |t: f64| t * (t - 1.0) * (t - 2.0));
    let base = (full(n) - sum(&x, full) - sum(&y, full)) / 18.0;
    let both_pairs = sum(&x, pairs) * sum(&y, pairs) / (2.0 * n * (n - 1.0));
    let both_triples = sum(&x, triples) * sum(&y, triples) / (9.0 * n * (n - 1.0) * (n - 2.0));
    base + both_pairs + both_triples
}

/// Share of the orders of `n` values with a score at least as far from 0.
fn exact_p(n: usize, score: i64) -> f64 {
    let pairs = n * (n - 1) / 2;
    // Shares of orders by their number of falling pairs: the k-th value adds 0 to k - 1 of them.
    let mut share = vec![1.0_f64];
    for k in 2..=n {
        let mut next = vec![0.0; share.len() + k - 1];
        for (falling, of) in share.iter().enumerate() {
            for slot in &mut next[falling..falling + k] {
                *slot += of / k as f64;
            }
        }
        share = next;
    }
    let far = |falling: usize| (pairs as i64 - 2 * falling as i64).abs() >= score.abs();
    let p: f64 = share
        .iter()
        .enumerate()
        .filter(|(falling, _)| far(*falling))
        .map(|(_, of)| of)
        .sum();
    p.min(1.0)
}
