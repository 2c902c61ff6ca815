//! One thread's loop.

use super::ring::{Done, Op, Ring};
use super::slot::{Pool, UringSlot};
use crate::acceptor::{Acceptor, Waiting};
use crate::clock::Clock;
use crate::driver::{ConnRef, Driver, Flow, Peer};
use crate::event_loop::LISTENER_LIMIT;
use crate::mailbox::{Mailboxes, Post};
use crate::slots::Slots;
use crate::timers::Timers;
use mio::{Events, Poll};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long the kernel may take at the end to give back the memory of cancelled operations, in nanoseconds.
const RELEASE_TIMEOUT: i64 = 1_000_000_000;
/// Between two looks at that.
const RELEASE_STEP: Duration = Duration::from_millis(10);

pub(crate) struct UringLoop<D: Driver> {
    thread: u16,
    pub(super) ring: Ring,
    pub(super) driver: D,
    pub(super) slots: Slots<UringSlot<D::Conn>>,
    pub(super) pool: Pool,
    mailboxes: Arc<Mailboxes<D::Message>>,
    posts: Vec<Post<D::Message>>,
    completions: Vec<Done>,
    loads: Arc<[AtomicUsize]>,
    acceptor: Option<Acceptor>,
    /// Watches the listeners, and is itself watched by the ring. What a ring watches stays open until the ring is gone,
    /// which after a crash is some time later than the process: a new one would find the addresses taken.
    listening: Option<(Poll, Events)>,
    /// Connections with commands left that no completion will announce.
    backlog: Vec<u32>,
    /// Connections with replies to send.
    pub(super) flushes: Vec<u32>,
    /// Connections whose replies were handed over to be sent at once.
    pub(super) sends: Vec<u32>,
    /// Connections to receive from, once buffers have been given back.
    pub(super) arms: Vec<u32>,
    /// Unsent output of all connections that were counted.
    pub(super) held: usize,
    /// Time of this wake-up.
    pub(super) now: i64,
    timers: Timers,
    /// The first failure of the ring, which ends the loop.
    pub(super) failure: Option<io::Error>,
}

impl<D: Driver> UringLoop<D> {
    pub(crate) fn new(
        thread: u16,
        ring: Ring,
        driver: D,
        mailboxes: Arc<Mailboxes<D::Message>>,
        loads: Arc<[AtomicUsize]>,
        acceptor: Option<Acceptor>,
    ) -> UringLoop<D> {
        UringLoop {
            thread,
            ring,
            driver,
            slots: Slots::new(),
            pool: Pool::default(),
            mailboxes,
            posts: Vec::new(),
            completions: Vec::new(),
            loads,
            acceptor,
            listening: None,
            backlog: Vec::new(),
            flushes: Vec::new(),
            sends: Vec::new(),
            arms: Vec::new(),
            held: 0,
            now: Clock::now(),
            timers: Timers::default(),
            failure: None,
        }
    }

