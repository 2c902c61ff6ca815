//! Requests that waited for too long are refused before anything is done for them. A clock that runs on with every look at
//! it makes every request wait.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tollgate_rls::Backend;
use tollgate_testkit::{Server, peers};
use tollgate_wire::rls::RateLimitResponse;
use tollgate_wire::rls::rate_limit_response::Code;
use tonic::Code as GrpcCode;

use crate::support::{Service, descriptor, http_request, request};
use crate::{fallback, framing};

/// How far a clock goes with each look.
const STEP: Duration = Duration::from_millis(30);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Later with every look, so that whatever is woken has waited by the time it is served.
fn hurried() -> Instant {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    let looks = LOOKS.fetch_add(1, Ordering::SeqCst);
    *START + STEP * u32::try_from(looks).expect("few looks")
}

/// No time passes.
fn stopped() -> Instant {
    *START
}

fn service(shed_after: Duration, monotonic: fn() -> Instant) -> Service {
    Service::with_config(|config| {
        config.shed_after = shed_after;
        config.monotonic = monotonic;
        config.threads = 1;
    })
}

/// With a store elsewhere, that nobody asks: what it decides is served where every wake-up is known.
fn remote_and_hurried() -> Service {
    Service::with_config(|config| {
        config.backend = Backend::Remote("redis://127.0.0.1:1".to_owned());
        config.shed_after = Duration::from_millis(20);
        config.monotonic = hurried;
        config.threads = 1;
    })
}

