//! The way up against the way down.

use crate::record::capacity::{Hysteresis, LoadPoint};

/// Area between the two ladders over the loads that both cover; `None` if that is less than a stretch, or nothing was
/// answered well on the way up. The points may come in any order.
#[must_use]
pub(crate) fn between(up: &[LoadPoint], down: &[LoadPoint]) -> Option<Hysteresis> {
    let (up, down) = (sorted(up), sorted(down));
    let from = up.first()?.target_rps.max(down.first()?.target_rps);
    let to = up.last()?.target_rps.min(down.last()?.target_rps);
    let mut loads: Vec<f64> = up
        .iter()
        .chain(&down)
        .map(|point| point.target_rps)
        .collect();
    loads.retain(|load| (from..=to).contains(load));
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let (mut between, mut under) = (0.0, 0.0);
    for pair in loads.windows(2) {
        let [a, b] = pair else { continue };
        let mean = |curve: &[LoadPoint]| Some((at(curve, *a)? + at(curve, *b)?) / 2.0);
        let (above, below) = (mean(&up)?, mean(&down)?);
        between += (above - below) * (b - a);
        under += above * (b - a);
    }
    (under > 0.0).then(|| Hysteresis {
        area_percent: between / under * 100.0,
        up,
        down,
    })
}

fn sorted(points: &[LoadPoint]) -> Vec<LoadPoint> {
    let mut points = points.to_vec();
    points.retain(|point| point.target_rps.is_finite() && point.goodput_rps.is_finite());
    points.sort_by(|a, b| a.target_rps.total_cmp(&b.target_rps));
    points
}

/// Goodput of a curve at `load`, by a straight line between its neighbours.
fn at(curve: &[LoadPoint], load: f64) -> Option<f64> {
    let after = curve.iter().position(|point| point.target_rps >= load)?;
    let right = curve[after];
    let Some(left) = after.checked_sub(1).map(|before| curve[before]) else {
        return (right.target_rps == load).then_some(right.goodput_rps);
    };
    let length = right.target_rps - left.target_rps;
    if length <= 0.0 {
        return Some(right.goodput_rps);
    }
    let share = (load - left.target_rps) / length;
    Some(left.goodput_rps + (right.goodput_rps - left.goodput_rps) * share)
}
