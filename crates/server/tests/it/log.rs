//! What the server says of itself: the log, the file with its number, whoever supervises it.

use crate::harness::{eventually, info};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tollgate_testkit::process::{free_port, temp_dir, tollgate_binary};
use tollgate_testkit::{Client, PATIENCE, Server, peers};

/// A `tollgate serve` whose log is a file of its folder.
struct Logged {
    child: Option<Child>,
    port: u16,
    dir: PathBuf,
}

impl Logged {
    fn start(flags: &[&str], environment: &[(&str, &str)]) -> Logged {
        let mut logged = Logged {
            child: None,
            port: free_port().unwrap(),
            dir: temp_dir().unwrap(),
        };
        logged.again(flags, environment);
        logged
    }

    /// Starts it (once more) in the same folder.
    fn again(&mut self, flags: &[&str], environment: &[(&str, &str)]) {
        let child = Command::new(tollgate_binary().unwrap())
            .args(["serve", "--threads", "1", "--logfile", "a.log", "--port"])
            .arg(self.port.to_string())
            .arg("--dir")
            .arg(&self.dir)
            .args(flags)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.dir.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        self.child = Some(child);
        eventually("it answers", || {
            Client::connect(([127, 0, 0, 1], self.port).into())
                .and_then(|mut client| client.line("PING"))
                .is_ok()
        });
    }

    fn connect(&self) -> Client {
        Client::connect(([127, 0, 0, 1], self.port).into()).unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap_or_default()
    }

    /// Waits for a line of the log that ends so.
    fn says(&self, end: &str) {
        eventually(end, || {
            self.text("a.log").lines().any(|line| line.ends_with(end))
        });
    }

    fn signal(&self, name: &str) {
        let child = self.child.as_ref().unwrap();
        signal(name, child.id());
    }

