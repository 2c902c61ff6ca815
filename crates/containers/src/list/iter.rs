//! Walks over a list in either direction.

use super::List;
use super::chunk::{Chunk, split_first, split_last};

/// Elements in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    list: &'a List,
    /// The chunk behind that of `rest`.
    next: usize,
    rest: &'a [u8],
}

impl<'a> Iter<'a> {
    pub(super) fn end(list: &'a List) -> Iter<'a> {
        Iter {
            list,
            next: list.chunks.count(),
            rest: &[],
        }
    }

    /// From element `inner` of chunk `at` on.
    pub(super) fn at(list: &'a List, at: usize, inner: usize) -> Iter<'a> {
        let rest = match list.chunks.get(at) {
            Some(chunk) => &chunk.entries()[chunk.offset(inner)..],
            None => &[],
        };
        Iter {
            list,
            next: at + 1,
            rest,
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            self.rest = self.list.chunks.get(self.next)?.entries();
            self.next += 1;
        }
        let (element, rest) = split_first(self.rest)?;
        self.rest = rest;
        Some(element)
    }
}

/// Elements in reverse order.
#[derive(Clone, Debug)]
pub struct RevIter<'a> {
    list: &'a List,
    /// The chunk of `rest`; those before it follow.
    at: usize,
    rest: &'a [u8],
}

impl<'a> RevIter<'a> {
    pub(super) fn end(list: &'a List) -> RevIter<'a> {
        RevIter {
            list,
            at: 0,
            rest: &[],
        }
    }

    /// From element `inner` of chunk `at` back.
    pub(super) fn at(list: &'a List, at: usize, inner: usize) -> RevIter<'a> {
        let rest = match list.chunks.get(at) {
            Some(chunk) => &chunk.entries()[..chunk.offset(inner + 1)],
            None => &[],
        };
        RevIter { list, at, rest }
    }
}

impl<'a> Iterator for RevIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            self.at = self.at.checked_sub(1)?;
            self.rest = self.list.chunks.get(self.at).map_or(&[], Chunk::entries);
        }
        let (element, rest) = split_last(self.rest)?;
        self.rest = rest;
        Some(element)
    }
}
