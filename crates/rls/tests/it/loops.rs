//! gRPC on the event loops: what a connection is told of its own accord, bytes in any pieces, streams beside decisions, and
//! the end, on whatever the system has.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{self, ResponseFuture, SendRequest};
use http::Request;
use prost::Message;
use tollgate_net::Backend as Io;
use tollgate_rls::ConnectionAge;
use tollgate_testkit::{PATIENCE, eventually};
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitResponse, SHOULD_RATE_LIMIT};

use crate::support::{RULES, Service, descriptor, request};

const SYSTEMS: [Io; 2] = [Io::Auto, Io::Epoll];
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
/// Bytes of a frame before its payload.
const HEAD: usize = 9;

fn service(io: Io) -> Service {
    Service::with_config(|config| {
        config.io = io;
        config.threads = 1;
    })
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u32;
    let mut bytes = len.to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags, 0, 0, 0, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

/// Kind, flags and payload of the next frame; `None` at the end.
fn read_frame(stream: &mut TcpStream) -> Option<(u8, u8, Vec<u8>)> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).ok()?;
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; len];
    stream.read_exact(&mut payload).expect("a whole frame");
    Some((head[3], head[4], payload))
}

fn raw(service: &Service) -> TcpStream {
    let stream = TcpStream::connect(service.server().grpc_addr().expect("TCP"))
        .expect("the service listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

#[test]
fn the_service_speaks_first_and_reads_bytes_one_by_one() {
    for io in SYSTEMS {
        let service = service(io);
        let mut stream = raw(&service);
        // Nothing was sent.
        let (kind, flags, _) = read_frame(&mut stream).expect("settings");
        assert_eq!((kind, flags), (SETTINGS, 0), "{io:?}");
        let ping = frame(PING, 0, b"12345678");
        let greeting = [PREFACE, &frame(SETTINGS, 0, &[]), &ping].concat();
        for byte in greeting {
            stream.write_all(&[byte]).expect("it reads");
        }
        let answer = std::iter::from_fn(|| read_frame(&mut stream));
        let mut kinds = answer.map(|(kind, flags, _)| (kind, flags));
        assert!(kinds.any(|kind| kind == (SETTINGS, ACK)), "{io:?}");
        assert!(kinds.any(|kind| kind == (PING, ACK)), "{io:?}");
    }
}

#[test]
fn whoever_breaks_the_rules_is_told_and_left() {
    for io in SYSTEMS {
        let service = service(io);
        let mut stream = raw(&service);
        let bad = frame(PING, 0, b"short");
        let greeting = [PREFACE, &frame(SETTINGS, 0, &[]), &bad].concat();
        stream.write_all(&greeting).expect("it reads");
        let frames: Vec<_> = std::iter::from_fn(|| read_frame(&mut stream)).collect();
        let (kind, _, payload) = frames.last().expect("frames");
        // FRAME_SIZE_ERROR, and then the end.
        assert_eq!((*kind, payload[7]), (GOAWAY, 6), "{io:?}");
    }
}

/// The answers of all connections of a loop are written in one place.
#[test]
fn what_a_lost_connection_was_to_be_sent_goes_to_no_other() {
    let ask = b"GET /healthcheck HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    for io in SYSTEMS {
        let service = service(io);
        let http = service.server().http_addr().expect("TCP");
        for round in 0..60 {
            let mut lost = raw(&service);
            // With something unread its end is a reset, and what is written to it then fails.
            lost.peek(&mut [0]).expect("settings");
            let bad = frame(PING, 0, b"short");
            let greeting = [PREFACE, &frame(SETTINGS, 0, &[]), &bad].concat();
            lost.write_all(&greeting).expect("it reads");
            drop(lost);
            let mut other = TcpStream::connect(http).expect("the service listens");
            other.set_read_timeout(Some(PATIENCE)).expect("a socket");
            other.write_all(ask).expect("it reads");
            let mut answer = Vec::new();
            other.read_to_end(&mut answer).expect("an answer");
            let shown = String::from_utf8_lossy(&answer);
            assert!(
                shown.starts_with("HTTP/1.1 200 OK\r\n"),
                "{io:?}, {round}: {shown:?}"
            );
        }
    }
}

#[test]
fn the_end_is_announced_to_whoever_has_nothing_under_way() {
    for io in SYSTEMS {
        let mut service = service(io);
        let mut polite = raw(&service);
        let mut deaf = raw(&service);
        let mut silent = raw(&service);
        let greeting = [PREFACE, &frame(SETTINGS, 0, &[])].concat();
        for stream in [&mut polite, &mut deaf] {
            stream.write_all(&greeting).expect("it reads");
            while read_frame(stream).expect("an answer").1 != ACK {}
        }
        let server = service.server.take().expect("running");
        server.shutdown();
        // No call is refused yet: what is on its way is still taken.
        let (kind, _, payload) = read_frame(&mut polite).expect("a frame");
        assert_eq!(
            (kind, &payload[..4]),
            (GOAWAY, &[0x7f, 0xff, 0xff, 0xff][..])
        );
        let (kind, _, echo) = read_frame(&mut polite).expect("a frame");
        assert_eq!(kind, PING, "{io:?}");
        polite
            .write_all(&frame(PING, ACK, &echo))
            .expect("it reads");
        let (kind, _, payload) = read_frame(&mut polite).expect("a frame");
        assert_eq!((kind, &payload[..4]), (GOAWAY, &[0; 4][..]), "{io:?}");
        // One that does not answer is left after a while, and so is one that never spoke.
        for stream in [&mut polite, &mut deaf, &mut silent] {
            while read_frame(stream).is_some() {}
        }
        server.wait();
    }
}

/// Connections of some age are told as at the end of the service, on event loops and in the runtime; whoever has a call under
/// way is left when the grace is over.
#[test]
fn old_connections_are_asked_to_leave() {
    let age = Some(ConnectionAge {
        age: Duration::from_millis(50),
        grace: Some(Duration::from_millis(50)),
    });
    let mut services: Vec<Service> = SYSTEMS
        .iter()
        .map(|io| {
            Service::with_config(|config| {
                config.io = *io;
                config.connection_age = age;
            })
        })
        .collect();
    // Nobody is asked there.
    let far = Service::on_store("redis://127.0.0.1:1", crate::support::RULES, |config| {
        config.connection_age = age;
    });
    services.push(far);
    for (number, service) in services.iter().enumerate() {
        // A stream that follows the health, which does not change.
        let mut busy = greeted(service, &watching());
        is_told_to_leave(service, &number.to_string());
        // With a call under way it ends, too.
        while read_frame(&mut busy).is_some() {}
    }
}

/// A connection that has greeted, and said more.
fn greeted(service: &Service, more: &[u8]) -> TcpStream {
    let mut stream = raw(service);
    // What is written late, to a connection that has grown old already, may fail.
    let greeting = [PREFACE, &frame(SETTINGS, 0, &[]), more].concat();
    stream.write_all(&greeting).ok();
    stream
}

/// Connections are told that they are old, and end. One whose greeting comes after its time is left without a word.
fn is_told_to_leave(service: &Service, what: &str) {
    eventually(&format!("{what}: a goodbye"), || {
        let mut stream = greeted(service, &[]);
        let frames: Vec<_> = std::iter::from_fn(|| read_frame(&mut stream)).collect();
        let goodbye = frames.iter().find(|(kind, _, _)| *kind == GOAWAY);
        goodbye.is_some_and(|(_, _, payload)| payload[..4] == [0x7f, 0xff, 0xff, 0xff])
    });
}

/// A connection whose answers nobody reads.
async fn deaf(service: &Service) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    // So little is taken that soon something is left to be sent.
    socket.set_recv_buffer_size(4_096).expect("a size");
    let addr = service.server().grpc_addr().expect("TCP");
    let stream = socket.connect(addr).await.expect("the service listens");
    let mut stream = stream.into_std().expect("a socket");
    let greeting = [PREFACE, &frame(SETTINGS, 0, &[])].concat();
    stream.write_all(&greeting).expect("it reads");
    stream
}

