//! What the template prints, as plain values: all computing and rounding happens here.

use serde::Serialize;

use crate::record::{Accuracy, Cell, LatencySummary, Level, RunRecord, Severity, Step};

use super::super::chart::{self, Chart};
use super::super::circumstances::{command, manifest_rows, target_line};
use super::super::findings::{
    CellFindings, Ranked, ScenarioFindings, near, over_admission, scenarios, worst_stretch,
};
use super::super::format::{
    bytes, count, latency, ms, or_dash, percent, rate, ratio, seconds, short, significant,
};
use super::super::observations::observations;
use super::super::rows::{LadderRow, failure_kinds, limit_text};
use super::super::verdict;

/// Cells that start unfolded in each scenario when there are many.
const OPEN_CELLS: usize = 1;
/// Up to this many cells, all start unfolded.
const ALL_OPEN_UP_TO: usize = 4;

#[derive(Serialize)]
pub(super) struct Page {
    grade: &'static str,
    complete: bool,
    partial_reason: String,
    profile: String,
    started_at: String,
    duration: String,
    machine: String,
    command: String,
    verdict: Vec<String>,
    cards: Vec<Card>,
    scenarios: Vec<Scenario>,
    accuracy: Vec<AccuracyRow>,
    events: Vec<EventRow>,
    reasons: Vec<String>,
    skipped: Vec<String>,
    thresholds: Vec<[String; 4]>,
    manifest: Vec<(&'static str, String)>,
    targets: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Card {
    value: String,
    unit: &'static str,
    name: String,
    note: String,
}

#[derive(Serialize)]
struct Scenario {
    id: String,
    title: String,
    common: String,
    rows: Vec<ScenarioRow>,
    charts: Vec<Figure>,
    cells: Vec<CellView>,
}

#[derive(Serialize)]
struct ScenarioRow {
    target: String,
    operation: String,
    like_for_like: bool,
    held: String,
    not_held: String,
    safe: String,
    peak: String,
    p50: String,
    p99: String,
    cpu: String,
    memory: String,
    over: String,
    over_bad: bool,
}

#[derive(Serialize)]
struct Figure {
    title: String,
    svg: String,
    legend: Vec<(String, String)>,
}

#[derive(Serialize)]
struct CellView {
    id: String,
    title: String,
    held: String,
    open: bool,
    complete: bool,
    load: String,
    rows: Vec<RowView>,
    observations: Vec<String>,
    charts: Vec<Figure>,
}

#[derive(Serialize)]
struct RowView {
    fields: Vec<String>,
    level: &'static str,
    icon: &'static str,
    label: &'static str,
    rule: String,
    grade: &'static str,
    grade_why: String,
    failures: String,
}

#[derive(Serialize)]
struct AccuracyRow {
    cell: String,
    algorithm: String,
    limit: String,
    offered: String,
    admitted: String,
    allowed: String,
    over: String,
    under: String,
    worst: String,
    unknown: String,
    fairness: String,
    bad: bool,
    /// Admitted and worst stretch as a share of the drawn width, percent.
    bar: f64,
    allowed_from: f64,
    allowed_width: f64,
}

#[derive(Serialize)]
struct EventRow {
    at: String,
    severity: &'static str,
    target: String,
    text: String,
}

impl Page {
    pub(super) fn of(record: &RunRecord) -> Self {
        let manifest = &record.manifest;
        let found = scenarios(record);
        let all_open = record.cells.len() <= ALL_OPEN_UP_TO;
        Self {
            grade: record.validity.grade.word(),
            complete: record.complete,
            partial_reason: record.partial_reason.clone().unwrap_or_default(),
            profile: record.profile.name.clone(),
            started_at: manifest.started_at.clone(),
            duration: seconds(manifest.duration_s),
            machine: format!(
                "{} × {}",
                manifest.machine.cores, manifest.machine.cpu_model
            ),
            command: command(&manifest.command_line),
            verdict: verdict::run(record),
            cards: cards(record, &found),
            scenarios: found
                .iter()
                .enumerate()
                .map(|(at, scenario)| Scenario::of(record, at, scenario, all_open))
                .collect(),
            accuracy: accuracy_rows(record),
            events: events(record),
            reasons: record.validity.reasons.clone(),
            skipped: record
                .skipped
                .iter()
                .map(|s| format!("{}: {}", s.name, s.reason))
                .collect(),
            thresholds: thresholds(record),
            manifest: manifest_rows(manifest, record.calibration.as_ref()),
            targets: record
                .targets
                .iter()
                .map(|t| (t.name.clone(), target_line(t)))
                .collect(),
        }
    }
}

fn cards(record: &RunRecord, found: &[ScenarioFindings<'_>]) -> Vec<Card> {
    let mut cards: Vec<Card> = found.iter().filter_map(held_card).collect();
    if let Some(worst) = record
        .cells
        .iter()
        .filter_map(over_admission)
        .max_by(f64::total_cmp)
    {
        cards.push(Card {
            value: percent(worst),
            unit: "%",
            name: "worst over-admission".into(),
            note: "admitted above the limit, of all cells".into(),
        });
    }
    if let Some(calibration) = &record.calibration {
        cards.push(Card {
            value: large(calibration.ceiling_rps),
            unit: "/s",
            name: "generator ceiling".into(),
            note: format!("floor P99 {}", latency(calibration.floor_p99_us)),
        });
    }
    cards
}

fn held_card(scenario: &ScenarioFindings<'_>) -> Option<Card> {
    let best = scenario.ranked.first()?;
    Some(Card {
        value: large(best.findings.sustained_rps?),
        unit: "/s",
        name: scenario.title.clone(),
        note: format!(
            "most held: {} · {}",
            best.cell.target, best.cell.operation.title
        ),
    })
}

/// A rate that fits on a card.
fn large(value: f64) -> String {
    if value < 1e6 {
        rate(value)
    } else {
        short(value)
    }
}

impl Scenario {
    fn of(record: &RunRecord, at: usize, found: &ScenarioFindings<'_>, all_open: bool) -> Self {
        let mut charts = Vec::new();
        if found.ranked.len() > 1 {
            charts.push(figure(
                "Goodput against offered load",
                chart::throughput_of_all(found),
            ));
            charts.push(figure(
                "P99 against offered load",
                chart::p99_of_all(found, &record.profile),
            ));
        }
        Self {
            id: format!("scenario-{}", at + 1),
            title: found.title.clone(),
            common: or_dash(found.common_rps, |rps| format!("{}/s", rate(rps))),
            rows: found.ranked.iter().map(ScenarioRow::of).collect(),
            charts,
            cells: found
                .ranked
                .iter()
                .enumerate()
                .map(|(place, ranked)| {
                    let id = format!("cell-{}-{}", at + 1, place + 1);
                    CellView::of(record, ranked, id, all_open || place < OPEN_CELLS)
                })
                .collect(),
        }
    }
}

impl ScenarioRow {
    fn of(ranked: &Ranked<'_>) -> Self {
        let (cell, found) = (ranked.cell, &ranked.findings);
        let response = ranked.common.and_then(|step| step.response.all.as_ref());
        let server = ranked.common.and_then(|step| step.server);
        let over = over_admission(ranked.cell);
        let at = |pick: fn(&LatencySummary) -> f64| or_dash(response, |l| ms(pick(l)));
        Self {
            target: cell.target.clone(),
            operation: cell.operation.title.clone(),
            like_for_like: cell.operation.like_for_like,
            held: or_dash(found.sustained_rps, rate),
            not_held: or_dash(found.not_held_rps, rate),
            safe: or_dash(found.safe_rps, rate),
            peak: or_dash(found.peak_goodput_rps, rate),
            p50: at(|l| l.p50_us),
            p99: at(|l| l.p99_us),
            cpu: or_dash(server.and_then(|s| s.cpu_us_per_op), significant),
            memory: or_dash(server.and_then(|s| s.rss_bytes), bytes),
            over: or_dash(over, |over| format!("{} %", percent(over))),
            over_bad: over.is_some_and(|over| over > 0.0),
        }
    }
}

impl CellView {
    fn of(record: &RunRecord, ranked: &Ranked<'_>, id: String, open: bool) -> Self {
        let (cell, found) = (ranked.cell, &ranked.findings);
        let mut charts = vec![
            figure(
                "Goodput and failures against offered load",
                chart::throughput(cell),
            ),
            figure(
                "Response time against offered load",
                chart::latency_of(cell, &record.profile),
            ),
        ];
        if let Some(step) = telling_step(cell, found) {
            let title = format!("Percentiles at {}/s", rate(step.target_rps));
            charts.push(figure(&title, chart::percentiles(step)));
            if step.response.allow.is_some() && step.response.deny.is_some() {
                let title = format!("Allowed against denied at {}/s", rate(step.target_rps));
                charts.push(figure(&title, chart::verdicts(step)));
            }
        }
        Self {
            id,
            title: format!("{} · {}", cell.target, cell.operation.title),
            held: or_dash(found.sustained_rps, |rps| format!("held {}/s", rate(rps))),
            open,
            complete: cell.complete,
            load: load_line(cell),
            rows: cell.by_load().into_iter().map(RowView::of).collect(),
            observations: observations(cell, found),
            charts,
        }
    }
}

/// The row whose percentile curve says most: the highest that was held, else the lowest.
fn telling_step<'a>(cell: &'a Cell, found: &CellFindings) -> Option<&'a Step> {
    match found.sustained_rps {
        Some(rps) => near(cell, rps),
        None => cell.by_load().into_iter().next(),
    }
}

fn load_line(cell: &Cell) -> String {
    let load = &cell.load;
    let mut out = format!(
        "{} arrivals, {} connections, at most {} requests each in flight, deadline {} ms",
        load.arrivals,
        load.connections,
        load.pipeline_depth,
        significant(load.deadline_ms)
    );
    if let Some(window) = cell.operation.window_ms {
        let limit = cell
            .operation
            .limit
            .map(|limit| format!("{} in ", count(limit)));
        let window = latency(window as f64 * 1e3);
        out.push_str(&match limit {
            Some(limit) => format!(", limit {limit}{window} per key"),
            None => format!(", window {window}"),
        });
    }
    if let Some(capacity) = cell.probed_capacity_rps {
        out.push_str(&format!(", probed capacity {}/s", rate(capacity)));
    }
    out
}

impl RowView {
    fn of(step: &Step) -> Self {
        let row = LadderRow::of(step);
        Self {
            level: row.level.word(),
            icon: icon(row.level),
            label: row.label,
            rule: row.rule,
            grade: row.grade.word(),
            grade_why: step.validity.reasons.join("; "),
            failures: failure_kinds(step),
            fields: vec![
                row.target,
                row.sent,
                row.done,
                row.goodput,
                row.fail_percent,
                row.mean_ms,
                row.p50_ms,
                row.p95_ms,
                row.p99_ms,
                row.p99_9_ms,
                row.max_ms,
                row.lag_p99_ms,
                row.generator_cpu,
                row.server_cpu,
                row.server_us_per_op,
                row.admit,
            ],
        }
    }
}

/// The sign of a level, from characters that fonts without emoji have too.
fn icon(level: Level) -> &'static str {
    if level == Level::Collapsed {
        "☠"
    } else {
        level.icon()
    }
}

