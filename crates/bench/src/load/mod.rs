//! The generator: what is asked, when, and how the answers are counted.
//!
//! ```text
//! Schedule ─► OpenLoop (accounting, no I/O) ◄─► open: sockets, one thread ─► Tally
//! KeySampler ┘                                   └ Speaker: RESP, HTTP, memcached | gRPC
//! Workload (rendered requests, verdicts)         closed: full pipelines, for capacity and comparison
//! ```
//!
//! The open loop never waits for an answer before it sends the next request, and counts every answer from the time
//! at which its request *should* have been sent. A stalled server therefore shows its stall in every request that
//! fell into it, not only in the ones that were on the wire.

pub mod address;
pub mod clients;
pub(crate) mod closed;
pub(crate) mod connection;
pub(crate) mod decisions;
pub(crate) mod grpc;
pub mod http;
pub mod keys;
pub mod live;
pub mod memcache;
pub mod open;
pub mod open_loop;
pub mod operation;
pub(crate) mod pacer;
pub(crate) mod plain;
pub mod rng;
pub(crate) mod samples;
pub mod schedule;
pub(crate) mod seconds;
pub(crate) mod speaker;
pub(crate) mod spin;
pub mod tally;
pub(crate) mod trace;
pub mod workload;
