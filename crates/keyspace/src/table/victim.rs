//! Looking for the entry that goes when memory is short.

use super::{Found, Table};
use crate::access::Access;
use crate::object::Object;
use crate::value::ValueRef;

/// Which entries may go, and which of them goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one whose last use is longest ago, or that was used least, as uses are recorded.
    Stalest,
    /// The one that expires soonest.
    Soonest,
    /// Any.
    Random,
}

/// An entry that may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its key.
    pub key: Box<[u8]>,
    /// Compares with those of other victims of the same order: the largest goes first. An entry whose time is over has
    /// the largest of all.
    pub score: u64,
}

/// Buckets looked at in one go.
const BUCKETS_MAX: u32 = 64;

impl Table {
    /// The first to go of up to `samples` entries around a random place. State of rate limiters that is still valid
    /// never goes: without it their limit would be admitted once more.
    pub(crate) fn victim(
        &self,
        order: Order,
        volatile: bool,
        access: Access,
        samples: usize,
        mut bits: u64,
        now_ms: i64,
    ) -> Option<Victim> {
        let buckets = self.heads.len();
        if buckets == 0 || self.len == 0 || (volatile && self.expiring == 0) {
            return None;
        }
        let (start, first) = self.random_place(&mut bits);
        let mut best: Option<(u64, Found)> = None;
        let mut seen = 0;
        for step in 0..buckets.min(BUCKETS_MAX) {
            let bucket = (start + step) % buckets;
            let count = self.count(bucket);
            for place in 0..count {
                let index = (first + place) % count;
                let Some(score) = self.score(bucket, index, order, volatile, access, now_ms) else {
                    continue;
                };
                if best.as_ref().is_none_or(|(other, _)| score > *other) {
                    let slot = self.slot(bucket, index);
                    let found = Found {
                        bucket,
                        index,
                        slot,
                    };
                    best = Some((score, found));
                }
                seen += 1;
                if seen == samples.max(1) {
                    return best.map(|best| self.named(best));
                }
            }
        }
        best.map(|best| self.named(best))
    }

    fn named(&self, (score, found): (u64, Found)) -> Victim {
        Victim {
            // SAFETY: records of this table are initialised.
            key: unsafe { found.slot.key() }.into(),
            score,
        }
    }

    /// How soon an entry goes; `None` if it must stay.
    fn score(
        &self,
        bucket: u32,
        index: usize,
        order: Order,
        volatile: bool,
        access: Access,
        now_ms: i64,
    ) -> Option<u64> {
        let slot = self.slot(bucket, index);
        // SAFETY: records of this table are initialised, and the value is looked at while self is borrowed.
        let (tail, is_limiter) = unsafe {
            let limiter = matches!(
                slot.value(),
                ValueRef::Limiter(_) | ValueRef::Object(Object::Ledger(_))
            );
            (slot.tail(), limiter)
        };
        let expiry = self.expiry(slot, tail);
        if expiry.is_some_and(|at| now_ms > at) {
            return Some(u64::MAX);
        }
        if is_limiter || (volatile && expiry.is_none()) {
            return None;
        }
        Some(match order {
            Order::Stalest => access.staleness(tail.clock(), now_ms),
            Order::Soonest => {
                let left = expiry.map_or(i64::MAX, |at| at - now_ms);
                (u64::MAX >> 1).saturating_sub(left.unsigned_abs())
            }
            Order::Random => 0,
        })
    }
}
