//! Whether the bench's generator measures what other tools measure, and how far it is from being what is measured: the
//! last section of `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_testkit::process::{free_port, temp_dir, tollgate_binary};
use tollgate_testkit::{Server, peers};

use crate::Failure;
use crate::benchmarks::{ROUNDS, median, ratios, spread};

/// One connection that waits for each answer: a low load that a tool without a rate can offer too.
const ONE_AT_A_TIME: &str = "-t get -n 20000 -c 1";
/// Loads that ask for all a generator or a server can do.
const CEILINGS: &[(&str, &str, f64)] = &[
    ("not pipelined", "-t get -n 400000 -c 50 -P 1", 3.0),
    ("16 at once", "-t get -n 2000000 -c 50 -P 16", 2.0),
];
/// Seconds that wrk runs.
const WRK_SECONDS: u32 = 5;
/// Share of wrk's rate at which the bench asks over HTTP: much lower, and the processors fall asleep between requests, which
/// they do not when a tool asks again at once.
const HTTP_SHARE: f64 = 0.5;
/// Longest wait for a server to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Appends the section to `page`. `redis` is a running redis-server.
pub(crate) fn section(page: &mut String, redis: &Server) -> Result<(), Failure> {
    page.push_str(
        "\n## The generator of `tollgate bench` beside other tools\n\n\
         Each row is the median of the rounds, the tools in turn. With one connection that waits for every answer both tools offer the same low \
         load, so rate and latency should agree.\n\n\
         | target | figure | other tool | `tollgate bench` | ratio |\n|---|---|---|---|---|\n",
    );
    low_load(page, redis)?;
    http(page)?;
    page.push_str(
        "\nThe generator alone, on one core against a server on another core that answers without looking, and against redis-server in that \
         server's place. A ratio well above 1 means that a figure of redis-server is not the generator's limit.\n\n\
         | load | null server | redis-server | ratio | asked for |\n|---|---|---|---|---|\n",
    );
    ceilings(page, redis)
}

/// redis-benchmark and the bench with the same options on the same server.
fn low_load(page: &mut String, redis: &Server) -> Result<(), Failure> {
    let theirs =
        peers::find("redis-benchmark").ok_or("needs redis-benchmark: cargo xtask peers")?;
    let port = redis.addr().port();
    let (mut other, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        other.push(get_row(Command::new(&theirs), port, ONE_AT_A_TIME)?);
        ours.push(get_row(bench_redis()?, port, ONE_AT_A_TIME)?);
    }
    for (column, figure) in [
        (0, "requests per second"),
        (1, "mean, ms"),
        (3, "p50, ms"),
        (5, "p99, ms"),
    ] {
        let pick = |rows: &[Vec<f64>]| -> Vec<f64> { rows.iter().map(|row| row[column]).collect() };
        row(
            page,
            &format!("redis-server, `redis-benchmark {ONE_AT_A_TIME}`"),
            figure,
            &pick(&other),
            &pick(&ours),
        )?;
    }
    Ok(())
}

/// wrk and the bench on Tollgate's HTTP port; without wrk a line that says so.
fn http(page: &mut String) -> Result<(), Failure> {
    let Some(wrk) = peers::find("wrk") else {
        writeln!(
            page,
            "| Tollgate over HTTP | not measured: wrk is not installed | | | |"
        )?;
        return Ok(());
    };
    let folder = temp_dir()?;
    let service = Service::start(&folder)?;
    let url = format!("http://127.0.0.1:{}/healthcheck", service.http_port);
    let (mut other, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (rate, median) = wrk_figures(&wrk, &url)?;
        other.push(median);
        ours.push(bench_median_ms(&folder, &url, rate * HTTP_SHARE)?);
    }
    drop(service);
    fs::remove_dir_all(&folder).ok();
    row(
        page,
        "Tollgate over HTTP, `wrk -t 1 -c 1` and half of its rate on one connection",
        "p50, ms",
        &other,
        &ours,
    )
}

fn ceilings(page: &mut String, redis: &Server) -> Result<(), Failure> {
    let null = Null::start()?;
    for (title, line, asked) in CEILINGS {
        let (mut alone, mut with_redis) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(get_row(bench_redis()?, null.port, line)?[0]);
            with_redis.push(get_row(bench_redis()?, redis.addr().port(), line)?[0]);
        }
        writeln!(
            page,
            "| {title}, `{line}` | {:.0} | {:.0} | {} | {asked:.0} |",
            median(&alone),
            median(&with_redis),
            spread(&ratios(&alone, &with_redis))
        )?;
    }
    Ok(())
}

