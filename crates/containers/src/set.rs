//! A set.

use crate::Container;

/// A set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {}

impl Container for Set {
    fn len(&self) -> usize {
        0
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}
