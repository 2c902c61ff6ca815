//! Numbers: `incr`, `decr`, `ma`.

use tollgate_keyspace::Mark;
use tollgate_wire::memcached::{Digits, Style, digits, parse_u64};

use super::store::is_state;
use super::{
    Asked, Expiry, Seen, end_line, expiry, fetch, put_flag, put_key, put_number, put_opaque,
    put_ttl, with_text,
};
use crate::{Args, CmdError, Cx, Event, Reply};

const NOT_A_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

pub(super) fn add(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let asked = Asked::of(args)?;
    let options = &asked.options;
    let is_meta = options.style == Style::Meta;
    let item = cx.item(asked.key);
    let exists = item.is_some() || cx.peek(asked.key).is_some();
    let number = match item {
        Some(item) => {
            let other = |wanted: &u64| *wanted != 0 && !is_state(&item.mark, *wanted);
            // As in memcached, that an empty value is no number is seen first.
            if item.len > 0 && options.compare.as_ref().is_some_and(other) {
                cx.out.raw(b"EX");
                end_line(cx.out, &asked);
                return Ok(Reply::Written);
            }
            let Some(number) = change(cx, &asked, &item) else {
                cx.out.raw(NOT_A_NUMBER);
                return Ok(Reply::Written);
            };
            if is_meta && options.quiet {
                apply_ttl(cx, &asked);
                return Ok(Reply::Written);
            }
            number
        }
        None if is_meta && options.vivify.is_some() && !exists => {
            let text = &mut Digits::default();
            let text = digits(options.initial, text);
            cx.set_bytes(asked.key, text, None, Event::Set);
            options.initial
        }
        None if is_meta => {
            cx.out.raw(b"NF");
            end_line(cx.out, &asked);
            return Ok(Reply::Written);
        }
        None => {
            cx.out.raw(b"NOT_FOUND\r\n");
            return Ok(Reply::Written);
        }
    };
    match is_meta {
        true => answer(cx, &asked, number, item.is_none()),
        false => {
            put_number(cx.out, number);
            cx.out.raw(b"\r\n");
        }
    }
    Ok(Reply::Written)
}

/// The new number, stored in place of the old one; `None` when that is none. A number that has become shorter is filled up with
/// blanks, as memcached does it.
fn change(cx: &mut Cx<'_>, asked: &Asked<'_>, item: &Seen) -> Option<u64> {
    let options = &asked.options;
    let mut entry = cx.write(asked.key)?;
    let old = with_text(entry.value(), parse_u64)?;
    let number = match options.decrement {
        true => old.saturating_sub(options.delta),
        false => old.wrapping_add(options.delta),
    };
    let mut text = digits(number, &mut Digits::default()).to_vec();
    text.resize(text.len().max(item.len), b' ');
    // As in memcached, a number that needs more room is a new item.
    let mark = match text.len() > item.len {
        true => item.mark.changed(),
        false => item.mark,
    };
    let mark = Mark {
        cas: options.explicit.unwrap_or(0),
        ..mark
    };
    let entry = entry.change(Event::IncrBy);
    entry.set_bytes(&text);
    if !mark.is_none() {
        entry.set_mark(mark);
    }
    Some(number)
}

/// Does what the flags T say and answers nothing.
fn apply_ttl(cx: &mut Cx<'_>, asked: &Asked<'_>) {
    if let Some(seconds) = asked.options.exptime {
        fetch::set_expiry(cx, asked, expiry(seconds, cx.now_ms()));
    }
}

fn answer(cx: &mut Cx<'_>, asked: &Asked<'_>, number: u64, is_new: bool) {
    let now_ms = cx.now_ms();
    let options = &asked.options;
    let Some(mut seen) = cx.item(asked.key) else {
        return;
    };
    let mut room = Digits::default();
    let text = digits(number, &mut room);
    match options.value {
        true => {
            cx.out.raw(b"VA ");
            put_number(cx.out, text.len() as u64);
        }
        false => cx.out.raw(b"HD"),
    }
    let mut to = None;
    for (letter, token) in asked.flags.iter() {
        match letter {
            b'c' => {
                let cas = cx.told_cas(asked.key, &mut seen.mark);
                put_flag(cx.out, b'c', cas);
            }
            b't' => put_ttl(cx.out, to.map_or(seen.expires_at_ms, Expiry::at), now_ms),
            b'T' => to = options.exptime.map(|seconds| expiry(seconds, now_ms)),
            b'N' if is_new => to = options.vivify.map(|seconds| expiry(seconds, now_ms)),
            b'O' => put_opaque(cx.out, token),
            b'k' => put_key(cx.out, asked.key.bytes(), options.base64),
            _ => {}
        }
    }
    cx.out.raw(b"\r\n");
    if options.value {
        cx.out.raw(text);
        cx.out.raw(b"\r\n");
    }
    if let Some(to) = to {
        fetch::set_expiry(cx, asked, to);
    }
}
