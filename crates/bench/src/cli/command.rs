//! From options to runs, and from their ends to exit codes.

use std::fs::File;
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};

use super::CapacityArgs;
use super::RecoveryArgs;
use super::args::{BenchArgs, BenchCommand, Pins, RunArgs};
use super::gather::{check_names, gather};
use super::stored;
use super::values::WarmUpRule;
use crate::load::keys::Spreading;
use crate::load::schedule::Arrivals;
use crate::os::{cpu, interrupt};
use crate::record::{CompareRecord, Grade, Profile, RunRecord, Severity};
use crate::report::files::{RunDirectory, WriteError};
use crate::report::{
    capacity_lines, compare_summary, ladder_head, ladder_row, limit_line, recovery_lines,
    run_summary,
};
use crate::run::calibrate::calibrate;
use crate::run::console::Console;
use crate::run::fresh::{self, Steward};
use crate::run::order::Order;
use crate::run::plan::{KeyPlan, Ladder, RunPlan};
use crate::run::session::{Job, Session};
use crate::target::service::rules_yaml;
use crate::target::url::TargetUrl;

/// Most connections of a rung of a closed loop.
const CONNECTIONS_MAX: u32 = 10_000;
/// Exit status of a run that broke its own validity rules.
const STATUS_INVALID: u8 = 3;

/// Runs the command. Exit codes: 0 measured, 1 error, 3 measured but invalid by the run's own rules.
#[must_use]
pub fn run(args: BenchArgs) -> ExitCode {
    let done = match args.command {
        None => measure(&args.run, |_| Ok(Job::Ladder)),
        Some(BenchCommand::Capacity(args)) => capacity(*args),
        Some(BenchCommand::Compare(args)) if stored::is_stored(&args.a) => {
            stored::compare_runs(&args.a, &args.b, &args.stored)
        }
        Some(BenchCommand::Recovery(args)) => recovery(*args),
        Some(BenchCommand::Compare(args)) => compare(&args),
        Some(BenchCommand::Trends(args)) => stored::show_trends(&args),
        Some(BenchCommand::Gate(args)) => stored::pass_gate(&args),
        Some(BenchCommand::Noise(args)) => stored::measure_noise(&args),
        Some(BenchCommand::Calibrate {
            connections,
            pipeline,
            pin,
        }) => calibration(connections, pipeline, pin),
        Some(BenchCommand::Paper(args)) => super::paper::run(&args),
        Some(BenchCommand::Report(args)) => super::report::run(&args),
        Some(BenchCommand::Migrate(args)) => super::migrate::run(&args),
        Some(BenchCommand::NullServer { port }) => null_server(port),
        Some(BenchCommand::Redis(args)) => redis(&args),
        Some(BenchCommand::Rules) => {
            Console::new(false).line(rules_yaml().trim_end());
            Ok(ExitCode::SUCCESS)
        }
    };
    match done {
        Ok(code) => code,
        Err(text) => {
            Console::new(false).note(&format!("error: {text}"));
            ExitCode::FAILURE
        }
    }
}

/// Cores by default: the first for the generator, the last for the targets, if there are two.
pub(crate) fn cores(pin: Option<Pins>) -> Pins {
    pin.unwrap_or_else(|| match cpu::count() {
        0 | 1 => Pins {
            generator: None,
            target: None,
        },
        count => Pins {
            generator: Some(0),
            target: Some(count - 1),
        },
    })
}

/// Refuses to put load on other people's machines.
pub(crate) fn own(url: &TargetUrl, owned: bool) -> Result<(), String> {
    if owned || url.endpoint.address.is_local() {
        return Ok(());
    }
    Err(format!(
        "{} is not on this machine: a load test can take a server down. Give --i-own-this-target if it is yours to load",
        url.shown
    ))
}

fn capacity(args: CapacityArgs) -> Result<ExitCode, String> {
    let args = args.with_defaults();
    open_loop_only(&args.run)?;
    measure(&args.run, |plan| args.settings(plan).map(Job::Capacity))
}

fn recovery(args: RecoveryArgs) -> Result<ExitCode, String> {
    let args = args.with_defaults();
    open_loop_only(&args.run)?;
    measure(&args.run, |plan| args.settings(plan).map(Job::Recovery))
}

