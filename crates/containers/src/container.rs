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
}
