//! A hash at a moment: without the fields whose time has passed.

use super::{Field, Form, Hash};
use crate::Container;

/// Random positions tried before the live fields are counted.
const TRIES: usize = 32;

/// A hash at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    hash: &'a Hash,
    /// The time, when there are expired fields to pass over.
    after: Option<i64>,
}

impl<'a> Live<'a> {
    #[inline]
    pub(super) fn new(hash: &'a Hash, now_ms: i64) -> Self {
        let due = hash.next_expiry().is_some_and(|at| now_ms > at);
        Self {
            hash,
            after: due.then_some(now_ms),
        }
    }

    #[inline]
    fn has(&self, field: &Field<'_>) -> bool {
        self.after.is_none_or(|now_ms| !field.is_expired(now_ms))
    }

    /// A field.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Field<'a>> {
        self.hash.get(name).filter(|field| self.has(field))
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = Field<'a>> + Clone + use<'a> {
        let live = *self;
        live.hash.iter().filter(move |field| live.has(field))
    }

    /// Number of fields; takes time only when some are expired.
    pub fn len(&self) -> usize {
        match self.after {
            None => self.hash.len(),
            Some(_) => self.iter().count(),
        }
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// A field, each with the same probability; `below` gives random numbers below its argument.
    pub fn random(&self, below: &mut dyn FnMut(usize) -> usize) -> Option<Field<'a>> {
        if self.hash.is_empty() {
            return None;
        }
        // A pick is dropped when it is expired, so the rest stay equally likely.
        for _ in 0..TRIES {
            let field = self.hash.nth(below(self.hash.len()))?;
            if self.has(&field) {
                return Some(field);
            }
        }
        match self.len() {
            0 => None,
            len => self.iter().nth(below(len)),
        }
    }

    /// Calls `f` for the fields at these ordinals among all live ones; they are in ascending order.
    pub fn pick(&self, ordinals: &[usize], f: &mut dyn FnMut(Field<'a>)) {
        match &self.hash.form {
            Form::Large(large) if self.after.is_none() => {
                ordinals.iter().for_each(|at| f(large.field(*at)));
            }
            _ => {
                let mut wanted = ordinals.iter().copied().peekable();
                for (at, field) in self.iter().enumerate() {
                    if wanted.next_if_eq(&at).is_some() {
                        f(field);
                    }
                }
            }
        }
    }

    /// One scan step: calls `f` for about `count` fields, all of them in the compact form, and returns the next cursor,
    /// 0 at the end.
    pub fn scan(&self, cursor: u64, count: usize, f: &mut dyn FnMut(Field<'a>)) -> u64 {
        let Form::Large(large) = &self.hash.form else {
            self.iter().for_each(f);
            return 0;
        };
        let range = large.dict.scan(cursor, count);
        for at in range.clone().rev() {
            let field = large.field(at);
            if self.has(&field) {
                f(field);
            }
        }
        range.start as u64
    }
}
