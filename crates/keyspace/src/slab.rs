//! Cells of one size, numbered from 0 without gaps, in pages of one size that never move.
//!
//! Memory that grows by allocations of many sizes leaves holes between them that nobody can use (measured: 40 % with
//! buckets of their own size each, 11 % with a last page that grows in steps). Pages of one size leave none.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use smallvec::SmallVec;

/// Cells of a page; few, since half a page is free on average in each shard.
const PER_PAGE: u32 = 8;
/// What allocators give without being asked. Those that serve blocks of one size from aligned pages align ours to lines of
/// the cache as well, as far as the cells' size allows.
const ALIGN: usize = 16;

/// Pages that are listed in the slab itself: as many as a table has whose list would be a cache line by itself.
const INLINE_PAGES: usize = 4;

/// How large cells are.
pub(crate) trait CellSize: Copy {
    /// A multiple of [`ALIGN`], greater than 0.
    fn bytes(self) -> usize;
}

/// Cells whose size is known when the program is built.
#[derive(Clone, Copy)]
pub(crate) struct Fixed<const BYTES: usize>;

impl<const BYTES: usize> CellSize for Fixed<BYTES> {
    #[inline]
    fn bytes(self) -> usize {
        const { assert!(BYTES > 0 && BYTES.is_multiple_of(ALIGN)) }
        BYTES
    }
}

/// Cells of one size.
pub(crate) struct Slab<S: CellSize> {
    pages: SmallVec<[NonNull<u8>; INLINE_PAGES]>,
    len: u32,
    size: S,
}

impl<S: CellSize> Slab<S> {
    pub(crate) fn new(size: S) -> Self {
        Self {
            pages: SmallVec::new(),
            len: 0,
            size,
        }
    }

    /// The cells' size.
    #[inline]
    pub(crate) fn size(&self) -> S {
        self.size
    }

    fn page(&self) -> Layout {
        Layout::from_size_align(PER_PAGE as usize * self.size.bytes(), ALIGN)
            .expect("cells are small, and ALIGN is a power of two")
    }

    /// Number of cells.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Bytes allocated for pages and for the list of them.
    pub(crate) fn bytes(&self) -> usize {
        let list = if self.pages.spilled() {
            self.pages.capacity() * size_of::<NonNull<u8>>()
        } else {
            0
        };
        self.pages.len() * self.page().size() + list
    }

    /// Address of the list of pages, to be prefetched; none if it lies in the slab itself.
    #[inline]
    pub(crate) fn pages(&self) -> Option<*const NonNull<u8>> {
        self.pages.spilled().then(|| self.pages.as_ptr())
    }

    /// The cell with a number below [`Slab::len`]; stays where it is as long as it exists.
    #[inline]
    pub(crate) fn cell(&self, number: u32) -> *mut u8 {
        assert!(number < self.len, "no such cell");
        // SAFETY: cells below `len` lie in the pages, PER_PAGE to each.
        unsafe {
            let page = *self.pages.get_unchecked((number / PER_PAGE) as usize);
            page.as_ptr()
                .add((number % PER_PAGE) as usize * self.size.bytes())
        }
    }

    /// Adds a cell and returns its number; its content is undefined.
    pub(crate) fn push(&mut self) -> u32 {
        let number = self.len;
        assert!(
            number < u32::MAX,
            "a table has fewer than 2^32 cells: the blocks alone are 512 GiB then"
        );
        if number.is_multiple_of(PER_PAGE) {
            let layout = self.page();
            // SAFETY: a page is not empty.
            let page = NonNull::new(unsafe { alloc(layout) })
                .unwrap_or_else(|| handle_alloc_error(layout));
            if self.pages.len() == self.pages.capacity() {
                self.pages.reserve_exact(self.pages.len() / 8 + 1);
            }
            self.pages.push(page);
        }
        self.len += 1;
        number
    }

    /// Removes the last cell.
    pub(crate) fn pop(&mut self) {
        debug_assert!(self.len > 0);
        self.len -= 1;
        if self.len.is_multiple_of(PER_PAGE) {
            if let Some(page) = self.pages.pop() {
                // SAFETY: every page was allocated with this layout; it holds no cell any more.
                unsafe { dealloc(page.as_ptr(), self.page()) };
            }
            if self.pages.capacity() > 8 && self.pages.len() < self.pages.capacity() / 2 {
                self.pages.shrink_to_fit();
                self.pages.reserve_exact(self.pages.len() / 8 + 1);
            }
        }
    }
}

impl<S: CellSize> Drop for Slab<S> {
    fn drop(&mut self) {
        let layout = self.page();
        for page in self.pages.drain(..) {
            // SAFETY: every page was allocated with this layout.
            unsafe { dealloc(page.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_their_content_while_others_come_and_go() {
        let mut slab = Slab::new(Fixed::<128>);
        for round in [1000, 10, 70, 33, 34, 0] {
            while slab.len() < round {
                let number = slab.push();
                // SAFETY: the cell has 128 bytes, aligned.
                unsafe { slab.cell(number).cast::<u32>().write(number) };
            }
            while slab.len() > round {
                slab.pop();
            }
            for number in 0..slab.len() {
                // SAFETY: written when it was pushed.
                assert_eq!(unsafe { slab.cell(number).cast::<u32>().read() }, number);
            }
            assert!(slab.bytes() <= round as usize * 148 + 2 * slab.page().size());
        }
        assert_eq!(slab.len(), 0);
    }
}
