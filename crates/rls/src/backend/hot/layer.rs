//! One strategy around what it asks: decides what it can here, asks for the rest, and keeps all or nothing.

use smallvec::SmallVec;
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Act, Cost, Decision, Timestamp};
use tollgate_policy::LimitCheck;

use crate::backend::{BackendError, Checks, Decide, Decisions};

/// Most checks of a request among which equal keys are looked for; of longer requests no denial is remembered.
const MAX_COMPARED: usize = 16;

/// What a strategy says to a check.
pub(super) enum Here<'c> {
    /// It passes, and has taken unless it only looks.
    Pass(Decision),
    /// It is denied.
    Deny(Decision),
    /// This is to be asked for it.
    Ask(LimitCheck<'c>),
}

/// What was asked for a check, and what came of it.
pub(super) struct Answer<'a, 'c> {
    pub(super) asked: &'a LimitCheck<'c>,
    pub(super) decision: Decision,
    /// The whole request passed, so what was asked has been taken.
    pub(super) taken: bool,
    /// Nothing else of the request was asked on the same key.
    pub(super) alone: bool,
    pub(super) asked_at: Timestamp,
}

/// A strategy, which decides some checks without asking.
pub(super) trait Layer {
    /// Whether the check is decided by this strategy at all.
    fn concerns(&self, check: &LimitCheck<'_>) -> bool;

    fn here<'c>(&self, check: &LimitCheck<'c>, now: Timestamp) -> Here<'c>;

    /// Gives back what a check took that passed here and then did not as a whole. Unless it `counts` still, it belongs to a
    /// window that has ended, or the bucket may have earned it again: the next ones must not have it too.
    fn undo(&self, check: &LimitCheck<'_>, counts: bool, now: Timestamp);

    /// Makes an answer to the check of the answer to what was asked for it.
    fn learn(&self, check: &LimitCheck<'_>, answer: &Answer<'_, '_>, now: Timestamp) -> Decision;

    /// Takes back units of the check that this strategy has not asked for; how many. Of a cost of 0 only the news that
    /// units come back below.
    fn give_back(&self, check: &LimitCheck<'_>, now: Timestamp) -> u64;

    /// What the check is to those that are asked.
    fn below<'c>(&self, check: &LimitCheck<'c>) -> LimitCheck<'c> {
        *check
    }

    /// Whether a check that is denied here denies its request, so that nothing is taken of it.
    fn denies(&self, _check: &LimitCheck<'_>) -> bool {
        true
    }

    /// What is asked for a check of a request that is denied here: how it stands.
    fn beside<'c>(&self, check: &LimitCheck<'c>) -> LimitCheck<'c> {
        LimitCheck {
            act: Act::Peek,
            ..*check
        }
    }

    /// What was asked for the check has no answer.
    fn failed(&self, _check: &LimitCheck<'_>, _asked: &LimitCheck<'_>) {}
}

/// Takes back what was decided here unless the request passes: also when nobody waits for the answer any more.
struct Tentative<'a, 'c, L: Layer> {
    layer: &'a L,
    clock: fn() -> Timestamp,
    checks: &'a [LimitCheck<'c>],
    here: SmallVec<[Here<'c>; 4]>,
    asked_at: Timestamp,
    answered: bool,
    taken: bool,
}

impl<L: Layer> Drop for Tentative<'_, '_, L> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let now = (self.clock)();
        for (check, here) in self.checks.iter().zip(&self.here) {
            match here {
                Here::Pass(decision) if check.act != Act::Peek => {
                    let counts = !is_over(decision, self.asked_at, now);
                    self.layer.undo(check, counts, now);
                }
                Here::Ask(asked) if !self.answered && self.layer.concerns(check) => {
                    self.layer.failed(check, asked);
                }
                _ => {}
            }
        }
    }
}

/// A strategy above what it asks.
pub(super) struct Layered<L, B> {
    layer: L,
    inner: B,
    clock: fn() -> Timestamp,
}

impl<L: Layer, B: Decide> Layered<L, B> {
    pub(super) fn new(layer: L, inner: B, clock: fn() -> Timestamp) -> Self {
        Self {
            layer,
            inner,
            clock,
        }
    }
}

