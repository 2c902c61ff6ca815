//! Starting, describing and ending a server.

use crate::aof::{self, Aof};
use crate::client::{Clients, Delivery, Signal};
use crate::cluster::{self, ClusterNode};
use crate::config::{Config, Key, Live};
use crate::conn::RespDriver;
use crate::ending::{self, Ending};
use crate::eviction::Budget;
use crate::failover::Failover;
use crate::link::Link;
use crate::listening::{self, Listening};
use crate::loading::{self, Loading};
use crate::log::Log;
use crate::memcached::Memcached;
use crate::metrics::Metrics;
use crate::node::{auth, replicaof};
use crate::oom_score::OomScore;
use crate::shared::Shared;
use crate::snapshot::{LoadAs, SnapshotState, place_to_keep};
use crate::tls;
use crate::workers::{WORKERS_MAX, Workers};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use tollgate_engine::{Engine, EngineConfig, Handle, REDIS_VERSION};
use tollgate_limiter::Timestamp;
use tollgate_net::process::SmallPages;
use tollgate_net::signal::Signals;
use tollgate_net::tls::{TlsAcceptor, TlsDriver};
use tollgate_net::{
    Backend, Clock, GroupOptions, ListenError, Listener, LoopGroup, LoopGroupBuilder, PeerAddress,
    process, threads,
};
use tollgate_wire::resp::Limits;

/// How long an ending server waits for clients to take their replies, in nanoseconds.
const GRACE: i64 = 2_000_000_000;
/// Descriptors that are not clients: listeners, poll sets, wakers, files, the service's sockets.
const OTHER_DESCRIPTORS: u64 = 128;

/// Why a server did not start; one line.
#[derive(Debug)]
pub enum StartError {
    /// A socket could not be opened.
    Listen(ListenError),
    /// The snapshot or the append-only file could not be loaded.
    Load(String),
    /// Settings or users that cannot be taken over.
    Config(String),
    /// The system refused something.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(error) if error.source.kind() == io::ErrorKind::AddrInUse => {
                let port = error.address.rsplit_once(':').map_or("", |(_, port)| port);
                write!(
                    f,
                    "Failed listening on port {port} (TCP), aborting: {error}; the store takes another one with --port, or \
                     a free one with --port 0"
                )
            }
            StartError::Listen(error) => error.fmt(f),
            StartError::Load(error) | StartError::Config(error) => f.write_str(error),
            StartError::System(error) => write!(f, "the server could not start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<ListenError> for StartError {
    fn from(error: ListenError) -> StartError {
        StartError::Listen(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::System(error)
    }
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    group: LoopGroup<Signal>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses())
            .finish()
    }
}

