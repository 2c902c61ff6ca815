//! `benchmarks runs`: performs the runs that are kept under `docs/benchmarks/` and writes their index.
//!
//! Each part is one call of the bench. Its folder replaces the kept one only when the run is whole, so a part that fails
//! leaves what was there, and can be repeated alone.

mod comparison;
mod page;

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tollgate_testkit::process::tollgate_binary;
use tollgate_testkit::{peers, repo_root};

use crate::Failure;

const USAGE: &str = "usage: cargo run --release -p xtask -- benchmarks runs [--quick] [--missing | --render] [PART...]

  --render   measure nothing: draw what is kept again from its records, as after a change of the pages
  --quick    two minutes of short steps into target/benchmark-runs/kept, to see that everything works
  --missing  only parts of which no whole record is kept
  PART       compare-stores, scenarios-stores, scenarios-service, counters, capacity, recovery, mitigations, paper-000";

/// Where the bench writes, within the repository.
const WORK: &str = "target/benchmark-runs/made";
/// Where runs are kept.
const KEPT: &str = "docs/benchmarks";
/// Where quick runs are kept: their figures say nothing, so they are no part of the repository.
const KEPT_QUICK: &str = "target/benchmark-runs/kept";
/// What is kept of a run's folder as it is.
const FILES: [&str; 4] = ["README.md", "summary.csv", "mitigations.csv", "compare.csv"];
/// Largest record that is kept.
const RECORD_MAX_BYTES: usize = 800_000;
/// Exit status of a bench whose run broke its own validity rules: measured, and marked.
const STATUS_INVALID: i32 = 3;

/// One call of the bench.
struct Part {
    name: &'static str,
    title: &'static str,
    /// Options of the kept run.
    full: &'static str,
    /// Options of the quick one.
    quick: &'static str,
}

/// Names of the files in which a part has its record, its page and its table.
struct Files {
    record: &'static str,
    page: &'static str,
    csv: &'static str,
}

impl Part {
    fn compares(&self) -> bool {
        self.full.starts_with("compare ")
    }

    fn files(&self) -> Files {
        match self.compares() {
            true => Files {
                record: "compare.json",
                page: "compare.html",
                csv: "compare.csv",
            },
            false => Files {
                record: "results.json",
                page: "report.html",
                csv: "summary.csv",
            },
        }
    }
}

/// Half an hour together on two cores; quick, two minutes. Five fresh starts where systems are compared by their figures; a
/// search and an overload repeat what they need by themselves. The last phase of the recovery is long enough for a backlog to
/// drain and for ten good seconds after it, and its operation costs enough for the generator to send what clients repeat.
const PARTS: &[Part] = &[
    Part {
        name: "compare-stores",
        title: "CPU per request beside redis-server",
        full: "compare tollgate redis-server --loads limiter,script,get,set,incr,latency,memory,lpush,lpop,sadd,hset,zadd,mset,lrange,hgetall,beside --depth 1,16,30 --slices 8",
        quick: "compare tollgate redis-server --loads get,lrange,beside --depth 1,16 --slices 2 --slice-ms 50",
    },
    Part {
        name: "scenarios-stores",
        title: "Three scenarios on stores, five starts",
        full: "--only tollgate,redis-server,valkey-server,dragonfly --starts 5 --step 400ms --warmup 50ms",
        quick: "--only tollgate,redis-server --starts 2 --step 200ms --warmup 50ms --ladder 5000,20000",
    },
    Part {
        name: "scenarios-service",
        title: "Three scenarios on the service, five starts",
        full: "--only tollgate-grpc,tollgate-http --starts 5 --step 400ms --warmup 50ms",
        quick: "--only tollgate-grpc,tollgate-http --step 200ms --warmup 50ms --ladder 2000,5000",
    },
    Part {
        name: "counters",
        title: "Counters of every store found",
        full: "--only tollgate,redis-server,valkey-server,dragonfly,memcached --op incr --scenario hundred-keys --starts 5 --step 400ms --warmup 50ms",
        quick: "--only tollgate,redis-server,memcached --op incr --scenario hundred-keys --step 200ms --warmup 50ms --ladder 5000,20000",
    },
    Part {
        name: "capacity",
        title: "Capacity search",
        full: "capacity --only tollgate,redis-server,tollgate-grpc,tollgate-http --step 800ms --max-trials 34",
        quick: "capacity --only tollgate,redis-server --op script --step 200ms --max-trials 8",
    },
    Part {
        name: "recovery",
        title: "Overload and recovery",
        full: "recovery --only tollgate,redis-server,tollgate-http --op evalsha:gcra --retries 0,1 --profile bench --phase 10s,10s,40s",
        quick: "recovery --only tollgate,redis-server --op script --phase 1s,1s,10s --retries 0 --knee 20000",
    },
    Part {
        name: "mitigations",
        title: "Strategies for hot keys on redis-server",
        full: "mitigations --profile bench --starts 5 --rounds 1 --step 800ms --warmup 100ms",
        quick: "mitigations --store tollgate --strategies exact,denial-cache,local:25,write-behind:10,probabilistic:10 --step 300ms --warmup 50ms --rounds 1",
    },
    Part {
        name: "paper-000",
        title: "Study 000 repeated with short steps",
        full: "paper 000 --only redis-server,tollgate --step 1s",
        quick: "paper 000 --only redis-server,tollgate --step 200ms --ladder 10000,20000,30000",
    },
];

