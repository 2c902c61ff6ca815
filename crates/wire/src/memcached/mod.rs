//! Memcached's text protocol with its meta commands, as the server reads and answers it.
//!
//! The source is `doc/protocol.txt` of memcached 1.6, and for what it leaves open (the texts of errors, which bytes are taken for
//! the data of a command that was refused) the behaviour of memcached 1.6.18. [`binary`] is the older binary protocol.

mod base64;
pub mod binary;
mod line;
mod meta;
mod number;
mod reader;
mod reply;
mod request;

pub use base64::{decode as decode_base64, encode as encode_base64};
pub use line::item_bytes;
pub use number::parse_u64;
pub(crate) use number::{parse_i32, parse_u32};
pub use reader::{Limits, Read, Reader};
pub use reply::{BAD_CHUNK, BAD_FORMAT, Digits, TOO_LARGE, digits};
pub use request::{
    Classes, Crawler, Detail, Flags, Keys, Mode, Operation, Options, Request, Retrieval, Stats,
    Style, Target,
};

/// Longest key in bytes, as it is stored.
pub const KEY_MAX: usize = 250;

/// Longest opaque token in bytes, its flag included.
const OPAQUE_MAX: usize = 32;

#[cfg(test)]
mod tests;
