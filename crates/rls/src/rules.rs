//! Reads a folder of rule files.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tollgate_policy::{LoadOptions, MAX_FILE_LEN, Ruleset};

use crate::config::StartError;

/// Compiles every `*.yaml` file of a folder, in the order of their names, or one file of any name.
///
/// # Errors
/// The folder or a file cannot be read, there is no such file, or one is not valid.
pub fn load_rules(dir: &Path, options: LoadOptions) -> Result<Ruleset, StartError> {
    let read_error = |path: &Path| {
        let path = path.to_owned();
        move |error| StartError::ReadRules { path, error }
    };
    let paths = if dir.is_file() {
        Ok(vec![dir.to_owned()])
    } else {
        rule_files(dir)
    };
    let paths = paths.map_err(read_error(dir))?;
    if paths.is_empty() {
        return Err(StartError::NoRules {
            path: dir.to_owned(),
        });
    }
    let mut files = Vec::with_capacity(paths.len());
    for path in &paths {
        files.push((
            path.display().to_string(),
            read(path).map_err(read_error(path))?,
        ));
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    Ruleset::load_with(&files, options).map_err(StartError::Rules)
}

/// The `*.yaml` files of a folder, in the order of their names.
pub(crate) fn rule_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// A file's text. One that is too long for the rules is not read into memory, and what is no file (a pipe, a device) would
/// never end.
fn read(path: &Path) -> io::Result<String> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let too_long = || invalid(format!("the file is longer than {MAX_FILE_LEN} bytes"));
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(invalid("it is no regular file".to_owned()));
    }
    if about.len() > MAX_FILE_LEN as u64 {
        return Err(too_long());
    }
    let mut text = String::new();
    // It may grow while it is read.
    let most = MAX_FILE_LEN as u64 + 1;
    fs::File::open(path)?.take(most).read_to_string(&mut text)?;
    if text.len() > MAX_FILE_LEN {
        return Err(too_long());
    }
    Ok(text)
}
