//! A study beside our rows, as text for a terminal. Pure functions of the record.

use crate::record::paper::{PaperRecord, PaperRow, PaperTable};
use crate::record::{Grade, Status};
use crate::report::TextStyle;
use crate::report::format::{DASH, or_dash, percent, rate, ratio, significant};
use crate::report::lang::recorded::in_language;
use crate::report::lang::{stored as t, study};
use crate::report::study::{Derived, derived};
use crate::report::table::{Column, TextCell, named_table, plain, table};
use crate::report::{Lang, words};

/// All tables, each with its remarks, and the list why nothing is comparable.
#[must_use]
pub(crate) fn tables(style: TextStyle, record: &PaperRecord) -> String {
    let lang = style.lang;
    let record = &*in_language(record, lang);
    let head = [
        ("number", record.study.as_str()),
        ("title", &record.title),
        ("source", &record.source),
    ];
    let mut out = format!("\n{}\n", t::P_STUDY.with(lang, &head));
    for part in &record.tables {
        out.push_str(&one(style, part));
    }
    for part in derived(record, lang) {
        out.push_str(&follows(style, &part));
    }
    if !record.not_comparable.is_empty() {
        let title = if record.replay {
            t::P_REMARKS
        } else {
            t::P_WHY_NOT
        };
        out.push_str(&format!("\n{}\n", title.of(lang)));
        for reason in &record.not_comparable {
            out.push_str(&format!("  - {reason}\n"));
        }
    }
    out.lines()
        .map(|line| {
            // Colours come from the tables alone; everything else is made printable here.
            if line.contains('\u{1b}') {
                format!("{line}\n")
            } else {
                format!("{}\n", plain(style, line))
            }
        })
        .collect()
}

/// A table that follows from the study's.
fn follows(style: TextStyle, part: &Derived) -> String {
    let mut out = format!("\n{}\n", part.title);
    let rows: Vec<Vec<TextCell>> = part
        .rows
        .iter()
        .map(|row| row.iter().map(|field| field.clone().into()).collect())
        .collect();
    out.push_str(&named_table(style, &part.heads, &rows));
    for remark in &part.remarks {
        out.push_str(&format!("  - {remark}\n"));
    }
    out
}

fn one(style: TextStyle, part: &PaperTable) -> String {
    let mut out = match &part.ours {
        Some(ours) => {
            let ours = t::P_OURS_IS.with(style.lang, &[("ours", ours)]);
            format!("\n{}: {} | {ours}\n", part.id, part.paper)
        }
        None if part.id == part.paper => format!("\n{}\n", part.id),
        None => format!("\n{}: {}\n", part.id, part.paper),
    };
    let ladder = part.rows.iter().any(|row| row.computed.is_some());
    out.push_str(&match (ladder, part.ours.is_some()) {
        (true, true) => ladder_beside(style, &part.rows),
        (true, false) => ladder_alone(style, &part.rows),
        // A test of which the study prints no figures.
        _ if part.rows.is_empty() => String::new(),
        (false, _) => throughput(style, &part.rows),
    });
    for reason in &part.not_comparable {
        out.push_str(&format!("  - {reason}\n"));
    }
    out
}

fn ladder_beside(style: TextStyle, rows: &[PaperRow]) -> String {
    const COLUMNS: [Column; 12] = [
        Column::figure(t::P_LOAD, 8),
        Column::figure(t::P_PAPER_GOOD, 7),
        Column::figure(t::P_OURS, 7),
        Column::figure(t::P_RATIO, 5),
        Column::figure(t::P_PAPER_FAIL, 5),
        Column::figure(t::P_OURS, 5),
        Column::figure(t::P_PAPER_P99, 7),
        Column::figure(t::P_OURS, 7),
        Column::figure(t::P_RATIO, 5),
        Column::named(t::P_PAPER_SAYS, 5),
        Column::named(t::P_OWN_RULES, 8),
        Column::named(t::P_OURS, 8),
    ];
    let rows: Vec<Vec<TextCell>> = rows
        .iter()
        .map(|row| {
            let ours = row.ours.unwrap_or_default();
            vec![
                row.title.clone().into(),
                or_dash(row.paper.goodput_rps, rate).into(),
                or_dash(ours.goodput_rps, rate).into(),
                or_dash(row.rate_ratio, ratio).into(),
                or_dash(row.paper.fail_percent, percent).into(),
                or_dash(ours.fail_percent, percent).into(),
                or_dash(row.paper.p99_ms, significant).into(),
                or_dash(ours.p99_ms, significant).into(),
                or_dash(row.p99_ratio, ratio).into(),
                said(row),
                computed(row, style.lang),
                ours_said(row, style.lang),
            ]
        })
        .collect();
    table(style, &COLUMNS, &rows)
}