    /// Runs until told to stop, and then until every reply is out or the grace is over.
    pub(crate) fn run_loop(mut self) -> io::Result<()> {
        self.ring.enable()?;
        self.ring.watch_waker()?;
        self.listen()?;
        self.tick();
        while !self.finished() {
            self.hand_over();
            let timeout = self.timeout();
            self.ring.submit_and_wait(timeout)?;
            self.now = Clock::now();
            self.complete();
            self.end_waits();
            self.continue_backlog();
            self.accept_waiting();
            if self.timers.tick_due(self.now) {
                // Replies do not wait for the work of the tick.
                self.hand_over();
                self.ring.submit()?;
                self.tick();
            }
            self.driver.batch_done(self.now);
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
        Ok(())
    }

    fn listen(&mut self) -> io::Result<()> {
        let Some(acceptor) = &self.acceptor else {
            return Ok(());
        };
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        acceptor.listeners().watch(registry, 0)?;
        self.ring.watch_listeners(poll.as_raw_fd())?;
        // Room for all at once: what does not fit would not be announced again.
        let events = Events::with_capacity(LISTENER_LIMIT);
        self.listening = Some((poll, events));
        Ok(())
    }

    /// Keeps the first failure of the ring for the end of the turn.
    pub(super) fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    fn complete(&mut self) {
        let all_sent = self.ring.is_submitted();
        let mut completions = std::mem::take(&mut self.completions);
        let taken = self.ring.take(&mut completions);
        self.note(taken);
        for done in completions.iter().filter(|done| done.op == Op::SendNow) {
            self.sent(*done);
        }
        if all_sent {
            self.conclude_sends();
        }
        for done in completions.drain(..) {
            match done.op {
                Op::Receive => self.received(done),
                Op::Send => self.sent(done),
                Op::Listeners => {
                    let heard = self.hear(done.more);
                    self.note(heard);
                }
                Op::Waker => {
                    if !done.more {
                        let watched = self.ring.watch_waker();
                        self.note(watched);
                    }
                    self.take_posts();
                }
                Op::SendNow | Op::Cancel => {}
            }
        }
        self.completions = completions;
    }

    fn finished(&self) -> bool {
        self.timers
            .stop_at
            .is_some_and(|deadline| self.slots.is_empty() || self.now >= deadline)
    }

    /// How long to wait for completions; `None` = as long as it takes.
    fn timeout(&self) -> Option<Duration> {
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

    fn tick(&mut self) {
        if !self.timers.tick(&mut self.driver, self.now) {
            return;
        }
        for index in 0..self.slots.bound() {
            let conn = self
                .slots
                .get_mut(index)
                .and_then(|slot| slot.conn.as_ref());
            if conn.is_some_and(|conn| self.driver.stale(conn, self.now)) {
                self.close(index);
            }
        }
    }

    /// Ends the waits whose time has come.
    fn end_waits(&mut self) {
        while let Some(at) = self.driver.take_timeout(self.now) {
            self.with_conn(at, |driver, conn, now| driver.timed_out(conn, now));
        }
    }

    fn continue_backlog(&mut self) {
        // What is put off again during this turn waits for the next one.
        let mut due = std::mem::take(&mut self.backlog);
        for index in due.drain(..) {
            self.resume(index);
        }
        if self.backlog.is_empty() {
            self.backlog = due;
        }
    }

    pub(super) fn enqueue(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index)
            && !slot.queued
        {
            slot.queued = true;
            self.backlog.push(index);
        }
    }

    fn take_posts(&mut self) {
        let mut posts = std::mem::take(&mut self.posts);
        self.mailboxes.take(self.thread as usize, &mut posts);
        for post in posts.drain(..) {
            match post {
                Post::Adopt(socket, peer) => self.adopt(socket, peer),
                Post::Message(at, message) => self.message(at, message),
                Post::Tick => self.tick(),
                Post::Stop { deadline } => self.stop(deadline),
            }
        }
        self.posts = posts;
    }

    fn message(&mut self, at: ConnRef, message: D::Message) {
        self.with_conn(at, |driver, conn, now| driver.message(conn, message, now));
    }

    /// Lets the driver do something for a connection, if that still exists.
    fn with_conn(&mut self, at: ConnRef, f: impl FnOnce(&mut D, &mut D::Conn, i64) -> Flow) {
        let Some(index) = self.slots.resolve(at) else {
            return;
        };
        let conn = self
            .slots
            .get_mut(index)
            .and_then(|slot| slot.conn.as_mut());
        if let Some(conn) = conn {
            let flow = f(&mut self.driver, conn, self.now);
            self.deliver(index, flow);
        }
    }

    fn stop(&mut self, deadline: i64) {
        self.acceptor = None;
        self.timers.stop_at = Some(deadline);
        for index in 0..self.slots.bound() {
            self.finish(index);
        }
    }

    /// Asks which listeners have connections waiting.
    fn hear(&mut self, watched: bool) -> io::Result<()> {
        let (Some((poll, events)), Some(acceptor)) = (&mut self.listening, &mut self.acceptor)
        else {
            return Ok(());
        };
        match poll.poll(events, Some(Duration::ZERO)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            acceptor.mark_ready(event.token().0);
        }
        if watched {
            Ok(())
        } else {
            self.ring.watch_listeners(poll.as_raw_fd())
        }
    }

    fn accept_waiting(&mut self) {
        let Some(mut acceptor) = self.acceptor.take() else {
            return;
        };
        let keepalive = self.driver.tcp_keepalive();
        acceptor.accept_waiting(self.now, keepalive, |target, socket, peer| {
            self.place(target, socket, peer);
        });
        self.acceptor = Some(acceptor);
    }

    fn place(&mut self, target: usize, socket: Socket, peer: Peer) {
        if target == self.thread as usize {
            self.adopt(socket, peer);
        } else if self
            .mailboxes
            .post(target, Post::Adopt(socket, peer))
            .is_err()
        {
            // The other loop has a million posts waiting; the socket was closed with the post.
            self.loads[target].fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn adopt(&mut self, socket: Socket, peer: Peer) {
        let at = self.slots.next(self.thread);
        let opened = match self.timers.stop_at {
            Some(_) => None,
            None => match self.driver.open(at, peer, self.now) {
                Ok(conn) => Some(conn),
                Err(refused) => {
                    // Best effort: a peer that is gone need not be told.
                    drop(socket.send(refused.0));
                    None
                }
            },
        };
        let Some(conn) = opened else {
            self.loads[self.thread as usize].fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let index = self.slots.insert(UringSlot::new(socket, conn));
        self.arm(index);
    }

    /// Ends a connection. Its slot and socket stay until the kernel has completed what it has of it.
    pub(super) fn close(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let Some(conn) = slot.conn.take() else {
            return;
        };
        slot.send_rest();
        self.held -= slot.counted;
        self.loads[self.thread as usize].fetch_sub(1, Ordering::Relaxed);
        slot.input = Vec::new();
        slot.output = Vec::new();
        if slot.receiving || slot.in_flight {
            let cancelled = self.ring.cancel_all(slot.socket.as_raw_fd());
            self.note(cancelled);
        } else {
            self.slots.remove(index);
        }
        self.driver.closed(conn, self.now);
    }

    /// Frees the slot of a closed connection that the kernel is done with.
    pub(super) fn release(&mut self, index: u32) {
        let done = self
            .slots
            .get_mut(index)
            .is_some_and(|slot| slot.conn.is_none() && !slot.receiving && !slot.in_flight);
        if done {
            self.slots.remove(index);
        }
    }
}

impl<D: Driver> Drop for UringLoop<D> {
    /// Closes all connections and waits until the kernel is done with their memory.
    fn drop(&mut self) {
        self.acceptor = None;
        self.now = Clock::now();
        for index in 0..self.slots.bound() {
            self.close(index);
        }
        let deadline = self.now + RELEASE_TIMEOUT;
        while !self.slots.is_empty() && self.now < deadline {
            if self.ring.submit_and_wait(Some(RELEASE_STEP)).is_err() {
                break;
            }
            self.now = Clock::now();
            self.complete();
        }
        if !self.slots.is_empty() {
            self.ring.buffers.leak();
            std::mem::forget(std::mem::replace(&mut self.slots, Slots::new()));
        }
        self.driver.batch_done(self.now);
    }
}
