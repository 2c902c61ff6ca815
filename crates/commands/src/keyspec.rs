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
    /// The spec does not find all keys, or takes for one what is none.
    pub const INCOMPLETE: KeyFlags = KeyFlags(1 << 9);
    /// Not a key, though a cluster routes by it: the name of a sharded channel.
    pub const NOT_KEY: KeyFlags = KeyFlags(1 << 12);

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
        (KeyFlags::NOT_KEY, "not_key"),
        (KeyFlags::INCOMPLETE, "incomplete"),
        (KeyFlags::VARIABLE, "variable_flags"),
    ];

    /// Both sets together.
    pub const fn or(self, other: KeyFlags) -> KeyFlags {
        KeyFlags(self.0 | other.0)
    }

    /// The flags that are not in `other`.
    pub(crate) const fn without(self, other: KeyFlags) -> KeyFlags {
        KeyFlags(self.0 & !other.0)
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
    /// Behind this word (any case), which is searched from word `from` on; backwards, counted from the end, when < 0.
    Keyword {
        /// The word, in upper case.
        word: &'static str,
        /// Where the search for it begins.
        from: i16,
    },
    /// As [`BeginSearch::Keyword`], but the words behind these options are passed over, so that none of them is taken for
    /// the keyword.
    Options {
        /// The word, in upper case.
        word: &'static str,
        /// Where the search begins, as COMMAND INFO reports it; it begins behind the command's name.
        from: i16,
        /// Options and how many words follow each.
        options: &'static [(&'static str, u8)],
    },
    /// As [`BeginSearch::Options`], but behind the last such word, and the search begins at word `from`.
    LastOption {
        /// The word, in upper case.
        word: &'static str,
        /// Where the search begins.
        from: i16,
        /// Options and how many words follow each, the word itself included.
        options: &'static [(&'static str, u8)],
    },
    /// The handler alone knows; COMMAND INFO says so, and nothing is found here.
    Unknown,
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
    /// A count of keys at the beginning, then the keys, `step` words apart.
    KeyNum {
        /// Distance from key to key.
        step: u16,
    },
    /// The first of so many equal parts of the words left.
    Part {
        /// How many parts.
        of: u16,
    },
    /// The handler alone knows.
    Unknown,
}

/// What happens to the keys of a call of these words.
pub type Varying = fn(&[&[u8]]) -> KeyFlags;

/// The error for a call of these words, whose count of keys does not fit them.
pub type Refusal = fn(&[&[u8]]) -> CmdError;

/// The place of a key among the words of a call.
pub type Finder = fn(&[&[u8]]) -> Option<usize>;

/// Whether a call of these words uses keys of a spec whose keys no word names.
pub type Uses = fn(&[&[u8]]) -> bool;

/// One group of keys and what happens to them.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where the search begins.
    pub begin: BeginSearch,
    /// Which words are keys.
    pub find: FindKeys,
    /// What happens to them.
    pub flags: KeyFlags,
    /// What happens to them in a call, when that depends on its words.
    pub varying: Option<Varying>,
    /// The command's own error for a count of keys that does not fit its words.
    pub refuse: Option<Refusal>,
    /// The one key of a call, where neither a place nor a word before it is fixed.
    pub finder: Option<Finder>,
    /// Tells the calls that use keys which no word names; without it, all of them count as such.
    pub uses: Option<Uses>,
    /// A remark for COMMAND INFO.
    pub notes: &'static str,
}

impl KeySpec {
    const fn new(begin: BeginSearch, find: FindKeys, flags: KeyFlags) -> KeySpec {
        KeySpec {
            begin,
            find,
            flags,
            varying: None,
            refuse: None,
            finder: None,
            uses: None,
            notes: "",
        }
    }

    /// The key at word `index`.
    pub(crate) const fn at(index: u16, flags: KeyFlags) -> KeySpec {
        KeySpec::range(index, 0, 1, flags)
    }

    /// Every `step`th word from the first to the last.
    pub(crate) const fn every(step: u16, flags: KeyFlags) -> KeySpec {
        KeySpec::range(1, -1, step, flags)
    }

    /// Every `step`th word from word `index` to `last`, as in [`FindKeys::Range`].
    pub(crate) const fn range(index: u16, last: i16, step: u16, flags: KeyFlags) -> KeySpec {
        let begin = BeginSearch::Index(index);
        KeySpec::new(begin, FindKeys::Range { last, step }, flags)
    }

