//! Numbers that nobody outside can foresee.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives them out, differently in each process.
pub(crate) struct Draws(AtomicU64);

impl Draws {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(0)))
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.any() % end
    }

    /// The name of a request that a store shall obey once, though the client library may send it again: that of a cluster
    /// does so when a connection is lost after the node has heard.
    pub(super) fn once(&self) -> String {
        format!(":once:{:016x}{:016x}", self.any(), self.any())
    }

    /// Any number (splitmix64).
    pub(crate) fn any(&self) -> u64 {
        let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
