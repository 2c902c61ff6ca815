//! All at once: slots of a cluster move, a master and its replica change places, one of two services is killed over and over, and a
//! hundred clients go on asking. Nothing passes beyond a limit, and what is missing are requests that had no answer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client as Control, peers};
use tollgate_wire::resp::Value;

use crate::replica::Replica;
use crate::storm::{BOTH, CLIENTS, KEYS, LIMIT, Link, Passed, Place, rules};
use crate::support::{text, told};

/// How often each thing happens, at least.
const FAILOVERS: usize = 2;
const MOVES: usize = 20;
const KILLS: usize = 3;
/// Least rounds of each client, however slow it is beside what happens.
const LEAST: usize = 4;
/// Most rounds of the clients; each asks once for each key with a value of the round's own.
const ROUNDS: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(240);
/// How long a replica tries to take its master's place.
const FAILOVER_TIME: Duration = Duration::from_secs(6);

/// What clients of one round have seen.
#[derive(Clone, Copy, Default)]
struct Round {
    passed: Passed,
    /// Requests without an answer.
    lost: Passed,
}

/// What all see.
struct Stage {
    /// Where the two services are; a killed one comes back elsewhere.
    places: Mutex<[Place; 2]>,
    /// The round that the first client is in.
    round: AtomicUsize,
    /// All that is to happen has happened.
    over: AtomicBool,
}

impl Stage {
    fn place(&self, service: usize) -> Place {
        self.places.lock().expect("nobody panics")[service]
    }
}

fn value_of(round: usize) -> String {
    format!("v{round:04}")
}

