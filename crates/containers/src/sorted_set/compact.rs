//! The form of small sorted sets: all elements in order in one block of bytes.
//!
//! ```text
//! element   member length (LEB128) | score | member | member length (LEB128 backwards)
//! ```
//!
//! The length at the end lets the block be walked from its end. All scores of a block have the width that the widest so far
//! needed: most are small whole numbers.

use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub(super) struct Compact {
    bytes: Vec<u8>,
    len: u32,
    width: Width,
}

/// How scores are kept, from the narrowest to the one that holds all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Width {
    #[default]
    I16,
    I32,
    F64,
}

impl Width {
    /// The narrowest that holds this score, which is no negative zero.
    fn of(score: f64) -> Width {
        if f64::from(score as i16) == score {
            Width::I16
        } else if f64::from(score as i32) == score {
            Width::I32
        } else {
            Width::F64
        }
    }

    /// Bytes of a score.
    #[inline]
    const fn bytes(self) -> usize {
        match self {
            Width::I16 => size_of::<i16>(),
            Width::I32 => size_of::<i32>(),
            Width::F64 => size_of::<f64>(),
        }
    }

    /// Bytes of an element.
    #[inline]
    const fn element(self, member: usize) -> usize {
        2 * length_size(member) + self.bytes() + member
    }

    /// The score that begins at `at`.
    #[inline]
    fn read(self, bytes: &[u8], at: usize) -> f64 {
        /// As many bytes as wanted.
        #[inline]
        fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
            let mut array = [0; N];
            array.copy_from_slice(&bytes[at..at + N]);
            array
        }
        match self {
            Width::I16 => i16::from_le_bytes(array(bytes, at)).into(),
            Width::I32 => i32::from_le_bytes(array(bytes, at)).into(),
            Width::F64 => f64::from_le_bytes(array(bytes, at)),
        }
    }

    /// Writes a score that it holds.
    #[inline]
    fn write(self, score: f64, place: &mut [u8]) {
        match self {
            Width::I16 => place.copy_from_slice(&(score as i16).to_le_bytes()),
            Width::I32 => place.copy_from_slice(&(score as i32).to_le_bytes()),
            Width::F64 => place.copy_from_slice(&score.to_le_bytes()),
        }
    }
}

/// An element and where it lies.
struct Element<'a> {
    member: &'a [u8],
    score: f64,
    place: Range<usize>,
}

impl Element<'_> {
    fn is_before(&self, score: f64, member: &[u8]) -> bool {
        self.score < score || (self.score == score && self.member < member)
    }
}

/// Bytes of a length.
#[inline]
const fn length_size(len: usize) -> usize {
    let mut size = 1;
    let mut rest = len >> 7;
    while rest > 0 {
        size += 1;
        rest >>= 7;
    }
    size
}

/// Reads the length that begins at `at` and goes on in the direction of `step`.
#[inline]
fn read_length(bytes: &[u8], mut at: usize, step: isize) -> usize {
    let first = bytes[at];
    if first < 0x80 {
        return usize::from(first);
    }
    let (mut len, mut shift) = (0, 0);
    loop {
        let byte = bytes[at];
        len |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return len;
        }
        shift += 7;
        at = at.wrapping_add_signed(step);
    }
}

/// Redis keeps whole scores of small sorted sets as integers, which know no negative zero.
fn normal(score: f64) -> f64 {
    if score == 0.0 { 0.0 } else { score }
}

impl Compact {
    /// Address of the first element.
    #[inline]
    pub(super) fn front(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The element that begins at `at`.
    #[inline]
    fn element(&self, at: usize) -> Element<'_> {
        let len = read_length(&self.bytes, at, 1);
        let score_at = at + length_size(len);
        let start = score_at + self.width.bytes();
        Element {
            member: &self.bytes[start..start + len],
            score: self.width.read(&self.bytes, score_at),
            place: at..at + self.width.element(len),
        }
    }