/// Refuses what only ladders can do.
fn open_loop_only(args: &RunArgs) -> Result<(), String> {
    if args.starts > 1 {
        return Err(
            "--starts is for ladders: here every load is tried several times already".into(),
        );
    }
    if args.arrivals == Arrivals::Closed {
        return Err(
            "--arrivals closed offers no rate that could be searched: give poisson or constant"
                .into(),
        );
    }
    Ok(())
}

/// Starts the targets, does the job that `job` makes of the plan, and writes the results.
fn measure(
    args: &RunArgs,
    job: impl FnOnce(&RunPlan) -> Result<Job, String>,
) -> Result<ExitCode, String> {
    interrupt::install();
    let plan = plan(args)?;
    let job = job(&plan)?;
    perform(args, &plan, &job, &mut |_, _| {})
}

/// Does `job` by `plan` on what `args` name, and writes the results. `complete` adds to the record what follows from it,
/// before it is written and summed up.
pub(super) fn perform(
    args: &RunArgs,
    plan: &RunPlan,
    job: &Job,
    complete: &mut dyn FnMut(&mut RunRecord, &mut Console),
) -> Result<ExitCode, String> {
    let urls = args
        .targets
        .iter()
        .map(|text| TargetUrl::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    for url in &urls {
        own(url, args.i_own_this_target)?;
    }
    check_names(&args.only)?;
    let mut console = Console::new(args.quiet);
    console.speak(args.lang);
    if args.json {
        console.stream_json();
    }
    let folder = RunDirectory::create(&args.out, crate::run::machine::unix_seconds());
    let folder = folder.map_err(|error| error.to_string())?;
    match File::create(folder.log_path()) {
        Ok(file) => console.log_to(file),
        Err(error) => console.note(&format!(
            "warning: no log: {}: {error}",
            folder.log_path().display()
        )),
    }
    let asked = args.only.len() + urls.len();
    let mut main = MainRun {
        args,
        urls: &urls,
        plan,
        folder: &folder,
        write_failed: None,
    };
    let stop = interrupt::flag();
    let mut record = match job {
        Job::Ladder => fresh::run(plan, args.starts, &mut console, stop, &mut main),
        job => {
            let mut session = Session::new(plan, &mut console, stop);
            main.gather(&mut session, true);
            session.run_job(job, &mut |now, console| main.keep(now, now, console))
        }
    };
    let write_failed = main.write_failed;
    console.finish();
    complete(&mut record, &mut console);
    let written = folder.write_run_as(&record, args.lang);
    console.end(&record, folder.path());
    conclude(&record, &mut console, &folder, written, write_failed, asked)
}

/// What the starts of the main run have in common.
struct MainRun<'a> {
    args: &'a RunArgs,
    urls: &'a [TargetUrl],
    plan: &'a RunPlan,
    folder: &'a RunDirectory,
    write_failed: Option<String>,
}

impl Steward for MainRun<'_> {
    fn gather(&mut self, session: &mut Session<'_>, first: bool) {
        gather(self.args, self.urls, self.plan, session);
        if first && self.plan.calibrate && session.has_targets() && !interrupt::asked() {
            calibrate_first(self.plan, session);
        }
        session.announce();
    }

    fn keep(&mut self, now: &RunRecord, whole: &RunRecord, console: &mut Console) {
        if let Some(scenario) = now.cells.last().map(|cell| cell.scenario.name.clone()) {
            show_ladders(now, &scenario, console);
        }
        if let Err(error) = self.folder.checkpoint(whole) {
            self.write_failed.get_or_insert(error.to_string());
        }
    }
}

/// The plan of a main run without options.
pub(super) fn default_plan() -> Result<RunPlan, String> {
    let command = RunArgs::augment_args(clap::Command::new("bench"));
    let matches = command.try_get_matches_from(["bench"]);
    let args = matches.and_then(|matches| RunArgs::from_arg_matches(&matches));
    plan(&args.map_err(|error| error.to_string())?)
}

pub(super) fn plan(args: &RunArgs) -> Result<RunPlan, String> {
    let profile = Profile::named(&args.profile)
        .ok_or_else(|| format!("'{}' is not a profile: give store or bench", args.profile))?;
    let pins = cores(args.pin);
    Ok(RunPlan {
        scenarios: scenarios(args)?,
        ladder: args.ladder.clone().unwrap_or(Ladder::Scaled),
        step: args.step,
        warmup: match args.warmup {
            WarmUpRule::For(length) => length,
            WarmUpRule::Steady(_) => Duration::ZERO,
        },
        steady: match args.warmup {
            WarmUpRule::For(_) => None,
            WarmUpRule::Steady(longest) => Some(longest),
        },
        order: args.load.order,
        pause: args.pause,
        arrivals: args.arrivals,
        connections: args.connections,
        depth: args.pipeline,
        grpc_connections: args.grpc_connections,
        grpc_streams: args.grpc_streams,
        http_pipeline: args.load.http_pipeline,
        deadline: args.deadline,
        window_s: args.window,
        seed: args.seed,
        profile,
        generator_core: pins.generator,
        target_core: pins.target,
        calibrate: !args.no_calibrate,
        key_prefix: args.key_prefix.clone(),
        watching: args.watching()?,
    })
}

