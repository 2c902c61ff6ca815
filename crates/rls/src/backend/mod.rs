//! What counts: the store in this process, or one far away.

mod embedded;
mod remote;

use std::fmt;

use smallvec::SmallVec;
use tollgate_limiter::Decision;
use tollgate_policy::LimitCheck;

pub(crate) use embedded::Embedded;
pub(crate) use remote::{Remote, parse_url};

/// The checks of one request; most requests have few.
pub(crate) type Checks<'a> = SmallVec<[LimitCheck<'a>; 4]>;

/// One decision for each check.
pub(crate) type Decisions = SmallVec<[Decision; 4]>;

/// Decides all checks of a request at once: all take, or none does.
pub(crate) trait Decide {
    /// One decision for each check, in their order.
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError>;

    /// Gives back up to the check's cost, and tells what is there then.
    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError>;
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
    Remote(Box<Remote>),
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
}
