//! Never over-admit, where requests are more than one descriptor that takes: several algorithms at once, units that come back,
//! and reservations, by a hundred clients; and reservations through a restart of the store.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Barrier;
use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Server, peers};
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest, UInt64Value};

use crate::storm::{CLIENTS, KEYS, LIMIT, Place, rules};
use crate::support::{Client, Service, descriptor, http_request, request};

/// Keys whose units can be reserved and given back in parts.
const HELD: [&str; 7] = [
    "fixed-window",
    "fixed-window-epoch",
    "gcra",
    "sliding-window",
    "token-bucket",
    "leaky-bucket",
    "calendar",
];

fn on(url: &str) -> Service {
    Service::remote_with(url, &rules())
}

fn hits(key: &str, value: &str, hits: u64, is_negative_hits: bool) -> RateLimitDescriptor {
    RateLimitDescriptor {
        hits_addend: Some(UInt64Value { value: hits }),
        is_negative_hits,
        ..descriptor(&[&format!("{key}={value}")])
    }
}

async fn passes(client: &mut Client, asked: RateLimitRequest) -> bool {
    let response = client.ask(asked).await.expect("an answer");
    response.overall_code() == Code::Ok
}

/// What is left of a key, one by one.
async fn drain(client: &mut Client, key: &str, value: &str) -> usize {
    let mut left = 0;
    while passes(client, request(vec![hits(key, value, 1, false)])).await {
        left += 1;
        assert!(left <= 10 * LIMIT, "{key} has no end");
    }
    left
}

/// What clients at once make of their turns, summed up.
async fn all<F: Future<Output = usize> + Send + 'static>(
    place: Place,
    client: impl Fn(usize, Client) -> F,
) -> usize {
    let start = Arc::new(Barrier::new(CLIENTS));
    let mut asking = Vec::new();
    for number in 0..CLIENTS {
        let turns = client(number, Client::connect(place.grpc).await);
        let start = start.clone();
        asking.push(tokio::spawn(async move {
            start.wait().await;
            turns.await
        }));
    }
    let mut sum = 0;
    for client in asking {
        sum += client.await.expect("no panic");
    }
    sum
}

/// Requests for all algorithms at once: all take, or none does.
async fn several_descriptors(place: Place, is_one_step: bool) {
    let together = all(place, |_, mut client| async move {
        let mut passed = 0;
        for _ in 0..2 {
            let each = KEYS.iter().map(|key| hits(key, "together", 1, false));
            passed += usize::from(passes(&mut client, request(each.collect())).await);
        }
        passed
    })
    .await;
    assert!(together <= LIMIT, "{together}");
    assert!(!is_one_step || together == LIMIT, "{together}");
    let mut client = Client::connect(place.grpc).await;
    for key in KEYS {
        let left = drain(&mut client, key, "together").await;
        assert_eq!(together + left, LIMIT, "{key}: a denial took something");
    }
}

/// Some of what was taken comes back at once.
async fn units_come_back(place: Place) {
    let mut client = Client::connect(place.grpc).await;
    for key in HELD {
        let kept = all(place, |_, mut client| async move {
            let mut kept = 0;
            for _ in 0..3 {
                if passes(&mut client, request(vec![hits(key, "back", 3, false)])).await {
                    let back = request(vec![hits(key, "back", 2, true)]);
                    assert!(passes(&mut client, back).await, "{key}");
                    kept += 1;
                }
            }
            kept
        })
        .await;
        assert!(kept <= LIMIT, "{key}: {kept}");
        let left = drain(&mut client, key, "back").await;
        assert_eq!(kept + left, LIMIT, "{key}");
    }
}

fn post(http: SocketAddr, path: &str, body: &Value) -> u16 {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    http_request(http, head.as_bytes(), body.as_bytes()).0
}

/// What to reserve; it does not come back by itself during a test.
fn kept(key: &str, value: &str, id: &str, hits: u64) -> Value {
    const DAY_MS: u64 = 86_400_000;
    let more = json!({"hits_addend": hits, "ttl_ms": DAY_MS});
    held(key, value, id, more)
}

fn held(key: &str, value: &str, id: &str, more: Value) -> Value {
    let entries = [json!({"key": key, "value": value})];
    let mut body = json!({"domain": "test", "id": id, "descriptors": [{"entries": entries}]});
    for (name, value) in more.as_object().expect("a map") {
        body[name] = value.clone();
    }
    body
}