fn scenarios(args: &RunArgs) -> Result<Vec<KeyPlan>, String> {
    check_shape(args)?;
    let plain = plain_scenarios(args)?;
    if args.load.admit.is_empty() {
        return Ok(plain);
    }
    let ratios = &args.load.admit;
    Ok(plain
        .into_iter()
        .flat_map(|scenario| {
            ratios
                .iter()
                .map(move |ratio| scenario.clone().admitting(*ratio))
        })
        .collect())
}

/// Refuses shapes of the load that do not go together.
fn check_shape(args: &RunArgs) -> Result<(), String> {
    let trace = match args.dist {
        Some(Spreading::Trace(trace)) => Some(trace),
        _ => None,
    };
    if trace.is_some() && args.keys.is_some() {
        return Err("a trace has its own keys: leave --keys out".into());
    }
    if args.arrivals == Arrivals::Trace && !trace.is_some_and(|trace| trace.is_timed()) {
        return Err("--arrivals trace needs --dist trace:FILE with times".into());
    }
    if args.arrivals == Arrivals::Closed {
        if !args.load.admit.is_empty() {
            return Err("--admit needs a known load: a closed loop offers what is answered".into());
        }
        if args.starts > 1 {
            return Err("--starts repeats rates: a closed loop has none".into());
        }
        if let Some(Ladder::Fixed(rungs)) = &args.ladder
            && rungs
                .iter()
                .any(|rung| rung.fract() != 0.0 || *rung > f64::from(CONNECTIONS_MAX))
        {
            return Err(format!(
                "the rungs of a closed loop are numbers of connections: give whole numbers up to {CONNECTIONS_MAX}"
            ));
        }
    }
    if args.starts > 1 && args.load.order == Some(Order::UpDown) {
        return Err(
            "--order updown runs rungs twice: give up, down or shuffled with --starts".into(),
        );
    }
    Ok(())
}

fn plain_scenarios(args: &RunArgs) -> Result<Vec<KeyPlan>, String> {
    if let Some(Spreading::Trace(trace)) = args.dist {
        return Ok(vec![KeyPlan::custom(
            trace.distinct(),
            Spreading::Trace(trace),
        )]);
    }
    if args.keys.is_some() || args.dist.is_some() {
        let keys = args.keys.unwrap_or(100);
        return Ok(vec![KeyPlan::custom(
            keys,
            args.dist.unwrap_or(Spreading::Uniform),
        )]);
    }
    let presets = KeyPlan::presets();
    if args.scenario.is_empty() {
        return Ok(presets);
    }
    let pick = |name: &String| {
        presets
            .iter()
            .find(|preset| preset.name == *name)
            .cloned()
            .ok_or_else(|| {
                let names: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
                format!("'{name}' is not a scenario: give {}", names.join(", "))
            })
    };
    args.scenario.iter().map(pick).collect()
}

fn calibrate_first(plan: &RunPlan, session: &mut Session<'_>) {
    let cores = (plan.generator_core, plan.target_core);
    match calibrate(
        plan.connections,
        plan.depth,
        cores,
        session.console(),
        interrupt::flag(),
    ) {
        Ok(calibration) => {
            session.console().line(&format!(
                "generator: ceiling {:.0}/s at {} connections x {}, floor p50 {:.0} us p99 {:.0} us, clock {:.0} ns",
                calibration.ceiling_rps,
                plan.connections,
                plan.depth,
                calibration.floor_p50_us,
                calibration.floor_p99_us,
                calibration.clock_read_ns
            ));
            session.calibrated(calibration);
        }
        Err(why) => session.event(
            Severity::Warning,
            None,
            format!("the generator could not be calibrated: {why}"),
        ),
    }
}

