//! Every algorithm and every act on every backend, held to the limiter's own states.

use std::time::Duration;
use tokio::task::LocalSet;
use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_limiter::calendar::{Calendar, CalendarUnit, Zone};
use tollgate_limiter::{
    ALGORITHMS, Act, AlgorithmKind, Cost, Decision, Method, Quota, Slot, SlotRequest, Timestamp,
    decide_slots,
};
use tollgate_policy::{HotKey, LimitCheck, OnError, Role};
use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::{Server, peers};

use super::link::Link;
use super::remote::Remote;
use super::url::parse_url;
use super::{Decide, Embedded, Pool};
use crate::config::StoreConfig;

/// So long that no time that passes in the test earns a unit.
pub(super) const YEAR: u64 = 365 * 86_400_000_000_000;
/// A time of the models; stores have their own.
pub(super) const NOW: Timestamp = Timestamp::from_secs(1_767_225_600);

/// All algorithms, each on a key of its own.
pub(super) fn limits() -> Vec<(Method, Quota)> {
    let quota = Quota::new(10, YEAR);
    let calendar = AlgorithmKind::Calendar(Calendar {
        unit: CalendarUnit::Year,
        zone: Zone::UTC,
    });
    let small = ALGORITHMS.iter().map(|row| match row.kind {
        AlgorithmKind::Calendar(_) => calendar,
        kind => kind,
    });
    small
        .map(Method::Small)
        .chain([Method::Log, Method::Concurrency])
        .map(|method| (method, quota))
        .collect()
}

