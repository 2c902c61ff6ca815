//! Card 14: events, validity, method, manifest, glossary.

use crate::record::{Bounds, Profile, Severity};

use super::super::super::circumstances::{info_lines, run_rows, target_line};
use super::super::super::failures;
use super::super::super::format::{seconds, short};
use super::super::super::lang::{Lang, Text, decision as d, page as t};
use super::super::super::words;
use super::super::model::{Block, Card};
use super::Source;

/// Terms and what they mean.
pub(in crate::report) const GLOSSARY: [(Text, Text); 10] = [
    (t::G_T_OFFERED, t::G_D_OFFERED),
    (t::G_T_GOODPUT, t::G_D_GOODPUT),
    (t::G_T_HELD, t::G_D_HELD),
    (t::G_T_SAFE, t::G_D_SAFE),
    (t::G_T_P99, t::G_D_P99),
    (t::G_T_LAG, t::G_D_LAG),
    (t::G_T_ADMIT, t::G_D_ADMIT),
    (t::G_T_HOT, t::G_D_HOT),
    (t::G_T_RETENTION, t::G_D_RETENTION),
    (t::G_T_OVER, t::G_D_OVER),
];

/// What happened on the way.
pub(super) fn events(source: &Source<'_>) -> Option<Card> {
    let items: Vec<String> = source
        .record
        .events
        .iter()
        .map(|event| {
            let sign = match event.severity {
                Severity::Info => "·",
                Severity::Warning => "⚠",
                Severity::Error => "✗",
            };
            let target = event.target.as_deref();
            let target = target.map_or(String::new(), |name| format!("{name}: "));
            format!(
                "{sign} {} · {target}{}",
                seconds(event.offset_s, source.lang),
                event.text
            )
        })
        .collect();
    let blocks = if items.is_empty() {
        Vec::new()
    } else {
        vec![Block::List {
            class: "events",
            items,
        }]
    };
    Card::of("card-events", t::CARD_EVENTS.of(source.lang), "", blocks)
}

/// Grade, reasons, what was not measured.
pub(super) fn validity(source: &Source<'_>) -> Option<Card> {
    let (record, lang) = (source.record, source.lang);
    let why = record.partial_reason.as_deref();
    let why = why.map_or(String::new(), |why| format!(" ({why})"));
    let text = t::RUN_IS.with(
        lang,
        &[
            ("grade", words::grade(record.validity.grade, lang)),
            ("whole", words::whole(record.complete, lang)),
            ("why", &why),
        ],
    );
    let mut items = record.validity.reasons.clone();
    items.extend(record.skipped.iter().map(|skipped| {
        t::NOT_MEASURED.with(lang, &[("name", &skipped.name), ("why", &skipped.reason)])
    }));
    let mut blocks = vec![Block::Text { text }];
    if !items.is_empty() {
        blocks.push(Block::List { class: "", items });
    }
    let failed = failures::rows(record);
    if !failed.is_empty() {
        blocks.push(Block::Title {
            text: d::D_FAILURES.of(lang).into(),
        });
        blocks.push(Block::plain_table(failures::heads(lang), 1, failed));
    }
    Card::of("card-validity", t::CARD_VALIDITY.of(lang), "", blocks)
}

/// How it was measured and judged.
pub(super) fn method(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    if source.record.tests_of_study().is_some() {
        let text = t::METHOD_TESTS.of(lang).into();
        let blocks = vec![Block::Text { text }];
        return Card::of("card-14-method", t::CARD_METHOD.of(lang), "", blocks);
    }
    let mut blocks = vec![Block::Text {
        text: t::METHOD_OPEN_LOOP.of(lang).into(),
    }];
    if source.record.cells.iter().any(|cell| cell.load.closed_loop) {
        blocks.push(Block::Text {
            text: t::METHOD_CLOSED_LOOP.of(lang).into(),
        });
    }
    let heads = [t::H_METRIC, t::H_GOOD, t::H_WARNING, t::H_CRITICAL];
    let rows = thresholds(&source.record.profile, lang);
    blocks.push(Block::plain_table(
        heads.map(|head| head.of(lang).to_owned()).to_vec(),
        4,
        rows.into_iter().map(|row| row.to_vec()).collect(),
    ));
    blocks.push(Block::Text {
        text: t::METHOD_LEVELS.of(lang).into(),
    });
    Card::of("card-14-method", t::CARD_METHOD.of(lang), "", blocks)
}

/// The thresholds of a profile: name, good, warning, critical.
pub(in crate::report) fn thresholds(profile: &Profile, lang: Lang) -> Vec<[String; 4]> {
    let upper = |name: String, bounds: Bounds, unit: &str| {
        let (good, critical) = (short(bounds.good), short(bounds.critical));
        [
            name,
            t::THRESHOLD_UP_TO.with(lang, &[("value", &good), ("unit", unit)]),
            format!("{good}–{critical} {unit}"),
            t::THRESHOLD_ABOVE.with(lang, &[("value", &critical), ("unit", unit)]),
        ]
    };
    let goodput = profile.goodput_percent;
    let (good, critical) = (short(goodput.good), short(goodput.critical));
    vec![
        [
            t::THRESHOLD_GOODPUT.of(lang).into(),
            t::THRESHOLD_FROM.with(lang, &[("value", &good)]),
            format!("{critical}–{good} %"),
            t::THRESHOLD_BELOW.with(lang, &[("value", &critical)]),
        ],
        upper(t::THRESHOLD_FAIL.of(lang).into(), profile.fail_percent, "%"),
        upper(t::THRESHOLD_MEAN.of(lang).into(), profile.mean_ms, "ms"),
        upper("P95".into(), profile.p95_ms, "ms"),
        upper("P99".into(), profile.p99_ms, "ms"),
    ]
}

/// Machine, versions, targets.
pub(super) fn manifest(source: &Source<'_>) -> Option<Card> {
    let (record, lang) = (source.record, source.lang);
    let mut rows: Vec<(String, String)> = run_rows(record, lang)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    rows.extend(
        record
            .targets
            .iter()
            .map(|target| (target.name.clone(), target_line(target, lang))),
    );
    rows.extend(record.targets.iter().filter_map(|target| {
        let info = info_lines(target);
        let name = t::INFO_SERVER.with(lang, &[("target", &target.name)]);
        (!info.is_empty()).then(|| (name, info.join(", ")))
    }));
    let blocks = vec![Block::Terms { rows }];
    Card::of("card-14-manifest", t::CARD_MANIFEST.of(lang), "", blocks)
}

/// Terms of the report.
pub(super) fn glossary(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let rows = GLOSSARY
        .iter()
        .map(|(term, meaning)| (term.of(lang).to_owned(), meaning.of(lang).to_owned()))
        .collect();
    let blocks = vec![Block::Terms { rows }];
    Card::of("card-glossary", t::CARD_GLOSSARY.of(lang), "", blocks)
}
