//! Values that are collections, or limiter state that grows.

use tollgate_containers::Container;
use tollgate_containers::hash::Hash;
use tollgate_containers::list::List;
use tollgate_containers::set::Set;
use tollgate_containers::sorted_set::SortedSet;
use tollgate_containers::stream::Stream;
use tollgate_limiter::Ledger;

use crate::value::{Encoding, TypeName};

/// Asks whatever collection an object is, without a table of its functions in between.
macro_rules! ask {
    ($object:expr, $it:ident => $answer:expr) => {
        match $object {
            Object::List($it) => $answer,
            Object::Set($it) => $answer,
            Object::Hash($it) => $answer,
            Object::SortedSet($it) => $answer,
            Object::Stream($it) => $answer,
            Object::Ledger($it) => $answer,
        }
    };
}

/// A collection.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant is the collection of that name")]
pub enum Object {
    List(List),
    Set(Set),
    Hash(Hash),
    SortedSet(SortedSet),
    /// Apart, because it would make every small collection twice as large.
    Stream(Box<Stream>),
    Ledger(Ledger),
}

/// Every small collection costs so much beside its elements.
const _: () = assert!(size_of::<Object>() <= 64);

impl Object {
    /// Elements.
    #[inline]
    pub fn len(&self) -> usize {
        ask!(self, it => it.len())
    }

    /// Whether it has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap, those of the object itself included.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        let own = match self {
            Object::Stream(_) => size_of::<Object>() + size_of::<Stream>(),
            _ => size_of::<Object>(),
        };
        own + ask!(self, it => it.heap_bytes())
    }

    /// Where most operations on it read first, to be brought into the cache; null when there is nothing.
    #[inline]
    pub(crate) fn front(&self) -> *const u8 {
        match self {
            Object::List(list) => list.front(),
            Object::Set(set) => set.front(),
            Object::Hash(hash) => hash.front(),
            Object::SortedSet(set) => set.front(),
            Object::Stream(stream) => stream.front(),
            Object::Ledger(_) => std::ptr::null(),
        }
    }

    /// The type.
    pub fn type_name(&self) -> TypeName {
        match self {
            Object::List(_) => TypeName::List,
            Object::Set(_) => TypeName::Set,
            Object::Hash(_) => TypeName::Hash,
            Object::SortedSet(_) => TypeName::SortedSet,
            Object::Stream(_) => TypeName::Stream,
            Object::Ledger(_) => TypeName::RateLimit,
        }
    }

    /// The encoding that Redis reports for such a value.
    pub fn encoding(&self) -> Encoding {
        match self {
            Object::List(_) => Encoding::Quicklist,
            Object::Set(set) if set.is_ints() => Encoding::Intset,
            Object::Set(_) => Encoding::HashTable,
            Object::Hash(hash) if !hash.is_compact() => Encoding::HashTable,
            Object::Hash(hash) if hash.is_compact_with_expiries() => Encoding::ListpackEx,
            Object::Hash(_) => Encoding::Listpack,
            Object::SortedSet(set) if set.is_compact() => Encoding::Listpack,
            Object::SortedSet(_) => Encoding::SkipList,
            Object::Stream(_) => Encoding::Stream,
            Object::Ledger(ledger) => Encoding::Limiter(ledger.encoding()),
        }
    }

    /// When the next field of a hash expires, in Unix milliseconds.
    #[inline]
    pub(crate) fn next_field_expiry(&self) -> Option<i64> {
        match self {
            Object::Hash(hash) => hash.next_expiry(),
            _ => None,
        }
    }

    /// Removes up to `budget` expired fields of a hash, tells `gone` their names, and returns their number.
    pub(crate) fn expire_fields(
        &mut self,
        now_ms: i64,
        budget: usize,
        gone: impl FnMut(&[u8]),
    ) -> usize {
        match self {
            Object::Hash(hash) => hash.expire(now_ms, budget, gone),
            _ => 0,
        }
    }
}
