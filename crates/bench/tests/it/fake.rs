//! A RESP server on a loopback port that behaves as a test wants.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tollgate_bench::load::address::{Address, Endpoint};
use tollgate_wire::resp::{Limits, Progress, RequestParser};

/// What the server does with decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    /// Admits `limit + surplus` requests per key, whatever the window.
    Limiter { surplus: u64 },
    /// Answers this many decisions, then closes every connection and the port.
    DiesAfter(u64),
    /// Answers decisions with bytes that are not RESP.
    Garbage,
    /// Never answers a decision.
    Hangs,
    /// Answers decisions with an error.
    Errors,
}

struct Shared {
    behaviour: Behaviour,
    decided: AtomicU64,
    stop: AtomicBool,
    counters: Mutex<HashMap<Vec<u8>, u64>>,
}

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
            if !answer(&args, shared, &mut output) {
                // Dead: what was decided before still goes out, as from a real process.
                drop(stream.write_all(&output));
                return;
            }
        }
        if stream.write_all(&output).is_err() {
            return;
        }
    }
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
        b"GET" => output.extend_from_slice(b"$1\r\nx\r\n"),
        b"INCR" => output.extend_from_slice(b":1\r\n"),
        b"EVALSHA" => return decide(args, shared, output),
        _ => output.extend_from_slice(b"-ERR unknown command\r\n"),
    }
    true
}

fn decide(args: &[Vec<u8>], shared: &Shared, output: &mut Vec<u8>) -> bool {
    let number = shared.decided.fetch_add(1, Ordering::SeqCst) + 1;
    match shared.behaviour {
        Behaviour::DiesAfter(last) if number > last => {
            shared.stop.store(true, Ordering::SeqCst);
            return false;
        }
        Behaviour::Garbage => output.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        Behaviour::Hangs => {}
        Behaviour::Errors => output.extend_from_slice(b"-OOM command not allowed\r\n"),
        Behaviour::Limiter { surplus } => {
            let limit: u64 = std::str::from_utf8(&args[4]).unwrap().parse().unwrap();
            let mut counters = shared.counters.lock().unwrap();
            let count = counters.entry(args[3].clone()).or_default();
            *count += 1;
            let allowed = *count <= limit + surplus;
            output.extend_from_slice(if allowed { b":1\r\n" } else { b":0\r\n" });
        }
        Behaviour::DiesAfter(_) => output.extend_from_slice(b":1\r\n"),
    }
    true
}
