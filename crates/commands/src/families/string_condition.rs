//! Changing a string only if it is what the client believes: SET IFEQ and its relatives, DELEX, DELIFEQ, DIGEST.

use tollgate_containers::digest::{self, digest};
use tollgate_containers::number;

use super::string_edit::bytes_of;
use crate::keyspec::KeyFlags;
use crate::{Args, CmdError, Cx, Event, Reply};

/// What a string must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    Equal(&'a [u8]),
    NotEqual(&'a [u8]),
    DigestEqual(&'a [u8]),
    DigestNotEqual(&'a [u8]),
}

impl<'a> Condition<'a> {
    /// Takes a condition and its value if the next word names one and another word follows.
    pub(super) fn parse(args: &mut Args<'a>) -> Option<Condition<'a>> {
        let make: fn(&'a [u8]) -> Condition<'a> = match args.rest() {
            [] | [_] => return None,
            _ if args.keyword("IFEQ") => Condition::Equal,
            _ if args.keyword("IFNE") => Condition::NotEqual,
            _ if args.keyword("IFDEQ") => Condition::DigestEqual,
            _ if args.keyword("IFDNE") => Condition::DigestNotEqual,
            _ => return None,
        };
        args.next().ok().map(make)
    }

    /// Whether a key that is not there satisfies it: nothing differs from everything.
    pub(super) fn holds_for_absent(self) -> bool {
        matches!(self, Condition::NotEqual(_) | Condition::DigestNotEqual(_))
    }

    /// Whether a string satisfies it.
    pub(super) fn holds(self, bytes: &[u8]) -> Result<bool, CmdError> {
        match self {
            Condition::Equal(value) => Ok(bytes == value),
            Condition::NotEqual(value) => Ok(bytes != value),
            Condition::DigestEqual(digits) => has_digest(bytes, digits),
            Condition::DigestNotEqual(digits) => has_digest(bytes, digits).map(|has| !has),
        }
    }
}

fn has_digest(bytes: &[u8], digits: &[u8]) -> Result<bool, CmdError> {
    if digits.len() != digest::DIGITS {
        return Err(CmdError::DigestLength);
    }
    Ok(digest(bytes).eq_ignore_ascii_case(digits))
}

/// What DELEX does to its key: it removes whatever is there, unless a condition looks at it.
pub(super) fn delex_key_flags(words: &[&[u8]]) -> KeyFlags {
    match words.len() {
        ..=2 => KeyFlags::RM.or(KeyFlags::DELETE),
        _ => KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE),
    }
}

pub(super) fn delex(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    if !matches!(args.len(), 0 | 2) {
        return Err(CmdError::Arity("delex"));
    }
    let Some(entry) = cx.peek(key) else {
        return Ok(Reply::Int(0));
    };
    if !args.is_empty() {
        let mut digits = [0; number::I64_TEXT_LEN];
        let bytes = bytes_of(entry.value(), &mut digits);
        let bytes = bytes.map_err(|_| CmdError::ConditionNeedsString)?;
        let condition = Condition::parse(&mut args).ok_or(CmdError::BadCondition)?;
        if !condition.holds(bytes)? {
            return Ok(Reply::Int(0));
        }
    }
    cx.remove(key, Event::Del);
    Ok(Reply::Int(1))
}

pub(super) fn delifeq(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let wanted = args.next()?;
    let Some(entry) = cx.peek(key) else {
        return Ok(Reply::Int(0));
    };
    let mut digits = [0; number::I64_TEXT_LEN];
    let is_wanted = bytes_of(entry.value(), &mut digits)? == wanted;
    if is_wanted {
        cx.remove(key, Event::Del);
    }
    Ok(Reply::flag(is_wanted))
}

pub(super) fn digest_of(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut digits = [0; number::I64_TEXT_LEN];
    let Some(found) = cx.read(key) else {
        return Ok(Reply::Null);
    };
    let bytes = bytes_of(found.entry.value(), &mut digits)?;
    found.out.bulk(&digest(bytes));
    Ok(Reply::Written)
}
