//! What Memcached's protocol knows of a string beside its bytes.
//!
//! Most strings have none of it, so it costs them nothing: a string is kept as an [`Item`] only while it has client flags, or
//! somebody has been told its unique number, or holds the promise to renew it. Whatever replaces the value drops the item, and with it
//! the number: that is how every write, of whatever protocol, makes a number that was told before invalid.

use tollgate_containers::{Str, number};

use crate::value::Encoding;

/// What is kept beside the bytes of a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The number that names this state of the value (`cas unique`); 0 = nobody has been told one.
    pub cas: u64,
    /// The client's flags.
    pub flags: u32,
    /// The value is out of date, though it may still be used.
    pub stale: bool,
    /// Somebody has been told to renew the value.
    pub claimed: bool,
    /// It has been fetched since it was stored.
    pub fetched: bool,
}

impl Mark {
    /// Whether there is nothing to keep.
    #[inline]
    pub fn is_none(&self) -> bool {
        *self == Mark::default()
    }

    /// What is left of it when the value is changed in place: the flags.
    #[must_use]
    pub fn changed(self) -> Mark {
        Mark {
            flags: self.flags,
            ..Mark::default()
        }
    }
}

/// A string with its mark.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) text: Str,
    pub(crate) mark: Mark,
    /// The string was changed in place.
    pub(crate) raw: bool,
}

impl Item {
    /// Bytes on the heap, those of the item itself included.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Item>() + self.text.heap_bytes()
    }

    /// As it would be reported without the mark.
    pub(crate) fn encoding(&self) -> Encoding {
        let text = self.text.as_slice();
        match self.raw {
            false if number::parse_i64(text).is_some() => Encoding::Int,
            false if text.len() <= Encoding::EMBSTR_MAX => Encoding::Embstr,
            _ => Encoding::Raw,
        }
    }
}
