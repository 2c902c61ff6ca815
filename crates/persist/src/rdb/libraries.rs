//! Libraries of functions as FUNCTION DUMP gives them and FUNCTION RESTORE takes them.
//!
//! The payload is the part of an RDB file that holds the libraries, then the version of the format in two bytes and the
//! checksum of all before it in eight.

use std::fmt;

use super::{RdbError, Reader, VERSION, Writer, is_readable, opcode};
use crate::crc64;

/// Bytes of version and checksum.
const FOOTER: usize = 10;

/// Why a payload holds no libraries. The texts are those of redis-server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibrariesError {
    /// The footer does not fit what is before it.
    Footer,
    /// There is something else in it.
    Type,
    /// A library is cut off or damaged.
    Library,
}

impl fmt::Display for LibrariesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LibrariesError::Footer => "DUMP payload version or checksum are wrong",
            LibrariesError::Type => "given type is not a function",
            LibrariesError::Library => "Failed loading library payload",
        })
    }
}

impl std::error::Error for LibrariesError {}

/// The payload that holds the libraries of this code.
pub fn dump_libraries<'a>(codes: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = Writer::bare(&mut payload, true);
    for code in codes {
        // A `Vec` takes whatever is written to it.
        drop(writer.lua_library(code));
    }
    drop(writer.end_bare());
    payload.extend_from_slice(&(VERSION as u16).to_le_bytes());
    let checksum = crc64::update(0, &payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// The code of the libraries in a payload.
///
/// # Errors
///
/// The payload is damaged, newer than this program, or of something else.
pub fn read_libraries(payload: &[u8]) -> Result<Vec<Vec<u8>>, LibrariesError> {
    let (body, footer) = payload
        .split_last_chunk::<FOOTER>()
        .ok_or(LibrariesError::Footer)?;
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let checksum = crc64::update(crc64::update(0, body), &footer[..2]);
    let known = version == 0 || is_readable(u32::from(version));
    if !known || checksum.to_le_bytes() != footer[2..] {
        return Err(LibrariesError::Footer);
    }
    let mut left = body;
    let mut reader = Reader::bare(&mut left, u32::from(version));
    let mut codes = Vec::new();
    while reader.offset() < body.len() as u64 {
        let kind = reader.byte().map_err(|_| LibrariesError::Type)?;
        let code = read_library(&mut reader, kind).map_err(|_| LibrariesError::Library)?;
        codes.push(code.ok_or(LibrariesError::Type)?);
    }
    Ok(codes)
}

/// The code of the library behind its opcode; `None` when the opcode is another one.
pub(super) fn read_library(reader: &mut Reader<'_>, kind: u8) -> Result<Option<Vec<u8>>, RdbError> {
    match kind {
        opcode::FUNCTION2 => reader.string().map(Some),
        // As the release candidates of 7.0 wrote it: what is now the first line comes apart from the code.
        opcode::FUNCTION_PRE_GA => {
            let name = reader.string()?;
            let engine = reader.string()?;
            if reader.plain_length()? != 0 {
                reader.string()?;
            }
            let code = reader.string()?;
            Ok(Some(
                [b"#!", &engine[..], b" name=", &name, b"\n", &code].concat(),
            ))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_gives_back_its_libraries() {
        let codes: [&[u8]; 3] = [b"#!lua name=a\n", b"", &[b'x'; 100_000]];
        let payload = dump_libraries(codes.into_iter());
        assert_eq!(read_libraries(&payload).unwrap(), codes);
        assert_eq!(dump_libraries(std::iter::empty()).len(), FOOTER);
    }

    /// FUNCTION DUMP of redis-server 7.0.15.
    #[test]
    fn payloads_of_redis_are_read_and_written() {
        let code = b"#!lua name=one\nredis.register_function(\"one\", function() return 1 end)";
        let mut payload = b"\xf5\x40\x46".to_vec();
        payload.extend_from_slice(code);
        payload.extend_from_slice(b"\x0a\x00\xba\x6b\x02\xb5\x97\xeb\x0c\xaa");
        assert_eq!(read_libraries(&payload).unwrap(), [code]);
        assert_eq!(dump_libraries([&code[..]].into_iter()), payload);
    }

    #[test]
    fn nothing_wrong_is_accepted() {
        let payload = dump_libraries([&b"#!lua name=a\nreturn 1"[..]].into_iter());
        for at in 0..payload.len() {
            let mut wrong = payload.clone();
            wrong[at] ^= 0x10;
            assert_eq!(read_libraries(&wrong), Err(LibrariesError::Footer));
            assert_eq!(
                read_libraries(&payload[..at]),
                Err(LibrariesError::Footer),
                "cut at {at}"
            );
        }
    }
}
