//! Codecs of stored state: the RDB file format, and append-only files.
//!
//! Pure: bytes come from a [`std::io::Read`] and go to a [`std::io::Write`] that the caller opens.

#![forbid(unsafe_code)]

pub mod aof;
mod crc64;
mod lzf;
pub mod rdb;
