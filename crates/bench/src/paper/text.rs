//! A study beside our rows, as text for a terminal. Pure functions of the record.

use crate::record::paper::{PaperRecord, PaperRow, PaperTable};
use crate::record::{Grade, Status};
use crate::report::TextStyle;
use crate::report::format::{or_dash, percent, rate, ratio, significant};
use crate::report::table::{Column, TextCell, plain, table};

/// All tables, each with its remarks, and the list why nothing is comparable.
#[must_use]
pub fn tables(style: TextStyle, record: &PaperRecord) -> String {
    let mut out = format!(
        "\nstudy {}: {} ({})\n",
        record.study, record.title, record.source
    );
    for part in &record.tables {
        out.push_str(&one(style, part));
    }
    if !record.not_comparable.is_empty() {
        out.push_str(if record.replay {
            "\nremarks\n"
        } else {
            "\nnot comparable, because\n"
        });
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

fn one(style: TextStyle, part: &PaperTable) -> String {
    let mut out = match &part.ours {
        Some(ours) => format!("\n{}: {} | ours: {ours}\n", part.id, part.paper),
        None if part.id == part.paper => format!("\n{}\n", part.id),
        None => format!("\n{}: {}\n", part.id, part.paper),
    };
    let ladder = part.rows.iter().any(|row| row.computed.is_some());
    out.push_str(&match (ladder, part.ours.is_some()) {
        (true, true) => ladder_beside(style, &part.rows),
        (true, false) => ladder_alone(style, &part.rows),
        // A test of which the study prints no figures.
        _ if part.rows.is_empty() => String::new(),
        (false, ours) => throughput(style, &part.rows, ours),
    });
    for reason in &part.not_comparable {
        out.push_str(&format!("  - {reason}\n"));
    }
    out
}

fn ladder_beside(style: TextStyle, rows: &[PaperRow]) -> String {
    const COLUMNS: [Column; 12] = [
        Column::number("load", 8),
        Column::number("paper good/s", 7),
        Column::number("ours", 7),
        Column::number("ratio", 5),
        Column::number("paper fail %", 5),
        Column::number("ours", 5),
        Column::number("paper p99 ms", 7),
        Column::number("ours", 7),
        Column::number("ratio", 5),
        Column::words("paper says", 5),
        Column::words("by its own rules", 8),
        Column::words("ours", 8),
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
                computed(row),
                ours_said(row),
            ]
        })
        .collect();
    table(style, &COLUMNS, &rows)
}

fn ladder_alone(style: TextStyle, rows: &[PaperRow]) -> String {
    const COLUMNS: [Column; 10] = [
        Column::number("load", 8),
        Column::number("printed/s", 7),
        Column::number("good/s", 7),
        Column::number("wall s", 6),
        Column::number("fail %", 5),
        Column::number("avg ms", 6),
        Column::number("p99 ms", 6),
        Column::words("paper says", 5),
        Column::words("by its own rules", 8),
        Column::words("by ours", 8),
    ];
    let rows: Vec<Vec<TextCell>> = rows
        .iter()
        .map(|row| {
            vec![
                row.title.clone().into(),
                or_dash(row.paper.actual_rps, rate).into(),
                or_dash(row.paper.goodput_rps, rate).into(),
                or_dash(row.paper.wall_s, significant).into(),
                or_dash(row.paper.fail_percent, percent).into(),
                or_dash(row.paper.mean_ms, significant).into(),
                or_dash(row.paper.p99_ms, significant).into(),
                said(row),
                computed(row),
                level(row.paper_status.as_ref()),
            ]
        })
        .collect();
    table(style, &COLUMNS, &rows)
}

fn throughput(style: TextStyle, rows: &[PaperRow], ours: bool) -> String {
    const COLUMNS: [Column; 9] = [
        Column::words("test", 12),
        Column::number("paper/s", 9),
        Column::number("ours", 9),
        Column::number("ratio", 5),
        Column::number("paper p99 ms", 6),
        Column::number("ours", 6),
        Column::number("ratio", 5),
        Column::number("paper p99.9", 6),
        Column::number("ours", 6),
    ];
    const PAPER_ONLY: [usize; 4] = [0, 1, 4, 7];
    let shown = |at: &usize| ours || PAPER_ONLY.contains(at);
    let columns: Vec<Column> = (0..COLUMNS.len())
        .filter(shown)
        .map(|at| COLUMNS[at])
        .collect();
    let rows: Vec<Vec<TextCell>> = rows
        .iter()
        .map(|row| {
            let mine = row.ours.unwrap_or_default();
            let cells: [TextCell; 9] = [
                row.title.clone().into(),
                or_dash(row.paper.goodput_rps, rate).into(),
                or_dash(mine.goodput_rps, rate).into(),
                or_dash(row.rate_ratio, ratio).into(),
                or_dash(row.paper.p99_ms, significant).into(),
                or_dash(mine.p99_ms, significant).into(),
                or_dash(row.p99_ratio, ratio).into(),
                or_dash(row.paper.p99_9_ms, significant).into(),
                or_dash(mine.p99_9_ms, significant).into(),
            ];
            let cells = cells.into_iter().enumerate();
            cells
                .filter(|(at, _)| shown(at))
                .map(|(_, cell)| cell)
                .collect()
        })
        .collect();
    table(style, &columns, &rows)
}

fn said(row: &PaperRow) -> TextCell {
    or_dash(row.seed_status.as_deref(), ToOwned::to_owned).into()
}

fn computed(row: &PaperRow) -> TextCell {
    or_dash(row.computed.as_ref(), |judged| judged.words()).into()
}

/// Our level, with the grade where it is not valid.
fn ours_said(row: &PaperRow) -> TextCell {
    let cell = level(row.our_status.as_ref());
    match row.our_grade.filter(|grade| *grade != Grade::Valid) {
        Some(grade) => format!("{} ({})", cell.text, grade.word()).into(),
        None => cell,
    }
}

fn level(status: Option<&Status>) -> TextCell {
    or_dash(status, |status| status.level.word().to_owned()).into()
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
        let text = tables(style, &beside::replay(Study::Ladders));
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
    fn ascii_and_colour_are_obeyed() {
        let ascii = tables(TextStyle::default(), &beside::replay(Study::RedisBenchmark));
        assert!(ascii.is_ascii(), "{ascii}");
        assert!(ascii.contains("LRANGE_600") && !ascii.contains("ratio"));
        let colour = tables(
            TextStyle {
                unicode: true,
                color: true,
                ..TextStyle::default()
            },
            &beside::replay(Study::Hundred),
        );
        assert!(colour.contains("Stable Limit"));
    }
}
