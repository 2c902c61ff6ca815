//! What is left of the goodput past the knee.

use crate::record::capacity::{Retention, RetentionClass, RetentionPoint};
use crate::record::{Measure, Profile, Step};

/// Loads past the knee that a search measures, as factors on it.
pub const FACTORS: [f64; 4] = [1.1, 1.25, 1.5, 2.0];
/// The factor at which the class is judged.
const JUDGED_AT: f64 = 1.25;
/// Retention from which a system fails gracefully.
const GRACEFUL_FROM: f64 = 0.9;
/// Retention under which it collapses.
const COLLAPSE_BELOW: f64 = 0.5;
/// Goodput in percent of the offered load under which a load is past the cliff.
const CLIFF_BELOW_PERCENT: f64 = 50.0;
/// Loads are offered as whole numbers of requests per second.
const ROUNDING_RPS: f64 = 0.5;

/// What is left past the knee of the rows of `steps` (in rising order of load) that tell something about the target.
/// `held_rps` is a load that repeated trials found held, if there were any.
#[must_use]
pub(crate) fn of_steps(
    profile: &Profile,
    steps: &[&Step],
    held_rps: Option<f64>,
) -> Option<Retention> {
    let rows = telling(steps);
    retention(profile, &rows, knee_from(profile, &rows, held_rps)?)
}

/// The knee of `rows` (in rising order of load), which cannot lie below a load that repeated trials found held: one row
/// that went worse by chance weighs less than they do.
#[must_use]
pub(crate) fn knee_from<'a>(
    profile: &Profile,
    rows: &'a [Measure],
    held_rps: Option<f64>,
) -> Option<&'a Measure> {
    let held = held_rps.and_then(|held| {
        let up_to_it = |row: &&Measure| row.target_rps <= held + ROUNDING_RPS;
        rows.iter().take_while(up_to_it).last()
    });
    let higher = |a: &'a Measure, b: &'a Measure| if a.target_rps > b.target_rps { a } else { b };
    match (held, knee(profile, rows)) {
        (Some(held), Some(knee)) => Some(higher(held, knee)),
        (held, knee) => held.or(knee),
    }
}

/// The rows that tell something about the target, in their order.
#[must_use]
pub(crate) fn telling(steps: &[&Step]) -> Vec<Measure> {
    let telling = steps.iter().filter(|step| step.tells());
    telling.map(|step| Measure::of(step)).collect()
}

/// The highest load below the first one whose failures or goodput are Critical; `rows` in rising order of load.
/// Latency does not count here: it warns before the knee. `None` if the lowest load is past it already.
#[must_use]
pub fn knee<'a>(profile: &Profile, rows: &'a [Measure]) -> Option<&'a Measure> {
    rows.iter()
        .take_while(|row| {
            row.fail_percent <= profile.fail_percent.critical
                && row.goodput_percent() >= profile.goodput_percent.critical
        })
        .last()
}

/// Retention of `rows` (in rising order of load) past `knee`. `None` if no row lies past it, or nothing was
/// answered well at it.
#[must_use]
pub fn retention(profile: &Profile, rows: &[Measure], knee: &Measure) -> Option<Retention> {
    if knee.target_rps <= 0.0 || knee.goodput_rps <= 0.0 {
        return None;
    }
    let past = rows.iter().filter(|row| row.target_rps > knee.target_rps);
    let points: Vec<RetentionPoint> = past
        .map(|row| RetentionPoint {
            factor: row.target_rps / knee.target_rps,
            target_rps: row.target_rps,
            goodput_rps: row.goodput_rps,
            retention: row.goodput_rps / knee.goodput_rps,
        })
        .collect();
    if points.is_empty() {
        return None;
    }
    let warning = warning(profile, rows).filter(|load| *load <= knee.target_rps);
    let at_1_25 = at_factor(&points, JUDGED_AT);
    let cliff = rows.iter().find(|row| {
        row.target_rps > knee.target_rps && row.goodput_percent() < CLIFF_BELOW_PERCENT
    });
    Some(Retention {
        knee_rps: knee.target_rps,
        knee_goodput_rps: knee.goodput_rps,
        class: class(&points, at_1_25),
        at_1_25,
        cliff_margin: cliff.map(|row| row.target_rps / knee.target_rps - 1.0),
        early_warning: warning.map(|load| knee.target_rps / load - 1.0),
        warning_rps: warning,
        points,
    })
}

/// The worst retention up to 1.25 x the knee decides. A system that has collapsed before needs no further load.
fn class(points: &[RetentionPoint], at_1_25: Option<f64>) -> Option<RetentionClass> {
    let before = points
        .iter()
        .filter(|point| point.factor <= JUDGED_AT)
        .map(|point| point.retention)
        .min_by(f64::total_cmp);
    let worst = match (before, at_1_25) {
        (Some(before), Some(at)) => before.min(at),
        (None, Some(at)) => at,
        (Some(before), None) if before < COLLAPSE_BELOW => before,
        _ => return None,
    };
    Some(if worst >= GRACEFUL_FROM {
        RetentionClass::Graceful
    } else if worst >= COLLAPSE_BELOW {
        RetentionClass::Degrading
    } else {
        RetentionClass::Collapse
    })
}

/// Retention at `factor`, by a straight line between its neighbours; the knee itself is 1. `None` past the last point.
fn at_factor(points: &[RetentionPoint], factor: f64) -> Option<f64> {
    let mut before = (1.0, 1.0);
    for point in points {
        let here = (point.factor, point.retention);
        if here.0 >= factor {
            let share = (factor - before.0) / (here.0 - before.0).max(f64::MIN_POSITIVE);
            return Some(before.1 + (here.1 - before.1) * share);
        }
        before = here;
    }
    None
}

/// The first load whose mean, P95 or P99 is not Good any more.
fn warning(profile: &Profile, rows: &[Measure]) -> Option<f64> {
    let over = |value: Option<f64>, good: f64| value.is_some_and(|value| value > good);
    rows.iter()
        .find(|row| {
            over(row.mean_ms, profile.mean_ms.good)
                || over(row.p95_ms, profile.p95_ms.good)
                || over(row.p99_ms, profile.p99_ms.good)
        })
        .map(|row| row.target_rps)
}
