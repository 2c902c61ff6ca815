//! What a key can hold.

use tollgate_containers::{Str, number};
use tollgate_limiter::LimiterState;

use crate::Object;

/// Elements that are freed where they are; more take a while.
const FREED_AT_ONCE: usize = 4_096;

/// Whether a collection takes a while to be freed.
pub(crate) fn is_large(object: &Object) -> bool {
    object.len() > FREED_AT_ONCE
}

/// Takes large values that are gone, to free them while no shard is locked.
pub trait Graves: Send + Sync {
    /// Takes one.
    fn bury(&self, value: Value);
}

/// An owned value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string that is a canonical decimal integer.
    Int(i64),
    /// Any other string.
    Str(Str),
    /// State of a rate limiter.
    Limiter(LimiterState),
    /// A collection.
    Object(Box<Object>),
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

    /// Whether freeing it takes a while: a good part of a millisecond, or more.
    pub fn takes_long_to_free(&self) -> bool {
        matches!(self, Self::Object(object) if is_large(object))
    }

    /// The value to read.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Int(int) => ValueRef::Int(*int),
            Self::Str(string) => ValueRef::Bytes(string.as_slice()),
            Self::Limiter(state) => ValueRef::Limiter(*state),
            Self::Object(object) => ValueRef::Object(object),
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
    /// A collection.
    Object(&'a Object),
}

impl ValueRef<'_> {
    /// A copy that owns its bytes.
    pub fn to_value(self) -> Value {
        match self {
            Self::Int(int) => Value::Int(int),
            Self::Bytes(bytes) => Value::Str(Str::from_slice(bytes)),
            Self::Limiter(state) => Value::Limiter(state),
            Self::Object(object) => Value::Object(Box::new(object.clone())),
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
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Hashes.
    Hash,
    /// Sorted sets.
    SortedSet,
    /// Streams.
    Stream,
}

impl TypeName {
    /// All of them.
    pub const ALL: [TypeName; 7] = [
        Self::String,
        Self::RateLimit,
        Self::List,
        Self::Set,
        Self::Hash,
        Self::SortedSet,
        Self::Stream,
    ];

    /// The name in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::RateLimit => "ratelimit",
            Self::List => "list",
            Self::Set => "set",
            Self::Hash => "hash",
            Self::SortedSet => "zset",
            Self::Stream => "stream",
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
    /// Limiter state of that name.
    Limiter(&'static str),
    /// A list.
    Quicklist,
    /// A small hash or sorted set.
    Listpack,
    /// A small hash with fields that expire.
    ListpackEx,
    /// A set of integers.
    Intset,
    /// A large hash, or a set that is not all integers.
    HashTable,
    /// A large sorted set.
    SkipList,
    /// A stream.
    Stream,
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
            Self::Limiter(name) => name,
            Self::Quicklist => "quicklist",
            Self::Listpack => "listpack",
            Self::ListpackEx => "listpackex",
            Self::Intset => "intset",
            Self::HashTable => "hashtable",
            Self::SkipList => "skiplist",
            Self::Stream => "stream",
        }
    }
}
