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
mod operations;
mod peers;
mod process;
mod protocol;
mod pubsub;
mod rows;
mod scripts;
mod settings;
mod snapshots;
mod tls;
