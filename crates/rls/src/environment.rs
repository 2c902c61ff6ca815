//! The environment variables of envoyproxy/ratelimit: one row each, with what it does here.
//!
//! They take effect where `RUNTIME_ROOT` or `RUNTIME_SUBDIRECTORY` says where the rules are, which is how a deployment of
//! envoyproxy/ratelimit starts. Their names are those of many other programs (`HOST`, `PORT`), so that elsewhere they say
//! nothing, but for those of [`Modes`](tollgate_policy::Modes), which always count.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use tollgate_policy::truth;

use crate::config::{
    Backend, PerSecondStore, RlsConfig, RuleFiles, StatsdConfig, StatsdProtocol, StoreConfig,
    TlsConfig,
};
use crate::envoy_counters::{JITTER, PREFIX, STOP};

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its value where it is not given, as envoyproxy/ratelimit has it.
    pub default: &'static str,
    /// What it does here.
    pub effect: Effect,
}

/// What a variable does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It means the same here, or what the text says.
    Used(&'static str),
    /// It is accepted; a line of the log says why it does nothing.
    Ignored(&'static str),
}

const fn used(name: &'static str, default: &'static str, what: &'static str) -> Variable {
    Variable {
        name,
        default,
        effect: Effect::Used(what),
    }
}

const fn ignored(name: &'static str, default: &'static str, why: &'static str) -> Variable {
    Variable {
        name,
        default,
        effect: Effect::Ignored(why),
    }
}

const NO_XDS: &str = "rules come from files; CONFIG_TYPE=GRPC_XDS_SOTW is refused at the start";
const NO_MEMCACHED: &str = "memcached cannot decide; BACKEND_TYPE=memcache is refused at the start";
const NO_TRACING: &str = "there is no tracing";
const ALWAYS_POOLED: &str =
    "each thread's requests share its connections, whose commands go out together";
const LOG_IS_SHORT: &str = "the log has a line for each change, and no levels";

/// Every variable of envoyproxy/ratelimit, by group.
pub const VARIABLES: &[(&str, &[Variable])] = &[
    (
        "Listening",
        &[
            used("HOST", "0.0.0.0", "address of the HTTP port"),
            used("PORT", "8080", "HTTP port"),
            used("DEBUG_HOST", "0.0.0.0", "address of the debug port"),
            used("DEBUG_PORT", "6070", "debug port"),
            used("GRPC_HOST", "0.0.0.0", "address of the gRPC port"),
            used("GRPC_PORT", "8081", "gRPC port"),
            ignored("GRPC_UDS", "", "the service listens on TCP"),
            ignored(
                "GRPC_MAX_CONNECTION_AGE",
                "24h",
                "connections have no age at which they end",
            ),
            ignored(
                "GRPC_MAX_CONNECTION_AGE_GRACE",
                "1h",
                "connections have no age at which they end",
            ),
        ],
    ),
    (
        "TLS of the gRPC port",
        &[
            used("GRPC_SERVER_USE_TLS", "false", "TLS on the gRPC port"),
            used(
                "GRPC_SERVER_TLS_CERT",
                "",
                "certificate, PEM; taken up when it changes",
            ),
            used("GRPC_SERVER_TLS_KEY", "", "private key, PEM"),
            used(
                "GRPC_CLIENT_TLS_CACERT",
                "",
                "authority of clients, who must then show a certificate",
            ),
            used(
                "GRPC_CLIENT_TLS_SAN",
                "",
                "name that clients' certificates must be for",
            ),
        ],
    ),
    (
        "Log",
        &[
            ignored("LOG_LEVEL", "WARN", LOG_IS_SHORT),
            ignored("LOG_FORMAT", "text", LOG_IS_SHORT),
        ],
    ),
    (
        "Rules",
        &[
            used(
                "CONFIG_TYPE",
                "FILE",
                "FILE; anything else is refused at the start",
            ),
            used(
                "FORCE_START_WITHOUT_INITIAL_CONFIG",
                "false",
                "starts and waits for rules",
            ),
            used(
                "MERGE_DOMAIN_CONFIG",
                "false",
                "files of one domain count together; otherwise a second one is an error",
            ),
            used(
                "RUNTIME_ROOT",
                "/srv/runtime_data/current",
                "rules are all files below ROOT/SUBDIRECTORY/APPDIRECTORY",
            ),
            used("RUNTIME_SUBDIRECTORY", "", "see RUNTIME_ROOT"),
            used("RUNTIME_APPDIRECTORY", "config", "see RUNTIME_ROOT"),
            used(
                "RUNTIME_IGNOREDOTFILES",
                "false",
                "leaves out files and folders whose names begin with a dot; two dots are left out in any case",
            ),
            ignored(
                "RUNTIME_WATCH_ROOT",
                "true",
                "the files themselves are looked at every second",
            ),
            ignored("CONFIG_GRPC_XDS_NODE_ID", "default", NO_XDS),
            ignored("CONFIG_GRPC_XDS_NODE_METADATA", "", NO_XDS),
            ignored("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000", NO_XDS),
            ignored(
                "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
                "3s",
                NO_XDS,
            ),
            ignored("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "", NO_XDS),
            ignored("CONFIG_GRPC_XDS_SERVER_USE_TLS", "false", NO_XDS),
            ignored("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "", NO_XDS),
            ignored("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "", NO_XDS),
            ignored("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "", NO_XDS),
            ignored("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "", NO_XDS),
            ignored("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "10s", NO_XDS),
            ignored("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "60s", NO_XDS),
            ignored("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "0.5", NO_XDS),
            ignored("XDS_CLIENT_BACKOFF_JITTER", "true", NO_XDS),
            ignored("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "", NO_XDS),
        ],
    ),
    (
        "Metrics",
        &[
            used("USE_STATSD", "true", "sends counters to statsd"),
            used("STATSD_HOST", "localhost", "host of statsd"),
            used("STATSD_PORT", "8125", "port of statsd"),
            used("STATSD_PROTOCOL", "tcp", "tcp or udp"),
            used(
                "USE_DOG_STATSD",
                "false",
                "sends to DogStatsD in its place: by UDP, with EXTRA_TAGS in its form",
            ),
            ignored("USE_DOG_STATSD_MOGRIFIERS", "", "names go out as they are"),
            used(
                "EXTRA_TAGS",
                "",
                "tags of every metric sent to statsd, as name:value,…",
            ),
            used("STATS_FLUSH_INTERVAL", "10s", "time between two sendings"),
            ignored(
                "GOSTATS_FLUSH_INTERVAL_SECONDS",
                "5",
                "STATS_FLUSH_INTERVAL counts, as with envoyproxy/ratelimit",
            ),
            ignored(
                "GOSTATS_LOGGING_SINK_DISABLED",
                "false",
                "counters are not written into the log",
            ),
            used("DISABLE_STATS", "false", "sends nothing"),
            used(
                "USE_PROMETHEUS",
                "false",
                "a port for Prometheus alone; /metrics of the HTTP port is there in any case",
            ),
            used("PROMETHEUS_ADDR", ":9090", "its address"),
            used("PROMETHEUS_PATH", "/metrics", "its path"),
            ignored(
                "PROMETHEUS_MAPPER_YAML",
                "",
                "names and labels are those of the default mapper",
            ),
            ignored(
                "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
                "false",
                "times are in seconds, as their names say",
            ),
        ],
    ),
    (
        "Limiting",
        &[
            used(
                "EXPIRATION_JITTER_MAX_SECONDS",
                "300",
                "most seconds, at random, that counters are kept beyond their windows, with `--counter-keys envoy`; counts with --rules as well",
            ),
            used(
                LOCAL_CACHE,
                "0",
                "most bytes for limits that are over, of which a store elsewhere is not asked again until they can pass; counts with --rules as well",
            ),
            used(
                "NEAR_LIMIT_RATIO",
                "0.8",
                "share of a limit above which hits count as near it",
            ),
            used(
                "CACHE_KEY_PREFIX",
                "",
                "what counters' keys begin with, with `--counter-keys envoy`; counts with --rules as well",
            ),
            used(
                "BACKEND_TYPE",
                "redis",
                "redis counts at REDIS_URL; where it is not given, the store of this process counts",
            ),
            used(
                "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
                "false",
                "reads counters first and counts only what is over, with `--counter-keys envoy`; counts with --rules as well",
            ),
            used(
                "SHADOW_MODE",
                "false",
                "denies nothing; counts with --rules as well",
            ),
            used(
                "QUOTA_MODE",
                "false",
                "every limit is a quota; counts with --rules as well",
            ),
            used(
                "RESPONSE_DYNAMIC_METADATA",
                "false",
                "responses describe their request; counts with --rules as well",
            ),
        ],
    ),
    (
        "Headers",
        &[
            used(
                "LIMIT_RESPONSE_HEADERS_ENABLED",
                "false",
                "three headers of the tightest limit; counts with --rules as well",
            ),
            used("LIMIT_LIMIT_HEADER", "RateLimit-Limit", "name of the first"),
            used(
                "LIMIT_REMAINING_HEADER",
                "RateLimit-Remaining",
                "name of the second",
            ),
            used("LIMIT_RESET_HEADER", "RateLimit-Reset", "name of the third"),
        ],
    ),
    (
        "Health",
        &[
            ignored(
                "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
                "false",
                "always so: without rules the service is not healthy",
            ),
            ignored(
                "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
                "false",
                "always so: with its backend down the service is not healthy, unless every rule says by on_error what happens then",
            ),
        ],
    ),
    (
        "Redis, with BACKEND_TYPE=redis",
        &[
            used("REDIS_SOCKET_TYPE", "unix", "tcp or unix"),
            used("REDIS_TYPE", "SINGLE", "SINGLE, SENTINEL or CLUSTER"),
            used(
                "REDIS_URL",
                "/var/run/nutcracker/ratelimit.sock",
                "host:port, or path of the socket; master,host:port,… of Sentinels; host:port,… of a cluster",
            ),
            used(
                "REDIS_POOL_SIZE",
                "10",
                "connections of all threads together, at least one each; where it is not given, one each",
            ),
            used("REDIS_AUTH", "", "password, or user:password"),
            used("REDIS_TLS", "false", "TLS to the store"),
            used("REDIS_TLS_CLIENT_CERT", "", "certificate to show, PEM"),
            used("REDIS_TLS_CLIENT_KEY", "", "its key, PEM"),
            used(
                "REDIS_TLS_CACERT",
                "",
                "authority to trust, PEM; the system's where it is not given",
            ),
            used(
                "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
                "false",
                "the store's certificate may be for any name",
            ),
            ignored("REDIS_PIPELINE_WINDOW", "0", ALWAYS_POOLED),
            ignored("REDIS_PIPELINE_LIMIT", "0", ALWAYS_POOLED),
            ignored("REDIS_CLUSTER_PIPELINE_PARALLELISM", "1", ALWAYS_POOLED),
            used(
                "REDIS_SENTINEL_AUTH",
                "",
                "password of the Sentinels, or user:password",
            ),
            used(
                "REDIS_TIMEOUT",
                "10s",
                "longest wait for a decision; half a second where it is not given",
            ),
            ignored("REDIS_POOL_ON_EMPTY_BEHAVIOR", "WAIT", ALWAYS_POOLED),
            ignored(
                "REDIS_STARTUP_INITIAL_INTERVAL",
                "1s",
                "the store need not be up at the start",
            ),
            ignored(
                "REDIS_STARTUP_MAX_INTERVAL",
                "30s",
                "the store need not be up at the start",
            ),
            ignored(
                "REDIS_STARTUP_MAX_ELAPSED_TIME",
                "0",
                "the store need not be up at the start",
            ),
        ],
    ),
    (
        "Redis for windows of a second",
        &[
            used(
                "REDIS_PERSECOND",
                "false",
                "limits per second are counted in a Redis of their own; a request that has others too is decided on one after the other",
            ),
            used("REDIS_PERSECOND_SOCKET_TYPE", "unix", "tcp or unix"),
            used(
                "REDIS_PERSECOND_TYPE",
                "SINGLE",
                "SINGLE, SENTINEL or CLUSTER",
            ),
            used(
                "REDIS_PERSECOND_URL",
                "/var/run/nutcracker/ratelimitpersecond.sock",
                "as REDIS_URL",
            ),
            used("REDIS_PERSECOND_POOL_SIZE", "10", "as REDIS_POOL_SIZE"),
            used("REDIS_PERSECOND_AUTH", "", "password, or user:password"),
            used(
                "REDIS_PERSECOND_TLS",
                "false",
                "TLS to that store, with the files of REDIS_TLS_CACERT and the others",
            ),
            used(
                "REDIS_PERSECOND_SENTINEL_AUTH",
                "",
                "as REDIS_SENTINEL_AUTH",
            ),
            ignored("REDIS_PERSECOND_PIPELINE_WINDOW", "0", ALWAYS_POOLED),
            ignored("REDIS_PERSECOND_PIPELINE_LIMIT", "0", ALWAYS_POOLED),
            ignored(
                "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM",
                "1",
                ALWAYS_POOLED,
            ),
            used("REDIS_PERSECOND_TIMEOUT", "10s", "as REDIS_TIMEOUT"),
            ignored(
                "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
                "WAIT",
                ALWAYS_POOLED,
            ),
        ],
    ),
    (
        "Memcached",
        &[
            ignored("MEMCACHE_HOST_PORT", "", NO_MEMCACHED),
            ignored("MEMCACHE_MAX_IDLE_CONNS", "2", NO_MEMCACHED),
            ignored("MEMCACHE_SRV", "", NO_MEMCACHED),
            ignored("MEMCACHE_SRV_REFRESH", "0", NO_MEMCACHED),
            ignored("MEMCACHE_TLS", "false", NO_MEMCACHED),
            ignored("MEMCACHE_TLS_CLIENT_CERT", "", NO_MEMCACHED),
            ignored("MEMCACHE_TLS_CLIENT_KEY", "", NO_MEMCACHED),
            ignored("MEMCACHE_TLS_CACERT", "", NO_MEMCACHED),
            ignored(
                "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
                "false",
                NO_MEMCACHED,
            ),
        ],
    ),
    (
        "Tracing",
        &[
            ignored("TRACING_ENABLED", "false", NO_TRACING),
            ignored("TRACING_SERVICE_NAME", "RateLimit", NO_TRACING),
            ignored("TRACING_SERVICE_NAMESPACE", "", NO_TRACING),
            ignored("TRACING_SERVICE_INSTANCE_ID", "", NO_TRACING),
            ignored("TRACING_EXPORTER_PROTOCOL", "http", NO_TRACING),
            ignored("TRACING_SAMPLING_RATE", "1", NO_TRACING),
        ],
    ),
];

/// Range of REDIS_TIMEOUT.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest REDIS_POOL_SIZE.
const MAX_POOL: usize = 1_024;

/// Bytes of remembered denials.
const LOCAL_CACHE: &str = "LOCAL_CACHE_SIZE_IN_BYTES";

/// What the names begin with of the Redis for limits per second.
const PER_SECOND: &str = "REDIS_PERSECOND_";

/// Longest value of a variable, in bytes.
const MAX_VALUE: usize = 4_096;

/// The environment of a deployment of envoyproxy/ratelimit.
pub struct Environment<L>(L);

impl<L: Fn(&str) -> Option<String>> Environment<L> {
    /// `lookup` gives the value of a variable.
    pub fn new(lookup: L) -> Self {
        Self(lookup)
    }

    fn given(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|text| !text.is_empty())
    }

    /// Its value, or its default.
    fn value(&self, name: &str) -> String {
        let default = || {
            let mut rows = VARIABLES.iter().flat_map(|(_, rows)| *rows);
            rows.find(|row| row.name == name)
                .map_or("", |row| row.default)
                .to_owned()
        };
        self.given(name).unwrap_or_else(default)
    }

    fn truth(&self, name: &str) -> Result<bool, String> {
        let text = self.value(name);
        truth(&text).ok_or_else(|| bad(name, &text, "neither true nor false"))
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.given(name).map(PathBuf::from)
    }

    fn address(&self, host: &str, port: &str) -> Result<SocketAddr, String> {
        let (host, text) = (self.value(host), self.value(port));
        let number: u16 = text.parse().map_err(|_| bad(port, &text, "no port"))?;
        first_address(&host, number).ok_or_else(|| bad("HOST", &host, "no address of this machine"))
    }

    /// The folder of rules, where the environment names one.
    pub fn rules_dir(&self) -> Option<PathBuf> {
        if self.given("RUNTIME_ROOT").is_none() && self.given("RUNTIME_SUBDIRECTORY").is_none() {
            return None;
        }
        let mut dir = PathBuf::from(self.value("RUNTIME_ROOT"));
        dir.extend(self.path("RUNTIME_SUBDIRECTORY"));
        dir.push(self.value("RUNTIME_APPDIRECTORY"));
        Some(dir)
    }

    /// Most bytes for remembered denials; 0 remembers none.
    ///
    /// # Errors
    /// The value is no number of bytes; the text names the variable.
    pub fn local_cache_bytes(&self) -> Result<usize, String> {
        let text = self.value(LOCAL_CACHE);
        let bytes = text.parse();
        bytes.map_err(|_| bad(LOCAL_CACHE, &text, "no number of bytes"))
    }

    /// Makes of a configuration what the environment says; `backend_given` keeps the backend as it is. Gives a line for
    /// each variable that is given and does nothing.
    ///
    /// # Errors
    /// A value is not valid, or wants what there is not; the text names the variable.
    pub fn apply(
        &self,
        config: &mut RlsConfig,
        backend_given: bool,
    ) -> Result<Vec<String>, String> {
        self.check_types()?;
        config.http_addr = self.address("HOST", "PORT")?;
        config.grpc_addr = self.address("GRPC_HOST", "GRPC_PORT")?;
        config.debug_addr = Some(self.address("DEBUG_HOST", "DEBUG_PORT")?);
        if self.truth("GRPC_SERVER_USE_TLS")? {
            config.grpc_tls = Some(self.tls()?);
        }
        let dots = !self.truth("RUNTIME_IGNOREDOTFILES")?;
        config.rule_files = RuleFiles::All { dots };
        config.start_without_rules = self.truth("FORCE_START_WITHOUT_INITIAL_CONFIG")?;
        config.merge_domains = self.truth("MERGE_DOMAIN_CONFIG")?;
        let ratio = self.value("NEAR_LIMIT_RATIO");
        config.near_limit_ratio = ratio
            .parse()
            .ok()
            .filter(|ratio| (0.0..=1.0).contains(ratio))
            .ok_or_else(|| bad("NEAR_LIMIT_RATIO", &ratio, "no share from 0 to 1"))?;
        let dog = self.truth("USE_DOG_STATSD")?;
        if (dog || self.truth("USE_STATSD")?) && !self.truth("DISABLE_STATS")? {
            config.statsd = Some(self.statsd(dog)?);
        }
        if self.truth("USE_PROMETHEUS")? {
            config.prometheus = Some(self.prometheus()?);
        }
        let counts_at_redis = self.given("BACKEND_TYPE").is_some();
        if counts_at_redis && !backend_given {
            let threads = config.threads.max(1);
            config.backend = Backend::Remote(self.redis_url("REDIS_")?);
            self.store("REDIS_", &mut config.store, threads)?;
            if self.truth("REDIS_PERSECOND")? {
                let mut store = StoreConfig::default();
                self.store(PER_SECOND, &mut store, threads)?;
                config.per_second = Some(PerSecondStore {
                    url: self.redis_url(PER_SECOND)?,
                    store,
                });
            }
        }
        Ok(self.lines(config))
    }

    /// What is refused rather than ignored, because the service would decide by other rules or another store.
    fn check_types(&self) -> Result<(), String> {
        let kind = self.value("CONFIG_TYPE");
        if kind != "FILE" {
            return Err(bad("CONFIG_TYPE", &kind, "not FILE: rules come from files"));
        }
        let backend = self.value("BACKEND_TYPE");
        if backend != "redis" {
            return Err(bad("BACKEND_TYPE", &backend, "not redis"));
        }
        Ok(())
    }

    fn tls(&self) -> Result<TlsConfig, String> {
        let file = |name| {
            self.path(name)
                .ok_or_else(|| format!("{name}: GRPC_SERVER_USE_TLS needs it"))
        };
        let mut tls = TlsConfig::new(
            file("GRPC_SERVER_TLS_CERT")?,
            file("GRPC_SERVER_TLS_KEY")?,
            self.path("GRPC_CLIENT_TLS_CACERT"),
        );
        tls.client_name = self.given("GRPC_CLIENT_TLS_SAN");
        Ok(tls)
    }

    fn statsd(&self, dog: bool) -> Result<StatsdConfig, String> {
        let protocol = self.value("STATSD_PROTOCOL");
        let protocol = match &*protocol {
            _ if dog => StatsdProtocol::Udp,
            "tcp" | "tcp4" | "tcp6" => StatsdProtocol::Tcp,
            "udp" | "udp4" | "udp6" => StatsdProtocol::Udp,
            _ => return Err(bad("STATSD_PROTOCOL", &protocol, "neither tcp nor udp")),
        };
        let tags = self.value("EXTRA_TAGS");
        let pairs = tags.split(',').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let pair = pair.split_once(':');
            pair.map(|(tag, value)| (tag.to_owned(), value.to_owned()))
        });
        let tags = pairs
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| bad("EXTRA_TAGS", &tags, "no list of name:value"))?;
        let interval = self.value("STATS_FLUSH_INTERVAL");
        Ok(StatsdConfig {
            addr: format!(
                "{}:{}",
                self.value("STATSD_HOST"),
                self.value("STATSD_PORT")
            ),
            protocol,
            dog,
            tags,
            interval: parse_duration(&interval)
                .filter(|span| !span.is_zero())
                .ok_or_else(|| bad("STATS_FLUSH_INTERVAL", &interval, "no duration"))?,
        })
    }

    fn prometheus(&self) -> Result<(SocketAddr, String), String> {
        let addr = self.value("PROMETHEUS_ADDR");
        let found = addr.rsplit_once(':').and_then(|(host, port)| {
            let host = if host.is_empty() { "0.0.0.0" } else { host };
            first_address(host.trim_matches(['[', ']']), port.parse().ok()?)
        });
        let found = found.ok_or_else(|| bad("PROMETHEUS_ADDR", &addr, "no address"))?;
        Ok((found, self.value("PROMETHEUS_PATH")))
    }

    /// How the store is connected to whose variables begin so, where that is given. Files of TLS are those of all stores.
    fn store(&self, group: &str, store: &mut StoreConfig, threads: usize) -> Result<(), String> {
        let of = |name| format!("{group}{name}");
        let timeout = of("TIMEOUT");
        if let Some(text) = self.given(&timeout) {
            let span =
                parse_duration(&text).filter(|span| (MIN_TIMEOUT..=MAX_TIMEOUT).contains(span));
            store.timeout =
                span.ok_or_else(|| bad(&timeout, &text, "no duration from 1ms to 60s"))?;
        }
        let size = of("POOL_SIZE");
        if let Some(text) = self.given(&size) {
            let count: Option<usize> = text.parse().ok();
            let count = count.filter(|count| (1..=MAX_POOL).contains(count));
            let count = count.ok_or_else(|| bad(&size, &text, "no number from 1 to 1024"))?;
            store.connections = count.div_ceil(threads);
        }
        for (name, file) in [
            ("REDIS_TLS_CACERT", &mut store.tls_authority),
            ("REDIS_TLS_CLIENT_CERT", &mut store.tls_certificate),
            ("REDIS_TLS_CLIENT_KEY", &mut store.tls_key),
        ] {
            if let Some(path) = self.path(name) {
                *file = Some(path);
            }
        }
        store.tls_any_name |= self.truth("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION")?;
        if let Some(login) = self.given(&of("SENTINEL_AUTH")) {
            store.sentinel_login = Some(login);
        }
        Ok(())
    }

    /// The URL of the store whose variables begin so.
    fn redis_url(&self, group: &str) -> Result<String, String> {
        let of = |name| format!("{group}{name}");
        let (url, auth) = (self.value(&of("URL")), self.given(&of("AUTH")));
        let kind = self.value(&of("TYPE"));
        let (form, place) = match &*kind.to_ascii_lowercase() {
            "single" => ("", url.clone()),
            "cluster" => ("+cluster", url.clone()),
            "sentinel" => match url.split_once(',') {
                Some((master, hosts)) => ("+sentinel", format!("{hosts}/{master}")),
                None => return Err(bad(&of("URL"), &url, "no master,host:port of Sentinels")),
            },
            _ => {
                let what = "none of SINGLE, SENTINEL, CLUSTER";
                return Err(bad(&of("TYPE"), &kind, what));
            }
        };
        let socket = of("SOCKET_TYPE");
        match &*self.value(&socket) {
            "unix" if form.is_empty() => Ok(format!(
                "unix://{url}{}",
                match &auth {
                    Some(auth) => format!("?pass={}", encoded(auth)),
                    None => String::new(),
                }
            )),
            "tcp" => {
                let scheme = if self.truth(&of("TLS"))? {
                    "rediss"
                } else {
                    "redis"
                };
                let auth = match auth.as_deref().map(|auth| auth.split_once(':').ok_or(auth)) {
                    None => String::new(),
                    Some(Ok((user, password))) => {
                        format!("{}:{}@", encoded(user), encoded(password))
                    }
                    Some(Err(password)) => format!(":{}@", encoded(password)),
                };
                Ok(format!("{scheme}{form}://{auth}{place}"))
            }
            "unix" => Err(format!("{socket}: {}={kind} needs tcp", of("TYPE"))),
            other => Err(bad(&socket, other, "neither tcp nor unix")),
        }
    }

    /// A line for each variable that is given and does nothing.
    fn lines(&self, config: &RlsConfig) -> Vec<String> {
        let own_store = config.backend == Backend::Embedded;
        let mut lines = Vec::new();
        for row in VARIABLES.iter().flat_map(|(_, rows)| *rows) {
            if self.given(row.name).is_none() {
                continue;
            }
            let is_of_counters = [PREFIX, JITTER, STOP].contains(&row.name);
            let why = match row.effect {
                Effect::Ignored(why) => why,
                Effect::Used(_) if row.name.starts_with("REDIS_") && own_store => {
                    "the store of this process counts; BACKEND_TYPE=redis counts there"
                }
                Effect::Used(_) if row.name == LOCAL_CACHE && own_store => {
                    "the store of this process is as near as any memory of what it said"
                }
                Effect::Used(_)
                    if row.name.starts_with(PER_SECOND) && config.per_second.is_none() =>
                {
                    "REDIS_PERSECOND is not true"
                }
                Effect::Used(_) if is_of_counters && config.envoy_counters.is_none() => {
                    "counters have keys of our own; --counter-keys envoy shares those of envoyproxy/ratelimit"
                }
                Effect::Used(_) => continue,
            };
            lines.push(format!("{} is ignored: {why}", row.name));
        }
        lines
    }
}

/// A user or password as URLs have it.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn first_address(host: &str, port: u16) -> Option<SocketAddr> {
    (host, port).to_socket_addrs().ok()?.next()
}

fn bad(name: &str, text: &str, what: &str) -> String {
    let text: String = text.chars().take(MAX_VALUE).collect();
    format!("{name}: '{}' is {what}", text.escape_debug())
}

/// A span of time as Go writes it: `1h30m`, `10s`, `20ms`, `0`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = 0.0;
    if text == "0" {
        return Some(Duration::ZERO);
    }
    while !rest.is_empty() {
        let unit_at = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..unit_at].parse().ok()?;
        rest = &rest[unit_at..];
        let end = rest
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        seconds += number * unit;
        rest = &rest[end..];
    }
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|_| !text.is_empty())
}
