//! A vector that grows without moving what it holds.
//!
//! Segment `k` has room for `FIRST << k` elements, so an index finds its segment by its highest bit, growth never copies,
//! and no push is slow because a large collection moves to a larger block.

/// Elements of the first segment; a power of two.
const FIRST: usize = 8;

#[derive(Debug)]
pub(super) struct Segments<T> {
    segments: Vec<Vec<T>>,
    len: usize,
}

impl<T> Segments<T> {
    pub(super) const fn new() -> Segments<T> {
        Segments {
            segments: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Segment and offset of the element at `index`.
    #[inline]
    fn place(index: usize) -> (usize, usize) {
        let shifted = index + FIRST;
        let segment = (shifted.ilog2() - FIRST.ilog2()) as usize;
        (segment, shifted - (FIRST << segment))
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &T {
        let (segment, offset) = Self::place(index);
        &self.segments[segment][offset]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> &mut T {
        let (segment, offset) = Self::place(index);
        &mut self.segments[segment][offset]
    }

    pub(super) fn push(&mut self, value: T) {
        let (segment, _) = Self::place(self.len);
        if segment == self.segments.len() {
            self.segments.push(Vec::with_capacity(FIRST << segment));
        }
        self.segments[segment].push(value);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let value = self.segments[Self::place(last).0].pop();
        self.len = last;
        // An empty last segment is kept until the one before is half empty too, so that a collection that grows and
        // shrinks by one does not allocate each time.
        if let [.., before, empty] = &self.segments[..]
            && empty.is_empty()
            && before.len() <= before.capacity() / 2
        {
            self.segments.pop();
        }
        value
    }

    /// Removes the element at `index`; the last one takes its place.
    pub(super) fn swap_remove(&mut self, index: usize) -> Option<T> {
        let last = self.pop()?;
        if index == self.len {
            return Some(last);
        }
        Some(std::mem::replace(self.get_mut(index), last))
    }

    /// Bytes allocated.
    pub(super) fn heap_bytes(&self) -> usize {
        let room = FIRST * ((1 << self.segments.len()) - 1);
        room * size_of::<T>() + self.segments.capacity() * size_of::<Vec<T>>()
    }
}

impl<T: Clone> Clone for Segments<T> {
    fn clone(&self) -> Segments<T> {
        let mut copy = Segments::new();
        for segment in &self.segments {
            for value in segment {
                copy.push(value.clone());
            }
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_shrinks_as_a_vector_does() {
        let mut segments = Segments::new();
        for i in 0..1000 {
            segments.push(i);
            assert_eq!((segments.len(), *segments.get(i)), (i + 1, i));
        }
        let full = segments.heap_bytes();
        assert_eq!(segments.swap_remove(3), Some(3));
        assert_eq!(*segments.get(3), 999);
        assert_eq!(segments.clone().len(), 999);
        for _ in 0..990 {
            assert!(segments.pop().is_some());
        }
        assert!(segments.heap_bytes() < full / 10);
        for _ in 0..9 {
            assert!(segments.pop().is_some());
        }
        assert_eq!(segments.pop(), None);
    }
}
