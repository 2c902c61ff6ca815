//! Did the machine stay the same throughout a run? A shared machine may become slower or faster by half within minutes, and
//! steal time does not always show it. What the generator can do against a server that does nothing shows it.

use serde::{Deserialize, Serialize};

/// Highest by lowest ceiling above which rows of one run were not measured on the same machine, so to speak.
const DRIFT_MAX: f64 = 1.15;

/// A short look at what the generator can do against the null server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// Seconds after the start of the run.
    pub offset_s: f64,
    /// Highest rate the generator reached.
    pub ceiling_rps: f64,
    /// Service time at low load, median.
    pub floor_p50_us: f64,
    /// Service time at low load, 99th percentile.
    pub floor_p99_us: f64,
}

/// How far the gauges of a run lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drift {
    /// Gauges taken.
    pub n: usize,
    /// Lowest and highest ceiling.
    pub ceiling_rps: [f64; 2],
    /// Lowest and highest 99th percentile at low load.
    pub floor_p99_us: [f64; 2],
}

impl Drift {
    /// Of several gauges; `None` of fewer than two, or where one reached nothing.
    #[must_use]
    pub(crate) fn of(gauges: &[Gauge]) -> Option<Drift> {
        let ends = |pick: fn(&Gauge) -> f64| {
            let values = gauges.iter().map(pick);
            let least = values.clone().min_by(f64::total_cmp)?;
            Some([least, values.max_by(f64::total_cmp)?])
        };
        let drift = Drift {
            n: gauges.len(),
            ceiling_rps: ends(|gauge| gauge.ceiling_rps)?,
            floor_p99_us: ends(|gauge| gauge.floor_p99_us)?,
        };
        (drift.n > 1 && drift.ceiling_rps[0] > 0.0).then_some(drift)
    }

    /// Highest by lowest ceiling.
    #[must_use]
    pub(crate) fn ratio(&self) -> f64 {
        self.ceiling_rps[1] / self.ceiling_rps[0]
    }

    /// Why the rows of the run may not be set side by side as they are; `None` if the machine stayed the same.
    #[must_use]
    pub(crate) fn doubt(&self) -> Option<String> {
        (self.ratio() > DRIFT_MAX).then(|| {
            format!(
                "the machine was not the same throughout: against a server that does nothing the generator reached {:.0}/s at one time and {:.0}/s at another, {:.2} times as much",
                self.ceiling_rps[0],
                self.ceiling_rps[1],
                self.ratio()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(ceiling_rps: f64, floor_p99_us: f64) -> Gauge {
        Gauge {
            ceiling_rps,
            floor_p99_us,
            ..Gauge::default()
        }
    }

    #[test]
    fn a_machine_that_slows_down_is_told() {
        let drift = Drift::of(&[gauge(3e6, 100.0), gauge(2e6, 400.0), gauge(2.5e6, 200.0)]);
        let drift = drift.unwrap();
        assert_eq!(drift.ceiling_rps, [2e6, 3e6]);
        assert_eq!(drift.floor_p99_us, [100.0, 400.0]);
        let doubt = drift.doubt().unwrap();
        assert!(
            doubt.contains("2000000/s") && doubt.contains("1.50 times"),
            "{doubt}"
        );
    }

    #[test]
    fn noise_is_no_drift_and_one_gauge_tells_nothing() {
        let quiet = Drift::of(&[gauge(3e6, 1.0), gauge(2.9e6, 1.0)]).unwrap();
        assert_eq!(quiet.doubt(), None);
        assert_eq!(Drift::of(&[gauge(3e6, 1.0)]), None);
        assert_eq!(Drift::of(&[gauge(0.0, 1.0), gauge(1.0, 1.0)]), None);
    }
}
