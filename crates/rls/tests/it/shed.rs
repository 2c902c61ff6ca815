//! Requests that waited for too long are refused before anything is done for them. A clock that runs on with every look at
//! it makes every request wait.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate_rls::Backend;
use tonic::Code;

use crate::support::{Service, descriptor, http_request, request};

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

#[tokio::test]
async fn grpc_calls_that_waited_are_unavailable() {
    let service = remote_and_hurried();
    let mut client = service.client().await;
    let error = client
        .ask(request(vec![descriptor(&["ten=a"])]))
        .await
        .expect_err("refused");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("overloaded"), "{error}");
    assert_eq!(shed_count(&service, "deadline"), 1);
    assert_eq!(shed_count(&service, "overload"), 0);
    assert_eq!(shed_count(&service, "queue"), 0);
    // The connection is as good as before.
    client
        .ask(request(vec![descriptor(&["ten=a"])]))
        .await
        .expect_err("refused");
    assert_eq!(shed_count(&service, "deadline"), 2);
}

#[test]
fn http_requests_that_waited_are_told_to_come_again() {
    let service = remote_and_hurried();
    for path in ["/json", "/v1/decide", "/v1/explain", "/v1/reserve"] {
        let (status, head, body) = service.http_with_head("POST", path, ASKED);
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
        let (status, body) = service.http("POST", path, &held);
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
    // A caller that has no time left.
    let head = format!(
        "POST /json HTTP/1.1\r\nhost: x\r\nconnection: close\r\ngrpc-timeout: 0m\r\ncontent-length: {}\r\n\r\n",
        ASKED.len()
    );
    let (status, _, body) = http_request(
        service.server().http_addr().expect("TCP"),
        head.as_bytes(),
        ASKED.as_bytes(),
    );
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
