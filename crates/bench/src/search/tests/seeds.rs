//! The published ladders of study 000 as measures.

use crate::paper::seeds::{LadderRow, table};
use crate::record::Measure;

/// Redis 7.x, single key, 30 s per step.
pub(super) const REDIS_SINGLE_KEY: &str = "P1";
/// Redis 7.x, 100 keys uniform, 60 s per step.
pub(super) const REDIS_UNIFORM: &str = "P2";
/// Redis 7.x, hot key 90/10, 60 s per step.
pub(super) const REDIS_HOT: &str = "P3";
/// Dragonfly, hot key 90/10, 60 s per step.
pub(super) const DRAGONFLY_HOT: &str = "P5";

/// The rows of a table, in rising order of load.
pub(super) fn measures(id: &str) -> Vec<Measure> {
    table(id).map(measure).collect()
}

fn measure(row: &LadderRow) -> Measure {
    Measure {
        target_rps: row.target_rps,
        goodput_rps: row.goodput_rps(),
        // The studies print a rounded share.
        fail_percent: 100.0 * row.fail as f64 / (row.success + row.fail) as f64,
        mean_ms: Some(row.mean_ms),
        p95_ms: Some(row.p95_ms),
        p99_ms: Some(row.p99_ms),
    }
}
