//! Headline numbers, and the comparison of the cells of every scenario.

use crate::record::{Grade, LatencySummary, RunRecord, TargetKind};

use super::super::super::decision::{self, at_the_knee};
use super::super::super::findings::{Ranked, ScenarioFindings, over_admission};
use super::super::super::format::{bytes, latency, ms, or_dash, percent, rate, short, significant};
use super::super::super::lang::recorded::recorded;
use super::super::super::lang::{decision as d, page as t};
use super::super::super::words;
use super::super::model::{Block, Card, Cell, Head, Number, Row, Table, Tag};
use super::{Source, short_title, starts_text};

/// Columns of what is compared at one load, which are empty where no load was offered to all.
const AT_COMMON_LOAD: std::ops::Range<usize> = 6..10;

/// The comparison of cells, scenario by scenario.
pub(super) fn card(source: &Source<'_>) -> Option<Card> {
    let mut blocks = head_to_head(source);
    for scenario in &source.scenarios {
        blocks.push(Block::Title {
            text: scenario.title(source.lang),
        });
        blocks.push(Block::Text {
            text: scenario.intro(source.lang),
        });
        blocks.push(Block::Table(table(source, scenario)));
    }
    Card::of("card-summary", t::CARD_SUMMARY.of(source.lang), "", blocks)
}

/// Two systems of each scenario, figure by figure, with what each difference rests on.
fn head_to_head(source: &Source<'_>) -> Vec<Block> {
    let lang = source.lang;
    // Strategies are ways to run one service, and have a comparison of their own.
    let rows = match source.record.mitigations {
        Some(_) => Vec::new(),
        None => decision::head_to_head(&source.scenarios, lang),
    };
    if rows.is_empty() {
        return Vec::new();
    }
    let heads = [d::D_METRIC, d::D_OTHER, d::D_BEST, d::D_DIFFERENCE];
    let heads = heads.map(|head| head.of(lang).to_owned()).to_vec();
    let rows = rows.into_iter().map(|row| row.to_vec()).collect();
    vec![
        Block::Title {
            text: d::D_HEAD_TO_HEAD.of(lang).into(),
        },
        Block::Text {
            text: d::D_HEAD_INTRO.of(lang).into(),
        },
        Block::plain_table(heads, 4, rows).wrapped(),
    ]
}

fn table(source: &Source<'_>, scenario: &ScenarioFindings<'_>) -> Table {
    let word = |text: super::super::super::lang::Text| Head::words(text.of(source.lang));
    let number = |text: super::super::super::lang::Text| Head::number(text.of(source.lang));
    let mut table = Table {
        heads: vec![
            word(t::H_TARGET),
            word(t::H_OPERATION),
            number(t::H_HELD),
            number(t::H_NOT_HELD),
            number(t::H_SAFE),
            number(t::H_PEAK),
            Head::number("P50 ms"),
            Head::number("P99 ms"),
            number(t::H_SERVER_CPU_OP),
            number(t::H_MEMORY),
            number(t::H_OVER),
        ],
        rows: scenario
            .ranked
            .iter()
            .map(|ranked| row(source, scenario, ranked))
            .collect(),
        ..Table::default()
    };
    if scenario.common_rps.is_none() {
        table.heads.drain(AT_COMMON_LOAD);
        for row in &mut table.rows {
            row.cells.drain(AT_COMMON_LOAD);
        }
    }
    table
}

fn row(source: &Source<'_>, scenario: &ScenarioFindings<'_>, ranked: &Ranked<'_>) -> Row {
    let (cell, found) = (ranked.cell, &ranked.findings);
    let response = ranked.common.and_then(|step| step.response.all.as_ref());
    let server = ranked.common.and_then(|step| step.server);
    let over = over_admission(cell);
    let at = |pick: fn(&LatencySummary) -> f64| Cell::number(or_dash(response, |l| ms(pick(l))));
    let mut operation = Cell::words(cell.operation.title.clone());
    if cell.operation.like_for_like {
        operation.tags.push(Tag {
            tip: t::LIKE_FOR_LIKE_TIP.of(source.lang).to_owned(),
            ..Tag::new(t::LIKE_FOR_LIKE.of(source.lang), "")
        });
    }
    let mut held = Cell::number(found.held_text(source.lang)).class("strong");
    let validity = cell.validity();
    if validity.grade != Grade::Valid {
        let reasons = validity.reasons.iter();
        let reasons: Vec<String> = reasons
            .map(|reason| recorded(reason, source.lang).into_owned())
            .collect();
        held.tags.push(Tag {
            tip: words::some_reasons(&reasons, source.lang),
            ..Tag::new(
                words::grade(validity.grade, source.lang),
                validity.grade.word(),
            )
        });
    }
    let over_class = if over.is_some_and(|over| over > 0.0) {
        "bad"
    } else {
        ""
    };
    Row {
        tip: tip(source, cell),
        cells: vec![
            Cell::words(scenario.marked(&cell.target)).class("strong"),
            operation,
            held,
            Cell::number(or_dash(found.not_held_rps, rate)),
            Cell::number(or_dash(found.safe_rps, rate)),
            Cell::number(or_dash(found.peak_goodput_rps, rate)),
            at(|l| l.p50_us),
            at(|l| l.p99_us),
            Cell::number(or_dash(server.and_then(|s| s.cpu_us_per_op), significant)),
            Cell::number(or_dash(server.and_then(|s| s.rss_bytes), bytes)),
            Cell::number(or_dash(over, |over| format!("{} %", percent(over)))).class(over_class),
        ],
        ..Row::default()
    }
}

