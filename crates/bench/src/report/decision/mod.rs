//! What the numbers mean for a choice: two systems head to head, criteria with their winners, what to do at which load, and how
//! each system fails. A winner is named only where enough fresh starts show a difference that is worth a sentence.

mod rivals;
mod verdicts;

use crate::record::{Cell, RunRecord};

use super::advice::{Capacity, capacities};
use super::findings::{CellFindings, ScenarioFindings};
use super::format::{percent, rate, ratio};
use super::lang::{Lang, Text, decision as t, page};
use super::observations::retention_class;
use super::words;

pub(crate) use rivals::{Rivals, at_the_knee, head_to_head, rivals};
pub(crate) use verdicts::verdicts;

/// Shares of keys from which on a scenario is one of a hot key: its most wanted key takes this many times its even share.
const HOT_WORD: &str = "hot";

/// How many times a system's own safe load another one's must be to be recommended.
const WORTH_A_MOVE: f64 = 1.05;

/// Whether a scenario is about a hot key.
fn is_hot(cell: &Cell) -> bool {
    cell.scenario.distribution.starts_with(HOT_WORD)
}

/// A situation in words, and what the run says to it.
pub(crate) struct Advice {
    pub(crate) situation: String,
    pub(crate) answer: String,
}

/// What to do at which load, for whoever runs the system that holds less; nothing without a load that was held.
pub(crate) fn advice(
    record: &RunRecord,
    scenarios: &[ScenarioFindings<'_>],
    lang: Lang,
) -> Vec<Advice> {
    // Strategies are ways to run one service, not services to choose from.
    if record.mitigations.is_some() {
        return Vec::new();
    }
    let mut held = capacities(record);
    held.sort_by(|a, b| a.sustained_rps.total_cmp(&b.sustained_rps));
    // Stores and services are not set against each other: where there is a choice among one kind, that is what is asked.
    let choice = |one: &&Capacity<'_>| {
        let other =
            |other: &Capacity<'_>| other.kind == one.kind && other.cell.target != one.cell.target;
        held.iter().any(other)
    };
    let Some(own) = held.iter().find(choice).or(held.first()) else {
        return Vec::new();
    };
    let may_choose = scenarios.iter().all(ScenarioFindings::may_rank);
    let better = held.iter().rev().find(|other| {
        let rival = other.kind == own.kind && other.cell.target != own.cell.target;
        may_choose && rival && other.safe_rps > own.safe_rps * WORTH_A_MOVE
    });
    let mut out = at_loads(own, better, lang);
    out.push(Advice {
        situation: t::D_NEW.of(lang).into(),
        answer: anew(scenarios, lang),
    });
    out.extend(hot_key(scenarios, lang));
    out
}

fn at_loads(own: &Capacity<'_>, better: Option<&Capacity<'_>>, lang: Lang) -> Vec<Advice> {
    let (safe, held) = (rate(own.safe_rps), rate(own.sustained_rps));
    let mut values = vec![
        ("own", own.cell.target.as_str()),
        ("safe", &safe),
        ("held", &held),
    ];
    let more = better.map(|other| (other.cell.target.clone(), rate(other.safe_rps)));
    if let Some((name, safe)) = &more {
        values.extend([("other", name.as_str()), ("other_safe", safe.as_str())]);
    }
    let bounded = CellFindings::of(own.cell).not_held_rps.is_some();
    let (near, beyond) = match better {
        None if !bounded => (t::D_NOT_BOUNDED, t::D_UNKNOWN),
        Some(other) if other.safe_rps > own.sustained_rps => (t::D_CONSIDER, t::D_MOVE),
        Some(_) => (t::D_CONSIDER, t::D_MOVE_OR_SPREAD),
        None => (t::D_ADD, t::D_SPREAD),
    };
    [
        (t::D_LESS, t::D_STAY),
        (t::D_NEAR, near),
        (t::D_MORE, beyond),
    ]
    .into_iter()
    .map(|(situation, answer)| Advice {
        situation: situation.with(lang, &values),
        answer: answer.with(lang, &values),
    })
    .collect()
}

