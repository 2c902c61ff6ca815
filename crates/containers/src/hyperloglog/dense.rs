//! All registers, 6 bits each, from the lowest bit of a byte to its highest.

use super::REGISTERS;

const BITS: usize = 6;
const MAX: u16 = (1 << BITS) - 1;

/// Bytes of all registers.
pub(super) const LEN: usize = REGISTERS * BITS / 8;

/// All registers in order, four at a time. `registers` must have [`LEN`] bytes.
pub(super) fn fours(registers: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    let (triples, _) = registers.as_chunks::<3>();
    triples.iter().map(|&[a, b, c]| {
        [
            a & 63,
            (a >> 6 | b << 2) & 63,
            (b >> 4 | c << 4) & 63,
            c >> 2,
        ]
    })
}

/// Sets a register.
pub(super) fn set(registers: &mut [u8], index: usize, value: u8) {
    let (at, shift) = (index * BITS / 8, index * BITS % 8);
    let mask = MAX << shift;
    let word = load(registers, at) & !mask | u16::from(value) << shift;
    let [low, high] = word.to_le_bytes();
    registers[at] = low;
    if let Some(byte) = registers.get_mut(at + 1) {
        *byte = high;
    }
}

/// Raises a register; true when it was lower.
pub(super) fn raise(registers: &mut [u8], index: usize, value: u8) -> bool {
    let (at, shift) = (index * BITS / 8, index * BITS % 8);
    let old = (load(registers, at) >> shift & MAX) as u8;
    if value <= old {
        return false;
    }
    set(registers, index, value);
    true
}

/// The two bytes at `at`; behind the end there are zeros.
fn load(registers: &[u8], at: usize) -> u16 {
    let high = registers.get(at + 1).copied().unwrap_or(0);
    u16::from_le_bytes([registers[at], high])
}
