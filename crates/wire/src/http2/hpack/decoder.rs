//! Reads header fields of requests.

use std::collections::VecDeque;
use std::rc::Rc;

use super::super::huffman;
use super::{Broken, Meaning, OVERHEAD, STATIC, STATIC_TABLE, TABLE_MAX, Value};

#[derive(Debug)]
pub(super) struct Entry {
    meaning: Meaning,
    name: Rc<[u8]>,
    value: Rc<[u8]>,
}

impl Entry {
    fn size(&self) -> usize {
        self.name.len() + self.value.len() + OVERHEAD
    }
}

/// Reads blocks of header fields, with the table that they share.
#[derive(Debug)]
pub struct Decoder {
    /// The newest first.
    pub(super) entries: VecDeque<Entry>,
    pub(super) size: usize,
    max: usize,
    /// How often the table has changed.
    changes: u64,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            max: TABLE_MAX,
            changes: 0,
            name: Vec::new(),
            value: Vec::new(),
        }
    }
}

/// Memory of a text that is kept for the next one.
const TEXT_KEPT: usize = 16 << 10;

/// Why a field cannot be read.
enum Stop {
    /// It is not whole.
    Short,
    /// It is none.
    Broken,
}

/// Where a text comes from.
enum Name {
    Static(usize),
    Dynamic(usize),
    Own,
}

impl Decoder {
    /// How often the table has changed: while it has not, the same block says the same.
    #[must_use]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Reads a whole block: `each` takes every field with its size by the RFC's count.
    ///
    /// # Errors
    /// [`Broken`] if it is not a block of fields.
    pub fn read(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(Meaning, Value<'_>, usize),
    ) -> Result<(), Broken> {
        let mut fields = false;
        let rest = self.read_fields(block, &mut fields, &mut each)?;
        match rest.is_empty() {
            true => Ok(()),
            false => Err(Broken),
        }
    }

    /// Follows the table through the part of a block that has come, of which nothing else is wanted; `fields` tells whether one
    /// has come before, and from now on. Gives the beginning of a field that is not whole.
    ///
    /// # Errors
    /// [`Broken`] if it is not a block of fields.
    pub(crate) fn follow<'a>(
        &mut self,
        part: &'a [u8],
        fields: &mut bool,
    ) -> Result<&'a [u8], Broken> {
        self.read_fields(part, fields, &mut |_, _, _| ())
    }

    fn read_fields<'a>(
        &mut self,
        mut block: &'a [u8],
        fields: &mut bool,
        each: &mut impl FnMut(Meaning, Value<'_>, usize),
    ) -> Result<&'a [u8], Broken> {
        while let Some(&first) = block.first() {
            let mut rest = block;
            let read = if first & 0x80 != 0 {
                integer(&mut rest, 7).and_then(|index| self.indexed(index, each))
            } else if first & 0xe0 == 0x20 {
                integer(&mut rest, 5).and_then(|max| self.resize(max, *fields))
            } else {
                self.literal(&mut rest, first & 0x40 != 0, each)
            };
            match read {
                Ok(()) => {}
                Err(Stop::Short) => break,
                Err(Stop::Broken) => return Err(Broken),
            }
            *fields |= first & 0xe0 != 0x20;
            block = rest;
        }
        for text in [&mut self.name, &mut self.value] {
            text.shrink_to(TEXT_KEPT);
        }
        Ok(block)
    }

    /// The peer's table is no larger from now on. Sizes are changed before the first field only.
    fn resize(&mut self, max: usize, fields: bool) -> Result<(), Stop> {
        if fields || max > TABLE_MAX {
            return Err(Stop::Broken);
        }
        self.max = max;
        self.changes += 1;
        self.shrink(max);
        Ok(())
    }

    fn indexed(
        &self,
        index: usize,
        each: &mut impl FnMut(Meaning, Value<'_>, usize),
    ) -> Result<(), Stop> {
        if let Some(at) = index.checked_sub(STATIC + 1) {
            let entry = self.entries.get(at).ok_or(Stop::Broken)?;
            each(entry.meaning, Value::Shared(&entry.value), entry.size());
            return Ok(());
        }
        let at = index.checked_sub(1).ok_or(Stop::Broken)?;
        let (name, value) = STATIC_TABLE[at];
        let size = name.len() + value.len() + OVERHEAD;
        each(Meaning::of(name.as_bytes()), Value::Static(value), size);
        Ok(())
    }

    fn literal(
        &mut self,
        block: &mut &[u8],
        indexes: bool,
        each: &mut impl FnMut(Meaning, Value<'_>, usize),
    ) -> Result<(), Stop> {
        let name = match integer(block, if indexes { 6 } else { 4 })? {
            0 => {
                text(block, &mut self.name)?;
                Name::Own
            }
            index @ 1..=STATIC => Name::Static(index - 1),
            index => Name::Dynamic(index - STATIC - 1),
        };
        text(block, &mut self.value)?;
        let (meaning, len) = match name {
            Name::Own => (Meaning::of(&self.name), self.name.len()),
            Name::Static(at) => {
                let name = STATIC_TABLE[at].0;
                (Meaning::of(name.as_bytes()), name.len())
            }
            Name::Dynamic(at) => {
                let entry = self.entries.get(at).ok_or(Stop::Broken)?;
                (entry.meaning, entry.name.len())
            }
        };
        let size = len + self.value.len() + OVERHEAD;
        each(meaning, Value::Own(&self.value), size);
        if indexes {
            self.changes += 1;
            // The name may be that of an entry which goes now.
            let name = match name {
                Name::Own => self.name.as_slice().into(),
                Name::Static(at) => STATIC_TABLE[at].0.as_bytes().into(),
                Name::Dynamic(at) => self.entries[at].name.clone(),
            };
            self.shrink(self.max.saturating_sub(size));
            if size <= self.max {
                self.size += size;
                let value = self.value.as_slice().into();
                self.entries.push_front(Entry {
                    meaning,
                    name,
                    value,
                });
            }
        }
        Ok(())
    }

    /// Drops the oldest entries until the table takes no more than `max`.
    fn shrink(&mut self, max: usize) {
        while self.size > max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
    }
}

/// A number whose first byte has `bits` of it.
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, Stop> {
    let (&first, mut rest) = block.split_first().ok_or(Stop::Short)?;
    let mask = (1_usize << bits) - 1;
    let mut number = usize::from(first) & mask;
    if number == mask {
        let mut shift = 0;
        loop {
            let (&next, after) = rest.split_first().ok_or(Stop::Short)?;
            rest = after;
            // Four more bytes are enough for every length there can be.
            if shift > 21 {
                return Err(Stop::Broken);
            }
            number += usize::from(next & 0x7f) << shift;
            shift += 7;
            if next & 0x80 == 0 {
                break;
            }
        }
    }
    *block = rest;
    Ok(number)
}

/// A text, which is never longer than the block allows.
fn text(block: &mut &[u8], into: &mut Vec<u8>) -> Result<(), Stop> {
    let coded = block.first().ok_or(Stop::Short)? & 0x80 != 0;
    let len = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(len).ok_or(Stop::Short)?;
    *block = rest;
    into.clear();
    if coded {
        return if huffman::decode(text, into) {
            Ok(())
        } else {
            Err(Stop::Broken)
        };
    }
    into.extend_from_slice(text);
    Ok(())
}
