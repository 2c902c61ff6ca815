//! Ending items: `delete`, `md`, `touch`.

use tollgate_wire::memcached::Style;

use super::store::is_state;
use super::{Asked, end_line, expiry, fetch};
use crate::{Args, CmdError, Cx, Event, Reply};

/// `delete` and `md`. What is no item is deleted all the same, but cannot be marked.
pub(super) fn delete(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let asked = Asked::of(args)?;
    let options = &asked.options;
    let item = cx.item(asked.key);
    let exists = item.is_some() || (!options.invalidate && cx.peek(asked.key).is_some());
    let mark = item.map(|item| item.mark).unwrap_or_default();
    let other = options
        .compare
        .is_some_and(|wanted| exists && !is_state(&mark, wanted));
    let word: &[u8] = match (exists, other) {
        (false, _) => b"NF",
        (true, true) => b"EX",
        (true, false) => {
            match options.invalidate {
                true => invalidate(cx, &asked),
                false => {
                    cx.remove(asked.key, Event::Del);
                }
            }
            b"HD"
        }
    };
    if options.style != Style::Meta {
        cx.out.raw(match exists {
            true => b"DELETED\r\n",
            false => b"NOT_FOUND\r\n",
        });
    } else if !options.quiet || other {
        cx.out.raw(word);
        end_line(cx.out, &asked);
    }
    Ok(Reply::Written)
}

/// Marks an item as out of date: the next one who asks is told to renew it.
fn invalidate(cx: &mut Cx<'_>, asked: &Asked<'_>) {
    let Some(item) = cx.item(asked.key) else {
        return;
    };
    let mut mark = item.mark;
    mark.stale = true;
    mark.claimed = false;
    mark.cas = match asked.options.explicit {
        Some(number) => number,
        None => cx.new_cas(asked.key),
    };
    cx.set_mark(asked.key, mark);
    if let Some(seconds) = asked.options.exptime {
        fetch::set_expiry(cx, asked, expiry(seconds, cx.now_ms()));
    }
}

pub(super) fn touch(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let asked = Asked::of(args)?;
    let found = cx.item(asked.key).is_some();
    if found {
        let seconds = asked.options.exptime.unwrap_or(0);
        fetch::set_expiry(cx, &asked, expiry(seconds, cx.now_ms()));
    }
    cx.out.raw(match found {
        true => b"TOUCHED\r\n",
        false => b"NOT_FOUND\r\n",
    });
    Ok(Reply::Written)
}
