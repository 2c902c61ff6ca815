//! Some neighbouring elements of a list in one allocation, with room to grow at both ends.
//!
//! ```text
//! buf      free | entry entry … entry | free
//! entry    length | bytes | length, its bytes in reverse
//! length   0xxxxxxx | 10xxxxxx xxxxxxxx | 11000000 and four bytes
//! ```
//!
//! An entry can be read from either side, so a walk may begin at the nearer end.

/// Lengths below this take one byte.
const SMALL: usize = 1 << 7;
/// Lengths below this take two bytes.
const MEDIUM: usize = 1 << 14;
const MEDIUM_MARK: u8 = 0x80;
const LARGE_MARK: u8 = 0xc0;
/// Bytes of the smallest allocation.
const LEAST: usize = 32;

#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    buf: Box<[u8]>,
    start: u32,
    end: u32,
    count: u32,
}

/// Bytes that a length takes.
#[inline]
fn length_bytes(len: usize) -> usize {
    match len {
        ..SMALL => 1,
        SMALL..MEDIUM => 2,
        _ => 5,
    }
}

/// Bytes that an element of `len` bytes takes in a chunk.
#[inline]
pub(super) fn entry_bytes(len: usize) -> usize {
    len + 2 * length_bytes(len)
}

/// Writes an entry over all of `room`, which is as long as it.
fn write_entry(room: &mut [u8], element: &[u8]) {
    let len = element.len();
    let side = length_bytes(len);
    let mut code = [0; 5];
    match side {
        1 => code[0] = len as u8,
        2 => {
            code[..2].copy_from_slice(&(len as u16).to_be_bytes());
            code[0] |= MEDIUM_MARK;
        }
        _ => {
            code[0] = LARGE_MARK;
            code[1..].copy_from_slice(&(len as u32).to_be_bytes());
        }
    }
    room[..side].copy_from_slice(&code[..side]);
    room[side..side + len].copy_from_slice(element);
    code[..side].reverse();
    room[side + len..].copy_from_slice(&code[..side]);
}

/// The first element of some entries, and the entries behind it.
#[inline]
pub(super) fn split_first(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&mark, rest) = entries.split_first()?;
    let (side, len) = match mark {
        0..MEDIUM_MARK => (1, usize::from(mark)),
        MEDIUM_MARK..LARGE_MARK => (2, usize::from(mark & 0x3f) << 8 | usize::from(rest[0])),
        LARGE_MARK.. => (5, large([rest[0], rest[1], rest[2], rest[3]])),
    };
    Some((&entries[side..side + len], &entries[2 * side + len..]))
}

/// The last element of some entries, and the entries before it.
#[inline]
pub(super) fn split_last(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&mark, rest) = entries.split_last()?;
    let back = |at: usize| rest[rest.len() - at];
    let (side, len) = match mark {
        0..MEDIUM_MARK => (1, usize::from(mark)),
        MEDIUM_MARK..LARGE_MARK => (2, usize::from(mark & 0x3f) << 8 | usize::from(back(1))),
        LARGE_MARK.. => (5, large([back(1), back(2), back(3), back(4)])),
    };
    let end = entries.len() - side;
    Some((&entries[end - len..end], &entries[..end - len - side]))
}

fn large(bytes: [u8; 4]) -> usize {
    u32::from_be_bytes(bytes) as usize
}

/// Which end of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Front,
    Back,
}

impl Chunk {
    /// An address a little before the first element, where the next one goes.
    #[inline]
    pub(super) fn front(&self) -> *const u8 {
        let before = (self.start as usize).saturating_sub(LEAST);
        self.buf.as_ptr().wrapping_add(before)
    }

    /// Elements.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes of the entries.
    #[inline]
    pub(super) fn used(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Bytes allocated.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.buf.len()
    }

    /// The entries.
    #[inline]
    pub(super) fn entries(&self) -> &[u8] {
        &self.buf[self.start as usize..self.end as usize]
    }

    /// Adds an element at one end. Beyond `most` bytes the chunk will not grow further.
    pub(super) fn push(&mut self, side: Side, element: &[u8], most: usize) {
        let size = entry_bytes(element.len());
        self.reserve(side, size, most);
        let at = match side {
            Side::Front => {
                self.start -= size as u32;
                self.start as usize
            }
            Side::Back => {
                self.end += size as u32;
                self.end as usize - size
            }
        };
        write_entry(&mut self.buf[at..at + size], element);
        self.count += 1;
    }

    /// Removes the first or the last element.
    pub(super) fn pop(&mut self, side: Side) {
        let entries = self.entries();
        let (front, back) = match side {
            Side::Front => (split_first(entries), None),
            Side::Back => (None, split_last(entries)),
        };
        if let Some((_, rest)) = front {
            self.start = self.end - rest.len() as u32;
        } else if let Some((_, rest)) = back {
            self.end = self.start + rest.len() as u32;
        } else {
            return;
        }
        self.count -= 1;
        self.shrink();
    }

    /// Where the entry of element `index` begins, counted from the first entry; the end for `count`.
    pub(super) fn offset(&self, index: usize) -> usize {
        let entries = self.entries();
        if index <= self.count() / 2 {
            let mut rest = entries;
            for _ in 0..index {
                let Some((_, behind)) = split_first(rest) else {
                    break;
                };
                rest = behind;
            }
            entries.len() - rest.len()
        } else {
            let mut rest = entries;
            for _ in index..self.count() {
                let Some((_, before)) = split_last(rest) else {
                    break;
                };
                rest = before;
            }
            rest.len()
        }
    }

