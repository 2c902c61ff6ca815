//! One event loop of the service.
//!
//! ```text
//! loop -> bytes of one connection -> left for later? -> requests -> refused? -> decisions -> all answers with one write
//! ```
//!
//! A request costs less here than the runtime of `server` takes to wake a task. What is likely to wait (a store elsewhere, TLS)
//! is served there; a decision that a long command of the store holds up is a future of its connection, which posts to the
//! loop when it can go on. Connections of both protocols wait for the thread in one queue, of which [`LoopShed`] knows.

use std::cell::OnceCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tollgate_net::{
    Clock, ConnRef, Driver, Flow, IoBackend, Mailboxes, Peer, PeerAddress, Refused, Step,
};
use tollgate_wire::http2;

use super::dues::{Due, Dues};
use super::held::{self, Held, Signal};
use crate::backend::END_WAITS_EVERY;
use crate::http::Date;
use crate::listening::Place;
use crate::service::Service;
use crate::shed::{Brought, LoopShed, MANY, Seen, Turn};
use crate::{grpc, http};

/// Unsent bytes of one connection above which nothing more of it is read.
const MAX_OUTPUT: usize = 256 << 10;
/// Memory of the buffer for answers that is kept.
const KEPT_OUTPUT: usize = 128 << 10;
/// A read of so many bytes may have left some behind.
const FULL_READ: usize = 32 << 10;
/// Between two looks at units taken in advance.
const TEND_EVERY: Duration = Duration::from_millis(10);
/// Between two looks at a connection whose answers wait for the append-only file.
const HELD_EVERY: Duration = Duration::from_secs(1);
/// Between two looks for connections to end, while the service stops.
const STOP_EVERY: Duration = Duration::from_millis(5);

thread_local! {
    /// The service of the loop that runs on this thread.
    static SERVICE: OnceCell<Rc<Service>> = const { OnceCell::new() };
}

/// Makes a service, on the thread that is to have it.
pub(crate) type MakeService = Box<dyn FnOnce() -> Service + Send>;

/// Where connections come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    pub(crate) grpc: Option<PeerAddress>,
    pub(crate) http: Option<PeerAddress>,
}

impl Ports {
    /// Whether a connection to this address speaks gRPC.
    fn is_grpc(&self, local: &PeerAddress) -> bool {
        let (Some(grpc), Some(http)) = (&self.grpc, &self.http) else {
            return self.grpc.is_some();
        };
        // The ports may be one, on several addresses of which one is any.
        let is_any = match (grpc, local) {
            (PeerAddress::Tcp(grpc), PeerAddress::Tcp(local)) => {
                grpc.ip().is_unspecified() && grpc.port() == local.port()
            }
            _ => false,
        };
        local == grpc || (is_any && local != http)
    }
}

/// What all loops share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) ports: Ports,
    /// All connections of the service.
    pub(crate) places: Arc<AtomicUsize>,
    /// All are to end.
    pub(crate) stops: Arc<AtomicBool>,
    /// Requests are refused after that.
    pub(crate) shed_after: Duration,
    /// What the loops run on.
    pub(crate) system: IoBackend,
    pub(crate) monotonic: fn() -> Instant,
    pub(crate) mailboxes: Arc<Mailboxes<Signal>>,
}

/// The connections of one loop.
pub(crate) struct ServiceLoop {
    make: Option<MakeService>,
    common: Common,
    shed: Option<LoopShed<ConnRef>>,
    began: Instant,
    dues: Dues<ConnRef>,
    fired: Fired,
    /// Connections of gRPC, each of which is told when the service stops.
    told: HashSet<ConnRef>,
    /// Connections that have something to say for their own part.
    own: VecDeque<ConnRef>,
    has_told: bool,
    /// When units taken in advance are looked after, if there are any.
    tend: Option<i64>,
    /// When the ends of waits for long commands are looked for, if there are any.
    ends: Option<i64>,
    date: Date,
    /// Answers of the connection that is served.
    output: Vec<u8>,
}

/// What the time that has come was for.
#[derive(Clone, Copy)]
enum Fired {
    /// To serve a connection that was put aside.
    Resume,
    /// To let a connection say something for its own part.
    Own,
    /// To look whether a connection has waited for long enough; when that was entered for.
    Due(i64),
}

