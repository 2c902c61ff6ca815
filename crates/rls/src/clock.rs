//! The clock on the wall, for what is told to others. Decisions have clocks of their own.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_limiter::Timestamp;

/// Now; before 1970 it is 1970.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos());
    Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}