/// What `docs/benchmarks.md` says as long as no run is kept, and from then on.
const POINTERS: [&str; 2] = [
    "`cargo run --release -p xtask -- benchmarks runs` keeps runs of the own bench in docs/benchmarks/.",
    "Runs of the own bench, made and kept by `cargo run --release -p xtask -- benchmarks runs`: [benchmarks/](benchmarks/README.md).",
];

/// The line of `docs/benchmarks.md` on the kept runs.
pub(crate) fn pointer() -> &'static str {
    POINTERS[usize::from(repo_root().join(KEPT).join("README.md").exists())]
}

/// Makes the page beside the kept runs point to them.
fn point() -> Result<(), Failure> {
    let path = repo_root().join("docs/benchmarks.md");
    let page = fs::read_to_string(&path)?;
    let pointed = page.replace(POINTERS[0], POINTERS[1]);
    if pointed != page {
        fs::write(&path, pointed)?;
    }
    Ok(())
}

/// Which parts, and how.
struct Choice {
    quick: bool,
    /// Nothing is measured.
    render: bool,
    parts: Vec<&'static Part>,
}

impl Choice {
    fn kept(&self) -> PathBuf {
        repo_root().join(if self.quick { KEPT_QUICK } else { KEPT })
    }
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let choice = choice(args)?;
    let kept = choice.kept();
    let mut failures = Vec::new();
    for part in &choice.parts {
        let start = Instant::now();
        println!("== {}", part.title);
        let to = kept.join(part.name);
        let done = if choice.render {
            render(part, &to)
        } else {
            perform(part, choice.quick).and_then(|folder| keep(part, &folder, &to))
        };
        match done {
            Ok(()) => println!("== {}: {:.0} s", part.name, start.elapsed().as_secs_f64()),
            Err(failure) => {
                println!("== {} failed: {failure}", part.name);
                failures.push(part.name);
            }
        }
    }
    let index = index(&kept)?;
    fs::create_dir_all(&kept)?;
    let path = kept.join("README.md");
    fs::write(&path, index)?;
    println!("{}", path.display());
    if !choice.quick {
        point()?;
    }
    if failures.is_empty() {
        return Ok(());
    }
    let (what, option) = match choice.render {
        true => ("not drawn", "--render "),
        false => ("not measured", ""),
    };
    Err(format!(
        "{what}: {names}; what was kept of them stays. To repeat: benchmarks runs {option}{names}",
        names = failures.join(" ")
    )
    .into())
}

