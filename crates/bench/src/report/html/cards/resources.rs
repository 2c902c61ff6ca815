//! Fresh starts and who used the machine.

use crate::record::{Cell, Estimate};

use super::super::super::capacity::safe_cost;
use super::super::super::chart;
use super::super::super::format::{bytes, or_dash, percent, rate, significant};
use super::super::super::lang::{Lang, page as t};
use super::super::super::words;
use super::super::model::{Block, Card, Figure};
use super::Source;
use super::curves::all_by;

/// Spread over fresh starts.
pub(super) fn statistics(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let interval = |estimate: Option<Estimate>, scale: f64| {
        or_dash(estimate, |e| {
            let range = or_dash(e.low.zip(e.high), |(low, high)| {
                format!(
                    "[{}–{}]",
                    significant(low / scale),
                    significant(high / scale)
                )
            });
            format!("{} {range}", significant(e.median / scale))
        })
    };
    let share = |value: Option<f64>| or_dash(value, |v| format!("{} %", significant(v)));
    let spread = |estimate: Option<Estimate>| {
        let mad = estimate
            .filter(|e| e.median > 0.0)
            .map(|e| e.mad / e.median * 100.0);
        let cv = share(estimate.and_then(|e| e.cv_percent));
        format!("{cv} / {}", share(mad))
    };
    let blocks = source.per_cell("starts", |ranked, _| {
        let Some(found) = &ranked.cell.statistics else {
            return Vec::new();
        };
        let rows = found
            .rates
            .iter()
            .map(|r| {
                vec![
                    rate(r.target_rps),
                    r.starts.len().to_string(),
                    interval(r.goodput_rps, 1.0),
                    spread(r.goodput_rps),
                    interval(r.p50_us, 1e3),
                    interval(r.p99_us, 1e3),
                    spread(r.p99_us),
                    interval(r.server_cpu_us_per_op, 1.0),
                ]
            })
            .collect();
        let heads = vec![
            t::H_OFFERED_RPS.of(lang).to_owned(),
            "n".into(),
            format!("{}, {}", t::H_GOODPUT.of(lang), t::H_CI.of(lang)),
            "CV / MAD".into(),
            format!("P50 ms, {}", t::H_CI.of(lang)),
            format!("P99 ms, {}", t::H_CI.of(lang)),
            "CV / MAD".into(),
            format!("{}, {}", t::H_SERVER_CPU_OP.of(lang), t::H_CI.of(lang)),
        ];
        vec![Block::plain_table(heads, 0, rows)]
    });
    Card::of("card-starts", t::CARD_STATISTICS.of(lang), "", blocks)
}

/// What held the load back and what a decision cost, step by step.
pub(super) fn bottleneck(source: &Source<'_>) -> Option<Card> {
    let lang = source.lang;
    let mut blocks = all_systems(source);
    blocks.extend(source.per_cell("use", |ranked, id| {
        let rows = process_rows(ranked.cell, lang);
        if rows.is_empty() {
            return Vec::new();
        }
        let heads = [
            t::H_OFFERED_RPS,
            t::H_PROCESS,
            t::H_CPU_ALL,
            t::H_BUSIEST,
            t::H_MEMORY,
            t::H_VOLUNTARY,
            t::H_INVOLUNTARY,
            t::H_RUN_QUEUE,
            t::H_US_PER_OP,
        ];
        let heads = heads.map(|head| head.of(lang).to_owned()).to_vec();
        let mut blocks = vec![Block::List {
            class: "observations",
            items: load_observations(ranked.cell, lang),
        }];
        let figures: Vec<Figure> = [
            (t::C_PRESSURE, chart::pressure_by_second(ranked.cell, lang)),
            (t::C_LAG, chart::generator_lag(ranked.cell, lang)),
        ]
        .into_iter()
        .filter_map(|(title, drawing)| Some(Figure::new(title.of(lang), drawing?)))
        .collect();
        if !figures.is_empty() {
            blocks.push(Block::Figures { figures });
        }
        blocks.push(Block::Fold {
            id: format!("{id}-processes"),
            title: t::PROCESSES.of(lang).into(),
            right: String::new(),
            open: false,
            blocks: vec![Block::plain_table(heads, 2, rows)],
        });
        blocks
    }));
    Card::of("card-bottleneck", t::CARD_BOTTLENECK.of(lang), "", blocks)
}

/// Processor and memory of all systems of a scenario against the load.
fn all_systems(source: &Source<'_>) -> Vec<Block> {
    let lang = source.lang;
    let mut blocks = Vec::new();
    for scenario in &source.scenarios {
        let drawn = [chart::CPU, chart::MEMORY].into_iter();
        let figures: Vec<Figure> = drawn
            .filter_map(|what| all_by(scenario, what, lang))
            .collect();
        if !figures.is_empty() {
            blocks.push(Block::Title {
                text: scenario.title(lang),
            });
            blocks.push(Block::Figures { figures });
        }
    }
    blocks
}

/// A row for every observed process of every step, by load.
fn process_rows(cell: &Cell, lang: Lang) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for step in cell.by_load() {
        let Some(found) = &step.attribution else {
            continue;
        };
        for process in &found.processes {
            let busiest = process.busiest_thread.as_ref();
            rows.push(vec![
                rate(step.target_rps),
                format!("{} ({})", words::role(process.role, lang), process.name),
                or_dash(process.cpu_percent, |v| format!("{} %", significant(v))),
                or_dash(busiest, |b| {
                    format!("{} % {}", significant(b.cpu_percent), b.name)
                }),
                or_dash(process.rss_bytes, bytes),
                or_dash(process.voluntary_switches_per_s, rate),
                or_dash(process.involuntary_switches_per_s, rate),
                or_dash(process.run_queue_wait_percent, percent),
                or_dash(process.cpu_us_per_decision, significant),
            ]);
        }
    }
    rows
}

/// What held every load back, then what every load cost, then what the safe load costs.
fn load_observations(cell: &Cell, lang: Lang) -> Vec<String> {
    let steps = cell.by_load();
    let mut items: Vec<String> = steps
        .iter()
        .filter_map(|step| {
            let found = step.attribution.as_ref()?;
            let sentence = &found.bottleneck.sentence;
            (!sentence.is_empty()).then(|| format!("{}/s: {sentence}", rate(step.target_rps)))
        })
        .collect();
    items.extend(steps.iter().filter_map(|step| {
        let found = step.attribution.as_ref()?;
        let cost = significant(found.cost_per_million?);
        Some(t::COST_LINE.with(
            lang,
            &[
                ("load", &rate(step.target_rps)),
                ("cost", &cost),
                ("joules", &or_dash(found.joules_per_million, significant)),
            ],
        ))
    }));
    items.extend(safe_cost(cell, lang));
    items
}
