//! The studies' printed rows, as data in `data/`.

use std::sync::LazyLock;

use super::Study;
use crate::record::paper::PaperFigures;
use crate::record::{Failures, LatencySummary, SplitLatency, Step};

const LADDERS: &str = include_str!("../../data/paper-ladders.csv");
const THROUGHPUT: &str = include_str!("../../data/paper-throughput.csv");

const CLIENTS: &str = include_str!("../../data/paper-clients.csv");

/// One row of study 002.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientRow {
    /// `standalone` or `cluster`.
    pub mode: String,
    /// Client library.
    pub client: String,
    /// `light` or `heavy`.
    pub workload: String,
    /// Connections of the closed loop.
    pub connections: u32,
    /// Length of the run in seconds.
    pub duration_s: f64,
    /// "ReqPerSec" as printed.
    pub printed: f64,
    /// Mean latency in whole milliseconds' resolution.
    pub mean_ms: f64,
    /// Median latency.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Answers that denied.
    pub hits: u64,
}

impl ClientRow {
    /// Denied answers per second. At a limit of 100 a minute on one key they are nearly all answers.
    #[must_use]
    pub(crate) fn real_rps(&self) -> f64 {
        self.hits as f64 / self.duration_s
    }

    /// Bytes that a denied answer would have if the printed figure were bytes per second.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn bytes_per_answer(&self) -> f64 {
        self.printed * self.duration_s / self.hits as f64
    }
}

/// All rows of study 002, in its order.
#[must_use]
pub(crate) fn clients() -> &'static [ClientRow] {
    static ROWS: LazyLock<Vec<ClientRow>> =
        LazyLock::new(|| read(CLIENTS, client_row).expect("the data file is tested"));
    &ROWS
}

fn client_row(fields: &[&str]) -> Option<ClientRow> {
    let &[
        mode,
        client,
        workload,
        connections,
        duration,
        printed,
        mean,
        p50,
        p99,
        hits,
    ] = fields
    else {
        return None;
    };
    Some(ClientRow {
        mode: mode.into(),
        client: client.into(),
        workload: workload.into(),
        connections: connections.parse().ok()?,
        duration_s: number(duration)?,
        printed: number(printed)?,
        mean_ms: number(mean)?,
        p50_ms: number(p50)?,
        p99_ms: number(p99)?,
        hits: hits.parse().ok()?,
    })
}

/// One row of a ladder of studies 000 and 001.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LadderRow {
    /// Table: `P1` to `P5`.
    pub table: String,
    /// Store, as the study names it.
    pub backend: String,
    /// Name of the scenario, as [`crate::run::plan::KeyPlan::presets`] has it.
    pub scenario: String,
    /// Length of the step in seconds.
    pub step_s: f64,
    /// Offered load.
    pub target_rps: f64,
    /// "Actual RPS" as printed.
    pub actual_rps: f64,
    /// Good answers.
    pub success: u64,
    /// Failed requests.
    pub fail: u64,
    /// Failed share as printed.
    pub fail_percent: f64,
    /// Mean latency.
    pub mean_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// The icon of study 000; `None` where the published text lost it.
    pub sign: Option<String>,
    /// The label of study 001, which prints table P2 only.
    pub word: Option<String>,
}

/// One throughput row of studies 003 and 004.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ThroughputRow {
    /// Number of the study.
    pub study: String,
    /// Part of it: a host, a test, `pipeline 30`.
    pub table: String,
    /// What was measured.
    pub backend: String,
    /// Test or operation, as the study names it.
    pub test: String,
    /// Requests per second.
    pub rps: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// 99.9th percentile.
    pub p99_9_ms: Option<f64>,
}

/// All ladder rows, in the order of the studies.
#[must_use]
pub(crate) fn ladders() -> &'static [LadderRow] {
    static ROWS: LazyLock<Vec<LadderRow>> =
        LazyLock::new(|| read(LADDERS, ladder_row).expect("the data file is tested"));
    &ROWS
}

/// All throughput rows, in the order of the studies.
#[must_use]
pub(crate) fn throughput() -> &'static [ThroughputRow] {
    static ROWS: LazyLock<Vec<ThroughputRow>> =
        LazyLock::new(|| read(THROUGHPUT, throughput_row).expect("the data file is tested"));
    &ROWS
}

