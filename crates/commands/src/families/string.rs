//! Strings, and integers as strings.
//!
//! A value that reads as a canonical integer is kept as one, so counters need no parsing; changing
//! its bytes turns it into a plain string for good.

use tollgate_containers::Str;
use tollgate_containers::number::{self, Extended};
use tollgate_keyspace::{Value, ValueRef};
use tollgate_wire::resp::ReplyBuf;

use super::{increx, lcs, string_condition, string_range, string_set};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Event, Family, Flags, Group, Reply, Row, Run};

const READ: Flags = Flags::READONLY.or(Flags::FAST);
const GROWS: Flags = Flags::WRITE.or(Flags::DENYOOM);
const GROWS_FAST: Flags = GROWS.or(Flags::FAST);
const TAKES_AWAY: Flags = Flags::WRITE.or(Flags::FAST);

const RO_ACCESS: KeySpec = KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS));
const RW_ACCESS_UPDATE: KeySpec =
    KeySpec::at(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE));
const OW_UPDATE: KeySpec = KeySpec::at(1, KeyFlags::OW.or(KeyFlags::UPDATE));

const MULTI_SHARD: &str = "request_policy:multi_shard";
const RANGE_COST: &str = "O(N) in the returned bytes";

pub(super) static FAMILY: Family = Family {
    name: "Strings",
    about: "Byte strings of up to 512 MB, and integers kept as such.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    string("APPEND", exactly(3), GROWS_FAST, string_range::append)
        .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .takes("key value")
        .docs(
            "Appends to a string and returns its new length.",
            "2.0.0",
            "O(1) amortised",
        ),
    string("DECR", exactly(2), GROWS_FAST, decr)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key")
        .docs("Takes one from an integer.", "1.0.0", "O(1)"),
    string("DECRBY", exactly(3), GROWS_FAST, decrby)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key decrement")
        .docs("Takes a number from an integer.", "1.0.0", "O(1)"),
    string("DELEX", at_least(2), TAKES_AWAY, string_condition::delex)
        .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::DELETE))
            .varying(string_condition::delex_key_flags)])
        .takes("key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]")
        .docs(
            "Deletes a key, if it holds a certain string or one of a certain digest.",
            "8.4.0",
            "O(N) in the string for a digest, O(1) otherwise",
        ),
    string("DELIFEQ", exactly(3), TAKES_AWAY, string_condition::delifeq)
        .keys(&[KeySpec::at(1, KeyFlags::RM.or(KeyFlags::DELETE))])
        .takes("key value")
        .docs(
            "Deletes a key if it holds a certain string; Valkey's form of `DELEX key IFEQ value`.",
            "9.0.0",
            "O(1)",
        ),
    string("DIGEST", exactly(2), READ, string_condition::digest_of)
        .keys(&[RO_ACCESS])
        .takes("key")
        .docs(
            "Returns the XXH3 hash of a string in hexadecimal digits.",
            "8.4.0",
            "O(N) in the string",
        ),
    string("GET", exactly(2), READ, get)
        .keys(&[RO_ACCESS])
        .takes("key")
        .docs("Returns a string.", "1.0.0", "O(1)"),
    string("GETDEL", exactly(2), TAKES_AWAY, string_set::getdel)
        .keys(&[KeySpec::at(
            1,
            KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE),
        )])
        .takes("key")
        .docs("Returns a string and deletes its key.", "6.2.0", "O(1)"),
    string("GETEX", at_least(2), TAKES_AWAY, string_set::getex)
        .keys(&[RW_ACCESS_UPDATE.notes("RW and UPDATE because it changes the TTL")])
        .takes(
            "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
             PXAT unix-time-milliseconds | PERSIST]",
        )
        .docs(
            "Returns a string and sets or removes its expiry.",
            "6.2.0",
            "O(1)",
        ),
    string(
        "GETRANGE",
        exactly(4),
        Flags::READONLY,
        string_range::getrange,
    )
    .keys(&[RO_ACCESS])
    .takes("key start end")
    .docs("Returns a part of a string.", "2.4.0", RANGE_COST),
    string("GETSET", exactly(3), GROWS_FAST, string_set::getset)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key value")
        .docs("Sets a string and returns the old one.", "1.0.0", "O(1)")
        .deprecated("6.2.0", "`SET` with the `!GET` argument"),
    string("INCR", exactly(2), GROWS_FAST, incr)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key")
        .docs("Adds one to an integer.", "1.0.0", "O(1)"),
    string("INCRBY", exactly(3), GROWS_FAST, incrby)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key increment")
        .docs("Adds a number to an integer.", "1.0.0", "O(1)"),
    string("INCRBYFLOAT", exactly(3), GROWS_FAST, incrbyfloat)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key increment")
        .docs(
            "Adds a number with a fraction to a number.",
            "2.6.0",
            "O(1)",
        ),
    string("INCREX", at_least(2), GROWS_FAST, increx::increx)
        .keys(&[RW_ACCESS_UPDATE])
        .takes("key [NX | XX] [BYFLOAT increment | BYINT increment] [LBOUND lower-bound] [UBOUND upper-bound] [SATURATE] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]")
        .docs(
            "Adds to a number within bounds, and sets or takes its expiry.",
            "8.8.0",
            "O(1)",
        ),
    string("LCS", at_least(3), Flags::READONLY.or(Flags::BULKY), lcs::lcs)
        .keys(&[KeySpec::range(1, 1, 1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .takes("key key [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]")
        .docs(
            "Finds the longest common subsequence of two strings.",
            "7.0.0",
            "O(N*M) in the lengths of the strings",
        ),
    string("MGET", at_least(2), READ, mget)
        .keys(&[KeySpec::every(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .takes("key [key ...]")
        .docs("Returns several strings.", "1.0.0", "O(N) in the keys")
        .tips(&[MULTI_SHARD]),
    string("MSET", at_least(3), GROWS, string_set::mset)
        .keys(&[KeySpec::every(2, KeyFlags::OW.or(KeyFlags::UPDATE))])
        .takes("key value [key value ...]")
        .docs("Sets several strings.", "1.0.1", "O(N) in the keys")
        .tips(&[MULTI_SHARD, "response_policy:all_succeeded"]),
    string(
        "MSETEX",
        at_least(4),
        GROWS.or(Flags::MOVABLE_KEYS),
        string_set::msetex,
    )
    .keys(&[KeySpec::counted_pairs(1, KeyFlags::OW.or(KeyFlags::UPDATE))
        .refused(string_set::refuse_msetex)])
    .takes(
        "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | \
         EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
    )
    .docs(
        "Sets several strings with one expiry, if all or none of the keys exist.",
        "8.4.0",
        "O(N) in the keys",
    )
    .tips(&[MULTI_SHARD, "response_policy:all_succeeded"]),
    string("MSETNX", at_least(3), GROWS, string_set::msetnx)
        .keys(&[KeySpec::every(2, KeyFlags::OW.or(KeyFlags::INSERT))])
        .takes("key value [key value ...]")
        .docs(
            "Sets several strings unless one of the keys exists.",
            "1.0.1",
            "O(N) in the keys",
        )
        .tips(&[MULTI_SHARD, "response_policy:agg_min"]),
    string("PSETEX", exactly(4), GROWS, string_set::psetex)
        .keys(&[OW_UPDATE])
        .takes("key milliseconds value")
        .docs(
            "Sets a string with an expiry in milliseconds.",
            "2.6.0",
            "O(1)",
        ),
    string("SET", at_least(3), GROWS, string_set::set)
        .keys(&[
            KeySpec::at(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))
                .varying(string_set::key_flags)
                .notes("RW and ACCESS due to the optional `GET` argument"),
        ])
        .takes(
            "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
             PXAT unix-time-milliseconds | KEEPTTL]",
        )
        .docs("Sets a string.", "1.0.0", "O(1)"),
    string("SETEX", exactly(4), GROWS, string_set::setex)
        .keys(&[OW_UPDATE])
        .takes("key seconds value")
        .docs("Sets a string with an expiry in seconds.", "2.0.0", "O(1)"),
    string("SETNX", exactly(3), GROWS_FAST, string_set::setnx)
        .keys(&[KeySpec::at(1, KeyFlags::OW.or(KeyFlags::INSERT))])
        .takes("key value")
        .docs("Sets a string unless the key exists.", "1.0.0", "O(1)"),
    string("SETRANGE", exactly(4), GROWS, string_range::setrange)
        .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .takes("key offset value")
        .docs(
            "Overwrites a part of a string.",
            "2.2.0",
            "O(N) in the written bytes",
        ),
    string("STRLEN", exactly(2), READ, string_range::strlen)
        .keys(&[KeySpec::at(1, KeyFlags::RO)])
        .takes("key")
        .docs("Returns the length of a string.", "2.2.0", "O(1)"),
    string(
        "SUBSTR",
        exactly(4),
        Flags::READONLY,
        string_range::getrange,
    )
    .keys(&[RO_ACCESS])
    .takes("key start end")
    .docs("Returns a part of a string.", "1.0.0", RANGE_COST)
    .deprecated("2.0.0", "`GETRANGE`"),
];

const fn string(name: &'static str, arity: Arity, flags: Flags, run: crate::Handler) -> Row {
    row(name, arity, flags, Run::Keys(run)).acl(Group::String, Acl::STRING)
}

/// Writes a string value; another type is an error and writes nothing.
#[inline]
pub(super) fn write_value(value: ValueRef<'_>, out: &mut ReplyBuf) -> Result<Reply, CmdError> {
    match value {
        ValueRef::Int(n) => out.bulk_int(n),
        ValueRef::Bytes(bytes) => out.bulk(bytes),
        ValueRef::Limiter(_) | ValueRef::Object(_) => return Err(CmdError::WrongType),
    }
    Ok(Reply::Written)
}

pub(super) fn get(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    match cx.read(key) {
        Some(found) => write_value(found.entry.value(), found.out),
        None => Ok(Reply::Null),
    }
}

fn mget(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    cx.out.array(args.len());
    while !args.is_empty() {
        let key = args.key()?;
        let written = match cx.read(key) {
            Some(found) => write_value(found.entry.value(), found.out).is_ok(),
            None => false,
        };
        if !written {
            cx.out.null();
        }
    }
    Ok(Reply::Written)
}

fn incr(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    add(cx, args, 1)
}

fn decr(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    add(cx, args, -1)
}

fn incrby(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let by = step(&args)?;
    add(cx, args, by)
}

fn decrby(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let by = step(&args)?
        .checked_neg()
        .ok_or(CmdError::DecrementOverflow)?;
    add(cx, args, by)
}

/// The increment behind the key.
fn step(args: &Args<'_>) -> Result<i64, CmdError> {
    let word = args.rest().get(1).ok_or(CmdError::Syntax)?;
    number::parse_i64(word).ok_or(CmdError::NotAnInteger)
}

#[inline]
fn add(cx: &mut Cx<'_>, mut args: Args<'_>, by: i64) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let Some(mut entry) = cx.write(key) else {
        cx.set(key, Value::Int(by), None, Event::IncrBy);
        return Ok(Reply::Int(by));
    };
    let old = match entry.value() {
        ValueRef::Int(n) => n,
        ValueRef::Bytes(bytes) => number::parse_i64(bytes).ok_or(CmdError::NotAnInteger)?,
        ValueRef::Limiter(_) | ValueRef::Object(_) => return Err(CmdError::WrongType),
    };
    let new = old.checked_add(by).ok_or(CmdError::Overflow)?;
    entry.change(Event::IncrBy).set_int(new);
    Ok(Reply::Int(new))
}

fn incrbyfloat(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut digits = [0; number::I64_TEXT_LEN];
    let old = match cx.find(key).map(|entry| entry.value()) {
        None => Extended::parse(b"0"),
        Some(ValueRef::Int(n)) => Extended::parse(number::write_i64(&mut digits, n)),
        Some(ValueRef::Bytes(bytes)) => Extended::parse(bytes),
        Some(ValueRef::Limiter(_) | ValueRef::Object(_)) => return Err(CmdError::WrongType),
    };
    let by = Extended::parse(args.next()?);
    let (Some(old), Some(by)) = (old, by) else {
        return Err(CmdError::NotAFloat);
    };
    let new = old + by;
    if !new.is_finite() {
        return Err(CmdError::NotFinite);
    }
    let text = new.to_text();
    let value = Value::Str(Str::from_slice(&text));
    match cx.write(key) {
        Some(mut entry) => entry.change(Event::IncrByFloat).set_value(value),
        None => cx.set(key, value, None, Event::IncrByFloat),
    }
    cx.out.bulk(&text);
    Ok(Reply::Written)
}
