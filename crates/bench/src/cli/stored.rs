//! Options of the sub-commands that work on stored runs, and the sub-commands themselves.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::values;
use crate::load::keys::Spreading;
use crate::os::interrupt;
use crate::record::{ClaimFloor, GateOutcome, Metric, NoiseRecord, RunRecord};
use crate::report::files::RunDirectory;
use crate::report::stored::{self as sheets, Sheet};
use crate::report::{Lang, TextStyle};
use crate::run::console::Console;
use crate::run::fresh::{self, Steward};
use crate::run::plan::{KeyPlan, Ladder, RunPlan};
use crate::run::session::{Job, Session};
use crate::stored::{
    Arms, CLAIM_PERCENT, Gate, NOISE_STARTS_MIN, Refused, StoredRun, compare, default_floor, gate,
    noise, noise_path, read_noise, read_runs, read_whole_runs, same_machine, trends, write_noise,
};
use crate::target::program::Program;
use crate::target::{Store, Target};

/// Exit status of a gate that did not pass.
const STATUS_FAILED: u8 = 2;
/// Exit status of a gate whose run or baseline cannot be judged.
const STATUS_INVALID: u8 = 3;

/// How a result is printed.
#[derive(Args, Clone, Debug, Default)]
pub struct Printed {
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Also write a page that needs no network
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Language of tables and sentences
    #[arg(long, value_enum, default_value_t = Lang::En)]
    pub lang: Lang,
}

impl Printed {
    /// Writes the page that was asked for, if one was.
    pub(super) fn write_page(&self, page: impl FnOnce() -> String) -> Result<(), String> {
        let Some(path) = &self.html else {
            return Ok(());
        };
        std::fs::write(path, page()).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Options of a comparison of stored runs.
#[derive(Args, Clone, Debug, Default)]
pub struct StoredCompareArgs {
    /// Stored runs: target of the first arm
    #[arg(long, value_name = "NAME")]
    pub target_a: Option<String>,
    /// Stored runs: target of the second arm
    #[arg(long, value_name = "NAME")]
    pub target_b: Option<String>,
    /// Stored runs: figures to compare: goodput, p50, p99, cpu, held (by a search); comma separated [default: all]
    #[arg(long, value_delimiter = ',', value_parser = metric, value_name = "NAMES")]
    pub metric: Vec<Metric>,
    /// Stored runs: compare arms that were not measured alike, and mark the result
    #[arg(long)]
    pub allow_unequal: bool,
    /// Stored runs: noise calibration [default: that of this machine, if it was measured]
    #[arg(long, value_name = "FILE")]
    pub noise: Option<PathBuf>,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: Printed,
}

impl StoredCompareArgs {
    /// Refuses what only a comparison of stored runs heeds.
    pub(super) fn for_servers(&self) -> Result<(), String> {
        let given = [
            ("--target-a", self.target_a.is_some()),
            ("--target-b", self.target_b.is_some()),
            ("--metric", !self.metric.is_empty()),
            ("--allow-unequal", self.allow_unequal),
            ("--noise", self.noise.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(format!(
                "{option} is for stored runs: give two folders of runs, or leave it out to compare two servers"
            )),
            None => Ok(()),
        }
    }
}

/// Options of `bench trends`.
#[derive(Args, Debug)]
pub struct TrendsArgs {
    /// Runs, or folders of runs
    #[arg(required = true, value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// Figures: goodput, p50, p99, cpu, held (by a search); comma separated [default: all]
    #[arg(long, value_delimiter = ',', value_parser = metric, value_name = "NAMES")]
    pub metric: Vec<Metric>,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: Printed,
}

/// Options of `bench gate`.
#[derive(Args, Debug)]
#[command(after_help = super::examples::GATE)]
pub struct GateArgs {
    /// The run to judge, or a folder of runs
    #[arg(value_name = "DIR")]
    pub run: PathBuf,
    /// The run that it must not fall behind, or a folder of runs
    #[arg(long, value_name = "DIR")]
    pub baseline: PathBuf,
    /// Largest regression that passes
    #[arg(long, default_value = "5%", value_parser = percent)]
    pub max_regression: f64,
    /// Figures to judge: goodput, p50, p99, cpu, held (by a search); comma separated
    #[arg(long, value_delimiter = ',', default_value = "goodput,p99,cpu,held", value_parser = metric, value_name = "NAMES")]
    pub metric: Vec<Metric>,
    /// Judge although the runs were not measured alike, and mark the result
    #[arg(long)]
    pub allow_unequal: bool,
    /// Noise calibration [default: that of this machine, if it was measured]
    #[arg(long, value_name = "FILE")]
    pub noise: Option<PathBuf>,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: Printed,
}

/// Options of `bench noise`.
#[derive(Args, Debug)]
pub struct NoiseArgs {
    /// Stored runs with several starts to take the noise from, instead of measuring
    #[arg(value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// What to measure against itself: tollgate, redis-server, valkey-server, dragonfly, keydb-server or garnet-server
    #[arg(long, default_value = "tollgate", value_name = "NAME")]
    pub only: String,
    /// Fresh starts on each side
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=i64::from(crate::run::starts::STARTS_MAX)))]
    pub starts: u32,
    /// Offered rates: FROM:TO:STEP or a list
    #[arg(long, default_value = "5000", value_parser = values::ladder)]
    pub ladder: Ladder,
    /// Length of a step
    #[arg(long, default_value = "2s", value_parser = values::positive_duration)]
    pub step: Duration,
    /// Where the calibration goes [default: the user's cache, where gate and compare look for it]
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Where the run goes
    #[arg(long, default_value = "results", value_name = "FOLDER")]
    pub out: PathBuf,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: Printed,
}

