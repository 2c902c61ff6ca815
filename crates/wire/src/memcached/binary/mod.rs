//! Memcached's binary protocol: frames with a fixed head in place of lines.
//!
//! The source is `protocol_binary.h` and `proto_bin.c` of memcached 1.6.18. A frame about an item becomes the same [`Target`] as a
//! line would, and what was answered to it in text becomes a frame again ([`told`]).

mod answer;
mod opcode;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Status, told};

use std::borrow::Cow;

use super::line::fits;
use super::reader::{CREDENTIALS_MAX, Limits};
use super::request::{Detail, Stats, Target};
use super::{KEY_MAX, parse_u32};
use opcode::{Kind, kind_of};

/// First byte of a request. No line begins with it, so the first byte of a connection tells the protocol.
pub const MAGIC: u8 = 0x80;

/// Bytes of the head of every frame.
pub(super) const HEAD_LEN: usize = 24;

/// What an answer repeats of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The operation as it was asked for.
    pub opcode: u8,
    /// Four bytes that mean something to the client alone.
    pub opaque: [u8; 4],
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<'a> {
    /// What the answer repeats.
    pub head: Head,
    /// What is not told: nothing of success, and of a key that is not there when it is read.
    pub quiet: bool,
    /// What is asked.
    pub ask: Ask<'a>,
}

/// What a request asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask<'a> {
    /// Something about one item.
    Item {
        /// As a line would have it.
        target: Target<'a>,
        /// What of it the answer shows.
        shows: Shows,
    },
    /// A value that is too long was announced, and is passed over.
    TooLarge {
        /// Its key.
        key: &'a [u8],
        /// What the key holds is to go, so that nobody takes it for the new value.
        removes: bool,
    },
    /// What can be no request: the answer, and whether the connection ends with it.
    Refused(Status, bool),
    /// All items go, at once or in so many seconds.
    FlushAll(i32),
    /// The version.
    Version,
    /// Nothing but an answer.
    Noop,
    /// Statistics; `None` are some that there are not.
    Stats(Option<Stats>),
    /// How clients may log in.
    Mechanisms,
    /// User and password; `None` when they are given in a way that is not offered.
    LogIn(Option<(&'a [u8], &'a [u8])>),
    /// The end of the connection.
    Quit,
}

/// What of an item an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shows {
    /// Its key.
    pub key: bool,
    /// Its value.
    pub value: bool,
}

/// What stands at the front of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// A request, and how many bytes it took.
    Call(Call<'a>, usize),
    /// Nothing whole. So many bytes are done with; so many more are missing at least.
    Incomplete {
        /// Bytes that were passed over.
        consumed: usize,
        /// Bytes that must still arrive; 0 = not known.
        needed: usize,
    },
    /// No frame of this protocol: the connection is to be closed.
    Broken,
}

/// Reads frames; between two calls it knows only how much is to be passed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reader {
    /// Bytes of a body that nobody wants and that are still to come; a length fits 32 bits.
    ignored: u32,
}

/// The head of a request, in numbers.
struct Announced {
    head: Head,
    key: usize,
    extras: usize,
    body: usize,
    cas: u64,
}

impl Announced {
    fn of(frame: &[u8; HEAD_LEN]) -> Announced {
        let [
            _,
            opcode,
            k0,
            k1,
            extras,
            _,
            _,
            _,
            b0,
            b1,
            b2,
            b3,
            o0,
            o1,
            o2,
            o3,
            cas @ ..,
        ] = *frame;
        Announced {
            head: Head {
                opcode,
                opaque: [o0, o1, o2, o3],
            },
            key: usize::from(u16::from_be_bytes([k0, k1])),
            extras: usize::from(extras),
            body: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            cas: u64::from_be_bytes(cas),
        }
    }

    fn call<'a>(&self, quiet: bool, ask: Ask<'a>) -> Call<'a> {
        Call {
            head: self.head,
            quiet,
            ask,
        }
    }
}

/// The parts of a frame behind its head.
struct Body<'a> {
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    cas: u64,
}

