//! Messages by which a management server gives rate limit rules: the aggregated discovery service of xDS, version 3, in its
//! state-of-the-world form, and the configuration that it carries for a rate limit service.
//!
//! Written out by hand with the field numbers of `envoy/service/discovery/v3/discovery.proto`, `envoy/config/core/v3/base.proto`,
//! `google/rpc/status.proto` and `ratelimit/config/ratelimit/v3/rls_conf.proto`, as far as a rate limit service reads or writes
//! them; other fields are skipped.

use crate::rls::Struct;

/// HTTP/2 path of the stream.
pub const STREAM_AGGREGATED_RESOURCES: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// The type of resource that rules come as.
pub const RATE_LIMIT_CONFIG: &str =
    "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// `envoy.service.discovery.v3.DiscoveryRequest`: what the client has, or why it does not take what it was sent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DiscoveryRequest {
    /// Version of the response that was taken last; empty before the first.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// Who asks.
    #[prost(message, optional, tag = "2")]
    pub node: Option<Node>,
    /// Names of resources; none asks for all.
    #[prost(string, repeated, tag = "3")]
    pub resource_names: Vec<String>,
    /// The type of resources.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Of the response that this answers; empty in the first request of a stream.
    #[prost(string, tag = "5")]
    pub response_nonce: String,
    /// Why the response is refused that this answers.
    #[prost(message, optional, tag = "6")]
    pub error_detail: Option<Status>,
}

/// `envoy.service.discovery.v3.DiscoveryResponse`: all resources of a type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DiscoveryResponse {
    /// Version of the resources.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// The resources.
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Any>,
    /// Their type.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Names the response within its stream.
    #[prost(string, tag = "5")]
    pub nonce: String,
}

/// `envoy.config.core.v3.Node`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Node {
    /// Name of the client.
    #[prost(string, tag = "1")]
    pub id: String,
    /// What else the management server should know of it.
    #[prost(message, optional, tag = "3")]
    pub metadata: Option<Struct>,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Status {
    /// A code of gRPC.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// For developers.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Any {
    /// Ends in a slash and the full name of the message's type.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `ratelimit.config.ratelimit.v3.RateLimitConfig`: the rules of a domain, what a file of rules is elsewhere.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitConfig {
    /// Name of the resource.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The domain.
    #[prost(string, tag = "2")]
    pub domain: String,
    /// Its rules.
    #[prost(message, repeated, tag = "3")]
    pub descriptors: Vec<RateLimitDescriptor>,
}

/// `ratelimit.config.ratelimit.v3.RateLimitDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitDescriptor {
    /// Key of the entry; not empty.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value; empty for any.
    #[prost(string, tag = "2")]
    pub value: String,
    /// The limit, if there is one at this depth.
    #[prost(message, optional, tag = "3")]
    pub rate_limit: Option<RateLimitPolicy>,
    /// Rules of entries that follow.
    #[prost(message, repeated, tag = "4")]
    pub descriptors: Vec<RateLimitDescriptor>,
    /// Counts and never denies.
    #[prost(bool, tag = "5")]
    pub shadow_mode: bool,
    /// Metrics name the values of all entries.
    #[prost(bool, tag = "6")]
    pub detailed_metric: bool,
    /// It is a quota.
    #[prost(bool, tag = "7")]
    pub quota_mode: bool,
    /// What responses say about descriptors that pass.
    #[prost(message, optional, tag = "8")]
    pub metadata: Option<Struct>,
}

/// `ratelimit.config.ratelimit.v3.RateLimitPolicy`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct RateLimitPolicy {
    /// Length of the window.
    #[prost(
        enumeration = "crate::rls::rate_limit_response::rate_limit::Unit",
        tag = "1"
    )]
    pub unit: i32,
    /// Requests that pass in one.
    #[prost(uint32, tag = "2")]
    pub requests_per_unit: u32,
    /// No limit; the unit is not given then.
    #[prost(bool, tag = "3")]
    pub unlimited: bool,
    /// Name of the limit.
    #[prost(string, tag = "4")]
    pub name: String,
    /// Limits that do not apply where this one does.
    #[prost(message, repeated, tag = "5")]
    pub replaces: Vec<RateLimitReplace>,
}

/// `ratelimit.config.ratelimit.v3.RateLimitReplace`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct RateLimitReplace {
    /// Name of the limit.
    #[prost(string, tag = "1")]
    pub name: String,
}
