//! LZF, with which redis-server compresses longer strings in a file.

/// Most bytes that one byte of input can stand for: a run of 264 bytes takes three.
const EXPANSION_MAX: usize = 264;

/// The `len` bytes that `input` stands for; `None` when it does not stand for exactly so many. Allocates no more than
/// the input can give.
pub(crate) fn decompress(input: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > input.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let mut output = Vec::with_capacity(len);
    let mut input = input.iter().copied();
    while let Some(control) = input.next() {
        let control = usize::from(control);
        if control < 32 {
            for _ in 0..=control {
                output.push(input.next()?);
            }
        } else {
            let mut count = control >> 5;
            if count == 7 {
                count += usize::from(input.next()?);
            }
            let distance = ((control & 31) << 8 | usize::from(input.next()?)) + 1;
            let start = output.len().checked_sub(distance)?;
            for at in start..start + count + 2 {
                output.push(output[at]);
            }
        }
        if output.len() > len {
            return None;
        }
    }
    (output.len() == len).then_some(output)
}

/// Most literal bytes in a row.
const LITERALS_MAX: usize = 32;
/// How far back a run can lie.
const DISTANCE_MAX: usize = 1 << 13;
/// Places that are remembered.
const PLACES: usize = 1 << 16;

/// Compresses one text after the other; what it remembers of one is of no use for the next, and need not be cleared.
#[derive(Default)]
pub(crate) struct Compressor {
    /// Positions behind `start` by what was there; those before are of texts before.
    places: Vec<u32>,
    start: u32,
}

/// As [`Compressor::compress`], for one text.
#[cfg(test)]
pub(crate) fn compress(input: &[u8]) -> Option<Vec<u8>> {
    Compressor::default().compress(input)
}

impl Compressor {
    /// What stands for `input` in fewer bytes; `None` when that saves less than five.
    ///
    /// Of the many ways to say the same it takes the one that redis-server takes, so that payloads are equal: which places
    /// are remembered, where a run ends, and what has to be left of the room.
    pub(crate) fn compress(&mut self, input: &[u8]) -> Option<Vec<u8>> {
        let len = u32::try_from(input.len()).ok()?;
        let Some(end) = self.start.checked_add(len) else {
            *self = Compressor::default();
            self.start = len;
            return self.compress_behind(input, 0);
        };
        let start = std::mem::replace(&mut self.start, end);
        self.compress_behind(input, start)
    }

    /// Positions before `start` were remembered of other texts.
    fn compress_behind(&mut self, input: &[u8], start: u32) -> Option<Vec<u8>> {
        let most = input.len().checked_sub(4).filter(|&most| most > 0)?;
        self.places.resize(PLACES, 0);
        compress_with(&mut self.places, start, input, most)
    }
}

fn compress_with(places: &mut [u32], start: u32, input: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut output = Literals::new(most);
    let mut at = 0;
    while at + 2 < input.len() {
        let place = &mut places[place(&input[at..])];
        let before = std::mem::replace(place, start + at as u32);
        let before = before.saturating_sub(start) as usize;
        // The first byte of all counts as not seen.
        let found = before > 0
            && before < at
            && at - before <= DISTANCE_MAX
            && input[before..before + 3] == input[at..at + 3];
        if !found {
            output.literal(input[at])?;
            at += 1;
            continue;
        }
        let run = common(&input[before..], &input[at..]);
        output.run(run, at - before - 1)?;
        at += run;
        if at + 2 >= input.len() {
            break;
        }
        for inside in at - 2..at {
            places[self::place(&input[inside..])] = start + inside as u32;
        }
    }
    if output.bytes.len() + 3 > most {
        return None;
    }
    for &byte in &input[at..] {
        output.push(byte);
    }
    Some(output.finish())
}

/// The place at which the position of these three bytes is remembered.
fn place(bytes: &[u8]) -> usize {
    let word = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
    (word >> 8).wrapping_sub(word.wrapping_mul(5)) as usize % PLACES
}

/// How many bytes both begin with, of which three are known, as far as a run goes: the last two of all only join a run
/// when it is looked at by sixteens.
fn common(before: &[u8], now: &[u8]) -> usize {
    const STRIDE: usize = 16;
    let most = (now.len() - 2).min(EXPANSION_MAX);
    let mut run = 2;
    if most > STRIDE {
        for _ in 0..STRIDE {
            run += 1;
            if before[run] != now[run] {
                return run;
            }
        }
    }
    loop {
        run += 1;
        if run >= most || before[run] != now[run] {
            return run;
        }
    }
}

