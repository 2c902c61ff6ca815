//! Messages of Envoy's rate limit service, version 3.
//!
//! Written out by hand with the field numbers of `envoy/service/ratelimit/v3/rls.proto`,
//! `envoy/extensions/common/ratelimit/v3/ratelimit.proto` and `envoy/type/v3/ratelimit_unit.proto`, so that neither `protoc`
//! nor code generation is part of the build. Unknown fields of newer peers are skipped, as protobuf asks.

use std::collections::BTreeMap;

/// HTTP/2 path of the one method.
pub const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Name of the service, as gRPC health checks and reflection give it.
pub const SERVICE_NAME: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// `envoy.service.ratelimit.v3.RateLimitRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitRequest {
    /// Namespace of the rules.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// What is being limited; each descriptor is decided on its own.
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<RateLimitDescriptor>,
    /// Cost of the request for descriptors that give none; 0 means 1.
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

/// `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitDescriptor {
    /// Key and value pairs, from the general to the specific; at least one.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<rate_limit_descriptor::Entry>,
    /// A limit that replaces the one of the rules.
    #[prost(message, optional, tag = "2")]
    pub limit: Option<rate_limit_descriptor::RateLimitOverride>,
    /// Cost for this descriptor; 0 only looks.
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<UInt64Value>,
    /// Whether `hits_addend` is given back instead of taken.
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

/// Messages within [`RateLimitDescriptor`].
pub mod rate_limit_descriptor {
    /// One step of a descriptor.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Entry {
        /// Not empty.
        #[prost(string, tag = "1")]
        pub key: String,
        /// May be empty.
        #[prost(string, tag = "2")]
        pub value: String,
    }

    /// A limit given by the caller.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct RateLimitOverride {
        /// Requests allowed in one unit.
        #[prost(uint32, tag = "1")]
        pub requests_per_unit: u32,
        /// Length of the unit.
        #[prost(enumeration = "super::RateLimitUnit", tag = "2")]
        pub unit: i32,
    }
}

/// `envoy.type.v3.RateLimitUnit`: the unit of an override. It knows no week.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum RateLimitUnit {
    /// Not given.
    Unknown = 0,
    /// One second.
    Second = 1,
    /// 60 seconds.
    Minute = 2,
    /// 3,600 seconds.
    Hour = 3,
    /// 86,400 seconds.
    Day = 4,
    /// A month.
    Month = 5,
    /// A year.
    Year = 6,
}

/// `envoy.service.ratelimit.v3.RateLimitResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitResponse {
    /// Over the limit when any descriptor is.
    #[prost(enumeration = "rate_limit_response::Code", tag = "1")]
    pub overall_code: i32,
    /// As many as the request's descriptors, in their order.
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<rate_limit_response::DescriptorStatus>,
    /// Headers that Envoy adds to the response of its client.
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<HeaderValue>,
    /// Headers that Envoy adds to the request it forwards.
    #[prost(message, repeated, tag = "4")]
    pub request_headers_to_add: Vec<HeaderValue>,
    /// Body of the 429.
    #[prost(bytes = "vec", tag = "5")]
    pub raw_body: Vec<u8>,
    /// Stored by Envoy under `envoy.filters.http.ratelimit`.
    #[prost(message, optional, tag = "6")]
    pub dynamic_metadata: Option<Struct>,
    /// A quota that the client may cache for the whole request.
    #[prost(message, optional, tag = "7")]
    pub quota: Option<rate_limit_response::Quota>,
}

/// Messages within [`RateLimitResponse`].
pub mod rate_limit_response {
    /// The verdict.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum Code {
        /// Envoy allows the request.
        Unknown = 0,
        /// Allowed.
        Ok = 1,
        /// Denied.
        OverLimit = 2,
    }

    /// The limit that was applied.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct RateLimit {
        /// Name of the rule, if it has one.
        #[prost(string, tag = "3")]
        pub name: String,
        /// Requests allowed in one unit.
        #[prost(uint32, tag = "1")]
        pub requests_per_unit: u32,
        /// Length of the unit.
        #[prost(enumeration = "rate_limit::Unit", tag = "2")]
        pub unit: i32,
    }

    /// Enumerations within [`RateLimit`].
    pub mod rate_limit {
        /// The unit of an applied limit; unlike that of an override it knows the week.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, prost::Enumeration)]
        #[repr(i32)]
        pub enum Unit {
            /// Not given.
            Unknown = 0,
            /// One second.
            Second = 1,
            /// 60 seconds.
            Minute = 2,
            /// 3,600 seconds.
            Hour = 3,
            /// 86,400 seconds.
            Day = 4,
            /// Seven days.
            Week = 7,
            /// A month.
            Month = 5,
            /// A year.
            Year = 6,
        }
    }

    /// Requests that the client may decide by itself.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Quota {
        /// Above 0.
        #[prost(uint32, tag = "1")]
        pub requests: u32,
        /// When the quota ends.
        #[prost(oneof = "ExpirationSpecifier", tags = "2")]
        pub expiration_specifier: Option<ExpirationSpecifier>,
        /// Identity of the quota, given back by the client.
        #[prost(string, tag = "3")]
        pub id: String,
    }

    /// How the end of a [`Quota`] is given.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum ExpirationSpecifier {
        /// At a point in time.
        #[prost(message, tag = "2")]
        ValidUntil(super::Timestamp),
    }

    /// The verdict on one descriptor.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct DescriptorStatus {
        /// Allowed or denied.
        #[prost(enumeration = "Code", tag = "1")]
        pub code: i32,
        /// The limit that was applied; absent where no rule matched.
        #[prost(message, optional, tag = "2")]
        pub current_limit: Option<RateLimit>,
        /// What is left in the current window.
        #[prost(uint32, tag = "3")]
        pub limit_remaining: u32,
        /// Time until the window starts anew; Envoy tells denied clients to come back then.
        #[prost(message, optional, tag = "4")]
        pub duration_until_reset: Option<super::Duration>,
        /// A quota that the client may cache for this descriptor.
        #[prost(message, optional, tag = "5")]
        pub quota: Option<Quota>,
    }
}

/// `envoy.config.core.v3.HeaderValue`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct HeaderValue {
    /// Name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value as text.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Value as bytes; used when `value` is empty.
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}

/// `google.protobuf.UInt64Value`: a number that may be absent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct UInt64Value {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Further nanoseconds, with the sign of the seconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Timestamp {
    /// Whole seconds since the Unix epoch.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Further nanoseconds, 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// `google.protobuf.Struct`: a JSON object.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Struct {
    /// Members by name.
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, Value>,
}

/// `google.protobuf.Value`: a JSON value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Value {
    /// Absent only in a malformed message.
    #[prost(oneof = "value::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<value::Kind>,
}

/// The kinds of [`Value`].
pub mod value {
    /// A JSON value by its type.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Kind {
        /// `null`; the number is always 0.
        #[prost(int32, tag = "1")]
        NullValue(i32),
        /// A number.
        #[prost(double, tag = "2")]
        NumberValue(f64),
        /// A string.
        #[prost(string, tag = "3")]
        StringValue(String),
        /// `true` or `false`.
        #[prost(bool, tag = "4")]
        BoolValue(bool),
        /// An object.
        #[prost(message, tag = "5")]
        StructValue(super::Struct),
        /// An array.
        #[prost(message, tag = "6")]
        ListValue(super::ListValue),
    }
}

/// `google.protobuf.ListValue`: a JSON array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListValue {
    /// Elements in order.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}
