//! Rate limit algorithms as pure functions, with brute-force oracles.
//!
//! Time comes in as a [`Timestamp`], state comes in and goes out by value, nothing else is touched. The
//! store's commands, the service's embedded backend, the Lua scripts for remote stores and the bench's
//! accuracy check all speak [`Quota`], [`Cost`] and [`Decision`], and go through [`ALGORITHMS`].
//!
//! What every algorithm here keeps:
//!
//! * A denied request changes nothing, and neither does a cost of 0.
//! * A cost above the capacity can never succeed: [`Decision::retry_after`] is `None`.
//! * A clock that steps back never mints tokens.
//! * Every input is allowed: arithmetic that leaves the representable range denies, it never wraps.
//! * Waiting [`Decision::retry_after`] is enough if nobody else takes; conversions to coarser units round up.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod advance;
mod algorithms;
mod ban;
mod batch;
pub mod calendar;
pub mod cell;
pub mod codec;
pub mod fixed_window;
pub mod foreign;
pub mod gcra;
pub mod holds;
pub mod leaky_bucket;
pub mod leases;
mod ledger;
pub mod lua;
pub mod oracle;
pub mod sliding_log;
pub mod sliding_window;
mod slot;
pub mod token_bucket;
pub mod top;
mod types;

pub use advance::Advance;
pub use algorithms::{
    ALGORITHMS, Algorithm, AlgorithmKind, Decided, KindMismatch, LimiterState, Record,
};
pub use ban::Ban;
pub use batch::{Request, decide_all};
pub use ledger::Ledger;
pub use slot::{Act, Method, Slot, SlotDecision, SlotRequest, decide_slots};
pub use types::{Cost, Decision, Nanos, PeriodMs, Quota, Timestamp};
