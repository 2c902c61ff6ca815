//! The counters of envoyproxy/ratelimit, shared with a fleet of it: another client that sends exactly its commands.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_rls::{
    Backend, EnvoyCounters, PerSecondStore, RlsConfig, RlsServer, StartError, StoreConfig,
};
use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client as Store, Server, peers};
use tollgate_wire::resp::Value;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse, UInt64Value};

use crate::support::{Client, Service, config, descriptor, patient, request, system_clock};

/// Seconds of a year as envoyproxy/ratelimit counts, so long that no test meets the end of the window.
const YEAR: u64 = 365 * 86_400;
const JITTER: u64 = 50;

const RULES: &str = "
domain: test
descriptors:
  - {key: ten, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: hundred, rate_limit: {unit: year, requests_per_unit: 100}}
  - {key: second, rate_limit: {unit: second, requests_per_unit: 1000}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: quota, quota_mode: all, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: files, value: a*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 10}}
";

fn redis(test: &str) -> Option<Server> {
    crate::support::redis(test, &[])
}

fn counters(stop_when_over: bool) -> EnvoyCounters {
    EnvoyCounters {
        prefix: "p_".to_owned(),
        expiry_jitter_max_secs: JITTER,
        stop_when_over,
    }
}

fn service(url: &str, stop_when_over: bool) -> Service {
    Service::on_store(url, RULES, |config| {
        config.envoy_counters = Some(counters(stop_when_over));
    })
}

fn url(store: &Server) -> String {
    format!("redis://{}", store.addr())
}

/// The key of a descriptor's counter in the year of now.
fn key(entries: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs();
    format!("p_test_{entries}_{}", now / YEAR * YEAR)
}

/// What a service of the fleet does for one limit: what the counter holds then.
fn fleet_counts(store: &mut Store, key: &str, hits: u64) -> u64 {
    let count = store.call(&["INCRBY", key, &hits.to_string()]);
    let set = store.call(&["EXPIRE", key, &(YEAR + 7).to_string()]);
    assert_eq!(set.expect("the store answers").as_int(), Some(1));
    let count = count.expect("the store answers").as_int();
    count.expect("a number").try_into().expect("not negative")
}

fn holds(store: &mut Store, key: &str) -> Option<String> {
    match store.call(&["GET", key]).expect("the store answers") {
        Value::Bulk(digits) => Some(String::from_utf8(digits).expect("text")),
        Value::Null => None,
        other => panic!("{other:?}"),
    }
}

async fn ask(client: &mut Client, descriptors: Vec<RateLimitDescriptor>) -> RateLimitResponse {
    client.ask(request(descriptors)).await.expect("an answer")
}

fn weighing(pair: &str, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor {
        hits_addend: Some(UInt64Value { value: hits }),
        ..descriptor(&[pair])
    }
}

#[tokio::test]
async fn a_fleet_and_the_service_count_in_one_counter() {
    let Some(redis) = redis("a_fleet_and_the_service_count_in_one_counter") else {
        return;
    };
    let mut fleet = redis.connect().expect("redis-server answers");
    let service = service(&url(&redis), false);
    let mut client = service.client().await;
    let counter = key("ten_a");
    assert_eq!(fleet_counts(&mut fleet, &counter, 4), 4);
    for left in [5, 4] {
        let response = ask(&mut client, vec![descriptor(&["ten=a"])]).await;
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!(response.statuses[0].limit_remaining, left);
    }
    assert_eq!(fleet_counts(&mut fleet, &counter, 4), 10);
    // A denied request counts too, as there.
    for grown in 11..=12 {
        let response = ask(&mut client, vec![descriptor(&["ten=a"])]).await;
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(response.statuses[0].limit_remaining, 0);
        assert_eq!(holds(&mut fleet, &counter), Some(grown.to_string()));
    }
    let ttl = fleet
        .call(&["TTL", &counter])
        .expect("redis-server answers");
    let ttl = ttl.as_int().expect("a number").unsigned_abs();
    assert!((YEAR - 3_600..YEAR + JITTER).contains(&ttl), "{ttl}");
    // To look takes nothing, and what the counter cannot hold is refused.
    let asked = r#"{"domain":"test","descriptors":[{"entries":[{"key":"ten","value":"b"}]}]}"#;
    let (status, text) = service.http("POST", "/v1/explain", asked);
    assert_eq!(status, 200, "{text}");
    assert_eq!(holds(&mut fleet, &key("ten_b")), None);
    let reserve = asked.replace("\"domain\"", "\"id\":\"x\",\"ttl_ms\":1000,\"domain\"");
    let (status, text) = service.http("POST", "/v1/reserve", &reserve);
    assert_ne!(status, 200);
    assert!(text.contains("take no reservations"), "{text}");
    // Values that count together do so under their pattern.
    ask(&mut client, vec![descriptor(&["files=abc"])]).await;
    assert_eq!(holds(&mut fleet, &key("files_a*")), Some("1".to_owned()));
}

