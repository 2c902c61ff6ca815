//! What a service remembers of keys, within a bound.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_limiter::Timestamp;

/// Parts with a lock each.
const PARTS: usize = 64;
/// Most keys of a part: 65,536 in a table. Others are decided by the store alone.
const PART_KEYS: usize = 1_024;

/// What ends by itself.
pub(super) trait Passing {
    /// Whether it says nothing any more.
    fn is_over(&self, now: Timestamp) -> bool;
}

type Part<V> = HashMap<Box<[u8]>, V>;

/// Values by key, shared by the threads of a service. At most [`PART_KEYS`] in each part; those that are over make room.
pub(super) struct Table<V> {
    /// Keys come from requests: the seed is the system's.
    seed: RandomState,
    parts: Box<[Mutex<Part<V>>]>,
}

impl<V: Passing> Table<V> {
    pub(super) fn new() -> Self {
        Self {
            seed: RandomState::new(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
        }
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, Part<V>> {
        let index = self.seed.hash_one(key) as usize % PARTS;
        lock(&self.parts[index])
    }

    /// Looks at a key's value, if there is one.
    pub(super) fn with<T>(&self, key: &[u8], look: impl FnOnce(&mut V) -> T) -> Option<T> {
        self.part(key).get_mut(key).map(look)
    }

    /// The same, of a value that is made when there is none; `None` when there is no room.
    pub(super) fn with_new<T>(
        &self,
        key: &[u8],
        now: Timestamp,
        make: impl FnOnce() -> V,
        look: impl FnOnce(&mut V) -> T,
    ) -> Option<T> {
        let mut part = self.part(key);
        if let Some(value) = part.get_mut(key) {
            return Some(look(value));
        }
        if part.len() >= PART_KEYS {
            part.retain(|_, value| !value.is_over(now));
            if part.len() >= PART_KEYS {
                return None;
            }
        }
        Some(look(part.entry(key.into()).or_insert_with(make)))
    }

    pub(super) fn remove(&self, key: &[u8]) {
        self.part(key).remove(key);
    }

    /// Looks at all, dropping those that `look` does not want kept.
    pub(super) fn retain(&self, mut look: impl FnMut(&[u8], &mut V) -> bool) {
        for part in &self.parts {
            lock(part).retain(|key, value| look(key, value));
        }
    }
}

/// A thread that panicked left whole values behind.
fn lock<V>(part: &Mutex<Part<V>>) -> MutexGuard<'_, Part<V>> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_KEYS: usize = PARTS * PART_KEYS;

    struct Until(i64);

    impl Passing for Until {
        fn is_over(&self, now: Timestamp) -> bool {
            now.secs() >= self.0
        }
    }

    #[test]
    fn a_full_table_takes_no_more_until_something_is_over() {
        let table = Table::new();
        let put = |index: usize, at, until| {
            let key = index.to_le_bytes();
            let now = Timestamp::from_secs(at);
            table.with_new(&key, now, || Until(until), |_| ()).is_some()
        };
        let kept = (0..2 * MAX_KEYS).filter(|&index| put(index, 0, 10)).count();
        assert!(kept <= MAX_KEYS, "{kept}");
        assert!(kept > MAX_KEYS / 2, "{kept}");
        assert!((0..1_000).all(|index| put(4 * MAX_KEYS + index, 10, 20)));
    }
}
