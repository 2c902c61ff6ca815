//! Keys, whatever they hold.

use tollgate_containers::glob;
use tollgate_keyspace::{DbIndex, Encoding, Key, Value};

use super::{object, scan, sort};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Event, Family, Flags, Group, Moved, Reply, Row, Run};

/// Elements up to which UNLINK frees a value itself.
const FREED_AT_ONCE: usize = 64;

const READ: Flags = Flags::READONLY.or(Flags::FAST);
const MOVES: Flags = Flags::WRITE.or(Flags::FAST);

const RO_ACCESS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
const RW_ACCESS: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS);
const MOVED_AWAY: KeySpec = KeySpec::at(1, RW_ACCESS.or(KeyFlags::DELETE));
const REMOVED: KeySpec = KeySpec::every(1, KeyFlags::RM.or(KeyFlags::DELETE));

const SORTED: Acl = Acl::SET
    .or(Acl::SORTED_SET)
    .or(Acl::LIST)
    .or(Acl::DANGEROUS);
const BY_AND_GET: KeySpec = KeySpec::unknown(RO_ACCESS).notes(
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the \
     content of the key we sort",
)
.used_by(sort::uses_other_keys);
const SORT_COST: &str = "O(N+M*log(M)) in the elements and those that are sorted";

const MULTI_SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const PER_KEY: &str = "O(N) in the keys";

