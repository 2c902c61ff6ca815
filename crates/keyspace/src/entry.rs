//! Views of one entry.

use std::ops::{Deref, DerefMut};

use tollgate_containers::{Str, number};
use tollgate_limiter::LimiterState;

use crate::access::{self, Access};
use crate::item::Mark;
use crate::object::Object;
use crate::record::{RECORD, Slot};
use crate::shard::Counters;
use crate::table::Table;
use crate::value::{Encoding, TypeName, Value, ValueRef, is_large};

/// An entry to read.
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    slot: Slot,
    table: &'a Table,
}

impl<'a> EntryRef<'a> {
    /// `slot` must be a record of `table`.
    #[inline]
    pub(crate) fn new(slot: Slot, table: &'a Table) -> Self {
        Self { slot, table }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        // SAFETY: the record is one of `table`, which is borrowed for 'a and so does not change.
        unsafe { self.slot.key() }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> ValueRef<'a> {
        // SAFETY: as in `key`.
        unsafe { self.slot.value() }
    }

    /// When the entry expires, in milliseconds since the Unix epoch.
    #[inline]
    pub fn expires_at_ms(&self) -> Option<i64> {
        // SAFETY: as in `key`.
        self.table.expiry(self.slot, unsafe { self.slot.tail() })
    }

    /// Seconds since the last access, up to 40 days; about two minutes more or less from two hours on.
    pub fn idle_secs(&self, now_ms: i64) -> u64 {
        // SAFETY: as in `key`.
        access::idle(unsafe { self.slot.tail() }.clock(), now_ms)
    }

    /// How often the entry was used, on a logarithmic scale; 0 when uses are recorded by time.
    pub fn frequency(&self, access: Access, now_ms: i64) -> u8 {
        // SAFETY: as in `key`.
        access.count(unsafe { self.slot.tail() }.clock(), now_ms)
    }

    /// Bytes the entry occupies: record, tag, and what key and value hold on the heap.
    pub fn memory(&self) -> usize {
        // SAFETY: as in `key`.
        unsafe { RECORD + 1 + self.slot.key_heap_bytes() + self.slot.value_heap_bytes() }
    }

    /// What Memcached's protocol knows of a string.
    #[inline]
    pub fn mark(&self) -> Mark {
        // SAFETY: as in `key`.
        unsafe {
            self.slot
                .item()
                .map_or(Mark::default(), |item| (*item).mark)
        }
    }

    /// The type.
    pub fn type_name(&self) -> TypeName {
        // SAFETY: as in `key`.
        unsafe { self.slot.type_name() }
    }

    /// The encoding.
    pub fn encoding(&self) -> Encoding {
        // SAFETY: as in `key`.
        unsafe { self.slot.encoding() }
    }
}

/// An entry to change in place.
pub struct EntryMut<'a> {
    slot: Slot,
    table: &'a mut Table,
    counters: &'a mut Counters,
}

impl<'a> EntryMut<'a> {
    /// `slot` must be a record of `table`.
    #[inline]
    pub(crate) fn new(slot: Slot, table: &'a mut Table, counters: &'a mut Counters) -> Self {
        Self {
            slot,
            table,
            counters,
        }
    }

    /// The entry to read.
    #[inline]
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef {
            slot: self.slot,
            table: self.table,
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.as_ref().key()
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        self.as_ref().value()
    }

    /// When the entry expires, in milliseconds since the Unix epoch.
    #[inline]
    pub fn expires_at_ms(&self) -> Option<i64> {
        self.as_ref().expires_at_ms()
    }

    /// As [`EntryRef::idle_secs`].
    pub fn idle_secs(&self, now_ms: i64) -> u64 {
        self.as_ref().idle_secs(now_ms)
    }

    /// Bytes the entry occupies: record, tag, and what key and value hold on the heap.
    pub fn memory(&self) -> usize {
        self.as_ref().memory()
    }

    /// The type.
    pub fn type_name(&self) -> TypeName {
        self.as_ref().type_name()
    }

    /// The encoding.
    pub fn encoding(&self) -> Encoding {
        self.as_ref().encoding()
    }

    /// Makes the entry one that was last used so many seconds ago.
    pub fn set_idle_secs(&mut self, secs: u64, now_ms: i64) {
        let bits = access::idle_for(secs, now_ms);
        // SAFETY: the record is one of `table`, borrowed exclusively.
        unsafe { self.slot.touch(self.slot.tail(), bits) };
    }

    /// Makes the entry one that was used that often.
    pub fn set_frequency(&mut self, count: u8, now_ms: i64) {
        let bits = access::counted(count, now_ms);
        // SAFETY: as in `set_idle_secs`.
        unsafe { self.slot.touch(self.slot.tail(), bits) };
    }

    /// What Memcached's protocol knows of a string.
    pub fn mark(&self) -> Mark {
        self.as_ref().mark()
    }

    /// Changes that; false, and no change, if the value is no string. It counts as no change of the entry.
    pub fn set_mark(&mut self, mark: Mark) -> bool {
        // SAFETY: the record is one of `table`, borrowed exclusively.
        let change = unsafe { self.slot.set_mark(mark) };
        if let Some(change) = change {
            self.table.marked(change);
        }
        change.is_some()
    }

