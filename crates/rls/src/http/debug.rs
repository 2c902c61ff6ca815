//! The debug port, by the paths of envoyproxy/ratelimit, and the port for Prometheus alone.

use http::StatusCode;
use tollgate_wire::http1::Head;

use super::reply::Reply;
use super::{READ, not_taken, text};
use crate::service::Service;

const INDEX: &str = "/debug/pprof/: not served, see there\n/rlconfig: print out the currently loaded configuration for debugging\n/stats: print out stats\n/metrics: stats for Prometheus\n";
const NO_PROFILES: &str =
    "there are no Go profiles here: this is no Go program; use `perf record -p PID`\n";

/// Answers on the debug port.
pub(super) fn answer(service: &Service, head: &Head<'_>) -> Reply {
    let path = head.path;
    if !READ.contains(&head.method) {
        return not_taken(path, READ, head.method);
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
pub(super) fn answer_prometheus(service: &Service, head: &Head<'_>, path: &str) -> Reply {
    match (head.path == path, READ.contains(&head.method)) {
        (true, true) => metrics(service),
        (true, false) => not_taken(path, READ, head.method),
        (false, _) => text(StatusCode::NOT_FOUND, format!("metrics are at {path}\n")),
    }
}

/// All metrics, in the form of Prometheus.
pub(super) fn metrics(service: &Service) -> Reply {
    Reply::new(
        StatusCode::OK,
        "text/plain; version=0.0.4; charset=utf-8",
        service.metrics().into_bytes(),
    )
}
