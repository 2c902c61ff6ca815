//! Whether the bench's generator measures what other tools measure, and how far it is from being what is measured: the
//! last section of `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_testkit::process::{free_port, temp_dir, tollgate_binary};
use tollgate_testkit::{Server, peers};

use crate::Failure;
use crate::benchmarks::{ROUNDS, Size, TICKS, cpu_seconds, median, ratios, spread};

/// One connection that waits for each answer: a low load that a tool without a rate can offer too.
const ONE_AT_A_TIME: &str = "-t get -n 20000 -c 1";
/// Loads that ask for all a generator or a server can do: title, options, ratio asked for.
const CEILINGS: &[(&str, &str, f64)] = &[
    ("not pipelined", "-t get -n 400000 -c 50 -P 1", 3.0),
    ("16 at once", "-t get -n 2000000 -c 50 -P 16", 2.0),
];
/// Seconds that wrk and the bench load the HTTP port.
const HTTP_SECONDS: u32 = 4;
/// Requests of ab, which is told a number and not a time.
const AB_REQUESTS: u64 = 40_000;
/// Where Linux is told how long a processor may take to wake up; as long as the file is open, this holds.
const WAKE_LATENCY: &str = "/dev/cpu_dma_latency";
/// Processor of generators, where there are two.
const GENERATOR_CORE: usize = 0;
/// Longest wait for a server to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Processor of servers: the last, as the bench chooses it too. `None` on a machine with one.
pub(crate) fn server_core() -> Option<usize> {
    let count = thread::available_parallelism().map_or(1, usize::from);
    (count > 1).then(|| count - 1)
}

/// redis-server where the bench puts servers. Tools that place themselves differently do not measure the same thing: a
/// generator beside its server on one processor wakes it for next to nothing.
pub(crate) fn redis() -> Result<Server, Failure> {
    let core = server_core().map(|core| core.to_string());
    let flags: Vec<&str> = match &core {
        Some(core) => vec!["--server_cpulist", core],
        None => Vec::new(),
    };
    let found = Server::redis(&flags)?;
    Ok(found.ok_or("redis-server is neither on PATH nor in .peers: cargo xtask peers")?)
}

/// `program` on processor `core`, if there is one to choose and `taskset` to do it with.
fn on_core(program: &Path, core: Option<usize>) -> Command {
    match (core, peers::find("taskset")) {
        (Some(core), Some(taskset)) => {
            let mut command = Command::new(taskset);
            command.args(["-c", &core.to_string()]).arg(program);
            command
        }
        _ => Command::new(program),
    }
}

/// Another tool where the bench puts its generator.
fn other_generator(program: &Path) -> Command {
    on_core(program, server_core().map(|_| GENERATOR_CORE))
}

/// Appends the section to `page`. `redis` is a running redis-server.
pub(crate) fn section(page: &mut String, redis: &Server, size: Size) -> Result<(), Failure> {
    page.push_str(
        "\n## The generator of `tollgate bench` beside other tools\n\n\
         Each row is the median of the rounds, the tools in turn; every tool runs on the first processor and every server on the last, unless \
         the row says otherwise. With one connection that waits for every answer all tools offer the same low load, so latencies should agree.\n\n\
         | target | figure | other tool | `tollgate bench` | ratio |\n|---|---|---|---|---|\n",
    );
    let apart = server_core().map(|_| GENERATOR_CORE);
    low_load(page, redis, size, (apart, ""))?;
    if let Some(awake) = Awake::keep() {
        low_load(page, redis, size, (apart, ", processors kept awake"))?;
        drop(awake);
    }
    if server_core().is_some() {
        let together = (server_core(), ", both on one processor");
        low_load(page, redis, size, together)?;
    }
    http(page, size)?;
    page.push_str(
        "\nA request over one connection makes two processors wait for each other, and one that waits goes to sleep; on a virtual machine \
         the hypervisor has to wake it, which takes longer than the request does. *Processors kept awake* is the same measurement with \
         `/dev/cpu_dma_latency` held at 0. *Both on one processor*: generator and server hand it to each other, nothing sleeps, and the \
         figures are those of the tools and the server alone. A rate at one connection also has in it what a tool does between an answer \
         and its next request, which no latency has: redis-benchmark makes five system calls a request, this generator three.\n",
    );
    page.push_str(
        "\nThe generator alone, on one core against a server on another core that answers without looking, and against redis-server in that \
         server's place. A ratio well above 1 means that a figure of redis-server is not the generator's limit. \
         CPU time does not depend on what else runs on the machine, so the last column is the ratio that a busy machine cannot change: what a request costs \
         redis-server by what it costs the generator.\n\n\
         | load | null server | redis-server | ratio | asked for | generator's CPU per request: own code | kernel | redis-server's CPU per request | ratio by CPU |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    ceilings(page, redis, size)
}

/// Keeps all processors from sleeping until it is dropped.
struct Awake(
    #[expect(dead_code, reason = "the request holds as long as the file is open")] fs::File,
);

impl Awake {
    /// `None` where the kernel takes no such request, or not from this user.
    fn keep() -> Option<Awake> {
        let mut file = fs::OpenOptions::new().write(true).open(WAKE_LATENCY).ok()?;
        file.write_all(&0_i32.to_ne_bytes()).ok()?;
        Some(Awake(file))
    }
}

/// redis-benchmark and the bench with the same options on the same server, from processor `core`; `how` says what is special.
fn low_load(
    page: &mut String,
    redis: &Server,
    size: Size,
    (core, how): (Option<usize>, &str),
) -> Result<(), Failure> {
    let line = size.line(ONE_AT_A_TIME);
    let theirs =
        peers::find("redis-benchmark").ok_or("needs redis-benchmark: cargo xtask peers")?;
    let port = redis.addr().port();
    let (mut other, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        other.push(get_row(on_core(&theirs, core), port, &line)?);
        let mut own = bench_redis()?;
        if let Some(core) = core {
            own.args(["--pin", &format!("gen={core},sut={core}")]);
        }
        ours.push(get_row(own, port, &line)?);
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
            &format!("redis-server, `redis-benchmark {line}`{how}"),
            figure,
            &pick(&other),
            &pick(&ours),
        )?;
    }
    Ok(())
}

