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
/// The peer that is compared with.
const PEER: &str = "throttlecrab-server";
/// Comparisons: title, folder, and what the bench is told.
const COMPARISONS: &[(&str, &str, &str)] = &[
    (
        "gRPC, a closed loop",
        "grpc-decide",
        "compare tollgate-grpc throttlecrab-grpc --loads decide",
    ),
    (
        "HTTP, a closed loop",
        "http-decide",
        "compare tollgate-http throttlecrab-http --loads decide",
    ),
    (
        "gRPC past saturation",
        "grpc-overload",
        "compare tollgate-grpc tollgate-grpc --loads overload --slice-ms 150",
    ),
    (
        "HTTP past saturation",
        "http-overload",
        "compare tollgate-http throttlecrab-http --loads overload --slice-ms 150",
    ),
];
/// Decisions per second that a service on redis-server is asked for.
const RATES: [u32; 3] = [5_000, 10_000, 20_000];

/// Runs the task.
pub(crate) fn run() -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        return Err(
            "an unoptimised server says nothing: cargo run --release -p xtask -- benchmarks services"
                .into(),
        );
    }
    let mut page = String::from(
        "# The rate limit service measured\n\n\
         Written by `cargo run --release -p xtask -- benchmarks services`. Generator and server have a processor each where there are two; \
         ratios above 1 are in favour of Tollgate. *Past saturation* each service is offered shares of the most that it answered within the \
         deadline in an open loop; the row at 0.8 shows the latency of a service that has still room, against the 20 ms that Envoy waits.\n",
    );
    if peers::find(PEER).is_none() {
        return Err(format!("needs {PEER}: cargo install {PEER}").into());
    }
    for (title, folder, options) in COMPARISONS {
        println!("== {title}");
        let text = compare(folder, options)?;
        write!(page, "\n## {title}\n\n`tollgate bench {options}`\n\n{text}")?;
    }
    println!("== on redis-server");
    on_redis(&mut page)?;
    let path = repo_root().join("docs/benchmarks-services.md");
    fs::write(&path, page)?;
    println!("{}", path.display());
    Ok(())
}

/// Runs one comparison; its tables and sentences.
fn compare(folder: &str, options: &str) -> Result<String, Failure> {
    let out = Path::new(WORK).join(folder);
    let status = Command::new(tollgate_binary()?)
        .arg("bench")
        .args(options.split(' '))
        .arg("--out")
        .arg(&out)
        .current_dir(repo_root())
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
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
fn on_redis(page: &mut String) -> Result<(), Failure> {
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
    for rate in RATES {
        let calls = scripts(&store)?;
        let before = (service.cpu_seconds()?, cpu_seconds(&store)?);
        let output = Command::new(tollgate_binary()?)
            .args(["bench", "--scenario", "hundred-keys", "--step", "4s"])
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
