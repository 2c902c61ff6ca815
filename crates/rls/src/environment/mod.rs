//! The environment variables of envoyproxy/ratelimit: one row each, with what it does here.
//!
//! They take effect where `RUNTIME_ROOT` or `RUNTIME_SUBDIRECTORY` says where the rules are, or `CONFIG_TYPE` that a management server
//! gives them, which is how a deployment of envoyproxy/ratelimit starts. Their names are those of many other programs (`HOST`, `PORT`), so that elsewhere they say
//! nothing, but for those of [`Modes`](tollgate_policy::Modes), which always count.

pub(crate) mod go;
mod stores;
mod table;
mod traces;
mod xds;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use tollgate_policy::truth;

use crate::config::{
    Backend, ConnectionAge, HealthNeeds, PerSecondStore, RlsConfig, RuleFiles, StatsdConfig,
    StatsdProtocol, StoreConfig, TlsConfig,
};
use crate::envoy_counters::{JITTER, PREFIX, STOP};
pub use go::parse_duration;
use table::LOCAL_CACHE;
pub use table::{Effect, VARIABLES, Variable};

/// Where limits are counted.
const BACKEND_TYPE: &str = "BACKEND_TYPE";
/// Where the Redis is.
const REDIS_URL: &str = "REDIS_URL";
/// The one that there is not.
const MEMCACHE: &str = "memcache";

/// Where rules come from.
const CONFIG_TYPE: &str = "CONFIG_TYPE";
/// From a management server.
const XDS: &str = "GRPC_XDS_SOTW";

/// What the names begin with of the Redis for limits per second.
const PER_SECOND: &str = "REDIS_PERSECOND_";