fn ladder_alone(style: TextStyle, rows: &[PaperRow]) -> String {
    const COLUMNS: [Column; 11] = [
        Column::figure(t::P_LOAD, 8),
        Column::figure(t::P_PRINTED, 7),
        Column::figure(t::P_GOOD, 7),
        Column::figure(t::P_WALL, 6),
        Column::figure(study::ST_IN_FLIGHT, 6),
        Column::figure(t::P_FAIL, 5),
        Column::figure(t::P_AVG, 6),
        Column::number("p99 ms", 6),
        Column::named(t::P_PAPER_SAYS, 5),
        Column::named(t::P_OWN_RULES, 8),
        Column::named(t::P_BY_OURS, 8),
    ];
    let rows: Vec<Vec<TextCell>> = rows
        .iter()
        .map(|row| {
            vec![
                row.title.clone().into(),
                or_dash(row.paper.actual_rps, rate).into(),
                or_dash(row.paper.goodput_rps, rate).into(),
                or_dash(row.paper.wall_s, significant).into(),
                or_dash(row.paper.in_flight(), rate).into(),
                or_dash(row.paper.fail_percent, percent).into(),
                or_dash(row.paper.mean_ms, significant).into(),
                or_dash(row.paper.p99_ms, significant).into(),
                said(row),
                computed(row, style.lang),
                level(row.paper_status.as_ref(), style.lang),
            ]
        })
        .collect();
    table(style, &COLUMNS, &rows)
}

/// Rates and tails of tests; a column about which no row says anything is left out.
fn throughput(style: TextStyle, rows: &[PaperRow]) -> String {
    const COLUMNS: [Column; 9] = [
        Column::named(t::P_TEST, 12),
        Column::figure(t::P_PAPER_RATE, 9),
        Column::figure(t::P_OURS, 9),
        Column::figure(t::P_RATIO, 5),
        Column::figure(t::P_PAPER_P99, 6),
        // The study may print none, and then nothing to its left says what it is.
        Column::figure(t::P_OUR_P99, 6),
        Column::figure(t::P_RATIO, 5),
        Column::figure(t::P_PAPER_P999, 6),
        Column::figure(t::P_OURS, 6),
    ];
    let rows: Vec<[TextCell; 9]> = rows
        .iter()
        .map(|row| {
            let mine = row.ours.unwrap_or_default();
            [
                row.title.clone().into(),
                or_dash(row.paper.goodput_rps, rate).into(),
                or_dash(mine.goodput_rps, rate).into(),
                or_dash(row.rate_ratio, ratio).into(),
                or_dash(row.paper.p99_ms, significant).into(),
                or_dash(mine.p99_ms, significant).into(),
                or_dash(row.p99_ratio, ratio).into(),
                or_dash(row.paper.p99_9_ms, significant).into(),
                or_dash(mine.p99_9_ms, significant).into(),
            ]
        })
        .collect();
    let told: Vec<usize> = (0..COLUMNS.len())
        .filter(|at| rows.iter().any(|row| row[*at].text != DASH))
        .collect();
    let columns: Vec<Column> = told.iter().map(|at| COLUMNS[*at]).collect();
    let rows: Vec<Vec<TextCell>> = rows
        .into_iter()
        .map(|row| {
            let cells = row.into_iter().enumerate();
            cells
                .filter(|(at, _)| told.contains(at))
                .map(|(_, cell)| cell)
                .collect()
        })
        .collect();
    table(style, &columns, &rows)
}

fn said(row: &PaperRow) -> TextCell {
    or_dash(row.seed_status.as_deref(), ToOwned::to_owned).into()
}

fn computed(row: &PaperRow, lang: Lang) -> TextCell {
    or_dash(row.computed.as_ref(), |judged| {
        words::judgement(judged, lang)
    })
    .into()
}

/// Our level, with the grade where it is not valid.
fn ours_said(row: &PaperRow, lang: Lang) -> TextCell {
    let cell = level(row.our_status.as_ref(), lang);
    match row.our_grade.filter(|grade| *grade != Grade::Valid) {
        Some(grade) => format!("{} ({})", cell.text, words::grade(grade, lang)).into(),
        None => cell,
    }
}

fn level(status: Option<&Status>, lang: Lang) -> TextCell {
    or_dash(status, |status| words::level(status.level, lang).to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{Study, beside};

    #[test]
    fn a_replay_shows_printed_and_computed_status() {
        let style = TextStyle {
            unicode: true,
            color: false,
            ..TextStyle::default()
        };
        let text = tables(style, &beside::replay(Study::Ladders, None));
        let uniform = text
            .split("P2: ")
            .nth(1)
            .and_then(|table| table.lines().find(|line| line.contains("20,000/s")))
            .unwrap();
        assert!(
            uniform.contains("✓") && uniform.contains("Warning (avg, p95, p99)"),
            "{uniform}"
        );
        assert!(text.contains("1,456,451 of 1,500,000"), "{text}");
    }

    #[test]
    fn tables_speak_vietnamese() {
        let style = TextStyle {
            unicode: true,
            lang: Lang::Vi,
            ..TextStyle::default()
        };
        let text = tables(style, &beside::replay(Study::Ladders, None));
        assert!(text.contains("nghiên cứu 000:") && text.contains("Nguy cấp (fail, p99)"));
        for english in ["paper says", "by its own rules", "Critical (", "\nremarks"] {
            assert!(!text.contains(english), "{english}");
        }
    }

    #[test]
    fn ascii_and_colour_are_obeyed() {
        let ascii = tables(
            TextStyle::default(),
            &beside::replay(Study::RedisBenchmark, None),
        );
        assert!(ascii.is_ascii(), "{ascii}");
        assert!(ascii.contains("LRANGE_600") && !ascii.contains("ratio"));
        let colour = tables(
            TextStyle {
                unicode: true,
                color: true,
                ..TextStyle::default()
            },
            &beside::replay(Study::Hundred, None),
        );
        assert!(colour.contains("Stable Limit"));
    }
}
