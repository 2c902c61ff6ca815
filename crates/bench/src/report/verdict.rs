//! The verdict in sentences. A sentence appears only if the rows support it; what they do not
//! support is said to be open.

use crate::record::paper::PaperRecord;
use crate::record::recovery::{RecoveryVariant, RecoveryVerdict};
use crate::record::{
    Cell, CompareRecord, CompareRow, Difference, Grade, RunRecord, STARTS_FOR_A_CLAIM, Spread,
    Validity, unequal,
};

use super::findings::{
    Advantage, CellFindings, Ranked, ScenarioFindings, advantage, never_over_admitted, scenarios,
    why,
};
use super::format::{count, or_dash, percent, rate, ratio, significant};
use super::lang::recorded::recorded;
use super::lang::{Lang, Text, sentences as t};
use super::{mitigations, words};

/// The verdict of a run: one sentence per scenario, then accuracy, then what limits belief in it.
pub(crate) fn run(record: &RunRecord, lang: Lang) -> Vec<String> {
    let mut out = Vec::new();
    let partial = || partial(lang, record.complete, record.partial_reason.as_deref());
    if let Some(study) = record.tests_of_study() {
        out.push(repeated(study, lang));
        out.extend(partial());
        return out;
    }
    if record.cells.iter().all(|cell| cell.steps.is_empty()) {
        out.push(t::NOTHING_MEASURED.of(lang).to_owned());
        out.extend(match &record.partial_reason {
            Some(why) if !record.complete => Some(t::PARTIAL_EMPTY.with(lang, &[("why", why)])),
            _ => None,
        });
        return out;
    }
    out.extend(spoiled(record, lang));
    // Strategies are no systems of their own: what they save counts only beside their error.
    if mitigations::of(record).is_some() {
        out.extend(mitigations::sentences(record, lang));
        out.extend(partial());
        return out;
    }
    out.extend(
        scenarios(record)
            .iter()
            .map(|scenario| sentence(lang, scenario, &record.profile.name)),
    );
    out.extend(
        record
            .cells
            .iter()
            .filter_map(|cell| after_overload(cell, lang)),
    );
    out.extend(few_starts(lang, record));
    out.extend(match never_over_admitted(record) {
        Some(true) => Some(t::NEVER_OVER.of(lang).to_owned()),
        Some(false) => Some(over_admitting(lang, record)),
        None => None,
    });
    out.extend(under_admitting(lang, record));
    out.extend(broken_promises(lang, record));
    out.extend(partial());
    out
}

/// What the tests of a study come to: they rank nothing by load.
fn repeated(study: &PaperRecord, lang: Lang) -> String {
    let rows = study.tables.iter().flat_map(|table| &table.rows);
    let (rows, systems) = (
        rows.filter(|row| row.ours.is_some()).count().to_string(),
        study.systems().join(", "),
    );
    let values = [
        ("study", study.study.as_str()),
        ("n", &rows),
        ("systems", &systems),
    ];
    t::STUDY_REPEATED.with(lang, &values)
}

/// Cells that are told one by one where a run is invalid.
const SPOILED_MAX: usize = 3;

/// Which figures of an invalid run are no results, and why. What else was measured stays.
fn spoiled(record: &RunRecord, lang: Lang) -> Option<String> {
    if record.validity.grade != Grade::Invalid {
        return None;
    }
    let found = record.cells.iter().map(|cell| (cell, cell.validity()));
    let spoiled: Vec<(&Cell, Validity)> = found
        .filter(|(_, validity)| validity.grade == Grade::Invalid)
        .collect();
    let why = |validity: &Validity| {
        let gravest = validity.reasons.first().map_or("", String::as_str);
        recorded(gravest, lang).into_owned()
    };
    if spoiled.is_empty() {
        return Some(t::RUN_INVALID.with(lang, &[("why", &why(&record.validity))]));
    }
    let mut names: Vec<String> = spoiled
        .iter()
        .take(SPOILED_MAX)
        .map(|(cell, validity)| format!("{}: {}", cell.title(), why(validity)))
        .collect();
    if let more @ 1.. = spoiled.len().saturating_sub(SPOILED_MAX) {
        names.push(t::AND_MORE.with(lang, &[("n", &more.to_string())]));
    }
    let text = match spoiled.len() == record.cells.len() {
        true => t::RUN_INVALID.with(lang, &[("why", &names.join("; "))]),
        false => t::CELLS_INVALID.with(lang, &[("names", &names.join("; "))]),
    };
    Some(text)
}

