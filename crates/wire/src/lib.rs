//! Wire codecs: RESP2/RESP3, Memcached's text and binary protocols, HTTP/1.1, HTTP/2 for gRPC, the messages of the Envoy rate limit service, and those of its rules and of its traces.
//!
//! Bytes in, values out, and back. Nothing here knows a socket, a command or a store, so the server, the load
//! generator, the tests and the fuzz targets share one codec.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod http1;
pub mod http2;
pub mod memcached;
pub mod resp;
pub mod rls;
pub mod trace;
pub mod xds;
