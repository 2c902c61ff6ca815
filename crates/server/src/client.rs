//! What is known of every client, for CLIENT and INFO.

mod registry;

pub(crate) use registry::Clients;

use crate::eviction::Budget;
use crate::log::Log;
use crate::outbox::{Class, Outbox, OutputLimits, Running, SoftLimit};
use crate::subscriptions::Subscriptions;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tollgate_commands::Row;
use tollgate_engine::{
    ClientInfo, Engine, Parting, Place, Replica, Session, Subscriber, Tracker, Watches,
};
use tollgate_limiter::Timestamp;
use tollgate_net::{Clock, ConnRef, Mailboxes, Peer, PeerAddress};
use tollgate_wire::resp::{Protocol, request_len};

/// What CLIENT LIST calls the user of a connection that may do everything.
const SUPERUSER: &[u8] = b"(superuser)";

/// From so many bytes on, messages that wait are counted at once where only all memory together is limited.
const COUNTED_FROM: usize = 16 * 1024;

/// Bytes that a tracked prefix costs beside twice its text.
const PREFIX_BYTES: usize = 64;

/// What one thread may tell a connection of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The reply of the command that waits.
    Answer(Vec<u8>),
    /// The reply of the command that waits, with which the connection ends.
    Last(Vec<u8>),
    /// CLIENT KILL: close at once.
    Kill,
    /// There are messages in the outbox.
    Outbox,
    /// What a command was put off for is over.
    TryAgain,
    /// What replies are held back for is on the disk.
    Written,
}

/// What delivering to clients takes.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) mailboxes: Arc<Mailboxes<Signal>>,
    pub(crate) limits: Arc<OutputLimits>,
    pub(crate) log: Arc<Log>,
    pub(crate) budget: Budget,
    /// Bytes that replicas were given to read.
    pub(crate) to_replicas: AtomicU64,
}

/// Which part of the data a replica wants (`REPLCONF rdb-filter-only`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Part {
    All,
    /// Libraries of functions, and no keys.
    Functions,
    /// Neither.
    Nothing,
}

/// One client, as other threads see it. The connection's own thread writes after each wake-up.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    pub(crate) at: ConnRef,
    /// Clock nanoseconds.
    connected_at: i64,
    last_seen: AtomicI64,
    killed: AtomicBool,
    /// It has said QUIT: what others send from now on would come too late.
    leaving: AtomicBool,
    resp3: AtomicBool,
    no_evict: AtomicBool,
    no_touch: AtomicBool,
    reads_replicas: AtomicBool,
    follows_redirects: AtomicBool,
    /// A command of it waits for a key.
    waits: AtomicBool,
    /// Commands queued since MULTI; -1 = none.
    queued: AtomicI64,
    queued_bytes: AtomicUsize,
    /// Bytes that the keys which it watches cost.
    watched_bytes: AtomicUsize,
    /// These keys, once it has watched any.
    watches: OnceLock<Watches>,
    /// One of them had changed when [`Client::look_at_watched`] was called last.
    dirty: AtomicBool,
    /// Bytes that the prefixes which it tracks cost.
    prefix_bytes: AtomicUsize,
    /// Bytes counted for it in the budget of all.
    counted: AtomicUsize,
    db: AtomicU8,
    /// Bytes of an incomplete command.
    input: AtomicUsize,
    /// Bytes of unsent replies.
    output: AtomicUsize,
    /// The last command's row; null before the first one.
    last_command: AtomicPtr<Row>,
    pub(crate) outbox: Outbox,
    soft_limit: SoftLimit,
    pub(crate) subscriptions: Subscriptions,
    monitors: AtomicBool,
    /// It is a replica's.
    follows: AtomicBool,
    /// It is a replica's of this kind.
    knows_limiters: AtomicBool,
    /// It is a replica of Valkey 9 or later.
    is_valkey: AtomicBool,
    /// It takes data whose length nobody knows.
    takes_stream: AtomicBool,
    /// It is to be sent the data, and no changes.
    data_only: AtomicBool,
    /// Which data it is to be sent, a [`Part`].
    part: AtomicU8,
    /// It is the link to the master.
    leads: AtomicBool,
    /// It speaks Memcached's protocol.
    memcached: AtomicBool,
    tracked: Mutex<Tracked>,
    delivery: Arc<Delivery>,
    texts: Mutex<Texts>,
}

