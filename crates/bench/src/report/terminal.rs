//! What a run prints in a terminal: ladder rows as they come, and a summary at the end.

use crate::record::{Budget, CompareRecord, Grade, Level, RunRecord, Spread, Step};

use super::capacity::starts_line;
use super::findings::{Ranked, ScenarioFindings, over_admission, scenarios, worst_stretch};
use super::format::{DASH, bytes, ms, or_dash, percent, rate, ratio, short, significant};
use super::lang::recorded::{in_language, recorded};
use super::lang::{Lang, page as t, terminal as tt, without_marks};
use super::mitigations;
use super::rows::{LadderRow, allowed_text, limit_text};
use super::table::{Column, TextCell, Tint, fixed_head, fixed_line, plain, table, tinted};
use super::{TextStyle, verdict, words};

/// Columns that a sentence may take, where the terminal has as many.
const SENTENCE_WIDTH: usize = 100;

/// Reasons against a run that the terminal shows.
const REASONS_SHOWN: usize = 6;

/// Columns of a live ladder; widths are fixed because rows appear one at a time.
const LADDER: [Column; 14] = [
    Column::figure(tt::T_TARGET, 9),
    Column::figure(tt::T_SENT, 9).spare(8),
    Column::figure(tt::T_DONE, 9).spare(9),
    Column::figure(tt::T_GOODPUT, 9),
    Column::figure(tt::T_FAIL, 5),
    Column::figure(tt::T_P50, 6).spare(2),
    Column::figure(tt::T_P99, 6),
    Column::figure(tt::T_P999, 6).spare(5),
    Column::figure(tt::T_LAG, 6).spare(1),
    Column::figure(tt::T_GEN, 5).spare(7),
    Column::figure(tt::T_SERVER, 6).spare(4),
    Column::figure(tt::T_US_OP, 5).spare(3),
    Column::figure(tt::T_ADMIT, 5).spare(6),
    Column::named(tt::T_STATUS, 18),
];

/// Heading of a ladder table, without a line break at its end.
pub(crate) fn ladder_head(style: TextStyle) -> String {
    without_break(fixed_head(style, &LADDER))
}

/// One row of a ladder table, without a line break at its end.
pub(crate) fn ladder_row(style: TextStyle, step: &Step) -> String {
    ladder_line(style, &ladder_cells(style, step))
}

/// A row from its cells, as wide as `style` has it.
pub(crate) fn ladder_line(style: TextStyle, cells: &[TextCell]) -> String {
    without_break(fixed_line(style, &LADDER, cells))
}

/// The cells of a row; the last one tells its status.
pub(crate) fn ladder_cells(style: TextStyle, step: &Step) -> Vec<TextCell> {
    let row = LadderRow::of(step);
    let (tint, icon) = (tint(row.level), icon(style, row.level));
    let mut status = format!("{icon} {}", words::level(row.level, style.lang));
    if row.grade != Grade::Valid {
        status = format!("{status} ({})", words::grade(row.grade, style.lang));
    }
    vec![
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
    ]
}

/// The end of a run: verdict, one comparison table per scenario, accuracy, grade and what was left out.
pub(crate) fn run_summary(style: TextStyle, record: &RunRecord) -> String {
    let record = &*in_language(record, style.lang);
    let mut out = String::new();
    out.push_str(&heading(style, t::VERDICT.of(style.lang)));
    for sentence in verdict::run(record, style.lang) {
        out.push_str(&wrapped(style, "  ", &sentence));
    }
    for (title, table) in mitigations::terminal(style, record) {
        out.push_str(&heading(style, &title));
        out.push_str(&table);
    }
    for scenario in scenarios(record) {
        let title = match scenario.common_text() {
            Some(load) => t::TERMINAL_SCENARIO.with(
                style.lang,
                &[("scenario", &scenario.title(style.lang)), ("load", &load)],
            ),
            None => scenario.title(style.lang),
        };
        out.push_str(&heading(style, &title));
        out.push_str(&scenario_table(style, &scenario));
        if let Some(legend) = scenario.legend(style.lang) {
            out.push_str(&wrapped(style, "  ", &legend));
        }
    }
    out.push_str(&starts_lines(style, record));
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
    Column::named(t::H_TARGET, 8),
    Column::named(t::H_OPERATION, 9),
    Column::figure(t::H_HELD, 7),
    Column::figure(t::H_NOT_HELD, 7).spare(1),
    Column::figure(t::H_PEAK, 7).spare(4),
    Column::figure(tt::T_P99, 6),
    Column::figure(tt::T_US_OP, 5).spare(3),
    Column::figure(t::H_MEMORY, 8).spare(5),
    Column::figure(t::H_OVER, 5).spare(2),
];

