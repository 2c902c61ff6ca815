//! This program as a service of the system: its number in a file, and whoever supervises it.

use crate::config::{Config, Key};
use crate::log::Log;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_net::supervisor;

/// Where a process in the background leaves its number unless it is told otherwise.
const USUAL_PID_FILE: &str = "/var/run/redis.pid";

/// Who is told how this program is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Supervisor {
    Nobody,
    Upstart,
    /// systemd, which listens at this socket.
    Systemd(String),
}

/// The process as others know it. Dropping it removes the file with its number.
#[derive(Debug)]
pub struct Daemon {
    log: Arc<Log>,
    supervisor: Supervisor,
    pid_file: Option<PathBuf>,
}

/// Goes to the background if `daemonize` says so and nobody supervises the process. Before there is any thread.
///
/// # Errors
///
/// The system refuses.
pub fn go_to_background(config: &Config) -> io::Result<()> {
    match is_in_background(config) {
        true => supervisor::become_daemon(),
        false => Ok(()),
    }
}

fn is_in_background(config: &Config) -> bool {
    config.get(Key::Daemonize) == "yes"
        && supervisor_of(config.get(Key::Supervised), |name| std::env::var(name).ok())
            == Supervisor::Nobody
}

/// Who supervises, by the word of `supervised` and the environment.
fn supervisor_of(wanted: &str, variable: impl Fn(&str) -> Option<String>) -> Supervisor {
    let may_be = |name| wanted == name || wanted == "auto";
    if may_be("upstart") && variable("UPSTART_JOB").is_some() {
        return Supervisor::Upstart;
    }
    match variable("NOTIFY_SOCKET").filter(|_| may_be("systemd")) {
        Some(socket) => Supervisor::Systemd(socket),
        None => Supervisor::Nobody,
    }
}

/// Who supervises, as INFO has it; `wanted`: the word of `supervised`.
pub(crate) fn supervisor_name(wanted: &str) -> &'static str {
    match supervisor_of(wanted, |name| std::env::var(name).ok()) {
        Supervisor::Nobody => "no",
        Supervisor::Upstart => "upstart",
        Supervisor::Systemd(_) => "systemd",
    }
}

impl Daemon {
    /// Writes the file with the number of the process, if one is wanted.
    #[must_use]
    pub fn begin(config: &Config, log: &Arc<Log>) -> Daemon {
        let supervisor =
            supervisor_of(config.get(Key::Supervised), |name| std::env::var(name).ok());
        match (config.get(Key::Supervised), &supervisor) {
            ("upstart", Supervisor::Nobody) => log.warning(format_args!(
                "upstart supervision requested, but UPSTART_JOB not found!"
            )),
            ("systemd", Supervisor::Nobody) => log.warning(format_args!(
                "systemd supervision requested or auto-detected, but NOTIFY_SOCKET not found!"
            )),
            (_, Supervisor::Systemd(_)) => log.notice(format_args!(
                "Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and \
                 TimeoutStopSec in your service unit."
            )),
            _ => {}
        }
        Daemon {
            pid_file: write_pid_file(config, log),
            log: Arc::clone(log),
            supervisor,
        }
    }

    /// Everything listens. `status`: how that is told.
    pub fn is_ready(&self, status: &str) {
        match &self.supervisor {
            Supervisor::Nobody => {}
            Supervisor::Upstart => {
                self.log.warning(format_args!(
                    "supervised by upstart, will stop to signal readiness."
                ));
                self.log.flush();
                supervisor::stop_until_continued();
            }
            Supervisor::Systemd(socket) => {
                self.tell(socket, &format!("STATUS={status}\nREADY=1\n"))
            }
        }
    }

    /// The end has begun.
    pub fn is_ending(&self) {
        if let Supervisor::Systemd(socket) = &self.supervisor {
            self.tell(socket, "STOPPING=1\n");
        }
    }

    fn tell(&self, socket: &str, state: &str) {
        if let Err(error) = supervisor::notify_systemd(socket, state) {
            self.log
                .warning(format_args!("Can't send to systemd at {socket}: {error}"));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(path) = &self.pid_file {
            self.log.notice(format_args!("Removing the pid file."));
            // Whoever has removed it before has done what is to be done.
            drop(std::fs::remove_file(path));
        }
    }
}

/// The file that was written.
fn write_pid_file(config: &Config, log: &Log) -> Option<PathBuf> {
    let name = match config.get(Key::Pidfile) {
        "" if is_in_background(config) => USUAL_PID_FILE,
        "" => return None,
        name => name,
    };
    let path = Path::new(config.get(Key::Dir)).join(name);
    match std::fs::write(&path, format!("{}\n", std::process::id())) {
        Ok(()) => Some(path),
        Err(error) => {
            log.warning(format_args!(
                "Failed to write PID file {}: {error}",
                path.display()
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisors_are_found_by_the_setting_and_the_environment() {
        let systemd = || Supervisor::Systemd("/run/notify".to_owned());
        for (wanted, variables, found) in [
            (
                "no",
                vec!["NOTIFY_SOCKET", "UPSTART_JOB"],
                Supervisor::Nobody,
            ),
            ("systemd", vec!["NOTIFY_SOCKET", "UPSTART_JOB"], systemd()),
            ("systemd", vec!["UPSTART_JOB"], Supervisor::Nobody),
            ("upstart", vec!["NOTIFY_SOCKET"], Supervisor::Nobody),
            ("upstart", vec!["UPSTART_JOB"], Supervisor::Upstart),
            (
                "auto",
                vec!["UPSTART_JOB", "NOTIFY_SOCKET"],
                Supervisor::Upstart,
            ),
            ("auto", vec!["NOTIFY_SOCKET"], systemd()),
            ("auto", vec![], Supervisor::Nobody),
        ] {
            let known = |name: &str| variables.contains(&name).then(|| "/run/notify".to_owned());
            assert_eq!(
                supervisor_of(wanted, known),
                found,
                "{wanted} {variables:?}"
            );
        }
    }
}
