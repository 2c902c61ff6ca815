//! Strategies for hot keys as words, table rows and CSV.

use crate::record::{
    AgainstExact, ErrorVerdict, Grade, MitigationRow, MitigationStart, MitigationsRecord,
    RunRecord, STARTS_FOR_A_CLAIM,
};
use crate::statistics::mann_whitney;

use super::csv::{line, number};
use super::format::{or_dash, percent, rate, ratio, significant};
use super::lang::{Lang, Text, mitigations as t, page};
use super::table::{Column, TextCell, Tint, table};
use super::{TextStyle, words};
use crate::target::strategy::Strategy;

/// Probability by chance under which two strategies are told apart.
const TOLD_APART_BELOW: f64 = 0.05;

/// Columns of the tables in pages and documents.
pub(super) const HEADS: [Text; 13] = [
    t::MI_STRATEGY,
    page::H_PEAK,
    t::MI_OF_EXACT,
    t::MI_CPU,
    t::MI_CPU_OF_EXACT,
    t::MI_SERVICES_CPU,
    t::MI_STORE_CPU,
    t::MI_QUESTIONS,
    page::H_P50_P99,
    t::MI_OVER,
    t::MI_UNDER,
    t::MI_ERROR,
    t::MI_STUDY,
];

/// The comparison of a record, if it has rows.
pub(super) fn of(record: &RunRecord) -> Option<&MitigationsRecord> {
    let found = record.mitigations.as_ref();
    found.filter(|found| !found.rows.is_empty())
}

/// Scenarios in the order of their rows, each with its rows.
pub(super) fn by_scenario(found: &MitigationsRecord) -> Vec<(&str, Vec<&MitigationRow>)> {
    let mut out: Vec<(&str, Vec<&MitigationRow>)> = Vec::new();
    for row in &found.rows {
        match out.iter_mut().find(|(name, _)| *name == row.scenario) {
            Some((_, rows)) => rows.push(row),
            None => out.push((&row.scenario, vec![row])),
        }
    }
    out
}

/// The title of a scenario.
pub(super) fn title(record: &RunRecord, scenario: &str) -> String {
    let cell = record
        .cells
        .iter()
        .find(|cell| cell.scenario.name == scenario);
    cell.map_or_else(|| scenario.to_owned(), |cell| cell.scenario.title.clone())
}

/// Whether a strategy kept to what it states.
pub(super) fn error(verdict: ErrorVerdict, lang: Lang) -> &'static str {
    let text = match verdict {
        ErrorVerdict::Within => t::MI_WITHIN,
        ErrorVerdict::OverBeyond => t::MI_OVER_BEYOND,
        ErrorVerdict::UnderBeyond => t::MI_UNDER_BEYOND,
        ErrorVerdict::NotJudged => t::MI_NOT_JUDGED,
    };
    text.of(lang)
}

/// What the method was, above the rows.
pub(super) fn intro(found: &MitigationsRecord, lang: Lang) -> String {
    let mut loads: Vec<String> = found.rows.iter().map(|row| rate(row.common_rps)).collect();
    loads.dedup();
    let store = match found.store.server_version.as_str() {
        "" => found.store.name.clone(),
        version => format!("{} {version}", found.store.name),
    };
    t::MI_INTRO.with(
        lang,
        &[
            ("store", &store),
            ("services", &found.services.to_string()),
            ("load", &loads.join("/s, ")),
        ],
    )
}

/// A row under [`HEADS`].
pub(super) fn fields(row: &MitigationRow, lang: Lang) -> Vec<String> {
    let judged = row.verdict != ErrorVerdict::NotJudged;
    let beside = |measured: f64, stated: f64| match judged {
        true => format!("{} ({})", percent(measured), percent(stated)),
        false => super::format::DASH.to_owned(),
    };
    let p50_p99 = row.common_p50_us.zip(row.common_p99_us);
    let mut verdict = error(row.verdict, lang).to_owned();
    if row.validity.grade != Grade::Valid {
        verdict.push_str(&format!(" ({})", words::grade(row.validity.grade, lang)));
    }
    vec![
        row.target.clone(),
        or_dash(row.peak_goodput_rps, rate),
        of_exact(row.goodput_of_exact, row.goodput_against_exact),
        cpu(row),
        of_exact(row.cpu_of_exact, row.cpu_against_exact),
        or_dash(row.service_cpu_us_per_decision, significant),
        or_dash(row.store_cpu_us_per_decision, significant),
        or_dash(row.store_questions_per_decision, significant),
        or_dash(p50_p99, |(p50, p99)| {
            format!("{} / {}", significant(p50 / 1e3), significant(p99 / 1e3))
        }),
        beside(row.over_percent(), row.stated_over_percent()),
        beside(row.under_percent(), row.stated_under_percent()),
        verdict,
        or_dash(row.seed.as_ref(), |(accuracy, gain)| {
            format!("{}, {}", said(accuracy, lang), said(gain, lang))
        }),
    ]
}