/// Columns of what is compared at one load, which are empty where no load was offered to all.
const AT_COMMON_LOAD: std::ops::Range<usize> = 5..8;

fn scenario_table(style: TextStyle, scenario: &ScenarioFindings<'_>) -> String {
    let mut columns = SCENARIO.to_vec();
    let ranked = scenario.ranked.iter();
    let mut rows: Vec<Vec<TextCell>> = ranked
        .map(|one| scenario_row(scenario, one, style.lang))
        .collect();
    if scenario.common_rps.is_none() {
        columns.drain(AT_COMMON_LOAD);
        for row in &mut rows {
            row.drain(AT_COMMON_LOAD);
        }
    }
    table(style, &columns, &rows)
}

fn scenario_row(scenario: &ScenarioFindings<'_>, ranked: &Ranked<'_>, lang: Lang) -> Vec<TextCell> {
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
        scenario.marked(&ranked.cell.target).into(),
        ranked.cell.operation.title.as_str().into(),
        TextCell {
            text: found.held_text(lang),
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

/// What the searches of several starts found, cell by cell.
fn starts_lines(style: TextStyle, record: &RunRecord) -> String {
    let lines = record.cells.iter().flat_map(|cell| {
        let goals = cell.capacity.iter().flat_map(|found| &found.goals);
        let told = goals.filter_map(|goal| starts_line(goal, style.lang));
        told.map(|line| wrapped(style, "  ", &format!("{}: {line}", cell.title())))
    });
    let lines: String = lines.collect();
    match lines.is_empty() {
        true => lines,
        false => heading(style, t::CARD_SEARCH.of(style.lang)) + &lines,
    }
}

const ACCURACY: [Column; 7] = [
    Column::named(t::H_CELL, 8),
    Column::figure(t::H_LIMIT, 10).spare(4),
    Column::figure(t::H_OFFERED, 7).spare(5),
    Column::figure(t::H_ADMITTED, 8).spare(3),
    Column::figure(t::H_ALLOWED, 7).spare(2),
    Column::figure(t::H_OVER_UNDER, 6),
    Column::figure(t::H_WORST, 6).spare(1),
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
                limit_text(cell, found.window_ms, style.lang).into(),
                rate(found.offered as f64).into(),
                rate(found.admitted as f64).into(),
                allowed_text(found).into(),
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
        heading(style, t::CARD_ACCURACY.of(style.lang)),
        table(style, &ACCURACY, &rows)
    )
}

fn grade_lines(style: TextStyle, record: &RunRecord) -> String {
    let mut out = heading(style, t::CARD_VALIDITY.of(style.lang));
    let tint = grade_tint(record.validity.grade);
    let word = plain(style, words::grade(record.validity.grade, style.lang));
    let line = t::TERMINAL_GRADE.with(
        style.lang,
        &[
            ("grade", &tinted(style, tint, &word)),
            (
                "whole",
                &plain(style, words::whole(record.complete, style.lang)),
            ),
            ("profile", &record.profile.name),
        ],
    );
    out.push_str(&format!("  {}\n", ascii_words(style, &line)));
    if record.manifest.pinning.co_located {
        out.push_str(&wrapped(style, "  ", t::CO_LOCATED.of(style.lang)));
    }
    out.push_str(&reasons(style, "", &record.validity.reasons));
    for skipped in &record.skipped {
        let line = t::NOT_MEASURED.with(
            style.lang,
            &[
                ("name", &skipped.name),
                ("why", &recorded(&skipped.reason, style.lang)),
            ],
        );
        out.push_str(&wrapped(style, "  - ", &line));
    }
    out
}

const COMPARE: [Column; 6] = [
    Column::named(t::H_LOAD, 10),
    Column::figure(tt::T_THROUGHPUT_AB, 8),
    Column::figure(tt::T_P50_BA, 8),
    Column::figure(tt::T_P99_BA, 8),
    Column::figure(tt::T_CPU_BA, 8),
    Column::named(tt::T_BUDGET, 6),
];

/// The end of a paired comparison: ratios with their quartiles, and the extremes.
pub(crate) fn compare_summary(style: TextStyle, record: &CompareRecord) -> String {
    let record = &*in_language(record, style.lang);
    let title =
        tt::T_COMPARE_TITLE.with(style.lang, &[("a", &record.a.name), ("b", &record.b.name)]);
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
                budget_cell(
                    style,
                    record,
                    row.budget_server_cpu_b_over_a,
                    ratios.server_cpu_b_over_a,
                ),
            ]
        })
        .collect();
    out.push_str(&table(style, &COMPARE, &rows));
    for row in &record.memory {
        let line = tt::T_MEMORY_LINE.with(
            style.lang,
            &[
                ("title", &row.title),
                ("a", &significant(row.a_bytes_per_record)),
                ("b", &significant(row.b_bytes_per_record)),
                ("ratio", &or_dash(row.b_over_a(), ratio)),
            ],
        );
        out.push_str(&format!("{}\n", plain(style, &line)));
    }
    out.push_str(&overload(style, record));
    for sentence in verdict::compare(record, style.lang) {
        out.push_str(&wrapped(style, "  ", &sentence));
    }
    let grade = format!("{}: ", words::grade(record.validity.grade, style.lang));
    out.push_str(&reasons(style, &grade, &record.validity.reasons));
    without_break(out)
}

