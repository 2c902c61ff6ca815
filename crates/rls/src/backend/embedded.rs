//! The store in this process, through its handle.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::future;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tollgate_engine::{AnyCheck, Engine, EngineConfig, Handle, LocalHandle, Undecided};
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Decision, Timestamp};
use tollgate_policy::LimitCheck;

use super::carried::Carried;
use super::freed::Waits;
use super::waiting::Waiting;
use super::{BackendError, Decide, Decisions};

/// A decision is made on the thread that asks, under the locks of its counters' shards. It waits only while a long command
/// holds one of them, or writes are paused.
pub(crate) struct Embedded {
    handle: Handle,
    /// What this thread knows of hot keys.
    local: RefCell<LocalHandle>,
    /// Somebody looks after what the thread holds of them.
    tended: Cell<bool>,
    held: Notify,
    carried: Carried,
    clock: fn() -> Timestamp,
    waiting: Waiting,
    waits: Box<Waits>,
    /// Who asks cannot wait.
    at_once: Cell<bool>,
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
/// How often the ends of waits are looked for.
pub(crate) const END_WAITS_EVERY: Duration = Duration::from_millis(1);

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
            waiting: Waiting::default(),
            waits: Box::new(Waits::new(Duration::ZERO, Instant::now)),
            at_once: Cell::new(false),
        }
    }

    /// Decisions wait for a long command no longer than `patience` on `clock`; zero: until it has ended.
    pub(crate) fn with_patience(self, patience: Duration, clock: fn() -> Instant) -> Self {
        Self {
            waits: Box::new(Waits::new(patience, clock)),
            ..self
        }
    }

    /// Gives back what the thread took of hot keys and does not use, and ends waits; for ever. Sleeps while there is nothing.
    pub(crate) async fn tend(&self) {
        let unused = async {
            loop {
                self.held.notified().await;
                loop {
                    tokio::time::sleep(TEND_EVERY).await;
                    if !self.give_back() {
                        break;
                    }
                }
            }
        };
        let late = async {
            loop {
                self.waits.begun.notified().await;
                loop {
                    tokio::time::sleep(END_WAITS_EVERY).await;
                    if !self.waits.end_late() {
                        break;
                    }
                }
            }
        };
        future::join(unused, late).await;
    }

    /// Whether decisions wait whose time may come.
    pub(crate) fn has_waits(&self) -> bool {
        self.waits.are_there()
    }

    /// Ends the waits whose time has come; whether there are others.
    pub(crate) fn end_late_waits(&self) -> bool {
        self.waits.end_late()
    }

    /// Whether decisions may have to wait now.
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        self.handle.may_be_kept()
    }

    /// What comes of `ask`, which is polled once and meanwhile meets no long command that was not there when it began; `None`
    /// if one is. Where it would wait for something else that begins meanwhile, it fails.
    pub(crate) fn at_once<T>(&self, ask: impl FnOnce() -> T) -> Option<T> {
        let _visit = self.handle.visit()?;
        self.at_once.set(true);
        let asked = ask();
        self.at_once.set(false);
        Some(asked)
    }

    /// Tries until no long command holds what is needed.
    async fn until_free<T>(
        &self,
        mut ask: impl FnMut() -> Result<T, Undecided>,
    ) -> Result<T, BackendError> {
        match ask() {
            Ok(done) => return Ok(done),
            Err(Undecided::Kept) if !self.at_once.get() => {}
            Err(undecided) => return Err(because(&undecided)),
        }
        let _place = self.waiting.enter()?;
        let wait = self.waits.begin();
        while wait.freed(&self.handle).await {
            match ask() {
                Ok(done) => return Ok(done),
                Err(Undecided::Kept) => {}
                Err(undecided) => return Err(because(&undecided)),
            }
        }
        Err(because(&Undecided::Kept))
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

    /// Whether it can count at all.
    pub(crate) fn counts(&self) -> Result<(), BackendError> {
        let counts = self.handle.can_count();
        counts.map_err(|undecided| because(&undecided))
    }

    /// The store, of which something may have to be waited for before it is told.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Counters of changed limits go on from those before.
    fn carry_over(&self, checks: &[LimitCheck<'_>]) -> Result<(), Undecided> {
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
            self.handle.succeed(&check_of(check), &before, used, now)?;
            self.carried.done(check, &from);
        }
        Ok(())
    }

    /// What the store itself counts, as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        let refused = self.handle.engine().refused_limiters();
        format!(
            "# HELP {REFUSED} Requests denied because memory was short and there was no room for a new counter.\n\
             # TYPE {REFUSED} counter\n{REFUSED} {refused}\n"
        )
    }

    /// Decides unless a long command holds what is needed: then nothing is taken.
    pub(crate) fn decide_now(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, Undecided> {
        self.carry_over(checks)?;
        let checks: SmallVec<[AnyCheck<'_>; 4]> = checks.iter().map(check_of).collect();
        let mut local = self.local.borrow_mut();
        let decided = local.decide_any(&checks, (self.clock)());
        if local.holds() && !self.tended.replace(true) {
            self.held.notify_one();
        }
        decided
    }
}

fn because(undecided: &Undecided) -> BackendError {
    BackendError::new(undecided.to_string())
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
        self.until_free(|| self.decide_now(checks)).await
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        self.until_free(|| {
            self.carry_over(std::slice::from_ref(check))?;
            self.handle.refund_any(&check_of(check), (self.clock)())
        })
        .await
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        self.until_free(|| self.handle.end(check.key, id, actual, (self.clock)()))
            .await
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        self.until_free(|| self.handle.release(check.key, id, (self.clock)()))
            .await
    }
}
