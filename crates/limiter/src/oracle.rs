//! Brute-force models: each keeps the list of every admitted hit and decides from that list alone.
//!
//! They are slow and share no arithmetic with the algorithms, so that a mistake would have to be made twice.

use crate::fixed_window::Anchor;
use crate::types::{Cost, Decision, Quota, Timestamp};

/// A model of one limiter key.
pub trait Oracle {
    /// Decides one request and remembers it when it was admitted.
    fn decide(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Decision;
}

/// One admitted hit.
#[derive(Clone, Copy, Debug)]
struct Hit {
    at: i128,
    cost: u128,
}

/// Fixed windows from the list of admitted hits. Quotas must keep their period for the life of a key.
#[derive(Debug)]
pub struct WindowOracle {
    anchor: Anchor,
    hits: Vec<Hit>,
}

impl WindowOracle {
    /// An untouched key.
    pub fn new(anchor: Anchor) -> Self {
        Self {
            anchor,
            hits: Vec::new(),
        }
    }

    fn window_of(&self, period: i128, at: i128) -> (i128, i128) {
        match self.anchor {
            Anchor::FirstHit => (at, at + period),
            Anchor::Epoch => {
                let index = at.div_euclid(period);
                (index * period, (index + 1) * period)
            }
        }
    }
}

impl Oracle for WindowOracle {
    fn decide(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        const MS: i128 = 1_000_000;
        let now_ms = i128::from(now.nanos()).div_euclid(MS);
        let period = ((i128::from(quota.period) + MS - 1) / MS).max(1);
        // Walk through history: a hit at or after the end of the window opens the next one.
        let mut open: Option<((i128, i128), u128)> = None;
        for hit in &self.hits {
            match &mut open {
                Some(((_, end), taken)) if hit.at < *end => *taken += hit.cost,
                _ => open = Some((self.window_of(period, hit.at), hit.cost)),
            }
        }
        let open = open.filter(|((_, end), _)| now_ms < *end);
        let taken = open.map_or(0, |(_, taken)| taken);
        let (_, end) = open.map_or_else(|| self.window_of(period, now_ms), |(window, _)| window);
        let limit = u128::from(quota.limit);
        let cost = u128::from(cost.0);
        let allowed = taken + cost <= limit;
        if allowed && cost > 0 {
            self.hits.push(Hit { at: now_ms, cost });
        }
        let after = if allowed { taken + cost } else { taken };
        let wait = to_u64(((end - now_ms) * MS) as u128);
        let untouched = open.is_none() && !(allowed && cost > 0) && self.anchor == Anchor::FirstHit;
        Decision {
            allowed,
            limit: quota.limit,
            remaining: to_u64(limit.saturating_sub(after)),
            retry_after: if allowed {
                Some(0)
            } else {
                (cost <= limit).then_some(wait)
            },
            reset_after: if untouched { 0 } else { wait },
        }
    }
}

/// GCRA from the list of admitted hits: for every earlier hit, what passed since then and this request
/// together may not exceed the burst and what the time since then has earned.
#[derive(Debug, Default)]
pub struct GcraOracle {
    hits: Vec<Hit>,
}

impl GcraOracle {
    /// Time owed at `now`: the worst over all suffixes of history.
    fn debt(&self, increment: u128, now: i128) -> i128 {
        let mut since = 0i128;
        let mut worst = 0i128;
        for hit in self.hits.iter().rev() {
            since += (hit.cost * increment) as i128;
            worst = worst.max(hit.at + since - now);
        }
        worst
    }
}

impl Oracle for GcraOracle {
    fn decide(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        let at = i128::from(now.nanos());
        let limit = u128::from(quota.limit);
        let period = u128::from(quota.period);
        let increment = if limit == 0 {
            1
        } else {
            period.div_ceil(limit).max(1)
        };
        let burst = if limit == 0 {
            0
        } else {
            u128::from(quota.burst)
        };
        let tolerance = (burst * increment) as i128;
        let debt = self.debt(increment, at);
        let asked = (u128::from(cost.0) * increment) as i128;
        let possible = u128::from(cost.0) <= burst;
        let over = debt + asked - tolerance;
        let allowed = possible && over <= 0;
        if allowed && cost.0 > 0 {
            self.hits.push(Hit {
                at,
                cost: u128::from(cost.0),
            });
        }
        let owed = if allowed { debt + asked } else { debt };
        Decision {
            allowed,
            limit: quota.burst.min(if limit == 0 { 0 } else { u64::MAX }),
            remaining: to_u64((tolerance - owed).max(0) as u128 / increment),
            retry_after: if allowed {
                Some(0)
            } else {
                possible.then(|| to_u64(over as u128))
            },
            reset_after: to_u64(owed as u128),
        }
    }
}

fn to_u64(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
