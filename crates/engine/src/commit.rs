//! The commit step: who hears of what a command has changed.
//!
//! Handlers log their changes in [`Effects`]; here, the shards still locked, the changes reach the versions of watched
//! keys, those who wait for a key, keyspace notifications and client tracking. When nobody listens none of it runs, and
//! handlers do not even copy the keys.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_commands::{Effects, Event};
use tollgate_keyspace::{DbIndex, ExpiredFields};

use crate::Engine;
use crate::cell::{Cell, Cells, ReadyKey, name, note_ready, parts};
use crate::held::with_held;
use crate::notify::Notify;
use crate::serve::may_satisfy;
use crate::{Place, Subscriber, Tracker, TrackingOptions};

/// Somebody tracks keys.
const TRACKING: u32 = 1 << 30;
/// Changes are recorded for replicas.
const JOURNAL: u32 = 1 << 28;
/// Changes are recorded for the append-only file.
const LOG: u32 = 1 << 27;
/// What clients of a replica let expire is noted.
const OWN: u32 = 1 << 26;
/// Memory is limited.
const LIMITED: u32 = 1 << 29;
/// Waiters were put off.
const PUT_OFF: u32 = 1 << 31;

/// What is no class of notifications.
const OTHERS: u32 = TRACKING | JOURNAL | LOG | OWN | LIMITED | PUT_OFF;

/// Who listens, in one word that every command reads.
#[derive(Default)]
pub(crate) struct Listeners {
    /// Classes of notifications, and the flags above.
    flags: AtomicU32,
    /// Threads that change the flags, and have the shards follow.
    changing: AtomicUsize,
    put_off: Mutex<VecDeque<ReadyKey>>,
}

/// Whether somebody listens to every change.
#[inline]
fn hears_all(flags: u32) -> bool {
    flags & !(PUT_OFF | LIMITED) != 0
}

impl Listeners {
    /// Whether somebody listens to every change.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        hears_all(self.flags.load(Ordering::Relaxed))
    }

    /// Whether nobody listens to anything, nothing is counted, and nobody is to be served.
    #[inline]
    pub(crate) fn are_silent(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
    }

    /// Whether somebody wants to know of every key that expires.
    pub(crate) fn hear_expired(&self) -> bool {
        self.any()
    }

    /// Whether changes are recorded, and nobody else listens to every change.
    #[inline]
    pub(crate) fn only_records(&self) -> bool {
        let flags = self.flags.load(Ordering::Relaxed) & !(PUT_OFF | LIMITED);
        flags != 0 && flags & !(JOURNAL | LOG) == 0
    }

    fn notify(&self) -> Notify {
        Notify::from_bits(self.flags.load(Ordering::Relaxed) & !OTHERS)
    }

    /// Whether somebody tracks keys.
    #[inline]
    pub(crate) fn tracking(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TRACKING != 0
    }

    /// Whether changes are recorded, for replicas or the append-only file.
    #[inline]
    pub(crate) fn journals(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (JOURNAL | LOG) != 0
    }

    /// Whether changes are recorded for replicas.
    #[inline]
    pub(crate) fn replicates(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & JOURNAL != 0
    }

    /// Whether changes are recorded for the append-only file.
    #[inline]
    pub(crate) fn logs(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & LOG != 0
    }

    /// Whether what clients of a replica let expire is noted.
    #[inline]
    pub(crate) fn notes_own(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & OWN != 0
    }

    /// Whether memory is limited.
    #[inline]
    pub(crate) fn limits_memory(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & LIMITED != 0
    }

    pub(crate) fn limit_memory(&self, on: bool) {
        if on {
            self.flags.fetch_or(LIMITED, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!LIMITED, Ordering::Relaxed);
        }
    }

    /// Whether waiters are to be served after the locks are released.
    #[inline]
    pub(crate) fn has_put_off(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & PUT_OFF != 0
    }

    /// Notes a key whose waiters are to be served later, once: who looks after its wait while a long command goes on comes often.
    pub(crate) fn put_off(&self, key: ReadyKey) {
        let mut keys = self.put_off.lock();
        if !keys.contains(&key) {
            keys.push_back(key);
        }
        self.flags.fetch_or(PUT_OFF, Ordering::Relaxed);
    }

    pub(crate) fn take_put_off(&self) -> VecDeque<ReadyKey> {
        let mut keys = self.put_off.lock();
        self.flags.fetch_and(!PUT_OFF, Ordering::Relaxed);
        std::mem::take(&mut *keys)
    }
}