    /// Puts an element before element `index`.
    pub(super) fn insert(&mut self, index: usize, element: &[u8]) {
        let at = self.offset(index);
        self.splice(at, 0, element);
        self.count += 1;
    }

    /// Replaces element `index`.
    pub(super) fn replace(&mut self, index: usize, element: &[u8]) {
        let at = self.offset(index);
        let Some((old, _)) = split_first(&self.entries()[at..]) else {
            return;
        };
        let old = entry_bytes(old.len());
        self.splice(at, old, element);
    }

    /// Writes the entry of `element` over `old` bytes at the offset `at`.
    fn splice(&mut self, at: usize, old: usize, element: &[u8]) {
        let size = entry_bytes(element.len());
        self.reserve(Side::Back, size.saturating_sub(old), usize::MAX);
        let at = self.start as usize + at;
        self.buf.copy_within(at + old..self.end as usize, at + size);
        write_entry(&mut self.buf[at..at + size], element);
        self.end = (self.end as usize + size - old) as u32;
        self.shrink();
    }

    /// Removes `count` elements from element `index` on.
    pub(super) fn remove(&mut self, index: usize, count: usize) {
        let (from, to) = (self.offset(index), self.offset(index + count));
        let (start, used) = (self.start as usize, self.used());
        if from < used - to {
            self.buf.copy_within(start..start + from, start + to - from);
            self.start += (to - from) as u32;
        } else {
            self.buf.copy_within(start + to..start + used, start + from);
            self.end -= (to - from) as u32;
        }
        self.count -= count as u32;
        self.shrink();
    }

    /// Removes elements that `drops` says, in one pass; returns how many.
    pub(super) fn retain(&mut self, mut drops: impl FnMut(&[u8]) -> bool) -> usize {
        let (mut read, mut write) = (self.start as usize, self.start as usize);
        let end = self.end as usize;
        let mut dropped = 0;
        while let Some((element, _)) = split_first(&self.buf[read..end]) {
            let size = entry_bytes(element.len());
            if drops(element) {
                dropped += 1;
            } else {
                if dropped > 0 {
                    self.buf.copy_within(read..read + size, write);
                }
                write += size;
            }
            read += size;
        }
        self.end = write as u32;
        self.count -= dropped as u32;
        self.shrink();
        dropped
    }

    /// Cuts the elements from `index` on off, into a chunk of their own.
    pub(super) fn split_off(&mut self, index: usize) -> Chunk {
        let at = self.offset(index);
        let tail = &self.entries()[at..];
        let cut = Chunk {
            buf: tail.into(),
            start: 0,
            end: tail.len() as u32,
            count: self.count - index as u32,
        };
        self.end = self.start + at as u32;
        self.count = index as u32;
        self.shrink();
        cut
    }

    /// Adds the elements of `other` at the end.
    pub(super) fn append(&mut self, other: &Chunk) {
        self.reserve(Side::Back, other.used(), usize::MAX);
        let end = self.end as usize;
        self.buf[end..end + other.used()].copy_from_slice(other.entries());
        self.end += other.used() as u32;
        self.count += other.count;
    }

    /// Makes room for `size` bytes at one end.
    #[inline]
    fn reserve(&mut self, side: Side, size: usize, most: usize) {
        let near = match side {
            Side::Front => self.start as usize,
            Side::Back => self.capacity() - self.end as usize,
        };
        if near < size {
            self.make_room(side, size, most);
        }
    }

    /// Makes room by moving the entries if a good part of the allocation is free, so that the cost of moving is spread
    /// over many pushes, else by making it half as large again, up to `most` bytes.
    #[cold]
    fn make_room(&mut self, side: Side, size: usize, most: usize) {
        let (start, end, capacity) = (self.start as usize, self.end as usize, self.capacity());
        let (near, far) = match side {
            Side::Front => (start, capacity - end),
            Side::Back => (capacity - end, start),
        };
        let used = end - start;
        let needed = used + size;
        let moves = near + far >= size + capacity / 4;
        let new_capacity = if moves {
            capacity
        } else {
            let spacious = (needed + used / 2).next_multiple_of(LEAST);
            spacious.min(most).max(needed)
        };
        // A part of the free bytes stays at the other end if that end has been in use.
        let free = new_capacity - needed;
        let other = if far > 0 { free / 4 } else { 0 };
        let new_start = match side {
            Side::Front => new_capacity - other - used,
            Side::Back => other,
        };
        if moves {
            self.buf.copy_within(start..end, new_start);
        } else {
            let mut buf = vec![0; new_capacity];
            buf[new_start..new_start + used].copy_from_slice(self.entries());
            self.buf = buf.into_boxed_slice();
        }
        self.start = new_start as u32;
        self.end = (new_start + used) as u32;
    }

    /// Gives memory back when three quarters of it are free.
    fn shrink(&mut self) {
        let used = self.used();
        if self.capacity() > LEAST && used * 4 <= self.capacity() {
            let mut buf = vec![0; (used + used / 2).next_multiple_of(LEAST)];
            buf[..used].copy_from_slice(self.entries());
            self.buf = buf.into_boxed_slice();
            (self.start, self.end) = (0, used as u32);
        }
    }
}
