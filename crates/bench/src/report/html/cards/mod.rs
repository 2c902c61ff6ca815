//! The cards of the page, in the order in which a reader asks: what holds, how it degrades, whether it is right, what to do.
//! A card without data is left out.

mod accuracy;
mod advice;
mod beside;
mod curves;
mod ladder;
mod method;
mod mitigations;
mod overload;
mod resources;
mod search;
mod summary;

use crate::record::{Cell, RunRecord};

use super::super::circumstances::command;
use super::super::findings::{CellFindings, Ranked, ScenarioFindings, near, scenarios};
use super::super::format::{or_dash, rate, seconds};
use super::super::lang::{Lang, page as t};
use super::super::{verdict, words};
use super::HtmlOptions;
use super::model::{Block, Figure, Page, Tag, swatches};

pub(in crate::report) use method::{GLOSSARY, thresholds};

/// Cells that start unfolded in each scenario when there are many.
const OPEN_CELLS: usize = 1;
/// Up to this many cells, all start unfolded.
const ALL_OPEN_UP_TO: usize = 4;

/// What every card is made from.
pub(super) struct Source<'a> {
    pub(super) record: &'a RunRecord,
    pub(super) scenarios: Vec<ScenarioFindings<'a>>,
    pub(super) options: &'a HtmlOptions,
    pub(super) lang: Lang,
    /// The run's command, for tooltips.
    pub(super) command: String,
}

/// The page of a run.
pub(super) fn page(record: &RunRecord, options: &HtmlOptions) -> Page {
    let lang = options.lang;
    let source = Source {
        record,
        scenarios: scenarios(record),
        options,
        lang,
        command: command(&record.manifest.command_line),
    };
    let cards = [
        summary::card(&source),
        ladder::card(&source),
        curves::throughput(&source),
        curves::latency(&source),
        curves::percentiles(&source),
        curves::time(&source),
        curves::heat(&source),
        overload::card(&source),
        accuracy::card(&source),
        mitigations::card(&source),
        resources::statistics(&source),
        resources::bottleneck(&source),
        search::usl(&source),
        search::card(&source),
        beside::paper(&source),
        beside::comparison(&source),
        beside::trends(&source),
        advice::card(&source),
        method::events(&source),
        method::validity(&source),
        method::method(&source),
        method::manifest(&source),
        method::glossary(&source),
    ];
    let mut cards: Vec<_> = cards.into_iter().flatten().collect();
    Page {
        swatches: swatches(&mut cards),
        badges: badges(&source),
        command: source.command.clone(),
        started_at: record.manifest.started_at.clone(),
        verdict: verdict::run(record, lang),
        numbers: summary::numbers(&source),
        cards,
    }
}

fn badges(source: &Source<'_>) -> Vec<Tag> {
    let (record, lang) = (source.record, source.lang);
    let machine = &record.manifest.machine;
    let grade = Tag {
        tip: words::some_reasons(&record.validity.reasons, lang),
        ..Tag::new(
            words::grade(record.validity.grade, lang),
            record.validity.grade.word(),
        )
    };
    let whole = if record.complete { "valid" } else { "invalid" };
    let starts = record.starts.as_ref().map_or(1, |starts| starts.done);
    let mut out = vec![
        grade,
        Tag {
            tip: record.partial_reason.clone().unwrap_or_default(),
            ..Tag::new(words::whole(record.complete, lang), whole)
        },
        Tag {
            tip: starts_text(starts, lang),
            ..Tag::new(format!("n = {starts}"), "")
        },
        Tag::new(format!("{} × {}", machine.cores, machine.cpu_model), ""),
    ];
    if record.manifest.pinning.co_located {
        out.push(Tag::new(t::CO_LOCATED.of(lang), ""));
    }
    out.extend([
        Tag::new(record.manifest.started_at.clone(), ""),
        Tag::new(seconds(record.manifest.duration_s, lang), ""),
    ]);
    // Tests of a study are held to none.
    if record.tests_of_study().is_none() {
        let thresholds = t::THRESHOLDS_OF.with(lang, &[("profile", &record.profile.name)]);
        out.push(Tag::new(thresholds, ""));
    }
    out
}

