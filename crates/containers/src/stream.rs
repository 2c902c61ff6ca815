//! A stream.

use crate::Container;

/// A stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {}

impl Container for Stream {
    fn len(&self) -> usize {
        0
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}
