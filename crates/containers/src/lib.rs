//! Data structures of single values: strings, number text, glob patterns.

pub mod glob;
pub mod number;
mod str;

pub use crate::str::Str;
