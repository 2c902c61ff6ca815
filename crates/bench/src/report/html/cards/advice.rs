//! Card 13: capacity matrix, monitoring rules, migration checklist.

use super::super::super::advice::thresholds::{BENCH, PROD, rows};
use super::super::super::advice::{capacities, matrix, prometheus, tiers};
use super::super::super::decision;
use super::super::super::format::rate;
use super::super::super::lang::{Text, advice as a, decision as d, page as t};
use super::super::super::migrate::{Plan, System};
use super::super::model::{Block, Card, Check};
use super::{Source, short_title};

/// The card.
pub(super) fn card(source: &Source<'_>) -> Option<Card> {
    // Strategies are ways to run one service, not services to choose from.
    let strategies = source.record.mitigations.is_some();
    let mut blocks = match strategies {
        true => Vec::new(),
        false => decisions(source),
    };
    let capacities = capacities(source.record);
    let lang = source.lang;
    for capacity in &capacities {
        let target = capacity.cell.target.as_str();
        for (profile, thresholds) in [("prod", &PROD), ("bench", &BENCH)] {
            let title = a::WATCH_TITLE.with(lang, &[("target", target), ("profile", profile)]);
            blocks.push(Block::Title { text: title });
            if profile == "prod" {
                let intro = a::WATCH_INTRO.with(
                    lang,
                    &[
                        ("sustained", &rate(capacity.sustained_rps)),
                        ("safe", &rate(capacity.safe_rps)),
                        ("cell", &short_title(capacity.cell)),
                    ],
                );
                blocks.push(Block::Text { text: intro });
            }
            let heads = [
                t::H_METRIC,
                t::H_GOOD,
                t::H_WARNING,
                t::H_CRITICAL,
                t::H_ACTION,
            ];
            let heads = heads.map(|head| head.of(lang).to_owned()).to_vec();
            let rows = rows(thresholds, Some(capacity), lang);
            blocks.push(Block::plain_table(heads, 5, rows.map_vec()));
        }
    }
    if !capacities.is_empty() {
        blocks.extend(tiers(&capacities, lang).map(|tiers| Block::List {
            class: "observations",
            items: tiers.to_vec(),
        }));
        blocks.push(Block::Code {
            name: "prometheus-rules",
            title: format!("{} · {}", a::RULES_TITLE.of(lang), a::RULES_INTRO.of(lang)),
            text: prometheus::rules(source.record, &PROD, None),
        });
    }
    blocks.extend(checklist(source));
    Card::of(
        "card-13-operations",
        t::CARD_OPERATIONS.of(lang),
        "",
        blocks,
    )
}

/// Rows as lists, for the plain table.
trait MapVec {
    fn map_vec(self) -> Vec<Vec<String>>;
}

impl<const N: usize> MapVec for Vec<[String; N]> {
    fn map_vec(self) -> Vec<Vec<String>> {
        self.into_iter().map(|row| row.to_vec()).collect()
    }
}

/// What to do at which load, who is ahead in what, and which system carries which band of load.
fn decisions(source: &Source<'_>) -> Vec<Block> {
    let lang = source.lang;
    let heads = |texts: &[Text]| texts.iter().map(|head| head.of(lang).to_owned()).collect();
    let mut blocks = Vec::new();
    let advice = decision::advice(source.record, &source.scenarios, lang);
    if !advice.is_empty() {
        let rows = advice
            .into_iter()
            .map(|one| vec![one.situation, one.answer]);
        let table = Block::plain_table(heads(&[d::D_SITUATION, d::D_ANSWER]), 2, rows.collect());
        blocks.push(Block::Title {
            text: d::D_DECISION.of(lang).into(),
        });
        blocks.push(table.wrapped());
    }
    if let Some(found) = decision::verdicts(source.record, &source.scenarios, lang) {
        let rows = found.rows.map_vec();
        let titles = [d::D_CRITERION, d::D_WINNER, d::D_MEASURED];
        blocks.extend([
            Block::Title {
                text: d::D_VERDICT.of(lang).into(),
            },
            Block::Text {
                text: d::D_VERDICT_INTRO.of(lang).into(),
            },
            Block::plain_table(heads(&titles), 3, rows).wrapped(),
            Block::Text {
                text: found.overall,
            },
        ]);
    }
    blocks.extend(matrices(source));
    blocks
}

fn matrices(source: &Source<'_>) -> Vec<Block> {
    let lang = source.lang;
    let mut blocks = Vec::new();
    for scenario in &source.scenarios {
        let Some(found) = matrix::of(scenario) else {
            continue;
        };
        let mut heads = vec![a::MATRIX_LOAD.of(lang).to_owned()];
        heads.extend(found.systems.iter().cloned());
        heads.push(a::MATRIX_DO.of(lang).to_owned());
        let rows = found
            .bands
            .iter()
            .map(|band| {
                let mut fields = vec![band.title(lang)];
                let fit = |fit: &matrix::Fit| format!("{} {}", fit.sign(), fit.word().of(lang));
                fields.extend(band.fits.iter().map(fit));
                fields.push(found.recommendation(band, lang));
                fields
            })
            .collect();
        blocks.push(Block::Title {
            text: a::MATRIX_TITLE.with(lang, &[("scenario", &scenario.title(lang))]),
        });
        if blocks.len() == 1 {
            blocks.push(Block::Text {
                text: a::MATRIX_INTRO.of(lang).into(),
            });
        }
        let words = heads.len();
        blocks.push(Block::plain_table(heads, words, rows));
    }
    blocks
}

/// The checklist for moving from another measured system to Tollgate, if both were measured.
fn checklist(source: &Source<'_>) -> Vec<Block> {
    let measured = |name: &str| {
        source
            .record
            .targets
            .iter()
            .any(|target| target.name == name)
    };
    let from = [
        ("redis-server", System::Redis),
        ("redis", System::Redis),
        ("valkey-server", System::Valkey),
        ("valkey", System::Valkey),
        ("dragonfly", System::Dragonfly),
        ("memcached", System::Memcached),
    ];
    let Some((_, from)) = from.into_iter().find(|(name, _)| measured(name)) else {
        return Vec::new();
    };
    if !measured("tollgate") {
        return Vec::new();
    }
    let plan = Plan {
        from,
        to: System::Tollgate,
        run: Some(source.record),
        lang: source.lang,
    };
    let title = a::MIGRATE_TITLE.with(
        source.lang,
        &[("from", from.name()), ("to", System::Tollgate.name())],
    );
    let mut blocks = vec![
        Block::Title { text: title },
        Block::Text {
            text: a::MIGRATE_BOX.of(source.lang).into(),
        },
    ];
    for part in plan.checklist() {
        blocks.push(Block::Checks {
            title: part.title.to_owned(),
            items: part
                .items
                .into_iter()
                .map(|item| Check {
                    done: item.done,
                    text: item.text,
                })
                .collect(),
        });
    }
    let command = format!(
        "tollgate bench migrate --from {} --to {} --run DIR",
        from.option(),
        System::Tollgate.option()
    );
    blocks.push(Block::Text {
        text: a::MIGRATE_MORE.with(source.lang, &[("command", &command)]),
    });
    blocks
}
