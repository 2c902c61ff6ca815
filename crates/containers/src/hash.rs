//! A hash: fields with values, each of which may have an expiry of its own.
//!
//! A small hash is one allocation, field, value, field, value, in the order of insertion; beyond the limits it becomes
//! a `Dict`, for good. Expiries stand beside either form and cost nothing until a field has one. The earliest of
//! them is known at any time, so whoever keeps many hashes can keep them in the order of what is due.
//!
//! Nothing here looks at a clock. [`Hash::live`] is the hash as it is at a moment, without the fields that are past
//! their time but not yet removed; [`Hash::expire`] removes them.

mod clocks;
mod compact;
mod live;

use crate::dict::{Dict, Keyed};
use crate::{Container, Str};
use clocks::Clocks;
use compact::Compact;
pub use live::Live;

/// When a hash stops to be compact, and the secret of the index it gets then.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// Most fields of a compact hash.
    pub max_entries: usize,
    /// Longest field or value of a compact hash, in bytes.
    pub max_value: usize,
    /// Secret of the index of a large hash.
    pub seed: u64,
}

/// Most bytes of a compact hash, whatever the limits say (Redis' `LISTPACK_MAX_SAFETY_LIMIT`).
const MAX_COMPACT_BYTES: usize = 1 << 30;

/// One field of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// When it expires, in Unix milliseconds: it lives through that one.
    pub expires_at_ms: Option<i64>,
}

impl Field<'_> {
    /// Whether its time has passed.
    #[inline]
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at| now_ms > at)
    }
}

/// What a write does to the expiry of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The field has none afterwards.
    Nothing,
    /// It stays.
    Expiry,
}

/// A hash.
#[derive(Clone, Debug, Default)]
pub struct Hash {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Compact(Compact),
    Large(Box<Large>),
}

impl Default for Form {
    fn default() -> Self {
        Self::Compact(Compact::default())
    }
}

#[derive(Clone, Debug)]
struct Large {
    dict: Dict<Pair>,
    /// By position in the dictionary; none while no field expires.
    clocks: Option<Box<Clocks>>,
}

#[derive(Clone, Debug)]
struct Pair {
    name: Str,
    value: Str,
}

impl Keyed for Pair {
    #[inline]
    fn key(&self) -> &[u8] {
        self.name.as_slice()
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        self.name.heap_bytes() + self.value.heap_bytes()
    }
}

impl Container for Hash {
    #[inline]
    fn front(&self) -> *const u8 {
        match &self.form {
            Form::Compact(compact) => compact.front(),
            Form::Large(large) => std::ptr::from_ref(&**large).cast(),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.form {
            Form::Compact(compact) => compact.len(),
            Form::Large(large) => large.dict.len(),
        }
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Compact(compact) => compact.heap_bytes(),
            Form::Large(large) => {
                let clocks = large.clocks.as_ref();
                size_of::<Large>()
                    + large.dict.heap_bytes()
                    + clocks.map_or(0, |clocks| size_of::<Clocks>() + clocks.heap_bytes())
            }
        }
    }
}

impl Hash {
    /// Whether it is in its compact form.
    #[inline]
    pub fn is_compact(&self) -> bool {
        matches!(self.form, Form::Compact(_))
    }

    /// Whether it is in the compact form with room for expiries, which it keeps once it has it.
    #[inline]
    pub fn is_compact_with_expiries(&self) -> bool {
        match &self.form {
            Form::Compact(compact) => compact.is_timed(),
            Form::Large(_) => false,
        }
    }

    /// The earliest time at which a field expires, in Unix milliseconds.
    #[inline]
    pub fn next_expiry(&self) -> Option<i64> {
        match &self.form {
            Form::Compact(compact) => compact.next_expiry(),
            Form::Large(large) => large.clocks.as_ref()?.first().map(|(at, _)| at),
        }
    }

    /// Fields that have an expiry.
    pub fn expiring(&self) -> usize {
        match &self.form {
            Form::Compact(compact) => compact.expiring(),
            Form::Large(large) => large.clocks.as_ref().map_or(0, |clocks| clocks.timed()),
        }
    }

