//! Never over-admit: every algorithm on every backend over both protocols, with a hundred clients at once, and through
//! what may happen to a service meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_limiter::{ALGORITHMS, Timestamp};
use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::process::{free_port, temp_dir};
use tollgate_testkit::{Client as Store, PATIENCE, Server, peers};

use crate::replica::{Replica, asked_on};
use crate::storm::{
    ALL, BEFORE, BOTH, CLIENTS, KEYS, LIMIT, Passed, Place, Protocol, Seen, Until, passed, rules,
    storm, take_some, take_the_rest,
};
use crate::support::{Service, redis, system_clock};

#[test]
fn no_algorithm_is_forgotten() {
    for row in ALGORITHMS {
        assert!(KEYS.contains(&row.name), "{} is not tested here", row.name);
    }
}

async fn exactly_the_limit(place: Place) {
    let mut tried: Vec<&[Protocol]> = vec![&[Protocol::Grpc], &[Protocol::Http], BOTH];
    if place.resp.is_some() {
        tried.extend([&[Protocol::Resp] as &[_], ALL]);
    }
    for protocols in tried {
        let value = format!("{protocols:?}").replace(['"', ' ', '[', ']'], "");
        let until = Until::Rounds(1);
        let seen = storm(place, protocols, CLIENTS, &value, until).await;
        assert_eq!(seen.lost, [0; KEYS.len()], "{protocols:?}");
        assert_eq!(seen.passed, [LIMIT; KEYS.len()], "{protocols:?}");
    }
}

fn embedded() -> Service {
    Service::with_config(|config| {
        std::fs::write(config.rules_dir.join("rules.yaml"), rules()).expect("the folder is ours");
    })
}

/// What passed before, during and after an outage is the limit, but for requests without an answer.
fn exactly_the_limit_in_all(seen: &Seen, after: &Passed) {
    for (key, name) in KEYS.iter().enumerate() {
        let passed = BEFORE + seen.passed[key] + after[key];
        assert!(
            passed <= LIMIT && passed + seen.lost[key] >= LIMIT,
            "{name}: {passed} passed, {} without an answer",
            seen.lost[key]
        );
    }
}

fn on(store: &Server) -> Service {
    Service::remote_with(&format!("redis://{}", store.addr()), &rules())
}

#[tokio::test]
async fn every_algorithm_admits_exactly_its_limit_on_the_embedded_store() {
    let service = embedded();
    exactly_the_limit(Place::of(&service)).await;
}

#[tokio::test]
async fn every_algorithm_admits_exactly_its_limit_on_tollgate() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    let service = on(&store);
    exactly_the_limit(Place::of(&service).with_store(store.addr())).await;
}

#[tokio::test]
async fn every_algorithm_admits_exactly_its_limit_on_redis() {
    let test = "every_algorithm_admits_exactly_its_limit_on_redis";
    if let Some(store) = redis(test, &[]) {
        let service = on(&store);
        exactly_the_limit(Place::of(&service)).await;
    }
}

#[tokio::test]
async fn every_algorithm_admits_exactly_its_limit_on_valkey() {
    let Some(program) = peers::find_where_packaged("valkey-server") else {
        return;
    };
    let store = Server::like_redis(&program, &[]).expect("valkey-server starts");
    exactly_the_limit(Place::of(&on(&store))).await;
}

#[tokio::test]
async fn every_algorithm_admits_exactly_its_limit_on_a_cluster() {
    let test = "every_algorithm_admits_exactly_its_limit_on_a_cluster";
    let Some(cluster) = RedisCluster::start().expect("the nodes agree") else {
        return peers::skip(test, "redis-server");
    };
    let service = Service::remote_with(&cluster.url("redis+cluster"), &rules());
    exactly_the_limit(Place::of(&service)).await;
}

/// A process whose store is asked by its own protocol while the service in it decides.
#[tokio::test]
async fn every_algorithm_admits_exactly_its_limit_in_one_process() {
    let dir = temp_dir().expect("a temporary folder");
    std::fs::write(dir.join("rules.yaml"), rules()).expect("the folder is ours");
    let port = free_port().expect("a free port").to_string();
    let process = Replica::start(&dir, &["--port", &port]);
    exactly_the_limit(Place::of_process(&process).with_store(local(&port))).await;
    drop(process);
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
}

fn local(port: &str) -> SocketAddr {
    format!("127.0.0.1:{port}").parse().expect("an address")
}

