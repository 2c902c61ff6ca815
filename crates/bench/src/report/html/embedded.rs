//! The record inside the page: JSON, or DEFLATE and base64 of it when it is long.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::record::RunRecord;

use super::RenderError;

/// Above this size the data are compressed.
const PLAIN_MAX_BYTES: usize = 64 << 10;
/// Above this size, compressed, histograms are embedded with two digits instead of three.
const EXACT_MAX_BYTES: usize = 256 << 10;
/// Longest record that is read out of a page, after inflating: a thousand times what a usual run needs.
const INFLATED_MAX_BYTES: u64 = 1 << 30;
/// The element that holds the data.
const ELEMENT: &str = "<script type=\"application/json\" id=\"tollgate-record\"";
const PLAIN: &str = "json";
const COMPRESSED: &str = "zlib-base64";

/// The record as text that may stand inside a `script` element, and the name of its encoding.
pub(super) fn data(record: &RunRecord) -> Result<(String, &'static str), RenderError> {
    let whole = serde_json::to_string(record)?;
    if whole.len() <= PLAIN_MAX_BYTES {
        return Ok((inert(&whole), PLAIN));
    }
    let exact = packed(&whole)?;
    if exact.len() <= EXACT_MAX_BYTES {
        return Ok((exact, COMPRESSED));
    }
    // Histograms of a long run fill the page; results.json beside it has them in full.
    let mut record = record.clone();
    for step in record.cells.iter_mut().flat_map(|cell| &mut cell.steps) {
        step.response.coarsen();
        step.service.coarsen();
        for second in &mut step.seconds {
            second.response_ns_base64 = None;
        }
    }
    Ok((packed(&serde_json::to_string(&record)?)?, COMPRESSED))
}

fn packed(text: &str) -> Result<String, RenderError> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let packed = encoder
        .write_all(text.as_bytes())
        .and_then(|()| encoder.finish())
        .map_err(|error| RenderError(error.to_string()))?;
    Ok(STANDARD.encode(packed))
}

/// No `<` is left that could end the element or open a comment; JSON reads the escape as the same text.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// The record embedded in a page that [`super::report`] made, with or without a template of one's own.
pub fn record_in(html: &str) -> Result<RunRecord, RenderError> {
    let missing = || RenderError("there is no tollgate-record in this file".into());
    // The last one, because a name in the page cannot come after the page's own element.
    let at = html.rfind(ELEMENT).ok_or_else(missing)?;
    let (attributes, rest) = html[at + ELEMENT.len()..]
        .split_once('>')
        .ok_or_else(missing)?;
    // Pages of the first version name no encoding: theirs is plain.
    let encoding = attributes
        .split_once("data-encoding=\"")
        .map_or(PLAIN, |(_, value)| value.trim_end_matches('"'));
    let (text, _) = rest.split_once("</script>").ok_or_else(missing)?;
    match encoding {
        PLAIN => Ok(serde_json::from_str(text)?),
        COMPRESSED => {
            let packed = STANDARD
                .decode(text.trim())
                .map_err(|error| RenderError(format!("tollgate-record: {error}")))?;
            let mut text = String::new();
            ZlibDecoder::new(packed.as_slice())
                .take(INFLATED_MAX_BYTES)
                .read_to_string(&mut text)
                .map_err(|error| RenderError(format!("tollgate-record: {error}")))?;
            Ok(serde_json::from_str(&text)?)
        }
        other => Err(RenderError(format!(
            "tollgate-record has the unknown encoding {other:?}"
        ))),
    }
}
