//! The run beside a study, beside other runs, and over time.

use crate::record::{ComparisonRecord, ComparisonRow};

use super::super::super::chart;
use super::super::super::format::{or_dash, percent, rate, ratio, significant};
use super::super::super::lang::page as t;
use super::super::super::words;
use super::super::model::{Block, Card, Figure};
use super::Source;
use super::ladder::paper_figures;

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
        let ours = table
            .ours
            .as_deref()
            .unwrap_or(super::super::super::format::DASH);
        blocks.push(Block::Title {
            text: format!("{}: {} | {ours}", table.id, table.paper),
        });
        let rows = table
            .rows
            .iter()
            .map(|row| {
                let mine = row.ours.as_ref();
                let goodput = mine.and_then(|f| f.goodput_rps);
                vec![
                    row.title.clone(),
                    paper_figures(row, lang),
                    or_dash(goodput, |v| format!("{}/s", rate(v))),
                    or_dash(mine.and_then(|f| f.p99_ms), |v| {
                        format!("{} ms", significant(v))
                    }),
                    or_dash(row.rate_ratio, ratio),
                    or_dash(row.our_status.as_ref(), |s| {
                        words::level(s.level, lang).to_owned()
                    }),
                ]
            })
            .collect();
        let heads = vec![
            t::H_LOAD.of(lang).to_owned(),
            t::H_PAPER.of(lang).to_owned(),
            format!("{}: {}", t::H_OURS.of(lang), t::H_GOODPUT.of(lang)),
            format!("{}: P99", t::H_OURS.of(lang)),
            t::H_RATIO.of(lang).to_owned(),
            t::H_STATUS.of(lang).to_owned(),
        ];
        if !table.rows.is_empty() {
            blocks.push(Block::plain_table(heads, 2, rows));
        }
        if !table.not_comparable.is_empty() {
            blocks.push(Block::List {
                class: "observations",
                items: table.not_comparable.clone(),
            });
        }
    }
    let intro = format!("{} ({})", paper.title, paper.source);
    Card::of("card-paper", t::CARD_PAPER.of(lang), intro, blocks)
}

/// This run against another.
pub(super) fn comparison(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let found = source.options.beside.comparison.as_ref()?;
    let mut items: Vec<String> = found
        .unequal
        .iter()
        .map(|d| {
            let parts = [
                ("what", d.what.as_str()),
                ("a", d.a.as_str()),
                ("b", d.b.as_str()),
            ];
            t::UNEQUAL.with(lang, &parts)
        })
        .collect();
    items.extend(found.notes.iter().cloned());
    let mut blocks = Vec::new();
    if !items.is_empty() {
        blocks.push(Block::List {
            class: "observations",
            items,
        });
    }
    let figures: Vec<Figure> = ranked_rows(found)
        .chunks(chart::RATIOS_MAX)
        .filter_map(|rows| Some(Figure::new(t::X_RATIO.of(lang), chart::ratios(rows, lang)?)))
        .take(4)
        .collect();
    if !figures.is_empty() {
        blocks.push(Block::Figures { figures });
    }
    if !found.rows.is_empty() {
        blocks.push(comparison_table(source, found));
    }
    let intro = format!(
        "A = {} · B = {} · {}",
        found.a.label, found.b.label, found.floor.source
    );
    Card::of("card-compare", t::CARD_COMPARE.of(lang), intro, blocks)
}

/// Rows that say most first: those with a verdict, then by distance from 1.
fn ranked_rows(found: &ComparisonRecord) -> Vec<&ComparisonRow> {
    let mut rows: Vec<&ComparisonRow> = found
        .rows
        .iter()
        .filter(|row| row.ratio_b_over_a.is_some())
        .collect();
    let far = |row: &ComparisonRow| row.ratio_b_over_a.unwrap_or(1.0).ln().abs();
    rows.sort_by(|a, b| far(b).total_cmp(&far(a)));
    rows
}

fn comparison_table(source: &Source<'_>, found: &ComparisonRecord) -> Block {
    let lang = source.lang;
    let rows = found
        .rows
        .iter()
        .map(|row| {
            let who = if row.target_a == row.target_b {
                row.target_a.clone()
            } else {
                format!("{} / {}", row.target_a, row.target_b)
            };
            vec![
                format!("{who} · {} · {}", row.operation_a, row.scenario),
                format!("{} {}", row.metric.name(), row.metric.unit()),
                rate(row.target_rps),
                format!("{} (n = {})", significant(row.a.median), row.a.n),
                format!("{} (n = {})", significant(row.b.median), row.b.n),
                or_dash(row.ratio_b_over_a, ratio),
                or_dash(row.ratio_ci, |(low, high)| {
                    format!("[{}–{}]", significant(low), significant(high))
                }),
                or_dash(row.test, |test| format!("{:.3}", test.p)),
                or_dash(row.test, |test| significant(test.a12)),
                words::verdict(row.verdict, lang).to_owned(),
            ]
        })
        .collect();
    let heads = vec![
        t::H_CELL.of(lang).to_owned(),
        t::H_METRIC.of(lang).to_owned(),
        t::H_OFFERED_RPS.of(lang).to_owned(),
        "A".to_owned(),
        "B".to_owned(),
        t::X_RATIO.of(lang).to_owned(),
        t::H_CI.of(lang).to_owned(),
        "p".to_owned(),
        "A12".to_owned(),
        t::H_VERDICT.of(lang).to_owned(),
    ];
    Block::plain_table(heads, 2, rows)
}

/// How figures moved over stored runs.
pub(super) fn trends(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let found = source.options.beside.trends.as_ref()?;
    let rows: Vec<Vec<String>> = found
        .rows
        .iter()
        .map(|row| {
            vec![
                format!("{} · {} · {}", row.target, row.operation, row.scenario),
                format!("{} {}", row.metric.name(), row.metric.unit()),
                rate(row.target_rps),
                row.points.len().to_string(),
                or_dash(row.change_percent, |v| format!("{} %", percent(v))),
                or_dash(row.p, |p| format!("{p:.3}")),
                words::noise(row.noise, lang).to_owned(),
                words::course(row, lang),
            ]
        })
        .collect();
    let mut blocks = Vec::new();
    if !found.notes.is_empty() {
        blocks.push(Block::List {
            class: "observations",
            items: found.notes.clone(),
        });
    }
    let heads = vec![
        t::H_CELL.of(lang).to_owned(),
        t::H_METRIC.of(lang).to_owned(),
        t::H_OFFERED_RPS.of(lang).to_owned(),
        "n".to_owned(),
        t::H_CHANGE.of(lang).to_owned(),
        "p".to_owned(),
        t::H_NOISE.of(lang).to_owned(),
        t::H_VERDICT.of(lang).to_owned(),
    ];
    if !rows.is_empty() {
        blocks.push(Block::plain_table(heads, 2, rows));
    }
    Card::of("card-trends", t::CARD_TRENDS.of(lang), "", blocks)
}