/// How many fresh starts a number rests on.
pub(super) fn starts_text(starts: u32, lang: Lang) -> String {
    if starts > 1 {
        t::STARTS_MANY.with(lang, &[("n", &starts.to_string())])
    } else {
        t::STARTS_ONE.of(lang).to_owned()
    }
}

/// `target · operation`.
pub(super) fn short_title(cell: &Cell) -> String {
    format!("{} · {}", cell.target, cell.operation.title)
}

impl Source<'_> {
    /// A fold per cell with what `inside` makes of it and of the fold's id; cells it makes nothing of are left out.
    pub(super) fn per_cell(
        &self,
        prefix: &str,
        inside: impl Fn(&Ranked<'_>, &str) -> Vec<Block>,
    ) -> Vec<Block> {
        let all_open = self.record.cells.len() <= ALL_OPEN_UP_TO;
        let mut out = Vec::new();
        for (at, scenario) in self.scenarios.iter().enumerate() {
            let mut folds = Vec::new();
            for (place, ranked) in scenario.ranked.iter().enumerate() {
                let id = format!("{prefix}-{}-{}", at + 1, place + 1);
                let blocks = inside(ranked, &id);
                if blocks.is_empty() {
                    continue;
                }
                folds.push(Block::Fold {
                    id,
                    title: short_title(ranked.cell),
                    right: held(ranked.cell, &ranked.findings, self.lang),
                    open: all_open || place < OPEN_CELLS,
                    blocks,
                });
            }
            if !folds.is_empty() {
                out.push(Block::Title {
                    text: scenario.title(self.lang),
                });
                out.extend(folds);
            }
        }
        out
    }

    /// Small multiples: for each scenario its common figures, then one figure per cell. With many cells those of the
    /// first scenario stand open, and the others are folded; `prefix` begins the ids of the folds.
    pub(super) fn gallery(
        &self,
        prefix: &str,
        common: impl Fn(&ScenarioFindings<'_>) -> Vec<Figure>,
        each: impl Fn(&Ranked<'_>) -> Vec<Figure>,
    ) -> Vec<Block> {
        let all_open = self.record.cells.len() <= ALL_OPEN_UP_TO;
        let mut out = Vec::new();
        for (at, scenario) in self.scenarios.iter().enumerate() {
            let mut figures = common(scenario);
            let cells: Vec<Figure> = scenario.ranked.iter().flat_map(&each).collect();
            if figures.is_empty() && cells.is_empty() {
                continue;
            }
            out.push(Block::Title {
                text: scenario.title(self.lang),
            });
            if all_open || out.len() == 1 {
                figures.extend(cells);
                out.push(Block::Figures { figures });
                continue;
            }
            if !figures.is_empty() {
                out.push(Block::Figures { figures });
            }
            if !cells.is_empty() {
                out.push(Block::Fold {
                    id: format!("{prefix}-{}", at + 1),
                    title: t::EACH_SYSTEM.of(self.lang).into(),
                    right: cells.len().to_string(),
                    open: false,
                    blocks: vec![Block::Figures { figures: cells }],
                });
            }
        }
        out
    }
}

fn held(cell: &Cell, found: &CellFindings, lang: Lang) -> String {
    let held = or_dash(found.sustained_rps, |rps| {
        t::CELL_HELD.with(lang, &[("load", &rate(rps))])
    });
    if cell.complete {
        held
    } else {
        t::CELL_PARTIAL.with(lang, &[("held", &held)])
    }
}

/// The row whose percentile curve says most: the highest that was held, else the lowest.
pub(super) fn telling_step<'a>(
    cell: &'a Cell,
    found: &CellFindings,
) -> Option<&'a crate::record::Step> {
    found
        .sustained_rps
        .and_then(|rps| near(cell, rps))
        .or_else(|| cell.by_load().into_iter().rev().find(|step| step.holds()))
        .or_else(|| cell.by_load().into_iter().next())
}
