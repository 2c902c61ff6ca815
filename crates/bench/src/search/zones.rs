//! Safe, amber and red.

use crate::record::capacity::{CapacityRecord, GoalResult, ZoneBound, Zones};
use crate::record::recovery::{Healing, RecoveryVerdict};
use crate::record::{Grade, Validity};

/// Share of the sustained load that is safe at most.
const MARGIN: f64 = 0.85;
/// Share of the processor time up to which a load is safe, percent.
const CPU_PERCENT_MAX: f64 = 70.0;

/// Processor use of the target at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuPoint {
    /// Offered load.
    pub target_rps: f64,
    /// Use in percent of what the target may use: of its busiest thread, or of its threads together.
    pub percent: f64,
}

/// Load at 70 % CPU, by a straight line between the measured loads, or through the origin below the first one.
/// `None` if no load used as much.
#[must_use]
pub(crate) fn cpu_70(points: &[CpuPoint]) -> Option<f64> {
    let mut points: Vec<CpuPoint> = points
        .iter()
        .copied()
        .filter(|point| point.percent.is_finite() && point.target_rps > 0.0)
        .collect();
    points.sort_by(|a, b| a.target_rps.total_cmp(&b.target_rps));
    let mut before = CpuPoint {
        target_rps: 0.0,
        percent: 0.0,
    };
    for point in points {
        if point.percent >= CPU_PERCENT_MAX {
            let share = (CPU_PERCENT_MAX - before.percent) / (point.percent - before.percent);
            return Some(before.target_rps + share * (point.target_rps - before.target_rps));
        }
        before = point;
    }
    None
}

/// What the zones are computed from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grounds<'a> {
    /// The deciding goal.
    pub result: Option<&'a GoalResult>,
    /// Highest load from which the system was seen to heal.
    pub hidden_rps: Option<f64>,
    /// Load at 70 % CPU.
    pub cpu_70_rps: Option<f64>,
    /// Lowest load that was shown to be too much.
    pub too_much_rps: Option<f64>,
    /// Whether a load passed above one that failed.
    pub non_monotone: bool,
    /// Grade of the trials at the bounds.
    pub validity: Validity,
}

/// The zones; `None` if no load kept the goal.
#[must_use]
pub(crate) fn zones(grounds: &Grounds<'_>) -> Option<Zones> {
    let result = grounds.result?;
    let sustained = result.lower_rps?;
    let candidates = [
        (Some(MARGIN * sustained), ZoneBound::Margin),
        (grounds.hidden_rps, ZoneBound::Healing),
        (grounds.cpu_70_rps, ZoneBound::Cpu),
    ];
    let (safe, decided_by) = candidates
        .into_iter()
        .filter_map(|(load, bound)| Some((load?, bound)))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let safe = safe.floor();
    let (confidence, doubts) = confidence(grounds, result);
    let why = match decided_by {
        ZoneBound::Margin => "85 % of it",
        ZoneBound::Healing => "the highest load from which it was seen to heal",
        ZoneBound::Cpu => "where it uses 70 % of its processor time",
    };
    let upper = match grounds.too_much_rps {
        Some(upper) => format!("{upper:.0}/s is too much"),
        None => "no load was shown to be too much".into(),
    };
    let trust = match confidence {
        Grade::Valid => String::new(),
        grade => format!(" ({}: {})", grade.word(), doubts.join("; ")),
    };
    let sentence = format!(
        "safe up to {safe:.0}/s, because {sustained:.0}/s was sustained and this is {why}; {upper}{trust}"
    );
    Some(Zones {
        safe_rps: safe,
        sustained_rps: sustained,
        hidden_rps: grounds.hidden_rps,
        cpu_70_rps: grounds.cpu_70_rps,
        decided_by,
        sentence,
        confidence,
        doubts,
        healing: None,
    })
}

/// Puts the zones of a search into its record; `used` is its processor use.
pub(crate) fn put(record: &mut CapacityRecord, hidden_rps: Option<f64>, used: &[CpuPoint]) {
    record.zones = zones(&Grounds {
        result: record.goals.first(),
        hidden_rps,
        cpu_70_rps: cpu_70(used),
        too_much_rps: record.shown_upper_rps(),
        non_monotone: record.non_monotone,
        validity: record.deciding(),
    });
}

/// The same with what was found about healing, where the clients that were hardest on the system came to `hardest`. One that
/// heals from no load has no safe load that can be trusted.
pub(crate) fn put_with_healing(
    record: &mut CapacityRecord,
    healing: &Healing,
    hardest: RecoveryVerdict,
    used: &[CpuPoint],
) {
    put(record, healing.hidden_rps, used);
    if let Some(zones) = &mut record.zones {
        tell_healing(zones, healing, hardest);
    }
}

/// Says in `zones` what was found about healing.
pub(crate) fn tell_healing(zones: &mut Zones, healing: &Healing, hardest: RecoveryVerdict) {
    let never = hardest == RecoveryVerdict::Metastable && healing.hidden_rps.is_none();
    if never {
        zones.confidence = Grade::Invalid;
        let text = format!("; do not rely on it: {}", healing.sentence);
        zones.sentence.push_str(&text);
        zones.doubts.push(healing.sentence.clone());
    }
    if never || healing.hidden_rps.is_some() {
        zones.healing = Some(healing.sentence.clone());
    }
}

fn confidence(grounds: &Grounds<'_>, result: &GoalResult) -> (Grade, Vec<String>) {
    let mut validity = grounds.validity.clone();
    if !result.converged {
        validity.lower(Grade::Indicative, result.remark.clone());
    }
    if grounds.non_monotone {
        let text = "a higher load passed where a lower one failed";
        validity.lower(Grade::Indicative, text);
    }
    (validity.grade, validity.reasons)
}
