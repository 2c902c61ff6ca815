//! Calls as a well-behaved client never makes them, written frame by frame.

use std::io::Write as _;

use bytes::{BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use h2::client::{self, SendRequest};
use http::{HeaderMap, Request, StatusCode};
use prost::Message;
use tokio::net::TcpStream;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitRequest, RateLimitResponse, SHOULD_RATE_LIMIT};

use crate::support::{Service, descriptor, request};

pub(crate) async fn connect(service: &Service) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(service.server().grpc_addr().expect("TCP"))
        .await
        .expect("the service listens");
    let (sender, connection) = client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(async move { connection.await.ok() });
    sender.ready().await.expect("HTTP/2")
}

fn head(method: &str, content_type: &str, path: &str) -> Request<()> {
    let uri = format!("http://service{path}");
    Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", content_type)
        .body(())
        .expect("a head")
}

pub(crate) fn call() -> Request<()> {
    head("POST", "application/grpc+proto", SHOULD_RATE_LIMIT)
}

pub(crate) fn framed(flag: u8, len: usize, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(flag);
    bytes.put_u32(len as u32);
    bytes.put_slice(message);
    bytes.freeze()
}

struct Reply {
    status: StatusCode,
    /// From the trailers, or from the head where there is nothing else.
    grpc_status: Option<String>,
    body: Bytes,
}

/// Sends a body in the given pieces and reads everything that comes back.
async fn exchange(sender: &mut SendRequest<Bytes>, head: Request<()>, pieces: &[Bytes]) -> Reply {
    let (response, mut stream) = sender
        .send_request(head, pieces.is_empty())
        .expect("a new stream");
    for (index, piece) in pieces.iter().enumerate() {
        stream
            .send_data(piece.clone(), index + 1 == pieces.len())
            .expect("an open stream");
        // Lets the connection write this piece as a frame of its own.
        tokio::task::yield_now().await;
    }
    let response = response.await.expect("a response");
    let grpc_status = |headers: &HeaderMap| {
        headers
            .get("grpc-status")
            .map(|status| status.to_str().expect("text").to_owned())
    };
    let (parts, mut incoming) = response.into_parts();
    let mut body = BytesMut::new();
    while let Some(data) = incoming.data().await {
        body.put(data.expect("data"));
    }
    let trailers = incoming.trailers().await.expect("trailers");
    let grpc_status = trailers
        .as_ref()
        .and_then(grpc_status)
        .or_else(|| grpc_status(&parts.headers));
    Reply {
        status: parts.status,
        grpc_status,
        body: body.freeze(),
    }
}

pub(crate) fn message(key: &str) -> Vec<u8> {
    let request: RateLimitRequest = request(vec![descriptor(&[key])]);
    request.encode_to_vec()
}

