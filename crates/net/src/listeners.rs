//! The sockets that a group accepts from. They may change while it runs.

use crate::driver::{Peer, PeerAddress};
use crate::event_loop::LISTENER_LIMIT;
use crate::listen::Listener;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::Socket;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The open listeners of a group, at most 1,024, shared by its first loop and whoever changes them.
#[derive(Debug, Default)]
pub struct Listeners {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Vec<(usize, Listener)>,
    /// Where the first loop hears of connections, once it listens, and the token of listener 0.
    watched: Option<(Registry, usize)>,
    /// The group has stopped accepting.
    over: bool,
}

impl State {
    /// Registered under a number that no open listener has; one that hears late of an older one finds nothing to accept.
    fn watch(&self, number: usize, listener: &Listener) -> io::Result<()> {
        let Some((registry, first)) = &self.watched else {
            return Ok(());
        };
        let mut source = SourceFd(&listener.raw_fd());
        registry.register(&mut source, Token(first + number), Interest::READABLE)
    }
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Listeners come and go whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts from `listener` as well.
    ///
    /// # Errors
    ///
    /// There are too many, or the system refuses to watch it. Once the group has stopped it is closed, which is no error.
    pub fn open(&self, listener: Listener) -> io::Result<()> {
        let mut state = self.lock();
        if state.over {
            return Ok(());
        }
        let is_free = |number: &usize| state.open.iter().all(|(taken, _)| taken != number);
        let Some(number) = (0..LISTENER_LIMIT).find(is_free) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too many addresses to listen on",
            ));
        };
        state.watch(number, &listener)?;
        state.open.push((number, listener));
        Ok(())
    }

    /// Closes the listener of this address. Its address is free when this returns; connections that were accepted stay.
    pub fn close(&self, address: &PeerAddress) {
        // Closing the descriptor also takes it out of the poll set.
        self.lock()
            .open
            .retain(|(_, listener)| listener.address() != address);
    }

    /// The address and the kind of each, in the order in which they were opened.
    #[must_use]
    pub fn addresses(&self) -> Vec<(PeerAddress, u8)> {
        let state = self.lock();
        let open = state.open.iter();
        open.map(|(_, listener)| (listener.address().clone(), listener.kind()))
            .collect()
    }

    /// From now on `registry` tells of connections, by `first` and the number of the listener.
    pub(crate) fn watch(&self, registry: Registry, first: usize) -> io::Result<()> {
        let mut state = self.lock();
        state.watched = Some((registry, first));
        (state.open.iter()).try_for_each(|(number, listener)| state.watch(*number, listener))
    }

    /// One connection that waits at a listener; `None` when that is closed.
    pub(crate) fn accept(
        &self,
        number: usize,
        keepalive: u64,
    ) -> Option<io::Result<(Socket, Peer)>> {
        let state = self.lock();
        let (_, listener) = state.open.iter().find(|(one, _)| *one == number)?;
        Some(listener.accept(keepalive))
    }

    /// Closes all, and whatever is opened later.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.over = true;
        state.open.clear();
        state.watched = None;
    }
}
