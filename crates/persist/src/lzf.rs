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
/// Shortest and longest run that is taken from before.
const RUN: std::ops::RangeInclusive<usize> = 3..=EXPANSION_MAX;
/// How far back a run can lie.
const DISTANCE_MAX: usize = 1 << 13;
/// Places that are remembered.
const PLACES: usize = 1 << 14;

/// What stands for `input` in fewer bytes; `None` when that saves less than five.
pub(crate) fn compress(input: &[u8]) -> Option<Vec<u8>> {
    let most = input.len().checked_sub(4)?;
    // Where three bytes were last seen, by their hash; one more than the offset.
    let mut places = vec![0_u32; PLACES.min(input.len().next_power_of_two())];
    let mask = places.len() - 1;
    let mut output = Vec::with_capacity(most);
    let (mut at, mut literals) = (0, 0);
    while at + 2 < input.len() && output.len() < most {
        let seen = &mut places[hash(&input[at..]) & mask];
        let before = std::mem::replace(seen, u32::try_from(at + 1).ok()?) as usize;
        let distance = at + 1 - before;
        let run = match before.checked_sub(1) {
            Some(before) if distance <= DISTANCE_MAX => common(&input[before..], &input[at..]),
            _ => 0,
        };
        if !RUN.contains(&run) {
            at += 1;
            continue;
        }
        push_literals(&mut output, &input[literals..at]);
        push_run(&mut output, run, distance - 1);
        at += run;
        literals = at;
    }
    push_literals(&mut output, &input[literals..]);
    (output.len() <= most).then_some(output)
}

fn hash(bytes: &[u8]) -> usize {
    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    (word.wrapping_mul(0x9E37_79B1) >> 15) as usize
}

/// How many bytes both begin with, as far as a run can reach.
fn common(before: &[u8], now: &[u8]) -> usize {
    let pairs = before.iter().zip(now).take(*RUN.end());
    pairs.take_while(|(before, now)| before == now).count()
}

fn push_literals(output: &mut Vec<u8>, literals: &[u8]) {
    for chunk in literals.chunks(LITERALS_MAX) {
        output.push(chunk.len() as u8 - 1);
        output.extend_from_slice(chunk);
    }
}

/// `distance` is one less than the distance.
fn push_run(output: &mut Vec<u8>, run: usize, distance: usize) {
    let (high, low) = ((distance >> 8) as u8, distance as u8);
    match run - 2 {
        count @ 1..7 => output.push((count as u8) << 5 | high),
        count => output.extend_from_slice(&[7 << 5 | high, (count - 7) as u8]),
    }
    output.push(low);
}

#[cfg(test)]
mod tests {
    use super::{compress, decompress};

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
