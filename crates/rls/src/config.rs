//! How the service is started, and why it does not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tollgate_net::ListenError;
use tollgate_net::tls::{TlsClients, TlsFiles};
use tollgate_policy::{HeaderForm, LoadOptions, Modes, RuleError};

pub use crate::envoy_counters::EnvoyCounters;
pub use crate::grpc::ConnectionAge;
pub use crate::health::HealthNeeds;
use crate::log::LogLine;
pub use crate::rules::RuleFiles;
use crate::traces::TraceConfig;
pub use crate::xds::{XdsBackoff, XdsConfig, XdsTls};

/// Port of gRPC, as envoyproxy/ratelimit has it.
pub const DEFAULT_GRPC_PORT: u16 = 8081;
/// Port of HTTP, as envoyproxy/ratelimit has it.
pub const DEFAULT_HTTP_PORT: u16 = 8080;

/// Share of a limit above which its use counts as near it, as envoyproxy/ratelimit has it.
pub const DEFAULT_NEAR_LIMIT_RATIO: f32 = 0.8;

/// How long a request may wait before it is refused: what Envoy's rate limit filter waits for an answer.
pub const DEFAULT_SHED_AFTER: Duration = Duration::from_millis(20);

/// What the service needs to know.
#[derive(Clone, Debug)]
pub struct RlsConfig {
    /// Where gRPC listens; port 0 takes a free one.
    pub grpc_addr: SocketAddr,
    /// A unix socket that gRPC listens on, in the place of `grpc_addr`.
    pub grpc_socket: Option<PathBuf>,
    /// Where HTTP listens; port 0 takes a free one.
    pub http_addr: SocketAddr,
    /// A unix socket that HTTP listens on, in the place of `http_addr`.
    pub http_socket: Option<PathBuf>,
    /// Folder of the rules.
    pub rules_dir: PathBuf,
    /// Which of its files they are.
    pub rule_files: RuleFiles,
    /// A management server that gives the rules, in the place of the folder.
    pub xds: Option<XdsConfig>,
    /// What counts.
    pub backend: Backend,
    /// How a store elsewhere is connected to.
    pub store: StoreConfig,
    /// A store elsewhere for the limits per second alone.
    pub per_second: Option<PerSecondStore>,
    /// The store elsewhere holds the counters of envoyproxy/ratelimit, instead of our own.
    pub envoy_counters: Option<EnvoyCounters>,
    /// Bytes for denials by a store elsewhere, of which it is not asked again until they can be over; 0 remembers none.
    pub local_cache_bytes: usize,
    /// Modes of all rules.
    pub modes: Modes,
    /// Headers of the service's own HTTP interface, where a request does not choose.
    pub http_headers: HeaderForm,
    /// TLS on the gRPC port.
    pub grpc_tls: Option<TlsConfig>,
    /// TLS on the HTTP port.
    pub http_tls: Option<TlsConfig>,
    /// What the service must have to be healthy.
    pub health: HealthNeeds,
    /// How long connections of gRPC last; `None`: as long as their peers wish.
    pub connection_age: Option<ConnectionAge>,
    /// Files of one domain count together; otherwise a second one is an error.
    pub merge_domains: bool,
    /// Starts without valid rules, and waits for them. Where a management server gives them the service always waits, and
    /// is healthy meanwhile if this is so.
    pub start_without_rules: bool,
    /// Share of a limit above which its use counts as near it, 0 to 1.
    pub near_limit_ratio: f32,
    /// Where the debug port listens, if anywhere; port 0 takes a free one.
    pub debug_addr: Option<SocketAddr>,
    /// Where a port for Prometheus alone listens, and the path of its metrics.
    pub prometheus: Option<(SocketAddr, String)>,
    /// Where metrics are sent to.
    pub statsd: Option<StatsdConfig>,
    /// Where spans of calls are sent to.
    pub traces: Option<TraceConfig>,
    /// How long requests may wait that do not say; those that waited longer are refused. Zero refuses none.
    pub shed_after: Duration,
    /// The time that waits are measured with.
    pub monotonic: fn() -> Instant,
    /// Takes a line for each change of rules, and for what goes wrong.
    pub log: LogLine,
    /// Threads that serve connections; at least one. Where decisions are made in this process, as many beside them serve
    /// those.
    pub threads: usize,
    /// What the event loops run on that serve HTTP.
    pub io: tollgate_net::Backend,
}

/// How a store elsewhere is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Longest wait for a decision.
    pub timeout: Duration,
    /// Connections of each service thread; at least one.
    pub connections: usize,
    /// PEM file of the authority whose certificates are trusted; the system's otherwise. Read at the start.
    pub tls_authority: Option<PathBuf>,
    /// PEM file of the certificate to show.
    pub tls_certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub tls_key: Option<PathBuf>,
    /// The store's certificate may be for any name; it is verified otherwise.
    pub tls_any_name: bool,
    /// Password of the Sentinels, or `user:password`.
    pub sentinel_login: Option<String>,
    /// Replicas that must have what admits a request before it is answered
    /// ([WAIT](https://redis.io/docs/latest/commands/wait/)); not on a cluster.
    pub wait_replicas: u64,
}

/// A store for limits per second, which those of longer windows are kept out of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerSecondStore {
    /// As that of [`Backend::Remote`].
    pub url: String,
    /// How it is connected to.
    pub store: StoreConfig,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            connections: 1,
            tls_authority: None,
            tls_certificate: None,
            tls_key: None,
            tls_any_name: false,
            sentinel_login: None,
            wait_replicas: 0,
        }
    }
}

