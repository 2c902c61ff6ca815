//! What a protocol implements: bytes in, replies out.

use std::fmt;
use std::net::SocketAddr;

/// Where a connection lives, for posting to it from another thread. A reference to a closed connection is harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnRef {
    pub(crate) thread: u16,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ConnRef {
    /// A reference to no connection, for a driver that is run without a loop: what is posted to it goes nowhere.
    #[must_use]
    pub const fn nowhere() -> ConnRef {
        ConnRef {
            thread: 0,
            slot: u32::MAX,
            generation: u32::MAX,
        }
    }

    /// A reference to connection `number` of a driver that is run without a loop: what is posted to it is found with
    /// [`crate::Mailboxes::take_messages`].
    #[must_use]
    pub const fn without_loop(number: u32) -> ConnRef {
        ConnRef {
            thread: 0,
            slot: number,
            generation: 0,
        }
    }

    /// The number that [`ConnRef::without_loop`] was given.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.slot
    }
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// Unix socket; the path of the listener.
    Unix(std::sync::Arc<str>),
}

impl fmt::Display for PeerAddress {
    /// `ip:port`, `[ip6]:port`, or `path:0` as Redis prints a unix socket.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Tcp(address) => address.fmt(f),
            PeerAddress::Unix(path) => write!(f, "{path}:0"),
        }
    }
}

/// Both ends of a new connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The client.
    pub remote: PeerAddress,
    /// The listener's side.
    pub local: PeerAddress,
    /// The kind of the listener: see [`crate::Listener::of_kind`].
    pub kind: u8,
    /// The socket's descriptor number, for display only.
    pub fd: i32,
}

/// A connection that the driver does not want: the bytes are sent as far as the socket takes them, then it is closed.
#[derive(Debug, Clone, Copy)]
pub struct Refused(pub &'static [u8]);

/// What happens to a connection after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Everything complete was consumed.
    Continue,
    /// Stopped early because the replies grew large; to be called again with the rest once they are on their way.
    Yield,
    /// The connection waits for a message or for its time: its input is read and kept, but none of it is run until a
    /// message or the end of the wait gives another flow. A peer that hangs up meanwhile is gone at once.
    Wait,
    /// As `Wait`, but what comes meanwhile is left in the socket as far as the system allows it: for a connection that is
    /// served when there is time, and costs nothing until then. A peer that hangs up may be noticed at the end of the wait.
    Leave,
    /// As `Wait`, but what has been run is still to be answered: a peer that hangs up meanwhile, and the end of the loop,
    /// wait for that.
    Hold,
    /// Send what is in the reply buffer, then tell the peer that nothing follows. What it still sends is handed in as before,
    /// until it ends or the driver gives it up: closing on it would take the last reply from it. Nothing is replied any more.
    Farewell,
    /// Send what is in the reply buffer, then close.
    Close,
    /// Close at once; unsent replies are dropped.
    Drop,
}

impl Flow {
    /// Whether input is kept and not run.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(self, Flow::Wait | Flow::Leave | Flow::Hold)
    }
}

/// Result of [`Driver::data`].
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Bytes of the input that are done with; the rest is handed in again, with more behind it.
    pub consumed: usize,
    /// Bytes that must still arrive before a call can make progress, as far as known. A hint for buffer growth.
    pub needed: usize,
    /// What to do next.
    pub flow: Flow,
}

/// A protocol on one thread. The loop owns one driver and calls it for all its connections.
///
/// Replies of `data` and `message` go into the driver's own buffer, which the loop reads through `unsent` and
/// empties with `sent` after each call; a driver never sees a socket.
pub trait Driver: Send + 'static {
    /// State of one connection. It never leaves its thread.
    type Conn;
    /// What other threads may post to a connection.
    type Message: Send + 'static;

    /// A connection has arrived on this thread.
    fn open(&mut self, at: ConnRef, peer: Peer, now: i64) -> Result<Self::Conn, Refused>;
    /// Runs the complete commands at the front of `input`, which starts at the first byte not yet consumed.
    fn data(&mut self, conn: &mut Self::Conn, input: &[u8], now: i64) -> Step;
    /// Whether the connection, for which something has come, is left unread as after [`Flow::Leave`]. Asked where a loop reads
    /// when it comes to a connection, and not after a wait.
    fn leaves_unread(&mut self, _conn: &mut Self::Conn) -> bool {
        false
    }
    /// A message posted to this connection.
    fn message(&mut self, conn: &mut Self::Conn, message: Self::Message, now: i64) -> Flow;
    /// The earliest time at which the wait of a connection ends, in clock nanoseconds. Read before the loop sleeps.
    fn next_timeout(&self) -> Option<i64> {
        None
    }
    /// Takes one connection whose wait ends at `now` or has ended; called until there is none.
    fn take_timeout(&mut self, _now: i64) -> Option<ConnRef> {
        None
    }
    /// The time of a connection that [`Driver::take_timeout`] gave has come.
    fn timed_out(&mut self, _conn: &mut Self::Conn, _now: i64) -> Flow {
        Flow::Continue
    }
    /// The peer sends no more, and all that it sent was given to [`Driver::data`]. What is left of it will not become whole.
    fn end_of_input(&mut self, _conn: &mut Self::Conn, _now: i64) -> Flow {
        Flow::Continue
    }
    /// Replies written since the last `sent`.
    fn unsent(&self) -> &[u8];
    /// The replies were sent or moved to the connection's own buffer.
    fn sent(&mut self);
    /// As [`Driver::unsent`] and [`Driver::sent`], for replies that are too large to be copied.
    fn take_unsent(&mut self) -> Vec<u8> {
        let bytes = self.unsent().to_vec();
        self.sent();
        bytes
    }
    /// Bytes the loop now holds for the connection; called when they changed from or to more than nothing.
    fn buffered(&mut self, conn: &mut Self::Conn, input: usize, output: usize);
    /// The connection is gone, and what was written for it may not have been taken: a driver that writes the output of all its
    /// connections in one place drops it here, or the next one would be sent it.
    fn closed(&mut self, conn: Self::Conn, now: i64);
    /// The events of one wake-up are done with; a place to publish counters.
    fn batch_done(&mut self, now: i64);
    /// Called when due, and once at start. Returns when to call again, in clock nanoseconds; `None` = never.
    fn tick(&mut self, now: i64) -> Option<i64>;
    /// Frees what is kept for use again, and gives memory back: [`crate::Mailboxes::shrink_all`] was called.
    fn shrink(&mut self) {}
    /// Interval in nanoseconds between checks of every connection with `stale`; `None` = no check. Read at each tick.
    fn sweep_interval(&self) -> Option<i64>;
    /// Whether the connection is to be closed for having been silent too long.
    fn stale(&self, conn: &Self::Conn, now: i64) -> bool;
    /// Largest unsent output of one connection, in bytes. Above it the loop neither reads nor runs its commands.
    fn output_limit(&self) -> usize;
    /// Idle seconds before TCP keepalive probes for new connections; 0 = off.
    fn tcp_keepalive(&self) -> u64;
}
