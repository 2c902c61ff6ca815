//! XLEN, XRANGE, XREVRANGE.

use tollgate_containers::Container;
use tollgate_containers::stream::Stream;

use super::{ids, write_entries};
use crate::{Args, CmdError, Cx, Reply};

pub(super) fn xlen(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let seen = cx.read_as::<Stream>(key)?;
    Ok(Reply::count(seen.map_or(0, |seen| seen.value.len())))
}

pub(super) fn xrange(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    range(cx, args, false)
}

pub(super) fn xrevrange(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    range(cx, args, true)
}

fn range(cx: &mut Cx<'_>, mut args: Args<'_>, backwards: bool) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (first, second) = (args.next()?, args.next()?);
    let (start, end) = if backwards {
        (second, first)
    } else {
        (first, second)
    };
    let (start, end) = (ids::start(start)?, ids::end(end)?);
    let mut count = None;
    while !args.is_empty() {
        if !args.keyword("COUNT") {
            return Err(CmdError::Syntax);
        }
        count = Some(args.int()?.max(0) as usize);
    }
    let Some(seen) = cx.read_as::<Stream>(key)? else {
        cx.out.array(0);
        return Ok(Reply::Written);
    };
    if count == Some(0) {
        return Ok(Reply::NullArray);
    }
    let (log, count) = (seen.value.log(), count.unwrap_or(0));
    if backwards {
        write_entries(seen.out, log.range_back(start, end), count);
    } else {
        write_entries(seen.out, log.range(start, end), count);
    }
    Ok(Reply::Written)
}
