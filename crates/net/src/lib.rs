//! Event loops, clock, threads and files: the only crate of the store that talks to the operating system.
//!
//! The protocol above is sans-I/O: a [`Driver`] is handed bytes and leaves replies in a buffer of its own. One
//! loop runs per thread; a wake-up of a connection is one read, all complete commands of it, one write. Nothing
//! else happens on that path: sockets are registered once, edge-triggered, and a write that fits the socket's
//! buffer needs no registration for writability.
//!
//! ```text
//! epoll_wait -> clock -> for each ready connection: recv -> Driver::data -> send -> Driver::batch_done
//! ```
//!
//! That is the loop on epoll and kqueue. The one on io_uring, in `uring`, serves the same drivers with one system call for
//! all ready connections.
//!
//! Memory: the read buffer belongs to the thread. A connection owns bytes only while a command is incomplete or a
//! reply is unsent, so an idle one costs its slot and the driver's record.

mod acceptor;
mod backend;
pub mod calendar;
pub mod clock;
mod conn_io;
pub mod driver;
mod event_loop;
pub mod fatal;
pub mod files;
pub mod group;
pub mod listen;
mod listeners;
pub mod mailbox;
pub mod outbound;
pub mod process;
pub mod signal;
mod slots;
pub mod supervisor;
pub mod threads;
mod timers;
pub mod title;
pub mod tls;
mod turn;
#[cfg(target_os = "linux")]
mod uring;

pub use backend::{Backend, IoBackend};
pub use clock::Clock;
pub use driver::{ConnRef, Driver, Flow, Peer, PeerAddress, Refused, Step};
pub use group::{GroupOptions, LoopGroup, LoopGroupBuilder};
pub use listen::{ListenError, Listener, SocketOptions};
pub use listeners::Listeners;
pub use mailbox::Mailboxes;
