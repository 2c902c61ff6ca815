//! The rows of a run in the JSON layout of ratelimit_bench, so that programs made for its results read ours.
//!
//! Its field names are kept; `units` says what they are in. What the bench does not measure (bytes of throughput, spread
//! within a run) is null, never 0.

use serde_json::{Value, json};

use super::table::plain as plain_text;
use super::{TextStyle, ladder_head, ladder_row};
use crate::record::{Cell, ProcessUse, RunRecord, Step};

/// A file of the layout: its name and content.
pub(super) struct File {
    /// `{implementation}_{workload}_{connections}c_{duration}s_run{N}.json`.
    pub(super) name: String,
    /// The row.
    pub(super) content: Value,
    /// The row as a terminal shows it, with what was remarked about it; the layout has it as `….json.log`.
    pub(super) log: String,
}

/// One file per row. A rate belongs to the workload, since runs of one workload are taken for repetitions there. Rows that
/// share implementation, workload, connections and duration are numbered.
pub(super) fn files(record: &RunRecord) -> Vec<File> {
    let mut out: Vec<File> = Vec::new();
    for cell in &record.cells {
        let asked = format!("{}-{}", cell.operation.name, cell.scenario.name);
        for step in cell.by_load() {
            let workload = match cell.load.closed_loop {
                true => asked.clone(),
                false => format!("{asked}-{:.0}rps", step.target_rps),
            };
            let connections = step.connections.unwrap_or(cell.load.connections);
            let stem = format!(
                "{}_{}_{connections}c_{:.0}s",
                plain(&cell.target),
                plain(&workload),
                step.duration_s.max(0.0)
            );
            let same = out
                .iter()
                .filter(|file| file.name.starts_with(&format!("{stem}_run")));
            let name = format!("{stem}_run{}.json", same.count() + 1);
            out.push(File {
                name,
                content: content(record, cell, step, &workload, connections),
                log: log(cell, step),
            });
        }
    }
    out
}

fn log(cell: &Cell, step: &Step) -> String {
    let style = TextStyle::default();
    let mut out = format!(
        "{}\n{}\n{}\n",
        plain_text(style, &cell.title()),
        ladder_head(style),
        ladder_row(style, step)
    );
    let remarks = step.notes.iter().chain(&step.validity.reasons);
    let rule = Some(&step.status.rule).filter(|rule| !rule.is_empty());
    for remark in rule.into_iter().chain(remarks) {
        out.push_str(&format!("- {}\n", plain_text(style, remark)));
    }
    out
}

fn content(
    record: &RunRecord,
    cell: &Cell,
    step: &Step,
    workload: &str,
    connections: u32,
) -> Value {
    let ms = |pick: fn(&crate::record::LatencySummary) -> f64| {
        step.response
            .all
            .as_ref()
            .map(|latency| pick(latency) / 1e3)
    };
    let failures = step.failures;
    let resources = |used: Option<ProcessUse>| {
        json!({
            "cpu": {"average": used.map(|u| u.cpu_percent), "samples": null, "min": null, "max": null},
            "memory": {
                "average": used.and_then(|u| u.rss_bytes).map(|bytes| bytes as f64 / 1_048_576.0),
                "samples": null, "min": null, "max": null
            },
        })
    };
    json!({
        "timestamp": record.manifest.started_at,
        "implementation": cell.target,
        "requestType": workload,
        "connections": connections,
        "duration": step.duration_s,
        "targetRps": step.target_rps,
        "requests": {"total": step.completed, "average": step.completed_rps, "sent": step.sent},
        "throughput": {"average": null, "mean": null, "stddev": null},
        "latency": {
            "average": ms(|l| l.mean_us), "mean": ms(|l| l.mean_us), "stddev": null,
            "p50": ms(|l| l.p50_us), "p75": ms(|l| l.p75_us), "p90": ms(|l| l.p90_us),
            "p97_5": ms(|l| l.p97_5_us), "p99": ms(|l| l.p99_us),
            "max": ms(|l| l.max_us), "min": ms(|l| l.min_us),
        },
        "errors": failures.total(),
        "timeouts": failures.timeout,
        "non2xx": step.denied.saturating_add(failures.answered_errors()),
        "rateLimitHits": step.denied,
        "resources": resources(step.server),
        "generatorResources": resources(step.generator),
        "validity": step.validity.grade.word(),
        "units": {
            "duration": "s", "requests.average": "requests/s", "throughput": "bytes/s (not measured)", "latency": "ms, from the intended send time",
            "resources.cpu": "percent of one core, of the server", "resources.memory": "MiB, of the server",
            "errors": "requests, timeouts included"
        },
    })
}

/// A part of a file name: letters, digits, points and hyphens.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        })
        .collect()
}
