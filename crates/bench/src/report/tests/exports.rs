//! Files for other programs: CSV, ratelimit_bench's JSON, Prometheus rules, Grafana, the migration checklist.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use serde_json::Value;

use super::super::advice::{capacities, grafana, prometheus, thresholds::PROD};
use super::super::files::{Format, Rendering, RunDirectory, read_run};
use super::super::migrate::{Plan, System};
use super::super::{Lang, bencher, hgrm, ratelimit_bench, rows_csv};
use super::{Scratch, everything, fixture, same};
use crate::record::Grade;

#[test]
fn the_full_csv_has_every_row_with_units_in_its_columns() {
    let text = rows_csv(&everything::run());
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    for head in [
        "target_rps",
        "response_p99_9_us",
        "server_rss_bytes",
        "send_lag_p99_us",
    ] {
        assert!(heads.contains(&head), "{head}");
    }
    assert_eq!(lines.count(), 4 * 9);
}

#[test]
fn figures_export_to_benchers_format_with_their_intervals() {
    let record = everything::run();
    let figures = serde_json::to_value(bencher::figures(&record)).unwrap();
    let rows = figures.as_object().unwrap();
    assert!(!rows.is_empty());
    let cell = &record.cells[0];
    let step = &cell.steps[0];
    let name = format!(
        "{} / {} / {} at {:.0}/s",
        cell.target, cell.operation.title, cell.scenario.title, step.target_rps
    );
    let row = &rows[&name];
    assert_eq!(row["throughput"]["value"], step.goodput_rps);
    let p99_us = step.response.all.as_ref().unwrap().p99_us;
    assert_eq!(row["latency-p99"]["value"], p99_us * 1e3);
    for measures in rows
        .values()
        .flat_map(|row| row.as_object().unwrap().values())
    {
        let value = measures["value"].as_f64().unwrap();
        let end = |name: &str| measures.get(name).and_then(Value::as_f64);
        assert!(end("lower_value").is_none_or(|low| low.is_finite()));
        assert!(value.is_finite() && end("upper_value").is_none_or(f64::is_finite));
    }
}

#[test]
fn every_row_has_a_percentile_distribution() {
    let record = everything::run();
    let files = hgrm::files(&record);
    let rows = record.cells.iter().flat_map(|cell| &cell.steps);
    let with = rows.filter(|step| step.response.merged().is_some()).count();
    assert_eq!(files.len(), with);
    let mut names: Vec<&String> = files.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), with, "every name is used once");
    assert!(names.iter().all(|name| !name.contains(['/', ':', ' '])));
    assert!(files.iter().all(|(_, text)| text.contains("#[Max     =")));
}

#[test]
fn rows_export_to_the_layout_of_ratelimit_bench() {
    let files = ratelimit_bench::files(&fixture::run());
    assert_eq!(files.len(), 81);
    let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert!(
        names[0].starts_with("redis_evalsha-single-key-")
            && names[0].ends_with("rps_50c_3s_run1.json"),
        "{}",
        names[0]
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 81, "every name is used once");
    assert!(
        files
            .iter()
            .all(|file| file.log.lines().count() >= 4 && file.log.is_ascii())
    );
    assert!(files[0].log.contains("goodput"), "{}", files[0].log);
    let first = &files[0].content;
    assert_eq!(first["requests"]["average"], first["targetRps"]);
    assert_eq!(
        first["throughput"]["average"],
        Value::Null,
        "bytes are not measured"
    );
    for key in [
        "timestamp",
        "implementation",
        "requestType",
        "rateLimitHits",
        "non2xx",
        "resources",
    ] {
        assert!(!first[key].is_null(), "{key}");
    }
}

#[test]
fn the_capacity_of_a_target_is_that_of_its_worst_scenario() {
    let mut record = fixture::run();
    // The first scenario of redis holds less than the others.
    for step in &mut record.cells[0].steps[3..] {
        step.failures.timeout = step.planned / 10;
    }
    record.settle();
    let found = capacities(&record);
    let redis = found.iter().find(|c| c.cell.target == "redis").unwrap();
    assert_eq!(redis.cell.scenario.name, "single-key");
    assert_eq!(redis.sustained_rps, 44_000.0);
}

/// Rules for a store with a hostile name and for a service.
fn rules() -> String {
    let mut record = fixture::run();
    for cell in &mut record.cells {
        if cell.target == "redis" {
            cell.target = "re\"dis {{ x }}\n\\".into();
        }
    }
    record.targets[0].name = "re\"dis {{ x }}\n\\".into();
    record.targets[1].kind = crate::record::TargetKind::Service;
    prometheus::rules(&record, &PROD, None)
}

