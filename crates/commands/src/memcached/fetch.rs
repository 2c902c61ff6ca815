//! Reading items: `get`, `gets`, `gat`, `gats`, `mg`, `me`.

use tollgate_keyspace::Mark;
use tollgate_wire::memcached::Style;

use super::{
    Asked, Expiry, Seen, end_line, expiry, put_flag, put_key, put_number, put_opaque, put_ttl,
    seconds_left, seen, with_text,
};
use crate::{Args, CmdError, Cx, Event, Reply};

/// One key of `get` and its like, or `mg`.
pub(super) fn get(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let asked = Asked::of(args)?;
    match asked.options.style {
        Style::Meta => meta_get(cx, &asked),
        style => plain_get(cx, &asked, style == Style::TextCas),
    }
    Ok(Reply::Written)
}

/// What was found, looked up as a use of the item.
fn find(cx: &mut Cx<'_>, asked: &Asked<'_>) -> Option<Seen> {
    let now_ms = cx.now_ms();
    let idle_is_told = asked.flags.iter().any(|(letter, _)| letter == b'l');
    if asked.options.no_bump {
        return cx.look(asked.key, |entry| seen(entry, now_ms)).flatten();
    }
    let idle_secs = match idle_is_told {
        true => cx.item(asked.key).map_or(0, |seen| seen.idle_secs),
        false => 0,
    };
    let found = cx.read(asked.key)?;
    let seen = seen(found.entry, now_ms)?;
    Some(Seen { idle_secs, ..seen })
}

fn plain_get(cx: &mut Cx<'_>, asked: &Asked<'_>, with_cas: bool) {
    let Some(mut seen) = find(cx, asked) else {
        return;
    };
    let cas = match with_cas {
        true => Some(cx.told_cas(asked.key, &mut seen.mark)),
        false => None,
    };
    note_fetched(cx, asked, &mut seen.mark);
    cx.out.raw(b"VALUE ");
    cx.out.raw(asked.key.bytes());
    cx.out.raw(b" ");
    put_number(cx.out, u64::from(seen.mark.flags));
    cx.out.raw(b" ");
    put_number(cx.out, seen.len as u64);
    if let Some(cas) = cas {
        cx.out.raw(b" ");
        put_number(cx.out, cas);
    }
    cx.out.raw(b"\r\n");
    put_value(cx, asked);
    if let Some(seconds) = asked.options.exptime {
        set_expiry(cx, asked, expiry(seconds, cx.now_ms()));
    }
}

/// Remembers that the item was fetched, if it is one of those of which anything is remembered.
fn note_fetched(cx: &mut Cx<'_>, asked: &Asked<'_>, mark: &mut Mark) {
    if !mark.is_none() && !mark.fetched && !asked.options.no_bump {
        mark.fetched = true;
        cx.set_mark(asked.key, *mark);
    }
}

/// Writes the value and the line end behind it.
fn put_value(cx: &mut Cx<'_>, asked: &Asked<'_>) {
    let (db, now_ms) = (cx.db, cx.now_ms());
    if let Some(entry) = cx.shards.of(asked.key).peek(db, asked.key, now_ms) {
        with_text(entry.value(), |text| cx.out.raw(text));
    }
    cx.out.raw(b"\r\n");
}

/// Gives the item another expiry.
pub(super) fn set_expiry(cx: &mut Cx<'_>, asked: &Asked<'_>, to: Expiry) {
    if to == Expiry::Over {
        cx.remove(asked.key, Event::Del);
        return;
    }
    let event = match to {
        Expiry::Never => Event::Persist,
        _ => Event::Expire,
    };
    if let Some(mut entry) = cx.write(asked.key)
        && entry.expires_at_ms() != to.at()
    {
        entry.change(event).set_expiry(to.at());
    }
}

