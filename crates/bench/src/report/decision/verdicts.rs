//! Criteria, each with what was measured of both systems and with its winner, if one is shown.

use crate::record::{Cell, RunRecord, StartSample, Step};

use super::super::findings::{
    Advantage, Ranked, ScenarioFindings, judgements, never_over_admitted, over_admission,
};
use super::super::format::{bytes, latency, or_dash, percent, rate, significant};
use super::super::lang::{Lang, Text, decision as t};
use super::rivals::failure;
use super::{Rivals, is_hot, rivals};

/// The table of criteria, and what they come to.
pub(crate) struct Verdicts {
    /// Criterion, winner or that there is none, and the figures.
    pub(crate) rows: Vec<[String; 3]>,
    /// The winner of everything that has one, or that there is none.
    pub(crate) overall: String,
}

/// One criterion as it is found.
struct Found {
    criterion: Text,
    winner: Option<String>,
    detail: String,
}

/// The criteria of the study that a bench can measure, then those it cannot. `None` without two systems to set side by side.
pub(crate) fn verdicts(
    record: &RunRecord,
    scenarios: &[ScenarioFindings<'_>],
    lang: Lang,
) -> Option<Verdicts> {
    if record.mitigations.is_some() {
        return None;
    }
    let pairs: Vec<Rivals<'_>> = scenarios.iter().filter_map(rivals).collect();
    let hot = |pair: &&Rivals<'_>| is_hot(pair.best.cell);
    let even = pairs
        .iter()
        .find(|pair| !hot(pair) && pair.best.cell.scenario.keys > 1);
    let first = even
        .or_else(|| pairs.iter().find(|pair| !hot(pair)))
        .or(pairs.first())?;
    let mut found = vec![
        throughput(t::D_C_THROUGHPUT, first, lang),
        latency_of(first, lang),
        cost(first, lang),
        resilience(first, lang),
        accuracy(record, first, lang),
        memory(first),
    ];
    found.extend(
        pairs
            .iter()
            .find(hot)
            .map(|pair| throughput(t::D_C_HOT, pair, lang)),
    );
    let overall = overall(&found, lang);
    let mut rows: Vec<[String; 3]> = found
        .into_iter()
        .map(|one| {
            let winner = one.winner.unwrap_or_else(|| t::D_NO_WINNER.of(lang).into());
            [one.criterion.of(lang).to_owned(), winner, one.detail]
        })
        .collect();
    rows.push([
        t::D_C_OTHERS.of(lang).into(),
        t::D_NOT_MEASURED.of(lang).into(),
        t::D_NOT_MEASURED_WHY.of(lang).into(),
    ]);
    Some(Verdicts { rows, overall })
}

/// `redis 17,500 · dragonfly 22,500`: both sides of a figure.
fn both(pair: &Rivals<'_>, of: impl Fn(&Ranked<'_>) -> String) -> String {
    let side = |ranked| format!("{} {}", pair_name(ranked), of(ranked));
    format!("{} · {}", side(pair.best), side(pair.other))
}

fn pair_name<'a>(ranked: &'a Ranked<'_>) -> &'a str {
    ranked.cell.target.as_str()
}

fn throughput(criterion: Text, pair: &Rivals<'_>, lang: Lang) -> Found {
    let held = |ranked: &Ranked<'_>| format!("{}/s", or_dash(ranked.findings.sustained_rps, rate));
    Found {
        criterion,
        winner: pair.holds_more().then(|| pair.best.cell.target.clone()),
        detail: t::D_IN_SCENARIO.with(
            lang,
            &[
                ("figures", &both(pair, held)),
                ("scenario", &pair.scenario.title(lang)),
            ],
        ),
    }
}

/// Who is lower in a figure of which less is better, by the starts at the common load.
fn lower(pair: &Rivals<'_>, pick: fn(&StartSample) -> Option<f64>) -> Option<String> {
    let (best, found) = pair.lower(pick)?;
    let side = if best { pair.best } else { pair.other };
    matches!(found, Advantage::Shown { .. }).then(|| side.cell.target.clone())
}

