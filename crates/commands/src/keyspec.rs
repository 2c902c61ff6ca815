//! Where a command's keys are: declared per row, evaluated on the words of a call.

use std::ops::BitOr;

use smallvec::SmallVec;

use crate::{CmdError, Row};

/// What a command does to the keys of one spec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyFlags(u16);

impl KeyFlags {
    /// Read only.
    pub const RO: KeyFlags = KeyFlags(1);
    /// Read and written.
    pub const RW: KeyFlags = KeyFlags(1 << 1);
    /// Overwritten whatever it held.
    pub const OW: KeyFlags = KeyFlags(1 << 2);
    /// Removed whatever it held.
    pub const RM: KeyFlags = KeyFlags(1 << 3);
    /// Returns or depends on the data.
    pub const ACCESS: KeyFlags = KeyFlags(1 << 4);
    /// Changes data that may be there.
    pub const UPDATE: KeyFlags = KeyFlags(1 << 5);
    /// Adds data and changes none.
    pub const INSERT: KeyFlags = KeyFlags(1 << 6);
    /// Deletes data.
    pub const DELETE: KeyFlags = KeyFlags(1 << 7);
    /// What happens depends on the arguments.
    pub const VARIABLE: KeyFlags = KeyFlags(1 << 8);

    /// Flags with their names, in the order in which COMMAND INFO lists them.
    pub(crate) const NAMES: &'static [(KeyFlags, &'static str)] = &[
        (KeyFlags::RO, "RO"),
        (KeyFlags::RW, "RW"),
        (KeyFlags::OW, "OW"),
        (KeyFlags::RM, "RM"),
        (KeyFlags::ACCESS, "access"),
        (KeyFlags::UPDATE, "update"),
        (KeyFlags::INSERT, "insert"),
        (KeyFlags::DELETE, "delete"),
        (KeyFlags::VARIABLE, "variable_flags"),
    ];

    /// Both sets together.
    pub const fn or(self, other: KeyFlags) -> KeyFlags {
        KeyFlags(self.0 | other.0)
    }

    /// True when any flag of `other` is set.
    pub const fn intersects(self, other: KeyFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// True when every flag of `other` is set.
    pub const fn contains(self, other: KeyFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for KeyFlags {
    type Output = KeyFlags;
    fn bitor(self, other: KeyFlags) -> KeyFlags {
        self.or(other)
    }
}

/// Where the search for keys begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeginSearch {
    /// At this word; the command's name is word 0.
    Index(u16),
}

/// Which words, from the beginning of the search, are keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FindKeys {
    /// Every `step`th word up to `last`: relative to the first when ≥ 0, from the end when < 0.
    Range {
        /// Offset of the last key.
        last: i16,
        /// Distance from key to key.
        step: u16,
    },
    /// A count of keys at the beginning, then the keys.
    KeyNum,
}

/// One group of keys and what happens to them.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where the search begins.
    pub begin: BeginSearch,
    /// Which words are keys.
    pub find: FindKeys,
    /// What happens to them.
    pub flags: KeyFlags,
    /// A remark for COMMAND INFO.
    pub notes: &'static str,
}

impl KeySpec {
    /// The key at word `index`.
    pub(crate) const fn at(index: u16, flags: KeyFlags) -> KeySpec {
        KeySpec {
            begin: BeginSearch::Index(index),
            find: FindKeys::Range { last: 0, step: 1 },
            flags,
            notes: "",
        }
    }

    /// Every `step`th word from the first to the last.
    pub(crate) const fn every(step: u16, flags: KeyFlags) -> KeySpec {
        KeySpec {
            begin: BeginSearch::Index(1),
            find: FindKeys::Range { last: -1, step },
            flags,
            notes: "",
        }
    }

    /// A count at word `index`, then that many keys.
    pub(crate) const fn counted(index: u16, flags: KeyFlags) -> KeySpec {
        KeySpec {
            begin: BeginSearch::Index(index),
            find: FindKeys::KeyNum,
            flags,
            notes: "",
        }
    }

    pub(crate) const fn notes(mut self, notes: &'static str) -> KeySpec {
        self.notes = notes;
        self
    }
}

/// Positions of the keys among the words of a call, in the order of the specs.
pub type KeyPositions = SmallVec<[u32; 8]>;

/// The positions of the keys in `words` (the whole command, name included).
///
/// Fails when a declared count of keys does not fit the words. The words must have passed the
/// arity check.
#[inline]
pub fn keys_of(row: &Row, words: &[&[u8]]) -> Result<KeyPositions, CmdError> {
    let mut found = KeyPositions::new();
    for spec in row.keys {
        spec.collect(words, &mut found)?;
    }
    Ok(found)
}

impl KeySpec {
    /// What happens to the keys in this call: SET overwrites unless it also returns the old value.
    pub(crate) fn flags_in(&self, words: &[&[u8]]) -> KeyFlags {
        if !self.flags.contains(KeyFlags::VARIABLE) {
            return self.flags;
        }
        let gets = words
            .iter()
            .skip(3)
            .any(|word| word.eq_ignore_ascii_case(b"GET"));
        match gets {
            true => KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
            false => KeyFlags::OW.or(KeyFlags::UPDATE),
        }
    }

    /// Appends the positions of this spec's keys.
    pub fn collect(&self, words: &[&[u8]], found: &mut KeyPositions) -> Result<(), CmdError> {
        let BeginSearch::Index(begin) = self.begin;
        let begin = usize::from(begin);
        match self.find {
            FindKeys::Range { last, step } => {
                let end = if last >= 0 {
                    begin + last as usize
                } else {
                    words.len().saturating_sub(usize::from(last.unsigned_abs()))
                };
                let end = end.min(words.len().saturating_sub(1));
                found.extend((begin..=end).step_by(usize::from(step)).map(|at| at as u32));
                Ok(())
            }
            FindKeys::KeyNum => {
                let count = words
                    .get(begin)
                    .and_then(|word| tollgate_containers::number::parse_i64(word))
                    .ok_or(CmdError::NotAnInteger)?;
                if count < 0 {
                    return Err(CmdError::NegativeKeyCount);
                }
                if count as u64 > (words.len() - begin - 1) as u64 {
                    return Err(CmdError::TooManyKeys);
                }
                found.extend((begin + 1..=begin + count as usize).map(|at| at as u32));
                Ok(())
            }
        }
    }
}
