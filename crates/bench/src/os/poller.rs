//! Readiness of sockets with a wait in nanoseconds.
//!
//! `mio` registers the sockets (edge-triggered). On Linux the wait itself is `epoll_pwait2`, because
//! `epoll_wait` counts in milliseconds, thirty send gaps at 30,000 requests per second.

use std::io;
use std::time::Duration;

use mio::event::Source;
use mio::{Interest, Poll, Token};

/// Events taken per wait.
const EVENTS_PER_WAIT: usize = 256;

/// One ready socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The number given at registration.
    pub token: usize,
    /// Data, an end of stream or an error waits to be read.
    pub readable: bool,
    /// The socket takes bytes again.
    pub writable: bool,
    /// The other side is gone: after the data comes an end that will not be reported again.
    pub hangup: bool,
}

/// A set of registered sockets.
pub(crate) struct Poller {
    poll: Poll,
    ready: Vec<Ready>,
    #[cfg(target_os = "linux")]
    raw: Vec<libc::epoll_event>,
    #[cfg(target_os = "linux")]
    coarse: bool,
    #[cfg(not(target_os = "linux"))]
    events: mio::Events,
}

impl Poller {
    /// An empty set.
    pub(crate) fn new() -> io::Result<Poller> {
        Ok(Poller {
            poll: Poll::new()?,
            ready: Vec::with_capacity(EVENTS_PER_WAIT),
            #[cfg(target_os = "linux")]
            raw: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_PER_WAIT],
            #[cfg(target_os = "linux")]
            coarse: false,
            #[cfg(not(target_os = "linux"))]
            events: mio::Events::with_capacity(EVENTS_PER_WAIT),
        })
    }

    /// Watches `source` for reading and writing under `token`.
    pub(crate) fn add(&self, source: &mut (impl Source + ?Sized), token: usize) -> io::Result<()> {
        self.poll.registry().register(
            source,
            Token(token),
            Interest::READABLE | Interest::WRITABLE,
        )
    }

    /// Waits at most `timeout_ns` and returns what became ready; nothing after a signal or a timeout.
    pub(crate) fn wait(&mut self, timeout_ns: u64) -> io::Result<&[Ready]> {
        self.ready.clear();
        self.fill(timeout_ns)?;
        Ok(&self.ready)
    }

    #[cfg(target_os = "linux")]
    fn fill(&mut self, timeout_ns: u64) -> io::Result<()> {
        let count = match self.raw_wait(timeout_ns) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        for event in &self.raw[..count] {
            let (bits, token) = (event.events, event.u64);
            let readable = bits
                & (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLRDHUP) as u32
                != 0;
            let writable = bits & libc::EPOLLOUT as u32 != 0;
            let hangup = bits & (libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLRDHUP) as u32 != 0;
            self.ready.push(Ready {
                token: token as usize,
                readable,
                writable,
                hangup,
            });
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn raw_wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        use std::os::fd::AsRawFd;
        let fd = self.poll.as_raw_fd();
        let room = self.raw.len() as libc::c_int;
        if !self.coarse {
            let timeout = libc::timespec {
                tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: `raw` holds `room` events that the kernel may write, `timeout` lives through the call, and
            // a null signal mask leaves the thread's mask alone.
            let count = unsafe {
                libc::epoll_pwait2(fd, self.raw.as_mut_ptr(), room, &timeout, std::ptr::null())
            };
            if count >= 0 {
                return Ok(count as usize);
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::ENOSYS) {
                return Err(error);
            }
            // A kernel before 5.11: millisecond waits from here on. The send lag histogram shows the price.
            self.coarse = true;
        }
        let timeout_ms = (timeout_ns / 1_000_000).min(i32::MAX as u64) as libc::c_int;
        // SAFETY: as above, `raw` holds `room` events that the kernel may write.
        let count = unsafe { libc::epoll_wait(fd, self.raw.as_mut_ptr(), room, timeout_ms) };
        if count < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(count as usize)
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn fill(&mut self, timeout_ns: u64) -> io::Result<()> {
        match self
            .poll
            .poll(&mut self.events, Some(Duration::from_nanos(timeout_ns)))
        {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        for event in &self.events {
            self.ready.push(Ready {
                token: event.token().0,
                readable: event.is_readable() || event.is_read_closed() || event.is_error(),
                writable: event.is_writable(),
                hangup: event.is_read_closed() || event.is_error(),
            });
        }
        Ok(())
    }
}

/// Sleeps `ns` nanoseconds, to the precision of the thread's timers.
pub(crate) fn nap(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns));
}
