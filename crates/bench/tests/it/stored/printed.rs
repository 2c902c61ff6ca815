//! The sub-commands themselves: exit codes, what they print, and damaged records.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tollgate_bench::record::RunRecord;
use tollgate_bench::stored::read_runs;
use tollgate_testkit::process::{temp_dir, tollgate_binary};

use super::{PLAIN, System, run, run_of};

/// A folder of this test with runs in it.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Folder {
        Folder(temp_dir().unwrap())
    }

    pub(super) fn write(&self, name: &str, record: &RunRecord) -> PathBuf {
        self.text(name, &serde_json::to_string(record).unwrap())
    }

    /// A run that reached four fifths of what [`PLAIN`] does.
    fn write_slow(&self) -> PathBuf {
        let slow = System {
            goodput: 0.8,
            seed: 3,
            ..PLAIN
        };
        self.write("slow", &run(slow))
    }

    fn text(&self, name: &str, text: &str) -> PathBuf {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("results.json"), text).unwrap();
        folder
    }

    /// Runs the program without this machine's own calibration.
    pub(super) fn bench(&self, args: &[&str], folders: &[&Path]) -> Output {
        Command::new(tollgate_binary().unwrap())
            .arg("bench")
            .args(args)
            .args(folders)
            .env("XDG_CACHE_HOME", &self.0)
            .env("CI", "1")
            .output()
            .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

pub(super) fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(both).unwrap()
}

#[test]
fn the_gate_ends_with_the_promised_exit_codes() {
    let folder = Folder::new();
    let base = folder.write("base", &run(PLAIN));
    let same = folder.write("same", &run(System { seed: 3, ..PLAIN }));
    let slow = folder.write_slow();
    let few = folder.write("few", &run_of(&[("redis-server", PLAIN)], 3));
    let mut other = run(PLAIN);
    other.cells[0].load.connections = 3;
    let other = folder.write("other", &other);
    let gate = |baseline: &Path, judged: &Path, more: &[&str]| {
        let baseline = baseline.display().to_string();
        let mut args = vec!["gate", "--baseline", &baseline, "--metric", "goodput"];
        args.extend(more);
        let output = folder.bench(&args, &[judged]);
        (output.status.code(), text(&output))
    };
    let expect = |found: (Option<i32>, String), code: i32, words: &str| {
        assert_eq!(found.0, Some(code), "{}", found.1);
        assert!(found.1.contains(words), "{words} is not in: {}", found.1);
    };
    expect(gate(&base, &same, &[]), 0, "Gate passed");
    expect(gate(&base, &slow, &[]), 2, "Gate FAILED");
    expect(
        gate(&base, &slow, &["--max-regression", "60%"]),
        0,
        "Gate passed",
    );
    let undecided = gate(&base, &few, &[]);
    for size in ["│ large", "│ small", "│ negligible"] {
        assert!(!undecided.1.contains(size), "{}", undecided.1);
    }
    expect(undecided, 3, "fewer than 5 starts");
    expect(gate(&base, &other, &[]), 1, "connections: 50 against 3");
    expect(
        gate(&base, &other, &["--allow-unequal"]),
        0,
        "UNEQUAL: connections",
    );
    expect(
        gate(&base, &folder.0.join("none"), &[]),
        1,
        "none: No such file",
    );
    let (code, json) = gate(&base, &slow, &["--json"]);
    assert_eq!(code, Some(2));
    let record: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(record["outcome"], "failed");
}

