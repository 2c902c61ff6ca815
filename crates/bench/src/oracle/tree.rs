//! A row of numbers with "add to a prefix" and "largest of a stretch" in logarithmic time.

/// Segment tree whose additions stay at the nodes that they cover.
#[derive(Debug)]
pub(super) struct MaxTree {
    leaves: usize,
    /// Largest of the subtree, what was added at the node itself included.
    largest: Vec<f64>,
    added: Vec<f64>,
}

impl MaxTree {
    /// A row of these numbers.
    #[must_use]
    pub(super) fn new(numbers: &[f64]) -> MaxTree {
        let leaves = numbers.len().next_power_of_two().max(1);
        let mut largest = vec![f64::NEG_INFINITY; 2 * leaves];
        largest[leaves..leaves + numbers.len()].copy_from_slice(numbers);
        for node in (1..leaves).rev() {
            largest[node] = largest[2 * node].max(largest[2 * node + 1]);
        }
        MaxTree {
            leaves,
            largest,
            added: vec![0.0; 2 * leaves],
        }
    }

    /// Adds `amount` to the first `count` numbers.
    pub(super) fn add_to_first(&mut self, count: usize, amount: f64) {
        self.add(1, 0, self.leaves, count, amount);
    }

    fn add(&mut self, node: usize, from: usize, to: usize, count: usize, amount: f64) {
        if from >= count {
            return;
        }
        if to <= count {
            self.largest[node] += amount;
            self.added[node] += amount;
            return;
        }
        let middle = from.midpoint(to);
        self.add(2 * node, from, middle, count, amount);
        self.add(2 * node + 1, middle, to, count, amount);
        self.largest[node] =
            self.largest[2 * node].max(self.largest[2 * node + 1]) + self.added[node];
    }

    /// The largest of the numbers `from..to`; negative infinity if there is none.
    #[must_use]
    pub(super) fn largest(&self, from: usize, to: usize) -> f64 {
        self.query(1, 0, self.leaves, from, to)
    }

    fn query(&self, node: usize, left: usize, right: usize, from: usize, to: usize) -> f64 {
        if right <= from || to <= left {
            return f64::NEG_INFINITY;
        }
        if from <= left && right <= to {
            return self.largest[node];
        }
        let middle = left.midpoint(right);
        let below = self.query(2 * node, left, middle, from, to);
        below.max(self.query(2 * node + 1, middle, right, from, to)) + self.added[node]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_maxima_agree_with_a_plain_row() {
        let mut plain: Vec<f64> = (0..13).map(|n| f64::from(n * 7 % 5)).collect();
        let mut tree = MaxTree::new(&plain);
        for round in 0..40_usize {
            let (count, amount) = (round * 5 % 14, (round % 3) as f64 - 1.0);
            plain[..count]
                .iter_mut()
                .for_each(|number| *number += amount);
            tree.add_to_first(count, amount);
            for from in 0..13 {
                for to in from + 1..=13 {
                    let largest = plain[from..to].iter().copied().fold(f64::MIN, f64::max);
                    assert_eq!(tree.largest(from, to), largest, "{round} {from}..{to}");
                }
            }
        }
        assert_eq!(tree.largest(4, 4), f64::NEG_INFINITY);
    }
}
