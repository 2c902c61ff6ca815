//! Answers.

use std::borrow::Cow;

/// What a peer is told that asks whether its body is wanted.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Bytes of a head beyond its parts, roughly.
const HEAD_ROOM: usize = 160;

/// An answer to one request. Names and values of fields are taken as valid.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The code, of three digits.
    pub status: u16,
    /// The code in words.
    pub reason: &'a str,
    /// `content-type`.
    pub content_type: &'a str,
    /// Further fields.
    pub fields: &'a [(Cow<'static, str>, String)],
    /// `date`.
    pub date: &'a [u8],
    /// Left out where the request was HEAD; its length is told all the same.
    pub body: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>, is_http10: bool, keeps_alive: bool, head: bool) {
        out.reserve(HEAD_ROOM + self.content_type.len() + self.body.len());
        out.extend_from_slice(match is_http10 {
            true => b"HTTP/1.0 ",
            false => b"HTTP/1.1 ",
        });
        push_number(out, usize::from(self.status));
        out.push(b' ');
        out.extend_from_slice(self.reason.as_bytes());
        out.extend_from_slice(b"\r\ncontent-type: ");
        out.extend_from_slice(self.content_type.as_bytes());
        for (name, value) in self.fields {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
        }
        match (is_http10, keeps_alive) {
            (false, false) => out.extend_from_slice(b"\r\nconnection: close"),
            (true, true) => out.extend_from_slice(b"\r\nconnection: keep-alive"),
            _ => {}
        }
        out.extend_from_slice(b"\r\ncontent-length: ");
        push_number(out, self.body.len());
        out.extend_from_slice(b"\r\ndate: ");
        out.extend_from_slice(self.date);
        out.extend_from_slice(b"\r\n\r\n");
        if !head {
            out.extend_from_slice(self.body);
        }
    }
}

fn push_number(out: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        push_number(out, number / 10);
    }
    out.push(b'0' + (number % 10) as u8);
}
