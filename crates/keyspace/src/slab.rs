//! Cells of one size, numbered from 0 without gaps, in pages of one size that never move.
//!
//! Memory that grows by allocations of many sizes leaves holes between them that nobody can use (measured: 40 % with
//! buckets of their own size each, 11 % with a last page that grows in steps). Pages of one size leave none.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use smallvec::SmallVec;

/// A power of two, which allocators align by itself; small, since half a page is free on average in each shard.
const PAGE: Layout = match Layout::from_size_align(1024, 64) {
    Ok(layout) => layout,
    Err(_) => panic!("64 is a power of two"),
};

/// Pages that are listed in the slab itself: as many as a table has whose list would be a cache line by itself.
const INLINE_PAGES: usize = 4;

/// Cells of `CELL` bytes, a power of two up to the page's size.
pub(crate) struct Slab<const CELL: usize> {
    pages: SmallVec<[NonNull<u8>; INLINE_PAGES]>,
    len: u32,
}

impl<const CELL: usize> Slab<CELL> {
    const PER_PAGE: u32 = {
        assert!(CELL.is_power_of_two() && CELL <= PAGE.size());
        (PAGE.size() / CELL) as u32
    };

    pub(crate) fn new() -> Self {
        Self {
            pages: SmallVec::new(),
            len: 0,
        }
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
        self.pages.len() * PAGE.size() + list
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
            let page = *self.pages.get_unchecked((number / Self::PER_PAGE) as usize);
            page.as_ptr().add((number % Self::PER_PAGE) as usize * CELL)
        }
    }

    /// Adds a cell and returns its number; its content is undefined.
    pub(crate) fn push(&mut self) -> u32 {
        let number = self.len;
        assert!(
            number < u32::MAX,
            "a table has fewer than 2^32 cells: the blocks alone are 512 GiB then"
        );
        if number.is_multiple_of(Self::PER_PAGE) {
            // SAFETY: a page is not empty.
            let page =
                NonNull::new(unsafe { alloc(PAGE) }).unwrap_or_else(|| handle_alloc_error(PAGE));
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
        if self.len.is_multiple_of(Self::PER_PAGE) {
            if let Some(page) = self.pages.pop() {
                // SAFETY: every page was allocated with this layout; it holds no cell any more.
                unsafe { dealloc(page.as_ptr(), PAGE) };
            }
            if self.pages.capacity() > 8 && self.pages.len() < self.pages.capacity() / 2 {
                self.pages.shrink_to_fit();
                self.pages.reserve_exact(self.pages.len() / 8 + 1);
            }
        }
    }
}

impl<const CELL: usize> Drop for Slab<CELL> {
    fn drop(&mut self) {
        for page in self.pages.drain(..) {
            // SAFETY: every page was allocated with this layout.
            unsafe { dealloc(page.as_ptr(), PAGE) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_their_content_while_others_come_and_go() {
        let mut slab = Slab::<128>::new();
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
            assert!(slab.bytes() <= round as usize * 148 + 2 * PAGE.size());
        }
        assert_eq!(slab.len(), 0);
    }
}
