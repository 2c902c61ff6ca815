//! Reading, running and writing one connection.

use crate::driver::{Driver, Flow};
use crate::event_loop::EventLoop;
use crate::slots::{Slot, end_output};
use crate::turn::{Held, LoopCore, Turns};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::Socket;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;

/// The thread's read buffer.
pub(crate) const READ_BUFFER: usize = 64 * 1024;
/// An incomplete command up to this size is put in front of the thread's read buffer; a larger one grows a buffer of
/// its own.
const SMALL_REST: usize = 16 * 1024;
/// Most unparsed input of one connection, as Redis' client-query-buffer-limit: a command larger than this in total
/// closes the connection.
pub(crate) const INPUT_LIMIT: usize = 1 << 30;
/// Reads of one connection per wake-up, so that one that sends without pause leaves time for the others.
pub(crate) const READS_PER_TURN: usize = 4;
/// Unsent output a connection may have while its loop holds more than [`LOOP_OUTPUT_LIMIT`] in total.
pub(crate) const CROWDED_OUTPUT_LIMIT: usize = 256 * 1024;
/// Unsent output of all connections of one loop above which the per-connection limit drops.
pub(crate) const LOOP_OUTPUT_LIMIT: usize = 512 << 20;
/// The part of a large command that has to be here before its rest gets its room is one of so many.
const PART_HERE: usize = 64;
/// Replies from this size on are not copied to wait for the socket, but taken over with the driver's buffer.
pub(crate) const TAKEN_OVER: usize = 1 << 20;
/// Memory kept by the read path of an idle loop is bounded by this; larger own buffers are freed when empty.
const _: () = assert!(SMALL_REST * 2 <= READ_BUFFER);

/// What a connection's handling ended with.
enum Fate {
    Open,
    Gone,
}

impl<D: Driver> EventLoop<D> {
    /// Handles an event: writability first, so that room for replies is known before commands run.
    pub(crate) fn connection_ready(
        &mut self,
        index: u32,
        readable: bool,
        writable: bool,
        hung_up: bool,
    ) {
        if writable
            && self
                .core
                .slots
                .get_mut(index)
                .is_some_and(|slot| slot.wants_write)
        {
            self.writable(index);
        }
        if readable {
            self.readable(index, hung_up);
        }
    }

