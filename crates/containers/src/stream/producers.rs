//! What producers have added under IDs of their own, so that a message that is sent again is not added again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::StreamId;

/// Seconds for which an ID may be remembered, and how many IDs of one producer; those of Redis 8.6.
pub const DURATION_SECS: std::ops::RangeInclusive<u64> = 1..=86_400;
/// See [`DURATION_SECS`].
pub const MOST_IDS: std::ops::RangeInclusive<u64> = 1..=10_000;

/// How often, at most, the IDs of all producers are looked through for those that are past their time, in milliseconds.
const SWEEP_MS: i64 = 1_000;
/// What a producer or one of its IDs costs beside its bytes: its share of the trees that find it.
const COST: usize = 64;

/// How long and how many IDs of a producer are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Seconds from the time in the ID of the entry on.
    pub duration_secs: u64,
    /// Most IDs of one producer.
    pub most: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            duration_secs: 100,
            most: 100,
        }
    }
}

/// The IDs of one producer.
#[derive(Clone, Debug, Default, PartialEq)]
struct Producer {
    entries: BTreeMap<Arc<[u8]>, StreamId>,
    oldest_first: VecDeque<Arc<[u8]>>,
}

impl Producer {
    /// Forgets the oldest ID; the bytes that frees.
    fn forget_oldest(&mut self) -> usize {
        let Some(oldest) = self.oldest_first.pop_front() else {
            return 0;
        };
        self.entries.remove(&oldest);
        COST + oldest.len()
    }

    /// Forgets what is past its time, up to the first that is not; the bytes that frees.
    fn forget_until(&mut self, until_ms: i64) -> usize {
        let mut freed = 0;
        while self.oldest_first.front().is_some_and(|oldest| {
            let id = self.entries.get(oldest);
            id.is_none_or(|id| is_past(*id, until_ms))
        }) {
            freed += self.forget_oldest();
        }
        freed
    }

    fn live(&self, until_ms: i64) -> usize {
        let gone = self.oldest_first.iter().take_while(|own| {
            let id = self.entries.get(*own);
            id.is_none_or(|id| is_past(*id, until_ms))
        });
        self.oldest_first.len() - gone.count()
    }
}

fn is_past(id: StreamId, until_ms: i64) -> bool {
    u64::try_from(until_ms).is_ok_and(|until_ms| id.ms <= until_ms)
}

/// What is known of an ID that is to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It was not known.
    New,
    /// It is that of the same entry.
    Same,
    /// It is that of another entry.
    Other,
}

/// The producers of a stream, and the IDs that they have given their messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Producers {
    memory: Memory,
    producers: BTreeMap<Box<[u8]>, Producer>,
    /// IDs ever recorded.
    pub added: u64,
    /// Messages that were not added, since their ID was known.
    pub duplicates: u64,
    heap: usize,
    swept_ms: i64,
}

impl Producers {
    /// No producer yet.
    pub fn new(memory: Memory) -> Producers {
        Producers {
            memory,
            ..Producers::default()
        }
    }

    /// How much is remembered.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Changes how much is remembered. What was remembered so far is forgotten, unless nothing changes; whether something does.
    pub fn remember(&mut self, memory: Memory) -> bool {
        let changes = self.memory != memory;
        if changes {
            self.memory = memory;
            self.producers.clear();
            self.heap = 0;
        }
        changes
    }

    /// The last time that is past remembering at `now_ms`.
    fn until_ms(&self, now_ms: i64) -> i64 {
        let duration_ms = i64::try_from(self.memory.duration_secs).unwrap_or(i64::MAX);
        now_ms.saturating_sub(duration_ms.saturating_mul(1_000))
    }

    /// The entry that a producer has added under an ID.
    pub fn find(&mut self, producer: &[u8], own_id: &[u8], now_ms: i64) -> Option<StreamId> {
        let until_ms = self.until_ms(now_ms);
        let found = self.producers.get_mut(producer)?;
        self.heap -= found.forget_until(until_ms);
        found.entries.get(own_id).copied()
    }

