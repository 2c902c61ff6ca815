//! Rules that deny differently, as clients of the service see them.

use tollgate_rls::{HeaderForm, HeaderNames, Modes};
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitResponse, UInt64Value};

use crate::support::{Client, Service, descriptor, request};

async fn ask(client: &mut Client, descriptors: Vec<RateLimitDescriptor>) -> RateLimitResponse {
    client.ask(request(descriptors)).await.expect("an answer")
}

fn left(response: &RateLimitResponse) -> Vec<u32> {
    let statuses = response.statuses.iter();
    statuses.map(|status| status.limit_remaining).collect()
}

#[tokio::test]
async fn hits_are_given_back() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let hits = |value, is_negative_hits| RateLimitDescriptor {
        hits_addend: Some(UInt64Value { value }),
        is_negative_hits,
        ..descriptor(&["ten=refund"])
    };
    assert_eq!(left(&ask(&mut client, vec![hits(8, false)]).await), [2]);
    let back = ask(&mut client, vec![hits(5, true)]).await;
    assert_eq!((back.overall_code(), left(&back)), (Code::Ok, vec![7]));
    // No more than was taken.
    let back = ask(&mut client, vec![hits(50, true)]).await;
    assert_eq!((back.overall_code(), left(&back)), (Code::Ok, vec![10]));
}

#[tokio::test]
async fn a_shadow_counts_requests_that_pass_and_denies_none() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let both = || vec![descriptor(&["shadow=a"]), descriptor(&["ten=shadow"])];
    for want in [[0, 9], [0, 8], [0, 7]] {
        let response = ask(&mut client, both()).await;
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!(left(&response), want);
    }
    let denied = vec![descriptor(&["shadow=b"]), descriptor(&["none=x"])];
    assert_eq!(
        ask(&mut client, denied).await.overall_code(),
        Code::OverLimit
    );
    // The denied request has not been counted.
    let response = ask(&mut client, vec![descriptor(&["shadow=b"])]).await;
    assert_eq!(left(&response), [0]);
    assert_eq!(response.statuses[0].code(), Code::Ok);
}

#[tokio::test]
async fn quotas_have_back_what_a_denied_request_took() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let denied = || vec![descriptor(&["quota=a"]), descriptor(&["none=x"])];
    for _ in 0..3 {
        let response = ask(&mut client, denied()).await;
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(left(&response), [2, 0]);
    }
    for want in [Code::Ok, Code::Ok, Code::OverLimit] {
        let descriptors = vec![descriptor(&["quota=a"]), descriptor(&["ten=quota"])];
        assert_eq!(ask(&mut client, descriptors).await.overall_code(), want);
    }
    // The third request took nothing from the enforced limit.
    let response = ask(&mut client, vec![descriptor(&["ten=quota"])]).await;
    assert_eq!(left(&response), [7]);
}

#[tokio::test]
async fn headers_and_metadata_come_when_they_are_on() {
    let service = Service::with_modes(Modes {
        headers: Some(HeaderForm::Named(HeaderNames::default())),
        dynamic_metadata: true,
        ..Modes::default()
    });
    let mut client = service.client().await;
    let response = ask(&mut client, vec![descriptor(&["ten=a"])]).await;
    let headers: Vec<(&str, &str)> = response
        .response_headers_to_add
        .iter()
        .map(|header| (&*header.key, &*header.value))
        .collect();
    assert_eq!(
        headers[..2],
        [("RateLimit-Limit", "10"), ("RateLimit-Remaining", "9")]
    );
    assert_eq!(headers[2].0, "RateLimit-Reset");
    assert!(response.dynamic_metadata.is_some());
    let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"one","value":"json"}],"hitsAddend":"1"}]}"#;
    let (status, reply) = service.json(body);
    assert_eq!(status, 200, "{reply}");
    assert!(
        reply.contains(r#""responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"1"},{"key":"RateLimit-Remaining","value":"0"}"#),
        "{reply}"
    );
    assert!(
        reply.ends_with(r#""dynamicMetadata":{"descriptors":[{"entries":["one=json"],"hitsAddend":1}],"domain":"test","quotaModeEnabled":false}}"#),
        "{reply}"
    );
}

/// A denial in the newest form tells in its body what it is, for Envoy to hand on.
#[tokio::test]
async fn a_denial_in_structured_fields_has_a_problem_as_its_raw_body() {
    let service = Service::with_modes(Modes {
        headers: Some(HeaderForm::Draft11),
        ..Modes::default()
    });
    let mut client = service.client().await;
    let allowed = ask(&mut client, vec![descriptor(&["one=raw"])]).await;
    assert!(allowed.raw_body.is_empty());
    let denied = ask(&mut client, vec![descriptor(&["one=raw"])]).await;
    assert_eq!(denied.overall_code(), Code::OverLimit);
    let names: Vec<&str> = denied
        .response_headers_to_add
        .iter()
        .map(|header| &*header.key)
        .collect();
    assert_eq!(
        names,
        [
            "RateLimit-Policy",
            "RateLimit",
            "Retry-After",
            "content-type"
        ]
    );
    let problem: serde_json::Value = serde_json::from_slice(&denied.raw_body).expect("JSON");
    assert_eq!(problem["violated-policies"][0], "one-per-year");
}