impl Server {
    /// Starts a server; `signals` wakes [`Server::wait`].
    pub fn start(config: Config, signals: Signals, log: Arc<Log>) -> Result<Server, StartError> {
        let Listening {
            listeners,
            tls,
            absent,
        } = listening::listen(&config)?;
        tell_start(&log, &config, tls.as_ref());
        for error in absent {
            log.warning(format_args!("Warning: {error}"));
        }
        let limits = request_limits(&config);
        let engine = make_engine(&config, limits, &log)?;
        let threads = match config.number(Key::Threads) as usize {
            0 => threads::available_cpus(),
            threads => threads,
        };
        let together = config.number(Key::ConnectionsTogether) as usize;
        let builder = LoopGroupBuilder::new(threads, wanted_backend(&config))?;
        let users = config.users().to_vec();
        let memcached = Memcached::new(config.number(Key::MemcachedMaxItemSize) as usize, threads);
        let settings = Live::new(config);
        let client_bytes = Arc::clone(engine.client_bytes());
        let shared = Arc::new(Shared {
            engine,
            clients: Clients::new(Delivery {
                mailboxes: Arc::clone(builder.mailboxes()),
                limits: Arc::clone(settings.output_limits()),
                log: Arc::clone(&log),
                budget: Budget::new(&client_bytes),
                to_replicas: AtomicU64::new(0),
            }),
            settings,
            metrics: Metrics::new(threads),
            memcached,
            snapshot: SnapshotState::new(Clock::now()),
            loading: Loading::default(),
            failover: Failover::default(),
            link: Link::default(),
            judging: Mutex::default(),
            ending: Ending::default(),
            oom_score: OomScore::default(),
            aof: Aof::new(),
            log,
            cluster: ClusterNode::default(),
            workers: Workers::new(WORKERS_MAX),
            mailboxes: Arc::clone(builder.mailboxes()),
            signals: Arc::new(signals),
            listeners: Arc::clone(builder.listeners()),
            tls: Arc::new(tls.map_or_else(OnceLock::new, OnceLock::from)),
            threads,
            backend: builder.backend(),
            started: Clock::monotone(),
            run_id: process::random_id()?,
            active_expire: AtomicBool::new(true),
            housekeeping: AtomicBool::new(true),
            memory_peak: AtomicU64::new(0),
        });
        shared.take_settings(listeners, &users)?;
        // What is loaded depends on the role; the master is connected to when it is there.
        shared.link.hold(true);
        replicaof::follow_at_start(&shared).map_err(StartError::Config)?;
        let begun = begin(&shared, || start_loops(&shared, builder, limits, together));
        let group = begun.inspect_err(|_| shared.link.stop())?;
        shared.link.hold(false);
        let server = Server { shared, group };
        tell_ready(&server.shared);
        Ok(server)
    }

    /// Where the server listens.
    pub fn addresses(&self) -> Vec<PeerAddress> {
        let open = self.shared.listeners.addresses().into_iter();
        open.map(|(address, _)| address).collect()
    }

    /// Threads that serve clients.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// The store, for a service in the same process.
    pub fn engine_handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared.engine))
    }

    /// For ending the server from another thread: [`Signals::notify`] makes `wait` return.
    pub fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.shared.signals)
    }

    /// Waits for SIGTERM, SIGINT, SHUTDOWN or a notification, and for replicas as `shutdown-timeout` says. Returns when the
    /// server is to end; one that cannot, since its snapshot cannot be written, goes on.
    pub fn wait(&self) -> io::Result<()> {
        ending::wait(&self.shared)
    }

    /// What systemd is told when the server is ready.
    pub fn status(&self) -> &'static str {
        match self.shared.engine.is_replica() {
            false => "Ready to accept connections",
            true => {
                "Ready to accept connections in read-only mode. Waiting for MASTER <-> REPLICA sync"
            }
        }
    }

    /// The lines in which redis-server says on its standard output that it is ready; tools that start one wait for them.
    pub fn announcement(&self) -> String {
        let mut text = String::new();
        for (address, _) in self.shared.listeners.addresses() {
            if let PeerAddress::Unix(path) = address {
                let at = format!("The server is now ready to accept connections at {path}");
                self.shared.log.append_notice(&at, &mut text);
            }
        }
        self.shared.log.append_notice(self.status(), &mut text);
        text
    }

    /// Ends the server: no new connections, what has arrived is answered, replies are sent as far as the clients take
    /// them within a bounded time. Then the snapshot is written, if SHUTDOWN SAVE asked for it, or there are save points.
    pub fn shutdown(self) -> io::Result<()> {
        self.shared.engine.stop_scripts();
        aof::stop_rewriting(&self.shared);
        self.shared.engine.refuse_snapshots(true);
        self.shared.link.stop();
        self.group.stop(GRACE);
        let ended = self.group.join();
        self.shared.workers.stop();
        self.shared.engine.refuse_snapshots(false);
        if self.shared.aof.is_on() {
            self.shared
                .log
                .notice(format_args!("Calling fsync() on the AOF file."));
        }
        aof::shut_down(&self.shared);
        // What there is of data that were not loaded to the end must not replace the snapshot.
        let is_whole = !self.shared.engine.has_lost_data();
        let changes = self.shared.engine.changes();
        let usual = self.shared.settings.saves_at_end();
        let place = place_to_keep(&self.shared);
        if is_whole && self.shared.snapshot.is_due_at_end(changes, place, usual) {
            let now = Timestamp::from_nanos(Clock::now());
            self.shared
                .snapshot
                .save(&self.shared, now)
                .map_err(io::Error::other)?;
        }
        ended
    }
}

