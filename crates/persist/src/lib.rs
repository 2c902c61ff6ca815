//! Codecs of stored state: the RDB file format.
//!
//! Pure: bytes come from a [`std::io::Read`] and go to a [`std::io::Write`] that the caller opens.

#![forbid(unsafe_code)]

mod crc64;
mod lzf;
pub mod rdb;
