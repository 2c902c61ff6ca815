//! `README.md` of a paired comparison.

use crate::record::{Budget, CompareRecord, CompareRow, Severity, Spread};

use super::super::circumstances::{command, target_line};
use super::super::format::{or_dash, rate, ratio, short, significant};
use super::super::lang::Lang;
use super::super::terminal::spread_text;
use super::super::verdict;
use super::{head, push_line, quote, row, text};

/// Columns of the table of ratios.
const COLUMNS: [&str; 8] = [
    "Load",
    "Throughput A/B",
    "P50 B/A",
    "P99 B/A",
    "Server CPU B/A",
    "Budget",
    "Pairs",
    "Valid",
];

/// The Markdown of a paired comparison.
pub fn compare(record: &CompareRecord) -> String {
    let (a, b) = (text(&record.a.name), text(&record.b.name));
    let mut out = format!("# {a} against {b}\n\n");
    quote(&mut out, "Test date", &record.manifest.started_at);
    quote(&mut out, "Command", &command(&record.manifest.command_line));
    quote(&mut out, "A", &target_line(&record.a, Lang::En));
    quote(&mut out, "B", &target_line(&record.b, Lang::En));
    out.push_str(
        "\nShort slices of the same load, A and B in turns. Each ratio is taken within a pair of \
         neighbouring slices: median [lower–upper quartile] (smallest–largest). Above 1 is in favour of A.\n\n",
    );
    head(&mut out, &COLUMNS, 1);
    for row in &record.rows {
        ratios(&mut out, record, row);
    }
    memory(&mut out, record);
    overload(&mut out, record);
    out.push('\n');
    for sentence in verdict::compare(record, Lang::En) {
        push_line(&mut out, &format!("- {}", text(&sentence)));
    }
    // Why it ended early stands in the verdict.
    for event in record
        .events
        .iter()
        .filter(|event| event.severity != Severity::Error)
    {
        push_line(&mut out, &format!("- {}", text(&event.text)));
    }
    for reason in &record.validity.reasons {
        let grade = record.validity.grade.word();
        push_line(&mut out, &format!("- {grade}: {}", text(reason)));
    }
    out
}

/// `≥ 1.6 met`: a budget, and whether the ratio `measured` keeps it.
fn judged(record: &CompareRecord, budget: f64, measured: Option<f64>) -> String {
    let word = match record.judge(budget, measured) {
        Budget::Met => "met",
        Budget::Missed => "**missed**",
        Budget::NotJudged => "not judged: not set up alike",
    };
    format!("≥ {} {word}", short(budget))
}

fn ratios(out: &mut String, record: &CompareRecord, measured: &CompareRow) {
    let cpu = measured.ratios.server_cpu_b_over_a;
    let budget = or_dash(measured.budget_server_cpu_b_over_a, |budget| {
        judged(record, budget, cpu.map(|spread| spread.median))
    });
    row(
        out,
        &[
            text(&measured.title),
            spread(measured.ratios.throughput_a_over_b),
            spread(measured.ratios.latency_p50_b_over_a),
            spread(measured.ratios.latency_p99_b_over_a),
            spread(cpu),
            budget,
            measured.pairs.len().to_string(),
            measured.validity.grade.word().into(),
        ],
    );
}

fn memory(out: &mut String, record: &CompareRecord) {
    if record.memory.is_empty() {
        return;
    }
    out.push('\n');
    head(
        out,
        &[
            "Memory",
            "Records",
            "A bytes/record",
            "B bytes/record",
            "B/A",
            "Budget",
        ],
        1,
    );
    for measured in &record.memory {
        let found = measured.b_over_a();
        let budget = or_dash(measured.budget_b_over_a, |budget| {
            judged(record, budget, found)
        });
        row(
            out,
            &[
                text(&measured.title),
                rate(measured.records as f64),
                significant(measured.a_bytes_per_record),
                significant(measured.b_bytes_per_record),
                or_dash(found, ratio),
                budget,
            ],
        );
    }
}

fn overload(out: &mut String, record: &CompareRecord) {
    for measured in &record.overload {
        let budget = measured.budget_a.zip(measured.is_met());
        let budget = budget.map_or_else(String::new, |(least, met)| {
            format!(
                " A keeps ≥ {} of its peak past its capacity, P99 of its decisions within the deadline: {}.",
                short(least),
                if met { "met" } else { "**missed**" }
            )
        });
        out.push_str(&format!(
            "\n{}: steps of {} ms, each server at shares of its own capacity, deadline {} ms.{}{budget}\n\n",
            text(&measured.title),
            measured.step_ms,
            short(measured.deadline_ms),
            one_descriptor(record),
        ));
        head(
            out,
            &[
                "Server",
                "Load",
                "Offered/s",
                "Goodput/s",
                "Of peak",
                "P99 ms",
                "Refused",
                "Late",
                "Unsent",
                "Generator late ms",
            ],
            1,
        );
        for (name, side) in [(&record.a.name, &measured.a), (&record.b.name, &measured.b)] {
            for step in &side.steps {
                row(
                    out,
                    &[
                        text(name),
                        short(step.load),
                        rate(step.offered_rps),
                        rate(step.goodput_rps),
                        or_dash(side.over_peak(step.load), significant),
                        or_dash(step.latency_p99_ms, significant),
                        step.refused.to_string(),
                        step.late.to_string(),
                        step.unsent.to_string(),
                        or_dash(step.generator_lag_p99_ms, significant),
                    ],
                );
            }
        }
    }
}

/// A request to a throttlecrab is a single decision.
fn one_descriptor(record: &CompareRecord) -> &'static str {
    let takes_one = |name: &str| name.starts_with("throttlecrab");
    match takes_one(&record.a.server_name) == takes_one(&record.b.server_name) {
        true => "",
        false => {
            " throttlecrab takes one descriptor a request, so that the two capacities are not to be compared."
        }
    }
}

fn spread(spread: Option<Spread>) -> String {
    or_dash(spread, |s| {
        format!(
            "{} ({}–{})",
            spread_text(s),
            significant(s.min),
            significant(s.max)
        )
    })
}
