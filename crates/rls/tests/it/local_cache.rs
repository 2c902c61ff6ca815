//! `LOCAL_CACHE_SIZE_IN_BYTES`: a store elsewhere is not asked again about limits that are over.

use std::time::Instant;

use tollgate_rls::EnvoyCounters;
use tollgate_testkit::{Client as Store, Server, peers};
use tollgate_wire::resp::Value;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitDescriptor, UInt64Value};

use crate::support::{Client, Service, descriptor, request};

const RULES: &str = "
domain: test
descriptors:
  - {key: ten, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
";

fn started(redis: &Server, counters: Option<EnvoyCounters>, bytes: usize) -> Service {
    let url = format!("redis://{}", redis.addr());
    Service::on_store(&url, RULES, |config| {
        config.envoy_counters = counters;
        config.local_cache_bytes = bytes;
    })
}

/// How often the store was asked to decide by a command.
fn asked(store: &mut Store, command: &str) -> u64 {
    let Ok(Value::Bulk(info)) = store.call(&["INFO", "commandstats"]) else {
        panic!("a text")
    };
    let info = String::from_utf8(info).expect("text");
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    let calls = line.and_then(|line| line.split(',').next()?.parse().ok());
    calls.unwrap_or(0)
}

async fn ask(client: &mut Client, pair: &str, hits: u64) -> Code {
    let one = RateLimitDescriptor {
        hits_addend: Some(UInt64Value { value: hits }),
        ..descriptor(&[pair])
    };
    let response = client.ask(request(vec![one])).await.expect("an answer");
    response.overall_code()
}

fn has_lines(service: &Service, lines: &[&str]) {
    let (_, text) = service.http("GET", "/metrics", "");
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line}\n{text}");
    }
}

/// The same requests by both kinds of counters; `command` is what each question sends.
async fn the_store_is_spared(redis: &Server, counters: Option<EnvoyCounters>, command: &str) {
    let mut store = redis.connect().expect("redis-server answers");
    let service = started(redis, counters, 1 << 16);
    let mut client = service.client().await;
    for _ in 0..10 {
        assert_eq!(ask(&mut client, "ten=a", 1).await, Code::Ok);
    }
    let (before, began) = (asked(&mut store, command), Instant::now());
    // The store is asked for its health as well, once a second and once at the start.
    let mut spared = |needed: u64| {
        let more = asked(&mut store, command) - before;
        let looks = began.elapsed().as_secs() + 2;
        assert!((needed..=needed + looks).contains(&more), "{more}, {looks}");
    };
    for _ in 0..50 {
        assert_eq!(ask(&mut client, "ten=a", 1).await, Code::OverLimit);
    }
    spared(1);
    // A shadow is over as often, and denies nothing.
    for _ in 0..12 {
        assert_eq!(ask(&mut client, "shadow=a", 1).await, Code::Ok);
    }
    spared(4);
    has_lines(
        &service,
        &[
            "ratelimit_service_rate_limit_total_hits{domain=\"test\",key1=\"ten\"} 60",
            "ratelimit_service_rate_limit_over_limit{domain=\"test\",key1=\"ten\"} 50",
            "ratelimit_service_rate_limit_over_limit_with_local_cache{domain=\"test\",key1=\"ten\"} 49",
            "ratelimit_service_rate_limit_over_limit_with_local_cache{domain=\"test\",key1=\"shadow\"} 9",
            "ratelimit_service_rate_limit_shadow_mode{domain=\"test\",key1=\"shadow\"} 10",
            "ratelimit_localcache_hitCount 58",
            "ratelimit_localcache_entryCount 2",
        ],
    );
}

#[tokio::test]
async fn limits_that_are_over_are_answered_without_the_store() {
    let test = "limits_that_are_over_are_answered_without_the_store";
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip(test, "redis-server");
    };
    the_store_is_spared(&redis, None, "evalsha").await;
    the_store_is_spared(&redis, Some(EnvoyCounters::default()), "incrby").await;
    // Units that come back are there at once.
    let service = started(&redis, None, 1 << 16);
    let mut client = service.client().await;
    assert_eq!(ask(&mut client, "ten=back", 10).await, Code::Ok);
    for _ in 0..3 {
        assert_eq!(ask(&mut client, "ten=back", 1).await, Code::OverLimit);
    }
    let back = RateLimitDescriptor {
        is_negative_hits: true,
        ..descriptor(&["ten=back"])
    };
    client.ask(request(vec![back])).await.expect("an answer");
    assert_eq!(ask(&mut client, "ten=back", 1).await, Code::Ok);
}

/// Requests that cross a limit are split in metrics as `base_limiter.go` splits them, where a fleet's counters are used.
#[tokio::test]
async fn hits_of_a_request_that_crosses_a_limit_are_split() {
    let test = "hits_of_a_request_that_crosses_a_limit_are_split";
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip(test, "redis-server");
    };
    let service = started(&redis, Some(EnvoyCounters::default()), 0);
    let mut client = service.client().await;
    // 7, 12, 16 of 10: near is above 8.
    for (hits, code) in [(7, Code::Ok), (5, Code::OverLimit), (4, Code::OverLimit)] {
        assert_eq!(ask(&mut client, "ten=a", hits).await, code);
    }
    // Nothing is left of what was crossed.
    let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"ten","value":"b"}],"hitsAddend":"11"}]}"#;
    let (status, reply) = service.http("POST", "/v1/decide", body);
    assert_eq!(status, 429);
    assert!(reply.contains("\"remaining\":0"), "{reply}");
    has_lines(
        &service,
        &[
            "ratelimit_service_rate_limit_total_hits{domain=\"test\",key1=\"ten\"} 27",
            "ratelimit_service_rate_limit_over_limit{domain=\"test\",key1=\"ten\"} 7",
            "ratelimit_service_rate_limit_near_limit{domain=\"test\",key1=\"ten\"} 4",
            "ratelimit_service_rate_limit_within_limit{domain=\"test\",key1=\"ten\"} 7",
            "ratelimit_service_rate_limit_over_limit_with_local_cache{domain=\"test\",key1=\"ten\"} 0",
        ],
    );
}
