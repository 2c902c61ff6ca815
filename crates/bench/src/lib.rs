//! Open-loop load generation, accuracy checks and reports.

pub mod cli;
pub mod compare;
pub mod load;
pub mod null_server;
pub mod oracle;
pub mod os;
pub mod paper;
pub mod record;
pub mod redis;
pub mod report;
pub mod run;
pub mod search;
pub mod statistics;
pub mod stored;
pub mod target;
