//! The files of a run: `results/YYYYMMDD_HHMMSS/` and `results/latest`.
//!
//! A file appears under its name only when it is whole: it is written as `NAME.partial` first. What
//! a full disk leaves behind is therefore recognisable, and everything written before it stays.

mod writer;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::record::samples::SampleFile;
use crate::record::{CompareRecord, RunRecord, check_layout, directory_stamp};

use super::csv::{comparison as comparison_csv, trends as trends_csv};
use super::index::Overview;
use super::{Beside, HtmlOptions, Lang, Watch, ratelimit_bench, record_in, stored};

use writer::{Writer, write_whole};

/// Runs that may start within the same second under one root.
const SAME_SECOND_MAX: u32 = 100;
/// Longest file that is read as a record.
const RECORD_MAX_BYTES: u64 = 1 << 30;

/// The record of a paired comparison.
pub(crate) const COMPARE_RECORD: &str = "compare.json";
/// Single requests of a run.
pub(crate) const SAMPLES: &str = "samples.raw";
/// The log of a run.
const LOG: &str = "benchmark.log";

/// The directory of one run.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

/// What went wrong with which file. Files that are not named here were written.
#[derive(Debug)]
pub struct WriteError {
    failed: Vec<(PathBuf, String)>,
}

impl WriteError {
    fn one(path: &Path, error: &dyn fmt::Display) -> Self {
        Self {
            failed: vec![(path.to_owned(), error.to_string())],
        }
    }

    /// The files that could not be written.
    #[cfg(test)]
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.failed.iter().map(|(path, _)| path.as_path())
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (path, error)) in self.failed.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {error}", path.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for WriteError {}

