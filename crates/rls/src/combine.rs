//! Checks of different roles, decided as one request.

use tollgate_limiter::{Cost, Decision};
use tollgate_policy::{LimitCheck, Role};

use crate::backend::{BackendError, Checks, Decide, Decisions};

/// Whether the backend decides all checks as one.
pub(crate) fn is_plain(checks: &[LimitCheck<'_>]) -> bool {
    checks.iter().all(|check| check.role == Role::Enforced)
}

/// Decides the checks of one request, in their order. Enforced ones take all or nothing; quotas take each by itself, and
/// have it back when the request is denied after all; shadows count requests that pass; refunds are made in any case.
pub(crate) async fn decide<B: Decide>(
    backend: &B,
    checks: &[LimitCheck<'_>],
) -> Result<Decisions, BackendError> {
    if is_plain(checks) {
        return backend.decide(checks).await;
    }
    let mut decided = Decided {
        backend,
        checks,
        decisions: checks.iter().map(|_| Decision::DENIED).collect(),
    };
    let quotas = decided.each(Role::Quota, false).await?;
    let mut denied = quotas > 0 && !decided.any_passed(Role::Quota);
    if denied {
        decided.each(Role::Enforced, true).await?;
    } else if !decided.enforced().await? {
        denied = true;
        decided.give_back().await?;
    }
    decided.each(Role::Shadow, denied).await?;
    for (index, check) in checks.iter().enumerate() {
        if check.role == Role::Refund {
            decided.decisions[index] = backend.refund(check).await?;
        }
    }
    Ok(decided.decisions)
}

/// Decides one check by itself.
pub(crate) async fn one<B: Decide>(
    backend: &B,
    check: &LimitCheck<'_>,
) -> Result<Decision, BackendError> {
    let decisions = backend.decide(std::slice::from_ref(check)).await?;
    decisions
        .first()
        .copied()
        .ok_or_else(|| BackendError::new("the store's reply is not that of a decision"))
}

struct Decided<'a, B> {
    backend: &'a B,
    checks: &'a [LimitCheck<'a>],
    decisions: Decisions,
}

impl<B: Decide> Decided<'_, B> {
    /// Decides every check of a role by itself, or looks what it would say; how many there are.
    async fn each(&mut self, role: Role, peek: bool) -> Result<usize, BackendError> {
        let mut count = 0;
        for (index, check) in self.checks.iter().enumerate() {
            if check.role != role {
                continue;
            }
            count += 1;
            let check = LimitCheck { peek, ..*check };
            let mut decision = one(self.backend, &check).await?;
            if peek && decision.allowed {
                // What a look leaves is what is there.
                decision.remaining = decision.remaining.saturating_add(check.cost.0);
            }
            self.decisions[index] = decision;
        }
        Ok(count)
    }

    fn any_passed(&self, role: Role) -> bool {
        let mut pairs = self.checks.iter().zip(&self.decisions);
        pairs.any(|(check, decision)| check.role == role && decision.allowed)
    }

    /// Decides the enforced checks as one; whether they pass.
    async fn enforced(&mut self) -> Result<bool, BackendError> {
        let mut wanted: Checks<'_> = Checks::new();
        wanted.extend(
            self.checks
                .iter()
                .filter(|check| check.role == Role::Enforced)
                .copied(),
        );
        if wanted.is_empty() {
            return Ok(true);
        }
        let made = self.backend.decide(&wanted).await?;
        let places = self.checks.iter().zip(&mut self.decisions);
        let places = places.filter(|(check, _)| check.role == Role::Enforced);
        for ((_, place), decision) in places.zip(&made) {
            *place = *decision;
        }
        Ok(made.iter().all(|decision| decision.allowed))
    }

    /// Gives back what quotas took for a request that is denied.
    async fn give_back(&mut self) -> Result<(), BackendError> {
        for (index, check) in self.checks.iter().enumerate() {
            let took =
                check.role == Role::Quota && self.decisions[index].allowed && check.cost > Cost(0);
            if took {
                self.decisions[index] = self.backend.refund(check).await?;
            }
        }
        Ok(())
    }
}
