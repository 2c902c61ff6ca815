//! Writes the files of a run one after another.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::super::advice::{grafana, prometheus};
use super::super::document::document;
use super::super::html::STYLE;
use super::super::index::{self, Overview};
use super::super::{
    Lang, compare_csv, compare_markdown, mitigations_csv, paper_csv, ratelimit_bench, rows_csv,
    run_html, run_markdown, summary_csv,
};
use super::{COMPARE_RECORD, Format, LOG, Rendering, WriteError};
use crate::record::{CompareRecord, RunRecord};

/// Writes file after file and remembers what failed.
pub(super) struct Writer<'a> {
    directory: &'a Path,
    written: Vec<String>,
    failed: Vec<(PathBuf, String)>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(directory: &'a Path) -> Self {
        Self {
            directory,
            written: Vec::new(),
            failed: Vec::new(),
        }
    }

    pub(super) fn json<T: serde::Serialize>(&mut self, name: &str, value: &T) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.text(name, &format!("{text}\n")),
            Err(error) => self.fail(name, &error),
        }
    }

    pub(super) fn text(&mut self, name: &str, text: &str) {
        match write_whole(&self.directory.join(name), text.as_bytes()) {
            Ok(()) => self.written.push(name.to_owned()),
            Err(error) => self.fail(name, &error),
        }
    }

    pub(super) fn comparison(&mut self, record: &CompareRecord, formats: &[Format], lang: Lang) {
        let every = formats.contains(&Format::All);
        let both = formats.contains(&Format::Both);
        let of_both = |format| both && matches!(format, Format::Html | Format::Csv);
        let asked = |format| every || of_both(format) || formats.contains(&format);
        if asked(Format::Json) {
            self.json(COMPARE_RECORD, record);
        }
        if asked(Format::Csv) {
            self.text("compare.csv", &compare_csv(record));
        }
        let text = compare_markdown(record, lang);
        if asked(Format::Markdown) {
            self.text("README.md", &text);
        }
        if asked(Format::Html) {
            self.text("compare.html", &document(&text, lang));
        }
    }

    pub(super) fn format(&mut self, record: &RunRecord, format: Format, rendering: &Rendering) {
        let lang = rendering.html.lang;
        let (thresholds, job) = (rendering.watch.thresholds(), rendering.job.as_deref());
        match format {
            Format::Html => match run_html(record, &rendering.html) {
                Ok(html) => self.text("report.html", &html),
                Err(error) => self.fail("report.html", &error),
            },
            Format::Markdown => self.text("README.md", &run_markdown(record, lang)),
            Format::Csv => {
                self.text("summary.csv", &summary_csv(record));
                self.text("rows.csv", &rows_csv(record));
                if let Some(found) = &record.mitigations {
                    self.text("mitigations.csv", &mitigations_csv(found));
                }
                if let Some(found) = &record.paper {
                    self.text("paper.csv", &paper_csv(found));
                }
            }
            Format::Json => self.json("results.json", record),
            Format::Prometheus => {
                let rules = prometheus::rules(record, thresholds, job);
                self.text("prometheus-rules.yml", &rules);
            }
            Format::Grafana => {
                let dashboard = grafana::dashboard(record, thresholds, job, lang);
                self.json("grafana-dashboard.json", &dashboard);
            }
            Format::RatelimitBench => self.ratelimit_bench(record),
            Format::Hlog => {
                for (name, log) in super::super::hlog::files(record) {
                    match log {
                        Ok(text) => self.text(name, &text),
                        Err(error) => self.fail(name, &error),
                    }
                }
            }
            Format::Hgrm => self.hgrm(record),
            Format::Bencher => self.json("bencher.json", &super::super::bencher::figures(record)),
            Format::Folders => self.folders(record, rendering),
            Format::Both => {
                for each in [Format::Html, Format::Csv] {
                    self.format(record, each, rendering);
                }
            }
            Format::All => {
                for each in Format::EACH {
                    self.format(record, each, rendering);
                }
            }
        }
    }

    fn folders(&mut self, record: &RunRecord, rendering: &Rendering) {
        for (name, part) in super::super::folders::folders(record) {
            let folder = self.directory.join(&name);
            if let Err(error) = fs::create_dir_all(&folder) {
                self.fail(&name, &error);
                continue;
            }
            let mut inside = Writer::new(&folder);
            for format in [Format::Json, Format::Csv, Format::Markdown, Format::Html] {
                inside.format(&part, format, rendering);
            }
            let log = self.directory.join(LOG);
            if log.is_file()
                && let Err(error) = fs::copy(&log, folder.join("console.log"))
            {
                inside.fail("console.log", &error);
            }
            self.failed.extend(inside.failed);
            self.written.push(name);
        }
    }

    fn hgrm(&mut self, record: &RunRecord) {
        const FOLDER: &str = "hgrm";
        let files = super::super::hgrm::files(record);
        if files.is_empty() {
            return;
        }
        if let Err(error) = fs::create_dir_all(self.directory.join(FOLDER)) {
            self.fail(FOLDER, &error);
            return;
        }
        for (name, text) in files {
            self.text(&format!("{FOLDER}/{name}"), &text);
        }
    }

    fn ratelimit_bench(&mut self, record: &RunRecord) {
        const FOLDER: &str = "ratelimit-bench";
        if let Err(error) = fs::create_dir_all(self.directory.join(FOLDER)) {
            self.fail(FOLDER, &error);
            return;
        }
        for file in ratelimit_bench::files(record) {
            self.json(&format!("{FOLDER}/{}", file.name), &file.content);
            self.text(&format!("{FOLDER}/{}.log", file.name), &file.log);
        }
    }

    pub(super) fn link_latest(&mut self) {
        if let Err(error) = link_latest(self.directory) {
            self.fail("../latest", &error);
        }
    }

    /// The log under the name that study 001 has for it.
    pub(super) fn link_console(&mut self) {
        let log = self.directory.join(LOG);
        let link = self.directory.join("console.log");
        if log.is_file()
            && !link.exists()
            && let Err(error) = symlink(OsStr::new(LOG), &link)
        {
            self.fail("console.log", &error);
        }
    }

    /// Page and table where study 002 has them: `report/index.html` and `report/summary.csv`.
    pub(super) fn link_report(&mut self) {
        const FOLDER: &str = "report";
        for (target, name) in [
            ("report.html", "index.html"),
            ("summary.csv", "summary.csv"),
        ] {
            let link = self.directory.join(FOLDER).join(name);
            if !self.directory.join(target).is_file() || link.exists() {
                continue;
            }
            let made = fs::create_dir_all(self.directory.join(FOLDER));
            let target = format!("../{target}");
            if let Err(error) = made.and_then(|()| symlink(OsStr::new(&target), &link)) {
                self.fail(&format!("{FOLDER}/{name}"), &error);
            }
        }
    }

    /// Writes the overview, and the list of all runs beside the folder.
    pub(super) fn list(&mut self, overview: &Overview, lang: Lang) {
        self.json(index::OVERVIEW, overview);
        let real = fs::canonicalize(self.directory);
        let Some(root) = real.ok().and_then(|path| path.parent().map(Path::to_owned)) else {
            return;
        };
        if !index::may_write(&root) {
            self.fail(
                "../index.html",
                &"exists and is not a list of runs made here",
            );
            return;
        }
        match index::entries(&root) {
            Ok((entries, left_out)) => {
                let page = index::page(&entries, left_out, STYLE, lang);
                if let Err(error) = write_whole(&root.join(index::INDEX), page.as_bytes()) {
                    self.fail("../index.html", &error);
                }
            }
            Err(error) => self.fail("../index.html", &error),
        }
    }

    pub(super) fn fail(&mut self, name: &str, error: &dyn fmt::Display) {
        self.failed
            .push((self.directory.join(name), error.to_string()));
    }

    pub(super) fn finish(self) -> Result<Vec<String>, WriteError> {
        if self.failed.is_empty() {
            Ok(self.written)
        } else {
            Err(WriteError {
                failed: self.failed,
            })
        }
    }
}

/// Writes under a name that marks the file as partial, then gives it its own.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut file = File::create(&partial)?;
    // A full disk may show only when the bytes are asked to be there.
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Of no use to anybody, and its room may be what the next file needs.
        drop(fs::remove_file(&partial));
    }
    written?;
    fs::rename(&partial, path)
}

/// Points `latest` beside the directory at it. A link of that name is replaced; anything else is left alone.
fn link_latest(directory: &Path) -> io::Result<()> {
    let (Some(root), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Ok(());
    };
    let link = root.join("latest");
    match fs::symlink_metadata(&link) {
        Ok(found) if found.file_type().is_symlink() => {}
        Ok(_) => return Err(io::Error::other("exists and is not a symbolic link")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Made under another name first, so that `latest` never points nowhere.
    let fresh = root.join(format!(".latest-{}", name.display()));
    symlink(name, &fresh)?;
    fs::rename(&fresh, &link)
}

#[cfg(unix)]
fn symlink(target: &OsStr, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn symlink(_target: &OsStr, _link: &Path) -> io::Result<()> {
    Err(io::Error::other("symbolic links need a Unix system"))
}
