//! Options and sub-commands.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches as _, Subcommand};

use super::capacity::CapacityArgs;
use super::load::LoadArgs;
use super::paper::PaperArgs;
use super::recovery::RecoveryArgs;
use super::stored::{GateArgs, NoiseArgs, StoredCompareArgs, TrendsArgs};
use super::values;
use crate::load::schedule::Arrivals;
use crate::run::attribution::{WATCH_MAX, Watched, Watching};
use crate::run::plan::Ladder;
use crate::target::further::ServerArgs;
use crate::target::program::StoreSettings;

/// Measure rate limiting on Tollgate and on the other stores that are installed.
///
/// Starts every store as a child process, finds its capacity, and climbs a ladder of offered loads in three scenarios. Latency
/// counts from the time at which a request was due. The results go to results/YYYYMMDD_HHMMSS/ and results/latest.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = super::examples::BENCH, after_long_help = format!("{}\n{}", super::examples::BENCH, super::environment::VARIABLES))]
pub struct BenchArgs {
    /// What to do instead of the main run.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// The main run.
    #[command(flatten)]
    pub run: RunArgs,
}

impl BenchArgs {
    /// Options as `matches` has them; what the main run was not told comes from the environment. Second, lines to print
    /// about that.
    ///
    /// # Errors
    /// If `matches` is of another command, or a variable of the environment has a value that its option does not take.
    pub fn with_environment(matches: &ArgMatches) -> Result<(BenchArgs, Vec<String>), clap::Error> {
        let mut args = BenchArgs::from_arg_matches(matches)?;
        let remarks = match &mut args.command {
            Some(BenchCommand::Compare(args)) => {
                args.given = matches
                    .subcommand_matches("compare")
                    .map(options_given)
                    .unwrap_or_default();
                Vec::new()
            }
            Some(_) => Vec::new(),
            None => super::environment::apply(&mut args.run, matches).map_err(|why| {
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{why}\n"))
            })?,
        };
        Ok((args, remarks))
    }
}

/// Names of the options that the command line gives.
fn options_given(matches: &ArgMatches) -> Vec<String> {
    let ids = matches.ids().map(clap::Id::as_str);
    ids.filter(|id| {
        matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    })
    .map(str::to_owned)
    .collect()
}

/// Sub-commands of the bench.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Search for the load that each system sustains, with repeated trials, and measure beyond it
    Capacity(Box<CapacityArgs>),
    /// Overload each system for a while, and see whether and when it recovers
    Recovery(Box<RecoveryArgs>),
    /// Compare strategies for hot keys on services that share a store: what each saves, and how far it admits too many or too few requests
    Mitigations(Box<super::MitigationsArgs>),
    /// Compare two servers in short, interleaved slices of the same load, or two folders of stored runs
    Compare(Box<CompareArgs>),
    /// Show how results changed over stored runs
    Trends(TrendsArgs),
    /// Judge a run against a baseline: exit code 0 passed, 1 error, 2 failed, 3 cannot be judged
    Gate(GateArgs),
    /// Measure how much the results of the same program vary on this machine
    Noise(NoiseArgs),
    /// Measure the generator itself against a server that does nothing
    Calibrate {
        /// Connections
        #[arg(long, default_value_t = 50)]
        connections: u32,
        /// Requests in flight per connection
        #[arg(long, default_value_t = 16)]
        pipeline: u32,
        /// Cores of generator and server: gen=CORE,sut=CORE or none
        #[arg(long, value_parser = values::pins)]
        pin: Option<Pins>,
    },
    /// Repeat a published study with its own parameters, and print its results, ours and the ratio side by side
    Paper(Box<PaperArgs>),
    /// Render stored runs again, in other forms or another language
    Report(super::ReportArgs),
    /// Print the single requests that a run with --raw kept, as CSV
    Raw(super::RawArgs),
    /// Print the checklist for moving a rate limiter from one system to another
    Migrate(super::MigrateArgs),
    /// Run redis-benchmark's command lists with its own options
    #[command(visible_alias = "store")]
    Redis(Box<super::RedisArgs>),
    /// Print the rules that a rate limit service needs to be measured as a grpc:// target
    Rules,
    /// Answer every request with the same reply until interrupted
    #[command(hide = true)]
    NullServer {
        /// Port; 0 takes a free one
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// CPU reserved for it, so that it may stay awake between requests
        #[arg(long)]
        core: Option<usize>,
    },
}