/// Whether a system came back after an overload, by the clients that were tried; `None` where that was not looked at.
fn after_overload(cell: &Cell, lang: Lang) -> Option<String> {
    let found = cell.recovery.as_ref()?;
    let [_, overload, after] = &found.phases[..] else {
        return None;
    };
    let clients = |variant: &RecoveryVariant| {
        let deadline = match variant.deadline_ms {
            Some(ms) => t::CLIENTS_DEADLINE.with(lang, &[("ms", &significant(ms))]),
            None => t::CLIENTS_PATIENT.of(lang).to_owned(),
        };
        let became = match (variant.verdict, variant.time_to_recover_s) {
            (RecoveryVerdict::Recovered, Some(time)) => {
                t::BACK_AFTER.with(lang, &[("seconds", &format!("{time:.0}"))])
            }
            (verdict, _) => words::recovery(verdict, lang).to_owned(),
        };
        let became = words::marked(became, variant.validity.grade, lang);
        let retries = variant.retries.to_string();
        let values = [
            ("retries", retries.as_str()),
            ("deadline", &deadline),
            ("became", &became),
        ];
        match variant.retries {
            0 => t::CLIENTS_NEVER_AGAIN.with(lang, &values),
            _ => t::CLIENTS_AGAIN.with(lang, &values),
        }
    };
    let told: Vec<String> = found.variants.iter().map(clients).collect();
    if told.is_empty() {
        return None;
    }
    let healing = found.healing.as_ref().map_or_else(String::new, |healing| {
        format!("; {}", recorded(&healing.sentence, lang))
    });
    let seconds = format!("{:.0}", overload.length_s);
    let text = t::AFTER_OVERLOAD.with(
        lang,
        &[
            ("cell", &cell.title()),
            ("seconds", &seconds),
            ("load", &rate(overload.rate_rps)),
            ("after", &rate(after.rate_rps)),
            ("clients", &told.join("; ")),
            ("healing", &healing),
        ],
    );
    Some(text)
}

/// What rows of few starts cannot carry.
fn few_starts(lang: Lang, record: &RunRecord) -> Option<String> {
    let starts = record.starts.as_ref().map_or(1, |starts| starts.done);
    let (n, needed) = (starts.to_string(), STARTS_FOR_A_CLAIM.to_string());
    let text = t::FEW_STARTS;
    (starts < STARTS_FOR_A_CLAIM).then(|| text.with(lang, &[("n", &n), ("needed", &needed)]))
}

/// `target with operation`.
fn name(lang: Lang, cell: &Cell) -> String {
    let operation = cell.operation.title.as_str();
    t::WITH.with(lang, &[("target", &cell.target), ("operation", operation)])
}

fn sentence(lang: Lang, scenario: &ScenarioFindings<'_>, profile: &str) -> String {
    let right = || scenario.ranked.iter().filter(|r| !r.findings.over_admits);
    let Some(best) = right().next() else {
        return none_kept_its_limit(lang, scenario);
    };
    let Some(sustained) = best.findings.sustained_rps else {
        return nothing_held(lang, scenario, profile);
    };
    let (not, end) = match (best.findings.not_held_rps, best.findings.doubtful_rps) {
        _ if best.findings.median_of > 1 => (of_starts(lang, &best.findings), ""),
        (Some(above), _) => (and_not(lang, above, best.findings.held_above_rps), ""),
        (None, Some(_)) => (String::new(), t::NOT_BOUNDED.of(lang)),
        (None, None) => (String::new(), t::TOP_OF_LADDER.of(lang)),
    };
    let mut out = t::HELD.with(
        lang,
        &[
            ("scenario", &scenario.title(lang)),
            ("cell", &name(lang, best.cell)),
            ("load", &rate(sustained)),
            ("not", &not),
            ("profile", profile),
            ("end", end),
        ],
    );
    let others = || right().skip(1);
    let unlike = |other: &Ranked<'_>| scenario.differences(&best.cell.target, &other.cell.target);
    let comparable = |other: &&Ranked<'_>| scenario.unequal_allowed || unlike(other).is_empty();
    if let Some(other) = others()
        .filter(comparable)
        .find(|other| other.cell.target != best.cell.target)
        .or_else(|| others().find(comparable))
    {
        out.push_str(&against(lang, best, other));
        out.push_str(&unlike_mark(lang, &unlike(other)));
    }
    let mut told: Vec<&str> = Vec::new();
    for other in others().filter(|other| !comparable(other)) {
        if !told.contains(&other.cell.target.as_str()) {
            told.push(&other.cell.target);
            out.push_str(&beside(lang, other, &unlike(other)));
        }
    }
    out.push_str(&like_for_like(lang, scenario).unwrap_or_default());
    out.push('.');
    out
}