fn accuracy_rows(record: &RunRecord) -> Vec<AccuracyRow> {
    let judged = record
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.accuracy.as_ref()?)));
    judged
        .map(|(cell, found)| accuracy_row(cell, found))
        .collect()
}

fn accuracy_row(cell: &Cell, found: &Accuracy) -> AccuracyRow {
    // The bar's full width is a fifth more than the larger of what was and what may be admitted.
    let full = found.allowed_max.max(found.admitted).max(1) as f64 * 1.2;
    let share = |value: u64| value as f64 / full * 100.0;
    AccuracyRow {
        cell: cell.title(),
        algorithm: found.algorithm.clone(),
        limit: limit_text(cell, found.window_ms),
        offered: count(found.offered),
        admitted: count(found.admitted),
        allowed: format!("{}–{}", count(found.allowed_min), count(found.allowed_max)),
        over: percent(found.over_admission_percent),
        under: percent(found.under_admission_percent),
        worst: or_dash(worst_stretch(cell), ratio),
        unknown: count(found.unknown),
        fairness: or_dash(found.fairness_jain, significant),
        bad: !found.never_over(),
        bar: share(found.admitted),
        allowed_from: share(found.allowed_min.min(found.allowed_max)),
        allowed_width: share(found.allowed_max.saturating_sub(found.allowed_min)).max(0.6),
    }
}

