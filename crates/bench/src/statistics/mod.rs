//! Statistics that hold for few values and without a normal distribution. Pure functions of numbers: no clock, no
//! files, and randomness only from a seed.
//!
//! Everything works on samples of *starts* (see [`crate::record::Starts`]), which are few: medians instead of means,
//! exact rank tests instead of t-tests, and bootstrap intervals instead of standard errors.

mod bootstrap;
mod change;
mod knee;
mod noise;
mod rank;
mod summary;
mod trend;

#[cfg(test)]
mod tests;

pub use bootstrap::{median_interval, ratio_interval};
pub use change::{Change, VALUES_MIN as VALUES_FOR_CHANGES, changes};
pub use knee::knee;
pub use noise::chance_difference_percent;
pub use rank::{Size, hodges_lehmann_shift, mann_whitney, ratio, size_of};
pub use summary::{cv_percent, estimate, mad, median, quantile, quartiles};
pub use trend::{Slope, kendall_p, theil_sen};
