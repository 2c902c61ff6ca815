//! Which facility of the system the loops run on.

use crate::event_loop::{EVENTS, WAKER};
use crate::mailbox::Waker;
#[cfg(target_os = "linux")]
use crate::threads;
#[cfg(target_os = "linux")]
use crate::uring::{self, Ring};
use mio::Poll;
use std::fmt;
use std::io;
#[cfg(target_os = "linux")]
use std::sync::Arc;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// io_uring where the system allows it, else the other.
    #[default]
    Auto,
    /// epoll, or kqueue where that is what there is.
    Epoll,
    /// io_uring, or an error where the system does not allow it.
    IoUring,
}

/// What the loops run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoBackend {
    /// Linux and Android.
    Epoll,
    /// The BSDs and macOS.
    Kqueue,
    /// Linux 6.1 and later.
    IoUring,
}

impl IoBackend {
    /// Most connections that a turn of a loop hears of, one [that hears of many](crate::LoopGroupBuilder::that_hears_many).
    /// Those beyond are heard of in a later turn, however long their bytes have been there.
    #[must_use]
    pub fn hears(self) -> usize {
        match self {
            #[cfg(target_os = "linux")]
            IoBackend::IoUring => usize::from(uring::MANY),
            _ => EVENTS,
        }
    }

    const READINESS: IoBackend = if cfg!(any(target_os = "linux", target_os = "android")) {
        IoBackend::Epoll
    } else {
        IoBackend::Kqueue
    };
}

impl fmt::Display for IoBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoBackend::Epoll => "epoll",
            IoBackend::Kqueue => "kqueue",
            IoBackend::IoUring => "io_uring",
        })
    }
}

/// The system's part of one loop.
pub(crate) enum Reactor {
    Poll(Poll),
    #[cfg(target_os = "linux")]
    Uring(Box<Ring>),
}

impl Reactor {
    pub(crate) fn prepare(
        loops: usize,
        wanted: Backend,
        hears_many: bool,
    ) -> io::Result<(IoBackend, Vec<Reactor>)> {
        if wanted != Backend::Epoll {
            match rings(loops, hears_many) {
                Ok(rings) => return Ok((IoBackend::IoUring, rings)),
                Err(_) if wanted == Backend::Auto => {}
                Err(error) => {
                    let text = format!("io_uring is not available: {error}");
                    return Err(io::Error::new(error.kind(), text));
                }
            }
        }
        let polls = (0..loops).map(|_| Poll::new().map(Reactor::Poll));
        Ok((IoBackend::READINESS, polls.collect::<io::Result<_>>()?))
    }

    pub(crate) fn waker(&self) -> io::Result<Waker> {
        match self {
            Reactor::Poll(poll) => mio::Waker::new(poll.registry(), WAKER).map(Waker::Poll),
            #[cfg(target_os = "linux")]
            Reactor::Uring(ring) => Ok(Waker::Event(Arc::clone(ring.waker()))),
        }
    }
}

/// Rings for all loops, or why there can be none. They are made on a thread that ends with this call, because when a
/// ring is gone the kernel interrupts the system call of the thread that made it.
#[cfg(target_os = "linux")]
fn rings(loops: usize, hears_many: bool) -> io::Result<Vec<Reactor>> {
    let make = move || {
        uring::probe()?;
        (0..loops)
            .map(|_| Ok(Reactor::Uring(Box::new(Ring::new(hears_many)?))))
            .collect()
    };
    threads::spawn("uring-setup".to_owned(), None, make)?
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the probe panicked")))
}

#[cfg(not(target_os = "linux"))]
fn rings(_loops: usize, _hears_many: bool) -> io::Result<Vec<Reactor>> {
    Err(io::ErrorKind::Unsupported.into())
}
