//! What the bench asks of the operating system: time, processors, counters of processes, readiness, signals.

pub(crate) mod clock;
pub(crate) mod cpu;
pub(crate) mod interrupt;
pub(crate) mod listener;
pub(crate) mod poller;
pub mod proc;
pub(crate) mod proc_text;
pub(crate) mod tcp;
pub(crate) mod terminal;
