//! The compact form of a hash: fields and values in a row.

use super::Field;
use crate::pack::{Elements, Pack};

/// Stands for a field without an expiry. No time that a command accepts reaches it.
const NEVER: i64 = i64::MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct Compact {
    pack: Pack,
    len: usize,
    /// Stays once it is there, as the form of Redis that has room for expiries does.
    times: Option<Box<Times>>,
}

/// Expiries by ordinal.
#[derive(Clone, Debug)]
struct Times {
    at: Vec<i64>,
    /// The earliest; [`NEVER`] if none is left.
    next: i64,
}

/// Where a field was found.
pub(super) struct Found {
    name_at: usize,
    value_at: usize,
    ordinal: usize,
}

impl Compact {
    /// Address of the first field.
    #[inline]
    pub(super) fn front(&self) -> *const u8 {
        self.pack.front()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        let times = self.times.as_ref();
        self.pack.heap_bytes()
            + times.map_or(0, |times| {
                size_of::<Times>() + times.at.capacity() * size_of::<i64>()
            })
    }

    #[inline]
    pub(super) fn next_expiry(&self) -> Option<i64> {
        let times = self.times.as_ref()?;
        (times.next != NEVER).then_some(times.next)
    }

    /// Whether a field has or had an expiry.
    pub(super) fn is_timed(&self) -> bool {
        self.times.is_some()
    }

    pub(super) fn expiring(&self) -> usize {
        self.times.as_ref().map_or(0, |times| {
            times.at.iter().filter(|at| **at != NEVER).count()
        })
    }

    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<Found> {
        let (name_at, ordinal) = self.pack.find(name, 2)?;
        Some(Found {
            name_at,
            value_at: self.pack.element_at(name_at).1,
            ordinal,
        })
    }

    pub(super) fn field(&self, found: &Found) -> Field<'_> {
        Field {
            name: self.pack.element_at(found.name_at).0,
            value: self.pack.element_at(found.value_at).0,
            expires_at_ms: self.expiry(found.ordinal),
        }
    }

    #[inline]
    fn expiry(&self, ordinal: usize) -> Option<i64> {
        let at = self.times.as_ref()?.at[ordinal];
        (at != NEVER).then_some(at)
    }

    pub(super) fn iter(&self) -> Iter<'_> {
        Iter {
            elements: self.pack.iter(),
            times: self.times.as_ref().map(|times| times.at.iter()),
        }
    }

    /// Adds a field that is not there.
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        self.pack.push(name);
        self.pack.push(value);
        self.len += 1;
        if let Some(times) = &mut self.times {
            times.at.push(NEVER);
        }
    }

    pub(super) fn replace(&mut self, found: &Found, value: &[u8]) {
        self.pack.replace(found.value_at, value);
    }

    pub(super) fn set_expiry(&mut self, found: &Found, at_ms: Option<i64>) {
        if at_ms.is_none() && self.times.is_none() {
            return;
        }
        let len = self.len;
        let times = self.times.get_or_insert_with(|| {
            Box::new(Times {
                at: vec![NEVER; len],
                next: NEVER,
            })
        });
        times.at[found.ordinal] = at_ms.unwrap_or(NEVER);
        self.refresh_next();
    }

    pub(super) fn remove(&mut self, found: &Found) {
        self.pack.remove(found.name_at, 2);
        self.len -= 1;
        if let Some(times) = &mut self.times {
            let at = times.at.remove(found.ordinal);
            if at != NEVER {
                self.refresh_next();
            }
        }
    }

    pub(super) fn expire(
        &mut self,
        now_ms: i64,
        budget: usize,
        mut gone: impl FnMut(&[u8]),
    ) -> usize {
        let mut removed = 0;
        while removed < budget
            && let Some(found) = self.first_expired(now_ms)
        {
            gone(self.field(&found).name);
            self.remove(&found);
            removed += 1;
        }
        removed
    }

    fn first_expired(&self, now_ms: i64) -> Option<Found> {
        let times = self.times.as_ref().filter(|times| now_ms > times.next)?;
        let ordinal = times.at.iter().position(|at| now_ms > *at)?;
        let (name_at, _) = self.pack.iter().nth(2 * ordinal)?;
        Some(Found {
            name_at,
            value_at: self.pack.element_at(name_at).1,
            ordinal,
        })
    }

    fn refresh_next(&mut self) {
        if let Some(times) = &mut self.times {
            times.next = times.at.iter().copied().min().unwrap_or(NEVER);
        }
    }
}

/// Fields in order.
#[derive(Clone, Debug)]
pub(super) struct Iter<'a> {
    elements: Elements<'a>,
    times: Option<std::slice::Iter<'a, i64>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        let (_, name) = self.elements.next()?;
        let (_, value) = self.elements.next()?;
        let at = match &mut self.times {
            None => NEVER,
            Some(times) => *times.next()?,
        };
        Some(Field {
            name,
            value,
            expires_at_ms: (at != NEVER).then_some(at),
        })
    }
}
