//! A set of members.
//!
//! Integers only: a sorted array of the smallest width that holds all of them. Else a few short members lie in one
//! allocation, and more or longer ones in a `Dict`. A set goes that way once and never back; Redis calls the last two
//! forms by one name, so where the one ends is our choice.

mod ints;

use crate::dict::{Dict, Keyed};
use crate::pack::{Elements, Pack};
use crate::{Container, Str, number};
use ints::Ints;

/// When a set of integers becomes a set of any members, and the secret of the index it may get then.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// Most members of a set kept as sorted integers.
    pub max_ints: usize,
    /// Secret of the index of a large set.
    pub seed: u64,
}

/// Most members of a compact set.
const MAX_COMPACT: usize = 64;

/// Longest member of a compact set, in bytes.
const MAX_COMPACT_MEMBER: usize = 64;

/// Most integers of a set, whatever the limits say (as in Redis).
const MAX_INTS: usize = 1 << 30;

/// A member of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member<'a> {
    /// A canonical decimal integer.
    Int(i64),
    /// Any bytes; may be an integer's text.
    Bytes(&'a [u8]),
}

impl Member<'_> {
    /// Calls `f` with the member's text.
    #[inline]
    pub fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Member::Int(int) => f(number::write_i64(&mut [0; number::I64_TEXT_LEN], *int)),
            Member::Bytes(bytes) => f(bytes),
        }
    }

    /// A copy of the member's text.
    pub fn to_str(&self) -> Str {
        self.with_bytes(Str::from_slice)
    }
}

/// A set of members.
#[derive(Clone, Debug, Default)]
pub struct Set {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Ints(Ints),
    Compact(Compact),
    Large(Box<Dict<Str>>),
}

impl Default for Form {
    fn default() -> Self {
        Self::Ints(Ints::default())
    }
}

#[derive(Clone, Debug, Default)]
struct Compact {
    pack: Pack,
    len: usize,
}

impl Keyed for Str {
    #[inline]
    fn key(&self) -> &[u8] {
        self.as_slice()
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        Str::heap_bytes(self)
    }
}

impl Container for Set {
    #[inline]
    fn front(&self) -> *const u8 {
        match &self.form {
            Form::Ints(ints) => ints.front(),
            Form::Compact(compact) => compact.pack.front(),
            Form::Large(dict) => std::ptr::from_ref(&**dict).cast(),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.form {
            Form::Ints(ints) => ints.len(),
            Form::Compact(compact) => compact.len,
            Form::Large(dict) => dict.len(),
        }
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Ints(ints) => ints.heap_bytes(),
            Form::Compact(compact) => compact.pack.heap_bytes(),
            Form::Large(dict) => size_of::<Dict<Str>>() + dict.heap_bytes(),
        }
    }
}

impl Set {
    /// Whether it is kept as sorted integers.
    #[inline]
    pub fn is_ints(&self) -> bool {
        matches!(self.form, Form::Ints(_))
    }

