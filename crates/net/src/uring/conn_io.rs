//! Receiving, running and sending one connection.

use super::buffers::Chunk;
use super::event_loop::UringLoop;
use super::output::{Output, SEND_AT_ONCE, report};
use super::ring::{Done, SEND_LIMIT};
use super::slot::UringSlot;
use crate::conn_io::{INPUT_LIMIT, READ_BUFFER, READS_PER_TURN, make_room, shrink};
use crate::driver::{Driver, Flow};
use crate::turn::{Held, LoopCore, Turns};
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::AsRawFd;

/// Bytes read at once of what was left in a socket.
const LEFT_BUFFER: usize = 16 * 1024;

impl<D: Driver> UringLoop<D> {
    /// A receive has brought something, or has ended.
    pub(super) fn received(&mut self, done: Done) {
        let index = done.index;
        if let Some(slot) = self.core.slots.get_mut(index) {
            slot.receiving = done.more;
            slot.cancelling &= done.more;
            match done.result {
                _ if slot.conn.is_none() => self.release(index),
                0 => self.end_of_stream(index),
                n if n > 0 => {
                    if let Some(chunk) = done.chunk {
                        self.arrived(index, chunk);
                    }
                }
                // If more is wanted, it is asked for below.
                error if error == -libc::ENOBUFS => self.ring.buffers.note_short(),
                error if is_passing(-error) => {}
                _ => self.close(index),
            }
        }
        if let Some(chunk) = done.chunk {
            self.ring.buffers.give_back(chunk.buffer);
        }
        if !done.more {
            self.receive_ended(index);
        }
    }

    fn receive_ended(&mut self, index: u32) {
        match self.core.slots.get_mut(index) {
            Some(slot) if slot.finishing => self.take_last(index),
            _ => self.arm(index),
        }
    }

    /// Has the connection received from, if it wants input.
    pub(super) fn arm(&mut self, index: u32) {
        if let Some(slot) = self.core.slots.get_mut(index)
            && !slot.receiving
            && !slot.arming
            && slot.wants_input()
        {
            slot.arming = true;
            self.arms.push(index);
        }
    }

    /// The peer sends no more. What it sent is answered first.
    fn end_of_stream(&mut self, index: u32) {
        let slot = self.core.slots.get_mut(index);
        if let Some(slot) = slot.filter(|slot| !slot.closing && !slot.unrun && !slot.waiting)
            && let Some(conn) = &mut slot.conn
        {
            let flow = self.core.driver.end_of_input(conn, self.core.now);
            self.deliver(index, flow);
        }
        if let Some(slot) = self.core.slots.get_mut(index) {
            slot.closing = true;
        }
        self.close_if_done(index);
    }

    fn arrived(&mut self, index: u32, chunk: Chunk) {
        let limit = self.core.output_limit();
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        if slot.closing {
            return;
        }
        let waits = slot.unrun || slot.unsent() > limit;
        if !waits && !slot.waiting && slot.input.is_empty() {
            return self.run(index, Some(chunk));
        }
        make_room(&mut slot.input, chunk.len, slot.needed);
        slot.input.extend_from_slice(self.ring.buffers.bytes(chunk));
        if slot.input.len() > INPUT_LIMIT {
            return self.close(index);
        }
        let waiting = slot.waiting;
        slot.unrun |= waits && !waiting;
        if !waits && !waiting {
            return self.run(index, None);
        }
        let is_left = !slot.wants_input() && (slot.leaving || !waiting);
        if is_left && slot.receiving && !slot.cancelling {
            slot.cancelling = true;
            let cancelled = self.ring.cancel_receive(index);
            self.note(cancelled);
        }
        if waiting {
            self.settle(index);
        }
    }

    /// After a wait in which what came was left: takes what is in the socket, in the order it came, if the receive has ended.
    /// False if the connection is gone.
    fn take_left(&mut self, index: u32) -> bool {
        for _ in 0..READS_PER_TURN {
            let Some(slot) = self.core.slots.get_mut(index) else {
                return false;
            };
            if slot.receiving {
                return true;
            }
            let held = slot.input.len();
            slot.input.resize(held + LEFT_BUFFER, 0);
            let read = (&slot.socket).read(&mut slot.input[held..]);
            slot.input.truncate(held + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(LEFT_BUFFER) => {}
                Ok(n) if n > 0 => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Ok(_) | Err(_) => {
                    self.close(index);
                    return false;
                }
            }
        }
        true
    }

