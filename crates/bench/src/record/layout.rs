//! Whether a text is a record of the layout that this program knows.

use serde::Deserialize;

use super::{RunRecord, SCHEMA_VERSION};

/// The oldest layout that is still read.
const OLDEST_VERSION: u32 = 1;

#[derive(Deserialize)]
struct Layout {
    schema_version: Option<u32>,
}

/// Whether the text is whole JSON of the layout that this program knows, and may so be `what`.
///
/// # Errors
/// If it is cut off, damaged, of another layout, or says nothing about that.
pub(crate) fn check_layout(text: &str, what: &str) -> Result<(), String> {
    let layout: Layout = serde_json::from_str(text).map_err(|error| {
        let how = if error.is_eof() {
            "it ends in the middle"
        } else {
            "it is damaged"
        };
        format!("{how}: {error}")
    })?;
    match layout.schema_version {
        Some(OLDEST_VERSION..=SCHEMA_VERSION) => Ok(()),
        Some(other) => Err(format!(
            "layout version {other}; this program reads versions {OLDEST_VERSION} to {SCHEMA_VERSION}"
        )),
        None => Err(format!(
            "no schema_version in it, so it is not the record of {what}"
        )),
    }
}

impl RunRecord {
    /// The record in the layout of this program. Version 1 left requests without an answer in time out of the response
    /// times, so that no percentile passed the deadline; they count with it here, which is the least that they took.
    #[must_use]
    pub(crate) fn upgraded(mut self) -> RunRecord {
        if self.schema_version >= SCHEMA_VERSION {
            return self;
        }
        self.schema_version = SCHEMA_VERSION;
        for cell in &mut self.cells {
            let deadline_ns = (cell.load.deadline_ms * 1e6) as u64;
            for step in &mut cell.steps {
                let (timeout, unsent) = (step.failures.timeout, step.failures.unsent);
                for (latency, waits) in [
                    (&mut step.response, timeout.saturating_add(unsent)),
                    (&mut step.service, timeout),
                ] {
                    if waits > 0 && latency.overdue.is_none() {
                        latency.add_overdue(waits, deadline_ns);
                    }
                }
            }
        }
        self
    }
}