impl RlsConfig {
    /// What rules may say.
    pub(crate) fn load_options(&self) -> LoadOptions {
        LoadOptions {
            merge_domains: self.merge_domains,
            envoy_counters: self.envoy_counters.is_some(),
        }
    }

    /// Whether the port of gRPC is served on event loops: decisions are made in this process, and it has no TLS.
    pub(crate) fn has_grpc_loops(&self) -> bool {
        self.backend == Backend::Embedded && self.grpc_tls.is_none()
    }

    /// The same of HTTP's.
    pub(crate) fn has_http_loops(&self) -> bool {
        self.backend == Backend::Embedded && self.http_tls.is_none()
    }

    /// Event loops.
    pub(crate) fn loop_threads(&self) -> usize {
        match self.has_grpc_loops() || self.has_http_loops() {
            true => self.threads.max(1),
            false => 0,
        }
    }

    /// Threads with a runtime that serve the other ports. Beside both loops, one does for what is rarely asked.
    pub(crate) fn runtime_threads(&self) -> usize {
        match self.has_grpc_loops() && self.has_http_loops() {
            true => 1,
            false => self.threads.max(1),
        }
    }

    /// Threads that count requests.
    pub(crate) fn counting_threads(&self) -> usize {
        self.runtime_threads() + self.loop_threads()
    }

    /// Tells the modes of rules in whose names counters are kept.
    pub(crate) fn name_counters(&mut self) {
        let envoy = self.envoy_counters.as_ref();
        self.modes.envoy_keys = envoy.map(|envoy| (&*envoy.prefix).into());
    }
}

impl StoreConfig {
    /// Longest wait for a connection: longer than for an answer, because several go to and fro with TLS.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.timeout.max(Duration::from_secs(1))
    }
}

/// Longest wait for a decision where none is given. Envoy's own default is 20 ms; a later answer helps nobody.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// A statsd server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsdConfig {
    /// Host and port.
    pub addr: String,
    /// How it is spoken to.
    pub protocol: StatsdProtocol,
    /// It is a DogStatsD, which has tags.
    pub dog: bool,
    /// Tags of every metric.
    pub tags: Vec<(String, String)>,
    /// Time between two sendings.
    pub interval: Duration,
}

/// How a statsd server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsdProtocol {
    /// Over a connection, as envoyproxy/ratelimit does where it is not told otherwise.
    Tcp,
    /// In datagrams.
    Udp,
}

/// TLS of one port. Files that change are taken up while the service runs.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Certificate, key, and the authority of clients.
    pub files: TlsFiles,
    /// The name (DNS or IP) that a client's certificate must be for; any that the authority signed otherwise.
    pub client_name: Option<String>,
}

impl TlsConfig {
    /// With `authorities`, clients must show a certificate of theirs.
    pub fn new(certificate: PathBuf, key: PathBuf, authorities: Option<PathBuf>) -> Self {
        Self {
            files: TlsFiles {
                certificate,
                key,
                clients: match authorities {
                    Some(_) => TlsClients::Required,
                    None => TlsClients::Ignored,
                },
                authorities,
                authority_dir: None,
                protocols: String::new(),
            },
            client_name: None,
        }
    }
}

/// What counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The store in this process.
    Embedded,
    /// A store that speaks RESP, as `redis://[user[:password]@]host[:port][/db]`, `unix:///path`,
    /// `redis+sentinel://host[:port],host[:port]/master` or `redis+cluster://host[:port],host[:port]`; with `rediss` over TLS.
    Remote(String),
}

/// Why the service does not start.
#[derive(Debug)]
pub enum StartError {
    /// The folder or a file of rules cannot be read.
    ReadRules {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The folder holds no rule file.
    NoRules {
        /// The folder.
        path: PathBuf,
    },
    /// A rule file is not valid.
    Rules(RuleError),
    /// An address cannot be listened on.
    Listen {
        /// `gRPC` or `HTTP`.
        what: &'static str,
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A unix socket cannot be listened on.
    ListenUnix {
        /// `gRPC` or `HTTP`.
        what: &'static str,
        /// The path, and what the system said.
        error: ListenError,
    },
    /// The backend's URL is not one.
    BackendUrl {
        /// The URL, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The embedded backend was asked for and no store was given.
    NoStore,
    /// Something was asked for that needs a store elsewhere; the setting's name.
    NeedsBackend(&'static str),
    /// A certificate, key or authority cannot be used.
    Tls(String),
    /// The management server that gives the rules cannot be asked as it is described; why.
    Xds(String),
    /// Spans cannot be sent as it is described; why.
    Traces(String),
    /// A thread or its runtime cannot be made.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadRules { path, error } => {
                write!(f, "cannot read rules {}: {error}", path.display())
            }
            Self::NoRules { path } => {
                write!(f, "no rule files in {}", path.display())
            }
            Self::Rules(error) => write!(f, "{error}"),
            Self::Listen { what, addr, error } => {
                write!(f, "cannot listen on {addr} for {what}: {error}")
            }
            Self::ListenUnix { what, error } => write!(f, "{what}: {error}"),
            Self::BackendUrl { url, reason } => write!(f, "backend {url}: {reason}"),
            Self::NoStore => f.write_str("the embedded backend needs a store in this process"),
            Self::NeedsBackend(what) => {
                write!(f, "{what} needs a store elsewhere: give --backend as well")
            }
            Self::Tls(reason) => write!(f, "TLS: {reason}"),
            Self::Xds(reason) => write!(f, "xDS: {reason}"),
            Self::Traces(reason) => write!(f, "traces: {reason}"),
            Self::Thread(error) => write!(f, "cannot start a service thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
