//! The memory of a Lua state: counted, bounded, and quick for the small blocks that scripts are made of.

use std::alloc::{self, Layout};
use std::ptr;

use super::lua::lua_State;
use super::vm;

/// Alignment of every block.
const ALIGN: usize = 16;

/// Blocks up to this many bytes come from chunks and go to a list of free blocks of their size.
const SMALL_MAX: usize = 256;

/// Small blocks come in multiples of this many bytes.
const STEP: usize = 16;

/// Bytes that are taken from the system at once for small blocks.
const CHUNK: usize = 16 << 10;

/// Bytes of large blocks after which the script that takes them is looked at: it may take a few instructions for each.
const BULK: usize = 32 << 20;

/// Memory of one state.
pub(super) struct Memory {
    /// The state; null until it is made.
    state: *mut lua_State,
    /// Bytes of large blocks that have been taken since the last look.
    bulk: usize,
    used: usize,
    /// Bytes of `used` that are in large blocks.
    large: usize,
    limit: usize,
    /// Free blocks of each size; each holds the address of the next.
    free: [*mut u8; SMALL_MAX / STEP],
    chunks: Vec<*mut u8>,
    /// What is left of the last chunk.
    rest: *mut u8,
    rest_len: usize,
}

impl Memory {
    /// No memory yet, and never more than `limit` bytes in use, nor more than that in chunks: those are kept for small
    /// blocks of a size once any of that size has been in them.
    pub(super) fn new(limit: usize) -> Memory {
        Memory {
            state: ptr::null_mut(),
            bulk: 0,
            used: 0,
            large: 0,
            limit,
            free: [ptr::null_mut(); SMALL_MAX / STEP],
            chunks: Vec::new(),
            rest: ptr::null_mut(),
            rest_len: 0,
        }
    }

    /// Whose memory it is.
    pub(super) fn set_state(&mut self, state: *mut lua_State) {
        self.state = state;
    }

