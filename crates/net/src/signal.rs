//! Termination signals through a pipe: the handler writes one byte, a thread of the program reads it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

/// Why a program is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// [`Signals::notify`].
    Notified,
}

/// Write end for the handler; -1 until installed.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Receives SIGTERM and SIGINT for the process.
#[derive(Debug)]
pub struct Signals {
    reader: Mutex<File>,
    writer: File,
}

impl Signals {
    /// Takes over SIGTERM and SIGINT, and has SIGHUP ignored, as Redis does: the end of a terminal is not that of the server.
    /// Once per process; later calls fail.
    pub fn install() -> io::Result<Signals> {
        let signals = Signals::pipe()?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&signals.writer);
        if PIPE
            .compare_exchange(-1, fd, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "signals are already taken over",
            ));
        }
        for signal in [libc::SIGTERM, libc::SIGINT] {
            // SAFETY: `handle` only does what is async-signal-safe: an atomic load and a write(2). The struct is
            // zero-initialised, which is a valid sigaction with an empty mask.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as extern "C" fn(i32) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        // SAFETY: to ignore a signal runs no code.
        if unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
        Ok(signals)
    }

    /// A source that only [`Signals::notify`] feeds: for a server inside another program or a test.
    pub fn pipe() -> io::Result<Signals> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: pipe succeeded, so both are open descriptors that nothing else owns.
        let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        for end in ends {
            // SAFETY: fcntl on a descriptor that is open; a child must not inherit the pipe.
            unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        Ok(Signals {
            reader: Mutex::new(File::from(reader)),
            writer: File::from(writer),
        })
    }

    /// Waits for the next one.
    pub fn wait(&self) -> io::Result<Wake> {
        let mut reader = self
            .reader
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut byte = [0];
        reader.read_exact(&mut byte)?;
        Ok(match i32::from(byte[0]) {
            libc::SIGTERM => Wake::Terminate,
            libc::SIGINT => Wake::Interrupt,
            _ => Wake::Notified,
        })
    }

    /// Waits for the next one, so long at most; `None` when none comes in time.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn wait_for(&self, time: std::time::Duration) -> io::Result<Option<Wake>> {
        let mut wanted = libc::pollfd {
            fd: std::os::fd::AsRawFd::as_raw_fd(
                &*self
                    .reader
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner),
            ),
            events: libc::POLLIN,
            revents: 0,
        };
        let millis = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: `wanted` is one valid pollfd for the length of the call.
        match unsafe { libc::poll(&mut wanted, 1, millis) } {
            0 => Ok(None),
            1.. => self.wait().map(Some),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Wakes the waiting thread as a signal would.
    pub fn notify(&self) -> io::Result<()> {
        (&self.writer).write_all(&[0])
    }
}

extern "C" fn handle(signal: i32) {
    let byte = signal as u8;
    // SAFETY: write(2) is async-signal-safe, `byte` is valid for one byte, and a failed write has no remedy here.
    unsafe { libc::write(PIPE.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_and_a_signal_wake_the_waiter() {
        let signals = Signals::install().unwrap();
        assert!(Signals::install().is_err(), "only one owner");
        let time = std::time::Duration::from_millis(1);
        assert_eq!(signals.wait_for(time).unwrap(), None);
        signals.notify().unwrap();
        assert_eq!(signals.wait_for(time).unwrap(), Some(Wake::Notified));
        signals.notify().unwrap();
        assert_eq!(signals.wait().unwrap(), Wake::Notified);
        // SAFETY: raise has no preconditions; SIGHUP is ignored, and the handler of the other is installed.
        unsafe { (libc::raise(libc::SIGHUP), libc::raise(libc::SIGTERM)) };
        assert_eq!(signals.wait().unwrap(), Wake::Terminate);
    }
}
