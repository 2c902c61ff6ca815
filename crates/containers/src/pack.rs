//! Short byte strings in a row in one allocation: the compact form of small collections.
//!
//! ```text
//! length | bytes    length below 128: one byte; else seven bits a byte, lowest first, all but the last marked by bit 7
//! ```

/// Elements one after another. Finding one is a walk, so there should be few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pack {
    bytes: Vec<u8>,
}

/// Most bytes a length takes.
const MAX_HEADER: usize = 5;

/// The allocation grows by whole steps of this many bytes, and by an eighth when that is more.
const STEP: usize = 16;

impl Pack {
    /// Bytes allocated.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Address of the first element.
    #[inline]
    pub(crate) fn front(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Elements in order.
    #[inline]
    pub(crate) fn iter(&self) -> Elements<'_> {
        Elements {
            bytes: &self.bytes,
            at: 0,
        }
    }

    /// Where the first element that equals `wanted` begins, and its ordinal, among every `stride`th one.
    #[inline]
    pub(crate) fn find(&self, wanted: &[u8], stride: usize) -> Option<(usize, usize)> {
        let bytes = &self.bytes[..];
        let last = wanted.last();
        let (mut at, mut ordinal) = (0, 0);
        while at < bytes.len() {
            let (len, start) = length(bytes, at);
            let mut next = start + len;
            // Names of one collection often begin alike, so the last byte tells most.
            if len == wanted.len()
                && (last.is_none() || bytes.get(next - 1) == last)
                && &bytes[start..next] == wanted
            {
                return Some((at, ordinal));
            }
            for _ in 1..stride {
                let (len, start) = length(bytes, next);
                next = start + len;
            }
            at = next;
            ordinal += 1;
        }
        None
    }

    /// Adds an element at the end.
    pub(crate) fn push(&mut self, element: &[u8]) {
        let (header, used) = header(element.len());
        self.reserve(used + element.len());
        self.bytes.extend_from_slice(&header[..used]);
        self.bytes.extend_from_slice(element);
    }

    /// Replaces the element that begins at `at`.
    pub(crate) fn replace(&mut self, at: usize, element: &[u8]) {
        let (header, used) = header(element.len());
        let new = used + element.len();
        let old = self.element_at(at).1 - at;
        if new > old {
            self.reserve(new - old);
            let end = self.bytes.len();
            self.bytes.resize(end + new - old, 0);
            self.bytes.copy_within(at + old..end, at + new);
        } else {
            self.bytes.drain(at + new..at + old);
        }
        self.bytes[at..at + used].copy_from_slice(&header[..used]);
        self.bytes[at + used..at + new].copy_from_slice(element);
    }

    /// Removes the `count` elements from `at` on.
    pub(crate) fn remove(&mut self, at: usize, count: usize) {
        let end = (0..count).fold(at, |at, _| self.element_at(at).1);
        self.bytes.drain(at..end);
        if self.bytes.len() * 4 < self.bytes.capacity() && self.bytes.capacity() > 4 * STEP {
            self.bytes.shrink_to(self.bytes.len() * 2);
        }
    }

    /// The element that begins at `at`, and where the next one does.
    #[inline]
    pub(crate) fn element_at(&self, at: usize) -> (&[u8], usize) {
        let (len, start) = length(&self.bytes, at);
        (&self.bytes[start..start + len], start + len)
    }

    fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let wanted = (needed + needed / 8).next_multiple_of(STEP);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }
}

fn header(len: usize) -> ([u8; MAX_HEADER], usize) {
    let mut rest = u32::try_from(len).expect("elements of compact collections are short");
    let mut header = [0; MAX_HEADER];
    let mut used = 0;
    while rest >= 128 {
        header[used] = rest as u8 | 128;
        rest >>= 7;
        used += 1;
    }
    header[used] = rest as u8;
    (header, used + 1)
}

/// The length that stands at `at`, and where the bytes behind it begin.
#[inline]
fn length(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = bytes[at];
    if first < 128 {
        return (first as usize, at + 1);
    }
    let mut len = (first & 127) as usize;
    let mut at = at + 1;
    let mut shift = 7;
    loop {
        let byte = bytes[at];
        len |= ((byte & 127) as usize) << shift;
        at += 1;
        shift += 7;
        if byte < 128 {
            return (len, at);
        }
    }
}

/// Elements of a [`Pack`], each with the place where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = (usize, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return None;
        }
        let at = self.at;
        let (len, start) = length(self.bytes, at);
        self.at = start + len;
        Some((at, &self.bytes[start..start + len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_and_removes_in_the_middle() {
        let mut pack = Pack::default();
        let mut model: Vec<Vec<u8>> = [0, 1, 127, 128, 300, 20_000]
            .iter()
            .map(|&len| vec![len as u8; len])
            .collect();
        model.iter().for_each(|element| pack.push(element));
        for (index, len) in [(3, 5), (0, 500), (5, 127), (1, 128), (2, 127)] {
            let at = pack.iter().nth(index).expect("there are six").0;
            pack.replace(at, &vec![b'x'; len]);
            model[index] = vec![b'x'; len];
            assert!(pack.iter().map(|(_, element)| element).eq(model.iter()));
        }
        let at = pack.iter().nth(1).expect("there are six").0;
        pack.remove(at, 2);
        model.drain(1..3);
        assert!(pack.iter().map(|(_, element)| element).eq(model.iter()));
        assert!(pack.heap_bytes() < 2000, "{}", pack.heap_bytes());
    }
}
