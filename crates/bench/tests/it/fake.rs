//! A RESP server on a loopback port that behaves as a test wants.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use tollgate_bench::load::address::{Address, Endpoint};
use tollgate_wire::resp::{Limits, Progress, RequestParser};

/// What the server does with decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    /// Admits `limit + surplus` requests per key, whatever the window.
    Limiter { surplus: u64 },
    /// Admits this many percent of the limit too much per key.
    SurplusPercent(u64),
    /// Begins to count a key anew after this many decisions, as a limiter does at a boundary that lies elsewhere.
    BeginsAnew(u64),
    /// Charges two for one.
    DoubleCharge,
    /// Resets the connection instead of deciding.
    Resets,
    /// Answers this many decisions, then closes every connection and the port.
    DiesAfter(u64),
    /// Answers decisions with bytes that are not RESP.
    Garbage,
    /// Never answers a decision.
    Hangs,
    /// Answers decisions with an error.
    Errors,
    /// Answers decisions with valid replies that are none.
    OtherShape,
    /// Answers nobody while a script runs.
    StandsStill,
    /// Decides slowly for a while once it was asked for more than so many decisions in a tenth of a second.
    SulksAbove(u64),
}

struct Shared {
    behaviour: Behaviour,
    decided: AtomicU64,
    stop: AtomicBool,
    counters: Mutex<HashMap<Vec<u8>, u64>>,
    /// Held by scripts of a server that stands still meanwhile.
    running: RwLock<()>,
    mood: Mutex<Mood>,
}

/// How often a server that sulks was asked lately, and until when it is slow.
struct Mood {
    since: Instant,
    asked: u64,
    slow_until: Instant,
}

impl Mood {
    fn new() -> Mood {
        let now = Instant::now();
        Mood {
            since: now,
            asked: 0,
            slow_until: now,
        }
    }

    /// Takes a decision into account.
    fn asked(&mut self, most: u64) {
        let now = Instant::now();
        if now.duration_since(self.since) > Duration::from_millis(100) {
            (self.since, self.asked) = (now, 0);
        }
        self.asked += 1;
        if self.asked > most && now > self.slow_until {
            self.slow_until = now + SULK;
        }
    }
}

/// How long a server sulks, and how long each of its answers then takes.
const SULK: Duration = Duration::from_secs(2);
const SLOW: Duration = Duration::from_millis(40);

/// Additions that a script makes in a second.
const ADDITIONS_PER_SECOND: f64 = 20e6;

/// The server; ends with its owner.
pub(crate) struct FakeServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl FakeServer {
    pub(crate) fn start(behaviour: Behaviour) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            behaviour,
            decided: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            counters: Mutex::default(),
            running: RwLock::default(),
            mood: Mutex::new(Mood::new()),
        });
        let state = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if state.stop.load(Ordering::SeqCst) {
                    return;
                }
                let state = state.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        FakeServer { address, shared }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::plain(Address::Tcp(self.address))
    }

    /// Decisions asked for so far.
    pub(crate) fn decided(&self) -> u64 {
        self.shared.decided.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("fake=redis://{}", self.address)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then sees the flag.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    stream.set_nodelay(true).unwrap();
    let mut parser = RequestParser::new();
    let (mut input, mut bytes) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let count = match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => count,
        };
        input.extend_from_slice(&bytes[..count]);
        let mut output = Vec::new();
        while let Ok(Progress::Ready { consumed }) = parser.parse(&input, &Limits::authenticated())
        {
            let args: Vec<Vec<u8>> = parser.args(&input).iter().map(|arg| arg.to_vec()).collect();
            input.drain(..consumed);
            if matches!(shared.behaviour, Behaviour::Resets)
                && args[0].eq_ignore_ascii_case(b"EVALSHA")
            {
                reset(&stream);
                return;
            }
            if !answer(&args, shared, &mut output) {
                // Dead: what was decided before still goes out, as from a real process.
                drop(stream.write_all(&output));
                return;
            }
        }
        if Instant::now() < shared.mood.lock().unwrap().slow_until {
            std::thread::sleep(SLOW);
        }
        if stream.write_all(&output).is_err() {
            return;
        }
    }
}

