//! Recorded requests against rules: whom limits would have denied, and which limits would have suited.
//!
//! ```text
//! lines → Recording → Ruleset::resolve, decisions at the recorded times → Replay → text or JSON
//! ```
//!
//! Rules, matching and decisions are those of the service on its own store; only the clock is the recording's.

mod line;
mod recording;
mod report;
mod run;
mod suiting;
mod table;
mod template;

pub use recording::{DEFAULT_MAX_REQUESTS, Recording, RecordingError, Shape};
pub use report::{Difference, LimitReport, MostDenied, Replay};
pub use run::{ReplayError, replay};
pub use suiting::Suiting;
pub use template::DescriptorTemplate;
