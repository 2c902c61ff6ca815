//! The estimate from how often each register value occurs.

use super::{RANK_BITS, REGISTERS};

/// One more than the largest value that 6 bits can hold.
pub(super) const RANKS: usize = 64;

/// 1 / (2 ln 2).
const ALPHA_INF: f64 = 0.721_347_520_444_481_7;

/// How many registers hold each value, of registers in fours. Most of them are alike, so each of the four is counted by
/// itself: one count would wait for the one before it.
pub(super) fn histogram(fours: impl Iterator<Item = [u8; 4]>) -> [u32; RANKS] {
    let mut counts = [[0u32; RANKS]; 4];
    for four in fours {
        for (counts, value) in counts.iter_mut().zip(four) {
            counts[usize::from(value) % RANKS] += 1;
        }
    }
    std::array::from_fn(|value| counts.iter().map(|counts| counts[value]).sum())
}

/// The estimated number of distinct elements. `histogram[v]` registers hold `v`.
pub(super) fn cardinality(histogram: &[u32; RANKS]) -> u64 {
    let top = RANK_BITS as usize;
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(histogram[top + 1])) / m);
    for &registers in histogram[1..=top].iter().rev() {
        z += f64::from(registers);
        z *= 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    (ALPHA_INF * m * m / z).round() as u64
}

/// The correction for registers that are still zero.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let mut y = 1.0;
    let mut z = x;
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

/// The correction for registers that are full.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let mut y = 1.0;
    let mut z = 1.0 - x;
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}
