//! The record inside the page: JSON, or DEFLATE and base64 of it by [`columns`] when it is long.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use serde_json::{Number, Value};

use crate::record::{Cell, RunRecord, Second};

use super::super::findings::CellFindings;
use super::cards::telling_step;
use super::{RenderError, columns};

/// Above this size the data are compressed.
const PLAIN_MAX_BYTES: usize = 64 << 10;
/// Above this size, compressed, a page gets what can be read off it and no more; see [`readable`].
const EXACT_MAX_BYTES: usize = 64 << 10;
/// Above this size, compressed, its histograms keep one digit instead of two, and most steps one of all their answers.
const FINE_MAX_BYTES: usize = 96 << 10;
/// Significant digits of the figures there: two more than are printed. Whole parts, as of rates, are kept whatever their length.
const DIGITS: usize = 5;
/// Up to here a number can be rounded to a whole one without loss.
const WHOLE_MAX: f64 = 9e15;
/// Longest record that is read out of a page, after inflating: a thousand times what a usual run needs.
const INFLATED_MAX_BYTES: u64 = 1 << 30;
/// The element that holds the data.
const ELEMENT: &str = "<script type=\"application/json\" id=\"tollgate-record\"";
const PLAIN: &str = "json";
/// As pages of earlier versions have it.
const COMPRESSED: &str = "zlib-base64";
const BY_COLUMNS: &str = "zlib-base64-columns";

/// The record as text that may stand inside a `script` element, and the name of its encoding.
pub(super) fn data(record: &RunRecord) -> Result<(String, &'static str), RenderError> {
    let whole = serde_json::to_string(record)?;
    if whole.len() <= PLAIN_MAX_BYTES {
        return Ok((inert(&whole), PLAIN));
    }
    let exact = packed(&serde_json::from_str(&whole)?)?;
    if exact.len() <= EXACT_MAX_BYTES {
        return Ok((exact, BY_COLUMNS));
    }
    let fine = packed(&readable(record, 2)?)?;
    if fine.len() <= FINE_MAX_BYTES {
        return Ok((fine, BY_COLUMNS));
    }
    Ok((packed(&readable(record, 1)?)?, BY_COLUMNS))
}

/// The record of a long run as JSON without what would fill the page: response histograms keep one or two digits, service
/// times their percentiles, seconds their figures. `results.json` beside the page has everything in full.
fn readable(record: &RunRecord, histogram_digits: u8) -> Result<Value, RenderError> {
    let mut record = record.clone();
    for cell in &mut record.cells {
        let told = told(cell, histogram_digits);
        for (at, step) in cell.steps.iter_mut().enumerate() {
            if histogram_digits == 1 && told != Some(at) {
                step.response.unite();
            }
            step.response.coarsen(histogram_digits);
            step.service.leave_out_histograms();
            for alone in [&mut step.late, &mut step.send_lag].into_iter().flatten() {
                alone.histogram_ns_base64 = None;
            }
            step.seconds.iter_mut().for_each(without_histogram);
        }
        let variants = cell
            .recovery
            .iter_mut()
            .flat_map(|found| &mut found.variants);
        variants
            .flat_map(|variant| &mut variant.seconds)
            .for_each(without_histogram);
    }
    let mut value = serde_json::to_value(&record)?;
    round(&mut value);
    Ok(value)
}

/// Number of the step whose allowed and denied answers are drawn beside each other; the others need only both together.
fn told(cell: &Cell, histogram_digits: u8) -> Option<usize> {
    let step = telling_step(cell, &CellFindings::of(cell)).filter(|_| histogram_digits == 1)?;
    cell.steps
        .iter()
        .position(|other| std::ptr::eq(other, step))
}

fn without_histogram(second: &mut Second) {
    second.response_ns_base64 = None;
}

/// Rounds every number that is not whole to [`DIGITS`] significant digits, or to a whole one if that has more.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().unwrap_or_default();
            if (10_f64.powi(DIGITS as i32 - 1)..WHOLE_MAX).contains(&exact.abs()) {
                *number = Number::from(exact.round() as i64);
                return;
            }
            let rounded = format!("{exact:.*e}", DIGITS - 1).parse().ok();
            if let Some(rounded) = rounded.and_then(Number::from_f64) {
                *number = rounded;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        _ => {}
    }
}

fn packed(value: &Value) -> Result<String, RenderError> {
    let text = serde_json::to_string(&columns::taken_apart(value))?;
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
pub(crate) fn record_in(html: &str) -> Result<RunRecord, RenderError> {
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
        COMPRESSED => Ok(serde_json::from_str(&unpacked(text)?)?),
        BY_COLUMNS => {
            let columns = serde_json::from_str(&unpacked(text)?)?;
            let whole = columns::put_together(columns).ok_or_else(|| {
                RenderError("tollgate-record: its columns do not fit together".into())
            })?;
            Ok(serde_json::from_value(whole)?)
        }
        other => Err(RenderError(format!(
            "tollgate-record has the unknown encoding {other:?}"
        ))),
    }
}

fn unpacked(text: &str) -> Result<String, RenderError> {
    let broken = |error: &dyn std::fmt::Display| RenderError(format!("tollgate-record: {error}"));
    let packed = STANDARD
        .decode(text.trim())
        .map_err(|error| broken(&error))?;
    let mut text = String::new();
    ZlibDecoder::new(packed.as_slice())
        .take(INFLATED_MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| broken(&error))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_are_read() {
        let mut value = serde_json::json!([
            1234.56789012,
            919229.47,
            -0.000123456789,
            0.0,
            5e-324,
            1e300,
            7,
            "1.23456789",
            null
        ]);
        round(&mut value);
        assert_eq!(
            value,
            serde_json::json!([
                1234.6,
                919_229,
                -0.00012346,
                0.0,
                5e-324,
                1e300,
                7,
                "1.23456789",
                null
            ])
        );
    }
}
