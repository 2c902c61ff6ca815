//! Settings: one table, four sources.
//!
//! Defaults < configuration file < `TOLLGATE_*` environment < command line. Every setting is a row of [`table::TABLE`];
//! CONFIG GET and SET, the file, the environment, the flags of `tollgate serve` and `docs/settings.md` derive
//! from it. Values are kept as the text that CONFIG GET prints, normalised when set; what the hot paths need is
//! mirrored in atomics.

mod bind;
mod file;
mod kind;
mod live;
pub(crate) mod output_limits;
mod own;
mod redis;
mod rewrite;
pub(crate) mod save_points;
mod table;

pub use bind::BindAddress;
pub use file::{FileError, banner};
pub use kind::Kind;
pub(crate) use live::failed;
pub use live::{Live, Values};
pub(crate) use rewrite::rewrite;
pub use table::{Change, Key, Setting, TABLE, find, render_docs};

use std::fmt;
use std::path::{Path, PathBuf};
use tollgate_commands::Names;

/// Settings before the start: collected from the sources in order.
#[derive(Debug, Clone)]
pub struct Config {
    values: Vec<Box<str>>,
    /// Set by some source, not only by default.
    given: Vec<bool>,
    /// The configuration file, if one was read.
    file: Option<PathBuf>,
    /// The words behind `user` of each such line of the file.
    users: Vec<Vec<Vec<u8>>>,
    /// The lines `rename-command` of the file.
    names: Names,
}

/// A value that a setting does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSetting {
    /// What names the setting in its source: `--port`, `TOLLGATE_PORT`, `port`.
    pub name: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

impl std::error::Error for BadSetting {}

impl Default for Config {
    fn default() -> Config {
        let values = TABLE.iter().map(|setting| setting.default.into()).collect();
        Config {
            values,
            given: vec![false; TABLE.len()],
            file: None,
            users: Vec::new(),
            names: Names::default(),
        }
    }
}

impl Config {
    /// Sets a value after checking it. The error is the reason alone.
    pub fn set(&mut self, key: Key, text: &str) -> Result<(), String> {
        let old = &self.values[key as usize];
        self.values[key as usize] = key.setting().normalise_over(old, text)?.into();
        self.given[key as usize] = true;
        Ok(())
    }

    /// Takes over every `TOLLGATE_*` variable that `read` knows: `TOLLGATE_TCP_BACKLOG` for `tcp-backlog`. Those that tell where
    /// a Kubernetes service called `tollgate` is are none of them.
    pub fn read_environment(
        &mut self,
        read: impl Fn(&str) -> Option<String>,
    ) -> Result<(), BadSetting> {
        for setting in TABLE {
            for name in setting.names() {
                let variable = environment_name(name);
                let text = read(&variable).filter(|text| !is_service_link(&variable, text));
                if let Some(text) = text {
                    self.set(setting.key, &text).map_err(|reason| BadSetting {
                        name: variable,
                        reason,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Reads a configuration file of `name value` lines.
    pub fn read_file(&mut self, path: &Path) -> Result<(), FileError> {
        file::read(self, path)?;
        self.file = Some(path.to_owned());
        Ok(())
    }

    /// Reads settings as a file holds them from an open source, such as standard input, up to its end. `name` stands for it in
    /// errors. CONFIG REWRITE has no file then.
    pub fn read_from(&mut self, name: &str, source: impl std::io::Read) -> Result<(), FileError> {
        file::read_from(self, name, source)
    }

    /// The value as CONFIG GET prints it.
    pub fn get(&self, key: Key) -> &str {
        &self.values[key as usize]
    }

    /// Whether some source set it.
    pub fn given(&self, key: Key) -> bool {
        self.given[key as usize]
    }

    /// The value of a numeric setting.
    pub fn number(&self, key: Key) -> u64 {
        // Numeric settings hold what `Kind::normalise` printed.
        self.get(key).parse().unwrap_or_default()
    }

    /// Where to listen.
    pub fn bind(&self) -> impl Iterator<Item = BindAddress> {
        bind::parse(self.get(Key::Bind))
    }

    /// The configuration file, if one was read.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Names that the configuration file gives to commands.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The `user` lines of the configuration file: name and rules.
    pub fn users(&self) -> &[Vec<Vec<u8>>] {
        &self.users
    }

    pub(crate) fn into_values(self) -> Vec<Box<str>> {
        self.values
    }
}

/// Whether a variable is what Kubernetes, as Docker's links before it, tells every container of a service:
/// `TOLLGATE_PORT=tcp://10.0.0.1:8081`.
fn is_service_link(variable: &str, text: &str) -> bool {
    let schemes = ["tcp://", "udp://", "sctp://"];
    variable.ends_with("_PORT") && schemes.iter().any(|scheme| text.starts_with(scheme))
}

/// `TOLLGATE_TCP_BACKLOG` for `tcp-backlog`.
pub(crate) fn environment_name(setting: &str) -> String {
    format!(
        "TOLLGATE_{}",
        setting.to_ascii_uppercase().replace('-', "_")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sources_win_and_are_remembered_as_given() {
        let mut config = Config::default();
        assert_eq!(config.get(Key::Port), "6379");
        assert!(!config.given(Key::Port));
        config
            .read_environment(|name| (name == "TOLLGATE_PORT").then(|| "7000".to_owned()))
            .unwrap();
        assert_eq!(config.number(Key::Port), 7000);
        config.set(Key::Port, "7001").unwrap();
        assert_eq!(config.number(Key::Port), 7001);
        assert!(config.given(Key::Port));
    }

    #[test]
    fn what_kubernetes_tells_of_a_service_is_no_setting() {
        let mut config = Config::default();
        let link = |name: &str| {
            let is_told = matches!(name, "TOLLGATE_PORT" | "TOLLGATE_GRPC_PORT");
            is_told.then(|| "tcp://10.96.1.5:8081".to_owned())
        };
        config.read_environment(link).unwrap();
        assert!(!config.given(Key::Port) && !config.given(Key::GrpcPort));
        let bad = |name: &str| (name == "TOLLGATE_PORT").then(|| "10.96.1.5:8081".to_owned());
        assert!(config.read_environment(bad).is_err());
    }

    #[test]
    fn a_bad_variable_is_named() {
        let mut config = Config::default();
        let error = config
            .read_environment(|name| (name == "TOLLGATE_MAXCLIENTS").then(|| "0".to_owned()))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "TOLLGATE_MAXCLIENTS: argument must be between 1 and 4294967295 inclusive"
        );
    }

    #[test]
    fn an_alias_sets_the_same_setting() {
        let mut config = Config::default();
        config
            .read_environment(|name| (name == "TOLLGATE_IO_THREADS").then(|| "3".to_owned()))
            .unwrap();
        assert_eq!(config.number(Key::Threads), 3);
    }
}
