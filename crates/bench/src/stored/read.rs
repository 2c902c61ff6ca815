//! Finding and reading records, with errors that say which file is wrong and how.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::record::{Machine, NoiseRecord, RunRecord, check_layout};

/// Runs read at once.
const RUNS_MAX: usize = 1_000;
/// Largest record read.
const BYTES_MAX: u64 = 512 << 20;
/// File that holds a run.
const FILE: &str = "results.json";

/// A run and where it was found.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Its folder or file.
    pub source: String,
    /// What it measured.
    pub record: RunRecord,
}

/// Reads runs: each path is a `results.json`, the folder of a run, or a folder of such folders. Sorted by the time at
/// which they started; a run that is found twice (through `latest`) counts once. Pages beside the runs, which a shell's
/// `results/*` names too, are passed over.
///
/// # Errors
/// If a path holds no run, or a record cannot be read: not there, not whole, or of another layout.
pub fn read_runs(paths: &[PathBuf]) -> Result<Vec<StoredRun>, String> {
    match read_whole_runs(paths)? {
        (_, damaged) if !damaged.is_empty() => Err(damaged.join("\n")),
        (runs, _) => Ok(runs),
    }
}

/// The same without those runs in a folder of runs that cannot be read; second, of each of them why. A run that was named
/// by itself has to be whole.
///
/// # Errors
/// As [`read_runs`], and if no run of a folder can be read.
pub(crate) fn read_whole_runs(paths: &[PathBuf]) -> Result<(Vec<StoredRun>, Vec<String>), String> {
    let mut files = Vec::new();
    for path in paths.iter().filter(|path| !is_page(path)) {
        files.extend(find(path)?);
    }
    if let Some(page) = paths.first().filter(|_| files.is_empty()) {
        return Err(format!(
            "{}: this is no record: name the folder of a run, or its {FILE}",
            page.display()
        ));
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    let (mut runs, mut damaged) = (Vec::new(), Vec::new());
    for (file, named) in files {
        let real = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
        if seen.contains(&real) {
            continue;
        }
        if seen.len() == RUNS_MAX {
            return Err(format!("more than {RUNS_MAX} runs: name fewer folders"));
        }
        seen.push(real);
        let source = file
            .parent()
            .filter(|_| file.ends_with(FILE))
            .unwrap_or(&file);
        match read_run(&file) {
            Ok(record) => runs.push(StoredRun {
                source: source.display().to_string(),
                record,
            }),
            Err(why) if named => return Err(why),
            Err(why) => damaged.push(why),
        }
    }
    if runs.is_empty() && !damaged.is_empty() {
        return Err(damaged.join("\n"));
    }
    runs.sort_by_key(|run| run.record.manifest.started_unix_s);
    Ok((runs, damaged))
}

/// Whether `path` is a file that a report is written as, and no record.
fn is_page(path: &Path) -> bool {
    let pages = ["html", "md", "csv"];
    let end = path.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| pages.contains(&end)) && path.is_file()
}

/// The records at `path`, and of each whether it was named itself or found in a folder of runs.
fn find(path: &Path) -> Result<Vec<(PathBuf, bool)>, String> {
    let shown = path.display();
    let found = fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?;
    if found.is_file() {
        return Ok(vec![(path.to_owned(), true)]);
    }
    let own = path.join(FILE);
    if own.is_file() {
        return Ok(vec![(own, true)]);
    }
    let entries = fs::read_dir(path).map_err(|error| format!("{shown}: {error}"))?;
    let mut inside: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join(FILE))
        .filter(|file| file.is_file())
        .take(RUNS_MAX + 1)
        .collect();
    inside.sort();
    if inside.is_empty() {
        return Err(format!(
            "{shown}: there is no {FILE} in it, nor in a folder within it"
        ));
    }
    Ok(inside.into_iter().map(|file| (file, false)).collect())
}

fn read_run(path: &Path) -> Result<RunRecord, String> {
    let text = text(path)?;
    check_layout(&text, "a bench run").map_err(|why| format!("{}: {why}", path.display()))?;
    serde_json::from_str(&text)
        .map(RunRecord::upgraded)
        .map_err(|error| format!("{}: not the record of a bench run: {error}", path.display()))
}

fn text(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let size = fs::metadata(path)
        .map_err(|error| format!("{shown}: {error}"))?
        .len();
    if size > BYTES_MAX {
        return Err(format!(
            "{shown}: {size} bytes are more than a record has ({BYTES_MAX})"
        ));
    }
    fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))
}

/// Where the noise of `machine` is kept: `noise-<processor>-<cores>.json` in the user's cache. `None` without a home.
#[must_use]
pub fn noise_path(machine: &Machine, env: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    cache_path("noise", machine, env)
}

/// Where what is called `kind` is kept for `machine`: `<kind>-<processor>-<cores>.json` in the user's cache.
pub(super) fn cache_path(
    kind: &str,
    machine: &Machine,
    env: impl Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
    let mut name = String::new();
    for c in machine.cpu_model.chars().take(80) {
        match c {
            c if c.is_ascii_alphanumeric() => name.push(c.to_ascii_lowercase()),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
    }
    let file = format!(
        "{kind}-{}-{}.json",
        name.trim_end_matches('-'),
        machine.cores
    );
    Some(cache.join("tollgate").join(file))
}

/// Reads a calibration of noise.
///
/// # Errors
/// If it is not there, not whole, or of another layout.
pub fn read_noise(path: &Path) -> Result<NoiseRecord, String> {
    read_kept(path, "a noise calibration")
}

/// Reads what was kept at `path`, which is `what`.
pub(super) fn read_kept<T: serde::de::DeserializeOwned>(
    path: &Path,
    what: &str,
) -> Result<T, String> {
    let text = text(path)?;
    check_layout(&text, what).map_err(|why| format!("{}: {why}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: not {what}: {error}", path.display()))
}

/// Writes a calibration of noise, under its name only when it is whole.
///
/// # Errors
/// If a folder or file cannot be written.
pub fn write_noise(path: &Path, record: &NoiseRecord) -> Result<(), String> {
    write_kept(path, record)
}

/// Keeps `record` at `path`, under that name only when it is whole.
pub(super) fn write_kept<T: serde::Serialize>(path: &Path, record: &T) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    let text = serde_json::to_string_pretty(record).map_err(|error| failed(&error))?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(&partial)?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|error| failed(&error))
}
