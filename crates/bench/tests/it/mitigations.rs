//! Strategies for hot keys on real services that share a store, in tiny steps, with a planted one that admits everything.

use std::fs;
use std::process::{Command, Stdio};

use tollgate_bench::record::{ErrorVerdict, MitigationRow, RunRecord};
use tollgate_testkit::process::{temp_dir, tollgate_binary};

use crate::fake_grpc::{Manners, service};

const STRATEGIES: [&str; 6] = [
    "exact",
    "denial-cache",
    "local:25",
    "shards:2",
    "write-behind:10",
    "probabilistic:4",
];

#[test]
fn strategies_are_compared_and_a_planted_one_that_admits_everything_is_found() {
    let folder = temp_dir().unwrap();
    let (planted, _) = service(Manners::Fine);
    let output = Command::new(tollgate_binary().unwrap())
        .args(["bench", "mitigations", "--store", "tollgate"])
        .args([
            "--strategies",
            &format!("{},embedded", STRATEGIES.join(",")),
        ])
        .args(["--target", &format!("planted=grpc://{planted}")])
        .args(["--ladder", "300", "--step", "400ms", "--rounds", "1"])
        .args([
            "--scenario",
            "single-key",
            "--deadline",
            "20s",
            "--no-calibrate",
        ])
        .args(["--pin", "none", "--warmup", "0s", "--grpc-connections", "4"])
        .args(["--grpc-streams", "4", "--out"])
        .arg(folder.join("results"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    // 3: the planted one makes the run invalid by its own rules; 1: a busy machine let a service refuse everything.
    assert!(matches!(output.status.code(), Some(1 | 3)), "{said}");
    let latest = folder.join("results/latest");
    let read = |name: &str| fs::read_to_string(latest.join(name)).unwrap();
    let record: RunRecord = serde_json::from_str(&read("results.json")).unwrap();
    let found = record.mitigations.as_ref().unwrap();
    assert_eq!((found.services, found.store.name.as_str()), (2, "tollgate"));
    let row = |name: &str| -> &MitigationRow {
        let row = found.rows.iter().find(|row| row.target == name);
        row.unwrap_or_else(|| panic!("no row {name}: {said}"))
    };
    for name in STRATEGIES.into_iter().chain(["embedded"]) {
        let row = row(name);
        assert_eq!(row.verdict, ErrorVerdict::Within, "{row:#?}");
        assert!(row.over_admitted <= row.stated_over, "{row:#?}");
        assert!(row.peak_goodput_rps.is_some(), "{row:#?}");
    }
    let asked = |name: &str| row(name).store_questions_per_decision.unwrap();
    // Tollgate's own store tells how often it was asked; on a busy machine a service refuses some before it asks.
    assert!(asked("exact") > 0.0);
    assert_eq!(asked("embedded"), 0.0);
    let planted = row("planted");
    assert_eq!(planted.verdict, ErrorVerdict::OverBeyond);
    assert!(planted.over_admitted > 0 && !planted.may_win());
    assert!(said.contains("planted admitted MORE than stated"), "{said}");
    assert!(read("README.md").contains("Strategies for hot keys"));
    assert!(read("report.html").contains("id=\"card-10-mitigations\""));
    assert_eq!(
        read("mitigations.csv").lines().count(),
        1 + found.rows.len()
    );
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn strategies_that_cannot_run_are_refused_before_anything_starts() {
    for (args, says) in [
        (["--strategies", "local:60"], "more than the limit"),
        (["--strategies", "exact,exact"], "named twice"),
        (["--strategies", "hope"], "is not a strategy"),
        (["--store", "redis://10.1.2.3:6379"], "--i-own-this-target"),
        (["--store", "memcached"], "redis-server"),
        (["--only", "tollgate"], "--strategies"),
        (["--arrivals", "closed"], "poisson or constant"),
    ] {
        let folder = temp_dir().unwrap();
        let output = Command::new(tollgate_binary().unwrap())
            .args(["bench", "mitigations", "--out"])
            .arg(folder.join("results"))
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
