//! The RESP protocol on one thread's connections: bytes in, replies out.

use crate::allocator;
use crate::aof::Held;
use crate::client::{Client, Signal};
use crate::elsewhere;
use crate::eviction;
use crate::expiry::{self, House};
use crate::listening;
use crate::log::Level;
use crate::memcached;
use crate::metrics::Traffic;
use crate::node::{NodeRunner, modes, tracking};
use crate::outbox::Running;
use crate::pipeline::{BATCH, Pipeline, ReadEnd};
use crate::protected;
use crate::replication;
use crate::shared::Shared;
use crate::waits::{Post, Waits};
use smallvec::SmallVec;
use std::sync::Arc;
use tollgate_commands::{Flags, Row, Run};
use tollgate_engine::{ClientInfo, Outcome, Plan, Replies, Session};
use tollgate_limiter::Timestamp;
use tollgate_net::{Clock, ConnRef, Driver, Flow, Peer, Refused, Step};
use tollgate_wire::resp::{Limits, Protocol, ProtocolError, ReplyBuf, RequestParser};

/// Replies are handed to the socket above this many bytes; just below what the reply buffer keeps when it is emptied.
const WRITE_AT: usize = 60 * 1024;
/// From so many bytes on, what has come for a client is counted before it is read, where that is limited.
const COUNTED_FROM: usize = 16 * 1024;
/// Bytes of replies that a client which has not authenticated may leave unread.
const UNAUTHENTICATED_OUTPUT: usize = 16 * 1024;
/// Commands run on one reading of the clock.
const COMMANDS_PER_CLOCK: u32 = 128;
/// The refusal that Redis words so.
const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// One connection's state. A parser is kept only while a command is incomplete.
pub(crate) struct Conn {
    pub(crate) session: Session,
    pub(crate) client: Arc<Client>,
    parser: Option<Box<RequestParser>>,
    /// A command of it is run elsewhere, or is put off.
    pub(crate) away: bool,
    /// And it is answered, or run, also when the peer has said that it sends no more.
    pub(crate) owes: bool,
    /// Replies that wait until what they tell of is in the append-only file.
    held: Option<Box<Held>>,
    /// It speaks Memcached's protocol.
    pub(crate) memcached: Option<Box<memcached::State>>,
}

impl Conn {
    /// No further command may run before the one that waits, or is run elsewhere, has been answered.
    fn is_waiting(&self) -> bool {
        self.away || self.session.is_waiting()
    }

    /// A command is run elsewhere, or has to be run again. `is_owed`: to be answered to a peer that says no more, too.
    pub(crate) fn send_away(&mut self, is_owed: bool) {
        (self.away, self.owes) = (true, is_owed);
    }

    /// It was answered, or may be run.
    fn come_back(&mut self) {
        (self.away, self.owes) = (false, false);
    }

    /// How the connection waits.
    pub(crate) fn wait(&self) -> Flow {
        match self.owes {
            true => Flow::Hold,
            false => Flow::Wait,
        }
    }
}

/// How far a batch has come.
enum Ran {
    /// All commands.
    All,
    /// Up to and including this one, which waits.
    Wait(usize),
    /// Up to this one, which has to be run again.
    PutOff(usize),
    /// Up to and including this one, after which the replies were large enough to be sent.
    Full(usize),
    /// Up to one that ends the connection.
    Close,
    /// Up to one whose reply is too large for the client.
    Drop,
}

/// The protocol's driver on one thread.
pub(crate) struct RespDriver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: usize,
    pub(crate) out: ReplyBuf,
    pipeline: Pipeline,
    limits: Limits,
    pub(crate) traffic: Traffic,
    house: House,
    /// Of [`tollgate_engine::script_flushes`].
    flushes: u64,
    waits: Waits,
    /// Commands run since the clock was read.
    since_clock: u32,
    pub(crate) now: i64,
}

/// The commands of a batch.
type Plans<'a> = SmallVec<[Plan<'a>; BATCH]>;

impl RespDriver {
    pub(crate) fn new(shared: Arc<Shared>, thread: usize, limits: Limits) -> RespDriver {
        RespDriver {
            shared,
            thread,
            out: ReplyBuf::new(Protocol::Resp2),
            pipeline: Pipeline::new(),
            limits,
            traffic: Traffic::default(),
            house: House::default(),
            flushes: tollgate_engine::script_flushes(),
            waits: Waits::default(),
            since_clock: 0,
            now: 0,
        }
    }