    /// The hash as it is at a time, without expired fields.
    #[inline]
    pub fn live(&self, now_ms: i64) -> Live<'_> {
        Live::new(self, now_ms)
    }

    /// A field, expired or not.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        match &self.form {
            Form::Compact(compact) => compact.find(name).map(|found| compact.field(&found)),
            Form::Large(large) => large.dict.find(name).map(|at| large.field(at)),
        }
    }

    /// The field at a position below the length. Takes time only in the compact form.
    pub fn nth(&self, at: usize) -> Option<Field<'_>> {
        match &self.form {
            Form::Compact(compact) => compact.iter().nth(at),
            Form::Large(large) => (at < large.dict.len()).then(|| large.field(at)),
        }
    }

    /// All fields, expired or not.
    pub fn iter(&self) -> Fields<'_> {
        Fields {
            hash: self,
            compact: match &self.form {
                Form::Compact(compact) => Some(compact.iter()),
                Form::Large(_) => None,
            },
            at: 0,
        }
    }

    /// Sets a field; true when it is new.
    pub fn set(&mut self, name: &[u8], value: &[u8], keep: Keep, limits: &HashLimits) -> bool {
        let longest = name.len().max(value.len());
        if longest > limits.max_value {
            self.enlarge(limits.seed);
        }
        match &mut self.form {
            Form::Compact(compact) => {
                let added = name.len() + value.len();
                if let Some(found) = compact.find(name) {
                    compact.replace(&found, value);
                    if keep == Keep::Nothing {
                        compact.set_expiry(&found, None);
                    }
                    return false;
                }
                if compact.len() < limits.max_entries
                    && compact.heap_bytes() + added <= MAX_COMPACT_BYTES
                {
                    compact.push(name, value);
                    return true;
                }
                self.enlarge(limits.seed);
                self.set(name, value, keep, limits)
            }
            Form::Large(large) => large.set(name, value, keep),
        }
    }

    /// Sets or removes the expiry of a field (Unix milliseconds); false when there is no such field.
    pub fn set_expiry(&mut self, name: &[u8], at_ms: Option<i64>) -> bool {
        match &mut self.form {
            Form::Compact(compact) => match compact.find(name) {
                Some(found) => compact.set_expiry(&found, at_ms),
                None => return false,
            },
            Form::Large(large) => match large.dict.find(name) {
                Some(at) => large.set_expiry(at, at_ms),
                None => return false,
            },
        }
        true
    }

    /// Removes a field; false when there is none.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        match &mut self.form {
            Form::Compact(compact) => match compact.find(name) {
                Some(found) => compact.remove(&found),
                None => return false,
            },
            Form::Large(large) => match large.dict.find(name) {
                Some(at) => large.remove(at),
                None => return false,
            },
        }
        true
    }

    /// Removes up to `budget` expired fields, tells `gone` their names, and returns their number.
    pub fn expire(&mut self, now_ms: i64, budget: usize, mut gone: impl FnMut(&[u8])) -> usize {
        match &mut self.form {
            Form::Compact(compact) => compact.expire(now_ms, budget, gone),
            Form::Large(large) => {
                let mut removed = 0;
                while removed < budget
                    && let Some((at_ms, at)) = large.clocks.as_ref().and_then(|c| c.first())
                    && now_ms > at_ms
                {
                    gone(large.field(at).name);
                    large.remove(at);
                    removed += 1;
                }
                removed
            }
        }
    }

    /// Leaves the compact form.
    fn enlarge(&mut self, seed: u64) {
        let Form::Compact(compact) = &self.form else {
            return;
        };
        let mut large = Large {
            dict: Dict::new(compact.len() + 1, seed),
            clocks: None,
        };
        for (at, field) in compact.iter().enumerate() {
            large.dict.push(Pair {
                name: Str::from_slice(field.name),
                value: Str::from_slice(field.value),
            });
            if let Some(clocks) = &mut large.clocks {
                clocks.push();
            }
            if field.expires_at_ms.is_some() {
                large.set_expiry(at, field.expires_at_ms);
            }
        }
        self.form = Form::Large(Box::new(large));
    }
}

impl Large {
    #[inline]
    fn field(&self, at: usize) -> Field<'_> {
        let pair = self.dict.get(at).expect("a position below the length");
        Field {
            name: pair.name.as_slice(),
            value: pair.value.as_slice(),
            expires_at_ms: self.clocks.as_ref().and_then(|clocks| clocks.get(at)),
        }
    }

    fn set(&mut self, name: &[u8], value: &[u8], keep: Keep) -> bool {
        let value = Str::from_slice(value);
        match self.dict.find(name) {
            Some(at) => {
                self.dict.update(at, |pair| pair.value = value);
                if keep == Keep::Nothing {
                    self.set_expiry(at, None);
                }
                false
            }
            None => {
                self.dict.push(Pair {
                    name: Str::from_slice(name),
                    value,
                });
                if let Some(clocks) = &mut self.clocks {
                    clocks.push();
                }
                true
            }
        }
    }

    fn set_expiry(&mut self, at: usize, at_ms: Option<i64>) {
        if at_ms.is_none() && self.clocks.is_none() {
            return;
        }
        let clocks = self
            .clocks
            .get_or_insert_with(|| Box::new(Clocks::new(self.dict.len())));
        clocks.set(at, at_ms);
        if clocks.timed() == 0 {
            self.clocks = None;
        }
    }

    fn remove(&mut self, at: usize) {
        let gap = self.dict.gap(at);
        self.dict.swap_remove(gap);
        if let Some(clocks) = &mut self.clocks {
            clocks.exchange(at, gap);
            clocks.swap_remove(gap);
            if clocks.timed() == 0 {
                self.clocks = None;
            }
        }
    }
}

/// Fields of a hash, expired or not.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    hash: &'a Hash,
    compact: Option<compact::Iter<'a>>,
    at: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        if let Some(compact) = &mut self.compact {
            return compact.next();
        }
        let field = self.hash.nth(self.at)?;
        self.at += 1;
        Some(field)
    }
}

impl PartialEq for Hash {
    /// By content, whatever the form and the order.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .all(|field| other.get(field.name) == Some(field))
    }
}
