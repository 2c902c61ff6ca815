//! HTTP/1.1 byte by byte: what clients, proxies and attackers put on the wire.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::support::Service;

const BODY: &str =
    r#"{"domain":"test","descriptors":[{"entries":[{"key":"hundred","value":"wire"}]}]}"#;

fn connect(service: &Service) -> TcpStream {
    let stream = TcpStream::connect(service.server().http_addr().expect("TCP"))
        .expect("the service listens");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// Everything until the service ends the connection.
fn read_all(mut stream: TcpStream) -> String {
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok();
    String::from_utf8(reply).expect("text")
}

/// Sends bytes and reads everything until the service ends the connection.
fn exchange(service: &Service, bytes: &[u8]) -> String {
    let mut stream = connect(service);
    // A request that is refused early may find nobody who reads the rest.
    stream.write_all(bytes).ok();
    read_all(stream)
}

/// Reads until the text ends so.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut seen = String::new();
    while !seen.ends_with(end) {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).expect("the service writes");
        assert!(length > 0, "closed after {seen}");
        seen.push_str(std::str::from_utf8(&chunk[..length]).expect("text"));
    }
    seen
}

fn post(fields: &str, body: &str) -> String {
    format!("POST /json HTTP/1.1\r\nhost: x\r\n{fields}\r\n{body}")
}

fn plain(fields: &str) -> String {
    post(&format!("content-length: {}\r\n{fields}", BODY.len()), BODY)
}

fn chunked(fields: &str) -> String {
    let (first, second) = BODY.split_at(7);
    let body = format!(
        "{:x};a=b\r\n{first}\r\n{:X}\r\n{second}\r\n0\r\nx: y\r\n\r\n",
        first.len(),
        second.len()
    );
    post(&format!("transfer-encoding: chunked\r\n{fields}"), &body)
}

#[test]
fn requests_may_come_byte_by_byte_or_together() {
    let service = Service::embedded();
    let all = [
        plain(""),
        chunked(""),
        "GET /healthcheck HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        plain("connection: close\r\n"),
    ]
    .concat();
    let together = exchange(&service, all.as_bytes());
    assert_eq!(
        together.matches("HTTP/1.1 200 OK\r\n").count(),
        4,
        "{together}"
    );
    assert_eq!(together.matches("\r\nconnection: close\r\n").count(), 1);
    assert_eq!(together.matches("\r\ndate: ").count(), 4);
    let mut stream = connect(&service);
    for byte in all.as_bytes() {
        stream.write_all(&[*byte]).expect("the service reads");
    }
    let apart = read_all(stream);
    assert_eq!(apart.matches("HTTP/1.1 200 OK\r\n").count(), 4, "{apart}");
}

#[test]
fn what_is_malformed_is_refused_and_the_connection_ends() {
    let service = Service::embedded();
    let long = "x".repeat(300 << 10);
    for (bytes, status) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/3.0\r\n\r\n".to_owned(), 505),
        (format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), 414),
        (post(&format!("a: {long}\r\n"), ""), 431),
        (post(&"a: b\r\n".repeat(101), ""), 431),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (post("host: y\r\n", ""), 400),
        (post("content-length: x\r\n", ""), 400),
        (post("content-length: 9999999\r\n", ""), 413),
        (post("transfer-encoding: gzip\r\n", ""), 501),
        (post("transfer-encoding: chunked\r\n", "zz\r\n"), 400),
        (post("transfer-encoding: chunked\r\n", "1\r\nabc"), 400),
        (post("transfer-encoding: chunked\r\n", "fffffff\r\n"), 413),
    ] {
        let ask = "GET /healthcheck HTTP/1.1\r\nhost: x\r\n\r\n";
        let reply = exchange(&service, format!("{bytes}{ask}").as_bytes());
        let start = format!("HTTP/1.1 {status} ");
        assert!(reply.starts_with(&start), "{status}: {reply}");
        // What no path is known of is refused alike whatever came before.
        let is_problem = reply.contains("\r\ncontent-type: application/problem+json\r\n");
        let has_path = bytes.contains("chunked") || status == 413;
        assert_eq!(is_problem, !has_path, "{reply}");
        let before = exchange(&service, format!("{}{bytes}", plain("")).as_bytes());
        assert!(
            before.ends_with(reply.split("\r\n\r\n").nth(1).unwrap_or("x")),
            "{before}"
        );
        assert!(reply.contains("\r\nconnection: close\r\n"), "{reply}");
        assert_eq!(reply.matches("HTTP/1.1 ").count(), 1, "{reply}");
    }
}

#[test]
fn methods_are_told_and_bodies_taken_only_as_they_are() {
    let service = Service::embedded();
    let end = "connection: close\r\n";
    for (path, allow) in [
        ("*", "GET, HEAD, POST, OPTIONS"),
        ("/v1/decide", "POST, OPTIONS"),
        ("/metrics", "GET, HEAD, OPTIONS"),
    ] {
        let ask = format!("OPTIONS {path} HTTP/1.1\r\nhost: x\r\n{end}\r\n");
        let reply = exchange(&service, ask.as_bytes());
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert!(
            reply.contains(&format!("\r\nallow: {allow}\r\n")),
            "{reply}"
        );
        assert!(reply.contains("\r\ncontent-length: 0\r\n"), "{reply}");
    }
    let length = format!("content-length: {}\r\n{end}", BODY.len());
    let packed = post(&format!("content-encoding: gzip\r\n{length}"), BODY);
    let reply = exchange(&service, packed.as_bytes());
    assert!(reply.starts_with("HTTP/1.1 415 "), "{reply}");
    assert!(
        reply.contains("\r\naccept-encoding: identity\r\n"),
        "{reply}"
    );
    let same = post(&format!("content-encoding: identity\r\n{length}"), BODY);
    let reply = exchange(&service, same.as_bytes());
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
}

