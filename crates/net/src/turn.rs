//! What a loop keeps and does in each of its turns, whatever tells it of events.

use crate::acceptor::{Acceptor, Waiting};
use crate::clock::Clock;
use crate::conn_io::{CROWDED_OUTPUT_LIMIT, LOOP_OUTPUT_LIMIT};
use crate::driver::{ConnRef, Driver, Flow, Peer};
use crate::mailbox::{Mailboxes, Post};
use crate::slots::Slots;
use crate::timers::Timers;
use socket2::Socket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a loop keeps for one connection.
pub(crate) trait Held {
    /// The driver's part.
    type Conn;

    fn new(socket: Socket, conn: Self::Conn) -> Self;

    /// The driver's part; `None` when the connection is closed.
    fn conn(&mut self) -> Option<&mut Self::Conn>;

    /// Whether it is listed in the loop's backlog.
    fn queued(&mut self) -> &mut bool;

    /// Whether nothing is left to run or to send.
    fn is_done(&self) -> bool;
}

/// What every loop keeps.
pub(crate) struct LoopCore<D: Driver, S> {
    thread: u16,
    pub(crate) driver: D,
    pub(crate) slots: Slots<S>,
    mailboxes: Arc<Mailboxes<D::Message>>,
    posts: Vec<Post<D::Message>>,
    /// Connections per loop of the group.
    loads: Arc<[AtomicUsize]>,
    pub(crate) acceptor: Option<Acceptor>,
    /// Connections with work left that no event will announce.
    backlog: Vec<u32>,
    /// Unsent output of all connections that was counted.
    pub(crate) held: usize,
    /// Time of this wake-up.
    pub(crate) now: i64,
    pub(crate) timers: Timers,
    /// What is kept for use again is to be freed at the end of the turn.
    pub(crate) shrinks: bool,
}

impl<D: Driver, S: Held<Conn = D::Conn>> LoopCore<D, S> {
    pub(crate) fn new(
        thread: u16,
        driver: D,
        mailboxes: Arc<Mailboxes<D::Message>>,
        loads: Arc<[AtomicUsize]>,
        acceptor: Option<Acceptor>,
    ) -> LoopCore<D, S> {
        LoopCore {
            thread,
            driver,
            slots: Slots::new(),
            mailboxes,
            posts: Vec::new(),
            loads,
            acceptor,
            backlog: Vec::new(),
            held: 0,
            now: Clock::now(),
            timers: Timers::default(),
            shrinks: false,
        }
    }

    /// Stopping, and every reply is out or the grace is over.
    pub(crate) fn is_finished(&self) -> bool {
        self.timers
            .stop_at
            .is_some_and(|deadline| self.slots.is_empty() || self.now >= deadline)
    }

    /// How long to wait for events; `None` = as long as it takes.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let waiting = self
            .acceptor
            .as_ref()
            .map_or(Waiting::Nothing, Acceptor::waiting);
        let accept_at = match waiting {
            _ if !self.backlog.is_empty() => return Some(Duration::ZERO),
            Waiting::Now => return Some(Duration::ZERO),
            Waiting::At(due) => Some(due),
            Waiting::Nothing => None,
        };
        let due = [
            self.timers.earliest(),
            accept_at,
            self.driver.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()?;
        Some(Duration::from_nanos(
            due.saturating_sub(self.now).max(0) as u64
        ))
    }