/// wrk, ab and the bench on Tollgate's HTTP port, each with one connection that waits for every answer; a line for a tool
/// that is not installed. wrk's percentiles are not compared: it adds answers that it thinks a stall has kept it from
/// asking for, so that they are not those of the requests it sent.
fn http(page: &mut String, size: Size) -> Result<(), Failure> {
    let folder = temp_dir()?;
    let service = Service::start(&folder)?;
    let url = format!("http://127.0.0.1:{}/healthcheck", service.http_port);
    let (wrk, ab) = (peers::find("wrk"), peers::find("ab"));
    let (mut of_wrk, mut of_ab, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        if let Some(wrk) = &wrk {
            of_wrk.push(wrk_rate(wrk, &url, size)?);
        }
        ours.push(bench_figures(&folder, &url, size)?);
        if let Some(ab) = &ab {
            of_ab.push(ab_figures(ab, &url, &folder, size)?);
        }
    }
    drop(service);
    fs::remove_dir_all(&folder).ok();
    let pick = |rows: &[[f64; 3]], column: usize| -> Vec<f64> {
        rows.iter().map(|row| row[column]).collect()
    };
    let rate = "requests per second";
    let target = "Tollgate over HTTP, `wrk -t 1 -c 1`";
    match &wrk {
        Some(_) => row(page, target, rate, &of_wrk, &pick(&ours, 0))?,
        None => writeln!(page, "| {target} | not measured: not installed | | | |")?,
    }
    let target = "Tollgate over HTTP, `ab -k -c 1`";
    if ab.is_none() {
        writeln!(page, "| {target} | not measured: not installed | | | |")?;
        return Ok(());
    }
    for (column, figure) in [(0, rate), (1, "p50, ms"), (2, "p99, ms")] {
        row(
            page,
            target,
            figure,
            &pick(&of_ab, column),
            &pick(&ours, column),
        )?;
    }
    Ok(())
}

fn ceilings(page: &mut String, redis: &Server, size: Size) -> Result<(), Failure> {
    let null = Null::start()?;
    let mut notes = String::new();
    for (title, line, asked) in CEILINGS {
        let line = &size.line(line);
        let requests = requests_of(line)?;
        let (mut alone, mut with_redis) = (Vec::new(), Vec::new());
        let (mut own, mut kernel, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let before = children_cpu()?;
            alone.push(get_row(bench_redis()?, null.port, line)?[0]);
            let after = children_cpu()?;
            own.push((after[0] - before[0]) * 1e6 / requests);
            kernel.push((after[1] - before[1]) * 1e6 / requests);
            let before = cpu_seconds(redis)?;
            with_redis.push(get_row(bench_redis()?, redis.addr().port(), line)?[0]);
            theirs.push((cpu_seconds(redis)? - before) * 1e6 / requests);
        }
        let reached = ratios(&alone, &with_redis);
        let (own, kernel, theirs) = (median(&own), median(&kernel), median(&theirs));
        writeln!(
            page,
            "| {title}, `{line}` | {:.0} | {:.0} | {} | {asked:.0} | {own:.2} us | {kernel:.2} us | {theirs:.2} us | {:.2} |",
            median(&alone),
            median(&with_redis),
            spread(&reached),
            theirs / (own + kernel)
        )?;
        if median(&reached) < *asked {
            writeln!(
                notes,
                "\n*{title}*: {:.0} % of the generator's {:.2} us per request are system calls and TCP, which every client pays. Without any code \
                 of its own it could send {:.1} times what redis-server can answer on a core for itself.",
                100.0 * kernel / (own + kernel),
                own + kernel,
                theirs / kernel
            )?;
        }
    }
    page.push_str(&notes);
    Ok(())
}