fn metric(text: &str) -> Result<Metric, String> {
    Metric::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        format!("'{text}' is not a figure: give {}", names.join(", "))
    })
}

/// `5%`, `5 %` or `5`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(value) if (0.0..=1_000.0).contains(&value) => Ok(value),
        _ => Err(format!(
            "'{text}' is not a percentage from 0 to 1000: give for example 5%"
        )),
    }
}

/// Whether an argument of `bench compare` names stored runs and not a server.
pub(super) fn is_stored(argument: &str) -> bool {
    Program::from_name(argument).is_none()
        && !argument.contains("://")
        && (Path::new(argument).exists()
            || argument.contains(['/', '\\'])
            || argument.ends_with(".json"))
}

/// Options of a comparison of two servers, by the names of their fields.
const FOR_SERVERS: [&str; 14] = [
    "loads",
    "depth",
    "connections",
    "slices",
    "slice_ms",
    "deadline_ms",
    "keys",
    "records",
    "server_args",
    "threads",
    "seed",
    "pin",
    "out",
    "i_own_this_target",
];

/// Refuses what only a comparison of two servers heeds.
pub(super) fn for_runs(given: &[String]) -> Result<(), String> {
    match given
        .iter()
        .find(|name| FOR_SERVERS.contains(&name.as_str()))
    {
        Some(name) => Err(format!(
            "--{} is for two servers: stored runs are compared as they were measured",
            name.replace('_', "-")
        )),
        None => Ok(()),
    }
}

pub(super) fn compare_runs(a: &str, b: &str, args: &StoredCompareArgs) -> Result<ExitCode, String> {
    let runs = |argument: &str| {
        if is_stored(argument) {
            read_runs(&[PathBuf::from(argument)])
        } else {
            Err(format!(
                "'{argument}' is not a stored run: compare two servers, or two folders of runs"
            ))
        }
    };
    let (a, b) = (runs(a)?, runs(b)?);
    let arms = Arms {
        a: &a,
        b: &b,
        target_a: args.target_a.as_deref(),
        target_b: args.target_b.as_deref(),
        same_time: true,
    };
    let floor = floor(args.noise.as_deref(), &[&a, &b])?.unwrap_or_else(default_floor);
    let metrics = if args.metric.is_empty() {
        &Metric::ALL[..]
    } else {
        &args.metric
    };
    let record = compare(&arms, metrics, &floor)?;
    if !record.unequal.is_empty() && !args.allow_unequal {
        return Err(refusal(&sheets::unequal(
            &record.unequal,
            args.printed.lang,
        )));
    }
    print(
        &args.printed,
        &record,
        &sheets::comparison(&record, args.printed.lang),
    )
}

