//! Each card of the page appears with its data and not without them.

use super::super::advice::prometheus;
use super::super::advice::thresholds::PROD;
use super::super::{HtmlOptions, Lang, TextStyle, run_summary, summary_csv};
use super::everything::{attribution, beside, run, seconds};
use super::{fixture, html_in, markup, render_all};
use crate::load::rng::Rng;
use crate::load::tally::latency_histogram;
use crate::record::attribution::{ProcessAttribution, Role};
use crate::record::{RunRecord, SplitLatency, TargetKind};

/// Every card's place in the page, in order.
const CARDS: [&str; 23] = [
    "card-summary",
    "card-1-ladder",
    "card-2-throughput",
    "card-3-latency",
    "card-4-percentiles",
    "card-5-time",
    "card-6-heat",
    "card-7-overload",
    "card-8-accuracy",
    "card-10-mitigations",
    "card-starts",
    "card-bottleneck",
    "card-11-usl",
    "card-12-search",
    "card-paper",
    "card-compare",
    "card-trends",
    "card-13-operations",
    "card-events",
    "card-validity",
    "card-14-method",
    "card-14-manifest",
    "card-glossary",
];

/// The page with everything, in a language.
fn page(lang: Lang) -> String {
    let options = HtmlOptions {
        lang,
        beside: beside(),
        ..HtmlOptions::default()
    };
    super::super::run_html(&run(), &options).unwrap()
}

#[test]
fn every_card_appears_once_and_in_order() {
    for lang in [Lang::En, Lang::Vi] {
        let html = page(lang);
        markup::check(&html);
        let mut last = 0;
        for card in CARDS {
            let places: Vec<usize> = html
                .match_indices(&format!("<section id=\"{card}\">"))
                .map(|(at, _)| at)
                .collect();
            assert_eq!(places.len(), 1, "{card}");
            assert!(places[0] > last, "{card} is out of order");
            last = places[0];
        }
    }
}

#[test]
fn the_safe_load_of_a_service_is_not_read_as_that_of_a_store() {
    let mut record = run();
    for target in &mut record.targets {
        target.kind = TargetKind::Service;
    }
    let html = html_in(&record, Lang::En);
    let (_, card) = html.split_once("safe</").unwrap();
    let card = &card[..500];
    assert!(card.contains("· service"), "{card}");
}

#[test]
fn a_card_without_data_is_left_out() {
    let mut record = fixture::run();
    let steps = record.cells.iter_mut().flat_map(|cell| &mut cell.steps);
    steps.for_each(|step| step.server = None);
    let html = html_in(&record, Lang::En);
    for card in [
        "card-5-time",
        "card-10-mitigations",
        "card-starts",
        "card-bottleneck",
        "card-11-usl",
        "card-12-search",
        "card-paper",
        "card-compare",
        "card-trends",
    ] {
        assert!(!html.contains(&format!("id=\"{card}\"")), "{card}");
    }
}

#[test]
fn everything_renders_in_every_form() {
    let html = render_all(&run());
    for needle in [
        "n = 5",
        "P99 95 % CI [",
        "5 fresh starts",
        "paper: P1, Redis 7.x",
        "30 s (shortened)",
        "limited by the store (redis)",
        "median of 5 starts [",
        "the 5 starts held",
        "Trials of the search in start 3",
        "Log of 4 trials",
        "<g class=\"over\"><rect",
        "class=\"whisker s0\"",
        "zone-amber",
        "☑",
        "☐",
    ] {
        assert!(html.contains(needle), "{needle}");
    }
}

/// It was the target's once more, also where that is a service in front of a store.
#[test]
fn the_cpu_of_the_store_is_that_of_the_store() {
    let mut record = run();
    let [watched, unwatched, ..] = &mut record.cells[0].steps[..] else {
        panic!("the ladder has rows");
    };
    for role in [Role::Service, Role::Proxy] {
        let process = ProcessAttribution {
            role,
            cpu_percent: Some(20.0),
            ..ProcessAttribution::default()
        };
        let path = watched.attribution.as_mut().unwrap();
        path.processes.push(process);
    }
    unwatched.attribution = None;
    let csv = summary_csv(&record);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let at = |name: &str| {
        let column = heads.iter().position(|head| *head == name).unwrap();
        lines
            .clone()
            .take(3)
            .map(|line| line[column].to_owned())
            .collect::<Vec<_>>()
    };
    let target = at("ServerCPU");
    assert_eq!(at("StoreCPU"), ["99", "", &target[2]]);
    assert_ne!(target[0], "99", "the target is another process");
    assert_eq!(target, at("CPUUsage"));
}

