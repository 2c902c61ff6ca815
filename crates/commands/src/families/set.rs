//! Sets: membership and its changes. Random choices are in `set_random`, operations on several sets in `set_algebra`.

use tollgate_containers::Container as _;
use tollgate_containers::set::{Member, Set, SetLimits};
use tollgate_keyspace::Seed;
use tollgate_wire::resp::ReplyBuf;

use super::scan_elements::scan_elements;
use super::{set_algebra, set_random};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{
    Acl, Args, Arity, CmdError, Create, Cx, Event, Family, Flags, Group, Handler, Reply, Row, Run,
    StoreLimits,
};

const READ: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const STORES: Flags = Flags::WRITE.or(Flags::DENYOOM);

const RO: KeySpec = KeySpec::at(1, KeyFlags::RO);
const RO_ACCESS: KeySpec = KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS));
const POPPED: KeySpec = KeySpec::at(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE));
const OPERANDS: KeySpec = KeySpec::every(1, KeyFlags::RO.or(KeyFlags::ACCESS));
const SOURCES: KeySpec = KeySpec::range(2, -1, 1, KeyFlags::RO.or(KeyFlags::ACCESS));
const STORED: KeySpec = KeySpec::at(1, KeyFlags::OW.or(KeyFlags::UPDATE));

const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];

const ALL_MEMBERS: &str = "O(N) in the members of all sets";
const SMALLEST: &str = "O(N*M) in the members of the smallest set and the number of sets";

pub(super) static FAMILY: Family = Family {
    name: "Sets",
    about: "Members without order or repetition.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    set("SADD", at_least(3), STORES.or(Flags::FAST), sadd)
        .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::INSERT))])
        .takes("key member [member ...]")
        .docs(
            "Adds members to a set and counts the new ones.",
            "1.0.0",
            "O(N) in the members given",
        ),
    set("SCARD", exactly(2), READ, scard)
        .keys(&[RO])
        .takes("key")
        .docs("Returns the number of members.", "1.0.0", "O(1)"),
    set(
        "SDIFF",
        at_least(2),
        Flags::READONLY.or(Flags::BULKY),
        set_algebra::sdiff,
    )
    .keys(&[OPERANDS])
    .takes("key [key ...]")
    .docs(
        "Returns the members of the first set that are in no other.",
        "1.0.0",
        ALL_MEMBERS,
    )
    .tips(ANY_ORDER),
    set(
        "SDIFFSTORE",
        at_least(3),
        STORES.or(Flags::BULKY),
        set_algebra::sdiffstore,
    )
    .keys(&[STORED, SOURCES])
    .takes("destination key [key ...]")
    .docs(
        "Stores the members of the first set that are in no other.",
        "1.0.0",
        ALL_MEMBERS,
    ),
    set(
        "SINTER",
        at_least(2),
        Flags::READONLY.or(Flags::BULKY),
        set_algebra::sinter,
    )
    .keys(&[OPERANDS])
    .takes("key [key ...]")
    .docs("Returns the members that all sets have.", "1.0.0", SMALLEST)
    .tips(ANY_ORDER),
    set(
        "SINTERCARD",
        at_least(3),
        Flags::READONLY.or(Flags::MOVABLE_KEYS).or(Flags::BULKY),
        set_algebra::sintercard,
    )
    .keys(&[KeySpec::counted(1, KeyFlags::RO.or(KeyFlags::ACCESS))
        .refused(set_algebra::refuse_key_count)])
    .takes("numkeys key [key ...] [LIMIT limit]")
    .docs(
        "Counts the members that all sets have, up to a limit.",
        "7.0.0",
        SMALLEST,
    ),
    set(
        "SINTERSTORE",
        at_least(3),
        STORES.or(Flags::BULKY),
        set_algebra::sinterstore,
    )
    .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE)), SOURCES])
    .takes("destination key [key ...]")
    .docs("Stores the members that all sets have.", "1.0.0", SMALLEST),
    set("SISMEMBER", exactly(3), READ, sismember)
        .keys(&[RO])
        .takes("key member")
        .docs("Tells whether a member is in a set.", "1.0.0", "O(1)"),
    set("SMEMBERS", exactly(2), Flags::READONLY, smembers)
        .keys(&[RO_ACCESS])
        .takes("key")
        .docs("Returns all members.", "1.0.0", "O(N) in the members")
        .tips(ANY_ORDER),
    set("SMISMEMBER", at_least(3), READ, smismember)
        .keys(&[RO_ACCESS])
        .takes("key member [member ...]")
        .docs(
            "Tells of several members whether they are in a set.",
            "6.2.0",
            "O(N) in the members given",
        ),
    set("SMOVE", exactly(4), WRITE_FAST, smove)
        .keys(&[POPPED, KeySpec::at(2, KeyFlags::RW.or(KeyFlags::INSERT))])
        .takes("source destination member")
        .docs("Moves a member from one set to another.", "1.0.0", "O(1)"),
    set("SPOP", at_least(2), WRITE_FAST, set_random::spop)
        .keys(&[POPPED])
        .takes("key [count]")
        .docs(
            "Removes random members and returns them.",
            "1.0.0",
            "O(N) in the members returned",
        )
        .tips(ANY_OUTPUT),
    set(
        "SRANDMEMBER",
        at_least(2),
        Flags::READONLY,
        set_random::srandmember,
    )
    .keys(&[RO_ACCESS])
    .takes("key [count]")
    .docs(
        "Returns random members; the same one more than once if the count is negative.",
        "1.0.0",
        "O(N) in the members returned",
    )
    .tips(ANY_OUTPUT),
    set("SREM", at_least(3), WRITE_FAST, srem)
        .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::DELETE))])
        .takes("key member [member ...]")
        .docs(
            "Removes members from a set and counts those that were in it.",
            "1.0.0",
            "O(N) in the members given",
        ),
    set("SSCAN", at_least(3), Flags::READONLY, sscan)
        .keys(&[RO_ACCESS])
        .takes("key cursor [MATCH pattern] [COUNT count]")
        .docs(
            "Returns some members and where to go on.",
            "2.8.0",
            "O(1) per call, O(N) for the whole set",
        )
        .tips(ANY_OUTPUT),
    set(
        "SUNION",
        at_least(2),
        Flags::READONLY.or(Flags::BULKY),
        set_algebra::sunion,
    )
    .keys(&[OPERANDS])
    .takes("key [key ...]")
    .docs(
        "Returns the members that any set has.",
        "1.0.0",
        ALL_MEMBERS,
    )
    .tips(ANY_ORDER),
    set(
        "SUNIONSTORE",
        at_least(3),
        STORES.or(Flags::BULKY),
        set_algebra::sunionstore,
    )
    .keys(&[STORED, SOURCES])
    .takes("destination key [key ...]")
    .docs("Stores the members that any set has.", "1.0.0", ALL_MEMBERS),
];

