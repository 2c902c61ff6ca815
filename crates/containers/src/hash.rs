//! A hash.

use crate::Container;

/// A hash.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hash {}

impl Container for Hash {
    fn len(&self) -> usize {
        0
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}
