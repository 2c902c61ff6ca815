//! `--raw` and `--spin`: single requests are kept, counted and printed, also from a file that was cut off.

use std::collections::BTreeMap;
use std::fs;

use tollgate_bench::record::{RunRecord, Step};

use crate::fake::{Behaviour, FakeServer};
use crate::json::{Folder, bench};

/// A run of a moment on a fake limiter; its folder, and the step.
fn run(folder: &Folder, more: &[&str]) -> Step {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let (url, out) = (fake.url(), folder.path("results"));
    let fixed = ["--no-calibrate", "--pin", "none"];
    let what = [
        "--scenario",
        "hundred-keys",
        "--op",
        "script",
        "--warmup",
        "0s",
    ];
    let load = ["--ladder", "2000", "--step", "500ms"];
    let place = ["--target", &url, "--out", &out];
    let output = bench(folder, &[&fixed[..], &what, &load, &place, more].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // 3: the machine was busy.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let text = fs::read_to_string(folder.path("results/latest/results.json")).unwrap();
    let record: RunRecord = serde_json::from_str(&text).unwrap();
    record.cells[0].steps[0].clone()
}

/// The lines of `bench raw`, each by the names of its columns, and its exit code.
fn printed(folder: &Folder, args: &[&str]) -> (Vec<BTreeMap<String, String>>, i32) {
    let output = bench(folder, &[&["raw"], args].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().map_or_else(Vec::new, Iterator::collect);
    let row = |line: std::str::Split<'_, char>| {
        let named = names.iter().zip(line);
        named
            .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
            .collect()
    };
    (lines.map(row).collect(), output.status.code().unwrap())
}

#[test]
fn every_request_is_kept_and_printed() {
    let folder = Folder::new();
    let step = run(&folder, &["--raw", "--spin=50us"]);
    let kept = step.samples.expect("the step has samples");
    assert_eq!((kept.every, kept.kept, kept.left_out), (1, step.planned, 0));
    let (rows, code) = printed(&folder, &[&folder.path("results/latest")]);
    // A row that the machine spoiled is measured again; the last one stands in the record.
    let all = rows.len();
    let of_step = |row: &BTreeMap<String, String>| row["step_at_s"] == step.offset_s.to_string();
    let rows: Vec<_> = rows.into_iter().filter(of_step).collect();
    assert_eq!((rows.len() as u64, code), (step.planned, 0));
    let count = |outcome: &str| {
        let those = rows
            .iter()
            .filter(|row| row["outcome"] == outcome && row["late"] == "no");
        those.count() as u64
    };
    assert_eq!(
        (count("allowed"), count("denied")),
        (step.allowed, step.denied)
    );
    let number = |row: &BTreeMap<String, String>, name: &str| row[name].parse::<f64>().unwrap();
    let mut slowest: f64 = 0.0;
    for row in rows.iter().filter(|row| !row["response_us"].is_empty()) {
        let parts = number(row, "lag_us") + number(row, "service_us");
        assert!(
            (parts - number(row, "response_us")).abs() < 0.002,
            "{row:?}"
        );
        slowest = slowest.max(number(row, "response_us"));
    }
    let max_us = step.response.all.unwrap().max_us;
    // Histograms have three digits.
    assert!((slowest / max_us - 1.0).abs() < 2e-3, "{slowest} {max_us}");
    let (first, _) = printed(&folder, &[&folder.path("results/latest"), "--step", "1"]);
    assert!(!first.is_empty() && all.is_multiple_of(first.len()));
    let beyond = printed(&folder, &[&folder.path("results/latest"), "--step", "99"]);
    assert_eq!(beyond.1, 1);
}

#[test]
fn a_share_is_kept_and_what_was_cut_off_is_said() {
    let folder = Folder::new();
    let step = run(&folder, &["--raw=5"]);
    let kept = step.samples.unwrap();
    assert_eq!(kept.every, 5);
    assert!(
        kept.kept > step.planned / 10 && kept.kept < step.planned / 2,
        "{kept:?}"
    );
    let path = folder.path("results/latest/samples.raw");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 40]).unwrap();
    let cut = printed(&folder, &[&path]);
    fs::write(&path, &whole).unwrap();
    let all = printed(&folder, &[&path]);
    let (rows, code) = cut;
    assert!(!rows.is_empty() && all.0.starts_with(&rows) && all.0.len() > rows.len());
    assert_eq!(all.1, 0);
    assert_eq!(code, 1);
    let none = bench(&folder, &["raw", &folder.path("nowhere")]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(
        said.contains("--raw") && none.status.code() == Some(1),
        "{said}"
    );
}

#[test]
fn a_closed_loop_has_nothing_to_stay_awake_for() {
    let folder = Folder::new();
    let output = bench(
        &folder,
        &["--spin", "--arrivals", "closed", "--only", "tollgate"],
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("--spin") && output.status.code() == Some(1),
        "{said}"
    );
}
