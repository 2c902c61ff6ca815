//! A call that outlives the read that brought it: its end of the connection that it shares with others.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tollgate_wire::http2::Session;

/// A connection as its calls hold it.
pub(super) struct Shared {
    pub(super) session: RefCell<Session>,
    /// Calls that wait for something to come for them, each to be woken once.
    waiting: RefCell<Vec<Waker>>,
}

impl Shared {
    pub(super) fn new(session: Session) -> Rc<Self> {
        Rc::new(Self {
            session: RefCell::new(session),
            waiting: RefCell::default(),
        })
    }

    /// Wakes the calls for which something may have come.
    pub(super) fn stir(&self) {
        if self.session.borrow_mut().take_stirred() {
            let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// One call of a connection. Its answer is written with the connection's next one.
pub(super) struct Exchange {
    pub(super) shared: Rc<Shared>,
    pub(super) id: u32,
}

/// The peer gave the call up, or went.
pub(super) struct Gone;

impl Exchange {
    fn wait(&self, cx: &Context<'_>) {
        let mut waiting = self.shared.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
    }

    /// What came of the message since; `None` at its end.
    pub(super) fn poll_piece(&self, cx: &Context<'_>) -> Poll<Result<Option<Vec<u8>>, Gone>> {
        match self.shared.session.borrow_mut().take(self.id) {
            None => Poll::Ready(Err(Gone)),
            Some((piece, _)) if !piece.is_empty() => Poll::Ready(Ok(Some(piece))),
            Some((_, true)) => Poll::Ready(Ok(None)),
            Some((_, false)) => {
                self.wait(cx);
                Poll::Pending
            }
        }
    }

    /// Until all that was sent has left for the peer.
    pub(super) fn poll_sent(&self, cx: &Context<'_>) -> Poll<Result<(), Gone>> {
        match self.shared.session.borrow().held(self.id) {
            None => Poll::Ready(Err(Gone)),
            Some(0) => Poll::Ready(Ok(())),
            Some(_) => {
                self.wait(cx);
                Poll::Pending
            }
        }
    }

    /// Until nobody waits for an answer.
    pub(super) fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.shared.session.borrow().is_open(self.id) {
            return Poll::Ready(());
        }
        self.wait(cx);
        Poll::Pending
    }

    pub(super) fn begin(&self) {
        self.shared.session.borrow_mut().begin(self.id);
    }

    pub(super) fn send(&self, bytes: &[u8]) {
        self.shared.session.borrow_mut().send(self.id, bytes);
    }

    pub(super) fn finish(&self, status: u16, message: String) {
        let mut session = self.shared.session.borrow_mut();
        session.finish(self.id, status, message);
    }
}
