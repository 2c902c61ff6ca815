//! Rules that say what becomes of requests while the store is away.

use std::process::Command;
use std::time::{Duration, Instant};

use tollgate_commands::gate::Restrictions;
use tollgate_engine::{Check, Engine, EngineConfig, Handle};
use tollgate_limiter::{AlgorithmKind, Cost, Quota};
use tollgate_testkit::{PATIENCE, Server, peers};
use tollgate_wire::rls::RateLimitResponse;
use tollgate_wire::rls::rate_limit_response::Code;
use tonic::Code as GrpcCode;

use crate::support::{Client, Service, descriptor, request, system_clock};

const RULES: &str = "
domain: test
descriptors:
  - key: error
    rate_limit: {unit: year, requests_per_unit: 100}
  - key: closed
    rate_limit: {unit: year, requests_per_unit: 100, on_error: closed}
  - key: open
    rate_limit: {unit: year, requests_per_unit: 1, on_error: {mode: open, budget: 1h}}
  - key: spent
    rate_limit: {unit: year, requests_per_unit: 100, on_error: {mode: open, budget: 1ms}}
  - key: local
    rate_limit: {unit: year, requests_per_unit: 10, on_error: {mode: local, share: 30%}}
";

/// What decided in the store's place.
pub(crate) fn fallback(response: &RateLimitResponse) -> Option<&str> {
    let mut headers = response.response_headers_to_add.iter();
    let header = headers.find(|header| header.key == "x-ratelimit-fallback");
    header.map(|header| &*header.value)
}

async fn ask(client: &mut Client, key: &str) -> (Code, Option<String>) {
    let asked = request(vec![descriptor(&[key])]);
    let response = client.ask(asked).await.expect("an answer");
    let by = fallback(&response).map(str::to_owned);
    (response.overall_code(), by)
}

