//! Data structures of single values: strings, collections, number text, glob patterns.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod bits;
mod container;
mod dict;
pub mod digest;
pub mod geo;
pub mod glob;
pub mod hash;
pub mod hyperloglog;
pub mod lcs;
pub mod list;
pub mod listpack;
pub mod number;
mod pack;
pub mod set;
pub mod sorted_set;
mod str;
pub mod stream;

pub use crate::str::Str;
pub use container::Container;
