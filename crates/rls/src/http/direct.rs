//! Decisions over HTTP on the event loops that the store has: where none has to be waited for, and without TLS.
//!
//! ```text
//! loop -> bytes of one connection -> head -> refused? -> body -> decision -> all answers with one write
//! ```
//!
//! A request costs less here than the runtime of `connection` takes to wake a task. Whatever may wait (a store elsewhere,
//! TLS) is served there.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::StatusCode;
use tollgate_net::{Clock, ConnRef, Driver, Flow, IoBackend, Peer, Refused, Step};
use tollgate_wire::http1::{CONTINUE, Event, Reader};

use super::connection::{
    BODY_TIMEOUT, Date, HEAD_TIMEOUT, LINGER, MAX_UNSENT, READ_SIZE, refuse_malformed,
};
use super::dues::{Due, Dues};
use super::{Ask, Looked, MAX_BODY, Port, answer, look, refusal};
use crate::server::Place;
use crate::service::Service;
use crate::shed::{Brought, LoopShed, Seen, Turn};

/// Unsent bytes of one connection above which nothing more of it is read.
const MAX_OUTPUT: usize = 256 << 10;
/// Memory of the buffer for answers that is kept.
const KEPT_OUTPUT: usize = 128 << 10;
/// Between two looks at units taken in advance.
const TEND_EVERY: Duration = Duration::from_millis(10);
/// Between two looks for connections to end, while the service stops.
const STOP_EVERY: Duration = Duration::from_millis(5);

thread_local! {
    /// The service of the loop that runs on this thread.
    static SERVICE: OnceCell<Service> = const { OnceCell::new() };
}

/// Makes a service, on the thread that is to have it.
pub(crate) type MakeService = Box<dyn FnOnce() -> Service + Send>;

/// The HTTP connections of one loop.
pub(crate) struct HttpLoop {
    make: Option<MakeService>,
    /// All connections of the service.
    places: Arc<AtomicUsize>,
    stops: Arc<AtomicBool>,
    shed: Option<LoopShed<ConnRef>>,
    monotonic: fn() -> Instant,
    began: Instant,
    dues: Dues<ConnRef>,
    fired: Fired,
    /// When units taken in advance are looked after, if there are any.
    tend: Option<i64>,
    date: Date,
    /// Answers of the connection that is served.
    output: Vec<u8>,
}

/// What the time that has come was for.
#[derive(Clone, Copy)]
enum Fired {
    /// To serve a connection that was put aside.
    Resume,
    /// To look whether a connection has waited for long enough; when that was entered for.
    Due(i64),
}

/// One connection.
pub(crate) struct Connection {
    at: ConnRef,
    reader: Reader,
    /// What the request is for whose body is on its way.
    ask: Ask,
    /// The body was on its way when the connection was served last.
    is_within: bool,
    /// Nobody listens any more.
    lingers: bool,
    /// Bytes are unsent.
    is_sending: bool,
    due: Due,
    seen: Seen,
    _place: Place,
}

impl HttpLoop {
    /// A loop that makes its service when it starts. `places` counts the connections of all, `stops` tells all to end, and
    /// requests are refused after `shed_after`. `system` is what the loop runs on.
    pub(crate) fn new(
        make: MakeService,
        places: Arc<AtomicUsize>,
        stops: Arc<AtomicBool>,
        shed_after: Duration,
        system: IoBackend,
        monotonic: fn() -> Instant,
    ) -> HttpLoop {
        HttpLoop {
            make: Some(make),
            places,
            stops,
            shed: LoopShed::new(shed_after, turn_of(system)),
            monotonic,
            began: monotonic(),
            dues: Dues::default(),
            fired: Fired::Resume,
            tend: None,
            date: Date::default(),
            output: Vec::new(),
        }
    }

    /// A place for one more connection.
    fn place(&self) -> Option<Place> {
        let stops = self.stops.load(Ordering::Relaxed);
        (!stops).then(|| Place::take(&self.places))?
    }

    fn since_began(&self) -> Duration {
        (self.monotonic)().saturating_duration_since(self.began)
    }