    /// Runs the complete commands of `input`.
    fn run(&mut self, conn: &mut Conn, input: &[u8]) -> Step {
        let mut words = self.pipeline.take_room();
        let step = self.run_in(conn, input, &mut words);
        self.pipeline.put_room(words);
        step
    }

    /// As [`RespDriver::run`]; `words` is room for those of a batch.
    fn run_in<'i>(&mut self, conn: &mut Conn, input: &'i [u8], words: &mut Vec<&'i [u8]>) -> Step {
        let ended = |consumed, flow| Step {
            consumed,
            needed: 0,
            flow,
        };
        let mut at = 0;
        while at < input.len() {
            let authenticated = conn.session.authenticated || self.shared.engine.access().is_open();
            let longest = self.shared.engine.limits().proto_max_bulk_len();
            let limits = Limits {
                authenticated,
                max_bulk_len: usize::try_from(longest).unwrap_or(usize::MAX),
                ..self.limits
            };
            // A password lifts the limits on what follows it, so nothing is read ahead of it.
            let most = if authenticated { BATCH } else { 1 };
            let rest = &input[at..];
            words.clear();
            let end = self.pipeline.read(rest, &limits, most, words);
            match self.run_batch(conn, rest, words) {
                Ran::All => at += self.pipeline.consumed(),
                Ran::Full(last) => {
                    at += self.pipeline.end(last);
                    return ended(at, Flow::Yield);
                }
                Ran::Wait(last) => {
                    at += self.pipeline.end(last);
                    // What does not wait for keys is answered by whoever has been asked for something.
                    conn.away |= !conn.session.is_waiting();
                    self.waits.start(conn);
                    return ended(at, conn.wait());
                }
                Ran::PutOff(next) => {
                    at += next
                        .checked_sub(1)
                        .map_or(0, |last| self.pipeline.end(last));
                    return ended(at, conn.wait());
                }
                end @ (Ran::Close | Ran::Drop) => {
                    return ended(
                        input.len(),
                        if matches!(end, Ran::Close) {
                            Flow::Close
                        } else {
                            Flow::Drop
                        },
                    );
                }
            }
            match end {
                ReadEnd::Done => {}
                ReadEnd::Incomplete(needed) => {
                    conn.parser = Some(self.pipeline.take_incomplete());
                    return Step {
                        consumed: at,
                        needed,
                        flow: Flow::Continue,
                    };
                }
                ReadEnd::Broken(error) => return self.protocol_error(&error, input.len()),
            }
        }
        ended(at, Flow::Continue)
    }

    /// Looks at the clock again when many commands have run since.
    #[inline]
    pub(crate) fn follow_clock(&mut self, commands: usize) {
        if self.since_clock >= COMMANDS_PER_CLOCK {
            self.now = self.now.max(Clock::now());
            self.since_clock = 0;
        }
        self.since_clock += commands as u32;
    }

    /// Runs the commands that were read from the front of `input`. One alone runs as it comes; several are looked up
    /// together first.
    fn run_batch(&mut self, conn: &mut Conn, input: &[u8], words: &[&[u8]]) -> Ran {
        let len = self.pipeline.len();
        self.follow_clock(len);
        let parsed = self.pipeline.parsed(input);
        let words_of = |i| match &parsed {
            Some(words) => &words[..],
            None => self.pipeline.words(i, words),
        };
        let engine = &self.shared.engine;
        let mut plans: Plans<'_> = (0..len).map(|i| engine.plan(words_of(i))).collect();
        if len > 1 {
            engine.look_ahead(conn.session.db, &mut plans);
        }
        let (shared, client) = (&self.shared, &conn.client);
        let mut node = NodeRunner { shared, client };
        let now = Timestamp::from_nanos(self.now);
        let mut most_replies = conn.client.most_replies();
        for (i, plan) in plans.iter().enumerate() {
            let (words, mark) = (words_of(i), self.out.len());
            self.traffic.commands += 1;
            let outcome = engine.execute_planned(
                plan,
                &mut conn.session,
                words,
                now,
                &mut self.out,
                &mut node,
            );
            self.count_error(mark);
            let answered = matches!(outcome, Outcome::Continue | Outcome::Close);
            if answered {
                let reply = (plan.row(), mark);
                if !conclude(shared, client, &mut conn.session, reply, &mut self.out) {
                    return Ran::Drop;
                }
                let sizes = (self.pipeline.size(i, words), self.out.len() - mark);
                engine.exchanged(&conn.session, words, sizes, now);
            }
            if conn.client.outbox.is_pending() {
                conn.client.outbox.take(&mut self.out, mark);
            }
            if !plan.is_about_keys() {
                // What the client may leave unread depends on what it is.
                most_replies = conn.client.most_replies();
            }
            if self.out.len() >= most_replies {
                conn.client.drop_for_output();
                return Ran::Drop;
            }
            match outcome {
                Outcome::Continue => {}
                Outcome::Wait => return Ran::Wait(i),
                Outcome::Elsewhere => {
                    conn.send_away(true);
                    elsewhere::run(&self.shared, &conn.client, &mut conn.session, words);
                    return Ran::Wait(i);
                }
                Outcome::TryAgain => {
                    self.traffic.commands -= 1;
                    conn.send_away(!engine.pause().is_active());
                    return Ran::PutOff(i);
                }
                Outcome::Close => return Ran::Close,
            }
            if self.out.len() >= WRITE_AT {
                return Ran::Full(i);
            }
        }
        Ran::All
    }

    /// Counts the reply that begins at `mark` if it is an error.
    #[inline]
    fn count_error(&self, mark: usize) {
        if let Some(error) = self.out.bytes()[mark..].strip_prefix(b"-") {
            self.shared.metrics.error_reply(error);
        }
    }

    #[cold]
    fn protocol_error(&mut self, error: &ProtocolError, all: usize) -> Step {
        if error.is_silent() {
            // Not even the replies before it are sent: a browser is not to learn anything.
            return Step {
                consumed: all,
                needed: 0,
                flow: Flow::Drop,
            };
        }
        self.out.protocol_error(error);
        self.shared.metrics.error_reply(&error.line());
        Step {
            consumed: all,
            needed: 0,
            flow: Flow::Close,
        }
    }
}

