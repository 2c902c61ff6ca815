//! Our rows beside the study's: a pure function of the run's record.

use super::Study;
use super::judge::judge;
use super::seeds::{self, LadderRow};
use crate::record::paper::{PaperFigures, PaperRecord, PaperRow, PaperTable};
use crate::record::{Cell, Machine, Profile, RunRecord, Status, Step, status};
use crate::report::format::{count, rate};

/// Rates closer than this are the same rung.
const SAME_RATE: f64 = 0.5;
/// Steps whose lengths differ by more than this share are not the same length.
const SAME_LENGTH: f64 = 0.02;

/// The ladder studies beside `run`.
#[must_use]
pub(crate) fn ladders(study: Study, run: &RunRecord) -> PaperRecord {
    let mut tables = Vec::new();
    for id in study.ladder_tables() {
        let rows: Vec<&LadderRow> = seeds::table(id).collect();
        let cells = run.cells.iter().filter(|cell| belongs(cell, &rows));
        tables.extend(cells.map(|cell| table(study, id, &rows, Some(cell), run)));
    }
    PaperRecord {
        tables,
        not_comparable: general(study, run),
        ..head(study)
    }
}

/// The study's own rows under its own thresholds and our rules, of all its ladders or those of `scenario`; nothing is
/// measured.
#[must_use]
pub(crate) fn replay(study: Study, scenario: Option<&str>) -> PaperRecord {
    let asked = |rows: &[&LadderRow]| {
        let of = rows.first().map(|row| row.scenario.as_str());
        scenario.is_none() || scenario == of
    };
    let mut tables: Vec<PaperTable> = study
        .ladder_tables()
        .iter()
        .filter_map(|id| {
            let rows: Vec<&LadderRow> = seeds::table(id).collect();
            asked(&rows).then(|| table(study, id, &rows, None, &RunRecord::default()))
        })
        .collect();
    tables.extend(throughput_tables(study));
    let mut not_comparable = Vec::new();
    if study == Study::Clients {
        tables.extend(client_tables());
        not_comparable.extend(
            [
                "The column printed as requests per second holds bytes: printed figure times duration by denied answers is 286.6 to 286.7 \
                 in every row, the size of one such answer. The rates here are denied answers by the duration; ratios between rows survive.",
                "One key, 100 a minute: more than 99.9 % of the answers denied, so the rejection path alone was measured, and the heavy \
                 workload behind the limiter ran about 100 times a minute.",
                "Its CPU and memory columns are those of the load generator.",
                "Latencies are whole milliseconds: 2 and 3 ms are as fine as they get.",
                "Each client has a store of its own kind, so client and store cannot be told apart.",
            ]
            .map(str::to_owned),
        );
    }
    if !study.ladder_tables().is_empty() {
        not_comparable.push(
            "The study states no thresholds for its signs and words; the computed status follows its table of metrics \
             (section 3.3), which applies to \"Actual RPS\" and so counts failures as throughput."
                .to_owned(),
        );
    }
    PaperRecord {
        replay: true,
        tables,
        not_comparable,
        ..head(study)
    }
}

/// The study's name and source.
#[must_use]
pub(crate) fn head(study: Study) -> PaperRecord {
    PaperRecord {
        study: study.number().into(),
        title: study.title().into(),
        source: study.source().into(),
        ..PaperRecord::default()
    }
}

/// Whether `cell` is a counterpart of the study's table: the same scenario, and not another store than the table's where it
/// is one of the two in the study.
fn belongs(cell: &Cell, rows: &[&LadderRow]) -> bool {
    let Some(first) = rows.first() else {
        return false;
    };
    let other = if first.backend.starts_with("Redis") {
        "dragonfly"
    } else {
        "redis-server"
    };
    cell.scenario.name == first.scenario && cell.target != other
}