/// What a command line of redis-benchmark has behind `-n`.
fn requests_of(line: &str) -> Result<f64, Failure> {
    let number = line.split(' ').skip_while(|word| *word != "-n").nth(1);
    Ok(number
        .ok_or("the line names no number of requests")?
        .parse()?)
}

fn http_seconds(size: Size) -> u32 {
    match size {
        Size::Full => HTTP_SECONDS,
        Size::Quick => 1,
    }
}

/// CPU seconds of the programs that were run so far and have ended: own code, kernel.
fn children_cpu() -> Result<[f64; 2], Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    // Behind the name: the 14th and the 15th field are the waited-for children's times.
    let mut times = fields.split_ascii_whitespace().skip(13).map(str::parse);
    match (times.next(), times.next()) {
        (Some(Ok(own)), Some(Ok(kernel))) => Ok([own, kernel].map(|ticks: f64| ticks / TICKS)),
        _ => Err("/proc/self/stat has no times of children".into()),
    }
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

/// Requests per second.
fn wrk_rate(wrk: &Path, url: &str, size: Size) -> Result<f64, Failure> {
    let seconds = format!("{}s", http_seconds(size));
    let mut command = other_generator(wrk);
    command.args(["-t", "1", "-c", "1", "-d", &seconds, url]);
    let text = said(&mut command)?;
    let mut lines = text.lines().map(str::trim);
    let rate = lines.find_map(|line| line.strip_prefix("Requests/sec:"));
    Ok(rate.ok_or("wrk printed no rate")?.trim().parse()?)
}

/// Requests per second, then P50 and P99 in milliseconds.
fn ab_figures(ab: &Path, url: &str, folder: &Path, size: Size) -> Result<[f64; 3], Failure> {
    let table = folder.join("ab.csv");
    let mut command = other_generator(ab);
    command
        .args([
            "-q",
            "-k",
            "-c",
            "1",
            "-n",
            &size.of(AB_REQUESTS).to_string(),
            "-e",
        ])
        .arg(&table)
        .arg(url);
    let text = said(&mut command)?;
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("Requests per second:"))
        .and_then(|rest| rest.split_ascii_whitespace().next())
        .ok_or("ab printed no rate")?
        .parse()?;
    // Lines of the table: a percentage and the milliseconds within which it was served.
    let table = fs::read_to_string(&table)?;
    let served = |percent: &str| -> Result<f64, Failure> {
        let mut cells = table.lines().filter_map(|line| line.split_once(','));
        let found = cells.find(|(share, _)| *share == percent);
        let (_, ms) = found.ok_or("ab's table lacks a percentage")?;
        Ok(ms.trim().parse()?)
    };
    Ok([rate, served("50")?, served("99")?])
}

/// The same of one connection of the bench that waits for every answer.
fn bench_figures(folder: &Path, url: &str, size: Size) -> Result<[f64; 3], Failure> {
    let results = folder.join("results");
    let mut command = Command::new(tollgate_binary()?);
    command
        .args(["bench", "--quiet", "--no-calibrate", "--target"])
        .arg(format!("service={url}"))
        .args(["--scenario", "single-key", "--arrivals", "closed"])
        .args(["--step", &format!("{}s", http_seconds(size))])
        .args(["--ladder", "1", "--out"])
        .arg(&results)
        .stdin(Stdio::null());
    // A row that the machine spoiled ends with a status of its own, and is a figure all the same.
    let output = command.output()?;
    let text = fs::read_to_string(results.join("latest/results.json"))
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let record: Value = serde_json::from_str(&text)?;
    let step = &record["cells"][0]["steps"][0];
    let service = &step["service"]["all"];
    let figures = [
        step["goodput_rps"].as_f64(),
        service["p50_us"].as_f64().map(|us| us / 1e3),
        service["p99_us"].as_f64().map(|us| us / 1e3),
    ];
    match figures {
        [Some(rate), Some(p50), Some(p99)] => Ok([rate, p50, p99]),
        _ => Err("the bench measured no rate or no percentiles".into()),
    }
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
        let mut command = Command::new(tollgate_binary()?);
        command.args(["bench", "null-server"]);
        if let Some(core) = server_core() {
            command.args(["--core", &core.to_string()]);
        }
        let mut process = Guard(
            command
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
            on_core(tollgate_binary()?, server_core())
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