impl RespDriver {
    /// Keeps back what a connection is to be sent until the append-only file has what it tells of, if that is asked for.
    #[inline]
    fn hold(&mut self, conn: &mut Conn, flow: Flow) -> Flow {
        if !self.shared.aof.is_on() && conn.held.is_none() {
            return flow;
        }
        self.hold_back(conn, flow)
    }

    #[cold]
    fn hold_back(&mut self, conn: &mut Conn, flow: Flow) -> Flow {
        // What is written for a connection that is dropped is sent to nobody; replicas have no replies.
        if flow == Flow::Drop || conn.session.follows {
            return flow;
        }
        let until = self
            .shared
            .aof
            .holds_until(&self.shared, !self.out.is_empty());
        if conn.held.is_none() {
            let Some(until) = until.filter(|&until| self.shared.aof.hold(until, conn.client.at))
            else {
                return flow;
            };
            conn.held = Some(Box::new(Held {
                replies: Vec::new(),
                until,
                flow,
            }));
        }
        if let Some(held) = &mut conn.held {
            held.replies.extend_from_slice(self.out.bytes());
            held.until = held.until.max(until.unwrap_or(0));
            held.flow = flow;
            self.out.clear();
        }
        Flow::Hold
    }

    /// The append-only file has got on: what was held back is sent, if it has got far enough.
    #[cold]
    fn release(&mut self, conn: &mut Conn) -> Flow {
        let aof = &self.shared.aof;
        if let Some(held) = &conn.held
            && aof.hold(held.until, conn.client.at)
        {
            return Flow::Hold;
        }
        let Some(held) = conn.held.take() else {
            return match conn.is_waiting() {
                true => conn.wait(),
                false => Flow::Continue,
            };
        };
        self.out.raw(&held.replies);
        match held.flow {
            Flow::Close => Flow::Close,
            _ if conn.is_waiting() => conn.wait(),
            _ => Flow::Continue,
        }
    }

