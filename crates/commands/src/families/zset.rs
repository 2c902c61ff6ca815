//! Sorted sets: their rows, and what is read of single members.

use tollgate_containers::sorted_set::{Iter, Limits, SortedSet};
use tollgate_keyspace::Seed;
use tollgate_wire::resp::{Protocol, ReplyBuf};

use super::{zset_add, zset_combine, zset_pop, zset_range, zset_sample};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{
    Acl, Args, Arity, CmdError, Cx, Family, Flags, Group, Handler, Reply, Row, Run, StoreLimits,
};

const READ: Flags = Flags::READONLY;
const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const READ_MANY: Flags = Flags::READONLY.or(Flags::MOVABLE_KEYS).or(Flags::BULKY);
const GROWS: Flags = Flags::WRITE.or(Flags::DENYOOM);
const GROWS_FAST: Flags = GROWS.or(Flags::FAST);
const GROWS_MANY: Flags = GROWS.or(Flags::MOVABLE_KEYS).or(Flags::BULKY);
const TAKES_AWAY: Flags = Flags::WRITE;
const TAKES_AWAY_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const WAITS: Flags = TAKES_AWAY_FAST.or(Flags::NOSCRIPT).or(Flags::BLOCKING);

const RO_ACCESS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
const OW_UPDATE: KeyFlags = KeyFlags::OW.or(KeyFlags::UPDATE);
const TAKEN: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE);

const READ_KEY: &[KeySpec] = &[KeySpec::at(1, RO_ACCESS)];
const CUT_KEY: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::DELETE))];
const TAKEN_KEY: &[KeySpec] = &[KeySpec::at(1, TAKEN)];
const AWAITED_KEYS: &[KeySpec] = &[KeySpec::range(1, -2, 1, TAKEN)];
const COMBINED_KEYS: &[KeySpec] =
    &[KeySpec::counted(1, RO_ACCESS).refused(zset_combine::refuse_keys)];
const STORED_KEYS: &[KeySpec] = &[
    KeySpec::at(1, OW_UPDATE),
    KeySpec::counted(2, RO_ACCESS).refused(zset_combine::refuse_sources),
];

const LOG: &str = "O(log N)";
const LOG_AND_RETURNED: &str = "O(log N + M) in the M elements returned";
const LOG_AND_REMOVED: &str = "O(M log N) in the M elements removed";
const SUM: &str = "O(N + M log M) in the N elements of the inputs and the M of the result";
const SMALLEST: &str =
    "O(N K + M log M) in the N elements of the smallest of K inputs and the M of the result";
const ALL: &str = "O(L + M log M) in the L elements of the inputs and the M of the result";

pub(super) static FAMILY: Family = Family {
    name: "Sorted sets",
    about: "Members with scores, in the order of score and member.",
    rows: ROWS,
};

const fn zset(name: &'static str, arity: Arity, flags: Flags, run: Handler) -> Row {
    row(name, arity, flags, Run::Keys(run)).acl(Group::SortedSet, Acl::SORTED_SET)
}

const fn read(name: &'static str, arity: Arity, flags: Flags, run: Handler) -> Row {
    zset(name, arity, flags, run).keys(READ_KEY)
}

