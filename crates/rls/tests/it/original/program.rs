//! Processes of both services on free ports, started by the same environment.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(super) use tollgate_testkit::PATIENCE;
use tollgate_testkit::peers;
use tollgate_testkit::process::{free_port, temp_dir, tollgate_binary};

use super::statsd::Statsd;
use crate::support::{http_exchange, http_request};

const POLL: Duration = Duration::from_millis(10);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Original,
    Ours,
}

/// The original, or `None` after saying that the test is skipped.
pub(super) fn is_there(test: &str) -> bool {
    peers::find_or_skip(test, peers::ENVOY_RATELIMIT).is_some()
}

/// Waits for something that is bound to come.
pub(super) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::sleep(POLL);
    }
}

/// A folder of rules, as `RUNTIME_ROOT/ratelimit/config`.
pub(super) struct Ground(PathBuf);

impl Ground {
    pub(super) fn new(rules: &[(&str, &str)]) -> Self {
        let ground = Self(temp_dir().expect("a temporary folder"));
        fs::create_dir_all(ground.folder()).expect("the folder is ours");
        for (name, text) in rules {
            ground.write(name, text);
        }
        ground
    }

    pub(super) fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.root().join("ratelimit/config")
    }

    /// Puts a file into the folder, whole at once.
    pub(super) fn write(&self, name: &str, text: &str) {
        let (made, path) = (self.0.join("new"), self.folder().join(name));
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
        fs::write(&made, text).expect("the folder is ours");
        fs::rename(made, path).expect("the folder is ours");
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // The folder is the system's to clean up if it will not go.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// One of the two, killed with its guard.
pub(super) struct Program {
    process: Child,
    dir: PathBuf,
    pub(super) grpc: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) debug: SocketAddr,
    pub(super) prometheus: SocketAddr,
    pub(super) statsd: Statsd,
}

impl Program {
    /// Serves the rules of a ground; `env` says on which store and how, beside what both are always told.
    pub(super) fn start(kind: Kind, ground: &Ground, env: &[(&str, &str)]) -> Self {
        let program = Self::start_unready(kind, ground, env);
        wait_for("healthy service", || program.is_healthy());
        program
    }

    /// The same, which need not be healthy.
    pub(super) fn start_unready(kind: Kind, ground: &Ground, env: &[(&str, &str)]) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        let [grpc, http, debug, prometheus] =
            [(); 4].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().expect("a port"))));
        let statsd = Statsd::listen();
        let log = File::create(dir.join("log")).expect("the folder is ours");
        let mut program = Self {
            process: command(kind)
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                .env("HOST", "127.0.0.1")
                .env("PORT", http.port().to_string())
                .env("GRPC_HOST", "127.0.0.1")
                .env("GRPC_PORT", grpc.port().to_string())
                .env("DEBUG_HOST", "127.0.0.1")
                .env("DEBUG_PORT", debug.port().to_string())
                .env("PROMETHEUS_ADDR", prometheus.to_string())
                .env("STATSD_HOST", "127.0.0.1")
                .env("STATSD_PORT", statsd.addr().port().to_string())
                .env("STATS_FLUSH_INTERVAL", "100ms")
                .env("RUNTIME_ROOT", ground.root())
                .env("RUNTIME_SUBDIRECTORY", "ratelimit")
                .env("RUNTIME_WATCH_ROOT", "false")
                .env("REDIS_TIMEOUT", "20s")
                .env("LOG_LEVEL", "info")
                .envs(env.iter().copied())
                .current_dir(&dir)
                .stdin(Stdio::null())
                .stdout(log.try_clone().expect("a file"))
                .stderr(log)
                .spawn()
                .expect("the program starts"),
            dir,
            grpc,
            http,
            debug,
            prometheus,
            statsd,
        };
        let deadline = Instant::now() + PATIENCE;
        let has_socket = env.iter().any(|(name, _)| *name == "GRPC_UDS");
        let mut waits: Vec<SocketAddr> = match has_socket {
            true => vec![http],
            false => vec![grpc, http],
        };
        while {
            waits.retain(|addr| TcpStream::connect(addr).is_err());
            !waits.is_empty()
        } {
            let ended = program.process.try_wait().expect("our process").is_some();
            assert!(
                !ended && Instant::now() < deadline,
                "{kind:?} does not listen:\n{}",
                program.log()
            );
            std::thread::sleep(POLL);
        }
        program
    }

    pub(super) fn is_healthy(&self) -> bool {
        http_exchange(self.http, "GET", "/healthcheck", "").0 == 200
    }

    /// What the debug port has under a path. Whoever asks by HTTP/1.0 is given no chunks.
    pub(super) fn debug_text(&self, path: &str) -> String {
        let head = format!("GET {path} HTTP/1.0\r\nhost: x\r\n\r\n");
        let (status, _, body) = http_request(self.debug, head.as_bytes(), b"");
        assert_eq!(status, 200, "{path}");
        body
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it has ended; its status.
    pub(super) fn end(&mut self) -> Option<i32> {
        let mut status = None;
        wait_for("end", || {
            status = self.process.try_wait().expect("our process");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// What it said so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
        fs::remove_dir_all(&self.dir).ok();
    }
}

fn command(kind: Kind) -> Command {
    match kind {
        Kind::Original => {
            let program = peers::find(peers::ENVOY_RATELIMIT).expect("looked for before");
            Command::new(program)
        }
        Kind::Ours => {
            let mut command = Command::new(ours());
            // A busy machine makes anything wait.
            command.args(["serve", "--bind", "127.0.0.1", "--threads", "2"]);
            command.args(["--shed-after", "0"]);
            command
        }
    }
}

fn ours() -> &'static Path {
    tollgate_binary().expect("tollgate is built")
}