impl Engine {
    /// `notify-keyspace-events`.
    pub fn set_notify(&self, notify: Notify) {
        self.listen(|flags| flags & OTHERS | notify.bits());
    }

    /// Begins to track keys for a client, or changes how; see [`crate::Tracking::enable`].
    pub fn track(
        &self,
        client: Arc<dyn Subscriber>,
        options: TrackingOptions,
        prefixes: &[&[u8]],
    ) -> Arc<Tracker> {
        let tracker = self.tracking.enable(client, options, prefixes);
        self.follow_tracking();
        tracker
    }

    /// Ends it; see [`crate::Tracking::disable`].
    pub fn untrack(&self, id: u64, prefixes: &[Box<[u8]>]) {
        self.tracking.disable(id, prefixes);
        self.follow_tracking();
    }

    /// A connection has ended: what nobody can be told of any more is forgotten.
    pub fn forget_tracked(&self) {
        if self.listeners.tracking() {
            self.tracking.forget();
            self.follow_tracking();
        }
    }

    /// Has changes heard while there is a client that tracks. Others may begin or end at the same time; whoever is last
    /// sees what is true.
    fn follow_tracking(&self) {
        while self.tracking.is_active() != self.listeners.tracking() {
            self.listen_for(TRACKING, self.tracking.is_active());
        }
    }

    /// Has changes recorded for replicas, or no more.
    pub(crate) fn listen_for_journal(&self, on: bool) {
        self.listen_for(JOURNAL, on);
    }

    /// Has changes recorded for the append-only file, or no more.
    pub(crate) fn listen_for_log(&self, on: bool) {
        self.listen_for(LOG, on);
    }

    /// Has what clients of a replica let expire noted, or no more.
    pub(crate) fn listen_for_own(&self, on: bool) {
        self.listen_for(OWN, on);
    }

    /// Has this thread gather what it appends for replicas until [`Engine::deliver_journal`], so that what many commands
    /// have done is sent together. To be called only by who calls that one soon, before it waits for anything.
    #[inline]
    pub fn gather_journal(&self) {
        if self.listeners.replicates() {
            self.journal.gather();
        }
    }

    /// Sends what this thread has gathered for replicas.
    #[inline]
    pub fn deliver_journal(&self) {
        self.journal.deliver();
    }

    /// Appends what this thread has recorded, each command by itself: keys that were found expired.
    #[inline]
    pub(crate) fn conclude_singly(&self) {
        if self.listeners.journals() {
            self.journal.conclude(false);
        }
    }

    /// Appends what this thread has recorded as one transaction.
    #[inline]
    pub(crate) fn conclude(&self) {
        if self.listeners.journals() {
            self.journal.conclude(true);
        }
    }

    /// Adds one kind of listener, or takes it away.
    fn listen_for(&self, kind: u32, on: bool) {
        self.listen(|flags| if on { flags | kind } else { flags & !kind });
    }

