//! All registers, 6 bits each, from the lowest bit of a byte to its highest.

use super::REGISTERS;

const BITS: usize = 6;
const MAX: u16 = (1 << BITS) - 1;

/// Bytes of all registers.
pub(super) const LEN: usize = REGISTERS * BITS / 8;

/// Calls `f` with each register in order. `registers` must have [`LEN`] bytes.
pub(super) fn each(registers: &[u8], mut f: impl FnMut(u8)) {
    let (triples, _) = registers.as_chunks::<3>();
    for &[a, b, c] in triples {
        f(a & 63);
        f((a >> 6 | b << 2) & 63);
        f((b >> 4 | c << 4) & 63);
        f(c >> 2);
    }
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
