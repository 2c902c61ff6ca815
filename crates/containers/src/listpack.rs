//! Redis' listpack: a list of byte strings and integers in one run of bytes.
//!
//! ```text
//! header   total bytes: u32 | elements: u16 (65535 = count them)
//! element  encoding and data | length of that, readable from behind
//! end      0xFF
//! ```
//!
//! Streams keep their entries in it, and stored files hold small collections as listpacks. The bytes are those that
//! redis-server has in memory and writes, which is what makes trimming whole nodes and payloads equal to its own.

mod encoding;

use crate::number;
use encoding::{Head, INT_LEN_MAX, back_len, decode, push_back_len, write_int};

/// Bytes before the first element.
const HEADER: usize = 6;
/// Ends a listpack.
const END: u8 = 0xFF;
/// In the header: too many elements for its two bytes.
const MANY: usize = 65_535;

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// An integer; text that is a canonical integer is kept as such.
    Int(i64),
    /// Any other string.
    Bytes(&'a [u8]),
}

impl Element<'_> {
    /// The number, when it is one.
    #[inline]
    pub fn int(self) -> Option<i64> {
        match self {
            Element::Int(int) => Some(int),
            Element::Bytes(_) => None,
        }
    }

    /// Calls `f` with the text.
    #[inline]
    pub fn with_text<T>(self, f: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Element::Bytes(bytes) => f(bytes),
            Element::Int(int) => {
                let mut buf = [0; number::I64_TEXT_LEN];
                f(number::write_i64(&mut buf, int))
            }
        }
    }

    /// Whether its text is `bytes`.
    #[inline]
    pub fn is(self, bytes: &[u8]) -> bool {
        self.with_text(|text| text == bytes)
    }

    /// Its text.
    pub fn to_vec(self) -> Vec<u8> {
        self.with_text(<[u8]>::to_vec)
    }
}

/// A list of byte strings and integers in one run of bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Listpack {
    /// Always whole and valid.
    bytes: Vec<u8>,
}

/// Where an element begins. Valid until an element before it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(usize);

impl Listpack {
    /// Longest listpack in bytes; its length is a 32-bit number.
    pub(crate) const MAX_BYTES: usize = u32::MAX as usize;

    /// An empty list with room for `capacity` bytes of elements.
    pub fn with_capacity(capacity: usize) -> Listpack {
        let mut bytes = Vec::with_capacity(capacity + HEADER + 1);
        bytes.extend_from_slice(&[HEADER as u8 + 1, 0, 0, 0, 0, 0, END]);
        Listpack { bytes }
    }

    /// An empty list.
    pub fn new() -> Listpack {
        Listpack::with_capacity(0)
    }