const ROWS: &[Row] = &[
    zset("BZMPOP", at_least(5), TAKES_AWAY.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS), zset_pop::bzmpop)
        .keys(const { &[KeySpec::counted(2, TAKEN).refused(zset_pop::refuse_awaited_keys)] })
        .takes("timeout numkeys key [key ...] <MIN | MAX> [COUNT count]")
        .docs("Takes elements from the first sorted set that has any, and waits for one.", "7.0.0", "O(K + M log N) in K keys and the M elements taken"),
    zset("BZPOPMAX", at_least(3), WAITS, zset_pop::bzpopmax)
        .keys(AWAITED_KEYS)
        .takes("key [key ...] timeout")
        .docs("Takes the element with the highest score from the first sorted set that has any, and waits for one.", "5.0.0", LOG),
    zset("BZPOPMIN", at_least(3), WAITS, zset_pop::bzpopmin)
        .keys(AWAITED_KEYS)
        .takes("key [key ...] timeout")
        .docs("Takes the element with the lowest score from the first sorted set that has any, and waits for one.", "5.0.0", LOG),
    zset("ZADD", at_least(4), GROWS_FAST, zset_add::zadd)
        .keys(const { &[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE))] })
        .takes("key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]")
        .docs("Adds members or changes their scores.", "1.2.0", "O(log N) for each member"),
    read("ZCARD", exactly(2), READ_FAST, zcard)
        .keys(const { &[KeySpec::at(1, KeyFlags::RO)] })
        .takes("key")
        .docs("Returns the number of members.", "1.2.0", "O(1)"),
    read("ZCOUNT", exactly(4), READ_FAST, zset_range::zcount)
        .takes("key min max")
        .docs("Counts the members in a range of scores.", "2.0.0", LOG),
    zset("ZDIFF", at_least(3), READ_MANY, zset_combine::zdiff)
        .keys(COMBINED_KEYS)
        .takes("numkeys key [key ...] [WITHSCORES]")
        .docs("Returns the members of the first set that are in none of the others.", "6.2.0", ALL),
    zset("ZDIFFSTORE", at_least(4), GROWS_MANY, zset_combine::zdiffstore)
        .keys(STORED_KEYS)
        .takes("destination numkeys key [key ...]")
        .docs("Stores the members of the first set that are in none of the others.", "6.2.0", ALL),
    zset("ZINCRBY", exactly(4), GROWS_FAST, zset_add::zincrby)
        .keys(const { &[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))] })
        .takes("key increment member")
        .docs("Adds to the score of a member.", "1.2.0", LOG),
    zset("ZINTER", at_least(3), READ_MANY, zset_combine::zinter)
        .keys(COMBINED_KEYS)
        .takes("numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]")
        .docs("Returns the members that all sets have.", "6.2.0", SMALLEST),
    zset("ZINTERCARD", at_least(3), READ_MANY, zset_combine::zintercard)
        .keys(COMBINED_KEYS)
        .takes("numkeys key [key ...] [LIMIT limit]")
        .docs("Counts the members that all sets have.", "7.0.0", "O(N K) in the N elements of the smallest of K inputs"),
    zset("ZINTERSTORE", at_least(4), GROWS_MANY, zset_combine::zinterstore)
        .keys(STORED_KEYS)
        .takes("destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]")
        .docs("Stores the members that all sets have.", "2.0.0", SMALLEST),
    read("ZLEXCOUNT", exactly(4), READ_FAST, zset_range::zlexcount)
        .takes("key min max")
        .docs("Counts the members in a range of names, where all scores are equal.", "2.8.9", LOG),
    zset("ZMPOP", at_least(4), TAKES_AWAY.or(Flags::MOVABLE_KEYS), zset_pop::zmpop)
        .keys(const { &[KeySpec::counted(1, TAKEN).refused(zset_pop::refuse_keys)] })
        .takes("numkeys key [key ...] <MIN | MAX> [COUNT count]")
        .docs("Takes elements from the first sorted set that has any.", "7.0.0", "O(K + M log N) in K keys and the M elements taken"),
    read("ZMSCORE", at_least(3), READ_FAST, zmscore)
        .takes("key member [member ...]")
        .docs("Returns the scores of members.", "6.2.0", "O(N) in the members asked for"),
    zset("ZPOPMAX", at_least(2), TAKES_AWAY_FAST, zset_pop::zpopmax)
        .keys(TAKEN_KEY)
        .takes("key [count]")
        .docs("Takes the elements with the highest scores.", "5.0.0", LOG_AND_REMOVED),
    zset("ZPOPMIN", at_least(2), TAKES_AWAY_FAST, zset_pop::zpopmin)
        .keys(TAKEN_KEY)
        .takes("key [count]")
        .docs("Takes the elements with the lowest scores.", "5.0.0", LOG_AND_REMOVED),
    read("ZRANDMEMBER", at_least(2), READ, zset_sample::zrandmember)
        .takes("key [count [WITHSCORES]]")
        .docs("Returns members chosen at random.", "6.2.0", "O(N) in the members returned")
        .tips(&["nondeterministic_output"]),
    read("ZRANGE", at_least(4), READ, zset_range::zrange)
        .takes("key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]")
        .docs("Returns the elements in a range of ranks, scores or names.", "1.2.0", LOG_AND_RETURNED),
    read("ZRANGEBYLEX", at_least(4), READ, zset_range::zrangebylex)
        .takes("key min max [LIMIT offset count]")
        .docs("Returns the members in a range of names, where all scores are equal.", "2.8.9", LOG_AND_RETURNED)
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
    read("ZRANGEBYSCORE", at_least(4), READ, zset_range::zrangebyscore)
        .takes("key min max [WITHSCORES] [LIMIT offset count]")
        .docs("Returns the elements in a range of scores.", "1.0.5", LOG_AND_RETURNED)
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    zset("ZRANGESTORE", at_least(5), GROWS, zset_range::zrangestore)
        .keys(const { &[KeySpec::at(1, OW_UPDATE), KeySpec::at(2, RO_ACCESS)] })
        .takes("destination source min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]")
        .docs("Stores the elements in a range of ranks, scores or names.", "6.2.0", "O(log N + M log M) in the M elements stored"),
    read("ZRANK", at_least(3), READ_FAST, zrank)
        .takes("key member [WITHSCORE]")
        .docs("Returns the rank of a member by ascending score.", "2.0.0", LOG),
    zset("ZREM", at_least(3), TAKES_AWAY_FAST, zset_add::zrem)
        .keys(CUT_KEY)
        .takes("key member [member ...]")
        .docs("Removes members.", "1.2.0", "O(log N) for each member"),
    zset("ZREMRANGEBYLEX", exactly(4), TAKES_AWAY, zset_range::zremrangebylex)
        .keys(CUT_KEY)
        .takes("key min max")
        .docs("Removes the members in a range of names, where all scores are equal.", "2.8.9", LOG_AND_REMOVED),
    zset("ZREMRANGEBYRANK", exactly(4), TAKES_AWAY, zset_range::zremrangebyrank)
        .keys(CUT_KEY)
        .takes("key start stop")
        .docs("Removes the elements in a range of ranks.", "2.0.0", LOG_AND_REMOVED),
    zset("ZREMRANGEBYSCORE", exactly(4), TAKES_AWAY, zset_range::zremrangebyscore)
        .keys(CUT_KEY)
        .takes("key min max")
        .docs("Removes the elements in a range of scores.", "1.2.0", LOG_AND_REMOVED),
    read("ZREVRANGE", at_least(4), READ, zset_range::zrevrange)
        .takes("key start stop [WITHSCORES]")
        .docs("Returns the elements in a range of ranks by descending score.", "1.2.0", LOG_AND_RETURNED)
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument"),
    read("ZREVRANGEBYLEX", at_least(4), READ, zset_range::zrevrangebylex)
        .takes("key max min [LIMIT offset count]")
        .docs("Returns the members in a range of names, descending, where all scores are equal.", "2.8.9", LOG_AND_RETURNED)
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
    read("ZREVRANGEBYSCORE", at_least(4), READ, zset_range::zrevrangebyscore)
        .takes("key max min [WITHSCORES] [LIMIT offset count]")
        .docs("Returns the elements in a range of scores by descending score.", "2.2.0", LOG_AND_RETURNED)
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
    read("ZREVRANK", at_least(3), READ_FAST, zrevrank)
        .takes("key member [WITHSCORE]")
        .docs("Returns the rank of a member by descending score.", "2.0.0", LOG),
    read("ZSCAN", at_least(3), READ, zset_sample::zscan)
        .takes("key cursor [MATCH pattern] [COUNT count]")
        .docs("Walks a sorted set, a page at a time.", "2.8.0", "O(1) per call, O(N) for all")
        .tips(&["nondeterministic_output"]),
    read("ZSCORE", exactly(3), READ_FAST, zscore)
        .takes("key member")
        .docs("Returns the score of a member.", "1.2.0", "O(1)"),
    zset("ZUNION", at_least(3), READ_MANY, zset_combine::zunion)
        .keys(COMBINED_KEYS)
        .takes("numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]")
        .docs("Returns the members that any of the sets has.", "6.2.0", SUM),
    zset("ZUNIONSTORE", at_least(4), GROWS_MANY, zset_combine::zunionstore)
        .keys(STORED_KEYS)
        .takes("destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]")
        .docs("Stores the members that any of the sets has.", "2.0.0", SUM),
];