    /// So many bytes are taken for a large block.
    fn note_bulk(&mut self, bytes: usize) {
        self.bulk += bytes;
        if self.bulk >= BULK && !self.state.is_null() {
            self.bulk = 0;
            // SAFETY: the state lives as long as its memory.
            unsafe { vm::look_soon(self.state) };
        }
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Bytes taken from the system: those in use, and those kept for small blocks to come.
    pub(super) fn held(&self) -> usize {
        self.large + self.chunks.len() * CHUNK
    }

    /// Makes a block of `new` bytes of one of `old`: with `old` 0 a fresh one, with `new` 0 none. Null when the limit is
    /// reached or the system has no more; the old block is then as it was. Shrinking ignores the limit.
    ///
    /// # Safety
    ///
    /// `block` came from this memory with `old` bytes and is not used after a success.
    #[inline]
    pub(super) unsafe fn resize(&mut self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        if new > old && self.used + (new - old) > self.limit {
            return ptr::null_mut();
        }
        // SAFETY: as promised by the caller; the copy is between different blocks.
        unsafe {
            if old > SMALL_MAX && new > SMALL_MAX {
                let fresh = alloc::realloc(block, layout(old), new);
                if !fresh.is_null() {
                    self.used = self.used - old + new;
                    self.large = self.large - old + new;
                    self.note_bulk(new);
                }
                return fresh;
            }
            if old != 0 && class(old) == class(new) {
                self.used = self.used - old + new;
                return block;
            }
            let fresh = if new == 0 {
                ptr::null_mut()
            } else {
                self.take(new, new < old)
            };
            if fresh.is_null() && new != 0 {
                // Lua counts on shrinking: the old block is large enough, and it is given back under its new size.
                return if new < old && old <= SMALL_MAX {
                    self.shrink_in_place(block, old, new)
                } else {
                    fresh
                };
            }
            if old != 0 {
                ptr::copy_nonoverlapping(block, fresh, old.min(new));
                self.give(block, old);
            }
            self.used = self.used - old + new;
            fresh
        }
    }

    /// Keeps a small block for a smaller size: what is cut off is lost until the memory goes.
    #[cold]
    fn shrink_in_place(&mut self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        self.used = self.used - old + new;
        block
    }

    /// A block of `size` bytes, or null; one that takes the place of a larger one also beyond the limit of chunks.
    unsafe fn take(&mut self, size: usize, shrinks: bool) -> *mut u8 {
        // SAFETY: sizes are not zero; a free block holds the address of the next one.
        unsafe {
            if size > SMALL_MAX {
                let block = alloc::alloc(layout(size));
                if !block.is_null() {
                    self.large += size;
                    self.note_bulk(size);
                }
                return block;
            }
            let class = class(size);
            let block = self.free[class];
            if !block.is_null() {
                self.free[class] = block.cast::<*mut u8>().read();
                return block;
            }
            self.carve((class + 1) * STEP, shrinks)
        }
    }

    /// A block from the end of the last chunk, or of a new one.
    unsafe fn carve(&mut self, size: usize, shrinks: bool) -> *mut u8 {
        // SAFETY: the rest of a chunk has `rest_len` bytes, all sizes are multiples of the alignment.
        unsafe {
            if self.rest_len < size {
                let is_over = (self.chunks.len() + 1) * CHUNK > self.limit.max(CHUNK);
                if is_over && !shrinks {
                    return ptr::null_mut();
                }
                let chunk = alloc::alloc(layout(CHUNK));
                if chunk.is_null() {
                    return chunk;
                }
                self.chunks.push(chunk);
                (self.rest, self.rest_len) = (chunk, CHUNK);
            }
            let block = self.rest;
            self.rest = block.add(size);
            self.rest_len -= size;
            block
        }
    }

    unsafe fn give(&mut self, block: *mut u8, size: usize) {
        // SAFETY: the block has `size` bytes, at least one step when it is small.
        unsafe {
            if size > SMALL_MAX {
                self.large -= size;
                return alloc::dealloc(block, layout(size));
            }
            let class = class(size);
            block.cast::<*mut u8>().write(self.free[class]);
            self.free[class] = block;
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for &chunk in &self.chunks {
            // SAFETY: chunks came from the allocator with this layout, and their blocks are no longer used.
            unsafe { alloc::dealloc(chunk, layout(CHUNK)) };
        }
    }
}

/// Number of the list for blocks of `size` bytes; none for 0 and for large ones, each with a number of its own.
#[inline]
fn class(size: usize) -> usize {
    if size > SMALL_MAX {
        usize::MAX
    } else {
        size.wrapping_sub(1) / STEP
    }
}

#[inline]
fn layout(size: usize) -> Layout {
    debug_assert!(size > 0 && size <= isize::MAX as usize - ALIGN);
    // SAFETY: the alignment is a power of two, and Lua's sizes are far below the limit of a layout: more than the limit
    // of the memory is refused before.
    unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of all sizes, grown, shrunk and freed in a changing order, keep their content.
    #[test]
    fn blocks_keep_their_content_and_their_count() {
        let mut memory = Memory::new(1 << 20);
        let mut blocks: Vec<(*mut u8, usize, u8)> = Vec::new();
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..20_000u64 {
            let fill = round as u8;
            // SAFETY: blocks are used with the sizes they were given, and not after they are freed.
            unsafe {
                if blocks.len() < 200 {
                    let size = 1 + draw(600) as usize;
                    let block = memory.resize(ptr::null_mut(), 0, size);
                    assert!(!block.is_null() && (block as usize).is_multiple_of(ALIGN));
                    ptr::write_bytes(block, fill, size);
                    blocks.push((block, size, fill));
                } else {
                    let at = draw(blocks.len() as u64) as usize;
                    let (block, old, filled) = blocks[at];
                    let new = draw(600) as usize;
                    let fresh = memory.resize(block, old, new);
                    let kept = std::slice::from_raw_parts(
                        if new == 0 { block } else { fresh },
                        old.min(new),
                    );
                    assert!(kept.iter().all(|&byte| byte == filled));
                    if new == 0 {
                        blocks.swap_remove(at);
                    } else {
                        ptr::write_bytes(fresh, fill, new);
                        blocks[at] = (fresh, new, fill);
                    }
                }
            }
            assert_eq!(
                memory.used(),
                blocks.iter().map(|(_, size, _)| size).sum::<usize>()
            );
        }
        for (block, size, _) in blocks {
            // SAFETY: as above.
            unsafe { memory.resize(block, size, 0) };
        }
        assert_eq!(memory.used(), 0);
    }

    /// Blocks of one size after another, all freed before the next.
    #[test]
    fn what_is_kept_for_blocks_of_all_sizes_is_bounded() {
        const LIMIT: usize = 1 << 20;
        let mut memory = Memory::new(LIMIT);
        let large = 10 * SMALL_MAX;
        // SAFETY: blocks are used with the sizes they were given, and not after they are freed.
        unsafe {
            let mut kept = memory.resize(ptr::null_mut(), 0, large);
            for size in (STEP..=SMALL_MAX).step_by(STEP) {
                let mut blocks = Vec::new();
                while blocks.len() * size < LIMIT / 2 {
                    let block = memory.resize(ptr::null_mut(), 0, size);
                    if block.is_null() {
                        break;
                    }
                    blocks.push(block);
                }
                for block in blocks {
                    memory.resize(block, size, 0);
                }
                assert_eq!(memory.used(), large);
                assert!(memory.held() <= LIMIT + large, "{}", memory.held());
            }
            // Lua does not expect that there is no room for less.
            kept = memory.resize(kept, large, 1 + SMALL_MAX / 2);
            assert!(!kept.is_null());
            memory.resize(kept, 1 + SMALL_MAX / 2, 0);
        }
        assert_eq!((memory.used(), memory.large), (0, 0));
    }

    #[test]
    fn the_limit_holds_and_shrinking_goes_on() {
        let mut memory = Memory::new(1_000);
        // SAFETY: blocks are used with the sizes they were given.
        unsafe {
            let block = memory.resize(ptr::null_mut(), 0, 900);
            assert!(!block.is_null());
            assert!(memory.resize(ptr::null_mut(), 0, 101).is_null());
            assert!(memory.resize(block, 900, 1_001).is_null());
            let block = memory.resize(block, 900, 100);
            assert_eq!((block.is_null(), memory.used()), (false, 100));
            memory.resize(block, 100, 0);
            assert_eq!(memory.used(), 0);
        }
    }
}
