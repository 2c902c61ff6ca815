//! HyperLogLog: distinct elements counted in a string of at most 12 KiB.

use tollgate_containers::Str;
use tollgate_containers::hyperloglog::{self as sketch, Corrupted, Registers};
use tollgate_keyspace::{Key, ValueRef};

use super::string_edit::{Edited, edit};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Event, Family, Flags, Group, Reply, Row, Run};

const GROWS: Flags = Flags::WRITE.or(Flags::DENYOOM);

pub(super) static FAMILY: Family = Family {
    name: "HyperLogLog",
    about: "Counts distinct elements with an error of 0.81 % in at most 12 KiB.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    hyperloglog(
        "PFADD",
        at_least(2),
        GROWS.or(Flags::FAST),
        Run::Keys(pfadd),
    )
    .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::INSERT))])
    .takes("key [element [element ...]]")
    .docs(
        "Adds elements; 1 when the count may have changed.",
        "2.8.9",
        "O(1) for each element",
    ),
    hyperloglog(
        "PFCOUNT",
        at_least(2),
        Flags::READONLY.or(Flags::MAY_REPLICATE),
        Run::Keys(pfcount),
    )
    .keys(
        &[KeySpec::every(1, KeyFlags::RW.or(KeyFlags::ACCESS)).notes(
            "RW because it may change the internal representation of the key, and propagate \
                 to replicas",
        )],
    )
    .takes("key [key ...]")
    .docs(
        "Estimates the number of distinct elements, of several keys together.",
        "2.8.9",
        "O(1) with one key, O(N) in the keys otherwise, with a large constant",
    ),
    hyperloglog(
        "PFDEBUG",
        exactly(3),
        GROWS.or(Flags::ADMIN),
        Run::Keys(pfdebug),
    )
    .keys(&[KeySpec::at(2, KeyFlags::RW.or(KeyFlags::ACCESS))])
    .takes("subcommand key")
    .docs(
        "Shows how a sketch is kept, or writes all its registers out.",
        "2.8.9",
        "O(N) in the registers",
    ),
    hyperloglog("PFMERGE", at_least(2), GROWS, Run::Keys(pfmerge))
        .keys(&[
            KeySpec::at(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::INSERT)),
            KeySpec::range(2, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS)),
        ])
        .takes("destination [source [source ...]]")
        .docs(
            "Adds the elements of several keys to one.",
            "2.8.9",
            "O(N) in the keys, with a large constant",
        ),
    hyperloglog(
        "PFSELFTEST",
        exactly(1),
        Flags::ADMIN,
        Run::Local(pfselftest),
    )
    .docs(
        "Checks registers and estimates against what they should be.",
        "2.8.9",
        "O(1), with a large constant",
    ),
];

const fn hyperloglog(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::HyperLogLog, Acl::HYPERLOGLOG)
}

impl From<Corrupted> for CmdError {
    fn from(_: Corrupted) -> CmdError {
        CmdError::CorruptedSketch
    }
}

/// The size in bytes up to which a sketch is kept sparse.
fn sparse_max(cx: &Cx<'_>) -> usize {
    usize::try_from(cx.limits.hll_sparse_max_bytes()).unwrap_or(0)
}

/// An error unless the string is a sketch.
fn check(bytes: &[u8]) -> Result<&[u8], CmdError> {
    if sketch::is_sketch(bytes) {
        Ok(bytes)
    } else {
        Err(CmdError::NotASketch)
    }
}

/// The bytes of a sketch. An integer is a string, but never a sketch.
fn sketch_of(value: ValueRef<'_>) -> Result<&[u8], CmdError> {
    match value {
        ValueRef::Bytes(bytes) => check(bytes),
        ValueRef::Int(_) => Err(CmdError::NotASketch),
        ValueRef::Limiter(_) | ValueRef::Object(_) => Err(CmdError::WrongType),
    }
}

/// Changes the sketch at `key`, made empty when absent.
fn edit_sketch<R>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    f: impl FnOnce(&mut Str, bool) -> Result<Edited<R>, CmdError>,
) -> Result<R, CmdError> {
    if let Some(entry) = cx.find(key) {
        sketch_of(entry.value())?;
    }
    edit(cx, key, Event::PfAdd, |string, is_new| {
        if is_new {
            *string = sketch::empty();
        }
        let edited = f(string, is_new)?;
        if edited.changed {
            sketch::forget_count(string.as_mut_slice());
        }
        Ok(edited)
    })
}