fn table(
    study: Study,
    id: &str,
    rows: &[&LadderRow],
    cell: Option<&Cell>,
    run: &RunRecord,
) -> PaperTable {
    let paper = rows.first().map_or_else(String::new, |row| {
        format!(
            "{}, {}, {:.0} s a step",
            row.backend,
            scenario_title(&row.scenario),
            row.step_s
        )
    });
    // Labels depend on the whole ladder.
    let mut steps: Vec<Step> = rows.iter().map(|row| row.step()).collect();
    status::classify(&Profile::bench(), &mut steps, &[]);
    let rows_out = rows
        .iter()
        .zip(steps)
        .map(|(row, step)| beside(study, row, step.status, cell))
        .collect();
    PaperTable {
        id: id.into(),
        paper,
        ours: cell.map(|cell| format!("{} · {}", cell.target, cell.operation.title)),
        rows: rows_out,
        not_comparable: cell.map_or_else(
            || of_paper(rows),
            |cell| {
                let mut reasons = of_paper(rows);
                reasons.extend(of_cell(rows, cell, run));
                reasons
            },
        ),
    }
}

fn scenario_title(name: &str) -> &'static str {
    match name {
        "single-key" => "one key",
        "hundred-keys" => "100 keys",
        _ => "100 keys, hot 90/10",
    }
}

fn beside(study: Study, row: &LadderRow, paper_status: Status, cell: Option<&Cell>) -> PaperRow {
    let step = cell.and_then(|cell| {
        cell.steps
            .iter()
            .find(|step| (step.target_rps - row.target_rps).abs() < SAME_RATE)
    });
    let (paper, ours) = (row.figures(), step.map(figures));
    PaperRow {
        title: format!("{}/s", rate(row.target_rps)),
        rate_ratio: ours.and_then(|ours| ratio(ours.goodput_rps, paper.goodput_rps)),
        p99_ratio: ours.and_then(|ours| ratio(ours.p99_ms, paper.p99_ms)),
        paper,
        ours,
        seed_status: row.status_in(study).map(Into::into),
        computed: Some(judge(row)),
        paper_status: Some(paper_status),
        our_status: step.map(|step| step.status.clone()),
        our_grade: step.map(|step| step.validity.grade),
    }
}

/// Ours by theirs; `None` without both, or where theirs is 0.
pub(super) fn ratio(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    let (ours, theirs) = (ours?, theirs?);
    (theirs > 0.0).then(|| ours / theirs)
}

fn figures(step: &Step) -> PaperFigures {
    let all = step.response.all.as_ref();
    let ms = |pick: fn(&crate::record::LatencySummary) -> f64| all.map(|all| pick(all) / 1e3);
    PaperFigures {
        target_rps: Some(step.target_rps),
        goodput_rps: Some(step.goodput_rps),
        actual_rps: None,
        fail_percent: Some(step.fail_percent()),
        mean_ms: ms(|all| all.mean_us),
        p95_ms: ms(|all| all.p95_us),
        p99_ms: ms(|all| all.p99_us),
        p99_9_ms: ms(|all| all.p99_9_us),
        wall_s: None,
    }
}

/// The rows of studies 003 and 004 without ours.
fn throughput_tables(study: Study) -> Vec<PaperTable> {
    let mut tables: Vec<PaperTable> = Vec::new();
    for row in seeds::throughput()
        .iter()
        .filter(|row| row.study == study.number())
    {
        let paper = format!("{}, {}", row.backend, row.table);
        if tables.last().is_none_or(|table| table.id != row.table) {
            tables.push(PaperTable {
                id: row.table.clone(),
                paper: row.table.clone(),
                ..PaperTable::default()
            });
        }
        if let Some(table) = tables.last_mut() {
            table.rows.push(PaperRow {
                title: format!("{} {}", row.test, row.backend),
                paper: PaperFigures {
                    goodput_rps: row.rps,
                    p99_ms: row.p99_ms,
                    p99_9_ms: row.p99_9_ms,
                    ..PaperFigures::default()
                },
                ..PaperRow::default()
            });
            if table.rows.len() == 1 && study == Study::RedisBenchmark {
                table.paper = paper;
            }
        }
    }
    tables
}

