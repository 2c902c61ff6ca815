//! Callers over gRPC say how long they wait, and take back what has no answer by then: without that a service cannot shed
//! what nobody waits for, and an overload or a recovery would be measured under a load that no client makes.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use tollgate_testkit::process::{temp_dir, tollgate_binary};

const FRAME_HEAD: usize = 9;
const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `RateLimitResponse` with `OK`, behind the five bytes of gRPC.
const ALLOWED: [u8; 7] = [0, 0, 0, 0, 2, 0x08, 1];

/// What the service has heard.
#[derive(Default)]
struct Heard {
    /// Values of `grpc-timeout`; an empty one where a connection begins without.
    timeouts: BTreeSet<String>,
    calls: u64,
    taken_back: u64,
}

/// A gRPC service that allows everything but leaves every `silent`th call without an answer.
fn service(silent: Option<u64>) -> (SocketAddr, Arc<Mutex<Heard>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Heard::default()));
    let told = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = told.clone();
            std::thread::spawn(move || serve(stream, silent, &told));
        }
    });
    (address, heard)
}

/// Ends with the connection.
fn serve(mut stream: TcpStream, silent: Option<u64>, heard: &Mutex<Heard>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut preface = [0; PREFACE];
    stream.read_exact(&mut preface).ok()?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).ok()?;
    loop {
        let mut head = [0; FRAME_HEAD];
        stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).ok()?;
        let (kind, flags) = (head[3], head[4]);
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut heard = heard.lock().unwrap();
        match kind {
            // The first headers of a connection name everything; later ones refer to them.
            HEADERS if id == 1 => drop(heard.timeouts.insert(timeout_in(&payload))),
            RST_STREAM => heard.taken_back += 1,
            DATA if flags & END_STREAM != 0 => {
                heard.calls += 1;
                if silent.is_some_and(|every| heard.calls.is_multiple_of(every)) {
                    continue;
                }
                let answer = [
                    frame(HEADERS, END_HEADERS, id, b"x"),
                    frame(DATA, 0, id, &ALLOWED),
                    frame(HEADERS, END_HEADERS | END_STREAM, id, b"y"),
                ];
                stream.write_all(&answer.concat()).ok()?;
            }
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

fn timeout_in(headers: &[u8]) -> String {
    const NAME: &[u8] = b"grpc-timeout";
    let at = headers.windows(NAME.len()).position(|part| part == NAME);
    let value = at.and_then(|at| {
        let (length, rest) = headers[at + NAME.len()..].split_first()?;
        rest.get(..usize::from(*length))
    });
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

/// Runs the bench on the service; what it said.
fn bench(address: SocketAddr, args: &[&str]) -> String {
    let folder = temp_dir().unwrap();
    let output = Command::new(tollgate_binary().unwrap())
        .arg("bench")
        .args(args)
        .args(["--target", &format!("fake=grpc://{address}")])
        .args([
            "--scenario",
            "single-key",
            "--no-calibrate",
            "--pin",
            "none",
        ])
        .args(["--warmup", "0s", "--grpc-connections", "2"])
        .args(["--grpc-streams", "4", "--out"])
        .arg(folder.join("results"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    // 3: the run is invalid by its own rules, as on a busy machine.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    said
}

fn words(text: &[&str]) -> BTreeSet<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_recovery_run_says_the_deadline_of_each_variant() {
    let (address, heard) = service(None);
    let short = ["--phase", "1s,1s,2s", "--good-for", "2s", "--step", "200ms"];
    let args = ["recovery", "--knee", "100", "--retries", "0"];
    let variants = ["--deadlines", "700ms,inf"];
    let said = bench(address, &[&args[..], &variants, &short].concat());
    let heard = heard.lock().unwrap();
    // The plain rows have the deadline of --deadline; who waits as long as it takes says nothing, as does the probe.
    assert_eq!(heard.timeouts, words(&["", "1000m", "700m"]), "{said}");
}

#[test]
fn what_has_no_answer_by_the_deadline_is_taken_back() {
    let (address, heard) = service(Some(3));
    let args = ["--ladder", "200", "--step", "1s", "--deadline", "150ms"];
    let said = bench(address, &args);
    let heard = heard.lock().unwrap();
    assert_eq!(heard.timeouts, words(&["150m"]), "{said}");
    // Eight places would soon be taken for good by calls without an answer.
    assert!(heard.taken_back > 0, "{} calls", heard.calls);
}