fn choice(args: &[String]) -> Result<Choice, Failure> {
    let (mut quick, mut missing, mut render, mut parts) = (false, false, false, Vec::new());
    for arg in args {
        match (
            arg.as_str(),
            PARTS.iter().find(|part| part.name == arg.as_str()),
        ) {
            ("--quick", _) => quick = true,
            ("--missing", _) => missing = true,
            ("--render", _) => render = true,
            (_, Some(part)) => parts.push(part),
            _ => return Err(USAGE.into()),
        }
    }
    if missing && render {
        return Err(USAGE.into());
    }
    if cfg!(debug_assertions) && !quick && !render {
        return Err(
            "an unoptimised server says nothing: cargo run --release -p xtask -- benchmarks runs"
                .into(),
        );
    }
    if parts.is_empty() {
        parts = PARTS.iter().collect();
    }
    let mut choice = Choice {
        quick,
        render,
        parts,
    };
    if missing || render {
        let kept = choice.kept();
        choice
            .parts
            .retain(|part| record(part, &kept.join(part.name)).is_ok() == render);
    }
    Ok(choice)
}

/// Calls the bench from the root of the repository, by relative paths: records name no machine's folders. Returns the
/// folder of the run.
fn perform(part: &Part, quick: bool) -> Result<PathBuf, Failure> {
    let out = Path::new(WORK).join(part.name);
    let binary = tollgate_binary()?;
    let here = binary.strip_prefix(repo_root());
    let program = here.map_or_else(|_| binary.to_owned(), |path| Path::new(".").join(path));
    let options = if quick { part.quick } else { part.full };
    let options = options.split(' ').map(of_those_found);
    let status = Command::new(program)
        .arg("bench")
        .args(options)
        .arg("--out")
        .arg(&out)
        .env("PATH", path_with_peers()?)
        .current_dir(repo_root())
        .stdin(Stdio::null())
        .status()?;
    if !status.success() && status.code() != Some(STATUS_INVALID) {
        return Err(format!("the bench ended with {status}").into());
    }
    Ok(repo_root().join(out).join("latest").canonicalize()?)
}

/// Where the bench looks for servers: among the peers first.
fn path_with_peers() -> Result<OsString, Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(peers::folder().join("bin"));
    Ok(env::join_paths(own.chain(env::split_paths(&path)))?)
}

/// A list of systems without those that are not installed; any other option as it is.
fn of_those_found(word: &str) -> String {
    let found = |name: &&str| name.starts_with("tollgate") || peers::find(name).is_some();
    match word.split_once(',') {
        Some(_) if word.starts_with("tollgate,") || word.starts_with("redis-server,") => {
            let names: Vec<&str> = word.split(',').filter(found).collect();
            names.join(",")
        }
        _ => word.to_owned(),
    }
}

/// A whole record.
fn record(part: &Part, folder: &Path) -> Result<Value, Failure> {
    let path = folder.join(part.files().record);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let record: Value = serde_json::from_str(&text)?;
    if record["complete"] == Value::Bool(true) {
        Ok(record)
    } else {
        Err(format!("{}: the run is partial", path.display()).into())
    }
}

/// Copies the run in `folder` to `to`, in the place of what is there.
fn keep(part: &Part, folder: &Path, to: &Path) -> Result<(), Failure> {
    let measured = record(part, folder)?;
    let fresh = to.with_extension("partial");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    for name in FILES {
        let from = folder.join(name);
        if from.exists() {
            fs::copy(&from, fresh.join(name))?;
        }
    }
    let files = part.files();
    let drawn = folder.join(files.page);
    let small = if part.compares() {
        fs::copy(&drawn, fresh.join(files.page))?;
        serde_json::to_string(&measured)?
    } else {
        put_page(&drawn, &fresh)?;
        small_record(part, &drawn, &fresh)?
    };
    if small.len() > RECORD_MAX_BYTES {
        return Err(format!("the record has {} bytes, more than is kept", small.len()).into());
    }
    fs::write(fresh.join(files.record), small)?;
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::rename(&fresh, to)?;
    Ok(())
}

