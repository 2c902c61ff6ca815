//! Stored runs against each other: comparison, trends, gate and noise.
//!
//! ```text
//! folders ──read──► runs ──arms──► matching rows ──statistics──► verdicts ──report::stored──► table, JSON, Markdown
//! ```
//!
//! Only `read` and what looks for recoveries in a results folder touch the disk; the rest are functions of records.

mod calibration;
mod compare;
mod equality;
mod gate;
mod healing;
mod noise;
mod read;
mod rows;
mod trends;

pub(crate) use calibration::{Circumstances, binary, calibration_path, keep, reuse};
pub use compare::{Arms, compare};
pub(crate) use equality::{differences, same_machine};
pub use gate::{Gate, Refused, gate};
pub(crate) use healing::{heed, recoveries};
pub(crate) use noise::NOISE_STARTS_MIN;
pub use noise::noise;
pub(crate) use read::read_whole_runs;
pub use read::{StoredRun, noise_path, read_noise, read_runs, write_noise};
pub use trends::trends;
pub(crate) use trends::{RUNS_FOR_A_CLAIM, told_p, trend_verdict};

use crate::record::ClaimFloor;

/// Smallest difference that is claimed where this machine's noise was not measured, percent.
pub(crate) const CLAIM_PERCENT: f64 = 5.0;

/// The floor without a calibration.
#[must_use]
pub fn default_floor() -> ClaimFloor {
    ClaimFloor {
        percent: CLAIM_PERCENT,
        by_metric: Vec::new(),
        source: format!(
            "{CLAIM_PERCENT} %, because the noise of this machine was not measured (tollgate bench noise)"
        ),
    }
}
