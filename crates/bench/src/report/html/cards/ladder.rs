//! Card 1: the ladder of every cell, the study's row folded beneath ours.

use crate::paper::seeds;
use crate::record::paper::PaperRow;
use crate::record::{Cell as Measured, Estimate, Level, Step, TargetRecord};

use super::super::super::findings::Ranked;
use super::super::super::format::{count, ms, or_dash, percent, rate, ratio, significant};
use super::super::super::lang::{Lang, Text, decision as d, page as t, stored as p};
use super::super::super::observations::observations;
use super::super::super::rows::{LadderRow, failure_kinds, load_line, store_behind};
use super::super::super::table::same;
use super::super::super::words;
use super::super::model::{Block, Card, Cell, Head, Row, Table, Tag, Under};
use super::{Source, short_title, starts_text};

/// Two loads are the same row of a study if they differ by no more than this share.
const SAME_ROW: f64 = 0.01;

/// The ladders.
pub(super) fn card(source: &Source<'_>) -> Option<Card> {
    let blocks = source.per_cell("cell", |ranked, _| cell(source, ranked));
    let mut intro = t::LADDER_INTRO.of(source.lang).to_owned();
    if source.record.cells.iter().any(|cell| cell.starts() > 1) {
        intro.push_str(t::LADDER_STARTS.of(source.lang));
    }
    Card::of(
        "card-1-ladder",
        t::CARD_LADDER.of(source.lang),
        intro,
        blocks,
    )
}

fn cell(source: &Source<'_>, ranked: &Ranked<'_>) -> Vec<Block> {
    let cell = ranked.cell;
    let mut blocks = vec![Block::Text {
        text: load_line(cell, is_beside(source, cell), source.lang),
    }];
    if cell.steps.is_empty() {
        blocks.push(Block::Text {
            text: t::NO_ROW.of(source.lang).into(),
        });
    } else {
        blocks.push(Block::Table(table(source, ranked)));
    }
    let items = observations(cell, &ranked.findings, source.lang);
    if !items.is_empty() {
        blocks.push(Block::List {
            class: "observations",
            items,
        });
    }
    blocks
}

/// Whether the target of a cell ran on the generator's machine.
fn is_beside(source: &Source<'_>, cell: &Measured) -> bool {
    let of = |target: &&TargetRecord| target.name == cell.target;
    let target = source.record.targets.iter().find(of);
    target.is_some_and(|target| target.co_located)
}

/// Place of the column of stores behind a service, and of the group it belongs to.
const AT_STORE_CPU: (usize, usize) = (14, 2);

fn table(source: &Source<'_>, ranked: &Ranked<'_>) -> Table {
    let lang = source.lang;
    let number = |text: Text| Head::number(text.of(lang));
    let group = |text: Text, columns: usize| (text.of(lang).to_owned(), columns);
    let steps = ranked.cell.by_load();
    let behind = steps.iter().any(|step| store_behind(step).is_some());
    let mut table = Table {
        class: "ladder",
        groups: vec![
            group(t::G_REQUESTS, 5),
            group(t::G_RESPONSE, 7),
            group(t::G_USE, 3),
            group(t::G_OUTCOME, 4),
        ],
        heads: vec![
            number(t::H_OFFERED_RPS),
            number(t::H_SENT),
            number(t::H_DONE),
            number(t::H_GOODPUT),
            number(t::H_FAIL),
            number(t::H_AVG),
            Head::number("P50"),
            Head::number("P95"),
            Head::number("P99"),
            Head::number("P99.9"),
            number(t::H_MAX),
            number(t::H_LAG),
            number(t::H_GEN_CPU),
            number(t::H_SERVER_CPU),
            number(d::D_STORE_CPU),
            number(t::H_US_PER_OP),
            number(t::H_ADMIT),
            number(t::H_OVER_UNDER),
            Head::words(t::H_STATUS.of(lang)),
            Head::words(t::H_LABEL.of(lang)),
        ],
        rows: steps
            .into_iter()
            .map(|step| row(source, ranked, step))
            .collect(),
        ..Table::default()
    };
    let (column, group) = AT_STORE_CPU;
    if behind {
        table.groups[group].1 += 1;
    } else {
        table.heads.remove(column);
        for row in &mut table.rows {
            row.cells.remove(column);
        }
    }
    table
}

fn row(source: &Source<'_>, ranked: &Ranked<'_>, step: &Step) -> Row {
    let lang = source.lang;
    let r = LadderRow::of(step);
    let mut status = Cell::words(format!("{} {}", icon(r.level), words::level(r.level, lang)))
        .class(status_class(r.level))
        .tip(r.rule);
    if r.grade != crate::record::Grade::Valid {
        status.tags.push(Tag {
            tip: words::some_reasons(&step.validity.reasons, lang),
            ..Tag::new(words::grade(r.grade, lang), r.grade.word())
        });
    }
    Row {
        class: r.level.word(),
        tip: tip(source, ranked, step),
        cells: vec![
            Cell::number(r.target).class("strong"),
            Cell::number(r.sent),
            Cell::number(r.done),
            Cell::number(r.goodput),
            Cell::number(r.fail_percent).tip(failure_kinds(step)),
            Cell::number(r.mean_ms),
            Cell::number(r.p50_ms),
            Cell::number(r.p95_ms),
            Cell::number(r.p99_ms).class("strong"),
            Cell::number(r.p99_9_ms),
            Cell::number(r.max_ms),
            Cell::number(r.lag_p99_ms),
            Cell::number(r.generator_cpu),
            Cell::number(r.server_cpu),
            Cell::number(or_dash(store_behind(step), |cpu| format!("{cpu:.0} %"))),
            Cell::number(r.server_us_per_op),
            Cell::number(r.admit),
            Cell::number(r.accuracy),
            status,
            Cell::words(words::label(r.label, lang)),
        ],
        under: paper_row(source, ranked, step),
    }
}

