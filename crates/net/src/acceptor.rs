//! Accepting connections and spreading them over the loops of a group.

use crate::driver::Peer;
use crate::listeners::Listeners;
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections accepted per listener and wake-up, so that a storm of connects leaves time for commands.
const ACCEPTS_PER_TURN: usize = 256;
/// How long accepting rests after the system had no descriptor or memory for another connection, in nanoseconds.
const ACCEPT_PAUSE: i64 = 100_000_000;

/// The sockets that loop 0 accepts from.
pub(crate) struct Acceptor {
    listeners: Arc<Listeners>,
    /// Numbers of listeners that may have connections waiting which no event will announce again.
    ready: Vec<usize>,
    /// Accepting rests until then.
    paused_until: Option<i64>,
    /// Loop that gets the next connection when several have equally few.
    turn: usize,
    /// Connections per loop of the group.
    loads: Arc<[AtomicUsize]>,
    /// Connections that loop 0 serves before another loop gets one.
    together: usize,
}

/// When there is something to accept.
pub(crate) enum Waiting {
    Nothing,
    Now,
    /// Not before this time.
    At(i64),
}

impl Acceptor {
    pub(crate) fn new(
        listeners: Arc<Listeners>,
        loads: Arc<[AtomicUsize]>,
        together: usize,
    ) -> Acceptor {
        Acceptor {
            listeners,
            ready: Vec::new(),
            paused_until: None,
            turn: 0,
            loads,
            together,
        }
    }

    pub(crate) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// The listener has connections waiting.
    pub(crate) fn mark_ready(&mut self, listener: usize) {
        if !self.ready.contains(&listener) {
            self.ready.push(listener);
        }
    }

    pub(crate) fn waiting(&self) -> Waiting {
        match self.paused_until {
            _ if self.ready.is_empty() => Waiting::Nothing,
            None => Waiting::Now,
            Some(until) => Waiting::At(until),
        }
    }

    /// Accepts from every listener that has connections waiting; `place` is told which loop gets each, which has been
    /// counted for that loop already.
    pub(crate) fn accept_waiting(
        &mut self,
        now: i64,
        keepalive: u64,
        mut place: impl FnMut(usize, Socket, Peer),
    ) {
        if self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        self.paused_until = None;
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|&listener| self.accept_from(listener, now, keepalive, &mut place));
        self.ready = ready;
    }

    /// Whether more connections may wait there.
    fn accept_from(
        &mut self,
        listener: usize,
        now: i64,
        keepalive: u64,
        place: &mut impl FnMut(usize, Socket, Peer),
    ) -> bool {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(accepted) = self.listeners.accept(listener, keepalive) else {
                return false;
            };
            match accepted {
                Ok((socket, peer)) => place(self.choose(), socket, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // The peer was gone before it was accepted, or a signal came: the next one may be fine.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) if is_shortage(&error) => {
                    self.paused_until = Some(now + ACCEPT_PAUSE);
                    return true;
                }
                // A connection that failed while its options were set is dropped; the others go on.
                Err(_) => {}
            }
        }
        true
    }

    /// Loop 0 while it has few connections, else the loop with the fewest; one more counted.
    fn choose(&mut self) -> usize {
        let target = if self.loads[0].load(Ordering::Relaxed) < self.together {
            0
        } else {
            self.least_loaded()
        };
        self.loads[target].fetch_add(1, Ordering::Relaxed);
        target
    }

    fn least_loaded(&mut self) -> usize {
        let loops = self.loads.len();
        self.turn = (self.turn + 1) % loops;
        (0..loops)
            .map(|i| (self.turn + i) % loops)
            .min_by_key(|&i| self.loads[i].load(Ordering::Relaxed))
            .unwrap_or(0)
    }
}

impl Drop for Acceptor {
    /// Nobody would take the connections that come.
    fn drop(&mut self) {
        self.listeners.end();
    }
}

/// Out of descriptors or memory: retrying at once would only spin.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_connections_share_a_loop_and_the_others_go_where_there_are_fewest() {
        let loads: Arc<[AtomicUsize]> = (0..3).map(|_| AtomicUsize::new(0)).collect();
        let mut acceptor = Acceptor::new(Arc::default(), Arc::clone(&loads), 2);
        let chosen: Vec<usize> = (0..7).map(|_| acceptor.choose()).collect();
        assert_eq!(chosen[..2], [0, 0]);
        assert!(chosen[2..6].iter().all(|&one| one != 0), "{chosen:?}");
        let counts = || loads.iter().map(|one| one.load(Ordering::Relaxed));
        assert_eq!(counts().sum::<usize>(), 7);
        assert!(counts().max() <= counts().min().map(|least| least + 1));
        // One has left: its place is taken first.
        loads[0].store(1, Ordering::Relaxed);
        assert_eq!(acceptor.choose(), 0);
    }
}
