//! Where a curve bends: Kneedle (Satopää, Albrecht, Irwin and Raghavan 2011).

/// How far the curve must fall back behind a bend, in mean distances of its points (S of the paper).
const SENSITIVITY: f64 = 1.0;
/// Fewest points of a curve.
const POINTS_MIN: usize = 5;
/// The curve must at least rise this many times, or its bend is noise.
const RISE_MIN: f64 = 2.0;

/// Number of the point at which a rising curve of `(x, y)` begins to rise steeply; `None` if it does not bend so. `points`
/// ascend in x. It describes a curve and is no limit: a curve on a wider range of x bends elsewhere.
#[must_use]
pub(crate) fn knee(points: &[(f64, f64)]) -> Option<usize> {
    let usable = points
        .iter()
        .all(|(x, y)| x.is_finite() && y.is_finite() && *y > 0.0);
    let ((first, _), (last, _)) = (points.first()?, points.last()?);
    let low = points.iter().map(|(_, y)| *y).fold(f64::MAX, f64::min);
    let high = points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if points.len() < POINTS_MIN || !usable || !ascending || high < low * RISE_MIN {
        return None;
    }
    // How far the curve lies below the straight line from corner to corner of the unit square.
    let below: Vec<f64> = points
        .iter()
        .map(|(x, y)| (x - first) / (last - first) - (y - low) / (high - low))
        .collect();
    let threshold = SENSITIVITY / (points.len() - 1) as f64;
    let bend = |at: &usize| {
        let here = below[*at];
        let peak = here > below[at - 1] && here >= below[at + 1];
        let mut behind = below[at + 1..].iter().take_while(|later| **later <= here);
        peak && here > 0.0 && behind.any(|later| *later < here - threshold)
    };
    (1..points.len() - 1)
        .filter(bend)
        .max_by(|a, b| below[*a].total_cmp(&below[*b]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(y: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (1..=10)
            .map(f64::from)
            .map(|x| (x * 1_000.0, y(x)))
            .collect()
    }

    #[test]
    fn a_queue_bends_where_it_fills() {
        // Of M/D/1, at utilisations from 0.095 to 0.95.
        let queue = curve(|x| {
            let busy = x * 0.095;
            1.0 + busy / (2.0 * (1.0 - busy))
        });
        assert_eq!(knee(&queue), Some(7));
        let cliff = curve(|x| if x < 7.0 { 1.0 + x * 0.1 } else { 900.0 });
        assert_eq!(knee(&cliff), Some(5));
    }

    #[test]
    fn straight_flat_and_short_curves_have_none() {
        assert_eq!(knee(&curve(|x| x)), None);
        assert_eq!(knee(&curve(|_| 3.0)), None);
        assert_eq!(knee(&curve(|x| x.ln() + 1.0)), None);
        assert_eq!(knee(&[(1.0, 1.0), (2.0, 1.0), (3.0, 90.0)]), None);
        assert_eq!(knee(&[]), None);
        assert_eq!(knee(&curve(|x| if x > 5.0 { f64::NAN } else { 1.0 })), None);
    }
}
