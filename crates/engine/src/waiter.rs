//! Clients that wait for a key: parking, answering, giving up.
//!
//! A command that finds nothing is parked in the queues of its keys, each under the lock of the key's shard. Whoever
//! makes a key ready runs the command again while still holding that lock (`serve`). Several may want to end a wait at the
//! same moment: the thread that pushes, the time-out, CLIENT UNBLOCK, the end of the connection. The mark in the waiter
//! decides: it is taken under its own lock, and whoever takes it answers. So an element goes to a waiter that is still
//! there, or to nobody.
//!
//! Locks are taken in this order: shards, then the mark of a waiter, then the list of waiters.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread::ThreadId;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate_commands::gate::is_for_master;
use tollgate_commands::{
    Again, CmdError, FindKeys, KeyFlags, KeyPositions, KeySpec, Origin, Row, Run,
};
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf, request_len};

use crate::call::{Call, Long};
use crate::cell::{Cells, Name, ReadyKey, name};
use crate::walk::NoWalk;
use crate::{Engine, Session};

/// Carries the answer of a command that waited to its connection.
pub trait Mail: Send + Sync + fmt::Debug {
    /// The wait is over; `reply` is exactly one reply.
    fn answer(&self, reply: Vec<u8>);
    /// As [`Mail::answer`]; the connection ends with the reply.
    fn dismiss(&self, reply: Vec<u8>);
    /// What a command of the connection was put off for has ended: it is to be run again.
    fn try_again(&self);
    /// The connection is being closed, so no answer reaches its peer: what it waits for goes to others.
    fn is_gone(&self) -> bool;
}

/// Connections that were put off and are not looked through for those that have gone.
const PUT_OFF_KEPT: usize = 1_024;

/// Puts a connection behind others that were put off. Before the list grows those leave that have gone meanwhile: what they
/// wait for may last, and others come in their place.
pub(crate) fn put_behind(put_off: &mut Vec<Arc<dyn Mail>>, mail: &Arc<dyn Mail>) {
    if put_off.len() == put_off.capacity() && put_off.len() >= PUT_OFF_KEPT {
        put_off.retain(is_there);
    }
    put_off.push(Arc::clone(mail));
}

/// Tells a thread of the service in this process that something has ended for which decisions of its were put off.
pub type Wake = dyn Fn() + Send + Sync;

/// Puts a thread among others, each once.
pub(crate) fn put_once(put_off: &mut Vec<Arc<Wake>>, wake: &Arc<Wake>) {
    if !put_off.iter().any(|one| Arc::ptr_eq(one, wake)) {
        put_off.push(Arc::clone(wake));
    }
}

/// Whether the connection is still there that was put off: it keeps what it is told by.
pub(crate) fn is_there(mail: &Arc<dyn Mail>) -> bool {
    Arc::strong_count(mail) > 1
}

/// How CLIENT UNBLOCK ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unblock {
    /// As if the time were over.
    Timeout,
    /// With an error.
    Error,
}

/// Two waits that begin on different threads within so many nanoseconds may have been asked for in the other order: a
/// thread that sleeps is later at its work than one that is awake.
const SIMULTANEOUS: i64 = 2_000_000;

/// Time between two looks at a waiting command, at least.
const LOOK_AGAIN_MS: i64 = 10;

/// The same for one that was put off.
const LOOK_PUT_OFF_MS: i64 = 1_000;

/// A time that does not come.
const NEVER: i64 = i64::MAX;

/// What a client that is unblocked with an error is told.
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// What clients that wait are told when the server becomes a replica.
const ROLE_CHANGED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// A command that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    client: u64,
    pub(crate) row: &'static Row,
    pub(crate) db: DbIndex,
    pub(crate) protocol: Protocol,
    words: Vec<Box<[u8]>>,
    /// Places of the keys it waits for among the words.
    positions: KeyPositions,
    /// Their names and shards, each once.
    keys: SmallVec<[(Name, usize); 2]>,
    deadline_ms: Option<i64>,
    /// When it is run again although no key has changed, in Unix milliseconds; changed by its connection's thread alone.
    look_at_ms: AtomicI64,
    /// The same after that, as far as whoever has run it since could tell.
    look_next_ms: AtomicI64,
    /// Where and when the wait began, and how often somebody had asked for the number of waits until then.
    thread: ThreadId,
    since: Timestamp,
    /// It is for the master where this server is a replica, and its client goes there.
    redirects: bool,
    asked: u64,
    /// The wait is over.
    pub(crate) done: Mutex<bool>,
    /// Nanoseconds that serving it took.
    pub(crate) spent: AtomicU64,
    mail: Arc<dyn Mail>,
}

