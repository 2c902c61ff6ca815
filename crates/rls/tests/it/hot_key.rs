//! Strategies for hot keys on a real store: two services, fewer questions, admissions within the stated bound.

use tollgate_limiter::Timestamp;
use tollgate_testkit::{Server, peers};
use tollgate_wire::rls::rate_limit_response::Code;

use crate::support::{Service, descriptor, request};

const RULES: &str = "
domain: test
descriptors:
  - key: denials
    rate_limit: {unit: year, requests_per_unit: 50, hot_key: denial-cache}
  - key: local
    rate_limit: {unit: year, requests_per_unit: 50, hot_key: {strategy: local, share: 30%, services: 2}}
  - key: shards
    rate_limit: {unit: year, requests_per_unit: 50, hot_key: {strategy: shards, shards: 8}}
  - key: behind
    rate_limit: {unit: year, requests_per_unit: 50, hot_key: {strategy: write-behind, interval: 1s}}
  - key: sampled
    rate_limit: {unit: year, requests_per_unit: 50, hot_key: {strategy: probabilistic, one_in: 5}}
  - key: batches
    rate_limit: {unit: year, requests_per_unit: 50, hot_key: {strategy: batch, size: 5}}
";
const LIMIT: u64 = 50;
/// Requests of each service.
const EACH: u64 = 100;

/// The value of a metric.
fn metric(service: &Service, name: &str) -> u64 {
    let page = service.http("GET", "/metrics", "").1;
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in {page}"));
    value.trim().parse().expect("a number")
}

/// Both services in turn: how many requests pass, and how many questions the store was asked for them.
async fn admitted(services: &[Service; 2], key: &str, strategy: &str) -> (u64, u64) {
    let asked = |service| {
        let name = format!("tollgate_hot_key_asked_total{{strategy=\"{strategy}\"}}");
        metric(service, &name)
    };
    let mut clients = [services[0].client().await, services[1].client().await];
    let mut admitted = 0;
    for _ in 0..EACH {
        for client in &mut clients {
            let asked = request(vec![descriptor(&[&format!("{key}=hot")])]);
            let response = client.ask(asked).await.expect("an answer");
            admitted += u64::from(response.overall_code() == Code::Ok);
        }
    }
    (admitted, services.iter().map(asked).sum())
}

#[tokio::test(flavor = "current_thread")]
async fn strategies_ask_less_and_keep_their_bounds() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("strategies_ask_less_and_keep_their_bounds", "redis-server");
    };
    let url = format!("redis://{}", redis.addr());
    let services = [
        Service::remote_with(&url, RULES),
        Service::remote_with(&url, RULES),
    ];
    // Each with what it may admit too little and too much.
    for (key, strategy, under, over) in [
        ("denials", "denial-cache", 0, 0),
        ("local", "local", 0, 0),
        ("shards", "shards", 0, 0),
        ("behind", "write-behind", 0, LIMIT),
        ("sampled", "probabilistic", 3 * 4, 2 * 4),
        ("batches", "batch", 3 * 4, 0),
    ] {
        let (admitted, asked) = admitted(&services, key, strategy).await;
        assert!(
            admitted + under >= LIMIT && admitted <= LIMIT + over,
            "{strategy}: {admitted}"
        );
        assert!(asked > 0 && asked < 2 * EACH, "{strategy}: {asked}");
    }
}

/// What passed and was not written is written when the service ends.
#[tokio::test(flavor = "current_thread")]
async fn the_end_of_a_service_writes_its_sums() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("the_end_of_a_service_writes_its_sums", "redis-server");
    };
    let url = format!("redis://{}", redis.addr());
    let rules = RULES.replace("interval: 1s", "interval: 10s");
    let service = Service::remote_with(&url, &rules);
    let mut client = service.client().await;
    for _ in 0..7 {
        let asked = request(vec![descriptor(&["behind=end"])]);
        let response = client.ask(asked).await.expect("an answer");
        assert_eq!(response.overall_code(), Code::Ok);
    }
    drop((client, service));
    let exact = rules.replace(
        "hot_key: {strategy: write-behind, interval: 10s}",
        "name: b",
    );
    let next = Service::remote_with(&url, &exact);
    let asked = request(vec![descriptor(&["behind=end"])]);
    let response = next.client().await.ask(asked).await.expect("an answer");
    assert_eq!(response.statuses[0].limit_remaining, 50 - 8);
}

/// While the store is away, the rule says what happens.
#[tokio::test(flavor = "current_thread")]
async fn strategies_leave_outages_to_the_rule() {
    let service = Service::remote_with(
        "redis://127.0.0.1:1",
        &RULES.replace("hot_key:", "on_error: closed, hot_key:"),
    );
    let mut client = service.client().await;
    for key in ["denials", "shards", "behind"] {
        let asked = request(vec![descriptor(&[&format!("{key}=x")])]);
        let response = client.ask(asked).await.expect("an answer");
        assert_eq!(response.overall_code(), Code::OverLimit, "{key}");
    }
}

/// No time passes: whoever asks 64 times has asked often.
fn standing_clock() -> Timestamp {
    Timestamp::from_secs(1_767_225_600)
}

/// What the counter of a key itself says is left.
fn left_in_counter(service: &Service, key: &str) -> u64 {
    let body = format!(
        r#"{{"domain": "test", "descriptors": [{{"entries": [{{"key": "{key}", "value": "hot"}}]}}]}}"#
    );
    let (status, reply) = service.http("POST", "/v1/explain", &body);
    assert_eq!(status, 200, "{reply}");
    let reply: serde_json::Value = serde_json::from_str(&reply).expect("JSON");
    let left = &reply["descriptors"][0]["limits"][0]["remaining"];
    left.as_u64().unwrap_or_else(|| panic!("{reply}"))
}

/// Threads of the embedded store take units of hot keys in advance, but not of a rule that says `exact`.
#[tokio::test(flavor = "current_thread")]
async fn an_exact_rule_leases_nothing() {
    const LIMIT: u64 = 1_000_000;
    const ASKED: u64 = 300;
    let rules = "
domain: test
descriptors:
  - key: plain
    rate_limit: {unit: day, requests_per_unit: 1000000}
  - key: exact
    rate_limit: {unit: day, requests_per_unit: 1000000, exact: true}
";
    let service = Service::with_clock_and_rules(standing_clock, None, rules);
    let mut client = service.client().await;
    for key in ["plain", "exact"] {
        for _ in 0..ASKED {
            let asked = request(vec![descriptor(&[&format!("{key}=hot")])]);
            let response = client.ask(asked).await.expect("an answer");
            assert_eq!(response.overall_code(), Code::Ok, "{key}");
        }
    }
    let left = left_in_counter(&service, "plain");
    assert!(left < LIMIT - ASKED, "nothing was leased: {left} are left");
    assert_eq!(left_in_counter(&service, "exact"), LIMIT - ASKED);
}
