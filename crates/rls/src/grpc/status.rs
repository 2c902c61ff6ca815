//! gRPC status codes, and responses that carry nothing else.

use bytes::Bytes;
use h2::server::SendResponse;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
pub(super) const GRPC_CONTENT: HeaderValue = HeaderValue::from_static("application/grpc");

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

impl Code {
    /// Ends a call that succeeded.
    pub(super) fn ok(trailers: &mut HeaderMap) {
        trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    }
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
    pub(super) fn send(self, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
        let mut response = Response::new(());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, GRPC_CONTENT);
        self.write(headers);
        respond.send_response(response, true).map(drop)
    }

    /// As header fields, or as those after the last message.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        if self.code == Code::Unimplemented {
            headers.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if let Ok(message) = HeaderValue::from_str(&percent_encoded(&self.message)) {
            headers.insert(GRPC_MESSAGE, message);
        }
    }
}

/// Ends a request that is not gRPC at all.
pub(super) fn refuse(
    status: StatusCode,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    respond.send_response(response, true).map(drop)
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
