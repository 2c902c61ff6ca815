//! What a key can hold.

use tollgate_containers::{Str, number};
use tollgate_limiter::LimiterState;

/// An owned value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string that is a canonical decimal integer.
    Int(i64),
    /// Any other string.
    Str(Str),
    /// State of a rate limiter.
    Limiter(LimiterState),
}

impl Value {
    /// A string value; canonical integers are kept as integers.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match number::parse_i64(bytes) {
            Some(int) => Self::Int(int),
            None => Self::Str(Str::from_slice(bytes)),
        }
    }

    /// The value to read.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Int(int) => ValueRef::Int(*int),
            Self::Str(string) => ValueRef::Bytes(string.as_slice()),
            Self::Limiter(state) => ValueRef::Limiter(*state),
        }
    }
}

/// A value in the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// A string that is a canonical decimal integer.
    Int(i64),
    /// Any other string.
    Bytes(&'a [u8]),
    /// State of a rate limiter.
    Limiter(LimiterState),
}

impl ValueRef<'_> {
    /// A copy that owns its bytes.
    pub fn to_value(self) -> Value {
        match self {
            Self::Int(int) => Value::Int(int),
            Self::Bytes(bytes) => Value::Str(Str::from_slice(bytes)),
            Self::Limiter(state) => Value::Limiter(state),
        }
    }
}

/// What `TYPE` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeName {
    /// Strings and integers.
    String,
    /// Rate limiter state.
    RateLimit,
}

impl TypeName {
    /// The name in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::RateLimit => "ratelimit",
        }
    }
}

/// What `OBJECT ENCODING` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// An integer.
    Int,
    /// A string of up to [`Encoding::EMBSTR_MAX`] bytes that was set as a whole.
    Embstr,
    /// Any other string.
    Raw,
    /// Fixed-window limiter state.
    FixedWindow,
    /// GCRA limiter state.
    Gcra,
}

impl Encoding {
    /// Longest string in bytes that is reported as `embstr` (Redis' `OBJ_ENCODING_EMBSTR_SIZE_LIMIT`).
    pub const EMBSTR_MAX: usize = 44;

    /// The name in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Embstr => "embstr",
            Self::Raw => "raw",
            Self::FixedWindow => "fixed-window",
            Self::Gcra => "gcra",
        }
    }
}
