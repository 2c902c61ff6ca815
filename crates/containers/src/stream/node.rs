//! One node of the log: a listpack that begins with the fields of its first entry.
//!
//! ```text
//! head    live | deleted | number of fields | field ... | 0
//! entry   flags | ms - first ms | seq - first seq | values ..., or number of fields and pairs | elements before this
//! ```
//!
//! An entry whose fields are those of the head keeps only its values. A deleted entry is marked and stays until its node
//! goes.

use super::StreamId;
use super::range::Entry;
use crate::listpack::{At, Listpack};

/// The entry is deleted.
const DELETED: i64 = 1;
/// The entry has the fields of the head.
const SAME_FIELDS: i64 = 2;

/// Bytes reserved for a new node, so that its first entries find room.
const RESERVED: usize = 512;

/// Bytes from a file that are no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedNode;

/// Entries that follow one another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pack: Listpack,
}

/// What a node's head says.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) live: i64,
    pub(super) deleted: i64,
    /// Number of fields that entries share.
    pub(super) fields: usize,
    /// The first of them.
    pub(super) names: At,
}

/// An entry, deleted or not, and its place in the node.
pub(super) struct Placed<'a> {
    pub(super) entry: Entry<'a>,
    pub(super) deleted: bool,
    /// Its flags, where it begins.
    pub(super) at: At,
}

impl Node {
    /// A node whose head has the fields of `words` (field, value, …) and that holds no entry.
    pub(super) fn new(words: &[&[u8]]) -> Node {
        let mut pack = Listpack::with_capacity(RESERVED);
        pack.push_int(0);
        pack.push_int(0);
        pack.push_int(words.len() as i64 / 2);
        words.iter().step_by(2).for_each(|field| pack.push(field));
        pack.push_int(0);
        Node { pack }
    }

    pub(super) fn byte_len(&self) -> usize {
        self.pack.byte_len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.pack.heap_bytes()
    }

    pub(super) fn shrink(&mut self) {
        self.pack.shrink();
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.pack.as_bytes()
    }

    pub(super) fn pack(&self) -> &Listpack {
        &self.pack
    }

    pub(super) fn head(&self) -> Head {
        let (live, at) = self.int(self.pack.first());
        let (deleted, at) = self.int(at);
        let (fields, names) = self.int(at);
        Head {
            live,
            deleted,
            fields: usize::try_from(fields).unwrap_or(0),
            names,
        }
    }

    /// Where the first entry of a node with that head begins.
    pub(super) fn first_entry(&self, head: &Head) -> At {
        self.pack.skip(head.names, head.fields + 1)
    }

    /// Adds an entry; `id` is above those in the node, `first` that of its first entry.
    pub(super) fn append(&mut self, first: StreamId, id: StreamId, words: &[&[u8]]) {
        let head = self.head();
        self.pack.replace_int(self.pack.first(), head.live + 1);
        // The head has been written anew: the count may take more bytes now.
        let same = self.has_fields(&self.head(), words);
        self.pack.push_int(if same { SAME_FIELDS } else { 0 });
        self.pack.push_int(id.ms.wrapping_sub(first.ms) as i64);
        self.pack.push_int(id.seq.wrapping_sub(first.seq) as i64);
        let fields = words.len() as i64 / 2;
        let elements = if same {
            words
                .iter()
                .skip(1)
                .step_by(2)
                .for_each(|word| self.pack.push(word));
            fields + 3
        } else {
            self.pack.push_int(fields);
            words.iter().for_each(|word| self.pack.push(word));
            2 * fields + 4
        };
        self.pack.push_int(elements);
    }

    fn has_fields(&self, head: &Head, words: &[&[u8]]) -> bool {
        let mut at = head.names;
        head.fields == words.len() / 2
            && words.iter().step_by(2).all(|field| {
                let Some((name, next)) = self.pack.get(at) else {
                    return false;
                };
                at = next;
                name.is(field)
            })
    }

