//! Listeners, threads, and the way down.

use std::cell::Cell;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tollgate_engine::Handle;
use tollgate_limiter::Timestamp;
use tollgate_policy::Ruleset;

use crate::backend::{AnyBackend, Embedded, HotKeys, LocalCache, Places, Stores, Strategies};
use crate::config::{Backend, RlsConfig, StartError, TlsConfig};
use crate::fallback::Fallbacks;
use crate::health::Health;
use crate::http::Port;
use crate::loops::{LoopOptions, LoopPorts, Loops, MakeService};
use crate::metrics::Metrics;
use crate::metrics::send_forever;
use crate::reload::{Before, Watch};
use crate::rules::load_files;
use crate::service::{Backing, Service};
use crate::shed::{Shed, Timed};
use crate::tls::{Refusals, Tls};
use crate::{grpc, http};

/// Most connections at the same time; more are closed as they come.
const MAX_CONNECTIONS: usize = 65_536;
/// Connections that may wait for a thread to take them.
const HANDOVER_QUEUE: usize = 1_024;
/// How long requests under way may take after the service was told to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Pause after the system refused a connection, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The running service.
#[derive(Debug)]
pub struct RlsServer {
    grpc_addr: SocketAddr,
    http_addr: SocketAddr,
    debug_addr: Option<SocketAddr>,
    prometheus_addr: Option<SocketAddr>,
    domains: usize,
    limits: usize,
    health: Health,
    log: fn(&str),
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    loops: Option<Loops>,
}

/// What a connection speaks.
#[derive(Clone)]
enum Speaks {
    Grpc,
    Http(Port),
}

/// A connection on its way to its thread. The place is given back when the connection ends.
struct Arrival {
    stream: StdStream,
    speaks: Speaks,
    place: Place,
}

/// TLS of the ports that have it.
#[derive(Clone, Default)]
struct PortsTls {
    grpc: Option<Arc<Tls>>,
    http: Option<Arc<Tls>>,
}

impl PortsTls {
    fn new(config: &RlsConfig) -> Result<Self, StartError> {
        let of = |given: &Option<TlsConfig>, protocol| {
            let tls = given.as_ref().map(|given| Tls::new(given, protocol));
            tls.transpose().map(|tls| tls.map(Arc::new))
        };
        Ok(Self {
            grpc: of(&config.grpc_tls, b"h2")?,
            http: of(&config.http_tls, b"http/1.1")?,
        })
    }
}

/// One of [`MAX_CONNECTIONS`].
pub(crate) struct Place(Arc<AtomicUsize>);

