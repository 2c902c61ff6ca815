//! `benchmarks services`: the service beside a peer, past saturation, and on a store elsewhere; written to
//! `docs/benchmarks-services.md`.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tollgate_testkit::process::{temp_dir, tollgate_binary};
use tollgate_testkit::{Server, peers, repo_root};

use crate::Failure;
use crate::agreement;
use crate::benchmarks::{cpu_of, cpu_seconds};

/// Where the bench writes, within the repository.
const WORK: &str = "target/benchmark-runs/services";
/// Where the page goes, and where that of a quick run does: its figures say nothing, so it is no part of the repository.
const PAGE: &str = "docs/benchmarks-services.md";
const PAGE_QUICK: &str = "target/benchmark-runs/benchmarks-services.md";
/// The peer that is compared with.
const PEER: &str = "throttlecrab-server";

/// A comparison of two services by the bench.
struct Comparison {
    title: &'static str,
    folder: &'static str,
    /// What the bench is told.
    options: &'static str,
    /// What it is told besides, for the page and for a quick run.
    full: &'static str,
    quick: &'static str,
}

const COMPARISONS: [Comparison; 4] = [
    Comparison {
        title: "gRPC, a closed loop",
        folder: "grpc-decide",
        options: "compare tollgate-grpc throttlecrab-grpc --loads decide",
        full: "",
        quick: " --depth 1 --connections 4 --slices 3 --slice-ms 30",
    },
    Comparison {
        title: "HTTP, a closed loop",
        folder: "http-decide",
        options: "compare tollgate-http throttlecrab-http --loads decide",
        full: "",
        quick: " --depth 1 --connections 4 --slices 3 --slice-ms 30",
    },
    Comparison {
        title: "gRPC past saturation",
        folder: "grpc-overload",
        options: "compare tollgate-grpc tollgate-grpc --loads overload",
        full: " --slice-ms 150",
        quick: " --slice-ms 10",
    },
    Comparison {
        title: "HTTP past saturation",
        folder: "http-overload",
        options: "compare tollgate-http throttlecrab-http --loads overload",
        full: " --slice-ms 150",
        quick: " --slice-ms 10",
    },
];
/// Decisions per second that a service on redis-server is asked for, and for how long.
const RATES: [u32; 3] = [5_000, 10_000, 20_000];
const RATE_STEP: &str = "4s";
const RATES_QUICK: [u32; 2] = [200, 500];
const RATE_STEP_QUICK: &str = "500ms";
/// Exit status of a bench whose run broke its own validity rules: measured, and marked.
const STATUS_INVALID: i32 = 3;

/// Runs the task: about six minutes, or one with `quick`, whose page says nothing but that everything works.
pub(crate) fn run(quick: bool) -> Result<(), Failure> {
    if cfg!(debug_assertions) && !quick {
        return Err(
            "an unoptimised server says nothing: cargo run --release -p xtask -- benchmarks services"
                .into(),
        );
    }
    let mut page = String::from(
        "# The rate limit service measured\n\n\
         Written by `cargo run --release -p xtask -- benchmarks services`. Generator and server have a processor each where there are two; \
         ratios above 1 are in favour of Tollgate. *Past saturation* each service is offered shares of the most that it answered within the \
         deadline in an open loop; the row at 0.8 shows the latency of a service that still has room, against the 20 ms that Envoy waits.\n",
    );
    let has_peer = peers::find(PEER).is_some();
    for comparison in &COMPARISONS {
        let Comparison { title, options, .. } = comparison;
        println!("== {title}");
        let more = if quick {
            comparison.quick
        } else {
            comparison.full
        };
        let text = if options.contains("throttlecrab") && !has_peer {
            let why = format!("Not measured: it needs {PEER} on PATH (`cargo install {PEER}`).\n");
            print!("{why}");
            why
        } else {
            compare(comparison.folder, &format!("{options}{more}"))?
        };
        write!(
            page,
            "\n## {title}\n\n`tollgate bench {options}{more}`\n\n{text}"
        )?;
    }
    println!("== on redis-server");
    match (peers::find("redis-server"), quick) {
        (None, _) => {
            page.push_str("\n## On redis-server\n\nNot measured: it needs redis-server.\n")
        }
        (_, true) => on_redis(&mut page, &RATES_QUICK, RATE_STEP_QUICK)?,
        (_, false) => on_redis(&mut page, &RATES, RATE_STEP)?,
    }
    let path = repo_root().join(if quick { PAGE_QUICK } else { PAGE });
    fs::create_dir_all(path.parent().ok_or("the page has no folder")?)?;
    fs::write(&path, page)?;
    println!("{}", path.display());
    Ok(())
}

