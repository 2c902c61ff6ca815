//! Messages made to break the service: each is refused in clear words, and nobody else notices.

use prost::Message;
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitResponse, SHOULD_RATE_LIMIT};
use tonic::Code as GrpcCode;

use crate::support::{Client, Service, descriptor, request};

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
