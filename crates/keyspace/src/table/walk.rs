//! Going through a table: scans, random picks, active expiry.

use super::{Found, Table};
use crate::access::Access;
use crate::bucket::CAPACITY;
use crate::directory::NONE;
use crate::key::Seed;
use crate::value::Value;

/// State of the active expiry of one table.
pub(super) struct Sweep {
    /// The bucket to look at next.
    pub(super) next: u32,
    /// No record expires before this time.
    pub(super) soonest: i64,
    /// The same for the records met since the sweep began, and those changed since.
    pub(super) met: i64,
}

impl Table {
    /// The bucket around a scan cursor ([`NONE`] if the part looked at has none), and the cursor behind it, 0 at the
    /// end; `None` without buckets.
    pub(crate) fn scan_step(&self, cursor: u64) -> Option<(u32, u64)> {
        // Parts without a bucket are passed over, but only so many in one step.
        const MAX_SKIPPED: usize = 64;
        if self.len == 0 {
            return None;
        }
        let from = self.directory.index(cursor as u32);
        let end = self.directory.len().min(from + MAX_SKIPPED);
        let at = (from..end)
            .find(|&index| self.directory.at(index) != NONE)
            .unwrap_or(end - 1);
        let after = self.directory.run(at).end.max(at + 1);
        let next = if after == self.directory.len() {
            0
        } else {
            self.directory.hash_at(after)
        };
        Some((self.directory.at(at), next))
    }

    /// Buckets outside the directory, which a scan visits with its first step.
    pub(crate) fn spilled(&self) -> &[u32] {
        &self.spilled
    }

    /// Bucket and index of a record picked by `bits`, all with the same probability; there must be one.
    pub(crate) fn random_place(&self, bits: &mut u64) -> (u32, usize) {
        const TRIES: usize = 1000;
        let pick =
            |bits: &mut u64, below: u64| ((u128::from(mix(bits)) * u128::from(below)) >> 64) as u64;
        // Buckets are not equally full: a place is picked of all places, and dropped if nothing is there.
        for _ in 0..TRIES {
            let bucket = pick(bits, self.heads.len().into()) as u32;
            let index = pick(bits, CAPACITY as u64) as usize;
            if index < self.count(bucket) {
                return (bucket, index);
            }
        }
        (pick(bits, self.heads.len().into()) as u32, 0)
    }

    /// How many records of a bucket picked by `bits` expire later than `now_ms`, and the sum of how much later, in
    /// milliseconds; what exceeds the range is the largest number.
    pub(crate) fn sample_ttls(&self, now_ms: i64, bits: u64) -> (u64, i64) {
        if self.expiring == 0 {
            return (0, 0);
        }
        let bucket = (bits % u64::from(self.heads.len())) as u32;
        let ttls = (0..self.count(bucket)).filter_map(|index| {
            let slot = self.slot(bucket, index);
            // SAFETY: records of this table are initialised.
            let tail = unsafe { slot.tail() };
            let at = self.expiry(slot, tail)?;
            (at > now_ms).then(|| at.saturating_sub(now_ms))
        });
        ttls.fold((0, 0), |(count, sum): (u64, i64), ttl| {
            (count + 1, sum.saturating_add(ttl))
        })
    }

    /// Lets what is recorded of uses follow the time, in the part `from..to` of `all` of the buckets.
    pub(crate) fn age(&mut self, from: u32, to: u32, all: u32, access: Access, now_ms: i64) {
        let place = |part: u32| {
            let buckets = u64::from(self.heads.len());
            (buckets * u64::from(part) / u64::from(all)) as u32
        };
        for bucket in place(from)..place(to) {
            for index in 0..self.count(bucket) {
                let slot = self.slot(bucket, index);
                // SAFETY: records of this table are initialised, and this one is borrowed exclusively.
                unsafe {
                    let tail = slot.tail();
                    slot.touch(tail, access.aged(tail.clock(), now_ms));
                }
            }
        }
    }

    /// Removes the records of a bucket that have expired; calls `gone` with each key before, and `free` with its value.
    pub(crate) fn expire_bucket(
        &mut self,
        seed: &Seed,
        bucket: u32,
        now_ms: i64,
        gone: &mut dyn FnMut(&[u8]),
        free: &mut dyn FnMut(Value),
    ) -> usize {
        let mut removed = 0;
        // SAFETY: a bucket has a record, and records of this table are initialised.
        let hash = unsafe { self.slot(bucket, 0).bucket_hash(seed) };
        // From the back, so that removals move only records that were looked at already.
        for index in (0..self.count(bucket)).rev() {
            let slot = self.slot(bucket, index);
            // SAFETY: records of this table are initialised.
            let tail = unsafe { slot.tail() };
            match self.expiry(slot, tail) {
                Some(at) if now_ms > at => {
                    // SAFETY: as above.
                    gone(unsafe { slot.key() });
                    let (value, _) = self.take(
                        seed,
                        Found {
                            bucket,
                            index,
                            slot,
                        },
                    );
                    free(value);
                    removed += 1;
                }
                Some(at) => self.sweep.met = self.sweep.met.min(at),
                None => {}
            }
        }
        if removed > 0 {
            self.settle(seed, bucket, hash);
        }
        removed
    }

    /// The bucket that the active expiry looks at next; `None` if nothing can have expired, or at the end of a sweep.
    pub(crate) fn next_to_sweep(&mut self, now_ms: i64) -> Option<u32> {
        if self.expiring == 0 || now_ms <= self.sweep.soonest {
            return None;
        }
        if self.sweep.next >= self.heads.len() {
            self.sweep.next = 0;
            self.sweep.soonest = self.sweep.met;
            return None;
        }
        if self.sweep.next == 0 {
            self.sweep.met = i64::MAX;
        }
        self.sweep.next += 1;
        Some(self.sweep.next - 1)
    }
}

/// The next of a sequence of random words (SplitMix64).
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