    fn elements(&self) -> impl Iterator<Item = Element<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            if at == self.bytes.len() {
                return None;
            }
            let element = self.element(at);
            at = element.place.end;
            Some(element)
        })
    }

    /// Where the element that ends at `end` begins.
    #[inline]
    fn start_of(&self, end: usize) -> usize {
        end - self.width.element(read_length(&self.bytes, end - 1, -1))
    }

    /// Offset of the element at `index`, from whichever end is nearer.
    pub(super) fn offset(&self, index: usize) -> usize {
        if index <= self.len() / 2 {
            (0..index).fold(0, |at, _| self.element(at).place.end)
        } else {
            (index..self.len()).fold(self.bytes.len(), |end, _| self.start_of(end))
        }
    }

    /// The element at an offset, and the offset behind it.
    #[inline]
    pub(super) fn next(&self, at: usize) -> ((&[u8], f64), usize) {
        let element = self.element(at);
        ((element.member, element.score), element.place.end)
    }

    /// The element before an offset, and its offset.
    #[inline]
    pub(super) fn next_back(&self, end: usize) -> ((&[u8], f64), usize) {
        let start = self.start_of(end);
        (self.next(start).0, start)
    }

    /// Index of `member`, and where its element begins.
    #[inline]
    fn find(&self, member: &[u8]) -> Option<(usize, usize)> {
        let bytes = &self.bytes[..];
        let last = member.last();
        let (mut at, mut index) = (0, 0);
        while at < bytes.len() {
            let len = read_length(bytes, at, 1);
            let around = length_size(len);
            let start = at + around + self.width.bytes();
            let end = start + len;
            // Members are often alike up to their end, so the last byte tells most of them apart.
            if len == member.len()
                && (len == 0 || bytes.get(end - 1) == last)
                && bytes[start..end] == *member
            {
                return Some((index, at));
            }
            at = end + around;
            index += 1;
        }
        None
    }

    /// Where an element of that score and member belongs: the offset of the first that does not come before it.
    fn target(&self, score: f64, member: &[u8]) -> usize {
        let bytes = &self.bytes[..];
        let mut at = 0;
        while at < bytes.len() {
            let element = self.element(at);
            if !element.is_before(score, member) {
                break;
            }
            at = element.place.end;
        }
        at
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        let (_, at) = self.find(member)?;
        Some(self.element(at).score)
    }

    /// Index and score of `member`.
    pub(super) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (index, at) = self.find(member)?;
        Some((index, self.element(at).score))
    }

    /// How many elements come before the first of which `before` is not true.
    pub(super) fn rank_by(&self, before: impl Fn(&[u8], f64) -> bool) -> usize {
        self.elements()
            .take_while(|element| before(element.member, element.score))
            .count()
    }

    /// The indexes from the first member that is not `below` a range, if it is not `above` it either, to the next one above;
    /// the first `skip` members count whatever they are.
    pub(super) fn walk(
        &self,
        below: impl Fn(&[u8]) -> bool,
        above: impl Fn(&[u8]) -> bool,
        skip: usize,
    ) -> Range<usize> {
        let members = || self.elements().map(|element| element.member);
        if self
            .ends()
            .is_none_or(|(first, last)| above(first) || below(last))
        {
            return 0..0;
        }
        let first = members().take_while(|member| below(member)).count();
        let mut rest = members().skip(first).peekable();
        if rest.peek().is_none_or(|member| above(member)) {
            return 0..0;
        }
        let start = first.saturating_add(skip).min(self.len());
        let taken = rest.skip(skip).take_while(|member| !above(member)).count();
        start..start + taken
    }

    /// The same from the end.
    pub(super) fn walk_back(
        &self,
        below: impl Fn(&[u8]) -> bool,
        above: impl Fn(&[u8]) -> bool,
        skip: usize,
    ) -> Range<usize> {
        if self
            .ends()
            .is_none_or(|(first, last)| above(first) || below(last))
        {
            return 0..0;
        }
        let last = self
            .members_back()
            .take_while(|member| above(member))
            .count();
        let mut rest = self.members_back().skip(last).peekable();
        if rest.peek().is_none_or(|member| below(member)) {
            return 0..0;
        }
        let end = self.len() - last.saturating_add(skip).min(self.len());
        let taken = rest.skip(skip).take_while(|member| !below(member)).count();
        end - taken..end
    }

    /// The first member and the last one.
    fn ends(&self) -> Option<(&[u8], &[u8])> {
        let first = self.elements().next()?.member;
        Some((first, self.members_back().next()?))
    }

    fn members_back(&self) -> impl Iterator<Item = &[u8]> {
        let mut end = self.bytes.len();
        std::iter::from_fn(move || {
            if end == 0 {
                return None;
            }
            let ((member, _), start) = self.next_back(end);
            end = start;
            Some(member)
        })
    }

    /// Adds a member or changes its score; returns the score it had.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let score = normal(score);
        self.widen(Width::of(score));
        let Some((_, at)) = self.find(member) else {
            self.open(self.target(score, member), member, score);
            return None;
        };
        let element = self.element(at);
        let (old, place) = (element.score, element.place);
        if old != score {
            self.reposition(place, self.target(score, member), score);
        }
        Some(old)
    }

    /// Makes scores at least so wide.
    #[inline]
    fn widen(&mut self, width: Width) {
        if width > self.width {
            self.rewrite(width);
        }
    }

    #[cold]
    fn rewrite(&mut self, width: Width) {
        let more = self.len() * (width.bytes() - self.width.bytes());
        let mut bytes = Vec::with_capacity(self.bytes.len() + more);
        for Element { score, place, .. } in self.elements() {
            let around = length_size(read_length(&self.bytes, place.start, 1));
            let score_at = place.start + around;
            bytes.extend_from_slice(&self.bytes[place.start..score_at]);
            let at = bytes.len();
            bytes.resize(at + width.bytes(), 0);
            width.write(score, &mut bytes[at..]);
            bytes.extend_from_slice(&self.bytes[score_at + self.width.bytes()..place.end]);
        }
        (self.bytes, self.width) = (bytes, width);
    }

    /// Writes a new element at `at`.
    fn open(&mut self, at: usize, member: &[u8], score: f64) {
        let size = self.width.element(member.len());
        let old = self.bytes.len();
        if self.bytes.capacity() - old < size {
            // A quarter more than needed: small sets are many, and their slack adds up.
            self.bytes.reserve_exact(size + old / 4);
        }
        self.bytes.resize(old + size, 0);
        self.bytes.copy_within(at..old, at + size);
        let element = &mut self.bytes[at..at + size];
        let mut rest = member.len();
        for i in 0..length_size(member.len()) {
            let more = if rest >= 0x80 { 0x80 } else { 0 };
            element[i] = (rest & 0x7f) as u8 | more;
            element[size - 1 - i] = element[i];
            rest >>= 7;
        }
        let score_at = length_size(member.len());
        let start = score_at + self.width.bytes();
        self.width.write(score, &mut element[score_at..start]);
        element[start..start + member.len()].copy_from_slice(member);
        self.len += 1;
    }

    /// Gives the element at `place` another score and moves it to `target`, an offset between elements.
    fn reposition(&mut self, place: Range<usize>, target: usize, score: f64) {
        let size = place.len();
        let at = if target <= place.start {
            self.bytes[target..place.end].rotate_right(size);
            target
        } else {
            self.bytes[place.start..target].rotate_left(size);
            target - size
        };
        let start = at + length_size(read_length(&self.bytes, at, 1));
        let end = start + self.width.bytes();
        self.width.write(score, &mut self.bytes[start..end]);
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (_, at) = self.find(member)?;
        let element = self.element(at);
        let (place, score) = (element.place, element.score);
        self.cut(place, 1);
        Some(score)
    }

    /// Removes the elements at these indexes, which must exist.
    pub(super) fn remove_range(&mut self, range: Range<usize>) {
        let place = self.offset(range.start)..self.offset(range.end);
        self.cut(place, range.len());
    }

    fn cut(&mut self, place: Range<usize>, count: usize) {
        self.bytes.drain(place);
        self.len -= count as u32;
        if self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to(self.bytes.len() * 5 / 4);
        }
    }
}
