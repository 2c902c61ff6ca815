//! From options to runs, and from their ends to exit codes.

use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use super::CapacityArgs;
use super::MitigationsArgs;
use super::RecoveryArgs;
use super::args::{BenchArgs, BenchCommand, Pins, RunArgs};
use super::calibration::{Shape, calibrated};
use super::comparison;
use super::measure::perform;
use super::plan::plan;
use super::stored;
use crate::load::schedule::Arrivals;
use crate::os::{cpu, interrupt};
use crate::run::console::Console;
use crate::run::plan::{KeyPlan, RunPlan};
use crate::run::session::Job;
use crate::target::further;
use crate::target::service::rules_yaml;
use crate::target::url::TargetUrl;

/// Exit status of a run that broke its own validity rules.
pub(super) const STATUS_INVALID: u8 = 3;

/// Runs the command. Exit codes: 0 measured, 1 error, 3 measured but invalid by the run's own rules.
#[must_use]
pub fn run(args: BenchArgs) -> ExitCode {
    let done = match args.command {
        None => no_cascade(&args.run).and_then(|()| measure(&args.run, |_| Ok(Job::Ladder))),
        Some(BenchCommand::Capacity(args)) => capacity(*args),
        Some(BenchCommand::Compare(args)) if stored::is_stored(&args.a) => {
            further::check(&args.server_args, &[])
                .and_then(|()| stored::for_runs(&args.given))
                .and_then(|()| stored::compare_runs(&args.a, &args.b, &args.stored))
        }
        Some(BenchCommand::Recovery(args)) => recovery(*args),
        Some(BenchCommand::Mitigations(args)) => mitigations(*args),
        Some(BenchCommand::Compare(args)) => comparison::measure(&args),
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
        Some(BenchCommand::Raw(args)) => super::raw::run(&args),
        Some(BenchCommand::Migrate(args)) => super::migrate::run(&args),
        Some(BenchCommand::NullServer { port, core }) => null_server(port, core),
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
///
/// # Errors
/// A core was asked for that this process may not run on: nothing would be tied to it, and the record would say so.
pub(crate) fn cores(pin: Option<Pins>) -> Result<Pins, String> {
    let usable = cpu::usable();
    let Some(pins) = pin else {
        let two = cpu::count() > 1 && usable.len() > 1;
        return Ok(Pins {
            generator: usable.first().copied().filter(|_| two),
            target: usable.last().copied().filter(|_| two),
        });
    };
    let mut asked = [("gen", pins.generator), ("sut", pins.target)].into_iter();
    match asked.find_map(|(who, core)| Some((who, core.filter(|core| !usable.contains(core))?))) {
        None => Ok(pins),
        Some((who, core)) => {
            let usable: Vec<String> = usable.iter().map(usize::to_string).collect();
            Err(format!(
                "--pin {who}={core}: there is no such core for this process; it may run on {}",
                usable.join(", ")
            ))
        }
    }
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
    no_cascade(&args.run)?;
    measure(&args.run, |plan| args.settings(plan).map(Job::Capacity))
}

fn recovery(args: RecoveryArgs) -> Result<ExitCode, String> {
    let args = args.with_defaults();
    open_loop_only(&args.run)?;
    if args.knee.is_some() && args.run.ladder.is_some() {
        return Err(
            "--ladder is the range in which the knee is searched: leave it out, or --knee".into(),
        );
    }
    measure(&args.run, |plan| args.settings(plan).map(Job::Recovery))
}

fn mitigations(args: MitigationsArgs) -> Result<ExitCode, String> {
    let args = args.with_defaults();
    open_loop_only(&args.run)?;
    no_cascade(&args.run)?;
    let settings = args.settings()?;
    measure(&args.run, |_| Ok(Job::Mitigations(settings)))
}

/// Refuses the scenario that needs an overload and clients who try again.
fn no_cascade(args: &RunArgs) -> Result<(), String> {
    if args.scenario.iter().any(|name| name == KeyPlan::CASCADE) {
        return Err(
            "a cascade is what clients that try again make of an overload: measure it with tollgate bench recovery --scenario cascade"
                .into(),
        );
    }
    Ok(())
}

/// Refuses what only ladders can do.
fn open_loop_only(args: &RunArgs) -> Result<(), String> {
    if args.load.order.is_some() || !args.pause.is_zero() {
        return Err(
            "--order and --pause are for ladders: here the loads that were tried say which comes next".into(),
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

fn calibration(connections: u32, depth: u32, pin: Option<Pins>) -> Result<ExitCode, String> {
    interrupt::install();
    let pins = cores(pin)?;
    let mut console = Console::new(false);
    let shape = Shape {
        connections,
        depth,
        cores: (pins.generator, pins.target),
    };
    let found = calibrated(&shape, Duration::ZERO, &mut console)?;
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

fn null_server(port: u16, core: Option<usize>) -> Result<ExitCode, String> {
    interrupt::install();
    let listener =
        TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Console::new(false).line(&format!("null server on {address}"));
    crate::null_server::serve_until_interrupted(listener, core)
        .map_err(|error| format!("the null server: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cores_that_there_are_can_be_asked_for() {
        let usable = cpu::usable();
        let on = |generator, target| cores(Some(Pins { generator, target }));
        let there = usable.last().copied();
        assert_eq!(on(there, None).unwrap().generator, there);
        let missing = there.unwrap() + 1;
        for (asked, who) in [
            (on(Some(missing), there), "gen"),
            (on(None, Some(missing)), "sut"),
        ] {
            let why = asked.unwrap_err();
            assert!(why.contains(&format!("--pin {who}={missing}: ")), "{why}");
        }
        let usual = cores(None).unwrap();
        assert_eq!(usual.generator.is_some(), usual.target.is_some());
        let picked = [usual.generator, usual.target];
        let picked = picked.into_iter().flatten();
        assert!(picked.into_iter().all(|core| usable.contains(&core)));
    }
}
