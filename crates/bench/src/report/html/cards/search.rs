//! Cards 11 and 12: the fit over concurrency, and the trials of the capacity search.

use super::super::super::capacity;
use super::super::super::chart;
use super::super::super::format::{or_dash, percent, rate, significant};
use super::super::super::lang::page as t;
use super::super::super::usl::{Fit, Point};
use super::super::super::words;
use super::super::model::{Block, Card, Figure};
use super::{Source, short_title};
use crate::record::CapacityRecord;
use crate::record::capacity::{StartInterval, Trial};

/// Card 11: throughput over concurrency, for closed loops with enough rungs.
pub(super) fn usl(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let mut items = Vec::new();
    let mut figures = Vec::new();
    for cell in source
        .record
        .cells
        .iter()
        .filter(|cell| cell.load.closed_loop)
    {
        let points: Vec<Point> = cell
            .steps
            .iter()
            .filter(|step| step.completed > 0)
            .filter_map(|step| {
                let in_flight = step.connections? * cell.load.pipeline_depth.max(1);
                Some(Point {
                    concurrency: f64::from(in_flight),
                    throughput_rps: step.completed_rps,
                })
            })
            .collect();
        let Some(fit) = Fit::of(&points) else {
            continue;
        };
        let title = cell.title();
        items.push(t::USL_LINE.with(
            lang,
            &[
                ("cell", &title),
                ("sigma", &significant(fit.sigma)),
                ("kappa", &format!("{:.2e}", fit.kappa)),
                ("low", &format!("{:.1e}", fit.kappa_range.0)),
                ("high", &format!("{:.1e}", fit.kappa_range.1)),
                ("r2", &significant(fit.r_squared)),
                ("peak", &or_dash(fit.peak_concurrency(), rate)),
            ],
        ));
        figures.push(Figure::new(
            short_title(cell),
            chart::concurrency(&points, &fit, &title, lang),
        ));
    }
    let blocks = if figures.is_empty() {
        Vec::new()
    } else {
        vec![
            Block::List {
                class: "observations",
                items,
            },
            Block::Figures { figures },
        ]
    };
    Card::of(
        "card-11-usl",
        t::CARD_USL.of(lang),
        t::USL_INTRO.of(lang),
        blocks,
    )
}

/// Card 12: intervals per goal, zones, and the log of trials.
pub(super) fn card(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let blocks = source.per_cell("search", |ranked, id| {
        let Some(found) = &ranked.cell.capacity else {
            return Vec::new();
        };
        let mut blocks = Vec::new();
        let mut items = vec![found.ended_because.clone()];
        if found.refused.is_some() || found.zones.is_some() {
            // With its doubts, if there are any.
            items.push(capacity::zone_line(found, lang));
        }
        if found.non_monotone {
            let loads: Vec<String> = found.inverted_rps.iter().map(|rps| rate(*rps)).collect();
            items.push(t::NON_MONOTONE.with(lang, &[("loads", &loads.join(", "))]));
        }
        items.retain(|item| !item.is_empty());
        if !items.is_empty() {
            blocks.push(Block::List {
                class: "observations",
                items,
            });
        }
        if !found.goals.is_empty() {
            blocks.push(goals(source, found));
        }
        let (start, shown) = shown(found);
        if let Some(drawing) = chart::trials(found, &shown, &ranked.cell.title(), lang) {
            let title = match start {
                None => t::C_TRIALS.of(lang).to_owned(),
                Some(start) => t::C_TRIALS_OF.with(lang, &[("start", &start.to_string())]),
            };
            blocks.push(Block::Figures {
                figures: vec![Figure::new(title, drawing)],
            });
            blocks.push(Block::Fold {
                id: format!("{id}-log"),
                title: t::TRIAL_LOG.with(lang, &[("n", &shown.len().to_string())]),
                right: String::new(),
                open: false,
                blocks: vec![trials(source, &shown)],
            });
        }
        blocks
    });
    Card::of("card-12-search", t::CARD_SEARCH.of(lang), "", blocks)
}

/// The trials that are shown: all, or of several starts those of the one whose result is nearest to their median, with its
/// number. The record has all.
fn shown(found: &CapacityRecord) -> (Option<u32>, Vec<&Trial>) {
    let first = found.goals.first();
    let starts = first.map_or(&[][..], |goal| &goal.starts);
    let median = first.and_then(|goal| goal.lower_rps).unwrap_or(0.0);
    let off = |start: &StartInterval| (start.lower_rps.unwrap_or(0.0) - median).abs();
    let nearest = starts.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
    let start = nearest.map(|start| start.start);
    let of = found
        .trials
        .iter()
        .filter(|trial| start.is_none() || trial.start == start);
    (start, of.collect())
}

fn goals(source: &Source<'_>, found: &CapacityRecord) -> Block {
    let rows = found
        .goals
        .iter()
        .map(|result| {
            vec![
                capacity::goal_name(&result.goal),
                or_dash(result.lower_rps, rate),
                or_dash(result.upper_rps, rate),
                or_dash(result.conditional_throughput_rps, rate),
                result.remark.clone(),
            ]
        })
        .collect();
    let heads = [
        t::H_GOAL,
        t::H_LOWER,
        t::H_UPPER,
        t::H_CONDITIONAL,
        t::H_WHY,
    ];
    let heads = heads.map(|head| head.of(source.lang).to_owned()).to_vec();
    Block::plain_table(heads, 1, rows).ending_in_words()
}

fn trials(source: &Source<'_>, shown: &[&Trial]) -> Block {
    let rows = shown
        .iter()
        .enumerate()
        .map(|(at, trial)| {
            let kept: String = trial
                .kept
                .iter()
                .map(|kept| if *kept { '✓' } else { '✗' })
                .collect();
            vec![
                (at + 1).to_string(),
                words::purpose(&trial.purpose, source.lang).to_owned(),
                rate(trial.load_rps),
                format!("{} s", significant(trial.duration_s)),
                rate(trial.goodput_rps),
                percent(trial.fail_percent),
                or_dash(trial.p99_ms, significant),
                kept,
                words::grade(trial.validity.grade, source.lang).to_owned(),
                trial.rule.clone(),
            ]
        })
        .collect();
    let lang = source.lang;
    let heads = vec![
        t::H_TRIAL.of(lang).to_owned(),
        t::H_PHASE.of(lang).to_owned(),
        t::H_RATE.of(lang).to_owned(),
        t::H_LENGTH.of(lang).to_owned(),
        t::H_GOODPUT.of(lang).to_owned(),
        t::H_FAIL.of(lang).to_owned(),
        "P99 ms".to_owned(),
        t::H_RESULT.of(lang).to_owned(),
        t::H_VALID.of(lang).to_owned(),
        t::H_WHY.of(lang).to_owned(),
    ];
    Block::plain_table(heads, 2, rows).ending_in_words()
}