/// Whoever asks, the limit is that of all together.
#[tokio::test]
async fn a_limit_is_never_exceeded_by_a_fleet_and_the_service_together() {
    let test = "a_limit_is_never_exceeded_by_a_fleet_and_the_service_together";
    let Some(redis) = redis(test) else {
        return;
    };
    let service = service(&url(&redis), false);
    let addr = redis.addr();
    let counter = key("hundred_storm");
    let fleet: Vec<_> = (0..4)
        .map(|_| {
            let counter = counter.clone();
            std::thread::spawn(move || {
                let mut store = Store::connect(addr).expect("redis-server answers");
                let passed = (0..40).filter(|_| fleet_counts(&mut store, &counter, 1) <= 100);
                passed.count()
            })
        })
        .collect();
    let grpc = service.server().grpc_addr().expect("TCP");
    let asking: Vec<_> = (0..100)
        .map(|_| {
            tokio::spawn(async move {
                let mut client = Client::connect(grpc).await;
                let mut passed = 0;
                for _ in 0..2 {
                    let response = ask(&mut client, vec![descriptor(&["hundred=storm"])]).await;
                    passed += usize::from(response.overall_code() == Code::Ok);
                }
                passed
            })
        })
        .collect();
    let mut passed = 0;
    for client in asking {
        passed += client.await.expect("no panic");
    }
    for client in fleet {
        passed += client.join().expect("no panic");
    }
    assert_eq!(passed, 100);
    let mut store = redis.connect().expect("redis-server answers");
    assert_eq!(
        holds(&mut store, &counter),
        Some((4 * 40 + 200).to_string())
    );
}

#[tokio::test]
async fn each_limit_counts_for_itself_unless_told_to_stop() {
    let Some(redis) = redis("each_limit_counts_for_itself_unless_told_to_stop") else {
        return;
    };
    let mut store = redis.connect().expect("redis-server answers");
    let (counts, stops) = (service(&url(&redis), false), service(&url(&redis), true));
    let both = |hits| vec![weighing("ten=both", hits), weighing("hundred=both", hits)];
    for (service, want) in [(&counts, ["11", "11"]), (&stops, ["22", "11"])] {
        let mut client = service.client().await;
        let response = ask(&mut client, both(11)).await;
        assert_eq!(response.overall_code(), Code::OverLimit);
        let codes = response.statuses.iter().map(|status| status.code());
        assert!(codes.eq([Code::OverLimit, Code::Ok]), "{response:?}");
        assert_eq!(response.statuses[1].limit_remaining, 89);
        let held = ["ten_both", "hundred_both"].map(|entries| holds(&mut store, &key(entries)));
        assert_eq!(held, want.map(|count| Some(count.to_owned())));
    }
    // Shadows and quotas count with all others.
    let mut client = counts.client().await;
    for code in [Code::Ok, Code::OverLimit] {
        let response = ask(&mut client, vec![descriptor(&["quota=x"])]).await;
        assert_eq!(response.overall_code(), code);
        let response = ask(&mut client, vec![descriptor(&["shadow=x"])]).await;
        assert_eq!(response.overall_code(), Code::Ok);
    }
    for entries in ["quota_x", "shadow_x"] {
        assert_eq!(holds(&mut store, &key(entries)), Some("2".to_owned()));
    }
    // What comes back never makes room that there was not.
    let back = |hits| RateLimitDescriptor {
        is_negative_hits: true,
        ..weighing("ten=both", hits)
    };
    for (hits, left) in [(20, "2"), (5, "0"), (5, "0")] {
        let response = ask(&mut client, vec![back(hits)]).await;
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!(holds(&mut store, &key("ten_both")), Some(left.to_owned()));
    }
    // More than any counter holds.
    for _ in 0..2 {
        let response = ask(&mut client, vec![weighing("ten=most", u64::MAX)]).await;
        assert_eq!(response.overall_code(), Code::OverLimit);
    }
}