/// The thresholds of sorted sets, and the secret by which they hash.
#[inline]
pub(super) fn limits(limits: &StoreLimits, seed: &Seed) -> Limits {
    let threshold = |value: i64| usize::try_from(value).unwrap_or(0);
    Limits {
        entries: threshold(limits.zset_max_listpack_entries()),
        value: threshold(limits.zset_max_listpack_value()),
        secret: seed.of_collections(),
    }
}

/// Writes the header of so many elements. With scores they are pairs: flat in RESP2, nested in RESP3.
pub(super) fn write_header(out: &mut ReplyBuf, len: usize, with_scores: bool) {
    let flat = with_scores && out.protocol() == Protocol::Resp2;
    out.array(if flat { 2 * len } else { len });
}

/// Writes one element below such a header.
#[inline]
pub(super) fn write_element(out: &mut ReplyBuf, (member, score): (&[u8], f64), with_scores: bool) {
    if with_scores && out.protocol() == Protocol::Resp3 {
        out.array(2);
    }
    out.bulk(member);
    if with_scores {
        out.double(score);
    }
}

/// Writes elements with their header.
pub(super) fn write_elements(out: &mut ReplyBuf, elements: Iter<'_>, with_scores: bool) {
    write_header(out, elements.len(), with_scores);
    elements.for_each(|element| write_element(out, element, with_scores));
}

