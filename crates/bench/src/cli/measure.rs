//! A run from its start to its end: targets up, the job done, files written, the exit code.

use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

use super::args::RunArgs;
use super::calibration::{Shape, calibrated};
use super::command::{STATUS_INVALID, own};
use super::gather::{check_apart, check_names, check_server_args, gather};
use super::mitigations::gather_arms;
use crate::os::interrupt;
use crate::record::samples::SampleFile;
use crate::record::{Cell, Grade, RunRecord, Severity};
use crate::report::files::{RunDirectory, WriteError};
use crate::report::{
    capacity_lines, healing_line, ladder_head, ladder_row, limit_line, recovery_lines, run_summary,
};
use crate::run::console::Console;
use crate::run::fresh::{self, Steward};
use crate::run::plan::RunPlan;
use crate::run::session::{Job, Session};
use crate::stored::{StoredRun, heed, recoveries};
use crate::target::further;
use crate::target::url::{Protocol, TargetUrl};

/// Does `job` by `plan` on what `args` name, and writes the results. `complete` adds to the record what follows from it,
/// before it is written and summed up.
pub(super) fn perform(
    args: &RunArgs,
    plan: &RunPlan,
    job: &Job,
    complete: &mut dyn FnMut(&mut RunRecord, &mut Console),
) -> Result<ExitCode, String> {
    let urls = checked(args, job)?;
    let mut console = Console::new(args.quiet);
    console.speak(args.lang);
    if args.json {
        console.stream_json();
    }
    if let Some(address) = args.metrics {
        let exported = console.export(address);
        exported.map_err(|error| format!("--metrics {address}: {error}"))?;
    }
    // What earlier runs into the same folder found about healing bounds what is safe.
    let known = match job {
        Job::Capacity(_) => recoveries(&args.out),
        _ => Vec::new(),
    };
    let folder = RunDirectory::create(&args.out, crate::run::machine::unix_seconds());
    let folder = folder.map_err(|error| error.to_string())?;
    match File::create(folder.log_path()) {
        Ok(file) => console.log_to(file),
        Err(error) => console.note(&format!(
            "warning: no log: {}: {error}",
            folder.log_path().display()
        )),
    }
    let samples = match plan.sampling {
        Some(_) => Some(folder.begin_samples().map_err(|error| error.to_string())?),
        None => None,
    };
    if args.tui {
        let filled = console.fill_terminal();
        filled.map_err(|error| format!("--tui: {error}"))?;
    }
    let asked = args.only.len() + urls.len();
    let mut main = MainRun {
        args,
        urls: &urls,
        plan,
        job,
        folder: &folder,
        known: &known,
        write_failed: None,
        samples,
    };
    let stop = interrupt::flag();
    let mut record = fresh::run((plan, job), args.starts, &mut console, stop, &mut main);
    let mut write_failed = main.write_failed;
    console.finish();
    record.unequal_allowed = args.allow_unequal;
    heed(&mut record, &known);
    if record.starts.is_some() {
        show_healing(&record, &mut console);
    }
    complete(&mut record, &mut console);
    let written = folder.write_run_as(&record, args.lang);
    if let Some(Err(error)) = args
        .output_file
        .as_ref()
        .map(|path| RunDirectory::write_rows_to(&record, path))
    {
        write_failed.get_or_insert(error.to_string());
    }
    console.end(&record, folder.path());
    conclude(&record, &mut console, &folder, written, write_failed, asked)
}

/// The systems named by URL, after all that the options contradict was refused.
fn checked(args: &RunArgs, job: &Job) -> Result<Vec<TargetUrl>, String> {
    let urls = args
        .targets
        .iter()
        .map(|text| TargetUrl::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    for url in &urls {
        own(url, args.i_own_this_target)?;
    }
    check_names(&args.only)?;
    check_apart(&args.only, &urls)?;
    check_server_args(args, job)?;
    if args.flush && !urls.iter().any(|url| url.protocol == Protocol::Resp) {
        return Err(
            "--flush is for stores at --target redis://…: those started here are empty".into(),
        );
    }
    Ok(urls)
}

/// What the starts of the main run have in common.
struct MainRun<'a> {
    args: &'a RunArgs,
    urls: &'a [TargetUrl],
    plan: &'a RunPlan,
    job: &'a Job,
    folder: &'a RunDirectory,
    /// Stored recoveries, in whose light loads are called safe.
    known: &'a [StoredRun],
    write_failed: Option<String>,
    /// Where single requests go, where they are kept.
    samples: Option<SampleFile>,
}