/// Rules that are read again while everybody asks.
async fn reload_amid_requests(service: Service, store: Option<SocketAddr>) {
    let mut place = Place::of(&service);
    let mut protocols = BOTH;
    if let Some(store) = store {
        (place, protocols) = (place.with_store(store), ALL);
    }
    take_some(place).await;
    let reloaded = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn(storm(
        place,
        protocols,
        CLIENTS,
        "v",
        Until::Set(reloaded.clone()),
    ));
    for reloads in 2..=4 {
        let more = format!("domain: more{reloads}\n");
        service.write_rules("more.yaml", &more);
        service.write_rules("rules.yaml", &rules());
        wait_for_rules(place.http, "success", reloads).await;
        // A file that breaks disturbs nobody.
        service.write_rules("more.yaml", "domain: [");
        wait_for_rules(place.http, "error", reloads - 1).await;
    }
    reloaded.store(true, Ordering::SeqCst);
    let seen = asking.await.expect("no panic");
    assert_eq!(seen.lost, [0; KEYS.len()]);
    assert_eq!(seen.passed, [LIMIT - BEFORE; KEYS.len()]);
}

#[tokio::test]
async fn a_reload_gives_nothing_back() {
    reload_amid_requests(embedded(), None).await;
}

#[tokio::test]
async fn a_reload_gives_nothing_back_on_tollgate() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    reload_amid_requests(on(&store), Some(store.addr())).await;
}

#[tokio::test]
async fn a_reload_gives_nothing_back_on_redis() {
    if let Some(store) = redis("a_reload_gives_nothing_back_on_redis", &[]) {
        reload_amid_requests(on(&store), None).await;
    }
}

