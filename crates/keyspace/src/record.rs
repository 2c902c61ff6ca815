//! The 32 bytes that hold one entry.
//!
//! ```text
//!  0..8   value: integer, limiter state of 8 bytes, a Str (7 bytes inline, else a pointer),
//!        or the pointer to an Object, to larger limiter state, or to an Item
//!  8..24  key of up to 16 bytes, padded with zeros; a longer key: pointer 8 | length u32 | low hash bits u32
//! 24..29  expiry: 0 none, else milliseconds since EXPIRY_BASE_MS, all ones = kept in the table's far map
//! 29..31  access clock: what is recorded of uses (`access`)
//! 31      key length (17 = longer key) | kind << 5
//! ```

use std::ptr::{self, NonNull};

use tollgate_containers::{Str, number};
use tollgate_limiter::{LimiterState, Timestamp};

use crate::item::{Item, Mark};
use crate::key::{Key, Seed};
use crate::object::Object;
use crate::prefetch;
use crate::value::{Encoding, TypeName, Value, ValueRef};

/// Bytes of a record.
pub(crate) const RECORD: usize = 32;
/// Longest key that needs no allocation.
pub(crate) const INLINE_KEY: usize = 16;

const KEY_AT: usize = 8;
const KEY_LEN_AT: usize = 16;
const KEY_HASH_AT: usize = 20;
/// The last eight bytes read as one word: expiry, clock, meta.
const TAIL_AT: usize = 24;
const CLOCK_AT: usize = 29;
const META_AT: usize = 31;

const HEAP_KEY: u8 = 17;
const LEN_MASK: u8 = 31;

/// 2023-11-14: expiries in the 34 years after it fit the record.
pub(crate) const EXPIRY_BASE_MS: i64 = 1_700_000_000_000;
const EXPIRY_MASK: u64 = (1 << 40) - 1;
/// Expiry code of an entry whose expiry is in the far map.
const FAR: u64 = EXPIRY_MASK;

/// What the value word of a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Int,
    /// A string set as a whole.
    Str,
    /// A string that was changed in place.
    RawStr,
    FixedWindow,
    Gcra,
    /// A collection, owned through its pointer.
    Object,
    /// Limiter state of 16 bytes, owned through its pointer.
    Limiter,
    /// A string with what Memcached's protocol knows of it, owned through its pointer.
    Item,
}

impl Kind {
    #[inline]
    fn of(meta: u8) -> Self {
        match meta >> 5 {
            0 => Self::Int,
            1 => Self::Str,
            2 => Self::RawStr,
            3 => Self::FixedWindow,
            4 => Self::Gcra,
            5 => Self::Object,
            6 => Self::Limiter,
            _ => Self::Item,
        }
    }
}

/// When an entry expires, as far as its record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    At(i64),
    /// The table's far map knows.
    Far,
}

/// Expiry, clock and meta of a record in one word.
#[derive(Clone, Copy)]
pub(crate) struct Tail(u64);

impl Tail {
    #[inline]
    pub(crate) fn expiry(self) -> Expiry {
        match self.0 & EXPIRY_MASK {
            0 => Expiry::Never,
            FAR => Expiry::Far,
            code => Expiry::At(EXPIRY_BASE_MS + code as i64),
        }
    }

    #[inline]
    pub(crate) fn has_expiry(self) -> bool {
        self.0 & EXPIRY_MASK != 0
    }

    #[inline]
    pub(crate) fn clock(self) -> u16 {
        (self.0 >> 40) as u16
    }
}

/// A pointer to a record. Its methods are unsafe to use on anything but a live, initialised record that nobody
/// else accesses meanwhile; the table's borrows see to that.
#[derive(Clone, Copy)]
pub(crate) struct Slot(NonNull<u8>);

impl Slot {
    /// # Safety
    /// `record` points to [`RECORD`] bytes inside a bucket.
    #[inline]
    pub(crate) unsafe fn new(record: *mut u8) -> Self {
        debug_assert!(!record.is_null());
        // SAFETY: a pointer into an allocation is not null.
        Self(unsafe { NonNull::new_unchecked(record) })
    }

