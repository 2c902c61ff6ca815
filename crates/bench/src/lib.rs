//! Open-loop load generation, accuracy checks and reports.

pub mod cli;
pub mod compare;
pub mod load;
pub(crate) mod null_server;
pub(crate) mod oracle;
pub mod os;
pub(crate) mod paper;
pub mod record;
pub mod redis;
pub mod report;
pub mod run;
pub mod search;
pub(crate) mod statistics;
pub mod stored;
pub mod target;
