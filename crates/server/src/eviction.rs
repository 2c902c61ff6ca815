//! What clients hold. `maxmemory` covers it; when they hold more than `maxmemory-clients` together, those that hold most are
//! disconnected.

use crate::client::{Client, Clients};
use crate::config::Key;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use tollgate_limiter::Timestamp;
use tollgate_net::Clock;

/// Nanoseconds until the next attempt when all that is left may not be disconnected.
const PAUSE: i64 = 100_000_000;

/// What clients hold together, and may hold.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Bytes; 0 = any number.
    limit: AtomicU64,
    /// There is a limit that covers what clients hold, so it is counted.
    counts: AtomicBool,
    /// Bytes counted so far, which the engine looks at. Set right once a second, as a client may leave while it is counted; meanwhile even less than
    /// nothing may seem to be held.
    total: Arc<AtomicI64>,
    /// More is held than may be.
    exceeded: AtomicBool,
    /// No attempt before this moment of the monotone clock.
    next_at: AtomicI64,
    evicted: AtomicU64,
}

impl Budget {
    /// Nothing is limited yet. `total`: where the bytes are counted.
    pub(crate) fn new(total: &Arc<AtomicI64>) -> Budget {
        Budget {
            total: Arc::clone(total),
            ..Budget::default()
        }
    }

    /// Clients are counted.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    /// There is a limit for clients alone.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) > 0
    }

    /// A client holds `now` bytes where it held `before`.
    #[cold]
    pub(crate) fn change(&self, before: usize, now: usize) {
        let more = now as i64 - before as i64;
        let total = self.total.fetch_add(more, Ordering::Relaxed) + more;
        let limit = self.limit();
        if limit > 0 && total > limit {
            self.exceeded.store(true, Ordering::Relaxed);
        }
    }

    fn limit(&self) -> i64 {
        i64::try_from(self.limit.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
    }

    /// Clients disconnected for what they held.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.evicted.store(0, Ordering::Relaxed);
    }
}

/// `maxmemory-clients` in bytes, where `maxmemory` is what a percentage is of; 0 = no limit.
fn limit_of(text: &str, maxmemory: u64) -> u64 {
    match text.strip_suffix('%') {
        None => text.parse().unwrap_or(0),
        Some(percent) => {
            let percent: u64 = percent.parse().unwrap_or(0);
            maxmemory / 100 * percent + maxmemory % 100 * percent / 100
        }
    }
}

/// Takes over the settings.
pub(crate) fn configure(clients: &Clients, text: &str, maxmemory: u64) {
    let budget = clients.budget();
    let limit = limit_of(text, maxmemory);
    budget.limit.store(limit, Ordering::Relaxed);
    budget
        .counts
        .store(limit > 0 || maxmemory > 0, Ordering::Relaxed);
    count_all(clients);
}

/// Counts all clients anew.
fn count_all(clients: &Clients) {
    let budget = clients.budget();
    let total: usize = match budget.counts() {
        true => clients.all().iter().map(|client| client.recount()).sum(),
        false => 0,
    };
    budget.total.store(total as i64, Ordering::Relaxed);
    budget.change(0, 0);
}

/// What is due once a second.
pub(crate) fn tend(shared: &Shared) {
    count_all(&shared.clients);
    evict(shared);
}

/// Disconnects clients, those that hold most first, until the others hold no more than they may together.
#[inline]
pub(crate) fn evict(shared: &Shared) {
    let budget = shared.clients.budget();
    if budget.exceeded.load(Ordering::Relaxed) {
        evict_now(shared, budget);
    }
}

#[cold]
fn evict_now(shared: &Shared, budget: &Budget) {
    let now = Clock::monotone();
    let next = budget.next_at.load(Ordering::Relaxed);
    // One thread is enough.
    let mine = now >= next
        && budget
            .next_at
            .compare_exchange(next, now + PAUSE, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
    if !mine {
        return;
    }
    budget.exceeded.store(false, Ordering::Relaxed);
    let limit = budget.limit();
    if limit == 0 {
        // It was there a moment ago.
        return;
    }
    let mut clients: Vec<(usize, Arc<Client>)> = shared
        .clients
        .all()
        .into_iter()
        .filter(|client| may_go(client))
        .map(|client| (client.memory(), client))
        .collect();
    clients.sort_unstable_by_key(|(bytes, _)| *bytes);
    while budget.total.load(Ordering::Relaxed) > limit {
        let Some((_, client)) = clients.pop() else {
            // Those that are left may stay whatever they hold.
            return;
        };
        shared.log.notice(format_args!(
            "Evicting client: {}",
            client.show(Timestamp::from_nanos(Clock::now()))
        ));
        if client.evict() {
            budget.evicted.fetch_add(1, Ordering::Relaxed);
            shared.engine.abandon(client.id);
        }
    }
    budget.next_at.store(0, Ordering::Relaxed);
}

/// Replicas, the link to the master, and clients that have said CLIENT NO-EVICT stay.
fn may_go(client: &Client) -> bool {
    client.is_ordinary() && !client.stays()
}

/// Settings of which a change is a change of the limit.
pub(crate) const SETTINGS: [Key; 2] = [Key::MaxmemoryClients, Key::MaxMemory];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_bytes_or_a_share() {
        assert_eq!(limit_of("0", 1_000), 0);
        assert_eq!(limit_of("4096", 0), 4_096);
        assert_eq!(limit_of("5%", 1_050), 52);
        assert_eq!(limit_of("5%", 0), 0);
        assert_eq!(limit_of("100%", u64::MAX), u64::MAX);
    }

    #[test]
    fn what_is_held_is_counted_up_and_down() {
        let budget = Budget::default();
        budget.change(0, 500);
        assert!(
            !budget.exceeded.load(Ordering::Relaxed),
            "there is no limit"
        );
        budget.limit.store(1_000, Ordering::Relaxed);
        budget.change(0, 400);
        budget.change(400, 300);
        assert!(!budget.exceeded.load(Ordering::Relaxed));
        budget.change(300, 501);
        assert!(budget.exceeded.load(Ordering::Relaxed));
    }
}
