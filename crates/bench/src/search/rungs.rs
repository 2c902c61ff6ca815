//! The rungs above a ladder whose probe measured too low.
//!
//! A ladder's rungs are shares of a probed capacity. A probe in a busy moment, or of a target that warms up, can be off by
//! any factor: a ladder whose highest rung holds goes on upwards until one does not, and then looks more closely below it.

/// Rungs added above a ladder at most.
pub(crate) const ADDED_MAX: usize = 16;
/// First factor between the highest rung, if it held, and the next one; it is one that a probe is often off by.
const FIRST_FACTOR: f64 = 1.25;
/// Largest one.
const FACTOR_MAX: f64 = 2.0;
/// A load that held and one that did not are close enough when they are no farther apart than this.
const CLOSE: f64 = 1.25;

/// A rung that was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung {
    /// Offered load.
    pub rate_rps: f64,
    /// Whether it was held.
    pub held: bool,
}

/// The next rung above a ladder of which `rungs` were measured, the last `added` of them above the ladder itself; none
/// above `most_rps`. `None` once the load that is held is known, or cannot be found.
#[must_use]
pub(crate) fn next(rungs: &[Rung], added: usize, most_rps: f64) -> Option<f64> {
    if added >= ADDED_MAX {
        return None;
    }
    let rates = |held: bool| {
        let of = rungs.iter().filter(move |rung| rung.held == held);
        of.map(|rung| rung.rate_rps)
    };
    let lower = rates(true).max_by(f64::total_cmp)?;
    let above = rates(false).filter(|rate| *rate > lower);
    let wanted = match above.min_by(f64::total_cmp) {
        None => {
            let factor = FIRST_FACTOR.powi(1 << added.min(4)).min(FACTOR_MAX);
            (lower * factor).min(most_rps)
        }
        // Between rungs of the ladder itself nothing is looked for.
        Some(_) if added == 0 => return None,
        Some(upper) if upper <= CLOSE * lower => return None,
        Some(upper) => (lower * upper).sqrt(),
    };
    let next = two_digits(wanted);
    rungs
        .iter()
        .all(|rung| rung.rate_rps != next)
        .then_some(next)
        .filter(|next| *next > lower && *next <= most_rps)
}

/// Whether the highest rung held, so that the load that is held may lie higher.
#[must_use]
pub(crate) fn is_open(rungs: &[Rung]) -> bool {
    let highest = rungs
        .iter()
        .max_by(|a, b| a.rate_rps.total_cmp(&b.rate_rps));
    highest.is_some_and(|rung| rung.held)
}

/// Rounds to two significant digits, so that tables can be read aloud.
pub(crate) fn two_digits(rate: f64) -> f64 {
    if rate < 1.0 || !rate.is_finite() {
        return 0.0;
    }
    let unit = 10_f64.powf(rate.log10().floor() - 1.0).max(1.0);
    (rate / unit).round() * unit
}