/// All waiters, by client; and how often their number was asked for.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<HashMap<u64, Arc<Waiter>>>, AtomicU64);

impl Waiter {
    /// The words with no other awaited key than `key`: a key that has become ready is the only one to be looked at.
    pub(crate) fn words_for(&self, key: &[u8]) -> SmallVec<[&[u8]; 8]> {
        let words = self.words.iter().map(|word| &**word);
        let [first, .., _] = self.positions[..] else {
            return words.collect();
        };
        let is_key = |at: usize| self.positions.contains(&(at as u32));
        let kept = self
            .positions
            .iter()
            .find(|&&at| *self.words[at as usize] == *key)
            .map_or(first as usize, |&at| at as usize);
        // The IDs of XREAD stand behind the keys, one for each.
        let halves = |spec: &KeySpec| matches!(spec.find, FindKeys::Part { .. });
        let ids = match self.row.keys.iter().any(halves) {
            true => self.positions.len(),
            false => 0,
        };
        let is_id = |at: usize| ids > 0 && at >= first as usize + ids;
        let count = self.row.keys.iter().find_map(|spec| match spec.find {
            FindKeys::KeyNum { .. } => Some(first as usize - 1),
            _ => None,
        });
        words
            .enumerate()
            .filter(|&(at, _)| match at {
                _ if is_key(at) => at == kept,
                _ if is_id(at) => at == kept + ids,
                _ => true,
            })
            .map(|(at, word)| if Some(at) == count { b"1" } else { word })
            .collect()
    }

    /// Whether this one, which comes after `other`, is served before it: when nobody can tell that it came later, the older
    /// connection is first. The order of one thread is kept, and so is one that somebody may have seen; a wait that is
    /// older than an instant is not overtaken.
    pub(crate) fn goes_before(&self, other: &Waiter) -> bool {
        self.client < other.client
            && self.thread != other.thread
            && self.asked == other.asked
            && self.since.nanos() - other.since.nanos() < SIMULTANEOUS
    }

    /// It was run again in vain, and asks for a look at that time.
    pub(crate) fn wants_look(&self, again: Option<&Again>) {
        if let Some(at) = again.and_then(|again| again.look_at_ms) {
            self.look_next_ms.fetch_min(at, Ordering::Relaxed);
        }
    }

    /// The client that waits.
    pub(crate) fn client(&self) -> u64 {
        self.client
    }

    /// Ends the wait with `reply`; the caller holds the mark and has found it not set.
    pub(crate) fn answer(&self, engine: &Engine, done: &mut bool, reply: Vec<u8>) {
        if reply.first() == Some(&b'-') {
            engine.counters.row(self.row).failed();
        }
        self.end(engine, done);
        self.mail.answer(reply);
    }

    /// Whether nobody is left to be answered, which ends the wait; the caller holds the mark and has found it not set.
    pub(crate) fn is_forsaken(&self, engine: &Engine, done: &mut bool) -> bool {
        let is_gone = self.mail.is_gone();
        if is_gone {
            self.end(engine, done);
        }
        is_gone
    }

    /// Ends the wait with an error, and the connection with it.
    fn dismiss(&self, engine: &Engine, done: &mut bool, error: &str) {
        let mut out = ReplyBuf::new(self.protocol);
        out.error(error);
        engine.counters.row(self.row).failed();
        self.end(engine, done);
        self.mail.dismiss(out.bytes().to_vec());
    }

    fn end(&self, engine: &Engine, done: &mut bool) {
        *done = true;
        engine.waiters.0.lock().remove(&self.client);
    }
}

impl Session {
    /// When the command that waits gives up or is to be looked after, in Unix milliseconds; `None` = never, or nothing waits.
    pub fn deadline_ms(&self) -> Option<i64> {
        let waiter = self.waiting.as_ref()?;
        let look_at_ms = waiter.look_at_ms.load(Ordering::Relaxed);
        let ends = [
            waiter.deadline_ms,
            (look_at_ms < NEVER).then_some(look_at_ms),
        ];
        ends.into_iter().flatten().min()
    }

    /// True when the command that waits has its answer, which is on its way.
    pub fn is_answered(&self) -> bool {
        self.waiting
            .as_ref()
            .is_some_and(|waiter| *waiter.done.lock())
    }

    /// True while a command of the connection waits.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }
}

impl Engine {
    /// Somebody is told who waits: whoever waits later comes behind those who do.
    pub fn waits_are_seen(&self) {
        self.waiters.1.fetch_add(1, Ordering::Relaxed);
    }

    /// Clients that wait.
    pub fn blocked_clients(&self) -> usize {
        self.waits_are_seen();
        self.waiters.0.lock().len()
    }

