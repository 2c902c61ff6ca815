//! The program's allocator: mimalloc, asked in the cheapest way that gives the alignment wanted.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// Alignment of every block of at least this many bytes, as C demands of `malloc`.
const NATURAL: usize = 16;

/// mimalloc as the global allocator.
///
/// Its functions for a given alignment take a slow path for nearly every size that is no power of two, and ask for a
/// larger block there. Nearly all that is allocated has an alignment that every block of its size has anyway.
pub(crate) struct Mimalloc;

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives back to the system what is free of this thread's memory, be it that others have freed it.
pub(crate) fn give_back() {
    // SAFETY: it may be called at any time, by any thread.
    unsafe { mi_collect(true) };
}

/// Whether every block of that size is aligned well enough. Blocks are multiples of 8 bytes, and from 16 bytes on
/// multiples of 16, counted from a start that is aligned to 16.
#[inline]
const fn is_natural(size: usize, align: usize) -> bool {
    align <= NATURAL && align <= size
}

// SAFETY: mimalloc is an allocator, its functions do not unwind, and `is_natural` tells when the plain ones give the
// alignment asked for. All of them return what `mi_free` and `mi_realloc` take.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: any size and any alignment that is a power of two may be asked for.
        unsafe {
            if is_natural(size, align) {
                mi_malloc(size).cast()
            } else {
                mi_malloc_aligned(size, align).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as in `alloc`.
        unsafe {
            if is_natural(size, align) {
                mi_zalloc(size).cast()
            } else {
                mi_zalloc_aligned(size, align).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller gives a block of this allocator, and gives it up.
        unsafe { mi_free(block.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        // SAFETY: as in `alloc`; the caller gives a block of this allocator.
        unsafe {
            if is_natural(size, align) {
                mi_realloc(block.cast(), size).cast()
            } else {
                mi_realloc_aligned(block.cast(), size, align).cast()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_size_are_aligned_and_keep_their_bytes() {
        for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
            let mut blocks = Vec::new();
            for size in (1..600).chain([1024, 4096, 5000, 70_000, 3 << 20]) {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the layout is not empty; the block is written within its size, and freed once below.
                let block = unsafe { Mimalloc.alloc_zeroed(layout) };
                assert!(!block.is_null() && (block as usize).is_multiple_of(align));
                // SAFETY: the block has `size` bytes, of which the last is zero.
                unsafe {
                    assert_eq!(block.add(size - 1).read(), 0);
                    block.write_bytes(size as u8, size);
                }
                blocks.push((block, layout));
            }
            for (block, layout) in blocks {
                let larger = layout.size() + 24;
                // SAFETY: the block is this allocator's and has that layout; the new one is freed with its own.
                unsafe {
                    let block = Mimalloc.realloc(block, layout, larger);
                    assert!(!block.is_null() && (block as usize).is_multiple_of(align));
                    assert_eq!(block.add(layout.size() - 1).read(), layout.size() as u8);
                    Mimalloc.dealloc(block, Layout::from_size_align(larger, align).unwrap());
                }
            }
        }
    }
}
