//! What wakes a connection whose calls or requests wait for something: it posts to the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use tollgate_net::{ConnRef, Mailboxes};

use super::Signal;

/// Wakes one connection.
pub(crate) struct Wakes {
    mailboxes: Arc<Mailboxes<Signal>>,
    at: ConnRef,
    /// The connection was posted to, or goes on by itself.
    told: AtomicBool,
}

impl Wakes {
    pub(crate) fn new(mailboxes: &Arc<Mailboxes<Signal>>, at: ConnRef) -> Arc<Wakes> {
        Arc::new(Wakes {
            mailboxes: mailboxes.clone(),
            at,
            told: AtomicBool::new(false),
        })
    }

    /// Whatever this wakes from now on is gone on with at once.
    pub(crate) fn rest(&self) {
        self.told.store(true, Ordering::Release);
    }

    /// What wakes it from now on has the loop come back.
    pub(crate) fn listen(self: &Arc<Self>) -> Waker {
        self.told.store(false, Ordering::Release);
        Waker::from(self.clone())
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.told.swap(true, Ordering::AcqRel) {
            self.mailboxes.answer(self.at, Signal::Woken);
        }
    }
}