impl Place {
    pub(crate) fn take(count: &Arc<AtomicUsize>) -> Option<Self> {
        if count.fetch_add(1, Ordering::Relaxed) < MAX_CONNECTIONS {
            return Some(Self(count.clone()));
        }
        count.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes the backend of one thread, on that thread.
type MakeBackend = Arc<dyn Fn() -> AnyBackend + Send + Sync>;

/// The ports, and where they are.
struct Listening {
    listeners: Vec<(StdListener, Speaks)>,
    grpc_addr: SocketAddr,
    http_addr: SocketAddr,
    debug_addr: Option<SocketAddr>,
    prometheus_addr: Option<SocketAddr>,
}

impl Listening {
    fn on(config: &RlsConfig) -> Result<Self, StartError> {
        let mut listeners = Vec::new();
        let mut open = |what, addr, speaks| {
            let listener = listen(what, addr)?;
            let addr = local(&listener, addr)?;
            listeners.push((listener, speaks));
            Ok(addr)
        };
        let grpc_addr = open("gRPC", config.grpc_addr, Speaks::Grpc)?;
        let http_addr = open("HTTP", config.http_addr, Speaks::Http(Port::Service))?;
        let debug = config.debug_addr;
        let debug_addr = debug.map(|addr| open("debugging", addr, Speaks::Http(Port::Debug)));
        let debug_addr = debug_addr.transpose()?;
        let prometheus = config.prometheus.as_ref();
        let prometheus_addr = prometheus.map(|(addr, path)| {
            let port = Port::Prometheus(path.as_str().into());
            open("Prometheus", *addr, Speaks::Http(port))
        });
        let prometheus_addr = prometheus_addr.transpose()?;
        Ok(Self {
            listeners,
            grpc_addr,
            http_addr,
            debug_addr,
            prometheus_addr,
        })
    }
}

/// The rules to begin with: none, if the service may wait for them.
fn first_rules(config: &RlsConfig) -> Result<Ruleset, StartError> {
    match load_files(&config.rules_dir, config.rule_files, config.load_options()) {
        Err(error) if config.start_without_rules => {
            (config.log)(&format!("waiting for rules: {error}"));
            Ok(Ruleset::default())
        }
        loaded => loaded,
    }
}

fn backend_maker(
    config: &RlsConfig,
    store: Option<Handle>,
    clock: fn() -> Timestamp,
    metrics: &Metrics,
) -> Result<MakeBackend, StartError> {
    Ok(match &config.backend {
        Backend::Embedded => {
            if config.envoy_counters.is_some() {
                return Err(StartError::NeedsBackend("--counter-keys envoy"));
            }
            if config.per_second.is_some() {
                return Err(StartError::NeedsBackend("--per-second-backend"));
            }
            let store = store.ok_or(StartError::NoStore)?;
            Arc::new(move || AnyBackend::Embedded(Embedded::new(store.clone(), clock)))
        }
        Backend::Remote(url) => {
            let places = Places::new(url, config)?;
            metrics.facts.tell_of_pools(places.pools());
            let known = HotKeys::new();
            Arc::new(move || {
                let stores = Stores::new(&places, clock);
                AnyBackend::Remote(Box::new(Strategies::new(stores, known.clone(), clock)))
            })
        }
    })
}

/// What is remembered of denials by a store elsewhere; the one of this process is as near as any memory of it.
/// The cache of limits that are over, if one is asked for; metrics tell of it.
fn local_cache(
    config: &RlsConfig,
    clock: fn() -> Timestamp,
    metrics: &Metrics,
) -> Option<LocalCache> {
    let wanted = config.local_cache_bytes > 0 && config.backend != Backend::Embedded;
    let envoy = config.envoy_counters.as_ref();
    let cache = wanted.then(|| LocalCache::new(config.local_cache_bytes, envoy, clock));
    if let Some(cache) = &cache {
        metrics.facts.tell_of_cache(cache.clone());
    }
    cache
}

impl RlsServer {
    /// Reads the rules, listens, and starts the threads. `store` is the one of this process, which the
    /// embedded backend needs; `clock` gives its time. A remote backend is reached with the first request, and
    /// need not be up yet.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        mut config: RlsConfig,
        store: Option<Handle>,
        clock: fn() -> Timestamp,
    ) -> Result<Self, StartError> {
        config.name_counters();
        let before = Before::of(&config.rules_dir, config.rule_files);
        let rules = first_rules(&config)?;
        let rules = Arc::new(rules.with_modes(config.modes.clone()));
        let watch = Watch::new(&config, before, rules.clone());
        if let Some(store) = &store {
            watch.metrics().facts.tell_of(store.clone());
        }
        let make_backend = backend_maker(&config, store, clock, &watch.metrics())?;
        let tls = PortsTls::new(&config)?;
        let ports = Listening::on(&config)?;
        let (stop, stopped) = watch::channel(false);
        let (health, metrics) = (watch.health(), watch.metrics());
        let mut server = Self::idle(&config, &ports, &rules, health.clone(), stop);
        let fallbacks = Fallbacks::new(clock);
        let local_cache = local_cache(&config, clock, &metrics);
        let makes = |index: usize| {
            let (fallbacks, local_cache) = (fallbacks.clone(), local_cache.clone());
            let age = config.connection_age;
            let (rules, counters, make_backend, health, headers) = (
                watch.subscribe(),
                metrics.clone(),
                make_backend.clone(),
                health.clone(),
                config.http_headers.clone(),
            );
            move |shed| {
                let backing = Backing {
                    backend: make_backend(),
                    local_cache,
                    fallbacks,
                };
                let counters = counters.of_thread(index);
                let service = Service::new(rules, counters, backing, health, headers, shed);
                service.with_connection_age(age)
            }
        };
        let threads = config.runtime_threads();
        let mut lanes = Vec::new();
        for index in 0..threads {
            let (lane, arrivals) = mpsc::channel(HANDOVER_QUEUE);
            lanes.push(lane);
            let (make, tls, stopped) = (makes(index), tls.clone(), stopped.clone());
            let (shed_after, monotonic, log) = (config.shed_after, config.monotonic, config.log);
            server.spawn(format!("rls-{index}"), move || async move {
                let shed = Shed::new(shed_after, monotonic);
                let lane = Lane::new(make(shed.clone()), shed, tls, log);
                take_arrivals(arrivals, lane, stopped).await;
            })?;
        }
        let places = metrics.facts.connections(MAX_CONNECTIONS);
        let mut listeners = ports.listeners;
        let makes = (threads..threads + config.loop_threads()).map(|index| {
            let make = makes(index);
            Box::new(move || make(None)) as MakeService
        });
        server.start_loops(&config, &mut listeners, &places, makes.collect())?;
        server.spawn_beside(&config, &tls, make_backend, metrics, &stopped)?;
        let told = stopped.clone();
        server.spawn("rls-rules".to_owned(), move || watch.run(told))?;
        server.spawn("rls-accept".to_owned(), move || {
            accept_all(listeners, lanes, places, stopped)
        })?;
        Ok(server)
    }

    /// A service of which nothing runs yet.
    fn idle(
        config: &RlsConfig,
        ports: &Listening,
        rules: &Ruleset,
        health: Health,
        stop: watch::Sender<bool>,
    ) -> Self {
        Self {
            health,
            log: config.log,
            grpc_addr: ports.grpc_addr,
            http_addr: ports.http_addr,
            debug_addr: ports.debug_addr,
            prometheus_addr: ports.prometheus_addr,
            domains: rules.domain_count(),
            limits: rules.limit_count(),
            stop,
            threads: Vec::new(),
            loops: None,
        }
    }

    /// Has the ports without TLS served by event loops, whose services `makes` makes, if there are any.
    fn start_loops(
        &mut self,
        config: &RlsConfig,
        listeners: &mut Vec<(StdListener, Speaks)>,
        places: &Arc<AtomicUsize>,
        makes: Vec<MakeService>,
    ) -> Result<(), StartError> {
        if makes.is_empty() {
            return Ok(());
        }
        let mut ports = LoopPorts::default();
        let mut others = Vec::new();
        for (listener, speaks) in listeners.drain(..) {
            match speaks {
                Speaks::Grpc if config.has_grpc_loops() => ports.grpc = Some(listener),
                Speaks::Http(Port::Service) if config.has_http_loops() => {
                    ports.http = Some(listener);
                }
                speaks => others.push((listener, speaks)),
            }
        }
        *listeners = others;
        let options = LoopOptions {
            io: config.io,
            places: places.clone(),
            shed_after: config.shed_after,
            monotonic: config.monotonic,
        };
        let loops = Loops::start(ports, makes, options);
        self.loops = Some(loops.map_err(StartError::Thread)?);
        Ok(())
    }

    /// Starts what runs beside the threads that serve: certificates, health of the store, statsd.
    fn spawn_beside(
        &mut self,
        config: &RlsConfig,
        tls: &PortsTls,
        make_backend: MakeBackend,
        metrics: Arc<Metrics>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<(), StartError> {
        let log = config.log;
        for (name, tls) in [("rls-grpc-tls", &tls.grpc), ("rls-http-tls", &tls.http)] {
            if let Some(tls) = tls.clone() {
                let told = stopped.clone();
                self.spawn(name.to_owned(), move || tls.follow(log, told))?;
            }
        }
        if config.backend != Backend::Embedded {
            let (health, told) = (self.health.clone(), stopped.clone());
            self.spawn("rls-health".to_owned(), move || async move {
                health.probe(make_backend(), log, told).await;
            })?;
        }
        if let Some(statsd) = config.statsd.clone() {
            let told = stopped.clone();
            self.spawn("rls-statsd".to_owned(), move || {
                send_forever(metrics, statsd, log, told)
            })?;
        }
        Ok(())
    }

    /// Where gRPC listens.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Where HTTP listens.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Where the debug port listens.
    pub fn debug_addr(&self) -> Option<SocketAddr> {
        self.debug_addr
    }

    /// Where the port for Prometheus listens.
    pub fn prometheus_addr(&self) -> Option<SocketAddr> {
        self.prometheus_addr
    }

    /// How many domains and limits the rules had at the start.
    pub fn rule_counts(&self) -> (usize, usize) {
        (self.domains, self.limits)
    }

    /// Takes no more connections and ends those that are idle; requests under way are still answered.
    pub fn shutdown(&self) {
        // Whoever follows the health hears it before connections end.
        self.health.stop();
        self.stop.send_replace(true);
        if let Some(loops) = &self.loops {
            loops.stop();
        }
    }

    /// Waits until the service has ended after [`shutdown`](Self::shutdown).
    pub fn wait(mut self) {
        self.join();
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        if let Some(loops) = self.loops.take()
            && let Err(error) = loops.end(SHUTDOWN_GRACE)
        {
            (self.log)(&format!("an event loop of the service failed: {error}"));
        }
    }

    /// Starts a thread with its own runtime.
    fn spawn<F, W>(&mut self, name: String, work: W) -> Result<(), StartError>
    where
        F: Future<Output = ()>,
        W: FnOnce() -> F + Send + 'static,
    {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let body = move || runtime.block_on(LocalSet::new().run_until(async move { work().await }));
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(body)
            .map_err(StartError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for RlsServer {
    fn drop(&mut self) {
        self.shutdown();
        if !std::thread::panicking() {
            self.join();
        }
    }
}

fn listen(what: &'static str, addr: SocketAddr) -> Result<StdListener, StartError> {
    let bound = StdListener::bind(addr).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| StartError::Listen { what, addr, error })
}

fn local(listener: &StdListener, addr: SocketAddr) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|error| StartError::Listen {
        what: "a service",
        addr,
        error,
    })
}

/// Accepts on all listeners and deals the connections out to the threads in turn.
async fn accept_all(
    listeners: Vec<(StdListener, Speaks)>,
    lanes: Vec<mpsc::Sender<Arrival>>,
    count: Arc<AtomicUsize>,
    mut stopped: watch::Receiver<bool>,
) {
    let turn = Cell::new(0);
    let accepting = listeners.into_iter().map(|(listener, speaks)| {
        let Ok(listener) = TcpListener::from_std(listener) else {
            // The listeners were made non-blocking, so only a runtime without its reactor could refuse them.
            unreachable!("the runtime has its reactor");
        };
        accept(listener, speaks, &lanes, &count, &turn)
    });
    let accepting = futures_util::future::join_all(accepting);
    tokio::select! {
        _ = accepting => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

/// Accepts on one listener, as long as there are threads to serve.
async fn accept(
    listener: TcpListener,
    speaks: Speaks,
    lanes: &[mpsc::Sender<Arrival>],
    count: &Arc<AtomicUsize>,
    turn: &Cell<usize>,
) {
    loop {
        let stream = listener.accept().await.and_then(|(stream, _)| {
            stream.set_nodelay(true)?;
            stream.into_std()
        });
        match (stream, Place::take(count)) {
            (Ok(stream), Some(place)) => {
                turn.set(turn.get().wrapping_add(1));
                let arrival = Arrival {
                    stream,
                    speaks: speaks.clone(),
                    place,
                };
                if lanes[turn.get() % lanes.len()].send(arrival).await.is_err() {
                    return;
                }
            }
            (Ok(_), None) => {}
            (Err(_), _) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// What the connections of one thread share.
struct Lane {
    service: Rc<Service>,
    http: Rc<http::Shared>,
    shed: Option<Rc<Shed>>,
    tls: PortsTls,
    log: fn(&str),
    refusals: Refusals,
}

impl Lane {
    /// Called on the thread that serves.
    fn new(service: Service, shed: Option<Rc<Shed>>, tls: PortsTls, log: fn(&str)) -> Rc<Self> {
        if let Some(shed) = &shed {
            // It ends with the thread's runtime.
            drop(tokio::task::spawn_local(shed.clone().tend()));
        }
        let service = Rc::new(service);
        Rc::new(Self {
            http: http::Shared::new(service.clone()),
            service,
            shed,
            tls,
            log,
            refusals: Refusals::default(),
        })
    }

    async fn serve(&self, stream: TcpStream, speaks: Speaks, stop: watch::Receiver<bool>) {
        let tls = match speaks {
            Speaks::Grpc => &self.tls.grpc,
            Speaks::Http(Port::Service) => &self.tls.http,
            Speaks::Http(_) => &None,
        };
        let Some(tls) = tls else {
            return self.speak(stream, speaks, stop).await;
        };
        let peer = stream.peer_addr().ok();
        match tls.accept(stream).await {
            Ok(stream) => self.speak(stream, speaks, stop).await,
            Err(reason) => self.refusals.tell(self.log, peer, &reason),
        }
    }

    async fn speak<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: IO,
        speaks: Speaks,
        stop: watch::Receiver<bool>,
    ) {
        match speaks {
            Speaks::Grpc => grpc::serve(stream, self.service.clone(), stop).await,
            Speaks::Http(port) => http::serve(stream, self.http.clone(), port, stop).await,
        }
    }
}

/// One thread: serves the connections it is given, until told to stop.
async fn take_arrivals(
    mut arrivals: mpsc::Receiver<Arrival>,
    lane: Rc<Lane>,
    mut stopped: watch::Receiver<bool>,
) {
    let stop = stopped.clone();
    let mut connections = tokio::task::JoinSet::new();
    let service = lane.service.clone();
    let mut tended = Box::pin(service.tend());
    loop {
        tokio::select! {
            () = &mut tended => {}
            arrival = arrivals.recv() => {
                let Some(Arrival { stream, speaks, place }) = arrival else { break };
                let Ok(stream) = TcpStream::from_std(stream) else { continue };
                let (lane, stop) = (lane.clone(), stop.clone());
                connections.spawn_local(async move {
                    let is_wide = matches!(speaks, Speaks::Grpc);
                    let served = lane.serve(stream, speaks, stop);
                    match &lane.shed {
                        Some(shed) if is_wide => Timed::wide(served, shed.clone()).await,
                        Some(shed) => Timed::new(served, shed.clone()).await,
                        None => served.await,
                    }
                    drop(place);
                });
            }
            Some(_) = connections.join_next() => {}
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    let all_ended = async { while connections.join_next().await.is_some() {} };
    // Connections that outlast the grace are dropped with the runtime.
    drop(tokio::time::timeout(SHUTDOWN_GRACE, all_ended).await);
    // What it was writing is written below.
    drop(tended);
    let lost = service.settle().await;
    if lost > 0 {
        (lane.log)(&format!(
            "{lost} admitted units could not be written to the backend"
        ));
    }
}
