//! Lists.

use tollgate_containers::Container;
use tollgate_containers::list::{List, NodeLimit};

use super::{list_move, list_pop, list_position};
use crate::cx_object::Create;
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{
    Acl, Args, Arity, CmdError, Cx, Event, Family, Flags, Group, Reply, Row, Run, StoreLimits,
};

const WRITE: Flags = Flags::WRITE;
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROWS: Flags = Flags::WRITE.or(Flags::DENYOOM);
const GROWS_FAST: Flags = GROWS.or(Flags::FAST);
const WAITS: Flags = Flags::NOSCRIPT.or(Flags::BLOCKING);

const ACCESS: KeySpec = KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS));
const INSERT: KeySpec = KeySpec::at(1, KeyFlags::RW.or(KeyFlags::INSERT));
const DELETE: KeySpec = KeySpec::at(1, KeyFlags::RW.or(KeyFlags::DELETE));
const POP_FLAGS: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE);
const POP: KeySpec = KeySpec::at(1, POP_FLAGS);
const POP_FIRST: KeySpec = KeySpec::range(1, -2, 1, POP_FLAGS);
const FROM_TO: &[KeySpec] = &[POP, KeySpec::at(2, KeyFlags::RW.or(KeyFlags::INSERT))];

const PUSH_COST: &str = "O(1) for each element";
const MPOP: &str = "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]";