    fn ends(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            if start.elapsed() > PATIENCE {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("the server did not end:\n{}", self.text("a.log"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
        fs::remove_dir_all(&self.dir).ok();
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").arg(name).arg(pid.to_string()).status();
    assert!(sent.unwrap().success());
}

/// The lines of a log without process, time and, for what was seen of `wanted`, anything else: sign and text.
fn signs(text: &str) -> Vec<String> {
    let sign = |line: &str| line.splitn(6, ' ').nth(5).map(str::to_owned);
    text.lines().filter_map(sign).collect()
}

/// Does what an operator may do, and returns the log.
fn operate(client: &mut Client, log: impl Fn() -> String) -> Vec<String> {
    for command in [
        "SET a b",
        "BGSAVE",
        "CONFIG SET appendonly yes",
        "CONFIG SET loglevel warning",
        "EVAL redis.log(redis.LOG_NOTICE,'quiet') 0",
        "EVAL redis.log(redis.LOG_WARNING,'loud') 0",
        "CONFIG SET loglevel notice",
        "REPLICAOF 127.0.0.1 1",
        "REPLICAOF NO ONE",
    ] {
        let wait = match command {
            "CONFIG SET appendonly yes" => "Background saving terminated with success",
            "CONFIG SET loglevel warning" => "Background AOF rewrite finished successfully",
            "REPLICAOF NO ONE" => "Connecting to MASTER 127.0.0.1:1",
            _ => "",
        };
        eventually(wait, || log().contains(wait));
        client.line(command).unwrap();
    }
    // What is written reaches the reader of the log a moment after the answer reaches the client.
    eventually("the last line", || {
        log().contains("MASTER MODE enabled (user request")
    });
    signs(&log())
}

#[test]
fn the_lines_are_those_of_redis() {
    let Some(redis) = Server::redis(&[]).unwrap() else {
        return peers::skip("the_lines_are_those_of_redis", "redis-server");
    };
    let tollgate = Server::tollgate(&["--threads", "1"]).unwrap();
    let [theirs, ours] =
        [&redis, &tollgate].map(|server| operate(&mut server.connect().unwrap(), || server.log()));
    for line in [
        "# Server initialized",
        "* Ready to accept connections",
        "* DB saved on disk",
        "* Background saving terminated with success",
        "* Background AOF rewrite finished successfully",
        "# loud",
        "* Connecting to MASTER 127.0.0.1:1",
    ] {
        for (who, lines) in [("redis", &theirs), ("tollgate", &ours)] {
            assert!(
                lines.iter().any(|it| it == line),
                "{who}: {line}: {lines:#?}"
            );
        }
    }
    for start in [
        "* REPLICAOF 127.0.0.1:1 enabled (user request from 'id=",
        "* MASTER MODE enabled (user request from 'id=",
        "* Running mode=standalone, port=",
    ] {
        for (who, lines) in [("redis", &theirs), ("tollgate", &ours)] {
            let found = lines.iter().any(|it| it.starts_with(start));
            assert!(found, "{who}: {start}: {lines:#?}");
        }
    }
    assert!(!ours.iter().any(|line| line.contains("quiet")));
    let log = tollgate.log();
    let of_replica = format!("{}:S ", tollgate.pid());
    let connecting = log.lines().find(|line| line.contains("Connecting to"));
    assert!(connecting.unwrap().starts_with(&of_replica), "{log}");
}

#[test]
fn a_log_that_is_moved_away_goes_on_in_a_new_file() {
    let mut server = Logged::start(&[], &[]);
    server.says(" * Ready to accept connections");
    fs::rename(server.dir.join("a.log"), server.dir.join("a.log.1")).unwrap();
    server
        .connect()
        .line("EVAL redis.log(redis.LOG_WARNING,'later') 0")
        .unwrap();
    server.says(" # later");
    assert!(!server.text("a.log").contains("Ready to accept"));
    server.signal("-TERM");
    assert_eq!(server.ends(), Some(0));
    let log = server.text("a.log");
    assert!(
        log.contains(" # Received SIGTERM scheduling shutdown...\n"),
        "{log}"
    );
    assert!(
        log.ends_with(" # Tollgate is now ready to exit, bye bye...\n"),
        "{log}"
    );
    assert_eq!(server.text("stderr"), "", "nothing is said twice");
}

#[test]
fn a_disk_that_is_full_for_the_log_is_not_the_servers_matter() {
    if !Path::new("/dev/full").exists() {
        return peers::skip(
            "a_disk_that_is_full_for_the_log_is_not_the_servers_matter",
            "/dev/full",
        );
    }
    let server = Server::tollgate(&["--logfile", "/dev/full", "--loglevel", "debug"]).unwrap();
    let mut client = server.connect().unwrap();
    for _ in 0..3_000 {
        client
            .line("EVAL redis.log(redis.LOG_WARNING,'lost') 0")
            .unwrap();
    }
    assert_eq!(client.line("PING").unwrap().as_bytes(), Some(&b"PONG"[..]));
}

#[test]
fn why_a_server_does_not_start_stands_in_its_log() {
    let dir = temp_dir().unwrap();
    fs::write(dir.join("dump.rdb"), b"REDIS0099 is from the future").unwrap();
    let output = Command::new(tollgate_binary().unwrap())
        .args(["serve", "--port", "0", "--logfile", "a.log", "--dir"])
        .arg(&dir)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = fs::read_to_string(dir.join("a.log")).unwrap();
    assert!(log.lines().last().unwrap().contains("dump.rdb"), "{log}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr).lines().count(),
        1,
        "only the reason"
    );
    let output = Command::new(tollgate_binary().unwrap())
        .args(["serve", "--port", "0", "--logfile", "/nonexistent/a.log"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("Can't open the log file /nonexistent/a.log"),
        "{error}"
    );
    assert_eq!(output.status.code(), Some(1));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_number_of_the_process_stands_in_its_file_until_a_clean_end() {
    let mut server = Logged::start(&["--pidfile", "a.pid"], &[]);
    let pid = server.child.as_ref().unwrap().id();
    eventually("the file", || server.text("a.pid") == format!("{pid}\n"));
    server.signal("-TERM");
    assert_eq!(server.ends(), Some(0));
    assert!(!server.dir.join("a.pid").exists());
    server.says(" * Removing the pid file.");
}

#[test]
fn a_daemon_outlives_the_command_that_started_it() {
    let mut server = Logged::start(&["--daemonize", "yes", "--pidfile", "a.pid"], &[]);
    assert_eq!(server.ends(), Some(0), "the command has ended");
    eventually("the file", || server.text("a.pid").ends_with('\n'));
    let pid: u32 = server.text("a.pid").trim().parse().unwrap();
    server.says(" * Ready to accept connections");
    assert_eq!(server.text("stderr"), "");
    assert_eq!(
        server.connect().line("INCR a").unwrap().as_int(),
        Some(1),
        "threads, loops and all"
    );
    signal("-TERM", pid);
    server.says(" # Tollgate is now ready to exit, bye bye...");
    eventually("the file goes", || !server.dir.join("a.pid").exists());
}

#[test]
fn systemd_is_told_when_it_is_ready_and_when_it_ends() {
    let dir = temp_dir().unwrap();
    let path = dir.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut bytes = [0; 500];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    for supervised in ["systemd", "auto"] {
        // In the background it would not be supervised.
        let flags = ["--supervised", supervised, "--daemonize", "yes"];
        let mut server = Logged::start(&flags, &environment);
        assert_eq!(heard(), "STATUS=Ready to accept connections\nREADY=1\n");
        assert_eq!(info(&mut server.connect(), "process_supervised"), "systemd");
        server.signal("-INT");
        assert_eq!(heard(), "STOPPING=1\n");
        assert_eq!(server.ends(), Some(0));
    }
    fs::remove_dir_all(dir).unwrap();
}
