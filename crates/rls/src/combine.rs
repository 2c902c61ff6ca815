//! Checks of different roles, decided as one request.

use std::ops::Range;
use std::time::Instant;

use smallvec::SmallVec;
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
///
/// # Errors
/// The backend's, of any of the checks. What others have taken by then is given back as far as the backend can; refunds stay.
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
        taken: checks.iter().map(|_| false).collect(),
        asked: Instant::now(),
    };
    match decided.all().await {
        Ok(()) => Ok(decided.decisions),
        Err(error) => {
            // The first error is what is told.
            decided.give_back(|_| true).await.ok();
            Err(error)
        }
    }
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
    /// Which of the checks have taken units that are not given back.
    taken: SmallVec<[bool; 4]>,
    /// When the first of them was asked for.
    asked: Instant,
}

impl<B: Decide> Decided<'_, B> {
    /// Decides the checks role by role.
    async fn all(&mut self) -> Result<(), BackendError> {
        self.each(Role::Quota, false).await?;
        let mut denied = quotas_deny(self.checks, &self.decisions);
        if denied {
            self.each(Role::Enforced, true).await?;
        } else if !self.enforced().await? {
            denied = true;
            self.give_back(|role| role == Role::Quota).await?;
        }
        self.each(Role::Shadow, denied).await?;
        for (index, check) in self.checks.iter().enumerate() {
            if check.role == Role::Refund {
                self.decisions[index] = self.backend.refund(check).await?;
            }
        }
        Ok(())
    }

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
            let passed = made.iter().all(|decision| decision.allowed);
            for (index, mut decision) in group.zip(made) {
                self.taken[index] = passed && !peek && takes(&self.checks[index]);
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
        if made.len() != wanted.len() {
            return Err(BackendError::bad_reply());
        }
        let passed = made.iter().all(|decision| decision.allowed);
        let mut made = made.into_iter();
        for (index, check) in self.checks.iter().enumerate() {
            if check.role == Role::Enforced
                && let Some(decision) = made.next()
            {
                self.decisions[index] = decision;
                self.taken[index] = passed && takes(check);
            }
        }
        Ok(passed)
    }

    /// Gives back what checks of some roles took for a request that does not pass. All of them are tried.
    async fn give_back(&mut self, of: impl Fn(Role) -> bool) -> Result<(), BackendError> {
        let mut failed = Ok(());
        for (index, check) in self.checks.iter().enumerate() {
            if !of(check.role) || !std::mem::take(&mut self.taken[index]) {
                continue;
            }
            let take = Take {
                said: self.decisions[index],
                asked: self.asked,
            };
            match undo_one(self.backend, check, take).await {
                Ok(there) => self.decisions[index] = there,
                Err(error) => failed = Err(error),
            }
        }
        failed
    }
}

/// Whether a check that passes takes units.
fn takes(check: &LimitCheck<'_>) -> bool {
    check.cost > Cost(0) && check.act != Act::Peek
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use super::*;
    use tollgate_limiter::holds::Ended;
    use tollgate_limiter::{AlgorithmKind, Method, Quota};
    use tollgate_policy::{HotKey, OnError};

    const LIMIT: u64 = 5;
    const HOUR: u64 = 3_600_000_000_000;

    /// Counters that can all be asked but one.
    #[derive(Default)]
    struct Store {
        used: RefCell<HashMap<Vec<u8>, u64>>,
        broken: &'static [u8],
    }

    impl Store {
        fn made(&self, check: &LimitCheck<'_>, allowed: bool) -> Decision {
            let used = self.used.borrow().get(check.key).copied().unwrap_or(0);
            Decision {
                allowed,
                limit: LIMIT,
                remaining: LIMIT - used,
                retry_after: Some(0),
                reset_after: HOUR,
            }
        }
    }

    impl Decide for &Store {
        async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
            if checks.iter().any(|check| check.key == self.broken) {
                return Err(BackendError::new("broken"));
            }
            let fits = |check: &LimitCheck<'_>| self.made(check, true).remaining >= check.cost.0;
            let all = checks.iter().all(fits);
            let made = checks.iter().map(|check| {
                let allowed = fits(check);
                if all && check.act != Act::Peek {
                    *self.used.borrow_mut().entry(check.key.into()).or_default() += check.cost.0;
                }
                self.made(check, allowed)
            });
            Ok(made.collect())
        }

        async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
            *self.used.borrow_mut().entry(check.key.into()).or_default() -= check.cost.0;
            Ok(self.made(check, true))
        }

        async fn end(
            &self,
            _: &LimitCheck<'_>,
            _: &[u8],
            _: u64,
        ) -> Result<Option<Ended>, BackendError> {
            Ok(None)
        }

        async fn release(&self, _: &LimitCheck<'_>, _: &[u8]) -> Result<u64, BackendError> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_decided_takes_nothing() {
        let check = |key, descriptor, role| LimitCheck {
            key,
            method: Method::Small(AlgorithmKind::FixedWindowEpoch),
            quota: Quota::new(LIMIT, HOUR),
            cost: Cost(1),
            role,
            act: Act::Take,
            descriptor,
            on_error: OnError::DEFAULT,
            exact: false,
            predecessor: None,
            hot_key: HotKey::Exact,
        };
        let checks = [
            check(&b"quota"[..], 0, Role::Quota),
            check(b"other quota", 1, Role::Quota),
            check(b"enforced", 2, Role::Enforced),
            check(b"shadow", 3, Role::Shadow),
            check(b"other shadow", 4, Role::Shadow),
        ];
        for broken in ["other quota", "enforced", "shadow", "other shadow"] {
            let store = Store {
                broken: broken.as_bytes(),
                ..Store::default()
            };
            for _ in 0..2 * LIMIT {
                assert!(decide(&&store, &checks).await.is_err(), "{broken}");
            }
            let used = store.used.borrow();
            assert!(used.values().all(|units| *units == 0), "{broken}: {used:?}");
        }
    }
}
