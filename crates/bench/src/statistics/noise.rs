//! How large a difference chance makes between two halves of the same starts.

use super::rank::ratio;
use super::summary::{quantile, sorted};
use crate::load::rng::Rng;

/// Divisions looked at where there are more.
const DIVISIONS_MAX: usize = 4_000;
/// Share of the divisions that the answer is not exceeded by.
const SHARE: f64 = 0.95;

/// The difference, in percent, that only one in twenty divisions of `values` into two halves exceeds. The values are
/// starts of one and the same thing, so whatever differs is noise. `None` below four finite values, or if one is not
/// above 0.
#[must_use]
pub(crate) fn chance_difference_percent(values: &[f64], seed: u64) -> Option<f64> {
    let mut values = sorted(values);
    if values.len() < 4 || values[0] <= 0.0 {
        return None;
    }
    let half = values.len() / 2;
    let mut rng = Rng::new(seed);
    let mut found = Vec::with_capacity(DIVISIONS_MAX);
    for _ in 0..DIVISIONS_MAX {
        // Fisher-Yates as far as the first half needs it.
        for at in 0..half {
            let rest = u32::try_from(values.len() - at).unwrap_or(u32::MAX);
            values.swap(at, at + rng.below(rest) as usize);
        }
        let (a, b) = values.split_at(half);
        let ratio = ratio(a, b)?;
        found.push((ratio.max(1.0 / ratio) - 1.0) * 100.0);
    }
    quantile(&sorted(&found), SHARE)
}