    /// Parks a command, the shards of its keys held.
    pub(crate) fn park(
        &self,
        session: &mut Session,
        mail: &Arc<dyn Mail>,
        call: &Call<'_>,
        again: Option<Again>,
        deadline_ms: Option<i64>,
        held: &mut dyn Cells,
    ) {
        let look_at_ms = again.as_ref().and_then(|again| again.look_at_ms);
        let words = again.map_or_else(
            || call.args.iter().map(|&word| word.into()).collect(),
            |again| again.words,
        );
        let mut positions = KeyPositions::new();
        {
            let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
            let awaited = |flags: KeyFlags| !flags.intersects(KeyFlags::INSERT);
            for spec in call.row.keys.iter().filter(|spec| awaited(spec.flags)) {
                // The handler has run with these keys, so they are well formed.
                spec.collect(&words, &mut positions).ok();
            }
        }
        let mut keys = SmallVec::<[(Name, usize); 2]>::new();
        for &at in &positions {
            let key = &words[at as usize];
            let name = name(call.db, key);
            if !keys.iter().any(|(other, _)| *other == name) {
                keys.push((name, self.seed.key(key).shard(self.shards.count())));
            }
        }
        let waiter = Arc::new(Waiter {
            client: session.id,
            row: call.row,
            db: call.db,
            protocol: session.protocol,
            words,
            positions,
            keys,
            deadline_ms,
            look_at_ms: AtomicI64::new(look_at_ms.unwrap_or(NEVER)),
            look_next_ms: AtomicI64::new(NEVER),
            thread: std::thread::current().id(),
            since: call.now,
            redirects: session.follows_redirects
                && is_for_master(call.row.flags, session.reads_replicas, None),
            asked: self.waiters.1.load(Ordering::Relaxed),
            done: Mutex::new(false),
            spent: AtomicU64::new(0),
            mail: Arc::clone(mail),
        });
        for (name, shard) in &waiter.keys {
            held.cell(*shard).park(name, &waiter);
        }
        self.waiters
            .0
            .lock()
            .insert(session.id, Arc::clone(&waiter));
        session.waiting = Some(waiter);
    }

    /// The connection has got the answer of its waiting command, of so many bytes.
    pub fn answered(&self, session: &mut Session, reply: usize, now: Timestamp) {
        self.conclude_waiting(session, reply, now, true);
    }

    /// The waiting command has been answered: it has been run (`served`), or its time was over.
    fn conclude_waiting(&self, session: &mut Session, reply: usize, now: Timestamp, served: bool) {
        if let Some(waiter) = session.waiting.take() {
            self.unpark(&waiter);
            self.end_waiting_for_replicas(&waiter);
            let words: SmallVec<[&[u8]; 8]> = waiter.words.iter().map(|word| &**word).collect();
            let nanos = waiter.spent.load(Ordering::Relaxed);
            self.observer
                .took(waiter.row, Some(session), &words, nanos, now);
            if !served {
                session.spent.set(None);
            }
            let sizes = (request_len(&words), reply);
            self.exchanged(session, &words, sizes, now);
        }
    }

    /// The time of the waiting command may be over: if it is and nobody has answered, its reply is written. True when it
    /// was. If it is time to look after it, that is done: the answer comes by its mail, if there is one.
    pub fn time_out(&self, session: &mut Session, now: Timestamp, out: &mut ReplyBuf) -> bool {
        let Some(waiter) = &session.waiting else {
            return false;
        };
        if waiter.deadline_ms.is_none_or(|at| now.millis() < at) {
            if waiter.look_at_ms.load(Ordering::Relaxed) <= now.millis() {
                self.look_after(waiter, now);
            }
            return false;
        }
        {
            let mut done = waiter.done.lock();
            if *done {
                return false;
            }
            waiter.end(self, &mut done);
        }
        let mark = out.len();
        self.write_nothing(waiter, now, out);
        self.conclude_waiting(session, out.len() - mark, now, false);
        true
    }

    /// Runs a waiting command again, in its place among those who wait for its keys.
    fn look_after(&self, waiter: &Waiter, now: Timestamp) {
        waiter.look_next_ms.store(NEVER, Ordering::Relaxed);
        for (name, shard) in &waiter.keys {
            self.listeners.put_off(ReadyKey {
                name: name.as_slice().into(),
                shard: *shard,
            });
        }
        self.serve_later(now);
        // Where a long command has put it off, whoever ends that one serves it.
        let next = match waiter.look_next_ms.load(Ordering::Relaxed) {
            NEVER => now.millis() + LOOK_PUT_OFF_MS,
            next => next.max(now.millis() + LOOK_AGAIN_MS),
        };
        waiter.look_at_ms.store(next, Ordering::Relaxed);
    }

