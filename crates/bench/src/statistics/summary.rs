//! Centre and spread of one sample.

use super::bootstrap::median_interval;
use crate::record::Estimate;

/// The finite values in rising order.
pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Quantile `share` (0 to 1) of values **in rising order**, interpolated linearly (Hyndman and Fan's type 7, the
/// default of R and NumPy); `None` if there are none.
#[must_use]
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// Median of the finite values.
#[must_use]
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// Lower and upper quartile of the finite values.
#[must_use]
#[cfg(test)]
pub(crate) fn quartiles(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    Some((quantile(&sorted, 0.25)?, quantile(&sorted, 0.75)?))
}

/// Median absolute deviation from the median, not scaled to a normal distribution's deviation.
#[must_use]
pub(crate) fn mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    let finite = values.iter().filter(|v| v.is_finite());
    let deviations: Vec<f64> = finite.map(|v| (v - centre).abs()).collect();
    median(&deviations)
}

/// Standard deviation (n - 1) over mean, percent; `None` below two values or with a mean of 0.
#[must_use]
pub(crate) fn cv_percent(values: &[f64]) -> Option<f64> {
    let values = sorted(values);
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let cv = (squares / (n - 1.0)).sqrt() / mean.abs() * 100.0;
    cv.is_finite().then_some(cv)
}

/// Everything that is printed of a sample; `None` without a finite value. `seed` decides the resamples.
#[must_use]
pub(crate) fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    let sorted = sorted(values);
    let interval = median_interval(&sorted, seed);
    Some(Estimate {
        n: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
        median: quantile(&sorted, 0.5)?,
        mad: mad(&sorted)?,
        cv_percent: cv_percent(&sorted),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        min: *sorted.first()?,
        max: *sorted.last()?,
    })
}
