//! The event loops on real sockets, with a protocol of lines.

mod backends;
mod lines;
mod sockets;
