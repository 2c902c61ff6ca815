//! Streams: an append-only log of entries with growing IDs, and the consumer groups that read it.
//!
//! Entries lie in nodes, each a [`crate::listpack::Listpack`] of some kilobytes found by the ID of its first entry.
//! What a node holds, and when a new one begins, is as in Redis: approximate trimming removes whole nodes, so their
//! bounds can be seen by clients, and a node's bytes are what a stored file holds.

mod group;
mod id;
mod log;
mod node;
mod producers;
mod range;
mod trim;

use crate::Container;

pub use group::{Consumer, ConsumerIndex, Group, GroupMut, Groups, Pending, READ_UNKNOWN};
pub use id::StreamId;
pub use log::{AppendError, Log, LogState, NewId, NodeLimits};
pub use node::MalformedNode;
pub use producers::{DURATION_SECS, MOST_IDS, Memory, Producers, Recorded, id_of_message};
pub use range::{Entry, Fields, Range, RangeBack};
pub use trim::{Trim, Trimming};

/// Entries and the groups that read them. Stays when the last entry goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    log: Log,
    groups: Groups,
    /// Boxed, as few streams have any.
    producers: Option<Box<Producers>>,
}

impl Stream {
    /// Puts a stream together from what was stored.
    pub fn from_parts(log: Log, groups: Groups) -> Stream {
        Stream {
            log,
            groups,
            producers: None,
        }
    }

    /// The producers whose IDs it remembers; `None` for a stream that never had any, and remembers as by default.
    pub fn producers(&self) -> Option<&Producers> {
        self.producers.as_deref()
    }

    /// The producers to change.
    pub fn producers_mut(&mut self) -> Option<&mut Producers> {
        self.producers.as_deref_mut()
    }

    /// The producers to change, which there are from now on.
    pub fn with_producers(&mut self) -> &mut Producers {
        self.producers.get_or_insert_default()
    }

    /// The entries.
    #[inline]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The entries to change.
    #[inline]
    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// The groups.
    #[inline]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The groups to change.
    #[inline]
    pub fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    /// Entries to read while groups change.
    #[inline]
    pub fn parts_mut(&mut self) -> (&Log, &mut Groups) {
        (&self.log, &mut self.groups)
    }

    /// Entries and groups, both to change.
    #[inline]
    pub fn all_mut(&mut self) -> (&mut Log, &mut Groups) {
        (&mut self.log, &mut self.groups)
    }
}

impl Container for Stream {
    fn len(&self) -> usize {
        self.log.len()
    }

    fn heap_bytes(&self) -> usize {
        let producers = self.producers.as_deref();
        self.log.heap_bytes()
            + self.groups.heap_bytes()
            + producers.map_or(0, Producers::heap_bytes)
    }
}

#[cfg(test)]
mod tests;
