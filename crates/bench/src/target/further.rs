//! What servers started here are given besides what makes them measurable, and what of the environment reaches them.
//!
//! A setting that a server takes over from the user's shell would be in no record. So servers start with little of the
//! environment, and with what was said here, which their recorded command line shows.

use std::ffi::OsString;
use std::process::Command;
use std::str::FromStr;

/// What of the environment every server is given: where programs, libraries and temporary files lie, and the language of
/// messages.
const KEPT: [&str; 9] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "RUST_BACKTRACE",
];
/// What the settings of Tollgate's servers begin with in the environment.
const SETTING: &str = "TOLLGATE_";
/// Name programs to the bench and to those who run it, and set nothing of a server.
const PROGRAMS: [&str; 2] = ["TOLLGATE_EXE", "TOLLGATE_BIN"];

/// Further settings of one server: variables of its environment, then arguments of its command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Further {
    /// Names and values.
    pub variables: Vec<(String, String)>,
    /// Behind those that the bench gives it.
    pub arguments: Vec<String>,
}

impl Further {
    /// No more than these arguments.
    #[must_use]
    pub(crate) fn arguments(arguments: Vec<String>) -> Further {
        Further {
            arguments,
            ..Further::default()
        }
    }

    /// Appends what `other` says.
    #[must_use]
    pub(crate) fn and(mut self, other: Further) -> Further {
        self.variables.extend(other.variables);
        self.arguments.extend(other.arguments);
        self
    }

    /// Gives `command` its environment and its last arguments.
    pub(super) fn give(&self, command: &mut Command) {
        command.env_clear();
        for name in KEPT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.args(&self.arguments);
    }

    /// A command line with all that was said: `NAME=VALUE`, program, arguments, as a shell takes it.
    pub(super) fn command_line(&self, exe: String, arguments: &[String]) -> Vec<String> {
        let variables = self.variables.iter();
        variables
            .map(|(name, value)| format!("{name}={value}"))
            .chain([exe])
            .chain(arguments.iter().chain(&self.arguments).cloned())
            .collect()
    }
}

/// `NAME=WORDS` of the option `--server-args`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerArgs {
    /// Which server.
    pub server: String,
    /// What it is given.
    pub further: Further,
}

impl FromStr for ServerArgs {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerArgs, String> {
        let (server, words) = text
            .split_once('=')
            .filter(|(server, words)| !server.is_empty() && !words.trim().is_empty())
            .ok_or("give NAME=WORDS, such as 'tollgate=--io-backend epoll'")?;
        let mut further = Further::default();
        let mut broken = false;
        let split = tollgate_wire::resp::split_line(words.as_bytes(), |word| {
            let Ok(word) = std::str::from_utf8(word) else {
                broken = true;
                return;
            };
            match variable(word).filter(|_| further.arguments.is_empty()) {
                Some((name, value)) => further.variables.push((name.into(), value.into())),
                None => further.arguments.push(word.into()),
            }
        });
        if split.is_err() || broken {
            return Err(format!("{server}: its words have an open quote"));
        }
        Ok(ServerArgs {
            server: server.into(),
            further,
        })
    }
}

/// `NAME=VALUE` as a shell reads it in front of a program.
pub(crate) fn variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let mut letters = name.chars();
    let first = letters.next()?;
    let right = (first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    right.then_some((name, value))
}

/// All that `given` says about a server that goes by any of `names`.
#[must_use]
pub(crate) fn of(given: &[ServerArgs], names: &[&str]) -> Further {
    given
        .iter()
        .filter(|one| names.contains(&one.server.as_str()))
        .fold(Further::default(), |all, one| all.and(one.further.clone()))
}

/// Fails for words about a server that is not among the `started`.
pub(crate) fn check(given: &[ServerArgs], started: &[&str]) -> Result<(), String> {
    match given
        .iter()
        .find(|one| !started.contains(&one.server.as_str()))
    {
        None => Ok(()),
        Some(one) if started.is_empty() => Err(format!(
            "--server-args {}: no server is started here",
            one.server
        )),
        Some(one) => Err(format!(
            "--server-args {}: no such server is started here; these are: {}",
            one.server,
            started.join(", ")
        )),
    }
}

/// Says which settings of the environment do not reach the servers; `None` if there are none.
#[must_use]
pub(crate) fn withheld() -> Option<String> {
    withheld_of(std::env::vars_os().map(|(name, _)| name))
}

fn withheld_of(names: impl Iterator<Item = OsString>) -> Option<String> {
    let mut names: Vec<String> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(SETTING) && !PROGRAMS.contains(&name.as_str()))
        .collect();
    if names.is_empty() {
        return None;
    }
    names.sort();
    Some(format!(
        "set here, but not for the servers that the bench starts: {} (--server-args gives them settings and records these)",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ServerArgs, String> {
        text.parse()
    }

    #[test]
    fn variables_stand_before_arguments() {
        let given = parsed("tollgate=TOLLGATE_THREADS=1 USE_STATSD=\"a b\" --io-backend epoll X=y")
            .unwrap();
        assert_eq!(given.server, "tollgate");
        let variables = &given.further.variables;
        assert_eq!(variables[0], ("TOLLGATE_THREADS".into(), "1".into()));
        assert_eq!(variables[1], ("USE_STATSD".into(), "a b".into()));
        assert_eq!(given.further.arguments, ["--io-backend", "epoll", "X=y"]);
        let line = given
            .further
            .command_line("tollgate".into(), &["serve".into()]);
        assert_eq!(
            line.join(" "),
            "TOLLGATE_THREADS=1 USE_STATSD=a b tollgate serve --io-backend epoll X=y"
        );
    }

    #[test]
    fn what_says_nothing_is_refused() {
        for text in ["", "tollgate", "=--x", "tollgate=", "tollgate= "] {
            assert!(parsed(text).unwrap_err().contains("NAME=WORDS"), "{text}");
        }
        assert!(parsed("a='x").unwrap_err().contains("quote"));
    }

    #[test]
    fn words_reach_their_server_alone() {
        let given = [
            parsed("a=--x 1").unwrap(),
            parsed("tollgate=--y 2").unwrap(),
        ];
        assert_eq!(
            of(&given, &["a", "tollgate"]).arguments,
            ["--x", "1", "--y", "2"]
        );
        assert_eq!(of(&given, &["b", "tollgate"]).arguments, ["--y", "2"]);
        assert_eq!(of(&given, &["redis-server"]), Further::default());
        assert!(check(&given, &["a", "tollgate"]).is_ok());
        let why = check(&given, &["a"]).unwrap_err();
        assert!(
            why.contains("tollgate") && why.contains("these are: a"),
            "{why}"
        );
        assert!(check(&given, &[]).unwrap_err().contains("no server"));
    }

    #[test]
    fn withheld_settings_are_named() {
        let names = |names: &[&str]| withheld_of(names.iter().map(Into::into));
        assert_eq!(names(&["PATH", "TOLLGATE_EXE"]), None);
        let said = names(&["TOLLGATE_PORT", "TOLLGATE_IO_BACKEND"]).unwrap();
        assert!(
            said.contains("TOLLGATE_IO_BACKEND, TOLLGATE_PORT"),
            "{said}"
        );
    }
}
