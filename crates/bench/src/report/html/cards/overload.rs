//! Card 7: failures, retention, the way up against the way down, recovery.

use super::super::super::chart;
use super::super::super::decision;
use super::super::super::findings::CellFindings;
use super::super::super::format::{or_dash, percent, rate, ratio, seconds, short, significant};
use super::super::super::lang::{Lang, decision as d, page as t};
use super::super::super::observations::retention_class;
use super::super::super::words;
use super::super::model::{Block, Card, Figure};
use super::{Source, short_title};
use crate::record::recovery::RecoveryVariant;
use crate::record::{Cell, RecoveryRecord, Second};
use crate::search::retention::{knee_from, telling};

/// The card.
pub(super) fn card(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let mut blocks = Vec::new();
    blocks.extend(retention(source));
    blocks.extend(source.gallery(
        "past",
        |scenario| {
            let drawing = chart::failures(scenario, lang);
            drawing
                .map(|drawing| Figure::new(t::C_FAILURES.of(lang), drawing))
                .into_iter()
                .collect()
        },
        |ranked| {
            let capacity = ranked.cell.capacity.as_ref();
            let found = capacity.and_then(|capacity| capacity.hysteresis.as_ref());
            found
                .map(|found| {
                    let name = short_title(ranked.cell);
                    let title = format!(
                        "{}: {name} ({} %)",
                        t::C_HYSTERESIS.of(lang),
                        significant(found.area_percent)
                    );
                    Figure::new(title, chart::hysteresis(found, &name, lang))
                })
                .into_iter()
                .collect()
        },
    ));
    blocks.extend(lessons(source));
    blocks.extend(recoveries(source));
    Card::of(
        "card-7-overload",
        t::CARD_OVERLOAD.of(lang),
        t::OVERLOAD_INTRO.of(lang),
        blocks,
    )
}

/// What each cell keeps past its limit, from its search where there was one, else from its ladder.
fn retention(source: &Source<'_>) -> Option<Block> {
    let lang = source.lang;
    let dash = || super::super::super::format::DASH.to_owned();
    let share =
        |value: Option<f64>| value.map_or_else(dash, |v| format!("{} %", percent(v * 100.0)));
    let mut rows = Vec::new();
    for cell in &source.record.cells {
        let found = CellFindings::of(cell);
        let searched = cell.capacity.as_ref().and_then(|c| c.retention.as_ref());
        let row = match (searched, found.retention) {
            (Some(searched), _) if !searched.points.is_empty() => {
                let kept: Vec<String> = searched
                    .points
                    .iter()
                    .map(|point| {
                        format!(
                            "{}\u{a0}%\u{a0}@\u{a0}{}",
                            percent(point.retention * 100.0),
                            ratio(point.factor)
                        )
                    })
                    .collect();
                let passed = searched.points.iter().any(|point| {
                    let answered = point.goodput_rps / point.target_rps * 100.0;
                    answered >= source.record.profile.goodput_percent.critical
                });
                let class = match searched.at_1_25 {
                    _ if passed => t::NOT_THE_LIMIT.of(lang).to_owned(),
                    Some(kept) => retention_class(kept).of(lang).to_owned(),
                    None => dash(),
                };
                [
                    rate(searched.knee_rps),
                    kept.join(", "),
                    class,
                    share(searched.cliff_margin),
                    share(searched.early_warning),
                ]
            }
            (_, Some(_)) => match not_past_knee(source, cell, &found) {
                Some(row) => row,
                None => continue,
            },
            _ => continue,
        };
        let mut fields = vec![cell.title()];
        fields.extend(row);
        rows.push(fields);
    }
    let heads = [
        t::H_CELL,
        t::H_KNEE,
        t::H_RETENTION,
        t::H_CLASS,
        t::H_CLIFF,
        t::H_WARNING_MARGIN,
    ];
    let heads = heads.map(|head| head.of(lang).to_owned()).to_vec();
    (!rows.is_empty()).then(|| Block::plain_table(heads, 1, rows).wrapped())
}

/// The row of a cell whose goodput held at every load that tells something: what is left past its knee is not known.
fn not_past_knee(source: &Source<'_>, cell: &Cell, found: &CellFindings) -> Option<[String; 5]> {
    let (lang, dash) = (source.lang, || super::super::super::format::DASH.to_owned());
    let rows = telling(&cell.by_load());
    let knee = knee_from(&source.record.profile, &rows, None)?.target_rps;
    let warned = found.first_warning_rps.filter(|first| *first <= knee);
    Some([
        t::KNEE_FROM.with(lang, &[("load", &rate(knee))]),
        dash(),
        t::NOT_PAST_KNEE.of(lang).to_owned(),
        dash(),
        or_dash(warned, |first| {
            format!("{} %", percent((knee / first - 1.0) * 100.0))
        }),
    ])
}

