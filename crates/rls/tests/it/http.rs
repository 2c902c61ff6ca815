//! HTTP with JSON.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{Service, run_python_client};

#[test]
fn json_is_answered_with_the_code_of_the_verdict() {
    let service = Service::embedded();
    let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"one","value":"json"}]}]}"#;
    let (status, head, reply) = service.http_with_head("POST", "/json", body);
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(
        reply.starts_with(
            r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"one-per-year","requestsPerUnit":1,"unit":"YEAR"},"durationUntilReset":""#
        ),
        "{reply}"
    );
    let (status, reply) = service.json(body);
    assert_eq!(status, 429);
    assert!(
        reply.starts_with(r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT""#),
        "{reply}"
    );
}

#[test]
fn overrides_and_hits_are_read_in_both_spellings() {
    let service = Service::embedded();
    for (body, left) in [
        (
            r#"{"domain":"test","descriptors":[{"entries":[{"key":"one","value":"o"}],"limit":{"requestsPerUnit":9,"unit":"DAY"},"hitsAddend":"3"}]}"#,
            "\"limitRemaining\":6",
        ),
        (
            r#"{"domain":"test","hits_addend":2,"descriptors":[{"entries":[{"key":"one","value":"o"}],"limit":{"requests_per_unit":9,"unit":4}}]}"#,
            "\"limitRemaining\":4",
        ),
    ] {
        let (status, reply) = service.json(body);
        assert_eq!(status, 200, "{reply}");
        assert!(reply.contains(left), "{reply}");
    }
}

#[test]
fn bad_requests_say_what_is_bad() {
    let service = Service::embedded();
    for (body, reason) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("[1]", "invalid"),
        (r#"{"domian":"test"}"#, "unknown field `domian`"),
        (
            r#"{"descriptors":[{"entries":[]}]}"#,
            "rate limit domain must not be empty",
        ),
        (
            r#"{"domain":"test"}"#,
            "rate limit descriptor list must not be empty",
        ),
        (
            r#"{"domain":"test","hitsAddend":-1}"#,
            "whole number of 32 bits",
        ),
        (
            r#"{"domain":"test","descriptors":[{"entries":[{"key":"one","value":"x"}],"limit":{"requestsPerUnit":1}}]}"#,
            "no valid unit",
        ),
    ] {
        let (status, reply) = service.json(body);
        assert_eq!(status, 400, "{body}");
        assert!(
            reply.starts_with("Bad Request: ") && reply.contains(reason),
            "{body}: {reply}"
        );
    }
    let deep = format!(r#"{{"domain":{}"#, "[".repeat(100_000));
    assert_eq!(service.json(&deep).0, 400);
    let (status, _) = service.json(&format!(r#"{{"domain":"{}"}}"#, "x".repeat(2 << 20)));
    assert_eq!(status, 413);
}

#[test]
fn other_paths_are_as_the_peer_has_them() {
    let service = Service::embedded();
    assert_eq!(
        service.http("GET", "/healthcheck", ""),
        (200, "OK".to_owned())
    );
    assert_eq!(service.http("GET", "/other", "").0, 404);
    // Any method will do.
    let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"ten","value":"put"}]}]}"#;
    assert_eq!(service.http("PUT", "/json", body).0, 200);
}

#[test]
fn one_connection_carries_many_requests() {
    let service = Service::embedded();
    let mut stream = TcpStream::connect(service.server().http_addr().expect("TCP"))
        .expect("the service listens");
    let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"ten","value":"alive"}]}]}"#;
    let len = body.len();
    let one = format!("POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: {len}\r\n\r\n{body}");
    stream
        .write_all(one.repeat(12).as_bytes())
        .expect("the service reads");
    let mut seen = String::new();
    while seen.matches("HTTP/1.1 ").count() < 12 || !seen.ends_with('}') {
        let mut chunk = [0; 4096];
        let n = stream.read(&mut chunk).expect("the service writes");
        assert!(n > 0, "closed after {seen}");
        seen.push_str(std::str::from_utf8(&chunk[..n]).expect("text"));
    }
    assert_eq!(seen.matches("HTTP/1.1 200").count(), 10);
    assert_eq!(seen.matches("HTTP/1.1 429").count(), 2);
}

#[test]
fn garbage_leaves_the_service_answering() {
    let service = Service::embedded();
    for addr in [
        service.server().http_addr().expect("TCP"),
        service.server().grpc_addr().expect("TCP"),
    ] {
        for garbage in [
            &b"\0\xff\xfe garbage\r\n\r\n"[..],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff",
            b"GET ",
        ] {
            let mut stream = TcpStream::connect(addr).expect("the service listens");
            stream.write_all(garbage).expect("the service reads");
        }
    }
    assert_eq!(service.http("GET", "/healthcheck", "").0, 200);
}

/// Python's client, curl, ab and wrk where they are installed, and what raw sockets can send.
#[test]
fn real_clients_are_understood() {
    run_python_client("http_clients.py", &Service::embedded());
}
