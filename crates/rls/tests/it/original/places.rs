//! Both services on one Redis Cluster, and behind one Sentinel: where `REDIS_URL` names several places.

use std::collections::BTreeMap;

use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::{Server, peers};

use super::decisions::{Seeded, YEAR, ground, of_rules, random};
use super::pair::{Pair, dump, redis};
use super::program::is_there;
use crate::failover::Sentinel;

/// What each calls its counters.
const PREFIXES: [&str; 2] = ["original_", "ours_"];
const REQUESTS: usize = 200;

/// The same requests to both, which are told the same but for their counters' names.
async fn both_agree(kind: &str, url: &str, stores: &[&Server]) {
    let ground = ground();
    let told = |prefix| {
        vec![
            ("BACKEND_TYPE", "redis"),
            ("REDIS_SOCKET_TYPE", "tcp"),
            ("REDIS_TYPE", kind),
            ("REDIS_URL", url),
            ("EXPIRATION_JITTER_MAX_SECONDS", "0"),
            ("CACHE_KEY_PREFIX", prefix),
        ]
    };
    let [original, mut ours] = PREFIXES.map(told);
    ours.push(("TOLLGATE_COUNTER_KEYS", "envoy"));
    let mut pair = Pair::told(&ground, [&original, &ours]).await;
    let mut seeded = Seeded(11);
    for _ in 0..REQUESTS {
        pair.ask(&random(&mut seeded)).await;
    }
    pair.compare_counters(of_rules);
    let mut held: [BTreeMap<String, String>; 2] = Default::default();
    for (key, value) in stores.iter().flat_map(|store| dump(store, &(YEAR..=YEAR))) {
        for (prefix, held) in PREFIXES.iter().zip(&mut held) {
            if let Some(name) = key.strip_prefix(prefix) {
                held.insert(name.to_owned(), value.clone());
            }
        }
    }
    assert!(held[0].len() > 1, "{held:?}");
    assert_eq!(held[1], held[0], "ours, and the original's");
}

#[tokio::test]
async fn a_cluster_is_counted_on_as_by_the_original() {
    let test = "a_cluster_is_counted_on_as_by_the_original";
    if !is_there(test) {
        return;
    }
    let Some(cluster) = RedisCluster::start().expect("the nodes agree") else {
        return peers::skip(test, "redis-server");
    };
    let nodes = cluster.nodes();
    let places: Vec<String> = nodes.iter().map(|node| node.addr().to_string()).collect();
    both_agree("CLUSTER", &places.join(","), &nodes).await;
}

#[tokio::test]
async fn a_master_is_found_by_its_sentinels_as_by_the_original() {
    let test = "a_master_is_found_by_its_sentinels_as_by_the_original";
    let Some(program) = peers::find("redis-server").filter(|_| is_there(test)) else {
        return;
    };
    let Some(master) = redis(test) else { return };
    let sentinel = Sentinel::start(program, master.addr().port(), None);
    let url = format!("main,127.0.0.1:{}", sentinel.port);
    both_agree("SENTINEL", &url, &[&master]).await;
}
