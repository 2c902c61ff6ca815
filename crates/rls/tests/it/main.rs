//! The service as its clients see it: tonic over gRPC, HTTP with JSON, on the embedded store and on a real one.

mod admission;
mod backend;
mod cluster;
mod deploy;
mod environment;
mod envoy;
mod fallback;
mod framing;
mod grpc;
mod health;
mod hostile;
mod http;
mod matrix;
mod metrics;
mod modes;
mod reflection;
mod reload;
mod replica;
mod sentinel;
mod shed;
mod start;
mod store_tls;
mod support;
mod tls;
mod traps;
mod v1;
