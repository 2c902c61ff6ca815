//! From options to the plan of a run, with what does not go together refused.

use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};

use super::args::RunArgs;
use super::command::cores;
use super::values::{RATE_MAX, WarmUpRule};
use crate::load::keys::Spreading;
use crate::load::schedule::Arrivals;
use crate::record::Profile;
use crate::run::order::Order;
use crate::run::plan::{KeyPlan, Ladder, RunPlan};

/// Most connections of a rung of a closed loop.
const CONNECTIONS_MAX: u32 = 10_000;

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
    let pins = cores(args.pin)?;
    Ok(RunPlan {
        scenarios: scenarios(args)?,
        ladder: ladder(args)?,
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
        // Of several, every scenario has its own; the first is what the generator is calibrated with.
        connections: args.connections.first().copied().unwrap_or(1),
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
        spin: spin(args)?,
        sampling: args.load.raw,
    })
}

/// How long the generator stays awake before a due request.
fn spin(args: &RunArgs) -> Result<Option<Duration>, String> {
    match args.load.spin {
        Some(_) if args.arrivals == Arrivals::Closed => {
            Err("--spin is for due times, and a closed loop has none: leave it out".into())
        }
        spin => Ok(spin),
    }
}

/// The rates that were asked for.
fn ladder(args: &RunArgs) -> Result<Ladder, String> {
    if args.load.speed.is_empty() {
        return Ok(args.ladder.clone().unwrap_or(Ladder::Scaled));
    }
    let recorded = match spreading(args) {
        Some(Spreading::Trace(trace)) => trace.rate_rps(),
        _ => None,
    };
    let recorded =
        recorded.ok_or("--speed is that of a trace: give --dist trace:FILE with times")?;
    if args.arrivals == Arrivals::Closed {
        return Err("--speed is a rate, and a closed loop has none".into());
    }
    let rates: Vec<f64> = args.load.speed.iter().map(|by| by * recorded).collect();
    match rates.iter().find(|rate| **rate > RATE_MAX) {
        Some(rate) => Err(format!("--speed: {rate:.0}/s is more than can be offered")),
        None => Ok(Ladder::Fixed(rates)),
    }
}