/// Draws what is kept in `folder` again. Its record stays as it is, and so do tables that were made of a longer one.
fn render(part: &Part, folder: &Path) -> Result<(), Failure> {
    let work = folder.with_extension("partial");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(&work)?;
    let status = Command::new(tollgate_binary()?)
        .args(["bench", "report", "--quiet", "--format", "html,markdown"])
        .arg(folder)
        .arg("--out")
        .arg(&work)
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("the record in {} cannot be read", folder.display()).into());
    }
    let files = part.files();
    for name in FILES.into_iter().chain([files.record]) {
        let from = folder.join(name);
        if from.exists() && name != "README.md" {
            fs::copy(from, work.join(name))?;
        }
    }
    if !part.compares() {
        put_page(&work.join(files.page), &work)?;
    }
    fs::remove_dir_all(folder)?;
    fs::rename(&work, folder)?;
    Ok(())
}

/// Writes what is kept of the page `drawn` to `folder`.
fn put_page(drawn: &Path, folder: &Path) -> Result<(), Failure> {
    let to = folder.join("report.html");
    match page::small(&fs::read_to_string(drawn)?)? {
        Some(page) => fs::write(to, page)?,
        None => {
            println!("{}: too large to be kept", drawn.display());
            if to.exists() {
                fs::remove_file(to)?;
            }
        }
    }
    Ok(())
}

/// The record as the page carries it, whose histograms have two digits where three would be long, without line breaks.
/// The figures beside the histograms are those of the run.
fn small_record(part: &Part, drawn: &Path, fresh: &Path) -> Result<String, Failure> {
    let status = Command::new(tollgate_binary()?)
        .args(["bench", "report", "--quiet", "--format", "json", "--from"])
        .arg(drawn)
        .arg("--out")
        .arg(fresh)
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("the record in {} cannot be read", drawn.display()).into());
    }
    let mut record = record(part, fresh)?;
    let steps = record["cells"].as_array_mut().into_iter().flatten();
    for step in steps
        .filter_map(|cell| cell["steps"].as_array_mut())
        .flatten()
    {
        // The figures of the service time stay; its histograms are a third of the record.
        for part in step["service"].as_object_mut().into_iter().flatten() {
            if let Some(summary) = part.1.as_object_mut() {
                summary.remove("histogram_ns_base64");
            }
        }
    }
    Ok(serde_json::to_string(&record)?)
}

/// The page over all kept runs, made of their records and of the bench's own summaries.
fn index(kept: &Path) -> Result<String, Failure> {
    let mut page = String::from(
        "# Kept runs of `tollgate bench`\n\n\
         Written by `cargo run --release -p xtask -- benchmarks runs`, from the records beside it: `results.json` or `compare.json` is what was measured (histograms \
         shortened to two digits, none of the service time), the rest is rendered from it and can be rendered again with `tollgate bench report FOLDER`. *Valid*, *indicative* and *invalid* are what the bench says of its \
         own run. redis-benchmark's figures are in [benchmarks.md](../benchmarks.md).\n\n\
         | run | began (UTC) | machine | Tollgate | own verdict | files |\n|---|---|---|---|---|---|\n",
    );
    let mut summaries = String::new();
    for part in PARTS {
        let folder = kept.join(part.name);
        let Ok(record) = record(part, &folder) else {
            writeln!(page, "| {} | not run yet | | | | |", part.title)?;
            continue;
        };
        row(
            &mut page,
            part,
            &record,
            folder.join(part.files().page).exists(),
        )?;
        write!(
            summaries,
            "\n## {}\n\n`{}`\n\n{}\n",
            part.title,
            command_line(&record),
            summary(part, &record, &folder)?
        )?;
    }
    page.push_str(&summaries);
    Ok(page)
}

