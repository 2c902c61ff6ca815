//! A real redis-server on a unix socket, for one test.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tollgate_testkit::PATIENCE;
use tollgate_testkit::process::temp_dir;
use tollgate_wire::resp::{Value, read_value, write_command};

pub(crate) struct Redis {
    process: Child,
    dir: PathBuf,
    stream: UnixStream,
    unread: Vec<u8>,
}

impl Redis {
    #[allow(clippy::print_stdout, reason = "the test output says what was skipped")]
    /// `None` when redis-server is not installed (which is an error where `CI` is set).
    pub(crate) fn start() -> Option<Self> {
        let dir = temp_dir().expect("a temporary folder");
        let socket = dir.join("s");
        let spawned = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket)
            .arg("--dir")
            .arg(&dir)
            .stdout(Stdio::null())
            .spawn();
        let Ok(process) = spawned else {
            assert!(std::env::var_os("CI").is_none(), "redis-server is missing");
            println!("skipped: needs redis-server");
            return None;
        };
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > deadline => {
                    panic!("redis-server does not answer: {error}")
                }
                Err(_) => std::thread::yield_now(),
            }
        };
        Some(Self {
            process,
            dir,
            stream,
            unread: Vec::new(),
        })
    }

    pub(crate) fn call(&mut self, words: &[&[u8]]) -> Value {
        let mut request = Vec::new();
        write_command(&mut request, words);
        self.stream.write_all(&request).expect("redis-server reads");
        loop {
            if let Some((value, used)) = read_value(&self.unread).expect("a well-formed reply") {
                self.unread.drain(..used);
                return value;
            }
            let mut chunk = [0; 4096];
            let n = self.stream.read(&mut chunk).expect("redis-server writes");
            assert!(n > 0, "redis-server closed the connection");
            self.unread.extend_from_slice(&chunk[..n]);
        }
    }

    pub(crate) fn ints(&mut self, words: &[&[u8]]) -> Vec<i64> {
        match self.call(words) {
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_int().expect("integers"))
                .collect(),
            other => panic!("not an array: {other:?}"),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let stopped = self.process.kill().and_then(|()| self.process.wait());
        let removed = std::fs::remove_dir_all(&self.dir);
        if !std::thread::panicking() {
            stopped.expect("redis-server was running");
            removed.expect("the folder was ours");
        }
    }
}
