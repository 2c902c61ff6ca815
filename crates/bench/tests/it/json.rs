//! `--json`: every line that a run prints, and every document about runs, has the fields that `docs/bench-json.md` names,
//! and nothing else is on standard output.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use serde_json::Value;
use tollgate_testkit::PATIENCE;
use tollgate_testkit::process::{temp_dir, tollgate_binary};

use crate::fake::{Behaviour, FakeServer};
use crate::stored::synthetic_run;

const DOCS: &str = include_str!("../../../../docs/bench-json.md");

/// A folder that goes with its owner.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(temp_dir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// What became of a command. Nothing of the user's cache is read or written.
pub(crate) fn bench(folder: &Folder, args: &[&str]) -> Output {
    Command::new(tollgate_binary().unwrap())
        .arg("bench")
        .args(args)
        .env("XDG_CACHE_HOME", &folder.0)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What the program prints to standard output, and its exit code. A machine that is so busy that nothing is answered in time is
/// asked again.
fn printed(folder: &Folder, args: &[&str]) -> (String, i32) {
    let start = Instant::now();
    let (output, code, said) = loop {
        let output = bench(folder, args);
        let code = output.status.code().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_busy = code == 1 && said.contains("not one answer within the deadline");
        if !is_busy || start.elapsed() > PATIENCE {
            break (output, code, said);
        }
    };
    // 3: the run is invalid by its own rules, as on a busy machine; it speaks as well as any.
    assert!(matches!(code, 0 | 3), "{args:?}: {said}");
    (String::from_utf8(output.stdout).unwrap(), code)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Holds `of` to have exactly these fields, each of which the docs name.
fn has_exactly(of: &Value, fields: &[&str]) {
    let found: BTreeSet<&str> = of.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(found, fields.iter().copied().collect(), "{of}");
    documented(fields);
}

/// Holds `of` to have at least these fields, each of which the docs name.
fn has(of: &Value, fields: &[&str]) {
    for field in fields {
        assert!(of.get(field).is_some(), "{field}: {of}");
    }
    documented(fields);
}

fn documented(fields: &[&str]) {
    for field in fields {
        let named = DOCS.contains(&format!("`{field}`")) || DOCS.contains(&format!(".{field}`"));
        assert!(named, "docs/bench-json.md does not name {field}");
    }
}

/// The events of a run against a limiter that answers at once.
fn events(command: &[&str]) -> Vec<Value> {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let folder = Folder::new();
    let (url, results) = (fake.url(), folder.path("results"));
    let mut args = command.to_vec();
    args.extend(["--target", &url, "--scenario", "single-key", "--json"]);
    args.extend(["--no-calibrate", "--pin", "none", "--warmup", "0s"]);
    // On a busy machine answers are late, and a system that gives none in time is given up.
    args.extend(["--deadline", "60s", "--out", &results]);
    let (text, code) = printed(&folder, &args);
    let events: Vec<Value> = text.lines().map(parsed).collect();
    events.iter().for_each(well_formed);
    let end = events.last().unwrap();
    assert_eq!(end["type"], "end", "{end}");
    assert_eq!(end["complete"], true, "{end}");
    assert_eq!(end["grade"] == "invalid", code == 3, "{end}");
    let ends = events.iter().filter(|event| event["type"] == "end");
    assert_eq!(ends.count(), 1, "the end is told once");
    let written = Path::new(end["folder"].as_str().unwrap()).join("results.json");
    assert!(written.is_file(), "{}", written.display());
    events
}

fn well_formed(event: &Value) {
    let numbers = |of: &Value, names: &[&str]| {
        for name in names {
            assert!(of[name].is_number(), "{name}: {event}");
        }
    };
    match event["type"].as_str() {
        Some("second") => {
            let counts = ["elapsed_s", "planned", "answered", "failed", "in_flight"];
            has_exactly(event, &[&counts[..], &["type", "phase", "last"]].concat());
            assert!(event["phase"].is_string(), "{event}");
            numbers(event, &counts);
            let last = &event["last"];
            if !last.is_null() {
                numbers(
                    last,
                    &["at_s", "length_s", "planned", "sent", "good", "failed"],
                );
                documented(&["at_s", "good", "p50_us", "p99_us", "generator_lag_mean_us"]);
                let answered = last["good"].as_u64() > Some(0);
                assert!(!answered || last["p99_us"].is_number(), "{event}");
                assert!(!event.to_string().contains("base64"), "{event}");
            }
        }
        Some("row") => {
            let fields = ["type", "target", "scenario", "operation", "step"];
            let start = event.get("start").map(|_| "start");
            has_exactly(event, &[&fields[..], start.as_slice()].concat());
            let step = &event["step"];
            let figures = [
                "target_rps",
                "sent",
                "completed",
                "allowed",
                "denied",
                "goodput_rps",
            ];
            numbers(step, &figures);
            documented(&figures);
            has(step, &["failures", "send_lag", "response", "service"]);
            for latencies in ["response", "service"] {
                has(&step[latencies], &["all", "allow", "deny"]);
            }
            has(&step["status"], &["level", "rule"]);
            has(&step["validity"], &["grade", "reasons"]);
            assert!(!event.to_string().contains("base64"), "{event}");
            assert!(step.get("seconds").is_none(), "{event}");
        }
        Some("end") => {
            has_exactly(event, &["type", "grade", "reasons", "complete", "folder"]);
            assert!(event["grade"].is_string() && event["folder"].is_string());
            assert!(event["complete"].is_boolean() && event["reasons"].is_array());
        }
        other => panic!("unknown event {other:?}: {event}"),
    }
}

fn kinds(events: &[Value]) -> BTreeSet<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[test]
fn a_run_tells_its_seconds_its_rows_and_its_end() {
    let events = events(&["--ladder", "200,400", "--step", "2500ms"]);
    assert_eq!(kinds(&events), BTreeSet::from(["second", "row", "end"]));
    let loads: Vec<f64> = events
        .iter()
        .filter(|event| event["type"] == "row")
        .map(|event| event["step"]["target_rps"].as_f64().unwrap())
        .collect();
    // A row that the machine spoiled is measured again.
    assert!(
        loads.starts_with(&[200.0]) && loads.contains(&400.0),
        "{loads:?}"
    );
}

#[test]
fn a_search_speaks_json_and_nothing_else() {
    let args = ["capacity", "--step", "100ms", "--trials", "1"];
    let events = events(&[&args[..], &["--max-trials", "3"]].concat());
    assert!(kinds(&events).contains("row"), "every trial is told");
}

#[test]
fn rows_of_several_starts_say_which() {
    let args = ["capacity", "--starts", "2", "--ladder", "200,400"];
    let short = ["--step", "100ms", "--trials", "1", "--max-trials", "2"];
    let events = events(&[&args[..], &short].concat());
    let rows = events.iter().filter(|event| event["type"] == "row");
    let starts: BTreeSet<Option<u64>> = rows.map(|row| row["start"].as_u64()).collect();
    assert_eq!(starts, BTreeSet::from([Some(1), Some(2)]));
}

#[test]
fn a_recovery_run_speaks_json_and_nothing_else() {
    let args = ["recovery", "--knee", "200", "--retries", "0"];
    let short = ["--step", "200ms", "--phase", "1s,1s,3s", "--good-for", "2s"];
    let events = events(&[&args[..], &short].concat());
    assert!(kinds(&events).contains("second"), "{events:?}");
}

#[test]
fn stored_runs_are_told_as_one_document() {
    let folder = Folder::new();
    let runs: Vec<String> = (0..3)
        .map(|day| {
            let mut record = synthetic_run();
            record.manifest.started_unix_s += day * 86_400;
            let path = folder.0.join(format!("run-{day}"));
            fs::create_dir_all(&path).unwrap();
            let text = serde_json::to_string(&record).unwrap();
            fs::write(path.join("results.json"), text).unwrap();
            path.display().to_string()
        })
        .collect();
    let [first, second, third] = [&runs[0], &runs[1], &runs[2]].map(String::as_str);
    let told = |args: &[&str]| parsed(&printed(&folder, args).0);

    let compared = told(&["compare", first, first, "--json", "--allow-unequal"]);
    has(&compared, &["a", "b", "unequal", "floor", "rows"]);
    let row = &compared["rows"][0];
    has(row, &["ratio_b_over_a", "ratio_ci", "test", "verdict"]);

    let moved = told(&["trends", first, second, third, "--json"]);
    has(&moved, &["started_at", "rows"]);
    let fields = ["points", "change_percent", "slope_percent_per_run", "p"];
    has(&moved["rows"][0], &[&fields[..], &["noise"]].concat());

    let judged = told(&["gate", first, "--baseline", first, "--json"]);
    has(&judged, &["outcome", "reasons", "comparison"]);
    assert_eq!(judged["outcome"], "passed", "{judged}");

    let noise = told(&["noise", first, second, third, "--json"]);
    has(&noise, &["target", "machine", "metrics"]);
    let fields = ["cv_percent", "observed_percent"];
    let fields = [&fields[..], &["smallest_claimable_percent"]].concat();
    has(&noise["metrics"][0], &fields);
}

#[test]
fn the_noise_of_a_machine_is_measured_into_one_document() {
    let folder = Folder::new();
    let results = folder.path("results");
    let args = ["noise", "--starts", "3", "--ladder", "500", "--step"];
    let args = [&args[..], &["200ms", "--json", "--out", &results]].concat();
    let output = bench(&folder, &args);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("nothing was calibrated") {
        assert_eq!(output.status.code(), Some(1), "{said}");
        tollgate_testkit::peers::say_skipped("a machine that is less busy");
        return;
    }
    assert!(output.status.success(), "{said}");
    let noise = parsed(&String::from_utf8(output.stdout).unwrap());
    has(&noise, &["target", "machine", "metrics"]);
    assert_eq!(noise["target"], "tollgate", "{noise}");
}

#[test]
fn two_servers_are_compared_into_one_document() {
    let (a, b) = (
        FakeServer::start(Behaviour::Limiter { surplus: 0 }),
        FakeServer::start(Behaviour::Limiter { surplus: 0 }),
    );
    let folder = Folder::new();
    let (a, b) = (a.url(), b.url().replace("fake=", "other="));
    let results = folder.path("results");
    let args = ["compare", &a, &b, "--loads", "get", "--depth", "1"];
    let few = ["--connections", "2", "--slices", "3", "--slice-ms", "200"];
    let rest = [
        "--records",
        "1000",
        "--pin",
        "none",
        "--json",
        "--out",
        &results,
    ];
    let found = parsed(&printed(&folder, &[&args[..], &few, &rest].concat()).0);
    has(&found, &["a", "b", "rows", "complete"]);
    has(&found["rows"][0], &["title", "pairs", "ratios"]);
    assert_eq!(found["complete"], true, "{found}");

    // Its record is drawn again like any other.
    let latest = folder.path("results/latest");
    let page = std::path::Path::new(&latest).join("compare.html");
    let drawn = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    let (said, _) = printed(&folder, &["report", &latest]);
    let title = found["rows"][0]["title"].as_str().unwrap();
    assert!(said.contains(title), "{said}");
    assert_eq!(std::fs::read_to_string(&page).unwrap(), drawn);
    for (option, why) in [
        ("--trends", "--trends is about runs"),
        ("--format=hlog", "no form hlog"),
    ] {
        let output = bench(&folder, &["report", &latest, option]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
}
