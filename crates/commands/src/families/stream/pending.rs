//! XPENDING.

use tollgate_containers::number;
use tollgate_containers::stream::{Group, Stream, StreamId};
use tollgate_wire::resp::ReplyBuf;

use super::{ids, write_id};
use crate::{Args, CmdError, Cx, Reply};

/// Which pending entries are asked for.
struct Filter<'a> {
    start: StreamId,
    end: StreamId,
    count: usize,
    /// Milliseconds since the last delivery, at least; 0 = any.
    idle: i64,
    consumer: Option<&'a [u8]>,
}

pub(super) fn xpending(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let words = args.all().len();
    let key = args.key()?;
    let name = args.next()?;
    if words != 3 && !(6..=9).contains(&words) {
        return Err(CmdError::Syntax);
    }
    let filter = match words {
        3 => None,
        _ => Some(filter(&args)?),
    };
    let Some(seen) = cx.read_as::<Stream>(key)? else {
        return Err(ids::no_group(key.bytes(), name, ""));
    };
    let group = seen.value.groups().get(name);
    let group = group.ok_or_else(|| ids::no_group(key.bytes(), name, ""))?;
    match filter {
        None => summary(group, seen.out),
        Some(filter) => list(group, &filter, seen.now_ms, seen.out),
    }
    Ok(Reply::Written)
}

/// Reads `[IDLE min-idle-time] start end count [consumer]`; the count is looked at first.
fn filter<'a>(args: &Args<'a>) -> Result<Filter<'a>, CmdError> {
    let mut args = args.clone();
    let mut idle = 0;
    if args.keyword("IDLE") {
        idle = args.int()?;
        if args.len() < 3 {
            return Err(CmdError::Syntax);
        }
    }
    let &[start, end, count, ..] = args.rest() else {
        return Err(CmdError::Syntax);
    };
    let consumer = args.rest().get(3).copied();
    let count = number::parse_i64(count).ok_or(CmdError::NotAnInteger)?;
    Ok(Filter {
        start: ids::start(start)?,
        end: ids::end(end)?,
        count: count.max(0) as usize,
        idle,
        consumer,
    })
}

fn summary(group: &Group, out: &mut ReplyBuf) {
    out.array(4);
    out.int(group.pending_len() as i64);
    let Some((first, last)) = group.pending_bounds() else {
        out.null();
        out.null();
        out.null_array();
        return;
    };
    write_id(out, first);
    write_id(out, last);
    let place = out.defer_array();
    let mut count = 0;
    for consumer in group
        .consumers()
        .filter(|consumer| consumer.pending_len() > 0)
    {
        out.array(2);
        out.bulk(consumer.name());
        out.bulk_int(consumer.pending_len() as i64);
        count += 1;
    }
    out.close_array(place, count);
}

fn list(group: &Group, filter: &Filter<'_>, now_ms: i64, out: &mut ReplyBuf) {
    let own = match filter.consumer.map(|name| group.find(name)) {
        Some(None) => return out.array(0),
        Some(Some(index)) => group.consumer(index),
        None => None,
    };
    let pending: Box<dyn Iterator<Item = StreamId>> = match own {
        Some(consumer) => Box::new(consumer.pending_from(filter.start)),
        None => Box::new(group.pending_from(filter.start).map(|(id, _)| *id)),
    };
    let place = out.defer_array();
    let mut written = 0;
    for id in pending.take_while(|id| *id <= filter.end) {
        if written == filter.count {
            break;
        }
        let Some(delivery) = group.pending(id) else {
            continue;
        };
        let idle = now_ms.saturating_sub(delivery.delivered_ms);
        if filter.idle != 0 && idle < filter.idle {
            continue;
        }
        out.array(4);
        write_id(out, id);
        out.bulk(group.name_of(delivery.consumer));
        out.int(idle.max(0));
        out.int(delivery.count as i64);
        written += 1;
    }
    out.close_array(place, written);
}