impl<'a> Body<'a> {
    fn new(announced: &Announced, bytes: &'a [u8]) -> Body<'a> {
        let (extras, rest) = bytes.split_at(announced.extras);
        let (key, value) = rest.split_at(announced.key);
        Body {
            extras,
            key,
            value,
            cas: announced.cas,
        }
    }

    /// Four bytes of the extras as a number; 0 when they are absent.
    fn word(&self, at: usize) -> u32 {
        let bytes = self.extras.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().map_or(0, u32::from_be_bytes)
    }

    /// Eight of them.
    fn long(&self, at: usize) -> u64 {
        let bytes = self.extras.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().map_or(0, u64::from_be_bytes)
    }
}

/// Seconds as sent, as the other protocol says them: there they have a sign.
fn seconds(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl Reader {
    /// Reads the frame at the front of `input`, which begins where the last one ended.
    pub fn read<'a>(&mut self, input: &'a [u8], limits: &Limits) -> Read<'a> {
        let skipped = (self.ignored as usize).min(input.len());
        self.ignored -= skipped as u32;
        let rest = &input[skipped..];
        let incomplete = |needed| Read::Incomplete {
            consumed: skipped,
            needed,
        };
        if rest.first().is_some_and(|&magic| magic != MAGIC) {
            return Read::Broken;
        }
        let Some((frame, behind)) = rest.split_first_chunk::<HEAD_LEN>() else {
            return incomplete(match rest.len() {
                0 => 0,
                len => HEAD_LEN - len,
            });
        };
        let head = Announced::of(frame);
        let start = skipped + HEAD_LEN;
        let Some(body) = head.body.checked_sub(head.key + head.extras) else {
            let ask = Ask::Refused(Status::UnknownCommand, true);
            return Read::Call(head.call(false, ask), start);
        };
        let invalid = Ask::Refused(Status::Invalid, true);
        if head.key > KEY_MAX {
            return Read::Call(head.call(false, invalid), start);
        }
        let Some((kind, quiet)) = kind_of(head.head.opcode) else {
            self.ignored = head.body as u32;
            let ask = Ask::Refused(Status::UnknownCommand, false);
            return Read::Call(head.call(false, ask), start);
        };
        if !kind.takes(head.extras, head.key, body) {
            return Read::Call(head.call(quiet, invalid), start);
        }
        if kind.stores() {
            let most = head.extras + head.key;
            let Some(first) = behind.get(..most) else {
                return incomplete(most - behind.len());
            };
            let parts = Body::new(&head, first);
            let flags = kind.flags(&parts);
            if !fits(body, parts.key, flags, limits.item_max) {
                self.ignored = body as u32;
                let ask = Ask::TooLarge {
                    key: parts.key,
                    removes: kind == Kind::Set,
                };
                return Read::Call(head.call(quiet, ask), start + most);
            }
        }
        let Some(bytes) = behind.get(..head.body) else {
            return incomplete(head.body - behind.len());
        };
        let ask = kind.ask(Body::new(&head, bytes), quiet, limits.item_max);
        Read::Call(head.call(quiet, ask), start + head.body)
    }
}

/// Which statistics a key asks for.
fn stats_of(key: &[u8]) -> Option<Stats> {
    let mut words = key.split(|&b| b == b' ').filter(|word| !word.is_empty());
    Some(match words.next() {
        None => Stats::General,
        Some(b"settings") => Stats::Settings,
        Some(b"items") => Stats::Items,
        Some(b"slabs") => Stats::Slabs,
        Some(b"sizes") => Stats::Sizes,
        Some(b"conns") => Stats::Connections,
        Some(b"reset") => Stats::Reset,
        Some(b"detail") => Stats::Detail(Detail::of(words.next()?)?),
        Some(b"cachedump") => Stats::Dump {
            class: parse_u32(words.next()?)?,
            limit: parse_u32(words.next()?)?,
        },
        Some(_) => return None,
    })
}

/// User and password as the mechanism PLAIN sends them: behind a name that stands for nobody else.
fn plain(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = data.splitn(3, |&b| b == 0).skip(1);
    parts.next().zip(parts.next())
}

/// A key as a [`Target`] has it.
fn owned(key: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(key)
}