/// `PATH` with the peers of this repository, where the bench looks for programs to start.
fn path_with_peers() -> Result<std::ffi::OsString, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(peers::folder().join("bin")).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(all)?)
}

/// Runs one comparison; its tables and sentences.
fn compare(folder: &str, options: &str) -> Result<String, Failure> {
    let out = Path::new(WORK).join(folder);
    let status = Command::new(tollgate_binary()?)
        .arg("bench")
        .args(options.split(' '))
        .arg("--out")
        .arg(&out)
        .env("PATH", path_with_peers()?)
        .current_dir(repo_root())
        .stdin(Stdio::null())
        .status()?;
    if !status.success() && status.code() != Some(STATUS_INVALID) {
        return Err(format!("the bench ended with {status}").into());
    }
    let path = repo_root().join(out).join("latest/README.md");
    let text = fs::read_to_string(&path)?;
    Ok(results(&text).ok_or_else(|| format!("{}: no results", path.display()))?)
}

/// What a report says behind its head: the table of slices, if it has rows, and what follows.
fn results(report: &str) -> Option<String> {
    let at = report.find("\n| Load |")?;
    let behind = &report[at + 1..];
    let has_rows = behind
        .lines()
        .nth(2)
        .is_some_and(|row| row.starts_with('|'));
    let behind = match has_rows {
        true => behind,
        false => behind.split_once("\n\n")?.1,
    };
    Some(format!("{}\n", behind.trim()))
}

/// A service whose counters are elsewhere.
struct Remote {
    child: Child,
    /// Where it serves gRPC.
    addr: String,
    /// Kept open, so that it can go on writing.
    _output: BufReader<ChildStdout>,
}

impl Remote {
    fn start(store: &Server, rules: &Path) -> Result<Remote, Failure> {
        let mut command = Command::new(tollgate_binary()?);
        command
            .arg("serve")
            .args(["--threads", "1", "--grpc-port", "0", "--http-port", "0"])
            .arg("--rules")
            .arg(rules)
            .args(["--backend", &format!("redis://{}", store.addr())]);
        let mut child = command
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the service has no output")?;
        let mut output = BufReader::new(stdout);
        let mut line = String::new();
        while output.read_line(&mut line)? > 0 {
            if let Some((_, rest)) = line.split_once("grpc ") {
                let addr = rest.split([',', '\n']).next().unwrap_or_default();
                return Ok(Remote {
                    child,
                    addr: addr.trim().to_owned(),
                    _output: output,
                });
            }
            line.clear();
        }
        drop(child.kill());
        Err("the service did not start".into())
    }

    fn cpu_seconds(&self) -> Result<f64, Failure> {
        cpu_of(self.child.id())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the service costs beside its store.
fn on_redis(page: &mut String, rates: &[u32], step: &str) -> Result<(), Failure> {
    let store = agreement::redis()?;
    let folder: PathBuf = temp_dir()?;
    let rules = Command::new(tollgate_binary()?)
        .args(["bench", "rules"])
        .output()?;
    fs::write(folder.join("bench.yaml"), rules.stdout)?;
    let service = Remote::start(&store, &folder)?;
    page.push_str(
        "\n## On redis-server\n\n\
         One service thread over gRPC, 100 keys, a script for each decision; processor time of both processes by decision, in µs. At low \
         rates each wake-up serves fewer requests, which makes them dearer.\n\n\
         | Decisions/s | Service | redis-server |\n| --: | --: | --: |\n",
    );
    for rate in rates {
        let calls = scripts(&store)?;
        let before = (service.cpu_seconds()?, cpu_seconds(&store)?);
        let output = Command::new(tollgate_binary()?)
            .args(["bench", "--scenario", "hundred-keys", "--step", step])
            .args(["--target", &format!("service=grpc://{}", service.addr)])
            .args(["--ladder", &rate.to_string(), "--out"])
            .arg(Path::new(WORK).join("redis"))
            .current_dir(repo_root())
            .stdin(Stdio::null())
            .output()?;
        let decisions = scripts(&store)? - calls;
        if decisions == 0 {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let each = |before: f64, after: f64| (after - before) * 1e6 / decisions as f64;
        let own = each(before.0, service.cpu_seconds()?);
        let its = each(before.1, cpu_seconds(&store)?);
        writeln!(page, "| {rate} | {own:.1} | {its:.1} |")?;
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// Scripts that the store has run.
fn scripts(store: &Server) -> Result<u64, Failure> {
    let info = store.connect()?.call(&["INFO", "commandstats"])?;
    let info = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
    let calls = info
        .split_once("cmdstat_evalsha:calls=")
        .and_then(|(_, rest)| rest.split(',').next());
    Ok(calls.map_or(Ok(0), str::parse)?)
}