/// The system to begin with: the one that is shown to hold more, if one is.
fn anew(scenarios: &[ScenarioFindings<'_>], lang: Lang) -> String {
    let found = scenarios.iter().filter_map(rivals);
    let mut shown: Vec<String> = found
        .filter(Rivals::holds_more)
        .map(|pair| {
            let scenario = pair.scenario.title(lang);
            let values = [
                ("name", pair.best.cell.target.as_str()),
                ("scenario", &scenario),
            ];
            t::D_BEGIN_WITH.with(lang, &values)
        })
        .collect();
    shown.dedup();
    match shown.as_slice() {
        [] => t::D_BEGIN_ANY.of(lang).into(),
        some => some.join("; "),
    }
}

/// How far a hot key lowers what is held, by the best system of the hot scenario.
fn hot_key(scenarios: &[ScenarioFindings<'_>], lang: Lang) -> Option<Advice> {
    let best = |hot: bool| {
        let of = scenarios.iter().filter(|scenario| {
            let cell = scenario.ranked.first().map(|best| best.cell);
            cell.is_some_and(|cell| is_hot(cell) == hot && cell.scenario.keys > 1)
        });
        of.filter_map(|scenario| scenario.ranked.first()).next()
    };
    let hot = best(true)?;
    let held = hot.findings.sustained_rps?;
    let even = best(false).filter(|even| even.cell.target == hot.cell.target);
    let beside = even.and_then(|even| even.findings.sustained_rps);
    let beside = beside.map_or_else(String::new, |even| {
        t::D_HOT_BESIDE.with(lang, &[("ratio", &ratio(held / even))])
    });
    Some(Advice {
        situation: t::D_HOT.of(lang).into(),
        answer: t::D_HOT_HELD.with(
            lang,
            &[
                ("name", hot.cell.target.as_str()),
                ("held", &rate(held)),
                ("beside", &beside),
            ],
        ),
    })
}

/// How the systems fail: a row for each system with a column per pattern.
pub(crate) struct Lessons {
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Patterns that no system was measured for, in a sentence each.
    pub(crate) untried: Vec<String>,
}

/// What a cell of the run says of a pattern.
type Told = fn(&Cell, &CellFindings, Lang) -> String;

/// Threshold breach, recovery and cascading of every cell that was measured past its limit; `None` where none was.
pub(crate) fn lessons(record: &RunRecord, lang: Lang) -> Option<Lessons> {
    let told: Vec<(&Cell, CellFindings)> = record
        .cells
        .iter()
        .map(|cell| (cell, CellFindings::of(cell)))
        .filter(|(cell, found)| found.retention.is_some() || cell.recovery.is_some())
        .collect();
    if told.is_empty() {
        return None;
    }
    let variants = || told.iter().filter_map(|(cell, _)| cell.recovery.as_ref());
    let retried = variants().any(|found| found.variants.iter().any(|one| one.retries > 0));
    let recovered = variants().next().is_some();
    let mut columns: Vec<(Text, Told)> = vec![(t::D_BREACH, breach)];
    let mut untried = Vec::new();
    for (name, tried, of, why) in [
        (t::D_RECOVERY, recovered, recovery as Told, t::D_NOT_TRIED),
        (t::D_CASCADE, retried, cascade, t::D_NO_RETRIES),
    ] {
        match tried {
            true => columns.push((name, of)),
            false => untried.push(format!("{}: {}.", name.of(lang), why.of(lang))),
        }
    }
    let mut heads = vec![page::H_CELL.of(lang).to_owned()];
    heads.extend(columns.iter().map(|(name, _)| name.of(lang).to_owned()));
    let row = |(cell, found): &(&Cell, CellFindings)| {
        let mut fields = vec![cell.title()];
        fields.extend(columns.iter().map(|(_, of)| of(cell, found, lang)));
        fields
    };
    Some(Lessons {
        heads,
        rows: told.iter().map(row).collect(),
        untried,
    })
}

fn breach(_: &Cell, found: &CellFindings, lang: Lang) -> String {
    let Some((times, kept)) = found.retention else {
        return t::D_NOT_PAST.of(lang).into();
    };
    format!(
        "{} ({} % @ {})",
        retention_class(kept).of(lang),
        percent(kept * 100.0),
        ratio(times)
    )
}

/// What became of the system after an overload, where that was tried: steps that ran one after another prove nothing.
fn recovery(cell: &Cell, _: &CellFindings, lang: Lang) -> String {
    let Some(found) = &cell.recovery else {
        return t::D_NOT_TRIED.of(lang).into();
    };
    let hardest = found.hardest().map(|at| &found.variants[at]);
    hardest.map_or_else(String::new, |variant| {
        let verdict = words::recovery(variant.verdict, lang);
        let retries = variant.retries.to_string();
        let text = t::D_WITH_RETRIES.with(lang, &[("verdict", verdict), ("retries", &retries)]);
        words::marked(text, variant.validity.grade, lang)
    })
}

/// What clients that try again add to an overload.
fn cascade(cell: &Cell, _: &CellFindings, lang: Lang) -> String {
    let variants = cell.recovery.iter().flat_map(|found| &found.variants);
    let worst = variants
        .filter(|variant| variant.retries > 0)
        .max_by(|a, b| a.amplification.total_cmp(&b.amplification));
    match worst {
        None => t::D_NO_RETRIES.of(lang).into(),
        Some(variant) => {
            let times = ratio(variant.amplification);
            t::D_AMPLIFIED.with(lang, &[("times", &times)])
        }
    }
}
