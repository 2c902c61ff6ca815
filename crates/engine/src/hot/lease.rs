//! Units of a limit that one thread may spend without asking, and the denials it need not ask for again.

use tollgate_limiter::{AlgorithmKind, Decision, Nanos, Quota, Timestamp};

/// Share of what remains that one lease takes at most: one in so many.
const SHARE: u64 = 8;
/// Fewest units worth a lease. So what remains of a limit below 4,096 units is decided exactly: there a thread more or less
/// would be seen.
const LEASE_MIN: u64 = 512;
/// Most units of a lease.
const LEASE_MAX: u64 = 1 << 20;

/// How units of a lease lose their worth before they are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wear {
    /// Not before the window ends.
    Window,
    /// As fast as the limit earns new ones. Whoever spends a unit later than it was taken would otherwise spend it
    /// beside the one that was earned for it meanwhile, and a full burst more than the limit allows.
    Rate {
        /// Units earned per period.
        limit: u64,
        /// The period.
        period: Nanos,
    },
}

impl Wear {
    /// How leases of an algorithm wear; `None`: units of it cannot be leased. A sliding window counts each unit at the
    /// time it was taken, so one that is spent later would fall out of the window too early.
    pub(crate) fn of(kind: AlgorithmKind, quota: &Quota) -> Option<Wear> {
        match kind {
            AlgorithmKind::FixedWindow | AlgorithmKind::FixedWindowEpoch => Some(Wear::Window),
            AlgorithmKind::Gcra | AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
                Some(Wear::Rate {
                    limit: quota.limit,
                    period: quota.period,
                })
            }
            AlgorithmKind::Calendar(_) => Some(Wear::Window),
            AlgorithmKind::SlidingWindow => None,
        }
    }
}

/// Units that a thread took in advance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    /// Epoch of the key's leases in which it was given.
    pub(crate) epoch: u64,
    /// Units at the beginning.
    pub(crate) given: u64,
    /// Units that may still be spent.
    left: u64,
    at: Timestamp,
    /// Units are worth nothing from here on.
    ends: Timestamp,
    /// `left` is right until here.
    worn: Timestamp,
    wear: Wear,
    /// What the key said when the lease was taken.
    said: Decision,
}

impl Lease {
    /// None.
    pub(crate) const NONE: Lease = Lease {
        epoch: u64::MAX,
        given: 0,
        left: 0,
        at: Timestamp::from_nanos(0),
        ends: Timestamp::from_nanos(i64::MIN),
        worn: Timestamp::from_nanos(i64::MIN),
        wear: Wear::Window,
        said: Decision::DENIED,
    };

    /// How many units a lease should have when `remaining` may still be taken and the last lease had `last`: twice as
    /// many, but never more than a share of what is there. 0: too few are left to lease.
    pub(crate) fn size(remaining: u64, last: u64) -> u64 {
        let wanted = last.saturating_mul(2).clamp(LEASE_MIN, LEASE_MAX);
        let units = wanted.min(remaining / SHARE);
        if units < LEASE_MIN { 0 } else { units }
    }

    /// `units` were taken at `at`, and `said` was the answer.
    pub(crate) fn new(epoch: u64, units: u64, at: Timestamp, wear: Wear, said: Decision) -> Lease {
        let mut lease = Lease {
            epoch,
            given: units,
            left: units,
            at,
            ends: in_whole_ms(at).plus(said.reset_after),
            worn: at,
            wear,
            said,
        };
        lease.wear_down(at);
        lease
    }

    /// Takes `cost` of the units, if there are as many at `now`.
    #[inline(always)]
    pub(crate) fn spend(&mut self, cost: u64, now: Timestamp) -> Option<Decision> {
        if now >= self.worn {
            self.wear_down(now);
        }
        if now < self.at {
            return None;
        }
        self.left = self.left.checked_sub(cost)?;
        Some(Decision {
            allowed: true,
            limit: self.said.limit,
            remaining: self.said.remaining.wrapping_add(self.left),
            retry_after: Some(0),
            // While units are left the end is ahead.
            reset_after: self.ends.nanos().wrapping_sub(now.nanos()) as u64,
        })
    }

    /// Units that may still be spent at `now`, and so be given back.
    pub(crate) fn left(&mut self, now: Timestamp) -> u64 {
        self.wear_down(now);
        if now < self.at { 0 } else { self.left }
    }

    #[cold]
    #[inline(never)]
    fn wear_down(&mut self, now: Timestamp) {
        if now >= self.ends {
            self.left = 0;
        }
        self.worn = self.ends;
        if let Wear::Rate { limit, period } = self.wear
            && self.left > 0
        {
            let earned = earned(span(self.at, now), limit, period);
            self.left = self.left.min(self.given.saturating_sub(earned));
            // The unit after those already worn or spent goes at this time.
            let gone = self.given - self.left;
            let next = self.at.plus(product_over(gone, period, limit.max(1)));
            self.worn = next.min(self.ends).max(now.plus(1));
        }
    }
}

/// The millisecond of a time: windows count from it, so they end a part of one earlier than a span tells.
fn in_whole_ms(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.millis())
}

/// Units earned in `span`, rounded up: a part of one counts as one.
fn earned(span: Nanos, limit: u64, period: Nanos) -> u64 {
    let period = period.max(1);
    match span.checked_mul(limit) {
        Some(product) => product.div_ceil(period),
        None => {
            let units = (u128::from(span) * u128::from(limit)).div_ceil(u128::from(period));
            u64::try_from(units).unwrap_or(u64::MAX)
        }
    }
}

/// `a * b / divisor`, rounded down; the greatest number when it is more. Most products fit one word, which divides far
/// faster than two.
fn product_over(a: u64, b: u64, divisor: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / divisor,
        None => {
            let wide = u128::from(a) * u128::from(b) / u128::from(divisor);
            u64::try_from(wide).unwrap_or(u64::MAX)
        }
    }
}

/// From `from` to `to`; 0 when that is past.
#[inline]
fn span(from: Timestamp, to: Timestamp) -> Nanos {
    if to <= from {
        return 0;
    }
    to.nanos().wrapping_sub(from.nanos()) as u64
}

/// A denial that holds until the key changes or time has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denial {
    epoch: u64,
    cost: u64,
    at: Timestamp,
    until: Timestamp,
    said: Decision,
}

impl Denial {
    /// None.
    pub(crate) const NONE: Denial = Denial {
        epoch: u64::MAX,
        cost: u64::MAX,
        at: Timestamp::from_nanos(i64::MAX),
        until: Timestamp::from_nanos(i64::MIN),
        said: Decision::DENIED,
    };

    /// `said` was the answer to `cost` at `at`.
    pub(crate) fn new(epoch: u64, cost: u64, at: Timestamp, said: Decision) -> Denial {
        let until = in_whole_ms(at).plus(said.retry_after.unwrap_or(said.reset_after));
        Denial {
            epoch,
            cost,
            at,
            until,
            said,
        }
    }

    /// The answer to `cost` at `now`, if this still is one.
    #[inline(always)]
    pub(crate) fn answer(&self, epoch: u64, cost: u64, now: Timestamp) -> Option<Decision> {
        if epoch != self.epoch || cost != self.cost || now < self.at || now >= self.until {
            return None;
        }
        let passed = now.nanos().wrapping_sub(self.at.nanos()) as u64;
        Some(Decision {
            retry_after: self
                .said
                .retry_after
                .map(|wait| wait.saturating_sub(passed)),
            reset_after: self.said.reset_after.saturating_sub(passed),
            ..self.said
        })
    }
}