    /// Has the connection continue in a later turn.
    pub(crate) fn enqueue(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index)
            && !std::mem::replace(slot.queued(), true)
        {
            self.backlog.push(index);
        }
    }

    /// Unsent output that one connection may have now.
    pub(crate) fn output_limit(&self) -> usize {
        let limit = self.driver.output_limit();
        if self.held > LOOP_OUTPUT_LIMIT {
            limit.min(CROWDED_OUTPUT_LIMIT)
        } else {
            limit
        }
    }

    /// Frees what is kept for use again: what is in use stays.
    pub(crate) fn shrink(&mut self) {
        self.shrinks = false;
        self.backlog.shrink_to_fit();
        self.posts.shrink_to_fit();
        self.driver.shrink();
    }

    /// One connection less for this thread.
    pub(crate) fn count_closed(&self) {
        self.loads[self.thread as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a connection is to be closed because nothing came for too long.
    fn is_stale(&mut self, index: u32) -> bool {
        let conn = self.slots.get_mut(index).and_then(Held::conn);
        conn.is_some_and(|conn| self.driver.stale(conn, self.now))
    }

    fn open(&mut self, at: ConnRef, socket: &Socket, peer: Peer) -> Option<D::Conn> {
        if self.timers.stop_at.is_some() {
            return None;
        }
        match self.driver.open(at, peer, self.now) {
            Ok(conn) => Some(conn),
            Err(refused) => {
                // Best effort: a peer that is gone need not be told.
                drop(socket.send(refused.0));
                None
            }
        }
    }
}

/// The parts of a turn that no facility does differently.
pub(crate) trait Turns<D: Driver> {
    type Slot: Held<Conn = D::Conn>;

    fn core(&mut self) -> &mut LoopCore<D, Self::Slot>;

    /// Begins to read a connection that has just got its place.
    fn begin(&mut self, index: u32);

    /// Sends what the driver left in its buffer outside of a run.
    fn deliver(&mut self, index: u32, flow: Flow);

    /// Continues a connection that was put off.
    fn resume(&mut self, index: u32);

    /// Reads what has arrived, answers it, and closes as soon as the replies are out.
    fn finish(&mut self, index: u32);

    fn close(&mut self, index: u32);

    fn close_if_done(&mut self, index: u32) {
        let slot = self.core().slots.get_mut(index);
        if slot.is_some_and(|slot| slot.is_done()) {
            self.close(index);
        }
    }

    /// Lets the driver do what is due, and closes connections that were silent for too long.
    fn tick(&mut self) {
        let core = self.core();
        if !core.timers.tick(&mut core.driver, core.now) {
            return;
        }
        for index in 0..core.slots.bound() {
            if self.core().is_stale(index) {
                self.close(index);
            }
        }
    }

    /// Ends the waits whose time has come.
    fn end_waits(&mut self) {
        loop {
            let core = self.core();
            let Some(at) = core.driver.take_timeout(core.now) else {
                return;
            };
            self.with_conn(at, |driver, conn, now| driver.timed_out(conn, now));
        }
    }

    fn continue_backlog(&mut self) {
        // What is put off again during this turn waits for the next one.
        let mut due = std::mem::take(&mut self.core().backlog);
        for index in due.drain(..) {
            self.resume(index);
        }
        let backlog = &mut self.core().backlog;
        if backlog.is_empty() {
            *backlog = due;
        }
    }

    fn take_posts(&mut self) {
        let core = self.core();
        let mut posts = std::mem::take(&mut core.posts);
        core.mailboxes.take(core.thread as usize, &mut posts);
        for post in posts.drain(..) {
            match post {
                Post::Adopt(socket, peer) => self.adopt(socket, peer),
                Post::Message(at, message) => self.message(at, message),
                Post::Tick => self.tick(),
                Post::Shrink => self.core().shrinks = true,
                Post::Stop { deadline } => self.stop(deadline),
            }
        }
        self.core().posts = posts;
    }

    fn message(&mut self, at: ConnRef, message: D::Message) {
        self.with_conn(at, |driver, conn, now| driver.message(conn, message, now));
    }

    /// Lets the driver do something for a connection, if that still exists.
    fn with_conn(&mut self, at: ConnRef, f: impl FnOnce(&mut D, &mut D::Conn, i64) -> Flow) {
        let core = self.core();
        let Some(index) = core.slots.resolve(at) else {
            return;
        };
        let Some(conn) = core.slots.get_mut(index).and_then(Held::conn) else {
            return;
        };
        let flow = f(&mut core.driver, conn, core.now);
        self.deliver(index, flow);
    }

    fn stop(&mut self, deadline: i64) {
        let core = self.core();
        core.acceptor = None;
        core.timers.stop_at = Some(deadline);
        for index in 0..core.slots.bound() {
            self.finish(index);
        }
    }

    fn accept_waiting(&mut self) {
        let core = self.core();
        let Some(mut acceptor) = core.acceptor.take() else {
            return;
        };
        let keepalive = core.driver.tcp_keepalive();
        acceptor.accept_waiting(core.now, keepalive, |target, socket, peer| {
            self.place(target, socket, peer);
        });
        self.core().acceptor = Some(acceptor);
    }

    /// Gives a connection to the loop of thread `target`, which has it counted already.
    fn place(&mut self, target: usize, socket: Socket, peer: Peer) {
        let core = self.core();
        if target == core.thread as usize {
            return self.adopt(socket, peer);
        }
        let posted = core.mailboxes.post(target, Post::Adopt(socket, peer));
        if posted.is_err() {
            // The other loop has a million posts waiting; the socket was closed with the post.
            core.loads[target].fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn adopt(&mut self, socket: Socket, peer: Peer) {
        let core = self.core();
        let at = core.slots.next(core.thread);
        match core.open(at, &socket, peer) {
            Some(conn) => {
                let index = core.slots.insert(Held::new(socket, conn));
                self.begin(index);
            }
            None => core.count_closed(),
        }
    }
}
