//! Strings read together, and changed in place: what bitmaps and sketches are made of.

use std::borrow::Cow;

use smallvec::SmallVec;
use tollgate_containers::{Str, number};
use tollgate_keyspace::{Key, Value, ValueRef};

use crate::{CmdError, Cx, Event};

/// The bytes of a string value; those of an integer are written to `digits`.
pub(super) fn bytes_of<'v>(
    value: ValueRef<'v>,
    digits: &'v mut [u8; number::I64_TEXT_LEN],
) -> Result<&'v [u8], CmdError> {
    match value {
        ValueRef::Int(n) => Ok(number::write_i64(digits, n)),
        ValueRef::Bytes(bytes) => Ok(bytes),
        ValueRef::Limiter(_) | ValueRef::Object(_) => Err(CmdError::WrongType),
    }
}

/// Longest string, in bytes.
pub(super) fn longest_string(cx: &Cx<'_>) -> usize {
    usize::try_from(cx.limits.proto_max_bulk_len()).unwrap_or(usize::MAX)
}

/// A string that lies in the keyspace, or the digits of an integer there.
pub(super) type Text<'c> = Cow<'c, [u8]>;

/// The strings at several keys, in their order, to be read together. Each counts as an access, up to the first whose value
/// does not fit.
pub(super) fn read_strings<'c>(
    cx: &'c mut Cx<'_>,
    keys: &[Key<'_>],
    fits: impl Fn(ValueRef<'_>) -> bool,
) -> Result<SmallVec<[Option<Text<'c>>; 8]>, CmdError> {
    cx.peek_values(keys, fits)?
        .into_iter()
        .map(|value| value.map(text_of).transpose())
        .collect()
}

/// Whether a value is a string.
pub(super) fn is_string(value: ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Bytes(_) | ValueRef::Int(_))
}

fn text_of(value: ValueRef<'_>) -> Result<Text<'_>, CmdError> {
    match value {
        ValueRef::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
        value => {
            let mut digits = [0; number::I64_TEXT_LEN];
            bytes_of(value, &mut digits).map(|digits| Cow::Owned(digits.to_vec()))
        }
    }
}

/// What [`edit`] did.
pub(super) struct Edited<R> {
    /// For the reply.
    pub(super) result: R,
    /// Whether the change counts as one.
    pub(super) changed: bool,
}

/// Changes the string at `key` in place by `f`, which is told whether the key is new, and its string empty. A change is
/// logged as `event`; a new key always is.
pub(super) fn edit<R>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    event: Event,
    f: impl FnOnce(&mut Str, bool) -> Result<Edited<R>, CmdError>,
) -> Result<R, CmdError> {
    let Some(mut entry) = cx.write(key) else {
        let mut string = Str::new();
        let edited = f(&mut string, true)?;
        set_raw(cx, key, string, event);
        return Ok(edited.result);
    };
    let mut string = entry.unlogged().str_mut().ok_or(CmdError::WrongType)?;
    let edited = f(&mut string, false)?;
    drop(string);
    if edited.changed {
        entry.change(event);
    }
    Ok(edited.result)
}

/// Sets a string that was computed: it is no integer, and its encoding is raw.
pub(super) fn set_raw(cx: &mut Cx<'_>, key: Key<'_>, string: Str, event: Event) {
    cx.set(key, Value::Str(string), None, event);
    cx.make_raw(cx.db, key);
}
