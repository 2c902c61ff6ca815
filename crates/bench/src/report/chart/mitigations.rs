//! Strategies for hot keys: what each saves against how far its admissions are from the limit.

use crate::record::{ErrorVerdict, MitigationRow};

use super::super::format::{percent, significant};
use super::super::lang::{Lang, mitigations as t, page};
use super::super::mitigations::tip;
use super::Chart;
use super::legend::{mark_entry, whisker_entry};
use super::plot::Plot;
use super::scale::{Scale, rate_tick};

/// Series of those that keep to what they state, and of those that admit more.
const WITHIN: &str = "s0 hollow";
const BEYOND: &str = "s6";
/// Mark of the latter.
const CROSS: usize = 4;
/// Radius of a mark that never asks the store, and what one question for each decision adds.
const RADIUS: f64 = 3.5;
const RADIUS_OF_QUESTION: f64 = 5.0;
/// Least part of the x axis on either side of no error: there stand the names.
const SIDE: f64 = 0.45;
/// Errors up to this part of the largest one count as none for the placing of names.
const NEAR_NONE: f64 = 0.06;

/// A figure of a row that is drawn upwards.
type Pick = fn(&MitigationRow) -> Option<f64>;

/// Highest goodput against the error; `None` without goodput.
pub(in crate::report) fn goodput(rows: &[&MitigationRow], lang: Lang) -> Option<Chart> {
    let title = page::Y_GOOD.of(lang);
    scatter(rows, |row| row.peak_goodput_rps, title, rate_tick, lang)
}

/// CPU time per decision against the error; `None` without CPU times.
pub(in crate::report) fn cpu(rows: &[&MitigationRow], lang: Lang) -> Option<Chart> {
    let title = t::MI_Y_CPU.of(lang);
    scatter(
        rows,
        MitigationRow::cpu_us_per_decision,
        title,
        significant,
        lang,
    )
}

/// Error in percent: above 0 too much, below too little. What did both shows the larger.
fn error(row: &MitigationRow) -> f64 {
    let (over, under) = (row.over_percent(), row.under_percent());
    if over >= under { over } else { -under }
}

fn scatter(
    rows: &[&MitigationRow],
    pick: Pick,
    y_title: &str,
    y_text: fn(f64) -> String,
    lang: Lang,
) -> Option<Chart> {
    let known: Vec<(&MitigationRow, f64, f64)> = rows
        .iter()
        .filter(|row| row.verdict != ErrorVerdict::NotJudged)
        .filter_map(|row| Some((*row, error(row), pick(row).filter(|y| y.is_finite())?)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let errors = || known.iter().map(|(_, x, _)| *x);
    let (least, most) = (errors().fold(0.0, f64::min), errors().fold(0.0, f64::max));
    let span = (most - least).max(0.1);
    let low = least.min(-SIDE * span);
    let high = most.max(SIDE * span) + 0.05 * span;
    let top = known.iter().map(|(.., y)| *y).fold(0.0, f64::max);
    let mut plot = Plot::new(Scale::between(low, high), Scale::linear(top * 1.05));
    let x_text = |value: f64| match value {
        v if v.abs() < span * 1e-9 => "0".to_owned(),
        v => percent(v.abs()),
    };
    plot.axes([t::MI_X.of(lang), y_title], None, x_text, y_text);
    plot.divide(0.0, "");
    for (row, _, y) in &known {
        let (from, to) = (-row.stated_under_percent(), row.stated_over_percent());
        if to - from > 0.01 * span {
            plot.interval("faint", *y, from, to);
        }
    }
    for (row, x, y) in &known {
        let tip = tip(row, lang);
        let asked = row
            .store_questions_per_decision
            .unwrap_or(0.0)
            .clamp(0.0, 1.5);
        if row.verdict == ErrorVerdict::OverBeyond {
            plot.mark(BEYOND, CROSS, *x, *y, &tip);
        } else {
            plot.disc(WITHIN, (*x, *y), RADIUS + RADIUS_OF_QUESTION * asked, &tip);
        }
    }
    name_all(&mut plot, &known, span);
    Some(Chart {
        svg: plot.finish(t::CARD_MITIGATIONS.of(lang)),
        legend: vec![
            mark_entry(WITHIN, 0, t::MI_L_WITHIN.of(lang)),
            mark_entry(BEYOND, CROSS, t::MI_L_BEYOND.of(lang)),
            whisker_entry(t::MI_L_STATED.of(lang)),
        ],
    })
}

/// Names beside the marks: left of those without an error, where most of them lie, else right; on each side one below
/// the other.
fn name_all(plot: &mut Plot, known: &[(&MitigationRow, f64, f64)], span: f64) {
    for left in [true, false] {
        let mut here: Vec<(f64, f64, &str)> = known
            .iter()
            .filter(|(_, x, _)| (x.abs() <= NEAR_NONE * span) == left)
            .map(|(row, x, y)| (*x, *y, row.target.as_str()))
            .collect();
        here.sort_by(|a, b| b.1.total_cmp(&a.1));
        plot.names(&here, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, over: u64, under: u64, goodput: f64) -> MitigationRow {
        MitigationRow {
            target: name.into(),
            allowed_max: 1_000,
            allowed_min: 1_000,
            over_admitted: over,
            under_admitted: under,
            peak_goodput_rps: Some(goodput),
            verdict: ErrorVerdict::Within,
            ..MitigationRow::default()
        }
    }

    #[test]
    fn what_admits_more_than_stated_has_another_mark_and_all_have_names() {
        let mut wrong = row("planted", 90, 0, 9_000.0);
        wrong.verdict = ErrorVerdict::OverBeyond;
        let rows = [
            row("exact", 0, 0, 1_000.0),
            row("local:25", 0, 20, 3_000.0),
            wrong,
        ];
        let rows: Vec<&MitigationRow> = rows.iter().collect();
        let svg = goodput(&rows, Lang::En).unwrap().svg;
        for name in ["exact", "local:25", "planted"] {
            assert!(svg.contains(&format!(">{name}<")), "{svg}");
        }
        assert!(svg.contains("mark s6"), "{svg}");
        assert!(cpu(&rows, Lang::En).is_none(), "no CPU was measured");
    }

    #[test]
    fn what_was_not_judged_has_no_place() {
        let rows = [MitigationRow {
            peak_goodput_rps: Some(1.0),
            ..MitigationRow::default()
        }];
        let rows: Vec<&MitigationRow> = rows.iter().collect();
        assert!(goodput(&rows, Lang::En).is_none());
    }
}
