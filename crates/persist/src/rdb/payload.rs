//! Single values as DUMP gives them and RESTORE takes them.
//!
//! The payload is the type and the value as in a file, then the version of the format in two bytes and the checksum of all
//! before it in eight.

use std::fmt;

use tollgate_keyspace::{Value, ValueRef};

use super::{
    Dialect, Reader, Shapes, VERSION, VERSION_FIELDS, VERSION_MAX, Writer, encode, is_readable,
    kind,
};
use crate::crc64;

/// Bytes of version and checksum.
const FOOTER: usize = 10;

/// Why a payload holds no value. The texts are those of redis-server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadError {
    /// The footer does not fit what is before it, or is of a newer version.
    Footer,
    /// What is before it is no value.
    Value,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PayloadError::Footer => "DUMP payload version or checksum are wrong",
            PayloadError::Value => "Bad data format",
        })
    }
}

impl std::error::Error for PayloadError {}

/// The payload of a value. Its version is the first that knows the value's type.
pub fn dump_value(value: ValueRef<'_>) -> Vec<u8> {
    dump_value_as(value, true)
}

/// As [`dump_value`]; `compress`: long strings are compressed where that makes them shorter.
pub fn dump_value_as(value: ValueRef<'_>, compress: bool) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = Writer::bare(&mut payload, compress);
    let kind = encode::kind_of(value, Dialect::Redis);
    // A `Vec` takes whatever is written to it.
    drop(writer.bytes(&[kind]));
    drop(writer.value(value));
    drop(writer.end_bare());
    let version = match kind {
        kind::HASH_EXPIRING | kind::HASH_LISTPACK_EXPIRING => VERSION_FIELDS,
        kind::STREAM_4 => VERSION_MAX,
        _ => VERSION,
    };
    payload.extend_from_slice(&(version as u16).to_le_bytes());
    let checksum = crc64::update(0, &payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// Bytes of the value alone, as a file holds it, without its type: the `serializedlength` of DEBUG OBJECT.
pub fn serialized_len(value: ValueRef<'_>, compress: bool) -> usize {
    dump_value_as(value, compress).len() - 1 - FOOTER
}

/// The value in a payload.
///
/// # Errors
///
/// The payload is damaged, newer than this program, or holds what no key can.
pub fn restore_value(payload: &[u8], shapes: &Shapes) -> Result<Value, PayloadError> {
    let (body, footer, version) = parts(payload)?;
    let checksum = crc64::update(crc64::update(0, body), &footer[..2]);
    if checksum.to_le_bytes() != footer[2..] {
        return Err(PayloadError::Footer);
    }
    restore(body, version, shapes)
}

/// The same of a payload whose checksum is not looked at.
///
/// # Errors
///
/// As [`restore_value`], but for the checksum.
pub fn restore_unchecked(payload: &[u8], shapes: &Shapes) -> Result<Value, PayloadError> {
    let (body, _, version) = parts(payload)?;
    restore(body, version, shapes)
}

/// The value's bytes, the footer, and the version that it tells.
fn parts(payload: &[u8]) -> Result<(&[u8], &[u8; FOOTER], u32), PayloadError> {
    let (body, footer) = payload
        .split_last_chunk::<FOOTER>()
        .ok_or(PayloadError::Footer)?;
    let version = u32::from(u16::from_le_bytes([footer[0], footer[1]]));
    // Version 0 was never written; Redis takes it.
    if version != 0 && !is_readable(version) {
        return Err(PayloadError::Footer);
    }
    Ok((body, footer, version))
}

/// The value in a payload whose footer was taken off.
///
/// # Errors
///
/// What is there is no value that a key can hold.
pub fn restore_body(body: &[u8], shapes: &Shapes) -> Result<Value, PayloadError> {
    restore(body, VERSION_MAX, shapes)
}

fn restore(body: &[u8], version: u32, shapes: &Shapes) -> Result<Value, PayloadError> {
    let mut left = body;
    let mut reader = Reader::bare(&mut left, version);
    let value = reader
        .byte()
        .and_then(|kind| reader.value(kind, shapes))
        .map_err(|_| PayloadError::Value)?;
    value.ok_or(PayloadError::Value)
}
