//! A sequence without gaps that grows by segments, so that no push copies more than one of them.

/// Elements per segment. The first one grows by doubling up to it.
const SEGMENT: usize = 1024;

/// A first segment below this capacity never gives memory back.
const MIN_CAPACITY: usize = 16;

/// A growable sequence; what is removed is replaced by the last element.
#[derive(Clone, Debug)]
pub(crate) struct Dense<T> {
    /// All full but the last; only the first may be empty.
    segments: Vec<Vec<T>>,
    len: usize,
    /// Elements for which there is memory.
    capacity: usize,
}

impl<T> Default for Dense<T> {
    fn default() -> Self {
        Self {
            segments: Vec::new(),
            len: 0,
            capacity: 0,
        }
    }
}

impl<T> Dense<T> {
    /// An empty sequence with room for `capacity` elements, up to one segment.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let first = Vec::with_capacity(capacity.min(SEGMENT));
        Self {
            capacity: first.capacity(),
            segments: vec![first],
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.segments.get(at / SEGMENT)?.get(at % SEGMENT)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.segments.get_mut(at / SEGMENT)?.get_mut(at % SEGMENT)
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.segments.iter().flatten()
    }

    pub(crate) fn push(&mut self, value: T) {
        if self.len == self.segments.len() * SEGMENT {
            let room = if self.len == 0 { 0 } else { SEGMENT };
            self.segments.push(Vec::with_capacity(room));
            self.capacity += room;
        }
        if let Some(last) = self.segments.last_mut() {
            let before = last.capacity();
            last.push(value);
            self.capacity += last.capacity() - before;
            self.len += 1;
        }
    }

    /// Removes the element at `at`; the last one takes its place. `at` must be below the length.
    pub(crate) fn swap_remove(&mut self, at: usize) -> T {
        let segments = self.segments.len();
        let last = self.segments.last_mut().expect("an element is removed");
        let mut removed = last.pop().expect("the last segment is not empty");
        if last.is_empty() && segments > 1 {
            self.capacity -= last.capacity();
            self.segments.pop();
        }
        self.len -= 1;
        if at < self.len {
            let place = self.get_mut(at).expect("below the length");
            std::mem::swap(place, &mut removed);
        }
        self.give_back();
        removed
    }

    /// Exchanges two elements, both below the length.
    pub(crate) fn swap(&mut self, low: usize, high: usize) {
        let (of_low, of_high) = (low / SEGMENT, high / SEGMENT);
        if of_low == of_high {
            return self.segments[of_low].swap(low % SEGMENT, high % SEGMENT);
        }
        if let Ok([one, other]) = self.segments.get_disjoint_mut([of_low, of_high]) {
            std::mem::swap(&mut one[low % SEGMENT], &mut other[high % SEGMENT]);
        }
    }

    /// Frees memory of the only segment that is three quarters empty.
    fn give_back(&mut self) {
        if let [only] = &mut self.segments[..] {
            let before = only.capacity();
            if before > MIN_CAPACITY && only.len() * 4 < before {
                only.shrink_to(only.len() * 2);
                self.capacity -= before - only.capacity();
            }
        }
    }

    /// Bytes allocated for the elements themselves.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.capacity * size_of::<T>() + self.segments.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> std::ops::Index<usize> for Dense<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        &self.segments[at / SEGMENT][at % SEGMENT]
    }
}

impl<T> std::ops::IndexMut<usize> for Dense<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.segments[at / SEGMENT][at % SEGMENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_come_and_go() {
        let mut dense = Dense::with_capacity(3);
        for i in 0..5000 {
            dense.push(i);
        }
        assert_eq!(dense.len(), 5000);
        assert!(dense.iter().copied().eq(0..5000));
        assert_eq!(dense.swap_remove(1024), 1024);
        assert_eq!(dense[1024], 4999);
        while dense.len() > 3 {
            dense.swap_remove(0);
        }
        assert!(dense.heap_bytes() < 256, "{}", dense.heap_bytes());
        assert_eq!(dense.get(3), None);
    }

    #[test]
    fn capacity_is_kept_up_to_date() {
        let mut dense = Dense::default();
        for round in [3000, 10, 2500, 0, 40] {
            while dense.len() < round {
                dense.push(0_u64);
            }
            while dense.len() > round {
                dense.swap_remove(dense.len() / 2);
            }
            let real: usize = dense.segments.iter().map(Vec::capacity).sum();
            assert_eq!(dense.capacity, real);
        }
    }
}
