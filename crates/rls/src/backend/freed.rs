//! Decisions of one thread that wait for the store in this process: a long command (a script, FLUSHALL) may hold a counter for
//! seconds, or writes are paused, and nothing else of the thread is to wait for that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tollgate_engine::{Handle, Wake};

/// What the store tells the thread by.
#[derive(Default)]
struct Freed {
    ended: Notify,
    /// The store has been asked to tell.
    asked: AtomicBool,
}

impl Freed {
    fn tell(&self) {
        // Whoever begins to wait after this asks anew.
        self.asked.store(false, Ordering::Release);
        self.ended.notify_waiters();
    }
}

/// The end of one wait.
struct End {
    at: Instant,
    waker: RefCell<Option<Waker>>,
    /// It is looked for no more.
    is_over: Cell<bool>,
}

/// One wait.
pub(super) struct Wait<'w> {
    waits: &'w Waits,
    /// `None`: it lasts for as long as it takes.
    end: Option<Rc<End>>,
}

/// How long decisions wait, and those that do.
pub(super) struct Waits {
    freed: Arc<Freed>,
    /// Calls it.
    wake: Arc<Wake>,
    /// Longest wait; zero: until the command has ended.
    patience: Duration,
    clock: fn() -> Instant,
    /// In the order in which they come, as all waits are equally long.
    ends: RefCell<VecDeque<Rc<End>>>,
    /// Somebody waits who has not been looked after yet.
    pub(super) begun: Notify,
}

impl Waits {
    pub(super) fn new(patience: Duration, clock: fn() -> Instant) -> Self {
        let freed: Arc<Freed> = Arc::default();
        let told = freed.clone();
        Self {
            freed,
            wake: Arc::new(move || told.tell()),
            patience,
            clock,
            ends: RefCell::default(),
            begun: Notify::new(),
        }
    }

    /// Begins to wait.
    pub(super) fn begin(&self) -> Wait<'_> {
        let end = (!self.patience.is_zero()).then(|| {
            let end = Rc::new(End {
                at: (self.clock)() + self.patience,
                waker: RefCell::default(),
                is_over: Cell::default(),
            });
            self.ends.borrow_mut().push_back(end.clone());
            self.begun.notify_one();
            end
        });
        Wait { waits: self, end }
    }

    /// Has the store tell when something that is waited for has ended; false when there is nothing.
    fn ask(&self, store: &Handle) -> bool {
        let waits = store.when_freed(&self.wake);
        if !waits {
            self.freed.asked.store(false, Ordering::Release);
        }
        waits
    }

    /// Whether there are waits whose end is to be looked for.
    pub(super) fn are_there(&self) -> bool {
        !self.ends.borrow().is_empty()
    }

    /// Ends the waits whose time has come; whether there are others.
    pub(super) fn end_late(&self) -> bool {
        let now = (self.clock)();
        let mut ends = self.ends.borrow_mut();
        while let Some(end) = ends.pop_front_if(|end| end.at <= now) {
            end.is_over.set(true);
            if let Some(waker) = end.waker.take() {
                waker.wake();
            }
        }
        !ends.is_empty()
    }
}

impl Wait<'_> {
    /// Waits until something of the store has ended that may have been waited for; false when it has taken too long.
    pub(super) async fn freed(&self, store: &Handle) -> bool {
        let waits = self.waits;
        let mut freed = pin!(waits.freed.ended.notified());
        // From here on nothing that ends is missed.
        freed.as_mut().enable();
        if !waits.freed.asked.swap(true, Ordering::AcqRel) && !waits.ask(store) {
            return true;
        }
        poll_fn(|cx| {
            if freed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            match &self.end {
                Some(end) if end.is_over.get() => Poll::Ready(false),
                Some(end) => {
                    *end.waker.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(end) = &self.end {
            end.is_over.set(true);
            let mut ends = self.waits.ends.borrow_mut();
            while ends.pop_front_if(|end| end.is_over.get()).is_some() {}
        }
    }
}
