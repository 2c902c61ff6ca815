//! What belongs to a step besides its rate: how it was warmed up, and which share of it a limiter was to admit.

use serde::{Deserialize, Serialize};

/// Load before a step that went on until the target was steady, or until the longest time allowed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Seconds of load.
    pub duration_s: f64,
    /// Buckets judged.
    pub buckets: u32,
    /// Length of a bucket in seconds.
    pub bucket_s: f64,
    /// Whether throughput and P50 of the last buckets were steady before the time was up.
    pub steady: bool,
    /// Why it was not, in a clause; empty if it was.
    pub reason: String,
}

/// Which share of the offered load a limit should admit, and which it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Admit {
    /// Share asked for on the command line, 0 to 1.
    pub wanted_ratio: f64,
    /// Limit per key and window that comes nearest.
    pub limit: u64,
    /// Share that this limit admits of what was offered to each key, for the algorithm of the cell.
    pub expected_ratio: f64,
    /// Share of the decisions made in time that were "allowed"; `None` without decisions.
    pub seen_ratio: Option<f64>,
}
