//! The rate limit service: Envoy RLS over gRPC, HTTP, on embedded and remote backends.
//!
//! ```text
//! gRPC/HTTP → decode → policy::resolve → checks → Backend::decide → policy::verdict → encode
//! ```
//!
//! Decisions of the store in this process, asked for without TLS, are made on event loops, one thread each: in place, without a
//! task, a channel or a boxed future. All else is served by a few threads with a single-threaded runtime each. A connection
//! stays on the thread it was given to.
#![forbid(unsafe_code)]
// The future of an HTTP decision on a store elsewhere nests deeper than the compiler's default.
#![recursion_limit = "256"]

mod backend;
mod clock;
mod combine;
mod config;
mod environment;
mod envoy_counters;
mod fallback;
mod grpc;
mod health;
mod holds;
mod http;
mod in_force;
mod lane;
mod lease;
mod listening;
mod log;
mod loops;
mod metrics;
mod reload;
mod replay;
mod rules;
mod server;
mod service;
mod shed;
mod tls;
mod traces;
mod xds;

pub use backend::BackendError;
pub use config::{
    Backend, ConnectionAge, DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT, DEFAULT_NEAR_LIMIT_RATIO,
    DEFAULT_SHED_AFTER, DEFAULT_TIMEOUT, EnvoyCounters, HealthNeeds, PerSecondStore, RlsConfig,
    RuleFiles, StartError, StatsdConfig, StatsdProtocol, StoreConfig, TlsConfig, XdsBackoff,
    XdsConfig, XdsTls,
};
pub use environment::{Effect, Environment, VARIABLES, Variable, parse_duration};
pub use log::{LogLevel, LogLine};
pub use replay::{
    DEFAULT_MAX_REQUESTS, DescriptorTemplate, Difference, LimitReport, MostDenied, Recording,
    RecordingError, Replay, ReplayError, Shape, Suiting, replay,
};
pub use rules::check_rules;
pub use server::RlsServer;
pub use tollgate_policy::{HeaderForm, HeaderNames, LoadOptions, Modes, Ruleset};
pub use traces::{TraceConfig, TraceProtocol};
