//! The threads of the service, and the way down.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

use tokio::runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tollgate_engine::Handle;
use tollgate_limiter::Timestamp;
use tollgate_net::{Listener, PeerAddress};
use tollgate_policy::Ruleset;

use crate::backend::{AnyBackend, Embedded, HotKeys, LocalCache, Places, Stores, Strategies};
use crate::config::{Backend, RlsConfig, StartError};
use crate::fallback::Fallbacks;
use crate::health::Health;
use crate::http::Port;
use crate::in_force::InForce;
use crate::lane::{Lane, PortsTls, SHUTDOWN_GRACE};
use crate::listening::{
    Accepts, Addresses, Arrival, Listening, MAX_CONNECTIONS, Speaks, accept_all, tcp,
};
use crate::log::{LogLevel, LogLine};
use crate::loops::{LoopOptions, LoopPorts, Loops, MakeService};
use crate::metrics::Metrics;
use crate::metrics::send_forever;
use crate::reload::{Before, Folder};
use crate::rules::load_files;
use crate::service::{Backing, Service};
use crate::shed::{LATE_DIVISOR, Shed};
use crate::traces::{Exporter, Queue, Tracer};
use crate::xds::XdsClient;

/// Connections that may wait for a thread to take them.
const HANDOVER_QUEUE: usize = 1_024;

/// The running service.
#[derive(Debug)]
pub struct RlsServer {
    addresses: Addresses,
    health: Health,
    log: LogLine,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    loops: Option<Loops>,
    /// What sends spans, which ends when there are no more.
    traces: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}

/// Makes the backend of one thread, on that thread.
type MakeBackend = Arc<dyn Fn() -> AnyBackend + Send + Sync>;

/// Where the rules come from.
enum Source {
    Folder(Before),
    Xds(Box<XdsClient>),
}

impl Source {
    /// As it is before the first rules are read.
    fn of(config: &RlsConfig) -> Result<Self, StartError> {
        Ok(match &config.xds {
            None => Self::Folder(Before::of(&config.rules_dir, config.rule_files)),
            Some(xds) => Self::Xds(Box::new(XdsClient::new(xds)?)),
        })
    }
}