/// Its time is over while it is still to be sent something: the loop does not come back for that before it has served others.
#[tokio::test]
async fn old_connections_that_read_nothing_hold_up_nobody_and_are_dropped() {
    let pings = frame(PING, 0, b"12345678").repeat(1_000);
    let mut all = Vec::new();
    for io in SYSTEMS {
        let service = Service::with_config(|config| {
            config.io = io;
            config.threads = 1;
            config.connection_age = Some(ConnectionAge {
                // By then the sockets are full.
                age: Duration::from_secs(3),
                grace: Some(Duration::ZERO),
            });
        });
        let deaf = deaf(&service).await;
        all.push((io, service, deaf, 0));
    }
    let deadline = Instant::now() + PATIENCE;
    while !all.is_empty() {
        let mut written = 0;
        all.retain_mut(|(_, _, deaf, at)| match deaf.write(&pings[*at..]) {
            Ok(count) => {
                *at = (*at + count) % pings.len();
                written += count;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        let left = all.iter().map(|(io, ..)| io).collect::<Vec<_>>();
        assert!(Instant::now() < deadline, "still there: {left:?}");
        if written == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A peer that never comes to an end of what it has begun, piece by piece; what it is told at last.
fn never_whole(mut stream: TcpStream, begins: Vec<u8>, piece: Vec<u8>) -> Vec<u8> {
    const PAUSE: Duration = Duration::from_millis(200);
    stream.write_all(&begins).expect("it reads");
    stream.set_read_timeout(Some(PAUSE)).expect("a socket");
    let (mut told, began) = (Vec::new(), Instant::now());
    let mut room = [0; 4_096];
    while began.elapsed() < PATIENCE {
        match stream.read(&mut room) {
            Ok(0) => return told,
            Ok(count) => told.extend_from_slice(&room[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                stream.write_all(&piece).ok();
            }
            Err(_) => return told,
        }
    }
    panic!("it was still waited for after {PATIENCE:?}");
}

#[test]
fn what_has_begun_is_not_waited_for_for_ever() {
    let mut threads = Vec::new();
    let loops = SYSTEMS.map(|io| (format!("{io:?}"), service(io)));
    // Before a store elsewhere tasks of a runtime serve, which nobody is asked about here.
    let runtime = (
        "runtime".to_owned(),
        Service::remote_with("redis://127.0.0.1:1", RULES),
    );
    for (on, service) in loops.into_iter().chain([runtime]) {
        let service = Arc::new(service);
        let greeting = [PREFACE, &frame(SETTINGS, 0, &[])].concat();
        // Stream 1 begins its fields, which go on byte by byte.
        let fields = [&greeting[..], &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83]].concat();
        let more = vec![0, 0, 1, 9, 0, 0, 0, 0, 1, 0x86];
        // Fields that come in one frame.
        let half = [&greeting[..], &[0, 0x40, 0, 1, 0, 0, 0, 0, 1]].concat();
        let head = b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n".to_vec();
        let http = service.server().http_addr().expect("TCP");
        let http = TcpStream::connect(http).expect("the service listens");
        for (stream, begins, piece, goodbye) in [
            (raw(&service), fields, more, b"\0\0\0\x0b" as &[u8]),
            (raw(&service), half, vec![0], b"\0\0\0\x0b"),
            (http, head, vec![b' '], b"HTTP/1.1 408 "),
        ] {
            let (on, service) = (on.clone(), service.clone());
            threads.push(std::thread::spawn(move || {
                let told = never_whole(stream, begins, piece);
                let is_told = told.windows(goodbye.len()).any(|part| part == goodbye);
                assert!(is_told, "{on}: {goodbye:?} in {told:?}");
                drop(service);
            }));
        }
    }
    for thread in threads {
        thread.join().expect("it is told, and left");
    }
}

/// A call of `/grpc.health.v1.Health/Watch` on stream 1, whose fields stand for themselves.
fn watching() -> Vec<u8> {
    let mut fields = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", "/grpc.health.v1.Health/Watch"),
        ("content-type", "application/grpc"),
    ] {
        fields.push(0);
        for text in [name, value] {
            fields.push(text.len() as u8);
            fields.extend_from_slice(text.as_bytes());
        }
    }
    let on_first = |kind, flags, payload: &[u8]| {
        let mut bytes = frame(kind, flags, payload);
        bytes[8] = 1;
        bytes
    };
    // The end of the fields, and an empty message that ends the call's side.
    [on_first(1, 4, &fields), on_first(0, 1, &[0; 5])].concat()
}

async fn connect(service: &Service) -> SendRequest<Bytes> {
    let addr = service.server().grpc_addr().expect("TCP");
    let stream = tokio::net::TcpStream::connect(addr)
        .await
        .expect("the service listens");
    let (sender, connection) = client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(async move { connection.await.ok() });
    sender.ready().await.expect("HTTP/2")
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.len() as u32);
    bytes.put_slice(message);
    bytes.freeze()
}

fn send(sender: &mut SendRequest<Bytes>, path: &str, message: &[u8]) -> ResponseFuture {
    send_within(sender, "600S", path, message)
}

fn send_within(
    sender: &mut SendRequest<Bytes>,
    timeout: &str,
    path: &str,
    message: &[u8],
) -> ResponseFuture {
    let head = Request::builder()
        .method("POST")
        .uri(format!("http://service{path}"))
        .header("content-type", "application/grpc")
        .header("grpc-timeout", timeout)
        .body(())
        .expect("a head");
    let (response, mut stream) = sender.send_request(head, false).expect("a stream");
    stream.send_data(framed(message), true).expect("room");
    response
}

/// The next message of an answer.
async fn next(body: &mut h2::RecvStream) -> Bytes {
    let data = body.data().await.expect("a message").expect("data");
    body.flow_control()
        .release_capacity(data.len())
        .expect("what was taken");
    data.slice(5..)
}

#[tokio::test]
async fn streams_and_decisions_share_a_connection() {
    const WATCH: &str = "/grpc.health.v1.Health/Watch";
    for io in SYSTEMS {
        let mut service = service(io);
        let mut sender = connect(&service).await;
        let watch = send(&mut sender, WATCH, b"").await.expect("an answer");
        let mut watch = watch.into_body();
        assert_eq!(next(&mut watch).await[..], [8, 1], "{io:?}: serving");
        // More at once than one read brings.
        let long = format!("ten={}", "x".repeat(8_000));
        let message = request(vec![descriptor(&[&long])]).encode_to_vec();
        let mut answers = Vec::new();
        for _ in 0..20 {
            sender = sender.ready().await.expect("a place");
            let answer = send(&mut sender, SHOULD_RATE_LIMIT, &message);
            answers.push(tokio::spawn(async {
                let mut body = answer.await.expect("an answer").into_body();
                let response = RateLimitResponse::decode(next(&mut body).await);
                response.expect("a message").overall_code()
            }));
        }
        let mut passed = 0;
        for answer in answers {
            passed += usize::from(answer.await.expect("an answer") == Code::Ok);
        }
        assert_eq!(passed, 10, "{io:?}");
        // A change of health comes from another thread.
        let server = service.server.take().expect("running");
        server.shutdown();
        assert_eq!(next(&mut watch).await[..], [8, 2], "{io:?}: not serving");
        let trailers = watch.trailers().await.expect("trailers").expect("trailers");
        assert_eq!(trailers["grpc-status"], "14", "{io:?}");
        drop(sender);
        tokio::task::spawn_blocking(move || server.wait())
            .await
            .expect("the service ends");
    }
}

#[tokio::test]
async fn callers_without_time_are_refused() {
    for io in SYSTEMS {
        let service = Service::with_config(|config| {
            config.io = io;
            config.shed_after = Duration::from_millis(20);
            config.monotonic = stopped;
            config.threads = 1;
        });
        let mut sender = connect(&service).await;
        let message = request(vec![descriptor(&["ten=a"])]).encode_to_vec();
        for (timeout, status) in [("600S", None), ("0m", Some("14")), ("600S", None)] {
            let answer = send_within(&mut sender, timeout, SHOULD_RATE_LIMIT, &message);
            let answer = answer.await.expect("an answer");
            let told = answer.headers().get("grpc-status");
            let told = told.map(|told| told.to_str().expect("text"));
            assert_eq!(told, status, "{io:?} {timeout}");
        }
        // Health is told even to those.
        let check = "/grpc.health.v1.Health/Check";
        let answer = send_within(&mut sender, "0m", check, b"").await;
        let mut body = answer.expect("an answer").into_body();
        assert_eq!(next(&mut body).await[..], [8, 1], "{io:?}");
    }
}

/// No time passes.
fn stopped() -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START
}