    /// Changes who listens; afterwards all shards know of it that no long command holds.
    fn listen(&self, mut set: impl FnMut(u32) -> u32) {
        let Listeners {
            flags, changing, ..
        } = &self.listeners;
        // Told before the flags change, so that whoever finds them changed already knows whether the shards may not be.
        changing.fetch_add(1, Ordering::AcqRel);
        let (Ok(before) | Err(before)) =
            flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, |flags| {
                Some(set(flags))
            });
        let is_other = hears_all(before) != self.listeners.hear_expired();
        let mut follows = is_other || changing.load(Ordering::Acquire) > 1;
        // Others may do so at the same time; whoever is last sees what is true.
        while follows {
            let on = self.listeners.hear_expired();
            with_held(|held| self.shards.hear_expired(on, held));
            follows = self.listeners.hear_expired() != on;
        }
        changing.fetch_sub(1, Ordering::AcqRel);
    }

    /// Tells everybody who listens of the changes of a command, its cells held. `client` has made them.
    #[cold]
    pub(crate) fn announce<H: Cells + ?Sized>(&self, effects: &Effects, held: &mut H, client: u64) {
        let heard = held.is_heard();
        let mut ready = std::mem::take(held.ready());
        held.each(&mut |index, cell| self.announce_expired(index, cell, &mut ready));
        let mut is_new = false;
        for touch in effects.touches() {
            // A miss is no change, and a new key is told of again by what has made it.
            if matches!(touch.event, Event::KeyMiss | Event::New) {
                is_new = touch.event == Event::New;
                self.publish(touch.db, touch.key, touch.event);
                continue;
            }
            let changes = std::mem::take(&mut is_new) || touch.event.changes_value();
            if heard {
                let index = self.seed.key(touch.key).shard(self.shards.count());
                let name = name(touch.db, touch.key);
                let cell = held.cell(index);
                let awaited = match changes {
                    true => cell.changed(&name),
                    false => cell.is_awaited(&name),
                };
                if awaited && may_satisfy(touch.event) && self.is_ready(cell, &name) {
                    note_ready(&mut ready, &name, index);
                }
            }
            match changes {
                true => self.tell(client, touch.db, touch.key, touch.event),
                false => self.publish(touch.db, touch.key, touch.event),
            }
        }
        *held.ready() = ready;
    }

    /// Tells of keys of several cells that a command has found expired, in the order in which its words name them.
    #[cold]
    pub(crate) fn announce_as_named<H: Cells + ?Sized>(&self, words: &[&[u8]], held: &mut H) {
        let mut cells = Vec::new();
        held.each(&mut |index, cell| {
            if cell.has_expired() {
                cells.push(index);
            }
        });
        if cells.len() < 2 {
            return;
        }
        let mut ready = std::mem::take(held.ready());
        for word in words.iter().skip(1) {
            let index = self.seed.key(word).shard(self.shards.count());
            if cells.contains(&index) {
                self.announce_expired(index, held.cell(index), &mut ready);
            }
        }
        *held.ready() = ready;
    }

    /// Tells of the keys of a cell that have expired since it was last asked.
    pub(crate) fn announce_expired(
        &self,
        index: usize,
        cell: &mut Cell,
        ready: &mut Vec<ReadyKey>,
    ) {
        for (db, key) in cell.take_expired() {
            let name = name(db, &key);
            if cell.changed(&name) && self.is_ready(cell, &name) {
                note_ready(ready, &name, index);
            }
            self.record_gone(db, &key);
            self.tell(0, db, &key, Event::Expired);
        }
        for gone in cell.take_expired_fields() {
            let ExpiredFields { db, ref key, .. } = gone;
            // Nobody waits for a hash.
            cell.changed(&name(db, key));
            self.record_fields(&gone);
            self.tell(0, db, key, Event::HExpired);
            if gone.emptied {
                self.tell(0, db, key, Event::Del);
            }
        }
    }

    /// Tells those who track keys that databases were emptied; what is left of those who did is forgotten too, and so are the
    /// keys that clients of a replica let expire.
    #[cold]
    pub(crate) fn announce_flushed(&self) {
        self.tracking.flushed();
        self.own.clear();
    }

    pub(crate) fn tell(&self, client: u64, db: DbIndex, key: &[u8], event: Event) {
        if self.listeners.tracking() {
            // Evictions make room before a command runs.
            let place = match event {
                Event::Evicted => Place::BeforeReply,
                _ => Place::AfterReply,
            };
            self.tracking.changed_at(client, key, place);
        }
        self.publish(db, key, event);
    }

    /// Publishes a keyspace notification, if its class is wanted.
    fn publish(&self, db: DbIndex, key: &[u8], event: Event) {
        let notify = self.listeners.notify();
        if !notify.wants(event.class()) {
            return;
        }
        let (db, event) = (db.get(), event.name());
        if notify.keyspace() {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.pubsub.publish(&channel, event.as_bytes());
        }
        if notify.keyevent() {
            let channel = format!("__keyevent@{db}__:{event}");
            self.pubsub.publish(channel.as_bytes(), key);
        }
    }

    /// Runs `f` on a held cell, for a command that walks the keyspace. `writes`: it may empty or exchange databases.
    #[inline]
    pub(crate) fn visit(
        &self,
        held: &mut dyn Cells,
        index: usize,
        writes: bool,
        now_ms: i64,
        f: &mut dyn FnMut(&mut tollgate_keyspace::Shard),
    ) {
        let cell = held.cell(index);
        if cell.is_heard() || self.listeners.any() {
            self.visit_heard(held, index, writes, now_ms, f);
        } else {
            f(cell);
        }
        if writes && self.listeners.limits_memory() {
            self.count_memory(held.cell(index));
        }
    }

    #[cold]
    fn visit_heard(
        &self,
        held: &mut dyn Cells,
        index: usize,
        writes: bool,
        now_ms: i64,
        f: &mut dyn FnMut(&mut tollgate_keyspace::Shard),
    ) {
        let mut ready = std::mem::take(held.ready());
        let cell = held.cell(index);
        if writes && cell.has_expired() {
            // As long as its database is called what it was when it went.
            self.announce_expired(index, cell, &mut ready);
        }
        cell.take_replaced();
        // What has expired and is still there goes with a change: had its time been over when it was watched, it would not be.
        let before = if writes {
            cell.survey(&self.seed, i64::MIN)
        } else {
            Vec::new()
        };
        f(cell);
        let replaced = cell.take_replaced();
        if replaced != 0 {
            let of_replaced = |name: &[u8]| replaced & 1 << parts(name).0.get() != 0;
            // A watched key whose time was over when it came is as good as absent, so it goes without a change.
            for name in cell.watched().iter().filter(|name| of_replaced(name)) {
                let (db, key) = parts(name);
                cell.peek(db, self.seed.key(key), now_ms);
            }
            for (db, key) in cell.take_expired() {
                // Recorded before the exchange, when its database was the other one.
                self.record_gone(exchanged(replaced, db), &key);
                self.tell(0, db, &key, Event::Expired);
            }
            let after = cell.survey(&self.seed, now_ms);
            let mut touched: Vec<_> = before.into_iter().chain(after).collect();
            touched.sort_unstable();
            touched.dedup();
            for name in touched.iter().filter(|name| of_replaced(name)) {
                cell.changed(name);
            }
            for name in cell.awaited().iter().filter(|name| of_replaced(name)) {
                if self.is_ready(cell, name) {
                    note_ready(&mut ready, name, index);
                }
            }
        }
        self.announce_expired(index, held.cell(index), &mut ready);
        *held.ready() = ready;
    }
}

