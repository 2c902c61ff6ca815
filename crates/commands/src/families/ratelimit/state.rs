//! A key's limiter state, taken from its entry and put back.

use tollgate_keyspace::{Key, Object, Value, ValueRef};
use tollgate_limiter::{Decision, KindMismatch, Ledger, LimiterState, Record, Slot, SlotRequest};

use crate::{CmdError, Cx, Event};

impl From<KindMismatch> for CmdError {
    fn from(_: KindMismatch) -> CmdError {
        CmdError::OtherAlgorithm
    }
}

/// What the key holds; WRONGTYPE when that is no limiter. States that grow are copied: callers that change them in place
/// use the entry itself.
pub(super) fn load(cx: &mut Cx<'_>, key: Key<'_>) -> Result<Slot, CmdError> {
    let Some(entry) = cx.peek(key) else {
        return Ok(Slot::Small(None));
    };
    let expiry = entry.expires_at_ms();
    match entry.value() {
        ValueRef::Limiter(state) => Ok(Slot::Small(Some(record(state, expiry)))),
        ValueRef::Object(Object::Ledger(ledger)) => {
            Ok(Slot::Ledger(ledger.clone(), expiry.unwrap_or(i64::MAX)))
        }
        _ => Err(CmdError::WrongType),
    }
}

/// Puts a slot that has changed in the place of what the key held. One that says nothing removes the key.
pub(super) fn store(cx: &mut Cx<'_>, key: Key<'_>, slot: Slot) {
    let (value, expires_at_ms) = match slot {
        Slot::Small(Some(record)) => (Value::Limiter(record.state), record.expires_at_ms),
        Slot::Ledger(ledger, expires) if !ledger.is_empty() => {
            (Value::Object(Box::new(Object::Ledger(ledger))), expires)
        }
        Slot::Small(None) | Slot::Ledger(..) => {
            cx.remove(key, Event::Del);
            return;
        }
    };
    cx.set(key, value, Some(expires_at_ms), Event::RateLimit);
}

/// Decides on a copy of what the key holds, which is stored if it has changed.
pub(super) fn act_on_copy(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    request: &SlotRequest<'_>,
) -> Result<Decision, CmdError> {
    let now = cx.now;
    let mut slot = load(cx, key)?;
    let (decision, changed) = slot.act(request, now)?;
    if changed {
        store(cx, key, slot);
    }
    Ok(decision)
}

/// A small state with its entry's expiry. Without one (PERSIST took it) the present window never ends.
pub(super) fn record(state: LimiterState, expires_at_ms: Option<i64>) -> Record {
    Record {
        state,
        expires_at_ms: expires_at_ms.unwrap_or(i64::MAX),
    }
}

/// What came of a change in place: the result, and the new expiry in Unix milliseconds when there was a change.
pub(super) type InPlace<R> = (R, Option<i64>);

/// Changes a state that grows in its entry, since it may be large. `Ok(None)` when the key holds none, or one that is banned; a
/// key whose ledger is left empty goes.
pub(super) fn in_place<R>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    change: impl FnOnce(&mut Ledger) -> Result<InPlace<R>, CmdError>,
) -> Result<Option<R>, CmdError> {
    let Some(mut entry) = cx.write(key) else {
        return Ok(None);
    };
    match entry.value() {
        ValueRef::Object(Object::Ledger(ledger)) if !matches!(ledger, Ledger::Ban(_)) => {}
        _ => return Ok(None),
    }
    let (result, expiry, empty) = {
        let mut object = entry.unlogged().object_mut().ok_or(CmdError::WrongType)?;
        let Object::Ledger(ledger) = &mut *object else {
            return Err(CmdError::WrongType);
        };
        let (result, expiry) = change(ledger)?;
        (result, expiry, ledger.is_empty())
    };
    match expiry {
        Some(_) if empty => {
            cx.remove(key, Event::Del);
        }
        Some(_) => entry.change(Event::RateLimit).set_expiry(expiry),
        None => {}
    }
    Ok(Some(result))
}
