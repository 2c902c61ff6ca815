//! `rows.csv`: every number of every row, its unit in the column's name. Empty is "not measured". Counts are those of all
//! `starts` together, `duration_s` is that of one.

use crate::record::{
    Cell, LatencySummary, ProcessUse, RunRecord, SplitLatency, Step, goodput_by_second,
};

use super::{line, number};

/// A column's name and how its value is read.
type Pick<T, V> = (&'static str, fn(&T) -> V);

/// Percentiles of a latency, with their columns.
const LATENCY: [Pick<LatencySummary, f64>; 11] = [
    ("min_us", |l| l.min_us),
    ("mean_us", |l| l.mean_us),
    ("p50_us", |l| l.p50_us),
    ("p75_us", |l| l.p75_us),
    ("p90_us", |l| l.p90_us),
    ("p95_us", |l| l.p95_us),
    ("p97_5_us", |l| l.p97_5_us),
    ("p99_us", |l| l.p99_us),
    ("p99_9_us", |l| l.p99_9_us),
    ("p99_99_us", |l| l.p99_99_us),
    ("max_us", |l| l.max_us),
];

/// Use of the machine by a process, with its columns.
const USE: [Pick<ProcessUse, Option<f64>>; 5] = [
    ("cpu_percent", |u| Some(u.cpu_percent)),
    ("busiest_thread_percent", |u| u.busiest_thread_percent),
    ("cpu_us_per_op", |u| u.cpu_us_per_op),
    ("run_queue_wait_percent", |u| u.run_queue_wait_percent),
    ("rss_bytes", |u| u.rss_bytes.map(|bytes| bytes as f64)),
];

/// A named column and its value in a row.
type Field = (String, String);

/// Every row of a run.
pub(crate) fn rows(record: &RunRecord) -> String {
    let heads = fields(record, &Cell::default(), &Step::default(), 0.0);
    let mut out = line(heads.into_iter().map(|(name, _)| name));
    for cell in &record.cells {
        for (step, length_s) in cell.steps.iter().zip(cell.lengths_s()) {
            let values = fields(record, cell, step, length_s);
            out.push_str(&line(values.into_iter().map(|(_, value)| value)));
        }
    }
    out
}

fn fields(record: &RunRecord, cell: &Cell, step: &Step, length_s: f64) -> Vec<Field> {
    let mut out: Vec<Field> = Vec::new();
    let mut text = |name: &str, value: &str| out.push((name.to_owned(), value.to_owned()));
    text("started_at", &record.manifest.started_at);
    text("target", &cell.target);
    let own = record.targets.iter().find(|one| one.name == cell.target);
    let together = own.map_or("", |own| if own.co_located { "yes" } else { "no" });
    text("generator_on_same_machine", together);
    text("scenario", &cell.scenario.name);
    text("distribution", &cell.scenario.distribution);
    text("keys", &cell.scenario.keys.to_string());
    text("operation", &cell.operation.name);
    text("algorithm", &cell.operation.algorithm);
    text("arrivals", &cell.load.arrivals);
    text(
        "connections",
        &step
            .connections
            .unwrap_or(cell.load.connections)
            .to_string(),
    );
    text("pipeline_depth", &cell.load.pipeline_depth.to_string());
    text("deadline_ms", &number(Some(cell.load.deadline_ms)));
    text("starts", &cell.starts().to_string());
    let by_second = goodput_by_second(&step.seconds);
    for (name, value) in [
        ("target_rps", Some(step.target_rps)),
        ("offset_s", Some(step.offset_s)),
        ("duration_s", Some(length_s)),
        ("sent_rps", Some(step.sent_rps)),
        ("completed_rps", Some(step.completed_rps)),
        ("goodput_rps", Some(step.goodput_rps)),
        ("fail_percent", Some(step.fail_percent())),
        ("admit_ratio", step.admit_ratio()),
        ("steal_percent", step.steal_percent),
        ("second_goodput_min_rps", by_second.map(|[least, ..]| least)),
        (
            "second_goodput_median_rps",
            by_second.map(|[_, median, _]| median),
        ),
        ("second_goodput_max_rps", by_second.map(|[.., most]| most)),
    ] {
        text(name, &number(value));
    }
    for (name, value) in [
        ("planned", step.planned),
        ("sent", step.sent),
        ("completed", step.completed),
        ("allowed", step.allowed),
        ("denied", step.denied),
        ("failed_timeout", step.failures.timeout),
        ("failed_refused", step.failures.refused),
        ("failed_protocol", step.failures.protocol),
        ("failed_store_error", step.failures.store_error),
        ("failed_limiter_error", step.failures.limiter_error),
        ("failed_unsent", step.failures.unsent),
    ] {
        text(name, &value.to_string());
    }
    split(&mut out, "response", &step.response);
    split(&mut out, "service", &step.service);
    latency(&mut out, "late", step.late.as_ref());
    latency(&mut out, "send_lag", step.send_lag.as_ref());
    process(&mut out, "generator", step.generator.as_ref());
    process(&mut out, "server", step.server.as_ref());
    judged(&mut out, cell, step);
    out
}

fn split(out: &mut Vec<Field>, name: &str, split: &SplitLatency) {
    latency(out, name, split.all.as_ref());
    latency(out, &format!("{name}_allowed"), split.allow.as_ref());
    latency(out, &format!("{name}_denied"), split.deny.as_ref());
    latency(out, &format!("{name}_overdue"), split.overdue.as_ref());
}

fn latency(out: &mut Vec<Field>, name: &str, found: Option<&LatencySummary>) {
    let count = found.map(|latency| latency.count.to_string());
    out.push((format!("{name}_count"), count.unwrap_or_default()));
    for (column, pick) in LATENCY {
        out.push((format!("{name}_{column}"), number(found.map(pick))));
    }
}

fn process(out: &mut Vec<Field>, name: &str, found: Option<&ProcessUse>) {
    for (column, pick) in USE {
        out.push((format!("{name}_{column}"), number(found.and_then(pick))));
    }
}

fn judged(out: &mut Vec<Field>, cell: &Cell, step: &Step) {
    let accuracy = step.accuracy.as_ref().or(cell.accuracy.as_ref());
    let cost = step.attribution.as_ref();
    for (name, value) in [
        (
            "over_admission_percent",
            accuracy.map(|a| a.over_admission_percent),
        ),
        (
            "under_admission_percent",
            accuracy.map(|a| a.under_admission_percent),
        ),
        ("fairness_jain", accuracy.and_then(|a| a.fairness_jain)),
        ("cost_per_million", cost.and_then(|a| a.cost_per_million)),
        (
            "joules_per_million",
            cost.and_then(|a| a.joules_per_million),
        ),
    ] {
        out.push((name.to_owned(), number(value)));
    }
    for (name, value) in [
        ("status", step.status.level.word()),
        ("status_rule", step.status.rule.as_str()),
        ("label", step.label.words()),
        ("validity", step.validity.grade.word()),
    ] {
        out.push((name.to_owned(), value.to_owned()));
    }
    out.push(("validity_reasons".into(), step.validity.reasons.join("; ")));
}