/// A ratio to `exact` with its interval.
fn of_exact(value: Option<f64>, against: Option<AgainstExact>) -> String {
    or_dash(value, ratio) + &interval(against)
}

/// ` [6.1–6.9]`, or nothing without an interval.
fn interval(against: Option<AgainstExact>) -> String {
    let ci = against.and_then(|against| against.ci);
    ci.map_or_else(String::new, |(low, high)| {
        format!(" [{}–{}]", significant(low), significant(high))
    })
}

/// What the study says, in the reader's language.
fn said(text: &str, lang: Lang) -> String {
    let words = [t::MI_STUDY_ABOUT, t::MI_STUDY_LINEAR];
    let of = |text: String, word: Text| text.replace(word.en, word.of(lang));
    words.into_iter().fold(text.to_owned(), of)
}

/// CPU time of services and store with its spread over the rounds.
fn cpu(row: &MitigationRow) -> String {
    let spread = row.cpu_us_per_decision_spread.filter(|_| row.rounds > 1);
    let spread = spread.map_or_else(String::new, |(low, high)| {
        format!(" ({}–{})", significant(low), significant(high))
    });
    or_dash(row.cpu_us_per_decision(), |us| significant(us) + &spread)
}

/// All figures of a row in a sentence.
pub(super) fn tip(row: &MitigationRow, lang: Lang) -> String {
    t::MI_TIP.with(
        lang,
        &[
            ("name", &row.target),
            ("goodput", &or_dash(row.peak_goodput_rps, rate)),
            ("of_exact", &or_dash(row.goodput_of_exact, ratio)),
            ("cpu", &or_dash(row.cpu_us_per_decision(), significant)),
            (
                "questions",
                &or_dash(row.store_questions_per_decision, significant),
            ),
            ("over", &percent(row.over_percent())),
            ("stated_over", &percent(row.stated_over_percent())),
            ("under", &percent(row.under_percent())),
            ("stated_under", &percent(row.stated_under_percent())),
            ("verdict", error(row.verdict, lang)),
        ],
    )
}