/// How a client tracks keys.
#[derive(Debug, Default)]
struct Tracked {
    tracker: Option<Arc<Tracker>>,
    prefixes: BTreeSet<Box<[u8]>>,
}

/// What a client says of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    pub(crate) name: Box<[u8]>,
    pub(crate) lib_name: Box<[u8]>,
    pub(crate) lib_version: Box<[u8]>,
    /// The user it has authenticated as.
    user: Box<[u8]>,
    /// Where a replica listens, as it says.
    replica_address: Box<str>,
    replica_port: u16,
}

impl Client {
    /// Marks the client as gone for everyone; the caller posts the signal.
    fn kill(&self) -> bool {
        !self.killed.swap(true, Ordering::Relaxed)
    }

    /// The client has said QUIT.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    pub(crate) fn last_seen(&self) -> i64 {
        self.last_seen.load(Ordering::Relaxed)
    }

    /// Drops the client if it has been above its soft limit for too long: who reads nothing is sent nothing that would show it.
    fn check_time(&self) {
        self.check_limits(self.outbox.bytes());
    }

    /// Closes the client, which `kill` has marked, from another thread.
    pub(crate) fn post_kill(&self) {
        self.delivery.mailboxes.answer(self.at, Signal::Kill);
    }

    /// Drops the connection of a replica that cannot be served.
    #[cold]
    fn drop_replica(&self, what: &str) {
        if self.kill() {
            let (host, port) = self.replica_address();
            self.delivery
                .log
                .warning(format_args!("{what}: {host}:{port}"));
            self.outbox.close();
            self.post_kill();
        }
    }

    /// Drops the connection of a replica that has sent a command with a reply.
    #[cold]
    pub(crate) fn drop_for_reply(&self, row: Option<&Row>, reply: &[u8]) {
        if self.kill() {
            let name = row.map_or_else(String::new, |row| row.name.to_ascii_lowercase());
            let log = &self.delivery.log;
            if let Some(error) = reply.strip_prefix(b"-") {
                log.warning(format_args!(
                    "== CRITICAL == This master is sending an error to its replica: '{}' after processing the command '{name}'",
                    error.trim_ascii_end().escape_ascii()
                ));
            }
            log.warning(format_args!(
                "Replica generated a reply to command '{name}', disconnecting it: {}",
                self.show(Timestamp::from_nanos(Clock::now()))
            ));
            self.outbox.close();
            self.post_kill();
        }
    }

    /// Drops the client for not reading.
    #[cold]
    fn drop_slow(&self) {
        if self.kill() {
            self.delivery.limits.count_drop();
            self.delivery.log.warning(format_args!(
                "Client {} scheduled to be closed ASAP for overcoming of output buffer limits.",
                self.show(Timestamp::from_nanos(Clock::now()))
            ));
            self.outbox.close();
            self.post_kill();
        }
    }

    pub(crate) fn class(&self) -> Class {
        if self.follows.load(Ordering::Relaxed) {
            Class::Replica
        } else if self.subscriptions.is_empty() {
            Class::Normal
        } else {
            Class::PubSub
        }
    }

    /// Whether replies of so many bytes, which nothing has been sent of yet, are more than the client may have.
    pub(crate) fn is_too_much(&self, replies: usize) -> bool {
        replies >= self.most_replies()
    }

    /// From so many bytes of replies on, which nothing has been sent of yet, they are more than the client may have.
    #[inline]
    pub(crate) fn most_replies(&self) -> usize {
        match self.delivery.limits.hard(self.class()) {
            Some(hard) => usize::try_from(hard)
                .unwrap_or(usize::MAX)
                .saturating_sub(self.output.load(Ordering::Relaxed)),
            None => usize::MAX,
        }
    }

    /// Drops the client, which has not read what it may leave unread.
    pub(crate) fn drop_for_output(&self) {
        self.drop_slow();
    }

    fn check_limits(&self, messages: usize) {
        let output = self.output.load(Ordering::Relaxed);
        let exceeded = self.soft_limit.is_exceeded(
            &self.delivery.limits,
            self.class(),
            (output + messages) as u64,
            if messages > 0 { output + messages } else { 0 } as u64,
            Clock::now,
        );
        if exceeded {
            self.drop_slow();
        }
    }

    /// Where it comes from, as MONITOR shows it.
    pub(crate) fn source(&self) -> Vec<u8> {
        match &self.peer.remote {
            PeerAddress::Tcp(address) => address.to_string().into_bytes(),
            PeerAddress::Unix(path) => format!("unix:{path}").into_bytes(),
        }
    }

    /// The prefixes of its broadcast mode.
    pub(crate) fn tracked_prefixes(&self) -> BTreeSet<Box<[u8]>> {
        lock(&self.tracked).prefixes.clone()
    }

    pub(crate) fn set_tracked(&self, tracker: Option<Arc<Tracker>>, prefixes: BTreeSet<Box<[u8]>>) {
        let bytes = prefixes
            .iter()
            .map(|prefix| PREFIX_BYTES + 2 * prefix.len());
        self.prefix_bytes.store(bytes.sum(), Ordering::Relaxed);
        *lock(&self.tracked) = Tracked { tracker, prefixes };
        self.count();
    }

    /// The connection is a replica's from now on.
    pub(crate) fn follow(&self) {
        self.follows.store(true, Ordering::Relaxed);
    }

    /// The connection is one of a server of this kind.
    pub(crate) fn know_limiters(&self) {
        self.knows_limiters.store(true, Ordering::Relaxed);
    }

    /// The connection is a replica of Valkey 9 or later, or is not.
    pub(crate) fn set_valkey(&self, is_valkey: bool) {
        self.is_valkey.store(is_valkey, Ordering::Relaxed);
    }

    /// The connection is a replica's that takes data whose length nobody knows.
    pub(crate) fn take_stream(&self) {
        self.takes_stream.store(true, Ordering::Relaxed);
    }

    pub(crate) fn takes_stream(&self) -> bool {
        self.takes_stream.load(Ordering::Relaxed)
    }

    /// The replica wants the data alone, and is not to follow.
    pub(crate) fn want_data_only(&self, only: bool) {
        self.data_only.store(only, Ordering::Relaxed);
    }

    /// The replica wants this part of the data.
    pub(crate) fn want_part(&self, part: Part) {
        self.part.store(part as u8, Ordering::Relaxed);
    }

    /// Whether the replica is sent no changes, and which part of the data it wants.
    pub(crate) fn wanted_data(&self) -> (bool, Part) {
        let part = match self.part.load(Ordering::Relaxed) {
            part if part == Part::Functions as u8 => Part::Functions,
            part if part == Part::Nothing as u8 => Part::Nothing,
            _ => Part::All,
        };
        (self.data_only.load(Ordering::Relaxed), part)
    }

    /// The replica has all that it wanted.
    pub(crate) fn end_of_data(&self) {
        self.drop_replica("Disconnecting replica that wanted the data only");
    }

    /// The connection is the link to the master.
    pub(crate) fn be_master(&self) {
        self.leads.store(true, Ordering::Relaxed);
        lock(&self.texts).user = SUPERUSER.into();
    }

    /// The connection speaks Memcached's protocol.
    pub(crate) fn be_memcached(&self) {
        self.memcached.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_memcached(&self) -> bool {
        self.memcached.load(Ordering::Relaxed)
    }

    pub(crate) fn is_master(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    pub(crate) fn set_replica_port(&self, port: u16) {
        lock(&self.texts).replica_port = port;
    }

    pub(crate) fn set_replica_address(&self, address: &str) {
        lock(&self.texts).replica_address = address.into();
    }

    /// Where a replica listens: as it says, else where it comes from.
    pub(crate) fn replica_address(&self) -> (String, u16) {
        let texts = lock(&self.texts);
        let ip = match &self.peer.remote {
            _ if !texts.replica_address.is_empty() => texts.replica_address.to_string(),
            PeerAddress::Tcp(address) => address.ip().to_string(),
            PeerAddress::Unix(path) => path.to_string(),
        };
        (ip, texts.replica_port)
    }

    /// Bytes that wait to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.output.load(Ordering::Relaxed) + self.outbox.bytes()
    }

    pub(crate) fn set_monitors(&self, on: bool) {
        self.monitors.store(on, Ordering::Relaxed);
    }

    /// Seconds since it has connected.
    pub(crate) fn age(&self, now: i64) -> i64 {
        whole_secs(now - self.connected_at)
    }

    /// Seconds since it was last heard of.
    pub(crate) fn idle(&self, now: i64) -> i64 {
        whole_secs(now - self.last_seen())
    }

    /// The number of its database.
    pub(crate) fn db(&self) -> u8 {
        self.db.load(Ordering::Relaxed)
    }

    /// Publishes what a wake-up may have changed.
    #[inline]
    pub(crate) fn publish(&self, session: &Session, now: i64) {
        self.last_seen.store(now, Ordering::Relaxed);
        self.db.store(session.db.get() as u8, Ordering::Relaxed);
        self.waits.store(session.is_waiting(), Ordering::Relaxed);
        let queued = session.queued().map_or(-1, |queued| queued as i64);
        if queued >= 0 || self.queued.load(Ordering::Relaxed) >= 0 {
            self.queued.store(queued, Ordering::Relaxed);
            self.queued_bytes
                .store(session.queued_bytes(), Ordering::Relaxed);
            self.count();
        }
        let watched = session.watched_bytes();
        if watched != self.watched_bytes.load(Ordering::Relaxed) {
            self.watches.get_or_init(|| session.watches());
            self.watched_bytes.store(watched, Ordering::Relaxed);
            self.count();
        }
        let last = session.last.map_or(std::ptr::null(), std::ptr::from_ref);
        self.last_command.store(last.cast_mut(), Ordering::Relaxed);
    }

    /// Publishes what only node commands change.
    pub(crate) fn publish_session(&self, session: &Session) {
        self.resp3
            .store(session.protocol == Protocol::Resp3, Ordering::Relaxed);
        self.no_evict.store(session.no_evict, Ordering::Relaxed);
        self.no_touch.store(session.no_touch, Ordering::Relaxed);
        self.reads_replicas
            .store(session.reads_replicas, Ordering::Relaxed);
        self.follows_redirects
            .store(session.follows_redirects, Ordering::Relaxed);
        let mut texts = lock(&self.texts);
        texts.name.clone_from(&session.name);
        texts.lib_name.clone_from(&session.lib_name);
        texts.lib_version.clone_from(&session.lib_version);
        texts.user.clone_from(&session.user.name);
    }

    pub(crate) fn publish_buffers(&self, input: usize, output: usize) {
        let before = [&self.input, &self.output].map(|bytes| bytes.load(Ordering::Relaxed));
        self.input.store(input, Ordering::Relaxed);
        self.output.store(output, Ordering::Relaxed);
        if output > 0 {
            self.check_limits(0);
        }
        if before != [input, output] {
            self.count();
        }
    }

    /// Bytes that have come for it and are about to be read as commands.
    #[cold]
    pub(crate) fn publish_input(&self, input: usize) {
        self.input.store(input, Ordering::Relaxed);
        self.count();
    }

    /// Counts what it holds, where that is limited.
    #[inline]
    pub(crate) fn count(&self) {
        if self.delivery.budget.counts() && !self.is_killed() {
            self.recount();
        }
    }

    /// Counts what it holds; returns the bytes. What waits for a replica is counted by the journal.
    pub(crate) fn recount(&self) -> usize {
        let now = match self.is_ordinary() {
            true => self.memory(),
            false => 0,
        };
        let before = self.counted.swap(now, Ordering::Relaxed);
        self.delivery.budget.change(before, now);
        now
    }

    /// What it holds is not counted any more.
    fn forget_count(&self) {
        let before = self.counted.swap(0, Ordering::Relaxed);
        self.delivery.budget.change(before, 0);
    }

    /// It is a replica's.
    pub(crate) fn is_replica(&self) -> bool {
        self.follows.load(Ordering::Relaxed)
    }

    /// It is neither a replica's nor the link to the master.
    pub(crate) fn is_ordinary(&self) -> bool {
        !self.is_master() && !self.is_replica()
    }

    /// It has said that it is not to be evicted.
    pub(crate) fn stays(&self) -> bool {
        self.no_evict.load(Ordering::Relaxed)
    }

    /// Disconnects it for what it holds; false when that has been done.
    pub(crate) fn evict(&self) -> bool {
        let is_first = self.kill();
        if is_first {
            self.forget_count();
            self.outbox.close();
            self.post_kill();
        }
        is_first
    }

    /// Bytes held for the client, its records included.
    pub(crate) fn memory(&self) -> usize {
        let texts = lock(&self.texts);
        let heap = texts.name.len() + texts.lib_name.len() + texts.lib_version.len();
        size_of::<Client>() + 2 * size_of::<Session>() + 2 * heap + self.buffers()
    }

    /// The name of the user it has authenticated as.
    pub(crate) fn user_name(&self) -> Box<[u8]> {
        lock(&self.texts).user.clone()
    }

    /// What it says of itself.
    pub(crate) fn texts(&self) -> Texts {
        lock(&self.texts).clone()
    }

    fn buffers(&self) -> usize {
        self.input.load(Ordering::Relaxed)
            + self.output.load(Ordering::Relaxed)
            + self.outbox.bytes()
            + self.queued_bytes.load(Ordering::Relaxed)
            + self.watched_bytes.load(Ordering::Relaxed)
            + self.prefix_bytes.load(Ordering::Relaxed)
            + self.subscriptions.bytes()
    }

    /// Sees for [`Client::describe`] whether keys that it watches have changed. The caller holds no shard.
    pub(crate) fn look_at_watched(&self, engine: &Engine) {
        let dirty = (self.watches.get()).is_some_and(|watches| engine.has_changed(watches));
        self.dirty.store(dirty, Ordering::Relaxed);
    }

    fn command(&self) -> Option<&'static Row> {
        let row = self.last_command.load(Ordering::Relaxed);
        // SAFETY: only `publish` stores here, null or a `&'static Row`; rows are never written.
        unsafe { row.as_ref() }
    }

    /// The letters of CLIENT LIST.
    pub(crate) fn letters(&self) -> String {
        let tracker = lock(&self.tracked).tracker.clone();
        self.flags(self.queued.load(Ordering::Relaxed) >= 0, tracker.as_deref())
    }

    /// Letters of what it has said that it can do.
    pub(crate) fn capabilities(&self) -> &'static str {
        match self.follows_redirects.load(Ordering::Relaxed) {
            true => "r",
            false => "",
        }
    }

    fn flags(&self, in_transaction: bool, tracker: Option<&Tracker>) -> String {
        let tracks = |is: fn(&Tracker) -> bool| tracker.is_some_and(is);
        let letters = [
            ('M', self.is_master()),
            ('S', self.follows.load(Ordering::Relaxed)),
            ('O', self.monitors.load(Ordering::Relaxed)),
            ('P', !self.subscriptions.is_empty()),
            ('x', in_transaction),
            ('b', self.waits.load(Ordering::Relaxed)),
            ('t', tracker.is_some()),
            ('R', tracks(Tracker::is_broken)),
            ('B', tracks(|tracker| tracker.options().broadcast)),
            ('d', self.dirty.load(Ordering::Relaxed)),
            ('U', matches!(self.peer.remote, PeerAddress::Unix(_))),
            ('r', self.reads_replicas.load(Ordering::Relaxed)),
            ('e', self.no_evict.load(Ordering::Relaxed)),
            ('T', self.no_touch.load(Ordering::Relaxed)),
        ];
        let set: String = letters
            .iter()
            .filter_map(|&(letter, is_set)| is_set.then_some(letter))
            .collect();
        if set.is_empty() { "N".to_owned() } else { set }
    }

    /// As CLIENT LIST has it, for the log.
    pub(crate) fn show(&self, now: Timestamp) -> String {
        String::from_utf8_lossy(&self.describe(now.nanos(), &[])).into_owned()
    }

    /// The line of CLIENT LIST, without a line end. `words`: of the command that it is running, if it is the one that
    /// asks. Reply buffers of fixed size are the threads', so a client has none.
    pub(crate) fn describe(&self, now: i64, words: &[&[u8]]) -> Vec<u8> {
        let argv: usize = words.iter().map(|word| word.len()).sum();
        // What of its input is only the threads' to know: the command itself.
        let running = match words {
            [] => 0,
            _ => request_len(words),
        };
        let [sub, psub, ssub] = self.subscriptions.counts();
        let multi = self.queued.load(Ordering::Relaxed);
        let tracker = lock(&self.tracked).tracker.clone();
        let redirect = tracker.as_ref().map_or(-1, |tracker| {
            let target = tracker.options().redirect.as_ref();
            target.map_or(0, |target| target.id() as i64)
        });
        let flags = self.flags(multi >= 0, tracker.as_deref());
        let texts = self.texts();
        let mut line = format!(
            "id={} addr={} laddr={} fd={} name=",
            self.id, self.peer.remote, self.peer.local, self.peer.fd
        )
        .into_bytes();
        line.extend_from_slice(&texts.name);
        // Only where there are some, so that the lines of others are as Redis has them.
        let capa = match self.capabilities() {
            "" => String::new(),
            letters => format!(" capa={letters}"),
        };
        let messages = self.outbox.bytes();
        let output = self.output.load(Ordering::Relaxed);
        let mut rest = String::new();
        write!(
            rest,
            " age={} idle={} flags={flags}{capa} db={} sub={sub} psub={psub} ssub={ssub} multi={multi} qbuf={} qbuf-free=0 \
             argv-mem={argv} multi-mem={} rbs=0 rbp=0 obl=0 oll={} omem={} tot-mem={} events={} cmd={} user={} \
             redir={redirect} resp={} lib-name=",
            self.age(now),
            self.idle(now),
            self.db(),
            self.input.load(Ordering::Relaxed).max(running),
            self.queued_bytes.load(Ordering::Relaxed),
            usize::from(output > 0) + usize::from(messages > 0),
            output + messages,
            self.memory(),
            if output > 0 { "rw" } else { "r" },
            self.command()
                .map_or("NULL".to_owned(), |row| row.name.to_ascii_lowercase()),
            String::from_utf8_lossy(&texts.user),
            if self.resp3.load(Ordering::Relaxed) {
                3
            } else {
                2
            },
        )
        .expect("writing to a String cannot fail");
        line.extend_from_slice(rest.as_bytes());
        line.extend_from_slice(&texts.lib_name);
        line.extend_from_slice(b" lib-ver=");
        line.extend_from_slice(&texts.lib_version);
        line
    }
}

