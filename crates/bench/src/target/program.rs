//! Programs that the bench can start by itself.

use std::path::{Path, PathBuf};

/// Settings of a store besides those that make it measurable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreSettings {
    /// None.
    #[default]
    Plain,
    /// Those of ratelimit_bench's containers: 1 GiB, volatile-lru.
    RbStore,
}

impl StoreSettings {
    /// Arguments of `program` for them; nothing is kept on disk in any case. The policy evicts keys that expire, oldest
    /// use first, as Dragonfly and memcached do by themselves where they may evict at all.
    #[must_use]
    pub(crate) fn arguments(self, program: Program) -> Vec<String> {
        let words: &[&str] = match (self, program) {
            (StoreSettings::Plain, _) => &[],
            (_, Program::Tollgate | Program::Redis | Program::Valkey | Program::Keydb) => {
                &["--maxmemory", "1gb", "--maxmemory-policy", "volatile-lru"]
            }
            // It has no policy: what is oldest in its log goes first.
            (_, Program::Garnet) => &["--memory", "1g"],
            (_, Program::Dragonfly) => &["--maxmemory=1gb", "--cache_mode=true"],
            (_, Program::Memcached) => &["-m", "1024"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

impl std::str::FromStr for StoreSettings {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreSettings, String> {
        match text {
            "plain" => Ok(StoreSettings::Plain),
            "rb-store" => Ok(StoreSettings::RbStore),
            _ => Err(format!("'{text}' is neither plain nor rb-store")),
        }
    }
}

/// A server program and how it is started for a measurement: loopback only, no persistence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// This program.
    Tollgate,
    /// `redis-server`.
    Redis,
    /// `valkey-server`.
    Valkey,
    /// `dragonfly`.
    Dragonfly,
    /// `keydb-server`.
    Keydb,
    /// `garnet-server`, as the .NET tool calls it.
    Garnet,
    /// `memcached`.
    Memcached,
}

impl Program {
    /// The peers that are looked for on PATH, in the order of the report.
    pub(crate) const PEERS: [Program; 6] = [
        Program::Redis,
        Program::Valkey,
        Program::Dragonfly,
        Program::Keydb,
        Program::Garnet,
        Program::Memcached,
    ];

    /// Names of the stores that speak RESP, for messages.
    #[must_use]
    pub(crate) fn stores() -> String {
        let all = [Program::Tollgate].into_iter().chain(Program::PEERS);
        let names: Vec<&str> = all
            .filter(|one| one.speaks_resp())
            .map(Program::name)
            .collect();
        names.join(", ")
    }

    /// Name on the command line and in tables.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Tollgate => "tollgate",
            Program::Redis => "redis-server",
            Program::Valkey => "valkey-server",
            Program::Dragonfly => "dragonfly",
            Program::Keydb => "keydb-server",
            Program::Garnet => "garnet-server",
            Program::Memcached => "memcached",
        }
    }

    /// Whether who measures without naming systems is told that it is not installed.
    #[must_use]
    pub(crate) fn is_missed(self) -> bool {
        !matches!(self, Program::Keydb | Program::Garnet)
    }

    /// The program of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Program> {
        [Program::Tollgate]
            .into_iter()
            .chain(Program::PEERS)
            .find(|p| p.name() == name)
    }

    /// Where it is installed: this executable for Tollgate (or the one that `TOLLGATE_EXE` names, where the bench runs
    /// inside another program), else the first match on PATH.
    #[must_use]
    pub fn locate(self) -> Option<PathBuf> {
        match self {
            Program::Tollgate => match std::env::var_os("TOLLGATE_EXE") {
                Some(path) => Some(path.into()),
                None => std::env::current_exe().ok(),
            },
            // Its archives have another name for it than its .NET tool.
            Program::Garnet => on_path(self.name()).or_else(|| on_path("GarnetServer")),
            other => on_path(other.name()),
        }
    }

