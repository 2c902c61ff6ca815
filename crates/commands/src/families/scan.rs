//! Walking a database: SCAN and RANDOMKEY.
//!
//! A SCAN cursor is the keyspace's own: shard by shard, and within a shard bucket by bucket, packed
//! as `bucket cursor * shards + shard`. It names a place, not a state on the server, so any number
//! of scans may run and be left.

use tollgate_containers::glob;

use crate::{Args, CmdError, Cx, Reply};

/// Keys a call aims at, unless told otherwise.
const DEFAULT_COUNT: usize = 10;

/// Buckets a call looks at per key it aims at, so that a sparse table cannot make it long.
const BUCKETS_PER_KEY: usize = 10;

struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

pub(super) fn scan(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let cursor = parse_cursor(args.next()?)?;
    let mut filter = Filter {
        pattern: None,
        type_name: None,
    };
    let mut count = DEFAULT_COUNT;
    while !args.is_empty() {
        if args.len() < 2 {
            return Err(CmdError::Syntax);
        } else if args.keyword("COUNT") {
            let wanted = args.int()?;
            count = usize::try_from(wanted)
                .ok()
                .filter(|n| *n > 0)
                .ok_or(CmdError::Syntax)?;
        } else if args.keyword("MATCH") {
            filter.pattern = Some(args.next()?).filter(|pattern| *pattern != b"*");
        } else if args.keyword("TYPE") {
            filter.type_name = Some(args.next()?);
        } else {
            return Err(CmdError::Syntax);
        }
    }
    page(cx, cursor, count, &filter)
}

/// A decimal number as C's `strtoul` reads it: an empty word is 0, a sign is allowed, and a NUL ends it.
pub(super) fn parse_cursor(word: &[u8]) -> Result<u64, CmdError> {
    let text = word.split(|&byte| byte == 0).next().unwrap_or_default();
    let (negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(CmdError::InvalidCursor);
    }
    let fold = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let number = digits
        .iter()
        .try_fold(0, fold)
        .ok_or(CmdError::InvalidCursor)?;
    Ok(if negative {
        number.wrapping_neg()
    } else {
        number
    })
}

/// Writes one page: the next cursor, and the keys that pass the filter.
fn page(
    cx: &mut Cx<'_>,
    cursor: u64,
    count: usize,
    filter: &Filter<'_>,
) -> Result<Reply, CmdError> {
    let shards = cx.walk.shard_count();
    let (db, now) = (cx.db, cx.now_ms());
    let mut index = (cursor % shards as u64) as usize;
    let mut bucket = cursor / shards as u64;
    let mut seen = 0;
    let mut buckets = count.saturating_mul(BUCKETS_PER_KEY);
    let mut keys = Vec::new();
    let mut ends = Vec::new();
    while index < shards && seen < count && buckets > 0 {
        cx.walk.with_shard(index, &mut |shard| {
            if shard.is_empty(db) {
                bucket = 0;
                return;
            }
            loop {
                bucket = shard.scan(db, bucket, now, &mut |key, entry| {
                    seen += 1;
                    let type_name = entry.type_name().as_str().as_bytes();
                    if filter
                        .pattern
                        .is_none_or(|pattern| glob::matches(pattern, key, false))
                        && filter
                            .type_name
                            .is_none_or(|name| name.eq_ignore_ascii_case(type_name))
                    {
                        keys.extend_from_slice(key);
                        ends.push(keys.len());
                    }
                });
                buckets -= 1;
                if bucket == 0 || seen >= count || buckets == 0 {
                    return;
                }
            }
        });
        if bucket == 0 {
            index += 1;
        }
    }
    let next = if index == shards {
        0
    } else {
        bucket * shards as u64 + index as u64
    };
    cx.out.array(2);
    cx.out.bulk(next.to_string().as_bytes());
    cx.out.array(ends.len());
    let mut start = 0;
    for end in ends {
        cx.out.bulk(&keys[start..end]);
        start = end;
    }
    Ok(Reply::Written)
}

/// Shards tried at random before all are counted.
const RANDOM_TRIES: usize = 32;

pub(super) fn randomkey(cx: &mut Cx<'_>, _: Args<'_>) -> Result<Reply, CmdError> {
    let shards = cx.walk.shard_count();
    for _ in 0..RANDOM_TRIES {
        let index = cx.rng.below(shards);
        if write_random(cx, index) {
            return Ok(Reply::Written);
        }
    }
    // Few keys in many shards: choose among those that have any.
    let db = cx.db;
    let mut inhabited = Vec::new();
    for index in 0..shards {
        cx.walk.with_shard(index, &mut |shard| {
            if !shard.is_empty(db) {
                inhabited.push(index);
            }
        });
    }
    while !inhabited.is_empty() {
        let index = inhabited.swap_remove(cx.rng.below(inhabited.len()));
        if write_random(cx, index) {
            return Ok(Reply::Written);
        }
    }
    Ok(Reply::Null)
}

/// Replies with a random key of a shard, if it has a live one.
fn write_random(cx: &mut Cx<'_>, index: usize) -> bool {
    let (db, now, bits) = (cx.db, cx.now_ms(), cx.rng.next_u64());
    let mut written = false;
    cx.walk.with_shard(index, &mut |shard| {
        if let Some(key) = shard.random(db, bits, now) {
            cx.out.bulk(key);
            written = true;
        }
    });
    written
}
