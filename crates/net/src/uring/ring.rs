//! One thread's ring: what goes to the kernel and what comes back.

use super::buffers::{self, Buffers, Chunk};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// Operations that are handed over at once; more are handed over in between.
const SUBMISSIONS: u32 = 512;
/// Completions the kernel can report at once; it keeps further ones.
const COMPLETIONS: u32 = 4096;
/// Since Linux 6.13 a wait for one completion looks at no more sockets than these (`IO_LOCAL_TW_DEFAULT_MAX`), however many
/// have something.
const LOCAL_WORK: usize = 20;
/// Times a full queue is handed over before the kernel counts as out of memory for good.
const SUBMIT_ATTEMPTS: usize = 1000;
/// Longest single send.
pub(super) const SEND_LIMIT: usize = 1 << 30;

/// What an operation was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    /// Multishot receive of a connection.
    Receive,
    /// Send of everything at once; reported only if the socket did not take all.
    SendNow,
    /// Send that completes when the socket has taken something.
    Send,
    /// Poll of what watches the listeners.
    Listeners,
    /// Poll of the waker.
    Waker,
    /// Cancellation; reported only if there was nothing to cancel.
    Cancel,
}

const OPS: [Op; 6] = [
    Op::Receive,
    Op::SendNow,
    Op::Send,
    Op::Listeners,
    Op::Waker,
    Op::Cancel,
];

/// A completion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) op: Op,
    /// Slot of the connection.
    pub(crate) index: u32,
    /// What the system call would have returned, errors negated.
    pub(crate) result: i32,
    /// The operation goes on.
    pub(crate) more: bool,
    /// The buffer that was filled.
    pub(crate) chunk: Option<Chunk>,
}

/// An io_uring with its buffers and its waker. Fields are dropped in order: the ring before the memory it uses.
pub(crate) struct Ring {
    io: IoUring,
    pub(crate) buffers: Buffers,
    waker: Arc<File>,
    flags: EnterFlags,
    /// Every wait brings all that has come.
    hears_many: bool,
}

impl Ring {
    /// A ring that takes operations after `enable`, from the thread that called it. Fails where the kernel or its policy
    /// has no io_uring, or none with deferred task work (Linux 6.1). `hears_many` gives it buffers for many connections at once.
    pub(crate) fn new(hears_many: bool) -> io::Result<Ring> {
        let io: IoUring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_r_disabled()
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .dontfork()
            .build(SUBMISSIONS)?;
        let params = io.params();
        if !(params.is_feature_ext_arg()
            && params.is_feature_nodrop()
            && params.is_feature_skip_cqe_on_success())
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        if params.is_feature_no_iowait() {
            // Waiting for clients is not waiting for a disk; without this an idle server looks busy in `top`.
            flags |= EnterFlags::NO_IOWAIT;
        }
        let buffers = Buffers::register(&io, hears_many)?;
        // SAFETY: eventfd has no preconditions.
        let counter = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if counter < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let waker = Arc::new(unsafe { File::from_raw_fd(counter) });
        Ok(Ring {
            io,
            buffers,
            waker,
            flags,
            hears_many,
        })
    }

    /// Binds the ring to the calling thread.
    pub(crate) fn enable(&mut self) -> io::Result<()> {
        self.io.submitter().register_enable_rings()
    }

    /// Writing to it wakes the loop, once `watch_waker` was called.
    pub(crate) fn waker(&self) -> &Arc<File> {
        &self.waker
    }

    /// Completes at each write to the waker, until the kernel says otherwise.
    pub(crate) fn watch_waker(&mut self) -> io::Result<()> {
        let fd = self.waker.as_raw_fd();
        self.poll(fd, Op::Waker)
    }

    /// Completes at each connection that arrives at a listener of this poll set, until the kernel says otherwise.
    pub(crate) fn watch_listeners(&mut self, fd: RawFd) -> io::Result<()> {
        self.poll(fd, Op::Listeners)
    }

