//! Client tracking: who has read which keys, and telling them when those keys change.
//!
//! A key is remembered by whoever reads it and forgotten, with a message, by whoever changes it while its shard is locked.
//! So no change is missed: the message is queued behind the reply that holds the older value.
//!
//! Clients in broadcast mode are told of all keys with a prefix, whether they have read them or not. Their messages are
//! put together until the end of the event loop's turn ([`Tracking::flush_broadcasts`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use smallvec::SmallVec;
use tollgate_commands::{Row, keys_of};
use tollgate_keyspace::Seed;
use tollgate_wire::resp::{Protocol, ReplyBuf};

use crate::subscriber::{Message, Place, Subscriber};

/// Parts of the table that are locked by themselves; a power of two.
const PARTS: usize = 64;
/// Keys given up at a time when there are too many, so that nobody holds a lock for long.
const EFFORT: usize = 100;
/// The channel of invalidations in RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Numbers of clients, ascending.
type Readers = SmallVec<[u64; 2]>;
/// One part of the table: the readers of each key.
type Part = HashMap<Box<[u8]>, Readers>;

/// How a client tracks keys.
#[derive(Debug, Default, Clone)]
pub struct TrackingOptions {
    /// Who gets the messages; the client itself when `None`.
    pub redirect: Option<Arc<dyn Subscriber>>,
    /// Told of all keys with one of its prefixes.
    pub broadcast: bool,
    /// Only keys read after CLIENT CACHING YES.
    pub opt_in: bool,
    /// Not keys read after CLIENT CACHING NO.
    pub opt_out: bool,
    /// Not told of its own changes.
    pub no_loop: bool,
}

/// A client that tracks keys.
#[derive(Debug)]
pub struct Tracker {
    client: Arc<dyn Subscriber>,
    options: TrackingOptions,
    /// The client that gets the messages is gone.
    broken: AtomicBool,
    /// CLIENT CACHING was sent for the next command.
    caching: AtomicBool,
}

impl Tracker {
    /// How it tracks.
    pub fn options(&self) -> &TrackingOptions {
        &self.options
    }

    /// The client that was to get the messages is gone, and a message was lost.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// CLIENT CACHING: the keys of the next command are tracked, or are not.
    pub fn set_caching(&self, on: bool) {
        self.caching.store(on, Ordering::Relaxed);
    }

    /// Whether CLIENT CACHING was sent for the next command.
    pub fn is_caching(&self) -> bool {
        self.caching.load(Ordering::Relaxed)
    }

    /// Sends what is stale: `keys` writes it.
    fn send(&self, keys: &Message<impl Fn(&mut ReplyBuf)>) {
        self.send_at(keys, Place::AfterReply);
    }

    fn send_at(&self, keys: &Message<impl Fn(&mut ReplyBuf)>, place: Place) {
        let Some(target) = &self.options.redirect else {
            if self.client.protocol() == Protocol::Resp3 {
                keys.send(&*self.client, place);
            }
            return;
        };
        if !target.is_open() {
            self.broken.store(true, Ordering::Relaxed);
            if self.client.protocol() == Protocol::Resp3 {
                let id = target.id() as i64;
                let broken = Message::new(|out: &mut ReplyBuf| {
                    out.push(2);
                    out.bulk(b"tracking-redir-broken");
                    out.int(id);
                });
                broken.send(&*self.client, place);
            }
            return;
        }
        match target.protocol() {
            Protocol::Resp3 => keys.send(&**target, place),
            Protocol::Resp2 => target.deliver_while_subscribed(keys.bytes(Protocol::Resp2), place),
        }
    }
}

/// An invalidation; `keys` writes the keys.
fn invalidation(keys: impl Fn(&mut ReplyBuf)) -> Message<impl Fn(&mut ReplyBuf)> {
    Message::new(move |out: &mut ReplyBuf| {
        match out.protocol() {
            Protocol::Resp3 => {
                out.push(2);
                out.bulk(b"invalidate");
            }
            Protocol::Resp2 => {
                out.array(3);
                out.bulk(b"message");
                out.bulk(CHANNEL);
            }
        }
        keys(out);
    })
}

