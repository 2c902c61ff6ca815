//! Messages made to break the service: each is refused in clear words, and nobody else notices.

use prost::Message;
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitResponse, SHOULD_RATE_LIMIT};
use tonic::Code as GrpcCode;

use crate::support::{Client, Service, descriptor, http_request, request};

/// A message of any bytes.
#[derive(Clone, PartialEq, Message)]
struct Nested {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, optional, boxed, tag = "2")]
    descriptors: Option<Box<Nested>>,
    #[prost(bytes = "vec", tag = "9")]
    unknown: Vec<u8>,
}

async fn refused(client: &mut Client, message: impl Message + Default + 'static) -> GrpcCode {
    let reply: Result<RateLimitResponse, _> = client.call(SHOULD_RATE_LIMIT, message).await;
    let status = reply.expect_err("it must not be answered");
    assert!(!status.message().is_empty(), "{status:?}");
    // Envoy would let the request pass.
    assert_ne!(status.code(), GrpcCode::Unknown);
    status.code()
}

#[tokio::test]
async fn bad_messages_are_refused_and_others_are_not_disturbed() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let mut other = service.client().await;
    let mut left = 10;
    let mut undisturbed = async || {
        let response = other
            .ask(request(vec![descriptor(&["ten=other"])]))
            .await
            .expect("an answer");
        left -= 1;
        assert_eq!(response.statuses[0].limit_remaining, left);
    };
    let ten_megabytes = format!("one={}", "x".repeat(10 << 20));
    let code = refused(&mut client, request(vec![descriptor(&[&ten_megabytes])])).await;
    assert_eq!(code, GrpcCode::ResourceExhausted);
    undisturbed().await;
    let many = request(vec![descriptor(&["one=many"]); 10_000]);
    let code = refused(&mut client, many).await;
    assert_eq!(code, GrpcCode::InvalidArgument);
    undisturbed().await;
    let no_text = Nested {
        domain: b"te\xff\xfest".to_vec(),
        ..Nested::default()
    };
    let code = refused(&mut client, no_text).await;
    assert_eq!(code, GrpcCode::InvalidArgument);
    undisturbed().await;
    let mut deep = Nested::default();
    for _ in 0..50 {
        deep = Nested {
            descriptors: Some(Box::new(deep)),
            ..Nested::default()
        };
    }
    let code = refused(&mut client, deep).await;
    assert_eq!(code, GrpcCode::InvalidArgument);
    undisturbed().await;
    // None of them has counted anywhere.
    let response = client
        .ask(request(vec![descriptor(&["one=many"])]))
        .await
        .expect("an answer");
    assert_eq!(response.overall_code(), Code::Ok);
}

/// NUL is a character like any other: a value with one is neither refused, which would let it past a limiter that fails
/// open, nor cut short.
#[tokio::test]
async fn nul_counts_as_any_other_character() {
    let service = Service::embedded();
    let mut client = service.client().await;
    for value in ["a\0b", "a\0c", "a", "\0"] {
        for want in [Code::Ok, Code::OverLimit] {
            let one = RateLimitDescriptor {
                entries: vec![Entry {
                    key: "one".to_owned(),
                    value: value.to_owned(),
                }],
                ..RateLimitDescriptor::default()
            };
            let response = client.ask(request(vec![one])).await.expect("an answer");
            assert_eq!(response.overall_code(), want, "{value:?}");
        }
    }
}

/// Fields of newer peers are skipped, whatever is in them.
#[tokio::test]
async fn unknown_fields_are_skipped() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let newer = Nested {
        domain: b"test".to_vec(),
        unknown: vec![0xff; 10_000],
        descriptors: None,
    };
    let code = refused(&mut client, newer).await;
    assert_eq!(code, GrpcCode::InvalidArgument);
}

/// A request whose texts are any bytes.
#[derive(Clone, PartialEq, Message)]
struct RawRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RawDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct RawDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<RawEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct RawEntry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// Two texts that differ in bytes that are no text must not share a counter, so neither has one.
#[tokio::test]
async fn keys_and_values_that_are_no_text_are_refused() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let broken: [&[u8]; 5] = [
        b"\xff",
        b"a\x80",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
    ];
    for bytes in broken {
        for (key, value) in [(b"one" as &[u8], bytes), (bytes, b"x")] {
            let raw = RawRequest {
                domain: "test".to_owned(),
                descriptors: vec![RawDescriptor {
                    entries: vec![RawEntry {
                        key: key.to_vec(),
                        value: value.to_vec(),
                    }],
                }],
            };
            let code = refused(&mut client, raw).await;
            assert_eq!(code, GrpcCode::InvalidArgument, "{key:?} {value:?}");
        }
    }
}

/// The same over HTTP, and bodies that grow by their depth or length.
#[test]
fn bad_bodies_are_refused_over_http() {
    let service = Service::embedded();
    let addr = service.server().http_addr().expect("TCP");
    let one = |value: &[u8]| {
        let mut body =
            br#"{"domain":"test","descriptors":[{"entries":[{"key":"one","value":""#.to_vec();
        body.extend_from_slice(value);
        body.extend_from_slice(br#""}]}]}"#);
        body
    };
    let entry = r#"{"entries":[{"key":"one","value":"many"}]}"#;
    let many = format!(
        r#"{{"domain":"test","descriptors":[{}]}}"#,
        vec![entry; 10_000].join(",")
    );
    for path in ["/json", "/v1/decide"] {
        for (what, body, statuses) in [
            ("broken UTF-8", one(b"\xff"), &[400u16] as &[u16]),
            ("a bare NUL", one(b"\0"), &[400]),
            ("half a pair of surrogates", one(br"\ud800"), &[400]),
            ("depth", vec![b'['; 100_000], &[400]),
            ("ten megabytes", one(&vec![b'x'; 10 << 20]), &[413]),
            (
                "ten thousand descriptors",
                many.clone().into_bytes(),
                &[400, 413],
            ),
        ] {
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let (status, _, reply) = http_request(addr, head.as_bytes(), &body);
            assert!(
                statuses.contains(&status) && !reply.is_empty(),
                "{path}, {what}: {status} {reply}"
            );
        }
        // None of them has counted anywhere.
        let asked = String::from_utf8(one(path.as_bytes())).expect("text");
        assert_eq!(service.json(&asked).0, 200);
        assert_eq!(service.json(&asked).0, 429);
    }
}
