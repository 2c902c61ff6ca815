//! Comparing two samples by ranks: Mann-Whitney's test, effect sizes, and the Hodges-Lehmann estimates.

use super::bootstrap::upper_tail;
use super::summary::{quantile, sorted};
use crate::record::RankTest;

/// Values on both sides together up to which p is exact, with ties as without. The distribution of larger samples is
/// close to normal.
const EXACT_UP_TO: usize = 50;
/// Pairs that a Hodges-Lehmann estimate looks at; beyond, it compares medians.
const PAIRS_MAX: usize = 250_000;

/// Tests whether values of `b` tend to be larger or smaller than those of `a` (Mann and Whitney 1947). `None` if a side
/// has no finite value.
///
/// Two-sided, and exact up to 50 values: the distribution of the rank sum over all divisions of the ranks as observed,
/// ties as mid-ranks. Beyond that the normal approximation with corrections for ties and continuity.
#[must_use]
pub(crate) fn mann_whitney(a: &[f64], b: &[f64]) -> Option<RankTest> {
    let (a, b) = (sorted(a), sorted(b));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let pooled = doubled_ranks(&a, &b);
    let (n, m) = (a.len() as f64, b.len() as f64);
    let rank_sum_b: u64 = pooled.of_b.iter().sum();
    // U of B: its rank sum less the least one possible.
    let u = rank_sum_b as f64 / 2.0 - m * (m + 1.0) / 2.0;
    let exact = a.len() + b.len() <= EXACT_UP_TO;
    let p = if exact {
        exact_p(&pooled, rank_sum_b)
    } else {
        approximate_p(u, n, m, &pooled.ties)
    };
    let a12 = u / (n * m);
    Some(RankTest {
        u,
        p,
        exact,
        a12,
        cliffs_delta: 2.0 * a12 - 1.0,
    })
}

/// Ranks times two, so that mid-ranks are whole numbers.
struct DoubledRanks {
    all: Vec<u64>,
    of_b: Vec<u64>,
    /// Sizes of the groups of equal values.
    ties: Vec<f64>,
}

fn doubled_ranks(a: &[f64], b: &[f64]) -> DoubledRanks {
    let mut pooled: Vec<(f64, bool)> = a.iter().map(|v| (*v, false)).collect();
    pooled.extend(b.iter().map(|v| (*v, true)));
    pooled.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut all, mut of_b, mut ties) = (Vec::new(), Vec::new(), Vec::new());
    for group in pooled.chunk_by(|x, y| x.0 == y.0) {
        let before = all.len() as u64;
        // The mean of the ranks before + 1 ..= before + size, doubled.
        let rank = 2 * before + group.len() as u64 + 1;
        for (_, is_b) in group {
            all.push(rank);
            if *is_b {
                of_b.push(rank);
            }
        }
        ties.push(group.len() as f64);
    }
    DoubledRanks { all, of_b, ties }
}

/// Share of all choices of B's size among the ranks whose sum is at least as far from its mean as B's.
fn exact_p(ranks: &DoubledRanks, observed: u64) -> f64 {
    let (chosen, total) = (ranks.of_b.len(), ranks.all.iter().sum::<u64>() as usize);
    // ways[k][s]: choices of k ranks with sum s, among the ranks seen so far.
    let mut ways = vec![vec![0.0_f64; total + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for (seen, &rank) in ranks.all.iter().enumerate() {
        let rank = rank as usize;
        for k in (1..=chosen.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(k);
            for (slot, add) in more[0][rank..].iter_mut().zip(&fewer[k - 1]) {
                *slot += add;
            }
        }
    }
    let mean = total as f64 * chosen as f64 / ranks.all.len() as f64;
    let distance = (observed as f64 - mean).abs();
    let (mut far, mut every) = (0.0, 0.0);
    for (sum, count) in ways[chosen].iter().enumerate() {
        every += count;
        if (sum as f64 - mean).abs() >= distance - 1e-9 {
            far += count;
        }
    }
    (far / every).min(1.0)
}

fn approximate_p(u: f64, n: f64, m: f64, ties: &[f64]) -> f64 {
    let all = n + m;
    let tied: f64 = ties.iter().map(|t| t.powi(3) - t).sum();
    let variance = n * m / 12.0 * (all + 1.0 - tied / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    (2.0 * upper_tail(distance / variance.sqrt())).min(1.0)
}

/// Size of an effect in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    /// Hardly any.
    Negligible,
    /// Visible in many values.
    Small,
    /// Visible in a few values.
    Medium,
    /// Obvious.
    Large,
}

impl Size {
    /// The word itself.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Negligible => "negligible",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

/// Size of a Cliff's delta, by the bounds of Romano and others (2006): 0.147, 0.33 and 0.474.
#[must_use]
pub(crate) fn size_of(cliffs_delta: f64) -> Size {
    match cliffs_delta.abs() {
        d if d < 0.147 => Size::Negligible,
        d if d < 0.33 => Size::Small,
        d if d < 0.474 => Size::Medium,
        _ => Size::Large,
    }
}

/// How far `b` lies above `a`: the median of all differences of a value of `b` and one of `a` (Hodges and Lehmann
/// 1963). `None` if a side has no finite value.
#[must_use]
#[cfg(test)]
pub(crate) fn hodges_lehmann_shift(a: &[f64], b: &[f64]) -> Option<f64> {
    median_of_pairs(a, b, |a, b| b - a)
}

/// `b` over `a`: the median of all ratios of a value of `b` to one of `a`, which is the Hodges-Lehmann shift of
/// logarithms. `None` if a side has no finite value or a value of `a` is not above 0.
#[must_use]
pub(crate) fn ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.iter().any(|v| v.is_finite() && *v <= 0.0) {
        return None;
    }
    median_of_pairs(a, b, |a, b| b / a)
}

fn median_of_pairs(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> Option<f64> {
    if a.len().saturating_mul(b.len()) > PAIRS_MAX {
        return Some(of(quantile(&sorted(a), 0.5)?, quantile(&sorted(b), 0.5)?));
    }
    let finite =
        |values: &[f64]| -> Vec<f64> { values.iter().copied().filter(|v| v.is_finite()).collect() };
    let (a, b) = (finite(a), finite(b));
    let mut pairs: Vec<f64> = a
        .iter()
        .flat_map(|a| b.iter().map(|b| of(*a, *b)))
        .collect();
    let last = pairs.len().checked_sub(1)?;
    // Selection instead of sorting: this runs once per resample.
    let (below, at, _) = pairs.select_nth_unstable_by(last.div_ceil(2), f64::total_cmp);
    let upper = *at;
    if last % 2 == 0 {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(f64::midpoint(lower, upper))
}
