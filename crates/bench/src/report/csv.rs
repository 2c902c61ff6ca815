//! `summary.csv`: one line per ladder row, in the column names of ratelimit_bench with the units they claim,
//! followed by columns of our own.
//!
//! `ReqPerSec` counts requests, not bytes. `Latency_*` are response times in ms, from the intended send
//! time. `Duration` is that of one start, counts are those of all `Starts` together. `CPUUsage` is the server's CPU in percent of one core, `MemoryUsage` its resident memory in MiB.
//! `ServerCPU` is that of the target, `StoreCPU` that of all stores on the measured path: the target itself where it is one, empty where
//! none was watched. `Unequal` names what differs in the setup of the target from that of the one that held most in its
//! scenario: rows of the two are no comparison.

mod beside;
mod rows;
mod samples;

use super::findings::{ScenarioFindings, scenarios};
use super::rows::store_behind;
use crate::record::attribution::Role;
use crate::record::{Cell, CompareRecord, RunRecord, Spread, Step};

pub(super) use beside::{comparison, trends};
pub(crate) use rows::rows;
pub(crate) use samples::{write_samples, write_samples_head};

/// Columns of [`summary`], in order.
const COLUMNS: &[&str] = &[
    "Client",
    "Mode",
    "RequestType",
    "Concurrency",
    "Duration",
    "ReqPerSec",
    "Latency_Avg",
    "Latency_P50",
    "Latency_P99",
    "RateLimitHits",
    "CPUUsage",
    "MemoryUsage",
    "GoodputPerSec",
    "Latency_P999",
    "RateLimitedRatio",
    "GeneratorCPU",
    "ServerCPU",
    "StoreCPU",
    "Scenario",
    "Operation",
    "TargetPerSec",
    "SentPerSec",
    "Latency_P95",
    "Latency_Max",
    "ServiceLatency_P99",
    "SendLag_P99",
    "FailPercent",
    "Timeout",
    "Refused",
    "ProtocolError",
    "StoreError",
    "LimiterError",
    "Unsent",
    "ServerCpuUsPerOp",
    "OverAdmissionPercent",
    "UnderAdmissionPercent",
    "Status",
    "Label",
    "Validity",
    "Starts",
    "Unequal",
];

/// The rows of a run.
pub(crate) fn summary(record: &RunRecord) -> String {
    let mut out = line(COLUMNS.iter().map(|column| (*column).to_owned()));
    let scenarios = scenarios(record);
    for cell in &record.cells {
        let unequal = unequal_settings(&scenarios, cell);
        for (step, length_s) in cell.steps.iter().zip(cell.lengths_s()) {
            out.push_str(&line(fields(cell, step, length_s, &unequal).into_iter()));
        }
    }
    out
}

/// In what the cell's target was not set up as the one that held most was.
fn unequal_settings(scenarios: &[ScenarioFindings<'_>], cell: &Cell) -> String {
    let with = |scenario: &&ScenarioFindings<'_>| {
        scenario
            .ranked
            .iter()
            .any(|one| std::ptr::eq(one.cell, cell))
    };
    let found = scenarios.iter().find(with);
    let differences = found.map_or_else(Vec::new, |scenario| scenario.unlike_best(&cell.target));
    let named: Vec<String> = differences.into_iter().map(|found| found.what).collect();
    named.join("; ")
}

fn fields(cell: &Cell, step: &Step, length_s: f64, unequal: &str) -> Vec<String> {
    let response = step.response.all.as_ref();
    let server = step.server;
    let cpu = number(server.map(|s| s.cpu_percent));
    let decided = step.allowed.saturating_add(step.denied);
    let failures = step.failures;
    let accuracy = step.accuracy.as_ref().or(cell.accuracy.as_ref());
    vec![
        cell.target.clone(),
        "standalone".into(),
        cell.operation.name.clone(),
        cell.load.connections.to_string(),
        number(Some(length_s)),
        number(Some(step.completed_rps)),
        ms(response.map(|l| l.mean_us)),
        ms(response.map(|l| l.p50_us)),
        ms(response.map(|l| l.p99_us)),
        step.denied.to_string(),
        cpu.clone(),
        number(
            server
                .and_then(|s| s.rss_bytes)
                .map(|bytes| bytes as f64 / 1_048_576.0),
        ),
        number(Some(step.goodput_rps)),
        ms(response.map(|l| l.p99_9_us)),
        number((decided > 0).then(|| step.denied as f64 / decided as f64)),
        number(step.generator.map(|g| g.cpu_percent)),
        cpu,
        number(store_cpu(step)),
        cell.scenario.name.clone(),
        cell.operation.title.clone(),
        number(Some(step.target_rps)),
        number(Some(step.sent_rps)),
        ms(response.map(|l| l.p95_us)),
        ms(response.map(|l| l.max_us)),
        ms(step.service.all.as_ref().map(|l| l.p99_us)),
        ms(step.send_lag.as_ref().map(|l| l.p99_us)),
        number(Some(step.fail_percent())),
        failures.timeout.to_string(),
        failures.refused.to_string(),
        failures.protocol.to_string(),
        failures.store_error.to_string(),
        failures.limiter_error.to_string(),
        failures.unsent.to_string(),
        number(server.and_then(|s| s.cpu_us_per_op)),
        number(accuracy.map(|a| a.over_admission_percent)),
        number(accuracy.map(|a| a.under_admission_percent)),
        step.status.level.word().into(),
        step.label.words().into(),
        step.validity.grade.word().into(),
        cell.starts().to_string(),
        unequal.to_owned(),
    ]
}

