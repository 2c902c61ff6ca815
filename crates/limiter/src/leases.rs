//! Concurrency: at most `limit` units in use at the same time, each held under a lease that expires by itself, so that a
//! caller that crashed frees what it held.

use std::collections::BTreeMap;

use crate::types::{Cost, Decision, Nanos, Timestamp};

/// Most leases of one key; each takes at least one unit.
pub(crate) const LEASES_MAX: usize = 100_000;

/// One lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Units it holds.
    pub cost: u64,
    /// From when on it counts no more.
    pub expires_at: Timestamp,
}

/// The leases of one key, by the name that their holders know them by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    by_id: BTreeMap<Box<[u8]>, Lease>,
    /// The same leases in the order in which they expire.
    by_time: BTreeMap<(Timestamp, Box<[u8]>), ()>,
    used: u64,
    id_bytes: usize,
}

impl Leases {
    /// Leases read from elsewhere.
    pub(crate) fn from_leases(leases: impl IntoIterator<Item = (Box<[u8]>, Lease)>) -> Leases {
        let mut all = Leases::default();
        for (id, lease) in leases {
            all.remove(&id);
            all.insert(&id, lease);
        }
        all
    }

    /// All leases, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Lease)> {
        self.by_id.iter().map(|(id, lease)| (&**id, *lease))
    }

    /// Number of leases, expired ones that nobody met yet included.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Bytes on the heap, about.
    pub fn heap_bytes(&self) -> usize {
        // Name and lease stand in both trees, whose nodes are about two thirds full.
        const ENTRY: usize =
            (2 * size_of::<Box<[u8]>>() + size_of::<Lease>() + size_of::<Timestamp>()) * 3 / 2;
        self.len() * ENTRY + 2 * self.id_bytes
    }

    /// Units in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// When the last lease expires.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.by_time.last_key_value().map(|((at, _), ())| *at)
    }

    /// Takes a lease of that name for `ttl` if so many units are free. A name that holds one already keeps its units, or
    /// changes them to the new cost if those fit, and its lease is renewed.
    pub fn acquire(
        &mut self,
        id: &[u8],
        limit: u64,
        cost: Cost,
        ttl: Nanos,
        now: Timestamp,
    ) -> Decision {
        self.expire(now);
        let own = self.cost_of(id);
        let others = self.used - own;
        let fits = cost.0 <= limit && others <= limit - cost.0;
        let room = own > 0 || self.len() < LEASES_MAX;
        if !fits || !room {
            let possible = cost.0 <= limit;
            return Decision {
                allowed: false,
                limit,
                remaining: limit.saturating_sub(self.used),
                retry_after: possible.then(|| self.frees_after(Some(id), limit, cost.0, now)),
                reset_after: self.reset_after(now),
            };
        }
        if cost.0 > 0 {
            self.remove(id);
            let expires_at = now.plus(ttl);
            self.insert(
                id,
                Lease {
                    cost: cost.0,
                    expires_at,
                },
            );
        }
        Decision {
            allowed: true,
            limit,
            remaining: limit.saturating_sub(self.used),
            retry_after: Some(0),
            reset_after: self.reset_after(now),
        }
    }

    /// What [`Leases::acquire`] would answer to a name that holds nothing.
    pub fn peek(&self, limit: u64, cost: Cost, now: Timestamp) -> Decision {
        let over = self.by_time.keys().take_while(|(at, _)| *at <= now);
        let over: u64 = over.map(|(_, id)| self.cost_of(id)).sum();
        let used = self.used - over;
        let fits = cost.0 <= limit && used <= limit - cost.0;
        let taken = if fits { cost.0 } else { 0 };
        Decision {
            allowed: fits,
            limit,
            remaining: limit.saturating_sub(used.saturating_add(taken)),
            retry_after: match fits {
                true => Some(0),
                false => (cost.0 <= limit).then(|| self.frees_after(None, limit, cost.0, now)),
            },
            reset_after: self.reset_after(now),
        }
    }

    /// Gives a lease back; its units, or `None` when it has expired or never was.
    pub fn release(&mut self, id: &[u8], now: Timestamp) -> Option<u64> {
        self.expire(now);
        self.remove(id).map(|lease| lease.cost)
    }

    /// Gives back up to `units` of the leases that would expire first; how many.
    pub fn give_back(&mut self, units: u64, now: Timestamp) -> u64 {
        self.expire(now);
        let mut left = units;
        while left > 0
            && let Some(((_, id), ())) = self.by_time.first_key_value()
        {
            let id = id.clone();
            let Some(lease) = self.remove(&id) else {
                break;
            };
            let back = lease.cost.min(left);
            left -= back;
            if lease.cost > back {
                self.insert(
                    &id,
                    Lease {
                        cost: lease.cost - back,
                        ..lease
                    },
                );
            }
        }
        units - left
    }

    /// Drops what has expired.
    pub fn expire(&mut self, now: Timestamp) {
        while let Some(((at, id), ())) = self.by_time.first_key_value()
            && *at <= now
        {
            let id = id.clone();
            self.remove(&id);
        }
    }

    /// Time until the cost fits because others than `own` have expired.
    fn frees_after(&self, own: Option<&[u8]>, limit: u64, cost: u64, now: Timestamp) -> Nanos {
        let mut others = self.used - own.map_or(0, |own| self.cost_of(own));
        let mut count = self.len();
        for (at, other) in self.by_time.keys() {
            if own == Some(&**other) {
                continue;
            }
            others -= self.cost_of(other);
            count -= 1;
            if others <= limit - cost && count < LEASES_MAX {
                return span(now, *at);
            }
        }
        0
    }

    /// Units that a name holds.
    fn cost_of(&self, id: &[u8]) -> u64 {
        self.by_id.get(id).map_or(0, |lease| lease.cost)
    }

    fn reset_after(&self, now: Timestamp) -> Nanos {
        self.expires_at().map_or(0, |at| span(now, at))
    }

    fn insert(&mut self, id: &[u8], lease: Lease) {
        self.used = self.used.saturating_add(lease.cost);
        self.id_bytes += id.len();
        self.by_time.insert((lease.expires_at, id.into()), ());
        self.by_id.insert(id.into(), lease);
    }

    fn remove(&mut self, id: &[u8]) -> Option<Lease> {
        let (id, lease) = self.by_id.remove_entry(id)?;
        self.used -= lease.cost;
        self.id_bytes -= id.len();
        self.by_time.remove(&(lease.expires_at, id));
        Some(lease)
    }
}