/// The rules to begin with: none, if the service may wait for them.
fn first_rules(config: &RlsConfig) -> Result<Ruleset, StartError> {
    if config.xds.is_some() {
        return Ok(Ruleset::default());
    }
    match load_files(&config.rules_dir, config.rule_files, config.load_options()) {
        Err(error) if config.start_without_rules => {
            (config.log)(LogLevel::Warning, &format!("waiting for rules: {error}"));
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
            if config.store.wait_replicas > 0 {
                return Err(StartError::NeedsBackend("--backend-wait-replicas"));
            }
            let store = store.ok_or(StartError::NoStore)?;
            let patience = config.shed_after / LATE_DIVISOR;
            let monotonic = config.monotonic;
            Arc::new(move || {
                let embedded = Embedded::new(store.clone(), clock);
                AnyBackend::Embedded(embedded.with_patience(patience, monotonic))
            })
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

/// The cache of limits that are over, if one is asked for, of which metrics tell. The store of this process is as near as
/// any memory of what it said.
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
        let source = Source::of(&config)?;
        let rules = first_rules(&config)?;
        let rules = Arc::new(rules.with_modes(config.modes.clone()));
        let in_force = InForce::new(&config, rules);
        if let Some(store) = &store {
            in_force.metrics().facts.tell_of(store.clone());
        }
        let make_backend = backend_maker(&config, store, clock, &in_force.metrics())?;
        let tls = PortsTls::new(&config)?;
        in_force.metrics().facts.tell_of_certificates(tls.named());
        let ports = Listening::on(&config)?;
        let (stop, stopped) = watch::channel(false);
        let (health, metrics) = (in_force.health(), in_force.metrics());
        let mut server = Self::idle(&config, &ports, health.clone(), stop);
        let traces = server.start_traces(&config, &metrics)?;
        let fallbacks = Fallbacks::new(clock);
        let local_cache = local_cache(&config, clock, &metrics);
        let makes = |index: usize| {
            let (fallbacks, local_cache) = (fallbacks.clone(), local_cache.clone());
            let (age, traces) = (config.connection_age, traces.clone());
            let (rules, counters, make_backend, health, headers) = (
                in_force.subscribe(),
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
                let tracer = traces.map(|(queue, share)| Tracer::new(queue, share));
                service.with_connection_age(age).with_tracer(tracer)
            }
        };
        let (threads, mut lanes) = (config.runtime_threads(), Vec::new());
        for index in 0..threads {
            lanes.push(server.start_lane(&config, index, makes(index), &tls, &stopped)?);
        }
        let places = metrics.facts.connections(MAX_CONNECTIONS);
        let mut listeners = ports.listeners;
        let makes = (threads..threads + config.loop_threads()).map(|index| {
            let make = makes(index);
            Box::new(move || make(None)) as MakeService
        });
        server.start_loops(&config, &mut listeners, &places, makes.collect())?;
        server.spawn_beside(&config, &tls, (make_backend, fallbacks), metrics, &stopped)?;
        server.follow_rules(&config, source, in_force, stopped.clone())?;
        let accepts = Accepts::all(listeners).map_err(StartError::Thread)?;
        server.spawn("rls-accept".to_owned(), move || {
            accept_all(accepts, lanes, places, stopped)
        })?;
        Ok(server)
    }

    /// A service of which nothing runs yet.
    fn idle(
        config: &RlsConfig,
        ports: &Listening,
        health: Health,
        stop: watch::Sender<bool>,
    ) -> Self {
        Self {
            health,
            log: config.log,
            addresses: ports.addresses.clone(),
            stop,
            threads: Vec::new(),
            loops: None,
            traces: None,
        }
    }

    /// Starts what sends spans, if they are sent; where they are put, and of which share of calls.
    fn start_traces(
        &mut self,
        config: &RlsConfig,
        metrics: &Metrics,
    ) -> Result<Option<(Arc<Queue>, f64)>, StartError> {
        let Some(traces) = config.traces.clone() else {
            return Ok(None);
        };
        let queue = Arc::new(Queue::new(traces.queue, traces.batch));
        let share = traces.sampling;
        metrics.facts.tell_of_traces(queue.clone());
        let (stop, stopped) = watch::channel(false);
        let exporter = Exporter::new(traces, queue.clone(), config.log);
        let exporter = exporter.map_err(StartError::Traces)?;
        self.spawn("rls-traces".to_owned(), move || exporter.run(stopped))?;
        self.traces = self.threads.pop().map(|thread| (stop, thread));
        Ok(Some((queue, share)))
    }

    /// Starts a thread with a runtime, whose service `make` makes; it serves the connections that are sent to it.
    fn start_lane(
        &mut self,
        config: &RlsConfig,
        index: usize,
        make: impl FnOnce(Option<Rc<Shed>>) -> Service + Send + 'static,
        tls: &PortsTls,
        stopped: &watch::Receiver<bool>,
    ) -> Result<mpsc::Sender<Arrival>, StartError> {
        let (lane, arrivals) = mpsc::channel(HANDOVER_QUEUE);
        let (tls, stopped) = (tls.clone(), stopped.clone());
        let (shed_after, monotonic, log) = (config.shed_after, config.monotonic, config.log);
        self.spawn(format!("rls-{index}"), move || async move {
            let shed = Shed::new(shed_after, monotonic);
            let lane = Lane::new(make(shed.clone()), shed, tls, log);
            lane.take_arrivals(arrivals, stopped).await;
        })?;
        Ok(lane)
    }

    /// Has the ports without TLS served by event loops, whose services `makes` makes, if there are any.
    fn start_loops(
        &mut self,
        config: &RlsConfig,
        listeners: &mut Vec<(Listener, Speaks)>,
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

    /// Takes up new rules from now on.
    fn follow_rules(
        &mut self,
        config: &RlsConfig,
        source: Source,
        rules: InForce,
        stopped: watch::Receiver<bool>,
    ) -> Result<(), StartError> {
        let name = "rls-rules".to_owned();
        match source {
            Source::Folder(before) => {
                let folder = Folder::new(config, before, rules);
                self.spawn(name, move || folder.follow(stopped))
            }
            Source::Xds(client) => {
                let options = config.load_options();
                self.spawn(name, move || client.follow(rules, options, stopped))
            }
        }
    }

    /// Starts what runs beside the threads that serve: certificates, health of the store, statsd.
    fn spawn_beside(
        &mut self,
        config: &RlsConfig,
        tls: &PortsTls,
        (make_backend, fallbacks): (MakeBackend, Fallbacks),
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
        let (health, told) = (self.health.clone(), stopped.clone());
        self.spawn("rls-health".to_owned(), move || async move {
            health.probe(make_backend(), fallbacks, log, told).await;
        })?;
        if let Some(statsd) = config.statsd.clone() {
            let told = stopped.clone();
            self.spawn("rls-statsd".to_owned(), move || {
                send_forever(metrics, statsd, log, told)
            })?;
        }
        Ok(())
    }

    /// Where gRPC listens on TCP; `None` where it listens on a unix socket.
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        tcp(&self.addresses.grpc)
    }

    /// The same of HTTP.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        tcp(&self.addresses.http)
    }

    /// Where the debug port listens.
    pub fn debug_addr(&self) -> Option<SocketAddr> {
        self.addresses.debug.as_ref().and_then(tcp)
    }

    /// Where the port for Prometheus listens.
    pub fn prometheus_addr(&self) -> Option<SocketAddr> {
        self.addresses.prometheus.as_ref().and_then(tcp)
    }

    /// All ports and where they listen, each as `grpc 127.0.0.1:8081` or `grpc /run/ratelimit.sock`.
    pub fn ports(&self) -> Vec<String> {
        let Addresses {
            grpc,
            http,
            debug,
            prometheus,
        } = &self.addresses;
        let all = [
            ("grpc", Some(grpc)),
            ("http", Some(http)),
            ("debug", debug.as_ref()),
            ("prometheus", prometheus.as_ref()),
        ];
        let told = all.into_iter().filter_map(|(name, address)| {
            Some(match address? {
                PeerAddress::Tcp(address) => format!("{name} {address}"),
                PeerAddress::Unix(path) => format!("{name} {path}"),
            })
        });
        told.collect()
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
            let line = format!("an event loop of the service failed: {error}");
            (self.log)(LogLevel::Error, &line);
        }
        if let Some((stop, thread)) = self.traces.take() {
            stop.send_replace(true);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
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
