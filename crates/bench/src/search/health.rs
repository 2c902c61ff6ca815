//! Whether a system is as well as it was before, so that a trial does not pay for the one before it.

use crate::record::{Measure, Profile};

/// Share of the probed capacity at which the system is looked at between trials.
pub(crate) const LOOK_SHARE: f64 = 0.2;
/// P99 of a look, in those of the look before the first trial, up to which the system is well.
const P99_MAX: f64 = 1.5;

/// Whether `now` shows a system that is as well as `before` the first trial: it fails no more than then or than is Good, and its
/// P99 is within 1.5 times what it was, or Good.
#[must_use]
pub(crate) fn is_well(profile: &Profile, before: &Measure, now: &Measure) -> bool {
    let (Some(p99_before), Some(p99_now)) = (before.p99_ms, now.p99_ms) else {
        return false;
    };
    now.fail_percent <= before.fail_percent.max(profile.fail_percent.good)
        && p99_now <= (P99_MAX * p99_before).max(profile.p99_ms.good)
}

/// Whether a look before the first trial tells how a well system looks: it must answer.
#[must_use]
pub(crate) fn tells(before: &Measure, profile: &Profile) -> bool {
    before.p99_ms.is_some() && before.fail_percent <= profile.fail_percent.critical
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(p99_ms: Option<f64>, fail_percent: f64) -> Measure {
        Measure {
            target_rps: 1_000.0,
            goodput_rps: 10.0 * (100.0 - fail_percent),
            fail_percent,
            mean_ms: p99_ms.map(|p99| p99 / 2.0),
            p95_ms: p99_ms,
            p99_ms,
        }
    }

    #[test]
    fn well_is_as_fast_as_before_or_good() {
        let profile = Profile::store();
        let slow = look(Some(8.0), 0.0);
        assert!(is_well(&profile, &slow, &look(Some(12.0), 0.0)));
        assert!(!is_well(&profile, &slow, &look(Some(12.1), 0.0)));
        let fast = look(Some(0.1), 0.0);
        let good = profile.p99_ms.good;
        assert!(is_well(&profile, &fast, &look(Some(good), 0.0)), "noise");
        assert!(!is_well(&profile, &fast, &look(Some(good + 0.1), 0.0)));
    }

    #[test]
    fn silence_and_failures_are_not_well() {
        let profile = Profile::store();
        let before = look(Some(0.1), 0.0);
        assert!(!is_well(&profile, &before, &look(None, 100.0)));
        assert!(!is_well(&profile, &before, &look(Some(0.1), 2.0)));
        // One that always fails a little does not become worse by it.
        let leaky = look(Some(0.1), 0.8);
        assert!(is_well(&profile, &leaky, &look(Some(0.1), 0.8)));
        assert!(tells(&leaky, &profile));
        assert!(!tells(&look(None, 100.0), &profile) && !tells(&look(Some(0.1), 50.0), &profile));
    }
}
