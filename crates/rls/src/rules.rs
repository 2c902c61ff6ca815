//! Reads a folder of rule files.

use std::fs;
use std::io;
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

/// A file's text; one that is too long for the rules is not read into memory.
fn read(path: &Path) -> io::Result<String> {
    let len = fs::metadata(path)?.len();
    if len > MAX_FILE_LEN as u64 {
        let reason = format!("the file is longer than {MAX_FILE_LEN} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    fs::read_to_string(path)
}
