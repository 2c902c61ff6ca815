//! How much load a system holds, as pure functions of trials: no clock, no sockets.
//!
//! ```text
//! Search ── next trial ──► whoever runs it ── what came of it ──► Search ── intervals ──► zones
//!            (load, length)                                                └─► knee ──► retention, recovery
//! ```
//!
//! The search is MLRsearch (RFC 9971): several trials per load, short ones first, and a load counts as held if not
//! more than a given share of its trial time broke the goal. A single pass or failure decides nothing, because real
//! systems fail at a load and pass at a higher one.

pub(crate) mod classify;
pub(crate) mod healing;
pub(crate) mod health;
pub(crate) mod hysteresis;
pub(crate) mod ladder;
pub(crate) mod mlr;
pub mod recovery;
pub mod retention;
pub(crate) mod rungs;
#[cfg(test)]
mod tests;
pub(crate) mod zones;

pub use mlr::{Attempt, Next, Search, SearchPlan, TrialRequest};
