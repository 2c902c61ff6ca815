//! The alert table of the study (its section 8.4), with the measured capacity filled in.

use super::super::format::{rate, short};
use super::super::lang::{Lang, Text, advice as t};
use super::Capacity;

/// One metric with the bounds between good, warning and critical, in the unit of the metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Threshold {
    /// Which metric.
    pub(crate) metric: Metric,
    /// End of good.
    pub(crate) warning: f64,
    /// End of warning.
    pub(crate) critical: f64,
}

/// The metrics of the alert table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Decisions per second, in percent of the measured capacity.
    Load,
    /// 99th percentile in ms.
    P99,
    /// Failed requests in percent.
    Errors,
    /// CPU of the backend in percent of what it may use.
    Cpu,
    /// Memory in percent of the limit.
    Memory,
    /// Connections in percent of the limit.
    Connections,
}

/// Thresholds to watch a system in production with, as the study gives them (8.4).
pub(crate) const PROD: [Threshold; 6] = [
    threshold(Metric::Load, 70.0, 85.0),
    threshold(Metric::P99, 50.0, 100.0),
    threshold(Metric::Errors, 0.1, 1.0),
    threshold(Metric::Cpu, 60.0, 80.0),
    threshold(Metric::Memory, 70.0, 85.0),
    threshold(Metric::Connections, 80.0, 95.0),
];

/// Thresholds that the study judges a bench run with (3.3): the P99 bounds differ from those in production.
pub(crate) const BENCH: [Threshold; 6] = [
    PROD[0],
    threshold(Metric::P99, 100.0, 200.0),
    PROD[2],
    PROD[3],
    PROD[4],
    PROD[5],
];

impl Threshold {
    /// The bounds for a system of this capacity: its load is watched from where it is not safe any more, if that is less
    /// than the study's share.
    pub(crate) fn at(self, capacity: &Capacity<'_>) -> Threshold {
        let safe = capacity.safe_rps / capacity.sustained_rps * 100.0;
        match self.metric {
            // To a tenth of a percent, and never above what is safe.
            Metric::Load if safe < self.warning => Threshold {
                warning: ((safe + SAME_PERCENT) * 10.0).floor() / 10.0,
                ..self
            },
            _ => self,
        }
    }
}

/// Shares that differ by less are the same.
const SAME_PERCENT: f64 = 1e-6;

/// Which thresholds a system is watched with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Watch {
    /// Those for production.
    #[default]
    Prod,
    /// Those that a bench run is judged with.
    Bench,
}

impl Watch {
    /// The thresholds.
    pub(crate) fn thresholds(self) -> &'static [Threshold] {
        match self {
            Self::Prod => &PROD,
            Self::Bench => &BENCH,
        }
    }
}

const fn threshold(metric: Metric, warning: f64, critical: f64) -> Threshold {
    Threshold {
        metric,
        warning,
        critical,
    }
}

impl Metric {
    /// What it is called.
    pub(crate) fn name(self) -> Text {
        match self {
            Self::Load => t::METRIC_LOAD,
            Self::P99 => t::METRIC_P99,
            Self::Errors => t::METRIC_ERRORS,
            Self::Cpu => t::METRIC_CPU,
            Self::Memory => t::METRIC_MEMORY,
            Self::Connections => t::METRIC_CONNECTIONS,
        }
    }

    /// What to do when it is critical.
    pub(crate) fn action(self) -> Text {
        match self {
            Self::Load | Self::Cpu => t::ACTION_SCALE,
            Self::P99 => t::ACTION_INVESTIGATE,
            Self::Errors => t::ACTION_ALERT,
            Self::Memory => t::ACTION_TTL,
            Self::Connections => t::ACTION_POOL,
        }
    }

    fn bound(self, value: f64, capacity: Option<f64>) -> String {
        match (self, capacity) {
            (Self::Load, Some(capacity)) => {
                format!("{} % ({}/s)", short(value), rate(capacity * value / 100.0))
            }
            (Self::P99, _) => format!("{} ms", short(value)),
            _ => format!("{} %", short(value)),
        }
    }
}

/// Name, good, warning, critical and action of every metric; the load also in requests per second if the capacity is known.
pub(crate) fn rows(
    thresholds: &[Threshold],
    capacity: Option<&Capacity<'_>>,
    lang: Lang,
) -> Vec<[String; 5]> {
    let sustained = capacity.map(|capacity| capacity.sustained_rps);
    thresholds
        .iter()
        .map(|row| {
            let row = capacity.map_or(*row, |capacity| row.at(capacity));
            let warning = row.metric.bound(row.warning, sustained);
            let critical = row.metric.bound(row.critical, sustained);
            [
                row.metric.name().of(lang).to_owned(),
                format!("< {warning}"),
                format!("{warning} – {critical}"),
                format!("> {critical}"),
                row.metric.action().of(lang).to_owned(),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cell, TargetKind};

    #[test]
    fn a_load_is_watched_from_where_it_is_not_safe_any_more() {
        let cell = Cell::default();
        let load = |safe_rps: f64| {
            let capacity = Capacity {
                cell: &cell,
                kind: TargetKind::Store,
                sustained_rps: 188_000.0,
                safe_rps,
            };
            rows(&PROD, Some(&capacity), Lang::En).swap_remove(0)
        };
        // A recovery run saw it heal from no more than this.
        assert_eq!(
            load(65_800.0)[1..4],
            [
                "< 35 % (65,800/s)",
                "35 % (65,800/s) – 85 % (159,800/s)",
                "> 85 % (159,800/s)"
            ]
        );
        assert_eq!(load(159_800.0)[1], "< 70 % (131,600/s)");
        assert_eq!(rows(&PROD, None, Lang::En)[0][1], "< 70 %");
    }
}