    fn poll(&mut self, fd: RawFd, op: Op) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32)
            .multi(true)
            .build();
        // SAFETY: a poll uses no memory.
        unsafe { self.push(entry, op, 0) }
    }

    /// Receives into the shared buffers until cancelled, failed, or out of buffers.
    pub(crate) fn receive(&mut self, fd: RawFd, index: u32) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(fd), buffers::GROUP).build();
        // SAFETY: it writes to the registered buffers only, which outlive the operation by the contract of `Buffers`.
        unsafe { self.push(entry, Op::Receive, index) }
    }

    /// Sends `bytes` when the socket takes them; completes when it has taken some.
    ///
    /// # Safety
    /// The bytes must stay where they are, unchanged, until the operation has completed.
    pub(crate) unsafe fn send(&mut self, fd: RawFd, index: u32, bytes: &[u8]) -> io::Result<()> {
        let entry = send_entry(fd, bytes, libc::MSG_NOSIGNAL);
        // SAFETY: the caller keeps the bytes.
        unsafe { self.push(entry, Op::Send, index) }
    }

    /// Sends as much of `bytes` as the socket takes at once. That is over when the operation has been handed over, and
    /// there is no completion if all was taken: most replies cost no completion, and none wakes the loop.
    ///
    /// # Safety
    /// The bytes must stay where they are, unchanged, until the operation has been handed over.
    pub(crate) unsafe fn send_now(
        &mut self,
        fd: RawFd,
        index: u32,
        bytes: &[u8],
    ) -> io::Result<()> {
        // The kernel calls a send that must wait for everything, and may not wait, a failure when it falls short.
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        let entry = send_entry(fd, bytes, flags).flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: the caller keeps the bytes.
        unsafe { self.push(entry, Op::SendNow, index) }
    }

    /// Cancels the receive of a connection.
    pub(crate) fn cancel_receive(&mut self, index: u32) -> io::Result<()> {
        self.cancel(CancelBuilder::user_data(tag(Op::Receive, index)))
    }

    /// Cancels everything on a socket.
    pub(crate) fn cancel_all(&mut self, fd: RawFd) -> io::Result<()> {
        self.cancel(CancelBuilder::fd(Fd(fd)).all())
    }

    fn cancel(&mut self, what: CancelBuilder) -> io::Result<()> {
        let entry = opcode::AsyncCancel2::new(what)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: a cancellation uses no memory.
        unsafe { self.push(entry, Op::Cancel, 0) }
    }

    /// # Safety
    /// Memory that the operation uses must stay valid until it has completed.
    unsafe fn push(&mut self, entry: squeue::Entry, op: Op, index: u32) -> io::Result<()> {
        let entry = entry.user_data(tag(op, index));
        for _ in 0..SUBMIT_ATTEMPTS {
            // SAFETY: as the caller promises.
            if unsafe { self.io.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
        Err(io::ErrorKind::OutOfMemory.into())
    }

    /// Hands over what is queued, without waiting.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.enter(0, Some(Duration::ZERO))
    }

    /// Hands over what is queued and waits for a completion, at most for `timeout`.
    pub(crate) fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.enter(u32::from(timeout != Some(Duration::ZERO)), timeout)?;
        if self.hears_many && self.io.completion().len() >= LOCAL_WORK {
            // Asked for that many, without time to wait for them, the kernel looks at all that has come.
            self.enter(COMPLETIONS, Some(Duration::ZERO))?;
        }
        Ok(())
    }

    /// Whether everything queued has been handed over.
    pub(crate) fn is_submitted(&mut self) -> bool {
        self.io.submission().is_empty()
    }

    fn enter(&mut self, wanted: u32, timeout: Option<Duration>) -> io::Result<()> {
        self.buffers.publish();
        let queued = self.io.submission().len() as u32;
        let time = timeout.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(time) = &time {
            args = args.timespec(time);
        }
        // SAFETY: the flags announce the extended argument, which is what `args` is, and which outlives the call; all
        // queued operations use memory that their pushers keep valid.
        let entered = unsafe {
            self.io
                .submitter()
                .enter(queued, wanted, self.flags.bits(), Some(&args))
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time is over, a signal came, or completions must be taken first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Gives the memory of the read buffers back to the system; false if something has come that is not taken, which they hold.
    ///
    /// What was taken must have been given back. The kernel writes to a buffer only during `enter`, and reports it there: task
    /// work is deferred to it, and no other thread runs a receive that goes on.
    pub(crate) fn discard_buffers(&mut self) -> bool {
        let is_taken = self.io.completion().is_empty() && !self.io.submission().cq_overflow();
        if is_taken {
            self.buffers.discard();
        }
        is_taken
    }

    /// Moves all completions that have come into `into`, also those the kernel had to keep.
    pub(crate) fn take(&mut self, into: &mut Vec<Done>) -> io::Result<()> {
        loop {
            into.extend(self.io.completion().map(|entry| done(&entry)));
            if !self.io.submission().cq_overflow() {
                return Ok(());
            }
            self.submit()?;
        }
    }
}

fn done(entry: &cqueue::Entry) -> Done {
    let user_data = entry.user_data();
    let result = entry.result();
    let buffer = cqueue::buffer_select(entry.flags());
    Done {
        op: OPS[(user_data >> 56) as usize % OPS.len()],
        index: user_data as u32,
        result,
        more: cqueue::more(entry.flags()),
        chunk: buffer.map(|buffer| Chunk {
            buffer,
            len: usize::try_from(result).unwrap_or(0),
        }),
    }
}

fn send_entry(fd: RawFd, bytes: &[u8], flags: i32) -> squeue::Entry {
    let len = bytes.len().min(SEND_LIMIT) as u32;
    opcode::Send::new(Fd(fd), bytes.as_ptr(), len)
        .flags(flags)
        .build()
}

fn tag(op: Op, index: u32) -> u64 {
    u64::from(op as u8) << 56 | u64::from(index)
}
