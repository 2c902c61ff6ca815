//! What all threads share of one hot key: two counters that every decision reads and only a change of the key writes.

use super::sync::{AtomicU64, Ordering};

/// The shared part of a hot key.
///
/// Both epochs grow only while the key's shard is locked. A thread that has read an epoch may use what it was given in
/// that epoch: its decision then counts as made before the change that ends the epoch.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct HotSlot {
    /// Ends all leases when it grows.
    leases: AtomicU64,
    /// Ends all remembered denials when it grows.
    denials: AtomicU64,
    /// Units that threads were given in this epoch and have not given back, spent ones included.
    granted: AtomicU64,
}

impl HotSlot {
    pub(crate) fn new() -> HotSlot {
        HotSlot {
            leases: AtomicU64::new(0),
            denials: AtomicU64::new(0),
            granted: AtomicU64::new(0),
        }
    }

    /// The epoch of leases.
    #[inline]
    pub(crate) fn lease_epoch(&self) -> u64 {
        self.leases.load(Ordering::Acquire)
    }

    /// The epoch of denials.
    #[inline]
    pub(crate) fn denial_epoch(&self) -> u64 {
        self.denials.load(Ordering::Acquire)
    }

    /// The key's state is not what leases and denials were derived from any more. Its shard is locked.
    pub(crate) fn revoke(&self) {
        self.leases.fetch_add(1, Ordering::AcqRel);
        self.denials.fetch_add(1, Ordering::AcqRel);
        self.granted.store(0, Ordering::Relaxed);
    }

    /// Units were leased. The key's shard is locked.
    pub(crate) fn grant(&self, units: u64) {
        self.granted.fetch_add(units, Ordering::Relaxed);
    }

    /// A lease ended with `given` units at its beginning and `back` of them unspent, which the key has again: who was
    /// denied may ask again. The key's shard is locked.
    pub(crate) fn settle(&self, given: u64, back: u64) {
        let granted = self.granted.load(Ordering::Relaxed);
        self.granted
            .store(granted.saturating_sub(given), Ordering::Relaxed);
        if back > 0 {
            self.denials.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Units leased to threads and not settled: the most that may be counted as taken without having been.
    pub(crate) fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }
}
