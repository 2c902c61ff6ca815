//! Reads values of every type and encoding of versions 1 to 13.

use tollgate_containers::hash::{Hash, Keep};
use tollgate_containers::list::List;
use tollgate_containers::number;
use tollgate_containers::set::Set;
use tollgate_containers::sorted_set::SortedSet;
use tollgate_keyspace::{Object, Value};

use super::packed::{self, Packing};
use super::{RdbError, Reader, Shapes, kind, limiter};

/// In a quicklist's node: one element as it is.
const PLAIN: u64 = 1;
/// In a quicklist's node: a listpack.
const PACKED: u64 = 2;

/// How the expiries of a hash's fields are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldExpiry {
    /// They have none.
    None,
    /// As Unix milliseconds.
    Absolute,
    /// As distance from a first one that comes first.
    Relative,
}

/// Who takes a field: name, value and expiry in Unix milliseconds; `None` when it stands twice.
type SetField<'s> = &'s mut dyn FnMut(&[u8], &[u8], Option<i64>) -> Option<()>;

impl Reader<'_> {
    /// The value of this type; `None` for a collection without elements, which no key can hold.
    pub(super) fn value(&mut self, kind: u8, shapes: &Shapes) -> Result<Option<Value>, RdbError> {
        let object = match kind {
            kind::STRING => return Ok(Some(Value::from_bytes(&self.string()?))),
            kind::LIMITER => {
                let state = self.string()?;
                let value = limiter::read_state(&state);
                return value
                    .map(Some)
                    .ok_or_else(|| self.corrupt("a malformed rate limiter"));
            }
            kind::LIST | kind::LIST_ZIPLIST | kind::QUICKLIST | kind::QUICKLIST_2 => {
                Object::List(self.list(kind, shapes)?)
            }
            kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => {
                Object::Set(self.set(kind, shapes)?)
            }
            kind::SORTED_SET
            | kind::SORTED_SET_2
            | kind::SORTED_SET_ZIPLIST
            | kind::SORTED_SET_LISTPACK => Object::SortedSet(self.sorted_set(kind, shapes)?),
            kind::HASH
            | kind::HASH_ZIPMAP
            | kind::HASH_ZIPLIST
            | kind::HASH_LISTPACK
            | kind::HASH_EXPIRING_PRE_GA
            | kind::HASH_LISTPACK_EXPIRING_PRE_GA
            | kind::HASH_EXPIRING
            | kind::HASH_LISTPACK_EXPIRING => Object::Hash(self.hash(kind, shapes)?),
            kind::STREAM | kind::STREAM_2 | kind::STREAM_3 | kind::STREAM_4 => {
                return self
                    .stream(kind)
                    .map(|stream| Some(Value::Object(Box::new(Object::Stream(Box::new(stream))))));
            }
            _ => return Err(self.corrupt("an unknown type")),
        };
        Ok((!object.is_empty()).then(|| Value::Object(Box::new(object))))
    }

    /// Hands out the elements of a string that holds several.
    fn elements(
        &mut self,
        packing: Packing,
        take: &mut dyn FnMut(&[u8]) -> Option<()>,
    ) -> Result<(), RdbError> {
        let bytes = self.string()?;
        packed::elements(packing, bytes, take).ok_or_else(|| self.corrupt("a damaged collection"))
    }

    /// Hands out the elements of such a string in groups of `N`.
    fn groups<const N: usize>(
        &mut self,
        packing: Packing,
        take: &mut dyn FnMut(&[Vec<u8>; N]) -> Option<()>,
    ) -> Result<(), RdbError> {
        let mut group: [Vec<u8>; N] = std::array::from_fn(|_| Vec::new());
        let mut filled = 0;
        self.elements(packing, &mut |text| {
            group[filled].clear();
            group[filled].extend_from_slice(text);
            filled += 1;
            if filled == N {
                filled = 0;
                take(&group)?;
            }
            Some(())
        })?;
        match filled {
            0 => Ok(()),
            _ => Err(self.corrupt("an incomplete element")),
        }
    }

    fn list(&mut self, kind: u8, shapes: &Shapes) -> Result<List, RdbError> {
        let mut list = List::default();
        let mut push = |text: &[u8]| {
            list.push_back(text, shapes.list);
            Some(())
        };
        if kind == kind::LIST_ZIPLIST {
            self.elements(Packing::Ziplist, &mut push)?;
            return Ok(list);
        }
        for _ in 0..self.plain_length()? {
            match kind {
                kind::QUICKLIST => self.elements(Packing::Ziplist, &mut push)?,
                kind::QUICKLIST_2 => match self.plain_length()? {
                    PLAIN => {
                        let element = self.string()?;
                        if element.is_empty() {
                            return Err(self.corrupt("a node of a list without a byte"));
                        }
                        push(&element);
                    }
                    PACKED => self.elements(Packing::Listpack, &mut push)?,
                    _ => return Err(self.corrupt("an unknown form of a list's node")),
                },
                _ => drop(push(&self.string()?)),
            }
        }
        Ok(list)
    }

    fn set(&mut self, kind: u8, shapes: &Shapes) -> Result<Set, RdbError> {
        let mut set = Set::default();
        let mut add = |text: &[u8]| set.add(text, &shapes.set).then_some(());
        match kind {
            kind::SET_LISTPACK => self.elements(Packing::Listpack, &mut add)?,
            kind::SET_INTSET => {
                let bytes = self.string()?;
                packed::intset(&bytes, &mut add)
                    .ok_or_else(|| self.corrupt("a damaged set of integers"))?;
            }
            _ => {
                for _ in 0..self.plain_length()? {
                    let member = self.string()?;
                    add(&member).ok_or_else(|| self.corrupt("a member that stands twice"))?;
                }
            }
        }
        Ok(set)
    }

    fn sorted_set(&mut self, kind: u8, shapes: &Shapes) -> Result<SortedSet, RdbError> {
        let packing = match kind {
            kind::SORTED_SET_ZIPLIST => Packing::Ziplist,
            kind::SORTED_SET_LISTPACK => Packing::Listpack,
            _ => return self.sorted_set_of_pairs(kind, shapes),
        };
        let mut set = SortedSet::default();
        self.groups(packing, &mut |[member, score]| {
            let score = number::parse_f64(score)?;
            set.insert(member, score, shapes.sorted_set)
                .is_none()
                .then_some(())
        })?;
        Ok(set)
    }

    fn sorted_set_of_pairs(&mut self, kind: u8, shapes: &Shapes) -> Result<SortedSet, RdbError> {
        let mut set = SortedSet::default();
        for _ in 0..self.plain_length()? {
            let member = self.string()?;
            let score = match kind {
                kind::SORTED_SET_2 => f64::from_le_bytes(self.array()?),
                _ => self.score_text()?,
            };
            if score.is_nan() || set.insert(&member, score, shapes.sorted_set).is_some() {
                return Err(self.corrupt("a wrong score, or a member that stands twice"));
            }
        }
        Ok(set)
    }

    /// A score as the first versions wrote it: a length and the text.
    fn score_text(&mut self) -> Result<f64, RdbError> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Ok(f64::NAN),
            len => {
                let text = self.bytes(usize::from(len))?;
                number::parse_f64(&text).ok_or_else(|| self.corrupt("a score that is not a number"))
            }
        }
    }

    fn hash(&mut self, kind: u8, shapes: &Shapes) -> Result<Hash, RdbError> {
        let mut hash = Hash::default();
        let mut set = |name: &[u8], value: &[u8], at_ms: Option<i64>| {
            let new = hash.set(name, value, Keep::Nothing, &shapes.hash);
            if at_ms.is_some() {
                hash.set_expiry(name, at_ms);
            }
            new.then_some(())
        };
        let packing = match kind {
            kind::HASH_ZIPMAP => Packing::Zipmap,
            kind::HASH_ZIPLIST => Packing::Ziplist,
            kind::HASH_LISTPACK => Packing::Listpack,
            kind::HASH_LISTPACK_EXPIRING_PRE_GA | kind::HASH_LISTPACK_EXPIRING => {
                if kind == kind::HASH_LISTPACK_EXPIRING {
                    // The first expiry: the fields have their own.
                    self.array::<8>()?;
                }
                self.groups(Packing::Listpack, &mut |[name, value, at_ms]| {
                    let at_ms = number::parse_i64(at_ms).filter(|at_ms| *at_ms >= 0)?;
                    set(name, value, Some(at_ms).filter(|at_ms| *at_ms > 0))
                })?;
                return Ok(hash);
            }
            kind::HASH_EXPIRING_VALKEY if self.is_of_valkey() => {
                for _ in 0..self.plain_length()? {
                    let (name, value) = (self.string()?, self.string()?);
                    // -1 says that there is none.
                    let at_ms = i64::from_le_bytes(self.array()?);
                    set(&name, &value, Some(at_ms).filter(|at_ms| *at_ms >= 0))
                        .ok_or_else(|| self.corrupt("a field that stands twice"))?;
                }
                return Ok(hash);
            }
            _ => {
                let expiry = match kind {
                    kind::HASH_EXPIRING => FieldExpiry::Relative,
                    kind::HASH_EXPIRING_PRE_GA => FieldExpiry::Absolute,
                    _ => FieldExpiry::None,
                };
                self.fields(expiry, &mut set)?;
                return Ok(hash);
            }
        };
        self.groups(packing, &mut |[name, value]| set(name, value, None))?;
        Ok(hash)
    }

    fn fields(&mut self, expiry: FieldExpiry, set: SetField<'_>) -> Result<(), RdbError> {
        let first = match expiry {
            FieldExpiry::Relative => u64::from_le_bytes(self.array()?),
            _ => 0,
        };
        for _ in 0..self.plain_length()? {
            let at_ms = match expiry {
                FieldExpiry::None => 0,
                FieldExpiry::Absolute => self.plain_length()?,
                FieldExpiry::Relative => match self.plain_length()? {
                    0 => 0,
                    // One more than the distance, so that 0 can say that there is none.
                    distance => first.wrapping_add(distance - 1),
                },
            };
            let at_ms = i64::try_from(at_ms).map_err(|_| self.corrupt("an expiry out of range"))?;
            let (name, value) = (self.string()?, self.string()?);
            set(&name, &value, Some(at_ms).filter(|at_ms| *at_ms > 0))
                .ok_or_else(|| self.corrupt("a field that stands twice"))?;
        }
        Ok(())
    }
}
