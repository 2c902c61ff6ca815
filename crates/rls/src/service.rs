//! One request from its message to its response, whatever carried it.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use tollgate_policy::{RequestError, Resolved, Ruleset};
use tollgate_wire::rls::{RateLimitRequest, RateLimitResponse};

use crate::backend::{AnyBackend, BackendError, Checks, Decisions};
use crate::combine;

/// The service as one thread holds it.
pub(crate) struct Service {
    rules: Arc<Ruleset>,
    backend: AnyBackend,
}

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceError {
    /// The request is not one that can be answered.
    Request(RequestError),
    /// The backend could not decide.
    Backend(BackendError),
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
        }
    }
}

impl Service {
    pub(crate) fn new(rules: Arc<Ruleset>, backend: AnyBackend) -> Self {
        Self { rules, backend }
    }

    /// The response, if it can be given without waiting.
    pub(crate) fn answer_now(
        &self,
        request: &RateLimitRequest,
    ) -> Option<Result<RateLimitResponse, ServiceError>> {
        let AnyBackend::Embedded(embedded) = &self.backend else {
            return None;
        };
        Some(self.resolve(request).and_then(|resolved| {
            let checks: Checks<'_> = resolved.checks().collect();
            finish(&resolved, request, &checks, |checks| {
                if combine::is_plain(checks) {
                    embedded.decide_now(checks)
                } else {
                    let decided = combine::decide(embedded, checks).now_or_never();
                    decided.expect("the store in this process never waits")
                }
            })
        }))
    }

    /// The response.
    pub(crate) async fn answer(
        &self,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, ServiceError> {
        let resolved = self.resolve(request)?;
        let checks: Checks<'_> = resolved.checks().collect();
        let decided = match checks.is_empty() {
            true => Ok(Decisions::new()),
            false => combine::decide(&self.backend, &checks).await,
        };
        finish(&resolved, request, &checks, |_| decided)
    }

    fn resolve<'r>(&'r self, request: &RateLimitRequest) -> Result<Resolved<'r>, ServiceError> {
        self.rules.resolve(request).map_err(ServiceError::Request)
    }
}

/// Without a limit there is nothing to decide, and the backend is left alone.
fn finish(
    resolved: &Resolved<'_>,
    request: &RateLimitRequest,
    checks: &Checks<'_>,
    decide: impl FnOnce(&Checks<'_>) -> Result<Decisions, BackendError>,
) -> Result<RateLimitResponse, ServiceError> {
    if checks.is_empty() {
        return Ok(resolved.verdict(request, &[]));
    }
    let decisions = decide(checks).map_err(ServiceError::Backend)?;
    Ok(resolved.verdict(request, &decisions))
}