fn at_common(pair: &Rivals<'_>, lang: Lang, of: fn(&Step) -> Option<String>) -> String {
    let figure = |ranked: &Ranked<'_>| or_dash(ranked.common.and_then(of), |text| text);
    let load = or_dash(pair.common_text(), |text| text);
    t::D_AT_LOAD.with(lang, &[("figures", &both(pair, figure)), ("load", &load)])
}

fn latency_of(pair: &Rivals<'_>, lang: Lang) -> Found {
    Found {
        criterion: t::D_C_LATENCY,
        winner: lower(pair, |start| start.p99_us),
        detail: at_common(pair, lang, |step| {
            Some(latency(step.response.all.as_ref()?.p99_us))
        }),
    }
}

fn cost(pair: &Rivals<'_>, lang: Lang) -> Found {
    Found {
        criterion: t::D_C_COST,
        winner: lower(pair, |start| start.server_cpu_us_per_op),
        detail: at_common(pair, lang, |step| {
            Some(format!("{} µs", significant(step.server?.cpu_us_per_op?)))
        }),
    }
}

/// Told and not tested: what is left past the limit is one figure of the whole ladder.
fn resilience(pair: &Rivals<'_>, lang: Lang) -> Found {
    Found {
        criterion: t::D_C_RESILIENCE,
        winner: None,
        detail: both(pair, |ranked| failure(&ranked.findings, lang)),
    }
}

/// Who admits more than its limit has lost, whatever else it does. A system of the pair kept its limits in its scenario.
fn accuracy(record: &RunRecord, pair: &Rivals<'_>, lang: Lang) -> Found {
    let detail = match never_over_admitted(record) {
        Some(true) => t::D_NONE_OVER.of(lang).to_owned(),
        Some(false) => {
            let wrong = record.cells.iter().filter(|cell| over_admits(cell));
            let names = wrong.map(|cell| {
                let worst = or_dash(over_admission(cell), percent);
                format!("{} {worst} %", cell.title())
            });
            t::D_SOME_OVER.with(lang, &[("names", &names.collect::<Vec<_>>().join("; "))])
        }
        None => t::D_NOT_JUDGED.of(lang).to_owned(),
    };
    let over = |name: &str| {
        let mut own = record.cells.iter().filter(|cell| cell.target == name);
        own.any(over_admits)
    };
    let (best, other) = (pair_name(pair.best), pair_name(pair.other));
    let winner = match (over(best), over(other)) {
        (false, true) => Some(best.to_owned()),
        (true, false) => Some(other.to_owned()),
        _ => None,
    };
    Found {
        criterion: t::D_C_ACCURACY,
        winner,
        detail,
    }
}

/// Whether an oracle found that more was admitted than the limiter states.
fn over_admits(cell: &Cell) -> bool {
    judgements(cell).any(|accuracy| !accuracy.never_over())
}

/// Told and not tested: memory is that of one process at one time.
fn memory(pair: &Rivals<'_>) -> Found {
    let resident = |ranked: &Ranked<'_>| {
        let server = ranked.common.and_then(|step| step.server);
        or_dash(server.and_then(|server| server.rss_bytes), bytes)
    };
    Found {
        criterion: t::D_C_MEMORY,
        winner: None,
        detail: both(pair, resident),
    }
}

/// Who won every criterion that has a winner.
fn overall(found: &[Found], lang: Lang) -> String {
    let mut winners: Vec<&str> = found
        .iter()
        .filter_map(|one| one.winner.as_deref())
        .collect();
    let won = winners.len().to_string();
    winners.dedup();
    match winners.as_slice() {
        [one] => t::D_OVERALL.with(
            lang,
            &[
                ("name", one),
                ("won", &won),
                ("of", &found.len().to_string()),
            ],
        ),
        [] => t::D_OVERALL_NONE.of(lang).into(),
        _ => t::D_OVERALL_MIXED.of(lang).into(),
    }
}