/// Of how many starts the held load is the median, and what these held.
fn of_starts(lang: Lang, found: &CellFindings) -> String {
    let n = found.median_of.to_string();
    match found.held_between() {
        Some((low, high)) => t::MEDIAN_BETWEEN.with(
            lang,
            &[("n", &n), ("low", &rate(low)), ("high", &rate(high))],
        ),
        None => t::MEDIAN_OF.with(lang, &[("n", &n)]),
    }
}

/// The load that was too much, and how far single trials speak against that.
fn and_not(lang: Lang, above: f64, held_above: Option<f64>) -> String {
    let load = rate(above);
    match held_above {
        None => t::AND_NOT.with(lang, &[("load", &load)]),
        Some(held) => t::AND_NOT_MOSTLY.with(lang, &[("load", &load), ("held", &rate(held))]),
    }
}

fn none_kept_its_limit(lang: Lang, scenario: &ScenarioFindings<'_>) -> String {
    if scenario.ranked.is_empty() {
        return String::new();
    }
    t::NONE_KEPT_LIMIT.with(lang, &[("scenario", &scenario.title(lang))])
}

fn nothing_held(lang: Lang, scenario: &ScenarioFindings<'_>, profile: &str) -> String {
    let findings = || scenario.ranked.iter().map(|ranked| &ranked.findings);
    let title = scenario.title(lang);
    if findings().all(|found| found.not_held_rps.is_none()) {
        return t::HELD_NONE_VALID.with(lang, &[("scenario", &title)]);
    }
    let lowest = findings()
        .filter_map(|found| found.not_held_rps)
        .min_by(f64::total_cmp);
    let right = scenario.ranked.iter().filter(|r| !r.findings.over_admits);
    let alone = right
        .filter(|ranked| ranked.findings.held_alone_rps.is_some())
        .max_by(|a, b| {
            let held = |ranked: &Ranked<'_>| ranked.findings.held_alone_rps.unwrap_or(0.0);
            held(a).total_cmp(&held(b))
        });
    if let Some(what) = alone.and_then(|ranked| held_alone(lang, ranked)) {
        let values = [("scenario", &*title), ("profile", profile), ("what", &what)];
        return t::HELD_NONE_FROM_BOTTOM.with(lang, &values);
    }
    let load = or_dash(lowest, rate);
    t::HELD_NONE.with(
        lang,
        &[("scenario", &title), ("load", &load), ("profile", profile)],
    )
}

/// What a ladder shows whose lowest row was not held while higher ones were; `None` of any other.
fn held_alone(lang: Lang, ranked: &Ranked<'_>) -> Option<String> {
    let found = &ranked.findings;
    let (lowest, held) = (rate(found.not_held_rps?), rate(found.held_alone_rps?));
    let cell = name(lang, ranked.cell);
    let values = [("cell", &*cell), ("load", &lowest), ("held", &held)];
    Some(t::WHAT_HELD_ALONE.with(lang, &values))
}

/// What a target held that was not set up as the best was: told, and not set against it.
fn beside(lang: Lang, other: &Ranked<'_>, differences: &[Difference]) -> String {
    let (cell, why) = (name(lang, other.cell), why(differences, lang));
    let held = other.findings.sustained_rps.map(|held| {
        let values = [("cell", &*cell), ("load", &rate(held))];
        t::WHAT_HELD.with(lang, &values)
    });
    match held.or_else(|| held_alone(lang, other)) {
        Some(what) => t::UNLIKE_HELD.with(lang, &[("what", &what), ("why", &why)]),
        None => t::UNLIKE_HELD_NOTHING.with(lang, &[("cell", &cell), ("why", &why)]),
    }
}

/// What follows a comparison of two that were not set up alike.
fn unlike_mark(lang: Lang, differences: &[Difference]) -> String {
    match differences {
        [] => String::new(),
        found => t::UNLIKE_MARK.with(lang, &[("why", &why(found, lang))]),
    }
}