fn row(page: &mut String, part: &Part, record: &Value, drawn: bool) -> Result<(), Failure> {
    let manifest = &record["manifest"];
    let text = |value: &Value| value.as_str().unwrap_or("n/a").to_owned();
    let machine = &manifest["machine"];
    let cores = machine["cores"].as_u64();
    let files = part.files();
    writeln!(
        page,
        "| {title} | {began} | {model}, {cores} cores | {version} {commit} | {grade} | [report]({name}/README.md), {drawn}\
         [JSON]({name}/{record}), [CSV]({name}/{csv}) |",
        title = part.title,
        name = part.name,
        record = files.record,
        csv = files.csv,
        began = text(&manifest["started_at"]),
        model = text(&machine["cpu_model"]),
        cores = cores.map_or_else(|| "n/a".into(), |cores| cores.to_string()),
        version = text(&manifest["tool"]["version"]),
        commit = text(&manifest["tool"]["commit"]),
        grade = text(&record["validity"]["grade"]),
        drawn = if drawn {
            format!("[page]({}/{}), ", part.name, files.page)
        } else {
            String::new()
        },
    )?;
    Ok(())
}

fn command_line(record: &Value) -> String {
    let words = record["manifest"]["command_line"].as_array();
    let words = words.into_iter().flatten().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(" ")
}

/// What a run found, in a few sentences.
fn summary(part: &Part, record: &Value, folder: &Path) -> Result<String, Failure> {
    if part.compares() {
        return comparison::summary(record);
    }
    let report = fs::read_to_string(folder.join("README.md"))?;
    let found = executive_summary(&report);
    let found = found.ok_or_else(|| format!("{}: the report has no summary", folder.display()))?;
    Ok(found.to_owned())
}

/// The sentences with which the bench's own report begins.
fn executive_summary(report: &str) -> Option<&str> {
    let (_, rest) = report.split_once("\n## Executive summary\n")?;
    let end = rest.find("\n#").unwrap_or(rest.len());
    Some(rest[..end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_first_section() {
        let report = "# T\n\n> x\n\n## Executive summary\n\n- a\n- b\n\n### Key results\n\n| |\n";
        assert_eq!(executive_summary(report), Some("- a\n- b"));
        assert_eq!(executive_summary("# T\n"), None);
    }

    #[test]
    fn only_lists_of_systems_lose_what_is_not_installed() {
        let kept = of_those_found("tollgate,no-such-server,tollgate-http");
        assert_eq!(kept, "tollgate,tollgate-http");
        assert_eq!(of_those_found("3s,3s,10s"), "3s,3s,10s");
    }

    fn part(name: &str) -> &'static Part {
        PARTS.iter().find(|part| part.name == name).unwrap()
    }

    #[test]
    fn parts_are_chosen_by_name() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let choice = choice(&words("--quick capacity paper-000")).unwrap();
        let names: Vec<&str> = choice.parts.iter().map(|part| part.name).collect();
        assert_eq!(names, ["capacity", "paper-000"]);
        assert!(super::choice(&words("--quick nothing")).is_err());
        assert!(super::choice(&words("--render --missing")).is_err());
        // What is drawn again is what is kept.
        let again = super::choice(&words("--render capacity")).unwrap();
        let is_kept = record(part("capacity"), &again.kept().join("capacity")).is_ok();
        assert_eq!(
            (again.render, again.parts.len()),
            (true, usize::from(is_kept))
        );
    }

    #[test]
    fn the_index_shows_what_is_kept_and_what_is_not() {
        let kept = tollgate_testkit::process::temp_dir().unwrap();
        let folder = kept.join("capacity");
        fs::create_dir_all(&folder).unwrap();
        let record = r#"{"complete":true,"validity":{"grade":"valid"},"manifest":{"command_line":["tollgate","bench"]}}"#;
        fs::write(folder.join("results.json"), record).unwrap();
        fs::write(
            folder.join("README.md"),
            "# R\n\n## Executive summary\n\n- It holds.\n\n## More\n",
        )
        .unwrap();
        let page = index(&kept).unwrap();
        assert!(page.contains("| Capacity search | n/a | n/a, n/a cores | n/a n/a | valid | [report](capacity/README.md)"), "{page}");
        assert!(
            page.contains("| Overload and recovery | not run yet |"),
            "{page}"
        );
        assert!(
            page.ends_with("## Capacity search\n\n`tollgate bench`\n\n- It holds.\n"),
            "{page}"
        );
        fs::remove_dir_all(&kept).unwrap();
    }
}