/// Threshold breach, recovery and cascading of every system.
fn lessons(source: &Source<'_>) -> Vec<Block> {
    let lang = source.lang;
    let Some(found) = decision::lessons(source.record, lang) else {
        return Vec::new();
    };
    let words = found.heads.len();
    let mut blocks = vec![
        Block::Title {
            text: d::D_LESSONS.of(lang).into(),
        },
        Block::plain_table(found.heads, words, found.rows).wrapped(),
    ];
    blocks.extend(found.untried.into_iter().map(|text| Block::Text { text }));
    blocks
}

/// Recovery runs: one line and two drawings per client variant.
fn recoveries(source: &Source<'_>) -> Vec<Block> {
    let lang = source.lang;
    let mut blocks = Vec::new();
    for cell in &source.record.cells {
        let Some(found) = &cell.recovery else {
            continue;
        };
        let mut rows = Vec::new();
        let mut figures = Vec::new();
        let marks = marks(found, lang);
        for variant in &found.variants {
            let deadline = or_dash(variant.deadline_ms, |ms| format!("{} ms", significant(ms)));
            let name = t::VARIANT.with(
                lang,
                &[
                    ("retries", &variant.retries.to_string()),
                    ("deadline", &deadline),
                ],
            );
            rows.push(vec![
                name.clone(),
                words::recovery(variant.verdict, lang).to_owned(),
                variant.sentence.clone(),
                recovery_time(variant, lang),
                or_dash(variant.backlog_drain_s, |s| seconds(s, lang)),
                ratio(variant.amplification),
            ]);
            let title = t::C_RECOVERY.with(lang, &[("name", &name)]);
            let drawings = chart::recovery(within(variant, found), &marks, &title, lang);
            figures.extend(
                drawings
                    .into_iter()
                    .flatten()
                    .map(|drawing| Figure::new(title.clone(), drawing)),
            );
        }
        if rows.is_empty() {
            continue;
        }
        blocks.push(Block::Title { text: cell.title() });
        blocks.push(Block::Text {
            text: format!("{}/s: {}", rate(found.knee_rps), found.knee_source),
        });
        let heads = [
            t::H_VARIANT,
            t::H_VERDICT,
            t::H_WHY,
            t::H_TIME_TO_RECOVER,
            t::H_DRAIN,
            t::H_AMPLIFICATION,
        ];
        let heads = heads.map(|head| head.of(lang).to_owned()).to_vec();
        blocks.push(Block::plain_table(heads, 3, rows).wrapped());
        if let Some(healing) = &found.healing {
            let text = healing.sentence.clone();
            blocks.push(Block::Text { text });
        }
        if !figures.is_empty() {
            blocks.push(Block::Figures { figures });
        }
    }
    blocks
}

/// The seconds of the phases: what was open at their end fails in what comes after them, which is no course of the system.
fn within<'a>(variant: &'a RecoveryVariant, found: &RecoveryRecord) -> &'a [Second] {
    let last = found.phases.last();
    let end_s = last.map_or(0.0, |last| last.start_s + last.length_s);
    let inside = variant
        .seconds
        .partition_point(|second| second.at_s < end_s);
    &variant.seconds[..inside]
}

/// Time to recover; of several starts with what each took.
fn recovery_time(variant: &RecoveryVariant, lang: Lang) -> String {
    let told = |time: Option<f64>| or_dash(time, |s| seconds(s, lang));
    let median = told(variant.time_to_recover_s);
    if variant.starts.len() < 2 {
        return median;
    }
    let each: Vec<String> = variant
        .starts
        .iter()
        .map(|start| told(start.time_to_recover_s))
        .collect();
    format!("{median} ({})", each.join(", "))
}

/// Where each phase begins, with its name and load.
fn marks(found: &RecoveryRecord, lang: Lang) -> Vec<(f64, String)> {
    let phases = found.phases.iter();
    phases
        .map(|phase| {
            let text = format!(
                "{} {}×",
                words::phase(&phase.name, lang),
                short(phase.of_knee)
            );
            (phase.start_s, text)
        })
        .collect()
}
