//! The longest common subsequence of two byte strings.

use std::ops::Range;

/// The table of lengths for every pair of prefixes, and the strings it is about.
pub struct Lcs<'a> {
    a: &'a [u8],
    b: &'a [u8],
    lengths: Vec<u32>,
}

/// A run of bytes that the strings have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Match {
    /// Where it is in the first string.
    pub a: Range<usize>,
    /// Where it is in the second string.
    pub b: Range<usize>,
}

impl<'a> Lcs<'a> {
    /// Bytes that [`Lcs::new`] allocates for strings of these lengths.
    pub fn table_bytes(a: usize, b: usize) -> u128 {
        (a as u128 + 1) * (b as u128 + 1) * size_of::<u32>() as u128
    }

    /// Compares two strings: time and memory grow with the product of their lengths.
    pub fn new(a: &'a [u8], b: &'a [u8]) -> Lcs<'a> {
        let width = b.len() + 1;
        let mut lengths = vec![0u32; (a.len() + 1) * width];
        for (i, x) in a.iter().enumerate() {
            let (above, row) = lengths[i * width..].split_at_mut(width);
            for (j, y) in b.iter().enumerate() {
                row[j + 1] = if x == y {
                    above[j] + 1
                } else {
                    above[j + 1].max(row[j])
                };
            }
        }
        Lcs { a, b, lengths }
    }

    fn length_of(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * (self.b.len() + 1) + j]
    }

    /// Bytes of the subsequence.
    pub fn len(&self) -> usize {
        self.length_of(self.a.len(), self.b.len()) as usize
    }

    /// Whether the strings have no byte in common.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The subsequence.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.each_pair(|i, _| bytes.push(self.a[i]));
        bytes.reverse();
        bytes
    }

    /// The runs it consists of, from the last to the first.
    pub fn matches(&self) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        self.each_pair(|i, j| match matches.last_mut() {
            Some(last) if last.a.start == i + 1 && last.b.start == j + 1 => {
                (last.a.start, last.b.start) = (i, j);
            }
            _ => matches.push(Match {
                a: i..i + 1,
                b: j..j + 1,
            }),
        });
        matches
    }

    /// Calls `f` with the positions of each common byte, from the last to the first.
    fn each_pair(&self, mut f: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            if self.a[i - 1] == self.b[j - 1] {
                (i, j) = (i - 1, j - 1);
                f(i, j);
            } else if self.length_of(i - 1, j) > self.length_of(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_subsequence(part: &[u8], of: &[u8]) -> bool {
        let mut rest = of.iter();
        part.iter().all(|byte| rest.any(|other| other == byte))
    }

    /// By definition, without a table.
    fn brute_force(a: &[u8], b: &[u8]) -> usize {
        (0u32..1 << a.len())
            .map(|chosen| {
                let part: Vec<u8> = (0..a.len())
                    .filter(|at| chosen >> at & 1 == 1)
                    .map(|at| a[at])
                    .collect();
                if is_subsequence(&part, b) {
                    part.len()
                } else {
                    0
                }
            })
            .max()
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn it_is_common_and_the_longest(
            a in prop::collection::vec(b'a'..b'd', 0..9),
            b in prop::collection::vec(b'a'..b'd', 0..12),
        ) {
            let lcs = Lcs::new(&a, &b);
            let bytes = lcs.to_bytes();
            prop_assert_eq!(bytes.len(), lcs.len());
            prop_assert!(is_subsequence(&bytes, &a) && is_subsequence(&bytes, &b));
            prop_assert_eq!(lcs.len(), brute_force(&a, &b));
            let joined: Vec<u8> = lcs.matches().iter().rev().flat_map(|m| a[m.a.clone()].to_vec()).collect();
            prop_assert_eq!(joined, bytes);
            for run in lcs.matches() {
                prop_assert_eq!(&a[run.a], &b[run.b]);
            }
        }
    }

    #[test]
    fn runs_come_from_the_end() {
        let lcs = Lcs::new(b"ohmytext", b"mynewtext");
        assert_eq!(lcs.to_bytes(), b"mytext");
        let expected = [Match { a: 4..8, b: 5..9 }, Match { a: 2..4, b: 0..2 }];
        assert_eq!(lcs.matches(), expected);
    }
}
