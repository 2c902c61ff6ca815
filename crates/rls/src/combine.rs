//! Checks of different roles, decided as one request.

use std::ops::Range;
use std::time::Instant;

use tollgate_limiter::{Act, Cost, Decision};
use tollgate_policy::{LimitCheck, Role};

use crate::backend::{BackendError, Checks, Decide, Decisions, Take, undo_one};

/// Whether the backend decides all checks as one.
pub(crate) fn is_plain(checks: &[LimitCheck<'_>]) -> bool {
    checks.iter().all(|check| check.role == Role::Enforced)
}

/// Whether quotas deny the request: there are some, and every descriptor that is one is over.
pub(crate) fn quotas_deny(checks: &[LimitCheck<'_>], decisions: &[Decision]) -> bool {
    let is_quota = |group: &Range<usize>| checks[group.start].role == Role::Quota;
    let mut quotas = groups(checks).filter(is_quota).peekable();
    quotas.peek().is_some() && quotas.all(|mut group| group.any(|index| !decisions[index].allowed))
}

/// Decides the checks of one request, in their order. Enforced ones take all or nothing; quotas take each by itself, and
/// have it back when the request is denied after all; shadows count requests that pass; refunds are made in any case. A
/// backend that [counts each](Decide::counts_each) for itself has its own way.
pub(crate) async fn decide<B: Decide>(
    backend: &B,
    checks: &[LimitCheck<'_>],
) -> Result<Decisions, BackendError> {
    if is_plain(checks) || backend.counts_each() {
        return backend.decide(checks).await;
    }
    let mut decided = Decided {
        backend,
        checks,
        decisions: checks.iter().map(|_| Decision::DENIED).collect(),
        asked: Instant::now(),
    };
    decided.each(Role::Quota, false).await?;
    let mut denied = quotas_deny(checks, &decided.decisions);
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
        .ok_or_else(BackendError::bad_reply)
}

struct Decided<'a, B> {
    backend: &'a B,
    checks: &'a [LimitCheck<'a>],
    decisions: Decisions,
    /// When the first of them was asked for.
    asked: Instant,
}

impl<B: Decide> Decided<'_, B> {
    /// Decides the limits of every descriptor of a role by themselves, or looks what they would say.
    async fn each(&mut self, role: Role, peek: bool) -> Result<(), BackendError> {
        for group in groups(self.checks) {
            if self.checks[group.start].role != role {
                continue;
            }
            let asked: Checks<'_> = self.checks[group.clone()]
                .iter()
                .map(|check| LimitCheck {
                    act: if peek { Act::Peek } else { check.act },
                    ..*check
                })
                .collect();
            let made = self.backend.decide(&asked).await?;
            if made.len() != asked.len() {
                return Err(BackendError::bad_reply());
            }
            for (index, mut decision) in group.zip(made) {
                if peek && decision.allowed {
                    // What a look leaves is what is there.
                    let cost = self.checks[index].cost.0;
                    decision.remaining = decision.remaining.saturating_add(cost);
                }
                self.decisions[index] = decision;
            }
        }
        Ok(())
    }

    fn passes(&self, mut group: Range<usize>) -> bool {
        group.all(|index| self.decisions[index].allowed)
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
        for group in groups(self.checks) {
            if self.checks[group.start].role != Role::Quota || !self.passes(group.clone()) {
                continue;
            }
            for index in group {
                let check = &self.checks[index];
                if check.cost > Cost(0) {
                    let take = Take {
                        said: self.decisions[index],
                        asked: self.asked,
                    };
                    self.decisions[index] = undo_one(self.backend, check, take).await?;
                }
            }
        }
        Ok(())
    }
}

/// The checks of each descriptor.
fn groups<'c>(checks: &'c [LimitCheck<'_>]) -> impl Iterator<Item = Range<usize>> + use<'c> {
    let mut start = 0;
    let lengths = checks
        .chunk_by(|one, next| one.descriptor == next.descriptor)
        .map(<[_]>::len);
    lengths.map(move |length| {
        let group = start..start + length;
        start = group.end;
        group
    })
}