    /// Whether `member` is in it.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.form {
            Form::Ints(ints) => number::parse_i64(member).is_some_and(|int| ints.contains(int)),
            Form::Compact(compact) => compact.find(member).is_some(),
            Form::Large(dict) => dict.find(member).is_some(),
        }
    }

    /// Whether a member of another set is in it.
    #[inline]
    pub fn contains_member(&self, member: &Member<'_>) -> bool {
        match (&self.form, member) {
            (Form::Ints(ints), Member::Int(int)) => ints.contains(*int),
            _ => member.with_bytes(|bytes| self.contains(bytes)),
        }
    }

    /// Adds a member; true when it is new.
    pub fn add(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        match &mut self.form {
            Form::Ints(ints) => match number::parse_i64(member) {
                Some(int) => self.add_int(int, limits),
                None => {
                    let longest = ints.longest_text().max(member.len());
                    self.generalise(1, longest, limits.seed);
                    self.add(member, limits)
                }
            },
            Form::Compact(compact) => {
                if compact.find(member).is_some() {
                    return false;
                }
                if compact.len < MAX_COMPACT && member.len() <= MAX_COMPACT_MEMBER {
                    compact.pack.push(member);
                    compact.len += 1;
                } else {
                    self.enlarge(1, limits.seed).push(Str::from_slice(member));
                }
                true
            }
            Form::Large(dict) => {
                let absent = dict.find(member).is_none();
                if absent {
                    dict.push(Str::from_slice(member));
                }
                absent
            }
        }
    }

    /// Adds a member of another set; true when it is new.
    pub fn add_member(&mut self, member: &Member<'_>, limits: &SetLimits) -> bool {
        match (&self.form, member) {
            (Form::Ints(_), Member::Int(int)) => self.add_int(*int, limits),
            _ => member.with_bytes(|bytes| self.add(bytes, limits)),
        }
    }

    /// Adds an integer to a set of integers.
    fn add_int(&mut self, int: i64, limits: &SetLimits) -> bool {
        let Form::Ints(ints) = &mut self.form else {
            return false;
        };
        let added = ints.insert(int);
        if added && ints.len() > limits.max_ints.min(MAX_INTS) {
            let longest = ints.longest_text();
            self.generalise(0, longest, limits.seed);
        }
        added
    }

    /// Removes a member; false when it is not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Ints(ints) => number::parse_i64(member).is_some_and(|int| ints.remove(int)),
            Form::Compact(compact) => {
                let found = compact.find(member);
                found.into_iter().for_each(|at| compact.remove(at));
                found.is_some()
            }
            Form::Large(dict) => {
                let found = dict.find(member);
                found.into_iter().for_each(|at| drop(dict.remove(at)));
                found.is_some()
            }
        }
    }

    /// The member at a position below the length. Constant time but for the compact form, which is small.
    #[inline]
    pub fn nth(&self, at: usize) -> Option<Member<'_>> {
        match &self.form {
            Form::Ints(ints) => ints.get(at).map(Member::Int),
            Form::Compact(compact) => {
                let (_, member) = compact.pack.iter().nth(at)?;
                Some(Member::Bytes(member))
            }
            Form::Large(dict) => Some(Member::Bytes(dict.get(at)?.as_slice())),
        }
    }

    /// Removes the member at a position below the length; which one has that position afterwards is not said.
    pub fn remove_nth(&mut self, at: usize) -> Option<Str> {
        let member = self.nth(at)?.to_str();
        match &mut self.form {
            Form::Ints(ints) => ints.remove_nth(at),
            Form::Compact(compact) => {
                let (at, _) = compact.pack.iter().nth(at)?;
                compact.remove(at);
            }
            Form::Large(dict) => drop(dict.remove(at)),
        }
        Some(member)
    }

    /// All members: sorted when they are kept as integers.
    pub fn iter(&self) -> Members<'_> {
        Members {
            set: self,
            elements: match &self.form {
                Form::Compact(compact) => Some(compact.pack.iter()),
                _ => None,
            },
            at: 0,
        }
    }

    /// Calls `f` for the members at these positions, which are in ascending order.
    pub fn pick(&self, positions: &[usize], f: &mut dyn FnMut(Member<'_>)) {
        if let Form::Compact(_) = self.form {
            let mut wanted = positions.iter().copied().peekable();
            for (at, member) in self.iter().enumerate() {
                if wanted.next_if_eq(&at).is_some() {
                    f(member);
                }
            }
            return;
        }
        positions.iter().filter_map(|at| self.nth(*at)).for_each(f);
    }

    /// Removes the members at these positions, which are in ascending order and below the length.
    pub fn remove_positions(&mut self, positions: &[usize]) {
        if let Form::Ints(ints) = &mut self.form {
            ints.remove_positions(positions);
            return;
        }
        // From the end, so that what takes the place of a removed member is not to be removed itself.
        for at in positions.iter().rev() {
            self.remove_nth(*at);
        }
    }

    /// One scan step: calls `f` for about `count` members, all of them in the small forms, and returns the next cursor,
    /// 0 at the end.
    pub fn scan(&self, cursor: u64, count: usize, f: &mut dyn FnMut(Member<'_>)) -> u64 {
        let Form::Large(dict) = &self.form else {
            self.iter().for_each(f);
            return 0;
        };
        let range = dict.scan(cursor, count);
        for member in range.clone().rev().filter_map(|at| dict.get(at)) {
            f(Member::Bytes(member.as_slice()));
        }
        range.start as u64
    }

    /// Leaves the form of sorted integers, to take `more` members that are, like all others, at most `longest` bytes.
    fn generalise(&mut self, more: usize, longest: usize, seed: u64) {
        if self.len() + more > MAX_COMPACT || longest > MAX_COMPACT_MEMBER {
            self.enlarge(more, seed);
            return;
        }
        let mut compact = Compact::default();
        for member in self.iter() {
            member.with_bytes(|bytes| compact.pack.push(bytes));
            compact.len += 1;
        }
        self.form = Form::Compact(compact);
    }

    /// Becomes a large set, to take `more` members.
    fn enlarge(&mut self, more: usize, seed: u64) -> &mut Dict<Str> {
        if !matches!(self.form, Form::Large(_)) {
            let mut dict = Dict::new(self.len() + more, seed);
            self.iter().for_each(|member| dict.push(member.to_str()));
            self.form = Form::Large(Box::new(dict));
        }
        match &mut self.form {
            Form::Large(dict) => dict,
            _ => unreachable!("the form was just set"),
        }
    }
}

impl Compact {
    fn find(&self, member: &[u8]) -> Option<usize> {
        self.pack.find(member, 1).map(|(at, _)| at)
    }

    fn remove(&mut self, at: usize) {
        self.pack.remove(at, 1);
        self.len -= 1;
    }
}

/// Members of a set.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    set: &'a Set,
    elements: Option<Elements<'a>>,
    at: usize,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    #[inline]
    fn next(&mut self) -> Option<Member<'a>> {
        if let Some(elements) = &mut self.elements {
            return elements.next().map(|(_, member)| Member::Bytes(member));
        }
        let member = self.set.nth(self.at)?;
        self.at += 1;
        Some(member)
    }
}

impl PartialEq for Set {
    /// By content, whatever the form and the order.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|member| other.contains_member(&member))
    }
}
