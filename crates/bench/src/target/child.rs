//! Server processes that the bench starts and ends.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::further::Further;
use crate::load::address::{Address, Endpoint};
use crate::os::{cpu, proc};
use crate::record::TargetRecord;

/// Longest wait for a server to answer.
const READY_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause between two looks at a starting or ending server.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Longest wait for a server to end after SIGTERM, before SIGKILL.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// Attempts to start a server on a port that it had before, and the pause between them.
const RESTARTS: u32 = 3;
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// Lines of a server's log quoted when it fails.
const LOG_LINES: usize = 2;
/// Characters quoted of each of them.
const LOG_LINE_CHARS: usize = 160;

/// A folder of our own that is removed with everything in it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new folder in the system's place for temporary files.
    pub(crate) fn new(name: &str) -> io::Result<Folder> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!(
            "tollgate-bench-{}-{count}-{name}",
            std::process::id()
        ));
        std::fs::create_dir_all(&path)?;
        Ok(Folder { path })
    }

    /// Its path.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left-over files in the temporary folder harm nothing and there is nobody to tell.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// What a server is started with, each time.
#[derive(Debug)]
struct How {
    exe: PathBuf,
    arguments: Vec<String>,
    further: Further,
    core: Option<usize>,
}

impl How {
    /// Starts it in `folder`.
    fn spawn(&self, folder: &Folder) -> Result<Child, String> {
        let log = File::create(folder.path().join("server.log"));
        let outputs = log.and_then(|log| Ok((log.try_clone()?, log)));
        let (out, err) = outputs
            .map_err(|error| format!("cannot write in {}: {error}", folder.path().display()))?;
        let mut command = Command::new(&self.exe);
        command
            .args(&self.arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        self.further.give(&mut command);
        // A group of its own: Ctrl-C in the terminal reaches the bench alone, which ends its servers after keeping
        // what was measured.
        command.process_group(0);
        let core = self.core;
        // SAFETY: between fork and exec only system calls are made; nothing is allocated or locked.
        unsafe {
            command.pre_exec(move || {
                #[cfg(target_os = "linux")]
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                match core {
                    Some(core) => cpu::pin(core),
                    None => Ok(()),
                }
            });
        }
        command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.exe.display()))
    }
}

/// A running server process. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    how: How,
    folder: Folder,
    name: String,
    /// The command line it was started with.
    pub command_line: Vec<String>,
}

impl ServerProcess {
    /// Starts `exe arguments` with what it is given `further`, on processor `core` if one is given. `folder` is its working
    /// directory.
    pub(crate) fn start(
        name: &str,
        exe: &Path,
        arguments: &[String],
        further: &Further,
        core: Option<usize>,
        folder: Folder,
    ) -> Result<ServerProcess, String> {
        let how = How {
            exe: exe.into(),
            arguments: arguments.into(),
            further: further.clone(),
            core,
        };
        Ok(ServerProcess {
            child: how.spawn(&folder)?,
            how,
            folder,
            name: name.into(),
            command_line: further.command_line(as_typed(exe), arguments),
        })
    }

    /// What is recorded of it as a target, whatever it serves; its first reply `took` so long.
    pub(crate) fn record(&self, took: Duration) -> TargetRecord {
        TargetRecord {
            command_line: self.command_line.clone(),
            pinned_cpus: self.how.core.map(|core| core as u32).into_iter().collect(),
            started_by_bench: true,
            co_located: true,
            start_to_first_reply_ms: Some(took.as_secs_f64() * 1e3),
            idle_rss_bytes: proc::rss_bytes(self.pid()),
            ..TargetRecord::default()
        }
    }

    /// Ends the process at once and starts it anew in the same way, on the same port; returns when it is `ready`.
    ///
    /// # Errors
    /// If it does not start, or is not ready in time.
    pub(crate) fn restart(&mut self, ready: impl Fn() -> bool) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..RESTARTS {
            self.kill();
            self.child = self.how.spawn(&self.folder)?;
            match self.wait_ready(&ready) {
                Ok(_) => return Ok(()),
                // The port of the process before it may not be free yet.
                Err(why) => last = why,
            }
            std::thread::sleep(RESTART_PAUSE);
        }
        Err(last)
    }

    /// Process id.
    #[must_use]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` says yes; returns how long that took. Fails when the process ends or takes too long.
    pub(crate) fn wait_ready(
        &mut self,
        mut ready: impl FnMut() -> bool,
    ) -> Result<Duration, String> {
        let start = Instant::now();
        while start.elapsed() < READY_TIMEOUT {
            if ready() {
                return Ok(start.elapsed());
            }
            if let Some(obituary) = self.obituary() {
                return Err(obituary);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Err(format!(
            "{} did not answer within {} s{}",
            self.name,
            READY_TIMEOUT.as_secs(),
            self.last_words()
        ))
    }

    /// Ends the process at once: what it still wanted to do is not done.
    pub(crate) fn kill(&mut self) {
        // Already gone is as good as killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// How the process ended; `None` while it runs.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!(
            "{} ended ({status}){}",
            self.name,
            self.last_words()
        ))
    }

    fn last_words(&self) -> String {
        let text =
            std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
        if tail.is_empty() {
            return String::new();
        }
        let quoted: Vec<String> = tail
            .iter()
            .map(|line| line.chars().take(LOG_LINE_CHARS).collect())
            .collect();
        format!("; it said: {}", quoted.join(" | "))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // SAFETY: the child has not been waited for, so the pid is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let start = Instant::now();
        while start.elapsed() < END_TIMEOUT {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        self.kill();
    }
}

/// A loopback port that was free a moment ago.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// The loopback endpoint of `port`.
#[must_use]
pub(crate) fn loopback(port: u16) -> Endpoint {
    Endpoint::plain(Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}

/// A program as one would type it here: below the current directory by its relative path, since a record is read on other
/// machines.
fn as_typed(exe: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| exe.strip_prefix(here).ok().map(Path::to_path_buf));
    below.map_or_else(
        || exe.display().to_string(),
        |below| format!("./{}", below.display()),
    )
}
