//! One thread's loop.

use crate::acceptor::{Acceptor, Waiting};
use crate::clock::Clock;
use crate::conn_io::READ_BUFFER;
use crate::driver::{ConnRef, Driver, Flow, Peer};
use crate::mailbox::{Mailboxes, Post};
use crate::slots::{Slot, Slots};
use crate::timers::Timers;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Events taken per wake-up.
pub(crate) const EVENTS: usize = 1024;
/// Token of the waker; listeners come just below it, connections count up from 0.
pub(crate) const WAKER: Token = Token(usize::MAX);
const FIRST_LISTENER: usize = usize::MAX - 4096;
/// Most listeners of a group.
pub(crate) const LISTENER_LIMIT: usize = 1024;
const _: () = assert!(FIRST_LISTENER + LISTENER_LIMIT < usize::MAX);

pub(crate) struct EventLoop<D: Driver> {
    thread: u16,
    pub(crate) poll: Poll,
    pub(crate) driver: D,
    pub(crate) slots: Slots<Slot<D::Conn>>,
    pub(crate) scratch: Box<[u8]>,
    mailboxes: Arc<Mailboxes<D::Message>>,
    posts: Vec<Post<D::Message>>,
    /// Connections per loop of the group.
    loads: Arc<[AtomicUsize]>,
    acceptor: Option<Acceptor>,
    /// Connections with work left that no event will announce.
    backlog: Vec<u32>,
    /// Unsent output of all connections.
    pub(crate) held: usize,
    /// Time of this wake-up.
    pub(crate) now: i64,
    timers: Timers,
}

/// Has `poll` tell when there are connections to accept.
pub(crate) fn watch(poll: &Poll, acceptor: &Acceptor) -> io::Result<()> {
    let registry = poll.registry().try_clone()?;
    acceptor.listeners().watch(registry, FIRST_LISTENER)
}

impl<D: Driver> EventLoop<D> {
    pub(crate) fn new(
        thread: u16,
        poll: Poll,
        driver: D,
        mailboxes: Arc<Mailboxes<D::Message>>,
        loads: Arc<[AtomicUsize]>,
        acceptor: Option<Acceptor>,
    ) -> EventLoop<D> {
        EventLoop {
            thread,
            poll,
            driver,
            slots: Slots::new(),
            scratch: vec![0; READ_BUFFER].into_boxed_slice(),
            mailboxes,
            posts: Vec::new(),
            loads,
            acceptor,
            backlog: Vec::new(),
            held: 0,
            now: Clock::now(),
            timers: Timers::default(),
        }
    }

    /// Runs until told to stop, and then until every reply is out or the grace is over.
    pub(crate) fn run_loop(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        self.tick();
        while !self.finished() {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.now = Clock::now();
            for event in &events {
                match event.token() {
                    WAKER => self.take_posts(),
                    Token(token) if token >= FIRST_LISTENER => {
                        self.listener_ready(token - FIRST_LISTENER)
                    }
                    Token(index) => {
                        let hung_up = event.is_read_closed() || event.is_error();
                        let readable = event.is_readable() || hung_up;
                        self.connection_ready(index as u32, readable, event.is_writable(), hung_up);
                    }
                }
            }
            self.end_waits();
            self.continue_backlog();
            self.accept_waiting();
            if self.timers.tick_due(self.now) {
                self.tick();
            }
            self.driver.batch_done(self.now);
        }
        for index in 0..self.slots.bound() {
            self.close(index);
        }
        self.driver.batch_done(self.now);
        Ok(())
    }

    fn finished(&self) -> bool {
        self.timers
            .stop_at
            .is_some_and(|deadline| self.slots.is_empty() || self.now >= deadline)
    }

    /// How long to wait for events; `None` = as long as it takes.
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
        if self.timers.tick(&mut self.driver, self.now) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        for index in 0..self.slots.bound() {
            let Some(slot) = self.slots.get_mut(index) else {
                continue;
            };
            if self.driver.stale(&slot.conn, self.now) {
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

    pub(crate) fn enqueue(&mut self, index: u32) {
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
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let flow = f(&mut self.driver, &mut slot.conn, self.now);
        self.deliver(index, flow);
    }

    fn stop(&mut self, deadline: i64) {
        self.acceptor = None;
        self.timers.stop_at = Some(deadline);
        for index in 0..self.slots.bound() {
            self.finish(index);
        }
    }

    fn listener_ready(&mut self, listener: usize) {
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.mark_ready(listener);
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
        let fd = socket.as_raw_fd();
        let opened = if self.timers.stop_at.is_some() {
            None
        } else {
            self.open(at, &socket, peer)
        };
        let Some(conn) = opened else {
            self.loads[self.thread as usize].fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let index = self.slots.insert(Slot::new(socket, conn));
        let registered = self.poll.registry().register(
            &mut SourceFd(&fd),
            Token(index as usize),
            Interest::READABLE,
        );
        if registered.is_err() {
            self.close(index);
        }
    }

    fn open(&mut self, at: ConnRef, socket: &Socket, peer: Peer) -> Option<D::Conn> {
        match self.driver.open(at, peer, self.now) {
            Ok(conn) => Some(conn),
            Err(refused) => {
                // Best effort: a peer that is gone need not be told.
                drop(socket.send(refused.0));
                None
            }
        }
    }

    /// Closing the descriptor also takes it out of the poll set.
    pub(crate) fn close(&mut self, index: u32) {
        if let Some(slot) = self.slots.remove(index) {
            self.held -= slot.counted;
            self.loads[self.thread as usize].fetch_sub(1, Ordering::Relaxed);
            drop(slot.socket);
            self.driver.closed(slot.conn, self.now);
        }
    }
}