    /// Forgets an ID.
    pub fn forget(&mut self, producer: &[u8], own_id: &[u8]) {
        let Some(of) = self.producers.get_mut(producer) else {
            return;
        };
        if of.entries.remove(own_id).is_some() {
            of.oldest_first.retain(|own| **own != *own_id);
            self.heap -= COST + own_id.len();
        }
    }

    /// Remembers the ID under which a producer has added an entry.
    pub fn record(
        &mut self,
        producer: &[u8],
        own_id: &[u8],
        id: StreamId,
        now_ms: i64,
    ) -> Recorded {
        match self.find(producer, own_id, now_ms) {
            Some(known) if known == id => return Recorded::Same,
            Some(_) => return Recorded::Other,
            None => {}
        }
        if now_ms.saturating_sub(self.swept_ms) >= SWEEP_MS {
            self.sweep(now_ms);
        }
        self.insert(producer, own_id, id);
        self.added += 1;
        Recorded::New
    }

    /// Adds an ID that is not there.
    fn insert(&mut self, producer: &[u8], own_id: &[u8], id: StreamId) {
        if !self.producers.contains_key(producer) {
            self.heap += COST + producer.len();
            self.producers.insert(producer.into(), Producer::default());
        }
        let Some(of) = self.producers.get_mut(producer) else {
            return;
        };
        let own_id: Arc<[u8]> = own_id.into();
        self.heap += COST + own_id.len();
        of.entries.insert(Arc::clone(&own_id), id);
        of.oldest_first.push_back(own_id);
        if of.entries.len() as u64 > self.memory.most {
            self.heap -= of.forget_oldest();
        }
    }

    /// Forgets what is past its time, and producers of which nothing is left.
    fn sweep(&mut self, now_ms: i64) {
        self.swept_ms = now_ms;
        let until_ms = self.until_ms(now_ms);
        let heap = &mut self.heap;
        self.producers.retain(|name, producer| {
            *heap -= producer.forget_until(until_ms);
            let stays = !producer.entries.is_empty();
            if !stays {
                *heap -= COST + name.len();
            }
            stays
        });
    }

    /// How many producers, and how many IDs of theirs, are remembered at `now_ms`.
    pub fn counts(&self, now_ms: i64) -> (usize, usize) {
        let until_ms = self.until_ms(now_ms);
        let live = self.producers.values().map(|of| of.live(until_ms));
        live.filter(|live| *live > 0)
            .fold((0, 0), |(producers, ids), live| (producers + 1, ids + live))
    }

    /// Number of producers, those included whose IDs are all past their time.
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether there is no producer.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Each producer with its IDs, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Vec<(&[u8], StreamId)>)> {
        self.producers.iter().map(|(name, producer)| {
            let entries = producer.oldest_first.iter();
            let entries = entries.filter_map(|own| Some((&own[..], *producer.entries.get(own)?)));
            (&name[..], entries.collect())
        })
    }

    /// Takes a producer and its IDs from a file, the oldest first. False when something stands twice.
    pub fn restore(&mut self, producer: &[u8], entries: Vec<(Vec<u8>, StreamId)>) -> bool {
        if self.producers.contains_key(producer) {
            return false;
        }
        for (own_id, id) in entries {
            let before = self.producers.get(producer);
            if before.is_some_and(|before| before.entries.contains_key(&own_id[..])) {
                return false;
            }
            self.insert(producer, &own_id, id);
        }
        true
    }

    /// Bytes allocated.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Producers>() + self.heap
    }
}

