//! Bounds that a right limiter must keep, from what the generator saw of each key.
//!
//! Times are taken at the generator: the interval `T` of a key runs from the first send to the last answer and so
//! contains every decision. Keys are fresh in every step, and a window of the store opens at the first hit, so:
//!
//! * fixed window: at most `limit * (floor(T / window) + 1)`;
//! * GCRA: at most `limit + limit * T / window`;
//! * windows laid on the wall clock (the gRPC service): one window more if a boundary falls into the step.
//!
//! At least `min(offered, limit)` must be admitted. Requests whose verdict never arrived may have been charged; they
//! count in favour of the limiter. Steps shorter than the window therefore judge it to a single request.

use crate::load::keys::Spreading;
use crate::load::tally::KeyTally;
use crate::load::workload::Rule;
use crate::record::{Accuracy, AccuracyInput};

/// Where windows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// At the first hit of a key.
    FirstHit,
    /// At multiples of the window since the epoch; this many boundaries fell into the step.
    Epoch {
        /// Boundaries between start and end of the step.
        boundaries: u64,
    },
    /// No windows: GCRA.
    Continuous,
}

/// What is judged.
#[derive(Clone, Copy, Debug)]
pub struct Promise<'a> {
    /// Name of the algorithm.
    pub algorithm: &'a str,
    /// Limit and window.
    pub rule: Rule,
    /// Where windows begin.
    pub windows: Windows,
}

impl Promise<'_> {
    /// Most admissions of one key over `interval_ns`.
    #[must_use]
    pub fn most(&self, interval_ns: u64) -> u64 {
        let window_ns = u128::from(self.rule.window_s.max(1)) * 1_000_000_000;
        let limit = u128::from(self.rule.limit);
        let interval = u128::from(interval_ns);
        let most = match self.windows {
            Windows::FirstHit => limit * (interval / window_ns + 1),
            Windows::Epoch { boundaries } => limit * (u128::from(boundaries) + 1),
            Windows::Continuous => limit + (limit * interval).div_ceil(window_ns),
        };
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// Fewest admissions of one key that was asked `offered` times.
    #[must_use]
    pub fn fewest(&self, offered: u64) -> u64 {
        offered.min(self.rule.limit)
    }
}

/// Judges all keys of a step. `None` if nothing was sent.
#[must_use]
pub fn judge(
    promise: &Promise<'_>,
    keys: &[KeyTally],
    spreading: Spreading,
    prefix: &str,
) -> Option<Accuracy> {
    let mut input = AccuracyInput {
        algorithm: promise.algorithm.into(),
        limit: promise.rule.limit,
        window_ms: promise.rule.window_s.saturating_mul(1000),
        ..AccuracyInput::default()
    };
    let window_ns = promise.rule.window_s.saturating_mul(1_000_000_000);
    let (mut worst, mut all_short) = ((0, 0), true);
    for (index, key) in keys.iter().enumerate().filter(|(_, key)| key.sent > 0) {
        let interval = key.last_received_ns.saturating_sub(key.first_sent_ns);
        let (admitted, unknown) = (u64::from(key.admitted), u64::from(key.unknown()));
        let (most, fewest) = (
            promise.most(interval).min(u64::from(key.sent)),
            promise.fewest(u64::from(key.sent)),
        );
        input.keys += 1;
        input.offered += u64::from(key.sent);
        input.admitted += admitted;
        input.unknown += unknown;
        input.allowed_max += most;
        input.allowed_min += fewest;
        input.over_admitted += admitted.saturating_sub(most);
        input.under_admitted += fewest.saturating_sub(admitted + unknown);
        all_short &= interval <= window_ns;
        worst = worst.max((admitted, index));
    }
    if input.keys == 0 {
        return None;
    }
    if all_short {
        input.worst_window_admitted = Some(worst.0);
        input.worst_window_key = Some(format!("{prefix}{}", worst.1));
    }
    if matches!(spreading, Spreading::Uniform | Spreading::RoundRobin) {
        input.fairness_jain = jain(keys);
    }
    Some(Accuracy::new(input))
}

/// Jain's index over the admissions of all keys: 1 when all got the same.
fn jain(keys: &[KeyTally]) -> Option<f64> {
    let sum: f64 = keys.iter().map(|key| f64::from(key.admitted)).sum();
    let squares: f64 = keys.iter().map(|key| f64::from(key.admitted).powi(2)).sum();
    (squares > 0.0).then(|| sum * sum / (keys.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const RULE: Rule = Rule {
        limit: 100,
        window_s: 10,
    };

    fn promise(windows: Windows) -> Promise<'static> {
        Promise {
            algorithm: "fixed-window",
            rule: RULE,
            windows,
        }
    }

    fn key(sent: u32, admitted: u32, denied: u32, length_ns: u64) -> KeyTally {
        KeyTally {
            sent,
            admitted,
            denied,
            errors: 0,
            first_sent_ns: 5,
            last_received_ns: 5 + length_ns,
        }
    }

    #[test]
    fn bounds_follow_the_interval() {
        assert_eq!(promise(Windows::FirstHit).most(9 * SECOND), 100);
        assert_eq!(promise(Windows::FirstHit).most(10 * SECOND), 200);
        assert_eq!(promise(Windows::Continuous).most(5 * SECOND), 150);
        assert_eq!(promise(Windows::Epoch { boundaries: 1 }).most(SECOND), 200);
        assert_eq!(promise(Windows::FirstHit).fewest(40), 40);
        assert_eq!(promise(Windows::FirstHit).fewest(400), 100);
    }

    #[test]
    fn one_request_too_many_is_seen() {
        let keys = [key(500, 100, 400, SECOND), key(500, 101, 399, SECOND)];
        let accuracy = judge(&promise(Windows::FirstHit), &keys, Spreading::Uniform, "k").unwrap();
        assert!(!accuracy.never_over());
        assert_eq!((accuracy.allowed_max, accuracy.admitted), (200, 201));
        assert_eq!(accuracy.worst_window_key.as_deref(), Some("k1"));
        // One key's surplus is not hidden by another key's deficit.
        let keys = [key(500, 90, 410, SECOND), key(500, 101, 399, SECOND)];
        let accuracy = judge(&promise(Windows::FirstHit), &keys, Spreading::Uniform, "k").unwrap();
        assert_eq!(
            (
                accuracy.over_admission_percent,
                accuracy.under_admission_percent
            ),
            (0.5, 5.0)
        );
    }

    #[test]
    fn lost_answers_speak_for_the_limiter() {
        let keys = [key(500, 95, 400, SECOND)];
        let accuracy = judge(&promise(Windows::FirstHit), &keys, Spreading::Single, "k").unwrap();
        assert_eq!(
            (accuracy.unknown, accuracy.under_admission_percent),
            (5, 0.0)
        );
        assert!(accuracy.never_over());
    }

    #[test]
    fn nothing_sent_is_not_judged() {
        assert!(
            judge(
                &promise(Windows::FirstHit),
                &[KeyTally::default()],
                Spreading::Single,
                "k"
            )
            .is_none()
        );
    }
}
