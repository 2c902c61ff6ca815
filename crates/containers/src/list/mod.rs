//! A list: chunks of neighbouring elements, so that both ends are O(1), a walk is a scan of memory, and an element costs
//! two bytes beside its own.

mod chunk;
mod iter;

use std::collections::VecDeque;

use crate::Container;
use chunk::{Chunk, Side, entry_bytes};

pub use iter::{Iter, RevIter};

/// How large a chunk may grow. A single larger element has a chunk of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeLimit {
    /// Bytes.
    bytes: usize,
    /// Elements.
    count: usize,
}

impl NodeLimit {
    /// The limit of `list-max-listpack-size`: elements when positive, -1 to -5 for 4 to 64 KiB.
    pub fn from_setting(setting: i64) -> NodeLimit {
        if setting < 0 {
            let class = setting.unsigned_abs().min(5) as u32;
            return NodeLimit {
                bytes: 2048 << class,
                count: u32::MAX as usize,
            };
        }
        NodeLimit {
            bytes: NodeLimit::default().bytes,
            count: usize::try_from(setting).unwrap_or(usize::MAX).max(1),
        }
    }

    /// Whether an element of `len` bytes may join the chunk.
    fn has_room(self, chunk: &Chunk, len: usize) -> bool {
        chunk.count() == 0
            || chunk.count() < self.count && chunk.used() + entry_bytes(len) <= self.bytes
    }
}

impl Default for NodeLimit {
    fn default() -> NodeLimit {
        NodeLimit::from_setting(-2)
    }
}

/// A list of byte strings.
#[derive(Clone, Debug, Default)]
pub struct List {
    len: usize,
    /// Bytes that the chunks have allocated.
    chunk_bytes: usize,
    chunks: Chunks,
}

/// A short list has its only chunk without a detour. There is always one, and it alone may be empty.
#[derive(Clone, Debug)]
enum Chunks {
    One(Chunk),
    Many(VecDeque<Chunk>),
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks::One(Chunk::default())
    }
}

impl Chunks {
    fn count(&self) -> usize {
        match self {
            Chunks::One(_) => 1,
            Chunks::Many(chunks) => chunks.len(),
        }
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&Chunk> {
        match self {
            Chunks::One(chunk) => (at == 0).then_some(chunk),
            Chunks::Many(chunks) => chunks.get(at),
        }
    }

    #[inline]
    fn get_mut(&mut self, at: usize) -> &mut Chunk {
        match self {
            Chunks::One(chunk) => chunk,
            Chunks::Many(chunks) => &mut chunks[at],
        }
    }

    fn insert(&mut self, at: usize, chunk: Chunk) {
        match self {
            Chunks::One(only) => {
                let mut chunks = VecDeque::from([std::mem::take(only)]);
                chunks.insert(at, chunk);
                *self = Chunks::Many(chunks);
            }
            Chunks::Many(chunks) => chunks.insert(at, chunk),
        }
    }

    fn remove(&mut self, at: usize) -> Chunk {
        match self {
            Chunks::One(only) => std::mem::take(only),
            Chunks::Many(chunks) => {
                let removed = chunks.remove(at).unwrap_or_default();
                if chunks.len() == 1 {
                    *self = Chunks::One(chunks.pop_front().unwrap_or_default());
                }
                removed
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Chunks::One(_) => 0,
            Chunks::Many(chunks) => chunks.capacity() * size_of::<Chunk>(),
        }
    }
}

impl Container for List {
    #[inline]
    fn front(&self) -> *const u8 {
        match &self.chunks {
            Chunks::One(chunk) => chunk.front(),
            Chunks::Many(chunks) => chunks.front().map_or(std::ptr::null(), Chunk::front),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        self.chunk_bytes + self.chunks.heap_bytes()
    }
}

impl PartialEq for List {
    fn eq(&self, other: &List) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl List {
    /// An empty list; allocates nothing.
    pub fn new() -> List {
        List::default()
    }

    /// Adds an element before the first.
    #[inline]
    pub fn push_front(&mut self, element: &[u8], limit: NodeLimit) {
        self.push(Side::Front, element, limit);
    }

    /// Adds an element behind the last.
    #[inline]
    pub fn push_back(&mut self, element: &[u8], limit: NodeLimit) {
        self.push(Side::Back, element, limit);
    }

    fn push(&mut self, side: Side, element: &[u8], limit: NodeLimit) {
        let at = self.chunk_at(side);
        let has_room = self
            .chunks
            .get(at)
            .is_some_and(|chunk| limit.has_room(chunk, element.len()));
        if has_room {
            self.edit(at, |chunk| chunk.push(side, element, limit.bytes));
        } else {
            let mut fresh = Chunk::default();
            fresh.push(side, element, limit.bytes);
            let at = if side == Side::Front { 0 } else { at + 1 };
            self.insert_chunk(at, fresh);
        }
    }

    /// The first element.
    pub fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }

    /// The last element.
    pub fn last(&self) -> Option<&[u8]> {
        self.iter_back().next()
    }

    /// Removes the first element.
    pub fn drop_first(&mut self) {
        self.drop_end(Side::Front);
    }

    /// Removes the last element.
    pub fn drop_last(&mut self) {
        self.drop_end(Side::Back);
    }

    fn drop_end(&mut self, side: Side) {
        let at = self.chunk_at(side);
        self.edit(at, |chunk| chunk.pop(side));
        self.drop_if_empty(at);
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.iter_from(index).next()
    }

    /// All elements, in order.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// The elements from `index` on.
    pub fn iter_from(&self, index: usize) -> Iter<'_> {
        if index >= self.len {
            return Iter::end(self);
        }
        let (at, inner) = self.locate(index);
        Iter::at(self, at, inner)
    }

    /// All elements, from the last to the first.
    pub fn iter_back(&self) -> RevIter<'_> {
        self.iter_back_from(self.len.wrapping_sub(1))
    }

    /// The elements from `index` back to the first; none when there is no such element.
    pub fn iter_back_from(&self, index: usize) -> RevIter<'_> {
        if index >= self.len {
            return RevIter::end(self);
        }
        let (at, inner) = self.locate(index);
        RevIter::at(self, at, inner)
    }