/// The ID of a message that has none of its own, made of its fields and values (`words`) whatever their order: that of Redis 8.6.
pub fn id_of_message(words: &[&[u8]]) -> [u8; 16] {
    let (mut sum, mut xor) = ([0u64; 2], [0u64; 2]);
    let (pairs, _) = words.as_chunks::<2>();
    for [field, value] in pairs {
        let mut hash = Xxh3::new();
        hash.update(field);
        hash.update(&(field.len() as u64).to_le_bytes());
        hash.update(value);
        let hash = hash.digest128();
        for (at, half) in [hash as u64, (hash >> 64) as u64].into_iter().enumerate() {
            sum[at] = sum[at].wrapping_add(half);
            xor[at] ^= half;
        }
    }
    let low = sum[0] ^ xor[1].rotate_left(1);
    let high = sum[1] ^ xor[0].rotate_left(1);
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> StreamId {
        StreamId { ms, seq: 0 }
    }

    #[test]
    fn a_file_with_an_id_that_stands_twice_is_refused() {
        let restored = |ids: &[&[u8]]| {
            let mut producers = Producers::new(Memory {
                most: 1,
                ..Memory::default()
            });
            let entries = ids.iter().map(|own| (own.to_vec(), id(1))).collect();
            producers.restore(b"p", entries).then_some(producers)
        };
        assert!(restored(&[b"a", b"a"]).is_none());
        // What is forgotten meanwhile must not hide it.
        assert!(restored(&[b"a", b"a", b"b", b"c"]).is_none());
        let last = restored(&[b"a", b"b", b"c"]).expect("the oldest are forgotten");
        let (_, kept) = last.iter().next().expect("one producer");
        assert_eq!(kept, [(&b"c"[..], id(1))]);
    }

    #[test]
    fn ids_are_known_until_their_time_is_over() {
        let mut producers = Producers::new(Memory {
            duration_secs: 2,
            most: 10,
        });
        assert_eq!(producers.find(b"p", b"1", 1_000), None);
        assert_eq!(
            producers.record(b"p", b"1", id(1_000), 1_000),
            Recorded::New
        );
        assert_eq!(producers.find(b"p", b"1", 2_999), Some(id(1_000)));
        assert_eq!(producers.find(b"q", b"1", 2_999), None);
        assert_eq!(producers.counts(2_999), (1, 1));
        assert_eq!(producers.counts(3_000), (0, 0));
        assert_eq!(producers.find(b"p", b"1", 3_000), None);
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let mut producers = Producers::new(Memory {
            duration_secs: 100,
            most: 2,
        });
        for at in 1..=3u64 {
            producers.record(b"p", at.to_string().as_bytes(), id(at), 5);
        }
        assert_eq!(producers.find(b"p", b"1", 5), None);
        assert_eq!(producers.find(b"p", b"2", 5), Some(id(2)));
        assert_eq!(producers.record(b"p", b"2", id(2), 5), Recorded::Same);
        assert_eq!(producers.record(b"p", b"2", id(7), 5), Recorded::Other);
        assert_eq!(producers.added, 3);
        producers.forget(b"p", b"2");
        producers.forget(b"p", b"none");
        assert_eq!(producers.record(b"p", b"2", id(7), 5), Recorded::New);
        assert_eq!(producers.counts(5), (1, 2));
    }

    #[test]
    fn producers_that_are_silent_are_forgotten_and_cost_nothing() {
        let mut producers = Producers::default();
        let empty = producers.heap_bytes();
        for at in 0..1_000u64 {
            let name = at.to_string();
            producers.record(name.as_bytes(), b"1", id(1_000), 1_000);
        }
        assert_eq!(producers.len(), 1_000);
        producers.record(b"last", b"1", id(200_000), 200_000);
        assert_eq!(producers.len(), 1);
        assert_eq!(producers.heap_bytes(), empty + 2 * COST + b"last1".len());
        assert!(producers.remember(Memory {
            duration_secs: 5,
            most: 5
        }));
        assert_eq!(producers.heap_bytes(), empty);
    }

    #[test]
    fn the_id_of_a_message_does_not_depend_on_the_order_of_its_fields() {
        let id = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            id_of_message(&words)
        };
        assert_eq!(id(&["a", "1", "b", "2"]), id(&["b", "2", "a", "1"]));
        assert_ne!(id(&["a", "1", "b", "2"]), id(&["a", "2", "b", "1"]));
        assert_ne!(id(&["ab", "c"]), id(&["a", "bc"]));
        assert_ne!(id(&["a", "1"]), id(&["a", "1", "a", "1", "a", "1"]));
    }
}
