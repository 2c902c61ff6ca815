//! Posting to the loop of another thread: a locked queue and a waker, used off the hot path only.

use crate::driver::{ConnRef, Peer};
use socket2::Socket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most posts one loop may have waiting; further ones are refused.
pub(crate) const MAILBOX_LIMIT: usize = 1 << 20;

/// What a loop can be told.
pub(crate) enum Post<M> {
    /// A new connection to serve.
    Adopt(Socket, Peer),
    /// For a connection of that loop.
    Message(ConnRef, M),
    /// Call the driver's tick now: something it depends on has changed.
    Tick,
    /// Free what is kept for use again.
    Shrink,
    /// Finish: flush replies and end, at the latest at this time (clock nanoseconds).
    Stop {
        /// When to give up on clients that do not read.
        deadline: i64,
    },
}

/// Wakes a loop that waits for events.
pub(crate) enum Waker {
    Poll(mio::Waker),
    #[cfg(target_os = "linux")]
    Event(Arc<std::fs::File>),
}

impl Waker {
    fn wake(&self) {
        // A waker fails only if its event counter is full, and then the loop is awake.
        match self {
            Waker::Poll(waker) => drop(waker.wake()),
            #[cfg(target_os = "linux")]
            Waker::Event(counter) => {
                drop(std::io::Write::write(&mut &**counter, &1u64.to_ne_bytes()));
            }
        }
    }
}

struct Mailbox<M> {
    posts: Mutex<Vec<Post<M>>>,
    waker: Waker,
}

/// Mailboxes of all loops of a group.
pub struct Mailboxes<M> {
    boxes: Box<[Mailbox<M>]>,
}

impl<M> std::fmt::Debug for Mailboxes<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailboxes")
            .field("loops", &self.boxes.len())
            .finish()
    }
}

/// The mailbox was full; the post was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxFull;

impl<M> Mailboxes<M> {
    pub(crate) fn new(wakers: Vec<Waker>) -> Arc<Mailboxes<M>> {
        let boxes = wakers
            .into_iter()
            .map(|waker| Mailbox {
                posts: Mutex::new(Vec::new()),
                waker,
            })
            .collect();
        Arc::new(Mailboxes { boxes })
    }

    /// Posts `message` to the connection; it is dropped silently if the connection is gone by then.
    pub fn message(&self, to: ConnRef, message: M) -> Result<(), MailboxFull> {
        self.post(to.thread as usize, Post::Message(to, message))
    }

    /// As [`Mailboxes::message`], but never refused: for what a connection is waiting for, and for its end, of each of which
    /// there is at most one for each connection.
    pub fn answer(&self, to: ConnRef, message: M) {
        self.push(to.thread as usize, Post::Message(to, message), usize::MAX)
            .ok();
    }

    /// Takes the messages posted to thread 0, for a driver that is run without a loop.
    pub fn take_messages(&self) -> Vec<(ConnRef, M)> {
        let mut posts = Vec::new();
        self.take(0, &mut posts);
        posts
            .into_iter()
            .filter_map(|post| match post {
                Post::Message(to, message) => Some((to, message)),
                _ => None,
            })
            .collect()
    }

    /// Makes every loop call its driver's tick, because something that tick depends on has changed.
    pub fn tick_all(&self) -> Result<(), MailboxFull> {
        (0..self.len()).try_for_each(|thread| self.post(thread, Post::Tick))
    }

    /// Makes every loop free what it keeps for use again, and its driver as well ([`crate::Driver::shrink`]).
    pub fn shrink_all(&self) -> Result<(), MailboxFull> {
        (0..self.len()).try_for_each(|thread| self.post(thread, Post::Shrink))
    }

    pub(crate) fn post(&self, thread: usize, post: Post<M>) -> Result<(), MailboxFull> {
        self.push(thread, post, MAILBOX_LIMIT)
    }

    fn push(&self, thread: usize, post: Post<M>, most: usize) -> Result<(), MailboxFull> {
        let mailbox = &self.boxes[thread];
        let first = {
            let mut posts = lock(&mailbox.posts);
            if posts.len() >= most {
                return Err(MailboxFull);
            }
            posts.push(post);
            posts.len() == 1
        };
        // The loop takes all posts at once, so only the first one of a batch has to wake it.
        if first {
            mailbox.waker.wake();
        }
        Ok(())
    }

    pub(crate) fn take(&self, thread: usize, into: &mut Vec<Post<M>>) {
        std::mem::swap(&mut *lock(&self.boxes[thread].posts), into);
    }

    pub(crate) fn len(&self) -> usize {
        self.boxes.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A queue of whole posts is valid wherever its holder panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
