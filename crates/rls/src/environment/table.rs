//! Every variable of envoyproxy/ratelimit, and what it does here.

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

/// Bytes of remembered denials.
pub(super) const LOCAL_CACHE: &str = "LOCAL_CACHE_SIZE_IN_BYTES";

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

const NO_MEMCACHED: &str = "there is no memcached backend";
const SHEDS: &str =
    "shed-after and grpc-timeout bound how long requests wait, and thereby how many do";
const ALWAYS_POOLED: &str = "the requests of a thread share its connections and are pipelined";

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
            used(
                "GRPC_UDS",
                "",
                "path of a unix socket for gRPC, instead of its port",
            ),
            used(
                "GRPC_MAX_CONNECTION_AGE",
                "24h",
                "age at which the client of a connection is asked to open a new one, plus or minus a tenth; 0 for none",
            ),
            used(
                "GRPC_MAX_CONNECTION_AGE_GRACE",
                "1h",
                "how long calls in progress may still take then; 0 for no limit",
            ),
            ignored("GRPC_MAX_CONCURRENT_STREAMS", "0", SHEDS),
            ignored("MAX_CONCURRENT_REQUESTS", "0", SHEDS),
            ignored("REQUEST_TIMEOUT", "0", SHEDS),
        ],
    ),
    (
        "TLS of the gRPC port",
        &[
            used("GRPC_SERVER_USE_TLS", "false", "TLS on the gRPC port"),
            used(
                "GRPC_SERVER_TLS_CERT",
                "",
                "certificate, PEM; reloaded when it changes",
            ),
            used("GRPC_SERVER_TLS_KEY", "", "private key, PEM"),
            used(
                "GRPC_CLIENT_TLS_CACERT",
                "",
                "CA of client certificates, PEM; clients must then present one",
            ),
            used(
                "GRPC_CLIENT_TLS_SAN",
                "",
                "name that client certificates must be issued for",
            ),
        ],
    ),
    (
        "Log",
        &[
            used(
                "LOG_LEVEL",
                "WARN",
                "the lowest level that is logged: trace, debug, info, warn, error, fatal or panic; `loglevel` applies if it is not set",
            ),
            used(
                "LOG_FORMAT",
                "text",
                "json for JSON objects, anything else for key=value pairs; the store's lines have the same form",
            ),
        ],
    ),
    (
        "Rules",
        &[
            used(
                "CONFIG_TYPE",
                "FILE",
                "FILE, or GRPC_XDS_SOTW: a management server supplies the rules",
            ),
            used(
                "FORCE_START_WITHOUT_INITIAL_CONFIG",
                "false",
                "starts and waits for rules; with a management server the service waits in any case, and is healthy meanwhile only with this",
            ),
            used(
                "MERGE_DOMAIN_CONFIG",
                "false",
                "files of the same domain are merged; otherwise a second one is an error",
            ),
            used(
                "RUNTIME_ROOT",
                "/srv/runtime_data/current",
                "rules are in all files below ROOT/SUBDIRECTORY/APPDIRECTORY",
            ),
            used("RUNTIME_SUBDIRECTORY", "", "see RUNTIME_ROOT"),
            used("RUNTIME_APPDIRECTORY", "config", "see RUNTIME_ROOT"),
            used(
                "RUNTIME_IGNOREDOTFILES",
                "false",
                "skips files and folders whose names begin with a dot; names that begin with two dots are skipped in any case",
            ),
            ignored(
                "RUNTIME_WATCH_ROOT",
                "true",
                "the files themselves are checked every second",
            ),
        ],
    ),
    (
        "Rules from a management server, with CONFIG_TYPE=GRPC_XDS_SOTW",
        &[
            used(
                "CONFIG_GRPC_XDS_NODE_ID",
                "default",
                "node ID under which the server knows this service",
            ),
            used(
                "CONFIG_GRPC_XDS_NODE_METADATA",
                "",
                "node metadata sent to the server, as name=value,…",
            ),
            used(
                "CONFIG_GRPC_XDS_SERVER_URL",
                "localhost:18000",
                "the server, as host:port or unix:path",
            ),
            used(
                "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
                "3s",
                "time between attempts to connect, plus or minus half of it",
            ),
            used(
                "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
                "",
                "headers of the stream, as name:value,…",
            ),
            used(
                "CONFIG_GRPC_XDS_SERVER_USE_TLS",
                "false",
                "TLS to the server",
            ),
            used(
                "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
                "",
                "client certificate, PEM; read again for each connection, like its key and the CA",
            ),
            used("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "", "its key, PEM"),
            used(
                "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
                "",
                "CA to trust in addition to the system's, PEM",
            ),
            used(
                "CONFIG_GRPC_XDS_SERVER_TLS_SAN",
                "",
                "name that the server's certificate must be issued for; if it is not set, the host of its address",
            ),
            used(
                "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
                "10s",
                "initial, and shortest, time between the failure of a stream and the next attempt",
            ),
            used("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "60s", "the longest"),
            used(
                "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
                "0.5",
                "growth of that time with each failure, in addition to 1",
            ),
            used(
                "XDS_CLIENT_BACKOFF_JITTER",
                "true",
                "the time is random between the initial one and what it has grown to",
            ),
            used(
                "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
                "",
                "largest response, which contains all rules; 4 MiB if it is not set",
            ),
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
                "sends to DogStatsD instead: over UDP, with EXTRA_TAGS in its format",
            ),
            ignored(
                "USE_DOG_STATSD_MOGRIFIERS",
                "",
                "names are sent as they are",
            ),
            used(
                "EXTRA_TAGS",
                "",
                "tags of every metric sent to statsd, as name:value,…",
            ),
            used("STATS_FLUSH_INTERVAL", "10s", "time between two flushes"),
            ignored(
                "GOSTATS_FLUSH_INTERVAL_SECONDS",
                "5",
                "STATS_FLUSH_INTERVAL applies, as in envoyproxy/ratelimit",
            ),
            ignored(
                "GOSTATS_LOGGING_SINK_DISABLED",
                "false",
                "counters are never written to the log",
            ),
            used("DISABLE_STATS", "false", "sends nothing"),
            used(
                "USE_PROMETHEUS",
                "false",
                "opens a separate port for Prometheus; /metrics on the HTTP port is there in any case",
            ),
            used("PROMETHEUS_ADDR", ":9090", "its address"),
            used("PROMETHEUS_PATH", "/metrics", "its path"),
            ignored(
                "PROMETHEUS_MAPPER_YAML",
                "",
                "names and labels are those of the default mapping",
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
                "longest random time, in seconds, for which counters are kept beyond their windows, with `--counter-keys envoy`; applies with --rules as well",
            ),
            used(
                LOCAL_CACHE,
                "0",
                "most bytes for exhausted limits, about which a remote store is not asked again until they can pass; applies with --rules as well",
            ),
            used(
                "NEAR_LIMIT_RATIO",
                "0.8",
                "share of a limit above which hits count as near it",
            ),
            used(
                "CACHE_KEY_PREFIX",
                "",
                "prefix of counter keys, with `--counter-keys envoy`; applies with --rules as well",
            ),
            used(
                "BACKEND_TYPE",
                "redis",
                "redis counts at REDIS_URL, also if only that is set; without either, and with memcache, the store of this process counts and replicas count separately (with memcache the log says so)",
            ),
            used(
                "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
                "false",
                "reads counters first and counts only what is over, with `--counter-keys envoy`; applies with --rules as well",
            ),
            used(
                "SHADOW_MODE",
                "false",
                "denies nothing; applies with --rules as well",
            ),
            used(
                "USE_CALENDAR_MONTH_RATE_LIMIT",
                "false",
                "`unit: month` is a month of the calendar, in UTC, and not 30 days; applies with --rules as well",
            ),
            used(
                "QUOTA_MODE",
                "false",
                "every limit is a quota; applies with --rules as well",
            ),
            used(
                "RESPONSE_DYNAMIC_METADATA",
                "false",
                "responses describe their request; applies with --rules as well",
            ),
        ],
    ),
    (
        "Headers",
        &[
            used(
                "LIMIT_RESPONSE_HEADERS_ENABLED",
                "false",
                "three headers for the tightest limit; applies with --rules as well",
            ),
            used("LIMIT_LIMIT_HEADER", "RateLimit-Limit", "name of the first"),
            used(
                "LIMIT_REMAINING_HEADER",
                "RateLimit-Remaining",
                "name of the second",
            ),
            used("LIMIT_RESET_HEADER", "RateLimit-Reset", "name of the third"),
            used(
                "LIMIT_PER_UNIT_HEADERS_ENABLED",
                "false",
                "the first two for the tightest limit of each unit, as RateLimit-Limit-Seconds; applies with --rules as well",
            ),
            used(
                "LIMIT_REQUEST_HEADERS_ENABLED",
                "false",
                "the same three on the request that Envoy forwards; applies with --rules as well",
            ),
            used(
                "LIMIT_REQUEST_LIMIT_HEADER",
                "RateLimit-Limit",
                "name of the first",
            ),
            used(
                "LIMIT_REQUEST_REMAINING_HEADER",
                "RateLimit-Remaining",
                "name of the second",
            ),
            used(
                "LIMIT_REQUEST_RESET_HEADER",
                "RateLimit-Reset",
                "name of the third",
            ),
        ],
    ),
    (
        "Health",
        &[
            used(
                "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
                "false",
                "without rules the service is not healthy; always on with --rules",
            ),
            used(
                "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
                "false",
                "with its store down the service is not healthy, unless every rule has an on_error for that; always on with --rules",
            ),
        ],
    ),
    (
        "Redis, with REDIS_URL or BACKEND_TYPE=redis",
        &[
            used("REDIS_SOCKET_TYPE", "unix", "tcp or unix"),
            used("REDIS_TYPE", "SINGLE", "SINGLE, SENTINEL or CLUSTER"),
            used(
                "REDIS_URL",
                "/var/run/nutcracker/ratelimit.sock",
                "host:port, or path of the socket; master,host:port,… for Sentinel; host:port,… for a cluster; hosts may be written redis://user:password@host:port/database",
            ),
            used(
                "REDIS_POOL_SIZE",
                "10",
                "connections of all threads together, at least one each and at most 1,024; if it is not set, one each",
            ),
            used("REDIS_AUTH", "", "password, or user:password"),
            used("REDIS_AUTH_FILE", "", "file that holds it, read at startup"),
            used("REDIS_TLS", "false", "TLS to the store"),
            used("REDIS_TLS_CLIENT_CERT", "", "client certificate, PEM"),
            used("REDIS_TLS_CLIENT_KEY", "", "its key, PEM"),
            used(
                "REDIS_TLS_CACERT",
                "",
                "CA to trust, PEM; if it is not set, the system's",
            ),
            used(
                "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
                "false",
                "the store's certificate may be for any host name",
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
                "longest wait for a decision, at most 60s, and 0 means 60s; half a second if it is not set",
            ),
            ignored("REDIS_POOL_ON_EMPTY_BEHAVIOR", "WAIT", ALWAYS_POOLED),
            ignored(
                "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR",
                "false",
                "a store that has become a replica is left and looked for anew in any case",
            ),
            ignored(
                "REDIS_STARTUP_INITIAL_INTERVAL",
                "1s",
                "the store need not be up at startup",
            ),
            ignored(
                "REDIS_STARTUP_MAX_INTERVAL",
                "30s",
                "the store need not be up at startup",
            ),
            ignored(
                "REDIS_STARTUP_MAX_ELAPSED_TIME",
                "0",
                "the store need not be up at startup",
            ),
        ],
    ),
    (
        "Redis for windows of a second",
        &[
            used(
                "REDIS_PERSECOND",
                "false",
                "limits per second are counted in a separate Redis; a request that also has other limits is decided on one store after the other",
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
            used("REDIS_PERSECOND_AUTH_FILE", "", "as REDIS_AUTH_FILE"),
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
            used(
                "TRACING_ENABLED",
                "false",
                "sends a span for each decision to an OpenTelemetry collector; applies with --rules as well, like all variables of this table",
            ),
            used(
                "TRACING_SERVICE_NAME",
                "RateLimit",
                "service.name of the spans",
            ),
            used("TRACING_SERVICE_NAMESPACE", "", "service.namespace"),
            used(
                "TRACING_SERVICE_INSTANCE_ID",
                "",
                "service.instance.id; a random one if it is not set",
            ),
            used(
                "TRACING_EXPORTER_PROTOCOL",
                "http",
                "http (protobuf), or grpc",
            ),
            used(
                "TRACING_SAMPLING_RATE",
                "1",
                "share of calls that have a span, among those whose traceparent does not decide",
            ),
            used(
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "",
                "the collector, as http://host:port or https://host:port; over HTTP, v1/traces is appended. If it is not set, http://localhost:4318, or :4317 for gRPC. This and the following variables have a form with OTLP_TRACES in their name, which takes precedence",
            ),
            used(
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "",
                "the same, over HTTP with its whole path",
            ),
            used(
                "OTEL_EXPORTER_OTLP_INSECURE",
                "false",
                "true: no TLS to a gRPC endpoint given as plain host:port",
            ),
            used(
                "OTEL_EXPORTER_OTLP_HEADERS",
                "",
                "headers of requests to it, as name=value,…",
            ),
            used(
                "OTEL_EXPORTER_OTLP_TIMEOUT",
                "10000",
                "longest wait for its answer, in milliseconds",
            ),
            used(
                "OTEL_EXPORTER_OTLP_CERTIFICATE",
                "",
                "CA to trust in addition to the system's, PEM",
            ),
            used(
                "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
                "",
                "client certificate, PEM",
            ),
            used("OTEL_EXPORTER_OTLP_CLIENT_KEY", "", "its key, PEM"),
            used(
                "OTEL_EXPORTER_OTLP_COMPRESSION",
                "",
                "gzip: requests are compressed",
            ),
            used(
                "OTEL_RESOURCE_ATTRIBUTES",
                "",
                "further resource attributes of the spans, as name=value,…",
            ),
            used(
                "OTEL_BSP_SCHEDULE_DELAY",
                "5000",
                "longest time that a span waits to be batched, in milliseconds",
            ),
            used(
                "OTEL_BSP_MAX_QUEUE_SIZE",
                "2048",
                "most spans waiting to be sent; further ones are dropped, and counted",
            ),
            used(
                "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
                "512",
                "most spans per request",
            ),
        ],
    ),
];
