//! Card 8: what the limiter admitted against what it may, promises about waiting, and allowed against denied answers.

use crate::record::{Accuracy, Cell as Measured};

use super::super::super::chart;
use super::super::super::findings::worst_stretch;
use super::super::super::format::{count, or_dash, percent, rate, ratio, significant};
use super::super::super::lang::{Text, page as t};
use super::super::super::rows::{allowed_text, limit_text};
use super::super::model::{Block, Card, Cell, Figure, Head, Row, Table};
use super::{Source, short_title, telling_step};

/// The card.
pub(super) fn card(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let judged: Vec<(&Measured, &Accuracy)> = source
        .record
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.accuracy.as_ref()?)))
        .collect();
    let mut blocks = Vec::new();
    if !judged.is_empty() {
        blocks.push(Block::Table(table(source, &judged)));
    }
    blocks.extend(exact(source, &judged));
    blocks.extend(promises(source, &judged));
    blocks.extend(source.gallery(
        "verdicts",
        |_| Vec::new(),
        |ranked| {
            let step = telling_step(ranked.cell, &ranked.findings)
                .filter(|step| step.response.allow.is_some() && step.response.deny.is_some());
            step.map(|step| {
                let at = t::C_VERDICTS_AT.with(lang, &[("load", &rate(step.target_rps))]);
                let title = format!("{}: {at}", short_title(ranked.cell));
                Figure::new(title, chart::verdicts(step, lang))
            })
            .into_iter()
            .collect()
        },
    ));
    Card::of(
        "card-8-accuracy",
        t::CARD_ACCURACY.of(lang),
        t::ACCURACY_INTRO.of(lang),
        blocks,
    )
}

fn table(source: &Source<'_>, judged: &[(&Measured, &Accuracy)]) -> Table {
    let number = |text: Text| Head::number(text.of(source.lang));
    Table {
        class: "ladder",
        heads: vec![
            Head::words(t::H_CELL.of(source.lang)),
            number(t::H_LIMIT),
            number(t::H_OFFERED),
            number(t::H_ADMITTED),
            number(t::H_ALLOWED),
            Head::words(t::H_IN_ALLOWED.of(source.lang)),
            number(t::H_OVER_UNDER),
            number(t::H_WORST),
            number(t::H_UNKNOWN),
            number(t::H_FAIRNESS),
        ],
        rows: judged
            .iter()
            .map(|(cell, found)| row(source, cell, found))
            .collect(),
        ..Table::default()
    }
}

fn row(source: &Source<'_>, cell: &Measured, found: &Accuracy) -> Row {
    let allowed = allowed_text(found);
    let (over, under) = (found.over_admission_percent, found.under_admission_percent);
    let class = if found.never_over() { "" } else { "bad" };
    let fairness = match (found.fairness_min_of_mean, found.fairness_max_of_mean) {
        (Some(least), Some(most)) => {
            let range = format!("{} – {}", ratio(least), ratio(most));
            t::FAIRNESS_TIP.with(source.lang, &[("range", &range)])
        }
        _ => String::new(),
    };
    Row {
        tip: format!("n = {} · {}", count(found.offered), source.command),
        cells: vec![
            Cell::words(cell.title())
                .class("strong")
                .tip(found.algorithm.clone()),
            Cell::number(limit_text(cell, found.window_ms, source.lang)),
            Cell::number(count(found.offered)),
            Cell::number(count(found.admitted)).class("strong"),
            Cell::number(allowed.clone()),
            Cell {
                svg: gauge(found, &allowed),
                ..Cell::words("")
            },
            Cell::number(format!("{} / {}", percent(over), percent(under))).class(class),
            Cell::number(or_dash(worst_stretch(cell), ratio)),
            Cell::number(count(found.unknown)),
            Cell::number(or_dash(found.fairness_jain, significant)).tip(fairness),
        ],
        ..Row::default()
    }
}

/// A bar of what was admitted, in a frame of what may be.
fn gauge(found: &Accuracy, allowed: &str) -> String {
    // The bar's full width is a fifth more than the larger of what was and what may be admitted.
    let full = found.allowed_max.max(found.admitted).max(1) as f64 * 1.2;
    let share = |value: u64| value as f64 / full * 100.0;
    let over = if found.never_over() { "" } else { " over" };
    let from = share(found.allowed_min.min(found.allowed_max));
    let width = share(found.allowed_max.abs_diff(found.allowed_min)).max(0.6);
    format!(
        "<svg class=\"gauge\" viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{} / {allowed}\"><rect class=\"gauge-ground\" width=\"100\" height=\"12\"/><rect class=\"gauge-bar{over}\" y=\"3\" width=\"{:.2}\" height=\"6\"/><rect class=\"gauge-allowed\" x=\"{from:.2}\" width=\"{width:.2}\" height=\"12\"/></svg>",
        count(found.admitted),
        share(found.admitted)
    )
}

/// What was judged decision by decision.
fn exact(source: &Source<'_>, judged: &[(&Measured, &Accuracy)]) -> Option<Block> {
    let rows: Vec<Vec<String>> = judged
        .iter()
        .filter_map(|(cell, found)| {
            let exact = found.exact?;
            Some(vec![
                cell.title(),
                count(exact.keys),
                count(exact.decisions),
                count(exact.left_out),
                count(exact.over_admitted),
                count(exact.under_admitted),
            ])
        })
        .collect();
    let heads = [
        t::H_CELL,
        t::H_EXACT_KEYS,
        t::H_EXACT_DECISIONS,
        t::H_EXACT_LEFT_OUT,
        t::H_EXACT_OVER,
        t::H_EXACT_UNDER,
    ];
    let heads = heads.map(|head| head.of(source.lang).to_owned()).to_vec();
    (!rows.is_empty()).then(|| Block::plain_table(heads, 1, rows))
}

/// Promised waits against the waits seen.
fn promises(source: &Source<'_>, judged: &[(&Measured, &Accuracy)]) -> Option<Block> {
    let rows: Vec<Vec<String>> = judged
        .iter()
        .filter_map(|(cell, found)| {
            let kept = found.retry_after?;
            Some(vec![
                cell.title(),
                count(kept.checked),
                count(kept.kept),
                count(kept.too_long),
                count(kept.too_short),
                significant(kept.mean_error_ms),
                significant(kept.worst_too_short_ms.max(kept.worst_too_long_ms)),
                significant(kept.resolution_ms),
            ])
        })
        .collect();
    let heads = [
        t::H_RETRY_CELL,
        t::H_RETRY_CHECKED,
        t::H_RETRY_KEPT,
        t::H_RETRY_LONG,
        t::H_RETRY_SHORT,
        t::H_RETRY_MEAN,
        t::H_RETRY_WORST,
        t::H_RETRY_UNIT,
    ];
    let heads = heads.map(|head| head.of(source.lang).to_owned()).to_vec();
    (!rows.is_empty()).then(|| Block::plain_table(heads, 1, rows))
}