/// One connection.
pub(crate) struct Connection {
    at: ConnRef,
    talk: Talk,
    /// Bytes are unsent.
    is_sending: bool,
    due: Due,
    seen: Seen,
    /// Answers that may not be told yet.
    held: Option<Box<Held>>,
    _place: Place,
}

enum Talk {
    Http(http::Talk),
    Grpc(Box<grpc::Talk>),
}

/// What a connection is served with.
pub(crate) struct Means<'a> {
    pub(crate) service: &'a Rc<Service>,
    /// What it brings; `None` if nothing of it is ever refused.
    pub(crate) brought: Option<&'a Brought>,
    /// For its answers; empty before.
    pub(crate) output: &'a mut Vec<u8>,
    pub(crate) date: &'a mut Date,
    /// The service stops.
    pub(crate) stops: bool,
    /// On the clock of the loop, in nanoseconds.
    pub(crate) now: i64,
}

/// How a connection goes on.
pub(crate) struct Served {
    /// Bytes that are done with.
    pub(crate) consumed: usize,
    pub(crate) flow: Flow,
    /// When its wait ends, if that has changed.
    pub(crate) due: Option<i64>,
}

pub(crate) fn after(now: i64, wait: Duration) -> i64 {
    now.saturating_add(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX))
}

/// How a loop on this system goes from connection to connection.
fn turn_of(system: IoBackend) -> Turn {
    Turn {
        reads_early: system == IoBackend::IoUring,
        hears: u32::try_from(system.hears()).unwrap_or(u32::MAX),
    }
}

fn made_service() -> Option<Rc<Service>> {
    SERVICE.with(|service| service.get().cloned())
}

/// Whether what was decided so far may not be told yet.
fn must_wait() -> bool {
    SERVICE.with(|service| {
        service
            .get()
            .is_some_and(|service| service.kept_at().is_some())
    })
}

/// Has a connection told when the append-only file has got to a place; false when it has already.
fn waits_for<'s>(
    service: &'s Service,
    mailboxes: &'s Arc<Mailboxes<Signal>>,
    at: ConnRef,
) -> impl FnOnce(u64) -> bool + use<'s> {
    move |until| service.when_kept(until, held::waker(mailboxes, at))
}

impl ServiceLoop {
    /// A loop that makes its service when it starts.
    pub(crate) fn new(make: MakeService, common: Common) -> ServiceLoop {
        ServiceLoop {
            make: Some(make),
            shed: LoopShed::new(common.shed_after, turn_of(common.system)),
            began: (common.monotonic)(),
            dues: Dues::default(),
            fired: Fired::Resume,
            told: HashSet::new(),
            own: VecDeque::new(),
            has_told: false,
            tend: None,
            ends: None,
            date: Date::default(),
            output: Vec::new(),
            common,
        }
    }

    fn stops(&self) -> bool {
        self.common.stops.load(Ordering::Relaxed)
    }

    fn since_began(&self) -> Duration {
        (self.common.monotonic)().saturating_duration_since(self.began)
    }

