//! The configuration file: `name value` lines as in redis.conf.

use super::table::find;
use super::{Config, Kind};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use tollgate_engine::REDIS_VERSION;
use tollgate_wire::resp::split_line;

/// Largest configuration file, in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// A file that cannot be used: `FILE:LINE: reason`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file as it was named.
    pub file: PathBuf,
    /// From 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// Why.
    pub reason: String,
    /// The line, and what redis-server says of it.
    text: String,
    said: String,
}

impl FileError {
    /// What redis-server prints on standard error, which programs that start it look for; nothing of a file as a whole.
    #[must_use]
    pub fn banner(&self) -> String {
        match self.line {
            0 => String::new(),
            line => banner(Some(line), &self.text, &self.said),
        }
    }
}

/// As [`FileError::banner`], of a line of a file or of an option.
pub fn banner(line: Option<usize>, text: &str, said: &str) -> String {
    let place = match line {
        Some(line) => format!("Reading the configuration file, at line {line}\n"),
        None => String::new(),
    };
    format!(
        "\n*** FATAL CONFIG FILE ERROR (Redis {REDIS_VERSION}) ***\n{place}>>> '{text}'\n{said}\n"
    )
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.reason),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.reason),
        }
    }
}

impl std::error::Error for FileError {}

/// Why a line cannot be used.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    reason: String,
    /// In Redis' words, where they are others.
    said: Option<String>,
}

impl Mistake {
    /// The line names nothing that there is, or has not as many words as it needs.
    fn directive(reason: String) -> Mistake {
        Mistake {
            reason,
            said: Some("Bad directive or wrong number of arguments".to_owned()),
        }
    }

    /// A setting that there is has not as many values as it needs.
    fn count(reason: String) -> Mistake {
        Mistake {
            reason,
            said: Some("wrong number of arguments".to_owned()),
        }
    }
}

impl From<String> for Mistake {
    fn from(reason: String) -> Mistake {
        Mistake { reason, said: None }
    }
}

impl From<&str> for Mistake {
    fn from(reason: &str) -> Mistake {
        reason.to_owned().into()
    }
}

/// Files that may include each other in a row.
const DEPTH_MAX: usize = 16;

/// Reads a file and those that it includes.
pub(super) fn read(config: &mut Config, path: &Path) -> Result<(), FileError> {
    read_at(config, path, DEPTH_MAX)
}

/// Reads settings that come from somewhere else than a file, up to its end. `name` stands for it in errors.
pub(super) fn read_from(
    config: &mut Config,
    name: &str,
    source: impl Read,
) -> Result<(), FileError> {
    read_open(config, Path::new(name), source, DEPTH_MAX)
}

fn read_at(config: &mut Config, path: &Path, depth: usize) -> Result<(), FileError> {
    let file = std::fs::File::open(path).map_err(|cause| FileError {
        file: path.to_owned(),
        line: 0,
        reason: cause.to_string(),
        text: String::new(),
        said: String::new(),
    })?;
    read_open(config, path, file, depth)
}

fn read_open(
    config: &mut Config,
    path: &Path,
    source: impl Read,
    depth: usize,
) -> Result<(), FileError> {
    let error = |line, text: &[u8], mistake: Mistake| FileError {
        file: path.to_owned(),
        line,
        said: mistake.said.unwrap_or_else(|| mistake.reason.clone()),
        reason: mistake.reason,
        text: String::from_utf8_lossy(text).trim().to_owned(),
    };
    let mut text = Vec::new();
    let read = source.take(FILE_LIMIT + 1).read_to_end(&mut text);
    if read.map_err(|cause| error(0, b"", cause.to_string().into()))? as u64 > FILE_LIMIT {
        let reason = format!("larger than {FILE_LIMIT} bytes");
        return Err(error(0, b"", reason.into()));
    }
    for (i, line) in text.split(|&b| b == b'\n').enumerate() {
        let failed = |mistake| error(i + 1, line, mistake);
        let words = words_of(line).map_err(failed)?;
        if !words
            .first()
            .is_some_and(|name| name.eq_ignore_ascii_case(b"include"))
        {
            apply(config, &words).map_err(failed)?;
            continue;
        }
        for path in included(&words, depth).map_err(failed)? {
            read_at(config, &path, depth - 1)?;
        }
    }
    Ok(())
}

