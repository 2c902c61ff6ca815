//! The bench against servers whose behaviour is known.

mod compare;
mod fake;
mod faults;
mod protocols;
mod redis_benchmark;
mod process;
mod session;
mod virtual_time;
