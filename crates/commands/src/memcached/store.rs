//! Storing values: `set`, `add`, `replace`, `append`, `prepend`, `cas`, `ms`.

use tollgate_containers::Str;
use tollgate_keyspace::{Mark, Value};
use tollgate_wire::memcached::{Mode, Style};

use super::{Asked, Expiry, Seen, expiry, put_flag, put_key, put_opaque, with_text};
use crate::{Args, CmdError, Cx, Event, Reply};

/// What became of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    Yes,
    No,
    /// Another one was stored since.
    Exists,
    NotFound,
}

impl Stored {
    fn word(self, style: Style) -> &'static [u8] {
        match (style, self) {
            (Style::Meta, Stored::Yes) => b"HD",
            (Style::Meta, Stored::No) => b"NS",
            (Style::Meta, Stored::Exists) => b"EX",
            (Style::Meta, Stored::NotFound) => b"NF",
            (_, Stored::Yes) => b"STORED",
            (_, Stored::No) => b"NOT_STORED",
            (_, Stored::Exists) => b"EXISTS",
            (_, Stored::NotFound) => b"NOT_FOUND",
        }
    }
}

pub(super) fn store(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let asked = Asked::of(args)?;
    let (stored, cas) = put(cx, &asked);
    let options = asked.options;
    if options.style != Style::Meta {
        cx.out.raw(stored.word(options.style));
        cx.out.raw(b"\r\n");
        return Ok(Reply::Written);
    }
    if options.quiet && stored == Stored::Yes {
        return Ok(Reply::Written);
    }
    cx.out.raw(stored.word(options.style));
    for (letter, token) in asked.flags.iter() {
        match letter {
            b'O' => put_opaque(cx.out, token),
            b'k' => put_key(cx.out, asked.key.bytes(), options.base64),
            b'c' => put_flag(cx.out, b'c', cas),
            _ => {}
        }
    }
    cx.out.raw(b"\r\n");
    Ok(Reply::Written)
}

/// Stores the value if it may be; also its unique number if that is wanted, else 0.
fn put(cx: &mut Cx<'_>, asked: &Asked<'_>) -> (Stored, u64) {
    let options = &asked.options;
    let item = cx.item(asked.key);
    // A key of another type is no item, but it is there.
    let exists = item.is_some() || cx.peek(asked.key).is_some();
    // The item that a late value replaces.
    let mut late_for = None;
    match (options.mode, options.compare) {
        (Mode::Append | Mode::Prepend, _) => match item {
            Some(item) => return extend(cx, asked, &item),
            None if exists || options.vivify.is_none() => return (Stored::No, 0),
            None => {}
        },
        (Mode::Add, _) if exists => return (Stored::No, 0),
        (Mode::Set | Mode::Replace, Some(wanted)) => {
            let Some(item) = item else {
                return (Stored::NotFound, 0);
            };
            if !is_state(&item.mark, wanted) {
                // A state that nobody was told of is the newest.
                let current = match item.mark.cas {
                    0 => cx.new_cas(asked.key),
                    told => told,
                };
                if !options.invalidate || wanted >= current {
                    return (Stored::Exists, 0);
                }
                late_for = Some(item);
            }
        }
        (Mode::Replace, None) if !exists => return (Stored::No, 0),
        _ => {}
    }
    let seconds = match options.mode {
        Mode::Append | Mode::Prepend => options.vivify,
        _ => options.exptime,
    };
    // A late value is as stale as the one it replaces: it lives no longer, and who was to renew that one still is.
    let to = match &late_for {
        Some(item) => item.expires_at_ms.map_or(Expiry::Never, Expiry::At),
        None => expiry(seconds.unwrap_or(0), cx.now_ms()),
    };
    if to == Expiry::Over {
        cx.remove(asked.key, Event::Del);
        let wants = wants_cas(asked);
        return (Stored::Yes, if wants { cx.new_cas(asked.key) } else { 0 });
    }
    cx.set_bytes(asked.key, asked.data, to.at(), Event::Set);
    let mark = Mark {
        flags: options.flags,
        stale: late_for.is_some(),
        claimed: late_for.is_some_and(|item| item.mark.claimed),
        ..Mark::default()
    };
    (Stored::Yes, name_state(cx, asked, mark))
}

/// Whether the state of an item is the one that this number names.
pub(super) fn is_state(mark: &Mark, number: u64) -> bool {
    mark.cas != 0 && mark.cas == number
}

fn wants_cas(asked: &Asked<'_>) -> bool {
    asked.flags.iter().any(|(letter, _)| letter == b'c')
}

/// Marks an item that was just stored, and names its state if that is wanted or the client has done so.
fn name_state(cx: &mut Cx<'_>, asked: &Asked<'_>, mut mark: Mark) -> u64 {
    mark.cas = match asked.options.explicit {
        Some(number) => number,
        None if wants_cas(asked) => cx.new_cas(asked.key),
        None => 0,
    };
    if !mark.is_none() {
        cx.set_mark(asked.key, mark);
    }
    mark.cas
}

/// Puts the data behind or before those that are there, whose flags and expiry stay.
fn extend(cx: &mut Cx<'_>, asked: &Asked<'_>, item: &Seen) -> (Stored, u64) {
    let options = &asked.options;
    if let Some(wanted) = options.compare.filter(|&wanted| wanted != 0)
        && !is_state(&item.mark, wanted)
    {
        return (Stored::Exists, 0);
    }
    let len = item.len + asked.data.len();
    if !options.fits(len, asked.key.bytes(), item.mark.flags) {
        return (Stored::No, 0);
    }
    let Some(mut entry) = cx.write(asked.key) else {
        return (Stored::No, 0);
    };
    let text = match options.mode {
        Mode::Prepend => Some(with_text(entry.value(), |old| [asked.data, old].concat())),
        _ => None,
    };
    let entry = entry.change(Event::Append);
    match text {
        Some(text) => entry.set_value(Value::Str(Str::from_slice(&text))),
        None => {
            if let Some(mut string) = entry.str_mut() {
                string.append(asked.data);
            }
        }
    }
    let mark = item.mark.changed();
    if entry.mark() != mark {
        entry.set_mark(mark);
    }
    (Stored::Yes, name_state(cx, asked, mark))
}
