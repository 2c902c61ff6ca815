//! Why a file cannot be read.

use std::fmt;
use std::io;

/// Why a file cannot be read. Offsets are bytes from the start of the file.
#[derive(Debug)]
pub enum RdbError {
    /// Reading failed.
    Io(io::Error),
    /// The file does not begin as an RDB file does.
    NotRdb,
    /// A version this program does not know.
    Version {
        /// As the file says.
        found: u32,
    },
    /// The file ends in the middle of something.
    Truncated {
        /// Where it ends.
        offset: u64,
    },
    /// Bytes that no writer would produce.
    Corrupt {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The checksum at the end does not fit the bytes before it.
    Checksum {
        /// As the file says.
        found: u64,
        /// Of the bytes that were read.
        computed: u64,
    },
    /// A library of functions cannot be loaded.
    Library {
        /// What FUNCTION LOAD would answer.
        reason: String,
    },
    /// The key is in the store already.
    Exists {
        /// Which.
        key: Vec<u8>,
    },
    /// A type of value that this program does not hold.
    Type {
        /// The type's name.
        name: &'static str,
        /// The key; of a library or a module its kind.
        key: Vec<u8>,
    },
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RdbError::Io(error) => write!(f, "reading the file: {error}"),
            RdbError::NotRdb => {
                f.write_str("not an RDB file: it does not begin with REDIS or VALKEY and a version")
            }
            RdbError::Version { found } => {
                write!(
                    f,
                    "RDB version {found}; versions 1 to {} of Redis and {} of Valkey can be read",
                    super::VERSION_MAX,
                    super::VERSION_VALKEY
                )
            }
            RdbError::Truncated { offset } => write!(f, "the file is cut off at byte {offset}"),
            RdbError::Corrupt { offset, what } => write!(f, "{what} at byte {offset}"),
            RdbError::Checksum { found, computed } => write!(
                f,
                "CRC error: the checksum is {found:016x} and that of the content {computed:016x}: the file is damaged"
            ),
            RdbError::Library { reason } => {
                write!(f, "a library of functions cannot be loaded: {reason}")
            }
            RdbError::Exists { key } => {
                write!(f, "key '{}' is there already", key.escape_ascii())
            }
            RdbError::Type { name, key } => {
                write!(
                    f,
                    "key '{}' holds a {name}, a type that is not supported",
                    key.escape_ascii()
                )
            }
        }
    }
}

impl std::error::Error for RdbError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RdbError::Io(error) => Some(error),
            _ => None,
        }
    }
}