/// Lets the socket end with a reset when it is dropped.
fn reset(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the option's value is a `linger` of the length given, and the descriptor is open.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
}

/// False when the server is to die.
fn answer(args: &[Vec<u8>], shared: &Shared, output: &mut Vec<u8>) -> bool {
    let name = args[0].to_ascii_uppercase();
    match name.as_slice() {
        b"PING" => output.extend_from_slice(b"+PONG\r\n"),
        b"INFO" => output.extend_from_slice(b"$21\r\nredis_version:0.0.1\r\n\r\n"),
        b"COMMAND" => output.extend_from_slice(b"*1\r\n*-1\r\n"),
        b"SCRIPT" => {
            output.extend_from_slice(b"$40\r\n");
            output.extend_from_slice(&[b'a'; 40]);
            output.extend_from_slice(b"\r\n");
        }
        b"SET" => output.extend_from_slice(b"+OK\r\n"),
        b"GET" => {
            let _waits = shared.running.read().unwrap();
            output.extend_from_slice(b"$1\r\nx\r\n");
        }
        b"EVAL" => script(args, shared, output),
        b"INCR" => output.extend_from_slice(b":1\r\n"),
        b"EVALSHA" => return decide(args, shared, output),
        _ => output.extend_from_slice(b"-ERR unknown command\r\n"),
    }
    true
}

/// A script that adds as often as its only argument says.
fn script(args: &[Vec<u8>], shared: &Shared, output: &mut Vec<u8>) {
    let alone = matches!(shared.behaviour, Behaviour::StandsStill);
    let _held = alone.then(|| shared.running.write().unwrap());
    let additions: f64 = std::str::from_utf8(&args[4]).unwrap().parse().unwrap();
    std::thread::sleep(Duration::from_secs_f64(additions / ADDITIONS_PER_SECOND));
    output.extend_from_slice(b":1\r\n");
}

fn decide(args: &[Vec<u8>], shared: &Shared, output: &mut Vec<u8>) -> bool {
    let number = shared.decided.fetch_add(1, Ordering::SeqCst) + 1;
    match shared.behaviour {
        Behaviour::DiesAfter(last) if number > last => {
            shared.stop.store(true, Ordering::SeqCst);
            return false;
        }
        Behaviour::Garbage => output.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        Behaviour::Hangs | Behaviour::Resets => {}
        Behaviour::OtherShape => output.extend_from_slice(b"*2\r\n:1\r\n:2\r\n"),
        Behaviour::Errors => output.extend_from_slice(b"-OOM command not allowed\r\n"),
        Behaviour::Limiter { surplus } => {
            let allowed = count(args, shared, 1) <= limit(args) + surplus;
            verdict(allowed, output);
        }
        Behaviour::SurplusPercent(percent) => {
            let limit = limit(args);
            verdict(
                count(args, shared, 1) <= limit + limit * percent / 100,
                output,
            );
        }
        Behaviour::BeginsAnew(after) => {
            let counted = (count(args, shared, 1) - 1) % after + 1;
            verdict(counted <= limit(args), output);
        }
        Behaviour::DoubleCharge => verdict(count(args, shared, 2) <= limit(args), output),
        Behaviour::SulksAbove(most) => {
            shared.mood.lock().unwrap().asked(most);
            output.extend_from_slice(b":1\r\n");
        }
        Behaviour::DiesAfter(_) | Behaviour::StandsStill => output.extend_from_slice(b":1\r\n"),
    }
    true
}

/// The limit that a script is given.
fn limit(args: &[Vec<u8>]) -> u64 {
    std::str::from_utf8(&args[4]).unwrap().parse().unwrap()
}

/// What the key of a script has been charged, with this request.
fn count(args: &[Vec<u8>], shared: &Shared, cost: u64) -> u64 {
    let mut counters = shared.counters.lock().unwrap();
    let count = counters.entry(args[3].clone()).or_default();
    *count += cost;
    *count
}

fn verdict(allowed: bool, output: &mut Vec<u8>) {
    output.extend_from_slice(if allowed { b":1\r\n" } else { b":0\r\n" });
}

/// Reads a request over HTTP to its end; `None` once no more come.
pub(crate) fn http_request(reader: &mut BufReader<TcpStream>) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()
}