/// Waits until rules were taken up, or were not (`how`), so often.
async fn wait_for_rules(http: SocketAddr, how: &str, least: u64) {
    let deadline = Instant::now() + PATIENCE;
    let name = format!("ratelimit_service_config_load_{how} ");
    loop {
        let mut stream = TcpStream::connect(http).await.expect("it listens");
        let get = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(get).await.expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("text");
        let loads = text.lines().find_map(|line| line.strip_prefix(&*name));
        if loads.and_then(|loads| loads.parse().ok()) >= Some(least) {
            return;
        }
        assert!(Instant::now() < deadline, "no reload number {least}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// `kill -9` amid requests: who is not answered may have been counted, and nobody is counted twice or forgotten.
async fn a_killed_service_forgets_nothing(flags: &[&str]) {
    let dir = temp_dir().expect("a temporary folder");
    std::fs::write(dir.join("rules.yaml"), rules()).expect("the folder is ours");
    let first = Replica::start(&dir, flags);
    let place = Place::of_process(&first);
    take_some(place).await;
    let never = Until::Set(Arc::default());
    let asking = tokio::spawn(storm(place, BOTH, CLIENTS, "v", never));
    // It is in the middle of things: hundreds of requests beyond those that took some.
    let deadline = Instant::now() + PATIENCE;
    while first.asked() < (BEFORE * KEYS.len() + 3 * CLIENTS) as u64 {
        assert!(Instant::now() < deadline, "nobody asks");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(first);
    let seen = asking.await.expect("no panic");

    let second = Replica::start(&dir, flags);
    let after = passed(Place::of_process(&second), CLIENTS, 1).await;
    exactly_the_limit_in_all(&seen, &after);
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
}

#[tokio::test]
async fn a_killed_service_leaves_its_counters_on_redis() {
    let test = "a_killed_service_leaves_its_counters_on_redis";
    if let Some(store) = redis(test, &[]) {
        let url = format!("redis://{}", store.addr());
        a_killed_service_forgets_nothing(&["--backend", &url]).await;
    }
}

#[tokio::test]
async fn a_killed_service_leaves_its_counters_on_a_cluster() {
    let test = "a_killed_service_leaves_its_counters_on_a_cluster";
    let Some(cluster) = RedisCluster::start().expect("the nodes agree") else {
        return peers::skip(test, "redis-server");
    };
    a_killed_service_forgets_nothing(&["--backend", &cluster.url("redis+cluster")]).await;
}

#[tokio::test]
async fn a_killed_service_leaves_its_counters_on_tollgate() {
    let store = Server::tollgate(&[]).expect("tollgate starts");
    let url = format!("redis://{}", store.addr());
    a_killed_service_forgets_nothing(&["--backend", &url]).await;
}

/// With its own store, whose append-only file has every decision before it is told.
#[tokio::test]
async fn a_killed_service_leaves_its_counters_in_its_own_file() {
    let dir = temp_dir().expect("a temporary folder");
    let path = dir.display().to_string();
    let log = ["--appendonly", "yes", "--appendfsync", "always"];
    let flags = [&["--port", "0", "--dir", &path][..], &log].concat();
    a_killed_service_forgets_nothing(&flags).await;
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
}

fn save(addr: SocketAddr) {
    let mut client = Store::connect(addr).expect("the store listens");
    let reply = client.call(&["SAVE"]).expect("the store answers");
    assert_eq!(reply, tollgate_wire::resp::Value::Simple(b"OK".to_vec()));
}

/// A store that is killed after its snapshot, and one that reads the snapshot.
/// `native` ones have commands for limits, by which they are asked as well.
async fn a_snapshot_keeps_limits(native: bool, start: impl Fn(&[&str]) -> Server) {
    let dir = temp_dir().expect("a temporary folder");
    let path = dir.display().to_string();
    let flags = ["--dir", &path, "--dbfilename", "limits.rdb"];
    let first = start(&flags);
    take_some(Place::of(&on(&first))).await;
    save(first.addr());
    drop(first);
    let second = start(&flags);
    let service = on(&second);
    let place = Place::of(&service);
    let place = match native {
        true => place.with_store(second.addr()),
        false => place,
    };
    take_the_rest(place).await;
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
}

#[tokio::test]
async fn a_store_that_starts_from_its_snapshot_gives_nothing_back() {
    a_snapshot_keeps_limits(true, |flags| {
        Server::tollgate(flags).expect("tollgate starts")
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_starts_from_its_snapshot_gives_nothing_back() {
    let test = "a_redis_that_starts_from_its_snapshot_gives_nothing_back";
    if redis(test, &[]).is_some() {
        a_snapshot_keeps_limits(false, |flags| {
            redis(test, flags).expect("it was there before")
        })
        .await;
    }
}

/// `kill -9` of a store that logs each write before it answers: it knows all that it admitted, and may know more.
#[tokio::test]
async fn a_redis_that_logs_its_writes_is_killed_amid_requests() {
    let test = "a_redis_that_logs_its_writes_is_killed_amid_requests";
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
    let Some(first) = redis(test, &log) else {
        return;
    };
    let service = on(&first);
    let place = Place::of(&service);
    take_some(place).await;
    let never = Until::Set(Arc::default());
    let asking = tokio::spawn(storm(place, BOTH, CLIENTS, "v", never));
    let deadline = Instant::now() + PATIENCE;
    while asked_on(place.http) < (BEFORE * KEYS.len() + 2 * CLIENTS) as u64 {
        assert!(Instant::now() < deadline, "nobody asks");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(first);
    let seen = asking.await.expect("no panic");
    drop(service);

    let second = redis(test, &log).expect("it was there before");
    let service = on(&second);
    let after = passed(Place::of(&service), CLIENTS, 1).await;
    exactly_the_limit_in_all(&seen, &after);
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
}

/// The service with its own store, killed after a snapshot.
#[tokio::test]
async fn a_service_that_starts_from_its_snapshot_gives_nothing_back() {
    let dir = temp_dir().expect("a temporary folder");
    std::fs::write(dir.join("rules.yaml"), rules()).expect("the folder is ours");
    let (path, port) = (
        dir.display().to_string(),
        free_port().expect("a free port").to_string(),
    );
    let flags = [
        "--port",
        &port,
        "--dir",
        &path,
        "--dbfilename",
        "limits.rdb",
    ];
    let first = Replica::start(&dir, &flags);
    let place = |process: &Replica| Place::of_process(process).with_store(local(&port));
    take_some(place(&first)).await;
    save(local(&port));
    drop(first);
    let second = Replica::start(&dir, &flags);
    take_the_rest(place(&second)).await;
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
}

/// Milliseconds by which the clocks of these tests' services are late.
static LATE_MS: AtomicI64 = AtomicI64::new(0);

fn late_clock() -> Timestamp {
    Timestamp::from_millis(system_clock().millis() - LATE_MS.load(Ordering::SeqCst))
}

/// A clock that is set back by an hour, a day and two years, and right again: old windows do not open again.
#[tokio::test]
async fn a_clock_that_steps_back_gives_nothing_back() {
    const HOUR_MS: i64 = 3_600_000;
    let mut services = vec![Service::with_clock_and_rules(late_clock, None, &rules())];
    let own = Server::tollgate(&[]).expect("tollgate starts");
    let store = redis("a_clock_that_steps_back_gives_nothing_back", &[]);
    for store in [Some(&own), store.as_ref()].into_iter().flatten() {
        let url = format!("redis://{}", store.addr());
        services.push(Service::with_clock_and_rules(
            late_clock,
            Some(&url),
            &rules(),
        ));
    }
    for service in &services {
        let place = Place::of(service);
        take_some(place).await;
        let mut all = [BEFORE; KEYS.len()];
        for late in [HOUR_MS, 24 * HOUR_MS, 2 * 365 * 24 * HOUR_MS] {
            LATE_MS.store(late, Ordering::SeqCst);
            let more = passed(place, CLIENTS, 1).await;
            for (key, name) in KEYS.iter().enumerate() {
                all[key] += more[key];
                // Of what flows evenly the last unit may have to wait until the clock is where it was.
                let got = LIMIT - 1..=LIMIT;
                assert!(got.contains(&all[key]), "{name}, {late} ms: {}", all[key]);
            }
        }
        LATE_MS.store(0, Ordering::SeqCst);
        let more = passed(place, CLIENTS, 1).await;
        let all: Vec<usize> = all.iter().zip(more).map(|(all, more)| all + more).collect();
        assert_eq!(all, [LIMIT; KEYS.len()]);
    }
}
