//! The configuration file: `name value` lines as in redis.conf.

use super::table::find;
use super::{Config, Kind};
use std::fmt;
use std::path::{Path, PathBuf};
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

pub(super) fn read(config: &mut Config, path: &Path) -> Result<(), FileError> {
    let error = |line, reason: String| FileError {
        file: path.to_owned(),
        line,
        reason,
    };
    let size = std::fs::metadata(path)
        .map_err(|cause| error(0, cause.to_string()))?
        .len();
    if size > FILE_LIMIT {
        return Err(error(0, format!("larger than {FILE_LIMIT} bytes")));
    }
    let text = std::fs::read(path).map_err(|cause| error(0, cause.to_string()))?;
    for (i, line) in text.split(|&b| b == b'\n').enumerate() {
        apply_line(config, line).map_err(|reason| error(i + 1, reason))?;
    }
    Ok(())
}

fn apply_line(config: &mut Config, line: &[u8]) -> Result<(), String> {
    let line = line.trim_ascii();
    if line.is_empty() || line[0] == b'#' {
        return Ok(());
    }
    let mut words: Vec<String> = Vec::new();
    split_line(line, |word| {
        words.push(String::from_utf8_lossy(word).into_owned())
    })
    .map_err(|_| "unbalanced quotes".to_owned())?;
    let Some((name, values)) = words.split_first() else {
        return Ok(());
    };
    if name.eq_ignore_ascii_case("user") {
        return add_user(config, line);
    }
    let Some(setting) = find(name) else {
        return Err(format!("unknown setting '{name}'"));
    };
    let value = match (setting.kind, values) {
        (_, []) => return Err(format!("{name}: a value is missing")),
        (_, [value]) => value.clone(),
        (kind, values) if kind.takes_words() => values.join(" "),
        (_, values) => {
            return Err(format!(
                "{name}: one value is expected, not {}",
                values.len()
            ));
        }
    };
    // Each of several lines of save points adds to those before it.
    let before = config.get(setting.key);
    let value = match setting.kind {
        Kind::SavePoints if !value.is_empty() && !before.is_empty() => format!("{before} {value}"),
        _ => value,
    };
    config
        .set(setting.key, &value)
        .map_err(|reason| format!("{name}: {reason}"))
}

/// Keeps a line of a user; it is checked with the others when the server starts.
fn add_user(config: &mut Config, line: &[u8]) -> Result<(), String> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    split_line(line, |word| words.push(word.to_vec()))
        .map_err(|_| "unbalanced quotes".to_owned())?;
    words.remove(0);
    let Some(name) = words.first() else {
        return Err("user: a name is missing".to_owned());
    };
    if config.users.iter().any(|user| user.first() == Some(name)) {
        return Err(
            "Duplicate user found. A user can only be defined once in config files".to_owned(),
        );
    }
    config.users.push(words);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Key;

    fn apply(lines: &str) -> Result<Config, String> {
        let mut config = Config::default();
        for line in lines.lines() {
            apply_line(&mut config, line.as_bytes())?;
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
            ("databases 20", "databases: only '16' is supported"),
        ] {
            assert_eq!(apply(line).unwrap_err(), reason, "{line}");
        }
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
