//! The store in this process, through its handle.

use smallvec::SmallVec;
use tollgate_engine::{Check, Handle};
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
        let checks: SmallVec<[Check<'_>; 4]> = checks.iter().map(check_of).collect();
        self.handle
            .decide(&checks, (self.clock)())
            .map_err(|error| BackendError::new(error.to_string()))
    }
}

fn check_of<'a>(check: &LimitCheck<'a>) -> Check<'a> {
    Check {
        key: check.key,
        algorithm: check.kind,
        quota: check.quota,
        cost: check.cost,
        peek: check.peek,
        exact: false,
    }
}

impl Decide for Embedded {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        self.decide_now(checks)
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        self.handle
            .refund(&check_of(check), (self.clock)())
            .map_err(|error| BackendError::new(error.to_string()))
    }
}
