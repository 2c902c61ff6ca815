//! The run beside a study, beside other runs, and over time.

use crate::record::paper::PaperRow;
use crate::record::{ComparisonRow, TrendRow};

use super::super::super::beside::columns_told;
use super::super::super::chart;
use super::super::super::format::{DASH, or_dash, ratio, significant};
use super::super::super::lang::{Lang, page as t};
use super::super::super::stored;
use super::super::super::study::derived;
use super::super::super::words;
use super::super::model::{Block, Card, Cell, Figure, Head, Row, Table};
use super::Source;

/// Figures of cells in one card.
const FIGURES_MAX: usize = 12;

/// The study's tables with ours beside them.
pub(super) fn paper(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let paper = source.record.paper.as_ref()?;
    let mut blocks = Vec::new();
    if !paper.not_comparable.is_empty() {
        blocks.push(Block::List {
            class: "observations",
            items: paper.not_comparable.clone(),
        });
    }
    for table in &paper.tables {
        let ours = table.ours.as_deref().unwrap_or(DASH);
        blocks.push(Block::Title {
            text: format!("{}: {} | {ours}", table.id, table.paper),
        });
        blocks.extend(paper_table(&table.rows, lang));
        if !table.not_comparable.is_empty() {
            blocks.push(Block::List {
                class: "observations",
                items: table.not_comparable.clone(),
            });
        }
    }
    for part in derived(paper, lang) {
        blocks.push(Block::Title { text: part.title });
        blocks.push(Block::plain_table(part.heads, 1, part.rows));
        if !part.remarks.is_empty() {
            blocks.push(Block::List {
                class: "observations",
                items: part.remarks,
            });
        }
    }
    let intro = format!("{} ({})", paper.title, paper.source);
    Card::of("card-paper", t::CARD_PAPER.of(lang), intro, blocks)
}

/// Paper, ours and ratio of every row.
fn paper_table(rows: &[PaperRow], lang: Lang) -> Option<Block> {
    let told = columns_told(rows, lang);
    if rows.is_empty() {
        return None;
    }
    let mut table = Table {
        class: "ladder",
        groups: vec![(String::new(), 1)],
        heads: vec![Head::words(t::H_LOAD.of(lang))],
        ..Table::default()
    };
    for group in &told {
        table
            .groups
            .push((group.title.clone(), group.columns.len()));
        let heads = group.columns.iter().map(|column| Head {
            text: column.title.clone(),
            words: column.words,
        });
        table.heads.extend(heads);
    }
    let columns = || told.iter().flat_map(|group| &group.columns);
    table.rows = rows
        .iter()
        .map(|row| {
            let first = Cell::words(row.title.clone()).class("strong");
            let cells = columns().map(|column| Cell {
                words: column.words,
                ..Cell::number(column.of(row, lang))
            });
            Row {
                cells: std::iter::once(first).chain(cells).collect(),
                ..Row::default()
            }
        })
        .collect();
    Some(Block::Table(table))
}

/// This run against another.
pub(super) fn comparison(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let found = source.options.beside.comparison.as_ref()?;
    let mut items = stored::arms(found, lang);
    items.extend(found.unequal.iter().map(|d| {
        let parts = [
            ("what", d.what.as_str()),
            ("a", d.a.as_str()),
            ("b", d.b.as_str()),
        ];
        t::UNEQUAL.with(lang, &parts)
    }));
    items.extend(found.notes.iter().cloned());
    let mut blocks = vec![Block::List {
        class: "observations",
        items,
    }];
    let cells = by_cell(&found.rows);
    let figures: Vec<Figure> = cells
        .iter()
        .filter_map(|(cell, rows)| {
            Some(Figure::new(
                cell.as_str(),
                chart::ratios(&ranked_rows(rows), cell, lang)?,
            ))
        })
        .take(FIGURES_MAX)
        .collect();
    if !figures.is_empty() {
        blocks.push(Block::Figures { figures });
    }
    for (cell, rows) in cells {
        blocks.push(Block::Title { text: cell });
        blocks.push(comparison_table(source, &rows));
    }
    Card::of("card-compare", t::CARD_COMPARE.of(lang), "", blocks)
}

/// Rows of the same cell together, in the order in which the cells come, each cell by its name.
fn by_cell(rows: &[ComparisonRow]) -> Vec<(String, Vec<&ComparisonRow>)> {
    let mut out: Vec<(String, Vec<&ComparisonRow>)> = Vec::new();
    for row in rows {
        let both = |a: &str, b: &str| match a == b {
            true => a.to_owned(),
            false => format!("{a} / {b}"),
        };
        let (target, operation) = (
            both(&row.target_a, &row.target_b),
            both(&row.operation_a, &row.operation_b),
        );
        let cell = format!("{target} · {operation} · {}", row.scenario);
        match out.iter_mut().find(|(known, _)| *known == cell) {
            Some((_, rows)) => rows.push(row),
            None => out.push((cell, vec![row])),
        }
    }
    out
}