    /// Takes bytes from elsewhere; `None` unless they are a whole listpack, each element checked.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Listpack> {
        if bytes.len() < HEADER + 1 || bytes.last() != Some(&END) {
            return None;
        }
        let list = Listpack { bytes };
        if list.announced_bytes() != list.bytes.len() {
            return None;
        }
        let end = list.bytes.len() - 1;
        let mut at = HEADER;
        let mut count = 0;
        while at < end {
            at = list.checked_next(at, end)?;
            count += 1;
        }
        let announced = list.announced_count();
        (at == end && (announced == MANY || announced == count)).then_some(list)
    }

    /// The end of the element at `at`, when it lies within `end` and its length stands behind it once more.
    fn checked_next(&self, at: usize, end: usize) -> Option<usize> {
        let head = Head::read(&self.bytes[at..end])?;
        let data = head.len();
        let mut back = Vec::with_capacity(5);
        push_back_len(&mut back, data);
        let data_end = at.checked_add(data)?;
        let next = data_end.checked_add(back.len())?;
        (next <= end && self.bytes[data_end..next] == back).then_some(next)
    }

    /// All bytes, as a stored file has them.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes in all.
    #[inline]
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes allocated.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives back what is allocated beyond the bytes in use.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Number of elements; counts them when there are more than the header can say.
    pub fn len(&self) -> usize {
        match self.announced_count() {
            MANY => self.iter().count(),
            count => count,
        }
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER + 1
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Element<'_>> {
        let mut at = self.first();
        std::iter::from_fn(move || {
            let (element, next) = self.get(at)?;
            at = next;
            Some(element)
        })
    }

    /// Where the first element begins, or the end.
    #[inline]
    pub fn first(&self) -> At {
        At(HEADER)
    }

    /// Behind the last element.
    #[inline]
    pub fn end(&self) -> At {
        At(self.bytes.len() - 1)
    }

    /// The element at `at` and where the next one begins; `None` at the end.
    #[inline]
    pub fn get(&self, at: At) -> Option<(Element<'_>, At)> {
        let bytes = self.bytes.get(at.0..self.bytes.len() - 1)?;
        if bytes.is_empty() {
            return None;
        }
        let (element, len) = decode(bytes)?;
        Some((element, At(at.0 + len + back_len(len))))
    }

    /// The integer at `at` and where the next element begins; `None` for a string too.
    #[inline]
    pub fn int(&self, at: At) -> Option<(i64, At)> {
        let (element, next) = self.get(at)?;
        Some((element.int()?, next))
    }

    /// Where the element after that at `at` begins; the end stays the end.
    #[inline]
    pub fn skip(&self, at: At, count: usize) -> At {
        let end = self.bytes.len() - 1;
        let mut at = at.0;
        for _ in 0..count {
            let Some(head) = self.bytes.get(at..end).and_then(Head::read) else {
                return At(end);
            };
            at += head.len() + back_len(head.len());
        }
        At(at)
    }

    /// Where the element before that at `at` begins; `None` at the first.
    pub fn back(&self, at: At) -> Option<At> {
        let mut len = 0;
        let mut shift = 0;
        let mut behind = at.0;
        while behind > HEADER {
            behind -= 1;
            let byte = self.bytes[behind];
            len |= usize::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return behind.checked_sub(len).filter(|&at| at >= HEADER).map(At);
            }
            shift += 7;
        }
        None
    }

    /// Adds a string; a canonical integer is kept as a number.
    pub fn push(&mut self, text: &[u8]) {
        match number::parse_i64(text) {
            Some(int) => self.push_int(int),
            None => self.push_with(|bytes| encoding::push_bytes(bytes, text)),
        }
    }

    /// Adds an integer.
    pub fn push_int(&mut self, int: i64) {
        self.push_with(|bytes| {
            let mut buf = [0; INT_LEN_MAX];
            bytes.extend_from_slice(write_int(&mut buf, int));
        });
    }

    fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.pop();
        let start = self.bytes.len();
        write(&mut self.bytes);
        let len = self.bytes.len() - start;
        push_back_len(&mut self.bytes, len);
        self.bytes.push(END);
        let count = self.announced_count();
        if count != MANY {
            self.bytes[4..HEADER].copy_from_slice(&((count + 1) as u16).to_le_bytes());
        }
        self.announce_bytes();
    }

    /// Replaces the element at `at` by an integer; places before it stay valid. The end is left as it is.
    pub(crate) fn replace_int(&mut self, at: At, int: i64) {
        let Some((_, next)) = self.get(at) else {
            return;
        };
        let mut buf = [0; INT_LEN_MAX];
        let data = write_int(&mut buf, int);
        let old = at.0..next.0;
        let len = data.len() + back_len(data.len());
        if len == old.len() {
            self.bytes[at.0..at.0 + data.len()].copy_from_slice(data);
            return;
        }
        let mut new = Vec::with_capacity(len);
        new.extend_from_slice(data);
        push_back_len(&mut new, data.len());
        self.bytes.splice(old, new);
        self.announce_bytes();
    }

    fn announced_bytes(&self) -> usize {
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes[..4]);
        u32::from_le_bytes(word) as usize
    }

    fn announced_count(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[4], self.bytes[5]]))
    }

    fn announce_bytes(&mut self) {
        let len = self.bytes.len();
        assert!(
            len <= Self::MAX_BYTES,
            "a listpack of {len} bytes is longer than its header can say"
        );
        self.bytes[..4].copy_from_slice(&(len as u32).to_le_bytes());
    }
}

impl Default for Listpack {
    fn default() -> Self {
        Listpack::new()
    }
}

impl std::fmt::Debug for Listpack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