/// CPU use of all stores on the measured path, percent of one core; `None` where none was watched. Where the target is a store
/// it is the only one.
fn store_cpu(step: &Step) -> Option<f64> {
    let watched = &step.attribution.as_ref()?.processes;
    let is_there = |role: Role| watched.iter().any(|process| process.role == role);
    match is_there(Role::Service) {
        true => store_behind(step),
        false if is_there(Role::Store) => step.server.map(|server| server.cpu_percent),
        false => None,
    }
}

/// The ratios of a paired comparison, one line per load.
pub(crate) fn compare(record: &CompareRecord) -> String {
    let mut heads = vec!["Row", "A", "B", "Connections", "PipelineDepth"]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    for ratio in [
        "ThroughputAOverB",
        "LatencyP50BOverA",
        "LatencyP99BOverA",
        "ServerCpuBOverA",
    ] {
        heads
            .extend(["Median", "Q25", "Q75", "Min", "Max", "Pairs"].map(|s| format!("{ratio}{s}")));
    }
    let mut out = line(heads.into_iter());
    for row in &record.rows {
        let mut fields = vec![
            row.title.clone(),
            record.a.name.clone(),
            record.b.name.clone(),
            row.connections.to_string(),
            row.pipeline_depth.to_string(),
        ];
        let ratios = &row.ratios;
        for spread in [
            ratios.throughput_a_over_b,
            ratios.latency_p50_b_over_a,
            ratios.latency_p99_b_over_a,
            ratios.server_cpu_b_over_a,
        ] {
            fields.extend(spread_fields(spread));
        }
        out.push_str(&line(fields.into_iter()));
    }
    out
}

fn spread_fields(spread: Option<Spread>) -> [String; 6] {
    let field = |pick: fn(Spread) -> f64| number(spread.map(pick));
    [
        field(|s| s.median),
        field(|s| s.q25),
        field(|s| s.q75),
        field(|s| s.min),
        field(|s| s.max),
        spread.map(|s| s.n.to_string()).unwrap_or_default(),
    ]
}

fn ms(us: Option<f64>) -> String {
    number(us.map(|us| us / 1e3))
}

/// A plain number with at most four decimals; empty if there is none or it is not finite.
pub(super) fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return String::new();
    };
    if value.abs() >= 1e15 {
        return format!("{value:e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One line by RFC 4180: fields with a comma, quote or line break are quoted.
pub(super) fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted: Vec<String> = fields
        .map(|field| {
            if field.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", field.replace('"', "\"\""))
            } else {
                field
            }
        })
        .collect();
    format!("{}\n", quoted.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain() {
        assert_eq!(number(Some(1_234_567.5)), "1234567.5");
        assert_eq!(number(Some(0.000_01)), "0");
        assert_eq!(number(Some(f64::NAN)), "");
        assert_eq!(number(None), "");
        assert_eq!(number(Some(1e300)), "1e300");
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let fields = ["plain", "a,b", "say \"hi\""].map(str::to_owned);
        assert_eq!(
            line(fields.into_iter()),
            "plain,\"a,b\",\"say \"\"hi\"\"\"\n"
        );
    }

    #[test]
    fn every_row_has_every_column() {
        assert_eq!(
            fields(&Cell::default(), &Step::default(), 1.0, "").len(),
            COLUMNS.len()
        );
        let text = compare(&CompareRecord {
            rows: vec![crate::record::CompareRow::default()],
            ..CompareRecord::default()
        });
        let widths: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(widths, [29, 29]);
    }
}
