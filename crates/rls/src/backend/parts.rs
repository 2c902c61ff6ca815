//! One decision that several places make, one after the other: slots of a cluster, or two stores.
//!
//! Once one denies, what those before it took is given back, and those after it only look. Meanwhile others may be denied for
//! units that come back; nobody passes that should not. Who ends in between leaves units taken until they expire.

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

/// What was taken, as a part and the index of a check.
type Taken<'p, B> = Vec<(&'p Part<B>, usize)>;

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
            taken.extend(took.map(|&at| (part, at)));
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
    for &(part, at) in taken {
        match undo_one(&part.backend, &checks[at]).await {
            Ok(decision) => there.push((at, decision)),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        None => Ok(there),
        Some(error) => Err(error),
    }
}

async fn undo_one<B: Decide>(
    backend: &B,
    check: &LimitCheck<'_>,
) -> Result<Decision, BackendError> {
    match (check.act, check.method) {
        (Act::Hold { id, .. }, Method::Concurrency) => backend.release(check, id).await.map(drop),
        (Act::Hold { id, .. }, _) => backend.end(check, id, 0).await.map(drop),
        _ => backend.refund(check).await.map(drop),
    }?;
    let look = LimitCheck {
        act: Act::Peek,
        cost: Cost(0),
        ..*check
    };
    let looked = backend.decide(&[look]).await?;
    looked.first().copied().ok_or_else(BackendError::bad_reply)
}
