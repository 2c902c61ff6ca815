//! Entries on their way to a file, in the form that it has.

use std::io::{self, Write};

use tollgate_keyspace::{DbIndex, EntryRef, Loan, ValueRef};
use tollgate_persist::rdb::{Dialect, Draft, Writer};
use tollgate_wire::resp::write_command;

use crate::journal::{dumped_parts, restoring, wrapped_flags};

/// How a file holds the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As an RDB file, for those who read that dialect.
    Rdb(Dialect),
    /// As commands (`aof-use-rdb-preamble no`).
    Commands,
}

/// Entries that were copied while their shard was held.
#[derive(Debug)]
pub(super) enum Batch {
    Rdb(Draft),
    Commands(Commands),
}

/// Commands that make entries.
#[derive(Debug, Default)]
pub(super) struct Commands {
    bytes: Vec<u8>,
    /// Where the commands for a database end that stand behind each other.
    runs: Vec<(DbIndex, usize)>,
    entries: usize,
}

impl Commands {
    fn add(
        &mut self,
        db: DbIndex,
        key: &[u8],
        value: ValueRef<'_>,
        expires_at_ms: Option<i64>,
        flags: u32,
    ) {
        let (payload, at) = dumped_parts(value, expires_at_ms);
        write_command(&mut self.bytes, &restoring(key, &at, &payload));
        if flags != 0 {
            write_command(&mut self.bytes, &[b"PING", &wrapped_flags(key, flags)]);
        }
        self.entries += 1;
        let end = self.bytes.len();
        match self.runs.last_mut() {
            Some(last) if last.0 == db => last.1 = end,
            _ => self.runs.push((db, end)),
        }
    }
}

impl Batch {
    pub(super) fn new(form: Form) -> Batch {
        match form {
            Form::Rdb(dialect) => Batch::Rdb(Draft::new(dialect)),
            Form::Commands => Batch::Commands(Commands::default()),
        }
    }

    pub(super) fn add(&mut self, db: DbIndex, entry: EntryRef<'_>) {
        let (key, value, flags) = (entry.key(), entry.value(), entry.mark().flags);
        self.add_parts(db, key, value, entry.expires_at_ms(), flags);
    }

    /// Adds an entry whose value is lent, and so has no mark.
    pub(super) fn add_lent(&mut self, loan: &Loan, value: ValueRef<'_>) {
        self.add_parts(loan.db, &loan.key, value, loan.expires_at_ms, 0);
    }

    fn add_parts(
        &mut self,
        db: DbIndex,
        key: &[u8],
        value: ValueRef<'_>,
        expires_at_ms: Option<i64>,
        flags: u32,
    ) {
        match self {
            Batch::Rdb(draft) => draft.add(db, key, value, expires_at_ms, flags),
            Batch::Commands(commands) => commands.add(db, key, value, expires_at_ms, flags),
        }
    }

    /// Bytes of memory, about.
    pub(super) fn len(&self) -> usize {
        match self {
            Batch::Rdb(draft) => draft.len(),
            Batch::Commands(commands) => commands.bytes.len(),
        }
    }

    pub(super) fn entries(&self) -> usize {
        match self {
            Batch::Rdb(draft) => draft.entries(),
            Batch::Commands(commands) => commands.entries,
        }
    }

    /// Forgets the entries; keeps memory for the next up to `most` bytes.
    pub(super) fn clear(&mut self, most: usize) {
        match self {
            Batch::Rdb(draft) => draft.clear(most),
            Batch::Commands(commands) => {
                commands.bytes.clear();
                commands.bytes.shrink_to(most);
                commands.runs.clear();
                commands.entries = 0;
            }
        }
    }
}

/// A file that is being written.
pub(super) enum Sheet<'w> {
    Rdb(Writer<'w>),
    Commands {
        out: &'w mut dyn Write,
        db: Option<DbIndex>,
    },
}

impl Sheet<'_> {
    /// Writes the code of a library of functions; before the first entry.
    pub(super) fn add_library(&mut self, code: &[u8]) -> io::Result<()> {
        match self {
            Sheet::Rdb(writer) => writer.lua_library(code),
            Sheet::Commands { out, .. } => {
                let mut bytes = Vec::new();
                write_command(&mut bytes, &[b"FUNCTION", b"LOAD", code]);
                out.write_all(&bytes)
            }
        }
    }

    /// Writes entries; they are in the form of the file.
    pub(super) fn append(&mut self, batch: &Batch) -> io::Result<()> {
        match (self, batch) {
            (Sheet::Rdb(writer), Batch::Rdb(draft)) => writer.append(draft),
            (Sheet::Commands { out, db }, Batch::Commands(commands)) => {
                let mut start = 0;
                for &(of, end) in &commands.runs {
                    if db.replace(of) != Some(of) {
                        let mut select = Vec::new();
                        let number = of.get().to_string();
                        write_command(&mut select, &[b"SELECT", number.as_bytes()]);
                        out.write_all(&select)?;
                    }
                    out.write_all(&commands.bytes[start..end])?;
                    start = end;
                }
                Ok(())
            }
            _ => unreachable!("a snapshot has one form"),
        }
    }

    /// Writes the end.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Sheet::Rdb(writer) => writer.finish(),
            Sheet::Commands { out, .. } => out.flush(),
        }
    }
}