fn pfadd(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let sparse_max = sparse_max(cx);
    let changes = edit_sketch(cx, key, |string, is_new| {
        let mut changes = u64::from(is_new);
        for element in args.rest() {
            changes += u64::from(sketch::add(string, element, sparse_max)?);
        }
        Ok(Edited {
            result: changes,
            changed: changes > 0,
        })
    })?;
    cx.effects.count(changes.saturating_sub(1));
    Ok(Reply::flag(changes > 0))
}

fn pfcount(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    if args.len() > 1 {
        let merged = merge(cx, args)?;
        return Ok(Reply::Int(merged.registers.count().cast_signed()));
    }
    let key = args.key()?;
    let Some(found) = cx.read(key) else {
        return Ok(Reply::Int(0));
    };
    let bytes = sketch_of(found.entry.value())?;
    if let Some(count) = sketch::cached_count(bytes) {
        return Ok(Reply::Int(count.cast_signed()));
    }
    let count = sketch::count(bytes)?;
    // What is counted does not change by remembering the count: only replicas and the append-only file are told, where the
    // bytes are to be the same.
    if let Some(mut entry) = cx.write(key)
        && let Some(mut string) = entry.unlogged().str_mut()
    {
        sketch::cache_count(string.as_mut_slice(), count);
    }
    cx.effects.count(1);
    Ok(Reply::Int(count.cast_signed()))
}

/// Several sketches as one.
struct Merged {
    registers: Registers,
    /// One of them has all registers written out.
    any_dense: bool,
}

fn merge(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Merged, CmdError> {
    let mut merged = Merged {
        registers: Registers::default(),
        any_dense: false,
    };
    while !args.is_empty() {
        let Some(found) = cx.read(args.key()?) else {
            continue;
        };
        // The first key that is none decides which error it is.
        let bytes = sketch_of(found.entry.value())?;
        merged.any_dense |= sketch::is_dense(bytes);
        merged.registers.merge(bytes)?;
    }
    Ok(merged)
}

fn pfmerge(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let merged = merge(cx, args.clone())?;
    let target = args.key()?;
    let sparse_max = sparse_max(cx);
    edit_sketch(cx, target, |string, _| {
        if merged.any_dense {
            sketch::make_dense(string)?;
        }
        merged.registers.raise_in(string, sparse_max)?;
        Ok(Edited {
            result: (),
            changed: true,
        })
    })?;
    Ok(Reply::Ok)
}

fn pfdebug(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let subcommand = args.next()?;
    let key = args.key()?;
    if cx.peek(key).is_none() {
        return Err(CmdError::NoSuchSketch);
    }
    let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    if !["GETREG", "DECODE", "ENCODING", "TODENSE"]
        .iter()
        .any(|name| is(name))
    {
        edit_sketch(cx, key, |_, _| Ok(unchanged(())))?;
        return Err(CmdError::unknown_pfdebug(subcommand));
    }
    if is("GETREG") {
        let registers = edit_sketch(cx, key, |string, _| {
            sketch::make_dense(string)?;
            Ok(unchanged(sketch::registers(string.as_slice())?))
        })?;
        let registers = registers.as_slice();
        cx.out.array(registers.len());
        registers.iter().for_each(|&value| cx.out.int(value.into()));
        return Ok(Reply::Written);
    }
    if is("TODENSE") {
        let changed = edit_sketch(cx, key, |string, _| {
            Ok(unchanged(sketch::make_dense(string)?))
        })?;
        return Ok(Reply::flag(changed));
    }
    let runs = edit_sketch(cx, key, |string, _| {
        let bytes = string.as_slice();
        let runs = (!sketch::is_dense(bytes)).then(|| sketch::decode(bytes));
        Ok(unchanged(runs))
    })?;
    match runs {
        _ if is("ENCODING") => Ok(Reply::Simple(match runs {
            Some(_) => "sparse",
            None => "dense",
        })),
        Some(runs) => {
            cx.out.bulk(runs.as_bytes());
            Ok(Reply::Written)
        }
        None => Err(CmdError::SketchNotSparse),
    }
}

/// The registers mean what they meant.
fn unchanged<R>(result: R) -> Edited<R> {
    Edited {
        result,
        changed: false,
    }
}

fn pfselftest(cx: &mut Cx<'_>, _args: Args<'_>) -> Result<Reply, CmdError> {
    let sparse_max = sparse_max(cx);
    sketch::self_test(|| cx.rng.next_u64(), sparse_max)
        .map_err(|failure| CmdError::line(format!("TESTFAILED {failure}")))?;
    Ok(Reply::Ok)
}
