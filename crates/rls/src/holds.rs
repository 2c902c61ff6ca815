//! Reservations and leases: units that are taken under a name, and what becomes of them.

use std::time::Duration;

use tollgate_limiter::{Act, Decision, Method};
use tollgate_policy::{LimitCheck, Role};
use tollgate_wire::rls::RateLimitRequest;

use crate::backend::{Checks, Decide, Decisions};
use crate::combine;
use crate::lease::HoldNames;
use crate::service::{Decided, Service, ServiceError, resolve};

/// How the reservation of one limit ended.
pub(crate) struct EndedLimit {
    pub(crate) descriptor: usize,
    /// What counts in the end.
    pub(crate) actual: u64,
    /// Units given back.
    pub(crate) released: u64,
    /// It had ended before, with this result.
    pub(crate) before: bool,
}

impl Service {
    /// Takes what a request weighs under a name, from all enforced limits or none; it comes back by itself after `ttl`.
    /// Shadows and quotas are only looked at.
    pub(crate) async fn reserve<T>(
        &self,
        request: &RateLimitRequest,
        id: &[u8],
        ttl: Duration,
        make: impl FnOnce(Decided<'_>) -> T,
    ) -> Result<T, ServiceError> {
        let _flight = self.fly().map_err(ServiceError::Shed)?;
        let rules = self.rules_now();
        let resolved = resolve(&rules, request)?;
        let ttl = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
        let names = HoldNames::new(id);
        let checks = names.checks(&resolved);
        let is_held = |check: &LimitCheck<'_>| check.role == Role::Enforced;
        let mut decisions: Decisions = checks.iter().map(|_| Decision::DENIED).collect();
        for (place, check) in decisions.iter_mut().zip(&checks) {
            if !is_held(check) {
                let look = LimitCheck {
                    act: Act::Peek,
                    ..*check
                };
                let looked = combine::one(self.backend(), &look).await;
                *place = looked.map_err(ServiceError::Backend)?;
            }
        }
        // For a request that quotas deny nothing is held.
        let denied = combine::quotas_deny(&checks, &decisions);
        let act = |at| match denied {
            true => Act::Peek,
            false => Act::Hold {
                id: names.of(at),
                ttl,
            },
        };
        let held = checks
            .iter()
            .enumerate()
            .filter(|(_, check)| is_held(check));
        let held: Checks<'_> = held
            .map(|(at, check)| LimitCheck {
                act: act(at),
                ..*check
            })
            .collect();
        let taken = match held.is_empty() {
            true => Decisions::new(),
            false => self
                .backend()
                .decide(&held)
                .await
                .map_err(ServiceError::Backend)?,
        };
        let places = decisions.iter_mut().zip(&checks);
        let places = places.filter(|(_, check)| is_held(check));
        for ((place, check), mut decision) in places.zip(taken) {
            if denied && decision.allowed {
                // What a look leaves is what is there.
                decision.remaining = decision.remaining.saturating_add(check.cost.0);
            }
            *place = decision;
        }
        Ok(make(Decided::new(&resolved, request, &decisions)))
    }

    /// Ends the reservation of a name on every limit of a request with its actual cost; 0 cancels it. Empty when there
    /// is none.
    pub(crate) async fn end(
        &self,
        request: &RateLimitRequest,
        id: &[u8],
        actual: u64,
    ) -> Result<Vec<EndedLimit>, ServiceError> {
        let rules = self.rules_now();
        let resolved = resolve(&rules, request)?;
        let mut all = Vec::new();
        let names = HoldNames::new(id);
        let checks = names.checks(&resolved);
        for (at, check) in checks.iter().enumerate() {
            if check.role != Role::Enforced || check.method == Method::Concurrency {
                continue;
            }
            let ended = self.backend().end(check, names.of(at), actual).await;
            self.units_came_back(check);
            if let Some(ended) = ended.map_err(ServiceError::Backend)? {
                all.push(EndedLimit {
                    descriptor: check.descriptor,
                    actual: ended.actual,
                    released: ended.released,
                    before: ended.before,
                });
            }
        }
        Ok(all)
    }

    /// Gives the places back that are in use under a name; how many there were.
    pub(crate) async fn release(
        &self,
        request: &RateLimitRequest,
        id: &[u8],
    ) -> Result<u64, ServiceError> {
        let rules = self.rules_now();
        let resolved = resolve(&rules, request)?;
        let mut units = 0_u64;
        let names = HoldNames::new(id);
        let checks = names.checks(&resolved);
        for (at, check) in checks.iter().enumerate() {
            if check.method == Method::Concurrency {
                let released = self.backend().release(check, names.of(at)).await;
                units = units.saturating_add(released.map_err(ServiceError::Backend)?);
            }
        }
        Ok(units)
    }
}