    /// A count at word `index`, then that many keys.
    pub(crate) const fn counted(index: u16, flags: KeyFlags) -> KeySpec {
        let begin = BeginSearch::Index(index);
        KeySpec::new(begin, FindKeys::KeyNum { step: 1 }, flags)
    }

    /// Answers a count of keys that does not fit the words of the call, before any key is looked at.
    pub(crate) const fn refused(mut self, by: Refusal) -> KeySpec {
        self.refuse = Some(by);
        self
    }

    /// A count at word `index`, then that many keys, each with its value behind it.
    pub(crate) const fn counted_pairs(index: u16, flags: KeyFlags) -> KeySpec {
        let begin = BeginSearch::Index(index);
        KeySpec::new(begin, FindKeys::KeyNum { step: 2 }, flags)
    }

    /// Keys whose places only the handler knows.
    pub(crate) const fn unknown(flags: KeyFlags) -> KeySpec {
        KeySpec::new(BeginSearch::Unknown, FindKeys::Unknown, flags)
    }

    /// Every word behind the last `word`, which is searched from `from` on.
    pub(crate) const fn all_behind(word: &'static str, from: i16, flags: KeyFlags) -> KeySpec {
        let begin = BeginSearch::Keyword { word, from };
        KeySpec::new(begin, FindKeys::Range { last: -1, step: 1 }, flags)
    }

    /// Finds the key by `finder`.
    pub(crate) const fn found_by(mut self, finder: Finder) -> KeySpec {
        self.finder = Some(finder);
        self
    }

    /// Keys that no word names are used in the calls that `uses` tells.
    pub(crate) const fn used_by(mut self, uses: Uses) -> KeySpec {
        self.uses = Some(uses);
        self
    }

    /// What happens to the keys depends on the words of the call.
    pub(crate) const fn varying(mut self, by: Varying) -> KeySpec {
        self.flags = self.flags.or(KeyFlags::VARIABLE);
        self.varying = Some(by);
        self
    }

    /// Behind the word, which `options` may stand before, the first half of the words left.
    pub(crate) const fn first_half_behind(
        word: &'static str,
        from: i16,
        options: &'static [(&'static str, u8)],
        flags: KeyFlags,
    ) -> KeySpec {
        let begin = BeginSearch::Options {
            word,
            from,
            options,
        };
        KeySpec::new(begin, FindKeys::Part { of: 2 }, flags)
    }

    /// The key behind the last `word` that stands, as an option, at word `from` or later.
    pub(crate) const fn behind_last(
        word: &'static str,
        from: i16,
        options: &'static [(&'static str, u8)],
        flags: KeyFlags,
    ) -> KeySpec {
        let begin = BeginSearch::LastOption {
            word,
            from,
            options,
        };
        KeySpec::new(begin, FindKeys::Range { last: 0, step: 1 }, flags)
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
        if spec.is_no_key() {
            continue;
        }
        if let Err(error) = spec.collect(words, &mut found) {
            return Err(spec.refuse.map_or(error, |refuse| refuse(words)));
        }
    }
    Ok(found)
}

/// The positions of the words that a cluster routes by: keys and the names of shard channels. They stand in the order in which
/// Redis looks at them, where the first decides: those that are counted before the others. A call that counts no keys, or
/// does not have as many words as it needs, is routed by none, and fails where it runs.
pub fn routes_of(row: &Row, words: &[&[u8]]) -> Result<KeyPositions, CmdError> {
    let mut found = KeyPositions::new();
    let counts = |spec: &&KeySpec| matches!(spec.find, FindKeys::KeyNum { .. });
    for spec in row.keys.iter().filter(counts) {
        spec.collect(words, &mut found)?;
        if found.is_empty() {
            return Ok(found);
        }
    }
    for spec in row.keys.iter().filter(|spec| !counts(spec)) {
        let begin = spec.begins_at(words);
        if let (FindKeys::Part { of }, Some(begin)) = (spec.find, begin)
            && !words
                .len()
                .saturating_sub(begin)
                .is_multiple_of(of.max(1).into())
        {
            return Ok(KeyPositions::new());
        }
        spec.collect(words, &mut found)?;
    }
    Ok(found)
}

/// True when a call of these words may touch keys that none of them names.
#[inline]
pub fn uses_hidden_keys(row: &Row, words: &[&[u8]]) -> bool {
    row.keys
        .iter()
        .any(|spec| spec.is_hidden() && spec.uses.is_none_or(|uses| uses(words)))
}

