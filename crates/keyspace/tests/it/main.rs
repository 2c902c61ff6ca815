//! The keyspace against models, through its public face.

mod expiry;
mod fields;
mod handover;
mod marks;
mod model;
mod scan;
mod values;

use tollgate_keyspace::{DbIndex, Seed, Shard};

/// A time in the range of compact expiries.
pub const NOW: i64 = 1_795_000_000_000;
/// Database 0.
pub const DB: DbIndex = DbIndex::ZERO;

/// A seed and a shard for it.
pub fn shard() -> (Seed, Shard) {
    let seed = Seed::new(0x5eed);
    let shard = Shard::new(&seed);
    (seed, shard)
}