/// The least level of lines in the log.
const LOG_LEVEL: &str = "LOG_LEVEL";

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
        let number = go::integer(&text).and_then(|number| u16::try_from(number).ok());
        let number = number.ok_or_else(|| bad(port, &text, "no port"))?;
        first_address(&host, number).ok_or_else(|| bad("HOST", &host, "no address of this machine"))
    }

    /// `name:value,…`; empty where it is not given.
    fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, String> {
        let text = self.value(name);
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let pairs = text.split(',').map(|pair| {
            let (name, value) = pair.split_once(':')?;
            (!value.contains(':')).then(|| (name.to_owned(), value.to_owned()))
        });
        let pairs = pairs.collect::<Option<Vec<_>>>();
        pairs.ok_or_else(|| bad(name, &text, "no list of name:value"))
    }

    /// A whole number; 0 where there is none.
    fn number<T: TryFrom<i64> + Default>(&self, name: &str) -> Result<T, String> {
        match &*self.value(name) {
            "" => Ok(T::default()),
            text => go::integer(text)
                .and_then(|number| T::try_from(number).ok())
                .ok_or_else(|| bad(name, text, "no number")),
        }
    }

    /// Any number, as the peer takes it: of limits above 1 or below 0 nothing comes near them, and everything does of what is
    /// no finite number.
    fn near_ratio(&self) -> Result<f32, String> {
        const NAME: &str = "NEAR_LIMIT_RATIO";
        let text = self.value(NAME);
        let ratio =
            go::float(&text).filter(|ratio| ratio.is_infinite() == (*ratio as f32).is_infinite());
        let ratio = ratio.ok_or_else(|| bad(NAME, &text, "no number of 32 bits"))? as f32;
        Ok(match ratio {
            _ if !ratio.is_finite() => 0.0,
            ..0.0 => f32::INFINITY,
            _ => ratio,
        })
    }

    fn float(&self, name: &str) -> Result<f64, String> {
        let text = self.value(name);
        go::float(&text).ok_or_else(|| bad(name, &text, "no number"))
    }

    /// Whether a management server gives the rules.
    fn has_xds(&self) -> bool {
        self.value(CONFIG_TYPE) == XDS
    }

    /// The folder of rules, where the environment says where rules come from; it holds none where a management server gives
    /// them.
    pub fn rules_dir(&self) -> Option<PathBuf> {
        let named = ["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY"];
        let is_named = named.iter().any(|name| self.given(name).is_some());
        if !is_named && !self.has_xds() {
            return None;
        }
        let mut dir = PathBuf::from(self.value("RUNTIME_ROOT"));
        // Given and empty, it is the folder above.
        let last = (self.0)("RUNTIME_APPDIRECTORY");
        let last = last.unwrap_or_else(|| self.value("RUNTIME_APPDIRECTORY"));
        for below in [self.value("RUNTIME_SUBDIRECTORY"), last] {
            // Each is below the one before, also if it begins with a slash.
            match below.trim_matches('/') {
                "" => {}
                below => dir.push(below),
            }
        }
        Some(dir)
    }

    /// The least level of lines in the log, as `loglevel` has it; `None` where it is not given.
    ///
    /// # Errors
    /// There is no such level; the text names the variable.
    pub fn log_level(&self) -> Result<Option<&'static str>, String> {
        let Some(text) = self.given(LOG_LEVEL) else {
            return Ok(None);
        };
        Ok(Some(match &*text.to_ascii_lowercase() {
            "trace" | "debug" => "debug",
            "info" => "notice",
            "warn" | "warning" => "warning",
            "error" => "error",
            "fatal" | "panic" => "nothing",
            _ => return Err(bad(LOG_LEVEL, &text, "no level of the log")),
        }))
    }

    /// Whether lines of the log are objects of JSON, rather than pairs.
    pub fn log_is_json(&self) -> bool {
        self.value("LOG_FORMAT").eq_ignore_ascii_case("json")
    }

    /// Most bytes for remembered denials; 0 remembers none.
    ///
    /// # Errors
    /// The value is no number of bytes; the text names the variable.
    pub fn local_cache_bytes(&self) -> Result<usize, String> {
        self.number(LOCAL_CACHE)
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
        config.grpc_socket = self.path("GRPC_UDS");
        config.health = HealthNeeds {
            rules: self.truth("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")?,
            backend: self.truth("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION")?,
        };
        config.connection_age = self.connection_age()?;
        config.debug_addr = Some(self.address("DEBUG_HOST", "DEBUG_PORT")?);
        if self.truth("GRPC_SERVER_USE_TLS")? {
            config.grpc_tls = Some(self.tls()?);
        }
        let dots = !self.truth("RUNTIME_IGNOREDOTFILES")?;
        config.rule_files = RuleFiles::All { dots };
        if self.has_xds() {
            config.xds = Some(self.xds()?);
        }
        config.start_without_rules = self.truth("FORCE_START_WITHOUT_INITIAL_CONFIG")?;
        config.merge_domains = self.truth("MERGE_DOMAIN_CONFIG")?;
        config.near_limit_ratio = self.near_ratio()?;
        let dog = self.truth("USE_DOG_STATSD")?;
        if (dog || self.truth("USE_STATSD")?) && !self.truth("DISABLE_STATS")? {
            config.statsd = Some(self.statsd(dog)?);
        }
        if self.truth("USE_PROMETHEUS")? {
            config.prometheus = Some(self.prometheus()?);
        }
        if self.counts_at_redis() && !backend_given {
            let threads = config.threads.max(1);
            config.backend = Backend::Remote(self.redis_url("REDIS_")?);
            self.store("REDIS_", &mut config.store, threads)?;
            if self.truth("REDIS_PERSECOND")? {
                let mut store = StoreConfig {
                    wait_replicas: config.store.wait_replicas,
                    ..StoreConfig::default()
                };
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
        let kind = self.value(CONFIG_TYPE);
        if kind != "FILE" && kind != XDS {
            let what = format!("neither FILE nor {XDS}");
            return Err(bad(CONFIG_TYPE, &kind, &what));
        }
        let backend = self.value(BACKEND_TYPE);
        if backend != "redis" && backend != MEMCACHE {
            return Err(bad(BACKEND_TYPE, &backend, "neither redis nor memcache"));
        }
        Ok(())
    }

    /// Whether limits are counted in a Redis: where that is said, or where one is named and memcached is not asked for. Replicas
    /// would else count apart without a word from who relies on the default of `BACKEND_TYPE`.
    fn counts_at_redis(&self) -> bool {
        match self.given(BACKEND_TYPE) {
            Some(kind) => kind != MEMCACHE,
            None => self.given(REDIS_URL).is_some(),
        }
    }

    fn connection_age(&self) -> Result<Option<ConnectionAge>, String> {
        let span = |name| {
            let text = self.value(name);
            let span = parse_duration(&text).ok_or_else(|| bad(name, &text, "no duration"))?;
            // To grpc-go, nothing is for ever.
            Ok::<_, String>(Some(span).filter(|span| !span.is_zero()))
        };
        let grace = span("GRPC_MAX_CONNECTION_AGE_GRACE")?;
        let age = span("GRPC_MAX_CONNECTION_AGE")?;
        Ok(age.map(|age| ConnectionAge { age, grace }))
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
        let interval = self.value("STATS_FLUSH_INTERVAL");
        Ok(StatsdConfig {
            addr: format!(
                "{}:{}",
                self.value("STATSD_HOST"),
                self.value("STATSD_PORT")
            ),
            protocol,
            dog,
            tags: self.pairs("EXTRA_TAGS")?,
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

    /// A line for each variable that is given and does nothing.
    fn lines(&self, config: &RlsConfig) -> Vec<String> {
        let own_store = config.backend == Backend::Embedded;
        let begins = |name: &str, groups: &[&str]| {
            let mut groups = groups.iter();
            groups.any(|group| name.starts_with(group))
        };
        let mut lines = Vec::new();
        for row in VARIABLES.iter().flat_map(|(_, rows)| *rows) {
            if self.given(row.name).is_none() {
                continue;
            }
            let is_of_counters = [PREFIX, JITTER, STOP].contains(&row.name);
            let why = match row.effect {
                Effect::Ignored(why) => why,
                Effect::Used(_) if row.name == BACKEND_TYPE && own_store => {
                    if self.value(BACKEND_TYPE) != MEMCACHE {
                        continue;
                    }
                    "memcached cannot decide: the store of this process counts, so that replicas count apart; --backend names a store for all"
                }
                Effect::Used(_) if row.name.starts_with("REDIS_") && own_store => {
                    "the store of this process counts; a Redis does where REDIS_URL names it"
                }
                Effect::Used(_) if row.name == LOCAL_CACHE && own_store => {
                    "the store of this process is as near as any memory of what it said"
                }
                Effect::Used(_)
                    if row.name.starts_with(PER_SECOND) && config.per_second.is_none() =>
                {
                    "REDIS_PERSECOND is not true"
                }
                Effect::Used(_)
                    if begins(row.name, &traces::GROUPS)
                        && row.name != traces::ENABLED
                        && !self.truth(traces::ENABLED).unwrap_or(false) =>
                {
                    "TRACING_ENABLED is not true"
                }
                Effect::Used(_) if begins(row.name, &xds::GROUPS) && config.xds.is_none() => {
                    "rules come from files; CONFIG_TYPE=GRPC_XDS_SOTW asks a management server for them"
                }
                Effect::Used(_) if row.name.starts_with("RUNTIME_") && config.xds.is_some() => {
                    "rules come from CONFIG_GRPC_XDS_SERVER_URL"
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

fn first_address(host: &str, port: u16) -> Option<SocketAddr> {
    (host, port).to_socket_addrs().ok()?.next()
}

fn bad(name: &str, text: &str, what: &str) -> String {
    let text: String = text.chars().take(MAX_VALUE).collect();
    format!("{name}: '{}' is {what}", text.escape_debug())
}