    /// Replaces the element at `index`, which must be there.
    pub fn set(&mut self, index: usize, element: &[u8], limit: NodeLimit) {
        let (at, inner) = self.locate(index);
        self.edit(at, |chunk| chunk.replace(inner, element));
        self.split_if_large(at, inner, limit);
    }

    /// Puts an element before that at `index`, at most the length.
    pub fn insert(&mut self, index: usize, element: &[u8], limit: NodeLimit) {
        if index == self.len {
            return self.push_back(element, limit);
        }
        let (at, inner) = self.locate(index);
        self.edit(at, |chunk| chunk.insert(inner, element));
        self.split_if_large(at, inner, limit);
    }

    /// Removes up to `count` elements from `index` on.
    pub fn remove(&mut self, index: usize, count: usize) {
        let mut left = count.min(self.len.saturating_sub(index));
        while left > 0 {
            let (at, inner) = self.locate(index);
            let held = self.chunks.get_mut(at).count();
            let here = left.min(held - inner);
            if here == held {
                self.remove_chunk(at);
            } else {
                self.edit(at, |chunk| chunk.remove(inner, here));
                self.join(at);
            }
            left -= here;
        }
    }

    /// Removes the first `most` elements equal to `element`; returns how many there were.
    pub fn remove_first_equal(&mut self, element: &[u8], most: usize) -> usize {
        let mut left = most;
        let mut at = 0;
        while left > 0 && at < self.chunks.count() && self.len > 0 {
            let mut here = left;
            let dropped = self.edit(at, |chunk| {
                chunk.retain(|other| {
                    let drops = here > 0 && other == element;
                    here -= usize::from(drops);
                    drops
                })
            });
            left -= dropped;
            if !self.drop_if_empty(at) {
                at += 1;
            }
        }
        self.join_all(most - left);
        most - left
    }

    /// Removes the last `most` elements equal to `element`; returns how many there were.
    pub fn remove_last_equal(&mut self, element: &[u8], most: usize) -> usize {
        let mut left = most;
        let mut at = self.chunks.count();
        while left > 0 && at > 0 && self.len > 0 {
            at -= 1;
            let equal = Iter::at(self, at, 0)
                .take(self.chunks.get(at).map_or(0, Chunk::count))
                .filter(|other| *other == element)
                .count();
            // Those that come first stay when there are more than are wanted.
            let mut kept = equal.saturating_sub(left);
            let dropped = self.edit(at, |chunk| {
                chunk.retain(|other| {
                    let is_equal = other == element;
                    let keeps = is_equal && kept > 0;
                    kept -= usize::from(keeps);
                    is_equal && !keeps
                })
            });
            left -= dropped;
            self.drop_if_empty(at);
        }
        self.join_all(most - left);
        most - left
    }

