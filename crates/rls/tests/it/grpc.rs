//! Every rule of the protocol, by a client that is not ours.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use tollgate_testkit::eventually;
use tollgate_testkit::process::free_port;
use tollgate_wire::rls::rate_limit_descriptor::RateLimitOverride;
use tollgate_wire::rls::rate_limit_response::{Code, rate_limit};
use tollgate_wire::rls::{
    Duration, RateLimitDescriptor, RateLimitRequest, RateLimitUnit, SERVICE_NAME, UInt64Value,
};
use tonic::Code as GrpcCode;

use crate::support::{SET_CLOCK, Service, descriptor, request, set_clock};

fn with_hits(pairs: &[&str], hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor {
        hits_addend: Some(UInt64Value { value: hits }),
        ..descriptor(pairs)
    }
}

fn with_override(
    pairs: &[&str],
    requests_per_unit: u32,
    unit: RateLimitUnit,
) -> RateLimitDescriptor {
    let limit = RateLimitOverride {
        requests_per_unit,
        unit: unit as i32,
    };
    RateLimitDescriptor {
        limit: Some(limit),
        ..descriptor(pairs)
    }
}

#[tokio::test]
async fn hits_are_those_of_the_descriptor_or_else_of_the_request_or_else_one() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let mut left =
        async |request| client.ask(request).await.expect("an answer").statuses[0].limit_remaining;
    assert_eq!(left(request(vec![descriptor(&["ten=hits"])])).await, 9);
    let three = RateLimitRequest {
        hits_addend: 3,
        ..request(vec![descriptor(&["ten=hits"])])
    };
    assert_eq!(left(three).await, 6);
    let two = RateLimitRequest {
        hits_addend: 3,
        ..request(vec![with_hits(&["ten=hits"], 2)])
    };
    assert_eq!(left(two).await, 4);
    let none = RateLimitRequest {
        hits_addend: 3,
        ..request(vec![with_hits(&["ten=hits"], 0)])
    };
    assert_eq!(left(none.clone()).await, 4);
    assert_eq!(left(none).await, 4);
}

#[tokio::test]
async fn statuses_are_aligned_with_descriptors() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let descriptors = vec![
        descriptor(&["unknown=x"]),
        descriptor(&["one=aligned"]),
        descriptor(&["open=x"]),
        descriptor(&["hundred=x", "user=bob"]),
        descriptor(&["hundred=x", "team=a"]),
    ];
    let response = client
        .ask(request(descriptors.clone()))
        .await
        .expect("an answer");
    assert_eq!(response.overall_code(), Code::Ok);
    let codes: Vec<Code> = response
        .statuses
        .iter()
        .map(|status| status.code())
        .collect();
    assert_eq!(codes, [Code::Ok; 5]);
    let free = &response.statuses[0];
    assert_eq!(
        (free.current_limit.is_none(), free.limit_remaining),
        (true, 0)
    );
    assert!(free.duration_until_reset.is_none());
    let limit = response.statuses[1]
        .current_limit
        .as_ref()
        .expect("a limit");
    assert_eq!(
        (&*limit.name, limit.requests_per_unit, limit.unit()),
        ("one-per-year", 1, rate_limit::Unit::Year)
    );
    assert_eq!(response.statuses[2].limit_remaining, u32::MAX);
    assert_eq!(response.statuses[3].limit_remaining, 2);
    assert!(response.statuses[4].current_limit.is_none());

    let response = client.ask(request(descriptors)).await.expect("an answer");
    assert_eq!(response.overall_code(), Code::OverLimit);
    let codes: Vec<Code> = response
        .statuses
        .iter()
        .map(|status| status.code())
        .collect();
    assert_eq!(
        codes,
        [Code::Ok, Code::OverLimit, Code::Ok, Code::Ok, Code::Ok]
    );
    // The denied request took nothing from the limit that would have passed.
    assert_eq!(response.statuses[3].limit_remaining, 2);
}

#[tokio::test]
async fn a_limit_of_zero_is_always_over() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let response = client
        .ask(request(vec![descriptor(&["none=x"])]))
        .await
        .expect("an answer");
    assert_eq!(
        (
            response.overall_code(),
            response.statuses[0].limit_remaining
        ),
        (Code::OverLimit, 0)
    );
}

#[tokio::test]
async fn an_override_counts_instead_of_the_rule() {
    let service = Service::embedded();
    let mut client = service.client().await;
    for (round, want) in [Code::Ok, Code::Ok, Code::OverLimit]
        .into_iter()
        .enumerate()
    {
        let overridden = with_override(&["one=override"], 2, RateLimitUnit::Month);
        let response = client
            .ask(request(vec![overridden]))
            .await
            .expect("an answer");
        assert_eq!(response.overall_code(), want, "round {round}");
        let limit = response.statuses[0]
            .current_limit
            .as_ref()
            .expect("the override");
        assert_eq!(
            (limit.requests_per_unit, limit.unit()),
            (2, rate_limit::Unit::Month)
        );
    }
    let bad = with_override(&["one=override"], 2, RateLimitUnit::Unknown);
    let status = client.ask(request(vec![bad])).await.expect_err("no unit");
    assert_eq!(status.code(), GrpcCode::InvalidArgument);
}

