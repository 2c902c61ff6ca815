//! `tollgate bench redis`: what redis-benchmark measures, driven by our closed loop.
//!
//! Tests, their order, requests, titles and the three forms of output are those of redis-benchmark 7.0. Differences: a
//! wrong name of a test or a wrong value is an error instead of being passed over, exactly as many requests are sent as
//! asked for, and latency counts to each answer instead of to the first of a batch.

mod output;
mod run;
mod tests;

pub use run::run;