impl Steward for MainRun<'_> {
    fn gather(&mut self, session: &mut Session<'_>) {
        if let Some(samples) = &self.samples {
            session.keep_samples(samples.clone());
        }
        match self.job {
            Job::Mitigations(settings) => {
                gather_arms(self.args, self.urls, self.plan, settings, session);
            }
            _ => gather(self.args, self.urls, self.plan, session),
        }
    }

    fn begin(&mut self, session: &mut Session<'_>, first: bool) {
        if first && self.plan.calibrate && session.has_targets() && !interrupt::asked() {
            calibrate_first(self.plan, self.args.calibration_age, session);
        }
        if first && let Some(text) = further::withheld().filter(|_| session.starts_servers()) {
            session.event(Severity::Info, None, text);
        }
        session.announce(self.job);
    }

    fn keep(&mut self, now: &RunRecord, whole: &RunRecord, console: &mut Console) {
        if let Some(scenario) = now.cells.last().map(|cell| cell.scenario.name.clone()) {
            if self.known.is_empty() {
                show_ladders(now, &scenario, console);
            } else {
                let mut bounded = now.clone();
                heed(&mut bounded, self.known);
                show_ladders(&bounded, &scenario, console);
            }
        }
        if let Err(error) = self.folder.checkpoint(whole) {
            self.write_failed.get_or_insert(error.to_string());
        }
    }
}

fn calibrate_first(plan: &RunPlan, age_max: Duration, session: &mut Session<'_>) {
    let shape = Shape {
        connections: plan.connections,
        depth: plan.depth,
        cores: (plan.generator_core, plan.target_core),
    };
    match calibrated(&shape, age_max, session.console()) {
        Ok(calibration) => {
            let from = calibration
                .reused
                .as_ref()
                .map_or_else(String::new, |from| {
                    format!(
                        " (measured {:.0} s before; --calibration-age 0s measures it anew)",
                        from.age_s
                    )
                });
            session.console().line(&format!(
                "generator{from}: ceiling {:.0}/s at {} connections x {}, floor p50 {:.0} us p99 {:.0} us, clock {:.0} ns",
                calibration.ceiling_rps,
                plan.connections,
                plan.depth,
                calibration.floor_p50_us,
                calibration.floor_p99_us,
                calibration.clock_read_ns
            ));
            session.calibrated(calibration);
        }
        Err(_) if interrupt::asked() => {}
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
        .filter(|cell| cell.scenario.name == scenario && has_rows(cell))
    {
        console.line(&format!(
            "\n{} · {} · {}",
            cell.scenario.title, cell.target, cell.operation.title
        ));
        console.line(ladder_head(style).trim_end());
        for step in &cell.steps {
            console.line(ladder_row(style, step).trim_end());
        }
        if let Some(line) = limit_line(&cell.steps, style.lang) {
            console.line(&format!("  {line}"));
        }
        for text in [capacity_lines(style, cell), recovery_lines(style, cell)] {
            if !text.is_empty() {
                console.line(&text);
            }
        }
    }
}

/// Whether there is more to show of it than that it could not be asked, which was said.
fn has_rows(cell: &Cell) -> bool {
    !cell.steps.is_empty() || cell.capacity.is_some() || cell.recovery.is_some()
}

/// What is safe by all starts together, where stored recoveries bound it: what was shown of each start is its own.
fn show_healing(record: &RunRecord, console: &mut Console) {
    let style = console.style();
    for line in record.cells.iter().map(|cell| healing_line(style, cell)) {
        if !line.is_empty() {
            console.line(&format!("\n{line}"));
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