impl Shared {
    /// Takes over the sockets and the settings, before anybody is served.
    fn take_settings(
        self: &Arc<Self>,
        listeners: Vec<Listener>,
        users: &[Vec<Vec<u8>>],
    ) -> Result<(), StartError> {
        self.engine.name_history(&self.run_id);
        for listener in listeners {
            self.listeners.open(listener)?;
        }
        self.correct_settings()?;
        self.settings.configure(&self.engine);
        self.apply_start(users).map_err(StartError::Config)?;
        cluster::start(self).map_err(StartError::Config)?;
        show_logo(self);
        Ok(())
    }

    /// Replaces settings by what the system granted: the port it chose, the threads, the descriptors it allows.
    fn correct_settings(&self) -> io::Result<()> {
        let open = self.listeners.addresses();
        let port = open.iter().find_map(|(address, kind)| match address {
            PeerAddress::Tcp(address) if *kind == listening::PLAIN => Some(address.port()),
            _ => None,
        });
        if let Some(port) = port {
            self.settings.grant(Key::Port, &port.to_string());
        }
        self.settings.grant(Key::Threads, &self.threads.to_string());
        let wanted = self.settings.max_clients() as u64;
        let (granted, most) = clients_granted(wanted)?;
        if most < wanted {
            self.log.warning(format_args!(
                "Current maximum open files is {granted}. maxclients has been reduced to {most} to compensate for low \
                 ulimit. If you need higher maxclients increase 'ulimit -n'."
            ));
        }
        self.settings.grant(Key::MaxClients, &most.to_string());
        Ok(())
    }
}

/// The descriptors that the system grants for `wanted` clients, and how many clients these are enough for.
pub(crate) fn clients_granted(wanted: u64) -> io::Result<(u64, u64)> {
    let granted = process::raise_open_files(wanted.saturating_add(OTHER_DESCRIPTORS))?;
    let most = wanted.min(granted.saturating_sub(OTHER_DESCRIPTORS).max(1));
    Ok((granted, most))
}

/// The first lines of a server that has its addresses.
fn tell_start(log: &Log, config: &Config, tls: Option<&TlsAcceptor>) {
    log.warning(format_args!(
        "Tollgate version={}, bits={}, pid={}, just started",
        env!("CARGO_PKG_VERSION"),
        usize::BITS,
        std::process::id()
    ));
    match config.file() {
        Some(file) => log.warning(format_args!("Configuration loaded from {}", file.display())),
        None => log.warning(format_args!(
            "Warning: no config file specified, using the default config. In order to specify a config file use \
             tollgate serve --config FILE"
        )),
    }
    if let Some(acceptor) = tls {
        tls::warn_of_expiry(acceptor, config.get(Key::TlsCertFile), log);
    }
}

/// Loads the data and starts the loops: these first when there is so much to load that clients should hear of it.
fn begin(
    shared: &Arc<Shared>,
    start: impl FnOnce() -> io::Result<LoopGroup<Signal>>,
) -> Result<LoopGroup<Signal>, StartError> {
    let load = || SmallPages::lift(|| load(shared));
    let Some(bytes) = loading::bytes_ahead(shared) else {
        load()?;
        return Ok(start()?);
    };
    shared.engine.refuse_while_loading(true);
    shared.loading.begin(shared.now().secs(), bytes);
    let group = start()?;
    let loaded = load();
    shared.loading.end();
    shared.engine.refuse_while_loading(false);
    match loaded {
        Ok(()) => Ok(group),
        Err(error) => {
            group.stop(0);
            group.join()?;
            Err(error)
        }
    }
}

