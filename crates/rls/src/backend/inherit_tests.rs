//! Counters that go on under another limit, on every backend.

use std::time::Duration;
use tokio::task::LocalSet;
use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_limiter::{Act, AlgorithmKind, Cost, Method, Quota};
use tollgate_policy::{HotKey, Inherit, LimitCheck, OnError, Predecessor, Role};
use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::{Server, peers};

use super::link::Link;
use super::remote::Remote;
use super::tests::{NOW, YEAR, limits};
use super::url::parse_url;
use super::{Decide, Embedded, Pool};
use crate::config::StoreConfig;

fn check(key: &[u8], method: Method, limit: u64, cost: u64) -> LimitCheck<'_> {
    LimitCheck {
        key,
        method,
        quota: Quota::new(limit, YEAR),
        cost: Cost(cost),
        role: Role::Enforced,
        act: Act::Take,
        descriptor: 0,
        on_error: OnError::DEFAULT,
        hot_key: HotKey::Exact,
        exact: false,
        predecessor: None,
    }
}

async fn left<B: Decide>(backend: &B, check: LimitCheck<'_>) -> u64 {
    let look = LimitCheck {
        act: Act::Peek,
        cost: Cost(0),
        ..check
    };
    backend.decide(&[look]).await.expect("decided")[0].remaining
}

/// Every way from every algorithm to itself and to another, to more and to less. `again` asks the same store without what
/// the first knows.
async fn go_on<B: Decide>(backend: &B, again: &B) {
    let window = Method::Small(AlgorithmKind::FixedWindow);
    let gcra = Method::Small(AlgorithmKind::Gcra);
    let methods = limits().into_iter().map(|(method, _)| method);
    let methods = methods.filter(|&method| method != Method::Concurrency);
    let pairs: Vec<(Method, Method)> = methods
        .flat_map(|method| [(method, method), (method, window), (gcra, method)])
        .collect();
    let mut generation = 0;
    for (at, &(old, new)) in pairs.iter().enumerate() {
        for way in Inherit::ALL {
            for after in [20, 5] {
                generation += 1;
                let name =
                    |what: &str| format!("rl:{what}:{at}:{}:{after}", way.name()).into_bytes();
                let (from, to) = (name("from"), name("to"));
                let taken = check(&from, old, 10, 7);
                assert!(backend.decide(&[taken]).await.expect("decided")[0].allowed);
                let heir = LimitCheck {
                    predecessor: Some(Predecessor {
                        key: &from,
                        method: old,
                        quota: Quota::new(10, YEAR),
                        way,
                        generation,
                    }),
                    ..check(&to, new, after, 1)
                };
                let want = after - way.used(3, 10, after);
                let what = (old, new, way, after);
                assert_eq!(left(backend, heir).await, want, "{what:?}");
                assert_eq!(left(backend, taken).await, 10, "gone: {what:?}");
                let decided = backend.decide(&[heir]).await.expect("decided")[0];
                assert_eq!(decided.allowed, want > 0, "{what:?}");
                // Somebody with the old rules counts on, and nobody carries that over once more.
                backend.decide(&[taken]).await.expect("decided");
                let known = want.saturating_sub(1);
                assert_eq!(left(backend, heir).await, known, "{what:?}");
                if way != Inherit::Reset || want < after {
                    assert_eq!(left(again, heir).await, known, "{what:?}");
                }
                assert_eq!(left(backend, taken).await, 3, "{what:?}");
            }
        }
    }
    // What holds something else is left alone.
    let leases = LimitCheck {
        act: Act::Hold {
            id: b"a",
            ttl: YEAR,
        },
        ..check(b"rl:places:1", Method::Concurrency, 10, 1)
    };
    backend.decide(&[leases]).await.expect("decided");
    let heir = LimitCheck {
        predecessor: Some(Predecessor {
            key: b"rl:places:1",
            method: window,
            quota: Quota::new(10, YEAR),
            way: Inherit::AsIs,
            generation: generation + 1,
        }),
        ..check(b"rl:window:1", window, 5, 1)
    };
    assert_eq!(left(backend, heir).await, 5);
    assert_eq!(left(backend, leases).await, 9);
}