/// Reserves seven units and ends them with some other cost, up to nine of which two come on top of what was reserved; what
/// counts in the end. The reservation is told twice, and so is its end.
fn reserve_and_end(http: SocketAddr, key: &str, id: &str, actual: u64) -> usize {
    let reserve = kept(key, "held", id, 7);
    let statuses = [(); 2].map(|()| post(http, "/v1/reserve", &reserve));
    if statuses == [429, 429] {
        return 0;
    }
    assert!(statuses.contains(&200), "{key} {statuses:?}");
    let end = match actual {
        0 => ("/v1/cancel", held(key, "held", id, json!({}))),
        _ => (
            "/v1/commit",
            held(key, "held", id, json!({"actual": actual})),
        ),
    };
    for _ in 0..2 {
        assert_eq!(post(http, end.0, &end.1), 200, "{key}");
    }
    actual as usize
}

async fn reservations(place: Place) {
    let mut client = Client::connect(place.grpc).await;
    for key in HELD {
        let asking: Vec<_> = (0..CLIENTS / 4)
            .map(|number| {
                let asked = move || {
                    let id = format!("{key}-{number}");
                    reserve_and_end(place.http, key, &id, number as u64 % 8)
                };
                tokio::task::spawn_blocking(asked)
            })
            .collect();
        let mut counted = 0;
        for client in asking {
            counted += client.await.expect("no panic");
        }
        assert!(counted <= LIMIT, "{key}: {counted}");
        let left = drain(&mut client, key, "held").await;
        assert_eq!(counted + left, LIMIT, "{key}");
    }
}

pub(crate) async fn every_way(service: &Service, is_one_step: bool) {
    let place = Place::of(service);
    several_descriptors(place, is_one_step).await;
    units_come_back(place).await;
    reservations(place).await;
}

#[tokio::test]
async fn mixed_requests_hold_every_limit_on_the_embedded_store() {
    let service = Service::with_config(|config| {
        std::fs::write(config.rules_dir.join("rules.yaml"), rules()).expect("the folder is ours");
    });
    every_way(&service, true).await;
}

#[tokio::test]
async fn mixed_requests_hold_every_limit_on_tollgate() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    every_way(&on(&format!("redis://{}", store.addr())), true).await;
}

#[tokio::test]
async fn mixed_requests_hold_every_limit_on_redis() {
    match Server::redis(&[]).expect("redis-server starts") {
        None => peers::skip("mixed_requests_hold_every_limit_on_redis", "redis-server"),
        Some(store) => every_way(&on(&format!("redis://{}", store.addr())), true).await,
    }
}

/// Slot by slot, with what was taken given back where another slot denies.
#[tokio::test]
async fn mixed_requests_hold_every_limit_on_a_cluster() {
    match RedisCluster::start().expect("the nodes agree") {
        None => peers::skip(
            "mixed_requests_hold_every_limit_on_a_cluster",
            "redis-server",
        ),
        Some(cluster) => every_way(&on(&cluster.url("redis+cluster")), false).await,
    }
}

/// `kill -9` of a store that logs each write, while units are reserved and places are in use.
async fn reservations_outlive_a_store(start: impl Fn(&[&str]) -> Option<Server>) {
    let dir = temp_dir().expect("a temporary folder");
    let path = dir.display().to_string();
    let log = [
        "--dir",
        &path,
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    let Some(first) = start(&log) else { return };
    let service = on(&format!("redis://{}", first.addr()));
    let http = Place::of(&service).http;
    for key in HELD {
        let reserve = kept(key, "held", "r", 20);
        assert_eq!(post(http, "/v1/reserve", &reserve), 200, "{key}");
    }
    let mut client = Client::connect(Place::of(&service).grpc).await;
    let places = request(vec![hits("concurrency", "held", 20, false)]);
    assert!(passes(&mut client, places).await);
    drop(first);
    drop(service);

    let second = start(&log).expect("it was there before");
    let service = on(&format!("redis://{}", second.addr()));
    let place = Place::of(&service);
    let mut client = Client::connect(place.grpc).await;
    assert_eq!(drain(&mut client, "concurrency", "held").await, LIMIT - 20);
    for key in HELD {
        assert_eq!(drain(&mut client, key, "held").await, LIMIT - 20, "{key}");
        for _ in 0..2 {
            let commit = held(key, "held", "r", json!({"actual": 5}));
            assert_eq!(post(place.http, "/v1/commit", &commit), 200, "{key}");
        }
        assert_eq!(drain(&mut client, key, "held").await, 15, "{key}");
    }
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
}

#[tokio::test]
async fn reservations_and_places_outlive_a_store_of_ours() {
    reservations_outlive_a_store(|flags| Some(Server::tollgate(flags).expect("it starts"))).await;
}

#[tokio::test]
async fn reservations_and_places_outlive_a_redis() {
    let test = "reservations_and_places_outlive_a_redis";
    reservations_outlive_a_store(|flags| {
        let redis = Server::redis(flags).expect("redis-server starts");
        if redis.is_none() {
            peers::skip(test, "redis-server");
        }
        redis
    })
    .await;
}