    /// Counts what has come for a client before it is read; false when the client is evicted for it.
    #[cold]
    fn may_hold(&self, conn: &Conn, input: usize) -> bool {
        conn.client.publish_input(input);
        eviction::evict(&self.shared);
        !conn.client.is_killed()
    }

    fn tell_closed(&self, conn: &Conn, now: i64) {
        let log = &self.shared.log;
        if conn.session.follows {
            let (host, port) = conn.client.replica_address();
            log.notice(format_args!("Connection with replica {host}:{port} lost."));
        } else if log.takes(Level::Verbose) {
            let client = conn.client.show(Timestamp::from_nanos(now));
            log.verbose(format_args!("Client closed connection {client}"));
        }
    }

    /// Concludes the command that the client waited for, whose reply is all of the output. False as of [`conclude`].
    fn conclude_late(&mut self, conn: &mut Conn) -> bool {
        let reply = (conn.session.last, 0);
        let (shared, client) = (&*self.shared, &conn.client);
        conclude(shared, client, &mut conn.session, reply, &mut self.out)
    }

    /// Does what another thread, or another connection of this one, has asked for.
    fn take_message(&mut self, conn: &mut Conn, message: Signal, now: i64) -> Flow {
        match message {
            Signal::Answer(reply) => {
                self.waits.end(conn);
                conn.come_back();
                self.shared.engine.answered(
                    &mut conn.session,
                    reply.len(),
                    Timestamp::from_nanos(now),
                );
                if reply.first() == Some(&b'-') {
                    self.shared.metrics.error_reply(&reply[1..]);
                }
                match conn.memcached {
                    Some(_) => self.answer_memcached(conn, &reply),
                    None => self.out.raw(&reply),
                }
                if !self.conclude_late(conn) {
                    return Flow::Drop;
                }
                if conn.client.outbox.is_pending() {
                    conn.client.outbox.take(&mut self.out, 0);
                }
                conn.client.publish(&conn.session, now);
                if conn.client.is_too_much(self.out.len()) {
                    conn.client.drop_for_output();
                    return Flow::Drop;
                }
                Flow::Continue
            }
            Signal::Last(reply) => match self.take_message(conn, Signal::Answer(reply), now) {
                Flow::Drop => Flow::Drop,
                _ => Flow::Close,
            },
            Signal::TryAgain => {
                conn.come_back();
                if conn.client.outbox.is_pending() {
                    conn.client.outbox.take(&mut self.out, 0);
                }
                Flow::Continue
            }
            // Taken by `release`.
            Signal::Written => Flow::Continue,
            Signal::Kill => Flow::Drop,
            Signal::Outbox => {
                // A reply that is made elsewhere, or is on its way, may hold what an invalidation behind it makes stale.
                if !conn.away && !conn.session.is_answered() {
                    conn.client.outbox.take(&mut self.out, 0);
                }
                Flow::Continue
            }
        }
    }
}

impl Driver for RespDriver {
    type Conn = Conn;
    type Message = Signal;

    fn open(&mut self, at: ConnRef, peer: Peer, now: i64) -> Result<Conn, Refused> {
        let is_memcached = peer.kind == listening::MEMCACHED;
        let settings = &self.shared.settings;
        if !protected::admits(&self.shared, &peer.remote) {
            self.shared.clients.reject();
            return Err(Refused(match is_memcached {
                true => memcached::DENIED,
                false => protected::DENIED,
            }));
        }
        let client = self
            .shared
            .clients
            .open(peer, at, settings.max_clients(), now);
        let Some(client) = client else {
            return Err(Refused(match is_memcached {
                true => memcached::TOO_MANY,
                false => TOO_MANY_CLIENTS,
            }));
        };
        let log = &self.shared.log;
        log.verbose(format_args!("Accepted {}", client.peer.remote));
        let mut session = Session::new(client.id, true);
        self.shared.engine.access().begin(&mut session);
        session.client = Some(Arc::clone(&client) as Arc<dyn ClientInfo>);
        session.mail = Some(Arc::new(Post {
            shared: Arc::downgrade(&self.shared),
            client: Arc::clone(&client),
        }));
        session.allow_moves();
        Ok(Conn {
            session,
            memcached: is_memcached.then(|| memcached::begin(&client)),
            client,
            parser: None,
            away: false,
            owes: false,
            held: None,
        })
    }

