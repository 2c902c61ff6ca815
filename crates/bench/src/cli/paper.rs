//! `tollgate bench paper`: a study by its number, or the study's own tool by its name.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, FromArgMatches};

use super::args::{Pins, RunArgs};
use super::command;
use super::gather::GRPC_NAME;
use super::values;
use crate::load::schedule::Arrivals;
use crate::os::interrupt;
use crate::paper::{self, Study, beside, text};
use crate::record::Profile;
use crate::run::attribution::Watched;
use crate::run::console::Console;
use crate::run::plan::{Ladder, RunPlan};
use crate::run::session::Job;
use crate::target::program::Program;

/// Systems that a ladder study is repeated on when none is named.
const LADDER_SYSTEMS: [Program; 3] = [Program::Redis, Program::Dragonfly, Program::Tollgate];

/// Options of paper mode.
#[derive(Args, Debug)]
pub struct PaperArgs {
    /// Study: 000 (Redis and Dragonfly, three ladders), 001 (100 keys in turn), 003 (memtier rows), 004 (redis-benchmark), or
    /// hundred-keys for the 100-key ladder with the flags of the study's own tool
    #[arg(value_parser = chosen)]
    pub study: Chosen,
    /// Measure nothing: judge the study's own rows by its own thresholds and by ours
    #[arg(long)]
    pub replay: bool,
    /// A running system: NAME=redis://HOST:PORT or NAME=grpc://HOST:PORT; repeatable. Nothing else is measured then, unless named with --only
    #[arg(long = "target", value_name = "NAME=URL")]
    pub targets: Vec<String>,
    /// Systems to start, comma separated [default: redis-server, dragonfly, tollgate, tollgate-grpc, as far as installed]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub only: Vec<String>,
    /// Length of a step or test; shortens the study's (30 or 60 s on ladders, 100 s in 003), which is then marked
    #[arg(long, value_parser = values::positive_duration)]
    pub step: Option<Duration>,
    /// Pause after each step
    #[arg(long, default_value = "0s", value_parser = values::duration)]
    pub pause: Duration,
    /// What all keys begin with
    #[arg(long, default_value = "", value_parser = values::key_prefix)]
    pub prefix: String,
    /// Connections, as the 8 of the study's own command line is read here [default: 50 to a store, 16 to a service]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub threads: Option<u32>,
    /// Rates instead of the study's 10000:30000:2500
    #[arg(long, value_parser = values::ladder)]
    pub ladder: Option<Ladder>,
    /// An answer later than this is a failure; the studies had no deadline
    #[arg(long, default_value = "1s", value_parser = values::positive_duration)]
    pub deadline: Duration,
    /// Gaps between requests: constant or poisson
    #[arg(long, default_value = "constant")]
    pub arrivals: Arrivals,
    /// Seed of the schedule and of the key choice
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Cores of generator and targets: gen=CORE,sut=CORE or none [default: the first and the last]
    #[arg(long, value_parser = values::pins)]
    pub pin: Option<Pins>,
    /// Do not measure the generator first
    #[arg(long)]
    pub no_calibrate: bool,
    /// A further process to watch: NAME=PID, or ROLE:NAME=PID with service, proxy or store as the role; repeatable
    #[arg(long, value_name = "NAME=PID")]
    pub watch: Vec<Watched>,
    /// Price of this machine per hour; gives the cost of a million decisions
    #[arg(long, value_name = "AMOUNT", value_parser = values::price)]
    pub price_per_hour: Option<f64>,
    /// Where the results go
    #[arg(long, default_value = "results", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Allow targets on other machines
    #[arg(long)]
    pub i_own_this_target: bool,
    /// Print nothing but complaints
    #[arg(long)]
    pub quiet: bool,
}

/// What was asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// A whole study.
    Whole(Study),
    /// The 100-key ladder of study 000, as its own tool is called.
    HundredKeys,
}

fn chosen(text: &str) -> Result<Chosen, String> {
    if text == "hundred-keys" {
        return Ok(Chosen::HundredKeys);
    }
    Study::from_number(text)
        .map(Chosen::Whole)
        .ok_or_else(|| format!("'{text}' is not a study: give 000, 001, 003, 004 or hundred-keys"))
}

