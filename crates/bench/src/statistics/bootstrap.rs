//! Bootstrap intervals (Efron and Tibshirani, An Introduction to the Bootstrap, chapters 13 and 14).

use super::rank::ratio;
use super::summary::{quantile, sorted};
use crate::load::rng::Rng;

/// Resamples behind an interval.
const RESAMPLES: usize = 10_000;
/// Fewest resamples, where samples are large.
const RESAMPLES_MIN: usize = 500;
/// Values looked at for one interval over all resamples: large samples get fewer resamples.
const WORK_MAX: usize = 20_000_000;
/// Share of the distribution left out at each end of a 95 % interval.
const TAIL: f64 = 0.025;
/// Fewest values from which an interval is computed at all.
const VALUES_MIN: usize = 3;

/// 95 % interval of the median, bias-corrected and accelerated; `None` below three finite values.
#[must_use]
pub(crate) fn median_interval(values: &[f64], seed: u64) -> Option<(f64, f64)> {
    let values = sorted(values);
    let n = values.len();
    if n < VALUES_MIN {
        return None;
    }
    let centre = quantile(&values, 0.5)?;
    let mut rng = Rng::new(seed);
    let mut draw = vec![0.0; n];
    let mut medians: Vec<f64> = Vec::with_capacity(RESAMPLES);
    for _ in 0..resamples(n) {
        resample(&values, &mut draw, &mut rng);
        medians.push(quantile(&draw, 0.5)?);
    }
    medians.sort_by(f64::total_cmp);
    let (low, high) = corrected_tails(&medians, centre, &jackknife(&values)?);
    Some((quantile(&medians, low)?, quantile(&medians, high)?))
}

/// 95 % percentile interval of the ratio of `b` to `a` (see [`ratio`]), both sides resampled; `None` below three
/// finite values on a side, or if a value of `a` is not above 0.
#[must_use]
pub(crate) fn ratio_interval(a: &[f64], b: &[f64], seed: u64) -> Option<(f64, f64)> {
    let (a, b) = (sorted(a), sorted(b));
    if a.len() < VALUES_MIN || b.len() < VALUES_MIN {
        return None;
    }
    let mut rng = Rng::new(seed);
    let (mut draw_a, mut draw_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..resamples(a.len() * b.len()) {
        resample(&a, &mut draw_a, &mut rng);
        resample(&b, &mut draw_b, &mut rng);
        ratios.push(ratio(&draw_a, &draw_b)?);
    }
    ratios.sort_by(f64::total_cmp);
    Some((quantile(&ratios, TAIL)?, quantile(&ratios, 1.0 - TAIL)?))
}

fn resamples(work_each: usize) -> usize {
    (WORK_MAX / work_each.max(1)).clamp(RESAMPLES_MIN, RESAMPLES)
}

/// Draws with replacement, in rising order as [`quantile`] wants them.
fn resample(values: &[f64], draw: &mut [f64], rng: &mut Rng) {
    let bound = u32::try_from(values.len()).unwrap_or(u32::MAX);
    for slot in draw.iter_mut() {
        *slot = values[rng.below(bound) as usize];
    }
    draw.sort_unstable_by(f64::total_cmp);
}

/// Medians with one value left out each.
fn jackknife(sorted: &[f64]) -> Option<Vec<f64>> {
    let without = |left_out: usize| {
        let rest: Vec<f64> = (0..sorted.len())
            .filter(|at| *at != left_out)
            .map(|at| sorted[at])
            .collect();
        quantile(&rest, 0.5)
    };
    (0..sorted.len()).map(without).collect()
}

/// The shares of the resampled distribution at which the interval ends.
fn corrected_tails(resampled: &[f64], centre: f64, left_out: &[f64]) -> (f64, f64) {
    let below = resampled.partition_point(|v| *v < centre);
    let not_above = resampled.partition_point(|v| *v <= centre);
    // The median of a resample is often exactly the centre: such ties count half on each side.
    let share = (below + not_above) as f64 / 2.0 / resampled.len() as f64;
    let bias = normal_quantile(share);
    let mean = left_out.iter().sum::<f64>() / left_out.len() as f64;
    let (mut squares, mut cubes) = (0.0, 0.0);
    for value in left_out {
        squares += (mean - value).powi(2);
        cubes += (mean - value).powi(3);
    }
    let acceleration = cubes / (6.0 * squares.powf(1.5));
    let at = |z: f64| {
        let shifted = bias + z;
        normal_cdf(bias + shifted / (1.0 - acceleration * shifted))
    };
    let z = normal_quantile(TAIL);
    let (low, high) = (at(z), at(-z));
    // Values that are all alike have neither bias nor acceleration.
    if low.is_finite() && high.is_finite() && low <= high {
        (low, high)
    } else {
        (TAIL, 1.0 - TAIL)
    }
}

/// Probability that a standard normal value is at most `z`: W. J. Cody's form by way of the complementary error
/// function, here its continued fraction and series; relative error below 1e-12 for |z| < 37.
pub(super) fn normal_cdf(z: f64) -> f64 {
    let tail = upper_tail(z.abs());
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// Probability that a standard normal value exceeds `z >= 0`.
pub(super) fn upper_tail(z: f64) -> f64 {
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 3.0 {
        // Series of the integral from 0 to z (Abramowitz and Stegun 26.2.11).
        let (mut term, mut sum, mut odd) = (z, z, 1.0);
        while term > 1e-17 * sum {
            odd += 2.0;
            term *= z * z / odd;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    // Continued fraction of Mills' ratio (26.2.14), from its far end.
    let mills = (1..=80)
        .rev()
        .fold(0.0, |rest, k| f64::from(k) / (z + rest));
    density / (z + mills)
}

/// The value that a standard normal one does not exceed with probability `p`: bisection on [`normal_cdf`], which is
/// exact enough and needs no table of coefficients.
pub(super) fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return if p <= 0.0 {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
    }
    let (mut low, mut high) = (-38.0, 38.0);
    for _ in 0..90 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