#[test]
fn comparisons_and_trends_are_printed_and_refused() {
    let folder = Folder::new();
    let a = folder.write("runs/a", &run(PLAIN));
    let b = folder.write(
        "runs/b",
        &run(System {
            goodput: 0.8,
            seed: 3,
            ..PLAIN
        }),
    );
    let output = folder.bench(&["compare", "--metric", "goodput"], &[&a, &b]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("worse"), "{}", text(&output));
    let markdown =
        text(&folder.bench(&["compare", "--metric", "goodput", "--markdown"], &[&a, &b]));
    assert!(
        markdown.contains("| --: |") && markdown.contains("| worse |"),
        "{markdown}"
    );
    let refused = folder.bench(&["compare", "--slices", "4"], &[&a, &b]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused).contains("--slices is for two servers"),
        "{}",
        text(&refused)
    );
    let mut later = run(PLAIN);
    later.manifest.started_unix_s += 86_400;
    let later = folder.write("later", &later);
    let refused = folder.bench(&["compare", "--metric", "goodput"], &[&a, &later]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused).contains("--allow-unequal"),
        "{}",
        text(&refused)
    );
    let marked = folder.bench(
        &["compare", "--metric", "goodput", "--allow-unequal"],
        &[&a, &later],
    );
    assert_eq!(marked.status.code(), Some(0));
    assert!(text(&marked).contains("UNEQUAL: date"), "{}", text(&marked));
    let trend = folder.bench(
        &["trends", "--metric", "goodput"],
        &[&folder.0.join("runs")],
    );
    assert_eq!(trend.status.code(), Some(0), "{}", text(&trend));
    assert!(
        text(&trend).contains("Trends over 2 runs"),
        "{}",
        text(&trend)
    );
    let server = folder.bench(&["compare"], &[&a, Path::new("redis-server")]);
    assert_eq!(server.status.code(), Some(1));
    assert!(
        text(&server).contains("is not a stored run"),
        "{}",
        text(&server)
    );
}

#[test]
fn nothing_stays_english_in_vietnamese() {
    let folder = Folder::new();
    let base = folder.write("base", &run(PLAIN));
    let slow = folder.write_slow();
    let few = folder.write("few", &run_of(&[("redis-server", PLAIN)], 3));
    let mut less = run(PLAIN);
    less.cells[0].statistics.as_mut().unwrap().rates.pop();
    less.complete = false;
    less.partial_reason = Some("interrupted".into());
    less.manifest.started_unix_s += 86_400;
    less.cells[0].load.connections = 3;
    let less = folder.write("less", &less);
    let baseline = base.display().to_string();
    let gate = [
        "gate",
        "--lang",
        "vi",
        "--allow-unequal",
        "--baseline",
        &baseline,
    ];
    let compare = ["compare", "--lang", "vi", "--allow-unequal"];
    let outputs = [
        folder.bench(&gate, &[&slow]),
        folder.bench(&gate, &[&few]),
        folder.bench(&gate, &[&less]),
        folder.bench(&gate, &[&base]),
        folder.bench(&compare, &[&base, &slow]),
        folder.bench(&compare, &[&base, &less]),
        folder.bench(&["trends", "--lang", "vi"], &[&base, &slow]),
    ];
    for output in &outputs {
        let text = text(output);
        // Neither a name of a system nor a title has such words.
        for word in ["the", "of", "is", "are", "was", "than", "has", "and", "at"] {
            let found = text.split_whitespace().any(|one| one == word);
            assert!(!found, "'{word}' in:\n{text}");
        }
    }
}

#[test]
fn damaged_records_are_named_with_their_fault() {
    let folder = Folder::new();
    let whole = serde_json::to_string(&run(PLAIN)).unwrap();
    let error = |name: &str, text: &str| {
        let path = folder.text(name, text);
        read_runs(&[path]).unwrap_err()
    };
    let cut = error("cut", &whole[..whole.len() / 2]);
    assert!(
        cut.contains("cut/results.json: it ends in the middle"),
        "{cut}"
    );
    let garbage = error("garbage", "\u{0}\u{1} not JSON");
    assert!(garbage.contains("it is damaged"), "{garbage}");
    assert!(error("empty", "").contains("it ends in the middle"));
    let old = error(
        "old",
        &whole.replacen("\"schema_version\":2", "\"schema_version\":0", 1),
    );
    assert!(
        old.contains("layout version 0; this program reads versions 1 to 2"),
        "{old}"
    );
    assert!(error("other", "{\"a\": 1}").contains("no schema_version"));
    let part = error("part", "{\"schema_version\": 1}");
    assert!(
        part.contains("not the record of a bench run: missing field"),
        "{part}"
    );
    fs::create_dir_all(folder.0.join("bare")).unwrap();
    let bare = read_runs(&[folder.0.join("bare")]).unwrap_err();
    assert!(bare.contains("there is no results.json"), "{bare}");
}