    /// Serves a connection; `None` if the loop has no service yet.
    fn with<T>(
        &mut self,
        brought: Option<&Brought>,
        now: i64,
        serve: impl FnOnce(&mut Means<'_>) -> T,
    ) -> Option<T> {
        let stops = self.stops();
        SERVICE.with(|service| {
            let mut means = Means {
                service: service.get()?,
                brought,
                output: &mut self.output,
                date: &mut self.date,
                stops,
                now,
            };
            Some(serve(&mut means))
        })
    }

    /// Takes note of how a connection was served that was not called for by its bytes.
    fn note(&mut self, conn: &mut Connection, served: Option<Served>) -> Flow {
        let Some(served) = served else {
            return Flow::Drop;
        };
        if let Some(due) = served.due {
            self.dues.set(&mut conn.due, due, conn.at);
        }
        match served.flow {
            Flow::Continue if conn.seen.is_aside() => Flow::Leave,
            flow => flow,
        }
    }

    /// Lets a connection go on with what does not come from its peer.
    fn go_on(&mut self, conn: &mut Connection, now: i64) -> Flow {
        if let Talk::Grpc(talk) = &mut conn.talk
            && (conn.seen.is_aside() || conn.held.is_some())
        {
            talk.put_off(now);
        }
        let served = self.with(None, now, |means| match &mut conn.talk {
            Talk::Http(talk) => talk.go_on(means),
            Talk::Grpc(talk) => talk.go_on(means),
        });
        self.note(conn, served)
    }

    /// Keeps back what a connection is to be sent until the append-only file has what it tells of, if that is promised.
    #[inline]
    fn hold(&mut self, conn: &mut Connection, flow: Flow) -> Flow {
        if conn.held.is_none() && (self.output.is_empty() || !must_wait()) {
            return flow;
        }
        let Some(service) = made_service() else {
            return flow;
        };
        let waits = waits_for(&service, &self.common.mailboxes, conn.at);
        held::hold(&mut conn.held, &mut self.output, flow, &service, waits)
    }

    /// The append-only file has got on.
    #[cold]
    fn release(&mut self, conn: &mut Connection) -> Flow {
        let Some(service) = made_service() else {
            return Flow::Drop;
        };
        let waits = waits_for(&service, &self.common.mailboxes, conn.at);
        let is_aside = conn.seen.is_aside();
        match held::release(&mut conn.held, &mut self.output, is_aside, waits) {
            // What was answered may be told; there is one more to come.
            Flow::Continue if conn.waits() => Flow::Hold,
            flow => flow,
        }
    }

    /// A connection has waited for long enough.
    fn give_up(&mut self, conn: &mut Connection, now: i64) -> Flow {
        match &mut conn.talk {
            Talk::Http(_) if conn.is_sending => Flow::Drop,
            Talk::Http(talk) => {
                let flow = self.with(None, now, |means| talk.give_up(means));
                flow.unwrap_or(Flow::Drop)
            }
            Talk::Grpc(_) => self.go_on(conn, now),
        }
    }
}

impl Connection {
    /// Whether nothing of it is looked at before the answer to a request that has come.
    fn waits(&self) -> bool {
        match &self.talk {
            Talk::Http(talk) => talk.waits(),
            Talk::Grpc(_) => false,
        }
    }
}

impl Driver for ServiceLoop {
    type Conn = Connection;
    type Message = Signal;

    fn open(&mut self, at: ConnRef, peer: Peer, now: i64) -> Result<Connection, Refused> {
        let place = match self.stops() {
            true => None,
            false => Place::take(&self.common.places),
        };
        let place = place.ok_or(Refused(b""))?;
        let is_grpc = self.common.ports.is_grpc(&peer.local);
        let mailboxes = self.common.mailboxes.clone();
        let talk = self.with(None, now, |means| match is_grpc {
            true => Talk::Grpc(Box::new(grpc::Talk::new(means, &mailboxes, at))),
            false => Talk::Http(http::Talk::new(&mailboxes, at)),
        });
        let mut conn = Connection {
            at,
            talk: talk.ok_or(Refused(b""))?,
            is_sending: false,
            due: Due::new(),
            seen: Seen::default(),
            held: None,
            _place: place,
        };
        match &conn.talk {
            Talk::Http(talk) => self.dues.set(&mut conn.due, talk.first_due(now), at),
            Talk::Grpc(_) => {
                self.told.insert(at);
                // The server's settings.
                self.own.push_back(at);
            }
        }
        Ok(conn)
    }

