//! What both do when their Redis goes away and comes back, when they are told to end, and when a connection grows old.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};

use tonic::Code;

use super::decisions::ground;
use super::program::{Kind, PATIENCE, Program, is_there, wait_for};
use crate::health::{CHECK, HealthRequest, HealthResponse};
use crate::support::{Client, descriptor, http_exchange, request};

const KINDS: [Kind; 2] = [Kind::Original, Kind::Ours];
const BODY: &str =
    r#"{"domain":"test","descriptors":[{"entries":[{"key":"five","value":"outage"}]}]}"#;

fn json(program: &Program) -> u16 {
    http_exchange(program.http, "POST", "/json", BODY).0
}

/// A service that has decided, whose Redis is then killed, and started again.
async fn lose_redis(test: &str, kind: Kind, looks: bool) {
    let Some(redis) = super::pair::redis(test) else {
        return;
    };
    let (addr, url) = (redis.addr(), redis.addr().to_string());
    let looks_text = looks.to_string();
    let ground = ground();
    let program = Program::start(
        kind,
        &ground,
        &[
            ("BACKEND_TYPE", "redis"),
            ("REDIS_SOCKET_TYPE", "tcp"),
            ("REDIS_URL", &url),
            ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", &looks_text),
        ],
    );
    let mut client = Client::connect(program.grpc).await;
    let asked = request(vec![descriptor(&["five=outage"])]);
    let response = client.ask(asked.clone()).await.expect("a decision");
    assert_eq!(response.overall_code, 1);
    assert_eq!(json(&program), 200);

    drop(redis);
    let error = client.ask(asked.clone()).await.expect_err("no Redis");
    // The words of Go, and what a client may try again.
    let (code, status) = match kind {
        Kind::Original => (Code::Unknown, 400),
        Kind::Ours => (Code::Unavailable, 500),
    };
    assert_eq!(error.code(), code, "{kind:?}: {error:?}");
    assert!(!error.message().is_empty());
    assert_eq!(json(&program), status, "{kind:?}");
    if looks {
        wait_for("sick service", || !program.is_healthy());
    }
    assert_eq!(program.is_healthy(), !looks, "{kind:?}");

    let again = crate::backend::restart(addr);
    let mut answer = client.ask(asked.clone()).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    while let Err(error) = &answer {
        assert_eq!(error.code(), code, "{kind:?}: {error:?}");
        assert!(std::time::Instant::now() < deadline, "{kind:?}: {error:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        answer = client.ask(asked.clone()).await;
    }
    // The new one knows nothing of what the old one had counted.
    let response = answer.expect("a decision");
    assert_eq!(response.overall_code, 1, "{kind:?}");
    // Each thread of a service may find it at another time.
    wait_for("decision over HTTP", || json(&program) == 200);
    wait_for("healthy service", || program.is_healthy());
    drop(again);
}

#[tokio::test]
async fn a_lost_redis_is_an_error_until_it_is_back() {
    let test = "a_lost_redis_is_an_error_until_it_is_back";
    if !is_there(test) {
        return;
    }
    for kind in KINDS {
        for looks in [false, true] {
            lose_redis(test, kind, looks).await;
        }
    }
}

/// Told to end, both do at once when nothing is under way, and say so by their status.
#[tokio::test]
async fn who_is_told_to_end_takes_no_more_and_ends() {
    let test = "who_is_told_to_end_takes_no_more_and_ends";
    if !is_there(test) {
        return;
    }
    for kind in KINDS {
        let Some(redis) = super::pair::redis(test) else {
            return;
        };
        let url = redis.addr().to_string();
        let ground = ground();
        let mut program = Program::start(
            kind,
            &ground,
            &[
                ("BACKEND_TYPE", "redis"),
                ("REDIS_SOCKET_TYPE", "tcp"),
                ("REDIS_URL", &url),
            ],
        );
        let mut client = Client::connect(program.grpc).await;
        let asked = request(vec![descriptor(&["five=end"])]);
        client.ask(asked.clone()).await.expect("a decision");
        let health = HealthRequest {
            service: "ratelimit".to_owned(),
        };
        let response: HealthResponse = client.call(CHECK, health).await.expect("health");
        assert_eq!(response.status, 1, "{kind:?}");

        let pid = program.pid().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.expect("kill runs").success());
        assert_eq!(program.end(), Some(0), "{kind:?}");
        client.ask(asked).await.expect_err("nobody is there");
    }
}

/// What stands before a Redis and keeps back what is written to it, once that holds a word.
struct Gate {
    addr: SocketAddr,
    /// Something is kept back.
    holds: mpsc::Receiver<()>,
    open: mpsc::Sender<()>,
}

