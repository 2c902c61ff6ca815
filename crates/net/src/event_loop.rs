//! One thread's loop on readiness events.

use crate::acceptor::Acceptor;
use crate::clock::Clock;
use crate::conn_io::READ_BUFFER;
use crate::driver::Driver;
use crate::mailbox::Mailboxes;
use crate::slots::Slot;
use crate::turn::{LoopCore, Turns};
use mio::{Events, Poll, Token};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Events taken per wake-up.
pub(crate) const EVENTS: usize = 1024;
/// Token of the waker; listeners come just below it, connections count up from 0.
pub(crate) const WAKER: Token = Token(usize::MAX);
const FIRST_LISTENER: usize = usize::MAX - 4096;
/// Most listeners of a group.
pub(crate) const LISTENER_LIMIT: usize = 1024;
const _: () = assert!(FIRST_LISTENER + LISTENER_LIMIT < usize::MAX);

pub(crate) struct EventLoop<D: Driver> {
    pub(crate) core: LoopCore<D, Slot<D::Conn>>,
    pub(crate) poll: Poll,
    pub(crate) scratch: Box<[u8]>,
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
            core: LoopCore::new(thread, driver, mailboxes, loads, acceptor),
            poll,
            scratch: vec![0; READ_BUFFER].into_boxed_slice(),
        }
    }

    /// Runs until told to stop, and then until every reply is out or the grace is over.
    pub(crate) fn run_loop(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        self.tick();
        while !self.core.is_finished() {
            let timeout = self.core.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.core.now = Clock::now();
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
            if self.core.timers.tick_due(self.core.now) {
                self.tick();
            }
            self.core.driver.batch_done(self.core.now);
            if self.core.shrinks {
                self.core.shrink();
            }
        }
        for index in 0..self.core.slots.bound() {
            self.close(index);
        }
        self.core.driver.batch_done(self.core.now);
        Ok(())
    }

    fn listener_ready(&mut self, listener: usize) {
        if let Some(acceptor) = &mut self.core.acceptor {
            acceptor.mark_ready(listener);
        }
    }
}