    fn data(&mut self, conn: &mut Connection, input: &[u8], now: i64) -> Step {
        let step = |consumed, flow| Step {
            consumed,
            needed: 0,
            flow,
        };
        if let Talk::Http(talk) = &conn.talk {
            if talk.lingers() {
                return step(input.len(), Flow::Continue);
            }
            if talk.waits() {
                return step(0, Flow::Hold);
            }
        }
        let mut brought = None;
        if self.shed.is_some() {
            let clock = self.since_began();
            let count = || match &conn.talk {
                Talk::Http(_) => http::requests_in(input, MANY),
                Talk::Grpc(_) => http2::calls_begun(input, MANY),
            };
            if let Some(shed) = &mut self.shed {
                let bytes = (input.len(), input.len() >= FULL_READ);
                let came = shed.arrive(&mut conn.seen, bytes, clock, count, Clock::of_thread);
                if shed.puts_aside(conn.at, &mut conn.seen, &came, clock) {
                    return step(0, Flow::Leave);
                }
                brought = Some(came);
            }
        }
        let served = self.with(brought.as_ref(), now, |means| match &mut conn.talk {
            Talk::Http(talk) => talk.receive(means, input),
            Talk::Grpc(talk) => talk.receive(means, input),
        });
        let Some(served) = served else {
            return step(0, Flow::Drop);
        };
        if let Some(shed) = &self.shed {
            let is_behind = served.flow == Flow::Yield;
            shed.served(&mut conn.seen, served.consumed, is_behind);
        }
        if let Some(due) = served.due {
            self.dues.set(&mut conn.due, due, conn.at);
        }
        step(served.consumed, self.hold(conn, served.flow))
    }

    fn leaves_unread(&mut self, conn: &mut Connection) -> bool {
        let can_be_left = matches!(conn.talk, Talk::Grpc(_)) && conn.held.is_none();
        if !can_be_left || !self.shed.as_ref().is_some_and(LoopShed::is_pressed) {
            return false;
        }
        let clock = self.since_began();
        self.shed.as_mut().is_some_and(|shed| {
            shed.leaves_unread(conn.at, &mut conn.seen, clock, Clock::of_thread)
        })
    }

    fn message(&mut self, conn: &mut Connection, message: Signal, now: i64) -> Flow {
        match message {
            Signal::Woken => {
                let flow = self.go_on(conn, now);
                self.hold(conn, flow)
            }
            Signal::Kept => self.release(conn),
        }
    }

    fn next_timeout(&self) -> Option<i64> {
        let has_aside = self.shed.as_ref().is_some_and(LoopShed::has_aside);
        let at_once = (has_aside || !self.own.is_empty()).then_some(i64::MIN);
        let dues = [self.dues.next(), self.tend, self.ends, at_once];
        dues.into_iter().flatten().min()
    }