#[test]
fn what_each_start_held_is_told_in_the_terminal_too() {
    let text = run_summary(TextStyle::default(), &run());
    let told = super::unwrapped(&text);
    assert!(told.contains("the 5 starts held"), "{text}");
}

#[test]
fn numbers_of_the_page_carry_their_basis_and_command() {
    let html = html_in(&run(), Lang::En);
    let ladder = html.split("id=\"card-1-ladder\"").nth(1).unwrap();
    let rows = ladder
        .split("<section")
        .next()
        .unwrap()
        .matches("<tr class=");
    let tips = ladder
        .split("<section")
        .next()
        .unwrap()
        .matches("answers in 3.00 s (5 fresh starts)");
    assert_eq!(tips.count(), 27, "every row of three ladders");
    assert!(rows.count() >= 27);
}

/// What the copy button takes is what `--format prometheus` writes: YAML lives by its lines.
#[test]
fn the_alerts_in_the_page_are_the_file() {
    let html = html_in(&run(), Lang::En);
    let (_, rest) = html
        .split_once("<pre id=\"prometheus-rules\" tabindex=\"0\">")
        .unwrap();
    let (shown, _) = rest.split_once("</pre>").unwrap();
    let shown = shown.replace("&quot;", "\"").replace("&#39;", "'");
    let shown = shown
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    assert_eq!(shown, prometheus::rules(&run(), &PROD, None));
    assert!(shown.lines().count() > 20, "{shown}");
}

/// Rows of a cell in the main run as it is by default.
const ROWS: usize = 6;

/// Nine cells with what a run of the program records of each, as the main run has by default.
fn nine_cells() -> RunRecord {
    let mut record = fixture::run();
    record.cells.truncate(9);
    assert_eq!(record.cells.len(), 9);
    for (number, cell) in record.cells.iter_mut().enumerate() {
        cell.steps.truncate(ROWS);
        for (at, step) in cell.steps.iter_mut().enumerate() {
            step.attribution = Some(attribution());
            step.seconds = seconds(step.target_rps, step.goodput_rps, 1);
            let mut parts = [latency_histogram(), latency_histogram()];
            let mut rng = Rng::new((number * 16 + at) as u64);
            for answer in 0..4_000 {
                let tail = 1.0 / (1.0 - rng.unit()).max(1e-4);
                let ns = 90_000.0 * (1.0 + rng.unit()) * tail.powf(0.6 + at as f64 * 0.05);
                parts[answer % 2].record(ns as u64).unwrap();
            }
            step.response =
                SplitLatency::from_histograms(&parts[0], &parts[1], &latency_histogram()).unwrap();
            step.service = step.response.clone();
        }
    }
    record.settle();
    record
}

#[test]
fn a_page_of_nine_cells_is_no_large_file() {
    let html = html_in(&nine_cells(), Lang::En);
    assert!(html.len() <= 400_000, "{} bytes", html.len());
    let read = super::super::record_in(&html).unwrap();
    let answers = |record: &RunRecord| -> Vec<Option<u64>> {
        let steps = record.cells.iter().flat_map(|cell| &cell.steps);
        steps
            .map(|step| Some(step.response.merged()?.len()))
            .collect()
    };
    assert_eq!(answers(&read), answers(&nine_cells()));
    let again = html_in(&read, Lang::En);
    let charts = |html: &str| html.matches("<figure>").count();
    assert_eq!(
        charts(&again),
        charts(&html),
        "what was read draws the same charts"
    );
}

#[test]
fn no_name_of_an_element_is_used_twice() {
    let html = page(Lang::En);
    let mut seen = std::collections::BTreeSet::new();
    for part in html.split(" id=\"").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(seen.insert(name.to_owned()), "{name}");
    }
}
