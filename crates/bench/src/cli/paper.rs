//! `tollgate bench paper`: a study by its number, or the study's own tool by its name.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, FromArgMatches};

use super::args::{Pins, RunArgs};
use super::gather::GRPC_NAME;
use super::measure::perform;
use super::plan::plan as plan_of;
use super::values;
use crate::load::schedule::Arrivals;
use crate::os::{cpu, interrupt};
use crate::paper::{self, Study, beside, commands, memtier, text};
use crate::record::{Event, PaperRecord, Profile, RunRecord, SCHEMA_VERSION, Severity};
use crate::report::files::RunDirectory;
use crate::report::{Lang, TextStyle, run_summary};
use crate::run::attribution::Watched;
use crate::run::console::Console;
use crate::run::machine;
use crate::run::plan::{Ladder, RunPlan};
use crate::run::session::Job;
use crate::target::Store;
use crate::target::program::Program;
use crate::target::url::{Protocol, TargetUrl};

/// Systems that a ladder study is repeated on when none is named.
const LADDER_SYSTEMS: [Program; 3] = [Program::Redis, Program::Dragonfly, Program::Tollgate];

/// Options of paper mode.
#[derive(Args, Debug)]
#[command(after_help = super::examples::PAPER)]
pub struct PaperArgs {
    /// Study: 000 (Redis and Dragonfly, three ladders), 001 (100 keys in turn), 002 (clients of Node, with --replay alone), 003 (memtier rows), 004 (redis-benchmark); one
    /// ladder of 000 by its name: single-key, hundred-keys, hundred-keys-hot (or 000-single, 000-uniform, 000-hot), with the
    /// flags of the study's own tool. Any of these names may begin with paper-
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
    /// Requests of each test of study 004; fewer than the study's are marked
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub requests: Option<u64>,
    /// Pause after each step
    #[arg(long, default_value = "0s", value_parser = values::duration)]
    pub pause: Duration,
    /// Prefix of all keys
    #[arg(long, default_value = "", value_parser = values::key_prefix)]
    pub prefix: String,
    /// Connections, as the 8 of the study's own command line is read here [default: 50 to a store, 16 to a service]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub threads: Option<u32>,
    /// Rates instead of the study's 10000:30000:2500
    #[arg(long, value_parser = values::ladder)]
    pub ladder: Option<Ladder>,
    /// An answer later than this is a failure; the studies had no deadline [default: 1s]
    #[arg(long, value_parser = values::positive_duration)]
    pub deadline: Option<Duration>,
    /// Fresh starts of every target, in the order A B B A: ours are the medians of them [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::run::starts::STARTS_MAX)))]
    pub starts: Option<u32>,
    /// Gaps between requests: constant or poisson [default: constant]
    #[arg(long)]
    pub arrivals: Option<Arrivals>,
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
    /// Language of tables and report
    #[arg(long, value_enum, default_value_t = Lang::En)]
    pub lang: Lang,
    /// Print only warnings and errors
    #[arg(long)]
    pub quiet: bool,
}

/// What was asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    study: Study,
    /// One of its ladders alone.
    scenario: Option<&'static str>,
}

/// The ladders of study 000 by the names of its own tools and of its tables.
const LADDERS: [(&str, &str); 6] = [
    ("single-key", "single-key"),
    ("hundred-keys", "hundred-keys"),
    ("hundred-keys-hot", "hundred-keys-hot"),
    ("000-single", "single-key"),
    ("000-uniform", "hundred-keys"),
    ("000-hot", "hundred-keys-hot"),
];

fn chosen(text: &str) -> Result<Chosen, String> {
    let name = text.strip_prefix("paper-").unwrap_or(text);
    if let Some((_, scenario)) = LADDERS.iter().find(|(known, _)| *known == name) {
        return Ok(Chosen {
            study: Study::Ladders,
            scenario: Some(scenario),
        });
    }
    let study = Study::from_number(name).ok_or_else(|| {
        let ladders: Vec<&str> = LADDERS.iter().map(|(name, _)| *name).collect();
        format!(
            "'{text}' is not a study: give 000, 001, 002, 003, 004, or one ladder of 000: {}",
            ladders.join(", ")
        )
    })?;
    Ok(Chosen {
        study,
        scenario: None,
    })
}

/// Runs the command.
pub(super) fn run(args: &PaperArgs) -> Result<ExitCode, String> {
    interrupt::install();
    let study = args.study.study;
    if args.replay {
        let mut console = Console::new(args.quiet);
        let style = TextStyle {
            lang: args.lang,
            ..console.style()
        };
        console.line(&text::tables(
            style,
            &beside::replay(study, args.study.scenario),
        ));
        return Ok(ExitCode::SUCCESS);
    }
    refuse_what_has_no_meaning(study, args)?;
    match study {
        Study::Ladders | Study::Hundred => ladders(study, args),
        Study::Clients => Err(
            "study 002 drives clients of Node, which this program does not: --replay judges its rows again; \
             TARGET_URL=http://HOST:PORT REQUEST_TYPE=heavy CONNECTIONS=50 tollgate bench measures a service under its workload"
                .into(),
        ),
        Study::Memtier | Study::RedisBenchmark => closed_loop(study, args),
    }
}