    /// Replaces the value; the expiry stays.
    #[inline]
    pub fn set_value(&mut self, value: Value) {
        self.table.set_value(self.slot, value);
        self.counters.changed();
    }

    /// Takes out a large collection, which is about to be replaced.
    #[inline]
    pub(crate) fn take_large(&mut self) -> Option<Value> {
        // SAFETY: the record is one of `table`, borrowed exclusively.
        let object = unsafe { &*self.slot.object()? };
        is_large(object).then(|| self.table.take_value(self.slot))
    }

    /// Replaces the value by a string; the expiry stays. A string of the same length is overwritten where it lies.
    #[inline]
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        let value = match number::parse_i64(bytes) {
            Some(int) => Value::Int(int),
            // SAFETY: the record is one of `table`, borrowed exclusively.
            None if unsafe { self.slot.overwrite(bytes) } => return self.counters.changed(),
            None => Value::Str(Str::from_slice(bytes)),
        };
        self.set_value(value);
    }

    /// Whether the entry expires. Cheaper before a change of the value than after it, which writes a part of the same word.
    #[inline]
    pub(crate) fn has_expiry(&self) -> bool {
        // SAFETY: the record is one of `table`, borrowed exclusively.
        unsafe { self.slot.tail() }.has_expiry()
    }

    /// Replaces the value by an integer; the expiry stays.
    #[inline]
    pub fn set_int(&mut self, value: i64) {
        self.set_value(Value::Int(value));
    }

    /// Replaces the value by limiter state; the expiry stays.
    #[inline]
    pub fn set_limiter(&mut self, state: LimiterState) {
        self.set_value(Value::Limiter(state));
    }

    /// Sets or removes the expiry, in milliseconds since the Unix epoch.
    #[inline]
    pub fn set_expiry(&mut self, expires_at_ms: Option<i64>) {
        self.table.set_expiry(self.slot, expires_at_ms);
        self.counters.changed();
    }

    /// The string to change in place; an integer becomes its digits first. `None` if the value is no string.
    ///
    /// The encoding is raw from then on, as after `APPEND` and `SETRANGE` in Redis.
    pub fn str_mut(&mut self) -> Option<StrMut<'_>> {
        match self.value() {
            ValueRef::Limiter(_) | ValueRef::Object(_) => return None,
            ValueRef::Bytes(_) => {}
            ValueRef::Int(int) => {
                let mut buf = [0; number::I64_TEXT_LEN];
                let digits = Str::from_slice(number::write_i64(&mut buf, int));
                self.table.set_value(self.slot, Value::Str(digits));
            }
        }
        self.counters.changed();
        // SAFETY: the record is one of `table`, borrowed exclusively; it holds a string now, and nobody else has it.
        let string = unsafe {
            self.slot.mark_raw();
            match self.slot.item() {
                Some(item) => {
                    (*item).mark = (*item).mark.changed();
                    &mut (*item).text
                }
                None => &mut *self.slot.string()?,
            }
        };
        let before = string.heap_bytes();
        Some(StrMut {
            string,
            table: self.table,
            before,
        })
    }
}

impl EntryMut<'_> {
    /// The collection to change in place. `None` if the value is none.
    // Always inlined: what it returns stays in registers.
    #[inline(always)]
    pub fn object_mut(&mut self) -> Option<ObjectMut<'_>> {
        // SAFETY: the record is one of `table`, borrowed exclusively, and nobody else has its object.
        let object = unsafe { &mut *self.slot.object()? };
        self.counters.changed();
        let before = object.heap_bytes();
        let expiry = object.next_field_expiry();
        Some(ObjectMut {
            object,
            slot: self.slot,
            table: self.table,
            before,
            expiry,
        })
    }
}

/// A collection borrowed for change; its memory, and when its fields expire, are accounted for at the end of the borrow.
pub struct ObjectMut<'a> {
    object: &'a mut Object,
    slot: Slot,
    table: &'a mut Table,
    before: usize,
    /// When its next field expired before the change.
    expiry: Option<i64>,
}

impl Deref for ObjectMut<'_> {
    type Target = Object;

    #[inline]
    fn deref(&self) -> &Object {
        self.object
    }
}

impl DerefMut for ObjectMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Object {
        self.object
    }
}

impl Drop for ObjectMut<'_> {
    #[inline]
    fn drop(&mut self) {
        self.table.resized(self.before, self.object.heap_bytes());
        let expiry = self.object.next_field_expiry();
        self.table.fields_expire(self.slot, self.expiry, expiry);
    }
}

/// A string value borrowed for change; its memory is accounted for at the end of the borrow.
pub struct StrMut<'a> {
    string: &'a mut Str,
    table: &'a mut Table,
    before: usize,
}

impl Deref for StrMut<'_> {
    type Target = Str;

    fn deref(&self) -> &Str {
        self.string
    }
}

impl DerefMut for StrMut<'_> {
    fn deref_mut(&mut self) -> &mut Str {
        self.string
    }
}

impl Drop for StrMut<'_> {
    fn drop(&mut self) {
        self.table.resized(self.before, self.string.heap_bytes());
    }
}