    fn data(&mut self, conn: &mut Conn, input: &[u8], now: i64) -> Step {
        if conn.client.is_killed() {
            return Step {
                consumed: input.len(),
                needed: 0,
                flow: Flow::Drop,
            };
        }
        // Clients go before entries do.
        eviction::evict(&self.shared);
        let counted = input.len() >= COUNTED_FROM && self.shared.clients.budget().counts();
        if counted && !self.may_hold(conn, input.len()) {
            return Step {
                consumed: input.len(),
                needed: 0,
                flow: Flow::Drop,
            };
        }
        if now > self.now {
            self.now = now;
            self.since_clock = 0;
        }
        self.out.set_protocol(conn.session.protocol);
        if let Some(parser) = conn.parser.take() {
            self.pipeline.resume(*parser);
        }
        self.shared.engine.gather_journal();
        let running = Running::client(conn.client.id, input);
        let mut step = match conn.memcached {
            None => self.run(conn, input),
            Some(_) => self.run_memcached(conn, input),
        };
        drop(running);
        step.flow = self.hold(conn, step.flow);
        if counted {
            // What is kept of it.
            conn.client.publish_input(input.len() - step.consumed);
        }
        conn.client.publish(&conn.session, self.now);
        self.traffic.input += step.consumed as u64;
        self.traffic.reads += 1;
        step
    }

    fn message(&mut self, conn: &mut Conn, message: Signal, now: i64) -> Flow {
        let flow = match message {
            Signal::Written => return self.release(conn),
            message => self.take_message(conn, message, now),
        };
        let flow = match flow {
            Flow::Continue if conn.is_waiting() => conn.wait(),
            flow => flow,
        };
        self.hold(conn, flow)
    }

    fn next_timeout(&self) -> Option<i64> {
        self.waits.next()
    }

    fn take_timeout(&mut self, now: i64) -> Option<ConnRef> {
        self.waits.take(now)
    }

    fn timed_out(&mut self, conn: &mut Conn, now: i64) -> Flow {
        self.out.set_protocol(conn.session.protocol);
        let now_at = Timestamp::from_nanos(now);
        let engine = &self.shared.engine;
        if engine.time_out(&mut conn.session, now_at, &mut self.out) {
            if !self.conclude_late(conn) {
                return Flow::Drop;
            }
            conn.client.publish(&conn.session, now);
        } else {
            self.waits.go_on(conn, now);
        }
        // If somebody else was faster, the answer is on its way.
        let flow = match conn.is_waiting() {
            true => conn.wait(),
            false => Flow::Continue,
        };
        self.hold(conn, flow)
    }

    fn unsent(&self) -> &[u8] {
        self.out.bytes()
    }

    fn sent(&mut self) {
        self.traffic.output += self.out.len() as u64;
        self.traffic.writes += 1;
        self.out.clear();
    }

    fn take_unsent(&mut self) -> Vec<u8> {
        self.traffic.output += self.out.len() as u64;
        self.traffic.writes += 1;
        self.out.take()
    }

    fn buffered(&mut self, conn: &mut Conn, input: usize, output: usize) {
        conn.client.publish_buffers(input, output);
        if output > UNAUTHENTICATED_OUTPUT
            && !conn.session.authenticated
            && !self.shared.engine.access().is_open()
        {
            conn.client.drop_for_output();
        }
    }

    fn closed(&mut self, mut conn: Conn, now: i64) {
        self.tell_closed(&conn, now);
        self.waits.end(&conn);
        self.shared.engine.leave(&mut conn.session);
        // What a failed connection left unsent is nobody's.
        self.out.clear();
        let engine = &self.shared.engine;
        conn.client
            .subscriptions
            .clear(engine.pubsub(), conn.client.id);
        tracking::stop(engine, &conn.client, &mut conn.session);
        engine.forget_tracked();
        modes::stop_monitor(engine, &conn.client, &mut conn.session);
        self.shared.clients.close(conn.client.id);
        if conn.session.follows {
            engine.unfollow(conn.client.id, Timestamp::from_nanos(now));
            replication::judge(&self.shared);
        }
    }

