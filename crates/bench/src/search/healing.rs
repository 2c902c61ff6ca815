//! The hidden capacity: which loads to try before and after an overload, and what the tries say.
//!
//! A system that is overloaded for a while and then gets back the load that it held before either heals or stays down,
//! because what the overload left behind (queues, repetitions) keeps it busy. The highest load from which it heals bounds
//! the load that is safe.

use crate::record::recovery::{HealingTry, RecoveryVerdict};

/// Load that is tried when the usual one healed, in knees: the most that a margin calls safe.
const ABOVE: f64 = 0.85;
/// Loads that are tried when the usual one did not heal, in knees.
const BELOW: [f64; 3] = [0.5, 0.35, 0.2];

/// The load to try next, in knees, after the usual load of `usual` knees came to `verdict`; `None` if nothing more is to
/// be learned.
#[must_use]
pub(crate) fn next(usual: f64, verdict: RecoveryVerdict, tries: &[HealingTry]) -> Option<f64> {
    let left = |shares: &[f64]| shares.get(tries.len()).copied();
    match verdict {
        verdict if verdict.healed() => left(&[ABOVE]).filter(|share| *share > usual),
        // Less load is less for the generator too.
        verdict if verdict.stayed_down() && !tries.iter().any(|tried| tried.verdict.healed()) => {
            left(&BELOW)
        }
        _ => None,
    }
}

/// The highest load seen to heal. `usual` is the load of the variants and what they came to.
#[must_use]
pub(crate) fn hidden_rps(usual: (f64, RecoveryVerdict), tries: &[HealingTry]) -> Option<f64> {
    let (usual_rps, verdict) = usual;
    let tried = tries.iter().map(|tried| (tried.rate_rps, tried.verdict));
    let healed = tried.chain([(usual_rps, verdict)]);
    healed
        .filter(|(_, verdict)| verdict.healed())
        .map(|(rate, _)| rate)
        .max_by(f64::total_cmp)
}

/// What was found, in a sentence.
#[must_use]
pub(crate) fn sentence(
    hidden_rps: Option<f64>,
    usual: RecoveryVerdict,
    overload_rps: f64,
    tries: &[HealingTry],
) -> String {
    let not_healed = |verdict| {
        let tried = tries.iter().filter(move |tried| tried.verdict == verdict);
        tried.map(|tried| tried.rate_rps).min_by(f64::total_cmp)
    };
    let Some(hidden) = hidden_rps else {
        let least = not_healed(RecoveryVerdict::Metastable);
        return match least {
            Some(least) => {
                format!(
                    "after {overload_rps:.0}/s it healed from no load tried, down to {least:.0}/s"
                )
            }
            None if usual.stayed_down() => {
                format!("after {overload_rps:.0}/s it was not seen to heal")
            }
            // What never was well cannot be asked to become so again.
            None => format!("whether it heals after {overload_rps:.0}/s was not found out"),
        };
    };
    let above = |rate: &f64| *rate > hidden;
    let more = match not_healed(RecoveryVerdict::Metastable).filter(above) {
        Some(rate) => format!(", and not from {rate:.0}/s"),
        None => match not_healed(RecoveryVerdict::NotHealthyBefore).filter(above) {
            Some(rate) => format!("; {rate:.0}/s was not held before it either"),
            None => match not_healed(RecoveryVerdict::GeneratorLimited).filter(above) {
                Some(rate) => format!("; at {rate:.0}/s the generator was at its limit"),
                None => String::new(),
            },
        },
    };
    format!("after {overload_rps:.0}/s it heals by itself from {hidden:.0}/s{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries loads until there is nothing more to learn of a system with a knee of 1000/s and the given behaviour.
    fn explore(heals: impl Fn(f64) -> RecoveryVerdict) -> (Option<f64>, Vec<f64>, String) {
        let usual = (700.0, heals(0.7));
        let mut tries = Vec::new();
        while let Some(share) = next(0.7, usual.1, &tries) {
            tries.push(HealingTry {
                of_knee: share,
                rate_rps: share * 1e3,
                verdict: heals(share),
                ..HealingTry::default()
            });
        }
        let hidden = hidden_rps(usual, &tries);
        let shares = tries.iter().map(|tried| tried.of_knee).collect();
        (hidden, shares, sentence(hidden, usual.1, 1_500.0, &tries))
    }

    #[test]
    fn tries_go_up_from_a_load_that_heals_and_down_from_one_that_does_not() {
        use RecoveryVerdict::{Metastable, NotHealthyBefore, Recovered, Unfinished, Unharmed};
        let up_to = |most: f64| move |share| if share <= most { Recovered } else { Metastable };
        let (hidden, shares, text) = explore(up_to(2.0));
        assert_eq!((hidden, shares), (Some(850.0), vec![0.85]));
        assert_eq!(text, "after 1500/s it heals by itself from 850/s");
        let (hidden, shares, text) = explore(up_to(0.75));
        assert_eq!((hidden, shares), (Some(700.0), vec![0.85]));
        assert!(text.ends_with("from 700/s, and not from 850/s"), "{text}");
        let (hidden, shares, text) = explore(up_to(0.4));
        assert_eq!((hidden, shares), (Some(350.0), vec![0.5, 0.35]));
        assert!(text.ends_with("from 350/s, and not from 500/s"), "{text}");
        let (hidden, shares, text) = explore(up_to(0.0));
        assert_eq!((hidden, shares), (None, vec![0.5, 0.35, 0.2]));
        assert!(
            text.ends_with("from no load tried, down to 200/s"),
            "{text}"
        );
        let slow_generator = |share| match share > 0.4 {
            true => RecoveryVerdict::GeneratorLimited,
            false => Recovered,
        };
        let (hidden, shares, text) = explore(slow_generator);
        assert_eq!((hidden, shares), (Some(350.0), vec![0.5, 0.35]));
        assert!(
            text.ends_with("; at 500/s the generator was at its limit"),
            "{text}"
        );
        let noisy = |share| {
            if share > 0.8 {
                NotHealthyBefore
            } else {
                Unharmed
            }
        };
        let (hidden, shares, text) = explore(noisy);
        assert_eq!((hidden, shares), (Some(700.0), vec![0.85]));
        assert!(
            text.ends_with("; 850/s was not held before it either"),
            "{text}"
        );
        for nothing_follows in [NotHealthyBefore, Unfinished] {
            let (hidden, shares, text) = explore(|_| nothing_follows);
            assert_eq!((hidden, shares), (None, Vec::new()));
            assert_eq!(text, "whether it heals after 1500/s was not found out");
        }
    }
}