    /// Runs the commands of a received piece, or those in the connection's own buffer.
    fn run(&mut self, index: u32, chunk: Option<Chunk>) {
        let limit = self.core.output_limit();
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        let Some(conn) = &mut slot.conn else {
            return;
        };
        let own = std::mem::take(&mut slot.input);
        let bytes = chunk.map_or(&own[..], |chunk| self.ring.buffers.bytes(chunk));
        let mut at = 0;
        let mut rounds = 0;
        let mut again = false;
        slot.unrun = false;
        let mut flow;
        loop {
            let step = self.core.driver.data(conn, &bytes[at..], self.core.now);
            at += step.consumed;
            slot.needed = step.needed;
            flow = step.flow;
            if flow == Flow::Drop {
                break;
            }
            let output = Output {
                socket: &slot.socket,
                sending: &mut slot.sending,
                sent: &mut slot.sent,
                waiting: &mut slot.output,
            };
            if output.take(&mut self.core.driver, &mut self.pool).is_err() {
                flow = Flow::Drop;
            }
            if flow != Flow::Yield {
                break;
            }
            rounds += 1;
            let unsent = slot.output.len() + slot.sending.len() - slot.sent;
            let crowded = unsent > limit;
            if crowded || rounds == READS_PER_TURN {
                slot.unrun = true;
                again = !crowded;
                break;
            }
        }
        match flow {
            Flow::Drop => return self.close(index),
            Flow::Close => {
                slot.closing = true;
                at = bytes.len();
            }
            Flow::Wait | Flow::Leave | Flow::Hold => {
                slot.waiting = true;
                slot.leaving = flow == Flow::Leave;
                slot.holding = flow == Flow::Hold;
            }
            Flow::Farewell => slot.parting = true,
            Flow::Continue | Flow::Yield => {}
        }
        match chunk {
            Some(_) if at == bytes.len() => {}
            Some(_) => slot.input = bytes[at..].to_vec(),
            None => slot.input = shrink(own, at),
        }
        if again {
            self.core.enqueue(index);
        }
        self.settle(index);
    }

    /// After the output of a connection has changed.
    fn settle(&mut self, index: u32) {
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        if slot.closing && !slot.unrun && !slot.holding {
            slot.send_rest();
        }
        if slot.is_done() {
            return self.close(index);
        }
        slot.part();
        let has_output = !slot.output.is_empty() || slot.sent < slot.sending.len();
        if has_output && !slot.flushing && !slot.in_flight {
            slot.flushing = true;
            self.flushes.push(index);
        }
        // Replies on their way for the first time are not held yet.
        if slot.blocked || slot.reported || !slot.input.is_empty() || slot.unsent() > SEND_AT_ONCE {
            report(slot, &mut self.core.driver, &mut self.core.held);
        }
    }

    /// Queues the sends and receives of this turn.
    pub(super) fn hand_over(&mut self) {
        let mut flushes = std::mem::take(&mut self.flushes);
        for index in flushes.drain(..) {
            self.flush(index);
        }
        self.flushes = flushes;
        self.ring.buffers.grow(self.core.slots.len());
        let mut arms = std::mem::take(&mut self.arms);
        for index in arms.drain(..) {
            let Some(slot) = self.core.slots.get_mut(index) else {
                continue;
            };
            slot.arming = false;
            if slot.receiving || !slot.wants_input() {
                continue;
            }
            let armed = self.ring.receive(slot.socket.as_raw_fd(), index);
            slot.receiving = armed.is_ok();
            self.note(armed);
        }
        self.arms = arms;
    }

    fn flush(&mut self, index: u32) {
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        slot.flushing = false;
        if slot.in_flight || slot.conn.is_none() {
            return;
        }
        if slot.sending.is_empty() {
            std::mem::swap(&mut slot.sending, &mut slot.output);
            slot.sent = 0;
        }
        let bytes = &slot.sending[slot.sent..];
        if bytes.is_empty() {
            return;
        }
        let fd = slot.socket.as_raw_fd();
        // What follows a send must not wait for the next event: then its completion has to be one.
        let follows = slot.blocked || slot.closing || slot.parting || slot.unrun;
        // So it has where the bytes are more than one send takes: without one all would count as taken.
        let tracked = follows || bytes.len() > SEND_LIMIT;
        // SAFETY: `sending` is neither changed nor freed while `in_flight`, which ends with the completion, or for a send
        // that has none when it has been handed over; the slot is removed only when it is not, or leaked.
        let queued = unsafe {
            if tracked {
                self.ring.send(fd, index, bytes)
            } else {
                self.ring.send_now(fd, index, bytes)
            }
        };
        slot.in_flight = queued.is_ok();
        slot.tracked = tracked;
        if slot.in_flight && !tracked {
            self.sends.push(index);
        }
        self.note(queued);
    }

    /// Sends that have been handed over and have reported nothing were taken whole.
    pub(super) fn conclude_sends(&mut self) {
        let mut sends = std::mem::take(&mut self.sends);
        for index in sends.drain(..) {
            let Some(slot) = self.core.slots.get_mut(index) else {
                continue;
            };
            if slot.in_flight && !slot.tracked {
                slot.sent = slot.sending.len();
                self.send_ended(index);
            }
        }
        self.sends = sends;
    }

