//! What counts: the store in this process, or one far away.

mod carried;
mod cluster;
mod draws;
mod embedded;
mod envoy;
mod freed;
mod held;
mod hot;
#[cfg(test)]
mod inherit_tests;
mod link;
mod native;
#[cfg(test)]
mod once_tests;
mod outages;
mod parts;
mod peer;
mod pool;
mod remote;
mod replicated;
mod scripts;
mod sentinel;
mod stores;
#[cfg(test)]
mod tests;
mod url;
mod waiting;

use std::fmt;

use smallvec::SmallVec;
use tollgate_limiter::Decision;
use tollgate_limiter::holds::Ended;
use tollgate_policy::LimitCheck;

pub(crate) use draws::Draws;
pub(crate) use embedded::{END_WAITS_EVERY, Embedded, local_store};
pub(crate) use hot::{HotKeys, LocalCache, Strategies, Told};
pub(crate) use parts::{Take, undo_one};
pub(crate) use pool::{Pool, PoolNumber};
pub(crate) use stores::{Places, Stores};

/// The checks of one request; most requests have few.
pub(crate) type Checks<'a> = SmallVec<[LimitCheck<'a>; 4]>;

/// One decision for each check.
pub(crate) type Decisions = SmallVec<[Decision; 4]>;

/// What counts. Every act on every algorithm goes through here.
pub(crate) trait Decide {
    /// One decision for each check, in their order, all at one moment: all take, or none does. Checks that only look
    /// count for the others. A check that holds ([`Act::Hold`](tollgate_limiter::Act)) takes a lease or a reservation.
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError>;

    /// Gives back up to the check's cost, and tells what is there then. Of leases those go that would expire first.
    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError>;

    /// Ends the check's reservation of that name with its actual cost; 0 cancels it. Ending it again tells what counted.
    /// `None` when there is none of that name.
    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError>;

    /// Gives the check's lease of that name back; its units, 0 when it has expired or never was.
    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError>;

    /// Whether [`decide`](Self::decide) counts each check for itself, whatever its role and whatever becomes of the others,
    /// as envoyproxy/ratelimit does.
    fn counts_each(&self) -> bool {
        false
    }
}

impl<B: Decide> Decide for &B {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        (**self).decide(checks).await
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        (**self).refund(check).await
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        (**self).end(check, id, actual).await
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        (**self).release(check, id).await
    }

    fn counts_each(&self) -> bool {
        (**self).counts_each()
    }
}

/// Why a request could not be decided. It is neither allowed nor denied; who asked must choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    reason: String,
}

impl BackendError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// What the store said means nothing here.
    pub(crate) fn bad_reply() -> Self {
        Self::new("the store's reply is not that of a decision")
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate limit backend: {}", self.reason)
    }
}

impl std::error::Error for BackendError {}

/// The backend of one service thread.
pub(crate) enum AnyBackend {
    Embedded(Embedded),
    Remote(Box<Strategies<Stores>>),
}

impl AnyBackend {
    /// Whether it decides; of a store elsewhere a look at these counters tells.
    pub(crate) async fn decides(&self, look: &[LimitCheck<'_>]) -> Result<(), BackendError> {
        match self {
            Self::Embedded(embedded) => embedded.counts(),
            Self::Remote(remote) => remote.decide(look).await.map(drop),
        }
    }
}

impl Decide for AnyBackend {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        match self {
            Self::Embedded(embedded) => embedded.decide(checks).await,
            Self::Remote(remote) => remote.decide(checks).await,
        }
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        match self {
            Self::Embedded(embedded) => embedded.refund(check).await,
            Self::Remote(remote) => remote.refund(check).await,
        }
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        match self {
            Self::Embedded(embedded) => embedded.end(check, id, actual).await,
            Self::Remote(remote) => remote.end(check, id, actual).await,
        }
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        match self {
            Self::Embedded(embedded) => embedded.release(check, id).await,
            Self::Remote(remote) => remote.release(check, id).await,
        }
    }

    fn counts_each(&self) -> bool {
        match self {
            Self::Embedded(_) => false,
            Self::Remote(remote) => remote.counts_each(),
        }
    }
}
