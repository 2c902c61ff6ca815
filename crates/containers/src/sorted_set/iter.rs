//! Walking a range of a sorted set, in either direction.

use std::ops::Range;

use super::Form;
use super::compact::Compact;
use super::indexed::Indexed;
use super::tree::Slot;

/// Elements in order: member and score.
#[derive(Clone)]
pub struct Iter<'a> {
    at: Place<'a>,
    left: usize,
}

#[derive(Clone)]
enum Place<'a> {
    /// The offset of the next element; going down, the offset behind it.
    Compact {
        set: &'a Compact,
        offset: usize,
        down: bool,
    },
    Up {
        set: &'a Indexed,
        leaf: std::slice::Iter<'a, Slot>,
        /// Index of the first element behind the leaf.
        next: usize,
    },
    Down {
        set: &'a Indexed,
        leaf: std::slice::Iter<'a, Slot>,
        /// How many elements come before the leaf.
        next: usize,
    },
}

impl<'a> Iter<'a> {
    pub(super) fn ascending(form: &'a Form, range: Range<usize>) -> Iter<'a> {
        let at = match form {
            Form::Compact(set) => Place::Compact {
                set,
                offset: set.offset(range.start),
                down: false,
            },
            Form::Indexed(set) => Place::Up {
                set,
                leaf: [].iter(),
                next: range.start,
            },
        };
        Iter {
            at,
            left: range.len(),
        }
    }

    pub(super) fn descending(form: &'a Form, range: Range<usize>) -> Iter<'a> {
        let at = match form {
            Form::Compact(set) => Place::Compact {
                set,
                offset: set.offset(range.end),
                down: true,
            },
            Form::Indexed(set) => Place::Down {
                set,
                leaf: [].iter(),
                next: range.end,
            },
        };
        Iter {
            at,
            left: range.len(),
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.at {
            Place::Compact { set, offset, down } => {
                let (element, next) = match down {
                    true => set.next_back(*offset),
                    false => set.next(*offset),
                };
                *offset = next;
                Some(element)
            }
            Place::Up { set, leaf, next } => {
                if leaf.len() == 0 {
                    let (slots, at) = set.leaf_at(*next);
                    *leaf = slots[at..].iter();
                    *next += leaf.len();
                }
                leaf.next().map(|&slot| set.element(slot))
            }
            Place::Down { set, leaf, next } => {
                if leaf.len() == 0 {
                    let (slots, at) = set.leaf_at(*next - 1);
                    *leaf = slots[..=at].iter();
                    *next -= leaf.len();
                }
                leaf.next_back().map(|&slot| set.element(slot))
            }
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
