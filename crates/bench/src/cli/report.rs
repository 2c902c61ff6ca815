//! `tollgate bench report`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::comparison;
use crate::record::{Metric, RunRecord};
use crate::report::files::{Format, Rendering, RunDirectory, read_run};
use crate::report::{Beside, HtmlOptions, Lang, Watch, run_summary};
use crate::report::{bencher, stored as sheets};
use crate::run::console::Console;
use crate::run::starts::{STARTS_MAX, Start, merge};
use crate::stored::{
    Arms, StoredRun, compare, default_floor, differences, read_runs, read_whole_runs, trends,
};

/// Largest template that is read.
const TEMPLATE_MAX_BYTES: u64 = 4 << 20;

/// Options of the report.
#[derive(Args, Debug)]
#[command(after_help = super::examples::REPORT)]
pub struct ReportArgs {
    /// Runs: their folders, folders of such folders, results.json files or report.html files; or paired comparisons, which are drawn by themselves
    #[arg(value_name = "DIR", default_value = "results/latest")]
    pub runs: Vec<PathBuf>,
    /// Rebuild from the data inside a report.html
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    pub from: Option<PathBuf>,
    /// Forms to write; comma separated [default: html,markdown,csv]
    #[arg(long, alias = "output-format", value_enum, value_delimiter = ',')]
    pub format: Vec<Format>,
    /// Language of HTML, Markdown and terminal
    #[arg(long, value_enum, default_value_t = Lang::En)]
    pub lang: Lang,
    /// Folder to write to [default: that of the run]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Template for the HTML in place of the built-in one (minijinja)
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,
    /// Thresholds of rules and dashboard
    #[arg(long, value_enum, default_value_t = Watch::Prod)]
    pub thresholds: Watch,
    /// Prometheus job of the exporter or service [default: the target's name]
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Show the last run against the first; with --baseline, the runs against that
    #[arg(long, alias = "compare-runs")]
    pub compare: bool,
    /// Show every run against the runs in this folder
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,
    /// Show how figures moved over the runs
    #[arg(long, alias = "include-trends")]
    pub trends: bool,
    /// Put the runs together as starts of one run: every row shows the median of its runs. Needs --out
    #[arg(long, value_enum, value_name = "HOW", requires = "out", conflicts_with_all = ["compare", "trends"])]
    pub select: Option<Select>,
    /// The same as --select median
    #[arg(long, hide = true, requires = "out", conflicts_with_all = ["select", "compare", "trends"])]
    pub extract_median: bool,
    /// Also list the runs in index.html beside their folders
    #[arg(long, conflicts_with_all = ["out", "from"])]
    pub index: bool,
    /// Write the files and print nothing
    #[arg(long)]
    pub quiet: bool,
}

/// What of several runs is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Select {
    /// The median of every row over the runs.
    Median,
}

/// A stored run and where it lies.
#[derive(Clone)]
struct Stored {
    record: RunRecord,
    folder: PathBuf,
}

/// Renders every run named.
pub(super) fn run(args: &ReportArgs) -> Result<ExitCode, String> {
    let paths: &[PathBuf] = match &args.from {
        Some(file) => std::slice::from_ref(file),
        None => &args.runs,
    };
    if paths.iter().any(|path| comparison::is_stored(path)) {
        return comparison::render(paths, args);
    }
    let mut console = Console::new(args.quiet);
    let read = paths.iter().map(|path| read(path, &mut console));
    let mut stored: Vec<Stored> = read.collect::<Result<Vec<_>, _>>()?.concat();
    if args.select.is_some() || args.extract_median {
        stored = vec![median_of(&stored)?];
    }
    let beside = beside(args, &stored)?;
    let rendering = Rendering {
        html: HtmlOptions {
            lang: args.lang,
            template: args.template.as_deref().map(template).transpose()?,
            beside,
        },
        watch: args.thresholds,
        job: args.job.clone(),
    };
    let formats = match args.format.as_slice() {
        [] => &[Format::Html, Format::Markdown, Format::Csv][..],
        formats => formats,
    };
    let mut style = console.style();
    style.lang = args.lang;
    for run in &stored {
        console.line(&run_summary(style, &run.record));
        let folder = target_folder(args, run, stored.len());
        let written = RunDirectory::existing(&folder)
            .write_formats(&run.record, formats, &rendering)
            .map_err(|error| error.to_string())?;
        if args.index {
            RunDirectory::existing(&run.folder)
                .list(&run.record, args.lang)
                .map_err(|error| error.to_string())?;
        }
        let further = RunDirectory::existing(&folder)
            .write_beside(&rendering.html.beside, args.lang)
            .map_err(|error| error.to_string())?;
        let asked = |format: &Format| matches!(format, Format::Bencher | Format::All);
        if formats.iter().any(asked) && bencher::figures(&run.record).is_empty() {
            console.note(
                "bencher.json is empty: no row passed the validity rules, and that format cannot mark the figures that did not",
            );
        }
        let written = [written, further].concat();
        console.line(&format!("\n{}: {}", folder.display(), listed(&written)));
    }
    Ok(ExitCode::SUCCESS)
}

