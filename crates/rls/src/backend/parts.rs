//! One decision that several places make, one after the other: slots of a cluster, or two stores.
//!
//! Once one denies, what those before it took is given back, and those after it only look. Meanwhile others may be denied for
//! units that come back; nobody passes that should not. Who ends in between leaves units taken until they expire.

use std::time::Instant;

use smallvec::SmallVec;
use tollgate_limiter::{Act, Cost, Decision, Method};
use tollgate_policy::LimitCheck;

use super::{BackendError, Checks, Decide, Decisions};

/// Checks that one backend decides at once.
pub(super) struct Part<B> {
    pub(super) backend: B,
    /// Their indices.
    pub(super) at: SmallVec<[usize; 4]>,
}

/// What was taken: by a part, for the check of an index.
type Taken<'p, B> = Vec<(&'p Part<B>, usize, Take)>;

/// Units that were taken, as the store told it.
#[derive(Clone, Copy)]
pub(crate) struct Take {
    pub(crate) said: Decision,
    /// When they were asked for.
    pub(crate) asked: Instant,
}

/// Waits are told in whole milliseconds, rounded up.
const ROUNDING: u128 = 1_000_000;

impl Take {
    /// Whether the units will count still when they have come back: those of a window that has ended, or that a bucket has earned
    /// again, would be taken out of what others use now. The way back is taken to be as long as it has been since.
    fn counts(self) -> bool {
        let arrives = 2 * self.asked.elapsed().as_nanos() + ROUNDING;
        u128::from(self.said.reset_after) > arrives
    }
}

/// Decides all checks, of which each is in one part.
pub(super) async fn decide<B: Decide>(
    checks: &[LimitCheck<'_>],
    parts: &[Part<B>],
) -> Result<Decisions, BackendError> {
    let mut decisions: Decisions = checks.iter().map(|_| Decision::DENIED).collect();
    let mut taken = Taken::new();
    let mut denied = false;
    for part in parts {
        let asked: Checks<'_> = part
            .at
            .iter()
            .map(|&at| LimitCheck {
                act: if denied { Act::Peek } else { checks[at].act },
                ..checks[at]
            })
            .collect();
        let asked_at = Instant::now();
        let made = match part.backend.decide(&asked).await {
            Ok(made) if made.len() == asked.len() => made,
            other => {
                undo(checks, &taken).await?;
                return Err(other.err().unwrap_or_else(BackendError::bad_reply));
            }
        };
        let passed = made.iter().all(|decision| decision.allowed);
        for (&at, mut decision) in part.at.iter().zip(made) {
            if denied && decision.allowed && checks[at].act != Act::Peek {
                // What a look leaves is what is there.
                let cost = checks[at].cost.0;
                decision.remaining = decision.remaining.saturating_add(cost);
            }
            decisions[at] = decision;
        }
        if passed && !denied {
            let took = part.at.iter().filter(|&&at| checks[at].act != Act::Peek);
            taken.extend(took.map(|&at| {
                let take = Take {
                    said: decisions[at],
                    asked: asked_at,
                };
                (part, at, take)
            }));
        } else if !denied {
            denied = true;
            for (at, there) in undo(checks, &taken).await? {
                decisions[at] = there;
            }
        }
    }
    Ok(decisions)
}

/// Gives back what checks took; all of them are tried. What is there then, by their index.
async fn undo<B: Decide>(
    checks: &[LimitCheck<'_>],
    taken: &Taken<'_, B>,
) -> Result<Vec<(usize, Decision)>, BackendError> {
    let mut there = Vec::new();
    let mut failed = None;
    for &(part, at, take) in taken {
        match undo_one(&part.backend, &checks[at], take).await {
            Ok(decision) => there.push((at, decision)),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        None => Ok(there),
        Some(error) => Err(error),
    }
}

/// Gives back what a check took; tells what is there then.
pub(crate) async fn undo_one<B: Decide>(
    backend: &B,
    check: &LimitCheck<'_>,
    take: Take,
) -> Result<Decision, BackendError> {
    match (check.act, check.method) {
        (Act::Hold { id, .. }, Method::Concurrency) => backend.release(check, id).await.map(drop),
        (Act::Hold { id, .. }, _) => backend.end(check, id, 0).await.map(drop),
        _ if take.counts() => backend.refund(check).await.map(drop),
        _ => Ok(()),
    }?;
    let look = LimitCheck {
        act: Act::Peek,
        cost: Cost(0),
        ..*check
    };
    let looked = backend.decide(&[look]).await?;
    looked.first().copied().ok_or_else(BackendError::bad_reply)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use tollgate_limiter::holds::Ended;
    use tollgate_limiter::{AlgorithmKind, Quota};
    use tollgate_policy::{HotKey, OnError, Role};

    /// A store whose windows end so soon.
    struct Store {
        allows: bool,
        reset_after: u64,
        refunded: Cell<u64>,
    }

    impl Decide for &Store {
        async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
            let made = checks.iter().map(|_| Decision {
                allowed: self.allows,
                limit: 1,
                remaining: 0,
                retry_after: Some(0),
                reset_after: self.reset_after,
            });
            Ok(made.collect())
        }

        async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
            self.refunded.set(self.refunded.get() + check.cost.0);
            Ok(Decision::DENIED)
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
    async fn units_of_a_window_that_has_ended_are_not_given_back() {
        for (reset_after, refunded) in [(3_600_000_000_000, 1), (1_000_000, 0)] {
            let store = |allows| Store {
                allows,
                reset_after,
                refunded: Cell::new(0),
            };
            let (first, second) = (store(true), store(false));
            let check = |key| LimitCheck {
                key,
                method: Method::Small(AlgorithmKind::FixedWindowEpoch),
                quota: Quota::new(1, 1_000_000_000),
                cost: Cost(1),
                role: Role::Enforced,
                act: Act::Take,
                descriptor: 0,
                on_error: OnError::DEFAULT,
                exact: false,
                predecessor: None,
                hot_key: HotKey::Exact,
            };
            let parts = [(&first, 0), (&second, 1)].map(|(backend, at)| Part {
                backend,
                at: SmallVec::from_slice(&[at]),
            });
            let made = decide(&[check(b"a"), check(b"b")], &parts).await;
            assert!(!made.expect("decided")[1].allowed);
            assert_eq!(first.refunded.get(), refunded, "{reset_after}");
        }
    }
}
