//! Refuses requests that would be answered too late, before any work is done for them.
//!
//! All connections of a thread wait for it in one queue: that of its runtime. A connection is put there when it is woken,
//! because bytes came, and leaves it when it is polled. [`Timed`] takes both times, so the wait is known without a queue of
//! our own.
//!
//! Over HTTP/1.1 refusing costs nearly as much as deciding, because most of either is spent on sockets and framing. So past
//! saturation not even that is done for all: while the queue stands, a connection that has waited for too long is put aside unread, and taken
//! up again, the newest first, as far as there is time.
//!
//! What came into the sockets while the thread was busy with others is seen when it asks the system next. How long it can
//! have been there is known nevertheless ([`turns`]): since the system was asked before, or since the connection was read
//! before, whichever is later. That is the span of a read. Where a read brings several requests, as with gRPC, their ages
//! are spread over it, the newest last ([`ReadBatch`]); connections that bring many at once are never put aside, because the
//! newest of what they bring can be answered in time whatever the span, and leaving the others costs little. A connection
//! over gRPC that has brought few of late is put aside as one over HTTP is: what it brings meanwhile is then read at once.
//!
//! A span says how long bytes may have waited, not how long they have. Where a thread stood still for a moment, because the
//! system had none for it, the first request after that looks old and may have come just now. So a few requests with nothing
//! else behind them are never refused: to answer them takes no time that others wait for.

mod batch;
mod flight;
mod looped;
mod queue;
mod turns;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;

pub(crate) use batch::ReadBatch;
use flight::Flights;
pub(crate) use looped::{Brought, LoopShed, MANY, Seen, Turn};
use queue::Queue;
pub(crate) use queue::Refused;
use turns::Turns;

/// How long a caller is asked to wait who was refused, in seconds.
pub(crate) const RETRY_SECS: u64 = 1;

/// Requests of one read from which on a connection brings many at once.
const WIDE_FROM: usize = 3;
/// Where no more connections have brought something, and each of them fewer than [`MANY`] requests, there is time for all.
const FEW: u64 = 8;
/// Connections that are served for each one that was put aside and is taken up.
const SERVED_PER_ASIDE: u32 = 16;
/// A wait below this means that the thread has time.
const IDLE: Duration = Duration::from_millis(1);
/// Time aside after which a connection comes before newer ones.
const ASIDE_MAX: Duration = Duration::from_secs(1);
/// Time between two looks at what was put aside.
const TEND_INTERVAL: Duration = Duration::from_millis(10);

/// The share of the deadline after which a backend's answer is late: the rest is for the ways there and back.
pub(crate) const LATE_DIVISOR: u32 = 2;

impl Refused {
    /// What the caller is told.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Deadline => "overloaded: the request waited for longer than its deadline",
            Self::Overload => "overloaded: requests wait for too long",
            Self::Queue => "overloaded: too many requests wait for the rate limit backend",
        }
    }
}

/// What one thread refuses.
#[derive(Debug)]
pub(crate) struct Shed {
    clock: fn() -> Instant,
    began: Instant,
    /// Since when the connection that is served now has waited for it.
    since: Cell<Duration>,
    /// The time before which nothing came that it brings now.
    from: Cell<Duration>,
    /// The connection that is served now brings one request after another.
    is_alone: Cell<bool>,
    /// Most requests that one read of it has brought.
    brought: Cell<usize>,
    /// It is one of few, and requests of it that were judged one by one.
    is_of_few: Cell<bool>,
    judged: Cell<usize>,
    turns: Arc<Turns>,
    queue: RefCell<Queue>,
    flights: RefCell<Flights>,
    /// Connections put aside, the newest last; at most one entry for each that there is.
    aside: RefCell<VecDeque<Aside>>,
    /// Connections served since one that was put aside was taken up.
    served: Cell<u32>,
    /// No connection was polled since the last look at what was put aside.
    idle: Cell<bool>,
}

/// A connection that was put aside.
#[derive(Debug)]
struct Aside {
    woken: Arc<Woken>,
    since: Duration,
}