fn span(from: Timestamp, to: Timestamp) -> Nanos {
    if to > from {
        to.nanos().abs_diff(from.nanos())
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn as_many_as_the_limit_run_at_the_same_time() {
        let mut leases = Leases::default();
        assert!(leases.acquire(b"a", 2, Cost(1), SECOND, at(0)).allowed);
        assert_eq!(
            leases.acquire(b"b", 2, Cost(1), SECOND, at(300)).remaining,
            0
        );
        let denied = leases.acquire(b"c", 2, Cost(1), SECOND, at(400));
        assert_eq!(
            (denied.allowed, denied.retry_after),
            (false, Some(600_000_000))
        );
        assert_eq!(leases.release(b"a", at(500)), Some(1));
        assert_eq!(leases.release(b"a", at(500)), None);
        assert!(leases.acquire(b"c", 2, Cost(1), SECOND, at(500)).allowed);
    }

    #[test]
    fn a_crashed_caller_frees_itself() {
        let mut leases = Leases::default();
        leases.acquire(b"a", 1, Cost(1), SECOND, at(0));
        assert!(!leases.acquire(b"b", 1, Cost(1), SECOND, at(999)).allowed);
        assert!(leases.acquire(b"b", 1, Cost(1), SECOND, at(1_000)).allowed);
        assert_eq!(leases.release(b"a", at(1_001)), None);
        assert_eq!(leases.used(), 1);
    }

    #[test]
    fn acquiring_again_renews_and_counts_once() {
        let mut leases = Leases::default();
        leases.acquire(b"a", 3, Cost(2), SECOND, at(0));
        let again = leases.acquire(b"a", 3, Cost(2), SECOND, at(900));
        assert_eq!(
            (again.allowed, again.remaining, again.reset_after),
            (true, 1, SECOND)
        );
        assert!(leases.acquire(b"a", 3, Cost(3), SECOND, at(900)).allowed);
        let never = leases.acquire(b"a", 3, Cost(4), SECOND, at(900));
        assert_eq!(
            (never.allowed, never.retry_after, leases.used()),
            (false, None, 3)
        );
    }

    #[test]
    fn looking_takes_nothing() {
        let mut leases = Leases::default();
        leases.acquire(b"a", 2, Cost(1), SECOND, at(0));
        let before = leases.clone();
        assert_eq!(leases.peek(2, Cost(1), at(1)).remaining, 0);
        assert!(!leases.peek(2, Cost(2), at(1)).allowed);
        assert!(leases.peek(2, Cost(2), at(1_000)).allowed);
        assert_eq!(leases, before);
        // A lease may have an empty name, which is not that of who looks.
        leases.acquire(b"", 2, Cost(1), 3 * SECOND, at(0));
        let denied = leases.peek(2, Cost(2), at(1_500));
        assert_eq!(
            (denied.allowed, denied.remaining, denied.retry_after),
            (false, 1, Some(1_500_000_000))
        );
    }

    #[test]
    fn those_that_expire_first_are_given_back_first() {
        let mut leases = Leases::default();
        leases.acquire(b"late", 9, Cost(2), 3 * SECOND, at(0));
        leases.acquire(b"soon", 9, Cost(3), SECOND, at(0));
        assert_eq!(leases.give_back(2, at(1)), 2);
        assert_eq!(
            (leases.used(), leases.release(b"soon", at(1))),
            (3, Some(1))
        );
        assert_eq!(leases.give_back(9, at(1)), 2);
        assert_eq!((leases.give_back(9, at(1)), leases.is_empty()), (0, true));
    }
}