/// Broadcast mode.
#[derive(Default)]
struct Broadcasts {
    prefixes: BTreeMap<Box<[u8]>, BTreeSet<u64>>,
    /// Lengths of the prefixes, and how many have each.
    lengths: BTreeMap<usize, usize>,
}

impl Broadcasts {
    fn add(&mut self, prefix: &[u8], id: u64) {
        let clients = self.prefixes.entry(prefix.into()).or_insert_with(|| {
            *self.lengths.entry(prefix.len()).or_default() += 1;
            BTreeSet::new()
        });
        clients.insert(id);
    }

    fn remove(&mut self, prefix: &[u8], id: u64) {
        let Some(clients) = self.prefixes.get_mut(prefix) else {
            return;
        };
        clients.remove(&id);
        if clients.is_empty() {
            self.prefixes.remove(prefix);
            if let Some(count) = self.lengths.get_mut(&prefix.len()) {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&prefix.len());
                }
            }
        }
    }

    /// The prefixes that the key has.
    fn of<'k>(&self, key: &'k [u8]) -> impl Iterator<Item = &'k [u8]> {
        let lengths = self.lengths.range(..=key.len());
        let prefixes = lengths.map(|(&len, _)| &key[..len]);
        prefixes.filter(|prefix| self.prefixes.contains_key(*prefix))
    }
}

/// Keys with a prefix that have changed, and the client that changed each; 0 = none.
type Pending = BTreeMap<Box<[u8]>, BTreeMap<Box<[u8]>, u64>>;

/// Which client is to be told of which keys.
pub struct Tracking {
    parts: Box<[Mutex<Part>]>,
    seed: Seed,
    clients: RwLock<HashMap<u64, Arc<Tracker>>>,
    /// Clients that track.
    count: AtomicUsize,
    /// Keys in the table.
    keys: AtomicUsize,
    /// Pairs of key and client in the table.
    items: AtomicUsize,
    /// Most keys in the table.
    most: AtomicUsize,
    broadcasts: RwLock<Broadcasts>,
    pending: Mutex<Pending>,
    has_pending: AtomicBool,
}

impl Tracking {
    pub(crate) fn new(seed: &Seed) -> Tracking {
        Tracking {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            seed: seed.clone(),
            clients: RwLock::default(),
            count: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            most: AtomicUsize::new(usize::MAX),
            broadcasts: RwLock::default(),
            pending: Mutex::default(),
            has_pending: AtomicBool::new(false),
        }
    }

    /// Begins tracking for a client, or changes how it tracks. `prefixes` are added to those it has; in broadcast mode
    /// without any it is told of all keys.
    pub fn enable(
        &self,
        client: Arc<dyn Subscriber>,
        options: TrackingOptions,
        prefixes: &[&[u8]],
    ) -> Arc<Tracker> {
        let id = client.id();
        if options.broadcast {
            let mut broadcasts = write(&self.broadcasts);
            if prefixes.is_empty() {
                broadcasts.add(b"", id);
            }
            prefixes
                .iter()
                .for_each(|prefix| broadcasts.add(prefix, id));
        }
        let tracker = Arc::new(Tracker {
            client,
            options,
            broken: AtomicBool::new(false),
            caching: AtomicBool::new(false),
        });
        let mut clients = write(&self.clients);
        clients.insert(id, Arc::clone(&tracker));
        self.count.store(clients.len(), Ordering::SeqCst);
        tracker
    }

