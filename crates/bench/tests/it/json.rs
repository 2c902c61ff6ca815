//! `--json`: every line that a run prints, and every document about stored runs, has the shape that
//! `docs/bench-json.md` tells.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tollgate_testkit::process::{temp_dir, tollgate_binary};

use crate::fake::{Behaviour, FakeServer};
use crate::stored::synthetic_run;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// What the program prints to standard output.
fn printed(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(tollgate_binary().unwrap())
        .arg("bench")
        .args(args)
        .env("XDG_CACHE_HOME", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The events of a run against a limiter that answers at once.
fn events(command: &[&str]) -> Vec<Value> {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let folder = Folder(temp_dir().unwrap());
    let results = folder.0.join("results").display().to_string();
    let url = fake.url();
    let mut args = command.to_vec();
    args.extend(["--target", &url, "--scenario", "single-key", "--json"]);
    args.extend([
        "--no-calibrate",
        "--pin",
        "none",
        "--warmup",
        "0s",
        "--out",
        &results,
    ]);
    let text = printed(&folder.0, &args);
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    events.iter().for_each(well_formed);
    let end = events.last().unwrap();
    assert_eq!(end["type"], "end", "{end}");
    let written = Path::new(end["folder"].as_str().unwrap()).join("results.json");
    assert!(written.is_file(), "{}", written.display());
    events
}

fn well_formed(event: &Value) {
    let texts = |names: &[&str]| {
        for name in names {
            assert!(event[name].is_string(), "{name}: {event}");
        }
    };
    let numbers = |of: &Value, names: &[&str]| {
        for name in names {
            assert!(of[name].is_number(), "{name}: {event}");
        }
    };
    match event["type"].as_str() {
        Some("second") => {
            texts(&["phase"]);
            numbers(
                event,
                &["elapsed_s", "planned", "answered", "failed", "in_flight"],
            );
        }
        Some("row") => {
            texts(&["target", "scenario", "operation"]);
            let step = &event["step"];
            numbers(
                step,
                &[
                    "target_rps",
                    "duration_s",
                    "sent",
                    "completed",
                    "goodput_rps",
                ],
            );
            assert!(step["status"]["level"].is_string(), "{event}");
            assert!(step["validity"]["grade"].is_string(), "{event}");
            assert!(!event.to_string().contains("base64"), "{event}");
            assert!(step.get("seconds").is_none(), "{event}");
        }
        Some("end") => {
            texts(&["grade", "folder"]);
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
    assert!(
        loads.starts_with(&[200.0]) && loads.contains(&400.0),
        "{loads:?}"
    );
}

#[test]
fn a_search_speaks_json_and_nothing_else() {
    let args = [
        "capacity",
        "--step",
        "100ms",
        "--trials",
        "1",
        "--max-trials",
        "3",
    ];
    assert!(kinds(&events(&args)).contains("end"));
}

#[test]
fn a_recovery_run_speaks_json_and_nothing_else() {
    let args = [
        "recovery",
        "--knee",
        "200",
        "--phase",
        "1s",
        "--retries",
        "0",
    ];
    assert!(kinds(&events(&args)).contains("end"));
}

#[test]
fn stored_runs_are_told_as_one_document() {
    let folder = Folder(temp_dir().unwrap());
    let runs: Vec<String> = (0..3)
        .map(|day| {
            let mut record = synthetic_run();
            record.manifest.started_unix_s += day * 86_400;
            let path = folder.0.join(format!("run-{day}"));
            fs::create_dir_all(&path).unwrap();
            fs::write(
                path.join("results.json"),
                serde_json::to_string(&record).unwrap(),
            )
            .unwrap();
            path.display().to_string()
        })
        .collect();
    let [first, second, third] = [&runs[0], &runs[1], &runs[2]].map(String::as_str);
    let same_time = ["compare", first, first, "--json", "--allow-unequal"];
    let trends = ["trends", first, second, third, "--json"];
    let noise = ["noise", first, "--json"];
    for (args, fields) in [
        (&same_time[..], ["a", "b", "rows"]),
        (&trends[..], ["started_at", "rows", "notes"]),
        (&noise[..], ["target", "metrics", "machine"]),
    ] {
        let document: Value = serde_json::from_str(&printed(&folder.0, args)).unwrap();
        for field in fields {
            assert!(document.get(field).is_some(), "{field}: {document}");
        }
    }
}
