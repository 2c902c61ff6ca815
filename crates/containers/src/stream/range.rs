//! Reading entries in order.

use std::collections::{BTreeMap, btree_map};

use super::StreamId;
use super::node::{Head, Node, Placed};
use crate::listpack::{At, Element, Listpack};

/// An entry to read.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    id: StreamId,
    pack: &'a Listpack,
    /// Fields, when they are those of the node's head; else they stand before each value.
    names: Option<At>,
    at: At,
    fields: usize,
}

impl<'a> Entry<'a> {
    pub(super) fn new(
        id: StreamId,
        pack: &'a Listpack,
        names: Option<At>,
        at: At,
        fields: usize,
    ) -> Entry<'a> {
        Entry {
            id,
            pack,
            names,
            at,
            fields,
        }
    }

    /// Its ID.
    #[inline]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Number of fields.
    #[inline]
    pub fn field_count(&self) -> usize {
        self.fields
    }

    /// Fields and values in order.
    #[inline]
    pub fn fields(&self) -> Fields<'a> {
        Fields {
            pack: self.pack,
            names: self.names,
            at: self.at,
            left: self.fields,
        }
    }
}

/// Fields and values of an entry.
pub struct Fields<'a> {
    pack: &'a Listpack,
    names: Option<At>,
    at: At,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Element<'a>, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => {
                let (name, next) = self.pack.get(*names)?;
                *names = next;
                name
            }
            None => {
                let (name, next) = self.pack.get(self.at)?;
                self.at = next;
                name
            }
        };
        let (value, next) = self.pack.get(self.at)?;
        self.at = next;
        Some((name, value))
    }
}

/// A node being read.
struct Cursor<'a> {
    first: StreamId,
    node: &'a Node,
    head: Head,
    at: At,
}

impl<'a> Cursor<'a> {
    fn front((first, node): (&StreamId, &'a Node)) -> Cursor<'a> {
        let head = node.head();
        let at = node.first_entry(&head);
        Cursor {
            first: *first,
            node,
            head,
            at,
        }
    }

    fn back((first, node): (&StreamId, &'a Node)) -> Cursor<'a> {
        Cursor {
            first: *first,
            node,
            head: node.head(),
            at: node.pack().end(),
        }
    }

    fn next(&mut self) -> Option<Placed<'a>> {
        let (placed, next) = self.node.entry(self.first, &self.head, self.at)?;
        self.at = next;
        Some(placed)
    }

    fn previous(&mut self) -> Option<Placed<'a>> {
        self.at = self.node.entry_before(self.at)?;
        let (placed, _) = self.node.entry(self.first, &self.head, self.at)?;
        Some(placed)
    }
}

type Nodes = BTreeMap<StreamId, Node>;

/// The nodes that can hold entries from `start` to `end`.
fn nodes(nodes: &Nodes, start: StreamId, end: StreamId) -> btree_map::Range<'_, StreamId, Node> {
    if start > end {
        return nodes.range(StreamId::MIN..StreamId::MIN);
    }
    let first = nodes.range(..=start).next_back();
    nodes.range(first.map_or(start, |(id, _)| *id)..=end)
}

/// Entries from a first to a last ID, both included, in order.
pub struct Range<'a> {
    nodes: btree_map::Range<'a, StreamId, Node>,
    cursor: Option<Cursor<'a>>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Range<'a> {
    pub(super) fn new(all: &'a Nodes, start: StreamId, end: StreamId) -> Range<'a> {
        Range {
            nodes: nodes(all, start, end),
            cursor: None,
            start,
            end,
        }
    }

    /// The next entry with its node's first ID and its place there.
    pub(super) fn next_placed(&mut self) -> Option<(StreamId, Placed<'a>)> {
        loop {
            let cursor = match &mut self.cursor {
                Some(cursor) => cursor,
                empty => empty.insert(Cursor::front(self.nodes.next()?)),
            };
            let first = cursor.first;
            match cursor.next() {
                None => self.cursor = None,
                Some(placed) if placed.deleted || placed.entry.id < self.start => {}
                Some(placed) if placed.entry.id > self.end => return None,
                Some(placed) => return Some((first, placed)),
            }
        }
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        Some(self.next_placed()?.1.entry)
    }
}

/// Entries from a last to a first ID, both included, backwards.
pub struct RangeBack<'a> {
    nodes: btree_map::Range<'a, StreamId, Node>,
    cursor: Option<Cursor<'a>>,
    start: StreamId,
    end: StreamId,
}

impl<'a> RangeBack<'a> {
    pub(super) fn new(all: &'a Nodes, start: StreamId, end: StreamId) -> RangeBack<'a> {
        RangeBack {
            nodes: nodes(all, start, end),
            cursor: None,
            start,
            end,
        }
    }
}

impl<'a> Iterator for RangeBack<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let cursor = match &mut self.cursor {
                Some(cursor) => cursor,
                empty => empty.insert(Cursor::back(self.nodes.next_back()?)),
            };
            match cursor.previous() {
                None => self.cursor = None,
                Some(placed) if placed.deleted || placed.entry.id > self.end => {}
                Some(placed) if placed.entry.id < self.start => return None,
                Some(placed) => return Some(placed.entry),
            }
        }
    }
}