fn shed_count(service: &Service, reason: &str) -> u64 {
    let (_, text) = service.http("GET", "/metrics", "");
    let name = format!("tollgate_requests_shed_total{{reason=\"{reason}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.and_then(|count| count.parse().ok())
        .expect("the counter is there")
}

const ASKED: &str = r#"{"domain":"test","descriptors":[{"entries":[{"key":"ten","value":"x"}]}]}"#;

/// Several calls that come with one read.
async fn ask_at_once(service: &Service, count: usize) -> Vec<String> {
    let mut sender = framing::connect(service).await;
    let message = framing::message("ten=a");
    let begun: Vec<_> = (0..count)
        .map(|_| {
            let (response, mut stream) = sender
                .send_request(framing::call(), false)
                .expect("a new stream");
            let body = framing::framed(0, message.len(), &message);
            stream.send_data(body, true).expect("an open stream");
            response
        })
        .collect();
    let mut reasons = Vec::new();
    for response in begun {
        let response = response.await.expect("a response");
        assert_eq!(response.headers()["grpc-status"], "14");
        let reason = response.headers()["grpc-message"].to_str().expect("text");
        reasons.push(reason.to_owned());
    }
    reasons
}

#[tokio::test]
async fn grpc_calls_that_waited_are_unavailable() {
    let service = remote_and_hurried();
    let reasons = ask_at_once(&service, 8).await;
    let refused = reasons
        .iter()
        .filter(|reason| reason.contains("overloaded"));
    let refused = refused.count() as u64;
    assert!(refused > 0, "{reasons:?}");
    assert_eq!(
        shed_count(&service, "deadline") + shed_count(&service, "overload"),
        refused
    );
    assert_eq!(shed_count(&service, "queue"), 0);
}

/// A thread that stood still for a moment is not overloaded, whatever the time is that has passed.
#[tokio::test]
async fn a_call_alone_is_not_refused_for_a_wait() {
    let service = remote_and_hurried();
    let mut client = service.client().await;
    for _ in 0..5 {
        let asked = request(vec![descriptor(&["ten=a"])]);
        let error = client.ask(asked).await.expect_err("no store is there");
        assert!(!error.message().contains("overloaded"), "{error}");
        let (status, body) = service.json(ASKED);
        assert!(!body.contains("overloaded"), "{status} {body}");
    }
    for reason in ["deadline", "overload", "queue"] {
        assert_eq!(shed_count(&service, reason), 0, "{reason}");
    }
}

/// Asks over HTTP for somebody who has no time left.
fn ask_too_late(service: &Service, path: &str, body: &str) -> (u16, String, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ngrpc-timeout: 0m\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let addr = service.server().http_addr().expect("TCP");
    http_request(addr, head.as_bytes(), body.as_bytes())
}

#[test]
fn http_requests_that_waited_are_told_to_come_again() {
    let service = remote_and_hurried();
    for path in ["/json", "/v1/decide", "/v1/explain", "/v1/reserve"] {
        let (status, head, body) = ask_too_late(&service, path, ASKED);
        assert_eq!(status, 503, "{path}: {body}");
        assert!(head.contains("\r\nretry-after: 1"), "{path}: {head}");
        assert!(head.contains("application/problem+json"), "{path}: {head}");
        assert!(
            body.contains("#temporary-reduced-capacity"),
            "{path}: {body}"
        );
    }
    assert_eq!(shed_count(&service, "deadline"), 4);
    // Health and metrics are answered, and so is what gives units back.
    assert_ne!(service.http("GET", "/healthcheck", "").0, 503);
    let held = ASKED.replacen('{', "{\"id\":\"nobody\",", 1);
    for path in ["/v1/cancel", "/v1/release"] {
        let (status, _, body) = ask_too_late(&service, path, &held);
        // Nobody is there who could.
        assert!(!body.contains("overloaded"), "{path}: {status} {body}");
    }
}

#[test]
fn who_did_not_wait_is_answered() {
    let service = service(Duration::from_millis(20), stopped);
    let (status, body) = service.json(ASKED);
    assert_eq!(status, 200, "{body}");
    assert_eq!(shed_count(&service, "deadline"), 0);
    let (status, _, body) = ask_too_late(&service, "/json", ASKED);
    assert_eq!(status, 503, "{body}");
    assert_eq!(shed_count(&service, "deadline"), 1);
}

#[test]
fn nothing_is_refused_where_it_is_off() {
    let service = service(Duration::ZERO, hurried);
    let (status, body) = service.json(ASKED);
    assert_eq!(status, 200, "{body}");
    assert_eq!(shed_count(&service, "deadline"), 0);
}

const RULES: &str = "
domain: test
descriptors:
  - {key: error, rate_limit: {unit: year, requests_per_unit: 1000}}
  - {key: open, rate_limit: {unit: year, requests_per_unit: 1000, on_error: open}}
  - {key: closed, rate_limit: {unit: year, requests_per_unit: 1000, on_error: closed}}
  - {key: free}
";

static HURRIES: AtomicBool = AtomicBool::new(true);

/// Later with every look, until it is stopped.
fn hurried_at_first() -> Instant {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    let hurries = u64::from(HURRIES.load(Ordering::SeqCst));
    let looks = LOOKS.fetch_add(hurries, Ordering::SeqCst);
    *START + STEP * u32::try_from(looks).expect("few looks")
}

/// A backend that answers late is asked by few at a time; for the others their rules say what becomes of them.
#[tokio::test]
async fn who_finds_no_room_at_the_backend_is_decided_by_on_error() {
    let test = "who_finds_no_room_at_the_backend_is_decided_by_on_error";
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        peers::skip(test, "redis-server");
        return;
    };
    let service = Service::on_store(&format!("redis://{}", redis.addr()), RULES, |config| {
        config.shed_after = Duration::from_millis(20);
        config.monotonic = hurried_at_first;
        config.threads = 1;
    });
    let client = service.client().await;
    let ask = async |key: &str| {
        let asked = request(vec![descriptor(&[key])]);
        client.clone().ask(asked).await
    };
    // Every answer is late, until the fewest are let through.
    for _ in 0..10 {
        let three = join_all((0..3).map(|_| ask("error=a"))).await;
        assert!(three.iter().all(Result::is_ok), "{three:?}");
    }
    HURRIES.store(false, Ordering::SeqCst);
    ask("error=a").await.expect("a decision");
    // Eight wait for the backend; who comes behind them does not.
    fallback::signal("-STOP", &redis);
    let mut asked: FuturesUnordered<_> = (0..20).map(|_| ask("open=a")).collect();
    let by = |response: &RateLimitResponse| fallback::fallback(response).map(str::to_owned);
    for _ in 0..12 {
        let response = asked.next().await.expect("one of 20").expect("an answer");
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!(by(&response).as_deref(), Some("open"));
    }
    let closed = ask("closed=a").await.expect("an answer");
    assert_eq!(closed.overall_code(), Code::OverLimit);
    assert_eq!(by(&closed).as_deref(), Some("closed"));
    let error = ask("error=a").await.expect_err("no room");
    assert_eq!(error.code(), GrpcCode::Unavailable);
    assert!(
        error.message().contains("too many requests wait"),
        "{error}"
    );
    // Where there is nothing to decide, nobody is asked.
    let free = ask("free=a").await.expect("an answer");
    assert_eq!((free.overall_code(), by(&free)), (Code::Ok, None));
    assert_eq!(shed_count(&service, "queue"), 14);
    assert!(
        service
            .http("GET", "/metrics", "")
            .1
            .contains("tollgate_backend_up 1")
    );
    fallback::signal("-CONT", &redis);
    while let Some(response) = asked.next().await {
        let response = response.expect("an answer");
        assert_eq!((response.overall_code(), by(&response)), (Code::Ok, None));
    }
}
