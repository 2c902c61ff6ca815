//! Collections that are stored as one string: ziplist, listpack, zipmap, intset.

use tollgate_containers::listpack::Listpack;
use tollgate_containers::number;

/// What the string is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Up to version 9.
    Ziplist,
    /// From version 10 on.
    Listpack,
    /// Hashes of the first versions.
    Zipmap,
}

/// Who takes the elements; `None` to end.
type Take<'t> = &'t mut dyn FnMut(&[u8]) -> Option<()>;

/// Hands out the elements in order; `None` when the string is damaged, or when `take` wants no more.
pub(super) fn elements(packing: Packing, bytes: Vec<u8>, take: Take<'_>) -> Option<()> {
    match packing {
        Packing::Ziplist => ziplist(&bytes, take),
        Packing::Zipmap => zipmap(&bytes, take),
        Packing::Listpack => Listpack::from_bytes(bytes)?
            .iter()
            .try_for_each(|element| element.with_text(&mut *take)),
    }
}

/// Ends ziplists and zipmaps.
const END: u8 = 0xFF;
/// Stands before a length of four bytes.
const LONG: u8 = 0xFE;

/// Bytes to take from the front.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (now, later) = self.0.split_at_checked(count)?;
        self.0 = later;
        Some(now)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}

/// Ziplist: total bytes, offset of the last element, elements, then each with the length of the one before it.
fn ziplist(bytes: &[u8], take: Take<'_>) -> Option<()> {
    let mut left = Bytes(bytes);
    let total = u32::from_le_bytes(left.array()?) as usize;
    let tail = u32::from_le_bytes(left.array()?) as usize;
    let announced = u16::from_le_bytes(left.array()?);
    if total != bytes.len() {
        return None;
    }
    let (mut count, mut before, mut last) = (0_usize, 0, bytes.len() - left.0.len());
    while *left.0.first()? != END {
        let start = bytes.len() - left.0.len();
        let previous = match left.byte()? {
            LONG => u32::from_le_bytes(left.array()?) as usize,
            len => usize::from(len),
        };
        if previous != before {
            return None;
        }
        ziplist_element(&mut left, take)?;
        before = bytes.len() - left.0.len() - start;
        last = start;
        count += 1;
    }
    let whole = left.0.len() == 1
        && tail == last
        && (announced == u16::MAX || usize::from(announced) == count);
    whole.then_some(())
}

fn ziplist_element(left: &mut Bytes<'_>, take: Take<'_>) -> Option<()> {
    let first = left.byte()?;
    let len = match first >> 6 {
        0 => usize::from(first & 0x3F),
        1 => usize::from(first & 0x3F) << 8 | usize::from(left.byte()?),
        2 => u32::from_be_bytes(left.array()?) as usize,
        _ => return take_int(ziplist_int(left, first)?, take),
    };
    take(left.take(len)?)
}

fn ziplist_int(left: &mut Bytes<'_>, kind: u8) -> Option<i64> {
    Some(match kind {
        0xC0 => i16::from_le_bytes(left.array()?).into(),
        0xD0 => i32::from_le_bytes(left.array()?).into(),
        0xE0 => i64::from_le_bytes(left.array()?),
        0xF0 => {
            let [a, b, c] = left.array()?;
            (i32::from_le_bytes([0, a, b, c]) >> 8).into()
        }
        0xFE => i8::from_le_bytes(left.array()?).into(),
        0xF1..=0xFD => i64::from(kind & 0x0F) - 1,
        _ => return None,
    })
}

fn take_int(int: i64, take: Take<'_>) -> Option<()> {
    take(number::write_i64(&mut [0; number::I64_TEXT_LEN], int))
}

/// Zipmap: number of pairs, then names and values with their lengths; unused bytes may follow a value.
fn zipmap(bytes: &[u8], take: Take<'_>) -> Option<()> {
    let mut left = Bytes(bytes);
    let announced = left.byte()?;
    let mut count = 0_usize;
    loop {
        let first = left.byte()?;
        if first == END {
            break;
        }
        let len = zipmap_len(first, &mut left)?;
        take(left.take(len)?)?;
        let first = left.byte()?;
        if first == END {
            return None;
        }
        let len = zipmap_len(first, &mut left)?;
        let unused = usize::from(left.byte()?);
        take(left.take(len)?)?;
        left.take(unused)?;
        count += 1;
    }
    (left.0.is_empty() && (announced >= LONG || usize::from(announced) == count)).then_some(())
}