fn row(
    page: &mut String,
    target: &str,
    figure: &str,
    other: &[f64],
    ours: &[f64],
) -> Result<(), Failure> {
    let digits = if figure.ends_with("ms") { 3 } else { 0 };
    writeln!(
        page,
        "| {target} | {figure} | {:.digits$} | {:.digits$} | {} |",
        median(other),
        median(ours),
        spread(&ratios(ours, other))
    )?;
    Ok(())
}

fn bench_redis() -> Result<Command, Failure> {
    let mut command = Command::new(tollgate_binary()?);
    command.args(["bench", "redis"]);
    Ok(command)
}

/// The figures of the only test of `line`, in the order of redis-benchmark's CSV: rate, mean, least, p50, p95, p99, most.
fn get_row(mut command: Command, port: u16, line: &str) -> Result<Vec<f64>, Failure> {
    command
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "--csv"])
        .args(line.split(' '));
    let text = said(&mut command)?;
    let last = text.lines().last().unwrap_or_default();
    let figures: Vec<f64> = last
        .split("\",\"")
        .skip(1)
        .filter_map(|cell| cell.trim_matches('"').parse().ok())
        .collect();
    if figures.len() < 7 {
        return Err(format!("no figures in: {text}").into());
    }
    Ok(figures)
}

/// Standard output of a program that ends well.
fn said(command: &mut Command) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?}: {error}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Requests per second and median in milliseconds.
fn wrk_figures(wrk: &Path, url: &str) -> Result<(f64, f64), Failure> {
    let seconds = format!("{WRK_SECONDS}s");
    let mut command = Command::new(wrk);
    command.args(["-t", "1", "-c", "1", "-d", &seconds, "--latency", url]);
    let text = said(&mut command)?;
    let field = |name: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim()))
    };
    let rate: f64 = field("Requests/sec:")
        .ok_or("wrk printed no rate")?
        .parse()?;
    let median = field("50%").ok_or("wrk printed no median")?;
    for (unit, ms) in [("us", 1e-3), ("ms", 1.0), ("s", 1e3)] {
        if let Some(number) = median.strip_suffix(unit) {
            return Ok((rate, number.parse::<f64>()? * ms));
        }
    }
    Err(format!("wrk's median has no unit: {median}").into())
}

/// Median service time of a step at `rate`.
fn bench_median_ms(folder: &Path, url: &str, rate: f64) -> Result<f64, Failure> {
    let results = folder.join("results");
    let mut command = Command::new(tollgate_binary()?);
    command
        .args(["bench", "--quiet", "--no-calibrate", "--target"])
        .arg(format!("service={url}"))
        .args(["--scenario", "single-key", "--arrivals", "constant"])
        .args(["--connections", "1", "--step", &format!("{WRK_SECONDS}s")])
        .args(["--ladder", &format!("{rate:.0}"), "--out"])
        .arg(&results)
        .stdin(Stdio::null());
    // A row that the machine spoiled ends with a status of its own, and is a figure all the same.
    let output = command.output()?;
    let text = fs::read_to_string(results.join("latest/results.json"))
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let record: Value = serde_json::from_str(&text)?;
    let median = &record["cells"][0]["steps"][0]["service"]["all"]["p50_us"];
    let median = median.as_f64().ok_or("the bench measured no median")?;
    Ok(median / 1e3)
}

/// A process that ends with its owner.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// `tollgate bench null-server`.
struct Null {
    port: u16,
    _process: Guard,
}

impl Null {
    fn start() -> Result<Null, Failure> {
        let mut process = Guard(
            Command::new(tollgate_binary()?)
                .args(["bench", "null-server"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()?,
        );
        let output = process.0.stdout.take().ok_or("no standard output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim().rsplit(':').next().unwrap_or_default().parse()?;
        Ok(Null {
            port,
            _process: process,
        })
    }
}

/// `tollgate serve` with the rules of the bench and an HTTP port.
struct Service {
    http_port: u16,
    _process: Guard,
}

impl Service {
    fn start(folder: &Path) -> Result<Service, Failure> {
        let rules = folder.join("rules");
        fs::create_dir_all(&rules)?;
        let text = said(Command::new(tollgate_binary()?).args(["bench", "rules"]))?;
        fs::write(rules.join("bench.yaml"), text)?;
        let [store, grpc, http_port] = [free_port()?, free_port()?, free_port()?];
        let log = fs::File::create(folder.join("log"))?;
        let process = Guard(
            Command::new(tollgate_binary()?)
                .args(["serve", "--threads", "1", "--shed-after", "0", "--rules"])
                .arg(&rules)
                .args(["--port", &store.to_string()])
                .args(["--grpc-port", &grpc.to_string()])
                .args(["--http-port", &http_port.to_string()])
                .current_dir(folder)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()?,
        );
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, http_port)).is_err() {
            if start.elapsed() > PATIENCE {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(format!("the service does not listen: {log}").into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Service {
            http_port,
            _process: process,
        })
    }
}
