//! The engine: shards, settings and counters shared by all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::vec;

use parking_lot::Mutex;
use tollgate_commands::{
    CmdError, Effects, Names, Row, StoreLimits, find, gate::Restrictions, resolve,
};
use tollgate_keyspace::{CasNumbers, DATABASES, DbIndex, EntryRef, Seed, Shard};
use tollgate_limiter::Timestamp;

use crate::access::Access;
use crate::cell::{Cell, Cells, One};
use crate::cluster::Cluster;
use crate::commit::Listeners;
use crate::costs::Costs;
use crate::garbage::Garbage;
use crate::held::with_held;
use crate::hot::HotKeys;
use crate::journal::Journal;
use crate::later::Later;
use crate::memory::Memory;
use crate::monitor::Monitors;
use crate::observe::Observer;
use crate::overview::LastSeen;
use crate::own::OwnKeys;
use crate::pause::Pause;
use crate::pubsub::PubSub;
use crate::script::{Functions, Scripts};
use crate::shards::Shards;
use crate::snapshot::Snapshots;
use crate::stats::{Counters, Stats};
use crate::tracking::Tracking;
use crate::waiter::Waiters;

/// How an engine is built.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Number of shards: a power of two.
    pub shards: usize,
    /// Seed of the key hash: secret, so that clients cannot make keys collide.
    pub seed: u64,
    /// Largest string value, bytes (`proto-max-bulk-len`).
    pub max_bulk_len: usize,
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            shards: 1024,
            seed: 0,
            max_bulk_len: 512 << 20,
        }
    }
}

/// The store: shared by every thread, no thread of its own.
pub struct Engine {
    pub(crate) shards: Shards,
    pub(crate) seed: Seed,
    pub(crate) limits: StoreLimits,
    pub(crate) counters: Counters,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) scripts: Scripts,
    pub(crate) pubsub: PubSub,
    pub(crate) functions: Functions,
    pub(crate) costs: Costs,
    pub(crate) listeners: Listeners,
    pub(crate) waiters: Waiters,
    pub(crate) access: Access,
    pub(crate) observer: Observer,
    pub(crate) tracking: Tracking,
    pub(crate) monitors: Monitors,
    /// Host and port of the last master that was followed.
    pub(crate) master: Mutex<Option<Arc<str>>>,
    pub(crate) memory: Memory,
    pub(crate) pause: Pause,
    pub(crate) hot: HotKeys,
    pub(crate) journal: Journal,
    pub(crate) cluster: Cluster,
    pub(crate) snapshots: Snapshots,
    pub(crate) own: OwnKeys,
    pub(crate) later: Later,
    pub(crate) last_seen: LastSeen,
    /// Bytes of the shards without any data.
    bare: usize,
    /// Where the active expiry continues.
    expire_cursor: AtomicUsize,
    /// The data are larger than a cache, so that looking ahead pays.
    pub(crate) deep: AtomicBool,
    /// `min-replicas-to-write` asks for replicas, of which there are none.
    pub(crate) lacks_replicas: AtomicBool,
    /// Scripts may call what they otherwise may not.
    pub(crate) all_from_scripts: AtomicBool,
}

/// Keys of one database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatabaseSize {
    /// All keys, expired ones that nobody met yet included.
    pub keys: usize,
    /// Keys with an expiry.
    pub expiring: usize,
}

/// What one step of the active expiry did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpireStep {
    /// Buckets looked at.
    pub examined: usize,
    /// Entries removed.
    pub removed: usize,
}

impl Engine {
    /// An empty store.
    ///
    /// # Panics
    ///
    /// When the number of shards is not a power of two.
    pub fn new(config: EngineConfig) -> Arc<Engine> {
        let seed = Seed::new(config.seed);
        let limits = StoreLimits::default();
        limits.set(
            "proto-max-bulk-len",
            i64::try_from(config.max_bulk_len).unwrap_or(i64::MAX),
        );
        let pause = Pause::default();
        let cas = CasNumbers::default();
        let garbage = Arc::new(Garbage::default());
        let make = || {
            let mut shard = Shard::new(&seed);
            shard.be_one_of(config.shards, &cas);
            shard.rest_with(pause.is_on());
            shard.bury_in(garbage.clone());
            shard
        };
        let bare = make().memory() * config.shards;
        Arc::new(Engine {
            shards: Shards::new(config.shards, make),
            limits,
            counters: Counters::new(),
            garbage,
            scripts: Scripts::new(),
            pubsub: PubSub::new(&seed),
            functions: Functions::default(),
            costs: Costs::new(&seed),
            listeners: Listeners::default(),
            waiters: Waiters::default(),
            access: Access::new(),
            observer: Observer::new(),
            tracking: Tracking::new(&seed),
            monitors: Monitors::default(),
            master: Mutex::default(),
            memory: Memory::default(),
            pause,
            hot: HotKeys::new(),
            journal: Journal::default(),
            cluster: Cluster::default(),
            snapshots: Snapshots::default(),
            own: OwnKeys::default(),
            later: Later::default(),
            last_seen: LastSeen::default(),
            bare,
            expire_cursor: AtomicUsize::new(0),
            deep: AtomicBool::new(false),
            lacks_replicas: AtomicBool::new(false),
            all_from_scripts: AtomicBool::new(false),
            seed,
        })
    }

