//! Prometheus rules with the measured capacity filled in. Only metrics that exist are used: those of redis_exporter and
//! memcached_exporter for stores, and those of envoyproxy/ratelimit, which Tollgate's service has too, for services.

use crate::record::{RunRecord, TargetKind};

use super::super::format::short;
use super::super::lang::Lang;
use super::thresholds::{Metric, Threshold};
use super::{Capacity, capacities, command_of};

/// Window over which rates are taken.
const RATE_WINDOW: &str = "1m";
/// How long a warning must last before it fires.
const WARNING_FOR: &str = "5m";
/// How long a critical state must last.
const CRITICAL_FOR: &str = "1m";

/// Whose metrics describe a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// redis_exporter beside a RESP store.
    RedisExporter,
    /// memcached_exporter beside a memcached store.
    MemcachedExporter,
    /// The service's own `/metrics`.
    Service,
    /// The same for a service that was asked over HTTP: its response times are measured over gRPC only.
    ServiceByHttp,
}

impl Source {
    /// Whose metrics describe the target of a capacity.
    pub(crate) fn of(record: &RunRecord, capacity: &Capacity<'_>) -> Self {
        let url = record
            .targets
            .iter()
            .find(|target| target.name == capacity.cell.target)
            .map_or("", |target| target.url.as_str());
        match capacity.kind {
            TargetKind::Service if url.starts_with("http") => Self::ServiceByHttp,
            TargetKind::Service => Self::Service,
            _ if url.starts_with("memcache") => Self::MemcachedExporter,
            TargetKind::Store | TargetKind::Null => Self::RedisExporter,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::RedisExporter => "redis_exporter",
            Self::MemcachedExporter => "memcached_exporter",
            Self::Service | Self::ServiceByHttp => "the service's own /metrics",
        }
    }
}

/// The expression of a metric in the unit of its thresholds; `None` if the source does not have it.
pub(crate) fn expression(
    source: Source,
    metric: Metric,
    job: &str,
    capacity: &Capacity<'_>,
    threads: u32,
) -> Option<String> {
    let job = format!("job=\"{}\"", in_label(job));
    let rps = capacity.sustained_rps;
    let load = load_expression(source, &job, capacity);
    let ratio = |part: String, whole: &str| format!("100 * sum({part}) / (sum({whole}) > 0)");
    Some(match (source, metric) {
        (_, Metric::Load) => format!("100 * {load} / {rps:.0}"),
        (Source::RedisExporter, Metric::P99) => format!(
            "max(redis_latency_percentiles_usec{{{job}{},quantile=~\"0.99|99\"}}) / 1000",
            commands(capacity)
        ),
        (Source::RedisExporter, Metric::Errors) => {
            let of = |name: &str| format!("rate(redis_commands_{name}{{{job}}}[{RATE_WINDOW}])");
            let part = format!(
                "{} + {}",
                of("failed_calls_total"),
                of("rejected_calls_total")
            );
            ratio(part, &of("total"))
        }
        (Source::RedisExporter, Metric::Cpu) => cpu("redis_cpu_", &job, threads),
        (Source::RedisExporter, Metric::Memory) => format!(
            "100 * redis_memory_used_bytes{{{job}}} / (redis_memory_max_bytes{{{job}}} > 0)"
        ),
        (Source::RedisExporter, Metric::Connections) => {
            format!("100 * redis_connected_clients{{{job}}} / redis_config_maxclients{{{job}}}")
        }
        (Source::MemcachedExporter, Metric::Cpu) => cpu("memcached_process_", &job, threads),
        (Source::MemcachedExporter, Metric::Memory) => {
            format!("100 * memcached_current_bytes{{{job}}} / memcached_limit_bytes{{{job}}}")
        }
        (Source::MemcachedExporter, Metric::Connections) => format!(
            "100 * memcached_current_connections{{{job}}} / memcached_max_connections{{{job}}}"
        ),
        (Source::Service, Metric::P99) => format!(
            "1000 * histogram_quantile(0.99, sum by (le) (rate(ratelimit_service_response_time_seconds_bucket{{{job}}}[{RATE_WINDOW}])))"
        ),
        (Source::Service | Source::ServiceByHttp, Metric::Errors) => ratio(
            format!("rate(ratelimit_service_should_rate_limit_error{{{job}}}[{RATE_WINDOW}])"),
            &format!("rate(ratelimit_service_total_requests{{{job}}}[{RATE_WINDOW}])"),
        ),
        (Source::MemcachedExporter, Metric::P99 | Metric::Errors)
        | (
            Source::ServiceByHttp,
            Metric::P99 | Metric::Cpu | Metric::Memory | Metric::Connections,
        )
        | (Source::Service, Metric::Cpu | Metric::Memory | Metric::Connections) => return None,
    })
}