    /// Ends tracking for a client; `prefixes` are those it has. What the table has of it goes as the keys change: it may
    /// track again, and is told of what has not changed meanwhile.
    pub fn disable(&self, id: u64, prefixes: &[Box<[u8]>]) {
        {
            let mut clients = write(&self.clients);
            clients.remove(&id);
            self.count.store(clients.len(), Ordering::SeqCst);
        }
        if !prefixes.is_empty() {
            let mut broadcasts = write(&self.broadcasts);
            prefixes
                .iter()
                .for_each(|prefix| broadcasts.remove(prefix, id));
        }
    }

    /// A client is gone. When nobody tracks, nobody can be told of what the table has.
    pub(crate) fn forget(&self) {
        if self.count.load(Ordering::SeqCst) == 0 {
            self.clear();
        }
    }

    /// Whether changes are to be told of: somebody tracks, or keys are remembered of one who did.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0 || self.keys.load(Ordering::SeqCst) > 0
    }

    /// Clients that track, keys in the table, pairs of key and client, prefixes.
    pub fn counts(&self) -> [usize; 4] {
        [
            self.count.load(Ordering::Relaxed),
            self.keys.load(Ordering::Relaxed),
            self.items.load(Ordering::Relaxed),
            read(&self.broadcasts).prefixes.len(),
        ]
    }

    fn part(&self, key: &[u8]) -> usize {
        self.seed.hash(key) as usize & (PARTS - 1)
    }

    /// Remembers that the client reads the keys of a command; called while their shards are locked.
    #[cold]
    pub(crate) fn remember(&self, client: u64, row: &Row, args: &[&[u8]]) {
        // A call whose keys cannot be found fails and reads nothing.
        let keys = keys_of(row, args).unwrap_or_default();
        self.remember_keys(client, keys.iter().map(|&at| args[at as usize]));
    }

    /// As [`Tracking::remember`], for these keys.
    #[cold]
    pub(crate) fn remember_keys<'k>(&self, client: u64, keys: impl Iterator<Item = &'k [u8]>) {
        {
            let clients = read(&self.clients);
            let Some(tracker) = clients.get(&client) else {
                return;
            };
            let options = &tracker.options;
            if options.broadcast
                || options.opt_in && !tracker.is_caching()
                || options.opt_out && tracker.is_caching()
            {
                return;
            }
        }
        keys.for_each(|key| self.add(key, client));
    }

    fn add(&self, key: &[u8], id: u64) {
        let mut part = lock(&self.parts[self.part(key)]);
        if let Some(readers) = part.get_mut(key) {
            if let Err(at) = readers.binary_search(&id) {
                readers.insert(at, id);
                self.items.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        part.insert(key.into(), SmallVec::from_slice(&[id]));
        self.keys.fetch_add(1, Ordering::Relaxed);
        self.items.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a key out of the table.
    fn take(&self, key: &[u8]) -> Option<Readers> {
        if self.keys.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let readers = lock(&self.parts[self.part(key)]).remove(key)?;
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.items.fetch_sub(readers.len(), Ordering::Relaxed);
        Some(readers)
    }

    /// A key has changed, by the client of that number (0 = by the server itself).
    pub fn changed(&self, by: u64, key: &[u8]) {
        self.changed_at(by, key, Place::AfterReply);
    }

    /// As [`Tracking::changed`]; `place` is where the message goes that a client causes for itself.
    pub(crate) fn changed_at(&self, by: u64, key: &[u8], place: Place) {
        if let Some(readers) = self.take(key) {
            self.tell(by, key, &readers, place);
        }
        let broadcasts = read(&self.broadcasts);
        if broadcasts.prefixes.is_empty() {
            return;
        }
        let mut prefixes = broadcasts.of(key).peekable();
        if prefixes.peek().is_none() {
            return;
        }
        let mut pending = lock(&self.pending);
        for prefix in prefixes {
            if !pending.contains_key(prefix) {
                pending.insert(prefix.into(), BTreeMap::new());
            }
            if let Some(keys) = pending.get_mut(prefix) {
                keys.insert(key.into(), by);
            }
        }
        self.has_pending.store(true, Ordering::Release);
    }

    /// Tells the readers of a key.
    fn tell(&self, by: u64, key: &[u8], readers: &[u64], place: Place) {
        let message = invalidation(|out| {
            out.array(1);
            out.bulk(key);
        });
        let clients = read(&self.clients);
        for id in readers {
            let Some(tracker) = clients.get(id) else {
                continue;
            };
            let own = tracker.options.no_loop && *id == by;
            if !tracker.options.broadcast && !own {
                tracker.send_at(&message, place);
            }
        }
    }

    /// Keys of a database are gone: everything is stale.
    pub fn flushed(&self) {
        self.clear();
        // As Redis writes it: null of the protocol of the client that tracks, whoever gets the message.
        let messages = [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut null = ReplyBuf::new(protocol);
            null.null();
            invalidation(move |out| out.raw(null.bytes()))
        });
        for tracker in read(&self.clients).values() {
            let is_newer = tracker.client.protocol() == Protocol::Resp3;
            tracker.send(&messages[usize::from(is_newer)]);
        }
    }

    fn clear(&self) {
        for part in &self.parts {
            let gone = std::mem::take(&mut *lock(part));
            let items = gone.values().map(SmallVec::len).sum();
            self.keys.fetch_sub(gone.len(), Ordering::SeqCst);
            self.items.fetch_sub(items, Ordering::Relaxed);
        }
    }

    /// `tracking-table-max-keys`; 0 = any number.
    pub fn set_most_keys(&self, most: usize) {
        let most = if most == 0 { usize::MAX } else { most };
        self.most.store(most, Ordering::Relaxed);
    }

    /// Gives up some keys, with a message to their readers, while there are more than allowed. To be called before a
    /// command: the message comes before its reply.
    pub fn trim(&self) {
        let most = self.most.load(Ordering::Relaxed);
        let mut effort = EFFORT;
        for part in self.parts.iter().cycle().take(EFFORT * PARTS) {
            if self.keys.load(Ordering::Relaxed) <= most || effort == 0 {
                return;
            }
            let victim = lock(part).keys().next().cloned();
            if let Some(key) = victim
                && let Some(readers) = self.take(&key)
            {
                effort -= 1;
                self.tell(0, &key, &readers, Place::BeforeReply);
            }
        }
    }

    /// Sends the changes that broadcasts have waited with; to be called at the end of every turn of an event loop.
    #[inline]
    pub fn flush_broadcasts(&self) {
        if self.has_pending.load(Ordering::Acquire) {
            self.send_broadcasts();
        }
    }

    #[cold]
    fn send_broadcasts(&self) {
        let pending = {
            let mut pending = lock(&self.pending);
            self.has_pending.store(false, Ordering::Release);
            std::mem::take(&mut *pending)
        };
        let broadcasts = read(&self.broadcasts);
        let clients = read(&self.clients);
        for (prefix, keys) in &pending {
            let everything = of_keys(keys, None);
            for id in broadcasts.prefixes.get(prefix).into_iter().flatten() {
                let Some(tracker) = clients.get(id) else {
                    continue;
                };
                if tracker.options.no_loop && keys.values().any(|by| by == id) {
                    if keys.values().any(|by| by != id) {
                        tracker.send(&of_keys(keys, Some(*id)));
                    }
                } else {
                    tracker.send(&everything);
                }
            }
        }
    }
}

/// The message about changed keys, without those that the client `except` has changed.
fn of_keys(
    keys: &BTreeMap<Box<[u8]>, u64>,
    except: Option<u64>,
) -> Message<impl Fn(&mut ReplyBuf)> {
    invalidation(move |out| {
        let told = || keys.iter().filter(|(_, by)| Some(**by) != except);
        out.array(told().count());
        told().for_each(|(key, _)| out.bulk(key));
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are added and removed whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_commands::lookup;

    #[derive(Debug)]
    struct Client {
        id: u64,
        protocol: Protocol,
        open: AtomicBool,
        heard: Mutex<Vec<String>>,
    }

    impl Subscriber for Client {
        fn id(&self) -> u64 {
            self.id
        }
        fn protocol(&self) -> Protocol {
            self.protocol
        }
        fn subscribed(&self) -> bool {
            self.id.is_multiple_of(2)
        }
        fn is_open(&self) -> bool {
            self.open.load(Ordering::Relaxed)
        }
        fn deliver(&self, message: &Arc<[u8]>, place: Place) {
            // Keys that are given up are told of at once, changes behind the reply that made them.
            assert!(matches!(place, Place::AfterReply | Place::BeforeReply));
            let text = String::from_utf8_lossy(message).replace("\r\n", " ");
            lock(&self.heard).push(text);
        }
    }

    fn client(id: u64, protocol: Protocol) -> Arc<Client> {
        Arc::new(Client {
            id,
            protocol,
            open: AtomicBool::new(true),
            heard: Mutex::default(),
        })
    }

    fn heard(client: &Client) -> Vec<String> {
        std::mem::take(&mut *lock(&client.heard))
    }

    fn get(tracking: &Tracking, tracker: &Tracker, caching: bool, key: &str) {
        let row = lookup(b"GET").expect("GET is a command");
        tracker.set_caching(caching);
        tracking.remember(tracker.client.id(), row, &[b"GET", key.as_bytes()]);
    }

    #[test]
    fn readers_are_told_once_and_noloop_spares_the_writer() {
        let tracking = Tracking::new(&Seed::new(1));
        let (one, two) = (client(1, Protocol::Resp3), client(2, Protocol::Resp3));
        let first = tracking.enable(one.clone(), TrackingOptions::default(), &[]);
        let options = TrackingOptions {
            no_loop: true,
            ..TrackingOptions::default()
        };
        let second = tracking.enable(two.clone(), options, &[]);
        for tracker in [&first, &second, &second] {
            get(&tracking, tracker, false, "k");
        }
        assert_eq!(tracking.counts(), [2, 1, 2, 0]);
        tracking.changed(2, b"k");
        tracking.changed(2, b"k");
        assert_eq!(heard(&one), [">2 $10 invalidate *1 $1 k "]);
        assert!(heard(&two).is_empty());
        get(&tracking, &second, false, "k");
        tracking.flushed();
        assert_eq!(heard(&one), [">2 $10 invalidate _ "]);
        assert_eq!(heard(&two), [">2 $10 invalidate _ "]);
        get(&tracking, &first, false, "k");
        tracking.disable(1, &[]);
        tracking.changed(9, b"k");
        assert!(heard(&one).is_empty());
        assert_eq!(tracking.counts(), [1, 0, 0, 0]);
    }

    #[test]
    fn what_was_read_is_remembered_until_it_changes_or_nobody_is_left() {
        let tracking = Tracking::new(&Seed::new(1));
        let one = client(1, Protocol::Resp3);
        let first = tracking.enable(one.clone(), TrackingOptions::default(), &[]);
        get(&tracking, &first, false, "k");
        get(&tracking, &first, false, "l");
        tracking.disable(1, &[]);
        assert!(tracking.is_active());
        tracking.changed(9, b"k");
        let first = tracking.enable(one.clone(), TrackingOptions::default(), &[]);
        tracking.changed(9, b"k");
        tracking.changed(9, b"l");
        assert_eq!(heard(&one), [">2 $10 invalidate *1 $1 l "]);
        get(&tracking, &first, false, "k");
        tracking.forget();
        assert_eq!(tracking.counts(), [1, 1, 1, 0]);
        tracking.disable(1, &[]);
        tracking.forget();
        assert!(!tracking.is_active());
        assert_eq!(tracking.counts(), [0, 0, 0, 0]);
    }

    #[test]
    fn opting_in_and_out() {
        let tracking = Tracking::new(&Seed::new(1));
        for opt_in in [true, false] {
            let one = client(1, Protocol::Resp3);
            let options = TrackingOptions {
                opt_in,
                opt_out: !opt_in,
                ..TrackingOptions::default()
            };
            let tracker = tracking.enable(one.clone(), options, &[]);
            get(&tracking, &tracker, !opt_in, "k");
            tracking.changed(0, b"k");
            assert!(heard(&one).is_empty());
            get(&tracking, &tracker, opt_in, "k");
            tracking.changed(0, b"k");
            assert_eq!(heard(&one).len(), 1);
        }
    }

    #[test]
    fn redirected_messages_suit_the_receiver_and_its_end_is_told() {
        let tracking = Tracking::new(&Seed::new(1));
        let (one, target) = (client(1, Protocol::Resp3), client(2, Protocol::Resp2));
        let options = TrackingOptions {
            redirect: Some(target.clone()),
            ..TrackingOptions::default()
        };
        let tracker = tracking.enable(one.clone(), options, &[]);
        get(&tracking, &tracker, false, "k");
        tracking.changed(0, b"k");
        tracking.flushed();
        assert_eq!(
            heard(&target),
            [
                "*3 $7 message $20 __redis__:invalidate *1 $1 k ",
                "*3 $7 message $20 __redis__:invalidate _ "
            ]
        );
        target.open.store(false, Ordering::Relaxed);
        get(&tracking, &tracker, false, "k");
        tracking.changed(0, b"k");
        assert_eq!(heard(&one), [">2 $21 tracking-redir-broken :2 "]);
        assert!(tracker.is_broken());
    }

    #[test]
    fn broadcasts_gather_keys_by_prefix() {
        let tracking = Tracking::new(&Seed::new(1));
        let (all, some) = (client(1, Protocol::Resp3), client(3, Protocol::Resp3));
        let options = TrackingOptions {
            broadcast: true,
            no_loop: true,
            ..TrackingOptions::default()
        };
        tracking.enable(all.clone(), options.clone(), &[]);
        tracking.enable(some.clone(), options, &[b"a:", b"bb"]);
        assert_eq!(tracking.counts(), [2, 0, 0, 3]);
        for (by, key) in [(1, "a:2"), (7, "a:1"), (7, "a:1"), (3, "bb"), (7, "c")] {
            tracking.changed(by, key.as_bytes());
        }
        assert!(heard(&all).is_empty());
        tracking.flush_broadcasts();
        tracking.flush_broadcasts();
        assert_eq!(
            heard(&all),
            [">2 $10 invalidate *3 $3 a:1 $2 bb $1 c "],
            "without its own"
        );
        assert_eq!(heard(&some), [">2 $10 invalidate *2 $3 a:1 $3 a:2 "]);
        tracking.disable(3, &[b"a:"[..].into(), b"bb"[..].into()]);
        assert_eq!(tracking.counts(), [1, 0, 0, 1]);
    }

    #[test]
    fn too_many_keys_are_given_up_with_a_message() {
        let tracking = Tracking::new(&Seed::new(1));
        let one = client(1, Protocol::Resp3);
        let tracker = tracking.enable(one.clone(), TrackingOptions::default(), &[]);
        for number in 0..1_000 {
            get(&tracking, &tracker, false, &number.to_string());
        }
        assert_eq!(tracking.counts()[1], 1_000);
        tracking.set_most_keys(300);
        for _ in 0..10 {
            tracking.trim();
        }
        assert_eq!(tracking.counts()[1..3], [300, 300]);
        assert_eq!(heard(&one).len(), 700);
        get(&tracking, &tracker, false, "new");
        assert_eq!(tracking.counts()[1], 301, "until the next command");
        tracking.trim();
        assert_eq!(tracking.counts()[1], 300);
        tracking.set_most_keys(0);
        get(&tracking, &tracker, false, "newer");
        get(&tracking, &tracker, false, "newest");
        assert!(tracking.counts()[1] > 300);
    }
}
