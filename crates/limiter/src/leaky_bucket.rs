//! Leaky bucket as a queue: what is admitted leaves evenly, `limit` units in each `period`, and at most `burst`
//! units wait.
//!
//! It is the mirror image of GCRA, whose arithmetic it shares, read from the other side: a unit that is
//! admitted has its turn once those before it have left. [`Decision::reset_after`] of an admitted request is the time
//! until its last unit leaves, so a caller who wants an even flow does its work then; a burst that may pass at once is a
//! token bucket's.

use crate::gcra::{self, Gcra};
use crate::types::{Cost, Decision, Quota, Timestamp};

/// When the bucket is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// When the last unit in it leaves.
    pub empty_at: Timestamp,
}

/// Decides one request. The second value is the state to store; `None` leaves things as they are.
pub fn decide(
    state: Option<State>,
    quota: &Quota,
    cost: Cost,
    now: Timestamp,
) -> (Decision, Option<State>) {
    let tat = state.map(|state| gcra::State {
        tat: state.empty_at,
    });
    let (decision, next) = Gcra::new(quota).decide(tat, cost, now);
    let next = next.map(|next| State { empty_at: next.tat });
    (decision, next)
}
