//! HTTP and memcached targets that answer rightly, wrongly, in pieces or not at all.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;

use tollgate_bench::load::address::{Address, Endpoint};
use tollgate_bench::load::http::{HttpAsk, RATE_LIMIT_BODY};
use tollgate_bench::load::keys::Spreading;
use tollgate_bench::load::live::Live;
use tollgate_bench::load::memcache::MemcacheAsk;
use tollgate_bench::load::open::{self, Outcome, Own, Plan};
use tollgate_bench::load::open_loop::Bounds;
use tollgate_bench::load::schedule::Arrivals;
use tollgate_bench::load::workload::{Ask, Rule, Workload};

use crate::fake::http_request;

const MS: u64 = 1_000_000;
const REQUESTS: u64 = 60;
const RULE: Rule = Rule {
    limit: 10,
    window_s: 60,
};

/// Answers request number `n`, counted from 1; `None` closes the connection.
type Answer = fn(n: u64) -> Option<Vec<u8>>;

/// A server for one connection after the other that reads one request with `read` and answers it in pieces.
fn serve(read: fn(&mut BufReader<TcpStream>) -> Option<()>, answer: Answer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut number = 0;
        for stream in listener.incoming().flatten() {
            stream.set_nodelay(true).unwrap();
            let mut writer = stream.try_clone().unwrap();
            let mut reader = BufReader::new(stream);
            while read(&mut reader).is_some() {
                number += 1;
                let Some(bytes) = answer(number) else { return };
                // Every byte by itself: an answer does not come whole.
                for byte in bytes.chunks(1) {
                    if writer.write_all(byte).is_err() {
                        return;
                    }
                }
            }
        }
    });
    address
}

/// `add … noreply`, its value, and `incr`.
fn counter_request(reader: &mut BufReader<TcpStream>) -> Option<()> {
    for _ in 0..3 {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
    }
    Some(())
}

fn run(ask: &Ask, address: SocketAddr) -> Outcome {
    let plan = Plan {
        arrivals: Arrivals::Constant,
        rate: 600.0,
        length_ns: 100 * MS,
        spreading: Spreading::Single,
        seed: 1,
        bounds: Bounds {
            connections: 1,
            depth: 1,
            deadline_ns: 30_000 * MS,
            backlog_limit: 1_000,
        },
        later: Vec::new(),
        clients: None,
        own: Own::default(),
    };
    let endpoint = Endpoint::plain(Address::Tcp(address));
    let workload = Workload::render(ask, "k", 1);
    let stop = AtomicBool::new(false);
    let outcome = open::run(&plan, &workload, &endpoint, &stop, &Live::default()).unwrap();
    assert_eq!(outcome.tally.planned, REQUESTS);
    outcome
}

fn http(answer: Answer) -> Outcome {
    let address = serve(http_request, answer);
    let ask = HttpAsk::new("t", "/json", None, &[], Some(RATE_LIMIT_BODY)).unwrap();
    run(&Ask::Http(Box::new(ask), RULE), address)
}

fn memcache(answer: Answer) -> Outcome {
    let address = serve(counter_request, answer);
    run(&Ask::Memcache(MemcacheAsk::Counter(RULE)), address)
}

fn status(n: u64) -> &'static str {
    if n <= RULE.limit {
        "200 OK"
    } else {
        "429 Too Many Requests"
    }
}

#[test]
fn an_http_limiter_is_measured_whole_with_lengths_and_with_chunks() {
    let lengths: Answer =
        |n| Some(format!("HTTP/1.1 {}\r\ncontent-length: 2\r\n\r\n{{}}", status(n)).into());
    let chunks: Answer = |n| {
        Some(
            format!(
                "HTTP/1.1 {}\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{{\r\n1\r\n}}\r\n0\r\n\r\n",
                status(n)
            )
            .into(),
        )
    };
    for answer in [lengths, chunks] {
        let tally = http(answer).tally;
        assert_eq!((tally.allowed, tally.denied, tally.completed), (10, 50, 60));
        assert_eq!(tally.first_error, None);
    }
}

#[test]
fn http_errors_are_the_targets_and_quoted() {
    let tally = http(|_| Some(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_vec())).tally;
    assert_eq!((tally.store_error, tally.allowed), (60, 0));
    assert!(tally.first_error.unwrap().contains("503 Busy"));
    let tally = http(|_| Some(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n".to_vec())).tally;
    assert_eq!(tally.protocol, 60);
}

#[test]
fn http_garbage_is_a_protocol_failure_and_the_rest_is_refused() {
    let answers: [(Answer, &str); 3] = [
        (
            |_| Some(b"-ERR unknown command\r\n".to_vec()),
            "not an HTTP answer",
        ),
        (
            |_| Some(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()),
            "without a length",
        ),
        (
            |_| Some(format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "y".repeat(20_000)).into()),
            "head of more than",
        ),
    ];
    for (answer, says) in answers {
        let outcome = http(answer);
        let tally = &outcome.tally;
        assert_eq!((tally.protocol, tally.allowed), (1, 0));
        assert_eq!(tally.refused, 59, "no connection was left");
        let said = tally.first_error.as_deref().unwrap();
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn a_connection_that_closes_is_refused() {
    let outcome =
        http(|n| (n <= 5).then(|| b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec()));
    assert_eq!((outcome.tally.allowed, outcome.tally.refused), (5, 55));
    assert!(
        outcome
            .cut_short
            .unwrap()
            .contains("all connections were lost")
    );
}

#[test]
fn a_memcached_counter_decides_by_its_number() {
    let tally = memcache(|n| Some(format!("{n}\r\n").into())).tally;
    assert_eq!((tally.allowed, tally.denied, tally.completed), (10, 50, 60));
    let tally = memcache(|_| Some(b"SERVER_ERROR out of memory\r\n".to_vec())).tally;
    assert_eq!(tally.store_error, 60);
    let tally = memcache(|_| Some(b"+PONG\r\n".to_vec())).tally;
    assert_eq!((tally.protocol, tally.refused), (1, 59));
    assert!(
        tally
            .first_error
            .unwrap()
            .contains("not an answer of memcached")
    );
}