pub(super) static FAMILY: Family = Family {
    name: "Keys",
    about: "Keys, whatever they hold.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    generic(
        "COPY",
        at_least(3),
        Flags::WRITE.or(Flags::DENYOOM).or(Flags::BULKY),
        Run::Keys(copy),
    )
    .keys(&[
        KeySpec::at(1, RO_ACCESS),
        KeySpec::at(2, KeyFlags::OW.or(KeyFlags::UPDATE)),
    ])
    .takes("source destination [DB destination-db] [REPLACE]")
    .docs(
        "Copies a value, with its expiry, to another key.",
        "6.2.0",
        "O(N) in the bytes",
    ),
    generic("DEL", at_least(2), Flags::WRITE, Run::Keys(del))
        .keys(&[REMOVED])
        .takes("key [key ...]")
        .docs(
            "Deletes keys and counts those that existed.",
            "1.0.0",
            PER_KEY,
        )
        .tips(MULTI_SUM),
    generic("EXISTS", at_least(2), READ, Run::Keys(exists))
        .keys(&[KeySpec::every(1, KeyFlags::RO)])
        .takes("key [key ...]")
        .docs("Counts the keys that exist.", "1.0.0", PER_KEY)
        .tips(MULTI_SUM),
    generic("KEYS", exactly(2), Flags::READONLY, Run::Keyspace(keys))
        .acl(Group::Generic, Acl::KEYSPACE.or(Acl::DANGEROUS))
        .takes("pattern")
        .docs(
            "Returns the keys that match a pattern.",
            "1.0.0",
            "O(N) in the database's keys",
        )
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    generic("MOVE", exactly(3), MOVES, Run::Keys(move_))
        .keys(&[KeySpec::at(1, RW_ACCESS.or(KeyFlags::UPDATE))])
        .takes("key db")
        .docs("Moves a key to another database.", "1.0.0", "O(1)"),
    generic("OBJECT", at_least(2), Flags::NONE, Run::Container)
        .acl(Group::Generic, Acl::NONE)
        .docs(
            "Holds the commands on a value's inner form.",
            "2.2.3",
            "Depends on the sub-command",
        )
        .subs(object::SUBS),
    generic(
        "RANDOMKEY",
        exactly(1),
        Flags::READONLY,
        Run::Keyspace(scan::randomkey),
    )
    .docs(
        "Returns a random key of the selected database.",
        "1.0.0",
        "O(1)",
    )
    .tips(&["request_policy:all_shards", "nondeterministic_output"]),
    generic("RENAME", exactly(3), Flags::WRITE, Run::Keys(rename))
        .keys(&[
            MOVED_AWAY,
            KeySpec::at(2, KeyFlags::OW.or(KeyFlags::UPDATE)),
        ])
        .takes("key newkey")
        .docs(
            "Renames a key, replacing what has the new name.",
            "1.0.0",
            "O(1)",
        ),
    generic("RENAMENX", exactly(3), MOVES, Run::Keys(renamenx))
        .keys(&[
            MOVED_AWAY,
            KeySpec::at(2, KeyFlags::OW.or(KeyFlags::INSERT)),
        ])
        .takes("key newkey")
        .docs(
            "Renames a key unless the new name is taken.",
            "1.0.0",
            "O(1)",
        ),
    generic(
        "SCAN",
        at_least(2),
        Flags::READONLY,
        Run::Keyspace(scan::scan),
    )
    .takes("cursor [MATCH pattern] [COUNT count] [TYPE type]")
    .docs(
        "Returns some keys and where to go on.",
        "2.8.0",
        "O(1) per call, O(N) for the whole database",
    )
    .tips(&["nondeterministic_output", "request_policy:special"]),
    generic(
        "SORT",
        at_least(2),
        Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS).or(Flags::BULKY),
        Run::Keys(sort::sort),
    )
    .acl(Group::Generic, SORTED)
    .keys(&[
        KeySpec::at(1, RO_ACCESS),
        BY_AND_GET,
        KeySpec::unknown(KeyFlags::OW.or(KeyFlags::UPDATE))
            .found_by(sort::store_key)
            .notes(
                "For the optional STORE keyword. It is marked 'unknown' because the keyword can \
                 appear anywhere in the argument array",
            ),
    ])
    .takes(
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] \
         [ALPHA] [STORE destination]",
    )
    .docs(
        "Sorts a list, a set or a sorted set, by itself or by other keys, and returns or stores the \
         result.",
        "1.0.0",
        SORT_COST,
    ),
    generic(
        "SORT_RO",
        at_least(2),
        Flags::READONLY.or(Flags::MOVABLE_KEYS).or(Flags::BULKY),
        Run::Keys(sort::sort_ro),
    )
    .acl(Group::Generic, SORTED)
    .keys(&[KeySpec::at(1, RO_ACCESS), BY_AND_GET])
    .takes(
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
    )
    .docs(
        "Sorts a list, a set or a sorted set, by itself or by other keys.",
        "7.0.0",
        SORT_COST,
    ),
    generic("TOUCH", at_least(2), READ, Run::Keys(touch))
        .keys(&[KeySpec::every(1, KeyFlags::RO)])
        .takes("key [key ...]")
        .docs(
            "Marks keys as just used and counts those that exist.",
            "3.2.1",
            PER_KEY,
        )
        .tips(MULTI_SUM),
    generic("TYPE", exactly(2), READ, Run::Keys(type_))
        .keys(&[KeySpec::at(1, KeyFlags::RO)])
        .takes("key")
        .docs("Returns the type of a key's value.", "1.0.0", "O(1)"),
    generic("UNLINK", at_least(2), MOVES, Run::Keys(unlink))
        .keys(&[REMOVED])
        .takes("key [key ...]")
        .docs(
            "Deletes keys and counts those that existed.",
            "4.0.0",
            PER_KEY,
        )
        .tips(MULTI_SUM),
    row("WAIT", exactly(3), Flags::NOSCRIPT, Run::Wait(wait))
        .acl(Group::Generic, Acl::CONNECTION)
        .takes("numreplicas timeout")
        .docs(
            "Waits until so many replicas have what this connection has written.",
            "3.0.0",
            "O(1)",
        )
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
    row("WAITAOF", exactly(4), Flags::BLOCKING, Run::Wait(waitaof))
        .acl(Group::Generic, Acl::CONNECTION)
        .takes("numlocal numreplicas timeout")
        .docs(
            "Waits until what this connection has written is in the files of so many servers.",
            "7.2.0",
            "O(1)",
        )
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
];

pub(super) const fn generic(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Generic, Acl::KEYSPACE)
}

/// There are no replicas, so more than none is never reached.
fn wait(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let wanted = args.int()?;
    let deadline = args.timeout_ms(cx.now_ms())?;
    let replicas = Reply::count(cx.replicas);
    if wanted <= cx.replicas as i64 {
        return Ok(replicas);
    }
    Ok(cx.wait_or(deadline, replicas))
}

/// What is on the disk here counts as one.
fn waitaof(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let local = args.int()?;
    if !(0..=1).contains(&local) {
        return Err(CmdError::NotZeroOrOne);
    }
    let wanted = args.positive()?;
    let deadline = args.timeout_ms(cx.now_ms())?;
    if local > 0 && cx.synced.is_none() {
        return Err(CmdError::NoAppendOnlyFile);
    }
    let synced = i64::from(cx.synced == Some(true));
    if (wanted > cx.replicas || local > synced) && cx.may_block {
        return Ok(cx.wait_or(deadline, Reply::Null));
    }
    cx.out.array(2);
    cx.out.int(synced);
    cx.out.int(cx.replicas as i64);
    Ok(Reply::Written)
}

