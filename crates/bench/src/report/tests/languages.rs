//! Pages in Vietnamese, held against every English text that the program knows.

use crate::paper::{Study, beside};
use crate::record::recovery::RecoveryVerdict;
use crate::record::{Grade, RunRecord, Validity};

use super::super::lang::recorded::FORMS;
use super::super::lang::{Lang, Text, all};
use super::super::{TextStyle, compare_markdown, compare_summary, run_markdown, run_summary};
use super::{everything, fixture, html_in};

/// Parts of texts shorter than this may be names or figures.
const TELLING_LETTERS: usize = 9;

/// Words between the placeholders of an English text that its translation does not have too.
fn telling(text: Text) -> Vec<String> {
    let parts = |text: &str| -> Vec<String> {
        text.split('{')
            .map(|part| part.split_once('}').map_or(part, |(_, after)| after))
            .map(|part| part.trim_matches(|c: char| !c.is_alphanumeric()).to_owned())
            .collect()
    };
    parts(text.en)
        .into_iter()
        .filter(|part| part.contains(' ') && part.len() >= TELLING_LETTERS)
        .filter(|part| !text.vi.contains(part.as_str()))
        .collect()
}

/// What a reader sees of a page: no style, script, data, command lines or generated files, and no glossary, which gives
/// the English terms on purpose.
fn seen(html: &str) -> String {
    let mut html = html.to_owned();
    for (from, to) in [
        ("<style", "</style>"),
        ("<script", "</script>"),
        ("<pre", "</pre>"),
        ("<dl", "</dl>"),
    ] {
        while let Some(at) = html.find(from) {
            let end = at + html[at..].find(to).unwrap() + to.len();
            html.replace_range(at..end, " ");
        }
    }
    html.replace("&#39;", "'").replace("&quot;", "\"")
}

fn english_in(shown: &str) -> Vec<String> {
    let texts = all().map(|(_, text)| text).chain(FORMS.iter().copied());
    texts
        .flat_map(telling)
        .filter(|part| {
            shown.match_indices(part.as_str()).any(|(at, _)| {
                let around = (
                    shown[..at].chars().next_back(),
                    shown[at + part.len()..].chars().next(),
                );
                ![around.0, around.1]
                    .into_iter()
                    .flatten()
                    .any(char::is_alphanumeric)
            })
        })
        .collect()
}

/// A run with the sentences that runs really record.
fn spoken() -> RunRecord {
    let mut record = everything::run();
    record.paper = Some(beside::ladders(Study::Ladders, &record));
    record.partial_reason = Some("start 2 of 5: interrupted".into());
    record.complete = false;
    for cell in &mut record.cells {
        cell.notes = vec![
            "the limit of each step is near half of what its most wanted key is offered, so that both allowed and denied answers occur".into(),
            "not one answer within the deadline; the rest of its ladder is left out".into(),
        ];
        for step in &mut cell.steps {
            step.notes = vec!["start 3: first complaint: the server closed the connection".into()];
            step.validity = Validity {
                grade: Grade::Indicative,
                reasons: vec![
                    "start 3: P99 of the send lag is 0.80 ms, tolerated are 1.00 ms, and the generator used 78.8 % of its core".into(),
                ],
            };
        }
        if let Some(recovery) = &mut cell.recovery {
            recovery.knee_source = "lower bound of a capacity search".into();
            for variant in &mut recovery.variants {
                variant.verdict = RecoveryVerdict::Metastable;
                variant.sentence = "not good again within 16 s at 700/s, a load that it held before the 3 s at 1500/s; 99 % of the open requests waited in the clients' queue, not in the target".into();
            }
        }
    }
    record.settle();
    record
}

#[test]
fn a_page_in_vietnamese_has_no_english_sentence() {
    for record in [spoken(), fixture::run()] {
        let shown = seen(&html_in(&record, Lang::Vi));
        let found = english_in(&shown);
        assert!(found.is_empty(), "{found:#?}");
        for text in [
            run_markdown(&record, Lang::Vi),
            run_summary(
                TextStyle {
                    lang: Lang::Vi,
                    unicode: true,
                    ..TextStyle::default()
                },
                &record,
            ),
        ] {
            let prose: String = text
                .split("```")
                .step_by(2)
                .map(super::unwrapped)
                .collect::<Vec<_>>()
                .join(" ");
            let found = english_in(&prose);
            assert!(found.is_empty(), "{found:#?}");
        }
    }
}

#[test]
fn a_paired_comparison_in_vietnamese_has_no_english_sentence() {
    let mut record = fixture::comparison();
    let titles = [
        "limiter rl.take | evalsha, depth 16",
        "same EVALSHA, depth 1",
        "GET, 1 connection",
        "MSET of 10, depth 30",
    ];
    for (row, title) in record.rows.iter_mut().zip(titles) {
        row.title = title.into();
    }
    for memory in &mut record.memory {
        memory.title =
            "limiter records, 16-byte keys, counters of 8 digits, resident memory".into();
    }
    let page = compare_markdown(&record, Lang::Vi);
    let style = TextStyle {
        lang: Lang::Vi,
        unicode: true,
        ..TextStyle::default()
    };
    for text in [page, compare_summary(style, &record)] {
        let found = english_in(&super::unwrapped(&text));
        assert!(found.is_empty(), "{found:#?}");
        for english in ["depth", "connection", " of 10", "records", "same "] {
            assert!(!text.contains(english), "{english}: {text}");
        }
    }
}

#[test]
fn the_check_sees_english() {
    let shown = seen(&html_in(&spoken(), Lang::En));
    assert!(english_in(&shown).len() > 50);
}
