//! `README.md` of a run: summary, ladders, accuracy, events, validity, circumstances.

mod compare;

use crate::record::{Accuracy, Cell, RunRecord};

use super::circumstances::{command, manifest_rows, target_line};
use super::findings::{CellFindings, ScenarioFindings, over_admission, scenarios, worst_stretch};
use super::format::{ms, or_dash, percent, printable, rate, ratio, seconds, significant};
use super::observations::observations;
use super::rows::{LadderRow, limit_text};
use super::verdict;

pub use compare::compare;

/// The Markdown of a run.
pub fn run(record: &RunRecord) -> String {
    let mut out = String::from("# Rate limit benchmark\n\n");
    facts(&mut out, record);
    out.push_str("\n## Executive summary\n\n");
    for sentence in verdict::run(record) {
        push_line(&mut out, &format!("- {}", text(&sentence)));
    }
    let scenarios = scenarios(record);
    for scenario in &scenarios {
        comparison(&mut out, scenario);
    }
    out.push_str("\n## Detailed results\n");
    out.push_str(
        "\nLatencies are response times in ms, from the intended send time. `lag` is the P99 of the \
         generator's delay. CPU is in percent of one core. A denied decision is an answer, not a failure.\n",
    );
    for scenario in &scenarios {
        for ranked in &scenario.ranked {
            ladder(&mut out, ranked.cell, &ranked.findings);
        }
    }
    accuracy(&mut out, record);
    events(&mut out, record);
    validity(&mut out, record);
    configuration(&mut out, record);
    method(&mut out);
    out
}

fn facts(out: &mut String, record: &RunRecord) {
    let manifest = &record.manifest;
    let whole = if record.complete {
        "complete"
    } else {
        "partial"
    };
    quote(out, "Test date", &manifest.started_at);
    quote(out, "Duration", &seconds(manifest.duration_s));
    quote(
        out,
        "Run",
        &format!(
            "{}, {whole}, thresholds `{}`",
            record.validity.grade.word(),
            record.profile.name
        ),
    );
    quote(out, "Command", &command(&manifest.command_line));
}

fn quote(out: &mut String, name: &str, value: &str) {
    push_line(out, &format!("> **{name}**: {}  ", text(value)));
}

fn comparison(out: &mut String, scenario: &ScenarioFindings<'_>) {
    let common = or_dash(scenario.common_rps, |rps| format!("{}/s", rate(rps)));
    push_line(out, &format!("\n### {}\n", text(&scenario.title)));
    push_line(
        out,
        &format!(
            "P99 and server CPU at the highest load that all held, or at least answered: {common}.\n"
        ),
    );
    head(
        out,
        &[
            "Target",
            "Operation",
            "Held/s",
            "Not held/s",
            "Safe/s",
            "Peak goodput/s",
            "P99 ms",
            "Server µs/op",
            "Over-admission",
        ],
        2,
    );
    for ranked in &scenario.ranked {
        let found = &ranked.findings;
        let common = ranked.common;
        let p99 = common.and_then(|step| step.response.all.as_ref());
        let cpu = common
            .and_then(|step| step.server)
            .and_then(|server| server.cpu_us_per_op);
        row(
            out,
            &[
                text(&ranked.cell.target),
                text(&ranked.cell.operation.title),
                format!("**{}**", or_dash(found.sustained_rps, rate)),
                or_dash(found.not_held_rps, rate),
                or_dash(found.safe_rps, rate),
                or_dash(found.peak_goodput_rps, rate),
                or_dash(p99, |latency| ms(latency.p99_us)),
                or_dash(cpu, significant),
                or_dash(over_admission(ranked.cell), |over| {
                    format!("{} %", percent(over))
                }),
            ],
        );
    }
}

