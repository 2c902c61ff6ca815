//! `oom-score-adj`: how willingly the system ends this process when it runs out of memory.

use crate::config::{Key, Values};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tollgate_net::process;

/// The least and the largest score.
const RANGE: (i64, i64) = (-1_000, 1_000);

/// Where the values of the setting stand for a master and for a replica. The third one is for forked processes.
const MASTER: usize = 0;
const REPLICA: usize = 1;

/// Settings that change it.
pub(crate) const SETTINGS: [Key; 2] = [Key::OomScoreAdj, Key::OomScoreAdjValues];

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// What the score was before it was first set.
    base: Option<i64>,
    /// The server is a replica.
    is_replica: bool,
}

/// What was done to the score of the process.
#[derive(Debug, Default)]
pub(crate) struct OomScore(Mutex<State>);

/// What a score was before a change.
#[derive(Debug)]
pub(crate) struct Before {
    state: State,
    score: Option<i64>,
}

impl OomScore {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A plain value.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the settings.
    ///
    /// # Errors
    ///
    /// The system refuses; nothing has changed.
    pub(crate) fn follow(&self, values: &Values<'_>) -> io::Result<Before> {
        let mut state = self.lock();
        let before = Before {
            state: *state,
            score: None,
        };
        let Some((score, base)) = wanted(
            values.get(Key::OomScoreAdj),
            values.get(Key::OomScoreAdjValues),
            *state,
            process::oom_score_adj,
        )?
        else {
            return Ok(before);
        };
        let old = process::oom_score_adj()?;
        process::set_oom_score_adj(score)?;
        state.base = base;
        Ok(Before {
            score: Some(old),
            ..before
        })
    }

    /// The change is not to be.
    pub(crate) fn undo(&self, before: Before) {
        *self.lock() = before.state;
        if let Some(score) = before.score {
            // What was allowed a moment ago is so now; if not, nobody is there to tell.
            drop(process::set_oom_score_adj(score));
        }
    }

    /// The server is a replica, or a master, from now on.
    pub(crate) fn set_replica(&self, is_replica: bool) {
        self.lock().is_replica = is_replica;
    }
}

/// The score by the settings, and the one to go back to; `None`: there is nothing to set. `now` tells what it is.
fn wanted(
    word: &str,
    values: &str,
    state: State,
    now: impl FnOnce() -> io::Result<i64>,
) -> io::Result<Option<(i64, Option<i64>)>> {
    if word == "no" {
        return Ok(state.base.map(|base| (base, None)));
    }
    let base = match state.base {
        Some(base) => base,
        None => now()?,
    };
    let class = if state.is_replica { REPLICA } else { MASTER };
    let value = values.split(' ').nth(class).and_then(|it| it.parse().ok());
    let value: i64 = value.unwrap_or(0);
    let score = match word {
        "absolute" => value,
        _ => base + value,
    };
    Ok(Some((score.clamp(RANGE.0, RANGE.1), Some(base))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_count_from_what_was_there_unless_they_are_absolute() {
        let fresh = State::default();
        let set = State {
            base: Some(5),
            is_replica: true,
        };
        let values = "10 20 30";
        for (word, state, score) in [
            ("no", fresh, None),
            ("yes", fresh, Some((17, Some(7)))),
            ("relative", fresh, Some((17, Some(7)))),
            ("absolute", fresh, Some((10, Some(7)))),
            ("yes", set, Some((25, Some(5)))),
            ("absolute", set, Some((20, Some(5)))),
            ("no", set, Some((5, None))),
        ] {
            assert_eq!(
                wanted(word, values, state, || Ok(7)).unwrap(),
                score,
                "{word}"
            );
        }
        let far = wanted("yes", "2000 0 0", fresh, || Ok(7)).unwrap();
        assert_eq!(far, Some((1_000, Some(7))));
        wanted("yes", values, fresh, || Err(io::ErrorKind::NotFound.into())).unwrap_err();
    }
}