/// Output with a row of literal bytes at its end, in front of which is a byte for their number.
struct Literals {
    bytes: Vec<u8>,
    /// Literal bytes in the row.
    row: usize,
    most: usize,
}

impl Literals {
    fn new(most: usize) -> Literals {
        let mut bytes = Vec::with_capacity(most + 1);
        bytes.push(0);
        Literals {
            bytes,
            row: 0,
            most,
        }
    }

    /// Adds a literal byte if there is room.
    fn literal(&mut self, byte: u8) -> Option<()> {
        if self.bytes.len() >= self.most {
            return None;
        }
        self.push(byte);
        Some(())
    }

    fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
        self.row += 1;
        if self.row == LITERALS_MAX {
            self.end_row();
            self.bytes.push(0);
        }
    }

    /// Writes the number of literals in front of them.
    fn end_row(&mut self) {
        if self.row == 0 {
            self.bytes.pop();
        } else {
            let head = self.bytes.len() - self.row - 1;
            self.bytes[head] = self.row as u8 - 1;
            self.row = 0;
        }
    }

    /// Adds a run if there is room; `distance` is one less than the distance.
    fn run(&mut self, run: usize, distance: usize) -> Option<()> {
        if self.bytes.len() - usize::from(self.row == 0) + 4 >= self.most {
            return None;
        }
        self.end_row();
        let (high, low) = ((distance >> 8) as u8, distance as u8);
        match run - 2 {
            count @ 1..7 => self.bytes.push((count as u8) << 5 | high),
            count => {
                let bytes = [7 << 5 | high, (count - 7) as u8];
                self.bytes.extend_from_slice(&bytes);
            }
        }
        self.bytes.extend_from_slice(&[low, 0]);
        Some(())
    }

    fn finish(mut self) -> Vec<u8> {
        self.end_row();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Compressor, compress, decompress};

    #[test]
    fn what_came_before_makes_no_difference() {
        let texts = [
            "abcabcabcabcabcabcabc",
            "cabcabcabcabcabcabcabcabc",
            "abcabcabcabcabcabcabc",
        ];
        let mut one = Compressor::default();
        for start in [0, 5, u32::MAX - 30] {
            one.start = start;
            one.places.clear();
            for text in texts {
                assert_eq!(one.compress(text.as_bytes()), compress(text.as_bytes()));
            }
        }
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let mut random = 1_u64;
        for len in [0, 4, 5, 21, 40, 300, 5000, 70_000] {
            for kinds in [1, 2, 7, 60, 256] {
                let input: Vec<u8> = (0..len)
                    .map(|_| {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        ((random >> 33) % kinds) as u8
                    })
                    .collect();
                if let Some(short) = compress(&input) {
                    assert!(short.len() + 4 <= input.len());
                    assert_eq!(decompress(&short, input.len()), Some(input));
                } else {
                    assert!(kinds > 2 || len < 40, "{len} bytes of {kinds} kinds");
                }
            }
        }
    }

    #[test]
    fn literals_and_references() {
        assert_eq!(decompress(&[2, b'a', b'b', b'c'], 3), Some(b"abc".to_vec()));
        // One literal, then eight bytes from one back.
        assert_eq!(
            decompress(&[0, b'a', 0xC0, 0], 9),
            Some(b"aaaaaaaaa".to_vec())
        );
        // A long run: seven, and three more, and two.
        assert_eq!(decompress(&[0, b'a', 0xE0, 3, 0], 13), Some(vec![b'a'; 13]));
    }

    #[test]
    fn nothing_wrong_is_accepted() {
        assert_eq!(decompress(&[2, b'a'], 3), None, "literals missing");
        assert_eq!(decompress(&[0, b'a', 0xC0], 9), None, "distance missing");
        assert_eq!(
            decompress(&[0, b'a', 0xC0, 1], 9),
            None,
            "reference before the start"
        );
        assert_eq!(decompress(&[0, b'a'], 2), None, "too short");
        assert_eq!(decompress(&[1, b'a', b'b'], 1), None, "too long");
        assert_eq!(
            decompress(&[0, b'a'], usize::MAX),
            None,
            "a length no input of this size can give"
        );
    }
}
