//! The whole table and how a command is found in it.

use std::sync::LazyLock;

use crate::families::FAMILIES;
use crate::{CmdError, Family, Row};

/// Slots of the name index: a power of two, at least four times the number of commands, so that
/// nearly every name is found at its first slot.
const SLOTS: usize = 512;

static INDEX: LazyLock<Box<[Option<Named>; SLOTS]>> = LazyLock::new(|| {
    let mut slots = Box::new([None; SLOTS]);
    for row in rows() {
        let mut at = slot(&Ends::of(row.name.as_bytes()));
        while slots[at].is_some() {
            at = (at + 1) % SLOTS;
        }
        slots[at] = Some(Named::new(row));
    }
    slots
});

/// The length of a name, its first and its last bytes: all of it, unless it is longer than both together.
#[derive(Clone, Copy)]
struct Ends {
    len: usize,
    head: u64,
    tail: u64,
}

impl Ends {
    #[inline]
    fn of(name: &[u8]) -> Ends {
        let (head, tail) = if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk())
        {
            (u64::from_le_bytes(*head), u64::from_le_bytes(*tail))
        } else if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
            (
                u32::from_le_bytes(*head).into(),
                u32::from_le_bytes(*tail).into(),
            )
        } else {
            let byte = |at: usize| u64::from(name.get(at).copied().unwrap_or_default());
            (byte(0) | byte(1) << 8, byte(2))
        };
        Ends {
            len: name.len(),
            head,
            tail,
        }
    }
}

/// A row, and what tells its name from others, in any case, without a look at each byte.
#[derive(Clone, Copy)]
struct Named {
    row: &'static Row,
    ends: Ends,
    /// The bits in which a spelling of the name may differ from it: that of the case, in bytes that are letters.
    free: (u64, u64),
}

impl Named {
    fn new(row: &'static Row) -> Named {
        let free = |word: u64| {
            let case = |byte: u8| if byte.is_ascii_alphabetic() { 0x20 } else { 0 };
            u64::from_le_bytes(word.to_le_bytes().map(case))
        };
        let ends = Ends::of(row.name.as_bytes());
        Named {
            row,
            ends,
            free: (free(ends.head), free(ends.tail)),
        }
    }

    #[inline]
    fn is(&self, name: &[u8], ends: &Ends) -> bool {
        const WHOLE: usize = 2 * size_of::<u64>();
        self.ends.len == ends.len
            && (self.ends.head ^ ends.head) & !self.free.0 == 0
            && (self.ends.tail ^ ends.tail) & !self.free.1 == 0
            && (ends.len <= WHOLE || self.row.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The families in the order of the documentation.
pub fn families() -> &'static [&'static Family] {
    FAMILIES
}

/// Every command, without sub-commands.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    FAMILIES.iter().flat_map(|family| family.rows)
}

/// The command of that name (any case).
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Row> {
    let index = &**INDEX;
    let ends = Ends::of(name);
    let mut at = slot(&ends);
    while let Some(named) = &index[at] {
        if named.is(name, &ends) {
            return Some(named.row);
        }
        at = (at + 1) % SLOTS;
    }
    None
}

/// The command or (as `client|kill`) sub-command of that name, in any case.
pub(crate) fn by_full_name(name: &[u8]) -> Option<&'static Row> {
    match name.iter().position(|&b| b == b'|') {
        None => lookup(name),
        Some(bar) => lookup(&name[..bar])?.sub(&name[bar + 1..]),
    }
}

/// The row that runs `words`: the command's, or its sub-command's.
#[inline]
pub fn find(words: &[&[u8]]) -> Option<&'static Row> {
    find_sub(lookup(words.first()?)?, words)
}

/// The row that runs `words`, which call the command of `row`.
#[inline]
pub(crate) fn find_sub(row: &'static Row, words: &[&[u8]]) -> Option<&'static Row> {
    match words.get(1) {
        Some(word) if !row.subs.is_empty() => row.sub(word),
        _ => Some(row),
    }
}

/// As [`find`]; fails with the reply for a command or sub-command that does not exist.
#[inline]
pub fn resolve(words: &[&[u8]]) -> Result<&'static Row, CmdError> {
    find(words).ok_or_else(|| unknown(words.first().and_then(|name| lookup(name)), words))
}

/// The reply for words that no row runs; `row` is that of the command, if there is one.
#[cold]
pub(crate) fn unknown(row: Option<&'static Row>, words: &[&[u8]]) -> CmdError {
    match (row, words.get(1)) {
        (Some(_), Some(word)) => CmdError::unknown_subcommand(words[0], word),
        _ => CmdError::unknown_command(words),
    }
}

/// Where the search for a name begins: a hash of its ends, with case folded. Folding clears bit 5 of every byte, which
/// also maps digits and punctuation, but alike for all spellings of a name.
#[inline]
fn slot(ends: &Ends) -> usize {
    const FOLD: u64 = 0xDFDF_DFDF_DFDF_DFDF;
    let mixed = (ends.head & FOLD) ^ (ends.tail & FOLD).rotate_left(23) ^ ends.len as u64;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize
}

const _: () = assert!(SLOTS == 1 << (64 - 55));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_name_is_found_and_nothing_else() {
        for row in rows() {
            let name = row.name.as_bytes();
            let found = |name: &[u8]| lookup(name).map(|row| row.name);
            assert_eq!(found(name), Some(row.name));
            assert_eq!(found(&name.to_ascii_lowercase()), Some(row.name));
            for at in 0..name.len() {
                for bit in 0..8 {
                    let mut other = name.to_vec();
                    other[at] ^= 1 << bit;
                    let same = other.eq_ignore_ascii_case(name);
                    assert_eq!(found(&other) == Some(row.name), same, "{other:?}");
                }
            }
            assert_ne!(found(&name[1..]), Some(row.name));
            assert_ne!(found(&[name, b"X"].concat()), Some(row.name));
        }
        assert!(lookup(b"").is_none());
    }
}
