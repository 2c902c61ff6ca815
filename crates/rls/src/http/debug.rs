//! The debug port, by the paths of envoyproxy/ratelimit, and the port for Prometheus alone.

use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;

use super::{Reply, not_allowed, text, with_type};
use crate::service::Service;

const INDEX: &str = "/debug/pprof/: not served, see there\n/rlconfig: print out the currently loaded configuration for debugging\n/stats: print out stats\n/metrics: stats for Prometheus\n";
const NO_PROFILES: &str =
    "there are no Go profiles here: this is no Go program; use `perf record -p PID`\n";
const READ: &[Method] = &[Method::GET, Method::HEAD];

/// Answers on the debug port.
pub(super) fn answer(service: &Service, request: &Request<Incoming>) -> Reply {
    let path = request.uri().path();
    if !READ.contains(request.method()) {
        return not_allowed(path, READ);
    }
    match path {
        "/" => text(StatusCode::OK, INDEX),
        "/rlconfig" => text(StatusCode::OK, service.rules_text()),
        "/stats" => text(StatusCode::OK, service.stats()),
        "/metrics" => metrics(service),
        path if path.starts_with("/debug/pprof") => text(StatusCode::NOT_IMPLEMENTED, NO_PROFILES),
        _ => text(StatusCode::NOT_FOUND, INDEX),
    }
}

/// Answers on the port for Prometheus.
pub(super) fn answer_prometheus(
    service: &Service,
    request: &Request<Incoming>,
    path: &str,
) -> Reply {
    match (
        request.uri().path() == path,
        READ.contains(request.method()),
    ) {
        (true, true) => metrics(service),
        (true, false) => not_allowed(path, READ),
        (false, _) => text(StatusCode::NOT_FOUND, format!("metrics are at {path}\n")),
    }
}

/// All metrics, in the form of Prometheus.
pub(super) fn metrics(service: &Service) -> Reply {
    with_type(
        StatusCode::OK,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
        service.metrics(),
    )
}