    /// CLIENT UNBLOCK: true when the client waited.
    pub fn unblock(&self, client: u64, how: Unblock, now: Timestamp) -> bool {
        let Some(waiter) = self.waiters.0.lock().get(&client).cloned() else {
            return false;
        };
        let mut done = waiter.done.lock();
        if *done {
            return false;
        }
        let mut out = ReplyBuf::new(waiter.protocol);
        match how {
            Unblock::Timeout => self.write_nothing(&waiter, now, &mut out),
            Unblock::Error => out.error(UNBLOCKED),
        }
        waiter.answer(self, &mut done, out.bytes().to_vec());
        true
    }

    /// The server has become a replica, where what clients wait for does not come about by them: they are told, and
    /// disconnected; or sent to the master, if they have said that they go there.
    pub fn dismiss_all(&self) {
        let master = self.master();
        let waiters: Vec<_> = self.waiters.0.lock().values().cloned().collect();
        for waiter in waiters {
            let mut done = waiter.done.lock();
            if *done {
                continue;
            }
            match &master {
                Some(to) if waiter.redirects => {
                    let mut out = ReplyBuf::new(waiter.protocol);
                    CmdError::redirect(to).write(&mut out);
                    waiter.answer(self, &mut done, out.bytes().to_vec());
                }
                _ => waiter.dismiss(self, &mut done, ROLE_CHANGED),
            }
        }
    }

    /// Answers with an error those who wait for keys and for whose first key `judge` has one.
    pub(crate) fn refuse_waiters(&self, judge: impl Fn(&[u8]) -> Option<CmdError>) {
        let waiters: Vec<_> = self.waiters.0.lock().values().cloned().collect();
        for waiter in waiters {
            let first = waiter.positions.first();
            let Some(error) = first.and_then(|&at| judge(&waiter.words[at as usize])) else {
                continue;
            };
            let mut done = waiter.done.lock();
            if !*done {
                let mut out = ReplyBuf::new(waiter.protocol);
                error.write(&mut out);
                waiter.answer(self, &mut done, out.bytes().to_vec());
            }
        }
    }

    /// Replicas, and the append-only file if `local`, have got as far as the client waits for.
    pub(crate) fn answer_waiter(&self, client: u64, replicas: usize, local: bool) {
        let Some(waiter) = self.waiters.0.lock().get(&client).cloned() else {
            return;
        };
        let mut done = waiter.done.lock();
        if !*done {
            let mut out = ReplyBuf::new(waiter.protocol);
            if waiter.row.name == "WAITAOF" {
                out.array(2);
                out.int(i64::from(local));
            }
            out.int(replicas as i64);
            waiter.answer(self, &mut done, out.bytes().to_vec());
        }
    }

    fn end_waiting_for_replicas(&self, waiter: &Waiter) {
        if matches!(waiter.row.run, Run::Wait(_)) {
            self.journal.end_wait(waiter.client);
        }
    }

    /// The client is being killed: what it waits for goes to others from now on.
    pub fn abandon(&self, client: u64) {
        let waiter = self.waiters.0.lock().get(&client).cloned();
        if let Some(waiter) = waiter {
            let mut done = waiter.done.lock();
            if !*done {
                waiter.end(self, &mut done);
            }
        }
    }

    /// The connection is gone: nothing of it waits, watches or is queued any more.
    pub fn leave(&self, session: &mut Session) {
        if let Some(waiter) = session.waiting.take() {
            {
                let mut done = waiter.done.lock();
                if !*done {
                    waiter.end(self, &mut done);
                }
            }
            self.unpark(&waiter);
            self.end_waiting_for_replicas(&waiter);
        }
        session.transaction = None;
        self.unwatch(session);
    }

    /// Takes a waiter whose wait is over out of the queues it is still in. The caller holds no shard.
    fn unpark(&self, waiter: &Arc<Waiter>) {
        for (name, shard) in &waiter.keys {
            self.end_park(*shard, name, waiter);
        }
    }

    /// The reply of a command whose time is over.
    fn write_nothing(&self, waiter: &Waiter, now: Timestamp, out: &mut ReplyBuf) {
        let Run::Wait(handler) = waiter.row.run else {
            return out.null_array();
        };
        let words: Vec<&[u8]> = waiter.words.iter().map(|word| &**word).collect();
        let call = Call {
            row: waiter.row,
            args: &words,
            db: waiter.db,
            now,
            origin: Origin::Client,
            may_block: false,
            client: waiter.client,
            long: Long::Here,
            caller: None,
            out_of_memory: false,
            no_touch: false,
        };
        let mark = out.len();
        match self.run_walk(handler, &call, &mut NoWalk, out) {
            Ok(reply) => reply.write(out),
            Err(error) => {
                out.truncate(mark);
                error.write(out);
            }
        }
    }
}
