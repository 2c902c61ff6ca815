//! Walking a database: SCAN and RANDOMKEY, and the pages of CLUSTERSCAN.
//!
//! A SCAN cursor is the keyspace's own: shard by shard, and within a shard bucket by bucket, packed
//! as `bucket cursor * shards + shard`. It names a place, not a state on the server, so any number
//! of scans may run and be left.

use std::ops::RangeInclusive;

use tollgate_containers::glob;
use tollgate_keyspace::slot_of;
use tollgate_wire::resp::ReplyBuf;

use crate::{Args, CmdError, Cx, Reply};

/// Keys a call aims at, unless told otherwise.
pub(super) const DEFAULT_COUNT: usize = 10;

/// Buckets a call looks at per key it aims at, so that a sparse table cannot make it long.
const BUCKETS_PER_KEY: usize = 10;

/// Which keys are returned.
#[derive(Default)]
pub(super) struct Filter<'a> {
    pub(super) pattern: Option<&'a [u8]>,
    pub(super) type_name: Option<&'a [u8]>,
    pub(super) slots: Option<RangeInclusive<u16>>,
}

impl Filter<'_> {
    fn passes(&self, key: &[u8], type_name: &[u8]) -> bool {
        let matches = |pattern| glob::matches(pattern, key, false);
        let is = |name: &[u8]| name.eq_ignore_ascii_case(type_name);
        self.slots
            .as_ref()
            .is_none_or(|slots| slots.contains(&slot_of(key)))
            && self.pattern.is_none_or(matches)
            && self.type_name.is_none_or(is)
    }
}

/// Keys, and where to go on.
pub(super) struct Page {
    /// 0 at the end.
    pub(super) next: u64,
    keys: Vec<u8>,
    ends: Vec<usize>,
}

impl Page {
    /// Writes the reply, with `next` as the cursor.
    pub(super) fn write(&self, next: &[u8], out: &mut ReplyBuf) -> Reply {
        out.array(2);
        out.bulk(next);
        out.array(self.ends.len());
        let mut start = 0;
        for &end in &self.ends {
            out.bulk(&self.keys[start..end]);
            start = end;
        }
        Reply::Written
    }
}

pub(super) fn scan(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let cursor = parse_cursor(args.next()?)?;
    let (mut filter, mut count) = (Filter::default(), DEFAULT_COUNT);
    while !args.is_empty() {
        if args.len() < 2 || !option(&mut args, &mut filter, &mut count)? {
            return Err(CmdError::Syntax);
        }
    }
    let page = page(cx, cursor, count, &filter);
    Ok(page.write(page.next.to_string().as_bytes(), cx.out))
}

/// Takes an option and its value; false if there is no such option.
pub(super) fn option<'a>(
    args: &mut Args<'a>,
    filter: &mut Filter<'a>,
    count: &mut usize,
) -> Result<bool, CmdError> {
    if args.keyword("COUNT") {
        let wanted = usize::try_from(args.int()?).ok();
        *count = wanted.filter(|n| *n > 0).ok_or(CmdError::Syntax)?;
    } else if args.keyword("MATCH") {
        filter.pattern = Some(args.next()?).filter(|pattern| *pattern != b"*");
    } else if args.keyword("TYPE") {
        filter.type_name = Some(args.next()?);
    } else {
        return Ok(false);
    }
    Ok(true)
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

/// Collects the keys of one page that pass the filter.
pub(super) fn page(cx: &mut Cx<'_>, cursor: u64, count: usize, filter: &Filter<'_>) -> Page {
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
                    if filter.passes(key, entry.type_name().as_str().as_bytes()) {
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
    Page { next, keys, ends }
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
