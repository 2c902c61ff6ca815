//! Serving those who wait for a key, by the thread that made it ready and under the locks it holds.
//!
//! Keys are served in the order in which they became ready, the waiters of a key in the order in which they came, after
//! the whole command, transaction or script. A waiter that needs a shard which somebody else has at this moment (BLMOVE
//! to a key elsewhere) is served right after the locks are released, by the holder of the gate, who may wait for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate_commands::{Again, CmdError, Effects, Event, Handler, Origin, Reply, Row, Run};
use tollgate_keyspace::TypeName;
use tollgate_limiter::Timestamp;
use tollgate_net::clock::Clock;
use tollgate_wire::resp::ReplyBuf;

use crate::Engine;
use crate::call::{Call, Long};
use crate::cell::{Cell, Cells, ReadyKey, parts};
use crate::execute::{elapsed, passed_since};
use crate::waiter::Waiter;

/// What XREADGROUP waiters are told when their key is no stream any more.
const STREAM_GONE: &str = "UNBLOCKED the stream key no longer exists";
/// What they are told when their group is gone.
const GROUP_GONE: &str = "NOGROUP the consumer group this client was blocked on no longer exists";

/// What came of an attempt.
enum Attempt {
    /// The waiter has its answer, or had one before.
    Over,
    /// There is nothing for it.
    Waits,
    /// A shard that it needs is taken.
    Later,
}

impl Engine {
    /// Serves the waiters of the keys that have become ready under these locks.
    #[inline]
    pub(crate) fn settle<H: Cells>(&self, held: &mut H, now: Timestamp) {
        self.conclude();
        if !held.ready().is_empty() {
            self.serve(held, now);
        }
    }

    /// The same after what stopped the clock for long (a transaction, a script): `started` is the monotone time at which it
    /// began, `now` the time that stood still. Waiters see what has expired meanwhile as gone.
    pub(crate) fn settle_since<H: Cells>(&self, held: &mut H, now: Timestamp, started: i64) {
        self.conclude();
        if !held.ready().is_empty() {
            self.serve(held, passed_since(now, started));
        }
    }

    #[cold]
    fn serve(&self, held: &mut dyn Cells, now: Timestamp) {
        while !held.ready().is_empty() {
            let key = held.ready().remove(0);
            if !self.serve_key(&key, held, now) {
                self.listeners.put_off(key);
            }
        }
    }

    /// Serves what had to be put off. The caller holds no shard. What needs something that a long command holds is put off
    /// once more: whoever runs such a command comes here when it has ended. While clients are paused nobody is served; what is
    /// left is found afterwards by [`Engine::do_what_was_left`].
    #[cold]
    pub(crate) fn serve_later(&self, now: Timestamp) {
        if self.pause.is_active() {
            return;
        }
        for key in self.listeners.take_put_off() {
            if let Some(mut held) = self.shards.lock_gate_unless_kept()
                && held.acquire_unless_kept(key.shard)
            {
                held.ready().push(key);
                self.serve(&mut held, now);
            } else {
                self.listeners.put_off(key);
            }
        }
    }

    /// False when the first of its waiters must be served later.
    fn serve_key(&self, key: &ReadyKey, held: &mut dyn Cells, now: Timestamp) -> bool {
        let mut place = 0;
        for _ in 0..held.cell(key.shard).waiters(&key.name) {
            let Some(waiter) = held.cell(key.shard).waiter(&key.name, place) else {
                break;
            };
            match self.try_serve(&waiter, key, held, now) {
                Attempt::Over => {
                    let heard = self.listeners.hear_expired();
                    held.cell(key.shard).unpark(&key.name, &waiter, heard);
                }
                Attempt::Waits => place += 1,
                Attempt::Later => return false,
            }
        }
        true
    }

