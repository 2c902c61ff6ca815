//! Strings as arrays of bits.

use tollgate_containers::bits::{self, Operation};
use tollgate_containers::{Str, number};
use tollgate_keyspace::Key;

use super::bitfield;
use super::string_edit::{
    Edited, bytes_of, edit, is_string, longest_string, read_strings, set_raw,
};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Event, Family, Flags, Group, Reply, Row, Run};

const RO_ACCESS: KeySpec = KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS));
const RW_ACCESS_UPDATE: KeySpec =
    KeySpec::at(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE));
const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const GROWS: Flags = Flags::WRITE.or(Flags::DENYOOM);

pub(super) static FAMILY: Family = Family {
    name: "Bitmaps",
    about: "Single bits of strings, and integers of any width within them.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    bitmap("BITCOUNT", at_least(2), Flags::READONLY, bitcount)
        .keys(&[RO_ACCESS])
        .takes("key [start end [BYTE | BIT]]")
        .docs(
            "Counts the set bits of a string or of a part of it.",
            "2.6.0",
            "O(N) in the counted bytes",
        ),
    bitmap("BITFIELD", at_least(2), GROWS, bitfield::bitfield)
        .keys(&[RW_ACCESS_UPDATE
            .varying(bitfield::key_flags)
            .notes("This command allows both access and modification of the key")])
        .takes(
            "key [<GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] \
             <SET encoding offset value | INCRBY encoding offset increment>> [...]]",
        )
        .docs(
            "Reads, sets and increments integers of any width within a string.",
            "3.2.0",
            "O(1) for each subcommand",
        ),
    bitmap("BITFIELD_RO", at_least(2), READ_FAST, bitfield::bitfield_ro)
        .keys(&[RO_ACCESS])
        .takes("key [GET encoding offset [GET encoding offset ...]]")
        .docs(
            "Reads integers of any width within a string.",
            "6.0.0",
            "O(1) for each subcommand",
        ),
    bitmap("BITOP", at_least(4), GROWS.or(Flags::BULKY), bitop)
        .keys(&[
            KeySpec::at(2, KeyFlags::OW.or(KeyFlags::UPDATE)),
            KeySpec::range(3, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .takes(
            "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destination source [source ...]",
        )
        .docs(
            "Joins strings bit by bit and stores the result.",
            "2.6.0",
            "O(N) in the longest string",
        ),
    bitmap("BITPOS", at_least(3), Flags::READONLY, bitpos)
        .keys(&[RO_ACCESS])
        .takes("key bit [start [end [BYTE | BIT]]]")
        .docs(
            "Finds the first set or clear bit of a string or of a part of it.",
            "2.8.7",
            "O(N) in the searched bytes",
        ),
    bitmap("GETBIT", exactly(3), READ_FAST, getbit)
        .keys(&[RO_ACCESS])
        .takes("key offset")
        .docs("Returns one bit of a string.", "2.2.0", "O(1)"),
    bitmap("SETBIT", exactly(4), GROWS, setbit)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key offset value")
        .docs(
            "Sets or clears one bit of a string and returns what it was.",
            "2.2.0",
            "O(1)",
        ),
];

const fn bitmap(name: &'static str, arity: Arity, flags: Flags, run: crate::Handler) -> Row {
    row(name, arity, flags, Run::Keys(run)).acl(Group::Bitmap, Acl::BITMAP)
}

/// A bit's position within the longest string.
pub(super) fn bit_offset(cx: &Cx<'_>, offset: Option<i64>) -> Result<usize, CmdError> {
    offset
        .and_then(|offset| usize::try_from(offset).ok())
        .filter(|offset| offset / 8 < longest_string(cx))
        .ok_or(CmdError::BitOffset)
}

fn setbit(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let offset = bit_offset(cx, number::parse_i64(args.next()?))?;
    let on = match number::parse_i64(args.next()?) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(CmdError::NotABit),
    };
    let before = edit(cx, key, Event::SetBit, |string, _| {
        let len = string.len();
        string.grow_to(offset / 8 + 1);
        let result = bits::get(string.as_slice(), offset);
        bits::put(string.as_mut_slice(), offset, on);
        Ok(Edited {
            result,
            changed: result != on || string.len() != len,
        })
    })?;
    Ok(Reply::flag(before))
}

fn getbit(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let offset = bit_offset(cx, number::parse_i64(args.next()?))?;
    let mut digits = [0; number::I64_TEXT_LEN];
    let Some(found) = cx.read(key) else {
        return Ok(Reply::Int(0));
    };
    let bytes = bytes_of(found.entry.value(), &mut digits)?;
    Ok(Reply::flag(bits::get(bytes, offset)))
}

/// What the numbers of a range count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Bits,
}

impl Unit {
    fn parse(word: &[u8]) -> Result<Unit, CmdError> {
        if word.eq_ignore_ascii_case(b"BIT") {
            Ok(Unit::Bits)
        } else if word.eq_ignore_ascii_case(b"BYTE") {
            Ok(Unit::Bytes)
        } else {
            Err(CmdError::Syntax)
        }
    }

    /// The first and the last bit of a range in a string of `len` bytes; `None` when it is empty.
    fn range(self, start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
        let (units, bits) = match self {
            Unit::Bytes => (len as i64, 8),
            Unit::Bits => (len as i64 * 8, 1),
        };
        let from_end = |at: i64| match at {
            ..0 => at.saturating_add(units).max(0),
            _ => at,
        };
        let (start, end) = (from_end(start), from_end(end).min(units - 1));
        (start <= end).then(|| (start as usize * bits, (end as usize + 1) * bits - 1))
    }
}

fn bitcount(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut digits = [0; number::I64_TEXT_LEN];
    let Some(found) = cx.read(key) else {
        return Ok(Reply::Int(0));
    };
    let bytes = bytes_of(found.entry.value(), &mut digits)?;
    let range = match args.len() {
        0 => Unit::Bytes.range(0, -1, bytes.len()),
        2 | 3 => {
            let (start, end) = (args.int()?, args.int()?);
            if start < 0 && end < 0 && start > end {
                return Ok(Reply::Int(0));
            }
            let unit = args.peek().map_or(Ok(Unit::Bytes), Unit::parse)?;
            unit.range(start, end, bytes.len())
        }
        _ => return Err(CmdError::Syntax),
    };
    let count = range.map_or(0, |(from, to)| bits::count(bytes, from, to));
    Ok(Reply::Int(count.cast_signed()))
}

fn bitpos(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let wanted = match args.int()? {
        0 => false,
        1 => true,
        _ => return Err(CmdError::BitNotOneOrZero),
    };
    let mut digits = [0; number::I64_TEXT_LEN];
    let Some(found) = cx.read(key) else {
        return Ok(Reply::Int(if wanted { -1 } else { 0 }));
    };
    let bytes = bytes_of(found.entry.value(), &mut digits)?;
    let (mut start, mut end, mut unit) = (0, None, Unit::Bytes);
    if args.len() > 3 {
        return Err(CmdError::Syntax);
    }
    if !args.is_empty() {
        start = args.int()?;
        if let [_, word] = args.rest() {
            unit = Unit::parse(word)?;
        }
        if !args.is_empty() {
            end = Some(args.int()?);
        }
    }
    let Some((from, to)) = unit.range(start, end.unwrap_or(-1), bytes.len()) else {
        return Ok(Reply::Int(-1));
    };
    Ok(match bits::find(bytes, wanted, from, to) {
        Some(bit) => Reply::count(bit),
        // Without an end the string counts as followed by clear bits.
        None if !wanted && end.is_none() => Reply::count(to + 1),
        None => Reply::Int(-1),
    })
}

const OPERATIONS: [(&str, Operation); 8] = [
    ("AND", Operation::And),
    ("OR", Operation::Or),
    ("XOR", Operation::Xor),
    ("NOT", Operation::Not),
    ("DIFF", Operation::Diff),
    ("DIFF1", Operation::Diff1),
    ("ANDOR", Operation::AndOr),
    ("ONE", Operation::One),
];

fn bitop(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let word = args.next()?;
    let named = |(name, _): &&(&str, Operation)| word.eq_ignore_ascii_case(name.as_bytes());
    let Some(&(name, operation)) = OPERATIONS.iter().find(named) else {
        return Err(CmdError::Syntax);
    };
    let target = args.key()?;
    let mut keys: Vec<Key<'_>> = Vec::with_capacity(args.len());
    while !args.is_empty() {
        keys.push(args.key()?);
    }
    if operation == Operation::Not && keys.len() != 1 {
        return Err(CmdError::BitopNotSources);
    }
    let compares = [Operation::Diff, Operation::Diff1, Operation::AndOr].contains(&operation);
    if compares && keys.len() < 2 {
        return Err(CmdError::two_sources_needed(name));
    }
    let result = {
        let sources = read_strings(cx, &keys, is_string)?;
        let sources: Vec<&[u8]> = sources
            .iter()
            .map(|source| source.as_deref().unwrap_or_default())
            .collect();
        bits::combine(operation, &sources)
    };
    if result.is_empty() {
        cx.clear(target);
    } else {
        set_raw(cx, target, Str::from_slice(&result), Event::Set);
    }
    Ok(Reply::count(result.len()))
}