/// What stands beside Redis' picture.
fn show_logo(shared: &Shared) {
    if shared.settings.is_set(Key::AlwaysShowLogo) {
        shared.log.notice(format_args!(
            "Tollgate {} ({REDIS_VERSION}) {} bit, {} mode, Port: {}, PID: {}",
            env!("CARGO_PKG_VERSION"),
            usize::BITS,
            auth::mode(&shared.engine),
            shared.settings.get(Key::Port),
            std::process::id()
        ));
    }
}

/// The event loops, one a thread.
fn start_loops(
    shared: &Arc<Shared>,
    builder: LoopGroupBuilder<Signal>,
    limits: Limits,
    together: usize,
) -> io::Result<LoopGroup<Signal>> {
    let drivers = (0..shared.threads)
        .map(|thread| {
            let driver = RespDriver::new(Arc::clone(shared), thread, limits);
            TlsDriver::new(driver, listening::TLS, Arc::clone(&shared.tls))
        })
        .collect();
    let options = GroupOptions {
        name: "tollgate-io",
        cpus: Vec::new(),
        together,
    };
    builder.start(drivers, Vec::new(), &options)
}

/// The last lines of the start.
fn tell_ready(shared: &Shared) {
    let log = &shared.log;
    let noun = if shared.threads == 1 {
        "thread"
    } else {
        "threads"
    };
    log.notice(format_args!(
        "Running mode={}, port={}, {} {noun} on {}.",
        auth::mode(&shared.engine),
        shared.settings.get(Key::Port),
        shared.threads,
        shared.backend
    ));
    log.warning(format_args!("Server initialized"));
    for (address, _) in shared.listeners.addresses() {
        match address {
            PeerAddress::Tcp(address) => log.notice(format_args!("Listening on {address}")),
            PeerAddress::Unix(path) => log.notice(format_args!(
                "The server is now ready to accept connections at {path}"
            )),
        }
    }
    log.notice(format_args!("Ready to accept connections"));
}

/// Loads what was there before: the append-only file, or the snapshot if there is none.
fn load(shared: &Arc<Shared>) -> Result<(), StartError> {
    if shared.settings.load_snapshot && !shared.settings.is_set(Key::AppendOnly) {
        let loaded = shared.snapshot.load(shared, shared.now(), LoadAs::Start);
        loaded.map_err(StartError::Load)?;
    }
    aof::start(shared).map_err(StartError::Load)
}

/// The bounds of one request.
fn request_limits(config: &Config) -> Limits {
    let size = |key| usize::try_from(config.number(key)).unwrap_or(usize::MAX);
    Limits {
        max_bulk_len: size(Key::ProtoMaxBulkLen),
        max_request: size(Key::ClientQueryBufferLimit),
        ..Limits::authenticated()
    }
}

/// An empty store as the settings want it.
fn make_engine(config: &Config, limits: Limits, log: &Arc<Log>) -> io::Result<Arc<Engine>> {
    let engine = Engine::new(EngineConfig {
        shards: config.number(Key::Shards) as usize,
        seed: u64::from_le_bytes(process::random()?),
        max_bulk_len: limits.max_bulk_len,
    });
    engine.set_names(config.names().clone());
    let log = Arc::clone(log);
    engine.on_script_log(move |level, text| log.script_line(level, text));
    Ok(engine)
}

/// What event loops are to run on.
pub fn wanted_backend(config: &Config) -> Backend {
    match config.get(Key::IoBackend) {
        "epoll" => Backend::Epoll,
        "io_uring" => Backend::IoUring,
        _ => Backend::Auto,
    }
}
