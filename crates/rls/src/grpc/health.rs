//! Messages of `grpc.health.v1`.

use tollgate_wire::rls::SERVICE_NAME;

/// Name that envoyproxy/ratelimit's health check goes by.
const HEALTH_NAME: &str = "ratelimit";
/// `ServingStatus.SERVICE_UNKNOWN`.
pub(super) const SERVICE_UNKNOWN: i32 = 3;

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(super) service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}

/// Whether there is a service of this name; the empty one stands for all.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "" | HEALTH_NAME | SERVICE_NAME)
}

/// `SERVING` or `NOT_SERVING`.
pub(super) const fn status(serving: bool) -> i32 {
    if serving { 1 } else { 2 }
}

pub(super) const fn response(status: i32) -> HealthCheckResponse {
    HealthCheckResponse { status }
}
