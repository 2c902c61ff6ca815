//! Connections of one loop, addressed by slot number.

use crate::driver::ConnRef;
use crate::turn::Held;
use socket2::Socket;

/// What the loop keeps for a connection. Buffers own memory only while there is something in them.
pub(crate) struct Slot<C> {
    pub(crate) socket: Socket,
    pub(crate) conn: C,
    /// Start of a command that has not arrived whole.
    pub(crate) input: Vec<u8>,
    /// Replies that the socket did not take, from `output_sent` on.
    pub(crate) output: Vec<u8>,
    pub(crate) output_sent: usize,
    /// More bytes that the input's first command needs, as far as known.
    pub(crate) needed: usize,
    /// Registered for writability.
    pub(crate) wants_write: bool,
    /// There may be bytes in the socket that no event will announce again.
    pub(crate) unread: bool,
    /// Commands in `input` have not been run because the output was full.
    pub(crate) unrun: bool,
    /// The driver waits: input is kept and not run.
    pub(crate) waiting: bool,
    /// And what comes stays in the socket until the wait is over.
    pub(crate) leaving: bool,
    /// The driver has yet to answer what has been run.
    pub(crate) holding: bool,
    /// Tell the peer that nothing follows once the output is sent.
    pub(crate) parting: bool,
    /// Close once the output is sent; nothing more is read.
    pub(crate) closing: bool,
    /// Unsent output as counted in the loop's total.
    pub(crate) counted: usize,
    /// The driver was told of bytes held.
    pub(crate) reported: bool,
    /// Listed in the loop's backlog.
    pub(crate) queued: bool,
}

impl<C> Held for Slot<C> {
    type Conn = C;

    fn new(socket: Socket, conn: C) -> Slot<C> {
        Slot {
            socket,
            conn,
            input: Vec::new(),
            output: Vec::new(),
            output_sent: 0,
            needed: 0,
            wants_write: false,
            unread: false,
            unrun: false,
            waiting: false,
            leaving: false,
            holding: false,
            parting: false,
            closing: false,
            counted: 0,
            reported: false,
            queued: false,
        }
    }

    fn conn(&mut self) -> Option<&mut C> {
        Some(&mut self.conn)
    }

    fn queued(&mut self) -> &mut bool {
        &mut self.queued
    }

    fn is_done(&self) -> bool {
        self.closing && !self.unrun && !self.holding && self.unsent() == 0
    }
}

impl<C> Slot<C> {
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.output_sent
    }

    /// Tells the peer that nothing follows, if that is so.
    pub(crate) fn part(&mut self) {
        if self.parting && self.unsent() == 0 {
            self.parting = false;
            end_output(&self.socket);
        }
    }
}

/// Nothing more is sent.
pub(crate) fn end_output(socket: &Socket) {
    // Best effort: a peer that is gone need not be told.
    drop(socket.shutdown(std::net::Shutdown::Write));
}

enum Entry<S> {
    Free { next: Option<u32> },
    Used(S),
}

/// Entries are allocated so many at a time and never move: growth copies nothing and leaves no old copy behind.
const CHUNK: usize = 128;

/// A slab with generations, so that a reference to a closed connection finds nothing.
pub(crate) struct Slots<S> {
    chunks: Vec<Vec<(u32, Entry<S>)>>,
    free: Option<u32>,
    /// Entries, used and free.
    bound: u32,
    /// Entries in use.
    len: usize,
}

impl<S> Slots<S> {
    pub(crate) fn new() -> Slots<S> {
        Slots {
            chunks: Vec::new(),
            free: None,
            bound: 0,
            len: 0,
        }
    }

    fn entry(&self, index: u32) -> Option<&(u32, Entry<S>)> {
        let index = index as usize;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut (u32, Entry<S>)> {
        let index = index as usize;
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// The place the next `insert` will use.
    pub(crate) fn next(&self, thread: u16) -> ConnRef {
        let slot = self.free.unwrap_or(self.bound);
        let generation = self.entry(slot).map_or(0, |entry| entry.0);
        ConnRef {
            thread,
            slot,
            generation,
        }
    }

    pub(crate) fn insert(&mut self, slot: S) -> u32 {
        self.len += 1;
        let index = self.free.unwrap_or(self.bound);
        match self.entry_mut(index) {
            Some((_, entry)) => {
                let free = std::mem::replace(entry, Entry::Used(slot));
                if let Entry::Free { next } = free {
                    self.free = next;
                }
            }
            None => {
                if (self.bound as usize).is_multiple_of(CHUNK) {
                    self.chunks.push(Vec::with_capacity(CHUNK));
                }
                if let Some(chunk) = self.chunks.last_mut() {
                    chunk.push((0, Entry::Used(slot)));
                }
                self.bound += 1;
            }
        }
        index
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut S> {
        match self.entry_mut(index) {
            Some((_, Entry::Used(slot))) => Some(slot),
            _ => None,
        }
    }

    /// The slot number, if the connection is still the one meant.
    pub(crate) fn resolve(&self, at: ConnRef) -> Option<u32> {
        match self.entry(at.slot) {
            Some((generation, Entry::Used(_))) if *generation == at.generation => Some(at.slot),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<S> {
        let next = self.free;
        let (generation, entry) = self.entry_mut(index)?;
        if matches!(entry, Entry::Free { .. }) {
            return None;
        }
        let old = std::mem::replace(entry, Entry::Free { next });
        *generation = generation.wrapping_add(1);
        self.free = Some(index);
        self.len -= 1;
        match old {
            Entry::Used(slot) => Some(slot),
            Entry::Free { .. } => None,
        }
    }

    /// Upper bound of slot numbers in use.
    pub(crate) fn bound(&self) -> u32 {
        self.bound
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(conn: u32) -> Slot<u32> {
        Slot::new(
            Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap(),
            conn,
        )
    }

    #[test]
    fn a_reference_to_a_removed_connection_finds_nothing() {
        let mut slots = Slots::new();
        let first = slots.next(3);
        let index = slots.insert(slot(1));
        assert_eq!(slots.resolve(first), Some(index));
        assert_eq!(slots.remove(index).map(|slot| slot.conn), Some(1));
        assert_eq!(slots.resolve(first), None);
        assert!(slots.remove(index).is_none());
        let second = slots.next(3);
        assert_eq!(slots.insert(slot(2)), index, "the freed slot is used again");
        assert_eq!(slots.resolve(first), None);
        assert_eq!(slots.resolve(second), Some(index));
        assert!(!slots.is_empty());
    }

    #[test]
    fn slots_are_found_across_chunks() {
        let mut slots = Slots::new();
        let count = 3 * CHUNK as u32 + 1;
        for number in 0..count {
            assert_eq!(slots.insert(number), number);
        }
        assert_eq!(slots.bound(), count);
        for number in (0..count).step_by(7) {
            assert_eq!(slots.remove(number), Some(number));
        }
        for number in 0..count {
            let kept = (number % 7 != 0).then_some(number);
            assert_eq!(slots.get_mut(number).copied(), kept);
        }
        for number in 0..count.div_ceil(7) {
            slots.insert(count + number);
        }
        assert_eq!(slots.bound(), count, "freed slots are used first");
        assert!(slots.get_mut(count).is_none());
    }
}