/// Cores of generator and targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pins {
    /// Core of the generator.
    pub generator: Option<usize>,
    /// Core of the targets.
    pub target: Option<usize>,
}

/// Headings of the help.
pub(super) const MEASURED: &str = "What is measured";
pub(super) const LOAD: &str = "Load";
const JUDGED: &str = "Judging and watching";
pub(super) const RESULTS: &str = "Results";

/// Options of the main run.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// A running system: NAME=redis://HOST:PORT, NAME=unix:///PATH, NAME=memcache://HOST:PORT, NAME=grpc://HOST:PORT or NAME=http://HOST:PORT/PATH; repeatable. Nothing else is measured then, unless named with --only
    #[arg(long = "target", value_name = "NAME=URL", help_heading = MEASURED)]
    pub targets: Vec<String>,
    /// Systems to start: tollgate, tollgate-grpc, tollgate-http, redis-server, valkey-server, dragonfly, keydb-server, garnet-server, memcached; comma separated [default: all that are installed, without memcached]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", help_heading = MEASURED)]
    pub only: Vec<String>,
    /// Scenarios: single-key, hundred-keys, hundred-keys-hot, attack (one key asks for 99 %), noisy-neighbour (one asks for half), quota (1,000 keys, 90 % admitted), and of bench recovery cascade (clients that try again); comma separated [default: the first three]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", help_heading = MEASURED)]
    pub scenario: Vec<String>,
    /// Number of keys of a scenario of your own
    #[arg(long, conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = MEASURED)]
    pub keys: Option<u32>,
    /// Its key distribution: single, uniform, roundrobin, hot:SHARE[:KEYS], zipf:S, gaussian[:SD], latest[:S[:EVERY]], hotspot:SHARE[:KEYS[:EVERY]] (moves on after EVERY requests), trace:FILE (a key per line, a time in seconds before it if there is one). Behind hot keys /NUMBER stands for --keys: hot:0.9:1/100
    #[arg(long, conflicts_with = "scenario", value_parser = values::dist, help_heading = MEASURED)]
    pub dist: Option<values::Dist>,
    /// Offered rates: FROM:TO:STEP, a list, sine:LOW:HIGH:STEPS (up and down again), file:PATH (one rate per line), or paper-000 for those of that study [default: shares of the measured capacity]
    #[arg(long, value_parser = values::ladder, help_heading = LOAD)]
    pub ladder: Option<Ladder>,
    /// Length of a step, such as 60s [default: chosen so that the run stays under three minutes]
    #[arg(long, aliases = ["duration", "time"], value_parser = values::positive_duration, help_heading = LOAD)]
    pub step: Option<Duration>,
    /// Warm-up load before each step, which is not counted: a duration, or steady[:LONGEST] to go on until throughput and P50 are steady [LONGEST by default: 120s]
    #[arg(long, default_value = "200ms", value_parser = values::warm_up, help_heading = LOAD)]
    pub warmup: values::WarmUpRule,
    /// Pause after each step
    #[arg(long, default_value = "0s", value_parser = values::duration, help_heading = LOAD)]
    pub pause: Duration,
    /// Gaps between requests: poisson, constant, bursty[:SIZE] (groups of that average size, due at once; 10 by default), trace (those of --dist trace:FILE, stretched to the rate) or closed (a closed loop: every connection waits for its answers, and --ladder gives numbers of connections)
    #[arg(long, default_value = "poisson", help_heading = LOAD)]
    pub arrivals: Arrivals,
    /// Connections to a store; several numbers, such as 50,100,500, measure every scenario over each of them, on services too
    #[arg(long, alias = "concurrency", value_delimiter = ',', default_value = "50", value_name = "NUMBERS", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = LOAD)]
    pub connections: Vec<u32>,
    /// Requests in flight per connection
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4_096), help_heading = LOAD)]
    pub pipeline: u32,
    /// Settings of stores started here: plain (no persistence) or rb-store, those of ratelimit_bench (no persistence, 1 GiB, volatile-lru)
    #[arg(long, default_value = "plain", value_name = "NAME", help_heading = MEASURED)]
    pub store_settings: StoreSettings,
    /// Additional arguments for a server started here: NAME=WORDS, such as 'tollgate=--io-backend epoll' or 'redis-server=--io-threads 2'; NAME=VALUE before the arguments sets environment variables; repeatable. Recorded with its command line; of the shell's environment servers get next to nothing
    #[arg(long = "server-args", value_name = "NAME=WORDS", help_heading = MEASURED)]
    pub server_args: Vec<ServerArgs>,
    /// Connections to a gRPC service
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000), help_heading = LOAD)]
    pub grpc_connections: u32,
    /// Streams per connection to a gRPC service
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = LOAD)]
    pub grpc_streams: u32,
    /// An answer that takes longer than this is a failure
    #[arg(long, default_value = "1s", value_parser = values::positive_duration, help_heading = LOAD)]
    pub deadline: Duration,
    /// Window of the limits in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = MEASURED)]
    pub window: u64,
    /// Seed of the schedule and of the key choice
    #[arg(long, default_value_t = 42, help_heading = LOAD)]
    pub seed: u64,
    /// Thresholds: store (accessed directly) or bench (a service behind a proxy)
    #[arg(long, default_value = "store", help_heading = JUDGED)]
    pub profile: String,
    /// Cores of generator and targets: gen=CORE,sut=CORE or none [default: the first and the last]
    #[arg(long, value_parser = values::pins, help_heading = JUDGED)]
    pub pin: Option<Pins>,
    /// Do not measure the generator first
    #[arg(long, help_heading = JUDGED)]
    pub no_calibrate: bool,
    /// Reuse the generator's calibration from an earlier run on this machine, with the same program and connections, if it is at most this old
    #[arg(long, default_value = "60m", value_name = "TIME", value_parser = values::duration, help_heading = JUDGED)]
    pub calibration_age: Duration,
    /// Prefix of all keys, followed by a part that differs from step to step
    #[arg(long, default_value = "", value_parser = values::key_prefix, help_heading = MEASURED)]
    pub key_prefix: String,
    /// Another process to monitor: NAME=PID, or ROLE:NAME=PID with service, proxy or store as the role; repeatable
    #[arg(long, value_name = "NAME=PID", help_heading = JUDGED)]
    pub watch: Vec<Watched>,
    /// Price of this machine per hour; gives the cost of a million decisions
    #[arg(long, value_name = "AMOUNT", value_parser = values::price, help_heading = JUDGED)]
    pub price_per_hour: Option<f64>,
    /// What is asked, and how.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Fresh starts of every target, in the order A B B A; with 5 or more, differences can be claimed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::run::starts::STARTS_MAX)), help_heading = LOAD)]
    pub starts: u32,
    /// Rank targets that were not set up alike (persistence, memory limit, threads, transport), and mark the ranking
    #[arg(long, help_heading = JUDGED)]
    pub allow_unequal: bool,
    /// Where the results go
    #[arg(long, default_value = "results", value_name = "FOLDER", help_heading = RESULTS)]
    pub out: PathBuf,
    /// Another file for the rows, in the JSON layout of ratelimit_bench: one object, or a list of several
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub output_file: Option<PathBuf>,
    /// Allow targets on other machines
    #[arg(long, help_heading = MEASURED)]
    pub i_own_this_target: bool,
    /// Delete all data of the stores at --target before every start (FLUSHALL); only for stores on this machine
    #[arg(long, help_heading = MEASURED)]
    pub flush: bool,
    /// Print only warnings and errors
    #[arg(long, help_heading = RESULTS)]
    pub quiet: bool,
    /// Print one JSON object per line instead of text: for each second of load, each row, and at the end
    #[arg(long, conflicts_with = "quiet", help_heading = RESULTS)]
    pub json: bool,
    /// Show the run over the whole terminal: the load as it goes, charts of goodput and delays, the rows measured so far
    #[arg(long, conflicts_with_all = ["quiet", "json"], help_heading = RESULTS)]
    pub tui: bool,
    /// Serve the progress of the run to Prometheus at /metrics: a port on this machine, or ADDRESS:PORT
    #[arg(long, value_name = "PORT", value_parser = values::listening, help_heading = RESULTS)]
    pub metrics: Option<SocketAddr>,
    /// Language of the report and of the output
    #[arg(long, value_enum, default_value_t = crate::report::Lang::En, help_heading = RESULTS)]
    pub lang: crate::report::Lang,
}

