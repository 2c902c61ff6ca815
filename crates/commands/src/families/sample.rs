//! Random choices without repetition.

use std::collections::HashSet;

use crate::Rng;

/// Most elements, repetitions counted, that one command picks at random.
pub(super) const MAX_PICKS: u64 = 1 << 24;

/// `count` of the numbers below `len`, ascending; every such selection is equally likely. `count` is at most `len`.
pub(super) fn sample(rng: &mut Rng, len: usize, count: usize) -> Vec<usize> {
    let mut chosen = Vec::with_capacity(count);
    if count.saturating_mul(3) > len {
        // Knuth's algorithm S: one decision for each number.
        for number in 0..len {
            if rng.below(len - number) < count - chosen.len() {
                chosen.push(number);
            }
        }
    } else {
        // Floyd's algorithm: one step for each number chosen.
        let mut seen = HashSet::with_capacity(count);
        for bound in len - count..len {
            let number = rng.below(bound + 1);
            let number = if seen.insert(number) { number } else { bound };
            seen.insert(number);
            chosen.push(number);
        }
        chosen.sort_unstable();
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selection_is_as_likely() {
        for (len, count) in [(10, 2), (12, 3), (5, 3), (6, 5), (7, 7), (4, 0)] {
            let mut rng = Rng::new(len as u64);
            let mut hits = vec![0; len];
            let rounds = 20_000;
            for _ in 0..rounds {
                let chosen = sample(&mut rng, len, count);
                assert!(chosen.len() == count && chosen.is_sorted_by(|a, b| a < b));
                chosen.iter().for_each(|at| hits[*at] += 1);
            }
            let expected = rounds * count / len;
            let near = |hits: &usize| hits.abs_diff(expected) <= expected / 10;
            assert!(hits.iter().all(near), "{len} {count}: {hits:?}");
        }
    }
}
