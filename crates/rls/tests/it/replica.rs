//! `tollgate serve` as a process: what can be killed, and what stands beside others of its kind.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testkit::PATIENCE;
use tollgate_testkit::process::{temp_dir, tollgate_binary};

use crate::support::http_exchange;

/// A process of its own, killed with its guard (`kill -9`).
pub(crate) struct Replica {
    process: Child,
    dir: PathBuf,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
}

impl Replica {
    /// Serves the rules of a folder on free ports; `flags` say on which backend.
    pub(crate) fn start(rules: &Path, flags: &[&str]) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        let log = File::create(dir.join("log")).expect("the folder is ours");
        let mut process = Command::new(tollgate_binary().expect("tollgate is built"))
            .args(["serve", "--bind", "127.0.0.1", "--threads", "2"])
            // A busy machine makes anything wait.
            .args(["--shed-after", "0", "--backend-timeout", "20000"])
            .args(["--grpc-port", "0", "--http-port", "0", "--rules"])
            .arg(rules)
            .args(flags)
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("tollgate starts");
        let deadline = Instant::now() + PATIENCE;
        let (grpc, http) = loop {
            let text = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            if let (Some(grpc), Some(http)) = (announced(&text, "grpc"), announced(&text, "http")) {
                break (grpc, http);
            }
            let ended = process.try_wait().expect("our process").is_some();
            assert!(
                !ended && Instant::now() < deadline,
                "tollgate does not get ready:\n{text}"
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        Self {
            process,
            dir,
            grpc,
            http,
        }
    }

    /// Requests that it was asked to decide over gRPC and HTTP so far.
    pub(crate) fn asked(&self) -> u64 {
        asked_on(self.http)
    }
}

/// Requests that the service of an HTTP port was asked to decide so far.
pub(crate) fn asked_on(http: SocketAddr) -> u64 {
    let (status, _, text) = http_exchange(http, "GET", "/metrics", "");
    assert_eq!(status, 200);
    let name = "ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} ";
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.parse().ok())
        .expect("the metric is there")
}

/// The address after a word on the line that says what listens where.
fn announced(log: &str, what: &str) -> Option<SocketAddr> {
    let (_, ready) = log.split_once(" ready: ")?;
    let (line, _) = ready.split_once('\n')?;
    line.split(", ")
        .find_map(|part| part.strip_prefix(what)?.trim().parse().ok())
}

impl Drop for Replica {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.dir).ok();
    }
}
