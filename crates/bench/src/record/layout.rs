//! Whether a text is a record of the layout that this program knows.

use serde::Deserialize;

use super::SCHEMA_VERSION;

#[derive(Deserialize)]
struct Layout {
    schema_version: Option<u32>,
}

/// Whether the text is whole JSON of the layout that this program knows, and may so be `what`.
///
/// # Errors
/// If it is cut off, damaged, of another layout, or says nothing about that.
pub fn check_layout(text: &str, what: &str) -> Result<(), String> {
    let layout: Layout = serde_json::from_str(text).map_err(|error| {
        let how = if error.is_eof() {
            "it ends in the middle"
        } else {
            "it is damaged"
        };
        format!("{how}: {error}")
    })?;
    match layout.schema_version {
        Some(SCHEMA_VERSION) => Ok(()),
        Some(other) => Err(format!(
            "layout version {other}; this program reads version {SCHEMA_VERSION}"
        )),
        None => Err(format!(
            "no schema_version in it, so it is not the record of {what}"
        )),
    }
}
