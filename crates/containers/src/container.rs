//! What all collections have in common.

/// A collection that one key holds.
pub trait Container {
    /// Elements.
    fn len(&self) -> usize;

    /// Whether it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap; kept up to date with every change, so asking costs nothing.
    fn heap_bytes(&self) -> usize;

    /// Where most operations read first, to be brought into the cache ahead of them; null when there is nothing.
    fn front(&self) -> *const u8 {
        std::ptr::null()
    }
}
