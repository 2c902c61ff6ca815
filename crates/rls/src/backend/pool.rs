//! How many connections to a store there are and were, for whoever watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Connections of all threads to one store; of a cluster, the client library's is one for each thread.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    name: &'static str,
    made: AtomicU64,
    closed: AtomicU64,
}

/// A number of a [`Pool`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolNumber {
    /// What is counted, by the name that envoyproxy/ratelimit has for it, e.g. `redis_pool.cx_total`.
    pub(crate) name: String,
    pub(crate) value: u64,
    /// It goes up and down.
    pub(crate) is_gauge: bool,
}

impl Pool {
    /// `name` is the peer's for this store.
    pub(super) fn new(name: &'static str) -> Self {
        Self(Arc::new(Counts {
            name,
            made: AtomicU64::new(0),
            closed: AtomicU64::new(0),
        }))
    }

    /// So many connections were made.
    pub(super) fn made(&self, count: u64) {
        self.0.made.fetch_add(count, Ordering::Relaxed);
    }

    /// So many were given up.
    pub(super) fn closed(&self, count: u64) {
        self.0.closed.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn numbers(&self) -> [PoolNumber; 3] {
        // Read first: what is closed was made before.
        let closed = self.0.closed.load(Ordering::Relaxed);
        let made = self.0.made.load(Ordering::Relaxed);
        [
            ("cx_active", made.saturating_sub(closed), true),
            ("cx_total", made, false),
            ("cx_local_close", closed, false),
        ]
        .map(|(what, value, is_gauge)| PoolNumber {
            name: format!("{}.{what}", self.0.name),
            value,
            is_gauge,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_was_made_and_not_closed() {
        let pool = Pool::new("redis_pool");
        pool.made(3);
        pool.clone().closed(1);
        let numbers = pool.numbers().map(|number| (number.name, number.value));
        assert_eq!(
            numbers,
            [
                ("redis_pool.cx_active".to_owned(), 2),
                ("redis_pool.cx_total".to_owned(), 3),
                ("redis_pool.cx_local_close".to_owned(), 1),
            ]
        );
    }
}
