//! Strategies for hot keys around a store elsewhere: each answers some questions itself, within a stated error.
//!
//! They lie above one another, and each leaves alone the limits that are not its own: local shares, copies that are
//! written behind, samples, shards, and remembered denials next to the store. The service's threads share what they know.

mod denials;
mod layer;
mod local;
mod local_cache;
#[cfg(test)]
mod local_cache_tests;
#[cfg(test)]
mod races_tests;
mod sampled;
mod shards;
mod stats;
mod table;
#[cfg(test)]
mod tests;
mod write_behind;

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_engine::Handle;
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{AlgorithmKind, Decision, Method, Nanos, Quota, Timestamp};
use tollgate_policy::{HotKey, LimitCheck};

use self::denials::{Denial, Denials};
use self::layer::Layered;
use self::local::Local;
pub(crate) use self::local_cache::{LocalCache, Told};
use self::sampled::{Account, Sampled};
use self::shards::Shards;
use self::stats::Stats;
use self::table::Table;
use self::write_behind::{Counter, WriteBehind};
use super::draws::Draws;
use super::{BackendError, Decide, Decisions};

/// Shortest and longest time between two looks at what is to be written.
const TICK_MIN: Duration = Duration::from_millis(1);
const TICK_MAX: Duration = Duration::from_millis(50);
/// How long the last sums may take when the service ends, and the pause between two tries.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

/// What a service knows of hot keys; its threads share it.
#[derive(Clone)]
pub(crate) struct HotKeys(Arc<Known>);

struct Known {
    denials: Table<Denial>,
    counters: Table<Counter>,
    accounts: Table<Account>,
    draws: Draws,
    /// Local shares, made when there is need.
    shares: OnceLock<Handle>,
    turn: AtomicUsize,
    stats: Stats,
}

impl HotKeys {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Known {
            denials: Table::new(),
            counters: Table::new(),
            accounts: Table::new(),
            draws: Draws::new(),
            shares: OnceLock::new(),
            turn: AtomicUsize::new(0),
            stats: Stats::default(),
        }))
    }
}

impl Known {
    fn local(&self) -> Local<'_> {
        Local {
            store: &self.shares,
            stats: &self.stats,
        }
    }

    fn sampled(&self) -> Sampled<'_> {
        Sampled {
            accounts: &self.accounts,
            draws: &self.draws,
            stats: &self.stats,
        }
    }

    fn write_behind(&self) -> WriteBehind<'_> {
        WriteBehind {
            counters: &self.counters,
            stats: &self.stats,
        }
    }
}

/// How long units count at most.
fn span(method: Method, quota: &Quota) -> Nanos {
    const LONGEST_CALENDAR: Nanos = 366 * 86_400_000_000_000;
    match method {
        Method::Small(AlgorithmKind::Calendar(_)) => LONGEST_CALENDAR,
        _ => {
            let fills = quota.burst.div_ceil(quota.limit.max(1)).max(2);
            quota.period.saturating_mul(fills)
        }
    }
}

/// A store elsewhere, with the strategies of rules around it.
pub(crate) struct Strategies<B> {
    store: B,
    known: HotKeys,
    clock: fn() -> Timestamp,
    /// Somebody looks after what this thread has to write.
    tended: Cell<bool>,
    owes: Notify,
}

impl<B: Decide> Strategies<B> {
    pub(crate) fn new(store: B, known: HotKeys, clock: fn() -> Timestamp) -> Self {
        Self {
            store,
            known,
            clock,
            tended: Cell::new(false),
            owes: Notify::new(),
        }
    }

    /// What there is to measure, in the form that Prometheus reads.
    pub(crate) fn metrics(&self) -> String {
        self.known.0.stats.to_string()
    }

    /// Writes sums behind the requests, for ever. Sleeps while there are none.
    pub(crate) async fn tend(&self) {
        loop {
            self.owes.notified().await;
            let mut shortest = Some(0);
            while let Some(interval) = shortest {
                let pause = Duration::from_nanos(interval / 4);
                tokio::time::sleep(pause.clamp(TICK_MIN, TICK_MAX)).await;
                shortest = self.write(false).await;
            }
            self.tended.set(false);
        }
    }

    async fn write(&self, all: bool) -> Option<Nanos> {
        let write_behind = self.known.0.write_behind();
        write_behind.write(&self.store, self.clock, all).await
    }

    /// Writes what is left when the service ends, and tells how many units could not be written.
    pub(crate) async fn settle(&self) -> u64 {
        let write_behind = self.known.0.write_behind();
        let writing = async {
            while write_behind.unwritten() > 0 {
                self.write(true).await;
                if write_behind.unwritten() > 0 {
                    tokio::time::sleep(SETTLE_PAUSE).await;
                }
            }
        };
        match tokio::time::timeout(SETTLE_TIMEOUT, writing).await {
            Ok(()) => 0,
            Err(_) => write_behind.give_up(),
        }
    }

    /// All strategies above the store, the outermost first.
    fn stack(&self) -> impl Decide + '_ {
        let (known, clock) = (&*self.known.0, self.clock);
        let denials = Denials {
            known: &known.denials,
            stats: &known.stats,
        };
        let shards = Shards {
            inner: Layered::new(denials, &self.store, clock),
            turn: &known.turn,
        };
        let sampled = Layered::new(known.sampled(), shards, clock);
        let copies = Layered::new(known.write_behind(), sampled, clock);
        Layered::new(known.local(), copies, clock)
    }

    /// Whether a check is none of a strategy's.
    fn is_exact(check: &LimitCheck<'_>) -> bool {
        check.hot_key == HotKey::Exact
    }
}

impl<B: Decide> Decide for Strategies<B> {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        if checks.iter().all(Self::is_exact) {
            return self.store.decide(checks).await;
        }
        let behind = |check: &LimitCheck<'_>| matches!(check.hot_key, HotKey::WriteBehind { .. });
        let is_heir = |check: &LimitCheck<'_>| behind(check) && check.predecessor.is_some();
        if checks.iter().any(is_heir) {
            let write_behind = self.known.0.write_behind();
            // Boxed, so that the future of other decisions does not grow.
            let written = write_behind.write_predecessors(&self.store, checks, self.clock);
            Box::pin(written).await;
        }
        let decided = self.stack().decide(checks).await;
        if checks.iter().any(behind) && !self.tended.replace(true) {
            self.owes.notify_one();
        }
        decided
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        match Self::is_exact(check) {
            true => self.store.refund(check).await,
            false => self.stack().refund(check).await,
        }
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        match Self::is_exact(check) {
            true => self.store.end(check, id, actual).await,
            false => self.stack().end(check, id, actual).await,
        }
    }

    /// Only places in use are released, and those have no strategy.
    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        self.store.release(check, id).await
    }

    fn counts_each(&self) -> bool {
        self.store.counts_each()
    }
}
