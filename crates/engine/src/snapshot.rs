//! The whole data set to and from an RDB file.

mod batch;
mod lending;
mod walk;

pub use batch::Form;
pub(crate) use lending::is_walked;
pub(crate) use walk::{LOOK, Snapshots, Wanted};
pub use walk::{Purpose, STUCK_SECS, Snapshot, SnapshotError, SnapshotProgress};

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use tollgate_commands::shapes;
use tollgate_keyspace::{Access, DATABASES, DbIndex, EntryMut, EntryRef, Mark, Shard};
use tollgate_limiter::Timestamp;
use tollgate_net::threads;
use tollgate_persist::rdb::{History, RdbError, Reader, Writer};

use crate::cell::Cells;
use crate::held::with_held;
use crate::shards::LockSet;
use crate::{Engine, REDIS_VERSION};

/// What [`Engine::load`] has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Keys that are in the store now.
    pub keys: usize,
    /// Keys of the file whose time had passed.
    pub expired: usize,
    /// The database that the master which wrote the file had selected in what it sends to replicas.
    pub stream_db: Option<DbIndex>,
}

/// What [`Engine::load_base`] has read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base {
    /// Keys.
    pub loaded: Loaded,
    /// Bytes behind the end of the RDB file that have been read already.
    pub rest: Vec<u8>,
    /// Where they begin.
    pub end: u64,
}

/// What becomes of an entry that is in the store already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Error,
    Replaced,
}

impl Engine {
    /// Writes all databases as they are now as an RDB file, when a snapshot that is being taken has ended, as
    /// [`Engine::begin_save`] has it. `pace` as for [`Snapshot::write`].
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn save(
        self: &Arc<Self>,
        out: &mut dyn Write,
        now: Timestamp,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), SnapshotError> {
        let held = with_held(|held| held.map(|held| self.save_held(held, out, now)));
        if let Some(saved) = held {
            return Ok(saved?);
        }
        match self.begin_file(now, &mut || true) {
            Ok(snapshot) => snapshot.write(out, pace),
            Err(_) => Err(SnapshotError::Stopped),
        }
    }

