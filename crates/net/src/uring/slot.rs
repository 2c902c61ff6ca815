//! What the loop keeps for a connection.

use super::buffers;
use crate::conn_io::{MORE, write_with};
use crate::slots::end_output;
use crate::turn::Held;
use socket2::Socket;

/// Reply buffers up to this size are used again.
const POOLED: usize = 64 * 1024;
/// Reply buffers kept for use.
const POOL: usize = 64;

/// A connection, or what is left of one until the kernel is done with it. Buffers own memory only while there
/// is something in them.
pub(crate) struct UringSlot<C> {
    pub(crate) socket: Socket,
    /// `None` once closed.
    pub(crate) conn: Option<C>,
    /// Received bytes that have not been run: the start of a command, or commands that wait.
    pub(crate) input: Vec<u8>,
    /// More bytes that the input's first command needs, as far as known.
    pub(crate) needed: usize,
    /// Replies behind those being sent.
    pub(crate) output: Vec<u8>,
    /// Replies being sent, from `sent` on. Not touched while `in_flight`.
    pub(crate) sending: Vec<u8>,
    pub(crate) sent: usize,
    /// The kernel has a send of this connection.
    pub(crate) in_flight: bool,
    /// Its end will be reported in any case.
    pub(crate) tracked: bool,
    /// The socket did not take everything, so the next send waits until it takes more.
    pub(crate) blocked: bool,
    /// The kernel has a receive of this connection.
    pub(crate) receiving: bool,
    /// The receive is being cancelled.
    pub(crate) cancelling: bool,
    /// Commands in `input` have not been run because the output was full, or to leave time for others.
    pub(crate) unrun: bool,
    /// The driver waits: input is kept and not run.
    pub(crate) waiting: bool,
    /// And what comes stays in the socket until the wait is over, once the receive has been cancelled.
    pub(crate) leaving: bool,
    /// The driver has yet to answer what has been run.
    pub(crate) holding: bool,
    /// Tell the peer that nothing follows once the output is sent.
    pub(crate) parting: bool,
    /// Close once the output is sent; nothing more is run.
    pub(crate) closing: bool,
    /// Take what is in the socket when the receive has ended, then close.
    pub(crate) finishing: bool,
    /// Unsent output as counted in the loop's total.
    pub(crate) counted: usize,
    /// The driver was told of bytes held.
    pub(crate) reported: bool,
    /// Listed in the loop's backlog.
    pub(crate) queued: bool,
    /// Listed for a send.
    pub(crate) flushing: bool,
    /// Listed for a receive.
    pub(crate) arming: bool,
}

impl<C> Held for UringSlot<C> {
    type Conn = C;

    fn new(socket: Socket, conn: C) -> UringSlot<C> {
        UringSlot {
            socket,
            conn: Some(conn),
            input: Vec::new(),
            needed: 0,
            output: Vec::new(),
            sending: Vec::new(),
            sent: 0,
            in_flight: false,
            tracked: false,
            blocked: false,
            receiving: false,
            cancelling: false,
            unrun: false,
            waiting: false,
            leaving: false,
            holding: false,
            parting: false,
            closing: false,
            finishing: false,
            counted: 0,
            reported: false,
            queued: false,
            flushing: false,
            arming: false,
        }
    }

    fn conn(&mut self) -> Option<&mut C> {
        self.conn.as_mut()
    }

    fn queued(&mut self) -> &mut bool {
        &mut self.queued
    }

    fn is_done(&self) -> bool {
        self.closing && !self.unrun && !self.holding && self.unsent() == 0
    }
}

impl<C> UringSlot<C> {
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() + self.sending.len() - self.sent
    }

    /// Tells the peer that nothing follows, if that is so.
    pub(crate) fn part(&mut self) {
        if self.parting && self.unsent() == 0 && !self.in_flight {
            self.parting = false;
            end_output(&self.socket);
        }
    }

    /// Gives the socket what it takes of the replies that wait for the end of the turn, because the connection ends.
    /// The last of them go out with the end, or with what they left over: a peer that looks at its connection right
    /// after the last reply is to find it ended.
    pub(crate) fn send_rest(&mut self) {
        if self.in_flight || self.blocked {
            return;
        }
        // A peer that is gone, or that does not read, takes none; who sends the rest finds out which.
        self.sent += write_with(&self.socket, &self.sending[self.sent..], MORE).unwrap_or(0);
        if self.sent == self.sending.len() {
            self.sending.clear();
            self.sent = 0;
            let written = write_with(&self.socket, &self.output, MORE).unwrap_or(0);
            self.output.drain(..written);
        }
    }

    /// Whether the socket is to be read.
    pub(crate) fn wants_input(&self) -> bool {
        self.conn.is_some()
            && !self.closing
            && !self.finishing
            && !self.leaving
            && (!self.unrun || self.input.len() < buffers::SIZE)
    }
}

/// Reply buffers that are not in use, the last used first: it is in the processor's cache.
#[derive(Debug, Default)]
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    pub(crate) fn get(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= POOLED && self.0.len() < POOL {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}