/// What the best two targets held when asked exactly the same; `None` if the sentence says that already.
fn like_for_like(lang: Lang, scenario: &ScenarioFindings<'_>) -> Option<String> {
    let mut same = scenario
        .ranked
        .iter()
        .filter(|ranked| ranked.cell.operation.like_for_like && !ranked.findings.over_admits);
    let best = same.next()?;
    let other = same.find(|other| {
        other.cell.target != best.cell.target
            && other.cell.operation.name == best.cell.operation.name
    })?;
    if scenario.ranked.first()?.cell.operation.like_for_like {
        return None;
    }
    let held = |ranked: &Ranked<'_>| {
        let load = ranked.findings.sustained_rps;
        let none = match ranked.findings.held_alone_rps {
            _ if ranked.cell.is_searched() => t::HELD_NOTHING_SHOWN,
            Some(_) => t::HELD_NOTHING_FROM_BOTTOM,
            None => t::HELD_NOTHING,
        };
        let load = load.map_or(none.of(lang).to_owned(), |rps| format!("{}/s", rate(rps)));
        t::ONE_HELD.with(lang, &[("target", &ranked.cell.target), ("load", &load)])
    };
    let operation = best.cell.operation.title.as_str();
    let (one, other_held) = (held(best), held(other));
    let mut text = t::ASKED_THE_SAME.with(
        lang,
        &[
            ("operation", operation),
            ("one", &one),
            ("other", &other_held),
        ],
    );
    text.push_str(&unlike_mark(
        lang,
        &scenario.differences(&best.cell.target, &other.cell.target),
    ));
    Some(text)
}

fn against(lang: Lang, best: &Ranked<'_>, other: &Ranked<'_>) -> String {
    let cell = name(lang, other.cell);
    let Some(held) = other.findings.sustained_rps else {
        if let Some(what) = held_alone(lang, other) {
            return format!("; {what}");
        }
        let text = if other.cell.is_searched() {
            // Rows below where the search ended may have held, each by a single trial.
            t::OTHER_NONE_SHOWN
        } else if other.findings.doubtful_rps.is_none() {
            t::OTHER_HELD_NO_ROW
        } else {
            t::OTHER_HELD_NO_VALID_ROW
        };
        return text.with(lang, &[("cell", &cell)]);
    };
    let held = rate(held);
    let what = t::WHAT_HELD.with(lang, &[("cell", &cell), ("load", &held)]);
    let mut out = match advantage(&best.findings, &other.findings) {
        Advantage::Between(low, high) => {
            let (low, high) = (significant(low), significant(high));
            t::TIMES_BETWEEN.with(lang, &[("low", &low), ("high", &high), ("what", &what)])
        }
        Advantage::AtLeast(low) => {
            t::TIMES_AT_LEAST.with(lang, &[("low", &significant(low)), ("what", &what)])
        }
        Advantage::Shown {
            ratio,
            within: (low, high),
            n,
            p,
        } => t::TIMES_SHOWN.with(
            lang,
            &[
                ("ratio", &significant(ratio)),
                ("low", &significant(low)),
                ("high", &significant(high)),
                ("n", &n.to_string()),
                ("p", &format!("{p:.3}")),
                ("what", &what),
            ],
        ),
        Advantage::Open => t::CANNOT_RANK.with(lang, &[("what", &what)]),
        Advantage::NotShown => t::NO_DIFFERENCE.with(lang, &[("cell", &cell), ("load", &held)]),
    };
    out.push_str(&cpu(lang, best, other).unwrap_or_default());
    out
}

/// Server CPU of both at the common load, if both were measured there.
fn cpu(lang: Lang, best: &Ranked<'_>, other: &Ranked<'_>) -> Option<String> {
    let at = |ranked: &Ranked<'_>| ranked.common?.server?.cpu_us_per_op;
    let (mine, theirs) = (at(best)?, at(other)?);
    let (load, apart) = (
        rate(best.common?.target_rps),
        rate(other.common?.target_rps),
    );
    let (ours, theirs_text) = (significant(mine), significant(theirs));
    let text = if load == apart {
        t::CPU_COST
    } else {
        t::CPU_COST_APART
    };
    let values = [
        ("load", load.as_str()),
        ("apart", &apart),
        ("mine", &ours),
        ("theirs", &theirs_text),
    ];
    (mine > 0.0 && theirs > 0.0).then(|| text.with(lang, &values))
}

fn over_admitting(lang: Lang, record: &RunRecord) -> String {
    let over = |cell: &&Cell| {
        let steps = cell.steps.iter().filter_map(|step| step.accuracy.as_ref());
        cell.accuracy
            .iter()
            .chain(steps)
            .any(|accuracy| !accuracy.never_over())
    };
    let names: Vec<String> = record.cells.iter().filter(over).map(Cell::title).collect();
    t::ADMITTED_OVER.with(lang, &[("names", &names.join("; "))])
}