fn del(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    count(args, |key| cx.delete(key))
}

/// As DEL, but what takes long to free is freed elsewhere.
fn unlink(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    count(args, |key| {
        let Some(value) = cx.remove(key, Event::Del) else {
            return false;
        };
        if is_scattered(&value) {
            cx.effects.discard(value);
        }
        true
    })
}

/// Whether a value has so many allocations that freeing them takes a while.
fn is_scattered(value: &Value) -> bool {
    let Value::Object(object) = value else {
        return false;
    };
    let compact = matches!(
        object.encoding(),
        Encoding::Listpack | Encoding::ListpackEx | Encoding::Intset
    );
    !compact && object.len() > FREED_AT_ONCE
}

fn exists(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    count(args, |key| cx.look(key, |_| ()).is_some())
}

fn touch(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    count(args, |key| cx.read(key).is_some())
}

/// How many of the keys in `args` pass.
fn count(mut args: Args<'_>, mut passes: impl FnMut(Key<'_>) -> bool) -> Result<Reply, CmdError> {
    let mut passed = 0;
    while !args.is_empty() {
        passed += usize::from(passes(args.key()?));
    }
    Ok(Reply::count(passed))
}

fn type_(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let name = cx.look(key, |entry| entry.type_name().as_str());
    Ok(Reply::Simple(name.unwrap_or("none")))
}

fn keys(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let pattern = args.next()?;
    let all = pattern == b"*";
    let (db, now) = (cx.db, cx.now_ms());
    let place = cx.out.defer_array();
    let mut found = 0;
    for index in 0..cx.walk.shard_count() {
        cx.walk.with_shard(index, &mut |shard| {
            if shard.is_empty(db) {
                return;
            }
            let mut cursor = 0;
            loop {
                // A scan that removes what has expired may meet a key twice: at this time nothing has.
                cursor = shard.scan(db, cursor, i64::MIN, &mut |key, entry| {
                    let live = entry.expires_at_ms().is_none_or(|at| now <= at);
                    if live && (all || glob::matches(pattern, key, false)) {
                        cx.out.bulk(key);
                        found += 1;
                    }
                });
                if cursor == 0 {
                    break;
                }
            }
        });
    }
    cx.out.close_array(place, found);
    Ok(Reply::Written)
}

fn rename(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    rename_to(cx, args, true)?;
    Ok(Reply::Ok)
}

fn renamenx(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    Ok(Reply::flag(rename_to(cx, args, false)?))
}

/// Renames; false when the new name is taken and may not be replaced, or is the old one.
fn rename_to(cx: &mut Cx<'_>, mut args: Args<'_>, replace: bool) -> Result<bool, CmdError> {
    let (from, to) = (args.key()?, args.key()?);
    if cx.find(from).is_none() {
        return Err(CmdError::NoSuchKey);
    }
    if from.bytes() == to.bytes() || (!replace && cx.find(to).is_some()) {
        return Ok(false);
    }
    if let Some(moved) = cx.take(from, Event::RenameFrom) {
        cx.place(cx.db, to, moved, Event::RenameTo);
    }
    Ok(true)
}

fn move_(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    if cx.limits.in_cluster() != 0 {
        return Err(CmdError::NoMoveInCluster);
    }
    let key = args.key()?;
    let target = args.database(cx.limits)?;
    if target == cx.db {
        return Err(CmdError::SameObject);
    }
    if cx.find(key).is_none() || cx.find_in(target, key).is_some() {
        return Ok(Reply::Int(0));
    }
    if let Some(moved) = cx.take(key, Event::MoveFrom) {
        cx.place(target, key, moved, Event::MoveTo);
    }
    Ok(Reply::Int(1))
}

fn copy(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let (from, to) = (args.key()?, args.key()?);
    let mut target = cx.db;
    let mut replace = false;
    while !args.is_empty() {
        if args.keyword("REPLACE") {
            replace = true;
        } else if args.keyword("DB") {
            target = args.database(cx.limits)?;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    if cx.limits.in_cluster() != 0 && target != DbIndex::ZERO {
        return Err(CmdError::NoCopyInCluster);
    }
    if target == cx.db && from.bytes() == to.bytes() {
        return Err(CmdError::SameObject);
    }
    let Some(found) = cx.read(from) else {
        return Ok(Reply::Int(0));
    };
    let copy = Moved::copy(found.entry);
    if !replace && cx.find_in(target, to).is_some() {
        return Ok(Reply::Int(0));
    }
    cx.place(target, to, copy, Event::CopyTo);
    Ok(Reply::Int(1))
}
