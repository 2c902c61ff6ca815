//! Expiries of the fields of a large hash: by position, and the earliest first.
//!
//! A binary heap of positions in which every position knows its place, so that an expiry can be changed or removed in
//! logarithmic time without a search, and positions can change as the dictionary moves its last entry into a gap.

use crate::dict::Dense;

/// The place of a position that is not in the heap.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Clock {
    at_ms: i64,
    /// Place in the heap.
    place: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Clocks {
    clocks: Dense<Clock>,
    /// Positions that have an expiry; none is earlier than its parent's.
    heap: Vec<u32>,
}

impl Clocks {
    /// No expiries for `len` positions.
    pub(super) fn new(len: usize) -> Self {
        let mut clocks = Self {
            clocks: Dense::with_capacity(len),
            heap: Vec::new(),
        };
        (0..len).for_each(|_| clocks.push());
        clocks
    }

    /// Positions that have an expiry.
    #[inline]
    pub(super) fn timed(&self) -> usize {
        self.heap.len()
    }

    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        self.clocks.heap_bytes() + self.heap.capacity() * size_of::<u32>()
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<i64> {
        let clock = self.clocks.get(at)?;
        (clock.place != NOWHERE).then_some(clock.at_ms)
    }

    /// The earliest expiry and its position.
    #[inline]
    pub(super) fn first(&self) -> Option<(i64, usize)> {
        let at = *self.heap.first()? as usize;
        Some((self.clocks[at].at_ms, at))
    }

    /// Adds a position without an expiry.
    pub(super) fn push(&mut self) {
        self.clocks.push(Clock {
            at_ms: 0,
            place: NOWHERE,
        });
    }

    pub(super) fn set(&mut self, at: usize, at_ms: Option<i64>) {
        let place = self.clocks[at].place;
        match at_ms {
            None if place == NOWHERE => {}
            None => self.unheap(place as usize),
            Some(at_ms) => {
                self.clocks[at].at_ms = at_ms;
                let place = if place == NOWHERE {
                    self.heap.push(at as u32);
                    self.heap.len() - 1
                } else {
                    place as usize
                };
                self.settle(place);
            }
        }
    }

    /// Exchanges two positions.
    pub(super) fn exchange(&mut self, low: usize, high: usize) {
        self.clocks.swap(low, high);
        self.renumber(low);
        self.renumber(high);
    }

    /// Tells the heap of what has come to a position.
    fn renumber(&mut self, at: usize) {
        if let Some(clock) = self.clocks.get(at)
            && clock.place != NOWHERE
        {
            self.heap[clock.place as usize] = at as u32;
        }
    }

    /// Removes a position; the last one takes its number.
    pub(super) fn swap_remove(&mut self, at: usize) {
        self.set(at, None);
        self.clocks.swap_remove(at);
        self.renumber(at);
        if self.heap.len() * 4 < self.heap.capacity() {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }

    /// Takes the position at a place out of the heap.
    fn unheap(&mut self, place: usize) {
        let removed = self.heap.swap_remove(place);
        self.clocks[removed as usize].place = NOWHERE;
        if place < self.heap.len() {
            self.settle(place);
        }
    }

    /// Moves the position at a place up or down to where it belongs.
    fn settle(&mut self, mut place: usize) {
        let at = self.heap[place];
        let time = self.clocks[at as usize].at_ms;
        while place > 0 && self.time_at((place - 1) / 2) > time {
            self.put(place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.time_at(child + 1) < self.time_at(child) {
                child += 1;
            }
            if self.time_at(child) >= time {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, at);
    }

    fn time_at(&self, place: usize) -> i64 {
        self.clocks[self.heap[place] as usize].at_ms
    }

    fn put(&mut self, place: usize, at: u32) {
        self.heap[place] = at;
        self.clocks[at as usize].place = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_whatever_moves() {
        let mut clocks = Clocks::new(0);
        let mut model: Vec<Option<i64>> = Vec::new();
        let mut state = 1_u64;
        let mut random = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % bound
        };
        for _ in 0..20_000 {
            match random(6) {
                0 | 1 => {
                    clocks.push();
                    model.push(None);
                }
                2 | 3 if !model.is_empty() => {
                    let at = random(model.len());
                    let time = (random(4) > 0).then(|| random(1000) as i64);
                    clocks.set(at, time);
                    model[at] = time;
                }
                4 if !model.is_empty() => {
                    let (one, other) = (random(model.len()), random(model.len()));
                    clocks.exchange(one, other);
                    model.swap(one, other);
                }
                _ if !model.is_empty() => {
                    let at = random(model.len());
                    clocks.swap_remove(at);
                    model.swap_remove(at);
                }
                _ => {}
            }
            let earliest = model.iter().flatten().min().copied();
            assert_eq!(clocks.first().map(|(time, _)| time), earliest);
            assert_eq!(clocks.timed(), model.iter().flatten().count());
        }
        assert!((0..model.len()).all(|at| clocks.get(at) == model[at]));
    }
}