    /// Answers what came whole; how many bytes are done with, how many requests were answered, and what is next.
    fn answer_all(
        &mut self,
        service: &Service,
        conn: &mut Connection,
        brought: Option<&Brought>,
        input: &[u8],
    ) -> (usize, u64, Flow) {
        let (mut done, mut answered) = (0, 0);
        loop {
            let at = done;
            let (used, event) = conn.reader.next(&input[done..]);
            done += used;
            let reply = match event {
                Event::More => return (done, answered, Flow::Continue),
                Event::Head(head) => {
                    let judge = |caller| {
                        let refused = brought?.refuse(caller, at)?;
                        service.count_refused(refused);
                        Some(refused)
                    };
                    match look(service, &Port::Service, &head, judge) {
                        Looked::Asks(ask) => {
                            conn.ask = ask;
                            continue;
                        }
                        Looked::Reply(reply) => {
                            done += conn.reader.skip_body(&input[done..]);
                            reply
                        }
                    }
                }
                Event::Body(body) => {
                    let answered = answer(service, conn.ask, body).now_or_never();
                    answered.unwrap_or_else(|| {
                        let status = StatusCode::INTERNAL_SERVER_ERROR;
                        refusal(conn.ask, status, "the decision has to be waited for")
                    })
                }
                Event::Malformed(malformed) => refuse_malformed(conn.ask, malformed),
            };
            if self.stops.load(Ordering::Relaxed) {
                conn.reader.end();
            }
            let date = self.date.now();
            reply.write(&mut conn.reader, date, &mut self.output);
            answered += 1;
            if !conn.reader.keeps_alive() {
                return (done, answered, Flow::Close);
            }
            if self.output.len() > MAX_UNSENT {
                return (done, answered, Flow::Yield);
            }
        }
    }

    /// Sets when the wait of a connection ends that was served now.
    fn wait(&mut self, conn: &mut Connection, answered: u64, now: i64) {
        let within = conn.reader.is_within_request() || conn.reader.is_skipping();
        if answered > 0 || within != conn.is_within {
            conn.is_within = within;
            let wait = if within { BODY_TIMEOUT } else { HEAD_TIMEOUT };
            self.dues.set(&mut conn.due, after(now, wait), conn.at);
        }
    }

    /// The last answer is on its way. A peer that may still be sending is read from for a while: closing on it would take
    /// the answer from it.
    fn end(&mut self, conn: &mut Connection, unread: bool, now: i64) -> Flow {
        if !unread && !conn.reader.is_cut_off() {
            return Flow::Close;
        }
        conn.lingers = true;
        self.dues.set(&mut conn.due, after(now, LINGER), conn.at);
        Flow::Continue
    }

    /// A connection has waited for long enough.
    fn give_up(&mut self, conn: &mut Connection) -> Flow {
        if conn.lingers || conn.is_sending || !conn.reader.is_within_request() {
            return Flow::Drop;
        }
        let reply = refusal(
            conn.ask,
            StatusCode::REQUEST_TIMEOUT,
            "the body did not come whole",
        );
        conn.reader.end();
        let date = self.date.now();
        reply.write(&mut conn.reader, date, &mut self.output);
        Flow::Close
    }
}

/// How a loop on this system goes from connection to connection.
fn turn_of(system: IoBackend) -> Turn {
    Turn {
        reads_early: system == IoBackend::IoUring,
        hears: u32::try_from(system.hears()).unwrap_or(u32::MAX),
    }
}

/// Whether there is more than one request, by what every first line ends with; in doubt there is.
fn is_several(input: &[u8]) -> bool {
    const END: &[u8] = b" HTTP/1.";
    let mut ends = input.windows(END.len()).filter(|bytes| *bytes == END);
    ends.nth(1).is_some()
}

fn after(now: i64, wait: Duration) -> i64 {
    now.saturating_add(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX))
}

impl Driver for HttpLoop {
    type Conn = Connection;
    type Message = ();

    fn open(&mut self, at: ConnRef, _peer: Peer, now: i64) -> Result<Connection, Refused> {
        let mut conn = Connection {
            at,
            reader: Reader::new(MAX_BODY),
            ask: Ask::Json,
            is_within: false,
            lingers: false,
            is_sending: false,
            due: Due::new(),
            seen: Seen::default(),
            _place: self.place().ok_or(Refused(b""))?,
        };
        self.dues.set(&mut conn.due, after(now, HEAD_TIMEOUT), at);
        Ok(conn)
    }

