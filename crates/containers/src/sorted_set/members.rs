//! Members and their scores, found by member.
//!
//! Elements lie densely in a slab (so a random one is an index away) and are chained by hash into buckets. The buckets
//! grow and shrink one at a time (linear hashing): no insertion rehashes the collection.
//!
//! A scan walks hashes in the order of their reversed bits. There a bucket is an interval, whatever the number of
//! buckets is at that moment, so a cursor is a position that stays valid while buckets split and merge, and every element
//! that stays is met exactly once.

use std::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

use super::segments::Segments;
use crate::Str;

/// End of a chain.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Element {
    score: f64,
    member: Str,
    hash: u32,
    /// The next element of the bucket.
    next: u32,
}

/// Scores by member; elements have numbers from 0 to `len - 1`, which removals change.
///
/// On its own it collects what several sorted sets add up to; see [`super::SortedSet::from_scores`].
#[derive(Clone, Debug)]
pub struct Scores {
    elements: Segments<Element>,
    /// First element of each bucket.
    heads: Segments<u32>,
    secret: u64,
    text_bytes: usize,
}

impl Scores {
    /// No members; `secret` is what clients must not know, lest they choose members that collide.
    pub fn new(secret: u64) -> Scores {
        let mut heads = Segments::new();
        heads.push(NONE);
        Scores {
            elements: Segments::new(),
            heads,
            secret,
            text_bytes: 0,
        }
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.elements.heap_bytes() + self.heads.heap_bytes() + self.text_bytes
    }

    #[inline]
    fn hash(&self, member: &[u8]) -> u32 {
        let mut hasher = FoldHasher::with_seed(self.secret, SharedSeed::global_fixed());
        hasher.write(member);
        (hasher.finish() >> 32) as u32
    }

    /// The bucket of a hash among `buckets`: by one bit more where the bucket of fewer bits is split already.
    #[inline]
    fn bucket(hash: u32, buckets: usize) -> usize {
        let mask = buckets.next_power_of_two() - 1;
        let bucket = hash as usize & mask;
        if bucket < buckets {
            bucket
        } else {
            bucket & (mask >> 1)
        }
    }