fn zcard(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let found = cx.read_as::<SortedSet>(args.key()?)?;
    Ok(Reply::count(found.map_or(0, |seen| seen.value.len())))
}

fn zscore(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let member = args.next()?;
    let Some(seen) = cx.read_as::<SortedSet>(key)? else {
        return Ok(Reply::Null);
    };
    let Some(score) = seen.value.score(member) else {
        return Ok(Reply::Null);
    };
    seen.out.double(score);
    Ok(Reply::Written)
}

fn zmscore(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let members = args.rest();
    let Some(seen) = cx.read_as::<SortedSet>(key)? else {
        cx.out.array(members.len());
        members.iter().for_each(|_| cx.out.null());
        return Ok(Reply::Written);
    };
    seen.out.array(members.len());
    for member in members {
        match seen.value.score(member) {
            Some(score) => seen.out.double(score),
            None => seen.out.null(),
        }
    }
    Ok(Reply::Written)
}

fn zrank(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    rank(cx, args, "zrank", |_, rank| rank)
}

fn zrevrank(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    rank(cx, args, "zrevrank", |len, rank| len - 1 - rank)
}

/// Replies with the rank of a member, which `count` makes of the length and the ascending rank.
fn rank(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    name: &'static str,
    count: fn(usize, usize) -> usize,
) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let member = args.next()?;
    if args.len() > 1 {
        return Err(CmdError::Arity(name));
    }
    let with_score = args.keyword("WITHSCORE");
    args.end()?;
    let nothing = if with_score {
        Reply::NullArray
    } else {
        Reply::Null
    };
    let Some(seen) = cx.read_as::<SortedSet>(key)? else {
        return Ok(nothing);
    };
    let Some((rank, score)) = seen.value.rank(member) else {
        return Ok(nothing);
    };
    let rank = count(seen.value.len(), rank);
    if !with_score {
        return Ok(Reply::count(rank));
    }
    seen.out.array(2);
    seen.out.int(rank as i64);
    seen.out.double(score);
    Ok(Reply::Written)
}