#[tokio::test]
async fn trap_17_what_cannot_be_answered_is_an_error_and_never_unknown() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let no_domain = RateLimitRequest {
        domain: String::new(),
        ..request(vec![descriptor(&["one=x"])])
    };
    let status = client.ask(no_domain).await.expect_err("no domain");
    assert_eq!(
        (status.code(), status.message()),
        (
            GrpcCode::InvalidArgument,
            "rate limit domain must not be empty"
        )
    );
    let status = client
        .ask(request(Vec::new()))
        .await
        .expect_err("no descriptors");
    assert_eq!(
        (status.code(), status.message()),
        (
            GrpcCode::InvalidArgument,
            "rate limit descriptor list must not be empty"
        )
    );
    let other: Result<tollgate_wire::rls::RateLimitResponse, _> = client
        .call(
            "/envoy.service.ratelimit.v3.RateLimitService/Other",
            request(Vec::new()),
        )
        .await;
    assert_eq!(
        other.expect_err("no such method").code(),
        GrpcCode::Unimplemented
    );
    // The connection is as good as before.
    let response = client
        .ask(request(vec![descriptor(&["one=after"])]))
        .await
        .expect("an answer");
    assert_eq!(response.overall_code(), Code::Ok);
}

#[tokio::test]
async fn an_unknown_domain_passes() {
    let service = Service::embedded();
    let mut client = service.client().await;
    for _ in 0..3 {
        let other = RateLimitRequest {
            domain: "other".to_owned(),
            ..request(vec![descriptor(&["one=x"])])
        };
        let response = client.ask(other).await.expect("an answer");
        assert_eq!(
            (response.overall_code(), response.statuses.len()),
            (Code::Ok, 1)
        );
    }
}

#[tokio::test]
async fn the_reset_is_the_end_of_the_window_in_whole_seconds() {
    // 2026-01-01 00:00:10.250 UTC, a Thursday: ten seconds into a day and a week.
    SET_CLOCK.store(1_767_225_610_250, Ordering::SeqCst);
    let service = Service::with_clock(set_clock);
    let mut client = service.client().await;
    let day = 86_400;
    for (pairs, seconds) in [
        (&["hundred=x"][..], 7 * day - 10),
        (&["hundred=x", "user=bob"], day - 10),
    ] {
        let response = client
            .ask(request(vec![descriptor(pairs)]))
            .await
            .expect("an answer");
        assert_eq!(
            response.statuses[0].duration_until_reset,
            Some(Duration { seconds, nanos: 0 })
        );
    }
    let user = || request(vec![descriptor(&["hundred=x", "user=bob"])]);
    for want in [Code::Ok, Code::Ok, Code::OverLimit] {
        assert_eq!(
            client.ask(user()).await.expect("an answer").overall_code(),
            want
        );
    }
    // A step back opens no old window; the end of the day opens a new one.
    SET_CLOCK.fetch_sub(2 * day * 1_000, Ordering::SeqCst);
    assert_eq!(
        client.ask(user()).await.expect("an answer").overall_code(),
        Code::OverLimit
    );
    SET_CLOCK.fetch_add(3 * day * 1_000, Ordering::SeqCst);
    assert_eq!(
        client.ask(user()).await.expect("an answer").overall_code(),
        Code::Ok
    );
}

#[tokio::test]
async fn large_requests_are_answered_and_too_large_ones_refused() {
    let service = Service::embedded();
    let mut client = service.client().await;
    // Larger than a frame and than the first window of a stream.
    let long = format!("one={}", "x".repeat(300_000));
    let response = client
        .ask(request(vec![descriptor(&[&long])]))
        .await
        .expect("an answer");
    assert_eq!(response.overall_code(), Code::Ok);
    let response = client
        .ask(request(vec![descriptor(&[&long])]))
        .await
        .expect("an answer");
    assert_eq!(response.overall_code(), Code::OverLimit);
    let too_long = format!("one={}", "x".repeat(2 << 20));
    let status = client
        .ask(request(vec![descriptor(&[&too_long])]))
        .await
        .expect_err("too long");
    assert_eq!(status.code(), GrpcCode::ResourceExhausted);
    let many = vec![descriptor(&["one=many"]); 2_000];
    assert_eq!(
        client
            .ask(request(many))
            .await
            .expect_err("too many")
            .code(),
        GrpcCode::InvalidArgument
    );
}

#[tokio::test]
async fn the_health_check_serves() {
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    struct HealthRequest {
        #[prost(string, tag = "1")]
        service: String,
    }
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    struct HealthResponse {
        #[prost(int32, tag = "1")]
        status: i32,
    }
    let service = Service::embedded();
    let mut client = service.client().await;
    for name in ["", "ratelimit", SERVICE_NAME] {
        let ask = HealthRequest {
            service: name.to_owned(),
        };
        let reply: HealthResponse = client
            .call("/grpc.health.v1.Health/Check", ask)
            .await
            .expect(name);
        assert_eq!(reply.status, 1);
    }
    let ask = HealthRequest {
        service: "other".to_owned(),
    };
    let reply: Result<HealthResponse, _> = client.call("/grpc.health.v1.Health/Check", ask).await;
    assert_eq!(
        reply.expect_err("no such service").code(),
        GrpcCode::NotFound
    );
}

#[tokio::test]
async fn a_stop_answers_what_is_under_way_and_ends() {
    // A port that no other test gets once it is given up.
    let port = free_port().expect("a free port");
    let mut service =
        Service::with_config(|config| config.grpc_addr = (Ipv4Addr::LOCALHOST, port).into());
    let mut client = service.client().await;
    client
        .ask(request(vec![descriptor(&["ten=stop"])]))
        .await
        .expect("an answer");
    let server = service.server.take().expect("running");
    let addr = server.grpc_addr().expect("TCP");
    server.shutdown();
    tokio::task::spawn_blocking(move || server.wait())
        .await
        .expect("the service ends");
    client
        .ask(request(vec![descriptor(&["ten=stop"])]))
        .await
        .expect_err("the service is gone");
    // A process that another test is just starting has a copy of the socket for a moment.
    eventually("nobody listens", || {
        std::net::TcpStream::connect(addr).is_err()
    });
}