fn zipmap_len(first: u8, left: &mut Bytes<'_>) -> Option<usize> {
    match first {
        LONG => {
            let len = u32::from_le_bytes(left.array()?);
            // Nobody writes one that one byte has room for.
            (len >= u32::from(LONG)).then_some(len as usize)
        }
        len => Some(usize::from(len)),
    }
}

/// Intset: bytes of each integer, how many, then the integers in ascending order.
pub(super) fn intset(bytes: &[u8], take: Take<'_>) -> Option<()> {
    let mut left = Bytes(bytes);
    let width = u32::from_le_bytes(left.array()?) as usize;
    let count = u32::from_le_bytes(left.array()?) as usize;
    if !matches!(width, 2 | 4 | 8) || left.0.len() / width != count || left.0.len() % width != 0 {
        return None;
    }
    let mut last = None;
    while !left.0.is_empty() {
        let int = match width {
            2 => i16::from_le_bytes(left.array()?).into(),
            4 => i32::from_le_bytes(left.array()?).into(),
            _ => i64::from_le_bytes(left.array()?),
        };
        if last >= Some(int) {
            return None;
        }
        last = Some(int);
        take_int(int, take)?;
    }
    Some(())
}

/// The string that [`intset`] reads; the integers come in ascending order.
pub(super) fn write_intset(ints: &[i64]) -> Vec<u8> {
    let width = ints.iter().fold(2, |width, &int| {
        let least = match int {
            -0x8000..=0x7FFF => 2,
            -0x8000_0000..=0x7FFF_FFFF => 4,
            _ => 8,
        };
        width.max(least)
    });
    let mut bytes = Vec::with_capacity(8 + ints.len() * width);
    bytes.extend_from_slice(&(width as u32).to_le_bytes());
    bytes.extend_from_slice(&(ints.len() as u32).to_le_bytes());
    for int in ints {
        bytes.extend_from_slice(&int.to_le_bytes()[..width]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(packing: Packing, bytes: &[u8]) -> Option<Vec<String>> {
        let mut texts = Vec::new();
        elements(packing, bytes.to_vec(), &mut |text| {
            texts.push(String::from_utf8_lossy(text).into_owned());
            Some(())
        })?;
        Some(texts)
    }

    #[test]
    fn ziplists() {
        let list =
            b"\x1a\0\0\0\x13\0\0\0\x04\0\0\x01a\x03\xf3\x02\xfe\xf6\x03\xc0\x39\x30\x04\x00\xff";
        let mut list = list.to_vec();
        list[0] = list.len() as u8;
        list[4] = list.len() as u8 - 3;
        list[8] = 5;
        let texts = ["a", "2", "-10", "12345", ""].map(str::to_owned);
        assert_eq!(all(Packing::Ziplist, &list), Some(texts.to_vec()));
        for cut in 0..list.len() {
            assert_eq!(all(Packing::Ziplist, &list[..cut]), None);
        }
        list[8] = 4;
        assert_eq!(all(Packing::Ziplist, &list), None, "miscounted");
    }

    #[test]
    fn zipmaps() {
        let map = b"\x02\x03foo\x03\x00bar\x01a\x02\x02bcxx\xff";
        let texts = ["foo", "bar", "a", "bc"].map(str::to_owned);
        assert_eq!(all(Packing::Zipmap, map), Some(texts.to_vec()));
        for cut in 0..map.len() {
            assert_eq!(all(Packing::Zipmap, &map[..cut]), None);
        }
        let wide = |len: u32| {
            let text = "x".repeat(len as usize);
            let map = [
                b"\x01\xfe",
                &len.to_le_bytes()[..],
                text.as_bytes(),
                b"\x01\x00v\xff",
            ];
            (
                all(Packing::Zipmap, &map.concat()),
                Some(vec![text, "v".to_owned()]),
            )
        };
        assert_eq!(wide(254).0, wide(254).1);
        assert_eq!(wide(253).0, None, "a length that is longer than it need be");
    }

    #[test]
    fn intsets() {
        for ints in [&[-1, 0, 5][..], &[-70_000, 3], &[i64::MIN, i64::MAX], &[]] {
            let bytes = write_intset(ints);
            let mut read = Vec::new();
            let whole = intset(&bytes, &mut |text| {
                read.push(number::parse_i64(text)?);
                Some(())
            });
            assert_eq!((whole, &read[..]), (Some(()), ints));
            assert_eq!(intset(&bytes[..bytes.len() - 1], &mut |_| Some(())), None);
        }
        assert_eq!(intset(&write_intset(&[5, 4]), &mut |_| Some(())), None);
        assert_eq!(intset(&write_intset(&[5, 5]), &mut |_| Some(())), None);
    }
}
