//! Both services on one Redis, as while a fleet of the original is replaced one by one.

use tollgate_wire::rls::rate_limit_response::Code;

use super::decisions::Seeded;
use super::decisions::{YEAR, ground, random};
use super::pair::{dump, redis};
use super::program::{Kind, Program, is_there};
use crate::support::{Client, descriptor, request};

/// Clients of each service, and what each asks: together three times the limit.
const CLIENTS: usize = 6;
const EACH: usize = 50;

/// Jitter of the keys' lives, in seconds.
const JITTER: u64 = 100;

/// What the original is told, and what ours.
fn on_one_store(addr: &str) -> [Vec<(&str, &str)>; 2] {
    let original = vec![
        ("BACKEND_TYPE", "redis"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", addr),
        ("EXPIRATION_JITTER_MAX_SECONDS", "100"),
        ("CACHE_KEY_PREFIX", "fleet_"),
    ];
    let mut ours = original.clone();
    ours.push(("TOLLGATE_COUNTER_KEYS", "envoy"));
    [original, ours]
}

#[tokio::test]
async fn a_limit_is_that_of_both_together() {
    let test = "a_limit_is_that_of_both_together";
    let Some(store) = redis(test).filter(|_| is_there(test)) else {
        return;
    };
    let addr = store.addr().to_string();
    let [original, ours] = on_one_store(&addr);
    let rules = "domain: test\ndescriptors: [{key: hundred, rate_limit: {unit: year, requests_per_unit: 100}}]\n";
    let ground = super::program::Ground::new(&[("rules.yaml", rules)]);
    let programs = [
        Program::start(Kind::Original, &ground, &original),
        Program::start(Kind::Ours, &ground, &ours),
    ];
    let mut asking = Vec::new();
    for program in &programs {
        for _ in 0..CLIENTS {
            let grpc = program.grpc;
            asking.push(tokio::spawn(async move {
                let mut client = Client::connect(grpc).await;
                let mut passed = 0;
                for _ in 0..EACH {
                    let asked = request(vec![descriptor(&["hundred=all"])]);
                    let response = client.ask(asked).await.expect("an answer");
                    passed += usize::from(response.overall_code() == Code::Ok);
                }
                passed
            }));
        }
    }
    let mut passed = 0;
    for client in asking {
        passed += client.await.expect("no panic");
    }
    assert_eq!(passed, 100);
    // One counter, in which every request counts.
    let held = dump(&store, &(YEAR..=YEAR + JITTER));
    let counts: Vec<&str> = held.values().map(|count| &**count).collect();
    assert_eq!(counts, [(2 * CLIENTS * EACH).to_string()]);
}

/// Whoever is asked, in whatever order: what one has counted the other knows.
#[tokio::test]
async fn requests_may_go_to_either() {
    let test = "requests_may_go_to_either";
    let (Some(shared), Some(alone)) = (redis(test), redis(test)) else {
        return;
    };
    if !is_there(test) {
        return;
    }
    let ground = ground();
    let (shared_addr, alone_addr) = (shared.addr().to_string(), alone.addr().to_string());
    let [original, ours] = on_one_store(&shared_addr);
    let programs = [
        Program::start(Kind::Original, &ground, &original),
        Program::start(Kind::Ours, &ground, &ours),
        // What either must say is what the original says that is asked everything.
        Program::start(Kind::Original, &ground, &on_one_store(&alone_addr)[0]),
    ];
    let mut clients = Vec::new();
    for program in &programs {
        clients.push(Client::connect(program.grpc).await);
    }
    let (mut seeded, mut turn) = (Seeded(9), Seeded(10));
    for _ in 0..300 {
        let asked = random(&mut seeded);
        let mut said = Vec::new();
        for index in [turn.below(2), 2] {
            let response = clients[index].ask(asked.clone()).await.expect("an answer");
            let statuses = response.statuses.iter();
            let left = statuses.map(|status| (status.code(), status.limit_remaining));
            said.push((response.overall_code(), left.collect::<Vec<_>>()));
        }
        assert_eq!(said[0], said[1], "{asked:?}");
    }
    let kept = YEAR..=YEAR + JITTER;
    assert_eq!(dump(&shared, &kept), dump(&alone, &kept));
}
