//! `README.md` of a paired comparison.

use crate::record::{Budget, CompareRecord, CompareRow, Severity, Spread};

use super::super::circumstances::{command, target_line};
use super::super::format::{or_dash, rate, ratio, short, significant};
use super::super::lang::recorded::in_language;
use super::super::lang::{Lang, Text, paired as t};
use super::super::terminal::spread_text;
use super::super::{verdict, words};
use super::{head, push_line, quote, row, text};

/// Heading of what is said without words.
const RATIO: Text = Text {
    en: "B/A",
    vi: "B/A",
};

/// The Markdown of a paired comparison.
pub fn compare(record: &CompareRecord, lang: Lang) -> String {
    let record = &*in_language(record, lang);
    let (a, b) = (text(&record.a.name), text(&record.b.name));
    let title = t::PC_TITLE.with(lang, &[("a", &a), ("b", &b)]);
    let mut out = format!("# {title}\n\n");
    let (begun, asked) = (t::PC_DATE.of(lang), t::PC_COMMAND.of(lang));
    quote(&mut out, begun, &record.manifest.started_at);
    quote(&mut out, asked, &command(&record.manifest.command_line));
    quote(&mut out, "A", &target_line(&record.a, lang));
    quote(&mut out, "B", &target_line(&record.b, lang));
    out.push_str(&format!("\n{}\n\n", t::PC_METHOD.of(lang)));
    heads(
        &mut out,
        &[
            t::PC_LOAD,
            t::PC_THROUGHPUT,
            t::PC_P50,
            t::PC_P99,
            t::PC_CPU,
            t::PC_BUDGET,
            t::PC_PAIRS,
            t::PC_VALID,
        ],
        lang,
    );
    for row in &record.rows {
        ratios(&mut out, record, row, lang);
    }
    memory(&mut out, record, lang);
    overload(&mut out, record, lang);
    out.push('\n');
    for sentence in verdict::compare(record, lang) {
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
        let grade = words::grade(record.validity.grade, lang);
        push_line(&mut out, &format!("- {grade}: {}", text(reason)));
    }
    out
}

fn heads(out: &mut String, texts: &[Text], lang: Lang) {
    let texts: Vec<&str> = texts.iter().map(|text| text.of(lang)).collect();
    head(out, &texts, 1);
}

/// `≥ 1.6 met`: a budget, and whether the ratio `measured` keeps it.
fn judged(record: &CompareRecord, budget: f64, measured: Option<f64>, lang: Lang) -> String {
    let word = match record.judge(budget, measured) {
        Budget::Met => t::PC_MET,
        Budget::Missed => t::PC_MISSED,
        Budget::NotJudged => t::PC_UNEQUAL,
    };
    format!("≥ {} {}", short(budget), word.of(lang))
}

fn ratios(out: &mut String, record: &CompareRecord, measured: &CompareRow, lang: Lang) {
    let cpu = measured.ratios.server_cpu_b_over_a;
    let budget = or_dash(measured.budget_server_cpu_b_over_a, |budget| {
        judged(record, budget, cpu.map(|spread| spread.median), lang)
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
            words::grade(measured.validity.grade, lang).into(),
        ],
    );
}

fn memory(out: &mut String, record: &CompareRecord, lang: Lang) {
    if record.memory.is_empty() {
        return;
    }
    out.push('\n');
    heads(
        out,
        &[
            t::PC_MEMORY,
            t::PC_RECORDS,
            t::PC_A_BYTES,
            t::PC_B_BYTES,
            RATIO,
            t::PC_BUDGET,
        ],
        lang,
    );
    for measured in &record.memory {
        let found = measured.b_over_a();
        let budget = or_dash(measured.budget_b_over_a, |budget| {
            judged(record, budget, found, lang)
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

fn overload(out: &mut String, record: &CompareRecord, lang: Lang) {
    for measured in &record.overload {
        let budget = measured.budget_a.zip(measured.is_met());
        let budget = budget.map_or_else(String::new, |(least, met)| {
            let verdict = if met { t::PC_MET } else { t::PC_MISSED };
            let parts = [("least", &*short(least)), ("verdict", verdict.of(lang))];
            t::PC_KEEPS.with(lang, &parts)
        });
        let parts = [
            ("title", &*text(&measured.title)),
            ("step", &*measured.step_ms.to_string()),
            ("deadline", &*short(measured.deadline_ms)),
            ("remark", one_descriptor(record, lang)),
            ("budget", &*budget),
        ];
        out.push_str(&format!("\n{}\n\n", t::PC_OVERLOAD.with(lang, &parts)));
        heads(
            out,
            &[
                t::PC_SERVER,
                t::PC_LOAD,
                t::PC_OFFERED,
                t::PC_GOODPUT,
                t::PC_OF_PEAK,
                t::PC_P99_DECIDED_MS,
                t::PC_P99_ALL_MS,
                t::PC_REFUSED,
                t::PC_LATE,
                t::PC_UNSENT,
                t::PC_LAG,
            ],
            lang,
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
                        or_dash(step.p99_of_decisions_ms(), significant),
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
fn one_descriptor(record: &CompareRecord, lang: Lang) -> &'static str {
    let takes_one = |name: &str| name.starts_with("throttlecrab");
    match takes_one(&record.a.server_name) == takes_one(&record.b.server_name) {
        true => "",
        false => t::PC_ONE_DESCRIPTOR.of(lang),
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
