//! The command line of `tollgate bench`.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "what documents an option is its help, whose brackets are no links"
)]

mod args;
mod calibration;
mod capacity;
mod command;
mod comparison;
mod environment;
mod examples;
mod gather;
mod load;
mod measure;
mod migrate;
mod mitigations;
mod paper;
mod plan;
mod raw;
mod recovery;
mod redis;
mod report;
mod stored;
mod values;

pub use args::{BenchArgs, BenchCommand, CompareArgs, Pins, RunArgs};
pub use capacity::CapacityArgs;
pub use command::run;
pub(crate) use command::{cores, own};
pub use load::LoadArgs;
pub use migrate::MigrateArgs;
pub use mitigations::MitigationsArgs;
pub use raw::RawArgs;
pub use recovery::RecoveryArgs;
pub use redis::RedisArgs;
pub use report::ReportArgs;
pub use stored::{GateArgs, NoiseArgs, Printed, StoredCompareArgs, TrendsArgs};
pub use values::Deadline;