/// The rows of study 002, by mode.
fn client_tables() -> Vec<PaperTable> {
    let mut tables: Vec<PaperTable> = Vec::new();
    for row in seeds::clients() {
        if tables.last().is_none_or(|table| table.id != row.mode) {
            tables.push(PaperTable {
                id: row.mode.clone(),
                paper: row.mode.clone(),
                ..PaperTable::default()
            });
        }
        let figures = PaperRow {
            title: format!(
                "{} {} {}c {:.0}s, printed {}",
                row.client,
                row.workload,
                row.connections,
                row.duration_s,
                rate(row.printed)
            ),
            paper: PaperFigures {
                goodput_rps: Some(row.real_rps()),
                mean_ms: Some(row.mean_ms),
                p99_ms: Some(row.p99_ms),
                ..PaperFigures::default()
            },
            ..PaperRow::default()
        };
        if let Some(table) = tables.last_mut() {
            table.rows.push(figures);
        }
    }
    tables
}

/// What is odd about the study's own rows.
fn of_paper(rows: &[&LadderRow]) -> Vec<String> {
    let mut reasons = Vec::new();
    if rows.iter().any(|row| row.step_s <= 1.0) {
        reasons.push(
            "The study's steps here last 1 s, those of its other tables 30 to 60 s: nine seconds of load in total."
                .into(),
        );
    }
    if rows.iter().all(|row| row.sign.is_none()) {
        reasons.push("The status signs of this table were lost in the published text.".into());
    }
    for row in rows.iter().filter(|row| row.unaccounted() > 0) {
        reasons.push(format!(
            "At {}/s the study accounts for {} of {} planned requests.",
            rate(row.target_rps),
            count(row.success + row.fail),
            rate(row.target_rps * row.step_s)
        ));
    }
    let inverted = rows
        .windows(2)
        .any(|pair| pair[0].fail > 0 && pair[1].fail == 0);
    if inverted {
        reasons.push(
            "The study's ladder is not monotone: rows that failed lie below rows that did not."
                .into(),
        );
    }
    reasons
}

/// Why this cell is no equal of the study's table.
fn of_cell(rows: &[&LadderRow], cell: &Cell, run: &RunRecord) -> Vec<String> {
    let mut reasons = Vec::new();
    let same = |step: &Step| {
        let mut theirs = rows.iter();
        theirs.any(|row| (step.target_rps - row.target_rps).abs() < SAME_RATE)
    };
    if !cell.steps.is_empty() && !cell.steps.iter().any(same) {
        reasons
            .push("Our ladder has no load of the study's, so no row stands beside its own.".into());
    }
    let theirs = rows.first().map_or(0.0, |row| row.step_s);
    // A step that was cut short says so itself; the planned length is the longest.
    let ours = cell.lengths_s().fold(0.0, f64::max);
    if ours > 0.0 && (ours / theirs.max(1e-9) - 1.0).abs() > SAME_LENGTH {
        reasons.push(format!(
            "Our steps last {ours:.1} s, the study's {theirs:.0} s{}.",
            if ours < theirs { " (shortened)" } else { "" }
        ));
    }
    let backend = rows.first().map_or("", |row| row.backend.as_str());
    let target = run.targets.iter().find(|target| target.name == cell.target);
    if let Some(target) = target {
        let version = format!("{} {}", target.server_name, target.server_version);
        reasons.push(format!(
            "The study's store was {backend}; ours is {}.",
            match version.trim() {
                "" => cell.target.as_str(),
                version => version,
            }
        ));
    }
    if cell.operation.name == "grpc-rls" {
        reasons.push(
            "The study's path was a Java gRPC client, Envoy, Spring Boot and the store; ours is the generator and one service \
             process with its store inside."
                .into(),
        );
    } else {
        reasons.push(format!(
            "The study's path was a Java gRPC client, Envoy, Spring Boot and the store; ours asks directly, by {}.",
            cell.operation.title
        ));
    }
    if let Some((low, high)) = admit_ratios(cell) {
        reasons.push(format!(
            "The study does not state its limit; ours is set so that {low:.2} to {high:.2} of the decisions admit."
        ));
    }
    if !cell.complete {
        reasons.push("Our ladder is not complete.".into());
    }
    reasons
}

