//! Some members of a sorted set: at random, and page by page.

use tollgate_containers::sorted_set::SortedSet;
use tollgate_wire::resp::ReplyBuf;

use super::sample::{MAX_PICKS, sample};
use super::scan_elements::{Page, scan_elements};
use super::zset;
use crate::{Args, CmdError, Cx, Reply};

pub(super) fn zrandmember(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    if args.is_empty() {
        let Some(seen) = cx.read_as::<SortedSet>(key)? else {
            return Ok(Reply::Null);
        };
        let number = seen.rng.below(seen.value.len());
        let Some((member, _)) = seen.value.any(number) else {
            return Ok(Reply::Null);
        };
        seen.out.bulk(member);
        return Ok(Reply::Written);
    }
    let count = args.signed_count()?;
    let with_scores = args.keyword("WITHSCORES");
    args.end()?;
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CmdError::OutOfRange);
    }
    let Some(seen) = cx.read_as::<SortedSet>(key)? else {
        cx.out.array(0);
        return Ok(Reply::Written);
    };
    let (set, out) = (seen.value, seen.out);
    match usize::try_from(count) {
        Ok(count) if count >= set.len() => zset::write_elements(out, set.iter(), with_scores),
        Ok(count) => {
            zset::write_header(out, count, with_scores);
            let numbers = sample(seen.rng, set.len(), count);
            write_numbered(out, set, numbers.into_iter(), with_scores);
        }
        Err(_) if count.unsigned_abs() > MAX_PICKS => return Err(CmdError::OutOfRange),
        Err(_) => {
            let count = count.unsigned_abs() as usize;
            zset::write_header(out, count, with_scores);
            let numbers = (0..count).map(|_| seen.rng.below(set.len()));
            write_numbered(out, set, numbers, with_scores);
        }
    }
    Ok(Reply::Written)
}

/// Writes the elements of these numbers.
fn write_numbered(
    out: &mut ReplyBuf,
    set: &SortedSet,
    numbers: impl Iterator<Item = usize>,
    with_scores: bool,
) {
    // A compact set finds an element by walking to it.
    let listed: Vec<(&[u8], f64)> = match set.is_compact() {
        true => set.iter().collect(),
        false => Vec::new(),
    };
    for number in numbers {
        let element = listed.get(number).copied().or_else(|| set.any(number));
        if let Some(element) = element {
            zset::write_element(out, element, with_scores);
        }
    }
}

/// Buckets a call looks at per element it aims at, so that a sparse index cannot make it long.
const BUCKETS_PER_ELEMENT: usize = 10;

pub(super) fn zscan(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    scan_elements(cx, args, false, |set: &SortedSet, page: &mut Page<'_>| {
        let (mut cursor, mut met) = (page.cursor, 0);
        for _ in 0..page.count.saturating_mul(BUCKETS_PER_ELEMENT) {
            cursor = set.scan(cursor, &mut |member, score| {
                met += 1;
                page.add(member, 2, |out| {
                    out.bulk(member);
                    out.bulk_double(score);
                });
            });
            if cursor == 0 || met >= page.count {
                break;
            }
        }
        cursor
    })
}