async fn go_on_remotely(store: &Server, scripts_only: bool) {
    let url = format!("redis://{}", store.addr());
    let remote = || {
        let address = parse_url(&url, &StoreConfig::default()).expect("a URL");
        let remote = Remote::new(
            Link::new(
                address,
                &StoreConfig {
                    // A busy machine makes anything wait.
                    timeout: Duration::from_secs(20),
                    ..StoreConfig::default()
                },
                Pool::new("redis_pool"),
            ),
            || NOW,
        );
        if scripts_only {
            remote.by_scripts()
        } else {
            remote
        }
    };
    LocalSet::new()
        .run_until(async { go_on(&remote(), &remote()).await })
        .await;
}

#[tokio::test]
async fn the_embedded_store() {
    let handle = Handle::new(Engine::new(EngineConfig::default()));
    let embedded = || Embedded::new(handle.clone(), || NOW);
    go_on(&embedded(), &embedded()).await;
}

#[tokio::test]
async fn redis_by_scripts() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        peers::skip("inherit: redis_by_scripts", "redis-server");
        return;
    };
    go_on_remotely(&redis, false).await;
}

#[tokio::test]
async fn tollgate_by_its_commands() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    go_on_remotely(&store, false).await;
}

/// Bans are Tollgate's own, here and elsewhere.
#[tokio::test]
async fn a_ban_goes_along() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    let mut client = store.connect().expect("a connection");
    let url = format!("redis://{}", store.addr());
    let address = parse_url(&url, &StoreConfig::default()).expect("a URL");
    let config = StoreConfig {
        // A busy machine makes anything wait.
        timeout: Duration::from_secs(20),
        ..StoreConfig::default()
    };
    let remote = Remote::new(Link::new(address, &config, Pool::new("redis_pool")), || NOW);
    let gcra = Method::Small(AlgorithmKind::Gcra);
    let work = async {
        let taken = check(b"rl:banned:from", Method::Log, 10, 7);
        assert!(remote.decide(&[taken]).await.expect("decided")[0].allowed);
        let ban = client.call(&["RL.BAN", "rl:banned:from", "86400000"]);
        assert_eq!(ban.expect("a reply").as_bytes(), Some(&b"OK"[..]));
        let heir = LimitCheck {
            predecessor: Some(Predecessor {
                key: taken.key,
                method: taken.method,
                quota: taken.quota,
                way: Inherit::AsIs,
                generation: 1,
            }),
            ..check(b"rl:banned:to", gcra, 20, 1)
        };
        assert!(!remote.decide(&[heir]).await.expect("decided")[0].allowed);
        let unban = client.call(&["RL.UNBAN", "rl:banned:to"]);
        assert_eq!(unban.expect("a reply").as_int(), Some(1));
        assert_eq!(left(&remote, heir).await, 3);
        assert_eq!(left(&remote, taken).await, 10);
    };
    LocalSet::new().run_until(work).await;
}

#[tokio::test]
async fn tollgate_by_scripts() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    go_on_remotely(&store, true).await;
}

#[tokio::test]
async fn a_cluster_by_scripts() {
    let Some(cluster) = RedisCluster::start().expect("the nodes agree") else {
        peers::skip("inherit: a_cluster_by_scripts", "redis-server");
        return;
    };
    let store = StoreConfig {
        // A busy machine makes anything wait.
        timeout: Duration::from_secs(20),
        ..StoreConfig::default()
    };
    let remote = || {
        let address = parse_url(&cluster.url("redis+cluster"), &store).expect("a URL");
        Remote::new(Link::new(address, &store, Pool::new("redis_pool")), || NOW)
    };
    LocalSet::new()
        .run_until(async { go_on(&remote(), &remote()).await })
        .await;
}
