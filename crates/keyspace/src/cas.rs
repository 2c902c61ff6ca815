//! Numbers that name states of values.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers of [`CasNumbers`] in one millisecond, as a power of two; if more are given they run ahead of time.
const CAS_BITS: u32 = 12;

/// Numbers that name states of values, none of which is given twice.
#[derive(Debug, Clone, Default)]
pub struct CasNumbers(Arc<AtomicU64>);

impl CasNumbers {
    /// A number that is larger than all before, also than those before a restart, and below 2^53 for as long as milliseconds
    /// since the Unix epoch are below 2^41, so that a double holds it exactly.
    pub fn next(&self, now_ms: i64) -> u64 {
        let by_time = (now_ms.max(0) as u64) << CAS_BITS;
        let next = |last: u64| by_time.max(last + 1);
        // Only the number itself passes between threads: what it names is guarded by the lock of its shard.
        let last = self
            .0
            .fetch_update(Relaxed, Relaxed, |last| Some(next(last)));
        next(last.unwrap_or_else(|last| last))
    }
}
