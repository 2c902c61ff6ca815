//! Memcached's binary protocol against a real memcached, frame by frame.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use tollgate_testkit::PATIENCE;
use tollgate_testkit::peers;

use crate::memcached_peer::{Memcached, Real, start};
use crate::peers::run;

/// A client that speaks the protocol.
struct Binary(TcpStream);

/// A request: opcode, unique number, extras, key, value.
type Request = (u8, u64, Vec<u8>, Vec<u8>, Vec<u8>);

fn request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Request {
    (opcode, 0, extras.to_vec(), key.to_vec(), value.to_vec())
}

fn bytes((opcode, cas, extras, key, value): &Request) -> Vec<u8> {
    let body = extras.len() + key.len() + value.len();
    let mut out = vec![0x80, *opcode];
    out.extend((key.len() as u16).to_be_bytes());
    out.extend([extras.len() as u8, 0, 0, 0]);
    out.extend((body as u32).to_be_bytes());
    // What the client means by it: which of its requests that was.
    out.extend([0xde, 0xad, 0xbe, *opcode]);
    out.extend(cas.to_be_bytes());
    [&out[..], extras, key, value].concat()
}

/// An answer: opcode, status, unique number, extras, key, value.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    opcode: u8,
    status: u16,
    cas: u64,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

const NOOP: u8 = 0x0a;

impl Binary {
    fn connect(addr: SocketAddr) -> Binary {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Binary(stream)
    }

    fn send(&mut self, requests: &[Request]) {
        let frames: Vec<u8> = requests.iter().flat_map(bytes).collect();
        self.0.write_all(&frames).unwrap();
    }

    /// The next answer; `None` when the other side has closed.
    fn answer(&mut self) -> Option<Answer> {
        let mut head = [0; 24];
        self.0.read_exact(&mut head).ok()?;
        assert_eq!(head[0], 0x81);
        assert_eq!(head[12..15], [0xde, 0xad, 0xbe]);
        assert_eq!(head[15], head[1]);
        let body = u32::from_be_bytes(head[8..12].try_into().unwrap());
        let mut rest = vec![0; body as usize];
        self.0.read_exact(&mut rest).unwrap();
        let value = rest.split_off(usize::from(head[4]) + usize::from(head[3]));
        let key = rest.split_off(usize::from(head[4]));
        Some(Answer {
            opcode: head[1],
            status: u16::from_be_bytes([head[6], head[7]]),
            cas: u64::from_be_bytes(head[16..24].try_into().unwrap()),
            extras: rest,
            key,
            value,
        })
    }

    /// All answers to these requests, up to the one of a NOOP behind them or the end.
    fn ask(&mut self, requests: &[Request]) -> Vec<Answer> {
        self.send(requests);
        self.send(&[request(NOOP, b"", b"", b"")]);
        let mut answers = Vec::new();
        while let Some(answer) = self.answer() {
            if answer.opcode == NOOP {
                break;
            }
            answers.push(answer);
        }
        answers
    }
}

/// Extras of SET and its like.
fn stored(flags: u32, exptime: u32) -> Vec<u8> {
    [flags.to_be_bytes(), exptime.to_be_bytes()].concat()
}

/// Extras of INCREMENT and DECREMENT.
fn number(delta: u64, initial: u64, exptime: u32) -> Vec<u8> {
    let numbers = [delta.to_be_bytes(), initial.to_be_bytes()].concat();
    [&numbers[..], &exptime.to_be_bytes()].concat()
}

fn cases() -> Vec<Vec<Request>> {
    [about_items(), about_the_server(), no_requests()].concat()
}

fn set(opcode: u8, key: &[u8], value: &[u8]) -> Request {
    request(opcode, &stored(5, 0), key, value)
}

fn ask(opcode: u8, key: &[u8]) -> Request {
    request(opcode, b"", key, b"")
}

