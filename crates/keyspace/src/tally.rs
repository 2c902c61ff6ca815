//! Who asks the limiters of one shard most.
//!
//! The first decisions are counted one by one while each key has a counter to itself; of the later ones about one in
//! sixteen is, and stands for sixteen, so that counting costs next to nothing. The gaps differ, so that no rhythm of the
//! requests hides a key.

use tollgate_limiter::top::{HeavyHitters, Hitter};

use crate::key::{DbIndex, Key};

/// Counters of all shards together, and the most and the fewest of one. The keys of a shard are a small part of all, so a
/// few of many shards tell as many keys apart as many of a few; each takes as much memory as three limiters.
const COUNTERS: usize = 4_096;
const COUNTERS_MAX: usize = 32;
const COUNTERS_MIN: usize = 4;
/// Decisions of a shard that are counted one by one, if its keys are few.
const EXACT: u64 = 1_024;
/// Of later decisions, one in so many is counted.
const ONE_IN: u64 = 16;

/// The counts of one shard.
pub(crate) struct Tally {
    counters: usize,
    /// Decisions to be passed over.
    passes: u32,
    /// State of the generator that draws the gaps.
    random: u64,
    /// From the first decision on.
    top: Option<Box<HeavyHitters>>,
}

impl Tally {
    /// Of one of so many shards.
    pub(crate) fn of_shards(count: usize) -> Tally {
        Tally {
            counters: (COUNTERS / count.max(1)).clamp(COUNTERS_MIN, COUNTERS_MAX),
            passes: 0,
            random: 0,
            top: None,
        }
    }

    /// Forgets what was counted.
    pub(crate) fn forget(&mut self) {
        self.top = None;
        (self.passes, self.random) = (0, 0);
    }

    /// Counts, or passes over, one decision.
    #[inline]
    pub(crate) fn decided(&mut self, db: DbIndex, key: Key<'_>, allowed: bool) {
        match self.passes.checked_sub(1) {
            Some(left) => self.passes = left,
            None => self.sample(db, key, allowed),
        }
    }

    #[cold]
    fn sample(&mut self, db: DbIndex, key: Key<'_>, allowed: bool) {
        let exact = self
            .top
            .as_ref()
            .is_none_or(|top| top.counted() < EXACT && top.is_exact());
        let weight = if exact { 1 } else { ONE_IN };
        if !exact {
            // Drawn by the hash of the key too, which nobody outside knows. Fifteen are passed over on average.
            self.random = self
                .random
                .wrapping_add(key.hash)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(31);
            self.passes = (self.random % (2 * ONE_IN - 1)) as u32;
        }
        match allowed {
            true => self.count(db, key, weight, 0),
            false => self.count(db, key, 0, weight),
        }
    }

    /// Counts decisions whose numbers are known.
    pub(crate) fn count(&mut self, db: DbIndex, key: Key<'_>, allowed: u64, denied: u64) {
        let top = self
            .top
            .get_or_insert_with(|| Box::new(HeavyHitters::new(self.counters)));
        top.count(db.get() as u8, key.bytes(), key.hash, allowed, denied);
    }

    /// The keys of a database that have a counter.
    pub(crate) fn hitters(&self, db: DbIndex) -> impl Iterator<Item = &Hitter> {
        let all = self.top.as_ref().map_or(&[][..], |top| top.hitters());
        all.iter()
            .filter(move |hitter| usize::from(hitter.space) == db.get())
    }

    /// Bytes held beside the shard itself.
    pub(crate) fn memory(&self) -> usize {
        self.top.as_ref().map_or(0, |top| top.memory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Seed;

    #[test]
    fn few_decisions_are_counted_exactly_and_many_nearly() {
        let seed = Seed::new(7);
        let mut tally = Tally::of_shards(1);
        let decide = |tally: &mut Tally, count: u64| {
            for number in 0..count {
                tally.decided(DbIndex::ZERO, seed.key(b"often"), number % 2 == 0);
                if number % 4 == 0 {
                    tally.decided(DbIndex::ZERO, seed.key(b"seldom"), false);
                }
            }
        };
        let counted = |tally: &Tally| -> Vec<(u64, u64)> {
            let all = tally.hitters(DbIndex::ZERO);
            all.map(|of| (of.allowed, of.denied)).collect()
        };
        decide(&mut tally, 400);
        assert_eq!(counted(&tally), [(200, 200), (0, 100)]);
        assert_eq!(tally.hitters(DbIndex::new(3).expect("below 16")).count(), 0);
        decide(&mut tally, 100_000);
        let near = |said: u64, exact: u64| said.abs_diff(exact) < exact / 8;
        let [(allowed, denied), (none, seldom)] = counted(&tally)[..] else {
            panic!("two keys");
        };
        assert!(
            near(allowed, 50_200) && near(denied, 50_200),
            "{allowed} {denied}"
        );
        assert!(none == 0 && near(seldom, 25_100), "{seldom}");
        assert!(tally.memory() < 8_192);
    }
}