    /// A send has completed.
    pub(super) fn sent(&mut self, done: Done) {
        let index = done.index;
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        match done.result {
            n if n > 0 => slot.sent += n as usize,
            error if error < 0 && is_passing(-error) => {}
            _ => {
                slot.in_flight = false;
                self.release(index);
                return self.close(index);
            }
        }
        self.send_ended(index);
    }

    fn send_ended(&mut self, index: u32) {
        let limit = self.core.output_limit();
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        slot.in_flight = false;
        if slot.conn.is_none() {
            return self.release(index);
        }
        slot.blocked = slot.sent < slot.sending.len();
        if slot.blocked {
            slot.flushing = true;
            self.flushes.push(index);
        } else {
            self.pool.put(std::mem::take(&mut slot.sending));
            slot.sent = 0;
        }
        // Half of the limit, so that a slow reader does not alternate between full and one reply less.
        if slot.unrun && slot.unsent() <= limit / 2 {
            self.core.enqueue(index);
        }
        self.settle(index);
    }

    /// Takes what is in the socket, in the order it came: the receive has ended.
    fn take_last(&mut self, index: u32) {
        let mut buffer = vec![0; READ_BUFFER];
        for _ in 0..READS_PER_TURN {
            let Some(slot) = self.core.slots.get_mut(index) else {
                return;
            };
            if slot.closing || slot.unrun || slot.waiting || slot.conn.is_none() {
                break;
            }
            match (&slot.socket).read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    slot.input.extend_from_slice(&buffer[..n]);
                    self.run(index, None);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return self.close(index),
            }
        }
        self.end_of_stream(index);
    }
}

impl<D: Driver> Turns<D> for UringLoop<D> {
    type Slot = UringSlot<D::Conn>;

    fn core(&mut self) -> &mut LoopCore<D, UringSlot<D::Conn>> {
        &mut self.core
    }

    fn begin(&mut self, index: u32) {
        self.arm(index);
    }

    fn deliver(&mut self, index: u32, flow: Flow) {
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        let output = Output {
            socket: &slot.socket,
            sending: &mut slot.sending,
            sent: &mut slot.sent,
            waiting: &mut slot.output,
        };
        if flow == Flow::Drop || output.take(&mut self.core.driver, &mut self.pool).is_err() {
            return self.close(index);
        }
        slot.closing |= flow == Flow::Close;
        slot.parting |= flow == Flow::Farewell;
        let waited = std::mem::replace(&mut slot.waiting, flow.waits());
        let left = std::mem::replace(&mut slot.leaving, flow == Flow::Leave);
        slot.holding = flow == Flow::Hold;
        if left && !slot.leaving {
            if !slot.waiting && !slot.closing && !self.take_left(index) {
                return;
            }
            self.arm(index);
        }
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        let has_more = flow == Flow::Yield || !slot.input.is_empty();
        slot.unrun |= waited && !slot.waiting && flow != Flow::Close && has_more;
        if waited && slot.unrun {
            self.core.enqueue(index);
        }
        self.settle(index);
    }

    fn resume(&mut self, index: u32) {
        let limit = self.core.output_limit();
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        slot.queued = false;
        if slot.unrun && slot.unsent() <= limit {
            self.run(index, None);
        }
        self.arm(index);
        self.close_if_done(index);
    }

    fn finish(&mut self, index: u32) {
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        if slot.conn.is_none() {
            return;
        }
        slot.finishing = true;
        if !slot.receiving {
            return self.take_last(index);
        }
        if !slot.cancelling {
            slot.cancelling = true;
            let cancelled = self.ring.cancel_receive(index);
            self.note(cancelled);
        }
    }

    /// Ends a connection. Its slot and socket stay until the kernel has completed what it has of it.
    fn close(&mut self, index: u32) {
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        let Some(conn) = slot.conn.take() else {
            return;
        };
        slot.send_rest();
        self.core.held -= slot.counted;
        slot.input = Vec::new();
        slot.output = Vec::new();
        if !slot.in_flight {
            // Closing the socket comes too late: what the kernel still receives for it holds it open until it is
            // cancelled.
            let _gone = slot.socket.shutdown(Shutdown::Both);
        }
        if slot.receiving || slot.in_flight {
            let cancelled = self.ring.cancel_all(slot.socket.as_raw_fd());
            self.note(cancelled);
        } else {
            self.core.slots.remove(index);
        }
        self.core.count_closed();
        self.core.driver.closed(conn, self.core.now);
    }
}

/// Nothing is wrong with the connection.
fn is_passing(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECANCELED | libc::ENOBUFS | libc::EAGAIN | libc::EINTR | libc::ENOMEM
    )
}
