//! Server processes for the length of a test.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_wire::resp::Value;

use crate::{Client, PATIENCE, peers};

/// Pause between two looks at a starting server.
const POLL: Duration = Duration::from_millis(5);

/// Starts tried before giving up: another process may take the free port first.
const ATTEMPTS: usize = 5;

/// A server of this test, ended with its guard. Its files live in a folder of their own that goes with it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    addr: SocketAddr,
    dir: PathBuf,
}

impl Server {
    /// A real redis-server without persistence; `None` where there is none. `flags` come last (`--requirepass`, `x`).
    pub fn redis(flags: &[&str]) -> io::Result<Option<Server>> {
        let program = peers::find("redis-server");
        program
            .map(|program| Server::like_redis(&program, flags))
            .transpose()
    }

    /// The same of a program that takes redis-server's arguments, such as a later redis-server or a valkey-server.
    pub fn like_redis(program: &Path, flags: &[&str]) -> io::Result<Server> {
        start(program, |port, dir| {
            let port = port.to_string();
            let mut args = [
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
            ]
            .map(str::to_owned)
            .to_vec();
            args.push(dir.display().to_string());
            args.extend(["--enable-debug-command", "yes"].map(str::to_owned));
            args.extend(flags.iter().map(|flag| (*flag).to_owned()));
            args
        })
    }

    /// `tollgate serve` with the given flags behind its address. Connections are spread over its threads from the first on,
    /// unless a flag says otherwise.
    pub fn tollgate(flags: &[&str]) -> io::Result<Server> {
        let program = tollgate_binary()?;
        start(program, |port, _| {
            let port = port.to_string();
            let mut args = ["serve", "--port", &port, "--bind", "127.0.0.1"]
                .map(str::to_owned)
                .to_vec();
            if !flags.contains(&"--connections-together") {
                args.extend(["--connections-together", "1"].map(str::to_owned));
            }
            args.extend(flags.iter().map(|flag| (*flag).to_owned()));
            args
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its working folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A new connection.
    pub fn connect(&self) -> io::Result<Client> {
        Client::connect(self.addr)
    }

    /// What it wrote to standard output and standard error so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Exit status if it has ended.
    pub fn exited(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        self.child.try_wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors mean that the process has ended already, or that its folder has gone.
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// The system's folder for temporary files; `/tmp` where the path of that one leaves no room for the names of sockets in it.
#[must_use]
pub fn temp_root() -> PathBuf {
    /// Most bytes of its path: that of a socket has 107 at most, and 103 on some systems.
    const LONGEST: usize = 55;
    let root = std::env::temp_dir();
    if root.as_os_str().len() <= LONGEST {
        root
    } else {
        PathBuf::from("/tmp")
    }
}

/// An empty folder of this process that no other test uses.
pub fn temp_dir() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = format!(
            "tollgate-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let dir = temp_root().join(name);
        match fs::create_dir(&dir) {
            // Left by a process of the same id that was killed: a server would load what it finds there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| dir),
        }
    }
}

/// Ports that systems give neither to `port 0` nor to outgoing connections: Linux starts at 32768, others higher. None of them is
/// the number of a slot of a cluster, so that a port in a reply can be told from one.
const PORTS: std::ops::Range<u16> = 16_385..32_000;

/// A free loopback port that no other test of this machine gets while this process lives: two tests that got the same one would each
/// take the other's server for its own.
pub fn free_port() -> io::Result<u16> {
    /// Locks on the files of the ports given out.
    static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let locks = std::env::temp_dir().join("tollgate-test-ports");
    fs::create_dir_all(&locks)?;
    let count = u32::from(PORTS.end - PORTS.start);
    // Processes start far from each other, so that a port seldom has to be tried twice.
    let first = std::process::id().wrapping_mul(7919);
    for _ in 0..count {
        let offset = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count;
        let port =
            PORTS.start + u16::try_from(offset).expect("less than the length of a range of ports");
        let lock = File::create(locks.join(port.to_string()))?;
        if lock.try_lock().is_ok() && is_free(port) {
            TAKEN.lock().expect("no test panics here").push(lock);
            return Ok(port);
        }
    }
    Err(io::Error::other("no port is free"))
}

/// Whether nobody listens there. Who listened to try it would leave a copy of the socket, for a moment, to each process that
/// another thread is just starting, and the port would be taken.
fn is_free(port: u16) -> bool {
    let tried = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    tried.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn start(program: &Path, args: impl Fn(u16, &Path) -> Vec<String>) -> io::Result<Server> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let port = free_port()?;
        let dir = temp_dir()?;
        let log = File::create(dir.join("log"))?;
        let child = Command::new(program)
            .args(args(port, &dir))
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut server = Server {
            child,
            addr: (Ipv4Addr::LOCALHOST, port).into(),
            dir,
        };
        match server.wait_until_ready() {
            Ok(()) => return Ok(server),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("at least one attempt was made"))
}

impl Server {
    fn wait_until_ready(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!(
                    "the server ended with {status}:\n{}",
                    self.log()
                )));
            }
            if is_ready(self.connect().and_then(|mut client| client.call(&["PING"]))) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!(
                    "no answer within {PATIENCE:?}:\n{}",
                    self.log()
                )));
            }
            thread::sleep(POLL);
        }
    }
}

/// A server with a password answers PING with an error, which is an answer too; but not that it has yet to load its data.
fn is_ready(pong: io::Result<Value>) -> bool {
    match pong {
        Ok(Value::Error(reason)) => !reason.starts_with(b"LOADING"),
        Ok(Value::Simple(_)) => true,
        Ok(_) | Err(_) => false,
    }
}

/// The `tollgate` binary: `TOLLGATE_BIN` if set, else built once per test process in the profile of the tests, so that tests never
/// run against an old one.
pub fn tollgate_binary() -> io::Result<&'static Path> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BINARY.get_or_init(|| build_tollgate().map_err(|error| error.to_string())) {
        Ok(path) => Ok(path),
        Err(error) => Err(io::Error::other(error.clone())),
    }
}

fn build_tollgate() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("TOLLGATE_BIN") {
        return Ok(path.into());
    }
    // target/<profile>/deps/<test> or target/<profile>/<tool>
    let exe = std::env::current_exe()?;
    let in_deps = exe.parent().is_some_and(|dir| dir.ends_with("deps"));
    let dir = exe
        .ancestors()
        .nth(if in_deps { 2 } else { 1 })
        .ok_or_else(|| io::Error::other("the test binary lies nowhere"))?;
    let mut build = crate::cargo();
    build.args(["build", "--quiet", "--bin", "tollgate"]);
    if dir.ends_with("release") {
        build.args(["--release", "--package", "tollgate"]);
    } else {
        // With the features that the tests of the workspace ask of other crates, so that `cargo test --workspace`, which
        // builds the program for its own tests, builds nothing twice.
        build.args(["--workspace", "--test", "program"]);
    }
    let output = build.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "cargo build --package tollgate failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    Ok(dir.join("tollgate"))
}
