//! RDB files, version 10: what redis-server 7.0 writes and reads.
//!
//! Strings are stored as redis-server stores them. A rate limiter has no counterpart there: each is an auxiliary
//! field, which redis-server skips when it loads the file and this program reads back exactly. Other types of values in
//! a file are an error that names the type and the key.

mod error;
mod libraries;
mod limiter;
mod reader;
mod writer;

pub use error::RdbError;
pub use libraries::{LibrariesError, dump_libraries, read_libraries};
pub use limiter::LIMITER_FIELD;
pub use reader::{Entry, Reader};
pub use writer::Writer;

/// Version that is written.
pub const VERSION: u32 = 10;

/// Newest version that is read: later ones differ in types this program does not hold, which are errors by themselves.
pub const VERSION_MAX: u32 = 12;

/// Longest string that is read, bytes (`proto-max-bulk-len` of the servers that write such files).
pub const STRING_MAX: usize = 512 << 20;

/// Before the version.
const MAGIC: &[u8; 5] = b"REDIS";

/// What stands before an element.
mod opcode {
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

/// Type of a string value.
const TYPE_STRING: u8 = 0;

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