#[tokio::test]
async fn what_is_no_call_is_refused_in_the_words_of_http() {
    let service = Service::embedded();
    let mut sender = connect(&service).await;
    for (head, status) in [
        (
            head("GET", "application/grpc", SHOULD_RATE_LIMIT),
            StatusCode::METHOD_NOT_ALLOWED,
        ),
        (
            head("POST", "application/json", SHOULD_RATE_LIMIT),
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
    ] {
        let reply = exchange(&mut sender, head, &[]).await;
        assert_eq!((reply.status, reply.grpc_status), (status, None));
    }
}

#[tokio::test]
async fn messages_that_are_none_are_refused_with_a_status() {
    let service = Service::embedded();
    let mut sender = connect(&service).await;
    let good = message("ten=framing");
    let len = good.len();
    let two = [framed(0, len, &good), framed(0, len, &good)].concat();
    let packed = gzipped(&good);
    let half = &packed[..packed.len() / 2];
    let bomb = gzipped(&vec![0; 64 << 20]);
    for (name, body, status) in [
        ("nothing", Bytes::new(), "3"),
        ("half a prefix", Bytes::from_static(&[0, 0, 0]), "3"),
        ("compressed, but not by gzip", framed(1, len, &good), "12"),
        ("half of what gzip made", framed(1, half.len(), half), "3"),
        ("too long once unpacked", framed(1, bomb.len(), &bomb), "8"),
        ("an unknown flag", framed(2, len, &good), "3"),
        ("too short", framed(0, len + 1, &good), "3"),
        ("too long", framed(0, len - 1, &good), "3"),
        ("two messages", Bytes::from(two), "3"),
        ("4 GiB announced", framed(0, u32::MAX as usize, &good), "3"),
        ("no protobuf", framed(0, 4, b"\xff\xff\xff\xff"), "3"),
        ("an empty message", framed(0, 0, b""), "3"),
    ] {
        let reply = exchange(&mut sender, call(), &[body]).await;
        assert_eq!(
            (reply.status, reply.grpc_status.as_deref()),
            (StatusCode::OK, Some(status)),
            "{name}"
        );
        assert!(reply.body.is_empty(), "{name}");
    }
    let reply = exchange(&mut sender, call(), &[]).await;
    assert_eq!(reply.grpc_status.as_deref(), Some("3"));
}

/// As Go's clients pack every message, however short, once they were told to compress.
fn gzipped(message: &[u8]) -> Vec<u8> {
    let mut packing = GzEncoder::new(Vec::new(), Compression::default());
    packing.write_all(message).expect("memory");
    packing.finish().expect("memory")
}

#[tokio::test]
async fn messages_may_be_compressed_by_gzip() {
    let service = Service::embedded();
    let mut sender = connect(&service).await;
    let packed = gzipped(&message("ten=packed"));
    let mut compressed = call();
    let encoding = http::HeaderValue::from_static("gzip");
    compressed.headers_mut().insert("grpc-encoding", encoding);
    for left in [9, 8] {
        let body = framed(1, packed.len(), &packed);
        let reply = exchange(&mut sender, compressed.clone(), &[body]).await;
        assert_eq!(reply.grpc_status.as_deref(), Some("0"));
        let response = RateLimitResponse::decode(&reply.body[5..]).expect("a response");
        assert_eq!(response.statuses[0].limit_remaining, left);
    }
}

#[tokio::test]
async fn a_message_may_come_byte_by_byte() {
    let service = Service::embedded();
    let mut sender = connect(&service).await;
    let message = message("ten=slow");
    let whole = framed(0, message.len(), &message);
    let pieces: Vec<Bytes> = (0..whole.len()).map(|at| whole.slice(at..=at)).collect();
    for left in [9, 8] {
        let reply = exchange(&mut sender, call(), &pieces).await;
        assert_eq!(reply.grpc_status.as_deref(), Some("0"));
        let response = RateLimitResponse::decode(&reply.body[5..]).expect("a response");
        assert_eq!(
            (
                response.overall_code(),
                response.statuses[0].limit_remaining
            ),
            (Code::Ok, left)
        );
    }
}

/// A call whose message does not come keeps no other waiting, and one that is given up leaves nothing behind.
#[tokio::test]
async fn unfinished_calls_hold_up_nobody() {
    let service = Service::embedded();
    let mut sender = connect(&service).await;
    let mut unfinished = Vec::new();
    for _ in 0..50 {
        let (response, mut stream) = sender.send_request(call(), false).expect("a new stream");
        stream
            .send_data(Bytes::from_static(&[0, 0]), false)
            .expect("an open stream");
        unfinished.push((response, stream));
    }
    let message = message("ten=among");
    let whole = framed(0, message.len(), &message);
    let reply = exchange(&mut sender, call(), std::slice::from_ref(&whole)).await;
    assert_eq!(reply.grpc_status.as_deref(), Some("0"));
    for (_, stream) in &mut unfinished {
        stream.send_reset(h2::Reason::CANCEL);
    }
    drop(unfinished);
    let reply = exchange(&mut sender, call(), &[whole]).await;
    assert_eq!(reply.grpc_status.as_deref(), Some("0"));
}