/// Rows that say most first: those furthest from 1.
fn ranked_rows<'a>(rows: &[&'a ComparisonRow]) -> Vec<&'a ComparisonRow> {
    let mut rows: Vec<&ComparisonRow> = rows
        .iter()
        .copied()
        .filter(|row| row.ratio_b_over_a.is_some())
        .collect();
    let far = |row: &ComparisonRow| row.ratio_b_over_a.unwrap_or(1.0).ln().abs();
    rows.sort_by(|a, b| far(b).total_cmp(&far(a)));
    rows
}

fn comparison_table(source: &Source<'_>, rows: &[&ComparisonRow]) -> Block {
    let lang = source.lang;
    let rows = rows
        .iter()
        .map(|row| {
            vec![
                format!("{} {}", row.metric.name(), row.metric.unit()),
                words::load(row.target_rps, row.goal.as_deref()),
                or_dash(row.ratio_b_over_a, ratio),
                or_dash(row.ratio_ci, |(low, high)| {
                    format!("[{}–{}]", significant(low), significant(high))
                }),
                words::verdict(row.verdict, lang).to_owned(),
                or_dash(row.test, |test| format!("{:.3}", test.p)),
                or_dash(row.test, |test| significant(test.a12)),
                format!("{} (n = {})", significant(row.a.median), row.a.n),
                format!("{} (n = {})", significant(row.b.median), row.b.n),
            ]
        })
        .collect();
    let heads = vec![
        t::H_METRIC.of(lang).to_owned(),
        t::H_OFFERED_RPS.of(lang).to_owned(),
        t::X_RATIO.of(lang).to_owned(),
        t::H_CI.of(lang).to_owned(),
        t::H_VERDICT.of(lang).to_owned(),
        "p".to_owned(),
        "A12".to_owned(),
        "A".to_owned(),
        "B".to_owned(),
    ];
    Block::plain_table(heads, 1, rows)
}

/// How figures moved over stored runs.
pub(super) fn trends(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let found = source.options.beside.trends.as_ref()?;
    let mut blocks = Vec::new();
    if !found.notes.is_empty() {
        blocks.push(Block::List {
            class: "observations",
            items: found.notes.clone(),
        });
    }
    let heads = || {
        vec![
            t::H_METRIC.of(lang).to_owned(),
            t::H_OFFERED_RPS.of(lang).to_owned(),
            "n".to_owned(),
            t::H_CHANGE.of(lang).to_owned(),
            words::verdict_head(lang).to_owned(),
            "p".to_owned(),
            t::H_NOISE.of(lang).to_owned(),
        ]
    };
    let mut cells: Vec<(String, Vec<Vec<String>>)> = Vec::new();
    for row in &found.rows {
        let cell = format!("{} · {} · {}", row.target, row.operation, row.scenario);
        let fields = vec![
            format!("{} {}", row.metric.name(), row.metric.unit()),
            words::load(row.target_rps, row.goal.as_deref()),
            row.points.len().to_string(),
            or_dash(row.change_percent, |v| format!("{v:+.1} %")),
            words::trend(row, lang).to_owned(),
            or_dash(row.p, |p| format!("{p:.3}")),
            words::noise(row.noise, lang).to_owned(),
        ];
        match cells.iter_mut().find(|(known, _)| *known == cell) {
            Some((_, rows)) => rows.push(fields),
            None => cells.push((cell, vec![fields])),
        }
    }
    let figures: Vec<Figure> = cells
        .iter()
        .filter_map(|(cell, _)| {
            let of_cell = |row: &&TrendRow| {
                *cell == format!("{} · {} · {}", row.target, row.operation, row.scenario)
            };
            let rows: Vec<&TrendRow> = found.rows.iter().filter(of_cell).collect();
            Some(Figure::new(
                cell.as_str(),
                chart::course(&rows, cell, lang)?,
            ))
        })
        .take(FIGURES_MAX)
        .collect();
    if !figures.is_empty() {
        blocks.push(Block::Figures { figures });
    }
    for (cell, rows) in cells {
        blocks.push(Block::Title { text: cell });
        blocks.push(Block::plain_table(heads(), 1, rows));
    }
    let runs = found.started_at.len().to_string();
    let intro = words::trends_intro(&found.started_at, &runs, lang);
    Card::of("card-trends", t::CARD_TRENDS.of(lang), intro, blocks)
}