/// Rows of one table, by load.
pub(crate) fn table(id: &str) -> impl Iterator<Item = &'static LadderRow> {
    ladders().iter().filter(move |row| row.table == id)
}

/// Reads lines of fields; `#` begins a remark, and the first other line is the heading.
fn read<T>(text: &str, row: fn(&[&str]) -> Option<T>) -> Result<Vec<T>, String> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with('#'));
    lines
        .skip(1)
        .map(|(at, line)| {
            let fields: Vec<&str> = line.split(',').collect();
            row(&fields).ok_or_else(|| format!("line {}: {line}", at + 1))
        })
        .collect()
}

fn ladder_row(fields: &[&str]) -> Option<LadderRow> {
    let &[
        table,
        backend,
        scenario,
        step,
        target,
        actual,
        success,
        fail,
        percent,
        mean,
        p95,
        p99,
        sign,
        word,
    ] = fields
    else {
        return None;
    };
    Some(LadderRow {
        table: table.into(),
        backend: backend.into(),
        scenario: scenario.into(),
        step_s: number(step)?,
        target_rps: number(target)?,
        actual_rps: number(actual)?,
        success: success.parse().ok()?,
        fail: fail.parse().ok()?,
        fail_percent: number(percent)?,
        mean_ms: number(mean)?,
        p95_ms: number(p95)?,
        p99_ms: number(p99)?,
        sign: stated(sign),
        word: stated(word),
    })
}

fn throughput_row(fields: &[&str]) -> Option<ThroughputRow> {
    let &[study, table, backend, test, rps, p99, p99_9] = fields else {
        return None;
    };
    let optional = |text: &str| match text {
        "" => Some(None),
        text => number(text).map(Some),
    };
    Some(ThroughputRow {
        study: study.into(),
        table: table.into(),
        backend: backend.into(),
        test: test.into(),
        rps: optional(rps)?,
        p99_ms: optional(p99)?,
        p99_9_ms: optional(p99_9)?,
    })
}

