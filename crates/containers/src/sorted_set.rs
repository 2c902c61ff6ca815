//! A sorted set.

use crate::Container;

/// A sorted set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedSet {}

impl Container for SortedSet {
    fn len(&self) -> usize {
        0
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}
