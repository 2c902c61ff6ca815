//! Clients that do not take a failure for an answer: how often a failed request is sent again, and when.
//!
//! A failed attempt is one without a good answer by its deadline, one answered with an error, or one lost with its
//! connection. A denial is a good answer and is never repeated. Repetitions come on top of the schedule; that is
//! what keeps an overload alive after its cause is gone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::rng::Rng;

/// Doublings of the wait at most.
const DOUBLINGS_MAX: u32 = 10;

/// What clients do about failed requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Repetitions of one request at most.
    pub retries: u32,
    /// Mean wait before the first repetition. Waits are drawn evenly between nothing and twice the mean, which doubles
    /// with each repetition.
    pub backoff_ns: u64,
    /// How long after the schedule's end answers are waited for at most.
    pub drain_ns: u64,
    /// Seed of the waits.
    pub seed: u64,
}

/// A request that is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Again {
    /// When it was due at its first attempt.
    pub(super) first: u64,
    /// Key number.
    pub(super) key: u32,
    /// Attempts before the one that failed; when it is taken out again, before the one to come.
    pub(super) attempt: u32,
}

/// The repetitions of a run. Without a policy, as by default, nothing is repeated.
#[derive(Debug, Default)]
pub(super) struct Clients {
    policy: Option<(RetryPolicy, Rng)>,
    /// Bounded by `most`.
    waiting: BinaryHeap<Reverse<(u64, Again)>>,
    most: usize,
    repeated: u64,
}

impl Clients {
    /// Clients of `policy`, of which at most `most` wait to repeat a request at any time.
    pub(super) fn new(policy: RetryPolicy, most: usize) -> Clients {
        Clients {
            policy: Some((policy, Rng::new(policy.seed))),
            most,
            ..Clients::default()
        }
    }

    /// Whether any request may be repeated.
    pub(super) fn retry(&self) -> bool {
        self.policy
            .as_ref()
            .is_some_and(|(policy, _)| policy.retries > 0)
    }

    /// The policy's bound on the wait after the schedule's end.
    pub(super) fn drain_ns(&self) -> Option<u64> {
        self.policy.as_ref().map(|(policy, _)| policy.drain_ns)
    }

    /// An attempt failed at `now`. False if it is not repeated.
    pub(super) fn fail(&mut self, now: u64, failed: Again) -> bool {
        let Some((policy, rng)) = &mut self.policy else {
            return false;
        };
        if failed.attempt >= policy.retries || self.waiting.len() >= self.most {
            return false;
        }
        let mean = policy.backoff_ns << failed.attempt.min(DOUBLINGS_MAX);
        let due = now + (2.0 * mean as f64 * rng.unit()) as u64;
        let again = Again {
            attempt: failed.attempt + 1,
            ..failed
        };
        self.waiting.push(Reverse((due, again)));
        true
    }

    /// When the next repetition is due.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes a repetition that is due, with its due time.
    pub(super) fn take_due(&mut self, now: u64) -> Option<(u64, Again)> {
        self.next_due().filter(|due| *due <= now)?;
        self.repeated += 1;
        self.waiting.pop().map(|Reverse(entry)| entry)
    }

    /// Repetitions not yet due.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When those were due at their first attempt.
    pub(super) fn firsts(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|Reverse((_, again))| again.first)
    }

    /// Repetitions that have come due.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated
    }
}