/// What the options ask to show beside each run.
fn beside(args: &ReportArgs, runs: &[Stored]) -> Result<Beside, String> {
    let named = |run: &Stored| StoredRun {
        source: run.folder.display().to_string(),
        record: run.record.clone(),
    };
    let all: Vec<StoredRun> = runs.iter().map(named).collect();
    let arms = match &args.baseline {
        Some(folder) => Some((read_runs(std::slice::from_ref(folder))?, all.clone())),
        None if args.compare => {
            let [first, .., last] = all.as_slice() else {
                return Err("--compare needs two runs: give two folders, or --baseline".into());
            };
            Some((vec![first.clone()], vec![last.clone()]))
        }
        None => None,
    };
    let comparison = arms.map(|(a, b)| {
        let arms = Arms {
            a: &a,
            b: &b,
            target_a: None,
            target_b: None,
            same_time: args.compare && args.baseline.is_none(),
        };
        compare(&arms, &Metric::ALL, &default_floor())
    });
    let mut in_time = all;
    in_time.sort_by_key(|run| run.record.manifest.started_unix_s);
    let moved = args.trends.then(|| trends(&in_time, &Metric::ALL));
    Ok(Beside {
        comparison: comparison.transpose()?,
        trends: moved.transpose()?,
    })
}

/// Reads the run at `path`, or all whole runs in a folder of runs, the oldest first.
fn read(path: &Path, console: &mut Console) -> Result<Vec<Stored>, String> {
    if path.is_dir() && !path.join("results.json").exists() {
        let (runs, damaged) = read_whole_runs(&[path.to_owned()])?;
        for why in damaged {
            console.note(&format!("left out: {why}"));
        }
        return Ok(runs
            .into_iter()
            .map(|run| Stored {
                folder: PathBuf::from(run.source),
                record: run.record,
            })
            .collect());
    }
    let record = read_run(path).map_err(|error| error.to_string())?;
    let folder = if path.is_dir() {
        path.to_owned()
    } else {
        path.parent()
            .map_or_else(|| PathBuf::from("."), Path::to_owned)
    };
    Ok(vec![Stored { record, folder }])
}

/// The runs as starts of one run.
fn median_of(runs: &[Stored]) -> Result<Stored, String> {
    let first = runs.first().ok_or("there is no run")?;
    if runs.len() < 2 {
        return Err("--select median needs at least two runs: name their folders".into());
    }
    if runs.len() > STARTS_MAX as usize {
        return Err(format!("--select median takes up to {STARTS_MAX} runs"));
    }
    for run in runs {
        let shown = run.folder.display();
        if run.record.starts.is_some() {
            return Err(format!(
                "{shown}: it has several starts, so its rows are medians already"
            ));
        }
        let unequal = differences(&first.record, &run.record);
        if !unequal.is_empty() {
            return Err(format!(
                "{shown} was not measured like {}:\n  {}",
                first.folder.display(),
                sheets::unequal(&unequal, Lang::En).join("\n  ")
            ));
        }
    }
    let begun = runs.iter().map(|run| run.record.manifest.started_unix_s);
    let begun = begun.min().unwrap_or_default();
    let mut starts: Vec<Start> = runs
        .iter()
        .map(|run| Start {
            offset_s: (run.record.manifest.started_unix_s - begun) as f64,
            record: run.record.clone(),
        })
        .collect();
    starts.sort_by(|a, b| a.offset_s.total_cmp(&b.offset_s));
    let record = merge(&starts, starts.len() as u32).ok_or("there is no run")?;
    Ok(Stored {
        record,
        folder: first.folder.clone(),
    })
}

/// The run's own folder, or `--out`; of several runs each gets a folder of its own there.
fn target_folder(args: &ReportArgs, run: &Stored, runs: usize) -> PathBuf {
    match &args.out {
        None => run.folder.clone(),
        Some(out) if runs == 1 => out.clone(),
        Some(out) => {
            let own = fs::canonicalize(&run.folder).unwrap_or_else(|_| run.folder.clone());
            out.join(own.file_name().unwrap_or_default())
        }
    }
}

fn template(path: &Path) -> Result<String, String> {
    let complaint = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let length = fs::metadata(path).map_err(|error| complaint(&error))?.len();
    if length > TEMPLATE_MAX_BYTES {
        return Err(complaint(&"larger than a template may be (4 MiB)"));
    }
    fs::read_to_string(path).map_err(|error| complaint(&error))
}

/// The first names, and how many more there are.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
