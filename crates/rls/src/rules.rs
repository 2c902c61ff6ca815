//! Reads a folder of rule files.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use tollgate_policy::{LoadOptions, MAX_FILE_LEN, Ruleset};

use crate::config::StartError;

/// Most files of rules, and most folders within each other.
const MAX_FILES: usize = 10_000;
const MAX_DEPTH: usize = 16;

/// Which files of a folder are rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleFiles {
    /// Those called `*.yaml` or `*.yml`.
    #[default]
    Yaml,
    /// All, also those of folders within, as envoyproxy/ratelimit reads them; `dots` says whether also those whose names begin
    /// with a dot. What begins with two dots is left out in any case: there Kubernetes keeps the files again that it shows.
    All {
        /// Whether names may begin with a dot.
        dots: bool,
    },
}

/// Compiles every `*.yaml` and `*.yml` file of a folder, in the order of their names, or one file of any name, for whoever mends them.
///
/// # Errors
/// The folder or a file cannot be read, there is no such file, or what is wrong with them, as far as [`Ruleset::check`] tells.
pub fn check_rules(dir: &Path, options: LoadOptions) -> Result<Ruleset, Vec<StartError>> {
    let files = texts(dir, RuleFiles::Yaml, Pipes::Read).map_err(|error| vec![error])?;
    let checked = Ruleset::check(&borrowed(&files), options);
    checked.map_err(|mistakes| mistakes.into_iter().map(StartError::Rules).collect())
}

/// Compiles the files of a folder that are rules, or one file; the error is the first.
pub(crate) fn load_files(
    dir: &Path,
    files: RuleFiles,
    options: LoadOptions,
) -> Result<Ruleset, StartError> {
    let files = texts(dir, files, Pipes::Refuse)?;
    Ruleset::load_with(&borrowed(&files), options).map_err(StartError::Rules)
}

/// What becomes of a pipe in place of a file, as of a shell's `<(…)`: it can be read once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pipes {
    /// Rules that are only looked at.
    Read,
    /// Rules that are read again when they change.
    Refuse,
}

/// The files by name.
fn texts(dir: &Path, files: RuleFiles, pipes: Pipes) -> Result<Vec<(String, String)>, StartError> {
    let read_error = |path: &Path| {
        let path = path.to_owned();
        move |error| StartError::ReadRules { path, error }
    };
    let paths = rule_files(dir, files).map_err(read_error(dir))?;
    if paths.is_empty() {
        return Err(StartError::NoRules {
            path: dir.to_owned(),
        });
    }
    let named = paths.iter().map(|path| {
        // In a folder a pipe lies by mistake.
        let piped = pipes == Pipes::Read && path == dir;
        let text = read(path, piped).map_err(read_error(path))?;
        Ok((path.display().to_string(), text))
    });
    named.collect()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    let files = files.iter();
    files.map(|(name, text)| (&**name, &**text)).collect()
}

/// The files of a folder that are rules, in the order of their names; what is no folder is the one file.
pub(crate) fn rule_files(dir: &Path, files: RuleFiles) -> io::Result<Vec<PathBuf>> {
    if dir.exists() && !dir.is_dir() {
        return Ok(vec![dir.to_owned()]);
    }
    let mut paths = Vec::new();
    match files {
        RuleFiles::Yaml => {
            for entry in fs::read_dir(dir)? {
                let path = entry?.path();
                let extension = path.extension();
                if extension.is_some_and(|extension| extension == "yaml" || extension == "yml") {
                    paths.push(path);
                }
            }
        }
        RuleFiles::All { dots } => add_files(dir, dots, MAX_DEPTH, &mut paths)?,
    }
    paths.sort();
    Ok(paths)
}

/// The nesting is bounded by `depth`. Links to folders are not followed.
fn add_files(dir: &Path, dots: bool, depth: usize, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let too_much = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if depth == 0 {
        return Err(too_much(&format!(
            "folders are nested deeper than {MAX_DEPTH}"
        )));
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(b"..") || (!dots && name.starts_with(b".")) {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            add_files(&path, dots, depth - 1, paths)?;
        } else if !path.is_dir() {
            paths.push(path);
        }
        if paths.len() > MAX_FILES {
            return Err(too_much(&format!("there are more than {MAX_FILES} files")));
        }
    }
    Ok(())
}

/// A file's text. One that is too long for the rules is not read into memory, and what is no file (a device, a pipe that
/// nobody writes to) would never end.
fn read(path: &Path, piped: bool) -> io::Result<String> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let too_long = || invalid(format!("the file is longer than {MAX_FILE_LEN} bytes"));
    let about = fs::metadata(path)?;
    let readable = about.is_file() || (piped && about.file_type().is_fifo());
    if !readable {
        return Err(invalid("not a regular file".to_owned()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    use tollgate_testkit::process::temp_dir;

    /// As a shell's `<(…)` gives them.
    #[test]
    fn rules_are_checked_from_a_pipe_and_not_served_from_one() {
        let dir = temp_dir().expect("a temporary folder");
        let pipe = dir.join("pipe.yaml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        let options = LoadOptions::default();
        let refused = load_files(&pipe, RuleFiles::Yaml, options).expect_err("no file");
        assert!(
            refused.to_string().contains("not a regular file"),
            "{refused}"
        );
        let refused = check_rules(&dir, options).expect_err("it would never end");
        assert!(refused[0].to_string().contains("not a regular file"));
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::write(pipe, "domain: shop\ndescriptors: []\n").expect("it is read")
        });
        assert!(check_rules(&pipe, options).is_ok());
        writer.join().expect("it wrote");
    }

    /// As goruntime's loader walks them.
    #[test]
    fn all_files_are_those_of_folders_within_too() {
        let dir = temp_dir().expect("a temporary folder");
        for name in [
            "b.yml",
            "a",
            ".hidden.yaml",
            "sub/c.yaml",
            ".git/d.yaml",
            "..data_1/e.yaml",
        ] {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
            fs::write(path, "").expect("the folder is ours");
        }
        // As a ConfigMap is mounted.
        symlink("..data_1", dir.join("..data")).expect("the folder is ours");
        symlink("..data/e.yaml", dir.join("e.yaml")).expect("the folder is ours");
        symlink("sub", dir.join("link")).expect("the folder is ours");
        let names = |files| {
            let paths = rule_files(&dir, files).expect("it can be read");
            let name = |path: &PathBuf| {
                path.strip_prefix(&dir)
                    .expect("in it")
                    .display()
                    .to_string()
            };
            paths.iter().map(name).collect::<Vec<_>>()
        };
        let plain = names(RuleFiles::All { dots: false });
        assert_eq!(plain, ["a", "b.yml", "e.yaml", "sub/c.yaml"]);
        let all = names(RuleFiles::All { dots: true });
        assert_eq!(
            all,
            [
                ".git/d.yaml",
                ".hidden.yaml",
                "a",
                "b.yml",
                "e.yaml",
                "sub/c.yaml"
            ]
        );
        assert_eq!(names(RuleFiles::Yaml), [".hidden.yaml", "b.yml", "e.yaml"]);
        let deep = (0..2 * MAX_DEPTH).fold(dir.clone(), |dir, _| dir.join("deeper"));
        fs::create_dir_all(deep).expect("the folder is ours");
        let error = rule_files(&dir, RuleFiles::All { dots: true }).expect_err("too deep");
        assert!(error.to_string().contains("nested deeper"), "{error}");
        fs::remove_dir_all(&dir).expect("the folder is ours");
    }
}