fn refusal(differences: &[String]) -> String {
    format!(
        "the arms were not measured alike, so their difference says nothing about the systems:\n  {}\nmeasure them alike, or \
         give --allow-unequal, which marks the result",
        differences.join("\n  ")
    )
}

pub(super) fn show_trends(args: &TrendsArgs) -> Result<ExitCode, String> {
    let (runs, damaged) = read_whole_runs(&args.runs)?;
    let metrics = if args.metric.is_empty() {
        &Metric::ALL[..]
    } else {
        &args.metric
    };
    let left_out = damaged.into_iter().map(|why| format!("left out: {why}"));
    let left_out: Vec<String> = left_out.collect();
    let mut record =
        trends(&runs, metrics).map_err(|why| [&[why][..], &left_out].concat().join("\n"))?;
    record.notes.extend(left_out);
    print(
        &args.printed,
        &record,
        &sheets::trends(&record, args.printed.lang),
    )
}

pub(super) fn pass_gate(args: &GateArgs) -> Result<ExitCode, String> {
    let read = |path: &PathBuf| read_runs(std::slice::from_ref(path));
    let (runs, baseline) = (read(&args.run)?, read(&args.baseline)?);
    let asked = Gate {
        runs: &runs,
        baseline: &baseline,
        metrics: &args.metric,
        max_regression_percent: args.max_regression,
        noise: floor(args.noise.as_deref(), &[&runs, &baseline])?,
        allow_unequal: args.allow_unequal,
    };
    let record = gate(&asked).map_err(|refused| match refused {
        Refused::Nothing(why) => why,
        Refused::Unequal(found) => refusal(&sheets::unequal(&found, args.printed.lang)),
    })?;
    print(
        &args.printed,
        &record,
        &sheets::gate(&record, args.printed.lang),
    )?;
    Ok(match record.outcome {
        GateOutcome::Passed => ExitCode::SUCCESS,
        GateOutcome::Failed => ExitCode::from(STATUS_FAILED),
        GateOutcome::Invalid => ExitCode::from(STATUS_INVALID),
    })
}

/// The noise of the machine that all runs come from: from `file`, or from the cache if it is there. `None` without one.
fn floor(file: Option<&Path>, arms: &[&[StoredRun]]) -> Result<Option<ClaimFloor>, String> {
    let Some(first) = arms.iter().find_map(|runs| runs.first()) else {
        return Ok(None);
    };
    let machine = &first.record.manifest.machine;
    let (path, asked) = match file {
        Some(path) => (path.to_owned(), true),
        None => match noise_path(machine, |name| std::env::var(name).ok()) {
            Some(path) if path.is_file() => (path, false),
            _ => return Ok(None),
        },
    };
    let record = read_noise(&path)?;
    let here = |run: &StoredRun| same_machine(&run.record.manifest.machine, &record.machine);
    if !arms.iter().flat_map(|runs| runs.iter()).all(here) {
        // A calibration that lies about is passed over; one that was named must fit.
        return if asked {
            Err(format!(
                "{}: measured on another machine than the runs",
                path.display()
            ))
        } else {
            Ok(None)
        };
    }
    Ok(Some(ClaimFloor {
        percent: CLAIM_PERCENT,
        by_metric: record
            .metrics
            .iter()
            .map(|found| (found.metric, found.smallest_claimable_percent))
            .collect(),
        source: format!(
            "the noise of this machine of {} ({}), and {CLAIM_PERCENT} % at least",
            record.measured_at,
            path.display()
        ),
    }))
}