    /// Reads and runs until the socket is drained. A read that did not fill its buffer has drained it; only after a
    /// hang-up does the loop look for the end of the stream, since no further event would tell of it.
    fn readable(&mut self, index: u32, hung_up: bool) {
        for _ in 0..READS_PER_TURN {
            let limit = self.core.output_limit();
            let Some(slot) = self.core.slots.get_mut(index) else {
                return;
            };
            if slot.closing {
                return;
            }
            if slot.leaving && !hung_up {
                slot.unread = true;
                return;
            }
            if slot.waiting {
                return self.collect(index, true);
            }
            if slot.unrun || slot.unsent() > limit {
                slot.unread = true;
                return;
            }
            if !slot.unread && !hung_up && self.core.driver.leaves_unread(&mut slot.conn) {
                (slot.waiting, slot.leaving, slot.unread) = (true, true, true);
                return;
            }
            slot.unread = false;
            let small = slot.input.len() <= SMALL_REST && slot.needed <= READ_BUFFER - SMALL_REST;
            let (result, room) = if small {
                read_small(slot, &mut self.scratch)
            } else {
                read_large(slot)
            };
            match result {
                Ok(0) => return self.end_of_stream(index),
                Ok(n) => {
                    let whole = small.then_some(slot.input.len() + n);
                    if !small && slot.input.len() > INPUT_LIMIT {
                        return self.close(index);
                    }
                    if matches!(self.run(index, whole), Fate::Gone) || (n < room && !hung_up) {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.close(index),
            }
        }
        if let Some(slot) = self.core.slots.get_mut(index) {
            slot.unread = true;
            self.core.enqueue(index);
        }
    }

    /// Keeps what a waiting connection sends, for when its wait is over, and notices its end if it may have `hung_up`.
    fn collect(&mut self, index: u32, hung_up: bool) {
        for _ in 0..READS_PER_TURN {
            let Some(slot) = self.core.slots.get_mut(index) else {
                return;
            };
            slot.unread = false;
            let (result, room) = read_large(slot);
            match result {
                Ok(0) if slot.holding => {
                    slot.closing = true;
                    return;
                }
                Ok(0) => return self.close(index),
                Ok(_) if slot.input.len() > INPUT_LIMIT => return self.close(index),
                Ok(n) => {
                    report(slot, &mut self.core.driver, &mut self.core.held);
                    if n < room && !hung_up {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if slot.input.is_empty() {
                        slot.input = Vec::new();
                    }
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.close(index),
            }
        }
        if let Some(slot) = self.core.slots.get_mut(index) {
            slot.unread = true;
            self.core.enqueue(index);
        }
    }

    /// The peer sends no more. What it sent is answered first.
    fn end_of_stream(&mut self, index: u32) {
        let now = self.core.now;
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        if !slot.closing && !slot.unrun {
            let flow = self.core.driver.end_of_input(&mut slot.conn, now);
            self.deliver(index, flow);
        }
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        slot.closing = true;
        self.close_if_done(index);
    }

    /// Runs the commands in the thread's buffer (`scratch` bytes of it) or in the connection's own.
    fn run(&mut self, index: u32, scratch: Option<usize>) -> Fate {
        let limit = self.core.output_limit();
        let now = self.core.now;
        let Some(slot) = self.core.slots.get_mut(index) else {
            return Fate::Gone;
        };
        let own = if scratch.is_none() {
            std::mem::take(&mut slot.input)
        } else {
            Vec::new()
        };
        let bytes = scratch.map_or(&own[..], |len| &self.scratch[..len]);
        let mut at = 0;
        let mut rounds = 0;
        let mut again = false;
        slot.unrun = false;
        loop {
            let step = self.core.driver.data(&mut slot.conn, &bytes[at..], now);
            at += step.consumed;
            slot.needed = step.needed;
            let (driver, registry) = (&mut self.core.driver, self.poll.registry());
            if send(slot, driver, registry, index, step.flow).is_err() {
                self.close(index);
                return Fate::Gone;
            }
            match step.flow {
                Flow::Continue | Flow::Drop => break,
                Flow::Farewell => {
                    slot.parting = true;
                    break;
                }
                Flow::Wait | Flow::Leave | Flow::Hold => {
                    slot.waiting = true;
                    slot.leaving = step.flow == Flow::Leave;
                    slot.holding = step.flow == Flow::Hold;
                    break;
                }
                Flow::Close => {
                    slot.closing = true;
                    at = bytes.len();
                    break;
                }
                Flow::Yield => {
                    rounds += 1;
                    let crowded = slot.unsent() > limit;
                    if crowded || rounds == READS_PER_TURN {
                        slot.unrun = true;
                        again = !crowded;
                        break;
                    }
                }
            }
        }
        match scratch {
            Some(len) => keep_rest(&mut slot.input, &self.scratch[at..len]),
            None => slot.input = shrink(own, at),
        }
        slot.part();
        report(slot, &mut self.core.driver, &mut self.core.held);
        if slot.is_done() {
            self.close(index);
            return Fate::Gone;
        }
        if again {
            self.core.enqueue(index);
        }
        Fate::Open
    }

    /// The socket takes bytes again.
    fn writable(&mut self, index: u32) {
        let limit = self.core.output_limit();
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        if flush(slot, self.poll.registry(), index).is_err() {
            return self.close(index);
        }
        slot.part();
        report(slot, &mut self.core.driver, &mut self.core.held);
        // Half of the limit, so that a slow reader does not alternate between full and one reply less.
        if slot.unsent() <= limit / 2 && (slot.unrun || slot.unread) {
            self.core.enqueue(index);
        } else if slot.is_done() {
            self.close(index);
        }
    }
}

impl<D: Driver> Turns<D> for EventLoop<D> {
    type Slot = Slot<D::Conn>;

    fn core(&mut self) -> &mut LoopCore<D, Slot<D::Conn>> {
        &mut self.core
    }

    fn begin(&mut self, index: u32) {
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        let registered = self.poll.registry().register(
            &mut SourceFd(&slot.socket.as_raw_fd()),
            Token(index as usize),
            Interest::READABLE,
        );
        if registered.is_err() {
            self.close(index);
        }
    }

    fn deliver(&mut self, index: u32, flow: Flow) {
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        let (driver, registry) = (&mut self.core.driver, self.poll.registry());
        if send(slot, driver, registry, index, flow).is_err() {
            return self.close(index);
        }
        slot.closing |= flow == Flow::Close;
        slot.parting |= flow == Flow::Farewell;
        slot.part();
        let waited = std::mem::replace(&mut slot.waiting, flow.waits());
        let left = std::mem::replace(&mut slot.leaving, flow == Flow::Leave);
        slot.holding = flow == Flow::Hold;
        if left && !slot.waiting && slot.unread && !slot.closing {
            // Of a peer that has hung up an event has told, or will.
            if slot.input.is_empty() && flow == Flow::Continue {
                return self.readable(index, false);
            }
            // What was left is run with what came before it.
            self.collect(index, false);
        }
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        let has_more = flow == Flow::Yield || !slot.input.is_empty();
        slot.unrun |= waited && !slot.waiting && flow != Flow::Close && has_more;
        let again = waited && slot.unrun;
        report(slot, &mut self.core.driver, &mut self.core.held);
        if slot.is_done() {
            return self.close(index);
        }
        if again {
            self.core.enqueue(index);
        }
    }

    fn resume(&mut self, index: u32) {
        let limit = self.core.output_limit();
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        slot.queued = false;
        if slot.unrun && slot.unsent() <= limit && matches!(self.run(index, None), Fate::Gone) {
            return;
        }
        if self
            .core
            .slots
            .get_mut(index)
            .is_some_and(|slot| slot.unread)
        {
            // Whether the peer has hung up in the meantime is unknown, so read to the end.
            self.readable(index, true);
        }
        self.close_if_done(index);
    }

    fn finish(&mut self, index: u32) {
        self.readable(index, true);
        let Some(slot) = self.core.slots.get_mut(index) else {
            return;
        };
        slot.closing = true;
        self.close_if_done(index);
    }

    /// Closing the descriptor also takes it out of the poll set.
    fn close(&mut self, index: u32) {
        if let Some(slot) = self.core.slots.remove(index) {
            self.core.held -= slot.counted;
            self.core.count_closed();
            drop(slot.socket);
            self.core.driver.closed(slot.conn, self.core.now);
        }
    }
}

/// Reads behind the incomplete command, in the thread's buffer. Returns the room there was.
fn read_small<C>(slot: &Slot<C>, scratch: &mut [u8]) -> (io::Result<usize>, usize) {
    let rest = slot.input.len();
    scratch[..rest].copy_from_slice(&slot.input);
    let room = scratch.len() - rest;
    ((&slot.socket).read(&mut scratch[rest..]), room)
}

/// Makes room for `more` bytes behind an input that lacks `needed` of a whole command, as far as known.
///
/// A buffer grows with what has arrived and never from a length that the peer merely claims. When a good part of a command
/// is here, the rest gets its room at once: growing step by step would copy a large value again and again, and hold it twice.
pub(crate) fn make_room(input: &mut Vec<u8>, more: usize, needed: usize) {
    if input.capacity() - input.len() >= more {
        return;
    }
    match needed > READ_BUFFER && input.len() >= needed / PART_HERE {
        // What comes behind the command may come with its end.
        true => input.reserve_exact(needed.max(more) + READ_BUFFER),
        false => input.reserve(more),
    }
}

/// Reads into the connection's own buffer.
fn read_large<C>(slot: &mut Slot<C>) -> (io::Result<usize>, usize) {
    let input = &mut slot.input;
    make_room(input, READ_BUFFER, slot.needed);
    let spare = input.spare_capacity_mut();
    let room = spare.len();
    let result = slot.socket.recv(spare);
    if let Ok(n) = result {
        // SAFETY: `recv` has initialised the first `n` bytes of the spare capacity.
        unsafe { input.set_len(input.len() + n) };
    }
    (result, room)
}

fn keep_rest(input: &mut Vec<u8>, rest: &[u8]) {
    if rest.is_empty() {
        if input.capacity() > 0 {
            *input = Vec::new();
        }
    } else {
        input.clear();
        input.extend_from_slice(rest);
    }
}

/// Removes the first `consumed` bytes; gives the memory back when little is left.
pub(crate) fn shrink(mut own: Vec<u8>, consumed: usize) -> Vec<u8> {
    let rest = own.len() - consumed;
    if rest == 0 {
        return Vec::new();
    }
    if rest <= SMALL_REST && own.capacity() > 2 * SMALL_REST {
        return own[consumed..].to_vec();
    }
    if consumed > 0 {
        own.drain(..consumed);
    }
    own
}

/// Writes the driver's replies; what the socket does not take is kept with the connection. The last ones before the end go
/// out with it: a peer that looks at its connection right after them is to find it ended. Those of a connection that is
/// dropped go nowhere, which is an error.
fn send<D: Driver>(
    slot: &mut Slot<D::Conn>,
    driver: &mut D,
    registry: &Registry,
    index: u32,
    flow: Flow,
) -> io::Result<()> {
    if flow == Flow::Drop {
        return Err(ErrorKind::ConnectionAborted.into());
    }
    let bytes = driver.unsent();
    if bytes.is_empty() {
        return Ok(());
    }
    if slot.unsent() > 0 {
        if slot.output_sent > slot.output.len() / 2 {
            slot.output.drain(..slot.output_sent);
            slot.output_sent = 0;
        }
        slot.output.extend_from_slice(bytes);
        driver.sent();
        return Ok(());
    }
    let is_last = flow == Flow::Close;
    let written = write_with(&slot.socket, bytes, if is_last { MORE } else { 0 })?;
    match bytes.len() - written {
        0 => {
            driver.sent();
            if is_last {
                end_output(&slot.socket);
            }
        }
        TAKEN_OVER.. => {
            slot.output = driver.take_unsent();
            slot.output_sent = written;
        }
        _ => {
            slot.output.clear();
            slot.output.extend_from_slice(&bytes[written..]);
            slot.output_sent = 0;
            driver.sent();
        }
    }
    if slot.unsent() > 0 && !slot.wants_write {
        watch_writes(slot, registry, index, true)?;
    }
    Ok(())
}

fn flush<C>(slot: &mut Slot<C>, registry: &Registry, index: u32) -> io::Result<()> {
    slot.output_sent += write(&slot.socket, &slot.output[slot.output_sent..])?;
    if slot.unsent() == 0 {
        slot.output = Vec::new();
        slot.output_sent = 0;
        watch_writes(slot, registry, index, false)?;
    }
    Ok(())
}

fn watch_writes<C>(
    slot: &mut Slot<C>,
    registry: &Registry,
    index: u32,
    on: bool,
) -> io::Result<()> {
    let interest = if on {
        Interest::READABLE | Interest::WRITABLE
    } else {
        Interest::READABLE
    };
    registry.reregister(
        &mut SourceFd(&slot.socket.as_raw_fd()),
        Token(index as usize),
        interest,
    )?;
    slot.wants_write = on;
    Ok(())
}

/// Writes until everything is taken or the socket is full; returns how much was taken.
pub(crate) fn write(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    write_with(socket, bytes, 0)
}

/// [`write()`], with these flags of a send.
pub(crate) fn write_with(socket: &Socket, bytes: &[u8], flags: i32) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.send_with_flags(&bytes[sent..], NO_SIGNAL | flags) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// What is sent waits for what follows, or for the end.
#[cfg(target_os = "linux")]
pub(crate) const MORE: i32 = libc::MSG_MORE;
/// Elsewhere it goes at once.
#[cfg(not(target_os = "linux"))]
pub(crate) const MORE: i32 = 0;

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
const NO_SIGNAL: i32 = libc::MSG_NOSIGNAL;
/// Elsewhere the runtime's ignored SIGPIPE has to do.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
const NO_SIGNAL: i32 = 0;

/// Counts the unsent output, and tells the driver how much is held for the connection, if anything is or was.
fn report<D: Driver>(slot: &mut Slot<D::Conn>, driver: &mut D, held: &mut usize) {
    let (input, output) = (slot.input.len(), slot.unsent());
    if input + output > 0 || slot.reported {
        *held = *held - slot.counted + output;
        slot.counted = output;
        slot.reported = input + output > 0;
        driver.buffered(&mut slot.conn, input, output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command of so many bytes comes in pieces; what is copied to make room, and the room there is in the end.
    fn receive(whole: usize) -> (usize, usize) {
        let piece = vec![b'x'; READ_BUFFER];
        let (mut input, mut copied) = (Vec::new(), 0);
        while input.len() < whole {
            let (before, held) = (input.capacity(), input.len());
            make_room(&mut input, piece.len(), whole - held);
            if input.capacity() != before {
                copied += held;
            }
            // Not from what is announced alone.
            assert!(input.capacity() <= (held + piece.len()) * (PART_HERE + 2));
            input.extend_from_slice(&piece);
        }
        (copied, input.capacity())
    }

    #[test]
    fn a_large_command_is_hardly_copied_to_make_room() {
        for whole in [1 << 20, (16 << 20) + 35, 100_000_000] {
            let (copied, room) = receive(whole);
            assert!(copied <= whole / 16, "{copied} of {whole}");
            assert!(
                room <= whole + whole / 16 + 2 * READ_BUFFER,
                "{room} for {whole}"
            );
        }
    }
}
