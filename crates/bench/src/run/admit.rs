//! Limits that admit a wanted share of the offered load.
//!
//! What each key is offered in a step is known before it: key choice and schedule follow from the seed. So the limit is
//! computed, not tried out, for every distribution alike.

use std::time::Duration;

use crate::record::Admit;

/// What a step offers.
#[derive(Clone, Debug)]
pub(crate) struct Offered<'a> {
    /// Requests per key.
    pub counts: &'a [u64],
    /// Length of the step.
    pub length: Duration,
    /// Window of the limit in seconds.
    pub window_s: u64,
    /// Algorithm that decides.
    pub algorithm: &'a str,
}

impl Offered<'_> {
    /// Most that one key gets under `limit`: windows begin anew, buckets fill up while the step goes on.
    fn most(&self, limit: u64) -> f64 {
        let windows = self.length.as_secs_f64() / self.window_s.max(1) as f64;
        let limit = limit as f64;
        match self.algorithm {
            "gcra" | "token-bucket" | "leaky-bucket" => limit * (1.0 + windows),
            _ => limit * (windows.floor() + 1.0),
        }
    }

    /// Share of the offered load that `limit` admits; 0 if nothing is offered.
    #[must_use]
    pub(crate) fn share(&self, limit: u64) -> f64 {
        let most = self.most(limit);
        let offered: u64 = self.counts.iter().sum();
        let admitted: f64 = self.counts.iter().map(|n| (*n as f64).min(most)).sum();
        if offered == 0 {
            0.0
        } else {
            admitted / offered as f64
        }
    }

    /// The limit that comes nearest to admitting `ratio`; one of `among`, where only some limits exist.
    #[must_use]
    pub(crate) fn limit(&self, ratio: f64, among: Option<&[u64]>) -> Admit {
        let limit = match among {
            Some(limits) => {
                let distance = |limit: u64| (self.share(limit) - ratio).abs();
                let best = limits
                    .iter()
                    .copied()
                    .min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
                best.unwrap_or(1)
            }
            None => self.nearest(ratio),
        };
        Admit {
            wanted_ratio: ratio,
            limit,
            expected_ratio: self.share(limit),
            seen_ratio: None,
        }
    }

    fn nearest(&self, ratio: f64) -> u64 {
        let highest = self.counts.iter().copied().max().unwrap_or(0).max(1);
        if ratio >= 1.0 {
            // Room for what is counted although its answer is lost.
            return highest.saturating_mul(2);
        }
        // The lowest limit that admits as much; the share never falls as the limit rises.
        let (mut low, mut high) = (1, highest);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.share(middle) >= ratio {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let below = low.saturating_sub(1).max(1);
        if (self.share(below) - ratio).abs() < (self.share(low) - ratio).abs() {
            below
        } else {
            low
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered<'a>(counts: &'a [u64], algorithm: &'a str, length_s: u64) -> Offered<'a> {
        Offered {
            counts,
            length: Duration::from_secs(length_s),
            window_s: 60,
            algorithm,
        }
    }

    #[test]
    fn one_key_gets_its_share() {
        let counts = [10_000];
        let load = offered(&counts, "fixed-window", 10);
        for ratio in [0.5, 0.01, 0.999] {
            let admit = load.limit(ratio, None);
            assert!((admit.expected_ratio - ratio).abs() < 1e-4, "{admit:?}");
        }
        assert_eq!(load.limit(0.5, None).limit, 5_000);
        let all = load.limit(1.0, None);
        assert_eq!((all.limit, all.expected_ratio), (20_000, 1.0));
    }

    #[test]
    fn a_hot_key_and_many_cold_ones_share_a_limit() {
        let mut counts = vec![100; 99];
        counts.push(9_000);
        let load = offered(&counts, "fixed-window", 10);
        let admit = load.limit(0.5, None);
        // 99 keys of 100 are 9,900 of 18,900: a limit of 94 admits 94 x 100 keys = 9,400, of 95 9,500.
        assert!((admit.expected_ratio - 0.5).abs() < 0.003, "{admit:?}");
        assert!((90..=100).contains(&admit.limit), "{admit:?}");
    }

    #[test]
    fn windows_and_refills_count() {
        let counts = [12_000];
        let twice = offered(&counts, "fixed-window", 60);
        assert_eq!(twice.limit(0.5, None).limit, 3_000);
        let bucket = offered(&counts, "gcra", 60);
        assert_eq!(bucket.limit(0.5, None).limit, 3_000);
        let short = offered(&counts, "gcra", 6);
        assert!((short.limit(0.5, None).limit as f64 - 6_000.0 / 1.1).abs() < 2.0);
    }

    #[test]
    fn where_few_limits_exist_the_nearest_is_taken_and_said() {
        let counts = [10_000];
        let load = offered(&counts, "fixed-window", 10);
        let admit = load.limit(0.4, Some(&[1, 1_000, 2_000, 5_000, 10_000]));
        assert_eq!((admit.limit, admit.expected_ratio), (5_000, 0.5));
        assert_eq!(offered(&[], "gcra", 1).limit(0.5, None).expected_ratio, 0.0);
    }
}
