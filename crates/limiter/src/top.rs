//! Heavy hitters: the keys that ask most, in bounded memory.
//!
//! Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
//! Streams", ICDT 2005), with weights: there are so many counters, a key that has none takes over the smallest one, and
//! what that one said before is the key's error. Of `N` decisions counted with `k` counters:
//!
//! * a key with more than `N / k` of them has a counter;
//! * what a counter says of its key is at most the truth, and with the error added at least the truth;
//! * an error is at most `N / k`.

/// Bytes of a key that are kept, unless told otherwise. Longer ones are told apart, and shown cut.
pub(crate) const SHOWN_MAX: usize = 128;

/// A key, and what is known of its decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hitter {
    /// Which of several name spaces the key is of, such as the number of a database.
    pub space: u8,
    /// The first bytes of the key, as many as are kept.
    shown: Vec<u8>,
    /// Length of the whole key, bytes.
    len: usize,
    /// Decisions that passed, at least.
    pub allowed: u64,
    /// Decisions that did not, at least.
    pub denied: u64,
    /// Decisions, passed or not, by which the others may be too low together.
    pub error: u64,
}

impl Hitter {
    /// The first bytes of the key.
    pub fn shown(&self) -> &[u8] {
        &self.shown
    }

    /// The key is longer than what is shown of it.
    pub fn is_cut(&self) -> bool {
        self.len > self.shown.len()
    }

    /// Decisions, at least.
    pub fn counted(&self) -> u64 {
        self.allowed.saturating_add(self.denied)
    }

    fn is(&self, space: u8, key: &[u8]) -> bool {
        self.space == space && self.len == key.len() && key.starts_with(&self.shown)
    }
}

/// The sketch.
#[derive(Clone, Debug, Default)]
pub struct HeavyHitters {
    capacity: usize,
    /// Bytes of a key that are kept.
    shown_max: usize,
    /// Hashes of the keys, beside their counters.
    hashes: Vec<u64>,
    /// Counters with their errors: the most that each key can have had.
    most: Vec<u64>,
    hitters: Vec<Hitter>,
    counted: u64,
    /// A key has taken over the counter of another.
    crowded: bool,
}

impl HeavyHitters {
    /// An empty one with `capacity` counters, at least 1.
    pub fn new(capacity: usize) -> HeavyHitters {
        HeavyHitters::showing(capacity, SHOWN_MAX)
    }

    /// As [`HeavyHitters::new`], with so many bytes of a key kept.
    pub fn showing(capacity: usize, shown_max: usize) -> HeavyHitters {
        let capacity = capacity.max(1);
        HeavyHitters {
            capacity,
            shown_max,
            hashes: Vec::with_capacity(capacity),
            most: Vec::with_capacity(capacity),
            hitters: Vec::with_capacity(capacity),
            counted: 0,
            crowded: false,
        }
    }

    /// Whether all keys so far have had a counter to themselves, so that what is said of them is exact.
    pub fn is_exact(&self) -> bool {
        !self.crowded
    }

    /// Counts decisions on `key`, whose hash is `hash`.
    pub fn count(&mut self, space: u8, key: &[u8], hash: u64, allowed: u64, denied: u64) {
        let more = allowed.saturating_add(denied);
        if more == 0 {
            return;
        }
        self.counted = self.counted.saturating_add(more);
        let at = match self.find(space, key, hash) {
            Some(at) => at,
            None => self.take(space, key, hash),
        };
        let hitter = &mut self.hitters[at];
        hitter.allowed = hitter.allowed.saturating_add(allowed);
        hitter.denied = hitter.denied.saturating_add(denied);
        self.most[at] = self.most[at].saturating_add(more);
    }

    fn find(&self, space: u8, key: &[u8], hash: u64) -> Option<usize> {
        let same = |(at, other): (usize, &u64)| {
            (*other == hash && self.hitters[at].is(space, key)).then_some(at)
        };
        self.hashes.iter().enumerate().find_map(same)
    }

    /// A counter for a key that has none: a free one, or else the smallest.
    fn take(&mut self, space: u8, key: &[u8], hash: u64) -> usize {
        let shown = &key[..key.len().min(self.shown_max)];
        if self.hitters.len() < self.capacity {
            self.hashes.push(hash);
            self.most.push(0);
            self.hitters.push(Hitter {
                space,
                shown: shown.to_vec(),
                len: key.len(),
                allowed: 0,
                denied: 0,
                error: 0,
            });
            return self.hitters.len() - 1;
        }
        let smallest = self.most.iter().enumerate().min_by_key(|(_, most)| **most);
        let at = smallest.map_or(0, |(at, _)| at);
        self.crowded = true;
        self.hashes[at] = hash;
        let hitter = &mut self.hitters[at];
        hitter.shown.clear();
        hitter.shown.extend_from_slice(shown);
        (hitter.space, hitter.len) = (space, key.len());
        (hitter.allowed, hitter.denied, hitter.error) = (0, 0, self.most[at]);
        at
    }