/// Options that mean nothing for a study are errors.
fn refuse_what_has_no_meaning(study: Study, args: &PaperArgs) -> Result<(), String> {
    let ladder = matches!(study, Study::Ladders | Study::Hundred);
    let of_ladders = [
        ("--pause", !args.pause.is_zero()),
        ("--prefix", !args.prefix.is_empty()),
        ("--threads", args.threads.is_some()),
        ("--ladder", args.ladder.is_some()),
        ("--deadline", args.deadline.is_some()),
        ("--arrivals", args.arrivals.is_some()),
        ("--starts", args.starts.is_some()),
        ("--no-calibrate", args.no_calibrate),
        ("--watch", !args.watch.is_empty()),
        ("--price-per-hour", args.price_per_hour.is_some()),
    ];
    let others = [
        (
            "--step",
            args.step.is_some() && study == Study::RedisBenchmark,
        ),
        (
            "--requests",
            args.requests.is_some() && study != Study::RedisBenchmark,
        ),
    ];
    let given = of_ladders.into_iter().filter(|_| !ladder).chain(others);
    match given.into_iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(format!(
            "{name} has no meaning for study {}",
            study.number()
        )),
        None => Ok(()),
    }
}

/// Studies of stores in a closed loop.
fn closed_loop(study: Study, args: &PaperArgs) -> Result<ExitCode, String> {
    let start = std::time::Instant::now();
    let pins = super::cores(args.pin)?;
    let mut console = Console::new(args.quiet);
    let mut record = RunRecord {
        schema_version: SCHEMA_VERSION,
        manifest: machine::manifest(args.seed, pins.generator, pins.target),
        ..RunRecord::default()
    };
    let stores = stores(args, pins, &mut console)?;
    record.targets = stores.iter().map(|store| store.record.clone()).collect();
    look_at_machine(&mut record, &mut console);
    let folder = RunDirectory::create(&args.out, record.manifest.started_unix_s)
        .map_err(|error| error.to_string())?;
    let facts = record.manifest.machine.clone();
    let ((tables, wrong), not_comparable) = if study == Study::Memtier {
        let setting = memtier::Setting {
            stores: &stores,
            core: pins.generator,
            length: args.step.unwrap_or(memtier::TEST_TIME),
            seed: args.seed,
            stop: interrupt::flag(),
        };
        (
            memtier::run(&setting, &mut console),
            memtier::not_comparable(&facts, setting.length),
        )
    } else {
        let drivers = commands::drivers();
        if drivers.len() < 2 {
            console.note("not measured: redis-benchmark: not on PATH");
        }
        (
            commands::run(
                &stores,
                &drivers,
                args.requests,
                &mut console,
                interrupt::flag(),
            ),
            commands::not_comparable(&facts),
        )
    };
    let paper = PaperRecord {
        tables,
        not_comparable,
        ..beside::head(study)
    };
    console.finish();
    let style = TextStyle {
        lang: args.lang,
        ..console.style()
    };
    console.line(&text::tables(style, &paper));
    record.paper = Some(paper);
    record.manifest.duration_s = start.elapsed().as_secs_f64();
    record.partial_reason = wrong.first().cloned();
    record.complete = wrong.is_empty();
    record.judge();
    console.line(&run_summary(style, &record));
    folder
        .write_run(&record)
        .map_err(|error| error.to_string())?;
    console.line(&format!("\nrecord: {}", folder.path().display()));
    Ok(if record.complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Says before anything is measured that other processes need the processors, if they do.
fn look_at_machine(record: &mut RunRecord, console: &mut Console) {
    let busy = machine::busy_processors();
    if let Some(text) = busy.and_then(|(busy, count)| machine::beside_others(busy, count)) {
        console.note(&format!("warning: {text}"));
        record.events.push(Event {
            severity: Severity::Warning,
            text,
            ..Event::default()
        });
    }
}

/// The stores that are named, or those of the studies that are installed.
fn stores(args: &PaperArgs, pins: Pins, console: &mut Console) -> Result<Vec<Store>, String> {
    let mut stores = Vec::new();
    for name in systems(args) {
        // The service is no store.
        if name == GRPC_NAME && args.only.is_empty() {
            continue;
        }
        let program = Program::from_name(&name)
            .filter(|program| program.speaks_resp())
            .ok_or_else(|| format!("'{name}' is not a store that can be started"))?;
        let threads = if pins.target.is_some() {
            1
        } else {
            cpu::count() as u32
        };
        console.phase(format!("starting {name}"));
        stores.push(Store::start(
            program,
            program.threads(threads),
            pins.target,
        )?);
    }
    for text in &args.targets {
        let url = TargetUrl::parse(text)?;
        super::own(&url, args.i_own_this_target)?;
        if url.protocol != Protocol::Resp {
            return Err(format!(
                "{}: this study asks stores: give redis:// URLs",
                url.shown
            ));
        }
        stores.push(Store::attach(&url)?);
    }
    Ok(stores)
}

fn ladders(study: Study, args: &PaperArgs) -> Result<ExitCode, String> {
    let run = run_args(args)?;
    let plan = ladder_plan(study, args, &run)?;
    let mut shown = String::new();
    let code = perform(&run, &plan, &Job::Ladder, &mut |record, console| {
        let paper = beside::ladders(study, record);
        let style = TextStyle {
            lang: args.lang,
            ..console.style()
        };
        shown = text::tables(style, &paper);
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
    run.arrivals = args.arrivals.unwrap_or(Arrivals::Constant);
    run.deadline = args.deadline.unwrap_or(run.deadline);
    run.seed = args.seed;
    run.starts = args.starts.unwrap_or(1);
    run.pin = args.pin;
    run.no_calibrate = args.no_calibrate;
    run.key_prefix.clone_from(&args.prefix);
    run.watch.clone_from(&args.watch);
    run.price_per_hour = args.price_per_hour;
    run.out.clone_from(&args.out);
    run.i_own_this_target = args.i_own_this_target;
    run.lang = args.lang;
    run.quiet = args.quiet;
    if let Some(threads) = args.threads {
        run.connections = vec![threads];
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
    if let Some(name) = args.study.scenario {
        scenarios.retain(|scenario| scenario.name == name);
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
        ..plan_of(run)?
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
            "--starts",
            "3",
        ]);
        let run = run_args(&args).unwrap();
        assert_eq!(run.targets, ["grpc://localhost:9091"]);
        assert!(run.only.is_empty(), "only what is named");
        assert_eq!((run.grpc_connections, &run.connections[..]), (8, &[8][..]));
        let plan = ladder_plan(Study::Ladders, &args, &run).unwrap();
        assert_eq!(plan.key_prefix, "key");
        assert_eq!(plan.pause, Duration::from_secs(5));
        assert_eq!(run.starts, 3);
        assert_eq!(plan.scenarios.len(), 1);
        assert_eq!(plan.scenarios[0].step, Some(Duration::from_secs(60)));
        assert_eq!(plan.arrivals, Arrivals::Constant);
        assert_eq!(plan.profile, Profile::bench());
        assert_eq!(plan.ladder, Ladder::Fixed(paper::ladder()));
    }

    #[test]
    fn options_without_meaning_are_refused() {
        let refused = |words: &[&str]| {
            let args = read(words);
            refuse_what_has_no_meaning(args.study.study, &args).is_err()
        };
        assert!(refused(&["004", "--step", "1s"]) && refused(&["003", "--ladder", "1,2"]));
        assert!(refused(&["000", "--requests", "5"]) && refused(&["004", "--starts", "5"]));
        assert!(!refused(&["000", "--step", "1s", "--pause", "1s"]));
        assert!(!refused(&["003", "--step", "1s"]) && !refused(&["004", "--requests", "5"]));
    }

    #[test]
    fn addresses_get_the_scheme_of_the_studys_client() {
        assert_eq!(with_scheme("a=h:1"), "a=grpc://h:1");
        assert_eq!(with_scheme("a=redis://h:1"), "a=redis://h:1");
        assert!(chosen("005").is_err() && chosen("000").is_ok());
    }

    #[test]
    fn studies_and_their_ladders_have_several_names() {
        for (name, study, scenario) in [
            ("paper-000", Study::Ladders, None),
            ("paper-003", Study::Memtier, None),
            ("paper-004", Study::RedisBenchmark, None),
            ("single-key", Study::Ladders, Some("single-key")),
            ("000-hot", Study::Ladders, Some("hundred-keys-hot")),
            ("paper-hundred-keys", Study::Ladders, Some("hundred-keys")),
        ] {
            assert_eq!(chosen(name), Ok(Chosen { study, scenario }), "{name}");
        }
        // Every name is that of a ladder that the study has.
        for (_, scenario) in LADDERS {
            let plans = Study::Ladders.scenarios(None);
            assert!(plans.iter().any(|plan| plan.name == scenario), "{scenario}");
        }
        let args = read(&["000-uniform", "--replay"]);
        assert_eq!(args.study.scenario, Some("hundred-keys"));
    }
}
