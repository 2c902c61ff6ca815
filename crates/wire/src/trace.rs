//! Traces: the `traceparent` that says what a call is part of (W3C Trace Context), and the messages of OpenTelemetry's protocol
//! by which spans get to a collector.
//!
//! Written out by hand with the field numbers of `opentelemetry/proto/collector/trace/v1/trace_service.proto`, `trace/v1/trace.proto`,
//! `resource/v1/resource.proto` and `common/v1/common.proto`, as far as a service that sends spans uses them.

/// Path of a collector's call, over gRPC.
pub const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// What is behind a collector's address for traces, over HTTP.
pub const HTTP_PATH: &str = "v1/traces";

/// In `flags`, that the trace is recorded.
pub const SAMPLED: u8 = 1;
/// In [`Span::flags`], that bit 9 says whether the parent is in another process.
pub const KNOWS_REMOTE: u32 = 1 << 8;
/// It is.
pub const IS_REMOTE: u32 = 1 << 9;

/// What a call is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; not all zeros.
    pub trace: [u8; 16],
    /// The span that the call was made in; not all zeros.
    pub span: [u8; 8],
    /// Bit 0: it is recorded.
    pub flags: u8,
}

impl TraceParent {
    /// Reads `00-<32 digits>-<16 digits>-<2 digits>`; what a later version has behind it is passed over.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        const LENGTH: usize = 55;
        let (fields, rest) = text.split_at_checked(LENGTH)?;
        let version = hex::<1>(&fields[..2])?[0];
        let is_parted = [2, 35, 52].iter().all(|&at| fields[at] == b'-');
        let ends = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let (trace, span) = (hex(&fields[3..35])?, hex(&fields[36..52])?);
        let flags = hex::<1>(&fields[53..])?[0];
        let is_valid = is_parted && ends && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self { trace, span, flags })
    }

    /// Whether the trace is recorded.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// Digits of base 16, small letters only.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

/// `opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportRequest {
    /// Spans by what they come from.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// `opentelemetry.proto.collector.trace.v1.ExportTraceServiceResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportResponse {
    /// What was not taken, if not everything was.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// `opentelemetry.proto.collector.trace.v1.ExportTracePartialSuccess`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartialSuccess {
    /// How many spans.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// Why.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// `opentelemetry.proto.trace.v1.ResourceSpans`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceSpans {
    /// What they come from.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// The spans by what made them.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// `opentelemetry.proto.resource.v1.Resource`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// What it is.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// `opentelemetry.proto.trace.v1.ScopeSpans`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeSpans {
    /// What made them.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// `opentelemetry.proto.common.v1.InstrumentationScope`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `opentelemetry.proto.trace.v1.Span`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    /// Its trace, 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// The span, 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// What other systems have noted of the trace, as they wrote it.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// The span that it is part of; empty for none.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// What is done.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Which side of a call it is.
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    /// When it began, in nanoseconds since 1970.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// When it ended.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// What else is known of it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// How it went, where it did not go well.
    #[prost(message, optional, tag = "15")]
    pub status: Option<SpanStatus>,
    /// The flags of its trace, [`KNOWS_REMOTE`] and [`IS_REMOTE`].
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// `opentelemetry.proto.trace.v1.Span.SpanKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    /// Not said.
    Unspecified = 0,
    /// Neither side of a call.
    Internal = 1,
    /// Who is called.
    Server = 2,
    /// Who calls.
    Client = 3,
}

/// `opentelemetry.proto.trace.v1.Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SpanStatus {
    /// What went wrong.
    #[prost(string, tag = "2")]
    pub message: String,
    /// 2 for an error.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// [`SpanStatus::code`] of an error.
pub const STATUS_ERROR: i32 = 2;

/// `opentelemetry.proto.common.v1.KeyValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

impl KeyValue {
    /// A name with its value.
    pub fn new(key: &str, value: impl Into<any_value::Value>) -> Self {
        Self {
            key: key.to_owned(),
            value: Some(AnyValue {
                value: Some(value.into()),
            }),
        }
    }
}

/// `opentelemetry.proto.common.v1.AnyValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    /// One of its forms.
    #[prost(oneof = "any_value::Value", tags = "1, 3, 5")]
    pub value: Option<any_value::Value>,
}

/// The forms of values.
pub mod any_value {
    /// One of them.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        /// A text.
        #[prost(string, tag = "1")]
        Text(String),
        /// A whole number.
        #[prost(int64, tag = "3")]
        Int(i64),
        /// A list.
        #[prost(message, tag = "5")]
        List(super::ListValue),
    }

    impl From<&str> for Value {
        fn from(text: &str) -> Self {
            Self::Text(text.to_owned())
        }
    }

    impl From<String> for Value {
        fn from(text: String) -> Self {
            Self::Text(text)
        }
    }

    impl From<i64> for Value {
        fn from(number: i64) -> Self {
            Self::Int(number)
        }
    }

    impl From<Vec<String>> for Value {
        fn from(texts: Vec<String>) -> Self {
            let value = |text| super::AnyValue {
                value: Some(Self::Text(text)),
            };
            Self::List(super::ListValue {
                values: texts.into_iter().map(value).collect(),
            })
        }
    }
}

/// `opentelemetry.proto.common.v1.ArrayValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListValue {
    /// Its values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_a_call_is_part_of_is_read() {
        let parent = TraceParent::parse(VALID.as_bytes()).expect("valid");
        assert_eq!(parent.trace[..3], [0x4b, 0xf9, 0x2f]);
        assert_eq!(parent.span, [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(parent.is_sampled());
        let later = VALID.replacen("00", "01", 1);
        for text in [later.clone(), format!("{later}-more")] {
            assert_eq!(TraceParent::parse(text.as_bytes()), Some(parent), "{text}");
        }
        let unsampled = TraceParent::parse(VALID.replace("-01", "-02").as_bytes());
        assert!(!unsampled.expect("valid").is_sampled());
    }

    #[test]
    fn anything_else_is_no_parent() {
        for text in [
            "",
            &VALID[..54],
            &format!("{VALID}-more"),
            &format!("{VALID} "),
            &VALID.replacen("00", "ff", 1),
            &format!("{}x", VALID.replacen("00", "01", 1)),
            &VALID.to_uppercase(),
            &VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &VALID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &VALID.replace("4bf", "4bg"),
            &VALID.replace('-', "_"),
        ] {
            assert!(TraceParent::parse(text.as_bytes()).is_none(), "{text}");
        }
    }
}
