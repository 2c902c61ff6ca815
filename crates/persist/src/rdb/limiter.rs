//! Rate limiters in RDB files: Redis has no counterpart, so each is an auxiliary field, which Redis passes over.

use tollgate_keyspace::{DbIndex, Object, Value, ValueRef};
use tollgate_limiter::codec::{self, Stored};

/// Name of the auxiliary field that holds a rate limiter: one byte database, eight bytes expiry in Unix milliseconds
/// ([`i64::MAX`] = none), four bytes length of the key (little endian), the key, then the state as
/// [`codec`] writes it.
pub const LIMITER_FIELD: &[u8] = b"tollgate-limiter";

/// Name of the auxiliary field that holds the flags which a Memcached client has given the string behind it, in decimal digits.
pub const FLAGS_FIELD: &[u8] = b"tollgate-flags";

/// What such a field says; 0 when it is malformed.
pub(super) fn read_flags(field: &[u8]) -> u32 {
    let text = std::str::from_utf8(field).unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// Bytes before the key.
const HEAD: usize = 1 + 8 + 4;

/// The field of a rate limiter; `None` for other values.
pub(super) fn field(
    db: DbIndex,
    key: &[u8],
    value: ValueRef<'_>,
    expires_at_ms: Option<i64>,
) -> Option<Vec<u8>> {
    let mut field = Vec::with_capacity(HEAD + key.len() + 17);
    field.push(db.get() as u8);
    field.extend_from_slice(&expires_at_ms.unwrap_or(i64::MAX).to_le_bytes());
    field.extend_from_slice(&(key.len() as u32).to_le_bytes());
    field.extend_from_slice(key);
    write_state(value, &mut field).then_some(field)
}

/// Adds the state of a rate limiter; false for other values.
pub(super) fn write_state(value: ValueRef<'_>, out: &mut Vec<u8>) -> bool {
    match value {
        ValueRef::Limiter(state) => codec::write_state(state, out),
        ValueRef::Object(Object::Ledger(ledger)) => codec::write_ledger(ledger, out),
        _ => return false,
    }
    true
}

/// What [`write_state`] wrote; `None` when it is malformed.
pub(super) fn read_state(state: &[u8]) -> Option<Value> {
    Some(match codec::read(state)? {
        Stored::State(state) => Value::Limiter(state),
        Stored::Ledger(ledger) => Value::Object(Box::new(Object::Ledger(ledger))),
    })
}

/// What a field says: database, key, value, expiry. `None` when it is malformed.
pub(super) fn read(field: &[u8]) -> Option<(DbIndex, &[u8], Value, Option<i64>)> {
    let (&db, rest) = field.split_first()?;
    let (expiry, rest) = rest.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (key, state) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let value = read_state(state)?;
    let expires_at_ms = Some(i64::from_le_bytes(*expiry)).filter(|&at| at != i64::MAX);
    Some((DbIndex::new(usize::from(db))?, key, value, expires_at_ms))
}