fn whole_secs(nanos: i64) -> i64 {
    nanos.max(0) / 1_000_000_000
}

impl ClientInfo for Client {
    fn note(&self, session: &Session, now: Timestamp) {
        self.publish(session, now.nanos());
        self.publish_session(session);
    }

    fn address(&self) -> Vec<u8> {
        self.peer.remote.to_string().into_bytes()
    }

    fn describe(&self, now: Timestamp) -> Vec<u8> {
        Client::describe(self, now.nanos(), &[])
    }
}

impl Subscriber for Client {
    fn id(&self) -> u64 {
        self.id
    }

    fn protocol(&self) -> Protocol {
        if self.resp3.load(Ordering::Relaxed) {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        }
    }

    fn subscribed(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    fn is_open(&self) -> bool {
        !self.is_killed() && !self.leaving.load(Ordering::Relaxed)
    }

    fn deliver(&self, message: &Arc<[u8]>, place: Place) {
        if !self.is_open() {
            return;
        }
        let put = self.outbox.put(message, place, Running::is(self.id));
        self.check_limits(put.bytes);
        if put.bytes >= COUNTED_FROM || self.delivery.budget.is_limited() {
            self.count();
        }
        if put.wake
            && self
                .delivery
                .mailboxes
                .message(self.at, Signal::Outbox)
                .is_err()
        {
            self.outbox.not_announced();
        }
    }

    fn deliver_while_subscribed(&self, message: &Arc<[u8]>, place: Place) {
        self.subscriptions
            .while_some(|| self.deliver(message, place));
    }
}

impl Replica for Client {
    fn id(&self) -> u64 {
        self.id
    }

    fn send(&self, bytes: &Arc<[u8]>) {
        let given = &self.delivery.to_replicas;
        given.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.deliver(bytes, Place::AfterReply);
    }

    fn knows_limiters(&self) -> bool {
        self.knows_limiters.load(Ordering::Relaxed)
    }

    fn is_valkey(&self) -> bool {
        self.is_valkey.load(Ordering::Relaxed)
    }

    fn is_gone(&self) -> bool {
        self.is_killed()
    }

    fn disconnect(&self, why: Parting) {
        match why {
            Parting::Overflow => self.drop_slow(),
            Parting::Silence => self.drop_replica("Disconnecting timedout replica"),
            Parting::NewHistory => self.drop_replica("Disconnecting for a new history replica"),
            Parting::Failed => self.drop_replica("Disconnecting unsynchronized replica"),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
