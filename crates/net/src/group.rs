//! A group of loops: one per thread, with one set of listeners.

use crate::acceptor::Acceptor;
use crate::backend::{Backend, IoBackend, Reactor};
use crate::clock::Clock;
use crate::driver::Driver;
use crate::event_loop::{EventLoop, watch};
use crate::listen::Listener;
use crate::listeners::Listeners;
use crate::mailbox::{Mailboxes, Post};
use crate::threads;
#[cfg(target_os = "linux")]
use crate::uring::UringLoop;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

/// How the threads of a group are set up.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// Threads are named `{name}-{number}`.
    pub name: &'static str,
    /// CPUs to pin the threads to, in turn; empty = not pinned.
    pub cpus: Vec<usize>,
    /// Connections that loop 0 serves before the next loop is given one. So few that one thread does their work keep the
    /// order in which their bytes came, as with a server of one thread.
    pub together: usize,
}

/// Loops that exist but do not run, so that drivers can be given the mailboxes.
pub struct LoopGroupBuilder<M> {
    backend: IoBackend,
    reactors: Vec<Reactor>,
    mailboxes: Arc<Mailboxes<M>>,
    listeners: Arc<Listeners>,
}

impl<M> std::fmt::Debug for LoopGroupBuilder<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopGroupBuilder")
            .field("backend", &self.backend)
            .field("loops", &self.reactors.len())
            .finish()
    }
}

impl<M: Send + 'static> LoopGroupBuilder<M> {
    /// Prepares `threads` loops (at least one, at most 65,535). Fails if the system refuses the backend asked for;
    /// [`Backend::Auto`] takes the other one then.
    pub fn new(threads: usize, backend: Backend) -> io::Result<LoopGroupBuilder<M>> {
        Self::prepare(threads, backend, false)
    }

    /// The same with memory for hearing of all connections in every turn, as far as there are no more than
    /// [`IoBackend::hears`]: for drivers that judge by it how long bytes have waited. Others do better without: on io_uring it
    /// is a system call more in every turn with many connections, and cost a GET of 50 connections a fifth more processor time
    /// (14 % sixteen deep), while of 800 connections none waited less (p99 5.5 ms with and without).
    pub fn that_hears_many(threads: usize, backend: Backend) -> io::Result<LoopGroupBuilder<M>> {
        Self::prepare(threads, backend, true)
    }

    fn prepare(
        threads: usize,
        backend: Backend,
        hears_many: bool,
    ) -> io::Result<LoopGroupBuilder<M>> {
        let threads = threads.clamp(1, u16::MAX as usize);
        let (backend, reactors) = Reactor::prepare(threads, backend, hears_many)?;
        let wakers = reactors
            .iter()
            .map(Reactor::waker)
            .collect::<io::Result<_>>()?;
        Ok(LoopGroupBuilder {
            backend,
            reactors,
            mailboxes: Mailboxes::new(wakers),
            listeners: Arc::default(),
        })
    }

    /// What the loops run on.
    pub fn backend(&self) -> IoBackend {
        self.backend
    }

    /// For posting to connections.
    pub fn mailboxes(&self) -> &Arc<Mailboxes<M>> {
        &self.mailboxes
    }

    /// What the group accepts from, to be changed at any time.
    pub fn listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }

    /// Starts the threads; `drivers` has one driver per loop. Loop 0 accepts for all.
    pub fn start<D>(
        self,
        drivers: Vec<D>,
        listeners: Vec<Listener>,
        options: &GroupOptions,
    ) -> io::Result<LoopGroup<M>>
    where
        D: Driver<Message = M>,
    {
        assert_eq!(drivers.len(), self.reactors.len(), "one driver per loop");
        for listener in listeners {
            self.listeners.open(listener)?;
        }
        let loads: Arc<[AtomicUsize]> = drivers.iter().map(|_| AtomicUsize::new(0)).collect();
        let mut acceptor = Some(Acceptor::new(
            self.listeners,
            Arc::clone(&loads),
            options.together,
        ));
        let mut handles = Vec::with_capacity(drivers.len());
        for (i, (reactor, driver)) in self.reactors.into_iter().zip(drivers).enumerate() {
            let mailboxes = Arc::clone(&self.mailboxes);
            let loads = Arc::clone(&loads);
            let acceptor = acceptor.take();
            let cpu = (!options.cpus.is_empty()).then(|| options.cpus[i % options.cpus.len()]);
            let name = format!("{}-{i}", options.name);
            let thread = i as u16;
            // What the loop is made of goes to its thread; the loop, with connections that may not leave it, begins there.
            let handle = match reactor {
                Reactor::Poll(poll) => {
                    let watched = acceptor
                        .as_ref()
                        .map_or(Ok(()), |acceptor| watch(&poll, acceptor));
                    watched?;
                    let run = move || {
                        EventLoop::new(thread, poll, driver, mailboxes, loads, acceptor).run_loop()
                    };
                    threads::spawn(name, cpu, run)?
                }
                #[cfg(target_os = "linux")]
                Reactor::Uring(ring) => {
                    let run = move || {
                        UringLoop::new(thread, *ring, driver, mailboxes, loads, acceptor).run_loop()
                    };
                    threads::spawn(name, cpu, run)?
                }
            };
            handles.push(handle);
        }
        Ok(LoopGroup {
            mailboxes: self.mailboxes,
            handles,
        })
    }
}

/// Running loops.
pub struct LoopGroup<M> {
    mailboxes: Arc<Mailboxes<M>>,
    handles: Vec<JoinHandle<io::Result<()>>>,
}

impl<M> std::fmt::Debug for LoopGroup<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopGroup")
            .field("loops", &self.handles.len())
            .finish()
    }
}

impl<M: Send + 'static> LoopGroup<M> {
    /// Tells all loops to stop: no new connections, commands that have arrived are answered, replies are
    /// sent; what is unsent after `grace_nanos` is dropped.
    pub fn stop(&self, grace_nanos: i64) {
        let deadline = Clock::now() + grace_nanos;
        for thread in 0..self.mailboxes.len() {
            // A loop whose mailbox stays full does not run any more; `join` then reports it.
            while self
                .mailboxes
                .post(thread, Post::Stop { deadline })
                .is_err()
                && !self.handles[thread].is_finished()
            {
                std::thread::yield_now();
            }
        }
    }

    /// Waits for all loops; the first error of any.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for handle in self.handles {
            let ended = handle
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("an event loop panicked")));
            result = result.and(ended);
        }
        result
    }
}
