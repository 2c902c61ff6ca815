//! Envoy's messages on the wire: bytes as `protoc` encodes them.

use prost::Message;
use tollgate_wire::rls::rate_limit_descriptor::{Entry, RateLimitOverride};
use tollgate_wire::rls::rate_limit_response::{
    Code, DescriptorStatus, ExpirationSpecifier, Quota, RateLimit, rate_limit::Unit,
};
use tollgate_wire::rls::value::Kind;
use tollgate_wire::rls::{
    Duration, HeaderValue, ListValue, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
    RateLimitUnit, Struct, Timestamp, UInt64Value, Value,
};

#[test]
fn a_request_has_the_field_numbers_of_the_proto() {
    let request = RateLimitRequest {
        domain: "d".into(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![Entry {
                key: "k".into(),
                value: "v".into(),
            }],
            limit: Some(RateLimitOverride {
                requests_per_unit: 7,
                unit: RateLimitUnit::Hour as i32,
            }),
            hits_addend: Some(UInt64Value { value: 0 }),
            is_negative_hits: true,
        }],
        hits_addend: 300,
    };
    let bytes = [
        &[0x0a, 1, b'd'][..],
        &[0x12, 18],
        &[0x0a, 6, 0x0a, 1, b'k', 0x12, 1, b'v'],
        &[0x12, 4, 0x08, 7, 0x10, 3],
        // A wrapper that holds 0 is present and empty: "only look" must differ from "not given".
        &[0x1a, 0],
        &[0x20, 1],
        &[0x18, 0xac, 0x02],
    ]
    .concat();
    assert_eq!(request.encode_to_vec(), bytes);
    assert_eq!(RateLimitRequest::decode(&bytes[..]), Ok(request));
}

#[test]
fn a_response_has_the_field_numbers_of_the_proto() {
    let quota = Quota {
        requests: 3,
        expiration_specifier: Some(ExpirationSpecifier::ValidUntil(Timestamp {
            seconds: 8,
            nanos: 0,
        })),
        id: "q".into(),
    };
    let value = |kind| Value { kind: Some(kind) };
    let list = ListValue {
        values: [
            Kind::NullValue(0),
            Kind::NumberValue(1.0),
            Kind::StringValue("s".into()),
            Kind::BoolValue(true),
            Kind::StructValue(Struct::default()),
        ]
        .map(value)
        .to_vec(),
    };
    let response = RateLimitResponse {
        overall_code: Code::OverLimit as i32,
        statuses: vec![DescriptorStatus {
            code: Code::Ok as i32,
            current_limit: Some(RateLimit {
                name: "n".into(),
                requests_per_unit: 5,
                unit: Unit::Week as i32,
            }),
            limit_remaining: 4,
            duration_until_reset: Some(Duration {
                seconds: 9,
                nanos: 1,
            }),
            quota: Some(quota.clone()),
        }],
        response_headers_to_add: vec![HeaderValue {
            key: "a".into(),
            value: "b".into(),
            raw_value: vec![],
        }],
        request_headers_to_add: vec![HeaderValue {
            key: "r".into(),
            value: String::new(),
            raw_value: vec![0xff],
        }],
        raw_body: b"no".to_vec(),
        dynamic_metadata: Some(Struct {
            fields: [("m".into(), value(Kind::ListValue(list)))].into(),
        }),
        quota: Some(quota),
    };
    let bytes = [
        &[0x08, 2][..],
        &[0x12, 30],
        &[0x08, 1],
        &[0x12, 7, 0x08, 5, 0x10, 7, 0x1a, 1, b'n'],
        &[0x18, 4],
        &[0x22, 4, 0x08, 9, 0x10, 1],
        &[0x2a, 9, 0x08, 3, 0x12, 2, 0x08, 8, 0x1a, 1, b'q'],
        &[0x1a, 6, 0x0a, 1, b'a', 0x12, 1, b'b'],
        &[0x22, 6, 0x0a, 1, b'r', 0x1a, 1, 0xff],
        &[0x2a, 2, b'n', b'o'],
        // A struct is a map of values, of which this is one: a list with a value of every other kind.
        &[0x32, 37, 0x0a, 35, 0x0a, 1, b'm', 0x12, 30, 0x32, 28],
        &[0x0a, 2, 0x08, 0],
        &[0x0a, 9, 0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        &[0x0a, 3, 0x1a, 1, b's'],
        &[0x0a, 2, 0x20, 1],
        &[0x0a, 2, 0x2a, 0],
        &[0x3a, 9, 0x08, 3, 0x12, 2, 0x08, 8, 0x1a, 1, b'q'],
    ]
    .concat();
    // Readers may not depend on the order of fields within a message, so the comparison is of what is read.
    assert_eq!(RateLimitResponse::decode(&bytes[..]), Ok(response.clone()));
    assert_eq!(
        RateLimitResponse::decode(&response.encode_to_vec()[..]),
        Ok(response)
    );
}

#[test]
fn fields_of_newer_peers_are_skipped() {
    let mut bytes = RateLimitRequest {
        domain: "d".into(),
        ..RateLimitRequest::default()
    }
    .encode_to_vec();
    bytes.extend_from_slice(&[0x9a, 0x06, 2, b'x', b'y']);
    assert_eq!(
        RateLimitRequest::decode(&bytes[..]).map(|request| request.domain),
        Ok("d".into())
    );
}
