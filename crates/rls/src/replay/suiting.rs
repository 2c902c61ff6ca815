//! Which other limits would have suited what was asked of one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use tollgate_limiter::{Act, Cost, Decision, Method, Quota, Slot, SlotRequest, Timestamp};

use super::recording::Event;

/// The shares of keys, per ten thousand, for each of which the least limit is told that denies them nothing.
const SHARES: [u64; 5] = [5_000, 9_000, 9_900, 9_990, 10_000];
/// Limits beyond are not looked for.
const MAX_LIMIT: u64 = 1 << 53;

/// What a limit would have denied, if it had been the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Suiting {
    /// Units per window, or in use at the same time; a burst is as much more or less as the limit is.
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
    /// Index of the request in the recording.
    pub(super) event: u32,
    pub(super) cost: u64,
    /// It gives the units back.
    pub(super) gives_back: bool,
}

/// The limit itself, and for some shares of the keys the least that would have denied them nothing, from the least to the greatest.
/// `asks` are in the order of their times. Of requests that hold places the recording says when they end; those of which it does
/// not hold theirs for as long as a lease lasts.
pub(super) fn suiting(
    method: Method,
    quota: Quota,
    asks: &mut [Ask],
    events: &[Event],
) -> Vec<Suiting> {
    // Stable: the times of each key stay in order.
    asks.sort_by_key(|ask| ask.key);
    let of_keys: Vec<&[Ask]> = asks.chunk_by(|one, next| one.key == next.key).collect();
    let least = of_keys
        .iter()
        .map(|asks| least(method, &quota, asks, events));
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
            .map(|(_, asks)| denied(method, &tried, asks, events))
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
fn least(method: Method, quota: &Quota, asks: &[Ask], events: &[Event]) -> u64 {
    if method == Method::Concurrency {
        return most_in_use(quota, asks, events).map_or(u64::MAX, |most| most.max(1));
    }
    let suits = |limit| denies_nothing(method, &scaled(method, quota, limit), asks, events);
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

/// Most places that are in use at the same time where none is denied; `None` if there are more than a key can hold.
fn most_in_use(quota: &Quota, asks: &[Ask], events: &[Event]) -> Option<u64> {
    let method = Method::Concurrency;
    let mut decisions = decisions(method, scaled(method, quota, MAX_LIMIT), asks, events);
    decisions.try_fold(0, |most, decision| {
        let in_use = decision.limit - decision.remaining;
        decision.allowed.then_some(most.max(in_use))
    })
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
fn denies_nothing(method: Method, quota: &Quota, asks: &[Ask], events: &[Event]) -> bool {
    decisions(method, *quota, asks, events).all(|decision| decision.allowed)
}

/// How many requests are denied.
fn denied(method: Method, quota: &Quota, asks: &[Ask], events: &[Event]) -> u64 {
    let decisions = decisions(method, *quota, asks, events);
    decisions.filter(|decision| !decision.allowed).count() as u64
}

/// What is decided of the requests for one key that take units.
fn decisions(
    method: Method,
    quota: Quota,
    asks: &[Ask],
    events: &[Event],
) -> impl Iterator<Item = Decision> {
    let mut trial = Trial {
        method,
        quota,
        slot: Slot::Small(None),
        ends: BinaryHeap::new(),
    };
    asks.iter()
        .filter_map(move |ask| trial.ask(ask, &events[ask.event as usize]))
}

/// One counter of a limit.
struct Trial {
    method: Method,
    quota: Quota,
    slot: Slot,
    /// When requests end that hold places, and their indices in the recording.
    ends: BinaryHeap<Reverse<(Timestamp, u32)>>,
}

impl Trial {
    /// The decision of a request; of one that gives units back there is none.
    fn ask(&mut self, ask: &Ask, event: &Event) -> Option<Decision> {
        let (method, quota) = (self.method, self.quota);
        self.end_until(event.at);
        if ask.gives_back {
            // Nobody else puts the state of another algorithm there.
            self.slot.refund(method, &quota, ask.cost, event.at).ok();
            return None;
        }
        let id = ask.event.to_be_bytes();
        let request = SlotRequest {
            method,
            quota,
            cost: Cost(ask.cost),
            act: match method {
                Method::Concurrency => Act::Hold {
                    id: &id,
                    ttl: quota.period,
                },
                _ => Act::Take,
            },
            slot: 0,
        };
        let decided = self.slot.act(&request, event.at);
        let decision = decided.map_or(Decision::DENIED, |(decision, _)| decision);
        if let (Method::Concurrency, true, Some(duration)) =
            (method, decision.allowed, event.duration)
        {
            let end = event.at.plus(duration);
            self.ends.push(Reverse((end, ask.event)));
        }
        Some(decision)
    }

    /// Gives back what is held by requests that have ended.
    fn end_until(&mut self, now: Timestamp) {
        while let Some(&Reverse((end, event))) = self.ends.peek()
            && end <= now
        {
            self.ends.pop();
            self.slot.release(&event.to_be_bytes(), end).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tollgate_limiter::{AlgorithmKind, Nanos};

    /// Asks for one unit each, by key and time.
    fn asks(times: &[(u32, i64)]) -> (Vec<Ask>, Vec<Event>) {
        let of_each = (0..).zip(times).map(|(event, &(key, secs))| {
            let ask = Ask {
                key,
                event,
                cost: 1,
                gives_back: false,
            };
            (ask, made(Timestamp::from_secs(secs), None))
        });
        of_each.unzip()
    }

    fn made(at: Timestamp, duration: Option<Nanos>) -> Event {
        Event {
            at,
            duration,
            request: 0,
        }
    }

    const SECOND: Nanos = 1_000_000_000;
    const MINUTE: Nanos = 60 * SECOND;
    const WINDOW: Method = Method::Small(AlgorithmKind::FixedWindowEpoch);

    fn told(limit: u64, denied: u64, keys_denied: u64, in_force: bool) -> Suiting {
        Suiting {
            limit,
            denied,
            keys_denied,
            in_force,
        }
    }

    #[test]
    fn the_limits_of_the_shares_are_told() {
        // Nine keys ask once, one asks four times in one minute.
        let mut times: Vec<(u32, i64)> = (0..9).map(|key| (key, 0)).collect();
        times.extend([(9, 1), (9, 2), (9, 3), (9, 4), (9, 61)]);
        let (mut asks, events) = asks(&times);
        let minute = Quota::new(2, MINUTE);
        assert_eq!(
            suiting(WINDOW, minute, &mut asks, &events),
            [
                told(1, 3, 1, false),
                told(2, 2, 1, true),
                told(4, 0, 0, false)
            ]
        );
        assert_eq!(suiting(WINDOW, minute, &mut [], &[]), [told(2, 0, 0, true)]);
        // Who does not say when it ends holds its place for as long as a lease lasts.
        assert_eq!(
            suiting(Method::Concurrency, minute, &mut asks, &events),
            [
                told(1, 3, 1, false),
                told(2, 2, 1, true),
                told(4, 0, 0, false)
            ]
        );
    }

    #[test]
    fn bursts_grow_with_their_limits() {
        // Six at once, of a limit whose burst is a third of it.
        let quota = Quota::new(30, MINUTE).with_burst(10);
        let bucket = Method::Small(AlgorithmKind::TokenBucket);
        let (mut asks, events) = asks(&[(0, 5); 6]);
        let told = suiting(bucket, quota, &mut asks, &events);
        let limits: Vec<u64> = told.iter().map(|suiting| suiting.limit).collect();
        assert_eq!(limits, [18, 30]);
    }

    proptest! {
        /// No smaller one would do, whatever the algorithm.
        #[test]
        fn the_least_limit_denies_nothing_and_one_less_something(
            gaps in prop::collection::vec((0i64..20_000, 1u64..4, prop::bool::weighted(0.2)), 1..60),
            kind in 0usize..7,
            burst in 1u64..60,
        ) {
            let method = [
                Method::Small(AlgorithmKind::FixedWindow),
                Method::Small(AlgorithmKind::FixedWindowEpoch),
                Method::Small(AlgorithmKind::SlidingWindow),
                Method::Small(AlgorithmKind::TokenBucket),
                Method::Small(AlgorithmKind::Gcra),
                Method::Log,
                Method::Concurrency,
            ][kind];
            let quota = Quota::new(30, MINUTE).with_burst(burst);
            let mut now = 0;
            let (mut asks, mut events) = (Vec::new(), Vec::new());
            for (event, &(gap, cost, gives_back)) in (0..).zip(&gaps) {
                now += gap;
                asks.push(Ask { key: 0, event, cost, gives_back });
                events.push(made(Timestamp::from_millis(now), Some(gap as u64 * 3_000_000)));
            }
            let limit = least(method, &quota, &asks, &events);
            let denied_by = |limit| denied(method, &scaled(method, &quota, limit), &asks, &events);
            prop_assert_eq!(denied_by(limit), 0);
            prop_assert!(limit == 1 || denied_by(limit - 1) > 0);
        }

        /// Places are those of requests that were admitted and have not ended, at most for as long as a lease lasts.
        #[test]
        fn places_are_in_use_from_a_request_until_its_end(
            made_of in prop::collection::vec((0u64..4, 1u64..4, prop::option::of(0u64..12)), 1..60),
            limit in 1u64..8,
        ) {
            let quota = Quota::new(limit, 8 * SECOND);
            let mut now = 0;
            let (mut asks, mut events) = (Vec::new(), Vec::new());
            let mut in_use: Vec<(u64, u64)> = Vec::new();
            let mut over = 0;
            for (event, &(gap, cost, duration)) in (0..).zip(&made_of) {
                now += gap;
                asks.push(Ask { key: 0, event, cost, gives_back: false });
                events.push(made(
                    Timestamp::from_secs(now as i64),
                    duration.map(|secs| secs * SECOND),
                ));
                in_use.retain(|(until, _)| *until > now);
                let places: u64 = in_use.iter().map(|(_, cost)| cost).sum();
                match places + cost <= limit {
                    true => in_use.push((now + duration.map_or(8, |secs| secs.min(8)), cost)),
                    false => over += 1,
                }
            }
            prop_assert_eq!(denied(Method::Concurrency, &quota, &asks, &events), over);
        }
    }
}