impl Chosen {
    fn study(self) -> Study {
        match self {
            Chosen::Whole(study) => study,
            Chosen::HundredKeys => Study::Ladders,
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &PaperArgs) -> Result<ExitCode, String> {
    interrupt::install();
    let study = args.study.study();
    if args.replay {
        let mut console = Console::new(args.quiet);
        let style = console.style();
        console.line(&text::tables(style, &beside::replay(study)));
        return Ok(ExitCode::SUCCESS);
    }
    match study {
        Study::Ladders | Study::Hundred => ladders(study, args),
        Study::Memtier | Study::RedisBenchmark => Err(format!(
            "study {} is no ladder: give --replay to see its rows",
            study.number()
        )),
    }
}

fn ladders(study: Study, args: &PaperArgs) -> Result<ExitCode, String> {
    let run = run_args(args)?;
    let plan = ladder_plan(study, args, &run)?;
    let mut shown = String::new();
    let code = command::perform(&run, &plan, &Job::Ladder, &mut |record, console| {
        let paper = beside::ladders(study, record);
        shown = text::tables(console.style(), &paper);
        record.paper = Some(paper);
    })?;
    // After the run's own summary: it is what was asked for.
    Console::new(args.quiet).line(&shown);
    Ok(code)
}

/// The options of the main run that paper mode shares; the rest as the main run has them by default.
fn run_args(args: &PaperArgs) -> Result<RunArgs, String> {
    let command = RunArgs::augment_args(clap::Command::new("bench").no_binary_name(true));
    let mut run = command
        .try_get_matches_from(std::iter::empty::<&str>())
        .and_then(|matches| RunArgs::from_arg_matches(&matches))
        .map_err(|error| error.to_string())?;
    run.targets = args.targets.iter().map(|text| with_scheme(text)).collect();
    run.only = systems(args);
    run.step = args.step;
    run.pause = args.pause;
    run.arrivals = args.arrivals;
    run.deadline = args.deadline;
    run.seed = args.seed;
    run.pin = args.pin;
    run.no_calibrate = args.no_calibrate;
    run.key_prefix.clone_from(&args.prefix);
    run.watch.clone_from(&args.watch);
    run.price_per_hour = args.price_per_hour;
    run.out.clone_from(&args.out);
    run.i_own_this_target = args.i_own_this_target;
    run.quiet = args.quiet;
    if let Some(threads) = args.threads {
        run.connections = threads;
        run.grpc_connections = threads;
    }
    Ok(run)
}

/// `HOST:PORT` alone is a gRPC service, as the study's own tool takes it.
fn with_scheme(text: &str) -> String {
    if text.contains("://") {
        return text.to_owned();
    }
    match text.split_once('=') {
        Some((name, address)) => format!("{name}=grpc://{address}"),
        None => format!("grpc://{text}"),
    }
}

/// What is named; else everything of the study that is installed, so that nothing named is missing.
fn systems(args: &PaperArgs) -> Vec<String> {
    if !args.only.is_empty() || !args.targets.is_empty() {
        return args.only.clone();
    }
    let mut console = Console::new(args.quiet);
    let mut names = Vec::new();
    for program in LADDER_SYSTEMS {
        if program.locate().is_some() {
            names.push(program.name().to_owned());
        } else {
            console.note(&format!(
                "not measured: {}: {}",
                program.name(),
                program.hint()
            ));
        }
    }
    names.push(GRPC_NAME.to_owned());
    names
}

fn ladder_plan(study: Study, args: &PaperArgs, run: &RunArgs) -> Result<RunPlan, String> {
    let mut scenarios = study.scenarios(args.step);
    if args.study == Chosen::HundredKeys {
        scenarios.retain(|scenario| scenario.name == "hundred-keys");
    }
    let ladder = args
        .ladder
        .clone()
        .unwrap_or_else(|| Ladder::Fixed(paper::ladder()));
    Ok(RunPlan {
        scenarios,
        ladder,
        // The thresholds of the study.
        profile: Profile::bench(),
        ..command::plan(run)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PaperArgs,
    }

    fn read(words: &[&str]) -> PaperArgs {
        Line::try_parse_from(std::iter::once(&"paper").chain(words))
            .unwrap()
            .args
    }

    #[test]
    fn the_studys_own_command_line_is_understood() {
        let args = read(&[
            "hundred-keys",
            "--target",
            "localhost:9091",
            "--prefix",
            "key",
            "--threads",
            "8",
            "--step",
            "60",
            "--pause",
            "5",
        ]);
        let run = run_args(&args).unwrap();
        assert_eq!(run.targets, ["grpc://localhost:9091"]);
        assert!(run.only.is_empty(), "only what is named");
        assert_eq!((run.grpc_connections, run.connections), (8, 8));
        let plan = ladder_plan(Study::Ladders, &args, &run).unwrap();
        assert_eq!(plan.key_prefix, "key");
        assert_eq!(plan.pause, Duration::from_secs(5));
        assert_eq!(plan.scenarios.len(), 1);
        assert_eq!(plan.scenarios[0].step, Some(Duration::from_secs(60)));
        assert_eq!(plan.arrivals, Arrivals::Constant);
        assert_eq!(plan.profile, Profile::bench());
        assert_eq!(plan.ladder, Ladder::Fixed(paper::ladder()));
    }

    #[test]
    fn addresses_get_the_scheme_of_the_studys_client() {
        assert_eq!(with_scheme("a=h:1"), "a=grpc://h:1");
        assert_eq!(with_scheme("a=redis://h:1"), "a=redis://h:1");
        assert!(chosen("002").is_err() && chosen("000").is_ok());
    }
}
