//! The main job: start the targets, find their capacities, climb the ladders, fill the record.

pub(crate) mod admit;
pub mod attribution;
pub(crate) mod bed;
pub(crate) mod calibrate;
pub mod capacity;
mod cell;
pub mod console;
mod decided;
pub(crate) mod exporter;
pub mod fill;
pub(crate) mod fresh;
pub(crate) mod machine;
pub(crate) mod mitigations;
pub mod order;
pub mod plan;
pub mod recovery;
mod screen;
pub mod session;
pub mod starts;
pub(crate) mod steady;
pub(crate) mod thread;