fn about_items() -> Vec<Vec<Request>> {
    let mut cases = Vec::new();
    // Stores, told and quiet, and reads with and without the key.
    for opcode in [0x01, 0x02, 0x03, 0x11, 0x12, 0x13] {
        cases.push(vec![
            set(opcode, b"k", b"one"),
            ask(0x00, b"k"),
            set(opcode, b"k", b"two"),
            ask(0x09, b"k"),
            ask(0x0c, b"k"),
            ask(0x0d, b"k"),
        ]);
    }
    cases.push(
        [0x00, 0x09, 0x0c, 0x0d, 0x04, 0x14]
            .map(|get| ask(get, b"none"))
            .to_vec(),
    );
    cases.push(vec![
        set(0x01, b"a key\r\nx", b"\0\r\n"),
        ask(0x0c, b"a key\r\nx"),
        set(0x01, b"empty", b""),
        ask(0x00, b"empty"),
        set(0x01, &[b'k'; 250], b"v"),
        ask(0x00, &[b'k'; 250]),
    ]);
    for opcode in [0x0e, 0x0f, 0x19, 0x1a] {
        cases.push(vec![
            request(opcode, b"", b"k", b"x"),
            set(0x01, b"k", b"middle"),
            request(opcode, b"", b"k", b"x"),
            ask(0x00, b"k"),
        ]);
    }
    for opcode in [0x05, 0x06, 0x15, 0x16] {
        let add = |extras: &[u8]| request(opcode, extras, b"n", b"");
        cases.push(vec![
            add(&number(3, 10, u32::MAX)),
            add(&number(3, 10, 0)),
            add(&number(3, 10, 0)),
            ask(0x00, b"n"),
            add(&number(100, 0, u32::MAX)),
            set(0x01, b"n", b"text"),
            add(&number(1, 0, 0)),
        ]);
    }
    for opcode in [0x1c, 0x1d, 0x1e, 0x23, 0x24] {
        let touch = |key: &[u8]| request(opcode, &[0, 0, 0, 100], key, b"");
        cases.push(vec![
            touch(b"k"),
            set(0x01, b"k", b"v"),
            touch(b"k"),
            ask(0x00, b"k"),
        ]);
    }
    // Unique numbers: one that nobody was told.
    for opcode in [0x01, 0x02, 0x03, 0x0e, 0x04, 0x05] {
        let extras = match opcode {
            0x01..=0x03 => stored(1, 0),
            0x05 => number(1, 1, 0),
            _ => Vec::new(),
        };
        let value = if matches!(opcode, 0x04 | 0x05) {
            ""
        } else {
            "2"
        };
        let other = (opcode, 1 << 60, extras, b"k".to_vec(), value.into());
        cases.push(vec![
            other.clone(),
            set(0x01, b"k", b"1"),
            other,
            ask(0x00, b"k"),
        ]);
    }
    cases
}

fn about_the_server() -> Vec<Vec<Request>> {
    vec![
        vec![request(0x0b, b"", b"", b""), request(0x20, b"", b"", b"")],
        vec![
            request(0x21, b"", b"PLAIN", b"\0u\0p"),
            request(0x22, b"", b"PLAIN", b""),
        ],
        vec![
            set(0x01, b"k", b"v"),
            request(0x08, b"", b"", b""),
            ask(0x00, b"k"),
        ],
        vec![request(0x18, &[0, 0, 3, 232], b"", b""), ask(0x00, b"k")],
        vec![
            request(0x10, b"", b"nosuch", b""),
            request(0x10, b"", b"reset", b""),
        ],
    ]
}

fn no_requests() -> Vec<Vec<Request>> {
    // With extras or a key memcached loses its place in the stream.
    let mut cases = vec![vec![request(0x77, b"", b"", b"value"), ask(0x00, b"k")]];
    for odd in [
        request(0x00, b"", b"", b""),
        request(0x00, b"ex", b"k", b""),
        request(0x00, b"", b"k", b"value"),
        request(0x00, b"", &[b'k'; 251], b""),
        request(0x01, b"", b"k", b"v"),
        request(0x05, b"", b"k", b""),
        request(0x04, b"", b"k", b"value"),
        request(0x0b, b"", b"k", b""),
        request(0x08, b"e", b"", b""),
        request(0x1c, b"", b"k", b""),
        request(0x07, b"", b"", b""),
        request(0x17, b"", b"", b""),
    ] {
        cases.push(vec![ask(0x00, b"none"), odd, ask(0x00, b"none")]);
    }
    let big = vec![b'x'; 1_100_000];
    for opcode in [0x01, 0x02, 0x11] {
        cases.push(vec![
            set(0x01, b"k", b"v"),
            set(opcode, b"k", &big),
            ask(0x00, b"k"),
        ]);
    }
    cases
}

