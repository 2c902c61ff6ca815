//! The server of RESP and Memcached's protocol: connections, configuration, administration commands.
//!
//! [`Server::start`] opens the sockets and runs one event loop per thread; `conn` is the protocol's state machine
//! without I/O, `node` the commands that concern the process and its connections rather than the data,
//! [`config`] the one table of settings.

mod allocator;
mod aof;
mod apply;
mod client;
mod cluster;
pub mod config;
mod conn;
mod crash;
mod daemon;
mod elsewhere;
mod ending;
mod eviction;
mod expiry;
mod failover;
mod link;
mod listening;
mod loading;
mod log;
mod memcached;
mod metrics;
mod node;
mod oom_score;
mod outbox;
mod pace;
mod pipeline;
mod protected;
mod replication;
mod server;
mod shared;
mod snapshot;
mod subscriptions;
#[cfg(test)]
mod tests;
mod title;
mod tls;
mod waits;
mod workers;

pub use allocator::give_back_with;
pub use crash::{report_crashes, tell_crashes};
pub use daemon::{Daemon, go_to_background};
pub use log::{Level, Log, LogForm};
pub use server::{Server, StartError, wanted_backend};
pub use title::claim_title;
/// The release of Redis whose answers are given.
pub use tollgate_engine::REDIS_VERSION;