/// Decisions per second.
pub(crate) fn load_expression(source: Source, job: &str, capacity: &Capacity<'_>) -> String {
    match source {
        Source::RedisExporter => match command_of(capacity.cell) {
            Some(_) => format!(
                "sum(rate(redis_commands_total{{{job}{}}}[{RATE_WINDOW}]))",
                commands(capacity)
            ),
            None => format!("sum(rate(redis_commands_processed_total{{{job}}}[{RATE_WINDOW}]))"),
        },
        Source::MemcachedExporter => {
            format!("sum(rate(memcached_commands_total{{{job}}}[{RATE_WINDOW}]))")
        }
        Source::Service | Source::ServiceByHttp => {
            format!("sum(rate(ratelimit_service_total_requests{{{job}}}[{RATE_WINDOW}]))")
        }
    }
}

fn commands(capacity: &Capacity<'_>) -> String {
    command_of(capacity.cell).map_or(String::new(), |name| format!(",cmd=\"{name}\""))
}

fn cpu(prefix: &str, job: &str, threads: u32) -> String {
    let of = |part: &str| {
        let name = match prefix {
            "redis_cpu_" => format!("redis_cpu_{part}_seconds_total"),
            _ => format!(
                "{prefix}{}_cpu_seconds_total",
                if part == "sys" { "system" } else { part }
            ),
        };
        format!("rate({name}{{{job}}}[{RATE_WINDOW}])")
    };
    format!("100 * sum({} + {}) / {threads}", of("sys"), of("user"))
}

/// The rules file: for each target its capacity as a recording rule, and two alerts per metric.
pub(crate) fn rules(record: &RunRecord, thresholds: &[Threshold], job: Option<&str>) -> String {
    let mut out = String::from(
        "# Alerts by measured capacity, made by `tollgate bench report --format prometheus`.\n\
         # The load is a share of the sustained load in the scenario in which the target holds least.\n",
    );
    let capacities = capacities(record);
    if capacities.is_empty() {
        out.push_str("# No target held any load, so there is no capacity to watch.\ngroups: []\n");
        return out;
    }
    out.push_str("groups:\n");
    for capacity in &capacities {
        group(&mut out, record, thresholds, job, capacity);
    }
    out
}

fn group(
    out: &mut String,
    record: &RunRecord,
    thresholds: &[Threshold],
    job: Option<&str>,
    capacity: &Capacity<'_>,
) {
    let (cell, source) = (capacity.cell, Source::of(record, capacity));
    let target = record
        .targets
        .iter()
        .find(|target| target.name == cell.target);
    let threads = target.and_then(|target| target.threads).unwrap_or(1).max(1);
    let name = quoted(&format!("tollgate-capacity-{}", cell.target));
    let labels = format!(
        "          target: {}\n          scenario: {}\n",
        quoted(&braces_as_text(&cell.target)),
        quoted(&braces_as_text(&cell.scenario.name))
    );
    let measured = format!("{}, measured {}", cell.title(), record.manifest.started_at);
    out.push_str(&format!(
        "  # {}\n  # Metrics: {}.\n  - name: {name}\n    rules:\n",
        one_line(&measured),
        source.name()
    ));
    for (record_name, value) in [
        ("tollgate:capacity_sustained:rps", capacity.sustained_rps),
        ("tollgate:capacity_safe:rps", capacity.safe_rps),
    ] {
        out.push_str(&format!(
            "      - record: {record_name}\n        expr: vector({value:.0})\n        labels:\n{labels}"
        ));
    }
    let job = job.unwrap_or(&cell.target);
    for row in thresholds.iter().map(|row| row.at(capacity)) {
        let Some(expression) = expression(source, row.metric, job, capacity, threads) else {
            continue;
        };
        for (severity, bound, lasting) in [
            ("warning", row.warning, WARNING_FOR),
            ("critical", row.critical, CRITICAL_FOR),
        ] {
            let name = row.metric.name().of(Lang::En);
            let action = row.metric.action().of(Lang::En);
            let unit = if row.metric == Metric::P99 { "ms" } else { "%" };
            let summary = format!(
                "{}: {name} above {} {unit}. {action}.",
                braces_as_text(&cell.target),
                short(bound)
            );
            out.push_str(&format!(
                "      - alert: Tollgate{:?}{}\n        expr: {}\n        for: {lasting}\n        labels:\n          severity: {severity}\n{labels}        annotations:\n          summary: {}\n          description: {}\n",
                row.metric,
                super::super::format::capitalized(severity),
                quoted(&format!("{expression} > {bound}")),
                quoted(&summary),
                quoted(&format!("Now {{{{ $value | printf \"%.1f\" }}}} {unit}. Capacity: {}", braces_as_text(&measured))),
            ));
        }
    }
}

/// A YAML scalar in double quotes.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Text inside a label matcher of PromQL.
pub(crate) fn in_label(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c {
            '"' | '\\' => vec!['\\', c],
            c if c.is_control() => vec![' '],
            c => vec![c],
        })
        .collect()
}

/// Text for a label or an annotation, which are templates: two braces would begin an expression.
fn braces_as_text(text: &str) -> String {
    text.replace("{{", "{ {").replace("}}", "} }")
}

fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