    fn take_timeout(&mut self, now: i64) -> Option<ConnRef> {
        if let Some(own) = self.own.pop_front() {
            self.fired = Fired::Own;
            return Some(own);
        }
        if self.tend.is_some_and(|due| due <= now) {
            let goes_on = made_service().is_some_and(|service| service.give_back());
            self.tend = goes_on.then(|| after(now, TEND_EVERY));
        }
        if self.ends.is_some_and(|due| due <= now) {
            // Those whose time has come are posted to.
            let goes_on = made_service().is_some_and(|service| service.end_late_waits());
            self.ends = goes_on.then(|| after(now, END_WAITS_EVERY));
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
        let flow = match self.fired {
            Fired::Resume => {
                if let Some(shed) = &self.shed {
                    shed.resume(&mut conn.seen);
                }
                Flow::Continue
            }
            Fired::Own => self.go_on(conn, now),
            Fired::Due(entered) if self.dues.is_over(&mut conn.due, entered, now, conn.at) => {
                if conn.held.is_some() || conn.waits() {
                    // It is not the peer that is waited for.
                    self.dues
                        .set(&mut conn.due, after(now, HELD_EVERY), conn.at);
                    return Flow::Hold;
                }
                self.give_up(conn, now)
            }
            Fired::Due(_) if conn.waits() => Flow::Hold,
            Fired::Due(_) if conn.seen.is_aside() => Flow::Leave,
            Fired::Due(_) => Flow::Continue,
        };
        self.hold(conn, flow)
    }

    fn end_of_input(&mut self, conn: &mut Connection, now: i64) -> Flow {
        let flow = match &mut conn.talk {
            Talk::Http(talk) => {
                let flow = self.with(None, now, |means| talk.end_of_input(means));
                flow.unwrap_or(Flow::Drop)
            }
            // Nobody is left to read the answers of calls still under way.
            Talk::Grpc(_) => Flow::Continue,
        };
        self.hold(conn, flow)
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
        // What a failed connection left unsent is nobody's: the next one must not be sent it.
        self.output.clear();
        self.told.remove(&conn.at);
        if let Some(shed) = &mut self.shed {
            shed.forget(&conn.seen);
        }
    }

    fn batch_done(&mut self, now: i64) {
        let clock = self.since_began();
        if let Some(shed) = &mut self.shed {
            shed.turn_done(clock, Clock::of_thread);
        }
        let (holds_units, has_waits) = SERVICE.with(|service| match service.get() {
            Some(service) => (service.holds_units(), service.has_waits()),
            None => (false, false),
        });
        if self.tend.is_none() && holds_units {
            self.tend = Some(after(now, TEND_EVERY));
        }
        if self.ends.is_none() && has_waits {
            self.ends = Some(after(now, END_WAITS_EVERY));
        }
    }

    fn tick(&mut self, _now: i64) -> Option<i64> {
        if let Some(make) = self.make.take() {
            SERVICE.with(|service| service.set(Rc::new(make())).ok());
        }
        if self.stops() && !std::mem::replace(&mut self.has_told, true) {
            self.own.extend(&self.told);
        }
        None
    }

    /// Only connections that have nothing under way when the service stops.
    fn sweep_interval(&self) -> Option<i64> {
        self.stops().then(|| after(0, STOP_EVERY))
    }

    fn stale(&self, conn: &Connection, _now: i64) -> bool {
        let is_busy = match &conn.talk {
            Talk::Http(talk) => talk.is_busy(),
            // Ends by itself, with a goodbye.
            Talk::Grpc(_) => true,
        };
        let waits = conn.seen.is_aside() || conn.held.is_some();
        self.stops() && !is_busy && !waits && !conn.is_sending
    }

    fn output_limit(&self) -> usize {
        MAX_OUTPUT
    }

    fn tcp_keepalive(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn connections_are_known_by_where_they_came_to() {
        let at = |text: &str| match text.parse::<SocketAddr>() {
            Ok(address) => PeerAddress::Tcp(address),
            Err(_) => PeerAddress::Unix(text.into()),
        };
        let speaks = |grpc: &str, http: &str, local: &str| {
            let ports = Ports {
                grpc: Some(at(grpc)),
                http: Some(at(http)),
            };
            ports.is_grpc(&at(local))
        };
        for (grpc, http) in [
            ("127.0.0.1:81", "127.0.0.1:80"),
            ("0.0.0.0:81", "127.0.0.1:80"),
            ("[::]:81", "[::]:80"),
        ] {
            for host in ["127.0.0.1", "[::1]", "[::ffff:10.0.0.1]"] {
                assert!(!speaks(grpc, http, &format!("{host}:80")), "{grpc} {host}");
            }
        }
        assert!(speaks("0.0.0.0:81", "0.0.0.0:80", "10.0.0.1:81"));
        assert!(speaks("10.0.0.1:81", "0.0.0.0:80", "10.0.0.1:81"));
        // One port on two addresses.
        assert!(speaks("0.0.0.0:80", "127.0.0.1:80", "10.0.0.1:80"));
        assert!(!speaks("0.0.0.0:80", "127.0.0.1:80", "127.0.0.1:80"));
        assert!(speaks("127.0.0.1:80", "0.0.0.0:80", "127.0.0.1:80"));
        assert!(!speaks("127.0.0.1:80", "0.0.0.0:80", "10.0.0.1:80"));
        // Sockets that have a path.
        assert!(speaks("/run/grpc", "0.0.0.0:80", "/run/grpc"));
        assert!(!speaks("/run/grpc", "0.0.0.0:80", "10.0.0.1:80"));
        assert!(!speaks("0.0.0.0:81", "/run/http", "/run/http"));
        assert!(speaks("0.0.0.0:81", "/run/http", "10.0.0.1:81"));
        assert!(speaks("/run/grpc", "/run/http", "/run/grpc"));
        assert!(!speaks("/run/grpc", "/run/http", "/run/http"));
        // One of them alone.
        let alone = |grpc, http| Ports { grpc, http }.is_grpc(&at("1.1.1.1:1"));
        assert!(alone(Some(at("0.0.0.0:1")), None));
        assert!(!alone(None, Some(at("0.0.0.0:1"))));
    }
}
