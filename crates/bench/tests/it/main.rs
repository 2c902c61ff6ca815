//! The bench against servers whose behaviour is known.

mod compare;
mod deadlines;
mod ends;
mod fake;
mod fake_grpc;
mod faults;
mod found;
mod json;
mod metrics;
mod mitigations;
mod planted;
mod process;
mod protocols;
mod raw;
mod redis_benchmark;
mod screen;
mod session;
mod stored;
mod virtual_time;