fn hold(id: &'static str) -> Act<'static> {
    Act::Hold {
        id: id.as_bytes(),
        ttl: YEAR,
    }
}

/// How an algorithm takes.
fn taking(method: Method, id: &'static str) -> Act<'static> {
    match method {
        Method::Concurrency => hold(id),
        _ => Act::Take,
    }
}

/// What does not depend on the time.
fn seen(decision: &Decision) -> (bool, u64, u64, bool) {
    let Decision {
        allowed,
        limit,
        remaining,
        retry_after,
        ..
    } = *decision;
    (allowed, limit, remaining, retry_after.is_some())
}

struct Pair<'b, B> {
    backend: &'b B,
    keys: Vec<Vec<u8>>,
    limits: Vec<(Method, Quota)>,
    slots: Vec<Slot>,
}

impl<B: Decide> Pair<'_, B> {
    fn check(&self, at: usize, cost: u64, act: Act<'static>) -> LimitCheck<'_> {
        let (method, quota) = self.limits[at];
        LimitCheck {
            key: &self.keys[at],
            method,
            quota,
            cost: Cost(cost),
            role: Role::Enforced,
            act,
            descriptor: at,
            on_error: OnError::DEFAULT,
            exact: false,
            predecessor: None,
            hot_key: HotKey::Exact,
        }
    }

    async fn decide(&mut self, asked: &[(usize, u64, Act<'static>)]) {
        let checks: Vec<LimitCheck<'_>> = asked
            .iter()
            .map(|&(at, cost, act)| self.check(at, cost, act))
            .collect();
        let got = self.backend.decide(&checks).await.expect("decided");
        let requests: Vec<SlotRequest<'_>> = asked
            .iter()
            .map(|&(at, cost, act)| SlotRequest {
                method: self.limits[at].0,
                quota: self.limits[at].1,
                cost: Cost(cost),
                act,
                slot: at,
            })
            .collect();
        let (_, want) = decide_slots(&requests, &mut self.slots, NOW).expect("own states");
        let got: Vec<_> = got.iter().map(seen).collect();
        let want: Vec<_> = want.iter().map(|(decision, _)| seen(decision)).collect();
        assert_eq!(got, want, "{requests:?}");
    }

    async fn refund(&mut self, at: usize, units: u64) {
        let (method, quota) = self.limits[at];
        let check = self.check(at, units, Act::Take);
        let got = self.backend.refund(&check).await.expect("given back");
        let slot = &mut self.slots[at];
        slot.refund(method, &quota, units, NOW).expect("own");
        let want = slot.decide(method, &quota, Cost(0), true, NOW);
        assert_eq!(seen(&got), seen(&want.expect("own").0), "{method:?}");
    }

    async fn end(&mut self, at: usize, id: &str, actual: u64) {
        let check = self.check(at, 0, Act::Take);
        let got = self.backend.end(&check, id.as_bytes(), actual).await;
        let want = self.slots[at].end(id.as_bytes(), actual, NOW).expect("own");
        assert_eq!(got.expect("ended"), want, "{id}");
    }

    async fn release(&mut self, at: usize, id: &str) {
        let check = self.check(at, 0, Act::Take);
        let got = self.backend.release(&check, id.as_bytes()).await;
        let want = self.slots[at].release(id.as_bytes(), NOW).expect("own");
        assert_eq!(got.expect("released"), want, "{id}");
    }
}

async fn hold_to_the_model<B: Decide>(backend: &B) {
    let limits = limits();
    let keys = limits
        .iter()
        .map(|(method, _)| format!("differential:{}", method.name()).into_bytes())
        .collect();
    let slots = vec![Slot::Small(None); limits.len()];
    let count = limits.len();
    let methods: Vec<Method> = limits.iter().map(|(method, _)| *method).collect();
    let places = count - 1;
    let mut pair = Pair {
        backend,
        keys,
        limits,
        slots,
    };
    for (at, &method) in methods.iter().enumerate() {
        let take = |id| taking(method, id);
        for (cost, act) in [
            (0, Act::Peek),
            (3, take("a")),
            (4, Act::Peek),
            (11, take("b")),
            (4, take("b")),
            (4, take("c")),
            (3, take("c")),
            (1, take("d")),
        ] {
            pair.decide(&[(at, cost, act)]).await;
        }
        pair.refund(at, 5).await;
        pair.refund(at, 0).await;
        if matches!(method, Method::Small(_)) {
            pair.decide(&[(at, 6, hold("r"))]).await;
            pair.decide(&[(at, 5, hold("r"))]).await;
            pair.decide(&[(at, 1, hold("s"))]).await;
            pair.decide(&[(at, 1, Act::Take)]).await;
            pair.end(at, "r", 2).await;
            pair.end(at, "r", 4).await;
            pair.end(at, "nobody", 4).await;
            pair.refund(at, 1).await;
            pair.end(at, "s", 3).await;
            pair.decide(&[(at, 1, Act::Take)]).await;
        }
    }
    pair.release(places, "c").await;
    pair.release(places, "c").await;
    pair.release(places, "nobody").await;
    // All at once: a denial of one takes nothing of the others.
    for round in ["x", "y", "z"] {
        let all: Vec<_> = (0..count)
            .map(|at| (at, 1, taking(methods[at], round)))
            .collect();
        pair.decide(&all).await;
        let mut one_denies = all.clone();
        one_denies[count / 2].1 = 11;
        pair.decide(&one_denies).await;
        let twice = [all[0], all[0], (1, 2, Act::Peek), all[places]];
        pair.decide(&twice).await;
    }
    pair.release(places, "y").await;
    let log = pair.check(places - 1, 1, hold("r"));
    let refused = backend
        .decide(&[log])
        .await
        .expect_err("logs take no holds");
    assert!(!refused.to_string().is_empty());
}

async fn hold_remote(store: &Server, scripts_only: bool) {
    let url = format!("redis://{}", store.addr());
    let address = parse_url(&url, &StoreConfig::default()).expect("a URL");
    let clock = || NOW;
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
        clock,
    );
    let remote = if scripts_only {
        remote.by_scripts()
    } else {
        remote
    };
    LocalSet::new().run_until(hold_to_the_model(&remote)).await;
}

#[tokio::test]
async fn the_embedded_store() {
    let handle = Handle::new(Engine::new(EngineConfig::default()));
    hold_to_the_model(&Embedded::new(handle, || NOW)).await;
}

#[tokio::test]
async fn redis_by_scripts() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        peers::skip("redis_by_scripts", "redis-server");
        return;
    };
    hold_remote(&redis, false).await;
}

#[tokio::test]
async fn valkey_by_scripts() {
    if let Some(program) = peers::find_where_packaged("valkey-server") {
        let valkey = Server::like_redis(&program, &[]).expect("valkey-server starts");
        hold_remote(&valkey, false).await;
    }
}

#[tokio::test]
async fn tollgate_by_its_commands() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    hold_remote(&store, false).await;
}

#[tokio::test]
async fn tollgate_by_scripts() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    hold_remote(&store, true).await;
}

#[tokio::test]
async fn a_cluster_by_scripts() {
    let Some(cluster) = RedisCluster::start().expect("the nodes agree") else {
        peers::skip("a_cluster_by_scripts", "redis-server");
        return;
    };
    let store = StoreConfig {
        // A busy machine makes anything wait.
        timeout: Duration::from_secs(20),
        ..StoreConfig::default()
    };
    let address = parse_url(&cluster.url("redis+cluster"), &store).expect("a URL");
    let remote = Remote::new(Link::new(address, &store, Pool::new("redis_pool")), || NOW);
    LocalSet::new().run_until(hold_to_the_model(&remote)).await;
}
