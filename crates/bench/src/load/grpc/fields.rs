//! What the header fields of a reply say of an error.
//!
//! The fields of most replies refer to the server's table and change nothing in it: they are told apart by a look at their
//! bytes. Only what is written out is read, because the table has to be followed up to the first error.

use tollgate_wire::http2::hpack::{Decoder, Meaning};

use super::{END_HEADERS, unpadded};

/// Set where five bytes of a priority stand before the fields.
const PRIORITY: u8 = 0x20;
const PRIORITY_LENGTH: usize = 5;
/// First bit of a field that is in the table.
const INDEXED: u8 = 0x80;
/// A number that goes on in the next byte.
const LONG_INDEX: u8 = 0xff;

/// Names of the codes, from 1 on.
const CODES: [&str; 16] = [
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The fields of one connection's replies.
pub(super) struct Fields {
    /// `None` once a block was not whole: what later ones refer to is not known then.
    table: Option<Decoder>,
}

impl Fields {
    pub(super) fn new() -> Fields {
        Fields {
            table: Some(Decoder::default()),
        }
    }

    /// Reads the payload of a HEADERS frame; gives the error that it writes out.
    #[inline]
    pub(super) fn read(&mut self, flags: u8, payload: &[u8]) -> Option<String> {
        let known = |byte: &u8| byte & INDEXED != 0 && *byte != LONG_INDEX;
        if flags == flags & (END_HEADERS | super::END_STREAM) && payload.iter().all(known) {
            return None;
        }
        self.follow(flags, payload)
    }

    fn follow(&mut self, flags: u8, payload: &[u8]) -> Option<String> {
        let mut table = self.table.take()?;
        let block = unpadded(flags, payload).ok()?;
        let before = if flags & PRIORITY == 0 {
            0
        } else {
            PRIORITY_LENGTH
        };
        let block = block.get(before..)?;
        let (mut code, mut message) = (None, String::new());
        let read = table.read(block, |meaning, value, _| match meaning {
            Meaning::GrpcStatus => {
                let text = std::str::from_utf8(value.bytes()).ok();
                code = text.and_then(|text| text.parse::<usize>().ok());
            }
            Meaning::GrpcMessage => message = String::from_utf8_lossy(value.bytes()).into_owned(),
            _ => {}
        });
        self.table = Some(table).filter(|_| read.is_ok() && flags & END_HEADERS != 0);
        let code = code.filter(|code| *code > 0)?;
        let name = CODES.get(code - 1).copied().unwrap_or("of no known name");
        Some(match message.is_empty() {
            true => format!("gRPC status {code} ({name})"),
            false => format!("gRPC status {code} ({name}): {message}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_wire::http2::hpack::literal;

    use super::*;

    #[test]
    fn the_error_is_told_once_the_table_was_followed() {
        let mut fields = Fields::new();
        // `:status 200`, and a content type that goes into the table, so that later replies name it by a number.
        let first = [&[0x88, 0x5f, 16][..], b"application/grpc"].concat();
        assert_eq!(fields.read(END_HEADERS, &first), None);
        assert_eq!(fields.read(END_HEADERS, &[0x88, 0xbe]), None);
        let mut refused = vec![0x88, 0xbe];
        literal("grpc-status", b"8", &mut refused);
        literal("grpc-message", b"too late", &mut refused);
        let told = Some("gRPC status 8 (RESOURCE_EXHAUSTED): too late".to_owned());
        assert_eq!(fields.read(END_HEADERS, &refused), told);
        let priority = [&[0, 0, 0, 0, 1][..], &refused].concat();
        assert_eq!(fields.read(END_HEADERS | PRIORITY, &priority), told);
        let mut fine = Vec::new();
        literal("grpc-status", b"0", &mut fine);
        assert_eq!(fields.read(END_HEADERS, &fine), None);
        let mut odd = Vec::new();
        literal("grpc-status", b"99", &mut odd);
        let told = Some("gRPC status 99 (of no known name)".to_owned());
        assert_eq!(fields.read(END_HEADERS, &odd), told);
        // A block that goes on elsewhere is the last that is followed.
        assert_eq!(fields.read(0, &fine), None);
        assert_eq!(fields.read(END_HEADERS, &refused), None);
    }
}
