//! Card 13: capacity matrix, monitoring rules, migration checklist.

use super::super::super::advice::thresholds::{BENCH, PROD, rows};
use super::super::super::advice::{capacities, matrix, prometheus};
use super::super::super::format::rate;
use super::super::super::lang::{advice as a, page as t};
use super::super::super::migrate::{Plan, System};
use super::super::model::{Block, Card, Check};
use super::{Source, short_title};

/// The card.
pub(super) fn card(source: &Source<'_>) -> Option<Card> {
    // Strategies are ways to run one service, not services to choose from.
    let strategies = source.record.mitigations.is_some();
    let mut blocks = match strategies {
        true => Vec::new(),
        false => matrices(source),
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
        blocks.push(tiers(source, &capacities));
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

/// The study's three tiers, by the safe load of the best system.
fn tiers(source: &Source<'_>, capacities: &[super::super::super::advice::Capacity<'_>]) -> Block {
    let lang = source.lang;
    let most = |pick: fn(&super::super::super::advice::Capacity<'_>) -> f64| {
        capacities.iter().map(pick).fold(0.0, f64::max)
    };
    let (safe, held) = (rate(most(|c| c.safe_rps)), rate(most(|c| c.sustained_rps)));
    Block::List {
        class: "observations",
        items: vec![
            a::TIER_1.with(lang, &[("load", &safe)]),
            a::TIER_2.with(lang, &[("from", &safe), ("to", &held)]),
            a::TIER_3.with(lang, &[("from", &held)]),
        ],
    }
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
    blocks
}