impl Shed {
    /// Refuses requests after `patience`; none when it is zero.
    pub(crate) fn new(patience: Duration, clock: fn() -> Instant) -> Option<Rc<Self>> {
        (!patience.is_zero()).then(|| {
            Rc::new(Self {
                clock,
                began: clock(),
                since: Cell::default(),
                from: Cell::default(),
                is_alone: Cell::default(),
                brought: Cell::default(),
                is_of_few: Cell::default(),
                judged: Cell::default(),
                turns: Arc::default(),
                queue: RefCell::new(Queue::new(patience)),
                flights: RefCell::new(Flights::new(patience / LATE_DIVISOR)),
                aside: RefCell::default(),
                served: Cell::default(),
                idle: Cell::default(),
            })
        })
    }

    fn now(&self) -> Duration {
        (self.clock)().saturating_duration_since(self.began)
    }

    /// Whether a request that is taken up now is refused; `caller` is how long who asked waits for the answer.
    pub(crate) fn refuse(&self, caller: Option<Duration>) -> Option<Refused> {
        self.judged.set(self.judged.get() + 1);
        let waited = self.waited_since(self.since.get(), self.judged.get());
        self.queue.borrow().refuse(waited, caller)
    }

    /// The `count` requests that the connection which is served now brings at once; `is_wide` if it is one that brings many
    /// however few these are.
    pub(crate) fn batch(&self, count: usize, is_wide: bool) -> ReadBatch {
        let brought = if is_wide { usize::MAX } else { count };
        self.brought.set(self.brought.get().max(brought));
        let span = self.waited_since(self.from.get(), count);
        self.queue.borrow().batch(span, self.is_alone.get())
    }

    /// How long `count` requests of the connection that is served now have waited, as far as that says anything.
    fn waited_since(&self, since: Duration, count: usize) -> Duration {
        match self.is_of_few.get() && count < MANY {
            true => Duration::ZERO,
            false => self.now().saturating_sub(since),
        }
    }

    /// Whether the connection that was taken up is one of few: of one where the queue stands.
    fn are_few(&self) -> bool {
        let most = if self.queue.borrow().stands() { 1 } else { FEW };
        self.turns.are_few(most)
    }

    /// Counts a request that waits for the backend, until the guard is dropped.
    pub(crate) fn fly(&self) -> Result<Flight<'_>, Refused> {
        if !self.flights.borrow_mut().enter() {
            return Err(Refused::Queue);
        }
        Ok(Flight {
            shed: self,
            began: self.now(),
        })
    }

    /// Takes note of the span of what a connection brings that is polled now.
    fn note(&self, now: Duration) {
        let span = now.saturating_sub(self.from.get());
        self.queue.borrow_mut().note(now, span);
    }

    /// Whether a connection that was woken then, and is to be polled now, is put aside.
    fn puts_aside(&self, connection: &Arc<Woken>, now: Duration, woken: Duration) -> bool {
        let waited = now.saturating_sub(woken);
        let queue = self.queue.borrow();
        let aside = queue.is_stale(waited) && !self.turns.are_few(1);
        if aside {
            let woken = connection.clone();
            let since = now;
            self.aside.borrow_mut().push_back(Aside { woken, since });
        }
        drop(queue);
        self.idle.set(false);
        self.served.set(self.served.get() + u32::from(!aside));
        if self.served.get() >= SERVED_PER_ASIDE || (!aside && waited < IDLE) {
            self.take_up(now);
        }
        aside
    }

    /// Takes up one connection that was put aside: the oldest if it has been there for too long, else the newest.
    fn take_up(&self, now: Duration) {
        self.served.set(0);
        let mut aside = self.aside.borrow_mut();
        let overdue = aside.pop_front_if(|oldest| now.saturating_sub(oldest.since) > ASIDE_MAX);
        let taken = overdue.or_else(|| aside.pop_back());
        drop(aside);
        if let Some(Aside { woken, .. }) = taken {
            woken.take_up();
        }
    }

    /// Takes up what was put aside if no connection was served since the look before.
    fn take_up_idle(&self) {
        if self.idle.replace(true) {
            self.take_up(self.now());
        }
    }

    /// Looks after what was put aside, as long as it is polled.
    pub(crate) async fn tend(self: Rc<Self>) {
        loop {
            tokio::time::sleep(TEND_INTERVAL).await;
            self.take_up_idle();
        }
    }
}