    /// The entry that begins at `at`, and where the next one does; `None` at the end.
    pub(super) fn entry(&self, first: StreamId, head: &Head, at: At) -> Option<(Placed<'_>, At)> {
        let (flags, place) = self.pack.int(at)?;
        let (ms, place) = self.pack.int(place)?;
        let (seq, mut place) = self.pack.int(place)?;
        let (names, fields) = if flags & SAME_FIELDS != 0 {
            (Some(head.names), head.fields)
        } else {
            let (fields, after) = self.pack.int(place)?;
            place = after;
            (None, usize::try_from(fields).ok()?)
        };
        let elements = if names.is_some() {
            fields
        } else {
            fields.checked_mul(2)?
        };
        let id = StreamId {
            ms: first.ms.wrapping_add(ms as u64),
            seq: first.seq.wrapping_add(seq as u64),
        };
        let entry = Entry::new(id, &self.pack, names, place, fields);
        let deleted = flags & DELETED != 0;
        let next = self.pack.skip(place, elements.checked_add(1)?);
        Some((Placed { entry, deleted, at }, next))
    }

    /// Where the entry that ends at `end` begins; `None` when that is the head.
    pub(super) fn entry_before(&self, end: At) -> Option<At> {
        let mut at = self.pack.back(end)?;
        let (elements, _) = self.pack.int(at)?;
        if elements == 0 {
            return None;
        }
        for _ in 0..elements {
            at = self.pack.back(at)?;
        }
        Some(at)
    }

    /// ID of the last entry, deleted or not.
    pub(super) fn last_id(&self, first: StreamId) -> Option<StreamId> {
        let at = self.entry_before(self.pack.end())?;
        Some(self.entry(first, &self.head(), at)?.0.entry.id())
    }

    /// Marks the entries that begin at these places, in order, as deleted.
    pub(super) fn mark_deleted(&mut self, places: &[At]) {
        for &at in places {
            let (flags, _) = self.int(at);
            // Flags take one byte with any bit set, so later places stay valid.
            self.pack.replace_int(at, flags | DELETED);
        }
        let head = self.head();
        let count = places.len() as i64;
        let first = self.pack.first();
        self.pack.replace_int(first, head.live - count);
        let (_, deleted) = self.int(first);
        self.pack.replace_int(deleted, head.deleted + count);
    }

    /// A number that every node has where it is looked for.
    fn int(&self, at: At) -> (i64, At) {
        self.pack.int(at).unwrap_or((0, at))
    }

    /// Takes a node from a file, where it stood under the ID `first`; every element is checked.
    pub(super) fn from_bytes(first: StreamId, bytes: Vec<u8>) -> Result<Node, MalformedNode> {
        let pack = Listpack::from_bytes(bytes).ok_or(MalformedNode)?;
        let node = Node { pack };
        node.check(first).ok_or(MalformedNode)?;
        Ok(node)
    }

    fn check(&self, first: StreamId) -> Option<()> {
        let (live, at) = self.pack.int(self.pack.first())?;
        let (deleted, at) = self.pack.int(at)?;
        let (fields, names) = self.pack.int(at)?;
        // A field takes two bytes at least.
        let fields = usize::try_from(fields).ok()?;
        let plausible = 0..=self.pack.byte_len();
        if live < 0 || deleted < 0 || !plausible.contains(&fields) {
            return None;
        }
        let head = Head {
            live,
            deleted,
            fields,
            names,
        };
        let (zero, mut at) = self.pack.int(self.pack.skip(names, fields))?;
        if zero != 0 {
            return None;
        }
        let (mut seen_live, mut seen_deleted) = (0, 0);
        let mut last = None;
        while at != self.pack.end() {
            let (placed, next) = self.entry(first, &head, at)?;
            let (flags, _) = self.pack.int(at)?;
            if !(0..=(DELETED | SAME_FIELDS)).contains(&flags) || last >= Some(placed.entry.id()) {
                return None;
            }
            let start = self.entry_before(next)?;
            if start != at {
                return None;
            }
            last = Some(placed.entry.id());
            *(if placed.deleted {
                &mut seen_deleted
            } else {
                &mut seen_live
            }) += 1;
            at = next;
        }
        ((seen_live, seen_deleted) == (live, deleted) && last >= Some(first)).then_some(())
    }
}