/// n, intervals and command of a row.
fn tip(source: &Source<'_>, ranked: &Ranked<'_>, step: &Step) -> String {
    let lang = source.lang;
    let statistics = ranked.cell.statistics.as_ref();
    let starts = statistics.map_or(1, |found| found.starts);
    let rates = statistics.and_then(|found| {
        found
            .rates
            .iter()
            .find(|rate| (rate.target_rps - step.target_rps).abs() <= step.target_rps * 1e-6)
    });
    let interval = |name: &str, estimate: Option<Estimate>, scale: f64, unit: &str| {
        let (low, high) = estimate.and_then(|e| e.low.zip(e.high))?;
        let (low, high) = (significant(low / scale), significant(high / scale));
        Some(t::CI_TIP.with(
            lang,
            &[
                ("name", name),
                ("low", &low),
                ("high", &high),
                ("unit", unit),
            ],
        ))
    };
    let mut ci = String::new();
    if let Some(rates) = rates {
        ci.extend(interval("goodput", rates.goodput_rps, 1.0, "/s"));
        ci.extend(interval("P50", rates.p50_us, 1e3, "ms"));
        ci.extend(interval("P99", rates.p99_us, 1e3, "ms"));
    }
    t::ROW_TIP.with(
        lang,
        &[
            ("answers", &count(step.allowed.saturating_add(step.denied))),
            ("seconds", &significant(step.duration_s)),
            ("starts", &starts_text(starts, lang)),
            ("ci", &ci),
        ],
    )
}

/// The study's row at the same load, if the run repeated a study with this cell.
fn paper_row(source: &Source<'_>, ranked: &Ranked<'_>, step: &Step) -> Option<Under> {
    let paper = source.record.paper.as_ref()?;
    let title = short_title(ranked.cell);
    let scenario = ranked.cell.scenario.name.as_str();
    let same = |row: &&PaperRow| {
        row.paper
            .target_rps
            .is_some_and(|rps| (rps - step.target_rps).abs() <= rps * SAME_ROW)
    };
    let beside: Vec<(String, String)> = paper
        .tables
        .iter()
        .filter(|table| {
            // Tables of one study differ by scenario, and a system of ours stands beside several of them.
            let of = seeds::table(&table.id).next();
            of.is_none_or(|row| row.scenario == scenario)
                && table
                    .ours
                    .as_deref()
                    .is_some_and(|ours| ours.starts_with(&title))
        })
        .filter_map(|table| Some((table, table.rows.iter().find(same)?)))
        .map(|(table, row)| {
            let name = format!("{}, {}", table.id, table.paper);
            (name, paper_figures(row, source.lang))
        })
        .collect();
    let names: Vec<&str> = beside.iter().map(|(name, _)| name.as_str()).collect();
    // Why the rows are no equals is told once, beside the study's tables.
    Some(Under {
        title: t::PAPER_ROW.with(source.lang, &[("text", &names.join(" | "))]),
        lines: beside.iter().map(|(_, figures)| figures.clone()).collect(),
    })
    .filter(|_| !beside.is_empty())
}

/// The study's figures, its word for the row, and ours over its.
fn paper_figures(row: &PaperRow, lang: Lang) -> String {
    let f = &row.paper;
    let mut parts = Vec::new();
    let mut add = |name: Text, value: Option<String>| {
        parts.extend(value.map(|value| format!("{} {value}", name.of(lang))));
    };
    let milliseconds = |v: Option<f64>| v.map(|v| format!("{} ms", ms(v * 1e3)));
    add(
        p::P_GOODPUT,
        f.goodput_rps.map(|v| format!("{}/s", rate(v))),
    );
    add(p::P_ACTUAL, f.actual_rps.map(|v| format!("{}/s", rate(v))));
    add(
        p::P_FAILED,
        f.fail_percent.map(|v| format!("{} %", percent(v))),
    );
    add(p::P_MEAN, milliseconds(f.mean_ms));
    add(same("P95"), milliseconds(f.p95_ms));
    add(same("P99"), milliseconds(f.p99_ms));
    add(p::P_STATUS, row.seed_status.clone());
    let computed = row.computed.as_ref();
    add(
        p::P_COMPUTED,
        computed.map(|found| words::judgement(found, lang)),
    );
    add(p::P_OURS_OVER, row.rate_ratio.map(ratio));
    add(p::P_P99_OVER, row.p99_ratio.map(ratio));
    or_dash((!parts.is_empty()).then_some(parts), |parts| {
        parts.join(" · ")
    })
}

fn status_class(level: Level) -> &'static str {
    match level {
        Level::Ok => "status ok",
        Level::NearLimit => "status near-limit",
        Level::Degraded => "status degraded",
        Level::Failed => "status failed",
        Level::Collapsed => "status collapsed",
    }
}

/// The sign of a level, from characters that fonts without emoji have too.
pub(super) fn icon(level: Level) -> &'static str {
    if level == Level::Collapsed {
        "☠"
    } else {
        level.icon()
    }
}