    fn chunk_at(&self, side: Side) -> usize {
        match side {
            Side::Front => 0,
            Side::Back => self.chunks.count() - 1,
        }
    }

    /// Changes a chunk and keeps the sums.
    fn edit<R>(&mut self, at: usize, f: impl FnOnce(&mut Chunk) -> R) -> R {
        let chunk = self.chunks.get_mut(at);
        let (count, bytes) = (chunk.count(), chunk.capacity());
        let result = f(chunk);
        self.len = self.len - count + chunk.count();
        self.chunk_bytes = self.chunk_bytes - bytes + chunk.capacity();
        result
    }

    fn insert_chunk(&mut self, at: usize, chunk: Chunk) {
        self.len += chunk.count();
        self.chunk_bytes += chunk.capacity();
        self.chunks.insert(at, chunk);
    }

    fn remove_chunk(&mut self, at: usize) -> Chunk {
        let chunk = self.chunks.remove(at);
        self.len -= chunk.count();
        self.chunk_bytes -= chunk.capacity();
        chunk
    }

    /// The chunk of the element at `index`, which must be there, and its position in it; from the nearer end.
    fn locate(&self, index: usize) -> (usize, usize) {
        let count = |at: usize| self.chunks.get(at).map_or(0, Chunk::count);
        if index < self.len / 2 {
            let (mut at, mut inner) = (0, index);
            while inner >= count(at) {
                inner -= count(at);
                at += 1;
            }
            (at, inner)
        } else {
            let (mut at, mut begin) = (self.chunks.count(), self.len);
            while begin > index {
                at -= 1;
                begin -= count(at);
            }
            (at, index - begin)
        }
    }

    fn drop_if_empty(&mut self, at: usize) -> bool {
        let empty = self.chunks.get(at).is_some_and(|chunk| chunk.count() == 0);
        if empty {
            self.remove_chunk(at);
        }
        empty
    }

    /// Splits a chunk that grew beyond the limit at element `inner` or in its middle.
    fn split_if_large(&mut self, at: usize, inner: usize, limit: NodeLimit) {
        let Some(chunk) = self.chunks.get(at) else {
            return;
        };
        let count = chunk.count();
        let too_large = chunk.used() > limit.bytes || count > limit.count;
        if count < 2 || !too_large {
            return;
        }
        // An element that is too large by itself is freed of its neighbours.
        let cut = match inner {
            0 => 1,
            _ if chunk.used() > 2 * limit.bytes => inner,
            _ => count / 2,
        };
        let tail = self.edit(at, |chunk| chunk.split_off(cut));
        self.insert_chunk(at + 1, tail);
        if cut == inner {
            self.split_if_large(at + 1, 0, limit);
        }
    }

    /// Joins a chunk with a neighbour when both are small.
    fn join(&mut self, at: usize) {
        for left in [at, at.wrapping_sub(1)] {
            let right = left.wrapping_add(1);
            let (Some(a), Some(b)) = (self.chunks.get(left), self.chunks.get(right)) else {
                continue;
            };
            if a.used() + b.used() <= JOINED_BYTES && a.count() + b.count() <= JOINED_COUNT {
                let tail = self.remove_chunk(right);
                self.edit(left, |chunk| chunk.append(&tail));
                return;
            }
        }
    }

    /// Joins neighbours everywhere, when elements were removed from many places.
    fn join_all(&mut self, removed: usize) {
        if removed == 0 {
            return;
        }
        let mut at = 0;
        while at + 1 < self.chunks.count() {
            let before = self.chunks.count();
            self.join(at + 1);
            at += usize::from(self.chunks.count() == before);
        }
    }
}

/// Chunks are joined up to this size, well below every limit, so that the next element does not split them again.
const JOINED_BYTES: usize = 2048;
const JOINED_COUNT: usize = 128;

#[cfg(test)]
mod tests;
