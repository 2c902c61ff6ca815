//! What reads a hash. Fields whose time has passed are not seen, whether or not they have been removed.

use tollgate_containers::Container as _;
use tollgate_containers::hash::{Field, Hash};
use tollgate_wire::resp::{Protocol, ReplyBuf};

use super::sample::{MAX_PICKS, sample};
use super::scan_elements::scan_elements;
use crate::{Args, CmdError, Cx, Reply};

pub(super) fn hget(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let seen = cx.read_as::<Hash>(args.key()?)?;
    let name = args.next()?;
    if let Some(seen) = seen
        && let Some(field) = seen.value.live(seen.now_ms).get(name)
    {
        seen.out.bulk(field.value);
        return Ok(Reply::Written);
    }
    Ok(Reply::Null)
}

pub(super) fn hmget(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let names = args.rest();
    let Some(seen) = cx.read_as::<Hash>(key)? else {
        cx.out.array(names.len());
        names.iter().for_each(|_| cx.out.null());
        return Ok(Reply::Written);
    };
    let live = seen.value.live(seen.now_ms);
    seen.out.array(names.len());
    for name in names {
        match live.get(name) {
            Some(field) => seen.out.bulk(field.value),
            None => seen.out.null(),
        }
    }
    Ok(Reply::Written)
}

pub(super) fn hexists(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let seen = cx.read_as::<Hash>(args.key()?)?;
    let name = args.next()?;
    let exists = seen.is_some_and(|seen| seen.value.live(seen.now_ms).get(name).is_some());
    Ok(Reply::flag(exists))
}

pub(super) fn hstrlen(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let seen = cx.read_as::<Hash>(args.key()?)?;
    let name = args.next()?;
    let field = seen.and_then(|seen| seen.value.live(seen.now_ms).get(name));
    Ok(Reply::count(field.map_or(0, |field| field.value.len())))
}

/// Counts fields that are expired but not yet removed, as Redis does: asking must cost nothing.
pub(super) fn hlen(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let seen = cx.read_as::<Hash>(args.key()?)?;
    Ok(Reply::count(seen.map_or(0, |seen| seen.value.len())))
}

pub(super) fn hgetall(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let Some(seen) = cx.read_as::<Hash>(args.key()?)? else {
        cx.out.map(0);
        return Ok(Reply::Written);
    };
    let live = seen.value.live(seen.now_ms);
    seen.out.map(live.len());
    for field in live.iter() {
        seen.out.bulk(field.name);
        seen.out.bulk(field.value);
    }
    Ok(Reply::Written)
}

pub(super) fn hkeys(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    write_each(cx, args, |field| field.name)
}

pub(super) fn hvals(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    write_each(cx, args, |field| field.value)
}

/// Replies with one part of every field.
fn write_each(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    part: for<'f> fn(&Field<'f>) -> &'f [u8],
) -> Result<Reply, CmdError> {
    let Some(seen) = cx.read_as::<Hash>(args.key()?)? else {
        cx.out.array(0);
        return Ok(Reply::Written);
    };
    let live = seen.value.live(seen.now_ms);
    seen.out.array(live.len());
    for field in live.iter() {
        seen.out.bulk(part(&field));
    }
    Ok(Reply::Written)
}

pub(super) fn hscan(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    scan_elements::<Hash>(cx, args, true, |hash, page| {
        let (cursor, count) = (page.cursor, page.count);
        let parts = if page.only_names { 1 } else { 2 };
        hash.live(page.now_ms).scan(cursor, count, &mut |field| {
            page.add(field.name, parts, |out| {
                out.bulk(field.name);
                if parts == 2 {
                    out.bulk(field.value);
                }
            });
        })
    })
}

/// Returns one random field, several different ones, or with a negative count as many as asked for.
pub(super) fn hrandfield(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut with_values = false;
    let count = if args.is_empty() {
        None
    } else {
        let count = args.signed_count()?;
        if !args.is_empty() {
            with_values = args.keyword("WITHVALUES");
            args.end()?;
            if count.unsigned_abs() > i64::MAX as u64 / 2 {
                return Err(CmdError::OutOfRange);
            }
        }
        Some(count)
    };
    let Some(seen) = cx.read_as::<Hash>(key)? else {
        return Ok(match count {
            None => Reply::Null,
            Some(_) => {
                cx.out.array(0);
                Reply::Written
            }
        });
    };
    let live = seen.value.live(seen.now_ms);
    let Some(count) = count else {
        return Ok(match live.random(&mut |below| seen.rng.below(below)) {
            Some(field) => {
                seen.out.bulk(field.name);
                Reply::Written
            }
            None => Reply::Null,
        });
    };
    let mut picks = Picks {
        nested: with_values && seen.out.protocol() == Protocol::Resp3,
        with_values,
        out: seen.out,
    };
    let len = live.len();
    if count < 0 {
        let count = count.unsigned_abs();
        if count > MAX_PICKS {
            return Err(CmdError::OutOfRange);
        }
        let count = if len == 0 { 0 } else { count };
        picks.begin(count as usize);
        for _ in 0..count {
            let field = live.random(&mut |below| seen.rng.below(below));
            picks.add(field.ok_or(CmdError::OutOfRange)?);
        }
    } else {
        let count = usize::try_from(count).map_or(len, |count| count.min(len));
        picks.begin(count);
        if count == len {
            live.iter().for_each(|field| picks.add(field));
        } else {
            let ordinals = sample(seen.rng, len, count);
            live.pick(&ordinals, &mut |field| picks.add(field));
        }
    }
    Ok(Reply::Written)
}

/// Fields picked at random, on their way into a reply.
struct Picks<'o> {
    out: &'o mut ReplyBuf,
    with_values: bool,
    /// Each field with its value in an array of their own.
    nested: bool,
}

impl Picks<'_> {
    fn begin(&mut self, fields: usize) {
        let flat = self.with_values && !self.nested;
        self.out.array(if flat { 2 * fields } else { fields });
    }

    fn add(&mut self, field: Field<'_>) {
        if self.nested {
            self.out.array(2);
        }
        self.out.bulk(field.name);
        if self.with_values {
            self.out.bulk(field.value);
        }
    }
}
