//! What a run prints in a terminal: ladder rows as they come, and a summary at the end.

use crate::record::{CompareRecord, Grade, Level, RunRecord, Spread, Step};

use super::findings::{Ranked, ScenarioFindings, over_admission, scenarios, worst_stretch};
use super::format::{DASH, bytes, ms, or_dash, percent, rate, ratio, short, significant};
use super::rows::{LadderRow, limit_text};
use super::table::{Column, TextCell, Tint, fixed_head, fixed_line, plain, table, tinted};
use super::{TextStyle, verdict};

/// Columns that a sentence may take.
const SENTENCE_WIDTH: usize = 100;

/// Reasons against a run that the terminal shows.
const REASONS_SHOWN: usize = 6;

/// Columns of a live ladder; widths are fixed because rows appear one at a time.
const LADDER: [Column; 14] = [
    Column::number("target/s", 9),
    Column::number("sent", 9),
    Column::number("done", 9),
    Column::number("goodput", 9),
    Column::number("fail%", 5),
    Column::number("p50 ms", 6),
    Column::number("p99 ms", 6),
    Column::number("p99.9", 6),
    Column::number("lag", 6),
    Column::number("gen", 5),
    Column::number("server", 6),
    Column::number("us/op", 5),
    Column::number("admit", 5),
    Column::words("status", 10),
];

/// Heading of a ladder table, without a line break at its end.
pub fn ladder_head(style: TextStyle) -> String {
    without_break(fixed_head(style, &LADDER))
}

/// One row of a ladder table, without a line break at its end.
pub fn ladder_row(style: TextStyle, step: &Step) -> String {
    let row = LadderRow::of(step);
    let (tint, icon) = (tint(row.level), icon(style, row.level));
    let mut status = format!("{icon} {}", row.level.word());
    if row.grade != Grade::Valid {
        status = format!("{status} ({})", row.grade.word());
    }
    let cells: Vec<TextCell> = vec![
        row.target.into(),
        row.sent.into(),
        row.done.into(),
        row.goodput.into(),
        row.fail_percent.into(),
        row.p50_ms.into(),
        TextCell {
            text: row.p99_ms,
            tint,
        },
        row.p99_9_ms.into(),
        row.lag_p99_ms.into(),
        row.generator_cpu.into(),
        row.server_cpu.into(),
        row.server_us_per_op.into(),
        row.admit.into(),
        TextCell { text: status, tint },
    ];
    without_break(fixed_line(style, &LADDER, &cells))
}

/// The end of a run: verdict, one comparison table per scenario, accuracy, grade and what was left out.
pub fn run_summary(style: TextStyle, record: &RunRecord) -> String {
    let mut out = String::new();
    out.push_str(&heading(style, "Verdict"));
    for sentence in verdict::run(record) {
        out.push_str(&wrapped(style, "  ", &sentence));
    }
    for scenario in scenarios(record) {
        let title = match scenario.common_rps {
            Some(rps) => format!(
                "{} (p99, CPU and memory at {}/s)",
                scenario.title,
                rate(rps)
            ),
            None => scenario.title.clone(),
        };
        out.push_str(&heading(style, &title));
        out.push_str(&scenario_table(style, &scenario));
    }
    out.push_str(&accuracy_table(style, record));
    out.push_str(&grade_lines(style, record));
    without_break(out)
}

fn without_break(mut text: String) -> String {
    while text.ends_with('\n') {
        text.pop();
    }
    text
}

const SCENARIO: [Column; 9] = [
    Column::words("target", 8),
    Column::words("operation", 9),
    Column::number("held/s", 7),
    Column::number("not held/s", 7),
    Column::number("peak goodput", 7),
    Column::number("p99 ms", 6),
    Column::number("us/op", 5),
    Column::number("memory", 8),
    Column::number("over-admit", 5),
];

fn scenario_table(style: TextStyle, scenario: &ScenarioFindings<'_>) -> String {
    let rows: Vec<Vec<TextCell>> = scenario.ranked.iter().map(scenario_row).collect();
    table(style, &SCENARIO, &rows)
}

