//! The store in this process, through its handle.

use smallvec::SmallVec;
use tollgate_engine::{AnyCheck, Handle};
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Decision, Timestamp};
use tollgate_policy::LimitCheck;

use super::{BackendError, Decide, Decisions};

/// Never waits: a decision is made on the thread that asks, under the locks of its counters' shards.
pub(crate) struct Embedded {
    handle: Handle,
    clock: fn() -> Timestamp,
}

impl Embedded {
    pub(crate) fn new(handle: Handle, clock: fn() -> Timestamp) -> Self {
        Self { handle, clock }
    }

    pub(crate) fn decide_now(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        let checks: SmallVec<[AnyCheck<'_>; 4]> = checks.iter().map(check_of).collect();
        self.handle
            .decide_any(&checks, (self.clock)())
            .map_err(|error| BackendError::new(error.to_string()))
    }
}

fn check_of<'a>(check: &LimitCheck<'a>) -> AnyCheck<'a> {
    AnyCheck {
        key: check.key,
        method: check.method,
        quota: check.quota,
        cost: check.cost,
        act: check.act,
    }
}

impl Decide for Embedded {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        self.decide_now(checks)
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
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