/// Cells that denied what their limit allows, and how much of it.
fn under_admitting(lang: Lang, record: &RunRecord) -> Option<String> {
    let told = |cell: &Cell| {
        let found = cell.accuracy.as_ref().filter(|it| !it.never_under())?;
        let share = percent(found.under_admission_percent);
        Some(format!("{} ({share} %)", cell.title()))
    };
    let names: Vec<String> = record.cells.iter().filter_map(told).collect();
    let text = || t::DENIED_TOO_MUCH.with(lang, &[("names", &names.join("; "))]);
    (!names.is_empty()).then(text)
}

/// Cells whose denials promised a wait that was not the one seen.
fn broken_promises(lang: Lang, record: &RunRecord) -> Option<String> {
    let told = |cell: &Cell| {
        let found = cell.accuracy.as_ref()?.retry_after?;
        let wrong = found.too_short + found.too_long;
        let worst = found.worst_too_short_ms.max(found.worst_too_long_ms);
        let values = [
            ("cell", cell.title()),
            ("short", count(found.too_short)),
            ("long", count(found.too_long)),
            ("n", count(found.checked)),
            ("worst", significant(worst)),
        ];
        let values = values
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        (wrong > 0).then(|| t::PROMISES_OF.with(lang, &values))
    };
    let names: Vec<String> = record.cells.iter().filter_map(told).collect();
    let text = || t::PROMISES_BROKEN.with(lang, &[("names", &names.join("; "))]);
    (!names.is_empty()).then(text)
}

fn partial(lang: Lang, complete: bool, reason: Option<&str>) -> Option<String> {
    let why = reason.unwrap_or(t::ENDED_EARLY.of(lang));
    (!complete).then(|| t::PARTIAL_RUN.with(lang, &[("why", why)]))
}

/// The verdict of a paired comparison: one sentence per row.
pub(crate) fn compare(record: &CompareRecord, lang: Lang) -> Vec<String> {
    let mut out: Vec<String> = record
        .rows
        .iter()
        .flat_map(|row| {
            let notes = row.notes.iter().map(|note| {
                let note = recorded(note, lang);
                t::ROW_NOTE.with(lang, &[("load", &row.title), ("note", &note)])
            });
            compared(lang, record, row).into_iter().chain(notes)
        })
        .collect();
    if out.is_empty() && record.overload.is_empty() {
        out.push(t::PAIRS_NONE.of(lang).to_owned());
    }
    let unlike = unequal(&record.a, &record.b);
    if !unlike.is_empty() {
        out.insert(
            0,
            t::PAIRS_UNLIKE.with(lang, &[("why", &why(&unlike, lang))]),
        );
    }
    out.extend(partial(
        lang,
        record.complete,
        record.partial_reason.as_deref(),
    ));
    out
}

fn compared(lang: Lang, record: &CompareRecord, row: &CompareRow) -> Option<String> {
    let (what, spread) = row
        .ratios
        .server_cpu_b_over_a
        .map(|spread| (t::SERVER_CPU_PER_REQUEST, spread))
        .or_else(|| latency(row))?;
    let (a, b) = (record.a.name.as_str(), record.b.name.as_str());
    let (what, n) = (what.of(lang), spread.n.to_string());
    let base = [
        ("load", row.title.as_str()),
        ("what", what),
        ("n", n.as_str()),
    ];
    if !spread.excludes_one() {
        return Some(
            t::PAIRS_NO_DIFFERENCE.with(lang, &[&base[..], &[("a", a), ("b", b)]].concat()),
        );
    }
    let (slower, faster, shown) = if spread.median >= 1.0 {
        (b, a, spread)
    } else {
        let turned = Spread {
            median: 1.0 / spread.median,
            q25: 1.0 / spread.q75,
            q75: 1.0 / spread.q25,
            ..spread
        };
        (a, b, turned)
    };
    let ratio = quartiles(shown);
    let more = [
        ("slower", slower),
        ("faster", faster),
        ("ratio", ratio.as_str()),
    ];
    Some(t::PAIRS_TAKES.with(lang, &[&base[..], &more].concat()))
}

/// The latency to go by: of requests that come at a rate of their own, what few of them wait for is what a server that
/// stands still for a while shows.
fn latency(row: &CompareRow) -> Option<(Text, Spread)> {
    let ratios = &row.ratios;
    Some(match row.target_rps {
        Some(_) => (t::P99_LATENCY, ratios.latency_p99_b_over_a?),
        None => (t::MEDIAN_LATENCY, ratios.latency_p50_b_over_a?),
    })
}

fn quartiles(spread: Spread) -> String {
    format!(
        "{} [{}–{}]",
        ratio(spread.median),
        significant(spread.q25),
        significant(spread.q75)
    )
}