fn events(record: &RunRecord) -> Vec<EventRow> {
    let row = |event: &crate::record::Event| EventRow {
        at: seconds(event.offset_s),
        severity: match event.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        },
        target: event.target.clone().unwrap_or_default(),
        text: event.text.clone(),
    };
    record.events.iter().map(row).collect()
}

fn thresholds(record: &RunRecord) -> Vec<[String; 4]> {
    let profile = &record.profile;
    let upper = |name: &str, bounds: crate::record::Bounds, unit: &str| {
        let (good, critical) = (short(bounds.good), short(bounds.critical));
        [
            name.to_owned(),
            format!("up to {good} {unit}"),
            format!("{good}–{critical} {unit}"),
            format!("above {critical} {unit}"),
        ]
    };
    let goodput = profile.goodput_percent;
    let (good, critical) = (short(goodput.good), short(goodput.critical));
    vec![
        [
            "goodput of the offered load".into(),
            format!("from {good} %"),
            format!("{critical}–{good} %"),
            format!("below {critical} %"),
        ],
        upper("failed requests", profile.fail_percent, "%"),
        upper("mean response time", profile.mean_ms, "ms"),
        upper("P95", profile.p95_ms, "ms"),
        upper("P99", profile.p99_ms, "ms"),
    ]
}

fn figure(title: &str, chart: Chart) -> Figure {
    Figure {
        title: title.to_owned(),
        svg: chart.svg,
        legend: chart
            .legend
            .into_iter()
            .map(|entry| (entry.svg, entry.name))
            .collect(),
    }
}