    fn try_serve(
        &self,
        waiter: &Arc<Waiter>,
        key: &ReadyKey,
        held: &mut dyn Cells,
        now: Timestamp,
    ) -> Attempt {
        let mut done = waiter.done.lock();
        if *done || waiter.is_forsaken(self, &mut done) {
            return Attempt::Over;
        }
        let (db, bytes) = parts(&key.name);
        // Removes what has expired meanwhile.
        let found = held
            .cell(key.shard)
            .peek(db, self.seed.key(bytes), now.millis())
            .map(|entry| entry.type_name());
        if found.is_none() && self.listeners.journals() {
            self.announce(&Effects::new(), held, 0);
            self.conclude_singly();
        }
        if !found.is_some_and(|found| suits(waiter.row, found)) {
            if waiter.row.name != "XREADGROUP" {
                return Attempt::Waits;
            }
            let mut out = ReplyBuf::new(waiter.protocol);
            out.error(STREAM_GONE);
            waiter.answer(self, &mut done, out.bytes().to_vec());
            return Attempt::Over;
        }
        let words = waiter.words_for(bytes);
        let Run::Keys(handler) = waiter.row.run else {
            return Attempt::Waits;
        };
        let shards = self.shards_of(waiter.row, &words).unwrap_or_default();
        if !shards.iter().all(|&index| held.acquire_unless_kept(index)) {
            return Attempt::Later;
        }
        let (mut out, mut effects) = (ReplyBuf::new(waiter.protocol), Effects::new());
        let started = Clock::monotone();
        let call = waiter.call(&words, now);
        let mut again = None;
        let over = self.run_again(handler, &call, held, &mut out, &mut again, &mut effects);
        waiter.wants_look(again.as_ref());
        if effects.is_listening() && self.listeners.journals() {
            // What it found expired goes first; and all before the reply, which waits for what is recorded by then.
            self.announce(&Effects::new(), held, 0);
            self.record_done(&call, &effects, held, &Ok(Reply::Written), out.bytes());
            self.conclude();
        }
        if over {
            waiter.spent.store(elapsed(started), Ordering::Relaxed);
            // Before anybody is told of the changes: an invalidation comes behind the reply.
            waiter.answer(self, &mut done, out.bytes().to_vec());
        }
        drop(done);
        self.commit(&effects, held, &call);
        if over { Attempt::Over } else { Attempt::Waits }
    }

    /// Runs the command of a waiter on what is there now; true when it has written its reply.
    fn run_again(
        &self,
        handler: Handler,
        call: &Call<'_>,
        held: &mut dyn Cells,
        out: &mut ReplyBuf,
        again: &mut Option<Again>,
        effects: &mut Effects,
    ) -> bool {
        let args = call.cursor(&self.seed);
        match self.handle(handler, call, args, held, out, again, effects) {
            Ok(Reply::Block { .. }) => return false,
            Ok(reply) => reply.write(out),
            Err(error) => {
                out.clear();
                write_error(&error, call.row, out);
            }
        }
        true
    }
}

impl Waiter {
    /// Its command, run again with these words.
    fn call<'a>(&'a self, words: &'a [&'a [u8]], now: Timestamp) -> Call<'a> {
        Call {
            row: self.row,
            args: words,
            db: self.db,
            now,
            origin: Origin::Client,
            may_block: true,
            client: self.client(),
            long: Long::Here,
            caller: None,
            out_of_memory: false,
            no_touch: false,
        }
    }
}

impl Engine {
    /// Whether somebody who waits for the key is to be looked after now: its type is there, or what a consumer group reads
    /// has gone. So a key gets its place among those that are served as in Redis: when such a value came to be there.
    pub(crate) fn is_ready(&self, cell: &Cell, name: &[u8]) -> bool {
        let (db, key) = parts(name);
        // Whether it has expired meanwhile is seen when it is served.
        let there = cell
            .look(db, self.seed.key(key), i64::MIN)
            .map(|entry| entry.type_name());
        (0..cell.waiters(name))
            .filter_map(|place| cell.waiter(name, place))
            .any(|waiter| match there {
                _ if waiter.row.name == "XREADGROUP" => true,
                Some(there) => suits(waiter.row, there),
                None => false,
            })
    }
}

/// Whether an event may give a waiter what it waits for: those that only take away, or change what belongs to a key or to
/// a consumer group, make Redis look at nobody.
pub(crate) fn may_satisfy(event: Event) -> bool {
    !matches!(
        event,
        Event::Expire
            | Event::Persist
            | Event::XDel
            | Event::XTrim
            | Event::XSetId
            | Event::XGroupCreate
            | Event::XGroupSetId
            | Event::XGroupCreateConsumer
            | Event::XGroupDelConsumer
    )
}

/// Whether the command works on keys of that type.
fn suits(row: &Row, found: TypeName) -> bool {
    match row.group.name() {
        "list" => found == TypeName::List,
        "sorted-set" => found == TypeName::SortedSet,
        "stream" => found == TypeName::Stream,
        _ => true,
    }
}

fn write_error(error: &CmdError, row: &Row, out: &mut ReplyBuf) {
    if row.name == "XREADGROUP" && error.to_line().starts_with(b"NOGROUP") {
        out.error(GROUP_GONE);
    } else {
        error.write(out);
    }
}
