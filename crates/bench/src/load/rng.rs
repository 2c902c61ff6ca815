//! Seeded randomness: xoshiro256++ (Blackman and Vigna), seeded through splitmix64.

/// A generator whose sequence depends on its seed alone, on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        let mut z = seed;
        let state = std::array::from_fn(|_| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        });
        Rng { state }
    }

    /// The next 64 bits.
    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number in `0.0..1.0`, on a grid of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number in `0..bound`; `bound` is at least 1.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // Multiply-shift: the bias is below 2^-32 for any bound, far under what a load test can see.
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// An exponentially distributed number with mean 1.
    #[inline]
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_reference_sequence() {
        // xoshiro256++ from the state 1, 2, 3, 4, as in the authors' test vectors.
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let got: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(
            got,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386
            ]
        );
    }

    #[test]
    fn bounds_hold_and_all_values_occur() {
        let mut rng = Rng::new(7);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
            let unit = rng.unit();
            assert!((0.0..1.0).contains(&unit));
        }
        assert!(seen.iter().all(|&n| (800..1_200).contains(&n)), "{seen:?}");
    }
}