    /// Limits and thresholds, which may be changed at any time.
    pub fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    /// Which client is to be told of which keys.
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    /// The slots of a cluster that are served here.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// CLIENT PAUSE.
    pub fn pause(&self) -> &Pause {
        &self.pause
    }

    /// Who sees all commands.
    pub fn monitors(&self) -> &Monitors {
        &self.monitors
    }

    /// Channels and who listens to them.
    pub fn pubsub(&self) -> &PubSub {
        &self.pubsub
    }

    /// What took long.
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Users and their permissions.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Number of shards.
    pub fn shard_count(&self) -> usize {
        self.shards.count()
    }

    /// Runs `f` on every shard in turn, each locked by itself; inside a transaction of this thread, on the shards as the
    /// transaction sees them.
    pub fn for_each_shard(&self, mut f: impl FnMut(&mut Shard)) {
        self.for_each_cell(&mut |cell| f(cell));
    }

    /// What `f` makes of the entry of `key`, looked at without a trace of an access.
    pub fn with_entry<T>(
        &self,
        db: DbIndex,
        key: &[u8],
        now_ms: i64,
        f: impl FnOnce(EntryRef<'_>) -> T,
    ) -> Option<T> {
        let key = self.seed.key(key);
        let index = key.shard(self.shards.count());
        with_held(|held| match held {
            Some(held) => {
                held.acquire(index);
                held.cell(index).look(db, key, now_ms).map(f)
            }
            None => self.shards.lock(index).look(db, key, now_ms).map(f),
        })
    }

    /// Whether writes are refused because too few replicas follow.
    pub fn refuse_writes_without_replicas(&self, on: bool) {
        self.lacks_replicas.store(on, Ordering::Relaxed);
    }

    /// DEBUG SET-DISABLE-DENY-SCRIPTS: whether scripts may call what they otherwise may not.
    pub fn allow_all_from_scripts(&self, on: bool) {
        self.all_from_scripts.store(on, Ordering::Relaxed);
    }

    /// At most so many scan steps of one shard, which is locked for them; returns the next cursor, 0 at the end. What has
    /// expired is shown like the rest.
    pub fn scan_some(
        &self,
        index: usize,
        db: DbIndex,
        cursor: u64,
        steps: usize,
        f: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> u64 {
        self.with_cell(index, |cell| {
            let mut cursor = cursor;
            for _ in 0..steps {
                cursor = cell.scan(db, cursor, i64::MIN, f);
                if cursor == 0 {
                    break;
                }
            }
            cursor
        })
    }

    /// What `f` makes of one cell.
    pub(crate) fn with_cell<T>(&self, index: usize, f: impl FnOnce(&mut Cell) -> T) -> T {
        with_held(|held| match held {
            Some(held) => {
                held.acquire(index);
                f(held.cell(index))
            }
            None => f(&mut self.shards.lock(index)),
        })
    }

    pub(crate) fn for_each_cell(&self, f: &mut dyn FnMut(&mut Cell)) {
        with_held(|held| match held {
            Some(held) => {
                for index in 0..self.shards.count() {
                    held.acquire(index);
                    f(held.cell(index));
                }
            }
            None => {
                for index in 0..self.shards.count() {
                    f(&mut self.shards.lock(index));
                }
            }
        });
    }

    /// As [`Engine::for_each_cell`], without those that long commands hold, whose numbers it gives.
    pub(crate) fn for_each_free_cell(&self, f: &mut dyn FnMut(&mut Cell)) -> vec::IntoIter<usize> {
        let mut left = Vec::new();
        with_held(|mut held| {
            for index in 0..self.shards.count() {
                if let Some(held) = &mut held {
                    match held.acquire_unless_kept(index) {
                        true => f(held.cell(index)),
                        false => left.push(index),
                    }
                } else if let Some(mut cell) = self.shards.lock_unless_kept(index) {
                    f(&mut cell);
                } else {
                    left.push(index);
                }
            }
        });
        left.into_iter()
    }

    /// Removes expired entries: looks at up to `budget` buckets, continuing where the last step, on whatever thread,
    /// stopped. Shards that are in use are left for the next round. While data are being read nothing goes: what follows in a
    /// file may give more time to what seems to be over.
    pub fn expire_step(&self, now: Timestamp, budget: usize) -> ExpireStep {
        let now_ms = now.millis();
        let mut step = ExpireStep::default();
        if self.restrictions().contains(Restrictions::CROWDED) || self.log_error().is_some() {
            // What goes would be handed over to a snapshot, or be recorded for a file that cannot be written.
            return step;
        }
        for _ in 0..self.shards.count() {
            if step.examined >= budget {
                break;
            }
            let index =
                self.expire_cursor.fetch_add(1, Ordering::Relaxed) & (self.shards.count() - 1);
            let Some(mut cell) = self.shards.try_lock(index) else {
                continue;
            };
            // Asked with the shard locked: who reads data says so before it changes one.
            if self.is_loading() {
                break;
            }
            let progress = cell.expire_cycle(now_ms, budget - step.examined);
            if progress.removed > 0 {
                self.tell_expired(index, &mut cell, now);
            }
            step.examined += progress.examined;
            step.removed += progress.removed;
        }
        step
    }

    /// Tells all who listen of what was just found expired in a shard, and serves those who wait.
    pub(crate) fn tell_expired(&self, index: usize, cell: &mut Cell, now: Timestamp) {
        let mut held = One::new(index, cell, &self.shards);
        self.announce(&Effects::new(), &mut held, 0);
        self.conclude_singly();
        self.settle(&mut held, now);
        if self.listeners.limits_memory() {
            self.count_held(&mut held);
        }
    }

    /// Keys of each database, as [`Engine::overview`] has them.
    pub fn database_sizes(&self) -> [DatabaseSize; DATABASES] {
        self.overview(None).databases
    }

    /// Bytes held by tables, keys and values, as [`Engine::overview`] has them.
    pub fn memory(&self) -> usize {
        self.overview(None).bytes
    }

    /// How many of them there are without any data.
    pub fn bare_memory(&self) -> usize {
        self.bare
    }

    /// Counters since the start, or since [`Engine::reset_stats`].
    pub fn stats(&self) -> Stats {
        let mut stats = self.counters.collect();
        let shards = self.overview(None);
        stats.hits = shards.hits;
        stats.misses = shards.misses;
        stats.expired = shards.expired;
        stats.expired_fields = shards.expired_fields;
        stats
    }

    /// Changes since the start, as [`Engine::stats`] has them; looks at no shard.
    pub fn changes(&self) -> u64 {
        self.counters.changes()
    }

    /// CONFIG RESETSTAT.
    pub fn reset_stats(&self) {
        self.counters.reset();
        self.garbage.reset();
        self.reset_evicted();
        self.journal.reset_stats();
        for shard in self.for_each_free_cell(&mut |cell| cell.reset_stats()) {
            self.reset_stats_of(shard);
        }
    }

    /// Scripts in the cache, and the bytes of their bodies.
    pub fn script_cache(&self) -> (usize, usize) {
        self.scripts.size()
    }

    /// Bytes that the Lua states of all threads hold, about: those of scripts alone, and those with functions.
    pub fn script_states_bytes(&self) -> [usize; 2] {
        crate::script::states_bytes()
    }

    /// Numbers of libraries and of functions.
    pub fn function_counts(&self) -> (usize, usize) {
        self.functions.size()
    }

    /// Sets who hears of `redis.log`: its level (0 debug to 3 warning) and text. The first to ask stays.
    pub fn on_script_log(&self, sink: impl Fn(u8, &[u8]) + Send + Sync + 'static) {
        self.scripts.set_log(Box::new(sink));
    }

    /// Gives commands other names, before anybody is served. The first to do so stays.
    pub fn set_names(&self, names: Names) {
        self.limits.set_names(names);
    }

    /// Whether every command has its own name.
    pub(crate) fn has_own_names(&self) -> bool {
        self.limits.names().is_none()
    }

    /// The row that runs `words`.
    #[inline]
    pub(crate) fn find(&self, words: &[&[u8]]) -> Option<&'static Row> {
        match self.limits.names() {
            None => find(words),
            Some(names) => names.find(words),
        }
    }

    /// The row that runs `words`.
    ///
    /// # Errors
    ///
    /// The reply for a command or sub-command that does not exist.
    pub fn resolve(&self, words: &[&[u8]]) -> Result<&'static Row, CmdError> {
        match self.limits.names() {
            None => resolve(words),
            Some(names) => names.resolve(words),
        }
    }

    /// As [`resolve`](Self::resolve), for what a journal holds: see [`Names::resolve_any`].
    pub(crate) fn resolve_any(&self, words: &[&[u8]]) -> Result<&'static Row, CmdError> {
        match self.limits.names() {
            None => resolve(words),
            Some(names) => names.resolve_any(words),
        }
    }

    /// Sets after how many milliseconds a script makes the server busy; 0 or less: never.
    pub fn set_busy_reply_threshold(&self, millis: i64) {
        self.scripts.long.set_busy_after(millis);
    }

    /// Sets after how many milliseconds a script is ended, whatever it has changed; 0 or less: never.
    pub fn set_script_time_limit(&self, millis: i64) {
        self.scripts.long.set_end_after(millis);
    }

    /// What keeps the server from taking commands other than those that end it.
    pub fn busy(&self) -> Option<tollgate_commands::gate::Busy> {
        self.scripts.long.busy()
    }

    /// Ends the scripts that run, with an error, and refuses new ones: for shutdown.
    pub fn stop_scripts(&self) {
        self.scripts.stop();
    }
}