#[tokio::test]
async fn a_cluster_holds_the_counters_too() {
    let Some(cluster) = RedisCluster::start().expect("the nodes agree") else {
        peers::skip("a_cluster_holds_the_counters_too", "redis-server");
        return;
    };
    let service = service(&cluster.url("redis+cluster"), true);
    let mut client = service.client().await;
    let all = || {
        let values = ["a", "b", "c", "d", "e", "f"];
        let ten = values.map(|value| descriptor(&[&format!("ten={value}")]));
        ten.to_vec()
    };
    for left in [9, 8, 7] {
        let response = ask(&mut client, all()).await;
        let remaining = response
            .statuses
            .iter()
            .map(|status| status.limit_remaining);
        assert!(remaining.eq([left; 6]), "{response:?}");
    }
}

/// Limits per second are counted on a store of their own, and only those.
async fn per_second_apart(main: Server, apart: Server, envoy: bool) {
    let service = Service::on_store(&url(&main), RULES, |config| {
        config.envoy_counters = envoy.then(|| counters(false));
        config.per_second = Some(PerSecondStore {
            url: url(&apart),
            store: patient(),
        });
    });
    let mut client = service.client().await;
    let (year, second) = (descriptor(&["ten=a"]), descriptor(&["second=a"]));
    let response = ask(&mut client, vec![year.clone(), second.clone()]).await;
    assert_eq!(response.overall_code(), Code::Ok);
    let (tight, never) = (weighing("ten=a", 9), weighing("second=a", 1001));
    let response = ask(&mut client, vec![never, tight.clone()]).await;
    assert_eq!(response.overall_code(), Code::OverLimit);
    // By our own counters a denied request takes nothing on either store.
    let response = ask(&mut client, vec![tight]).await;
    let (code, left) = (
        response.overall_code(),
        response.statuses[0].limit_remaining,
    );
    match envoy {
        true => assert_eq!((code, left), (Code::OverLimit, 0)),
        false => assert_eq!((code, left), (Code::Ok, 0)),
    }
    let mut store = apart.connect().expect("redis-server answers");
    let keys = store
        .call(&["KEYS", "*ten*"])
        .expect("redis-server answers");
    assert_eq!(keys, Value::Array(Vec::new()));
    let one = |descriptor: &RateLimitDescriptor| RateLimitRequest {
        ..request(vec![descriptor.clone()])
    };
    drop(apart);
    let error = client.ask(one(&second)).await.expect_err("it is away");
    assert_eq!(error.code(), tonic::Code::Unavailable);
    client.ask(one(&year)).await.expect("the other counts");
}

#[tokio::test]
async fn limits_per_second_have_a_store_of_their_own() {
    let test = "limits_per_second_have_a_store_of_their_own";
    for envoy in [false, true] {
        let (Some(main), Some(apart)) = (redis(test), redis(test)) else {
            return;
        };
        per_second_apart(main, apart, envoy).await;
    }
}

#[test]
fn what_cannot_be_shared_is_refused_at_the_start() {
    let start = |backend: Backend, limit: &str, change: fn(&mut RlsConfig)| {
        let dir = temp_dir().expect("a temporary folder");
        let rules = format!("domain: d\ndescriptors:\n- key: k\n  rate_limit: {{{limit}}}\n");
        std::fs::write(dir.join("rules.yaml"), rules).expect("the folder is ours");
        let mut config = config(dir.clone(), backend);
        change(&mut config);
        let started = RlsServer::start(config, None, system_clock).map(drop);
        std::fs::remove_dir_all(&dir).expect("the folder is ours");
        started
    };
    let remote = || Backend::Remote("redis://127.0.0.1:1".to_owned());
    let plain = "unit: minute, requests_per_unit: 1";
    let counters: fn(&mut RlsConfig) =
        |config| config.envoy_counters = Some(EnvoyCounters::default());
    let apart: fn(&mut RlsConfig) = |config| {
        config.per_second = Some(PerSecondStore {
            url: "redis://127.0.0.1:1".to_owned(),
            store: StoreConfig::default(),
        });
    };
    let waits: fn(&mut RlsConfig) = |config| config.store.wait_replicas = 1;
    start(remote(), plain, counters).expect("it starts");
    let error = start(remote(), "concurrency: 1", counters).expect_err("no such counter");
    let text = error.to_string();
    assert!(
        text.contains("rules.yaml:4: the counters of envoyproxy/ratelimit cannot hold 'd.k'"),
        "{text}"
    );
    for asked in [counters, apart, waits] {
        let error = start(Backend::Embedded, plain, asked).expect_err("no store elsewhere");
        assert!(matches!(error, StartError::NeedsBackend(_)), "{error}");
    }
    let cluster = Backend::Remote("redis+cluster://127.0.0.1:1".to_owned());
    let error = start(cluster, plain, waits).expect_err("WAIT may be sent on another connection");
    assert!(
        error.to_string().contains("backend-wait-replicas"),
        "{error}"
    );
}