    fn data(&mut self, conn: &mut Connection, input: &[u8], now: i64) -> Step {
        let step = |consumed, flow| Step {
            consumed,
            needed: 0,
            flow,
        };
        if conn.lingers {
            return step(input.len(), Flow::Continue);
        }
        let clock = self.since_began();
        let mut brought = None;
        if let Some(shed) = &mut self.shed {
            let bytes = (input.len(), input.len() >= READ_SIZE / 2);
            let several = || is_several(input);
            let came = shed.arrive(&mut conn.seen, bytes, clock, several, Clock::of_thread);
            if shed.puts_aside(conn.at, &mut conn.seen, &came, clock) {
                return step(0, Flow::Wait);
            }
            brought = Some(came);
        }
        let (done, answered, flow) = SERVICE.with(|service| match service.get() {
            Some(service) => self.answer_all(service, conn, brought.as_ref(), input),
            None => (0, 0, Flow::Drop),
        });
        if let Some(shed) = &self.shed {
            shed.served(&mut conn.seen, done, flow == Flow::Yield);
        }
        if conn.reader.takes_up_expectation() {
            self.output.extend_from_slice(CONTINUE);
        }
        if flow == Flow::Close {
            let unread = done < input.len();
            return step(input.len(), self.end(conn, unread, now));
        }
        self.wait(conn, answered, now);
        step(done, flow)
    }

    fn message(&mut self, _conn: &mut Connection, (): (), _now: i64) -> Flow {
        Flow::Continue
    }

    fn next_timeout(&self) -> Option<i64> {
        let has_aside = self.shed.as_ref().is_some_and(LoopShed::has_aside);
        let at_once = has_aside.then_some(i64::MIN);
        let dues = [self.dues.next(), self.tend, at_once];
        dues.into_iter().flatten().min()
    }

    fn take_timeout(&mut self, now: i64) -> Option<ConnRef> {
        if self.tend.is_some_and(|due| due <= now) {
            let goes_on = SERVICE.with(|service| service.get().is_some_and(Service::give_back));
            self.tend = goes_on.then(|| after(now, TEND_EVERY));
        }
        if self.shed.as_ref().is_some_and(LoopShed::has_aside) {
            let clock = self.since_began();
            if let Some(taken) = self.shed.as_mut().and_then(|shed| shed.take(clock)) {
                self.fired = Fired::Resume;
                return Some(taken);
            }
        }
        let (entered, conn) = self.dues.take(now)?;
        self.fired = Fired::Due(entered);
        Some(conn)
    }

    fn timed_out(&mut self, conn: &mut Connection, now: i64) -> Flow {
        match self.fired {
            Fired::Resume => {
                if let Some(shed) = &self.shed {
                    shed.resume(&mut conn.seen);
                }
                Flow::Continue
            }
            Fired::Due(entered) if self.dues.is_over(&mut conn.due, entered, now, conn.at) => {
                self.give_up(conn)
            }
            Fired::Due(_) if conn.seen.is_aside() => Flow::Wait,
            Fired::Due(_) => Flow::Continue,
        }
    }

    fn end_of_input(&mut self, conn: &mut Connection, _now: i64) -> Flow {
        if conn.lingers || !conn.reader.is_within_request() {
            return Flow::Continue;
        }
        let status = StatusCode::BAD_REQUEST;
        let reply = refusal(conn.ask, status, "the body ends early");
        conn.reader.end();
        let date = self.date.now();
        reply.write(&mut conn.reader, date, &mut self.output);
        Flow::Close
    }

    fn unsent(&self) -> &[u8] {
        &self.output
    }

    fn sent(&mut self) {
        self.output.clear();
        self.output.shrink_to(KEPT_OUTPUT);
    }

    fn buffered(&mut self, conn: &mut Connection, _input: usize, output: usize) {
        conn.is_sending = output > 0;
    }

    fn closed(&mut self, conn: Connection, _now: i64) {
        if let Some(shed) = &mut self.shed {
            shed.forget(&conn.seen);
        }
    }

    fn batch_done(&mut self, now: i64) {
        let clock = self.since_began();
        if let Some(shed) = &mut self.shed {
            shed.turn_done(clock, Clock::of_thread);
        }
        if self.tend.is_none()
            && SERVICE.with(|service| service.get().is_some_and(Service::holds_units))
        {
            self.tend = Some(after(now, TEND_EVERY));
        }
    }

    fn tick(&mut self, _now: i64) -> Option<i64> {
        if let Some(make) = self.make.take() {
            SERVICE.with(|service| service.set(make()).ok());
        }
        None
    }

    /// Only connections that have nothing under way when the service stops.
    fn sweep_interval(&self) -> Option<i64> {
        let stops = self.stops.load(Ordering::Relaxed);
        stops.then(|| after(0, STOP_EVERY))
    }

    fn stale(&self, conn: &Connection, _now: i64) -> bool {
        let busy = conn.reader.is_within_request() || conn.seen.is_aside() || conn.is_sending;
        self.stops.load(Ordering::Relaxed) && !busy
    }

    fn output_limit(&self) -> usize {
        MAX_OUTPUT
    }

    fn tcp_keepalive(&self) -> u64 {
        0
    }
}