    #[inline]
    fn at(self, offset: usize) -> *mut u8 {
        debug_assert!(offset < RECORD);
        // SAFETY: the record is RECORD bytes of one allocation.
        unsafe { self.0.as_ptr().add(offset) }
    }

    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn tail(self) -> Tail {
        // SAFETY: bytes 24..32 of the record.
        Tail(unsafe { self.at(TAIL_AT).cast::<u64>().read_unaligned() })
    }

    /// Asks for the record.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch::line(self.0.as_ptr());
    }

    /// Asks for what the record has on the heap: a long key, the bytes of a string, the head of a collection.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn prefetch_heap(self) {
        // SAFETY: by contract. The value word of a string is the pointer to its bytes, or short bytes, for which
        // the request is wasted but harmless.
        unsafe {
            if self.at(META_AT).read() & LEN_MASK == HEAP_KEY {
                prefetch::line(self.at(KEY_AT).cast::<*const u8>().read_unaligned());
            }
            match self.kind() {
                Kind::Str | Kind::RawStr | Kind::Limiter | Kind::Item => {
                    prefetch::line(self.at(0).cast::<*const u8>().read_unaligned());
                }
                Kind::Object => {
                    let object = self.at(0).cast::<*const u8>().read_unaligned();
                    prefetch::prefetch_lines(object, size_of::<Object>());
                }
                Kind::Int | Kind::FixedWindow | Kind::Gcra => {}
            }
        }
    }

    /// Asks for what a collection reads first.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn prefetch_content(self) {
        // SAFETY: by contract; a record of that kind points to a live object.
        unsafe {
            if let Some(object) = self.object() {
                let front = (*object).front();
                prefetch::line(front);
                prefetch::line(front.wrapping_add(64));
            }
        }
    }

    /// Writes a new record with value 0 of kind integer and no expiry. A long key is copied to the heap.
    ///
    /// # Safety
    /// The record's place is free.
    pub(crate) unsafe fn init(self, key: &Key<'_>, clock: u16) {
        let bytes = key.bytes();
        // SAFETY: all writes are within the record; the copy is at most INLINE_KEY bytes.
        unsafe {
            ptr::write_bytes(self.at(0), 0, RECORD);
            if bytes.len() <= INLINE_KEY {
                ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(KEY_AT), bytes.len());
                self.at(META_AT).write(bytes.len() as u8);
            } else {
                assert!(
                    bytes.len() <= Key::MAX_LEN,
                    "a key of {} bytes is longer than Key::MAX_LEN",
                    bytes.len()
                );
                let heap: Box<[u8]> = bytes.into();
                self.at(KEY_AT)
                    .cast::<*mut u8>()
                    .write_unaligned(Box::into_raw(heap).cast());
                self.at(KEY_LEN_AT)
                    .cast::<u32>()
                    .write_unaligned(bytes.len() as u32);
                self.at(KEY_HASH_AT)
                    .cast::<u32>()
                    .write_unaligned(key.hash as u32);
                self.at(META_AT).write(HEAP_KEY);
            }
            self.at(CLOCK_AT).cast::<u16>().write_unaligned(clock);
        }
    }

    /// Copies a record here; the other one must not be used as one any more.
    ///
    /// # Safety
    /// `other` is an initialised record elsewhere; what was here has been freed or moved out.
    #[inline]
    pub(crate) unsafe fn copy_from(self, other: Self) {
        // SAFETY: two records at different places.
        unsafe { ptr::copy_nonoverlapping(other.at(0), self.at(0), RECORD) };
    }

    /// Whether the record is `key`'s.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn matches(self, key: &Key<'_>) -> bool {
        let wanted = key.bytes();
        // SAFETY: the record is initialised, and its meta byte tells which form the key has.
        unsafe {
            let len = self.at(META_AT).read() & LEN_MASK;
            if wanted.len() <= INLINE_KEY {
                len as usize == wanted.len() && equal_short(self.at(KEY_AT), wanted)
            } else {
                len == HEAP_KEY
                    && self.at(KEY_HASH_AT).cast::<u32>().read_unaligned() == key.hash as u32
                    && self.key() == wanted
            }
        }
    }

    /// The key's bytes.
    ///
    /// # Safety
    /// The record is initialised and stays in place and unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn key<'a>(self) -> &'a [u8] {
        // SAFETY: the meta byte tells the key's length or that it is on the heap, where pointer and length say.
        unsafe {
            match self.at(META_AT).read() & LEN_MASK {
                HEAP_KEY => {
                    let start = self.at(KEY_AT).cast::<*mut u8>().read_unaligned();
                    let len = self.at(KEY_LEN_AT).cast::<u32>().read_unaligned();
                    std::slice::from_raw_parts(start, len as usize)
                }
                len => std::slice::from_raw_parts(self.at(KEY_AT), len as usize),
            }
        }
    }

    /// Bytes of the key on the heap.
    ///
    /// # Safety
    /// The record is initialised.
    pub(crate) unsafe fn key_heap_bytes(self) -> usize {
        // SAFETY: by contract.
        let len = unsafe { self.key() }.len();
        if len <= INLINE_KEY { 0 } else { len }
    }

    /// The low 32 bits of the key's hash, which choose its bucket.
    ///
    /// # Safety
    /// The record is initialised.
    pub(crate) unsafe fn bucket_hash(self, seed: &Seed) -> u32 {
        // SAFETY: by contract; a heap key has its hash bits in the record.
        unsafe {
            match self.at(META_AT).read() & LEN_MASK {
                HEAP_KEY => self.at(KEY_HASH_AT).cast::<u32>().read_unaligned(),
                _ => seed.hash(self.key()) as u32,
            }
        }
    }

    /// Frees a heap key. The record must not be used as one afterwards.
    ///
    /// # Safety
    /// The record is initialised, and its key is not used any more.
    pub(crate) unsafe fn drop_key(self) {
        // SAFETY: a heap key was made from a Box<[u8]> of exactly this length.
        unsafe {
            let key = self.key();
            if key.len() > INLINE_KEY {
                let start = self.at(KEY_AT).cast::<*mut u8>().read_unaligned();
                drop(Box::from_raw(ptr::slice_from_raw_parts_mut(
                    start,
                    key.len(),
                )));
            }
        }
    }

    #[inline]
    unsafe fn kind(self) -> Kind {
        // SAFETY: by contract of the callers the record is initialised.
        Kind::of(unsafe { self.at(META_AT).read() })
    }

    #[inline]
    unsafe fn set_kind(self, kind: Kind) {
        // SAFETY: by contract of the callers the record is initialised.
        unsafe {
            self.at(META_AT)
                .write(self.at(META_AT).read() & LEN_MASK | (kind as u8) << 5)
        };
    }

    /// The value.
    ///
    /// # Safety
    /// The record is initialised and stays in place and unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn value<'a>(self) -> ValueRef<'a> {
        // SAFETY: the kind tells what the first word is.
        unsafe {
            let word = self.at(0).cast::<u64>();
            match self.kind() {
                Kind::Int => ValueRef::Int(word.read_unaligned() as i64),
                Kind::Str | Kind::RawStr => ValueRef::Bytes((*self.at(0).cast::<Str>()).as_slice()),
                Kind::FixedWindow => ValueRef::Limiter(LimiterState::FixedWindow {
                    count: word.read_unaligned(),
                }),
                Kind::Gcra => ValueRef::Limiter(LimiterState::Gcra {
                    tat: Timestamp::from_nanos(word.read_unaligned() as i64),
                }),
                Kind::Object => ValueRef::Object(&*self.at(0).cast::<*const Object>().read()),
                Kind::Limiter => {
                    ValueRef::Limiter(self.at(0).cast::<*const LimiterState>().read().read())
                }
                Kind::Item => {
                    ValueRef::Bytes((*self.at(0).cast::<*const Item>().read()).text.as_slice())
                }
            }
        }
    }

    /// Takes the value out; the record then holds the integer 0.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn take_value(self) -> Value {
        // SAFETY: the kind tells what the first word is; a Str or Box moves out and the kind changes with it.
        unsafe {
            let value = match self.kind() {
                Kind::Str | Kind::RawStr => Value::Str(self.at(0).cast::<Str>().read()),
                Kind::Object => Value::Object(self.at(0).cast::<Box<Object>>().read()),
                Kind::Limiter => Value::Limiter(*self.at(0).cast::<Box<LimiterState>>().read()),
                Kind::Item => Value::Str(self.at(0).cast::<Box<Item>>().read().text),
                _ => self.value().to_value(),
            };
            self.set_kind(Kind::Int);
            self.at(0).cast::<u64>().write_unaligned(0);
            value
        }
    }

    /// Replaces a value that lies in the record by another one that does; false, and no change, where that cannot be.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn replace_inline(self, value: &Value) -> bool {
        let (kind, word) = match *value {
            Value::Int(int) => (Kind::Int, int as u64),
            Value::Limiter(LimiterState::FixedWindow { count }) => (Kind::FixedWindow, count),
            Value::Limiter(LimiterState::Gcra { tat }) => (Kind::Gcra, tat.nanos() as u64),
            _ => return false,
        };
        // SAFETY: by contract; values of these kinds own nothing that would have to be freed.
        unsafe {
            let is_inline = matches!(self.kind(), Kind::Int | Kind::FixedWindow | Kind::Gcra);
            if is_inline {
                self.at(0).cast::<u64>().write_unaligned(word);
                self.set_kind(kind);
            }
            is_inline
        }
    }

    /// Replaces the value; returns by how many bytes the heap use of the value changed.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn set_value(self, value: Value) -> isize {
        // SAFETY: what the old value has on the heap, if anything, is overwritten in place, or freed before its word is.
        unsafe {
            if self.kind() == Kind::Limiter
                && let Value::Limiter(state) = value
                && !is_inline(state)
            {
                self.at(0).cast::<*mut LimiterState>().read().write(state);
                return 0;
            }
            let freed = self.free_value();
            let word = self.at(0).cast::<u64>();
            let (kind, added) = match value {
                Value::Int(int) => {
                    word.write_unaligned(int as u64);
                    (Kind::Int, 0)
                }
                Value::Limiter(LimiterState::FixedWindow { count }) => {
                    word.write_unaligned(count);
                    (Kind::FixedWindow, 0)
                }
                Value::Limiter(LimiterState::Gcra { tat }) => {
                    word.write_unaligned(tat.nanos() as u64);
                    (Kind::Gcra, 0)
                }
                Value::Limiter(state) => {
                    self.at(0)
                        .cast::<Box<LimiterState>>()
                        .write(Box::new(state));
                    (Kind::Limiter, size_of::<LimiterState>())
                }
                Value::Str(string) => {
                    let bytes = string.heap_bytes();
                    self.at(0).cast::<Str>().write(string);
                    (Kind::Str, bytes)
                }
                Value::Object(object) => {
                    let bytes = object.heap_bytes();
                    self.at(0).cast::<Box<Object>>().write(object);
                    (Kind::Object, bytes)
                }
            };
            self.set_kind(kind);
            added as isize - freed as isize
        }
    }

    /// Frees what the value has on the heap; returns its bytes. The value word must be overwritten next.
    #[inline]
    unsafe fn free_value(self) -> usize {
        // SAFETY: by contract of the callers the record is initialised; its kind tells what the word owns.
        unsafe {
            match self.kind() {
                Kind::Str | Kind::RawStr => {
                    let string = self.at(0).cast::<Str>();
                    let bytes = (*string).heap_bytes();
                    string.drop_in_place();
                    bytes
                }
                Kind::Object => {
                    let object = self.at(0).cast::<Box<Object>>().read();
                    object.heap_bytes()
                }
                Kind::Limiter => {
                    drop(self.at(0).cast::<Box<LimiterState>>().read());
                    size_of::<LimiterState>()
                }
                Kind::Item => self.at(0).cast::<Box<Item>>().read().heap_bytes(),
                _ => 0,
            }
        }
    }

    /// The string of the record, if its value is one.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn string(self) -> Option<*mut Str> {
        // SAFETY: by contract.
        match unsafe { self.kind() } {
            Kind::Str | Kind::RawStr => Some(self.at(0).cast::<Str>()),
            _ => None,
        }
    }

    /// The string of the record with its mark, if it has one.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn item(self) -> Option<*mut Item> {
        // SAFETY: by contract; the word of that kind is the pointer of a Box.
        unsafe {
            match self.kind() {
                Kind::Item => Some(self.at(0).cast::<*mut Item>().read()),
                _ => None,
            }
        }
    }

    /// Marks the string of the record, or takes its mark away where nothing is to be kept; returns by how many bytes the heap
    /// use changed. `None`, and no change, if the value is no string.
    ///
    /// # Safety
    /// The record is initialised.
    pub(crate) unsafe fn set_mark(self, mark: Mark) -> Option<isize> {
        // SAFETY: by contract; what moves out of the value word is written back in another form, and the kind with it.
        unsafe {
            let kind = self.kind();
            if !matches!(kind, Kind::Int | Kind::Str | Kind::RawStr | Kind::Item) {
                return None;
            }
            if let Some(item) = self.item().filter(|_| !mark.is_none()) {
                (*item).mark = mark;
                return Some(0);
            }
            if mark.is_none() {
                let Some(item) = self.item() else {
                    return Some(0);
                };
                let (before, raw) = ((*item).heap_bytes(), (*item).raw);
                let text = match self.take_value() {
                    Value::Str(text) => text,
                    _ => unreachable!("the value of an item is a string"),
                };
                let value = match number::parse_i64(text.as_slice()) {
                    Some(int) if !raw => Value::Int(int),
                    _ => Value::Str(text),
                };
                let added = self.set_value(value);
                if raw {
                    self.mark_raw();
                }
                return Some(added - before as isize);
            }
            let before = self.value_heap_bytes();
            let text = match self.take_value() {
                Value::Str(text) => text,
                Value::Int(int) => {
                    let mut buf = [0; number::I64_TEXT_LEN];
                    Str::from_slice(number::write_i64(&mut buf, int))
                }
                _ => unreachable!("the kind is that of a string"),
            };
            let raw = kind == Kind::RawStr;
            let item = Box::new(Item { text, mark, raw });
            let after = item.heap_bytes();
            self.at(0).cast::<Box<Item>>().write(item);
            self.set_kind(Kind::Item);
            Some(after as isize - before as isize)
        }
    }

    /// Replaces a string where it lies by one, not of an integer, that needs exactly its room; false, and no change, where
    /// that cannot be.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn overwrite(self, bytes: &[u8]) -> bool {
        // SAFETY: by contract; the string is the record's own.
        unsafe {
            let done = match self.string() {
                Some(string) => (*string).overwrite(bytes),
                None => false,
            };
            if done {
                self.set_kind(Kind::Str);
            }
            done
        }
    }

    /// The collection of the record, if its value is one.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn object(self) -> Option<*mut Object> {
        // SAFETY: by contract; the word of that kind is the pointer of a Box.
        unsafe {
            match self.kind() {
                Kind::Object => Some(self.at(0).cast::<*mut Object>().read()),
                _ => None,
            }
        }
    }

    /// Where the value is, if it is a collection, or a string outside of the record without a mark.
    ///
    /// # Safety
    /// The record is initialised.
    pub(crate) unsafe fn outside(self) -> Option<*const u8> {
        // SAFETY: by contract; the kind tells what the word is.
        unsafe {
            match self.kind() {
                Kind::Object => Some(self.at(0).cast::<*const u8>().read()),
                Kind::Str | Kind::RawStr => {
                    let string = &*self.at(0).cast::<Str>();
                    (string.heap_bytes() > 0).then(|| string.as_slice().as_ptr())
                }
                _ => None,
            }
        }
    }

    /// From now on the string counts as changed in place.
    ///
    /// # Safety
    /// The record holds a string.
    pub(crate) unsafe fn mark_raw(self) {
        // SAFETY: both kinds have a Str in the value word; an item says so itself.
        unsafe {
            match self.item() {
                Some(item) => (*item).raw = true,
                None => self.set_kind(Kind::RawStr),
            }
        }
    }

    /// Bytes of the value on the heap.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn value_heap_bytes(self) -> usize {
        // SAFETY: by contract; the kind tells what the word points to.
        unsafe {
            match self.kind() {
                Kind::Str | Kind::RawStr => (*self.at(0).cast::<Str>()).heap_bytes(),
                Kind::Object => (*self.at(0).cast::<*const Object>().read()).heap_bytes(),
                Kind::Limiter => size_of::<LimiterState>(),
                Kind::Item => (*self.at(0).cast::<*const Item>().read()).heap_bytes(),
                _ => 0,
            }
        }
    }

    /// # Safety
    /// The record is initialised.
    pub(crate) unsafe fn type_name(self) -> TypeName {
        // SAFETY: by contract.
        match unsafe { self.kind() } {
            Kind::Int | Kind::Str | Kind::RawStr | Kind::Item => TypeName::String,
            Kind::FixedWindow | Kind::Gcra | Kind::Limiter => TypeName::RateLimit,
            // SAFETY: the word of that kind is the pointer of a Box.
            Kind::Object => unsafe { (*self.at(0).cast::<*const Object>().read()).type_name() },
        }
    }

    /// # Safety
    /// The record is initialised.
    pub(crate) unsafe fn encoding(self) -> Encoding {
        // SAFETY: by contract; a record of kind Str holds a live Str.
        unsafe {
            match self.kind() {
                Kind::Int => Encoding::Int,
                Kind::Str if (*self.at(0).cast::<Str>()).len() <= Encoding::EMBSTR_MAX => {
                    Encoding::Embstr
                }
                Kind::Str | Kind::RawStr => Encoding::Raw,
                Kind::FixedWindow => Encoding::FixedWindow,
                Kind::Gcra => Encoding::Gcra,
                Kind::Object => (*self.at(0).cast::<*const Object>().read()).encoding(),
                Kind::Limiter => {
                    Encoding::Limiter((*self.at(0).cast::<*const LimiterState>().read()).encoding())
                }
                Kind::Item => (*self.at(0).cast::<*const Item>().read()).encoding(),
            }
        }
    }

    /// Stores an expiry and returns true, or returns false if it needs the far map and marks the record so.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn set_expiry(self, expires_at_ms: Option<i64>) -> bool {
        let code = match expires_at_ms {
            None => 0,
            Some(at) => match at.checked_sub(EXPIRY_BASE_MS) {
                Some(offset) if offset > 0 && (offset as u64) < FAR => offset as u64,
                _ => FAR,
            },
        };
        // SAFETY: bytes 24..32 of the record; clock and meta are written back unchanged.
        unsafe {
            let tail = self.at(TAIL_AT).cast::<u64>();
            tail.write_unaligned((tail.read_unaligned() & !EXPIRY_MASK) | code);
        }
        code != FAR
    }

    /// Sets the access clock; leaves the cache line clean if nothing changes.
    ///
    /// # Safety
    /// The record is initialised.
    #[inline]
    pub(crate) unsafe fn touch(self, tail: Tail, clock: u16) {
        if tail.clock() != clock {
            // SAFETY: bytes 29 and 30 of the record.
            unsafe { self.at(CLOCK_AT).cast::<u16>().write_unaligned(clock) };
        }
    }
}