fn meta_get(cx: &mut Cx<'_>, asked: &Asked<'_>) {
    let now_ms = cx.now_ms();
    let options = asked.options;
    let found = find(cx, asked);
    let is_new = found.is_none() && options.vivify.is_some();
    if is_new && cx.peek(asked.key).is_none() {
        cx.set_bytes(asked.key, b"", None, Event::Set);
    }
    let Some(mut seen) = found.or_else(|| if is_new { cx.item(asked.key) } else { None }) else {
        if !options.quiet {
            cx.out.raw(b"EN");
            end_line(cx.out, asked);
        }
        return;
    };
    match options.value {
        true => {
            cx.out.raw(b"VA ");
            put_number(cx.out, seen.len as u64);
        }
        false => cx.out.raw(b"HD"),
    }
    let mut to = None;
    let mut wins = false;
    // In the order in which they came: a flag shows what those before it have done.
    for (letter, token) in asked.flags.iter() {
        let expires_at_ms = to.map_or(seen.expires_at_ms, Expiry::at);
        match letter {
            b'T' => to = options.exptime.map(|seconds| expiry(seconds, now_ms)),
            b'N' if is_new => {
                to = options.vivify.map(|seconds| expiry(seconds, now_ms));
                wins = true;
            }
            b'R' if !seen.mark.claimed && !is_new => {
                let limit = options.recache.map(|seconds| expiry(seconds, now_ms));
                wins |= match (expires_at_ms, limit) {
                    (Some(at), Some(Expiry::At(limit))) => at < limit,
                    _ => false,
                };
            }
            b's' => put_flag(cx.out, b's', seen.len as u64),
            b't' if to == Some(Expiry::Over) => put_flag(cx.out, b't', 0),
            b't' => put_ttl(cx.out, expires_at_ms, now_ms),
            b'c' => {
                let cas = cx.told_cas(asked.key, &mut seen.mark);
                put_flag(cx.out, b'c', cas);
            }
            b'f' => put_flag(cx.out, b'f', u64::from(seen.mark.flags)),
            b'l' => put_flag(cx.out, b'l', seen.idle_secs),
            b'h' => put_flag(cx.out, b'h', u64::from(seen.mark.fetched)),
            b'O' => put_opaque(cx.out, token),
            b'k' => put_key(cx.out, asked.key.bytes(), options.base64),
            _ => {}
        }
    }
    end_meta_get(cx, asked, seen.mark, wins);
    if options.value {
        put_value(cx, asked);
    }
    if let Some(to) = to {
        set_expiry(cx, asked, to);
    }
}

/// Says who is to renew the item, and remembers that it was said, and that it was fetched.
fn end_meta_get(cx: &mut Cx<'_>, asked: &Asked<'_>, mut mark: Mark, mut wins: bool) {
    let before = mark;
    if mark.claimed {
        cx.out.raw(b" Z");
    }
    if mark.stale {
        cx.out.raw(b" X");
        wins |= !mark.claimed;
    }
    if wins {
        cx.out.raw(b" W");
        mark.claimed = true;
    }
    cx.out.raw(b"\r\n");
    // Whether it was fetched is remembered of all items as soon as somebody asks for it.
    let is_asked = asked.flags.iter().any(|(letter, _)| letter == b'h');
    if !asked.options.no_bump && (is_asked || !mark.is_none()) {
        mark.fetched = true;
    }
    if mark != before {
        cx.set_mark(asked.key, mark);
    }
}

/// `me`: what is known of an item.
pub(super) fn describe(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let asked = Asked::of(args)?;
    let now_ms = cx.now_ms();
    let Some(mut seen) = cx.item(asked.key) else {
        cx.out.raw(b"EN\r\n");
        return Ok(Reply::Written);
    };
    let cas = cx.told_cas(asked.key, &mut seen.mark);
    cx.out.raw(b"ME ");
    match asked.options.base64 {
        false => cx.out.raw(asked.key.bytes()),
        true => {
            let mut text = Vec::new();
            tollgate_wire::memcached::encode_base64(asked.key.bytes(), &mut text);
            cx.out.raw(&text);
        }
    }
    // As memcached has it: seconds that are left, below zero; -1 is also for ever.
    let expires = match seen.expires_at_ms {
        None => "-1".to_owned(),
        Some(at) => format!("-{}", seconds_left(at, now_ms)),
    };
    let fetched = if seen.mark.fetched { "yes" } else { "no" };
    let (idle, memory) = (seen.idle_secs, seen.memory);
    let rest =
        format!(" exp={expires} la={idle} cas={cas} fetch={fetched} cls=1 size={memory}\r\n");
    cx.out.raw(rest.as_bytes());
    Ok(Reply::Written)
}
