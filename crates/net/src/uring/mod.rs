//! The loop on io_uring, for Linux 6.1 and later.
//!
//! One system call per turn serves all connections: it hands over the replies of the last turn and waits for input.
//! Every connection has one receive, armed once, that the kernel completes again and again, taking a buffer from
//! a set shared by all; so an idle connection costs no buffer.
//!
//! ```text
//! io_uring_enter -> clock -> for each received piece: Driver::data -> queue one send per connection -> Driver::batch_done
//! ```
//!
//! *Invariant:* memory that the kernel may read or write is freed only after the completion of the operation
//! that uses it. A connection that is closed leaves its slot only when its receive and its send have completed; a
//! reply being sent is never moved or changed. If that cannot be had at the end, the memory is leaked.

mod buffers;
mod conn_io;
mod event_loop;
mod output;
mod ring;
mod slot;

pub(crate) use event_loop::UringLoop;
pub(crate) use ring::Ring;

pub(crate) use buffers::MANY;
use ring::{Done, Op};
use socket2::SockRef;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long the kernel may take to show that it can do what the loop needs.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Buffer of the socket that is sent too much, in bytes.
const SMALL: usize = 4096;
/// More bytes than it takes at once.
const TOO_MUCH: usize = 64 * SMALL;

/// Tries everything the loop relies on; the error tells what the kernel, or its policy, refused.
pub(crate) fn probe() -> io::Result<()> {
    let mut ring = Ring::new(false)?;
    ring.enable()?;
    let result = receive_once(&mut ring).and_then(|()| send_too_much(&mut ring));
    if result.is_err() {
        // Whether the receive has ended is unknown.
        ring.buffers.leak();
    }
    result
}

fn receive_once(ring: &mut Ring) -> io::Result<()> {
    let (near, mut far) = UnixStream::pair()?;
    far.write_all(b"?")?;
    ring.receive(near.as_raw_fd(), 0)?;
    let received = wait_for(ring, Op::Receive)?;
    if received.result != 1 || !received.more || received.chunk.is_none() {
        return Err(ErrorKind::Unsupported.into());
    }
    ring.cancel_all(near.as_raw_fd())?;
    wait_for(ring, Op::Receive).map(drop)
}

/// A send that the socket takes is not reported, one that is too large is, with what was taken.
fn send_too_much(ring: &mut Ring) -> io::Result<()> {
    let (near, _far) = UnixStream::pair()?;
    SockRef::from(&near).set_send_buffer_size(SMALL)?;
    let bytes = vec![0; TOO_MUCH];
    for piece in [&bytes[..1], &bytes] {
        // SAFETY: `bytes` lives until both operations have been handed over, which `wait_for` does.
        unsafe { ring.send_now(near.as_raw_fd(), piece.len() as u32, piece)? };
    }
    let sent = wait_for(ring, Op::SendNow)?;
    let short = sent.result > 0 && (sent.result as usize) < TOO_MUCH;
    if short && sent.index as usize == TOO_MUCH {
        Ok(())
    } else {
        Err(ErrorKind::Unsupported.into())
    }
}

fn wait_for(ring: &mut Ring, op: Op) -> io::Result<Done> {
    let mut done = Vec::new();
    ring.submit_and_wait(Some(PROBE_TIMEOUT))?;
    ring.take(&mut done)?;
    let found = done.iter().find(|done| done.op == op).copied();
    found.ok_or_else(|| ErrorKind::TimedOut.into())
}
