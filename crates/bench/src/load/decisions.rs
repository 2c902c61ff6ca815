//! Every decision of some keys, one by one: what the oracles need to judge a step that is longer than its window.
//!
//! Memory is bounded: [`KEYS_MAX`] keys are followed, and [`DECISIONS_MAX`] decisions are kept over all of them. What
//! comes later is counted and marked, so that nothing is concluded from its absence.

use super::tally::Verdict;

/// Most keys followed. Every key where there are no more than this.
pub(crate) const KEYS_MAX: u32 = 64;
/// Most decisions kept in a step: 16 MiB.
pub(crate) const DECISIONS_MAX: usize = 1 << 19;
/// Time of an answer that never came.
pub(crate) const NEVER: u64 = u64::MAX;
/// Longest promise kept, in milliseconds; longer ones are kept as this.
const PROMISE_MAX_MS: u32 = u32::MAX - 1;
const NO_PROMISE: u32 = u32::MAX;

/// One request of a followed key, as the generator saw it. Times are nanoseconds of the step's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// When it was written.
    pub sent_ns: u64,
    /// When its answer was read; [`NEVER`] without one.
    pub received_ns: u64,
    /// Key number.
    pub key: u32,
    promise_ms: u32,
    /// What was answered.
    pub said: Said,
}

/// What is known about a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Admitted.
    Admitted,
    /// Denied.
    Denied,
    /// No answer, or an error: it may have been charged, at any time after it was sent.
    Unknown,
}

impl Decision {
    /// A decision that was answered, or not.
    #[must_use]
    pub(crate) fn new(key: u32, sent_ns: u64, received_ns: u64, said: Said) -> Decision {
        Decision {
            sent_ns,
            received_ns: if said == Said::Unknown {
                NEVER
            } else {
                received_ns
            },
            key,
            promise_ms: NO_PROMISE,
            said,
        }
    }

    /// The same with a promised wait.
    #[must_use]
    pub(crate) fn promising(mut self, wait_ms: Option<u64>) -> Decision {
        self.promise_ms = wait_ms.map_or(NO_PROMISE, |wait| {
            u32::try_from(wait)
                .unwrap_or(PROMISE_MAX_MS)
                .min(PROMISE_MAX_MS)
        });
        self
    }

    /// The wait that a denial promised, in milliseconds.
    #[must_use]
    pub(crate) fn promise_ms(&self) -> Option<u64> {
        (self.promise_ms != NO_PROMISE).then(|| u64::from(self.promise_ms))
    }
}

/// The decisions kept of a step.
#[derive(Clone, Debug)]
pub struct DecisionLog {
    stride: u32,
    kept: Vec<Decision>,
    room: usize,
    left_out: u64,
    complete_until_ns: u64,
    unix_at_zero_ns: Option<i64>,
}

impl DecisionLog {
    /// Follows up to [`KEYS_MAX`] of `keys` keys: key 0, which is the most wanted wherever one is, and others at equal
    /// distances.
    #[must_use]
    pub(crate) fn new(keys: u32) -> DecisionLog {
        DecisionLog::with_room(keys, DECISIONS_MAX)
    }

    /// The same with room for other than [`DECISIONS_MAX`] decisions.
    #[must_use]
    pub(crate) fn with_room(keys: u32, room: usize) -> DecisionLog {
        DecisionLog {
            stride: keys.div_ceil(KEYS_MAX).max(1),
            // Reserved at once: growing would copy megabytes in the middle of a step. Untouched pages cost nothing.
            kept: Vec::with_capacity(room),
            room,
            left_out: 0,
            complete_until_ns: NEVER,
            unix_at_zero_ns: None,
        }
    }

    /// Says when the step's clock stood at 0, as wall-clock time.
    pub(crate) fn begins_at(&mut self, unix_at_zero_ns: i64) {
        self.unix_at_zero_ns = Some(unix_at_zero_ns);
    }

    /// Nanoseconds since the Unix epoch at which the step's clock stood at 0; `None` in virtual time.
    #[must_use]
    pub(crate) fn unix_at_zero_ns(&self) -> Option<i64> {
        self.unix_at_zero_ns
    }

    /// Whether `key` is one of those followed.
    #[inline]
    #[must_use]
    pub(crate) fn follows(&self, key: u32) -> bool {
        key.is_multiple_of(self.stride)
    }

    /// Keeps what became of a request if its key is followed and there is room.
    #[inline]
    pub(crate) fn push(&mut self, decision: Decision) {
        if !self.follows(decision.key) {
            return;
        }
        if self.kept.len() < self.room {
            self.kept.push(decision);
        } else {
            self.left_out += 1;
            self.complete_until_ns = self.complete_until_ns.min(decision.sent_ns);
        }
    }

    /// The decisions kept, in the order of their answers, those without one last.
    #[must_use]
    pub(crate) fn kept(&self) -> &[Decision] {
        &self.kept
    }

    /// Decisions of followed keys for which there was no room.
    #[must_use]
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Everything decided before this time was kept; [`NEVER`] if nothing was left out.
    #[must_use]
    pub(crate) fn complete_until_ns(&self) -> u64 {
        self.complete_until_ns
    }
}

impl From<Verdict> for Said {
    fn from(verdict: Verdict) -> Said {
        match verdict {
            Verdict::Allowed => Said::Admitted,
            Verdict::Denied => Said::Denied,
            Verdict::Error | Verdict::Unexpected => Said::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_are_followed_all_and_many_at_distances() {
        let few = DecisionLog::new(KEYS_MAX);
        assert!((0..KEYS_MAX).all(|key| few.follows(key)));
        let many = DecisionLog::new(1_000_000);
        let followed = (0..1_000_000).filter(|key| many.follows(*key)).count();
        assert!(followed <= KEYS_MAX as usize && followed > 32, "{followed}");
        assert!(many.follows(0));
    }

    #[test]
    fn without_room_it_is_said_from_when_on() {
        let mut log = DecisionLog::with_room(1, 2);
        for sent in [10, 30, 20, 25] {
            log.push(Decision::new(0, sent, sent + 50, Said::Denied));
        }
        assert_eq!((log.kept().len(), log.left_out()), (2, 2));
        assert_eq!(log.complete_until_ns(), 20);
    }

    #[test]
    fn promises_are_kept_where_there_are_any() {
        let denied = Decision::new(0, 1, 2, Said::Denied);
        assert_eq!(denied.promise_ms(), None);
        assert_eq!(denied.promising(Some(0)).promise_ms(), Some(0));
        assert_eq!(
            denied.promising(Some(u64::MAX)).promise_ms(),
            Some(u64::from(PROMISE_MAX_MS))
        );
        let lost = Decision::new(0, 1, 2, Said::Unknown);
        assert_eq!(lost.received_ns, NEVER);
    }
}