fn number(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

fn stated(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl LadderRow {
    /// Good answers per second of the step's length. The study's own "Actual RPS" counts failures, and divides by a
    /// time that includes the drain.
    #[must_use]
    pub(crate) fn goodput_rps(&self) -> f64 {
        self.success as f64 / self.step_s
    }

    /// Time from the first request to the last answer, from the printed counts.
    #[must_use]
    pub(crate) fn wall_s(&self) -> f64 {
        (self.success + self.fail) as f64 / self.actual_rps
    }

    /// Requests that the plan held and no count names; 0 below one in a thousand, which is rounding.
    #[must_use]
    pub(crate) fn unaccounted(&self) -> u64 {
        let planned = (self.target_rps * self.step_s) as u64;
        let missing = planned.saturating_sub(self.success + self.fail);
        if missing * 1_000 > planned {
            missing
        } else {
            0
        }
    }

    /// What `study` prints as the row's status.
    #[must_use]
    pub(crate) fn status_in(&self, study: Study) -> Option<&str> {
        match study {
            Study::Hundred => self.word.as_deref(),
            _ => self.sign.as_deref(),
        }
    }

    /// The row's figures beside ours.
    #[must_use]
    pub(crate) fn figures(&self) -> PaperFigures {
        PaperFigures {
            target_rps: Some(self.target_rps),
            goodput_rps: Some(self.goodput_rps()),
            actual_rps: Some(self.actual_rps),
            fail_percent: Some(self.fail_percent),
            mean_ms: Some(self.mean_ms),
            p95_ms: Some(self.p95_ms),
            p99_ms: Some(self.p99_ms),
            p99_9_ms: None,
            wall_s: Some(self.wall_s()),
        }
    }

    /// The row as a step of ours, for our own rules: goodput from successes by the step's length; the study does not
    /// tell kinds of failure apart, all count as timeouts.
    #[must_use]
    pub(crate) fn step(&self) -> Step {
        let latency = LatencySummary {
            count: self.success,
            mean_us: self.mean_ms * 1e3,
            p95_us: self.p95_ms * 1e3,
            p99_us: self.p99_ms * 1e3,
            ..LatencySummary::default()
        };
        Step {
            target_rps: self.target_rps,
            duration_s: self.step_s,
            planned: self.success + self.fail,
            completed: self.success,
            allowed: self.success,
            goodput_rps: self.goodput_rps(),
            failures: Failures {
                timeout: self.fail,
                ..Failures::default()
            },
            response: SplitLatency {
                all: Some(latency),
                ..SplitLatency::default()
            },
            ..Step::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_row_is_there() {
        let count = |id: &str| table(id).count();
        assert_eq!(
            ["P1", "P2", "P3", "P4", "P5"].map(count),
            [9, 9, 7, 9, 9],
            "the hot ladder on Redis stops at 25,000"
        );
        assert_eq!(ladders().len(), 43);
        assert_eq!(throughput().len(), 45);
    }

    #[test]
    fn the_rates_of_study_002_are_bytes() {
        let rows = clients();
        assert_eq!(rows.len(), 12);
        for row in rows {
            let bytes = row.bytes_per_answer();
            assert!((286.6..286.72).contains(&bytes), "{row:?}: {bytes}");
        }
        assert_eq!(rows[6].real_rps().round(), 21_506.0);
        let lead = rows[0].real_rps() / rows[2].real_rps();
        assert!(
            (lead - 1.352).abs() < 0.001,
            "ratios survive the unit: {lead}"
        );
    }

    #[test]
    fn broken_lines_are_named() {
        assert_eq!(
            read("# x\nhead\n1,2\n", ladder_row),
            Err("line 3: 1,2".into())
        );
        assert!(read("head\n003,a,b,c,many,,\n", throughput_row).is_err());
        assert!(read("head\n003,a,b,c,-1,,\n", throughput_row).is_err());
        assert_eq!(read("", throughput_row), Ok(Vec::new()));
    }

    #[test]
    fn goodput_leaves_failures_and_the_drain_out() {
        let row = table("P2").last().unwrap();
        assert_eq!(row.actual_rps, 4_755.0);
        assert_eq!(row.goodput_rps().round(), 3_037.0);
        assert_eq!((row.wall_s() * 10.0).round(), 3_785.0, "378.5 s");
        assert_eq!(row.figures().in_flight().unwrap().round(), 822_615.0);
        // Healthy rows end with their step.
        for row in ladders().iter().filter(|row| row.fail == 0) {
            assert!((row.wall_s() / row.step_s - 1.0).abs() < 0.02, "{row:?}");
        }
    }

    #[test]
    fn requests_that_no_count_names_are_found() {
        let missing: Vec<(&str, f64, u64)> = ladders()
            .iter()
            .filter(|row| row.unaccounted() > 0)
            .map(|row| (row.table.as_str(), row.target_rps, row.unaccounted()))
            .collect();
        assert_eq!(missing, [("P2", 25_000.0, 3_429), ("P3", 25_000.0, 43_549)]);
    }

    #[test]
    fn what_lies_past_the_knee_tells_the_studys_story_in_numbers() {
        use crate::record::capacity::RetentionClass;
        use crate::record::{Measure, Profile};
        use crate::search::retention::{knee, retention};

        let profile = Profile::bench();
        let found = |id: &str| {
            let rows: Vec<Measure> = table(id).map(|row| Measure::of(&row.step())).collect();
            let knee = *knee(&profile, &rows).unwrap();
            retention(&profile, &rows, &knee).unwrap()
        };
        let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 0.006;
        let redis_hot = found("P3");
        assert_eq!(redis_hot.class, Some(RetentionClass::Collapse));
        assert!(near(Some(redis_hot.points[0].retention), 0.29));
        assert!(near(redis_hot.cliff_margin, 0.14));
        assert!(near(redis_hot.early_warning, 0.40), "latency did warn");
        let redis_uniform = found("P2");
        assert_eq!(redis_uniform.class, Some(RetentionClass::Collapse));
        assert!(near(Some(redis_uniform.points[0].retention), 0.83));
        assert!(near(Some(redis_uniform.points[1].retention), 0.23));
        assert!(near(redis_uniform.cliff_margin, 0.25));
        let dragonfly_hot = found("P5");
        assert_eq!(dragonfly_hot.class, Some(RetentionClass::Graceful));
        let kept: Vec<f64> = dragonfly_hot.points.iter().map(|p| p.retention).collect();
        for (kept, expected) in kept.iter().zip([1.08, 1.12, 0.52]) {
            assert!(near(Some(*kept), expected), "{kept}");
        }
        assert!(near(dragonfly_hot.cliff_margin, 0.33));
    }
}