/// The files that `include` names, in the order of their names: one, or those that a pattern fits, which may be none.
fn included(words: &[Vec<u8>], depth: usize) -> Result<Vec<PathBuf>, Mistake> {
    let [_, name] = words else {
        return Err(Mistake::directive(
            "include: one file is expected".to_owned(),
        ));
    };
    if depth == 0 {
        let reason = format!("include: more than {DEPTH_MAX} files include each other");
        return Err(reason.into());
    }
    let name = String::from_utf8_lossy(name);
    if !name.contains(['*', '?', '[']) {
        return Ok(vec![PathBuf::from(&*name)]);
    }
    let paths = glob::glob(&name).map_err(|error| format!("include: {error}"))?;
    paths
        .map(|path| path.map_err(|error| format!("include: {error}").into()))
        .collect()
}

/// The words of a line; none of a comment.
fn words_of(line: &[u8]) -> Result<Vec<Vec<u8>>, Mistake> {
    let line = line.trim_ascii();
    let mut words = Vec::new();
    if !line.starts_with(b"#") {
        split_line(line, |word| words.push(word.to_vec())).map_err(|_| Mistake {
            reason: "unbalanced quotes".to_owned(),
            said: Some("Unbalanced quotes in configuration line".to_owned()),
        })?;
    }
    Ok(words)
}

fn apply(config: &mut Config, words: &[Vec<u8>]) -> Result<(), Mistake> {
    let Some((name, rest)) = words.split_first() else {
        return Ok(());
    };
    match &*name.to_ascii_lowercase() {
        b"user" => add_user(config, rest),
        b"rename-command" => match rest {
            [name, new] => config.names.rename(name, new).map_err(Mistake::from),
            _ => Err(Mistake::directive(
                "rename-command: two names are expected".to_owned(),
            )),
        },
        b"loadmodule" => Err("loadmodule: there is no interface for modules".into()),
        _ => apply_setting(config, words),
    }
}

fn apply_setting(config: &mut Config, words: &[Vec<u8>]) -> Result<(), Mistake> {
    let name = String::from_utf8_lossy(&words[0]).into_owned();
    let Some(setting) = find(&name) else {
        return Err(Mistake::directive(format!("unknown setting '{name}'")));
    };
    // A password with other letters than those of the file would be another one.
    let values = words[1..]
        .iter()
        .map(|word| String::from_utf8(word.clone()));
    let values: Vec<String> = values
        .collect::<Result<_, _>>()
        .map_err(|_| format!("{name}: argument is not UTF-8"))?;
    let value = match (setting.kind, &values[..]) {
        (kind, []) if kind.takes_words() => String::new(),
        (_, []) => {
            return Err(Mistake::count(format!("{name}: a value is missing")));
        }
        (_, [value]) => value.clone(),
        (kind, values) if kind.takes_words() => values.join(" "),
        (_, values) => {
            let reason = format!("{name}: one value is expected, not {}", values.len());
            return Err(Mistake::count(reason));
        }
    };
    // Each of several lines of save points adds to those before it.
    let before = config.get(setting.key);
    let value = match setting.kind {
        Kind::SavePoints if !value.is_empty() && !before.is_empty() => format!("{before} {value}"),
        _ => value,
    };
    config.set(setting.key, &value).map_err(|said| Mistake {
        reason: format!("{name}: {said}"),
        said: Some(said),
    })
}

