//! The real envoyproxy/ratelimit beside the service: the same rules, the same environment, the same requests, and the same
//! answers. What is otherwise on purpose stands in `docs/differences.md`.

mod chance;
mod decisions;
mod environment;
mod files;
mod fleet;
mod http;
mod log;
mod metrics;
mod outages;
mod pair;
mod places;
mod program;
mod sockets;
mod statsd;
mod xds;