pub(super) fn measure_noise(args: &NoiseArgs) -> Result<ExitCode, String> {
    let record = if args.runs.is_empty() {
        let run = against_itself(args)?;
        if !run.record.complete {
            let why = run.record.partial_reason.unwrap_or_default();
            return Err(format!("the noise was not measured: {why}"));
        }
        let kept = run.source.clone();
        noise(&[run]).map_err(|why| format!("{why}; the run is in {kept}"))?
    } else {
        noise(&read_runs(&args.runs)?)?
    };
    let path = args
        .save
        .clone()
        .or_else(|| noise_path(&record.machine, |name| std::env::var(name).ok()))
        .ok_or("there is no home folder to keep the calibration in: give --save FILE")?;
    write_noise(&path, &record)?;
    let code = print::<NoiseRecord>(
        &args.printed,
        &record,
        &sheets::noise(&record, args.printed.lang),
    )?;
    Console::new(false).note(&format!("calibration: {}", path.display()));
    Ok(code)
}

/// Measures one program against itself, A B B A.
fn against_itself(args: &NoiseArgs) -> Result<StoredRun, String> {
    let program = Program::from_name(&args.only).ok_or_else(|| {
        format!(
            "'{}' is not a store: give one of {}",
            args.only,
            Program::stores()
        )
    })?;
    if 2 * (args.starts as usize) < NOISE_STARTS_MIN {
        return Err(format!(
            "give at least {} starts",
            NOISE_STARTS_MIN.div_ceil(2)
        ));
    }
    if program.locate().is_none() {
        return Err(format!("{}: {}", args.only, program.hint()));
    }
    interrupt::install();
    let pins = super::command::cores(None)?;
    let plan = RunPlan {
        scenarios: vec![KeyPlan::custom(100, Spreading::Uniform)],
        ladder: args.ladder.clone(),
        step: Some(args.step),
        generator_core: pins.generator,
        target_core: pins.target,
        calibrate: false,
        ..super::plan::default_plan()?
    };
    let folder = RunDirectory::create(&args.out, crate::run::machine::unix_seconds());
    let folder = folder.map_err(|error| error.to_string())?;
    let mut console = Console::new(false);
    let mut twins = Twins {
        program,
        core: pins.target,
        folder: &folder,
        trouble: None,
    };
    let record = fresh::run(
        (&plan, &Job::Ladder),
        args.starts,
        &mut console,
        interrupt::flag(),
        &mut twins,
    );
    console.finish();
    if let Some(why) = twins.trouble {
        console.note(&format!("error: {why}"));
    }
    folder
        .write_run(&record)
        .map_err(|error| error.to_string())?;
    Ok(StoredRun {
        source: folder.path().display().to_string(),
        record,
    })
}

/// Starts one program twice.
struct Twins<'a> {
    program: Program,
    core: Option<usize>,
    folder: &'a RunDirectory,
    trouble: Option<String>,
}

impl Steward for Twins<'_> {
    fn gather(&mut self, session: &mut Session<'_>) {
        for arm in ["A", "B"] {
            let name = format!("{} ({arm})", self.program.name());
            match Store::start(self.program, self.program.threads(1), self.core) {
                Ok(mut store) => {
                    store.record.name.clone_from(&name);
                    session.add(Target::Store(Box::new(store)));
                }
                Err(why) => session.lost(&name, why),
            }
        }
    }

    fn keep(&mut self, _now: &RunRecord, whole: &RunRecord, _console: &mut Console) {
        if let Err(error) = self.folder.checkpoint(whole) {
            self.trouble.get_or_insert(error.to_string());
        }
    }
}

fn print<T: serde::Serialize>(
    printed: &Printed,
    record: &T,
    sheet: &Sheet,
) -> Result<ExitCode, String> {
    let mut console = Console::new(false);
    let style: TextStyle = console.style();
    let text = if printed.json {
        serde_json::to_string_pretty(record).map_err(|error| error.to_string())?
    } else if printed.markdown {
        sheet.markdown().trim_end().to_owned()
    } else {
        sheet.text(style)
    };
    console.line(&text);
    printed.write_page(|| sheet.page())?;
    Ok(ExitCode::SUCCESS)
}