impl Gate {
    fn before(store: SocketAddr, word: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let (held, holds) = mpsc::channel();
        let (open, opened) = mpsc::channel();
        let opened = Arc::new(Mutex::new(opened));
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (held, opened) = (held.clone(), opened.clone());
                let mut near = near.expect("a connection");
                let far = TcpStream::connect(store).expect("redis-server listens");
                let (mut answers, mut back) = (
                    far.try_clone().expect("a socket"),
                    near.try_clone().expect("a socket"),
                );
                std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
                std::thread::spawn(move || pass_on(&mut near, far, word, &held, &opened));
            }
        });
        Self { addr, holds, open }
    }
}

fn pass_on(
    near: &mut TcpStream,
    mut far: TcpStream,
    word: &[u8],
    held: &mpsc::Sender<()>,
    opened: &Mutex<mpsc::Receiver<()>>,
) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = near.read(&mut bytes) {
        if bytes[..count].windows(word.len()).any(|part| part == word) {
            held.send(()).ok();
            let opened = opened.lock().expect("not poisoned");
            opened.recv_timeout(PATIENCE).ok();
        }
        if far.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// Told to end while a call waits for Redis, both answer it first. The original closes connections of HTTP on the requests
/// that are under way; ours answers those, too.
#[tokio::test]
async fn calls_under_way_are_answered_before_the_end() {
    let test = "calls_under_way_are_answered_before_the_end";
    if !is_there(test) {
        return;
    }
    for (kind, by_http) in [
        (Kind::Original, false),
        (Kind::Ours, false),
        (Kind::Ours, true),
    ] {
        let Some(redis) = super::pair::redis(test) else {
            return;
        };
        let gate = Gate::before(redis.addr(), b"slow");
        let url = gate.addr.to_string();
        let ground = ground();
        let mut program = Program::start(
            kind,
            &ground,
            &[
                ("BACKEND_TYPE", "redis"),
                ("REDIS_SOCKET_TYPE", "tcp"),
                ("REDIS_URL", &url),
            ],
        );
        let mut client = Client::connect(program.grpc).await;
        let http = program.http;
        let answer = tokio::spawn(async move {
            if by_http {
                let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"five","value":"slow"}]}]}"#;
                let asked = move || http_exchange(http, "POST", "/json", body).0 == 200;
                return tokio::task::spawn_blocking(asked).await.expect("no panic");
            }
            let asked = request(vec![descriptor(&["five=slow"])]);
            client.ask(asked).await.is_ok()
        });
        let holds = gate.holds;
        let held = tokio::task::spawn_blocking(move || holds.recv_timeout(PATIENCE));
        held.await.expect("no panic").expect("the request comes by");
        let pid = program.pid().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.expect("kill runs").success());
        // Nobody new is let in once it has heard.
        let addr = program.grpc;
        let refuses = move || wait_for("closed port", || TcpStream::connect(addr).is_err());
        tokio::task::spawn_blocking(refuses)
            .await
            .expect("no panic");
        // From now on nothing is kept back: a script may be sent twice.
        drop(gate.open);
        assert!(
            answer.await.expect("no panic"),
            "{kind:?} by HTTP: {by_http}"
        );
        assert_eq!(program.end(), Some(0), "{kind:?}");
    }
}

/// Whether a new connection is told to leave before it ends.
fn says_goodbye(grpc: SocketAddr) -> bool {
    const GOAWAY: u8 = 7;
    let mut stream = TcpStream::connect(grpc).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(greeting).ok();
    let mut said = Vec::new();
    // Closed with what was sent unread, a connection may be reset.
    stream.read_to_end(&mut said).ok();
    let mut kinds = Vec::new();
    while let Some((head, rest)) = said.split_first_chunk::<9>() {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        kinds.push(head[3]);
        said = rest.get(len..).unwrap_or_default().to_vec();
    }
    kinds.contains(&GOAWAY)
}

/// Both ask the peer of an old connection to open another, and close it.
#[test]
fn old_connections_end() {
    let test = "old_connections_end";
    if !is_there(test) {
        return;
    }
    for kind in KINDS {
        let Some(redis) = super::pair::redis(test) else {
            return;
        };
        let url = redis.addr().to_string();
        let ground = ground();
        let program = Program::start(
            kind,
            &ground,
            &[
                ("BACKEND_TYPE", "redis"),
                ("REDIS_SOCKET_TYPE", "tcp"),
                ("REDIS_URL", &url),
                ("GRPC_MAX_CONNECTION_AGE", "200ms"),
                ("GRPC_MAX_CONNECTION_AGE_GRACE", "200ms"),
            ],
        );
        // One whose greeting comes after its time is left without a word.
        wait_for(&format!("goodbye of {kind:?}"), || {
            says_goodbye(program.grpc)
        });
    }
}