impl KeySpec {
    fn is_hidden(&self) -> bool {
        self.find == FindKeys::Unknown && self.finder.is_none()
    }

    /// The words are routed by, but are no keys.
    #[inline]
    pub(crate) fn is_no_key(&self) -> bool {
        self.flags.contains(KeyFlags::NOT_KEY)
    }

    /// Its keys would begin behind the last of these words.
    pub(crate) fn begins_behind(&self, words: &[&[u8]]) -> bool {
        let is_range = matches!(self.find, FindKeys::Range { .. });
        matches!(self.begin, BeginSearch::Index(at) if is_range && usize::from(at) >= words.len())
    }

    /// What happens to the keys in this call.
    pub(crate) fn flags_in(&self, words: &[&[u8]]) -> KeyFlags {
        self.varying.map_or(self.flags, |flags| flags(words))
    }

    /// The word at which the search begins in this call; `None` when there is no such word.
    fn begins_at(&self, words: &[&[u8]]) -> Option<usize> {
        let (word, from) = match self.begin {
            BeginSearch::Index(index) => return Some(usize::from(index)),
            BeginSearch::Unknown => return None,
            BeginSearch::Keyword { word, from } => (word.as_bytes(), from),
            BeginSearch::Options { word, options, .. } => return behind(words, word, options),
            BeginSearch::LastOption {
                word,
                from,
                options,
            } => return behind_last(words, usize::try_from(from).ok()?, word, options),
        };
        let is_word = |candidate: &&[u8]| candidate.eq_ignore_ascii_case(word);
        let found = if from >= 0 {
            let from = from as usize;
            words.iter().skip(from).position(is_word)? + from
        } else {
            let until = words.len().checked_sub(usize::from(from.unsigned_abs()))?;
            words.get(..=until)?.iter().rposition(is_word)?
        };
        Some(found + 1)
    }

    /// Appends the positions of this spec's keys.
    pub fn collect(&self, words: &[&[u8]], found: &mut KeyPositions) -> Result<(), CmdError> {
        if let Some(finder) = self.finder {
            found.extend(finder(words).map(|at| at as u32));
            return Ok(());
        }
        let Some(begin) = self.begins_at(words) else {
            return Ok(());
        };
        match self.find {
            FindKeys::Unknown => Ok(()),
            FindKeys::Part { of } => {
                let count = words.len().saturating_sub(begin) / usize::from(of.max(1));
                found.extend((begin..begin + count).map(|at| at as u32));
                Ok(())
            }
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
            FindKeys::KeyNum { step } => {
                let count = words
                    .get(begin)
                    .and_then(|word| tollgate_containers::number::parse_i64(word))
                    .ok_or(CmdError::NotAnInteger)?;
                if count < 0 {
                    return Err(CmdError::NegativeKeyCount);
                }
                let step = usize::from(step);
                let room = (words.len() - begin - 1) / step;
                if count as u64 > room as u64 {
                    return Err(CmdError::TooManyKeys);
                }
                let keys = (begin + 1..).step_by(step).take(count as usize);
                found.extend(keys.map(|at| at as u32));
                Ok(())
            }
        }
    }
}

/// Where the words behind `keyword` begin, passing over what belongs to options before it.
fn behind(words: &[&[u8]], keyword: &str, options: &[(&str, u8)]) -> Option<usize> {
    let mut at = 1;
    loop {
        let next = words.get(at)?;
        let is = |name: &str| next.eq_ignore_ascii_case(name.as_bytes());
        if is(keyword) {
            return Some(at + 1);
        }
        let option = options.iter().find(|(name, _)| is(name));
        at += 1 + option.map_or(0, |(_, words)| usize::from(*words));
    }
}

/// Where the words behind the last `keyword` begin, which is one of the options found from word `at` on.
fn behind_last(
    words: &[&[u8]],
    mut at: usize,
    keyword: &str,
    options: &[(&str, u8)],
) -> Option<usize> {
    let mut found = None;
    while let Some(next) = words.get(at) {
        let is = |name: &str| next.eq_ignore_ascii_case(name.as_bytes());
        if is(keyword) {
            found = Some(at + 1);
        }
        let option = options.iter().find(|(name, _)| is(name));
        at += 1 + option.map_or(0, |(_, words)| usize::from(*words));
    }
    found
}
