//! RDB files, version 10: what redis-server 7.0 writes and reads.
//!
//! Values are stored as redis-server stores them, and every type and encoding of versions 1 to 13 and of Valkey's is read. A rate limiter
//! has no counterpart there: each is an auxiliary field, which redis-server skips when it loads the file and this program
//! reads back exactly. A module's values are an error that names the key.

mod decode;
mod decode_stream;
mod draft;
mod encode;
mod error;
mod history;
mod libraries;
mod limiter;
mod packed;
mod payload;
mod reader;
mod shapes;
mod writer;

pub use draft::Draft;
pub use error::RdbError;
pub use history::History;
pub use libraries::{LibrariesError, dump_libraries, read_libraries};
pub use limiter::{FLAGS_FIELD, LIMITER_FIELD};
pub use payload::{
    PayloadError, dump_value, dump_value_as, restore_body, restore_unchecked, restore_value,
    serialized_len,
};
pub use reader::{Entry, Reader};
pub use shapes::Shapes;
pub use writer::{Dialect, Options, Writer};

/// Version that is written.
pub const VERSION: u32 = 10;

/// The version of Redis that brought hashes whose fields expire.
const VERSION_FIELDS: u32 = 12;

/// Newest version of Redis that is read; it brought streams that remember the IDs of producers.
pub(crate) const VERSION_MAX: u32 = 13;

/// The version of Valkey 9, which went its own way from version 11 on: it has one form of hashes whose fields expire.
pub(crate) const VERSION_VALKEY: u32 = 80;

/// Longest string that is read, bytes: the most that `proto-max-bulk-len` can be. What it was when a file was written need
/// not be what it is when that is read.
pub(crate) const STRING_MAX: usize = tollgate_wire::resp::BULK_MAX;

/// Before the version, of four digits.
const MAGIC: &[u8] = b"REDIS";

/// Before the version, of three digits, from [`VERSION_VALKEY`] on.
const MAGIC_VALKEY: &[u8] = b"VALKEY";

/// Whether a version can be read.
fn is_readable(version: u32) -> bool {
    matches!(version, 1..=VERSION_MAX | VERSION_VALKEY)
}

/// What stands before an element.
mod opcode {
    /// Of a cluster's slot: its number, keys and expiring keys.
    pub(super) const SLOT_INFO: u8 = 244;
    pub(super) const FUNCTION2: u8 = 245;
    pub(super) const FUNCTION_PRE_GA: u8 = 246;
    pub(super) const MODULE_AUX: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQ: u8 = 249;
    pub(super) const AUX: u8 = 250;
    pub(super) const RESIZE_DB: u8 = 251;
    pub(super) const EXPIRE_TIME_MS: u8 = 252;
    pub(super) const EXPIRE_TIME: u8 = 253;
    pub(super) const SELECT_DB: u8 = 254;
    pub(super) const EOF: u8 = 255;
}

/// Types of values.
mod kind {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const SORTED_SET: u8 = 3;
    pub(super) const HASH: u8 = 4;
    /// With binary scores.
    pub(super) const SORTED_SET_2: u8 = 5;
    pub(super) const MODULE: u8 = 6;
    pub(super) const MODULE_2: u8 = 7;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const QUICKLIST: u8 = 14;
    pub(super) const STREAM: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const SORTED_SET_LISTPACK: u8 = 17;
    pub(super) const QUICKLIST_2: u8 = 18;
    /// With the first and the highest deleted ID, entries added and entries read.
    pub(super) const STREAM_2: u8 = 19;
    pub(super) const SET_LISTPACK: u8 = 20;
    /// With the active time of consumers.
    pub(super) const STREAM_3: u8 = 21;
    pub(super) const HASH_EXPIRING_PRE_GA: u8 = 22;
    /// What Valkey means by the same number.
    pub(super) const HASH_EXPIRING_VALKEY: u8 = HASH_EXPIRING_PRE_GA;
    pub(super) const HASH_LISTPACK_EXPIRING_PRE_GA: u8 = 23;
    pub(super) const HASH_EXPIRING: u8 = 24;
    pub(super) const HASH_LISTPACK_EXPIRING: u8 = 25;
    /// With the IDs that producers have given their messages.
    pub(super) const STREAM_4: u8 = 26;
    /// A rate limiter in a payload: one string that holds its state.
    pub(super) const LIMITER: u8 = 200;
}

/// How the first byte of a length is read.
mod length {
    pub(super) const SIX_BITS: u8 = 0;
    pub(super) const FOURTEEN_BITS: u8 = 1;
    pub(super) const SPECIAL: u8 = 3;
    pub(super) const THIRTY_TWO_BITS: u8 = 0x80;
    pub(super) const SIXTY_FOUR_BITS: u8 = 0x81;
    pub(super) const INT8: u8 = 0;
    pub(super) const INT16: u8 = 1;
    pub(super) const INT32: u8 = 2;
    pub(super) const LZF: u8 = 3;
}