#[test]
fn rules_carry_the_measured_capacity() {
    let text = rules();
    assert!(text.contains("tollgate:capacity_sustained:rps"), "{text}");
    assert!(text.contains("redis_commands_total"), "{text}");
    assert!(
        text.contains("ratelimit_service_response_time_seconds_bucket"),
        "{text}"
    );
    assert_eq!(
        prometheus::rules(&super::run_of(Vec::new()), &PROD, None)
            .matches("groups: []")
            .count(),
        1
    );
}

#[test]
fn the_load_of_a_script_is_that_of_its_command() {
    let mut record = fixture::run();
    for cell in &mut record.cells {
        cell.operation.name = "evalsha:gcra".into();
    }
    // What a script calls counts among all commands as well.
    let text = prometheus::rules(&record, &PROD, None);
    assert!(text.contains("cmd=\\\"evalsha\\\""), "{text}");
    assert!(!text.contains("redis_commands_processed_total"), "{text}");
}

#[test]
fn promtool_accepts_the_rules() {
    let scratch = Scratch::new("rules");
    let path = scratch.0.join("rules.yml");
    for text in [
        rules(),
        prometheus::rules(&super::run_of(Vec::new()), &PROD, None),
    ] {
        fs::write(&path, &text).unwrap();
        let Some(promtool) = tollgate_testkit::peers::find("promtool") else {
            std::io::stderr()
                .write_all(b"\nskipped: needs promtool\n")
                .unwrap();
            return;
        };
        let done = Command::new(promtool)
            .args(["check", "rules"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}\n{text}");
    }
}

#[test]
fn the_dashboard_draws_its_thresholds_at_the_measured_capacity() {
    let record = fixture::run();
    let dashboard = grafana::dashboard(&record, &PROD, Some("edge"), Lang::En);
    let panels = dashboard["panels"].as_array().unwrap();
    assert_eq!(
        panels.len(),
        2 * (1 + 6),
        "a row and six panels for each of two stores"
    );
    let load = &panels[1];
    let sustained = capacities(&record)[0].sustained_rps;
    let steps = &load["fieldConfig"]["defaults"]["thresholds"]["steps"];
    assert_eq!(
        steps[1]["value"].as_f64().unwrap(),
        sustained * 70.0 / 100.0
    );
    assert!(
        load["targets"][0]["expr"]
            .as_str()
            .unwrap()
            .contains("job=\"edge\"")
    );
    let mut places: Vec<String> = panels
        .iter()
        .map(|panel| panel["gridPos"].to_string())
        .collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), panels.len(), "no panel covers another");
}

#[test]
fn a_run_fills_the_boxes_of_the_checklist_that_it_answers() {
    let record = fixture::run();
    let plan = Plan {
        from: System::Redis,
        to: System::Tollgate,
        run: Some(&record),
        lang: Lang::En,
    };
    let text = plan.markdown("tollgate bench migrate");
    for needle in [
        "- [x] Benchmark: Redis and Tollgate measured side by side",
        "- [x] Accuracy: no cell of Tollgate admitted more",
        "- [x] Connection pool: the run used 50 connections",
        "- [ ] Canary: 5 %",
        "| port | `port 6379` |",
        "## Rollback criteria",
        "## Measured",
    ] {
        assert!(text.contains(needle), "{needle}\n{text}");
    }
}

#[test]
fn an_invalid_run_leaves_the_box_of_the_benchmark_open() {
    let mut record = fixture::run();
    record.validity.grade = Grade::Invalid;
    let plan = Plan {
        from: System::Redis,
        to: System::Tollgate,
        run: Some(&record),
        lang: Lang::En,
    };
    let text = plan.markdown("tollgate bench migrate");
    assert!(
        text.contains("- [ ] Benchmark: the run is invalid; measure both again on a quiet machine: `tollgate bench"),
        "{text}"
    );
}

#[test]
fn every_form_is_written_and_read_again() {
    let scratch = Scratch::new("forms");
    let record = everything::run();
    let directory = RunDirectory::existing(scratch.0.join("new"));
    let written = directory
        .write_formats(&record, &[Format::All], &Rendering::default())
        .unwrap();
    for name in [
        "report.html",
        "README.md",
        "summary.csv",
        "rows.csv",
        "results.json",
        "prometheus-rules.yml",
        "grafana-dashboard.json",
    ] {
        assert!(written.iter().any(|done| done == name), "{name}");
    }
    for source in ["", "results.json", "report.html"] {
        let again = read_run(&directory.path().join(source)).unwrap();
        assert!(same(&again, &record), "{source}");
    }
    assert!(read_run(&directory.path().join("README.md")).is_err());
    assert!(read_run(&directory.path().join("absent")).is_err());
}

/// Records of before the newer fields.
#[test]
fn the_oldest_record_kept_still_renders() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/first-record");
    let from_json = read_run(&path).unwrap();
    let from_page = read_run(&path.join("report.html")).unwrap();
    assert_eq!(from_json.cells.len(), from_page.cells.len());
    super::render_all(&from_json);
}