    /// The number of `member`.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<u32> {
        let hash = self.hash(member);
        let mut id = *self.heads.get(Self::bucket(hash, self.heads.len()));
        while id != NONE {
            let element = self.elements.get(id as usize);
            if element.hash == hash && element.member.as_slice() == member {
                return Some(id);
            }
            id = element.next;
        }
        None
    }

    /// The score of `member`.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.find(member).map(|id| self.score_of(id))
    }

    /// The score of element `id`.
    #[inline]
    pub fn score_of(&self, id: u32) -> f64 {
        self.elements.get(id as usize).score
    }

    /// Changes the score of element `id`.
    #[inline]
    pub fn set_score(&mut self, id: u32, score: f64) {
        self.elements.get_mut(id as usize).score = score;
    }

    /// The bytes of element `id`.
    #[inline]
    pub fn member(&self, id: u32) -> &[u8] {
        self.elements.get(id as usize).member.as_slice()
    }

    /// Adds a member that is not there; returns its number, which is the highest.
    ///
    /// # Panics
    /// When there are 2^32 - 1 members already.
    pub fn push(&mut self, member: &[u8], score: f64) -> u32 {
        let hash = self.hash(member);
        let id = self.elements.len() as u32;
        assert!(id < NONE, "a sorted set has fewer than 2^32 - 1 members");
        let member = Str::from_slice(member);
        self.text_bytes += member.heap_bytes();
        let head = self.heads.get_mut(Self::bucket(hash, self.heads.len()));
        let next = std::mem::replace(head, id);
        self.elements.push(Element {
            score,
            member,
            hash,
            next,
        });
        if self.elements.len() > self.heads.len() {
            self.split();
        }
        id
    }

    /// Removes element `id`; the last element takes its number. Returns its member.
    pub fn swap_remove(&mut self, id: u32) -> Option<Str> {
        let last = (self.elements.len() as u32).checked_sub(1)?;
        let next = self.elements.get(id as usize).next;
        *self.link_to(id) = next;
        if id != last {
            *self.link_to(last) = id;
        }
        let removed = self.elements.swap_remove(id as usize)?;
        self.text_bytes -= removed.member.heap_bytes();
        // Two at most each time keep up with the removals.
        for _ in 0..2 {
            if self.heads.len() > 1 && self.elements.len() < self.heads.len() / 2 {
                self.merge();
            }
        }
        Some(removed.member)
    }

    /// What points to element `id`: the head of its bucket or the element before.
    fn link_to(&mut self, id: u32) -> &mut u32 {
        let bucket = Self::bucket(self.elements.get(id as usize).hash, self.heads.len());
        let first = *self.heads.get(bucket);
        if first == id {
            return self.heads.get_mut(bucket);
        }
        let mut before = first;
        loop {
            let next = self.elements.get(before as usize).next;
            if next == id {
                return &mut self.elements.get_mut(before as usize).next;
            }
            before = next;
        }
    }

    /// Adds a bucket and moves to it what belongs there from the one bucket that held it.
    fn split(&mut self) {
        let added = self.heads.len();
        let buddy = added - (1 << added.ilog2());
        let mut id = std::mem::replace(self.heads.get_mut(buddy), NONE);
        self.heads.push(NONE);
        while id != NONE {
            let element = self.elements.get_mut(id as usize);
            let head = self.heads.get_mut(Self::bucket(element.hash, added + 1));
            let next = std::mem::replace(&mut element.next, *head);
            *head = id;
            id = next;
        }
    }

    /// Takes the last bucket away and joins its elements to the bucket that they came from.
    fn merge(&mut self) {
        let Some(mut id) = self.heads.pop() else {
            return;
        };
        let gone = self.heads.len();
        let buddy = gone - (1 << gone.ilog2());
        while id != NONE {
            let head = self.heads.get_mut(buddy);
            let element = self.elements.get_mut(id as usize);
            let next = std::mem::replace(&mut element.next, *head);
            *head = id;
            id = next;
        }
    }

    /// The numbers of all elements, in the order of (score, member).
    pub fn in_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| {
            let scored = self.score_of(a).partial_cmp(&self.score_of(b));
            scored
                .unwrap_or(std::cmp::Ordering::Equal)
                .then_with(|| self.member(a).cmp(self.member(b)))
        });
        order
    }

    /// Shows the elements of one bucket from `cursor` on to `see`, and returns the cursor behind them; 0 at the end.
    pub fn scan<'a>(&'a self, cursor: u64, see: &mut dyn FnMut(&'a [u8], f64)) -> u64 {
        let Ok(position) = u32::try_from(cursor) else {
            return 0;
        };
        let buckets = self.heads.len();
        let bucket = Self::bucket(position.reverse_bits(), buckets);
        let mut id = *self.heads.get(bucket);
        while id != NONE {
            let element = self.elements.get(id as usize);
            if element.hash.reverse_bits() >= position {
                see(element.member.as_slice(), element.score);
            }
            id = element.next;
        }
        let whole = 1 << buckets.ilog2();
        let is_split = bucket >= whole || bucket < buckets - whole;
        let bits = buckets.ilog2() + u32::from(is_split);
        let start = u64::from((bucket as u32).reverse_bits());
        match start + (1_u64 << (32 - bits)) {
            next if next > u64::from(u32::MAX) => 0,
            next => next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(i: u32) -> Vec<u8> {
        format!("member:{i}").into_bytes()
    }

    #[test]
    fn members_are_found_while_buckets_come_and_go() {
        let mut scores = Scores::new(7);
        for i in 0..3000 {
            assert_eq!(scores.push(&name(i), f64::from(i)), i);
        }
        assert_eq!(scores.heads.len(), 3000);
        for i in (0..3000).step_by(3).chain((1..3000).step_by(3)) {
            let id = scores.find(&name(i)).expect("it was added");
            assert!(scores.swap_remove(id).is_some());
        }
        assert_eq!(scores.len(), 1000);
        assert!(scores.heads.len() <= 2002);
        for i in 0..3000 {
            let expected = (i % 3 == 2).then_some(f64::from(i));
            assert_eq!(scores.score(&name(i)), expected);
        }
        while !scores.is_empty() {
            assert!(scores.swap_remove(0).is_some());
        }
        assert_eq!((scores.heads.len(), scores.text_bytes), (1, 0));
    }

    #[test]
    fn a_scan_meets_what_stays_exactly_once_while_others_come_and_go() {
        for (before, after) in [(10, 4000), (4000, 10), (500, 500), (1, 1)] {
            let mut scores = Scores::new(7);
            (0..before).for_each(|i| {
                scores.push(&name(i), 0.0);
            });
            let stays = before.min(after);
            let mut met = vec![0; stays as usize];
            let (mut cursor, mut calls) = (0, 0);
            loop {
                cursor = scores.scan(cursor, &mut |member, _| {
                    let number: u32 = std::str::from_utf8(&member[7..])
                        .expect("ASCII")
                        .parse()
                        .expect("digits");
                    if number < stays {
                        met[number as usize] += 1;
                    }
                });
                if cursor == 0 {
                    break;
                }
                calls += 1;
                if calls == 5 {
                    (before..after).for_each(|i| {
                        scores.push(&name(i), 0.0);
                    });
                    for i in after..before {
                        let id = scores.find(&name(i)).expect("it was added");
                        assert!(scores.swap_remove(id).is_some());
                    }
                }
            }
            assert!(met.iter().all(|&n| n == 1));
        }
    }
}
