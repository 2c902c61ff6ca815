//! Parts of strings.

use tollgate_containers::number;
use tollgate_keyspace::Value;

use super::string_edit::{bytes_of, longest_string};
use crate::{Args, CmdError, Cx, Event, Reply};

pub(super) fn strlen(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut digits = [0; number::I64_TEXT_LEN];
    match cx.read(key) {
        Some(found) => Ok(Reply::count(
            bytes_of(found.entry.value(), &mut digits)?.len(),
        )),
        None => Ok(Reply::Int(0)),
    }
}

pub(super) fn getrange(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (start, end) = (args.int()?, args.int()?);
    let mut digits = [0; number::I64_TEXT_LEN];
    let Some(found) = cx.read(key) else {
        return Ok(Reply::Bulk(""));
    };
    let bytes = bytes_of(found.entry.value(), &mut digits)?;
    found.out.bulk(slice(bytes, start, end));
    Ok(Reply::Written)
}

/// The part from `start` to `end`, both included; negative ones count from the end.
fn slice(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let len = bytes.len() as i64;
    let from_end = |at: i64| {
        if at < 0 {
            at.saturating_add(len).max(0)
        } else {
            at
        }
    };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end {
        b""
    } else {
        &bytes[start as usize..=end as usize]
    }
}

pub(super) fn append(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let tail = args.next()?;
    let longest = longest_string(cx);
    let mut digits = [0; number::I64_TEXT_LEN];
    let Some(mut entry) = cx.write(key) else {
        cx.set(key, Value::from_bytes(tail), None, Event::Append);
        return Ok(Reply::count(tail.len()));
    };
    let len = bytes_of(entry.value(), &mut digits)?.len();
    if len + tail.len() > longest {
        return Err(CmdError::StringTooLong);
    }
    let entry = entry.change(Event::Append);
    let mut string = entry.str_mut().ok_or(CmdError::WrongType)?;
    string.append(tail);
    Ok(Reply::count(len + tail.len()))
}

pub(super) fn setrange(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let offset = args.int()?;
    let bytes = args.next()?;
    let offset = usize::try_from(offset).map_err(|_| CmdError::OffsetOutOfRange)?;
    let longest = longest_string(cx);
    let mut digits = [0; number::I64_TEXT_LEN];
    let len = match cx.find(key) {
        Some(entry) => Some(bytes_of(entry.value(), &mut digits)?.len()),
        None => None,
    };
    if bytes.is_empty() {
        return Ok(Reply::count(len.unwrap_or(0)));
    }
    if offset.saturating_add(bytes.len()) > longest {
        return Err(CmdError::StringTooLong);
    }
    if len.is_none() {
        cx.set(key, Value::from_bytes(b""), None, Event::SetRange);
    }
    let Some(mut entry) = cx.write(key) else {
        unreachable!("the key exists or has just been set, at the same time");
    };
    let entry = if len.is_none() {
        entry.unlogged()
    } else {
        entry.change(Event::SetRange)
    };
    let mut string = entry.str_mut().ok_or(CmdError::WrongType)?;
    string.set_range(offset, bytes);
    Ok(Reply::count(string.len()))
}
