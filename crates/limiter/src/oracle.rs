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
            Anchor::Calendar(calendar) => {
                let window = calendar.window(Timestamp::from_millis(at as i64));
                let (start, end) = window.expect("times of tests lie within the calendar");
                (i128::from(start), i128::from(end))
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

/// Buckets from the list of admitted hits: for every earlier hit, what passed since then and this request
/// together may not exceed the burst and what the time since then has earned.
#[derive(Debug)]
pub struct RateOracle {
    hits: Vec<Hit>,
    /// Whether a unit is worth exactly `period / limit`, or that rounded up to whole nanoseconds.
    exact: bool,
}

impl RateOracle {
    /// An untouched key of GCRA.
    pub fn rounded() -> Self {
        Self {
            hits: Vec::new(),
            exact: false,
        }
    }

    /// An untouched key of a token bucket.
    pub fn exact() -> Self {
        Self {
            hits: Vec::new(),
            exact: true,
        }
    }

    /// Time owed at `now`, in nanoseconds times `scale`: the worst over all suffixes of history.
    fn debt(&self, increment: i128, now: i128, scale: i128) -> i128 {
        let mut since = 0i128;
        let mut worst = 0i128;
        for hit in self.hits.iter().rev() {
            since += hit.cost as i128 * increment;
            worst = worst.max((hit.at - now) * scale + since);
        }
        worst
    }
}

impl Oracle for RateOracle {
    fn decide(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        let at = i128::from(now.nanos());
        let limit = i128::from(quota.limit);
        let period = i128::from(quota.period);
        // A unit is worth `increment / scale` nanoseconds.
        let (increment, scale) = match (limit, self.exact) {
            (0, _) => (1, 1),
            (_, true) => (period, limit),
            (_, false) => (((period + limit - 1) / limit).max(1), 1),
        };
        let burst = if limit == 0 {
            0
        } else {
            i128::from(quota.burst)
        };
        let tolerance = burst * increment;
        let debt = self.debt(increment, at, scale);
        let asked = i128::from(cost.0) * increment;
        let possible = i128::from(cost.0) <= burst;
        let over = debt + asked - tolerance;
        let allowed = possible && over <= 0;
        if allowed && cost.0 > 0 {
            self.hits.push(Hit {
                at,
                cost: u128::from(cost.0),
            });
        }
        let owed = if allowed { debt + asked } else { debt };
        let nanos = |scaled: i128| to_u64(((scaled + scale - 1) / scale) as u128);
        Decision {
            allowed,
            limit: burst as u64,
            remaining: to_u64(((tolerance - owed).max(0) / increment) as u128),
            retry_after: if allowed {
                Some(0)
            } else {
                possible.then(|| nanos(over))
            },
            reset_after: nanos(owed),
        }
    }
}

/// Two windows from the list of admitted hits, each hit with the number of its window.
#[derive(Debug, Default)]
pub struct SlidingOracle {
    hits: Vec<(i128, u128)>,
}

impl SlidingOracle {
    /// What counts at a time: everything of its window, and the part of the window before that is left.
    fn used(&self, at_ms: i128, period: i128) -> u128 {
        let window = at_ms.div_euclid(period);
        let sum = |wanted: i128| -> u128 {
            let hits = self.hits.iter().filter(|(window, _)| *window == wanted);
            hits.map(|(_, cost)| cost).sum()
        };
        let left = (period - at_ms.rem_euclid(period)) as u128;
        sum(window) + (sum(window - 1) * left).div_ceil(period as u128)
    }
}

impl Oracle for SlidingOracle {
    fn decide(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        const MS: i128 = 1_000_000;
        let period = ((i128::from(quota.period) + MS - 1) / MS).max(1);
        let now_ms = i128::from(now.nanos()).div_euclid(MS);
        // A clock that stepped back stands at the start of the latest window.
        let latest = self
            .hits
            .last()
            .map_or(i128::MIN, |(window, _)| window * period);
        let at = now_ms.max(latest);
        let (limit, cost) = (u128::from(quota.limit), u128::from(cost.0));
        let used = self.used(at, period);
        let allowed = used + cost <= limit;
        if allowed && cost > 0 {
            self.hits.push((at.div_euclid(period), cost));
        }
        let after = if allowed { used + cost } else { used };
        let wait = |until: i128| to_u64(((until - now_ms) * MS) as u128);
        // Usage only falls while nobody takes, so the first moment at which it has fallen far enough can be halved in on.
        let first = |fits: &dyn Fn(u128) -> bool| {
            let (mut no, mut yes) = (at, (at.div_euclid(period) + 2) * period);
            while yes - no > 1 {
                let middle = no + (yes - no) / 2;
                if fits(self.used(middle, period)) {
                    yes = middle;
                } else {
                    no = middle;
                }
            }
            wait(yes)
        };
        Decision {
            allowed,
            limit: quota.limit,
            remaining: to_u64(limit.saturating_sub(after)),
            retry_after: match allowed {
                true => Some(0),
                false => (cost <= limit).then(|| first(&|used| used + cost <= limit)),
            },
            reset_after: if after == 0 {
                0
            } else {
                first(&|used| used == 0)
            },
        }
    }
}

fn to_u64(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