fn scenario_row(ranked: &Ranked<'_>) -> Vec<TextCell> {
    let found = &ranked.findings;
    let server = ranked.common.and_then(|step| step.server);
    let p99 = ranked.common.and_then(|step| step.response.all.as_ref());
    let over = over_admission(ranked.cell);
    let tint = if over.is_some_and(|over| over > 0.0) {
        Tint::Bad
    } else {
        Tint::Plain
    };
    vec![
        ranked.cell.target.as_str().into(),
        ranked.cell.operation.title.as_str().into(),
        TextCell {
            text: or_dash(found.sustained_rps, rate),
            tint: Tint::Strong,
        },
        or_dash(found.not_held_rps, rate).into(),
        or_dash(found.peak_goodput_rps, rate).into(),
        or_dash(p99, |latency| ms(latency.p99_us)).into(),
        or_dash(server.and_then(|s| s.cpu_us_per_op), significant).into(),
        or_dash(server.and_then(|s| s.rss_bytes), bytes).into(),
        TextCell {
            text: or_dash(over, |over| format!("{} %", percent(over))),
            tint,
        },
    ]
}

const ACCURACY: [Column; 7] = [
    Column::words("cell", 8),
    Column::number("limit", 10),
    Column::number("offered", 7),
    Column::number("admitted", 8),
    Column::number("allowed", 7),
    Column::number("over/under %", 6),
    Column::number("worst window", 6),
];