    /// Writes an RDB file without keys, with the libraries of functions if `functions`.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_without_keys(
        &self,
        out: &mut dyn Write,
        functions: bool,
        now: Timestamp,
    ) -> io::Result<()> {
        let about = about(now);
        let about: Vec<(&str, &str)> = (about.iter())
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let mut writer = Writer::new(out, &about, self.rdb_options())?;
        if functions {
            for code in self.function_codes() {
                writer.lua_library(&code)?;
            }
        }
        writer.finish()
    }

    /// As [`Engine::save`], inside a transaction, which keeps all shards to itself. What it has done so far is not counted
    /// yet, so the file says nothing of the history.
    fn save_held(
        &self,
        held: &mut LockSet<'_>,
        out: &mut dyn Write,
        now: Timestamp,
    ) -> io::Result<()> {
        let about = about(now);
        let about: Vec<(&str, &str)> = (about.iter())
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let mut writer = Writer::new(out, &about, self.rdb_options())?;
        for code in self.function_codes() {
            writer.lua_library(&code)?;
        }
        let mut sizes = [(0, 0); DATABASES];
        for index in 0..self.shards.count() {
            held.acquire(index);
            for db in DbIndex::all() {
                sizes[db.get()].0 += held.cell(index).len(db);
                sizes[db.get()].1 += held.cell(index).expiring(db);
            }
        }
        for (db, (keys, expiring)) in DbIndex::all().zip(sizes).filter(|(_, size)| size.0 > 0) {
            writer.database(db, keys, expiring)?;
            for index in 0..self.shards.count() {
                each_entry(held.cell(index), db, now, |key, entry| {
                    writer.flags(entry.mark().flags)?;
                    writer.entry(key, entry.value(), entry.expires_at_ms())
                })?;
            }
        }
        writer.finish()
    }

    /// Adds the keys and libraries of an RDB file to the store; keys whose time has passed are left out. After an error
    /// the keys before it are in the store.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is damaged, or holds what this program does not, or what is in the store already.
    pub fn load(&self, source: &mut dyn Read, now: Timestamp) -> Result<Loaded, RdbError> {
        let found = (now.millis(), Found::Error);
        self.read(source, now, found, &mut |_, _| {})
            .map(|(base, _)| base.loaded)
    }

    /// As [`Engine::load`], at the start of a server: goes on from where the data are in a history, if the file says so. A
    /// replica keeps entries that have expired: its master says when they go.
    ///
    /// # Errors
    ///
    /// As [`Engine::load`].
    pub fn restore(&self, source: &mut dyn Read, now: Timestamp) -> Result<Loaded, RdbError> {
        let over_ms = match self.is_replica() {
            true => i64::MIN,
            false => now.millis(),
        };
        self.begin_restoring();
        let lapsed = &mut |db, key: &[u8]| self.record_lapsed(db, key);
        let (base, history) = self.read(source, now, (over_ms, Found::Error), lapsed)?;
        self.end_restoring(history, now);
        Ok(base.loaded)
    }

    /// As [`Engine::load`], for the base of an append-only file, or the data of a master: keys whose time has passed stay,
    /// since what follows says when they went. What was read behind the end is given too.
    ///
    /// # Errors
    ///
    /// As [`Engine::load`].
    pub fn load_base(&self, source: &mut dyn Read, now: Timestamp) -> Result<Base, RdbError> {
        self.read(source, now, (i64::MIN, Found::Error), &mut |_, _| {})
            .map(|(base, _)| base)
    }

    /// Reads an RDB file to its end and keeps nothing of it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is damaged, or holds what this program does not.
    pub fn check(source: &mut dyn Read) -> Result<(), RdbError> {
        let mut reader = Reader::new(source)?;
        while reader.next()?.is_some() {}
        Ok(())
    }

    /// As [`Engine::load`], over what is in the store.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is damaged, or holds what this program does not.
    pub fn merge(&self, source: &mut dyn Read, now: Timestamp) -> Result<Loaded, RdbError> {
        let found = (now.millis(), Found::Replaced);
        self.read(source, now, found, &mut |_, _| {})
            .map(|(base, _)| base.loaded)
    }

    /// Waits as `key-load-delay` says before an entry that `entries` others came before.
    fn delay_load(&self, entries: usize) {
        let micros = match self.limits.key_load_delay() {
            0 => return,
            micros @ 1.. => micros.unsigned_abs(),
            each => u64::from((entries as u64).is_multiple_of(each.unsigned_abs())),
        };
        if micros > 0 {
            threads::stand_still(Duration::from_micros(micros));
        }
    }

    /// Leaves out what has expired at `over_ms`, of which `lapsed` is told.
    fn read(
        &self,
        source: &mut dyn Read,
        now: Timestamp,
        (over_ms, found): (i64, Found),
        lapsed: &mut dyn FnMut(DbIndex, &[u8]),
    ) -> Result<(Base, Option<History>), RdbError> {
        let merge = found == Found::Replaced;
        let now_ms = now.millis();
        let shapes = shapes(&self.limits, &self.seed);
        let mut reader = Reader::new(source)?.shaped(shapes);
        if self.limits.rdb_checksum() == 0 || self.limits.skips_checksums() != 0 {
            reader = reader.unchecked();
        }
        let mut loaded = Loaded::default();
        while let Some(entry) = reader.next()? {
            self.delay_load(loaded.keys + loaded.expired);
            if entry.expires_at_ms.is_some_and(|at| over_ms > at) {
                loaded.expired += 1;
                lapsed(entry.db, &entry.key);
                continue;
            }
            let key = self.seed.key(&entry.key);
            let used = (self.limits.access(), entry.idle_secs, entry.frequency);
            let index = key.shard(self.shards.count());
            // Within a transaction they are held already.
            let is_new = self.with_cell(index, |shard| {
                if !merge && shard.look(entry.db, key, over_ms).is_some() {
                    return false;
                }
                shard.set(entry.db, key, entry.value, entry.expires_at_ms, over_ms);
                if let Some(mut loaded) = shard.get_mut(entry.db, key, over_ms) {
                    if entry.flags != 0 {
                        loaded.set_mark(Mark {
                            flags: entry.flags,
                            ..Mark::default()
                        });
                    }
                    set_used(&mut loaded, used, now_ms);
                }
                true
            });
            if !is_new {
                return Err(RdbError::Exists { key: entry.key });
            }
            loaded.keys += 1;
        }
        loaded.stream_db = reader.stream_db();
        let libraries = reader.take_libraries();
        if !libraries.is_empty() {
            self.load_functions(&libraries, merge)
                .map_err(|error| RdbError::Library {
                    reason: error.to_string(),
                })?;
        }
        let (rest, end) = reader.rest();
        let base = Base {
            loaded,
            rest: rest.to_vec(),
            end,
        };
        Ok((base, reader.history()))
    }
}

/// What a file says of itself: as Redis does.
fn about(now: Timestamp) -> [(&'static str, String); 3] {
    [
        ("redis-ver", REDIS_VERSION.to_owned()),
        ("redis-bits", "64".to_owned()),
        ("ctime", now.secs().to_string()),
    ]
}

/// Makes an entry as much used as it was, where that is kept: idle for some seconds, or used so often.
fn set_used(entry: &mut EntryMut<'_>, used: (Access, Option<u64>, Option<u8>), now_ms: i64) {
    match used {
        (Access::Time | Access::ChangeTime, Some(secs), _) => entry.set_idle_secs(secs, now_ms),
        (Access::Frequency { .. }, _, Some(count)) => entry.set_frequency(count, now_ms),
        _ => {}
    }
}

/// Passes the entries of one database of a shard that have not expired to `each`, until it fails.
fn each_entry(
    shard: &mut Shard,
    db: DbIndex,
    now: Timestamp,
    mut each: impl FnMut(&[u8], EntryRef<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let now_ms = now.millis();
    let mut result = Ok(());
    let mut cursor = 0;
    loop {
        // A scan that removes what has expired may meet an entry twice, and a file must hold it once: at this time
        // nothing has.
        cursor = shard.scan(db, cursor, i64::MIN, &mut |key, entry| {
            let expired = entry.expires_at_ms().is_some_and(|at| now_ms > at);
            if result.is_ok() && !expired {
                result = each(key, entry);
            }
        });
        if cursor == 0 || result.is_err() {
            return result;
        }
    }
}
