//! Values that are collections, or limiter state that grows.

use tollgate_containers::Container;
use tollgate_containers::hash::Hash;
use tollgate_containers::list::List;
use tollgate_containers::set::Set;
use tollgate_containers::sorted_set::SortedSet;
use tollgate_containers::stream::Stream;
use tollgate_limiter::Ledger;

use crate::value::{Encoding, TypeName};

/// A collection.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant is the collection of that name")]
pub enum Object {
    List(List),
    Set(Set),
    Hash(Hash),
    SortedSet(SortedSet),
    Stream(Stream),
    Ledger(Ledger),
}

impl Object {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Object::Ledger(ledger) => ledger.len(),
            other => other.container().map_or(0, Container::len),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap, those of the object itself included.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        let content = match self {
            Object::Ledger(ledger) => ledger.heap_bytes(),
            other => other.container().map_or(0, Container::heap_bytes),
        };
        size_of::<Object>() + content
    }

    /// Where most operations on it read first, to be brought into the cache; null when there is nothing.
    #[inline]
    pub(crate) fn front(&self) -> *const u8 {
        self.container().map_or(std::ptr::null(), Container::front)
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
            Object::Hash(hash) if hash.next_expiry().is_some() => Encoding::ListpackEx,
            Object::Hash(_) => Encoding::Listpack,
            Object::SortedSet(set) if set.is_compact() => Encoding::Listpack,
            Object::SortedSet(_) => Encoding::SkipList,
            Object::Stream(_) => Encoding::Stream,
            Object::Ledger(ledger) => Encoding::Limiter(ledger.encoding()),
        }
    }

    /// When the next field of a hash expires, in Unix milliseconds.
    #[inline]
    pub fn next_field_expiry(&self) -> Option<i64> {
        match self {
            Object::Hash(hash) => hash.next_expiry(),
            _ => None,
        }
    }

    /// Removes up to `budget` expired fields of a hash and returns their number.
    pub(crate) fn expire_fields(&mut self, now_ms: i64, budget: usize) -> usize {
        match self {
            Object::Hash(hash) => hash.expire(now_ms, budget),
            _ => 0,
        }
    }

    #[inline]
    fn container(&self) -> Option<&dyn Container> {
        Some(match self {
            Object::List(list) => list,
            Object::Set(set) => set,
            Object::Hash(hash) => hash,
            Object::SortedSet(set) => set,
            Object::Stream(stream) => stream,
            Object::Ledger(_) => return None,
        })
    }
}