/// What was found, in sentences.
pub(super) fn sentences(record: &RunRecord, lang: Lang) -> Vec<String> {
    let Some(found) = of(record) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (scenario, rows) in by_scenario(found) {
        let title = title(record, scenario);
        out.extend(best_goodput(&rows, &title, lang));
        out.extend(least_cpu(&rows, &title, lang));
    }
    let named = |verdict: ErrorVerdict| -> Option<String> {
        let rows = found.rows.iter().filter(|row| row.verdict == verdict);
        let names: Vec<&str> = rows.map(|row| row.target.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let over = named(ErrorVerdict::OverBeyond);
    let under = named(ErrorVerdict::UnderBeyond);
    if over.is_none() && under.is_none() && named(ErrorVerdict::Within).is_some() {
        out.push(t::MI_S_WITHIN.of(lang).to_owned());
    }
    out.extend(over.map(|names| t::MI_S_OVER.with(lang, &[("names", &names)])));
    out.extend(under.map(|names| t::MI_S_UNDER.with(lang, &[("names", &names)])));
    out.push(how_sure(found, lang));
    out
}

/// From how many starts the figures are, and what they allow to say.
fn how_sure(found: &MitigationsRecord, lang: Lang) -> String {
    let starts = found.rows.iter().map(|row| row.starts.len()).max();
    let rounds = found.rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    let rounds = rounds.to_string();
    let starts = starts.filter(|starts| *starts > 0).unwrap_or(1);
    let text = match starts {
        1 => t::MI_S_ONE_START,
        n if n < STARTS_FOR_A_CLAIM as usize => t::MI_S_FEW_STARTS,
        _ => t::MI_S_STARTS,
    };
    let needed = STARTS_FOR_A_CLAIM.to_string();
    text.with(
        lang,
        &[
            ("rounds", &rounds),
            ("n", &starts.to_string()),
            ("needed", &needed),
        ],
    )
}

/// The strategies whose starts cannot be told apart from those of `best`, as a sentence; `None` if all can, or if there
/// are too few starts to tell anything.
fn tied(
    rows: &[&MitigationRow],
    best: &MitigationRow,
    pick: fn(&MitigationStart) -> Option<f64>,
    lang: Lang,
) -> Option<String> {
    let values = |row: &MitigationRow| -> Vec<f64> { row.starts.iter().filter_map(pick).collect() };
    let own = values(best);
    let enough = |values: &[f64]| values.len() >= STARTS_FOR_A_CLAIM as usize;
    if !enough(&own) {
        return None;
    }
    let same = |row: &&&MitigationRow| {
        let other = values(row);
        let test = mann_whitney(&own, &other);
        enough(&other) && test.is_some_and(|test| test.p >= TOLD_APART_BELOW)
    };
    let others = rows.iter().filter(|row| row.target != best.target);
    let names: Vec<&str> = others
        .filter(|row| row.may_win())
        .filter(same)
        .map(|row| row.target.as_str())
        .collect();
    (!names.is_empty()).then(|| {
        t::MI_S_TIED.with(
            lang,
            &[("name", &best.target), ("others", &names.join(", "))],
        )
    })
}

fn best_goodput(rows: &[&MitigationRow], scenario: &str, lang: Lang) -> Option<String> {
    let may_win = rows
        .iter()
        .filter(|row| row.may_win() && row.validity.grade != Grade::Invalid);
    let (row, goodput) = may_win
        .filter_map(|row| Some((row, row.peak_goodput_rps?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let times = ratio(row.goodput_of_exact?) + &interval(row.goodput_against_exact);
    let tied = tied(rows, row, |start| start.peak_goodput_rps, lang);
    let said = t::MI_S_GOODPUT.with(
        lang,
        &[
            ("scenario", scenario),
            ("name", &row.target),
            ("goodput", &rate(goodput)),
            ("times", &times),
            ("over", &percent(row.over_percent())),
            ("under", &percent(row.under_percent())),
        ],
    );
    Some(said + &tied.unwrap_or_default())
}

fn least_cpu(rows: &[&MitigationRow], scenario: &str, lang: Lang) -> Option<String> {
    let may_win = rows
        .iter()
        .filter(|row| row.may_win() && row.validity.grade != Grade::Invalid);
    let (row, least) = may_win
        .filter_map(|row| Some((row, row.cpu_us_per_decision()?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let exact = Strategy::Exact.to_string();
    let exact = rows.iter().find(|row| row.target == exact)?;
    let exact = exact.cpu_us_per_decision()?;
    let times = ratio(row.cpu_of_exact?) + &interval(row.cpu_against_exact);
    let tied = tied(rows, row, |start| start.cpu_us_per_decision, lang);
    let said = t::MI_S_CPU.with(
        lang,
        &[
            ("scenario", scenario),
            ("load", &rate(row.common_rps)),
            ("name", &row.target),
            ("cpu", &significant(least)),
            ("exact", &significant(exact)),
            ("times", &times),
        ],
    );
    Some(said + &tied.unwrap_or_default())
}

const TERMINAL: [Column; 9] = [
    Column::named(t::MI_STRATEGY, 8),
    Column::figure(page::H_PEAK, 7),
    Column::figure(t::MI_OF_EXACT, 5),
    Column::figure(t::MI_CPU, 6),
    Column::figure(t::MI_QUESTIONS, 6),
    Column::figure(page::H_P50_P99, 9),
    Column::figure(t::MI_OVER, 8),
    Column::figure(t::MI_UNDER, 8),
    Column::named(t::MI_ERROR, 8),
];

/// The tables of the terminal, one for each scenario with its title; empty without strategies.
pub(super) fn terminal(style: TextStyle, record: &RunRecord) -> Vec<(String, String)> {
    let Some(found) = of(record) else {
        return Vec::new();
    };
    let one = |(scenario, rows): (&str, Vec<&MitigationRow>)| {
        let rows: Vec<Vec<TextCell>> = rows.iter().map(|row| cells(row, style.lang)).collect();
        (title(record, scenario), table(style, &TERMINAL, &rows))
    };
    by_scenario(found).into_iter().map(one).collect()
}

fn cells(row: &MitigationRow, lang: Lang) -> Vec<TextCell> {
    let fields = fields(row, lang);
    let tint = match row.verdict {
        ErrorVerdict::OverBeyond => Tint::Bad,
        ErrorVerdict::UnderBeyond => Tint::Warn,
        ErrorVerdict::Within | ErrorVerdict::NotJudged => Tint::Plain,
    };
    [0, 1, 2, 3, 7, 8, 9, 10, 11]
        .into_iter()
        .map(|at| TextCell {
            text: fields[at].clone(),
            tint: if at >= 9 { tint } else { Tint::Plain },
        })
        .collect()
}

/// `mitigations.csv`: every figure of every strategy, its unit in the column's name. Empty is "not measured".
pub(crate) fn csv(found: &MitigationsRecord) -> String {
    let mut out = String::new();
    for row in &found.rows {
        let fields = csv_fields(found, row);
        if out.is_empty() {
            out = line(fields.iter().map(|(name, _)| (*name).to_owned()));
        }
        out.push_str(&line(fields.into_iter().map(|(_, value)| value)));
    }
    out
}

fn csv_fields(found: &MitigationsRecord, row: &MitigationRow) -> Vec<(&'static str, String)> {
    let spread = row.cpu_us_per_decision_spread;
    let seed = row.seed.as_ref();
    let mut fields = vec![
        ("strategy", row.target.clone()),
        ("scenario", row.scenario.clone()),
        ("hot_key", row.hot_key.clone()),
        ("store", found.store.name.clone()),
        ("services", row.services.to_string()),
        ("common_rps", number(Some(row.common_rps))),
        ("rounds", row.rounds.to_string()),
        ("common_p50_us", number(row.common_p50_us)),
        ("common_p99_us", number(row.common_p99_us)),
        ("cpu_us_per_decision", number(row.cpu_us_per_decision())),
        ("cpu_us_per_decision_min", number(spread.map(|s| s.0))),
        ("cpu_us_per_decision_max", number(spread.map(|s| s.1))),
        (
            "service_cpu_us_per_decision",
            number(row.service_cpu_us_per_decision),
        ),
        (
            "store_cpu_us_per_decision",
            number(row.store_cpu_us_per_decision),
        ),
        ("cpu_of_exact", number(row.cpu_of_exact)),
        (
            "store_questions_per_decision",
            number(row.store_questions_per_decision),
        ),
        ("peak_goodput_rps", number(row.peak_goodput_rps)),
        ("goodput_of_exact", number(row.goodput_of_exact)),
        ("admitted", row.admitted.to_string()),
        ("allowed_min", row.allowed_min.to_string()),
        ("allowed_max", row.allowed_max.to_string()),
        ("over_admitted", row.over_admitted.to_string()),
        ("stated_over", row.stated_over.to_string()),
        ("over_admission_percent", number(Some(row.over_percent()))),
        ("under_admitted", row.under_admitted.to_string()),
        ("stated_under", row.stated_under.to_string()),
        ("under_admission_percent", number(Some(row.under_percent()))),
        (
            "worst_beyond_percent",
            number(Some(row.worst_beyond_percent)),
        ),
        ("error", row.verdict.word().to_owned()),
        ("validity", row.validity.grade.word().to_owned()),
        (
            "seed_accuracy",
            seed.map_or_else(String::new, |s| s.0.clone()),
        ),
        ("seed_gain", seed.map_or_else(String::new, |s| s.1.clone())),
    ];
    fields.extend(against_fields(row));
    fields
}

/// What several starts say of a strategy against `exact`.
fn against_fields(row: &MitigationRow) -> [(&'static str, String); 7] {
    let ci = |against: Option<AgainstExact>| against?.ci;
    let p = |against: Option<AgainstExact>| Some(against?.test?.p);
    let (goodput, cpu) = (row.goodput_against_exact, row.cpu_against_exact);
    let (goodput_ci, cpu_ci) = (ci(goodput), ci(cpu));
    [
        ("starts", row.starts.len().max(1).to_string()),
        ("goodput_of_exact_low", number(goodput_ci.map(|ci| ci.0))),
        ("goodput_of_exact_high", number(goodput_ci.map(|ci| ci.1))),
        ("goodput_of_exact_p", number(p(goodput))),
        ("cpu_of_exact_low", number(cpu_ci.map(|ci| ci.0))),
        ("cpu_of_exact_high", number(cpu_ci.map(|ci| ci.1))),
        ("cpu_of_exact_p", number(p(cpu))),
    ]
}
