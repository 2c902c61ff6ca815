//! Answers: what a handler said in text, and frames.

use super::{HEAD_LEN, Head, Shows};
use crate::memcached::request::{Mode, Operation, Target};
use crate::memcached::{parse_u32, parse_u64};
use crate::resp::ReplyBuf;

/// First byte of an answer.
const MAGIC: u8 = 0x81;

/// How a request has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// As asked.
    #[default]
    Done,
    /// There is no such key.
    NotFound,
    /// There is one, or another state of it.
    Exists,
    /// The value is longer than allowed.
    TooLarge,
    /// The frame has not the shape of its operation.
    Invalid,
    /// There was nothing to put the value to.
    NotStored,
    /// What the key holds is no number.
    NotANumber,
    /// Who asks may not.
    Denied,
    /// There is no such operation.
    UnknownCommand,
    /// There is no memory for it.
    OutOfMemory,
    /// The server refuses for a reason of its own.
    Refused,
}

impl Status {
    /// Its number in a frame.
    fn code(self) -> u16 {
        match self {
            Status::Done => 0x00,
            Status::NotFound => 0x01,
            Status::Exists => 0x02,
            Status::TooLarge => 0x03,
            Status::Invalid => 0x04,
            Status::NotStored => 0x05,
            Status::NotANumber => 0x06,
            Status::Denied => 0x20,
            Status::UnknownCommand => 0x81,
            Status::OutOfMemory => 0x82,
            Status::Refused => 0x84,
        }
    }

    /// What a frame says beside it.
    fn text(self) -> &'static str {
        match self {
            Status::Done => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotANumber => "Non-numeric server-side value for incr or decr",
            Status::Denied => "Auth failure.",
            Status::UnknownCommand => "Unknown command",
            Status::OutOfMemory => "Out of memory",
            Status::Refused => "Internal error",
        }
    }
}

/// One frame of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer<'a> {
    /// How it ended.
    pub status: Status,
    /// The unique number of the state, 0 where there is none.
    pub cas: u64,
    /// The client flags, if they are shown.
    pub flags: Option<u32>,
    /// The key, if it is shown.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Answer<'a> {
    /// That it ended so, in the words that belong to it.
    pub fn of(status: Status) -> Answer<'static> {
        Answer {
            status,
            value: status.text().as_bytes(),
            ..Answer::default()
        }
    }

    /// A text or number.
    pub fn value(value: &'a [u8]) -> Answer<'a> {
        Answer {
            value,
            ..Answer::default()
        }
    }

    /// Writes it as the answer to a request.
    pub fn write(&self, head: Head, out: &mut ReplyBuf) {
        let extras = self.flags.map(u32::to_be_bytes);
        let extras = extras.as_ref().map_or(&[][..], |bytes| bytes);
        let body = extras.len() + self.key.len() + self.value.len();
        let mut frame = [0; HEAD_LEN];
        frame[0] = MAGIC;
        frame[1] = head.opcode;
        // Keys have at most 250 bytes, names of statistics fewer.
        frame[2..4].copy_from_slice(&(self.key.len() as u16).to_be_bytes());
        frame[4] = extras.len() as u8;
        frame[6..8].copy_from_slice(&self.status.code().to_be_bytes());
        frame[8..12].copy_from_slice(&(body as u32).to_be_bytes());
        frame[12..16].copy_from_slice(&head.opaque);
        frame[16..24].copy_from_slice(&self.cas.to_be_bytes());
        out.raw(&frame);
        out.raw(extras);
        out.raw(self.key);
        out.raw(self.value);
    }
}

/// What a handler's answer to `target` in text says, as a frame that shows so much. A number is left as its digits.
pub fn told<'a>(target: &'a Target<'_>, shows: Shows, text: &'a [u8]) -> Answer<'a> {
    let key = if shows.key { &*target.key } else { b"" };
    if target.operation == Operation::Get {
        return match found(target, text) {
            None if shows.key => Answer {
                status: Status::NotFound,
                key,
                ..Answer::default()
            },
            None => Answer::of(Status::NotFound),
            Some((flags, cas, value)) => Answer {
                cas,
                flags: Some(flags),
                key,
                value: if shows.value { value } else { b"" },
                ..Answer::default()
            },
        };
    }
    let (line, value) = cut(text);
    let status = match line.get(..2) {
        Some(b"HD" | b"VA") => Status::Done,
        Some(b"EX") => Status::Exists,
        Some(b"NF") => Status::NotFound,
        Some(b"NS") => match target.options.mode {
            Mode::Add => Status::Exists,
            Mode::Replace => Status::NotFound,
            Mode::Set | Mode::Append | Mode::Prepend => Status::NotStored,
        },
        _ => Status::NotANumber,
    };
    if status != Status::Done {
        return Answer::of(status);
    }
    let cas = line.split(|&b| b == b' ').find_map(|word| {
        let digits = word.strip_prefix(b"c")?;
        parse_u64(digits)
    });
    Answer {
        cas: cas.unwrap_or(0),
        value: value.strip_suffix(b"\r\n").unwrap_or(value),
        ..Answer::default()
    }
}

/// Flags, unique number and value out of an answer of `gets`; `None` when nothing was found.
fn found<'a>(target: &Target<'_>, text: &'a [u8]) -> Option<(u32, u64, &'a [u8])> {
    // Keys of this protocol may hold blanks and line ends.
    let rest = text.strip_prefix(b"VALUE ")?.strip_prefix(&*target.key)?;
    let (line, value) = cut(rest);
    let mut words = line.split(|&b| b == b' ').skip(1);
    let flags = parse_u32(words.next()?)?;
    let cas = words.nth(1).and_then(parse_u64)?;
    Some((flags, cas, value.strip_suffix(b"\r\n").unwrap_or(value)))
}

/// A first line without its end, and what follows.
fn cut(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memmem::find(text, b"\r\n") {
        Some(end) => (&text[..end], &text[end + 2..]),
        None => (text, b""),
    }
}