/// A request that waits for the backend.
pub(crate) struct Flight<'a> {
    shed: &'a Shed,
    began: Duration,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let now = self.shed.now();
        let took = now.saturating_sub(self.began);
        self.shed.flights.borrow_mut().leave(now, took);
    }
}

/// When a connection was woken first since it was polled last, in nanoseconds plus one; 0 while it was not.
struct Woken {
    clock: fn() -> Instant,
    began: Instant,
    turns: Arc<Turns>,
    at: AtomicU64,
    /// The time before which nothing came that it was woken for.
    from: AtomicU64,
    /// It was put aside and may be served now.
    taken_up: AtomicBool,
    task: AtomicWaker,
}

impl Woken {
    fn take_up(&self) {
        self.taken_up.store(true, Ordering::Relaxed);
        self.task.wake();
    }
}

impl std::fmt::Debug for Woken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Woken").finish_non_exhaustive()
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.at.load(Ordering::Relaxed) == 0 {
            let waited = (self.clock)().saturating_duration_since(self.began);
            let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            self.from.store(self.turns.wake(nanos), Ordering::Relaxed);
            // Of several at once any will do.
            self.at.store(nanos.saturating_add(1), Ordering::Relaxed);
        }
        self.task.wake();
    }
}

/// A connection whose waits for its thread are known.
pub(crate) struct Timed<F> {
    connection: Pin<Box<F>>,
    shed: Rc<Shed>,
    woken: Arc<Woken>,
    waker: Waker,
    /// It may bring many requests at once; as long as it does, it is not put aside.
    may_be_wide: bool,
    is_wide: bool,
    is_aside: bool,
    /// When it was polled last.
    polled: Duration,
}

impl<F: Future> Timed<F> {
    /// A connection that brings one request after another.
    pub(crate) fn new(connection: F, shed: Rc<Shed>) -> Self {
        let woken = Arc::new(Woken {
            clock: shed.clock,
            began: shed.began,
            turns: shed.turns.clone(),
            from: AtomicU64::new(0),
            at: AtomicU64::new(0),
            taken_up: AtomicBool::new(false),
            task: AtomicWaker::new(),
        });
        Self {
            connection: Box::pin(connection),
            waker: Waker::from(woken.clone()),
            shed,
            woken,
            may_be_wide: false,
            is_wide: false,
            is_aside: false,
            polled: Duration::ZERO,
        }
    }