impl RunArgs {
    /// What is watched besides generator and target, and what the machine costs. Fails for a process that is not there.
    pub(super) fn watching(&self) -> Result<Watching, String> {
        if self.watch.len() > WATCH_MAX {
            return Err(format!("--watch may be given {WATCH_MAX} times"));
        }
        if let Some(gone) = self.watch.iter().find(|watched| !watched.is_there()) {
            return Err(format!(
                "--watch {}={}: there is no such process, or it may not be looked at",
                gone.name, gone.pid
            ));
        }
        Ok(Watching {
            also: self.watch.clone(),
            price_per_hour: self.price_per_hour,
        })
    }
}

/// Options of the paired comparison.
#[derive(Args, Debug, Clone)]
#[command(after_help = super::examples::COMPARE)]
pub struct CompareArgs {
    /// The first server: a store (tollgate, redis-server, valkey-server, dragonfly, keydb-server, garnet-server; started with one thread; or a redis:// URL), a service (tollgate-grpc, tollgate-http, throttlecrab-grpc, throttlecrab-http, or a grpc:// or http:// URL), or a folder of stored runs
    pub a: String,
    /// The second one, of the same kind
    pub b: String,
    /// Names of the options that were given.
    #[arg(skip)]
    pub given: Vec<String>,
    /// Options for stored runs.
    #[command(flatten)]
    pub stored: StoredCompareArgs,
    /// Loads: limiter, script, get, set, incr, latency [these by default], memory, lpush, lpop, sadd, hset, zadd, mset, lrange, hgetall, beside [GETs at a rate of their own while a script of a second holds another key]; of services: decide, overload [both by default]; comma separated
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub loads: Vec<String>,
    /// Requests written at once per connection; comma separated
    #[arg(long, value_delimiter = ',', default_value = "1,16", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub depth: Vec<u32>,
    /// Connections
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Pairs of slices per load
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slices: u32,
    /// Length of a slice in milliseconds
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub slice_ms: u64,
    /// Milliseconds after which an answer is too late in the overload of services [Envoy's by default]
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub deadline_ms: u64,
    /// Number of keys, drawn uniformly; with many, a server cannot answer them all from its CPU caches
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub keys: u32,
    /// Records of the memory load
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    pub records: u32,
    /// Additional arguments for a server started here: NAME=WORDS with a or b or the server's name, such as 'b=--io-backend epoll'; NAME=VALUE before the arguments sets environment variables; repeatable. Recorded with its command line; of the shell's environment servers get next to nothing
    #[arg(long = "server-args", value_name = "NAME=WORDS")]
    pub server_args: Vec<ServerArgs>,
    /// Worker threads of servers started here
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Seed of the key choice
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Cores of generator and servers: gen=CORE,sut=CORE or none [default: the first and the last]
    #[arg(long, value_parser = values::pins)]
    pub pin: Option<Pins>,
    /// Where the results go
    #[arg(long, default_value = "results", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Allow targets on other machines
    #[arg(long)]
    pub i_own_this_target: bool,
}