impl RunDirectory {
    /// Makes `root/YYYYMMDD_HHMMSS` for a run that started at `unix_s` (UTC); a second run of the same
    /// second gets `_2` at the end.
    pub(crate) fn create(root: &Path, unix_s: i64) -> Result<Self, WriteError> {
        fs::create_dir_all(root).map_err(|error| {
            if root.exists() && !root.is_dir() {
                return WriteError::one(root, &"it is a file, and results need a folder");
            }
            WriteError::one(root, &error)
        })?;
        let stamp = directory_stamp(unix_s);
        for attempt in 1..=SAME_SECOND_MAX {
            let name = if attempt == 1 {
                stamp.clone()
            } else {
                format!("{stamp}_{attempt}")
            };
            let path = root.join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(WriteError::one(&path, &error)),
            }
        }
        Err(WriteError::one(
            &root.join(stamp),
            &"too many runs in the same second",
        ))
    }

    /// An existing directory, e.g. to render a report again.
    pub fn existing(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where the files go.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The log of the run; the caller writes it while the run goes on.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Makes the file of single requests.
    pub(crate) fn begin_samples(&self) -> Result<SampleFile, WriteError> {
        let path = self.path.join(SAMPLES);
        File::create(&path)
            .and_then(SampleFile::begin)
            .map_err(|error| WriteError::one(&path, &error))
    }

    /// Keeps what is measured so far as `results.json`, so that a crash later loses nothing.
    pub(crate) fn checkpoint(&self, record: &RunRecord) -> Result<(), WriteError> {
        let mut writer = Writer::new(&self.path);
        writer.json("results.json", record);
        writer.finish().map(drop)
    }

    /// Writes `results.json`, `summary.csv`, `rows.csv`, `README.md` and `report.html`, in that order, points `latest`
    /// here, and lists the run in `index.html` beside its folder. A file that fails does not keep the others from being written.
    pub(crate) fn write_run(&self, record: &RunRecord) -> Result<(), WriteError> {
        self.write_run_as(record, Lang::En)
    }

    /// The same with texts in `lang`.
    pub(crate) fn write_run_as(&self, record: &RunRecord, lang: Lang) -> Result<(), WriteError> {
        let mut writer = Writer::new(&self.path);
        writer.json("results.json", record);
        writer.json("manifest.json", &record.manifest);
        let rendering = Rendering {
            html: HtmlOptions {
                lang,
                ..HtmlOptions::default()
            },
            ..Rendering::default()
        };
        for format in [Format::Csv, Format::Markdown, Format::Html] {
            writer.format(record, format, &rendering);
        }
        writer.format(record, Format::Hlog, &rendering);
        writer.link_console();
        writer.link_report();
        // A target that was down leaves no results, and who asks for the latest wants some.
        if record.has_results() || !self.path.with_file_name("latest").exists() {
            writer.link_latest();
        }
        writer.list(&Overview::of_run(record, lang), lang);
        writer.finish().map(drop)
    }

    /// Lists the run in `index.html` beside its folder; for a run whose files are there.
    pub(crate) fn list(&self, record: &RunRecord, lang: Lang) -> Result<(), WriteError> {
        let mut writer = Writer::new(&self.path);
        writer.list(&Overview::of_run(record, lang), lang);
        writer.finish().map(drop)
    }

    /// Writes the files of the `formats` alone; gives their names.
    pub fn write_formats(
        &self,
        record: &RunRecord,
        formats: &[Format],
        rendering: &Rendering,
    ) -> Result<Vec<String>, WriteError> {
        fs::create_dir_all(&self.path).map_err(|error| WriteError::one(&self.path, &error))?;
        let mut writer = Writer::new(&self.path);
        for format in formats {
            writer.format(record, *format, rendering);
        }
        writer.finish()
    }

    /// Writes what stands beside the run to `compare/`: the comparison with other runs as `comparison_summary.csv` and
    /// `index.html`, the course over runs as `performance_trends.csv` and `trends.html`, as ratelimit_bench calls them. Returns
    /// the names of the files.
    pub(crate) fn write_beside(
        &self,
        beside: &Beside,
        lang: Lang,
    ) -> Result<Vec<String>, WriteError> {
        const FOLDER: &str = "compare";
        let mut writer = Writer::new(&self.path);
        if beside.comparison.is_none() && beside.trends.is_none() {
            return writer.finish();
        }
        if let Err(error) = fs::create_dir_all(self.path.join(FOLDER)) {
            writer.fail(FOLDER, &error);
            return writer.finish();
        }
        let mut both = |csv: &str, page: &str, rows: &str, text: &str| {
            writer.text(&format!("{FOLDER}/{csv}"), rows);
            writer.text(&format!("{FOLDER}/{page}"), text);
        };
        if let Some(found) = &beside.comparison {
            let text = stored::comparison(found, lang).page();
            let rows = comparison_csv(found);
            both("comparison_summary.csv", "index.html", &rows, &text);
        }
        if let Some(found) = &beside.trends {
            let text = stored::trends(found, lang).page();
            both(
                "performance_trends.csv",
                "trends.html",
                &trends_csv(found),
                &text,
            );
        }
        writer.finish()
    }

    /// Writes the rows as ratelimit_bench does to `path`: one object, or a list where there are several.
    pub(crate) fn write_rows_to(record: &RunRecord, path: &Path) -> Result<(), WriteError> {
        let mut rows: Vec<serde_json::Value> = ratelimit_bench::files(record)
            .into_iter()
            .map(|file| file.content)
            .collect();
        let value = match rows.len() {
            1 => rows.remove(0),
            _ => serde_json::Value::Array(rows),
        };
        write_whole(path, format!("{value:#}\n").as_bytes())
            .map_err(|error| WriteError::one(path, &error))
    }

    /// Writes a paired comparison in all of its forms, and points `latest` here.
    pub(crate) fn write_compare(
        &self,
        record: &CompareRecord,
        lang: Lang,
    ) -> Result<(), WriteError> {
        let forms = [Format::Json, Format::Csv, Format::Markdown, Format::Html];
        let mut writer = Writer::new(&self.path);
        writer.comparison(record, &forms, lang);
        writer.link_latest();
        writer.list(&Overview::of_compare(record, lang), lang);
        writer.finish().map(drop)
    }

    /// Writes a paired comparison in those of `formats` that it has: JSON, CSV, Markdown, HTML. Returns the names of the
    /// files.
    pub(crate) fn write_compare_formats(
        &self,
        record: &CompareRecord,
        formats: &[Format],
        lang: Lang,
    ) -> Result<Vec<String>, WriteError> {
        fs::create_dir_all(&self.path).map_err(|error| WriteError::one(&self.path, &error))?;
        let mut writer = Writer::new(&self.path);
        writer.comparison(record, formats, lang);
        writer.finish()
    }
}

