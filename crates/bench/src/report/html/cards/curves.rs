//! Cards 2 to 6: throughput, latency, percentiles, time series, heat map.

use super::super::super::chart::{self, Chart};
use super::super::super::findings::{Ranked, ScenarioFindings};
use super::super::super::format::rate;
use super::super::super::lang::{Lang, page as t};
use super::super::model::{Block, Card, Figure};
use super::{Source, short_title, telling_step};

/// Card 2: goodput and failures against the offered load, over the zones.
pub(super) fn throughput(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let blocks = source.gallery(
        "throughput",
        |scenario| {
            let mut figures = of_several(scenario, t::C_GOODPUT_ALL.of(lang), || {
                chart::throughput_of_all(scenario, lang)
            });
            figures.extend(all_by(scenario, chart::DENIED, lang));
            figures
        },
        |ranked| of_measured(ranked, || chart::throughput(ranked.cell, lang)),
    );
    Card::of(
        "card-2-throughput",
        t::CARD_THROUGHPUT.of(lang),
        t::THROUGHPUT_INTRO.of(lang),
        blocks,
    )
}

/// A figure of all cells of a scenario, where there are several.
fn of_several(
    scenario: &ScenarioFindings<'_>,
    title: &str,
    drawing: impl FnOnce() -> Chart,
) -> Vec<Figure> {
    let several = scenario.ranked.len() > 1;
    let figure = several.then(|| Figure::new(title, drawing()));
    figure.into_iter().collect()
}

/// The drawing of one figure of all cells of a scenario, where there are several and it was measured.
pub(super) fn all_by(
    scenario: &ScenarioFindings<'_>,
    what: chart::Compared,
    lang: Lang,
) -> Option<Figure> {
    let several = scenario.ranked.len() > 1;
    let drawing = several.then(|| chart::figure_of_all(scenario, what, lang))??;
    Some(Figure::new(what.title.of(lang), drawing))
}

/// A figure of one cell, where it has rows.
fn of_measured(ranked: &Ranked<'_>, drawing: impl FnOnce() -> Chart) -> Vec<Figure> {
    let measured = !ranked.cell.steps.is_empty();
    let figure = measured.then(|| Figure::new(short_title(ranked.cell), drawing()));
    figure.into_iter().collect()
}

/// Card 3: P50, P99 and P99.9 against the offered load.
pub(super) fn latency(source: &Source<'_>) -> Option<Card> {
    let (lang, profile) = (source.lang, &source.record.profile);
    let blocks = source.gallery(
        "latency",
        |scenario| {
            let mut figures = of_several(scenario, t::C_P99_ALL.of(lang), || {
                chart::p99_of_all(scenario, profile, lang)
            });
            figures.extend(all_by(scenario, chart::MEAN, lang));
            figures
        },
        |ranked| of_measured(ranked, || chart::latency_of(ranked.cell, profile, lang)),
    );
    Card::of(
        "card-3-latency",
        t::CARD_LATENCY.of(lang),
        t::LATENCY_INTRO.of(lang),
        blocks,
    )
}

/// Card 4: percentile curves of the most telling row of each cell.
pub(super) fn percentiles(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let blocks = source.gallery(
        "percentiles",
        |_| Vec::new(),
        |ranked| {
            let step = telling_step(ranked.cell, &ranked.findings)
                .filter(|step| step.response.all.is_some());
            step.map(|step| {
                let load = rate(step.target_rps);
                let at = t::C_PERCENTILES_AT.with(lang, &[("load", &load)]);
                let title = format!("{}: {at}", short_title(ranked.cell));
                Figure::new(title, chart::percentiles(step, lang))
            })
            .into_iter()
            .collect()
        },
    );
    Card::of(
        "card-4-percentiles",
        t::CARD_PERCENTILES.of(lang),
        t::PERCENTILES_INTRO.of(lang),
        blocks,
    )
}

/// Card 5: second by second.
pub(super) fn time(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let blocks = source.per_cell("time", |ranked, _| {
        let cell = ranked.cell;
        let figures: Vec<Figure> = [
            (t::C_TIME, chart::rates_by_second(cell, lang)),
            (t::Y_P99, chart::p99_by_second(cell, lang)),
            (t::Y_IN_FLIGHT, chart::in_flight(cell, lang)),
            (t::Y_CPU, chart::cpu_by_second(cell, lang)),
        ]
        .into_iter()
        .filter_map(|(title, drawing)| Some(Figure::new(title.of(lang), drawing?)))
        .collect();
        if figures.is_empty() {
            Vec::new()
        } else {
            vec![Block::Figures { figures }]
        }
    });
    Card::of(
        "card-5-time",
        t::CARD_TIME.of(lang),
        t::TIME_INTRO.of(lang),
        blocks,
    )
}

/// Card 6: time against response time.
pub(super) fn heat(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let blocks = source.gallery(
        "heat",
        |_| Vec::new(),
        |ranked| {
            let drawing = chart::heat_map(ranked.cell, lang);
            drawing
                .map(|drawing| Figure::new(short_title(ranked.cell), drawing))
                .into_iter()
                .collect()
        },
    );
    Card::of(
        "card-6-heat",
        t::CARD_HEAT.of(lang),
        t::HEAT_INTRO.of(lang),
        blocks,
    )
}
