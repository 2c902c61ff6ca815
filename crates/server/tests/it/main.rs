//! The server on real sockets.

mod admission;
mod applications;
mod auth;
mod backends;
mod clients;
mod fields;
mod harness;
mod hostile;
mod limits;
mod long;
mod migrate;
mod operations;
mod peers;
mod process;
mod protocol;
mod pubsub;
mod replica;
mod replica_faults;
mod replication;
mod replication_stream;
mod rows;
mod scripts;
mod sentinel;
mod settings;
mod snapshots;
mod tls;