    /// The keys with a counter, in no order.
    pub fn hitters(&self) -> &[Hitter] {
        &self.hitters
    }

    /// Decisions counted.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Bytes held, about.
    pub fn memory(&self) -> usize {
        let each = size_of::<Hitter>() + 2 * size_of::<u64>();
        let keys: usize = self.hitters.iter().map(|of| of.shown.capacity()).sum();
        self.capacity * each + keys
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> Vec<u8> {
        // Some are longer than what is kept, and differ only behind it.
        match number % 3 {
            0 => [&[b'x'; SHOWN_MAX][..], &[number]].concat(),
            _ => vec![b'k', number],
        }
    }

    /// Few different hashes, so that keys must be told apart by themselves, but for those that are cut.
    fn hash(number: u8, bits: u32) -> u64 {
        match number % 3 {
            0 => u64::from(number) << 32,
            _ => u64::from(number) & ((1 << bits) - 1),
        }
    }

    proptest! {
        #[test]
        fn what_is_said_is_true_and_who_asks_much_is_found(
            capacity in 1usize..12,
            hash_bits in 0u32..8,
            asked in prop::collection::vec((0u8..40, 0u64..5, 0u64..5), 0..400),
        ) {
            let mut sketch = HeavyHitters::new(capacity);
            let mut truth: HashMap<u8, (u64, u64)> = HashMap::new();
            for (number, allowed, denied) in asked {
                let number = if number < 20 { number % 4 } else { number };
                sketch.count(0, &key(number), hash(number, hash_bits), allowed, denied);
                let exact = truth.entry(number).or_default();
                *exact = (exact.0 + allowed, exact.1 + denied);
            }
            let all: u64 = truth.values().map(|(allowed, denied)| allowed + denied).sum();
            prop_assert_eq!(sketch.counted(), all);
            prop_assert!(sketch.hitters().len() <= capacity);
            let bound = all / capacity as u64;
            let mut found = Vec::new();
            for number in truth.keys().copied() {
                let (allowed, denied) = truth[&number];
                let Some(at) = sketch.find(0, &key(number), hash(number, hash_bits)) else {
                    prop_assert!(allowed + denied <= bound, "{number} has no counter");
                    continue;
                };
                let said = &sketch.hitters()[at];
                found.push(number);
                prop_assert!(said.allowed <= allowed && said.denied <= denied);
                prop_assert!(said.counted() + said.error >= allowed + denied);
                prop_assert!(said.error <= bound);
                prop_assert_eq!(said.is_cut(), number % 3 == 0);
            }
            prop_assert!(found.len() <= capacity);
        }
    }

    #[test]
    fn a_flood_of_keys_does_not_hide_who_asks_most() {
        let mut sketch = HeavyHitters::new(32);
        for number in 0..100_000u64 {
            sketch.count(0, &number.to_le_bytes(), number, 1, 0);
            if number % 10 == 0 {
                sketch.count(0, b"hot", u64::MAX, 0, 1);
            }
        }
        let most = sketch.hitters().iter().max_by_key(|of| of.counted());
        let most = most.expect("something was counted");
        assert_eq!(most.shown(), b"hot");
        assert_eq!((most.allowed, most.is_cut()), (0, false));
        assert!(most.denied <= 10_000 && most.denied + most.error >= 10_000);
        assert!(sketch.memory() < 32 * 256);
    }

    #[test]
    fn equal_keys_of_different_spaces_are_two() {
        let mut sketch = HeavyHitters::new(4);
        sketch.count(0, b"k", 1, 1, 0);
        sketch.count(1, b"k", 1, 0, 2);
        let said: Vec<_> = sketch
            .hitters()
            .iter()
            .map(|of| (of.space, of.counted()))
            .collect();
        assert_eq!(said, [(0, 1), (1, 2)]);
        assert!(sketch.is_exact());
        (2..5).for_each(|space| sketch.count(space, b"k", 1, 1, 0));
        assert!(!sketch.is_exact());
    }
}
