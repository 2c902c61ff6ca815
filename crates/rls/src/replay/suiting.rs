//! Which other limits would have suited what was asked of one.

use serde::Serialize;
use tollgate_limiter::{Cost, Method, Quota, Slot, Timestamp};

/// The shares of keys, per ten thousand, for each of which the least limit is told that denies them nothing.
const SHARES: [u64; 5] = [5_000, 9_000, 9_900, 9_990, 10_000];
/// Limits beyond are not looked for.
const MAX_LIMIT: u64 = 1 << 53;

/// What a limit would have denied, if it had been the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Suiting {
    /// Units per window; a burst is as much more or less as the limit is.
    pub limit: u64,
    /// Requests that it denies.
    pub denied: u64,
    /// Keys of which it denies some.
    pub keys_denied: u64,
    /// It is the one in the rules.
    pub in_force: bool,
}

/// One request for units of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// Index of the counter.
    pub(super) key: u32,
    pub(super) at: Timestamp,
    pub(super) cost: u64,
}

/// The limit itself, and for some shares of the keys the least that would have denied them nothing, from the least to the greatest.
/// `asks` are in the order of their times. Nothing for leases: whether those are denied depends on when others end.
pub(super) fn suiting(method: Method, quota: Quota, asks: &mut [Ask]) -> Vec<Suiting> {
    if method == Method::Concurrency {
        return Vec::new();
    }
    // Stable: the times of each key stay in order.
    asks.sort_by_key(|ask| ask.key);
    let of_keys: Vec<&[Ask]> = asks.chunk_by(|one, next| one.key == next.key).collect();
    let least = of_keys.iter().map(|asks| least(method, &quota, asks));
    let least: Vec<u64> = least.collect();
    let mut sorted = least.clone();
    sorted.sort_unstable();
    let at_share = |share: &u64| {
        let keys = (sorted.len() as u64 * share).div_ceil(10_000);
        sorted[keys.saturating_sub(1) as usize]
    };
    let mut limits: Vec<u64> = match sorted.is_empty() {
        true => Vec::new(),
        false => SHARES.iter().map(at_share).collect(),
    };
    limits.push(quota.limit);
    limits.retain(|&limit| limit <= MAX_LIMIT || limit == quota.limit);
    limits.sort_unstable();
    limits.dedup();
    let told = limits.into_iter().map(|limit| {
        let tried = scaled(method, &quota, limit);
        let short = least
            .iter()
            .zip(&of_keys)
            .filter(|(least, _)| **least > limit);
        let denied: Vec<u64> = short
            .map(|(_, asks)| denied(method, &tried, asks))
            .collect();
        Suiting {
            limit,
            denied: denied.iter().sum(),
            keys_denied: denied.len() as u64,
            in_force: limit == quota.limit,
        }
    });
    told.collect()
}

/// The least limit that denies none of what was asked for one key; [`u64::MAX`] if there is none up to [`MAX_LIMIT`].
fn least(method: Method, quota: &Quota, asks: &[Ask]) -> u64 {
    let suits = |limit| denies_nothing(method, &scaled(method, quota, limit), asks);
    let mut high = asks.iter().map(|ask| ask.cost).max().unwrap_or(0).max(1);
    let mut low = 0;
    while !suits(high) {
        if high >= MAX_LIMIT {
            return u64::MAX;
        }
        low = high;
        high = high.saturating_mul(2).min(MAX_LIMIT);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match suits(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

/// The quota with another limit.
fn scaled(method: Method, quota: &Quota, limit: u64) -> Quota {
    let burst = match method.has_burst() && quota.limit > 0 {
        true => {
            let burst = u128::from(quota.burst) * u128::from(limit) / u128::from(quota.limit);
            u64::try_from(burst).unwrap_or(u64::MAX).max(1)
        }
        false => limit,
    };
    Quota {
        limit,
        burst,
        ..*quota
    }
}

/// Whether nothing of what was asked is denied.
fn denies_nothing(method: Method, quota: &Quota, asks: &[Ask]) -> bool {
    decisions(method, quota, asks).all(|allowed| allowed)
}

/// How many requests are denied.
fn denied(method: Method, quota: &Quota, asks: &[Ask]) -> u64 {
    let denied = decisions(method, quota, asks).filter(|allowed| !allowed);
    denied.count() as u64
}

fn decisions(method: Method, quota: &Quota, asks: &[Ask]) -> impl Iterator<Item = bool> {
    let mut slot = Slot::Small(None);
    asks.iter().map(move |ask| {
        let decided = slot.decide(method, quota, Cost(ask.cost), false, ask.at);
        decided.is_ok_and(|(decision, _)| decision.allowed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tollgate_limiter::AlgorithmKind;

    fn asks(times: &[(u32, i64)]) -> Vec<Ask> {
        let ask = |&(key, secs)| Ask {
            key,
            at: Timestamp::from_secs(secs),
            cost: 1,
        };
        times.iter().map(ask).collect()
    }

    const WINDOW: Method = Method::Small(AlgorithmKind::FixedWindowEpoch);

    #[test]
    fn the_limits_of_the_shares_are_told() {
        // Nine keys ask once, one asks four times in one minute.
        let mut times: Vec<(u32, i64)> = (0..9).map(|key| (key, 0)).collect();
        times.extend([(9, 1), (9, 2), (9, 3), (9, 4), (9, 61)]);
        let minute = Quota::new(2, 60_000_000_000);
        let told = suiting(WINDOW, minute, &mut asks(&times));
        let of = |limit, denied, keys_denied, in_force| Suiting {
            limit,
            denied,
            keys_denied,
            in_force,
        };
        assert_eq!(
            told,
            [of(1, 3, 1, false), of(2, 2, 1, true), of(4, 0, 0, false)]
        );
        assert_eq!(suiting(WINDOW, minute, &mut []), [of(2, 0, 0, true)]);
        assert_eq!(suiting(Method::Concurrency, minute, &mut asks(&times)), []);
    }

    #[test]
    fn bursts_grow_with_their_limits() {
        // Six at once, of a limit whose burst is a third of it.
        let quota = Quota::new(30, 60_000_000_000).with_burst(10);
        let bucket = Method::Small(AlgorithmKind::TokenBucket);
        let told = suiting(bucket, quota, &mut asks(&[(0, 5); 6]));
        let limits: Vec<u64> = told.iter().map(|suiting| suiting.limit).collect();
        assert_eq!(limits, [18, 30]);
    }

    proptest! {
        /// No smaller one would do, whatever the algorithm.
        #[test]
        fn the_least_limit_denies_nothing_and_one_less_something(
            gaps in prop::collection::vec((0i64..20_000, 1u64..4), 1..60),
            kind in 0usize..5,
            burst in 1u64..60,
        ) {
            let kinds = [
                AlgorithmKind::FixedWindow,
                AlgorithmKind::FixedWindowEpoch,
                AlgorithmKind::SlidingWindow,
                AlgorithmKind::TokenBucket,
                AlgorithmKind::Gcra,
            ];
            let method = Method::Small(kinds[kind]);
            let quota = Quota::new(30, 60_000_000_000).with_burst(burst);
            let mut now = 0;
            let asks: Vec<Ask> = gaps
                .iter()
                .map(|&(gap, cost)| {
                    now += gap;
                    Ask { key: 0, at: Timestamp::from_millis(now), cost }
                })
                .collect();
            let limit = least(method, &quota, &asks);
            let denied_by = |limit| denied(method, &scaled(method, &quota, limit), &asks);
            prop_assert_eq!(denied_by(limit), 0);
            prop_assert!(limit == 1 || denied_by(limit - 1) > 0);
        }
    }
}
