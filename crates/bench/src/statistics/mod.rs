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

#[cfg(test)]
pub(crate) use bootstrap::median_interval;
pub(crate) use bootstrap::ratio_interval;
pub(crate) use change::changes;
pub(crate) use knee::knee;
pub(crate) use noise::chance_difference_percent;
#[cfg(test)]
pub(crate) use rank::hodges_lehmann_shift;
pub(crate) use rank::{Size, mann_whitney, ratio, size_of};
#[cfg(test)]
pub(crate) use summary::quartiles;
pub(crate) use summary::{cv_percent, estimate, mad, median};
pub(crate) use trend::{kendall_p, theil_sen};
