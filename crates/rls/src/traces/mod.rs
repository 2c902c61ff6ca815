//! Spans of calls, sent to a collector of OpenTelemetry. A call is timed, told of and queued on the thread that serves it; one
//! thread beside those sends what is queued. Nobody waits for it: what there is no room for is dropped and counted.

mod export;
mod http;
mod queue;
mod sampling;
mod span;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use export::Exporter;
pub(crate) use queue::Queue;
pub(crate) use span::{CallSpan, Parent, Step, Tracer};

/// Where spans are sent, and which calls have one.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceConfig {
    /// How the collector is spoken to.
    pub protocol: TraceProtocol,
    /// Where it is: `http://host:port`, or `https`; over HTTP with the path.
    pub endpoint: String,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// Requests are packed by gzip.
    pub gzip: bool,
    /// Longest wait for the collector to take spans.
    pub timeout: Duration,
    /// PEM file of an authority to trust beside the system's.
    pub tls_authority: Option<PathBuf>,
    /// PEM files of the certificate to show and of its key.
    pub tls_own: Option<(PathBuf, PathBuf)>,
    /// What the spans come from, by name.
    pub resource: Vec<(String, String)>,
    /// Share of calls that have a span, 0 to 1, of those whose caller does not say.
    pub sampling: f64,
    /// Most spans that wait to be sent.
    pub queue: usize,
    /// Most spans of a request.
    pub batch: usize,
    /// Longest time that a span waits for others.
    pub interval: Duration,
}

/// How a collector is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceProtocol {
    /// Protobuf over HTTP/1.1.
    Http,
    /// gRPC.
    Grpc,
}
