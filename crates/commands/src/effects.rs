//! What a command changed, for those who must hear of it.
//!
//! The one commit step of the engine hands this to WATCH versions, client tracking, keyspace
//! notifications, blocked clients and the journal. When none of them listens, a change costs one
//! addition.

use smallvec::SmallVec;
use tollgate_keyspace::{DbIndex, Value};

/// The class of an event, by which `notify-keyspace-events` selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the class of that name")]
pub enum EventClass {
    Generic,
    String,
    List,
    Set,
    Hash,
    SortedSet,
    Stream,
    Expired,
    Evicted,
    /// A key was not found by a command that reads.
    KeyMiss,
    /// A key has come to be.
    New,
    RateLimit,
}

/// Declares [`Event`]: variant, name in notifications, class.
macro_rules! events {
    ($($variant:ident = $name:literal $class:ident,)*) => {
        /// What happened to a key; the names are those of keyspace notifications.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "each variant is the notification of that name")]
        pub enum Event {
            $($variant,)*
        }

        impl Event {
            /// As keyspace notifications print it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Event::$variant => $name,)*
                }
            }

            /// Its class.
            pub const fn class(self) -> EventClass {
                match self {
                    $(Event::$variant => EventClass::$class,)*
                }
            }

            /// Whether the value is another one afterwards. Consumer groups, and where a stream counts on, are not what is
            /// watched or tracked: as in Redis, nobody's copy of the key is stale because of them.
            pub const fn changes_value(self) -> bool {
                !matches!(
                    self,
                    Event::KeyMiss
                        | Event::New
                        | Event::XSetId
                        | Event::XGroupCreate
                        | Event::XGroupSetId
                        | Event::XGroupDestroy
                        | Event::XGroupCreateConsumer
                        | Event::XGroupDelConsumer
                )
            }
        }
    };
}

events! {
    Del = "del" Generic,
    Expire = "expire" Generic,
    Persist = "persist" Generic,
    RenameFrom = "rename_from" Generic,
    RenameTo = "rename_to" Generic,
    CopyTo = "copy_to" Generic,
    MoveFrom = "move_from" Generic,
    MoveTo = "move_to" Generic,
    Restore = "restore" Generic,
    KeyMiss = "keymiss" KeyMiss,
    New = "new" New,
    Expired = "expired" Expired,
    Evicted = "evicted" Evicted,
    Set = "set" String,
    Append = "append" String,
    SetRange = "setrange" String,
    SetBit = "setbit" String,
    IncrBy = "incrby" String,
    IncrByFloat = "incrbyfloat" String,
    PfAdd = "pfadd" String,
    LPush = "lpush" List,
    RPush = "rpush" List,
    LPop = "lpop" List,
    RPop = "rpop" List,
    LInsert = "linsert" List,
    LSet = "lset" List,
    LRem = "lrem" List,
    LTrim = "ltrim" List,
    SortStore = "sortstore" List,
    SAdd = "sadd" Set,
    SRem = "srem" Set,
    SPop = "spop" Set,
    SInterStore = "sinterstore" Set,
    SUnionStore = "sunionstore" Set,
    SDiffStore = "sdiffstore" Set,
    HSet = "hset" Hash,
    HDel = "hdel" Hash,
    HIncrBy = "hincrby" Hash,
    HIncrByFloat = "hincrbyfloat" Hash,
    HExpire = "hexpire" Hash,
    HPersist = "hpersist" Hash,
    HExpired = "hexpired" Hash,
    ZAdd = "zadd" SortedSet,
    ZIncr = "zincr" SortedSet,
    ZRem = "zrem" SortedSet,
    ZRemByRank = "zremrangebyrank" SortedSet,
    ZRemByScore = "zremrangebyscore" SortedSet,
    ZRemByLex = "zremrangebylex" SortedSet,
    ZPopMin = "zpopmin" SortedSet,
    ZPopMax = "zpopmax" SortedSet,
    ZRangeStore = "zrangestore" SortedSet,
    ZUnionStore = "zunionstore" SortedSet,
    ZInterStore = "zinterstore" SortedSet,
    ZDiffStore = "zdiffstore" SortedSet,
    GeoSearchStore = "geosearchstore" SortedSet,
    GeoRadiusStore = "georadiusstore" SortedSet,
    XAdd = "xadd" Stream,
    XDel = "xdel" Stream,
    XTrim = "xtrim" Stream,
    XSetId = "xsetid" Stream,
    XGroupCreate = "xgroup-create" Stream,
    XGroupSetId = "xgroup-setid" Stream,
    XGroupDestroy = "xgroup-destroy" Stream,
    XGroupCreateConsumer = "xgroup-createconsumer" Stream,
    XGroupDelConsumer = "xgroup-delconsumer" Stream,
    RateLimit = "ratelimit" RateLimit,
}