/// A line for each server and shape: what is left of its goodput past its capacity.
fn overload(style: TextStyle, record: &CompareRecord) -> String {
    let mut out = String::new();
    for row in &record.overload {
        for (name, side) in [(&record.a.name, &row.a), (&record.b.name, &row.b)] {
            let mut line = tt::T_OVERLOAD_LINE.with(
                style.lang,
                &[
                    ("title", &row.title),
                    ("deadline", &short(row.deadline_ms)),
                    ("name", name),
                    ("capacity", &rate(side.capacity_rps)),
                ],
            );
            for step in side.steps.iter().filter(|step| step.load > 1.0) {
                let said = tt::T_OVERLOAD_STEP.with(
                    style.lang,
                    &[
                        ("load", &short(step.load)),
                        ("kept", &or_dash(side.over_peak(step.load), significant)),
                        ("p99", &or_dash(step.p99_of_decisions_ms(), significant)),
                    ],
                );
                line.push_str("; ");
                line.push_str(&said);
                if let Some(lag) = step.generator_lag_p99_ms.filter(|_| row.is_invalid(step)) {
                    let lag = significant(lag);
                    let text = tt::T_OVERLOAD_INVALID.with(style.lang, &[("lag", &lag)]);
                    line.push_str(&format!(" ({text})"));
                }
            }
            out.push_str(&format!("{}\n", plain(style, &line)));
        }
        if let (Some(budget), Some(met)) = (row.budget_a, row.is_met()) {
            let verdict = if met { tt::T_MET } else { tt::T_MISSED }.of(style.lang);
            out.push_str(&format!("    A ≥{} {verdict}\n", short(budget)));
        }
    }
    out
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

fn budget_cell(
    style: TextStyle,
    record: &CompareRecord,
    budget: Option<f64>,
    measured: Option<Spread>,
) -> TextCell {
    let Some(budget) = budget else {
        return DASH.into();
    };
    let judged = record.judge(budget, measured.map(|spread| spread.median));
    let (word, tint) = match judged {
        Budget::Met => (tt::T_MET, Tint::Good),
        Budget::Missed => (tt::T_MISSED, Tint::Bad),
        Budget::NotJudged => (tt::T_NOT_JUDGED, Tint::Plain),
    };
    TextCell {
        text: format!("≥{} {}", short(budget), word.of(style.lang)),
        tint,
    }
}

/// The first reasons, one a line; the files have all of them.
fn reasons(style: TextStyle, lead: &str, all: &[String]) -> String {
    let shown = all.iter().take(REASONS_SHOWN);
    let mut out: String = shown
        .map(|reason| {
            let reason = recorded(reason, style.lang);
            wrapped(style, "  - ", &format!("{lead}{reason}"))
        })
        .collect();
    if all.len() > REASONS_SHOWN {
        let more = (all.len() - REASONS_SHOWN).to_string();
        let line = t::TERMINAL_MORE.with(style.lang, &[("n", &more)]);
        out.push_str(&wrapped(style, "  - ", &line));
    }
    out
}

/// A sentence broken at words, its later lines indented under the first.
fn wrapped(style: TextStyle, lead: &str, sentence: &str) -> String {
    let mut out = String::from(lead);
    let mut used = lead.len();
    let most = match style.columns {
        0 => SENTENCE_WIDTH,
        columns => columns.min(SENTENCE_WIDTH),
    };
    for (at, word) in plain(style, sentence).split(' ').enumerate() {
        let width = word.chars().count() + 1;
        if at > 0 && used + width > most {
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

/// The text in ASCII if the style wants it, with its colours kept.
fn ascii_words(style: TextStyle, text: &str) -> String {
    if style.unicode {
        return text.to_owned();
    }
    let ascii = |c: char| {
        if c.is_ascii() {
            c
        } else {
            without_marks(c).unwrap_or('?')
        }
    };
    text.chars().map(ascii).collect()
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
