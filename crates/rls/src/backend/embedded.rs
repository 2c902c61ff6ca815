//! The store in this process, through its handle.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;
use tollgate_engine::{AnyCheck, Engine, EngineConfig, Handle, LocalHandle};
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Decision, Timestamp};
use tollgate_policy::LimitCheck;

use super::carried::Carried;
use super::{BackendError, Decide, Decisions};

/// Never waits: a decision is made on the thread that asks, under the locks of its counters' shards.
pub(crate) struct Embedded {
    handle: Handle,
    /// What this thread knows of hot keys.
    local: RefCell<LocalHandle>,
    /// Somebody looks after what the thread holds of them.
    tended: Cell<bool>,
    held: Notify,
    carried: Carried,
    clock: fn() -> Timestamp,
}

/// Most bytes of a store for what is decided in this process beside a store elsewhere. New counters are denied while there
/// is no room.
const LOCAL_BYTES: i64 = 64 << 20;
/// Shards of such a store.
const LOCAL_SHARDS: usize = 64;

/// A store for what is decided in this process beside a store elsewhere.
pub(crate) fn local_store() -> Handle {
    let engine = Engine::new(EngineConfig {
        shards: LOCAL_SHARDS,
        ..EngineConfig::default()
    });
    engine.set_limit("maxmemory", LOCAL_BYTES);
    engine.follow_memory_limits();
    Handle::new(engine)
}

/// How often units that a thread took in advance are looked after.
const TEND_EVERY: Duration = Duration::from_millis(10);

/// Name of the store's count of limits for which it had no memory.
const REFUSED: &str = "tollgate_refused_limiters_total";

impl Embedded {
    pub(crate) fn new(handle: Handle, clock: fn() -> Timestamp) -> Self {
        Self {
            local: RefCell::new(LocalHandle::new(handle.clone())),
            tended: Cell::new(false),
            held: Notify::new(),
            carried: Carried::default(),
            handle,
            clock,
        }
    }

    /// Gives back what the thread took of hot keys and does not use; for ever. Sleeps while there is nothing.
    pub(crate) async fn tend(&self) {
        loop {
            self.held.notified().await;
            loop {
                tokio::time::sleep(TEND_EVERY).await;
                if !self.give_back() {
                    break;
                }
            }
        }
    }

    /// Gives back what the thread took of hot keys and does not use; whether there is more, to be looked after again.
    pub(crate) fn give_back(&self) -> bool {
        let more = self.local.borrow_mut().give_back((self.clock)());
        self.tended.set(more);
        more
    }

    /// Whether there is something to give back.
    pub(crate) fn holds_units(&self) -> bool {
        self.tended.get()
    }

    /// The store, of which something may have to be waited for before it is told.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Counters of changed limits go on from those before.
    fn carry_over(&self, checks: &[LimitCheck<'_>]) {
        for check in checks {
            let Some(from) = self.carried.wanting(check) else {
                continue;
            };
            let before = AnyCheck {
                key: from.key,
                method: from.method,
                quota: from.quota,
                ..check_of(check)
            };
            let used = |left, before, after| from.way.used(left, before, after);
            let now = (self.clock)();
            self.handle.succeed(&check_of(check), &before, used, now);
            self.carried.done(check, &from);
        }
    }

    /// What the store itself counts, as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        let refused = self.handle.engine().refused_limiters();
        format!(
            "# HELP {REFUSED} Requests denied because memory was short and their limit was not counted yet.\n\
             # TYPE {REFUSED} counter\n{REFUSED} {refused}\n"
        )
    }

    pub(crate) fn decide_now(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        self.carry_over(checks);
        let checks: SmallVec<[AnyCheck<'_>; 4]> = checks.iter().map(check_of).collect();
        let mut local = self.local.borrow_mut();
        let decided = local.decide_any(&checks, (self.clock)());
        if local.holds() && !self.tended.replace(true) {
            self.held.notify_one();
        }
        decided.map_err(|error| BackendError::new(error.to_string()))
    }
}

/// A check as the engine takes it.
pub(super) fn check_of<'a>(check: &LimitCheck<'a>) -> AnyCheck<'a> {
    AnyCheck {
        key: check.key,
        method: check.method,
        quota: check.quota,
        cost: check.cost,
        act: check.act,
        exact: check.exact,
    }
}

impl Decide for Embedded {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        self.decide_now(checks)
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        self.carry_over(std::slice::from_ref(check));
        self.handle
            .refund_any(&check_of(check), (self.clock)())
            .map_err(|error| BackendError::new(error.to_string()))
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        self.handle
            .end(check.key, id, actual, (self.clock)())
            .map_err(|error| BackendError::new(error.to_string()))
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        self.handle
            .release(check.key, id, (self.clock)())
            .map_err(|error| BackendError::new(error.to_string()))
    }
}
