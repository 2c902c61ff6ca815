//! gRPC status codes, and calls that end with one.

use tollgate_wire::http2::Session;

/// The codes this service answers with. `UNKNOWN` is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
}

/// A call that ends without a message.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
}

impl Status {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Ends the call with this status and no message.
    pub(super) fn send(&self, id: u32, session: &mut Session) {
        session.fail(id, self.code as u16, &self.encoded());
    }

    /// The message as it goes into a header field.
    pub(super) fn encoded(&self) -> String {
        percent_encoded(&self.message)
    }
}

/// Longest message of a status, in bytes of its text.
const MAX_MESSAGE: usize = 1_024;

/// gRPC's form of a message: printable ASCII but `%` as it is, every other byte as `%XX`.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes().take(MAX_MESSAGE) {
        match byte {
            b'%' | 0..0x20 | 0x7f.. => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                encoded.push('%');
                encoded.push(char::from(HEX[usize::from(byte >> 4)]));
                encoded.push(char::from(HEX[usize::from(byte & 15)]));
            }
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_printable_ascii() {
        assert_eq!(percent_encoded("a b: 100%"), "a b: 100%25");
        assert_eq!(percent_encoded("é\n\x7f"), "%C3%A9%0A%7F");
    }
}
