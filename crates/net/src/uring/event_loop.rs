//! One thread's loop on completions.

use super::ring::{Done, Op, Ring};
use super::slot::{Pool, UringSlot};
use crate::acceptor::Acceptor;
use crate::clock::Clock;
use crate::driver::Driver;
use crate::event_loop::LISTENER_LIMIT;
use crate::mailbox::Mailboxes;
use crate::slots::Slots;
use crate::turn::{LoopCore, Turns};
use mio::{Events, Poll};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// How long the kernel may take at the end to give back the memory of cancelled operations, in nanoseconds.
const RELEASE_TIMEOUT: i64 = 1_000_000_000;
/// Between two looks at that.
const RELEASE_STEP: Duration = Duration::from_millis(10);

pub(crate) struct UringLoop<D: Driver> {
    /// Before the connections, so that it is gone before their memory is.
    pub(super) ring: Ring,
    pub(super) core: LoopCore<D, UringSlot<D::Conn>>,
    pub(super) pool: Pool,
    completions: Vec<Done>,
    /// Watches the listeners, and is itself watched by the ring. What a ring watches stays open until the ring is gone,
    /// which after a crash is some time later than the process: a new one would find the addresses taken.
    listening: Option<(Poll, Events)>,
    /// Connections with replies to send.
    pub(super) flushes: Vec<u32>,
    /// Connections whose replies were handed over to be sent at once.
    pub(super) sends: Vec<u32>,
    /// Connections to receive from, once buffers have been given back.
    pub(super) arms: Vec<u32>,
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
            core: LoopCore::new(thread, driver, mailboxes, loads, acceptor),
            ring,
            pool: Pool::default(),
            completions: Vec::new(),
            listening: None,
            flushes: Vec::new(),
            sends: Vec::new(),
            arms: Vec::new(),
            failure: None,
        }
    }

    /// Runs until told to stop, and then until every reply is out or the grace is over.
    pub(crate) fn run_loop(mut self) -> io::Result<()> {
        self.ring.enable()?;
        self.ring.watch_waker()?;
        self.listen()?;
        self.tick();
        while !self.core.is_finished() {
            self.hand_over();
            let timeout = self.core.timeout();
            self.ring.submit_and_wait(timeout)?;
            self.core.now = Clock::now();
            self.complete();
            if self.core.shrinks {
                self.shrink();
            }
            self.end_waits();
            self.continue_backlog();
            self.accept_waiting();
            if self.core.timers.tick_due(self.core.now) {
                // Replies do not wait for the work of the tick.
                self.hand_over();
                self.ring.submit()?;
                self.tick();
            }
            self.core.driver.batch_done(self.core.now);
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Frees what is kept for use again, unless more has come since the completions were taken: then the next turn does.
    #[cold]
    fn shrink(&mut self) {
        if !self.ring.discard_buffers() {
            return;
        }
        self.pool = Pool::default();
        self.completions = Vec::new();
        for list in [&mut self.flushes, &mut self.sends, &mut self.arms] {
            list.shrink_to_fit();
        }
        self.core.shrink();
    }

    fn listen(&mut self) -> io::Result<()> {
        let Some(acceptor) = &self.core.acceptor else {
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

    /// Asks which listeners have connections waiting.
    fn hear(&mut self, watched: bool) -> io::Result<()> {
        let (Some((poll, events)), Some(acceptor)) = (&mut self.listening, &mut self.core.acceptor)
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

    /// Frees the slot of a closed connection that the kernel is done with.
    pub(super) fn release(&mut self, index: u32) {
        let done = self
            .core
            .slots
            .get_mut(index)
            .is_some_and(|slot| slot.conn.is_none() && !slot.receiving && !slot.in_flight);
        if done {
            self.core.slots.remove(index);
        }
    }
}

impl<D: Driver> Drop for UringLoop<D> {
    /// Closes all connections and waits until the kernel is done with their memory.
    fn drop(&mut self) {
        self.core.acceptor = None;
        self.core.now = Clock::now();
        for index in 0..self.core.slots.bound() {
            self.close(index);
        }
        let deadline = self.core.now + RELEASE_TIMEOUT;
        while !self.core.slots.is_empty() && self.core.now < deadline {
            if self.ring.submit_and_wait(Some(RELEASE_STEP)).is_err() {
                break;
            }
            self.core.now = Clock::now();
            self.complete();
        }
        if !self.core.slots.is_empty() {
            self.ring.buffers.leak();
            std::mem::forget(std::mem::replace(&mut self.core.slots, Slots::new()));
        }
        self.core.driver.batch_done(self.core.now);
    }
}
