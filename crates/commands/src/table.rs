//! The whole table and how a command is found in it.

use std::sync::LazyLock;

use crate::families::FAMILIES;
use crate::{CmdError, Family, Row};

/// Slots of the name index: a power of two, at least four times the number of commands, so that
/// nearly every name is found at its first slot.
const SLOTS: usize = 512;

static INDEX: LazyLock<Box<[Option<&'static Row>; SLOTS]>> = LazyLock::new(|| {
    let mut slots = Box::new([None; SLOTS]);
    for row in rows() {
        let mut at = slot(row.name.as_bytes());
        while slots[at].is_some() {
            at = (at + 1) % SLOTS;
        }
        slots[at] = Some(row);
    }
    slots
});

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
    let mut at = slot(name);
    while let Some(row) = index[at] {
        if row.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(row);
        }
        at = (at + 1) % SLOTS;
    }
    None
}

/// The command or (as `client|kill`) sub-command of that name, in any case.
pub fn by_full_name(name: &[u8]) -> Option<&'static Row> {
    match name.iter().position(|&b| b == b'|') {
        None => lookup(name),
        Some(bar) => lookup(&name[..bar])?.sub(&name[bar + 1..]),
    }
}

/// The row that runs `words`: the command's, or its sub-command's.
#[inline]
pub fn find(words: &[&[u8]]) -> Option<&'static Row> {
    let row = lookup(words.first()?)?;
    match words.get(1) {
        Some(word) if !row.subs.is_empty() => row.sub(word),
        _ => Some(row),
    }
}

/// As [`find`]; fails with the reply for a command or sub-command that does not exist.
#[inline]
pub fn resolve(words: &[&[u8]]) -> Result<&'static Row, CmdError> {
    find(words).ok_or_else(|| unknown(words))
}

#[cold]
fn unknown(words: &[&[u8]]) -> CmdError {
    match (words.first().and_then(|name| lookup(name)), words.get(1)) {
        (Some(row), Some(word)) => CmdError::unknown_subcommand(row.name, word),
        _ => CmdError::unknown_command(words),
    }
}

/// Where the search for a name begins: a hash of its length, its first and its last eight bytes,
/// with case folded. Folding clears bit 5 of every byte, which also maps digits and punctuation,
/// but alike for all spellings of a name.
#[inline]
fn slot(name: &[u8]) -> usize {
    const FOLD: u64 = 0xDFDF_DFDF_DFDF_DFDF;
    let (head, tail) = if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
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
    let mixed = (head & FOLD) ^ (tail & FOLD).rotate_left(23) ^ name.len() as u64;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize
}

const _: () = assert!(SLOTS == 1 << (64 - 55));