#[test]
fn a_peer_that_sends_no_more_is_answered_still() {
    let service = Service::embedded();
    let mut stream = connect(&service);
    stream.write_all(plain("").as_bytes()).expect("it reads");
    stream.shutdown(Shutdown::Write).expect("a socket");
    assert!(read_all(stream).starts_with("HTTP/1.1 200 OK\r\n"));
    let mut stream = connect(&service);
    stream
        .write_all(post("content-length: 1000\r\n", BODY).as_bytes())
        .expect("it reads");
    stream.shutdown(Shutdown::Write).expect("a socket");
    let reply = read_all(stream);
    assert!(reply.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{reply}");
    assert!(
        reply.ends_with("Bad Request: the body ends early\n"),
        "{reply}"
    );
    // Of half a head there is nothing to be said.
    let mut stream = connect(&service);
    stream.write_all(b"POST /json HT").expect("it reads");
    stream.shutdown(Shutdown::Write).expect("a socket");
    assert_eq!(read_all(stream), "");
}

#[test]
fn bodies_are_sent_for_where_a_peer_waits_for_that() {
    let service = Service::embedded();
    let mut stream = connect(&service);
    let head = |path: &str, length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let length = BODY.len();
    stream
        .write_all(head("/json", length).as_bytes())
        .expect("it reads");
    let told = read_until(&mut stream, "\r\n\r\n");
    assert_eq!(told, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(BODY.as_bytes()).expect("it reads");
    let reply = read_until(&mut stream, "}");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    // What is refused anyway is not sent for.
    for (path, length, status) in [("/json", 2 << 20, 413), ("/none", 5, 404)] {
        let reply = exchange(&service, head(path, length).as_bytes());
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
    }
}

#[test]
fn heads_alone_and_old_clients_are_served() {
    let service = Service::embedded();
    let reply = exchange(
        &service,
        b"HEAD /healthcheck HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    assert!(reply.contains("\r\ncontent-length: 2\r\n"), "{reply}");
    assert!(reply.ends_with("\r\n\r\n"), "{reply}");
    let reply = exchange(&service, b"GET http://any/healthcheck?a=b HTTP/1.0\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.0 200 OK\r\n"), "{reply}");
    assert!(reply.ends_with("\r\n\r\nOK"), "{reply}");
    let old = "GET /healthcheck HTTP/1.0\r\nconnection: keep-alive\r\n\r\n";
    let mut stream = connect(&service);
    for _ in 0..2 {
        stream.write_all(old.as_bytes()).expect("it reads");
        let reply = read_until(&mut stream, "\r\n\r\nOK");
        assert!(reply.contains("\r\nconnection: keep-alive\r\n"), "{reply}");
    }
}

/// Requests that nobody reads the answers of keep neither memory nor others.
#[test]
fn a_peer_that_does_not_read_is_not_read_from() {
    let service = Service::embedded();
    let mut stream = connect(&service);
    stream
        .set_write_timeout(Some(std::time::Duration::from_secs(1)))
        .expect("a socket");
    let requests = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1_000);
    // Far more than sockets hold; it stops at what the service takes.
    let mut sent = 0;
    while sent < 64 << 20 {
        match stream.write(requests.as_bytes()) {
            Ok(length) => sent += length,
            Err(_) => break,
        }
    }
    assert!(sent < 64 << 20, "{sent} bytes were read and not answered");
    assert_eq!(service.http("GET", "/healthcheck", "").0, 200);
}

/// What is refused by its head alone keeps the connection, though its body comes later.
#[test]
fn a_body_that_nobody_wants_may_come_later() {
    let service = Service::embedded();
    let mut stream = connect(&service);
    for _ in 0..3 {
        stream
            .write_all(b"POST /none HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc")
            .expect("it reads");
        let reply = read_until(&mut stream, "}");
        assert!(reply.starts_with("HTTP/1.1 404 Not Found\r\n"), "{reply}");
        stream.write_all(b"defghij").expect("it reads");
    }
    stream.write_all(plain("").as_bytes()).expect("it reads");
    let reply = read_until(&mut stream, "}");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
}

/// Both of the loops that serve decisions, and what serves those that may wait.
#[test]
fn all_that_serves_is_asked_to_stop_and_ends() {
    for io in [tollgate_net::Backend::Epoll, tollgate_net::Backend::Auto] {
        let service = Service::with_config(|config| config.io = io);
        let mut idle = connect(&service);
        let mut busy = connect(&service);
        let request = plain("expect: 100-continue\r\n");
        let (first, rest) = request.split_at(request.len() - 20);
        busy.write_all(first.as_bytes()).expect("it reads");
        let told = read_until(&mut busy, "\r\n\r\n");
        assert_eq!(told, "HTTP/1.1 100 Continue\r\n\r\n");
        service.server().shutdown();
        let mut end = [0; 1];
        assert_eq!(idle.read(&mut end).expect("it is ended"), 0);
        busy.write_all(rest.as_bytes()).expect("it reads");
        let reply = read_all(busy);
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert!(reply.contains("\r\nconnection: close\r\n"), "{reply}");
    }
}
