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

pub use args::BenchArgs;
pub use args::CompareArgs;
pub use args::Pins;
pub(crate) use capacity::CapacityArgs;
pub use command::run;
pub(crate) use command::{cores, own};
pub(crate) use migrate::MigrateArgs;
pub(crate) use mitigations::MitigationsArgs;
pub(crate) use raw::RawArgs;
pub(crate) use recovery::RecoveryArgs;
pub use redis::RedisArgs;
pub(crate) use report::ReportArgs;
pub use stored::StoredCompareArgs;