const fn set(name: &'static str, arity: Arity, flags: Flags, run: Handler) -> Row {
    row(name, arity, flags, Run::Keys(run)).acl(Group::Set, Acl::SET)
}

/// What decides on the form of a set.
pub(super) fn set_limits(limits: &StoreLimits, seed: &Seed) -> SetLimits {
    SetLimits {
        max_ints: usize::try_from(limits.set_max_intset_entries()).unwrap_or(0),
        seed: seed.of_collections(),
    }
}

/// Writes a member as a bulk string.
#[inline]
pub(super) fn write_member(member: Member<'_>, out: &mut ReplyBuf) {
    match member {
        Member::Int(int) => out.bulk_int(int),
        Member::Bytes(bytes) => out.bulk(bytes),
    }
}

fn sadd(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let added = cx.change(key, Create::Yes, |change| {
        let limits = set_limits(change.limits, change.seed);
        let set: &mut Set = change.value;
        let members = args.rest();
        let added = members.iter().filter(|member| set.add(member, &limits));
        let added = added.count();
        if added > 0 {
            change.touched_times(Event::SAdd, added);
        }
        Ok(added)
    })?;
    Ok(Reply::count(added.unwrap_or(0)))
}

fn srem(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let removed = cx.change(key, Create::No, |change| {
        let set: &mut Set = change.value;
        let removed = args
            .rest()
            .iter()
            .filter(|member| set.remove(member))
            .count();
        if removed > 0 {
            change.touched_times(Event::SRem, removed);
        }
        Ok(removed)
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

fn scard(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let seen = cx.read_as::<Set>(args.key()?)?;
    Ok(Reply::count(seen.map_or(0, |seen| seen.value.len())))
}

fn sismember(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let seen = cx.read_as::<Set>(args.key()?)?;
    let member = args.next()?;
    Ok(Reply::flag(
        seen.is_some_and(|seen| seen.value.contains(member)),
    ))
}

fn smismember(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let members = args.rest();
    match cx.read_as::<Set>(key)? {
        Some(seen) => {
            seen.out.array(members.len());
            for member in members {
                seen.out.int(seen.value.contains(member).into());
            }
        }
        None => {
            cx.out.array(members.len());
            members.iter().for_each(|_| cx.out.int(0));
        }
    }
    Ok(Reply::Written)
}

fn smembers(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    match cx.read_as::<Set>(args.key()?)? {
        Some(seen) => {
            seen.out.set(seen.value.len());
            for member in seen.value.iter() {
                write_member(member, seen.out);
            }
        }
        None => cx.out.set(0),
    }
    Ok(Reply::Written)
}

fn smove(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let (source, destination) = (args.key()?, args.key()?);
    let member = args.next()?;
    // Both are looked up: what has expired goes.
    cx.peek(destination);
    let Some(from) = cx.find_as::<Set>(source)? else {
        return Ok(Reply::Int(0));
    };
    let present = from.contains(member);
    cx.find_as::<Set>(destination)?;
    if source.bytes() == destination.bytes() || !present {
        return Ok(Reply::flag(present));
    }
    cx.change(source, Create::No, |change| {
        let set: &mut Set = change.value;
        set.remove(member);
        change.touched(Event::SRem);
        Ok(())
    })?;
    cx.change(destination, Create::Yes, |change| {
        let limits = set_limits(change.limits, change.seed);
        let set: &mut Set = change.value;
        if set.add(member, &limits) {
            change.touched(Event::SAdd);
        }
        Ok(())
    })?;
    Ok(Reply::Int(1))
}

fn sscan(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    scan_elements::<Set>(cx, args, false, |set, page| {
        let (cursor, count) = (page.cursor, page.count);
        set.scan(cursor, count, &mut |member| {
            member.with_bytes(|name| page.add(name, 1, |out| out.bulk(name)));
        })
    })
}
