//! Card 10: strategies for hot keys, what each saves against how far it is from the limit.

use super::super::super::chart;
use super::super::super::lang::{Lang, mitigations as t};
use super::super::super::mitigations::{self, HEADS};
use super::super::super::words;
use super::super::model::{Block, Card, Cell, Figure, Head, Row, Table};
use super::Source;
use crate::record::{ErrorVerdict, MitigationRow};

/// Columns that hold words.
const WORDS: [usize; 3] = [0, 11, 12];

/// The card.
pub(super) fn card(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let found = mitigations::of(source.record)?;
    let scenarios = mitigations::by_scenario(found);
    let many = scenarios.len() > 1;
    let mut blocks = vec![Block::List {
        class: "observations",
        items: mitigations::sentences(source.record, lang),
    }];
    for (scenario, rows) in scenarios {
        if many {
            blocks.push(Block::Title {
                text: mitigations::title(source.record, scenario),
            });
        }
        blocks.push(Block::Table(table(source, &rows)));
        let figures: Vec<Figure> = [
            (t::MI_GOODPUT_CHART, chart::mitigation_goodput(&rows, lang)),
            (t::MI_CPU_CHART, chart::mitigation_cpu(&rows, lang)),
        ]
        .into_iter()
        .filter_map(|(title, drawing)| Some(Figure::new(title.of(lang), drawing?)))
        .collect();
        if !figures.is_empty() {
            blocks.push(Block::Figures { figures });
        }
    }
    Card::of(
        "card-10-mitigations",
        t::CARD_MITIGATIONS.of(lang),
        mitigations::intro(found, lang),
        blocks,
    )
}

fn table(source: &Source<'_>, rows: &[&MitigationRow]) -> Table {
    let lang = source.lang;
    let head = |(at, text): (usize, &super::super::super::lang::Text)| match WORDS.contains(&at) {
        true => Head::words(text.of(lang)),
        false => Head::number(text.of(lang)),
    };
    let row = |row: &&MitigationRow| Row {
        tip: mitigations::tip(row, lang),
        cells: cells(row, mitigations::fields(row, lang), lang),
        ..Row::default()
    };
    Table {
        class: "ladder",
        heads: HEADS.iter().enumerate().map(head).collect(),
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    }
}

fn cells(row: &MitigationRow, fields: Vec<String>, lang: Lang) -> Vec<Cell> {
    let class = match row.verdict {
        ErrorVerdict::OverBeyond => "bad",
        _ => "",
    };
    let cell = |(at, text): (usize, String)| match at {
        0 => Cell::words(text).tip(row.hot_key.clone()),
        9 => Cell::number(text).class(class),
        11 => Cell::words(text)
            .class(class)
            .tip(words::some_reasons(&row.validity.reasons, lang)),
        12 => Cell::words(text),
        _ => Cell::number(text),
    };
    fields.into_iter().enumerate().map(cell).collect()
}
