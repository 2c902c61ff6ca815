//! A gRPC service on a loopback port that allows everything, and hears how long its callers wait.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const FRAME_HEAD: usize = 9;
const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `RateLimitResponse` with `OK`, behind the five bytes of gRPC.
const ALLOWED: [u8; 7] = [0, 0, 0, 0, 2, 0x08, 1];

/// What the service has heard.
#[derive(Default)]
pub(crate) struct Heard {
    /// Values of `grpc-timeout`; an empty one where a connection begins without.
    pub(crate) timeouts: BTreeSet<String>,
    pub(crate) calls: u64,
    pub(crate) taken_back: u64,
    pub(crate) connections: u64,
}

/// How a service treats its callers, all of whom it allows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manners {
    /// It answers every call.
    Fine,
    /// It leaves every so many calls without an answer.
    Silent(u64),
    /// It says after so many calls of a connection that it takes no more, and closes it when its caller does.
    Leaves(u64),
    /// It says so twice: first that it will leave, then which call was its last.
    LeavesSlowly(u64),
    /// It closes a connection after so many calls without a word.
    Closes(u64),
    /// It says at once that it takes no call.
    TakesNone,
}

/// A gRPC service with such manners.
pub(crate) fn service(manners: Manners) -> (SocketAddr, Arc<Mutex<Heard>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Heard::default()));
    let told = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = told.clone();
            std::thread::spawn(move || serve(stream, manners, &told));
        }
    });
    (address, heard)
}

/// Ends with the connection.
fn serve(mut stream: TcpStream, manners: Manners, heard: &Mutex<Heard>) -> Option<()> {
    heard.lock().unwrap().connections += 1;
    let (mut answered, mut left) = (0, false);
    stream.set_nodelay(true).ok()?;
    let mut preface = [0; PREFACE];
    stream.read_exact(&mut preface).ok()?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).ok()?;
    if matches!(manners, Manners::TakesNone) {
        left = true;
        stream.write_all(&goaway(0)).ok()?;
    }
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
            DATA if flags & END_STREAM != 0 && !left => {
                heard.calls += 1;
                if matches!(manners, Manners::Silent(every) if heard.calls.is_multiple_of(every)) {
                    continue;
                }
                answered += 1;
                let mut answer = vec![
                    frame(HEADERS, END_HEADERS, id, b"x"),
                    frame(DATA, 0, id, &ALLOWED),
                    frame(HEADERS, END_HEADERS | END_STREAM, id, b"y"),
                ];
                match manners {
                    Manners::LeavesSlowly(last) if answered + 1 == last => {
                        answer.push(goaway(u32::MAX >> 1));
                    }
                    Manners::Leaves(last) | Manners::LeavesSlowly(last) if answered == last => {
                        left = true;
                        // Before the answer, which is still to be waited for.
                        answer.insert(0, goaway(id));
                    }
                    _ => {}
                }
                stream.write_all(&answer.concat()).ok()?;
                if matches!(manners, Manners::Closes(last) if answered == last) {
                    return Some(());
                }
            }
            _ => {}
        }
    }
}

/// No stream behind `last` is taken.
fn goaway(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
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