pub(super) static FAMILY: Family = Family {
    name: "Lists",
    about: "Sequences of strings, quick at both ends; commands that wait for an element.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    list("BLMOVE", exactly(6), GROWS.or(WAITS), list_move::blmove)
        .keys(FROM_TO)
        .takes("source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout")
        .docs(
            "Moves an element from one list to another, waiting for one.",
            "6.2.0",
            "O(1)",
        ),
    list(
        "BLMPOP",
        at_least(5),
        Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS),
        list_pop::blmpop,
    )
    .keys(&[KeySpec::counted(2, POP_FLAGS).refused(list_pop::refuse_blmpop)])
    .takes("timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]")
    .docs(
        "Pops elements of the first list that is not empty, waiting for one.",
        "7.0.0",
        "O(N+M) in the keys and the returned elements",
    ),
    list("BLPOP", at_least(3), WRITE.or(WAITS), list_pop::blpop)
        .keys(&[POP_FIRST])
        .takes("key [key ...] timeout")
        .docs(
            "Pops the first element of the first list that has one, waiting for one.",
            "2.0.0",
            "O(N) in the keys",
        ),
    list("BRPOP", at_least(3), WRITE.or(WAITS), list_pop::brpop)
        .keys(&[POP_FIRST])
        .takes("key [key ...] timeout")
        .docs(
            "Pops the last element of the first list that has one, waiting for one.",
            "2.0.0",
            "O(N) in the keys",
        ),
    list(
        "BRPOPLPUSH",
        exactly(4),
        GROWS.or(WAITS),
        list_move::brpoplpush,
    )
    .keys(FROM_TO)
    .takes("source destination timeout")
    .docs(
        "Moves the last element of a list to the front of another, waiting for one.",
        "2.2.0",
        "O(1)",
    )
    .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
    list("LINDEX", exactly(3), Flags::READONLY, lindex)
        .keys(&[ACCESS])
        .takes("key index")
        .docs(
            "Returns an element by its position.",
            "1.0.0",
            "O(N) in the chunks up to it, from the nearer end",
        ),
    list("LINSERT", exactly(5), GROWS, linsert)
        .keys(&[INSERT])
        .takes("key <BEFORE | AFTER> pivot element")
        .docs(
            "Inserts an element beside another.",
            "2.2.0",
            "O(N) in the elements before the pivot",
        ),
    list("LLEN", exactly(2), Flags::READONLY.or(Flags::FAST), llen)
        .keys(&[KeySpec::at(1, KeyFlags::RO)])
        .takes("key")
        .docs("Returns the length of a list.", "1.0.0", "O(1)"),
    list("LMOVE", exactly(5), GROWS, list_move::lmove)
        .keys(FROM_TO)
        .takes("source destination <LEFT | RIGHT> <LEFT | RIGHT>")
        .docs(
            "Moves an element from one list to another.",
            "6.2.0",
            "O(1)",
        ),
    list(
        "LMPOP",
        at_least(4),
        Flags::WRITE.or(Flags::MOVABLE_KEYS),
        list_pop::lmpop,
    )
    .keys(&[KeySpec::counted(1, POP_FLAGS).refused(list_pop::refuse_lmpop)])
    .takes(MPOP)
    .docs(
        "Pops elements of the first list that is not empty.",
        "7.0.0",
        "O(N+M) in the keys and the returned elements",
    ),
    list("LPOP", at_least(2), WRITE_FAST, list_pop::lpop)
        .keys(&[POP])
        .takes("key [count]")
        .docs(
            "Removes and returns the first elements.",
            "1.0.0",
            "O(N) in the returned elements",
        ),
    list("LPOS", at_least(3), Flags::READONLY, list_position::lpos)
        .keys(&[ACCESS])
        .takes("key element [RANK rank] [COUNT num-matches] [MAXLEN len]")
        .docs(
            "Returns where an element is.",
            "6.0.6",
            "O(N) in the compared elements",
        ),
    list("LPUSH", at_least(3), GROWS_FAST, lpush)
        .keys(&[INSERT])
        .takes("key element [element ...]")
        .docs("Adds elements before the first.", "1.0.0", PUSH_COST),
    list("LPUSHX", at_least(3), GROWS_FAST, lpushx)
        .keys(&[INSERT])
        .takes("key element [element ...]")
        .docs(
            "Adds elements before the first of a list that exists.",
            "2.2.0",
            PUSH_COST,
        ),
    list("LRANGE", exactly(4), Flags::READONLY, lrange)
        .keys(&[ACCESS])
        .takes("key start stop")
        .docs(
            "Returns elements by their positions.",
            "1.0.0",
            "O(S+N) in the chunks up to the start and the returned elements",
        ),
    list("LREM", exactly(4), WRITE, lrem)
        .keys(&[DELETE])
        .takes("key count element")
        .docs(
            "Removes elements equal to the given one.",
            "1.0.0",
            "O(N) in the elements",
        ),
    list("LSET", exactly(4), GROWS, lset)
        .keys(&[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .takes("key index element")
        .docs(
            "Replaces an element by its position.",
            "1.0.0",
            "O(N) in the chunks up to it, from the nearer end",
        ),
    list("LTRIM", exactly(4), WRITE, ltrim)
        .keys(&[DELETE])
        .takes("key start stop")
        .docs(
            "Removes the elements outside of a range.",
            "1.0.0",
            "O(N) in the removed elements",
        ),
    list("RPOP", at_least(2), WRITE_FAST, list_pop::rpop)
        .keys(&[POP])
        .takes("key [count]")
        .docs(
            "Removes and returns the last elements.",
            "1.0.0",
            "O(N) in the returned elements",
        ),
    list("RPOPLPUSH", exactly(3), GROWS, list_move::rpoplpush)
        .keys(FROM_TO)
        .takes("source destination")
        .docs(
            "Moves the last element of a list to the front of another.",
            "1.2.0",
            "O(1)",
        )
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
    list("RPUSH", at_least(3), GROWS_FAST, rpush)
        .keys(&[INSERT])
        .takes("key element [element ...]")
        .docs("Adds elements behind the last.", "1.0.0", PUSH_COST),
    list("RPUSHX", at_least(3), GROWS_FAST, rpushx)
        .keys(&[INSERT])
        .takes("key element [element ...]")
        .docs(
            "Adds elements behind the last of a list that exists.",
            "2.2.0",
            PUSH_COST,
        ),
];

const fn list(name: &'static str, arity: Arity, flags: Flags, run: crate::Handler) -> Row {
    row(name, arity, flags, Run::Keys(run)).acl(Group::List, Acl::LIST)
}

/// One of the ends of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

impl End {
    /// Reads `LEFT` or `RIGHT`.
    pub(super) fn parse(args: &mut Args<'_>) -> Result<End, CmdError> {
        if args.keyword("LEFT") {
            Ok(End::Left)
        } else if args.keyword("RIGHT") {
            Ok(End::Right)
        } else {
            Err(CmdError::Syntax)
        }
    }

    pub(super) fn push(self, list: &mut List, element: &[u8], limit: NodeLimit) {
        match self {
            End::Left => list.push_front(element, limit),
            End::Right => list.push_back(element, limit),
        }
    }

    pub(super) fn push_event(self) -> Event {
        match self {
            End::Left => Event::LPush,
            End::Right => Event::RPush,
        }
    }

    pub(super) fn pop_event(self) -> Event {
        match self {
            End::Left => Event::LPop,
            End::Right => Event::RPop,
        }
    }
}

/// How large a chunk of a list may grow.
pub(super) fn node_limit(limits: &StoreLimits) -> NodeLimit {
    NodeLimit::from_setting(limits.list_max_listpack_size())
}

fn lpush(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    push(cx, args, End::Left, Create::Yes)
}

fn rpush(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    push(cx, args, End::Right, Create::Yes)
}

fn lpushx(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    push(cx, args, End::Left, Create::No)
}

fn rpushx(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    push(cx, args, End::Right, Create::No)
}

fn push(cx: &mut Cx<'_>, mut args: Args<'_>, end: End, create: Create) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let len = cx.change::<List, _>(key, create, |change| {
        let limit = node_limit(change.limits);
        for element in args.rest() {
            end.push(change.value, element, limit);
        }
        change.touched_times(end.push_event(), args.len());
        Ok(change.value.len())
    })?;
    Ok(Reply::count(len.unwrap_or(0)))
}

