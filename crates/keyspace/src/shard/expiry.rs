//! What goes because its time has come: entries where they are met and by the active cycle, fields of hashes by that.

use super::{Counters, Shard, free, select};
use crate::entry::EntryMut;
use crate::key::{DATABASES, DbIndex};

/// What one active expiry step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireProgress {
    /// Buckets looked at, and hashes with expired fields.
    pub examined: usize,
    /// Entries removed, and fields of hashes.
    pub removed: usize,
}

/// A key that expired: its database and bytes.
pub type Expired = (DbIndex, Box<[u8]>);

/// A hash of which fields expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredFields {
    /// Its database.
    pub db: DbIndex,
    /// Its key.
    pub key: Box<[u8]>,
    /// The names of the fields.
    pub names: Vec<Box<[u8]>>,
    /// No field is left, so the key is gone.
    pub emptied: bool,
}

/// Most fields of one hash that are removed in one go.
const FIELDS_AT_ONCE: usize = 64;

/// What expired: how many, and which if somebody wants to know.
#[derive(Default)]
pub(super) struct ExpiredLog {
    pub(super) expired: u64,
    pub(super) expired_fields: u64,
    on: bool,
    keys: Vec<Expired>,
    fields: Vec<ExpiredFields>,
}

impl ExpiredLog {
    pub(super) fn note(&mut self, counters: &mut Counters, db: DbIndex, key: &[u8]) {
        self.expired += 1;
        counters.changed();
        if self.on {
            self.keys.push((db, key.into()));
        }
    }
}

impl Shard {
    /// Removes the expired entries of a bucket and returns their number.
    pub(super) fn expire_bucket(&mut self, db: DbIndex, bucket: u32, now_ms: i64) -> usize {
        if self.timeless || self.keeps() {
            return 0;
        }
        if self.counters.walked {
            self.hand_over_expired(db, bucket, now_ms);
        }
        let Self {
            first,
            others,
            counters,
            expired,
            seed,
            graves,
            ..
        } = self;
        let Some(table) = select(first, others, db).filter(|table| table.expiring() > 0) else {
            return 0;
        };
        table.expire_bucket(
            seed,
            bucket,
            now_ms,
            &mut |key| expired.note(counters, db, key),
            &mut |value| free(graves.as_deref(), value),
        )
    }

    /// Active expiry: looks at up to `budget` buckets from where it stopped, and at hashes with expired fields. Databases
    /// in which nothing can have expired since they were last swept cost nothing.
    pub fn expire_cycle(&mut self, now_ms: i64, budget: usize) -> ExpireProgress {
        let mut progress = ExpireProgress::default();
        if self.keeps() {
            return progress;
        }
        let mut finished = 0;
        while progress.examined < budget && finished < DATABASES {
            let db = DbIndex::new(self.sweep_db as usize).unwrap_or_default();
            let fields = self.expire_fields(db, now_ms);
            if fields > 0 {
                progress.examined += 1;
                progress.removed += fields;
                continue;
            }
            match self
                .table_mut(db)
                .and_then(|table| table.next_to_sweep(now_ms))
            {
                Some(bucket) => {
                    progress.examined += 1;
                    progress.removed += self.expire_bucket(db, bucket, now_ms);
                }
                None => {
                    finished += 1;
                    self.sweep_db = (self.sweep_db + 1) % DATABASES as u8;
                }
            }
        }
        progress
    }

    /// How many entries of a few picked by `bits` expire later than `now_ms`, and the sum of how much later, in milliseconds.
    pub fn sample_ttls(&self, db: DbIndex, now_ms: i64, bits: u64) -> (u64, i64) {
        self.table(db)
            .map_or((0, 0), |table| table.sample_ttls(now_ms, bits))
    }

    /// Removes expired fields of the hash that has waited longest; returns their number.
    fn expire_fields(&mut self, db: DbIndex, now_ms: i64) -> usize {
        if self.counters.walked {
            self.hand_over_due(db, now_ms);
        }
        let Self {
            first,
            others,
            counters,
            expired,
            seed,
            ..
        } = self;
        let Some(table) = select(first, others, db) else {
            return 0;
        };
        let Some(found) = table.due(seed, now_ms) else {
            return 0;
        };
        let mut entry = EntryMut::new(found.slot, table, counters);
        let mut names = Vec::new();
        let gone = |name: &[u8]| {
            if expired.on {
                names.push(name.into());
            }
        };
        let (removed, emptied) = match entry.object_mut() {
            Some(mut object) => (
                object.expire_fields(now_ms, FIELDS_AT_ONCE, gone),
                object.is_empty(),
            ),
            None => (0, false),
        };
        expired.expired_fields += removed as u64;
        if expired.on {
            // SAFETY: the record is one of the table, which nobody else has.
            let key = unsafe { found.slot.key() }.into();
            expired.fields.push(ExpiredFields {
                db,
                key,
                names,
                emptied,
            });
        }
        if emptied {
            table.remove(seed, found);
        }
        removed
    }

    /// Whether expired keys are kept for [`Shard::take_expired`]. Whoever turns it on must take them after each
    /// use of the shard: the list holds what expired since.
    pub fn track_expired(&mut self, on: bool) {
        if self.expired.on == on {
            // What expired and was not taken yet stays.
            return;
        }
        self.expired = ExpiredLog {
            on,
            keys: Vec::new(),
            fields: Vec::new(),
            ..self.expired
        };
    }

    /// Hashes of which fields expired since the last call, if tracked.
    #[inline]
    pub fn take_expired_fields(&mut self) -> Vec<ExpiredFields> {
        std::mem::take(&mut self.expired.fields)
    }

    /// Whether [`Shard::take_expired`] or [`Shard::take_expired_fields`] has something to give.
    #[inline]
    pub fn has_expired(&self) -> bool {
        !self.expired.keys.is_empty() || !self.expired.fields.is_empty()
    }

    /// Keys that expired since the last call, if tracked.
    #[inline]
    pub fn take_expired(&mut self) -> Vec<Expired> {
        std::mem::take(&mut self.expired.keys)
    }
}