/// Keeps a line of a user; it is checked with the others when the server starts.
fn add_user(config: &mut Config, words: &[Vec<u8>]) -> Result<(), Mistake> {
    let Some(name) = words.first() else {
        return Err(Mistake::directive("user: a name is missing".to_owned()));
    };
    if config.users.iter().any(|user| user.first() == Some(name)) {
        return Err("Duplicate user found. A user can only be defined once in config files".into());
    }
    config.users.push(words.to_vec());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Key;

    fn apply(lines: &str) -> Result<Config, String> {
        let mut config = Config::default();
        for line in lines.lines() {
            words_of(line.as_bytes())
                .and_then(|words| super::apply(&mut config, &words))
                .map_err(|mistake| mistake.reason)?;
        }
        Ok(config)
    }

    #[test]
    fn lines_comments_and_quotes() {
        let config = apply(
            "# comment\n\n  port 7000  \nbind 127.0.0.1 ::1\nrequirepass \"a b\"\nsave \"\"\n",
        )
        .unwrap();
        assert_eq!(config.get(Key::Port), "7000");
        assert_eq!(config.get(Key::Bind), "127.0.0.1 ::1");
        assert_eq!(config.get(Key::Requirepass), "a b");
    }

    #[test]
    fn save_points_may_stand_on_several_lines() {
        let config = apply("save 3600 1\nsave 300 100 60 10000\n").unwrap();
        assert_eq!(config.get(Key::Save), "3600 1 300 100 60 10000");
        let config = apply("save 3600 1\nsave \"\"\n").unwrap();
        assert_eq!(config.get(Key::Save), "");
        assert_eq!(apply("save\n").unwrap().get(Key::Save), "");
    }

    #[test]
    fn bad_lines_say_why() {
        for (line, reason) in [
            ("prot 7000", "unknown setting 'prot'"),
            ("port", "port: a value is missing"),
            ("port 7000 7001", "port: one value is expected, not 2"),
            (
                "port x",
                "port: argument couldn't be parsed into an integer",
            ),
            ("requirepass \"open", "unbalanced quotes"),
            (
                "appendonly maybe",
                "appendonly: argument must be 'yes' or 'no'",
            ),
            ("save 3600", "save: Invalid save parameters"),
            (
                "databases 20",
                "databases: argument must be between 1 and 16 inclusive",
            ),
            ("rename-command x", "rename-command: two names are expected"),
            (
                "rename-command nosuch x",
                "No such command in rename-command",
            ),
            (
                "rename-command get SET",
                "Target command name already exists",
            ),
            (
                "loadmodule /x.so",
                "loadmodule: there is no interface for modules",
            ),
            (
                r#"requirepass "\xff""#,
                "requirepass: argument is not UTF-8",
            ),
        ] {
            assert_eq!(apply(line).unwrap_err(), reason, "{line}");
        }
    }

    #[test]
    fn files_include_files() {
        let dir = tollgate_testkit::process::temp_dir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        let at = |name: &str| dir.join(name).display().to_string();
        write("1.inc", "port 7000\ntimeout 5\n");
        write("2.inc", "port 7001\n");
        write("broken", "port 7002\nprot 1\n");
        write("circle", &format!("include {}\n", at("circle")));
        let read = |text: String| {
            write("main", &text);
            let mut config = Config::default();
            let read = config.read_file(&dir.join("main"));
            read.map(|()| config).map_err(|error| error.to_string())
        };
        let text = format!("include \"{}\"\ntimeout 6\n", at("?.inc"));
        let config = read(text).unwrap();
        assert_eq!(config.get(Key::Port), "7001");
        assert_eq!(config.get(Key::Timeout), "6");
        read(format!("include {}\n", at("none-*"))).unwrap();
        for (text, error) in [
            (
                format!("\ninclude {}\n", at("broken")),
                format!("{}:2: unknown setting 'prot'", at("broken")),
            ),
            (
                format!("include {}\n", at("none")),
                format!("{}: No such file or directory (os error 2)", at("none")),
            ),
            (
                format!("include {}\n", at("circle")),
                format!(
                    "{}:1: include: more than 16 files include each other",
                    at("circle")
                ),
            ),
            (
                "include a b\n".to_owned(),
                format!("{}:1: include: one file is expected", at("main")),
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), error);
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn bad_lines_are_told_as_redis_does() {
        let banner = |text: &str| {
            let read = Config::default().read_from("standard input", text.as_bytes());
            read.unwrap_err().banner()
        };
        for (line, said) in [
            ("prot 7000", "Bad directive or wrong number of arguments"),
            ("port 1 2", "wrong number of arguments"),
            ("appendfsync", "wrong number of arguments"),
            ("include", "Bad directive or wrong number of arguments"),
            ("port x", "argument couldn't be parsed into an integer"),
            ("save 1 \"", "Unbalanced quotes in configuration line"),
        ] {
            assert_eq!(
                banner(&format!("\n  {line}\r\nport 1")),
                format!(
                    "\n*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***\nReading the configuration file, at line 2\n>>> '{line}'\n{said}\n"
                )
            );
        }
        assert_eq!(banner(&"\n".repeat(FILE_LIMIT as usize + 1)), "");
    }

    #[test]
    fn settings_come_from_a_stream() {
        let mut config = Config::default();
        let text: &[u8] = b"port 7000\nbind 127.0.0.1\n";
        config.read_from("standard input", text).unwrap();
        assert_eq!(config.get(Key::Port), "7000");
        assert_eq!(config.file(), None);
        let error = |text: &[u8]| {
            let read = Config::default().read_from("standard input", text);
            read.unwrap_err().to_string()
        };
        assert_eq!(
            error(b"port 1\nprot 1"),
            "standard input:2: unknown setting 'prot'"
        );
        assert_eq!(
            error(&vec![b'\n'; FILE_LIMIT as usize + 1]),
            "standard input: larger than 1048576 bytes"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Config::default()
            .read_file(Path::new("/nonexistent/tollgate.conf"))
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("/nonexistent/tollgate.conf: "),
            "{error}"
        );
    }
}