impl<L: Layer, B: Decide> Decide for Layered<L, B> {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        decide(&self.layer, &self.inner, self.clock, checks).await
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        let back = self.layer.give_back(check, (self.clock)());
        let rest = LimitCheck {
            cost: Cost(check.cost.0.saturating_sub(back)),
            ..self.layer.below(check)
        };
        self.inner.refund(&rest).await
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        let news = LimitCheck {
            cost: Cost(0),
            ..*check
        };
        self.layer.give_back(&news, (self.clock)());
        self.inner.end(&self.layer.below(check), id, actual).await
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        self.inner.release(check, id).await
    }

    fn counts_each(&self) -> bool {
        self.inner.counts_each()
    }
}

/// What is asked of the store below.
fn questions<'a, L: Layer>(layer: &L, heres: &mut [Here<'a>], denied_here: bool) -> Checks<'a> {
    let mut asked = Checks::new();
    for here in heres {
        if let Here::Ask(check) = here {
            if denied_here {
                *check = layer.beside(check);
            }
            asked.push(*check);
        }
    }
    asked
}

/// Decides the checks of a request by a strategy above `inner`: all take, or none does.
async fn decide<L: Layer, B: Decide>(
    layer: &L,
    inner: &B,
    clock: fn() -> Timestamp,
    checks: &[LimitCheck<'_>],
) -> Result<Decisions, BackendError> {
    if !checks.iter().any(|check| layer.concerns(check)) {
        return inner.decide(checks).await;
    }
    let asked_at = clock();
    let mut tentative = Tentative {
        layer,
        clock,
        checks,
        here: SmallVec::new(),
        asked_at,
        answered: false,
        taken: false,
    };
    for check in checks {
        tentative.here.push(match layer.concerns(check) {
            true => layer.here(check, asked_at),
            false => Here::Ask(*check),
        });
    }
    let both = checks.iter().zip(&tentative.here);
    let denied_here = both
        .filter(|(_, here)| matches!(here, Here::Deny(_)))
        .any(|(check, _)| layer.denies(check));
    let asked = questions(layer, &mut tentative.here, denied_here);
    let answers = match asked.is_empty() {
        true => Decisions::new(),
        false => inner.decide(&asked).await?,
    };
    if answers.len() != asked.len() {
        return Err(BackendError::bad_reply());
    }
    tentative.answered = true;
    tentative.taken = !denied_here && answers.iter().all(|answer| answer.allowed);
    let now = clock();
    let mut answers = answers.iter();
    let mut decisions = Decisions::new();
    for (check, here) in checks.iter().zip(&tentative.here) {
        decisions.push(match here {
            Here::Pass(decision) | Here::Deny(decision) => {
                still_there(*decision, check, tentative.taken)
            }
            Here::Ask(question) => {
                let decision = *answers.next().expect("one answer to each question");
                if layer.concerns(check) {
                    let answer = Answer {
                        asked: question,
                        decision,
                        taken: tentative.taken && question.act != Act::Peek,
                        alone: is_alone(question.key, &asked),
                        asked_at,
                    };
                    layer.learn(check, &answer, now)
                } else {
                    decision
                }
            }
        });
    }
    Ok(decisions)
}

/// A check that would have passed tells what is there when nothing was taken.
fn still_there(decision: Decision, check: &LimitCheck<'_>, taken: bool) -> Decision {
    if taken || !decision.allowed || check.act == Act::Peek {
        return decision;
    }
    Decision {
        remaining: decision.remaining.saturating_add(check.cost.0),
        ..decision
    }
}

fn is_alone(key: &[u8], asked: &[LimitCheck<'_>]) -> bool {
    asked.len() <= MAX_COMPARED && asked.iter().filter(|check| check.key == key).count() == 1
}

/// The time between two moments; none when the clock stepped back.
pub(super) fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.nanos().saturating_sub(from.nanos())).unwrap_or(0)
}

/// Stores tell spans in whole milliseconds, rounded up, so the last one is not counted on.
pub(super) const ROUNDING: u64 = 1_000_000;

/// Whether what a decision counts may have come to nothing by now: its window has ended, or the bucket is full again.
pub(super) fn is_over(decision: &Decision, asked_at: Timestamp, now: Timestamp) -> bool {
    between(asked_at, now).saturating_add(ROUNDING) >= decision.reset_after
}

/// A decision made some time ago, told now.
pub(super) fn told_later(decision: Decision, since: u64) -> Decision {
    Decision {
        retry_after: decision.retry_after.map(|wait| wait.saturating_sub(since)),
        reset_after: decision.reset_after.saturating_sub(since),
        ..decision
    }
}
