//! Append-only files as Redis 7 keeps them: a manifest names a base and the files of commands behind it.
//!
//! The base is an RDB file or, as all files of Redis before 7, commands, which an RDB file may precede. Files of commands
//! hold them as clients send them, with annotations of time in between ([`Records`]).

mod manifest;
mod records;

pub use manifest::{FileKind, Manifest, ManifestError, NamedFile};
pub use records::{Record, Records, RecordsError};
