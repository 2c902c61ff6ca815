//! What the bench asks of the operating system: time, processors, counters of processes, readiness, signals.

pub mod clock;
pub mod cpu;
pub mod interrupt;
pub mod listener;
pub mod poller;
pub mod proc;
pub mod proc_text;
pub mod tcp;
pub mod terminal;