fn show_ladders(record: &RunRecord, scenario: &str, console: &mut Console) {
    let style = console.style();
    for cell in record
        .cells
        .iter()
        .filter(|cell| cell.scenario.name == scenario)
    {
        console.line(&format!(
            "\n{} · {} · {}",
            cell.scenario.title, cell.target, cell.operation.title
        ));
        console.line(ladder_head(style).trim_end());
        for step in &cell.steps {
            console.line(ladder_row(style, step).trim_end());
        }
        if let Some(line) = limit_line(&cell.steps) {
            console.line(&format!("  {line}"));
        }
        for text in [capacity_lines(style, cell), recovery_lines(style, cell)] {
            if !text.is_empty() {
                console.line(&text);
            }
        }
    }
}

fn conclude(
    record: &RunRecord,
    console: &mut Console,
    folder: &RunDirectory,
    written: Result<(), WriteError>,
    checkpoint_failed: Option<String>,
    asked: usize,
) -> Result<ExitCode, String> {
    console.line(&run_summary(console.style(), record));
    let mut failed = false;
    let log_error = console.take_log_error();
    for error in written
        .err()
        .map(|error| error.to_string())
        .or(checkpoint_failed)
        .into_iter()
        .chain(log_error)
    {
        console.note(&format!("error: {error}"));
        failed = true;
    }
    if !failed {
        console.line(&format!(
            "\nreport: {}",
            folder.path().join("report.html").display()
        ));
    }
    // A system that was asked for by name and could not be measured is an error; one found by chance is a remark.
    failed |= record.cells.iter().all(|cell| cell.steps.is_empty());
    failed |= record
        .events
        .iter()
        .any(|event| event.severity == Severity::Error);
    failed |= asked > 0 && !record.skipped.is_empty();
    failed |= interrupt::asked();
    Ok(if failed {
        ExitCode::FAILURE
    } else if record.validity.grade == Grade::Invalid {
        ExitCode::from(STATUS_INVALID)
    } else {
        ExitCode::SUCCESS
    })
}

fn compare(args: &super::CompareArgs) -> Result<ExitCode, String> {
    interrupt::install();
    let mut console = Console::new(false);
    let record: CompareRecord = crate::compare::run(args, &mut console)?;
    console.finish();
    console.line(&compare_summary(console.style(), &record));
    let folder = RunDirectory::create(&args.out, record.manifest.started_unix_s)
        .map_err(|error| error.to_string())?;
    folder
        .write_compare(&record)
        .map_err(|error| error.to_string())?;
    console.line(&format!("\nrecord: {}", folder.path().display()));
    Ok(match record.validity.grade {
        _ if !record.complete => ExitCode::FAILURE,
        Grade::Invalid => ExitCode::from(STATUS_INVALID),
        _ => ExitCode::SUCCESS,
    })
}

fn calibration(connections: u32, depth: u32, pin: Option<Pins>) -> Result<ExitCode, String> {
    interrupt::install();
    let pins = cores(pin);
    let mut console = Console::new(false);
    let found = calibrate(
        connections,
        depth,
        (pins.generator, pins.target),
        &mut console,
        interrupt::flag(),
    )?;
    console.finish();
    let source = crate::os::clock::source().unwrap_or_else(|| "unknown".into());
    console.line(&format!(
        "ceiling        {:>12.0} requests/s ({connections} connections x {depth})",
        found.ceiling_rps
    ));
    if let Some(cost) = found.generator_cpu_us_per_op {
        console.line(&format!(
            "generator CPU  {cost:>12.3} us per request at the ceiling"
        ));
    }
    console.line(&format!(
        "floor p50      {:>12.1} us from send to answer at 5,000/s",
        found.floor_p50_us
    ));
    console.line(&format!("floor p99      {:>12.1} us", found.floor_p99_us));
    console.line(&format!(
        "clock reading  {:>12.1} ns ({source})",
        found.clock_read_ns
    ));
    Ok(ExitCode::SUCCESS)
}

fn redis(args: &super::RedisArgs) -> Result<ExitCode, String> {
    interrupt::install();
    // Two consoles, since results and complaints go to two streams.
    let (mut results, mut complaints) = (Console::new(false), Console::new(false));
    crate::redis::run(args, &mut |text| results.line(text), &mut |text| {
        complaints.note(text)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn null_server(port: u16) -> Result<ExitCode, String> {
    interrupt::install();
    let listener =
        TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Console::new(false).line(&format!("null server on {address}"));
    crate::null_server::serve_until_interrupted(listener).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}