fn accuracy_table(style: TextStyle, record: &RunRecord) -> String {
    let rows: Vec<Vec<TextCell>> = record
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.accuracy.as_ref()?)))
        .map(|(cell, found)| {
            let tint = if found.never_over() {
                Tint::Good
            } else {
                Tint::Bad
            };
            let worst = or_dash(worst_stretch(cell), |times| format!("{} L", ratio(times)));
            let (over, under) = (found.over_admission_percent, found.under_admission_percent);
            vec![
                cell.title().into(),
                limit_text(cell, found.window_ms).into(),
                rate(found.offered as f64).into(),
                rate(found.admitted as f64).into(),
                format!(
                    "{}–{}",
                    rate(found.allowed_min as f64),
                    rate(found.allowed_max as f64)
                )
                .into(),
                TextCell {
                    text: format!("{} / {}", percent(over), percent(under)),
                    tint,
                },
                worst.into(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "{}{}",
        heading(style, "Accuracy"),
        table(style, &ACCURACY, &rows)
    )
}

fn grade_lines(style: TextStyle, record: &RunRecord) -> String {
    let mut out = heading(style, "Validity");
    let tint = grade_tint(record.validity.grade);
    let word = tinted(style, tint, record.validity.grade.word());
    let whole = if record.complete {
        "complete"
    } else {
        "partial"
    };
    out.push_str(&format!(
        "  {word}, {whole}, thresholds `{}`\n",
        record.profile.name
    ));
    out.push_str(&reasons(style, "", &record.validity.reasons));
    for skipped in &record.skipped {
        let line = format!("not measured: {} ({})", skipped.name, skipped.reason);
        out.push_str(&wrapped(style, "  - ", &line));
    }
    out
}

const COMPARE: [Column; 6] = [
    Column::words("load", 10),
    Column::number("throughput A/B", 8),
    Column::number("p50 B/A", 8),
    Column::number("p99 B/A", 8),
    Column::number("server CPU B/A", 8),
    Column::words("budget", 6),
];

/// The end of a paired comparison: ratios with their quartiles, and the extremes.
pub fn compare_summary(style: TextStyle, record: &CompareRecord) -> String {
    let title = format!(
        "A = {}, B = {}: above 1 is in favour of A",
        record.a.name, record.b.name
    );
    let mut out = heading(style, &title);
    let rows: Vec<Vec<TextCell>> = record
        .rows
        .iter()
        .map(|row| {
            let ratios = &row.ratios;
            vec![
                row.title.as_str().into(),
                spread_cell(ratios.throughput_a_over_b),
                spread_cell(ratios.latency_p50_b_over_a),
                spread_cell(ratios.latency_p99_b_over_a),
                spread_cell(ratios.server_cpu_b_over_a),
                budget_cell(row.budget_server_cpu_b_over_a, ratios.server_cpu_b_over_a),
            ]
        })
        .collect();
    out.push_str(&table(style, &COMPARE, &rows));
    for row in &record.memory {
        let line = format!(
            "  {}: A {} B, B {} B per record: {}",
            row.title,
            significant(row.a_bytes_per_record),
            significant(row.b_bytes_per_record),
            or_dash(row.b_over_a(), ratio)
        );
        out.push_str(&format!("{}\n", plain(style, &line)));
    }
    for sentence in verdict::compare(record) {
        out.push_str(&wrapped(style, "  ", &sentence));
    }
    let grade = format!("{}: ", record.validity.grade.word());
    out.push_str(&reasons(style, &grade, &record.validity.reasons));
    without_break(out)
}

fn spread_cell(spread: Option<Spread>) -> TextCell {
    let Some(spread) = spread else {
        return DASH.into();
    };
    let tint = match spread {
        s if !s.excludes_one() => Tint::Plain,
        s if s.median > 1.0 => Tint::Good,
        _ => Tint::Warn,
    };
    TextCell {
        text: spread_text(spread),
        tint,
    }
}

/// `1.62 [1.55–1.70]`: the median and the quartiles.
pub(crate) fn spread_text(spread: Spread) -> String {
    let (low, high) = (significant(spread.q25), significant(spread.q75));
    format!("{} [{low}–{high}]", significant(spread.median))
}

fn budget_cell(budget: Option<f64>, measured: Option<Spread>) -> TextCell {
    let Some(budget) = budget else {
        return DASH.into();
    };
    let met = measured.is_some_and(|spread| spread.median >= budget);
    TextCell {
        text: format!("≥{} {}", short(budget), if met { "met" } else { "missed" }),
        tint: if met { Tint::Good } else { Tint::Bad },
    }
}

/// The first reasons, one a line; the files have all of them.
fn reasons(style: TextStyle, lead: &str, all: &[String]) -> String {
    let shown = all.iter().take(REASONS_SHOWN);
    let mut out: String = shown
        .map(|reason| wrapped(style, "  - ", &format!("{lead}{reason}")))
        .collect();
    if all.len() > REASONS_SHOWN {
        out.push_str(&format!(
            "  - and {} more, in README.md\n",
            all.len() - REASONS_SHOWN
        ));
    }
    out
}

/// A sentence broken at words, its later lines indented under the first.
fn wrapped(style: TextStyle, lead: &str, sentence: &str) -> String {
    let mut out = String::from(lead);
    let mut used = lead.len();
    for (at, word) in plain(style, sentence).split(' ').enumerate() {
        let width = word.chars().count() + 1;
        if at > 0 && used + width > SENTENCE_WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(lead.len()));
            used = lead.len();
        } else if at > 0 {
            out.push(' ');
        }
        out.push_str(word);
        used += width;
    }
    out.push('\n');
    out
}

fn heading(style: TextStyle, title: &str) -> String {
    format!("\n{}\n", tinted(style, Tint::Strong, &plain(style, title)))
}

fn tint(level: Level) -> Tint {
    match level {
        Level::Ok => Tint::Good,
        Level::NearLimit | Level::Degraded => Tint::Warn,
        Level::Failed | Level::Collapsed => Tint::Bad,
    }
}

fn icon(style: TextStyle, level: Level) -> &'static str {
    if style.unicode {
        level.icon()
    } else {
        level.ascii_icon()
    }
}

fn grade_tint(grade: Grade) -> Tint {
    match grade {
        Grade::Valid => Tint::Good,
        Grade::Indicative => Tint::Warn,
        Grade::Invalid => Tint::Bad,
    }
}
