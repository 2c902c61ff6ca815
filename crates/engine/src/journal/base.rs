//! The base of an append-only file: all data, written while commands run on.
//!
//! The shards are written one after the other, each as it is at one moment under its lock. What is recorded of a shard
//! before that moment is in the base, what comes later belongs to the file behind it: so a change of shards on both sides
//! of the frontier is recorded there as the state of the keys that the base holds already. The file in force has
//! everything meanwhile, so that it stays good when the new base fails. A command that changes whole databases (FLUSHALL)
//! has the base begin anew.

use std::io::{self, Write};
use std::sync::atomic::Ordering;

use tollgate_keyspace::{DbIndex, EntryRef, Shard};
use tollgate_limiter::Timestamp;
use tollgate_persist::rdb::Writer;
use tollgate_wire::resp::write_command;

use super::record::{dumped, restoring};
use crate::Engine;
use crate::snapshot::{about, each_entry};

/// How a base is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseForm {
    /// As an RDB file (`aof-use-rdb-preamble yes`).
    Rdb,
    /// As commands.
    Commands,
}

/// How the writing of a base has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseEnd {
    /// It is whole.
    Whole,
    /// Whole databases were changed meanwhile, so it is of no use: it has to be written anew, and so has the file behind.
    Again,
    /// `stop` said so.
    Stopped,
}

/// Bytes of commands after which they are handed on.
const PIECE: usize = 1 << 20;

/// What writes entries in one of the forms. Nothing reaches the file before `hand_on`.
trait Form {
    fn lua_code(&mut self, code: &[u8]) -> io::Result<()>;
    fn entry(&mut self, db: DbIndex, key: &[u8], entry: EntryRef<'_>) -> io::Result<()>;
    fn hand_on(&mut self) -> io::Result<()>;
}

struct Rdb<'w>(Writer<'w>);

impl Form for Rdb<'_> {
    fn lua_code(&mut self, code: &[u8]) -> io::Result<()> {
        self.0.lua_library(code)
    }

    fn entry(&mut self, db: DbIndex, key: &[u8], entry: EntryRef<'_>) -> io::Result<()> {
        self.0.select(db)?;
        self.0.flags(entry.mark().flags)?;
        self.0.entry(key, entry.value(), entry.expires_at_ms())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.0.hand_on()
    }
}

struct Commands<'w> {
    out: &'w mut dyn Write,
    db: Option<DbIndex>,
    bytes: Vec<u8>,
}

impl Form for Commands<'_> {
    fn lua_code(&mut self, code: &[u8]) -> io::Result<()> {
        write_command(&mut self.bytes, &[b"FUNCTION", b"LOAD", code]);
        Ok(())
    }

    fn entry(&mut self, db: DbIndex, key: &[u8], entry: EntryRef<'_>) -> io::Result<()> {
        if self.db.replace(db) != Some(db) {
            write_command(
                &mut self.bytes,
                &[b"SELECT", db.get().to_string().as_bytes()],
            );
        }
        let (payload, at) = dumped(entry);
        write_command(&mut self.bytes, &restoring(key, &at, &payload));
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        self.bytes.shrink_to(PIECE);
        Ok(())
    }
}

impl Engine {
    /// Writes all data as they are, shard after shard, while commands run on. `follow`: what changes meanwhile is
    /// recorded for a file behind the base, which is to be put in force with [`Engine::promote_next_log`] or given up with
    /// [`Engine::abandon_next_log`]; whatever was taken of it before is of an earlier attempt.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_base(
        &self,
        out: &mut dyn Write,
        form: BaseForm,
        follow: bool,
        now: Timestamp,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<BaseEnd> {
        match form {
            BaseForm::Commands => {
                let mut commands = Commands {
                    out,
                    db: None,
                    bytes: Vec::new(),
                };
                let end = self.write_shards(&mut commands, follow, now, stop)?;
                out.flush()?;
                Ok(end)
            }
            BaseForm::Rdb => {
                let about = about(now);
                let mut about: Vec<(&str, &str)> = (about.iter())
                    .map(|(name, value)| (*name, value.as_str()))
                    .collect();
                about.push(("aof-base", "1"));
                let mut writer = Writer::new(out, &about)?;
                writer.gather();
                let mut rdb = Rdb(writer);
                let end = self.write_shards(&mut rdb, follow, now, stop)?;
                rdb.0.finish()?;
                Ok(end)
            }
        }
    }

    fn write_shards(
        &self,
        form: &mut dyn Form,
        follow: bool,
        now: Timestamp,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<BaseEnd> {
        let log = &self.journal.log;
        if follow {
            self.open_next_log();
        }
        for code in self.function_codes() {
            form.lua_code(&code)?;
        }
        for index in 0..self.shards.count() {
            if stop() {
                return Ok(BaseEnd::Stopped);
            }
            if follow && log.again.load(Ordering::Acquire) {
                return Ok(BaseEnd::Again);
            }
            let mut cell = self.shards.lock(index);
            let written = write_shard(form, &mut cell, now);
            if follow {
                // The shard is held, so whoever changes it next knows.
                log.place.fetch_add(1, Ordering::AcqRel);
            }
            drop(cell);
            written?;
            form.hand_on()?;
        }
        Ok(match follow && log.again.load(Ordering::Acquire) {
            true => BaseEnd::Again,
            false => BaseEnd::Whole,
        })
    }
}

fn write_shard(form: &mut dyn Form, shard: &mut Shard, now: Timestamp) -> io::Result<()> {
    for db in DbIndex::all() {
        if shard.len(db) > 0 {
            each_entry(shard, db, now, |key, entry| form.entry(db, key, entry))?;
        }
    }
    Ok(())
}