/// What the numbers of a cell rest on.
fn tip(source: &Source<'_>, cell: &crate::record::Cell) -> String {
    let starts = cell.starts();
    let starts = starts_text(starts, source.lang);
    t::CELL_TIP.with(
        source.lang,
        &[
            ("n", &cell.steps.len().to_string()),
            ("starts", &starts),
            ("command", &source.command),
        ],
    )
}

/// The headline numbers.
pub(super) fn numbers(source: &Source<'_>) -> Vec<Number> {
    let (record, lang) = (source.record, source.lang);
    let mut out: Vec<Number> = source
        .scenarios
        .iter()
        .filter_map(|scenario| held(source, scenario))
        .collect();
    out.extend(bounding(source));
    out.extend(worst_over(record).map(|worst| Number {
        value: percent(worst),
        unit: "%",
        name: t::NUMBER_OVER.of(lang).into(),
        note: t::NUMBER_OVER_NOTE.of(lang).into(),
        tip: source.command.clone(),
    }));
    out.extend(record.calibration.as_ref().map(|calibration| Number {
        value: large(calibration.ceiling_rps),
        unit: "/s",
        name: t::NUMBER_CEILING.of(lang).into(),
        note: t::NUMBER_CEILING_NOTE.with(lang, &[("latency", &latency(calibration.floor_p99_us))]),
        tip: format!("{} · tollgate bench calibrate", calibration.connections),
    }));
    out
}

/// The safe load, and the P99 at the load held, of the best system in the scenario in which that holds least: whoever plans by
/// them is right in every scenario.
fn bounding(source: &Source<'_>) -> Vec<Number> {
    let lang = source.lang;
    let bests = source
        .scenarios
        .iter()
        .filter_map(|scenario| Some((scenario, scenario.ranked.first()?)));
    let held = bests.filter_map(|(scenario, best)| Some((scenario, best, best.findings.safe_rps?)));
    let Some((scenario, best, safe)) = held.min_by(|a, b| a.2.total_cmp(&b.2)) else {
        return Vec::new();
    };
    // A store and a service can be asked for the same scenario.
    let note = match scenario.kind {
        TargetKind::Service => format!("{} · {}", short_title(best.cell), scenario.title(lang)),
        TargetKind::Store | TargetKind::Null => best.cell.title(),
    };
    let mut out = vec![Number {
        value: large(safe),
        unit: "/s",
        name: d::D_NUMBER_SAFE.of(lang).into(),
        note: note.clone(),
        tip: tip(source, best.cell),
    }];
    let step = at_the_knee(best.cell, &best.findings);
    let p99 = step.and_then(|step| step.response.all.as_ref());
    out.extend(p99.map(|found| Number {
        value: ms(found.p99_us),
        unit: "ms",
        name: d::D_NUMBER_KNEE.of(lang).into(),
        note: note.clone(),
        tip: tip(source, best.cell),
    }));
    out
}

fn worst_over(record: &RunRecord) -> Option<f64> {
    record
        .cells
        .iter()
        .filter_map(over_admission)
        .max_by(f64::total_cmp)
}

fn held(source: &Source<'_>, scenario: &ScenarioFindings<'_>) -> Option<Number> {
    let best = scenario.ranked.first()?;
    let sustained = best.findings.sustained_rps?;
    let cell = short_title(best.cell);
    let searched = best.cell.capacity.as_ref();
    let goal = searched.and_then(|found| found.goals.first());
    let over = goal.and_then(|goal| goal.over_starts);
    let interval = over.and_then(|over| Some((over.n, over.low?, over.high?)));
    let note = match (interval, best.findings.not_held_rps) {
        (Some((n, low, high)), _) => t::NUMBER_SUSTAINED_STARTS.with(
            source.lang,
            &[
                ("n", &n.to_string()),
                ("lower", &large(low)),
                ("upper", &large(high)),
                ("cell", &cell),
            ],
        ),
        (None, Some(upper)) => {
            let held = best.findings.held_above_rps;
            let text = match held {
                Some(_) => t::NUMBER_SUSTAINED_MOSTLY,
                None => t::NUMBER_SUSTAINED_NOTE,
            };
            text.with(
                source.lang,
                &[
                    ("lower", &large(sustained)),
                    ("upper", &large(upper)),
                    ("held", &or_dash(held, large)),
                    ("cell", &cell),
                ],
            )
        }
        (None, None) => t::NUMBER_HELD_NOTE.with(source.lang, &[("cell", &cell)]),
    };
    Some(Number {
        value: large(sustained),
        unit: "/s",
        name: scenario.title(source.lang),
        note,
        tip: tip(source, best.cell),
    })
}

/// A rate that fits on a card.
fn large(value: f64) -> String {
    if value < 1e6 {
        rate(value)
    } else {
        short(value)
    }
}
