//! The files of a run: `results/YYYYMMDD_HHMMSS/` and `results/latest`.
//!
//! A file appears under its name only when it is whole: it is written as `NAME.partial` first. What
//! a full disk leaves behind is therefore recognisable, and everything written before it stays.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::record::{CompareRecord, RunRecord, directory_stamp};

use super::{compare_csv, compare_markdown, run_html, run_markdown, summary_csv};

/// Runs that may start within the same second under one root.
const SAME_SECOND_MAX: u32 = 100;

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
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
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
    pub fn create(root: &Path, unix_s: i64) -> Result<Self, WriteError> {
        fs::create_dir_all(root).map_err(|error| WriteError::one(root, &error))?;
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
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The log of the run; the caller writes it while the run goes on.
    pub fn log_path(&self) -> PathBuf {
        self.path.join("benchmark.log")
    }

    /// Keeps what is measured so far as `results.json`, so that a crash later loses nothing.
    pub fn checkpoint(&self, record: &RunRecord) -> Result<(), WriteError> {
        let mut writer = Writer::new(&self.path);
        writer.json("results.json", record);
        writer.finish()
    }

    /// Writes `results.json`, `summary.csv`, `README.md` and `report.html`, in that order, and points
    /// `latest` here. A file that fails does not keep the others from being written.
    pub fn write_run(&self, record: &RunRecord) -> Result<(), WriteError> {
        let mut writer = Writer::new(&self.path);
        writer.json("results.json", record);
        writer.json("manifest.json", &record.manifest);
        writer.text("summary.csv", &summary_csv(record));
        writer.text("README.md", &run_markdown(record));
        match run_html(record) {
            Ok(html) => writer.text("report.html", &html),
            Err(error) => writer.fail("report.html", &error),
        }
        for (name, log) in super::hlog::files(record) {
            match log {
                Ok(text) => writer.text(name, &text),
                Err(error) => writer.fail(name, &error),
            }
        }
        writer.link_latest();
        writer.finish()
    }

    /// Writes `compare.json`, `compare.csv` and `README.md` of a paired comparison, and points `latest`
    /// here.
    pub fn write_compare(&self, record: &CompareRecord) -> Result<(), WriteError> {
        let mut writer = Writer::new(&self.path);
        writer.json("compare.json", record);
        writer.text("compare.csv", &compare_csv(record));
        writer.text("README.md", &compare_markdown(record));
        writer.link_latest();
        writer.finish()
    }
}

/// Reads the `results.json` of a run, for example to render it again.
pub fn read_run(path: &Path) -> Result<RunRecord, WriteError> {
    let text = fs::read_to_string(path).map_err(|error| WriteError::one(path, &error))?;
    serde_json::from_str(&text).map_err(|error| WriteError::one(path, &error))
}

/// Writes file after file and remembers what failed.
struct Writer<'a> {
    directory: &'a Path,
    failed: Vec<(PathBuf, String)>,
}

impl<'a> Writer<'a> {
    fn new(directory: &'a Path) -> Self {
        Self {
            directory,
            failed: Vec::new(),
        }
    }

    fn json<T: serde::Serialize>(&mut self, name: &str, value: &T) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.text(name, &format!("{text}\n")),
            Err(error) => self.fail(name, &error),
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        if let Err(error) = write_whole(&self.directory.join(name), text.as_bytes()) {
            self.fail(name, &error);
        }
    }

    fn link_latest(&mut self) {
        if let Err(error) = link_latest(self.directory) {
            self.fail("../latest", &error);
        }
    }

    fn fail(&mut self, name: &str, error: &dyn fmt::Display) {
        self.failed
            .push((self.directory.join(name), error.to_string()));
    }

    fn finish(self) -> Result<(), WriteError> {
        if self.failed.is_empty() {
            Ok(())
        } else {
            Err(WriteError {
                failed: self.failed,
            })
        }
    }
}

/// Writes under a name that marks the file as partial, then gives it its own.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut file = File::create(&partial)?;
    file.write_all(bytes)?;
    // A full disk may show only here.
    file.sync_all()?;
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