fn admit_ratios(cell: &Cell) -> Option<(f64, f64)> {
    let ratios = || cell.steps.iter().filter_map(Step::admit_ratio);
    Some((
        ratios().min_by(f64::total_cmp)?,
        ratios().max_by(f64::total_cmp)?,
    ))
}

/// Where the study ran, and where this run did.
pub(super) fn hardware(study: &str, machine: &Machine) -> String {
    let cpu = match machine.cpu_model.as_str() {
        "" => "an unknown processor",
        model => model,
    };
    format!(
        "Hardware: the study ran {study}; this run on {cpu} with {} cores, {}.",
        machine.cores, machine.os
    )
}

/// A remark on this program's build, unless it is an optimised one.
pub(super) fn build() -> Option<String> {
    cfg!(debug_assertions).then(|| {
        "Build: this program is not optimised; its own servers and generator are slower than released ones.".to_owned()
    })
}

/// Why no row of the run is an equal of the study's.
fn general(study: Study, run: &RunRecord) -> Vec<String> {
    let mut reasons = vec![hardware(
        "on an Apple M4 with 10 cores under Docker on macOS, all parts on one host",
        &run.manifest.machine,
    )];
    if let Some(cell) = run.cells.first() {
        reasons.push(format!(
            "Deadline: the study had none, late answers count as latency up to minutes; here an answer after {:.0} ms is a failure.",
            cell.load.deadline_ms
        ));
        reasons.push(format!(
            "Arrivals: {} here; the study does not say, its counts fit constant ones.",
            cell.load.arrivals
        ));
    }
    reasons.push(
        "Latency: from the intended send time here; the study does not say from when.".into(),
    );
    reasons.push(
        "Throughput: goodput is good answers by the step's length on both sides; the study's \"Actual RPS\" counts failures and \
         divides by a time that includes the drain."
            .into(),
    );
    if study == Study::Ladders {
        reasons.push(
            "The study sets 60 s steps on Redis against 1 s steps on Dragonfly (100 keys uniform): its +37.5 % is not a comparison \
             of equals."
                .into(),
        );
    }
    reasons.push(
        "Keys: study 000 calls the 100-key run uniform, study 001 the same run round robin.".into(),
    );
    reasons.extend(build());
    if let Some(why) = &run.partial_reason {
        reasons.push(format!("This run is partial: {why}."));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::paper::Colour;
    use crate::record::{LatencySummary, Level, Load, Operation, SplitLatency, TargetRecord};
    use crate::run::plan::KeyPlan;

    fn step(rate: f64) -> Step {
        Step {
            target_rps: rate,
            duration_s: 2.0,
            planned: 1_000,
            allowed: 400,
            denied: 600,
            goodput_rps: rate / 2.0,
            response: SplitLatency {
                all: Some(LatencySummary {
                    p99_us: 2_980.0,
                    ..LatencySummary::default()
                }),
                ..SplitLatency::default()
            },
            ..Step::default()
        }
    }

    fn run() -> RunRecord {
        let cell = |target: &str, scenario: &KeyPlan| Cell {
            target: target.into(),
            scenario: scenario.record(),
            operation: Operation {
                name: "evalsha".into(),
                title: "EVALSHA".into(),
                ..Operation::default()
            },
            load: Load {
                arrivals: "constant".into(),
                deadline_ms: 1_000.0,
                ..Load::default()
            },
            steps: vec![step(10_000.0), step(12_500.0)],
            complete: true,
            ..Cell::default()
        };
        let scenarios = Study::Ladders.scenarios(None);
        RunRecord {
            targets: vec![TargetRecord {
                name: "redis-server".into(),
                server_name: "redis".into(),
                server_version: "7.0.15".into(),
                ..TargetRecord::default()
            }],
            cells: ["redis-server", "tollgate"]
                .iter()
                .flat_map(|target| scenarios.iter().map(|scenario| cell(target, scenario)))
                .collect(),
            ..RunRecord::default()
        }
    }

    #[test]
    fn every_table_stands_beside_its_counterparts() {
        let record = ladders(Study::Ladders, &run());
        let pairs: Vec<(&str, &str)> = record
            .tables
            .iter()
            .map(|table| (table.id.as_str(), table.ours.as_deref().unwrap()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("P1", "redis-server · EVALSHA"),
                ("P1", "tollgate · EVALSHA"),
                ("P2", "redis-server · EVALSHA"),
                ("P2", "tollgate · EVALSHA"),
                ("P3", "redis-server · EVALSHA"),
                ("P3", "tollgate · EVALSHA"),
                ("P4", "tollgate · EVALSHA"),
                ("P5", "tollgate · EVALSHA"),
            ]
        );
        let row = &record.tables[2].rows[0];
        assert_eq!(row.rate_ratio, Some(0.5));
        assert!((row.p99_ratio.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(row.seed_status.as_deref(), Some("✓"));
        let unmeasured = &record.tables[2].rows[8];
        assert!(unmeasured.ours.is_none() && unmeasured.rate_ratio.is_none());
    }

    #[test]
    fn differences_are_told() {
        let record = ladders(Study::Ladders, &run());
        let told = |table: usize, word: &str| {
            record.tables[table]
                .not_comparable
                .iter()
                .any(|reason| reason.contains(word))
        };
        assert!(told(2, "shortened") && told(2, "redis 7.0.15") && told(2, "admit"));
        assert!(told(0, "not monotone") && told(6, "last 1 s"));
        for word in ["Hardware", "Deadline", "Arrivals: constant", "1 s steps"] {
            assert!(
                record.not_comparable.iter().any(|r| r.contains(word)),
                "{word}"
            );
        }
    }

    #[test]
    fn a_replay_judges_the_studys_own_rows() {
        let record = replay(Study::Ladders, None);
        assert!(record.replay && record.tables.len() == 5);
        let row = |table: usize, rate: f64| {
            record.tables[table]
                .rows
                .iter()
                .find(|row| row.paper.target_rps == Some(rate))
                .unwrap()
        };
        let uniform = row(1, 20_000.0);
        assert_eq!(uniform.seed_status.as_deref(), Some("✓"));
        assert_eq!(uniform.computed.as_ref().unwrap().colour, Colour::Warning);
        assert_eq!(
            uniform.paper_status.as_ref().unwrap().level,
            Level::NearLimit
        );
        let hot = row(2, 17_500.0);
        assert_eq!(hot.computed.as_ref().unwrap().colour, Colour::Critical);
        assert_eq!(hot.paper_status.as_ref().unwrap().level, Level::Degraded);
        let dragonfly = row(3, 25_000.0);
        assert_eq!(
            dragonfly.computed.as_ref().unwrap().colour,
            Colour::Critical
        );
        assert_eq!(
            replay(Study::Hundred, None).tables[0].rows[4]
                .seed_status
                .as_deref(),
            Some("Stable Limit")
        );
        assert_eq!(replay(Study::RedisBenchmark, None).tables.len(), 3);
        let clients = replay(Study::Clients, None);
        assert_eq!(clients.tables.len(), 2);
        assert!(clients.tables.iter().all(|table| table.rows.len() == 6));
        assert!(clients.not_comparable[0].contains("bytes"));
        assert_eq!(replay(Study::Memtier, None).tables.len(), 7);
    }
}
