//! The trial that decided about the load which a search found. It is the row that reports show of this load: a single
//! trial more, before or after, may go otherwise, and would then contradict what is said of the load.

use crate::record::capacity::Trial;
use crate::record::{SearchGoal, Step};

use super::capacity::is_search;

/// A trial that held, and everything that was measured in it.
pub(super) struct Held {
    /// Its place in the log of trials.
    pub(super) at: usize,
    /// What was measured.
    pub(super) step: Step,
}

/// The row of `load_rps`, which the search found held: the last of the trials that held it, for after that one nothing
/// was left to decide. `None` if none of them was kept.
pub(super) fn row(
    held: &[Held],
    trials: &[Trial],
    goal: &SearchGoal,
    load_rps: f64,
) -> Option<Step> {
    let at_load = |trial: &Trial| trial.load_rps == load_rps && trial.decides(goal);
    let shown = held
        .iter()
        .rfind(|held| trials.get(held.at).is_some_and(at_load))?;
    let all = trials.iter().filter(|trial| at_load(trial));
    let (held_it, of) = all.fold((0, 0), |(held, of), trial| {
        (held + usize::from(trial.held()), of + 1)
    });
    let mut step = shown.step.clone();
    step.notes.push(format!(
        "trial {} of the search is shown, the one that decided: {held_it} of {of} trials at this load held it",
        shown.at + 1
    ));
    Some(step)
}

/// The single trials at `load_rps` on the way up and down that did not hold it, in words.
pub(super) fn contrary(trials: &[Trial], load_rps: f64) -> Vec<String> {
    let otherwise = trials.iter().enumerate().filter(|(_, trial)| {
        trial.load_rps == load_rps && !is_search(&trial.purpose) && !trial.rule.is_empty()
    });
    let words = |(at, trial): (usize, &Trial)| {
        format!(
            "trial {}, a single one on the way {}, did not hold this load: {}",
            at + 1,
            trial.purpose,
            trial.rule
        )
    };
    otherwise.map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: f64 = 1_090_000.0;

    fn trial(load_rps: f64, duration_s: f64, purpose: &str, rule: &str, counted: bool) -> Trial {
        Trial {
            load_rps,
            duration_s,
            purpose: purpose.into(),
            kept: vec![rule.is_empty()],
            rule: rule.into(),
            counted,
            ..Trial::default()
        }
    }

    fn goal() -> SearchGoal {
        SearchGoal {
            final_trial_s: 0.8,
            ..SearchGoal::default()
        }
    }

    /// As a real search went: two of three confirming trials held the load, and the one on the way up did not.
    fn log() -> Vec<Trial> {
        vec![
            trial(LOAD, 0.4, "range", "", true),
            trial(LOAD, 0.8, "confirm", "P99 6.238 ms is above 5 ms", true),
            trial(LOAD, 0.8, "confirm", "", true),
            trial(LOAD, 0.8, "confirm", "", false),
            trial(LOAD, 0.8, "confirm", "", true),
            trial(LOAD * 1.1, 0.8, "narrow", "", true),
            trial(
                LOAD,
                0.8,
                "up",
                "goodput is 94.0 % of the offered load",
                false,
            ),
            trial(LOAD, 0.8, "down", "", false),
        ]
    }

    fn held(trials: &[Trial]) -> Vec<Held> {
        let steps = trials.iter().enumerate().filter(|(_, trial)| trial.held());
        steps
            .map(|(at, trial)| Held {
                at,
                step: Step {
                    target_rps: trial.load_rps,
                    offset_s: at as f64,
                    ..Step::default()
                },
            })
            .collect()
    }

    #[test]
    fn the_row_of_a_held_load_is_the_trial_that_decided() {
        let trials = log();
        let row = row(&held(&trials), &trials, &goal(), LOAD).unwrap();
        assert_eq!(row.offset_s, 4.0, "the last full trial that held it");
        assert_eq!(
            row.notes,
            [
                "trial 5 of the search is shown, the one that decided: 2 of 3 trials at this load held it"
            ]
        );
    }

    #[test]
    fn what_went_otherwise_later_is_said() {
        let said = contrary(&log(), LOAD);
        assert_eq!(
            said,
            [
                "trial 7, a single one on the way up, did not hold this load: goodput is 94.0 % of the offered load"
            ]
        );
        assert!(contrary(&log()[..6], LOAD).is_empty());
    }

    #[test]
    fn without_the_trial_there_is_no_row() {
        let trials = log();
        assert!(row(&[], &trials, &goal(), LOAD).is_none());
        assert!(row(&held(&trials), &trials, &goal(), 7.0).is_none());
    }
}