/// One change of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch<'a> {
    /// Database of the key.
    pub db: DbIndex,
    /// The key.
    pub key: &'a [u8],
    /// What happened.
    pub event: Event,
}

/// A field of a hash that a command found past its time, and removed before it did what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoneField {
    /// Database of the hash.
    pub db: DbIndex,
    /// Its key.
    pub key: Box<[u8]>,
    /// The name of the field.
    pub name: Box<[u8]>,
}

#[derive(Clone, Copy)]
struct Record {
    db: DbIndex,
    event: Event,
    /// Where the key is in the arena.
    start: usize,
    end: usize,
}

/// What one command changed. Most change nothing that anybody listens to, so the log is made when it is needed.
#[derive(Default)]
pub struct Effects {
    dirty: u64,
    listening: bool,
    log: Option<Box<Log>>,
}

/// Events that fit without a further allocation, and bytes of their keys.
const INLINE_RECORDS: usize = 2;
const INLINE_KEYS: usize = 64;

#[derive(Default)]
struct Log {
    records: SmallVec<[Record; INLINE_RECORDS]>,
    /// The keys of the records, one behind the other.
    arena: SmallVec<[u8; INLINE_KEYS]>,
    flushed: Vec<DbIndex>,
    discarded: Vec<Value>,
    gone_fields: Vec<GoneField>,
}

impl Effects {
    /// Nothing changed, nobody listens.
    pub fn new() -> Effects {
        Effects::default()
    }

    /// Whether touched keys are kept, or only counted.
    pub fn set_listening(&mut self, listening: bool) {
        self.listening = listening;
    }

