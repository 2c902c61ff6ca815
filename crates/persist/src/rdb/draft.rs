//! Entries in the form of a file but for what takes long: for whoever holds a lock.

use std::io;

use tollgate_keyspace::{DbIndex, ValueRef};

use super::{Dialect, Writer};

/// Entries on their way to a file. What takes long, as compressing their strings and the checksum, is left for
/// [`Writer::append`]; here a string is copied and no more.
#[derive(Debug, Default)]
pub struct Draft {
    pub(super) bytes: Vec<u8>,
    /// Long strings among the bytes, which stand there without a length: where they begin, and how long they are.
    pub(super) noted: Vec<(usize, usize)>,
    /// Where the entries of a database end that stand behind each other.
    pub(super) runs: Vec<(DbIndex, usize)>,
    entries: usize,
    dialect: Dialect,
}

impl Draft {
    /// Without entries, for a file of that dialect.
    pub fn new(dialect: Dialect) -> Draft {
        Draft {
            dialect,
            ..Draft::default()
        }
    }

    /// Adds an entry; `expires_at_ms` is in Unix milliseconds, and `flags` are those of a Memcached client.
    pub fn add(
        &mut self,
        db: DbIndex,
        key: &[u8],
        value: ValueRef<'_>,
        expires_at_ms: Option<i64>,
        flags: u32,
    ) {
        let mut nowhere = io::sink();
        let (bytes, noted) = (
            std::mem::take(&mut self.bytes),
            std::mem::take(&mut self.noted),
        );
        let mut writer = Writer::draft(&mut nowhere, db, bytes, noted, self.dialect);
        // Only handing on can fail, which a draft does not.
        drop(writer.flags(flags));
        drop(writer.entry(key, value, expires_at_ms));
        (self.bytes, self.noted) = writer.end_draft();
        self.entries += 1;
        let end = self.bytes.len();
        match self.runs.last_mut() {
            Some(last) if last.0 == db => last.1 = end,
            _ => self.runs.push((db, end)),
        }
    }

    /// Bytes of memory, about.
    pub fn len(&self) -> usize {
        self.bytes.len() + size_of_val(&self.noted[..])
    }

    /// Entries in it.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Forgets the entries; keeps memory for the next up to `most` bytes.
    pub fn clear(&mut self, most: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(most);
        self.noted.clear();
        self.runs.clear();
        self.entries = 0;
    }
}