    /// A connection that may bring many requests at once.
    pub(crate) fn wide(connection: F, shed: Rc<Shed>) -> Self {
        Self {
            may_be_wide: true,
            is_wide: true,
            ..Self::new(connection, shed)
        }
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.woken.task.register(cx.waker());
        if this.is_aside && !this.woken.taken_up.swap(false, Ordering::Relaxed) {
            // Woken once more; it is as late as before.
            return Poll::Pending;
        }
        let now = this.shed.now();
        let woken = match this.woken.at.load(Ordering::Relaxed) {
            // The first time, or for a reason of the runtime's own.
            0 => {
                this.shed.from.set(now);
                now
            }
            at => {
                let woken = Duration::from_nanos(at - 1);
                let from = Duration::from_nanos(this.woken.from.load(Ordering::Relaxed));
                this.shed.from.set(from.max(this.polled));
                // How long it was aside says nothing about the queue.
                if !this.is_aside {
                    this.shed.turns.take_up();
                    this.shed.note(now);
                    if !this.is_wide && this.shed.puts_aside(&this.woken, now, woken) {
                        this.is_aside = true;
                        return Poll::Pending;
                    }
                }
                woken
            }
        };
        let was_aside = std::mem::take(&mut this.is_aside);
        this.shed.is_alone.set(!this.is_wide && !was_aside);
        this.shed.brought.set(0);
        this.shed.judged.set(0);
        this.shed.is_of_few.set(this.shed.are_few());
        this.polled = now;
        this.woken.at.store(0, Ordering::Relaxed);
        this.shed.since.set(woken);
        let polled = this
            .connection
            .as_mut()
            .poll(&mut Context::from_waker(&this.waker));
        this.shed.turns.served(now, || this.shed.now());
        // What has come while it was aside says nothing about how it comes.
        if this.may_be_wide && !was_aside && this.shed.brought.get() > 0 {
            this.is_wide = this.shed.brought.get() >= WIDE_FROM;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::{LazyLock, Mutex};

    use super::*;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    static NOW_MS: AtomicU64 = AtomicU64::new(0);

    fn clock() -> Instant {
        *START + Duration::from_millis(NOW_MS.load(Ordering::SeqCst))
    }

    struct Noted(AtomicBool);

    impl Wake for Noted {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_wait_is_from_the_first_waking_to_the_poll() {
        let shed = Shed::new(Duration::from_millis(20), clock).expect("on");
        // Many others wait.
        for _ in 0..=FEW {
            shed.turns.wake(0);
        }
        let inner: Rc<RefCell<Option<Waker>>> = Rc::default();
        let (seen, asked) = (inner.clone(), shed.clone());
        let refused: Rc<Cell<Option<Refused>>> = Rc::default();
        let told = refused.clone();
        let mut timed = Timed::new(
            poll_fn(move |cx| {
                *seen.borrow_mut() = Some(cx.waker().clone());
                told.set(asked.refuse(None));
                Poll::<()>::Pending
            }),
            shed,
        );
        let noted = Arc::new(Noted(AtomicBool::new(false)));
        let waker = Waker::from(noted.clone());
        let mut poll = || {
            let polled = Pin::new(&mut timed).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            refused.get()
        };
        let wake = || inner.borrow().as_ref().expect("polled").wake_by_ref();
        assert_eq!(poll(), None);
        wake();
        assert!(noted.0.load(Ordering::SeqCst));
        NOW_MS.store(15, Ordering::SeqCst);
        wake();
        NOW_MS.store(19, Ordering::SeqCst);
        assert_eq!(poll(), None);
        // 19 ms were those of the earlier waking.
        NOW_MS.store(30, Ordering::SeqCst);
        wake();
        NOW_MS.store(50, Ordering::SeqCst);
        assert_eq!(poll(), Some(Refused::Deadline));
        // Polled without having been woken: it did not wait.
        NOW_MS.store(90, Ordering::SeqCst);
        assert_eq!(poll(), None);
    }

    static STALLED_MS: AtomicU64 = AtomicU64::new(0);

    fn stalled() -> Instant {
        *START + Duration::from_millis(STALLED_MS.load(Ordering::SeqCst))
    }

    /// The thread stands still for 30 ms between the waking of `connections` and their polls, again and again, each of which
    /// has brought `calls` calls: how many are refused.
    fn refused_after_stalls(connections: usize, calls: usize, may_be_wide: bool) -> usize {
        let shed = Shed::new(Duration::from_millis(20), stalled).expect("on");
        let wakers: Rc<RefCell<Vec<Option<Waker>>>> =
            Rc::new(RefCell::new(vec![None; connections]));
        let refused: Rc<Cell<usize>> = Rc::default();
        let mut all: Vec<_> = (0..connections)
            .map(|index| {
                let (wakers, refused, asked) = (wakers.clone(), refused.clone(), shed.clone());
                let serve = poll_fn(move |cx| {
                    if wakers.borrow_mut()[index]
                        .replace(cx.waker().clone())
                        .is_none()
                    {
                        return Poll::<()>::Pending;
                    }
                    let batch = may_be_wide.then(|| asked.batch(calls, false));
                    let is_refused = |at: usize| match batch {
                        Some(batch) => batch.refuse(None, at, calls).is_some(),
                        None => asked.refuse(None).is_some(),
                    };
                    let count = (0..calls).filter(|at| is_refused(*at)).count();
                    refused.set(refused.get() + count);
                    Poll::Pending
                });
                match may_be_wide {
                    true => Timed::wide(serve, shed.clone()),
                    false => Timed::new(serve, shed.clone()),
                }
            })
            .collect();
        let noted = Waker::from(Arc::new(Noted(AtomicBool::new(false))));
        let mut poll_all = || {
            for timed in &mut all {
                let polled = Pin::new(timed).poll(&mut Context::from_waker(&noted));
                assert!(polled.is_pending());
            }
        };
        poll_all();
        for _ in 0..20 {
            for waker in wakers.borrow().iter().flatten() {
                waker.wake_by_ref();
            }
            STALLED_MS.fetch_add(30, Ordering::SeqCst);
            poll_all();
        }
        refused.get()
    }

    #[test]
    fn a_call_alone_is_never_refused_for_a_stall() {
        for may_be_wide in [false, true] {
            assert_eq!(refused_after_stalls(1, 1, may_be_wide), 0);
            // Many are, or many of one.
            let many = refused_after_stalls(FEW as usize + 1, 1, may_be_wide);
            assert!(many > 0, "{may_be_wide}");
            assert!(
                refused_after_stalls(1, 16, may_be_wide) > 0,
                "{may_be_wide}"
            );
        }
    }

    /// A runtime's queue: who is woken goes to its end.
    struct Ready {
        queue: Arc<Mutex<VecDeque<usize>>>,
        connection: usize,
    }

    impl Wake for Ready {
        fn wake(self: Arc<Self>) {
            let mut queue = self.queue.lock().expect("one thread");
            if !queue.contains(&self.connection) {
                queue.push_back(self.connection);
            }
        }
    }

    static SIMULATED_US: AtomicU64 = AtomicU64::new(0);

    fn simulated() -> Instant {
        *START + Duration::from_micros(SIMULATED_US.load(Ordering::SeqCst))
    }

    /// Callers that ask again at once, whatever they are told, and refusals that cost nearly as much as decisions: if all
    /// were refused that waited, all would wait for refusals.
    #[test]
    fn where_refusing_is_dear_most_time_goes_into_decisions() {
        const CONNECTIONS: usize = 50;
        const CALLS: u64 = 16;
        const DECISION_US: u64 = 100;
        const REFUSAL_US: u64 = 70;
        const LENGTH_US: u64 = 10_000_000;
        let shed = Shed::new(Duration::from_millis(20), simulated).expect("on");
        let queue: Arc<Mutex<VecDeque<usize>>> = Arc::default();
        let decided: Rc<Cell<u64>> = Rc::default();
        let served = Rc::new(RefCell::new(vec![0_u64; CONNECTIONS]));
        let connection = |index: usize| {
            let (shed, decided, served) = (shed.clone(), decided.clone(), served.clone());
            let asked = shed.clone();
            let serve = poll_fn(move |cx| {
                served.borrow_mut()[index] += 1;
                for _ in 0..CALLS {
                    let cost = match asked.refuse(None) {
                        None => {
                            decided.set(decided.get() + 1);
                            DECISION_US
                        }
                        Some(_) => REFUSAL_US,
                    };
                    SIMULATED_US.fetch_add(cost, Ordering::SeqCst);
                }
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            });
            Timed::new(serve, shed)
        };
        let mut connections: Vec<_> = (0..CONNECTIONS).map(connection).collect();
        queue.lock().expect("one thread").extend(0..CONNECTIONS);
        let mut tended = Duration::ZERO;
        while SIMULATED_US.load(Ordering::SeqCst) < LENGTH_US {
            let next = queue.lock().expect("one thread").pop_front();
            if let Some(index) = next {
                let waker = Waker::from(Arc::new(Ready {
                    queue: queue.clone(),
                    connection: index,
                }));
                let polled =
                    Pin::new(&mut connections[index]).poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
            } else {
                SIMULATED_US.fetch_add(100, Ordering::SeqCst);
            }
            if shed.now() >= tended + TEND_INTERVAL {
                tended = shed.now();
                shed.take_up_idle();
            }
            assert!(shed.aside.borrow().len() <= CONNECTIONS);
        }
        let share = (decided.get() * DECISION_US) as f64 / LENGTH_US as f64;
        assert!(share > 0.8, "{share}");
        // Nobody is left aside.
        let fewest = served.borrow().iter().copied().min();
        assert!(fewest >= Some(3), "{fewest:?}");
    }

    /// Connections over gRPC that bring one call after another, each of which costs nearly as much to come to as to decide,
    /// by callers that give up.
    #[test]
    fn connections_that_bring_few_calls_are_put_aside() {
        const CONNECTIONS: usize = 800;
        const PATIENCE_US: u64 = 20_000;
        const VISIT_US: u64 = 10;
        const DECISION_US: u64 = 60;
        const LENGTH_US: u64 = 1_000_000;
        let run = |load_percent: u64| {
            let shed = Shed::new(Duration::from_micros(PATIENCE_US), gathered).expect("on");
            let now = || GATHERED_US.load(Ordering::SeqCst);
            let start = now();
            let queue: Arc<Mutex<VecDeque<usize>>> = Arc::default();
            let sent: Rc<RefCell<Vec<Vec<u64>>>> = Rc::new(RefCell::new(vec![vec![]; CONNECTIONS]));
            let wakers: Rc<RefCell<Vec<Option<Waker>>>> =
                Rc::new(RefCell::new(vec![None; CONNECTIONS]));
            let good: Rc<Cell<u64>> = Rc::default();
            let connection = |index: usize| {
                let (sent, wakers, good, asked) =
                    (sent.clone(), wakers.clone(), good.clone(), shed.clone());
                let serve = poll_fn(move |cx| {
                    wakers.borrow_mut()[index] = Some(cx.waker().clone());
                    let calls = std::mem::take(&mut sent.borrow_mut()[index]);
                    if calls.is_empty() {
                        return Poll::<()>::Pending;
                    }
                    GATHERED_US.fetch_add(VISIT_US, Ordering::SeqCst);
                    let batch = asked.batch(calls.len(), false);
                    for (at, came) in calls.iter().enumerate() {
                        // Those given up are not looked at.
                        if now() - came < PATIENCE_US
                            && batch.refuse(None, at, calls.len()).is_none()
                        {
                            GATHERED_US.fetch_add(DECISION_US, Ordering::SeqCst);
                            good.set(good.get() + u64::from(now() - came <= PATIENCE_US));
                        }
                    }
                    Poll::Pending
                });
                Timed::wide(serve, shed.clone())
            };
            let mut connections: Vec<_> = (0..CONNECTIONS).map(connection).collect();
            let mut poll = |index: usize| {
                let waker = Waker::from(Arc::new(Ready {
                    queue: queue.clone(),
                    connection: index,
                }));
                let polled =
                    Pin::new(&mut connections[index]).poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
            };
            (0..CONNECTIONS).for_each(&mut poll);
            let gap = (VISIT_US + DECISION_US) * 100 / load_percent;
            let (mut next, mut cursor, mut tended) = (now(), 0, now());
            while now() < start + LENGTH_US {
                // What has come since the system was asked before.
                let mut heard = Vec::new();
                while next <= now() {
                    sent.borrow_mut()[cursor].push(next);
                    heard.push(cursor);
                    cursor = (cursor + 1) % CONNECTIONS;
                    next += gap;
                }
                for index in heard {
                    let waker = wakers.borrow()[index].clone();
                    waker.expect("polled").wake_by_ref();
                }
                for _ in 0..61 {
                    let Some(index) = queue.lock().expect("one thread").pop_front() else {
                        break;
                    };
                    poll(index);
                }
                if queue.lock().expect("one thread").is_empty() {
                    GATHERED_US.fetch_add(20, Ordering::SeqCst);
                }
                if now() >= tended + 10_000 {
                    tended = now();
                    shed.take_up_idle();
                }
            }
            good.get()
        };
        let peak = [70, 80, 90].map(run).into_iter().max().unwrap_or(0) as f64;
        for load_percent in [150, 200] {
            let kept = run(load_percent) as f64 / peak;
            assert!(kept >= 0.95, "{load_percent} %: {kept}");
        }
    }

    static GATHERED_US: AtomicU64 = AtomicU64::new(0);

    fn gathered() -> Instant {
        *START + Duration::from_micros(GATHERED_US.load(Ordering::SeqCst))
    }

    #[test]
    fn nothing_is_refused_without_patience() {
        assert!(Shed::new(Duration::ZERO, clock).is_none());
    }
}
