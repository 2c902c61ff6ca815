//! Read buffers that the kernel picks from, shared by all connections of a loop.

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// Most buffers of a loop. Connections for which there is none are heard of a turn later.
pub(crate) const MANY: u16 = 1_024;
/// Buffers the kernel has at first, unless a loop has to hear of all its connections in every turn. It takes about twenty
/// between two turns (see `LOCAL_WORK`), and what it took comes back within the turn. It uses all in turn, so more than
/// are needed only push each other out of the processor's caches.
const FEW: u16 = 32;
/// Connections that may always be given as many: one alone takes several buffers when it sends much.
const FEW_CONNECTIONS: usize = 64;
/// Bytes one receive can bring.
pub(crate) const SIZE: usize = 32 * 1024;
/// Distance between two buffers. Not a multiple of the page, because the first lines of all buffers, often the only
/// ones used, would then compete for a few sets of the processor's caches.
const STRIDE: usize = SIZE + 320;
/// The ring of free buffers stands before them, on pages of its own.
const RING_BYTES: usize = MANY as usize * size_of::<BufRingEntry>();
const MAPPING: usize = RING_BYTES + MANY as usize * STRIDE;
/// Group number by which receives name these buffers.
pub(crate) const GROUP: u16 = 0;
const _: () = assert!(MANY.is_power_of_two() && RING_BYTES.is_multiple_of(4096));

/// A received piece: which buffer, and how much of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) buffer: u16,
    pub(crate) len: usize,
}

/// Pages of a buffer become resident when the kernel first writes them.
pub(crate) struct Buffers {
    mapping: NonNull<u8>,
    /// Buffers the kernel has or is given back: the first so many.
    count: u16,
    /// A receive has found none.
    is_short: bool,
    tail: u16,
    /// The kernel may still write; the memory outlives this value.
    leaked: bool,
}

// SAFETY: the mapping is owned by this value alone; nothing in it is tied to a thread.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Maps the buffers and registers them with the ring.
    pub(crate) fn register(ring: &IoUring, are_many: bool) -> io::Result<Buffers> {
        let count = if are_many { MANY } else { FEW };
        // SAFETY: a new anonymous mapping, which overlaps nothing.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                MAPPING,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(mapping.cast())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut buffers = Buffers {
            mapping,
            count: 0,
            is_short: false,
            tail: 0,
            leaked: false,
        };
        // SAFETY: the ring of `MANY` entries lies page-aligned at the start of the mapping, which is unmapped only after
        // the io_uring is gone: the owner drops it first.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                buffers.mapping.as_ptr() as u64,
                MANY,
                GROUP,
                0,
            )?;
        }
        buffers.extend_to(count);
        buffers.publish();
        Ok(buffers)
    }

    fn extend_to(&mut self, count: u16) {
        for buffer in self.count..count.min(MANY) {
            self.count = buffer + 1;
            self.give_back(buffer);
        }
    }

    /// A receive has ended because there was no buffer.
    pub(crate) fn note_short(&mut self) {
        self.is_short = true;
    }

    /// Between two turns: twice as many buffers if they were too few, as long as each of so many connections has none to itself.
    pub(crate) fn grow(&mut self, connections: usize) {
        if std::mem::take(&mut self.is_short)
            && usize::from(self.count) < connections.max(FEW_CONNECTIONS)
        {
            self.extend_to(2 * self.count);
        }
    }

    fn address(&self, buffer: u16) -> *mut u8 {
        debug_assert!(buffer < self.count);
        let offset = RING_BYTES + usize::from(buffer % MANY) * STRIDE;
        // SAFETY: the offset of any buffer below `MANY` lies within the mapping.
        unsafe { self.mapping.as_ptr().add(offset) }
    }

    /// What the kernel wrote, until the buffer is given back.
    pub(crate) fn bytes(&self, chunk: Chunk) -> &[u8] {
        let len = chunk.len.min(SIZE);
        // SAFETY: the memory is mapped and initialised; the kernel has handed the buffer over with a completion and
        // does not write it until `give_back` and `publish`, which need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.address(chunk.buffer), len) }
    }

    /// Lets the kernel use the buffer again, from the next `publish` on.
    pub(crate) fn give_back(&mut self, buffer: u16) {
        let address = self.address(buffer) as u64;
        let place = usize::from(self.tail % MANY);
        // SAFETY: `place` is below `MANY`, so the entry lies in the ring, and the kernel does not read it before the tail
        // is published. Entry 0 shares its last two bytes with the tail; the three setters leave those alone.
        unsafe {
            let entry = &mut *self.mapping.as_ptr().cast::<BufRingEntry>().add(place);
            entry.set_addr(address);
            entry.set_len(SIZE as u32);
            entry.set_bid(buffer % MANY);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what was given back.
    pub(crate) fn publish(&self) {
        // SAFETY: the tail lies in the first entry of the ring, is aligned, and is written by this thread alone, with
        // atomic stores.
        unsafe {
            let tail = BufRingEntry::tail(self.mapping.as_ptr().cast()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// Gives the memory of all buffers back to the system, which takes their contents. They stay where they are, and stay the
    /// kernel's.
    pub(super) fn discard(&mut self) {
        // SAFETY: the range is the mapping's own behind the ring. It is plain memory that nobody borrows, since `bytes` borrows
        // this value; the pages read as zeros from now on.
        let discarded = unsafe {
            libc::madvise(
                self.mapping.as_ptr().add(RING_BYTES).cast(),
                MAPPING - RING_BYTES,
                libc::MADV_DONTNEED,
            )
        };
        debug_assert_eq!(discarded, 0, "the range is mapped");
    }

    /// Never unmaps: an operation that may write to a buffer could not be ended.
    pub(crate) fn leak(&mut self) {
        self.leaked = true;
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if !self.leaked {
            // SAFETY: the mapping is this value's own, and no operation is left that could use it: the owner has seen
            // the completion of all, or has called `leak`.
            unsafe {
                libc::munmap(self.mapping.as_ptr().cast(), MAPPING);
            }
        }
    }
}