/// Waits until the store is found to be away, or back.
async fn until(client: &mut Client, away: bool) {
    let deadline = Instant::now() + PATIENCE;
    while ask(client, "closed=wait").await.1.is_some() != away {
        assert!(Instant::now() < deadline, "away: {away}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What the rules say of a store that is away.
async fn all_ways(client: &mut Client, service: &Service) {
    let said = |code, by: &str| (code, Some(by.to_owned()));
    assert_eq!(
        ask(client, "closed=a").await,
        said(Code::OverLimit, "closed")
    );
    for _ in 0..3 {
        assert_eq!(ask(client, "open=a").await, said(Code::Ok, "open"));
    }
    assert_eq!(
        ask(client, "spent=a").await,
        said(Code::OverLimit, "closed")
    );
    let asked = request(vec![descriptor(&["error=a"])]);
    let status = client.ask(asked).await.expect_err("nobody decides");
    assert_eq!(status.code(), GrpcCode::Unavailable);
    // HTTP says it in the same header.
    let asked = |key: &str| {
        let body = format!(
            r#"{{"domain":"test","descriptors":[{{"entries":[{{"key":"{key}","value":"a"}}]}}]}}"#
        );
        service.http_with_head("POST", "/v1/decide", &body)
    };
    for (key, status, by) in [("closed", 429, "closed"), ("open", 200, "open")] {
        let (told, head, body) = asked(key);
        assert_eq!(told, status, "{body}");
        assert!(
            head.contains(&format!("x-ratelimit-fallback: {by}")),
            "{head}"
        );
        assert!(body.contains(&format!("\"fallback\":\"{by}\"")), "{body}");
    }
    // One that is closed denies whatever the others say.
    let both = request(vec![descriptor(&["error=a"]), descriptor(&["closed=a"])]);
    let denied = client.ask(both).await.expect("a denial");
    assert_eq!(denied.overall_code(), Code::OverLimit);
    let metrics = service.http("GET", "/metrics", "").1;
    for line in [
        "tollgate_backend_up 0",
        "tollgate_fallback_total{mode=\"open\"} ",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

/// The store of this process counts nothing while too few replicas follow it (`min-replicas-to-write`), and is away then.
#[tokio::test]
async fn a_store_that_lacks_replicas() {
    let why = "fewer replicas follow than min-replicas-to-write asks for";
    a_store_that_counts_nothing(Engine::refuse_writes_without_replicas, why).await;
}

/// A replica's counters are its master's: what would be counted there would be lost with the next change of it.
#[tokio::test]
async fn a_store_that_is_a_replica() {
    let become_one = |engine: &Engine, replica| {
        engine.restrict(match replica {
            true => Restrictions::READ_ONLY,
            false => Restrictions::NONE,
        });
    };
    let why = "this server is a replica, and only its master counts";
    a_store_that_counts_nothing(become_one, why).await;
}

async fn a_store_that_counts_nothing(switch: impl Fn(&Engine, bool), why: &str) {
    let engine = Engine::new(EngineConfig::default());
    let service = Service::with_store(Handle::new(engine.clone()), RULES);
    let mut client = service.client().await;
    assert_eq!(ask(&mut client, "open=a").await, (Code::Ok, None));
    assert_eq!(ask(&mut client, "open=a").await, (Code::OverLimit, None));
    switch(&engine, true);
    all_ways(&mut client, &service).await;
    let asked = request(vec![descriptor(&["error=a"])]);
    let status = client.ask(asked).await.expect_err("nobody decides");
    assert!(status.message().contains(why), "{status}");
    // What has no limit passes as ever.
    let free = client.ask(request(vec![descriptor(&["free=a"])])).await;
    assert_eq!(free.expect("an answer").overall_code(), Code::Ok);
    switch(&engine, false);
    assert_eq!(ask(&mut client, "open=a").await, (Code::OverLimit, None));
    assert_eq!(ask(&mut client, "closed=b").await, (Code::Ok, None));
}

/// A counter's key that holds something else is no reason to leave a rule's own way out.
#[tokio::test]
async fn a_key_that_holds_something_else() {
    let store = Handle::new(Engine::new(EngineConfig::default()));
    let other = Check {
        key: b"rl:y:4:test:4:open:1:a",
        algorithm: AlgorithmKind::Gcra,
        quota: Quota::new(1, 3_600_000_000_000),
        cost: Cost(1),
        peek: false,
        exact: true,
    };
    store.decide(&[other], system_clock()).expect("a new key");
    let service = Service::with_store(store, RULES);
    let mut client = service.client().await;
    let open = (Code::Ok, Some("open".to_owned()));
    assert_eq!(ask(&mut client, "open=a").await, open);
    // Also beside what is decided by itself.
    let mut back = descriptor(&["local=a"]);
    back.is_negative_hits = true;
    let asked = request(vec![descriptor(&["open=a"]), back]);
    let response = client.ask(asked).await.expect("an answer");
    assert_eq!(response.overall_code(), Code::Ok);
    assert!(fallback(&response).is_some(), "{response:?}");
    assert_eq!(ask(&mut client, "open=b").await, (Code::Ok, None));
}

pub(crate) fn signal(name: &str, store: &Server) {
    let sent = Command::new("kill")
        .arg(name)
        .arg(store.pid().to_string())
        .status();
    assert!(sent.expect("kill runs").success());
}

#[tokio::test]
async fn a_store_that_stands_still() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        peers::skip("a_store_that_stands_still", "redis-server");
        return;
    };
    let service = Service::on_store(&format!("redis://{}", redis.addr()), RULES, |config| {
        config.store.timeout = Duration::from_secs(3);
    });
    let mut client = service.client().await;
    assert_eq!(ask(&mut client, "open=a").await, (Code::Ok, None));
    assert_eq!(ask(&mut client, "open=a").await, (Code::OverLimit, None));
    signal("-STOP", &redis);
    until(&mut client, true).await;
    all_ways(&mut client, &service).await;
    let mut passed = 0;
    for _ in 0..8 {
        let (code, by) = ask(&mut client, "local=a").await;
        assert_eq!(by.as_deref(), Some("local"));
        passed += u32::from(code == Code::Ok);
    }
    assert_eq!(passed, 3, "30 % of 10");
    signal("-CONT", &redis);
    until(&mut client, false).await;
    // What the store had counted it still counts.
    assert_eq!(ask(&mut client, "open=a").await, (Code::OverLimit, None));
    assert!(
        service
            .http("GET", "/metrics", "")
            .1
            .contains("tollgate_backend_up 1")
    );
}

#[tokio::test]
async fn a_store_that_was_killed() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        peers::skip("a_store_that_was_killed", "redis-server");
        return;
    };
    let addr = redis.addr();
    let service = Service::remote_with(&format!("redis://{addr}"), RULES);
    let mut client = service.client().await;
    assert_eq!(ask(&mut client, "closed=a").await, (Code::Ok, None));
    drop(redis);
    until(&mut client, true).await;
    all_ways(&mut client, &service).await;
    let again = crate::backend::restart(addr);
    until(&mut client, false).await;
    assert_eq!(ask(&mut client, "closed=a").await, (Code::Ok, None));
    drop(again);
}
