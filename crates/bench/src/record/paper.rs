//! A published study beside our own run, row by row.

use serde::{Deserialize, Serialize};

use super::{Cell, Grade, RunRecord, Status};

/// Result of `tollgate bench paper`: the study's tables with our rows beside them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PaperRecord {
    /// Number of the study: `000`, `001`, `003` or `004`.
    pub study: String,
    /// What it is called.
    pub title: String,
    /// Who published it, and when.
    pub source: String,
    /// True if nothing was measured: only the study's own rows were judged.
    pub replay: bool,
    /// One table per table of the study and system of ours.
    pub tables: Vec<PaperTable>,
    /// Why no row of ours can be set against the study's as an equal, one sentence each.
    pub not_comparable: Vec<String>,
}

impl PaperRecord {
    /// The systems whose own figures stand beside the study's, each once, in the order of the tables.
    #[must_use]
    pub(crate) fn systems(&self) -> Vec<&str> {
        let mut systems: Vec<&str> = Vec::new();
        let named = self.tables.iter();
        for name in named.filter_map(|table| table.ours.as_deref()) {
            if !systems.contains(&name) {
                systems.push(name);
            }
        }
        systems
    }
}

impl RunRecord {
    /// The study whose tests in a closed loop are all that was measured: there are no rows of offered loads then.
    #[must_use]
    pub(crate) fn tests_of_study(&self) -> Option<&PaperRecord> {
        let measured = |row: &PaperRow| row.ours.is_some();
        let alone = !self.cells.iter().any(Cell::is_measured);
        let study = self.paper.as_ref().filter(|study| alone && !study.replay)?;
        let mut tables = study.tables.iter();
        tables
            .any(|table| table.rows.iter().any(measured))
            .then_some(study)
    }
}

/// One table of the study, against one of our systems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PaperTable {
    /// Name of the study's table, e.g. `P2`.
    pub id: String,
    /// What the study measured, e.g. `Redis 7.x, 100 keys uniform, 60 s a step`.
    pub paper: String,
    /// What we measured, e.g. `tollgate · RL.TAKE (native)`; `None` in a replay.
    pub ours: Option<String>,
    /// The rows.
    pub rows: Vec<PaperRow>,
    /// Why the rows of this table in particular are not equals.
    pub not_comparable: Vec<String>,
}

/// One row of the study and ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PaperRow {
    /// What the row is about: an offered load, or a command.
    pub title: String,
    /// The study's figures.
    pub paper: PaperFigures,
    /// Ours; `None` if the row was not measured.
    pub ours: Option<PaperFigures>,
    /// Our throughput by the study's: goodput on a ladder, answers per second elsewhere.
    pub rate_ratio: Option<f64>,
    /// Our P99 by the study's.
    pub p99_ratio: Option<f64>,
    /// The study's own word or sign for its row; `None` where it printed none, or none that can be read.
    pub seed_status: Option<String>,
    /// What the study's own thresholds say of its row; `None` where it states no thresholds.
    pub computed: Option<Judgement>,
    /// What our rules say of the study's row.
    pub paper_status: Option<Status>,
    /// What our rules say of our row.
    pub our_status: Option<Status>,
    /// Whether our row may be believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub our_grade: Option<Grade>,
}

/// Figures of a row; what a side does not state is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PaperFigures {
    /// Offered load.
    pub target_rps: Option<f64>,
    /// Good answers per second of the step's length; without an offered load, answers per second.
    pub goodput_rps: Option<f64>,
    /// What the study prints as "Actual RPS": answers of every kind by the time until the last, drain included.
    pub actual_rps: Option<f64>,
    /// Failed requests.
    pub fail_percent: Option<f64>,
    /// Mean response time.
    pub mean_ms: Option<f64>,
    /// 95th percentile.
    pub p95_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// 99.9th percentile.
    pub p99_9_ms: Option<f64>,
    /// Time from the first request to the last answer, from the counts: `(success + fail) / actual`.
    pub wall_s: Option<f64>,
}

impl PaperFigures {
    /// Requests in flight on average, by Little's law from what is printed: answers per second times their mean latency.
    #[must_use]
    pub(crate) fn in_flight(&self) -> Option<f64> {
        Some(self.actual_rps? * self.mean_ms? / 1e3)
    }
}

/// The three colours of the study's table of thresholds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Colour {
    /// Every metric is Good.
    #[default]
    Good,
    /// The worst metric is at Warning.
    Warning,
    /// The worst metric is Critical.
    Critical,
}

impl Colour {
    /// The study's word.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "Good",
            Self::Warning => "Warning",
            Self::Critical => "Critical",
        }
    }
}

/// A row by the study's own thresholds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst of all metrics.
    pub colour: Colour,
    /// The metrics that are that bad, of `rps`, `fail`, `avg`, `p95`, `p99`; empty for Good.
    pub metrics: Vec<String>,
}

impl Judgement {
    /// As printed in tables, e.g. `Warning (avg, p95)`.
    #[must_use]
    pub(crate) fn words(&self) -> String {
        if self.metrics.is_empty() {
            self.colour.word().to_owned()
        } else {
            format!("{} ({})", self.colour.word(), self.metrics.join(", "))
        }
    }
}
