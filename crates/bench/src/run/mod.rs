//! The main job: start the targets, find their capacities, climb the ladders, fill the record.

pub mod admit;
pub mod attribution;
pub mod bed;
pub mod calibrate;
pub mod capacity;
mod cell;
pub mod console;
mod decided;
pub mod exporter;
pub mod fill;
pub mod fresh;
pub mod machine;
pub mod mitigations;
pub mod order;
pub mod plan;
pub mod recovery;
mod screen;
pub mod session;
pub mod starts;
pub mod steady;
pub mod thread;
