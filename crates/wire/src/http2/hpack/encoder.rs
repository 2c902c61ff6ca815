//! Writes header fields of answers.

use super::{CONTENT_TYPE_INDEX, STATIC, STATIC_TABLE, TABLE_MAX};

/// Fields that answers have in common, kept in the peer's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// `content-type: application/grpc`.
    Grpc,
    /// `grpc-status: 0`.
    Ok,
}

impl Common {
    const ALL: [Self; 2] = [Self::Grpc, Self::Ok];

    fn field(self) -> (&'static str, &'static str) {
        match self {
            Self::Grpc => ("content-type", "application/grpc"),
            Self::Ok => ("grpc-status", "0"),
        }
    }
}

/// Texts of refusals that are kept in the peer's table, at most, and their longest.
const KEPT_TEXTS: usize = 8;
const KEPT_LEN_MAX: usize = 128;
/// What all that is ever kept takes: nothing is pushed out of a table of this size.
const TABLE_NEEDED: usize = 2_048;

/// Writes the header fields of answers. What is said again and again is kept in the peer's table, once for a connection.
#[derive(Debug)]
pub struct Encoder {
    /// What was put into the peer's table, in this order.
    kept: Vec<Kept>,
    is_on: bool,
    max: usize,
    /// The table's size is to be told with the next block.
    tell: Option<usize>,
    /// The refusal that was written last, all of it in the peer's table; good for as long as nothing is added there.
    short: Option<Short>,
}

/// A whole block of a refusal.
#[derive(Debug)]
struct Short {
    status: u16,
    message: &'static str,
    bytes: [u8; SHORT],
}

/// Bytes of a block of four fields that are all in the table, whose places there are below 127.
const SHORT: usize = 4;

#[derive(Debug, PartialEq, Eq)]
enum Kept {
    Common(Common),
    Status(u16),
    Message(&'static str),
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            is_on: true,
            max: TABLE_MAX,
            tell: None,
            short: None,
        }
    }
}

impl Encoder {
    /// The peer wants its table no larger than `size`.
    pub fn resize(&mut self, size: usize) {
        if size >= self.max {
            return;
        }
        self.max = size;
        if size < TABLE_NEEDED {
            self.is_on = false;
            self.kept.clear();
            self.max = 0;
        }
        self.tell = Some(self.max);
        self.short = None;
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(size) = self.tell.take() {
            put_integer(out, 0x20, 5, size);
        }
    }

    /// `:status`, which begins a block.
    pub(crate) fn http_status(&mut self, status: u16, out: &mut Vec<u8>) {
        self.begin(out);
        if status == 200 {
            out.push(0x80 | 8);
        } else {
            // Without indexing, named by the static table.
            out.push(8);
            put_text(out, status.to_string().as_bytes());
        }
    }

    /// A field of every answer.
    pub fn common(&mut self, field: Common, out: &mut Vec<u8>) {
        self.begin(out);
        let (name, value) = field.field();
        self.keep(&Kept::Common(field), name, value.as_bytes(), out);
    }

    /// The whole block of a refusal, with a text that is the same each time.
    pub fn refusal(&mut self, status: u16, message: &'static str, out: &mut Vec<u8>) {
        if let Some(short) = &self.short
            && short.status == status
            && std::ptr::eq(short.message, message)
        {
            return out.extend_from_slice(&short.bytes);
        }
        let (from, kept, tells) = (out.len(), self.kept.len(), self.tell.is_some());
        self.http_status(200, out);
        self.common(Common::Grpc, out);
        let value = status.to_string();
        self.keep(&Kept::Status(status), "grpc-status", value.as_bytes(), out);
        let value = message.as_bytes();
        self.keep(&Kept::Message(message), "grpc-message", value, out);
        let written = <[u8; SHORT]>::try_from(&out[from..]).ok();
        let bytes = written.filter(|_| kept == self.kept.len() && !tells);
        self.short = bytes.map(|bytes| Short {
            status,
            message,
            bytes,
        });
    }

    fn keep(&mut self, what: &Kept, name: &str, value: &[u8], out: &mut Vec<u8>) {
        if let Some(at) = self.kept.iter().position(|kept| kept == what) {
            // The newest has the lowest index.
            put_integer(out, 0x80, 7, STATIC + self.kept.len() - at);
            return;
        }
        let room = self.kept.len() < Common::ALL.len() + KEPT_TEXTS;
        if !self.is_on || !room || value.len() > KEPT_LEN_MAX {
            return literal(name, value, out);
        }
        self.short = None;
        self.kept.push(match what {
            Kept::Common(field) => Kept::Common(*field),
            Kept::Status(status) => Kept::Status(*status),
            Kept::Message(text) => Kept::Message(text),
        });
        put_name(out, 0x40, 6, name);
        put_text(out, value);
    }
}

/// A field that is kept nowhere.
pub fn literal(name: &str, value: &[u8], out: &mut Vec<u8>) {
    put_name(out, 0, 4, name);
    put_text(out, value);
}

pub(super) fn put_name(out: &mut Vec<u8>, first: u8, bits: u32, name: &str) {
    if name == STATIC_TABLE[CONTENT_TYPE_INDEX - 1].0 {
        put_integer(out, first, bits, CONTENT_TYPE_INDEX);
    } else {
        out.push(first);
        put_text(out, name.as_bytes());
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

pub(super) fn put_integer(out: &mut Vec<u8>, first: u8, bits: u32, number: usize) {
    let mask = (1_usize << bits) - 1;
    if number < mask {
        out.push(first | number as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut rest = number - mask;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}
