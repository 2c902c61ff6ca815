//! The whole data set to and from an RDB file.

use std::io::{self, Read, Write};

use tollgate_commands::shapes;
use tollgate_keyspace::{Access, DbIndex, EntryRef, Mark, Shard};
use tollgate_limiter::Timestamp;
use tollgate_persist::rdb::{RdbError, Reader, Writer};

use crate::cell::Cells;
use crate::held::with_held;
use crate::{Engine, REDIS_VERSION};

/// Says in a file for replicas which database is selected in the stream behind it.
const STREAM_DB: &str = "repl-stream-db";

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

impl Engine {
    /// Writes all databases as an RDB file. Shards are locked one at a time: with writers at work, every key is saved as
    /// it is at some moment of the call. Entries that have expired at `now` are left out.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn save(&self, out: &mut dyn Write, now: Timestamp) -> io::Result<()> {
        self.save_saying(out, now, &[])
    }

    /// As [`Engine::save`], for a replica, which goes on with the stream of commands from there: the file names the database
    /// that is selected in it.
    pub(crate) fn save_for_replica(
        &self,
        out: &mut dyn Write,
        now: Timestamp,
        db: Option<DbIndex>,
    ) -> io::Result<()> {
        let db = db.map(|db| db.get().to_string());
        match &db {
            Some(db) => self.save_saying(out, now, &[(STREAM_DB, db)]),
            None => self.save_saying(out, now, &[]),
        }
    }

    fn save_saying(
        &self,
        out: &mut dyn Write,
        now: Timestamp,
        more: &[(&str, &str)],
    ) -> io::Result<()> {
        let about = about(now);
        let mut about: Vec<(&str, &str)> = about
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        about.extend(more);
        let mut writer = Writer::new(out, &about)?;
        for code in self.function_codes() {
            writer.lua_library(&code)?;
        }
        for (number, size) in self.database_sizes().iter().enumerate() {
            let Some(db) = DbIndex::new(number).filter(|_| size.keys > 0) else {
                continue;
            };
            writer.database(db, size.keys, size.expiring)?;
            for index in 0..self.shards.count() {
                self.save_shard(&mut writer, index, db, now)?;
            }
        }
        writer.finish()
    }

    fn save_shard(
        &self,
        writer: &mut Writer<'_>,
        index: usize,
        db: DbIndex,
        now: Timestamp,
    ) -> io::Result<()> {
        let mut save = |shard: &mut Shard| {
            each_entry(shard, db, now, |key, entry| {
                writer.flags(entry.mark().flags)?;
                writer.entry(key, entry.value(), entry.expires_at_ms())
            })
        };
        with_held(|held| match held {
            Some(held) => {
                held.acquire(index);
                save(held.cell(index))
            }
            None => save(&mut self.shards.lock(index)),
        })
    }

    /// Adds the keys and libraries of an RDB file to the store; keys whose time has passed are left out. After an error
    /// the keys before it are in the store.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is damaged, or holds what this program does not, or what is in the store already.
    pub fn load(&self, source: &mut dyn Read, now: Timestamp) -> Result<Loaded, RdbError> {
        self.read(source, now, false, now.millis())
            .map(|base| base.loaded)
    }

    /// As [`Engine::load`], for the base of an append-only file, or the data of a master: keys whose time has passed stay,
    /// since what follows says when they went. What was read behind the end is given too.
    ///
    /// # Errors
    ///
    /// As [`Engine::load`].
    pub fn load_base(&self, source: &mut dyn Read, now: Timestamp) -> Result<Base, RdbError> {
        self.read(source, now, false, i64::MIN)
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
        self.read(source, now, true, now.millis())
            .map(|base| base.loaded)
    }

    /// Leaves out what has expired at `over_ms`.
    fn read(
        &self,
        source: &mut dyn Read,
        now: Timestamp,
        merge: bool,
        over_ms: i64,
    ) -> Result<Base, RdbError> {
        let now_ms = now.millis();
        let shapes = shapes(&self.limits, &self.seed);
        let mut reader = Reader::new(source)?.shaped(shapes);
        let mut loaded = Loaded::default();
        while let Some(entry) = reader.next()? {
            if entry.expires_at_ms.is_some_and(|at| over_ms > at) {
                loaded.expired += 1;
                continue;
            }
            let key = self.seed.key(&entry.key);
            let mut shard = self.shards.lock(key.shard(self.shards.count()));
            if !merge && shard.look(entry.db, key, over_ms).is_some() {
                return Err(RdbError::Exists { key: entry.key });
            }
            shard.set(entry.db, key, entry.value, entry.expires_at_ms, over_ms);
            let used = (self.limits.access(), entry.idle_secs, entry.frequency);
            if let Some(mut loaded) = shard.get_mut(entry.db, key, over_ms) {
                if entry.flags != 0 {
                    loaded.set_mark(Mark {
                        flags: entry.flags,
                        ..Mark::default()
                    });
                }
                match used {
                    (Access::Time, Some(secs), _) => loaded.set_idle_secs(secs, now_ms),
                    (Access::Frequency { .. }, _, Some(count)) => {
                        loaded.set_frequency(count, now_ms)
                    }
                    _ => {}
                }
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
        Ok(Base {
            loaded,
            rest: rest.to_vec(),
            end,
        })
    }
}

/// What a file says of itself: as Redis does.
pub(crate) fn about(now: Timestamp) -> [(&'static str, String); 3] {
    [
        ("redis-ver", REDIS_VERSION.to_owned()),
        ("redis-bits", "64".to_owned()),
        ("ctime", now.secs().to_string()),
    ]
}

/// Passes the entries of one database of a shard that have not expired to `each`, until it fails.
pub(crate) fn each_entry(
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