/// Whether limiter state fits the value word.
fn is_inline(state: LimiterState) -> bool {
    matches!(
        state,
        LimiterState::FixedWindow { .. } | LimiterState::Gcra { .. }
    )
}

/// Whether the `wanted.len()` bytes at `stored` equal `wanted`, which has at most [`INLINE_KEY`] bytes.
///
/// # Safety
/// `stored` points to [`INLINE_KEY`] readable bytes.
#[inline]
unsafe fn equal_short(stored: *const u8, wanted: &[u8]) -> bool {
    let len = wanted.len();
    let other = wanted.as_ptr();
    debug_assert!(len <= INLINE_KEY);
    // SAFETY: every read lies within the first `len` bytes of both; overlapping reads cover all lengths.
    unsafe {
        if len >= 8 {
            let word = |p: *const u8, at: usize| p.add(at).cast::<u64>().read_unaligned();
            (word(stored, 0) ^ word(other, 0)) | (word(stored, len - 8) ^ word(other, len - 8)) == 0
        } else if len >= 4 {
            let half = |p: *const u8, at: usize| p.add(at).cast::<u32>().read_unaligned();
            (half(stored, 0) ^ half(other, 0)) | (half(stored, len - 4) ^ half(other, len - 4)) == 0
        } else {
            (0..len).all(|i| stored.add(i).read() == other.add(i).read())
        }
    }
}