fn scenarios(args: &RunArgs) -> Result<Vec<KeyPlan>, String> {
    check_shape(args)?;
    let plain = over_connections(args, plain_scenarios(args)?)?;
    let known_load = plain.iter().find(|scenario| scenario.admit.is_some());
    if let Some(scenario) = known_load.filter(|_| args.arrivals == Arrivals::Closed) {
        return Err(format!(
            "{} needs a known load: a closed loop offers what is answered",
            scenario.name
        ));
    }
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

/// Each scenario over each number of connections, where several are given.
fn over_connections(args: &RunArgs, plain: Vec<KeyPlan>) -> Result<Vec<KeyPlan>, String> {
    let [_, _, ..] = args.connections.as_slice() else {
        return Ok(plain);
    };
    for (at, number) in args.connections.iter().enumerate() {
        if args.connections[..at].contains(number) {
            return Err(format!("--connections: {number} is named twice"));
        }
    }
    if args.arrivals == Arrivals::Closed && args.ladder.is_some() {
        return Err(
            "the rungs of a closed loop are numbers of connections: give --ladder or several --connections".into(),
        );
    }
    let over = |scenario: KeyPlan| {
        let numbers = args.connections.iter();
        numbers.map(move |number| scenario.clone().over(*number))
    };
    Ok(plain.into_iter().flat_map(over).collect())
}

/// The key distribution that was asked for.
fn spreading(args: &RunArgs) -> Option<Spreading> {
    args.dist.map(|dist| dist.spreading)
}

/// Refuses shapes of the load that do not go together.
fn check_shape(args: &RunArgs) -> Result<(), String> {
    if let (Some(keys), Some(own)) = (args.keys, args.dist.and_then(|dist| dist.keys))
        && keys != own
    {
        return Err(format!(
            "--keys {keys} and --dist with /{own} say different numbers of keys: leave one out"
        ));
    }
    let trace = match spreading(args) {
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
    if args.starts > 1
        && let Some(Ladder::Fixed(rungs)) = &args.ladder
        && (1..rungs.len()).any(|at| rungs[..at].contains(&rungs[at]))
    {
        return Err("--starts sets rows of one load side by side: give every rate once".into());
    }
    if args.starts > 1 && args.load.order == Some(Order::UpDown) {
        return Err(
            "--order updown runs rungs twice: give up, down or shuffled with --starts".into(),
        );
    }
    Ok(())
}

fn plain_scenarios(args: &RunArgs) -> Result<Vec<KeyPlan>, String> {
    if let Some(Spreading::Trace(trace)) = spreading(args) {
        return Ok(vec![KeyPlan::custom(
            trace.distinct(),
            Spreading::Trace(trace),
        )]);
    }
    if args.keys.is_some() || args.dist.is_some() {
        let keys = args.keys.or_else(|| args.dist?.keys).unwrap_or(100);
        return Ok(vec![KeyPlan::custom(
            keys,
            spreading(args).unwrap_or(Spreading::Uniform),
        )]);
    }
    let presets = KeyPlan::presets();
    if args.scenario.is_empty() {
        return Ok(presets);
    }
    let known = [presets, KeyPlan::threats()].concat();
    let pick = |name: &String| {
        known
            .iter()
            .find(|preset| preset.name == *name)
            .cloned()
            .ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|preset| preset.name.as_str()).collect();
                format!("'{name}' is not a scenario: give {}", names.join(", "))
            })
    };
    args.scenario.iter().map(pick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Way;

    fn plan_of(words: &[&str]) -> Result<RunPlan, String> {
        let command = RunArgs::augment_args(clap::Command::new("bench"));
        let given = std::iter::once("bench").chain(words.iter().copied());
        let matches = command.try_get_matches_from(given).unwrap();
        plan(&RunArgs::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn speeds_are_multiples_of_the_recorded_one() {
        let path = std::env::temp_dir().join(format!("tollgate-trace-{}", std::process::id()));
        std::fs::write(&path, "0.0 ann\n0.5 bob\n1.0 ann\n").unwrap();
        let dist = format!("trace:{}", path.display());
        let plan = plan_of(&["--dist", &dist, "--speed", "0.5,1,10"]).unwrap();
        // Three requests in a second and a half: the next round begins a mean gap after the last one.
        assert_eq!(plan.ladder, Ladder::Fixed(vec![1.0, 2.0, 20.0]));
        let closed = ["--dist", &dist, "--speed", "1", "--arrivals", "closed"];
        assert!(plan_of(&closed).unwrap_err().contains("closed loop"));
        std::fs::write(&path, "ann\nbob\n").unwrap();
        let untimed = plan_of(&["--dist", &dist, "--speed", "1"]).unwrap_err();
        assert!(untimed.contains("with times"), "{untimed}");
        std::fs::remove_file(&path).unwrap();
        assert!(plan_of(&["--speed", "1"]).unwrap_err().contains("trace"));
    }

    #[test]
    fn a_rate_given_twice_has_no_rows_over_starts() {
        let twice = plan_of(&["--ladder", "sine:10:20:4", "--starts", "5"]).unwrap_err();
        assert!(twice.contains("every rate once"), "{twice}");
        assert!(plan_of(&["--ladder", "10,20,40", "--starts", "5"]).is_ok());
    }

    #[test]
    fn several_numbers_of_connections_are_scenarios_of_their_own() {
        let both = plan_of(&["--scenario", "single-key", "--connections", "50,500"]).unwrap();
        let names: Vec<&str> = both.scenarios.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["single-key-c50", "single-key-c500"]);
        let over = |at: usize| both.bounds(Way::Native, &both.scenarios[at]).connections;
        assert_eq!((over(0), over(1)), (50, 500));
        assert_eq!(both.load(Way::Grpc, &both.scenarios[1]).connections, 500);
        let one = plan_of(&["--scenario", "single-key", "--connections", "100"]).unwrap();
        assert_eq!(one.scenarios[0].name, "single-key");
        assert_eq!(one.bounds(Way::Native, &one.scenarios[0]).connections, 100);
        assert_eq!(one.bounds(Way::Grpc, &one.scenarios[0]).connections, 16);
        let hot = plan_of(&["--dist", "hot:0.9:1/250"]).unwrap();
        assert_eq!(hot.scenarios[0].keys, 250);
        let both = plan_of(&["--dist", "hot:0.9:1/250", "--keys", "100"]).unwrap_err();
        assert!(both.contains("/250"), "{both}");
        let twice = plan_of(&["--connections", "50,50"]).unwrap_err();
        assert!(twice.contains("twice"), "{twice}");
        let rungs = plan_of(&[
            "--connections",
            "5,6",
            "--arrivals",
            "closed",
            "--ladder",
            "5,6",
        ]);
        assert!(rungs.unwrap_err().contains("rungs"));
    }
}