fn ladder(out: &mut String, cell: &Cell, found: &CellFindings) {
    push_line(out, &format!("\n### {}\n", text(&cell.title())));
    head(
        out,
        &[
            "Target/s",
            "Sent/s",
            "Done/s",
            "Goodput/s",
            "Success",
            "Fail",
            "Fail %",
            "Avg",
            "P50",
            "P95",
            "P99",
            "P99.9",
            "Lag",
            "Gen CPU",
            "Server CPU",
            "µs/op",
            "Admit",
            "Status",
            "Label",
            "Valid",
        ],
        0,
    );
    for step in cell.by_load() {
        let r = LadderRow::of(step);
        let status = format!("{} {}", r.level.icon(), r.level.word());
        row(
            out,
            &[
                r.target,
                r.sent,
                r.done,
                r.goodput,
                r.success,
                r.failed,
                r.fail_percent,
                r.mean_ms,
                r.p50_ms,
                r.p95_ms,
                format!("**{}**", r.p99_ms),
                r.p99_9_ms,
                r.lag_p99_ms,
                r.generator_cpu,
                r.server_cpu,
                r.server_us_per_op,
                r.admit,
                status,
                r.label.into(),
                r.grade.word().into(),
            ],
        );
    }
    out.push('\n');
    for observation in observations(cell, found) {
        push_line(out, &format!("- {}", text(&observation)));
    }
}

fn accuracy(out: &mut String, record: &RunRecord) {
    let judged: Vec<(&Cell, &Accuracy)> = record
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.accuracy.as_ref()?)))
        .collect();
    if judged.is_empty() {
        return;
    }
    out.push_str("\n## Accuracy\n\n");
    head(
        out,
        &[
            "Cell",
            "Algorithm",
            "Limit",
            "Offered",
            "Admitted",
            "Allowed",
            "Over %",
            "Under %",
            "Worst window",
            "Fairness",
        ],
        2,
    );
    for (cell, found) in judged {
        row(
            out,
            &[
                text(&cell.title()),
                text(&found.algorithm),
                limit_text(cell, found.window_ms),
                rate(found.offered as f64),
                rate(found.admitted as f64),
                format!(
                    "{}–{}",
                    rate(found.allowed_min as f64),
                    rate(found.allowed_max as f64)
                ),
                percent(found.over_admission_percent),
                percent(found.under_admission_percent),
                or_dash(worst_stretch(cell), |times| format!("{} L", ratio(times))),
                or_dash(found.fairness_jain, significant),
            ],
        );
    }
}

fn events(out: &mut String, record: &RunRecord) {
    if record.events.is_empty() {
        return;
    }
    out.push_str("\n## Events\n\n");
    for event in &record.events {
        let target = event
            .target
            .as_deref()
            .map(|name| format!("{name}: "))
            .unwrap_or_default();
        push_line(
            out,
            &format!(
                "- {}: {}{}",
                seconds(event.offset_s),
                text(&target),
                text(&event.text)
            ),
        );
    }
}

fn validity(out: &mut String, record: &RunRecord) {
    out.push_str("\n## Validity\n\n");
    push_line(
        out,
        &format!("The run is **{}**.", record.validity.grade.word()),
    );
    for reason in &record.validity.reasons {
        push_line(out, &format!("- {}", text(reason)));
    }
    for skipped in &record.skipped {
        push_line(
            out,
            &format!(
                "- Not measured: {} ({}).",
                text(&skipped.name),
                text(&skipped.reason)
            ),
        );
    }
}

fn configuration(out: &mut String, record: &RunRecord) {
    out.push_str("\n## Test configuration\n\n");
    head(out, &["Component", "Configuration"], 2);
    for (name, value) in manifest_rows(&record.manifest, record.calibration.as_ref()) {
        row(out, &[name.into(), text(&value)]);
    }
    for target in &record.targets {
        row(out, &[text(&target.name), text(&target_line(target))]);
    }
}

fn method(out: &mut String) {
    out.push_str(
        "\n## Method\n\nOpen loop: requests follow a seeded schedule whether or not the target keeps up. \
         Response time counts from the moment the schedule wanted the request sent, so that waiting in \
         the generator is not hidden. A request without a good answer within the deadline is a failure. \
         `report.html` holds the charts, `results.json` every number with its histogram, `summary.csv` one \
         line per row (latencies in ms, `ReqPerSec` in requests, `MemoryUsage` in MiB, CPU in percent of one core).\n",
    );
}

/// Text that cannot break a table or start markup.
fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in printable(raw).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '[' | ']' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// Heading of a table; the first `words` columns stand left, the others right.
fn head(out: &mut String, titles: &[&str], words: usize) {
    push_line(out, &format!("| {} |", titles.join(" | ")));
    let marks: Vec<&str> = (0..titles.len())
        .map(|at| if at < words { ":--" } else { "--:" })
        .collect();
    push_line(out, &format!("| {} |", marks.join(" | ")));
}

fn row(out: &mut String, fields: &[String]) {
    push_line(out, &format!("| {} |", fields.join(" | ")));
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}