    /// Changes since [`Effects::clear`].
    #[inline]
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Touched keys in the order of their changes; empty when nobody listens.
    pub fn touches(&self) -> impl Iterator<Item = Touch<'_>> {
        self.log.iter().flat_map(|log| {
            log.records.iter().map(|record| Touch {
                db: record.db,
                key: &log.arena[record.start..record.end],
                event: record.event,
            })
        })
    }

    /// Fields that had to go before the command: whoever repeats it elsewhere must remove them first, since it is not for
    /// the clock there to say that they are past their time. Kept whoever listens.
    #[inline]
    pub fn gone_fields(&self) -> &[GoneField] {
        self.log.as_ref().map_or(&[], |log| &log.gone_fields)
    }

    /// Logs that a field was past its time. Who listens hears of it once a command and key, as in Redis.
    #[cold]
    pub(crate) fn field_gone(&mut self, db: DbIndex, key: &[u8], name: &[u8]) {
        let told = self
            .touches()
            .any(|touch| touch.event == Event::HExpired && touch.db == db && touch.key == key);
        match told {
            true => self.dirty += 1,
            false => self.touch(db, key, Event::HExpired),
        }
        self.log().gone_fields.push(GoneField {
            db,
            key: key.into(),
            name: name.into(),
        });
    }

    /// Databases that were emptied.
    pub fn flushed(&self) -> &[DbIndex] {
        self.log.as_ref().map_or(&[], |log| &log.flushed)
    }

    /// Leaves a removed value to be freed when nothing is locked.
    pub(crate) fn discard(&mut self, value: Value) {
        self.log().discarded.push(value);
    }

    fn log(&mut self) -> &mut Log {
        self.log.get_or_insert_default()
    }

    /// Whether there are values to be freed later.
    #[inline]
    pub fn has_discarded(&self) -> bool {
        self.log
            .as_ref()
            .is_some_and(|log| !log.discarded.is_empty())
    }

    /// The values to be freed later.
    #[inline]
    pub fn take_discarded(&mut self) -> Vec<Value> {
        match &mut self.log {
            Some(log) => std::mem::take(&mut log.discarded),
            None => Vec::new(),
        }
    }

    /// Forgets the changes, for the next command.
    #[inline]
    pub fn clear(&mut self) {
        self.dirty = 0;
        if let Some(log) = &mut self.log {
            log.clear();
        }
    }

    /// Logs one change of one key.
    #[inline]
    pub(crate) fn touch(&mut self, db: DbIndex, key: &[u8], event: Event) {
        self.dirty += 1;
        if self.listening {
            self.record(db, key, event);
        }
    }

    /// Counts changes that no event tells of.
    pub(crate) fn count(&mut self, changes: u64) {
        self.dirty += changes;
    }

    /// Logs a second event of a change that is logged already.
    #[inline]
    pub(crate) fn note(&mut self, db: DbIndex, key: &[u8], event: Event) {
        if self.listening {
            self.record(db, key, event);
        }
    }

    #[cold]
    fn record(&mut self, db: DbIndex, key: &[u8], event: Event) {
        let log = self.log();
        let record = log.keep(db, key, event);
        log.records.push(record);
    }

    /// Logs that a command which reads did not find the key.
    #[inline]
    pub(crate) fn missed(&mut self, db: DbIndex, key: &[u8]) {
        if self.listening {
            self.record(db, key, Event::KeyMiss);
        }
    }

    /// Whether touched keys are kept.
    #[inline]
    pub fn is_listening(&self) -> bool {
        self.listening
    }

    /// Where the news of a key that was moved goes: before that of its leaving, which is logged already.
    pub(crate) fn mark_of_move(&self) -> usize {
        let leaving =
            |record: &&Record| matches!(record.event, Event::RenameFrom | Event::MoveFrom);
        let records = self.records();
        records.len() - usize::from(records.last().filter(leaving).is_some())
    }

    fn records(&self) -> &[Record] {
        self.log.as_ref().map_or(&[], |log| &log.records)
    }

    /// How many events are logged.
    pub(crate) fn mark(&self) -> usize {
        self.records().len()
    }

    /// Logs that a key has come to be, before the events since `mark`.
    pub(crate) fn created(&mut self, mark: usize, db: DbIndex, key: &[u8]) {
        if self.listening {
            let log = self.log();
            let record = log.keep(db, key, Event::New);
            log.records.insert(mark, record);
        }
    }

    /// Logs that a key went because memory was short.
    pub fn evicted(&mut self, db: DbIndex, key: &[u8]) {
        self.record(db, key, Event::Evicted);
    }

    /// Logs that a decision of the service changed a limiter.
    pub fn limited(&mut self, db: DbIndex, key: &[u8]) {
        self.record(db, key, Event::RateLimit);
    }

    /// Logs that two databases were exchanged.
    pub(crate) fn exchanged(&mut self) {
        self.dirty += 1;
    }

    /// Logs that a database was emptied of `removed` keys.
    pub(crate) fn flush(&mut self, db: DbIndex, removed: usize) {
        self.dirty += removed as u64;
        if removed > 0 {
            self.log().flushed.push(db);
        }
    }
}

impl Log {
    #[cold]
    fn clear(&mut self) {
        self.records.clear();
        self.arena.clear();
        self.flushed.clear();
        self.gone_fields.clear();
    }

    fn keep(&mut self, db: DbIndex, key: &[u8], event: Event) -> Record {
        let start = self.arena.len();
        self.arena.extend_from_slice(key);
        Record {
            db,
            event,
            start,
            end: self.arena.len(),
        }
    }
}