    /// Arguments for a server on `port` with `threads` worker threads that keeps nothing and works in `directory`.
    #[must_use]
    pub(crate) fn arguments(self, port: u16, threads: u32, directory: &Path) -> Vec<String> {
        let port = port.to_string();
        let directory = directory.display().to_string();
        let words: Vec<&str> = match self {
            Program::Tollgate => {
                return [
                    "serve",
                    "--bind",
                    "127.0.0.1",
                    "--port",
                    &port,
                    "--threads",
                    &threads.to_string(),
                ]
                .map(String::from)
                .to_vec();
            }
            Program::Redis | Program::Valkey | Program::Keydb => {
                let mut words: Vec<String> = [
                    "--port",
                    &port,
                    "--bind",
                    "127.0.0.1",
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--dir",
                    &directory,
                    "--daemonize",
                    "no",
                    "--loglevel",
                    "warning",
                ]
                .map(String::from)
                .to_vec();
                if self == Program::Keydb {
                    words.extend(["--server-threads".into(), threads.to_string()]);
                }
                return words;
            }
            // Nothing is logged or kept unless it is told to; scripts run only where they are allowed.
            Program::Garnet => vec!["--port", &port, "--bind", "127.0.0.1", "--lua", "true"],
            Program::Dragonfly => {
                return vec![
                    format!("--port={port}"),
                    "--bind=127.0.0.1".into(),
                    format!("--proactor_threads={threads}"),
                    "--dbfilename=".into(),
                    format!("--dir={directory}"),
                    "--logtostderr".into(),
                ];
            }
            Program::Memcached => {
                let threads = threads.to_string();
                let mut words = ["-l", "127.0.0.1", "-U", "0", "-p", &port, "-t", &threads]
                    .map(String::from)
                    .to_vec();
                // memcached refuses to run as root unless told as whom.
                if crate::os::proc::is_root() {
                    words.extend(["-u", "root"].map(String::from));
                }
                return words;
            }
        };
        words.into_iter().map(String::from).collect()
    }

    /// What makes it a node of a cluster; empty where that is not known.
    #[must_use]
    pub(crate) fn as_cluster_node(self) -> Vec<String> {
        let words: &[&str] = match self {
            Program::Tollgate => &["--cluster-enabled", "emulated"],
            Program::Redis | Program::Valkey | Program::Keydb => &["--cluster-enabled", "yes"],
            Program::Dragonfly => &["--cluster_mode=emulated"],
            Program::Garnet | Program::Memcached => &[],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Whether it speaks RESP.
    #[must_use]
    pub(crate) fn speaks_resp(self) -> bool {
        self != Program::Memcached
    }

    /// Worker threads it runs when given `cores` cores.
    #[must_use]
    pub(crate) fn threads(self, cores: u32) -> u32 {
        match self {
            Program::Redis | Program::Valkey => 1,
            Program::Tollgate
            | Program::Dragonfly
            | Program::Keydb
            | Program::Garnet
            | Program::Memcached => cores.max(1),
        }
    }

    /// How to get it, for the message that says it was not found.
    #[must_use]
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Program::Tollgate => "it is this program",
            Program::Redis => "not on PATH (Debian and Ubuntu: apt install redis-server)",
            Program::Valkey => "not on PATH (Debian and Ubuntu: apt install valkey-server)",
            Program::Memcached => "not on PATH (Debian and Ubuntu: apt install memcached)",
            Program::Dragonfly => "not on PATH (see dragonflydb.io for packages)",
            Program::Keydb => "not on PATH (see docs.keydb.dev for packages)",
            Program::Garnet => "not on PATH (dotnet tool install garnet-server)",
        }
    }
}

/// The first file of that name in the folders of PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_found_by_its_name_and_started_on_loopback() {
        for program in [Program::Tollgate].into_iter().chain(Program::PEERS) {
            assert_eq!(Program::from_name(program.name()), Some(program));
            let words = program.arguments(4_711, 2, Path::new("/d")).join(" ");
            assert!(
                words.contains("4711") && words.contains("127.0.0.1"),
                "{words}"
            );
            let settings = StoreSettings::RbStore.arguments(program).join(" ");
            assert!(settings.contains('1'), "{settings}");
        }
        assert!(Program::stores().contains("keydb-server, garnet-server"));
        assert!(!Program::stores().contains("memcached"));
    }
}