/// Asks in turn for all keys, round after round, through errors; what it saw of each round.
async fn client(stage: Arc<Stage>, number: usize, rounds: usize) -> Vec<Round> {
    let (service, protocol) = (number % 2, BOTH[number / 2 % BOTH.len()]);
    let mut link = None;
    let mut seen = Vec::new();
    for round in 0..rounds {
        if round >= LEAST && stage.over.load(Ordering::SeqCst) {
            break;
        }
        stage.round.fetch_max(round, Ordering::SeqCst);
        let mut of_round = Round::default();
        for turn in 0..KEYS.len() {
            let key = (number + turn) % KEYS.len();
            let connected = match link.take() {
                Some(link) => Some(link),
                None => Link::try_connect(stage.place(service), protocol).await,
            };
            let asked = match connected {
                Some(mut connected) => {
                    let asked = connected.ask(KEYS[key], &value_of(round)).await;
                    link = Some(connected).filter(|_| asked.is_ok());
                    asked
                }
                None => Err("not connected".to_owned()),
            };
            match asked {
                Ok(passed) => of_round.passed[key] += usize::from(passed),
                Err(_) => {
                    of_round.lost[key] += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        seen.push(of_round);
    }
    seen
}

/// What was asked of a node, in words.
fn call(addr: SocketAddr, words: &[&str]) -> Value {
    let mut node = Control::connect(addr).expect("the node answers");
    told(&mut node, words)
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Master and replica change places, each time handing over exactly.
fn fail_over(mut pair: [SocketAddr; 2]) {
    for _ in 0..FAILOVERS {
        pair.reverse();
        let says = |addr, what: &str| text(&call(addr, &["INFO", "replication"])).contains(what);
        let mut asked: Option<Instant> = None;
        wait_for("the replica is promoted", || {
            // It gives up where it does not catch up, or has no votes, in time.
            if asked.is_none_or(|asked| asked.elapsed() > FAILOVER_TIME) {
                let mut node = Control::connect(pair[0]).expect("the node answers");
                let asking = node.call(&["CLUSTER", "FAILOVER"]);
                // An error says that it is the master already.
                asking.expect("the node answers");
                asked = Some(Instant::now());
            }
            says(pair[0], "role:master")
        });
        wait_for("the old master follows", || {
            says(pair[1], "master_link_status:up")
        });
    }
}

/// Counters of the present round go from one of two masters to the other, while they are asked for.
fn move_slots(stage: &Stage, masters: [SocketAddr; 2]) {
    let ids = masters.map(|addr| text(&call(addr, &["CLUSTER", "MYID"])));
    let mut moved = 0;
    let mut turn = 0;
    wait_for("slots move", || {
        let (key, value) = (
            KEYS[turn % KEYS.len()],
            value_of(stage.round.load(Ordering::SeqCst)),
        );
        turn += 1;
        let tag = format!("{{:4:test:{}:{key}:{}:{value}}}", key.len(), value.len());
        let slot = call(masters[0], &["CLUSTER", "KEYSLOT", &tag]);
        let slot = slot.as_int().expect("a number").to_string();
        let keys = |at: usize| -> Vec<String> {
            match call(masters[at], &["CLUSTER", "GETKEYSINSLOT", &slot, "100"]) {
                Value::Array(keys) => keys.iter().map(text).collect(),
                other => panic!("{other:?}"),
            }
        };
        let Some(from) = (0..2).find(|&at| !keys(at).is_empty()) else {
            return false;
        };
        let to = 1 - from;
        let set = |at: usize, state: &str, id: &str| {
            call(masters[at], &["CLUSTER", "SETSLOT", &slot, state, id]);
        };
        set(to, "IMPORTING", &ids[from]);
        set(from, "MIGRATING", &ids[to]);
        let port = masters[to].port().to_string();
        loop {
            let left = keys(from);
            if left.is_empty() {
                break;
            }
            for key in left {
                call(
                    masters[from],
                    &["MIGRATE", "127.0.0.1", &port, &key, "0", "60000"],
                );
            }
        }
        set(to, "NODE", &ids[to]);
        set(from, "NODE", &ids[to]);
        moved += 1;
        moved >= MOVES
    });
}

/// `kill -9` of the second service, and another in its place.
fn kill_services(stage: &Stage, mut service: Replica, start: impl Fn() -> Replica) -> Replica {
    for _ in 0..KILLS {
        wait_for("it is asked", || service.asked() > 0);
        let next = start();
        stage.places.lock().expect("nobody panics")[1] = Place::of_process(&next);
        service = next;
    }
    wait_for("it is asked", || service.asked() > 0);
    service
}

#[tokio::test]
async fn nothing_is_admitted_twice_while_everything_moves() {
    let test = "nothing_is_admitted_twice_while_everything_moves";
    let Some(mut cluster) = RedisCluster::start().expect("the nodes agree") else {
        return peers::skip(test, "redis-server");
    };
    let replica = cluster.add_replica(0).expect("a replica");
    let addr = |at: usize| cluster.node(at).addr();
    let (pair, others) = ([addr(0), addr(replica)], [addr(1), addr(2)]);
    let folder = temp_dir().expect("a temporary folder");
    std::fs::write(folder.join("rules.yaml"), rules()).expect("the folder is ours");
    let url = cluster.url("redis+cluster");
    let rules_folder = folder.clone();
    let start = move || Replica::start(&rules_folder, &["--backend", &url]);
    let (first, second) = (start(), start());
    let places = [&first, &second].map(Place::of_process);
    let stage = Arc::new(Stage {
        places: Mutex::new(places),
        round: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let asking: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(stage.clone(), number, ROUNDS)))
        .collect();
    let (moving, killing) = (stage.clone(), stage.clone());
    let all = tokio::join!(
        tokio::task::spawn_blocking(move || fail_over(pair)),
        tokio::task::spawn_blocking(move || move_slots(&moving, others)),
        tokio::task::spawn_blocking(move || kill_services(&killing, second, start)),
    );
    all.0.expect("they change places");
    all.1.expect("slots move");
    let second = all.2.expect("services come back");
    stage.over.store(true, Ordering::SeqCst);
    let mut rounds: Vec<(Round, usize)> = Vec::new();
    for client in asking {
        for (at, seen) in client.await.expect("no panic").into_iter().enumerate() {
            if rounds.len() <= at {
                rounds.push(Default::default());
            }
            let (sum, clients) = &mut rounds[at];
            *clients += 1;
            for key in 0..KEYS.len() {
                sum.passed[key] += seen.passed[key];
                sum.lost[key] += seen.lost[key];
            }
        }
    }
    drop((first, second));
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    let mut answered = 0;
    for (round, (seen, clients)) in rounds.into_iter().enumerate() {
        for (key, name) in KEYS.iter().enumerate() {
            let (passed, lost) = (seen.passed[key], seen.lost[key]);
            assert!(passed <= LIMIT, "round {round}, {name}: {passed} passed");
            let is_whole = clients == CLIENTS;
            assert!(
                !is_whole || passed + lost >= LIMIT,
                "round {round}, {name}: {passed} passed, {lost} without an answer"
            );
            answered += usize::from(is_whole && lost < CLIENTS);
        }
    }
    assert!(answered > KEYS.len(), "the service decides: {answered}");
}