#[test]
fn every_frame_as_memcached_answers() {
    let Some(real) = Real::start(&[]) else {
        return peers::skip("every_frame_as_memcached_answers", "memcached");
    };
    for threads in ["1", "2"] {
        let (_local, addr) = start(threads, &[]);
        for (number, case) in cases().iter().enumerate() {
            let answers = |addr| {
                Binary::connect(addr).ask(&[request(0x08, b"", b"", b"")]);
                let mut answers = Binary::connect(addr).ask(case);
                for answer in &mut answers {
                    // Unique numbers differ; that there is one is the same.
                    answer.cas = answer.cas.min(1);
                }
                answers
            };
            let mut both = (answers(addr), answers(real.addr));
            // memcached's clock has whole seconds: what was stored within one may outlive a flush.
            for _ in 0..5 {
                if both.0 == both.1 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1_100));
                both = (answers(addr), answers(real.addr));
            }
            assert_eq!(
                both.0, both.1,
                "case {number}, {threads} threads: {case:02x?}"
            );
        }
    }
}

#[test]
fn frames_and_lines_share_items_and_unique_numbers() {
    let (_local, addr) = start("2", &[]);
    let (mut binary, mut text) = (Binary::connect(addr), Memcached::connect(addr));
    text.ask("set k 7 0 1\r\na\r\n");
    let got = binary.ask(&[request(0x00, b"", b"k", b"")]);
    assert_eq!(
        (&got[0].extras[..], &got[0].value[..]),
        (&[0, 0, 0, 7][..], &b"a"[..])
    );
    assert_eq!(text.cas_of("k"), Some(got[0].cas));
    let mut swap = request(0x01, &stored(8, 0), b"k", b"b");
    swap.1 = got[0].cas;
    let done = binary.ask(&[swap.clone(), swap]);
    assert_eq!((done[0].status, done[1].status), (0, 2));
    assert_eq!(text.cas_of("k"), Some(done[0].cas));
    assert_eq!(text.text("get k\r\n"), "VALUE k 8 1\r\nb\r\nEND\r\n");
    // Statistics end with a frame without a name.
    binary.send(&[request(0x10, b"", b"", b"")]);
    let mut names = Vec::new();
    loop {
        let answer = binary.answer().unwrap();
        if answer.key.is_empty() {
            break;
        }
        names.push(String::from_utf8(answer.key).unwrap());
    }
    assert!(names.iter().any(|name| name == "cmd_get"), "{names:?}");
    assert!(names.iter().any(|name| name == "curr_items"), "{names:?}");
}

#[test]
fn a_password_is_given_by_sasl() {
    let (_local, addr) = start("1", &[("requirepass", "secret")]);
    let log_in = |password: &str| {
        let data = format!("\0default\0{password}");
        request(0x21, b"", b"PLAIN", data.as_bytes())
    };
    let get = request(0x00, b"", b"k", b"");
    // Who has not logged in hears so and no more.
    let mut stranger = Binary::connect(addr);
    stranger.send(std::slice::from_ref(&get));
    assert_eq!(stranger.answer().unwrap().status, 0x20);
    assert_eq!(stranger.answer(), None);

    let mut client = Binary::connect(addr);
    let ask = [
        request(0x20, b"", b"", b""),
        log_in("wrong"),
        log_in("secret"),
        get,
    ];
    client.send(&ask);
    let answers: Vec<_> = (0..4).map(|_| client.answer().unwrap()).collect();
    assert_eq!(answers[0].value, b"PLAIN");
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [0, 0x20, 0, 1]);
}

/// libmemcached's own test of servers.
#[test]
fn memccapable() {
    let programs = ["memccapable", "memcapable"];
    let Some(program) = programs.iter().find_map(|name| peers::find(name)) else {
        return peers::skip("memccapable", "memccapable");
    };
    let (_local, addr) = start("2", &[]);
    let mut command = Command::new(program);
    command.args([
        "-h",
        "127.0.0.1",
        "-t",
        "30",
        "-p",
        &addr.port().to_string(),
    ]);
    run(command);
}