    fn batch_done(&mut self, _now: i64) {
        self.shared.engine.deliver_journal();
        self.shared.engine.tracking().flush_broadcasts();
        if self.shared.engine.claim_garbage() {
            elsewhere::free(&self.shared);
        }
        let flushes = tollgate_engine::script_flushes();
        if std::mem::replace(&mut self.flushes, flushes) != flushes {
            elsewhere::give_up_states(&self.shared);
        }
        eviction::evict(&self.shared);
        self.shared.metrics.publish(self.thread, &self.traffic);
    }

    fn tick(&mut self, now: i64) -> Option<i64> {
        self.limits.max_request = self.shared.settings.query_limit();
        tollgate_engine::give_up_flushed();
        // Loop 0 keeps house for all.
        if self.thread != 0 {
            return None;
        }
        let house = expiry::keep_house(&mut self.house, &self.shared, &mut self.traffic, now);
        let flush = self.shared.memcached.tend(&self.shared, now);
        Some(flush.map_or(house, |at| house.min(at)))
    }

    fn shrink(&mut self) {
        tollgate_engine::give_up_flushed();
        allocator::give_back();
    }

    fn sweep_interval(&self) -> Option<i64> {
        (self.shared.settings.timeout_secs() > 0).then_some(1_000_000_000)
    }

    fn stale(&self, conn: &Conn, now: i64) -> bool {
        let timeout = self.shared.settings.timeout_secs();
        // Those who only listen have nothing to say.
        let listens =
            conn.session.subscriptions > 0 || conn.session.monitors || conn.session.follows;
        timeout > 0
            && !listens
            && !conn.is_waiting()
            && conn.held.is_none()
            && (now - conn.client.last_seen()) / 1_000_000_000 >= timeout as i64
    }

    fn output_limit(&self) -> usize {
        self.shared.settings.output_limit()
    }

    fn tcp_keepalive(&self) -> u64 {
        self.shared.settings.keepalive_secs()
    }
}

/// Whether something holds for single commands.
#[inline]
fn has_modes(session: &Session) -> bool {
    session.replies != Replies::On || session.tracker.is_some() || session.follows
}

/// Concludes a command of a row, whose reply begins at `mark`. False: the connection is a replica's, which is sent no replies
/// and is dropped for one.
#[inline]
fn conclude(
    shared: &Shared,
    client: &Client,
    session: &mut Session,
    reply: (Option<&Row>, usize),
    out: &mut ReplyBuf,
) -> bool {
    !has_modes(session) || conclude_modes(shared, client, session, reply, out)
}

#[cold]
fn conclude_modes(
    shared: &Shared,
    client: &Client,
    session: &mut Session,
    (row, mark): (Option<&Row>, usize),
    out: &mut ReplyBuf,
) -> bool {
    if !session.follows {
        end_modes(session, row, out, mark);
        return true;
    }
    let reply = &out.bytes()[mark..];
    if reply.is_empty() {
        return true;
    }
    if let Some(error) = reply.strip_prefix(b"-") {
        shared.metrics.error_reply(error);
    }
    client.drop_for_reply(row, reply);
    out.truncate(mark);
    false
}

/// Ends what holds for one command, and takes back a reply that the client does not want. What it is told of
/// subscriptions is no reply.
fn end_modes(session: &mut Session, row: Option<&Row>, out: &mut ReplyBuf, mark: usize) {
    let is_client = row.is_some_and(|row| row.name.starts_with("CLIENT|"));
    if let Some(tracker) = &session.tracker
        && !is_client
        && session.queued().is_none()
    {
        tracker.set_caching(false);
    }
    if session.replies == Replies::On {
        return;
    }
    let subscribes =
        row.is_some_and(|row| row.flags.contains(Flags::PUBSUB) && matches!(row.run, Run::Node(_)));
    // That the command was queued, or refused, is one.
    let is_refused = matches!(out.bytes().get(mark), Some(b'+' | b'-'));
    if !subscribes || is_refused {
        out.truncate(mark);
    }
    session.replies = match session.replies {
        Replies::SkipNext => Replies::Skip,
        Replies::Skip => Replies::On,
        other => other,
    };
}