#[test]
fn a_damaged_run_among_others_is_named_and_left_out() {
    let folder = Folder::new();
    folder.write("runs/a", &run(PLAIN));
    let mut later = run(PLAIN);
    later.manifest.started_unix_s += 86_400;
    folder.write("runs/b", &later);
    let cut = folder.text("runs/cut", "{\"schema_version\":2,");
    let runs = folder.0.join("runs");
    for args in [&["trends"][..], &["trends", "--json"], &["report"]] {
        let output = folder.bench(args, &[&runs]);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {text}");
        let named = "cut/results.json: it ends in the middle";
        assert!(text.contains(named), "{args:?}: {text}");
    }
    // Who names it, or judges by all that is there, is told instead.
    let a = runs.join("a");
    assert_eq!(
        folder.bench(&["trends"], &[&a, &cut]).status.code(),
        Some(1)
    );
    let baseline = runs.display().to_string();
    let gate = folder.bench(&["gate", "--baseline", &baseline], &[&a]);
    assert_eq!(gate.status.code(), Some(1), "{}", text(&gate));
}

#[test]
fn a_run_that_is_found_twice_counts_once() {
    let folder = Folder::new();
    let a = folder.write("runs/a", &run(PLAIN));
    #[cfg(unix)]
    std::os::unix::fs::symlink("a", folder.0.join("runs/latest")).unwrap();
    let found = read_runs(&[folder.0.join("runs"), a.clone(), a.join("results.json")]).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].record.cells.len(), 1);
}

#[test]
fn pages_beside_the_runs_are_passed_over() {
    let folder = Folder::new();
    let a = folder.write("runs/a", &run(PLAIN));
    let page = folder.0.join("runs/index.html");
    fs::write(&page, "<html>").unwrap();
    assert_eq!(read_runs(&[a, page.clone()]).unwrap().len(), 1);
    let alone = read_runs(&[page]).unwrap_err();
    assert!(
        alone.contains("index.html: this is no record: name the folder"),
        "{alone}"
    );
}

#[test]
fn the_words_of_ratelimit_benchs_report_script_are_understood() {
    let folder = Folder::new();
    let base = folder.write("base", &run(PLAIN));
    let slow = folder.write_slow();
    let out = folder.0.join("out");
    let elsewhere = folder.0.join("elsewhere").display().to_string();
    // As that script, it takes a baseline beside the comparison.
    let baseline = base.display().to_string();
    let besides = [
        "report",
        "--compare-runs",
        "--baseline",
        &baseline,
        "--out",
        &elsewhere,
    ];
    let output = folder.bench(&besides, &[&slow]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let args = [
        "report",
        "--compare-runs",
        "--include-trends",
        "--output-format",
        "both",
        "--out",
        &out.display().to_string(),
    ];
    let output = folder.bench(&args, &[&base, &slow]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for name in ["base", "slow"] {
        let read = |file: &str| {
            let path = out.join(name).join(file);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        assert!(read("report.html").contains("card-compare"));
        assert!(read("summary.csv").starts_with("Client,Mode"));
        assert!(!out.join(name).join("README.md").exists(), "not asked for");
        let compared = read("compare/comparison_summary.csv");
        let widths: Vec<usize> = compared
            .lines()
            .map(|line| line.split(',').count())
            .collect();
        assert!(
            widths.len() > 2 && widths.iter().all(|width| *width == 26),
            "{compared}"
        );
        assert!(compared.contains(",worse"), "{compared}");
        assert!(read("compare/index.html").contains("</html>"));
        let moved = read("compare/performance_trends.csv");
        assert!(
            moved
                .lines()
                .skip(1)
                .all(|line| line.split(',').count() == 13),
            "{moved}"
        );
        assert!(read("compare/trends.html").contains("</html>"));
    }
}