/// What a database was called before two were exchanged, which are those of `replaced`; of databases that were emptied there
/// is nothing to name.
fn exchanged(replaced: u16, db: DbIndex) -> DbIndex {
    let others = replaced & !(1 << db.get());
    match (replaced.count_ones(), others.count_ones()) {
        (2, 1) => DbIndex::new(others.trailing_zeros() as usize).unwrap_or(db),
        _ => db,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::EngineConfig;
    use tollgate_keyspace::ValueRef;

    /// Whether a shard remembers what it finds expired.
    fn hears(engine: &Engine, cell: &mut Cell) -> bool {
        let key = engine.seed.key(b"k");
        let value = ValueRef::Bytes(b"v").to_value();
        cell.set(DbIndex::ZERO, key, value, Some(10), 0);
        assert!(cell.get_mut(DbIndex::ZERO, key, 20).is_none());
        !cell.take_expired().is_empty()
    }

    #[test]
    fn all_shards_hear_whoever_has_begun_to_listen_though_another_one_is_just_beginning() {
        let engine = Engine::new(EngineConfig {
            shards: 2,
            ..EngineConfig::default()
        });
        let mut shard = engine.shards.lock(1);
        let (one, two) = (Arc::clone(&engine), Arc::clone(&engine));
        let first = thread::spawn(move || one.listen_for_journal(true));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !engine.listeners.any() {
            assert!(Instant::now() < deadline, "nobody listens");
            thread::yield_now();
        }
        let (tell, told) = channel();
        let second = thread::spawn(move || {
            two.listen_for_log(true);
            tell.send(()).ok();
        });
        let returned = told.recv_timeout(Duration::from_millis(500)).is_ok();
        let missed = returned && !hears(&engine, &mut shard);
        assert!(!missed, "it has begun and does not hear");
        drop(shard);
        first.join().expect("no panic");
        second.join().expect("no panic");
        for index in 0..2 {
            assert!(hears(&engine, &mut engine.shards.lock(index)));
        }
    }
}
