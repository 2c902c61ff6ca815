//! The calls of one connection, whoever reads and writes its bytes.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tollgate_wire::http2::{Call, Fault, MAX_STREAMS, Session};
use tollgate_wire::rls::SHOULD_RATE_LIMIT;

use super::call::{self, Ask, Next};
use super::exchange::{Exchange, Shared};
use super::status::Code;
use super::stream;
use crate::service::Service;
use crate::shed::{Brought, Refused};

/// Most calls of one connection that wait for something, whether or not their caller still does.
const PENDING_MAX: usize = 2 * MAX_STREAMS;
/// What is told a call of a connection that has too many under way.
const TOO_MANY: &str = "too many calls of this connection wait for the rate limit backend";

type Pending = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    /// Calls that came with one read; empty between two.
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// What says of calls that came together which are refused.
#[derive(Clone, Copy)]
pub(super) enum Judge<'a> {
    /// What the runtime's tasks are watched by.
    Runtime,
    /// What the event loop knows of the bytes they came in; `None` if it refuses nothing.
    Loop(Option<&'a Brought>),
    /// Nothing: they have failed anyway.
    Nobody,
}

/// A connection's session, and its calls that wait for something.
pub(super) struct Conversation {
    pub(super) shared: Rc<Shared>,
    service: Rc<Service>,
    pending: FuturesUnordered<Pending>,
}

impl Conversation {
    pub(super) fn new(service: Rc<Service>) -> Self {
        Self {
            shared: Shared::new(Session::new(call::wants, call::MAX_BODY)),
            service,
            pending: FuturesUnordered::new(),
        }
    }

    /// Reads what came and answers its calls, as far as nothing has to be waited for; how many bytes were taken.
    pub(super) fn receive(&mut self, bytes: &[u8], judge: Judge<'_>) -> Result<usize, Fault> {
        CALLS.with_borrow_mut(|calls| {
            let taken = self.shared.session.borrow_mut().receive(bytes, calls);
            self.shared.stir();
            self.answer(calls, bytes, judge);
            taken
        })
    }

    /// Answers the calls that came in `bytes`.
    fn answer(&mut self, calls: &mut Vec<Call>, bytes: &[u8], judge: Judge<'_>) {
        if calls.is_empty() {
            return;
        }
        let (began, mut answered) = (Instant::now(), 0);
        let count = calls.len();
        let batch = match judge {
            Judge::Runtime => self.service.batch(count),
            Judge::Loop(_) | Judge::Nobody => None,
        };
        let refuse = |call: &Call, place: usize| -> Option<Refused> {
            let timeout = call.head.timeout;
            match judge {
                Judge::Loop(brought) => brought?.refuse(timeout, call.at),
                _ => batch?.refuse(timeout, place, count),
            }
        };
        for (place, call) in calls.drain(..).enumerate() {
            let mut session = self.shared.session.borrow_mut();
            if !session.is_open(call.id) {
                // Given up in the same breath.
                continue;
            }
            if let Some(refused) = refuse(&call, place)
                && *call.head.path == *SHOULD_RATE_LIMIT.as_bytes()
            {
                self.service.count_refused(refused);
                session.refuse(call.id, Code::Unavailable as u16, refused.reason());
                answered += 1;
                continue;
            }
            let next = call::answer_now(&call, bytes, &self.service, &mut session);
            drop(session);
            match next {
                Next::Done => answered += 1,
                later => self.wait(call.id, later),
            }
        }
        // All of them leave with the same write.
        self.service
            .counters()
            .response_time(began.elapsed(), answered);
    }

    /// Keeps a call that has to wait, and counts its time.
    fn wait(&mut self, id: u32, next: Next) {
        if self.pending.len() >= PENDING_MAX {
            let mut session = self.shared.session.borrow_mut();
            return session.refuse(id, Code::Unavailable as u16, TOO_MANY);
        }
        let service = self.service.clone();
        let shared = self.shared.clone();
        let exchange = Exchange { shared, id };
        self.pending.push(match next {
            Next::Done => return,
            Next::Stream(Ask::HealthWatch) => {
                Box::pin(stream::watch(exchange, service.health().clone()))
            }
            Next::Stream(_) => Box::pin(stream::reflect(exchange)),
            Next::Wait(asked) => Box::pin(async move {
                let began = Instant::now();
                call::answer_later(exchange, asked, service.clone()).await;
                service.counters().response_time(began.elapsed(), 1);
            }),
        });
    }

    /// Answers the calls up to stream `last` whose message has not come whole.
    pub(super) fn give_up(&mut self, last: u32) {
        CALLS.with_borrow_mut(|calls| {
            self.shared.session.borrow_mut().give_up(last, calls);
            self.answer(calls, &[], Judge::Nobody);
        });
    }

    /// Goes on with the calls that wait.
    pub(super) fn go_on(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = self.pending.poll_next_unpin(cx) {}
    }

    /// Waits until what was answered may be told; `None` if there is nothing to wait for.
    pub(super) fn wait_until_kept(&self) -> Option<impl Future<Output = ()> + use<>> {
        self.service.wait_until_kept()
    }

    /// Whether calls wait for something.
    pub(super) fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.shared.session.borrow().open() == 0
    }

    /// Whether the connection was left and nothing is to be answered.
    pub(super) fn is_over(&self) -> bool {
        self.pending.is_empty() && self.shared.session.borrow().is_over()
    }
}