fn llen(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let list = cx.read_as::<List>(key)?;
    Ok(Reply::count(list.map_or(0, |seen| seen.value.len())))
}

/// The position that an index means in a list of `len` elements: negative ones count from the end.
fn position(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// The elements from `start` to `stop`, both included, as the first position and how many.
fn range(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    if start > stop {
        return (0, 0);
    }
    (start as usize, (stop - start + 1) as usize)
}

fn lindex(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let Some(seen) = cx.read_as::<List>(key)? else {
        return Ok(Reply::Null);
    };
    let index = position(args.int()?, seen.value.len());
    match index.and_then(|index| seen.value.get(index)) {
        Some(element) => seen.out.bulk(element),
        None => return Ok(Reply::Null),
    }
    Ok(Reply::Written)
}

fn lrange(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (start, stop) = (args.int()?, args.int()?);
    let Some(seen) = cx.read_as::<List>(key)? else {
        cx.out.array(0);
        return Ok(Reply::Written);
    };
    let (start, count) = range(start, stop, seen.value.len());
    seen.out.array(count);
    for element in seen.value.iter_from(start).take(count) {
        seen.out.bulk(element);
    }
    Ok(Reply::Written)
}

fn lset(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let set = cx.change::<List, _>(key, Create::No, |change| {
        let index = args.int()?;
        let element = args.next()?;
        let index = position(index, change.value.len()).ok_or(CmdError::IndexOutOfRange)?;
        change.value.set(index, element, node_limit(change.limits));
        change.touched(Event::LSet);
        Ok(())
    })?;
    set.map(|()| Reply::Ok).ok_or(CmdError::NoSuchKey)
}

fn linsert(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let behind = if args.keyword("AFTER") {
        1
    } else if args.keyword("BEFORE") {
        0
    } else {
        return Err(CmdError::Syntax);
    };
    let (pivot, element) = (args.next()?, args.next()?);
    let len = cx.change::<List, _>(key, Create::No, |change| {
        let Some(found) = change.value.iter().position(|other| other == pivot) else {
            return Ok(-1);
        };
        let limit = node_limit(change.limits);
        change.value.insert(found + behind, element, limit);
        change.touched(Event::LInsert);
        Ok(change.value.len() as i64)
    })?;
    Ok(Reply::Int(len.unwrap_or(0)))
}

fn lrem(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let count = args.int()?;
    let element = args.next()?;
    let most = match usize::try_from(count.unsigned_abs()) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(most) => most,
    };
    let removed = cx.change::<List, _>(key, Create::No, |change| {
        let removed = if count < 0 {
            change.value.remove_last_equal(element, most)
        } else {
            change.value.remove_first_equal(element, most)
        };
        if removed > 0 {
            change.touched_times(Event::LRem, removed);
        }
        Ok(removed)
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

fn ltrim(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (start, stop) = (args.int()?, args.int()?);
    cx.change::<List, _>(key, Create::No, |change| {
        let (start, count) = range(start, stop, change.value.len());
        let removed = change.value.len() - count;
        change.value.remove(start + count, usize::MAX);
        change.value.remove(0, start);
        match removed {
            // Who listens hears of it all the same.
            0 => change.note(Event::LTrim),
            _ => change.touched_times(Event::LTrim, removed),
        }
        Ok(())
    })?;
    Ok(Reply::Ok)
}