/// A form that a run is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `report.html`.
    Html,
    /// `README.md`.
    Markdown,
    /// `summary.csv` and `rows.csv`, and `mitigations.csv` where strategies for hot keys were compared, and `paper.csv` beside a study.
    Csv,
    /// `results.json`.
    Json,
    /// `prometheus-rules.yml`.
    Prometheus,
    /// `grafana-dashboard.json`.
    Grafana,
    /// `ratelimit-bench/…_runN.json`, one file per row.
    RatelimitBench,
    /// Histograms as HdrHistogram logs, `.hlog`.
    Hlog,
    /// Percentile distributions as HdrHistogram prints them, `hgrm/….hgrm`, one file per row.
    Hgrm,
    /// `bencher.json` in Bencher Metric Format.
    Bencher,
    /// `{deployment}-{backend}/{scenario}_{YYYYMMDD_HHMMSS}/`, one folder for each system and scenario, with its page,
    /// Markdown, CSV and record, and the log of the run as `console.log`: the layout of studies 000 and 001.
    Folders,
    /// `html` and `csv`: a word of ratelimit_bench's report script.
    Both,
    /// All of them but `folders`, which holds the same again.
    All,
}

impl Format {
    /// Every single form.
    pub(crate) const EACH: [Format; 10] = [
        Format::Html,
        Format::Markdown,
        Format::Csv,
        Format::Json,
        Format::Prometheus,
        Format::Grafana,
        Format::RatelimitBench,
        Format::Hlog,
        Format::Hgrm,
        Format::Bencher,
    ];
}

/// How forms are rendered.
#[derive(Clone, Debug, Default)]
pub struct Rendering {
    /// Language, template and what stands beside the run.
    pub html: HtmlOptions,
    /// Thresholds of rules and dashboard.
    pub watch: Watch,
    /// Prometheus job of the exporter or service; `None` takes the target's name.
    pub job: Option<String>,
}

/// Reads a paired comparison: its folder, or its `COMPARE_RECORD`.
pub(crate) fn read_compare(path: &Path) -> Result<CompareRecord, WriteError> {
    let inside = path.join(COMPARE_RECORD);
    let path = if path.is_dir() { &inside } else { path };
    let text = read_record(path)?;
    check_layout(&text, "a paired comparison").map_err(|why| WriteError::one(path, &why))?;
    serde_json::from_str(&text).map_err(|error| WriteError::one(path, &error))
}

/// The text of a record, which has a largest length.
fn read_record(path: &Path) -> Result<String, WriteError> {
    let length = fs::metadata(path)
        .map_err(|error| WriteError::one(path, &error))?
        .len();
    if length > RECORD_MAX_BYTES {
        return Err(WriteError::one(path, &"longer than a record can be"));
    }
    fs::read_to_string(path).map_err(|error| WriteError::one(path, &error))
}

/// Reads a run: a folder with `results.json`, such a file, or a `report.html`.
pub(crate) fn read_run(path: &Path) -> Result<RunRecord, WriteError> {
    let inside = path.join("results.json");
    let path = if path.is_dir() {
        inside.as_path()
    } else {
        path
    };
    let text = read_record(path)?;
    if text.trim_start().starts_with('<') {
        let record = record_in(&text).map_err(|error| WriteError::one(path, &error))?;
        return Ok(record.upgraded());
    }
    check_layout(&text, "a bench run").map_err(|why| WriteError::one(path, &why))?;
    let record: Result<RunRecord, _> = serde_json::from_str(&text);
    let mut record = record
        .map(RunRecord::upgraded)
        .map_err(|error| WriteError::one(path, &error))?;
    // By the rules of the program that shows it, which names what they reject.
    record.judge();
    Ok(record)
}
